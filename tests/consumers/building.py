"""Build NumPy or SciPy as a cell of the matrix says, and look at what comes of it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.build_wheel import cache
from tests.consumers.matrix import BUILD, MESON, PIP, Cell
from tests.support import Venv, Wheels

#: To build SciPy takes thirteen minutes on two processors where nothing else runs.
PATIENCE = 3 * 3600
RELEASE = "--buildtype=release"


def interpreter(version: str) -> str:
    """Return the path of a Python of this version (``3.12``)."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return sys.executable
    name = f"python{version}"
    command = [name, "-c", "import sys; print(sys.executable)"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"missing tool: {name}")
    return done.stdout.strip()


def unpacked(archive: Path, folder: Path) -> Path:
    """Unpack a source distribution in ``folder`` and return its one folder."""
    folder.mkdir(parents=True)
    with tarfile.open(archive) as content:
        if hasattr(tarfile, "data_filter"):
            content.extractall(folder, filter="data")
        else:
            content.extractall(folder)
    (path,) = folder.iterdir()
    return path


def dynamic(path: Path, tag: str) -> list[str]:
    """Return the values of a tag of an ELF file's dynamic section."""
    printed = subprocess.run(
        ["readelf", "-dW", path], capture_output=True, check=True, text=True
    ).stdout
    return re.findall(rf"\({tag}\)[^\[]*\[(.*)\]", printed)


def needed(path: Path) -> list[str]:
    """Return the libraries that an ELF file names."""
    return dynamic(path, "NEEDED")


