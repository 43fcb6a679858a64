"""Every BLAS in a process is found, as threadpoolctl finds it, and what it cannot see."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.sites import ILP64, LP64, NUMPY, Blaswheel
from tests.providers import debian
from tests.support import Venv, Wheels

# The last SciPy that has wheels for the running Python.
SCIPY = "scipy==1.17.1" if sys.version_info >= (3, 11) else "scipy==1.15.3"


@pytest.fixture(scope="module")
def venv_with_both(shared_venv: Callable[..., Venv], wheels: Wheels) -> Venv:
    return shared_venv(LP64, ILP64, NUMPY, "threadpoolctl==3.8.0")


def report(venv: Venv, modules: str, **how: Any) -> dict[str, Any]:
    found = json.loads(venv.run("blaswheel", "loaded", "--json", "-i", modules, **how).stdout)
    assert isinstance(found, dict) and found["schema"] == 1
    return found


def test_numpy(venv_with_both: Venv) -> None:
    found = report(venv_with_both, "numpy.linalg")
    (one,) = found["libraries"]
    assert Path(one["path"]).parent.name == "numpy.libs"
    assert one["provider"] == NUMPY.replace("==", " ")
    assert (one["implementation"], one["interface"]) == ("openblas", "ilp64")
    assert one["threads"] >= 1 and one["core"] and one["threading_layer"] == "pthreads"
    assert not one["is_global"]
    called = {Path(module).name.partition(".")[0]: paths
              for module, paths in found["bindings"].items()}  # fmt: skip
    assert called["_umath_linalg"] == [one["path"]]


def test_in_another_interpreter(
    venv_with_both: Venv, shared_venv: Callable[..., Venv], tmp_path: Path
) -> None:
    """With its packages and none of ours; it needs no blaswheel of its own."""
    bare = Blaswheel(shared_venv())
    words = ("loaded", "-i", "numpy.linalg", "--json", "--python")
    there = json.loads(bare(*words, venv_with_both.python).stdout)
    assert there == report(venv_with_both, "numpy.linalg")
    done = bare(*words, bare.venv.python, check=False)
    assert done.returncode == 1
    assert "importing numpy.linalg fails" in done.stderr
    wrong, _ = bare.error(*words, tmp_path / "none")
    assert "can't ask it for its search path" in wrong


AGREE = """
import ctypes, json, sys, threadpoolctl, blaswheel
from importlib import import_module
for name in sys.argv[1:]:
    import_module(name)
theirs = {(x["filepath"], x["num_threads"], x["version"], x["threading_layer"], x["architecture"])
          for x in threadpoolctl.threadpool_info() if x["user_api"] == "blas"}
ours = {(x.path, x.threads, x.version, x.threading_layer, x.core)
        for x in blaswheel.loaded().libraries}
assert {x[:2] for x in theirs} <= {x[:2] for x in ours}, (theirs, ours)
assert {(x[0], x[3], x[4]) for x in theirs} <= {(x[0], x[3], x[4]) for x in ours}, (theirs, ours)
print(len(ours))
"""


def test_agrees_with_threadpoolctl(venv_with_both: Venv) -> None:
    done = venv_with_both.run("python", "-c", AGREE, "numpy.linalg", "scipy_openblas32")
    assert done.stdout == "2\n"


def test_agrees_with_threadpoolctl_on_scipy(venv: Callable[..., Venv], wheels: Wheels,
                                            blaswheel_wheel: Path) -> None:  # fmt: skip
    """Three copies: NumPy's, SciPy's, and one that was loaded for itself."""
    clean = venv("clean")
    files = map(wheels.fetch, (LP64, NUMPY, SCIPY, "threadpoolctl==3.8.0"))
    clean.pip_install("--no-index", "--no-deps", blaswheel_wheel, *files)
    done = clean.run("python", "-c", AGREE, "scipy_openblas32", "scipy.linalg", "numpy.linalg")
    assert done.stdout == "3\n"


def test_a_provider_that_was_imported_is_global(venv_with_both: Venv) -> None:
    """That is what scipy-openblas' own module does, and whom it serves from then on."""
    found = report(venv_with_both, "scipy_openblas64,numpy")
    by_name = {Path(one["path"]).name: one for one in found["libraries"]}
    assert by_name["libscipy_openblas64_.so"]["is_global"]
    clash = next(one for one in found["clashes"] if one["is_global"])
    assert Path(clash["libraries"][0]).name == "libscipy_openblas64_.so"
    assert "scipy_cblas_dgemm64_" in clash["names"]
    umath = next(paths for name, paths in found["bindings"].items() if "_multiarray_umath" in name)
    assert Path(umath[0]).name == "libscipy_openblas64_.so"


