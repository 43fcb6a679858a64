"""Other projects, released and unchanged, by the commands of ``docs/consumers.md``."""

from __future__ import annotations

import os
import platform
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.consumers.building import (
    binaries,
    build,
    built_before,
    dynamic,
    imports,
    install,
    needed,
)
from tests.consumers.matrix import CELLS
from tests.providers import debian
from tests.readme import Newcomer, blocks
from tests.support import Wheels

PAGE = "docs/consumers.md"
PROVIDER, LIBRARY = "scipy_openblas32", "libscipy_openblas.so"
STATSMODELS, MODULE = "0.15.0", "statsmodels.tsa.statespace"
#: Prints the libraries that are in the process once statsmodels' Kalman filter is.
WHICH = """
import statsmodels.tsa.statespace.api
print(open("/proc/self/maps").read())
"""
SUITESPARSE = (
    *("libsuitesparse-dev", "libsuitesparseconfig5", "libumfpack5", "libcholmod3", "libamd2"),
    *("libcolamd2", "libcamd2", "libccolamd2", "libmetis5", "libblas3", "liblapack3"),
)


@dataclass(frozen=True)
class Project:
    """A consumer whose wheel is built, and tested where nothing of the build is left.

    Attributes
    ----------
    name, version, built_by : str
    modules : set of str
        Those that call the BLAS.
    at_least : int
        How many of its tests pass, with few left out.
    """

    name: str
    version: str
    built_by: str
    modules: frozenset[str]
    at_least: int


PROJECTS = {
    one.name: one
    for one in (
        Project(
            "scs", "3.3.1", "Meson", frozenset({"_scs_dense", "_scs_direct", "_scs_indirect"}), 350
        ),
        Project("slycot", "0.7.1", "CMake, scikit-build-core", frozenset({"_wrapper"}), 120),
        Project(
            *("cvxopt", "1.3.3", "setuptools"),
            frozenset({"base", "blas", "lapack", "misc_solvers"}),
            25,
        ),
    )
}


def test_each_block_of_the_page_is_run_by_a_test() -> None:
    tests = {f"{name}{end}" for name in PROJECTS for end in ("", "-tests")}
    assert set(blocks(PAGE)) == tests | {"start", "scs-cmake"}


@pytest.fixture
def reader(tmp_path: Path, blaswheel_wheel: Path, wheels: Wheels) -> Newcomer:
    """Return someone with an empty folder and the sources that the page unpacks."""
    made = Newcomer(tmp_path / "work", page=PAGE, blaswheel=blaswheel_wheel)
    for each in PROJECTS.values():
        shutil.copy(wheels.sdist(f"{each.name}=={each.version}"), made.folder)
    return made


def with_suitesparse(reader: Newcomer) -> None:
    """Let the reader have SuiteSparse as if Debian's packages were installed."""
    usr = debian.unpacked(*SUITESPARSE) / "usr"
    (lib,) = (usr / "lib").glob("*-linux-gnu")
    reader.environ |= {
        "CVXOPT_SUITESPARSE_LIB_DIR": str(lib),
        "CVXOPT_SUITESPARSE_INC_DIR": str(usr / "include" / "suitesparse"),
        "LD_LIBRARY_PATH": os.pathsep.join(map(str, (lib, lib / "blas", lib / "lapack"))),
    }


@pytest.mark.timeout(1800)
@pytest.mark.tool("bash", "cc", "pkg-config", "readelf", "nm", "tar")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("scs"),
        # It compiles 600 files of Fortran.
        pytest.param("slycot", marks=[pytest.mark.full, pytest.mark.tool("gfortran", "cmake")]),
        pytest.param("cvxopt", marks=pytest.mark.tool("apt-get", "dpkg")),
    ],
)
def test_project(name: str, reader: Newcomer, record_property: pytest.RecordProperty) -> None:
    project = PROJECTS[name]
    row = {
        "Project": f"{name} {project.version}",
        "Python": platform.python_version().rpartition(".")[0],
        "Integers": "lp64",
        "Library": PROVIDER.replace("_", "-"),
        "Front end": f"`pip wheel` ({project.built_by})",
    }
    record_property("row", row)
    if name == "cvxopt":
        with_suitesparse(reader)
    reader.run("start", name, timeout=1700)
    shutil.rmtree(reader.folder / "venv")
    shutil.rmtree(reader.folder / ".newcomer" / "cache")
    printed = reader.run(f"{name}-tests", timeout=1700)
    passed = re.search(r"(\d+) passed", printed)
    assert passed and int(passed[1]) >= project.at_least, printed[-2000:]
    record_property("row", {"Its own tests": f"{passed[1]} passed"})

    (site,) = (reader.folder / "fresh" / "lib").glob("python3*/site-packages")
    calling = {}
    for path in binaries(site / name):
        entries = [each for value in dynamic(path, "RUNPATH") for each in value.split(":")]
        assert not [each for each in entries if each.startswith(str(reader.folder))]
        # With setuptools Python's own flags ask for debugging information, which names sources.
        if project.built_by != "setuptools":
            assert str(reader.folder).encode() not in path.read_bytes()
        if LIBRARY in needed(path):
            calling[path.name.partition(".")[0]] = path
    assert calling.keys() == project.modules
    for path in calling.values():
        entries = [each for value in dynamic(path, "RUNPATH") for each in value.split(":")]
        assert f"$ORIGIN/../{PROVIDER}/lib" in entries
        assert [each for each in imports(path) if each.startswith("scipy_d")]


@pytest.mark.full
@pytest.mark.timeout(5 * 3600)
@pytest.mark.tool("cc", "c++", "gfortran", "pkg-config")
def test_statsmodels(
    blaswheel_wheel: Path, wheels: Wheels, tmp_path: Path, record_property: pytest.RecordProperty
) -> None:
    """It calls the BLAS that SciPy offers to Cython."""
    cell = next(each for each in CELLS if each.project == "scipy")
    row = {"Project": f"statsmodels {STATSMODELS}, on this SciPy {cell.version}"}
    record_property("row", cell.row | row | {"Front end": "", "Options": "", "Found as": ""})
    built = built_before(cell) or build(cell, blaswheel_wheel, wheels, tmp_path / "build")
    installed = install(cell, built, blaswheel_wheel, wheels, tmp_path / "venv")
    installed.venv.pip_install(f"statsmodels=={STATSMODELS}")
    assert "scipy_openblas32" in installed.venv.run("python", "-c", WHICH).stdout
    summary = installed.own_tests(tmp_path, MODULE)
    passed = re.search(r"(\d+) passed", summary)
    assert passed and int(passed[1]) > 1000, summary
    record_property("row", {"Its own tests": f"`{MODULE}`: {passed[1]} passed"})


@pytest.mark.timeout(900)
@pytest.mark.tool("bash", "cc", "cmake", "make", "tar")
def test_plain_cmake(reader: Newcomer, record_property: pytest.RecordProperty) -> None:
    row = {"Project": "SCS's C library 3.3.1", "Integers": "lp64", "Front end": "`cmake`"}
    record_property("row", row | {"Library": PROVIDER.replace("_", "-")})
    printed = reader.run("start", "scs-cmake", timeout=850)
    assert "100% tests passed" in printed
    record_property("row", {"Its own tests": "`ctest`: all passed"})
    library = reader.folder / "build" / "lib" / "libscsdir.so"
    assert LIBRARY in needed(library)
    assert [each for each in imports(library) if each.startswith("scipy_d")]