def imports(path: Path) -> set[str]:
    """Return the names that an ELF file takes from others."""
    printed = subprocess.run(
        ["nm", "-D", "--undefined-only", "--format=posix", path],
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    return {line.split()[0].partition("@")[0] for line in printed.splitlines()}


def binaries(folder: Path) -> Iterator[Path]:
    """Yield every ELF file in a folder."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


@dataclass(frozen=True)
class Built:
    """What a build left: a wheel, or for ``meson setup`` an installed package in an archive.

    Attributes
    ----------
    path : Path
    folder : str
        The one in which everything of the build was: its environment, sources, temporary files.
    command : str
        As it was run in that folder.
    seconds : float
    earlier : bool
        Whether an earlier blaswheel built it.
    """

    path: Path
    folder: str
    command: str
    seconds: float
    earlier: bool = False


def build(cell: Cell, blaswheel: Path, wheels: Wheels, folder: Path) -> Built:
    """Build a cell in ``folder`` and delete that folder.

    What was built with the same blaswheel is kept, beside what the tests download: a fault in a
    test needs no second build. ``BLASWHEEL_TEST_BUILT=any`` also takes what an earlier blaswheel
    built.
    """
    if os.environ.get("BLASWHEEL_TEST_BUILT") == "any":
        before = built_before(cell)
        if before is not None:
            return before
    key = hashlib.sha256(repr((cell, blaswheel.parent.name)).encode()).hexdigest()[:16]
    kept = cache() / "built" / f"{cell.name}-{key}"
    facts = kept / "facts.json"
    if not facts.exists():
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)
        started = time.monotonic()
        command = _run(cell, blaswheel, wheels, folder)
        seconds = time.monotonic() - started
        (made,) = (folder / "out").iterdir()
        shutil.move(made, kept / made.name)
        shutil.rmtree(folder)
        known = {
            "name": made.name,
            "folder": str(folder),
            "command": command,
            "seconds": round(seconds),
        }
        facts.write_text(json.dumps(known), encoding="utf-8")
    return _known(facts)


def built_before(cell: Cell) -> Built | None:
    """Return what a cell left last, with whichever blaswheel; for what is tested on top of it."""
    found = list((cache() / "built").glob(f"{cell.name}-*/facts.json"))
    if not found:
        return None
    return replace(_known(max(found, key=lambda path: path.stat().st_mtime)), earlier=True)


def _known(facts: Path) -> Built:
    known = json.loads(facts.read_text(encoding="utf-8"))
    path = facts.with_name(known["name"])
    return Built(path, known["folder"], known["command"], known["seconds"])


def _run(cell: Cell, blaswheel: Path, wheels: Wheels, folder: Path) -> str:
    """Build a cell; return the command that did it."""
    venv = Venv(folder / "venv", interpreter(cell.python))
    files = [wheels.fetch(spec) for spec in (*cell.providers, *cell.to_build)]
    venv.pip_install("--no-index", "--no-deps", blaswheel, *files)
    venv.pip_install("pip>=23.1", "build")
    temporary, out = folder / "tmp", folder / "out"
    temporary.mkdir()
    out.mkdir()
    spec = f"{cell.project}=={cell.version}"
    if cell.front_end == PIP:
        commands = [[*cell.command, "--wheel-dir", "out"]]
    else:
        source = unpacked(wheels.sdist(spec), folder / "source").relative_to(folder)
        if cell.front_end == BUILD:
            commands = [[*cell.command, "--outdir", "out", str(source)]]
        else:
            commands = _with_meson(cell, venv, folder, source)
    environ = {"TMPDIR": str(temporary), "BLASWHEEL_CACHE_DIR": str(folder / "cache")}
    for command in commands:
        venv.run(*command, cwd=folder, environ=environ, timeout=PATIENCE)
    if cell.front_end == MESON:
        (site,) = (folder / "installed").rglob("site-packages")
        shutil.make_archive(str(out / cell.name), "tar", site)
    return " ".join(commands[0])


def _with_meson(cell: Cell, venv: Venv, folder: Path, source: Path) -> list[list[str]]:
    """Return the commands that set up a checkout and build it, without build isolation.

    NumPy needs the Meson that it brings: stock Meson has no ``import('features')``.
    """
    known = json.loads(
        venv.run("python", "-c", _REQUIRES, folder / source / "pyproject.toml").stdout
    )
    venv.pip_install("ninja", *known)
    meson = ["meson"]
    vendored = source / "vendored-meson" / "meson" / "meson.py"
    if (folder / vendored).exists():
        meson = ["python", str(vendored)]
    at = cell.command.index("meson")
    prefix = f"--prefix={folder / 'installed'}"
    return [
        [*cell.command[:at], *meson, *cell.command[at + 1 :], str(source), prefix, RELEASE],
        ["blaswheel", "exec", "--", *meson, "compile", "-C", "build"],
        [*meson, "install", "-C", "build", "--no-rebuild", "--quiet"],
    ]


#: Prints what a project's build needs; of Python 3.11 and later.
_REQUIRES = """
import json, sys
try:
    import tomllib
except ImportError:
    from pip._vendor import tomli as tomllib
with open(sys.argv[1], "rb") as file:
    print(json.dumps(tomllib.load(file)["build-system"]["requires"]))
"""


@dataclass(frozen=True)
class Installed:
    """A package in an environment that has its provider, and nothing of the build."""

    venv: Venv
    package: Path
    wheel: Path | None

    def show_config(self) -> dict[str, dict[str, str]]:
        """Return what the package says of its BLAS and LAPACK."""
        name = self.package.name
        program = (
            f"import json, {name};"
            f"print(json.dumps({name}.show_config('dicts')['Build Dependencies']))"
        )
        found: dict[str, dict[str, str]] = json.loads(self.venv.run("python", "-c", program).stdout)
        return found

    def own_tests(self, cwd: Path, *modules: str) -> str:
        """Run the package's own tests and return the last line that pytest prints."""
        done = self.venv.run(
            *("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyargs", *modules),
            check=False,
            cwd=cwd,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
        return done.stdout.strip().splitlines()[-1]


def install(cell: Cell, built: Built, blaswheel: Path, wheels: Wheels, folder: Path) -> Installed:
    """Install what was built into a new environment with its provider."""
    venv = Venv(folder, interpreter(cell.python))
    files = [wheels.fetch(spec) for spec in cell.providers]
    venv.pip_install("--no-index", "--no-deps", blaswheel, *files)
    venv.pip_install("pytest", "hypothesis")
    wheel = None
    if built.path.suffix == ".whl":
        wheel = built.path
        venv.pip_install(wheel)
    else:
        shutil.unpack_archive(built.path, venv.site_packages)
        if cell.project == "scipy":
            venv.pip_install("numpy")
    return Installed(venv, venv.site_packages / cell.project, wheel)