@pytest.mark.tool("gcc", "pkg-config")
@pytest.mark.parametrize("order", [("openblas", "openblas64"), ("openblas64", "openblas")])
def test_both_in_one_scope(venv_with_both: Venv, tmp_path: Path, order: tuple[str, str]) -> None:
    """A module that needs both gets the names that both have from the one that comes first."""
    pc = ("pc", "--dir", tmp_path / "pc", "--runtime", "absolute")
    venv_with_both.run("blaswheel", *pc)
    environ = {"PKG_CONFIG_PATH": str(tmp_path / "pc")}
    flags = []
    for name in order:
        found = venv_with_both.run("pkg-config", "--libs", name, environ=environ).stdout
        flags += found.split()
    (tmp_path / "m.c").write_text("int nothing;\n")
    keep = ("-Wl,--no-as-needed",)
    module = tmp_path / "m.so"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", tmp_path / "m.c", *keep, *flags, "-o", module], check=True
    )
    (tmp_path / "loads_it.py").write_text(f"import ctypes\nctypes.CDLL({str(module)!r})\n")
    told = report(venv_with_both, "loads_it", environ={"PYTHONPATH": str(tmp_path)})
    (clash,) = told["clashes"]
    assert clash["modules"] == [str(module)]
    assert not clash["is_global"]
    files = {
        "openblas": "libscipy_openblas.so",
        "openblas64": "libscipy_openblas64_.so",
    }
    assert [Path(one).name for one in clash["libraries"]] == [files[name] for name in order]
    assert "droundup_lwork_" in clash["names"]
    said = venv_with_both.run(
        "blaswheel", "loaded", "-i", "loads_it", environ={"PYTHONPATH": str(tmp_path)}
    ).stdout
    assert "the first serves all of m.so" in said
    apart = report(venv_with_both, "ctypes", environ={"PYTHONPATH": str(tmp_path)})
    assert apart["clashes"] == []


def test_text(venv_with_both: Venv) -> None:
    said = venv_with_both.run("blaswheel", "loaded", "-i", "numpy").stdout
    assert "openblas 0.3." in said and "ilp64" in said and "1 copies" in said
    assert venv_with_both.run("blaswheel", "loaded", "-i", "json").stdout == "no BLAS is loaded\n"


def test_a_module_that_fails(venv_with_both: Venv) -> None:
    error, hint = Blaswheel(venv_with_both).error("loaded", "-i", "numpy,no_such_module")
    assert "no_such_module" in error and "ModuleNotFoundError" in error and hint


@pytest.mark.tool("gcc")
def test_a_library_of_any_name(venv_with_both: Venv, tmp_path: Path) -> None:
    """A reference BLAS under a name that says nothing, which threadpoolctl does not see."""
    code = "from blaswheel import _routines; print(*sorted(_routines.routines('blas')))"
    stems = venv_with_both.run("python", "-c", code).stdout.split()
    (tmp_path / "x.c").write_text("".join(f"void {stem}_(void) {{}}\n" for stem in stems))
    library = tmp_path / "nothing-to-see.bin"
    subprocess.run(["gcc", "-shared", "-fPIC", tmp_path / "x.c", "-o", library], check=True)
    (tmp_path / "loads_it.py").write_text(f"import ctypes\nctypes.CDLL({str(library)!r})\n")
    environ = {"PYTHONPATH": str(tmp_path)}
    (one,) = report(venv_with_both, "loads_it", environ=environ)["libraries"]
    assert one["path"] == str(library) and one["provider"] is None
    assert one["names"] == ["*_"]


def test_looking_changes_nothing(venv_with_both: Venv) -> None:
    code = """
import numpy.linalg, os, blaswheel
blaswheel.loaded()
before = (sorted(set(l.split()[-1] for l in open("/proc/self/maps") if "/" in l)),
          len(os.listdir("/proc/self/task")), os.getcwd(), dict(os.environ))
blaswheel.loaded()
after = (sorted(set(l.split()[-1] for l in open("/proc/self/maps") if "/" in l)),
         len(os.listdir("/proc/self/task")), os.getcwd(), dict(os.environ))
print(before == after)
"""
    assert venv_with_both.run("python", "-c", code).stdout == "True\n"


@pytest.mark.tool("apt-get", "dpkg")
@pytest.mark.parametrize(
    ("package", "pattern"),
    [("libblas3", "blas/libblas.so.3"), ("libatlas3-base", "atlas/libblas.so.3")],
)
def test_libraries_of_the_distribution(
    venv_with_both: Venv, tmp_path: Path, package: str, pattern: str
) -> None:
    """The reference implementation and ATLAS under the name that everything has in Debian."""
    folder = debian.unpacked(package)
    (library,) = folder.glob(f"usr/lib/*-linux-gnu/{pattern}")
    code = f"import ctypes, glob\nctypes.CDLL({str(library)!r})\n"
    (tmp_path / "loads_it.py").write_text(code)
    folders = f"{library.parent}:{library.parent.parent}"
    environ = {"PYTHONPATH": str(tmp_path), "LD_LIBRARY_PATH": folders}
    found = report(venv_with_both, "loads_it,numpy", environ=environ)["libraries"]
    paths = [one["path"] for one in found]
    assert str(library.resolve()) in paths
    one = next(one for one in found if one["path"] == str(library.resolve()))
    assert "*_" in one["names"] and one["interface"] in ("lp64", "unknown")
    assert one["provider"] is None
