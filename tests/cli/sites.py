"""Folders that look like a site-packages, and the command that looks into them."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.support import Venv

NEWEST = "0.3.34.481.3"
OLDER = "0.3.31.22.1"
LP64 = f"scipy-openblas32=={NEWEST}"
ILP64 = f"scipy-openblas64=={NEWEST}"
# The last NumPy that has wheels for the running Python.
NUMPY = "numpy==2.4.6" if sys.version_info >= (3, 11) else "numpy==2.2.6"


class Blaswheel:
    """``blaswheel`` as a user runs it: the installed command of an environment without a BLAS.

    Folders given as ``on`` stand before it on the search path, as further site-packages.
    """

    def __init__(self, venv: Venv) -> None:
        self.venv = venv

    def __call__(
        self,
        *arguments: str | Path,
        on: Path | Iterable[Path] = (),
        environ: dict[str, str] | None = None,
        check: bool = True,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        changes = {**python_path(on), **(environ or {})}
        return self.venv.run("blaswheel", *arguments, check=check, environ=changes, cwd=cwd)

    def error(self, *arguments: str | Path, status: int = 1, **how: Any) -> list[str]:
        """Return what a command says as it fails: a line on what is wrong, one on what to do."""
        done = self(*arguments, check=False, **how)
        lines = done.stderr.splitlines()
        assert done.returncode == status, done
        assert done.stdout == "", done
        assert len(lines) == 2, done
        assert lines[0].startswith("blaswheel: ") and lines[1].startswith("  "), done
        assert lines[1].strip(), done
        return [lines[0].removeprefix("blaswheel: "), lines[1].strip()]


def python_path(on: Path | Iterable[Path]) -> dict[str, str]:
    """Return the environment variable that puts folders on the search path."""
    folders = [on] if isinstance(on, Path) else list(on)
    return {"PYTHONPATH": os.pathsep.join(map(str, folders))} if folders else {}


def copy(source: Path, site: Path) -> Path:
    """Copy an unpacked wheel into a site-packages; nobody may change a file, only replace it."""
    shutil.copytree(source, site, copy_function=_link, dirs_exist_ok=True, symlinks=True)
    return site


@functools.cache
def _original(source: str) -> str:
    """Copy a file once per process: a link to the cache's own file would change its ctime."""
    folder = tempfile.mkdtemp(prefix="blaswheel-test-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return shutil.copy2(source, folder)


def _link(source: str, target: str) -> None:
    if os.path.getsize(source) < 1 << 20:
        shutil.copy2(source, target)
        return
    try:
        os.link(_original(source), target)
    except OSError:
        shutil.copy2(source, target)


def distribution(
    site: Path, name: str, version: str, files: dict[str, Path | bytes], record: str | None = None
) -> Path:
    """Install a distribution by hand: files (content, or what to link to) and their list."""
    for relative, content in files.items():
        path = site / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            _link(str(content), str(path))
        else:
            path.write_bytes(content)
    info = site / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    if record is None:
        record = "".join(f"{relative},,\n" for relative in files)
    (info / "RECORD").write_text(record)
    return site


def fields(text: str) -> dict[str, str]:
    """Return the variables and fields of a ``.pc`` file as they are written."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        equals, colon = line.find("="), line.find(":")
        cut = colon if colon >= 0 and not 0 <= equals < colon else equals
        found[line[:cut]] = line[cut + 1 :].strip()
    return found


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Return what is in a folder, with sizes and times."""
    return {
        str(path.relative_to(folder)): (path.lstat().st_size, path.lstat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
    }
