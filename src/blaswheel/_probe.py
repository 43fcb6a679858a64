"""Where this installation's ``blaswheel-probe`` is.

The wheel carries the program in its scripts folder, which each way of installing puts elsewhere. It
must be the program that came with this code: whichever ``blaswheel-probe`` is first on ``PATH`` may
belong to another version of blaswheel, so ``PATH`` is never asked. The installer's own list of
files (``RECORD``) is, then the places that the known layouts put it in.
"""

from __future__ import annotations

import os
import sys

from blaswheel import __version__
from blaswheel._errors import BlaswheelError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME = "blaswheel-probe.exe" if os.name == "nt" else "blaswheel-probe"
_SCRIPTS = "Scripts" if os.name == "nt" else "bin"
#: A list of files that is longer than this is not ours.
_MAX_RECORD = 1 << 20


class ProbeMissingError(BlaswheelError):
    """The program that calls libraries is not where it was installed."""


def find() -> str:
    """Return the path of the probe that belongs to this blaswheel.

    Raises
    ------
    ProbeMissingError
        If it is not there: the installation is not complete, or a source tree is not built.
    """
    # Not resolved: an installer may have put symbolic links to its cache here.
    package = os.path.dirname(os.path.abspath(__file__))
    folder = os.path.dirname(package)
    for path in _places(folder):
        if os.path.isfile(path):
            return os.path.normpath(path)
    source = os.path.dirname(folder)
    if _is_source(source):
        built = [path for path in _built(source) if os.path.isfile(path)]
        if built:
            return max(built, key=os.path.getmtime)
        raise ProbeMissingError(
            f"{_NAME} is not built in {source}",
            "build it there: meson setup build/probe && ninja -C build/probe",
        )
    raise ProbeMissingError(
        f"{_NAME}, a part of blaswheel, is missing beside {package}",
        "install blaswheel again: pip install --force-reinstall blaswheel",
    )


def _places(folder: str) -> Iterator[str]:
    """Yield where the probe of a package installed in ``folder`` can be, surest first."""
    yield from _recorded(folder)
    # pip install --target moves the scripts beside the packages, after RECORD was written.
    yield os.path.join(folder, "bin", _NAME)
    if os.path.basename(folder) in ("site-packages", "dist-packages"):
        # Distributions and conda may drop RECORD: PREFIX/lib/python3.x/site-packages; on Windows
        # PREFIX/Lib/site-packages, or PythonXY/site-packages beside PythonXY/Scripts (--user).
        levels = [("..", ".."), ("..",)] if os.name == "nt" else [("..", "..", "..")]
        for up in levels:
            yield os.path.join(folder, *up, _SCRIPTS, _NAME)


def _recorded(folder: str) -> Iterator[str]:
    record = os.path.join(folder, f"blaswheel-{__version__}.dist-info", "RECORD")
    try:
        with open(record, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read(_MAX_RECORD)
    except OSError:
        return
    for line in text.splitlines():
        # path,hash,size; only a path with a comma or a quote in it is quoted (RFC 4180), and
        # only absolute ones can have one.
        path = line.rsplit(",", 2)[0]
        if path.startswith('"'):
            path = path[1:-1].replace('""', '"')
        if path.endswith("/" + _NAME):
            yield os.path.join(folder, path)


def _is_source(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, "src", "probe", "meson.build"))


def _built(source: str) -> Iterator[str]:
    """Yield the probes of the build folders of a source tree."""
    # meson-python's editable installation knows its build folder, wherever it is.
    for finder in sys.meta_path:
        build = getattr(finder, "_build_path", None)
        if getattr(finder, "_name", None) == "blaswheel" and isinstance(build, str):
            yield os.path.join(build, "src", "probe", _NAME)
    for parent in (source, os.path.join(source, "build")):
        try:
            names = os.listdir(parent)
        except OSError:
            continue
        for name in sorted(names):
            yield os.path.join(parent, name, "src", "probe", _NAME)
