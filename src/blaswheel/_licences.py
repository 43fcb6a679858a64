"""The licence files of an installed library, by where installations put them.

``share/licenses`` and ``share/doc`` have a folder for each package (Linux distributions, vcpkg,
MSYS2), a conda package has ``info/licenses``, an installation of one thing has them at its top, and
a wheel's package has them in the ``.dist-info`` folder beside it.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: How the names of such files begin, in any case.
_NAMES = ("licen", "copying", "copyright", "notice", "unlicen")
#: The longest text is a tenth of that.
_LIMIT = 1 << 20
_MAX_ENTRIES = 20_000
#: What the libraries of a compiler are under is with the compiler: Debian's libgfortran5 has a link
#: to gcc-12-base, Fedora's has its own, Alpine's and conda's are called as the library.
_OF_GCC = ("libgfortran", "libquadmath", "libgomp", "libgcc", "libstdc++", "libatomic")


def of_installation(prefix: str, names: Iterable[str]) -> dict[str, str]:
    """Return the licence files that an installation has for packages of these names.

    Parameters
    ----------
    prefix : str
    names : iterable of str
        Of libraries, without ``lib``: ``openblas`` is in a package whose name begins so.

    Returns
    -------
    dict
        A file name for each, unique, to its path.
    """
    found: dict[str, str] = {}
    prefix = os.path.abspath(prefix)
    roots = [prefix, *_dist_infos(prefix), os.path.join(prefix, "info", "licenses")]
    for root in roots:
        _add(found, root, "")
    wanted = tuple(f"{lib}{name.lower()}" for name in names for lib in ("", "lib"))
    for base in (prefix, os.path.join(prefix, "usr"), os.path.join(prefix, "Library")):
        for folder in _packages(base, wanted):
            _add(found, folder, os.path.basename(folder))
    return found


def of_library(file: str, places: Iterable[str]) -> dict[str, str]:
    """Return the licence files of a library that was taken from one of some installations.

    Parameters
    ----------
    file : str
        Its name, such as ``libgfortran.so.5``.
    places : iterable of str
        Prefixes, the first one that has any counts.
    """
    base = file.partition(".so")[0]
    # Of a Debian package called by the SONAME; then what is called so too, then its compiler.
    number = file.partition(".so.")[2].partition(".")[0]
    wanted = [f"{base}{number}", base, base.removeprefix("lib")]
    if base in _OF_GCC:
        wanted += ["gcc"]
    for prefix in places:
        for name in wanted:
            for folder in _packages(prefix, (name,)):
                found: dict[str, str] = {}
                _add(found, folder, os.path.basename(folder))
                if found:
                    return found
    return {}


def of_metadata(folder: str) -> dict[str, str]:
    """Return the licence files in a ``.dist-info`` folder: a name for each to its path.

    Of what is in ``licenses/`` all are, as the metadata's specification has it; a name may have
    folders in it.
    """
    found = {}
    for top, _folders, names in os.walk(folder):
        inside = os.path.relpath(top, folder).replace(os.sep, "/").partition("/")[0] == "licenses"
        for name in sorted(names):
            path = os.path.join(top, name)
            if (inside or name.lower().startswith(_NAMES)) and is_text(path):
                place = os.path.relpath(path, folder).replace(os.sep, "/")
                found[place.removeprefix("licenses/")] = path
    return found


def _packages(base: str, wanted: tuple[str, ...]) -> Iterator[str]:
    for share in ("licenses", "licences", "doc"):
        top = os.path.join(base, "share", share)
        for package in _entries(top):
            if package.lower().startswith(wanted):
                yield os.path.join(top, package)


def _dist_infos(prefix: str) -> Iterator[str]:
    folder, name = os.path.split(prefix)
    for entry in _entries(folder):
        if entry.endswith(".dist-info") and entry.partition("-")[0] == name:
            yield os.path.join(folder, entry)
            yield os.path.join(folder, entry, "licenses")


def _add(found: dict[str, str], folder: str, package: str) -> None:
    """Add the licence files in a folder, but for those whose text is there already."""
    for name in _entries(folder):
        path = os.path.join(folder, name)
        if not name.lower().startswith(_NAMES) or not is_text(path):
            continue
        content = _read(path)
        if any(_read(other) == content for other in found.values()):
            continue
        found[unused(f"{package}-{name}" if package else name, found)] = path


def unused(name: str, taken: Iterable[str]) -> str:
    """Return ``name``, or with a number if that is taken; letter case does not count."""
    names = {each.lower() for each in taken}
    number, result = 1, name
    while result.lower() in names:
        number += 1
        result = f"{name}-{number}"
    return result


def is_text(path: str) -> bool:
    """Tell whether a path is that of a file that may be a licence: not empty, not huge."""
    try:
        return os.path.isfile(path) and 0 < os.path.getsize(path) <= _LIMIT
    except OSError:
        return False


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_LIMIT)
    except OSError:
        return b""


def _entries(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))[:_MAX_ENTRIES]
    except OSError:
        return []
