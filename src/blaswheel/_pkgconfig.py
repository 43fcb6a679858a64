"""A pkg-config that works: the system's if it passes a self-test, else that of PyPI's pkgconf.

Two published releases of PyPI's ``pkgconf`` print nothing and exit 0 when ``PKG_CONFIG_PATH`` is
set, so that a healthy file looks empty; only a try tells.
"""

from __future__ import annotations

import os
import shutil
import sys

from blaswheel import _files
from blaswheel._errors import BlaswheelError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_SELF_TEST = "Name: self-test\nDescription: x\nVersion: 1.2.3\nLibs: -L/a\\ b -lx\nCflags:\n"


def working(environ: Mapping[str, str]) -> str:
    """Return the path of a pkg-config that reads a file on ``PKG_CONFIG_PATH``.

    ``PKG_CONFIG`` if it is set, then every ``pkg-config`` and ``pkgconf`` on the path, scripts
    last, and the program inside PyPI's ``pkgconf``, if that is installed.

    Raises
    ------
    BlaswheelError
        If none passes.
    """
    tried = []
    for program in _candidates(environ):
        if passes(program, environ):
            return program
        tried.append(program)
    raise BlaswheelError(
        f"no working pkg-config: {', '.join(tried)} read no file on PKG_CONFIG_PATH"
        if tried
        else "no pkg-config on PATH",
        "install one: apt-get install pkgconf, or pip install pkgconf",
    )


def is_same(named: str, program: str, environ: Mapping[str, str]) -> bool:
    """Tell whether a program named in the environment is the one at a path."""
    return (shutil.which(named, path=environ.get("PATH")) or named) == program


def folder_for(program: str, environ: Mapping[str, str]) -> str | None:
    """Return a folder whose ``pkg-config`` is ``program``, for those that don't read PKG_CONFIG.

    None if the first ``pkg-config`` on the path works as it is.
    """
    first = shutil.which("pkg-config", path=environ.get("PATH"))
    if os.name == "nt" or (first is not None and (first == program or passes(first, environ))):
        return None
    folder = os.path.join(_files.cache_dir(environ), "bin", _files.digest(program))
    try:
        os.makedirs(folder, exist_ok=True)
        _files.symlink(os.path.abspath(program), os.path.join(folder, "pkg-config"))
    except OSError as error:
        raise BlaswheelError(
            f"can't write {folder}: {error.strerror}", "set BLASWHEEL_CACHE_DIR to another folder"
        ) from error
    return folder


def _candidates(environ: Mapping[str, str]) -> list[str]:
    found = []
    chosen = environ.get("PKG_CONFIG")
    if chosen:
        found.append(shutil.which(chosen, path=environ.get("PATH")) or chosen)
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        for name in ("pkg-config", "pkgconf"):
            program = shutil.which(name, path=folder) if folder else None
            if program:
                found.append(program)
    for folder in sys.path:
        bundled = shutil.which("pkgconf", path=os.path.join(folder, "pkgconf", ".bin"))
        if bundled:
            found.append(bundled)
    # The launcher of PyPI's pkgconf is a script that knows none of the system's files, so that no
    # other dependency of a project is found: it serves where nothing else does, or where it was
    # asked for by PKG_CONFIG.
    first = found[:1] if chosen else []
    return list(dict.fromkeys([*first, *sorted(found, key=_is_script)]))


def _is_script(program: str) -> bool:
    try:
        with open(program, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def passes(program: str, environ: Mapping[str, str]) -> bool:
    """Tell whether ``program`` reads version and flags of a file on ``PKG_CONFIG_PATH``."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "blaswheel-self-test.pc"), "w", encoding="ascii") as file:
            file.write(_SELF_TEST)
        isolated = {**environ, "PKG_CONFIG_PATH": folder, "PKG_CONFIG_SYSROOT_DIR": ""}
        return all(
            ask(program, question, "blaswheel-self-test", isolated) == answer
            for question, answer in (("--modversion", "1.2.3"), ("--libs", "-L/a\\ b -lx"))
        )


def ask(program: str, question: str, name: str, environ: Mapping[str, str]) -> str | None:
    """Return what ``program`` answers to an option such as ``--libs``; None if it fails."""
    import subprocess

    try:
        reply = subprocess.run(
            [program, question, name],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return os.fsdecode(reply.stdout).strip() if reply.returncode == 0 else None
