"""The libraries that other wheels bring: by their file names and by what they call themselves."""

from __future__ import annotations

import os
import tempfile

from blaswheel import _binaries, _discovery, _elf
from blaswheel._errors import BlaswheelError, FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def names(place: str) -> set[str]:
    """Return the names by which the loader knows the libraries of a wheel, folder or distribution.

    Parameters
    ----------
    place : str
        The path of a wheel or of a folder, or the name of an installed distribution.

    Raises
    ------
    BlaswheelError
        If there is no such thing, or it can't be read.
    """
    found: set[str] = set()
    if place.endswith(".whl"):
        with tempfile.TemporaryDirectory(prefix="blaswheel-") as folder:
            path = os.path.join(folder, "member")
            for name, _magic in _binaries.members(place, path):
                found |= _names(path, os.path.basename(name))
    else:
        for path in _files(place):
            found |= _names(path, os.path.basename(path))
    return found


def _names(path: str, base: str) -> set[str]:
    try:
        soname = _elf.requirements(path).soname
    except (FormatError, OSError):
        return {base}
    return {base, soname} if soname else {base}


def _files(place: str) -> Iterator[str]:
    if os.path.isdir(place):
        for folder, _folders, files in os.walk(place):
            yield from (os.path.join(folder, name) for name in files if _binaries.is_loadable(name))
        return
    wanted = _discovery.normalised(place)
    for distribution, info_dir in _discovery.distributions(_discovery.search_path()):
        if _discovery.normalised(distribution.name) == wanted:
            listed = _discovery.files(distribution, info_dir)
            yield from listed.libraries if listed else ()
            return
    raise BlaswheelError(
        f"--external {place}: neither a wheel, a folder nor an installed distribution",
        "give the path of its wheel, or install it",
    )
