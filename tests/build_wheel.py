"""Build blaswheel's wheel from this checkout, once per state of its sources, and print its path.

``python tests/build_wheel.py`` is what ``./test`` calls; `wheel` is what the tests call. Several
processes may ask at once: one builds, the others wait.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: What the wheel is made of.
SOURCES = ("pyproject.toml", "meson.build", "README.md", "LICENSE", "src", "subprojects")
#: A lock that is older than this was left by a process that died.
STALE_SECONDS = 600.0


def cache() -> Path:
    """Return the folder for what tests download and build, creating it."""
    folder = Path(os.environ.get("BLASWHEEL_TEST_CACHE") or ROOT / "tests" / ".cache").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold ``path`` (a folder that only one process can create) while the block runs."""
    while True:
        try:
            path.mkdir()
            break
        except FileExistsError:
            with contextlib.suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > STALE_SECONDS:
                    path.rmdir()
                    continue
            time.sleep(0.05)
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            path.rmdir()


def source_files() -> list[Path]:
    """Return the files that the wheel is made of, in order."""
    found: list[Path] = []
    for name in SOURCES:
        path = ROOT / name
        if path.is_file():
            found.append(path)
        for folder, folders, files in os.walk(path):
            folders[:] = sorted(
                each for each in folders if each != "__pycache__" and not each.startswith(".")
            )
            found.extend(Path(folder, each) for each in sorted(files) if not each.startswith("."))
    return found


def copy_sources(folder: Path) -> Path:
    """Copy what the wheel is made of to ``folder``, which need not exist."""
    for path in source_files():
        target = folder / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    return folder


def wheel() -> Path:
    """Return the wheel of the sources as they are now, built under build isolation if need be."""
    state = hashlib.sha256()
    for path in source_files():
        content = path.read_bytes()
        state.update(f"{path.relative_to(ROOT).as_posix()}\0{len(content)}\0".encode() + content)
    folder = cache() / f"blaswheel-{state.hexdigest()[:16]}"
    with lock(cache() / "build.lock"):
        built = list(folder.glob("*.whl"))
        if not built:
            temporary = Path(tempfile.mkdtemp(prefix="build-", dir=cache()))
            try:
                command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet"]
                run = subprocess.run(
                    [*command, "--wheel-dir", str(temporary), str(ROOT)],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    errors="replace",
                    check=False,
                )
                if run.returncode:
                    raise RuntimeError(f"blaswheel does not build:\n{run.stdout}")
                temporary.replace(folder)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
            built = list(folder.glob("*.whl"))
    (path,) = built
    return path


if __name__ == "__main__":
    sys.stdout.write(f"{wheel()}\n")
