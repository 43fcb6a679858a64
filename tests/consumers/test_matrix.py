"""Each cell of the matrix, built as a user would, works where only its provider is installed."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.consumers.building import binaries, build, dynamic, imports, install, needed
from tests.consumers.matrix import CELLS, QUICK, Cell
from tests.readme import blocks
from tests.support import Wheels

MODULES = {"numpy": ("numpy.linalg",), "scipy": ("scipy.linalg",)}
#: Passed by the own tests of a release with few left out.
AT_LEAST = {"numpy": 400, "scipy": 2000}
ROUTINE = re.compile(r"(scipy_)?(cblas_)?[sdcz](gemm|gesv|gesdd|getrf|potrf)(_?(64_?)?)")


def test_each_cell_has_a_name_of_its_own() -> None:
    assert len({cell.name for cell in CELLS}) == len(CELLS)


def paths_in(path: Path, folder: str) -> list[bytes]:
    """Return what a file names in a folder, but for the sources that Cython 3.0 names."""
    found = re.findall(re.escape(folder.encode()) + rb"[^\0\n]*", path.read_bytes())
    return [each for each in found if not each.endswith(b".pyx")]


def expected(cell: Cell, finding: dict[str, str]) -> bool:
    """Tell whether a finding is true of any such build.

    SciPy's modules lie two to five folders deep, all linked by one file, and each has the run
    paths of all; those in Fortran need the compiler's library, until the wheel is repaired.
    """
    if cell.project != "scipy":
        return False
    fortran = finding["code"] == "library-missing" and "needs libgfortran" in finding["message"]
    return fortran or finding["code"] == "outside-site-packages"


@pytest.mark.parametrize("page", ["docs/numpy.md", "docs/scipy.md"])
def test_the_commands_of_the_pages_are_those_of_cells(page: str) -> None:
    known = [[word for word in cell.command if QUICK not in word] for cell in CELLS]
    for block in blocks(page).values():
        lines = block.replace("\\\n", " ").splitlines()
        (command,) = [shlex.split(line) for line in lines if line.startswith("blaswheel exec")]
        assert command in known


@pytest.mark.full
@pytest.mark.timeout(4 * 3600)
@pytest.mark.tool("cc", "c++", "gfortran", "pkg-config", "readelf", "nm")
@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_cell(
    cell: Cell,
    blaswheel_wheel: Path,
    wheels: Wheels,
    tmp_path: Path,
    record_property: pytest.RecordProperty,
) -> None:
    record_property("row", cell.row)
    built = build(cell, blaswheel_wheel, wheels, tmp_path / "build")
    by = ", by an earlier blaswheel" if built.earlier else ""
    record_property("row", {"Built in": f"{built.seconds / 60:.0f} min{by}"})
    assert not Path(built.folder).exists()
    installed = install(cell, built, blaswheel_wheel, wheels, tmp_path / "venv")

    # No path of the build, and of run paths only what leads to the provider.
    files = list(binaries(installed.package))
    assert len(files) > 10
    assert [path for path in files if paths_in(path, built.folder)] == []
    calling = {}
    for path in files:
        run_paths = [each for value in dynamic(path, "RUNPATH") for each in value.split(":")]
        assert dynamic(path, "RPATH") == []
        assert all(each.startswith("$ORIGIN/..") for each in run_paths), (path, run_paths)
        libraries = [name for name in needed(path) if re.match(r"lib(scipy_openblas|mkl_)", name)]
        if libraries:
            calling[path] = libraries
    assert calling

    # Integers of the width that was asked for, and the names that the library exports.
    names = {name for path in calling for name in imports(path) if ROUTINE.fullmatch(name)}
    wide = {name for name in names if "64" in name}
    assert names
    assert bool(wide) == (cell.interface != "lp64"), names
    assert bool(names - wide) == (cell.interface != "ilp64"), names

    # It says so itself; NumPy 1 calls its LAPACK by a number that Meson made up.
    told = installed.show_config()
    for each in ("blas",) if cell.version.startswith("1.26") else ("blas", "lapack"):
        assert told[each]["name"] == cell.files
        version = cell.providers[0].partition("==")[2]
        assert f"{version}.".startswith(f"{told[each]['version']}.")

    # blaswheel finds nothing wrong with it, and says who provides what it calls.
    command = ("blaswheel", "doctor", "--json", installed.venv.site_packages)
    done = installed.venv.run(*command, check=False)
    report = json.loads(done.stdout)
    package = f"{cell.project}/"
    findings = [one for one in report["findings"] if one["file"].startswith(package)]
    assert [one for one in findings if not expected(cell, one)] == []
    uses = {one["file"]: one for one in report["blas"] if one["file"].startswith(package)}
    asking = {str(path.relative_to(installed.venv.site_packages)) for path in calling}
    assert uses.keys() <= asking
    assert {one["library"] is not None and one["missing"] == [] for one in uses.values()} == {True}

    # Each module loads, however deep it lies.
    modules = [name.partition(".")[0].replace("/", ".") for name in sorted(uses)]
    installed.venv.run("python", "-c", f"import {', '.join(modules)}")

    summary = installed.own_tests(tmp_path, *MODULES[cell.project])
    passed = re.search(r"(\d+) passed", summary)
    assert passed and int(passed[1]) > AT_LEAST[cell.project], summary
    record_property("row", {"Its own tests": f"`{MODULES[cell.project][0]}`: {passed[1]} passed"})
