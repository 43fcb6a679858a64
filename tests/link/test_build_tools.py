"""GNU make, CMake and Meson build the programs with what ``blaswheel pc`` prints."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.link.compiling import CASES, LANGUAGES, PROGRAMS, Blaswheel, Case, Workshop, marked, run
from tests.support import Wheels

pytestmark = pytest.mark.tool("gcc", "g++", "gfortran", "pkg-config")
PKGCONF = "pkgconf==3.0.7.post0"


def cases(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", [CASES[name] for name in names], ids=names)


@pytest.fixture
def blaswheel(workshop: Workshop, case: Case) -> Blaswheel:
    return workshop.blaswheel(case.spec())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A copy: build tools may write into it."""
    return Path(shutil.copytree(PROGRAMS, tmp_path / "source"))


def environment(blaswheel: Blaswheel, case: Case) -> dict[str, str]:
    """Return what a user sets for make, CMake and Meson alike."""
    flags = " ".join(["-O1", *case.macros])
    pc = blaswheel.pc(*case.options)
    return {
        "PKG_CONFIG_PATH": str(pc),
        "CFLAGS": f"{flags} -Werror",
        "CXXFLAGS": f"{flags} -Werror",
        "FFLAGS": flags,
    }


def check(blaswheel: Blaswheel, folder: Path) -> None:
    """Run the programs, of which none knows by itself where the library is unless its tool did."""
    for name in LANGUAGES:
        assert blaswheel.run("exec", "--", str(folder / name)).stdout == "right\n"


@cases("lp64", "ilp64", "ilp64-plain")
@pytest.mark.tool("make")
def test_make(blaswheel: Blaswheel, source: Path, case: Case) -> None:
    run(["make", "-C", source], **environment(blaswheel, case))
    check(blaswheel, source)


@cases("lp64", "ilp64")
@pytest.mark.tool("cmake")
@pytest.mark.parametrize(
    "generator", marked({"Unix Makefiles": "make", "Ninja": "ninja"}), ids=["make", "ninja"]
)
def test_cmake(
    blaswheel: Blaswheel, source: Path, tmp_path: Path, case: Case, generator: str
) -> None:
    environ = environment(blaswheel, case)
    build = tmp_path / "build"
    run(["cmake", "-S", source, "-B", build, "-G", generator], **environ)
    run(["cmake", "--build", build], **environ)
    check(blaswheel, build)


@cases("lp64", "ilp64")
@pytest.mark.tool("meson", "ninja")
@pytest.mark.parametrize("pkg_config", ["system", "pypi"])
def test_meson(
    blaswheel: Blaswheel,
    wheels: Wheels,
    source: Path,
    tmp_path: Path,
    case: Case,
    pkg_config: str,
) -> None:
    environ = environment(blaswheel, case)
    program = shutil.which("pkg-config")
    if pkg_config == "pypi":
        (program,) = map(str, wheels.unpacked(PKGCONF).glob("pkgconf/.bin/pkgconf"))
    assert program
    build = tmp_path / "build"
    done = run(["meson", "setup", build, source], **environ, PKG_CONFIG=program)
    assert f"Found pkg-config: YES ({program})" in done.stdout
    assert "Run-time dependency openblas found: YES 0.3." in done.stdout
    run(["meson", "compile", "-C", build], **environ)
    check(blaswheel, build)
