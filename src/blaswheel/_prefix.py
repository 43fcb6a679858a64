"""What an installation has to pack: one library, its headers, its version."""

from __future__ import annotations

import os
import re

from blaswheel import _binary, _discovery, _names, _reading, _select, _shipped, _static, _system
from blaswheel._errors import BlaswheelError, FormatError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from blaswheel._library import Library

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*["<]([\w./+-]+)[">]', re.MULTILINE)
#: The largest of real headers (lapacke.h) has not a tenth of that.
_MAX_HEADER = 16 << 20
_MAX_HEADERS = 1000


def library(prefix: str, file: str | None = None) -> Library:
    """Return the shared library of an installation that is to be packed.

    Parameters
    ----------
    prefix : str
    file : str, optional
        The library's file, where there are several libraries; relative to the current folder, or
        to the prefix.

    Raises
    ------
    BlaswheelError
        If there is none, several, or one that can't be packed.
    """
    if not os.path.isdir(prefix):
        problem = "not a folder" if os.path.exists(prefix) else "no such folder"
        raise BlaswheelError(
            f"{prefix}: {problem}", "give the prefix of an installation, with lib/ and include/"
        )
    if file is not None:
        inside = os.path.join(prefix, file)
        path = inside if not os.path.isfile(file) and os.path.isfile(inside) else file
        found: Sequence[Library] = _reading.at(path)
    else:
        try:
            found = _reading.at(prefix)
        except BlaswheelError:
            _refuse_static(prefix)
            raise
    chosen = _chosen(found, prefix)
    if _static.is_static(chosen):
        raise BlaswheelError(
            f"{chosen.path} is a static library", "build it as a shared one, and install that"
        )
    if chosen.vendor.layers is not None:
        raise BlaswheelError(
            f"{chosen.path} belongs to {chosen.vendor.title}, whose files open each other by their "
            "names: it can't be packed under another",
            f"{_select.INSTALL_FOR[chosen.implementation]} installs it",
        )
    return chosen


def _refuse_static(prefix: str) -> None:
    for folder in _reading.folders_of(os.path.abspath(prefix)):
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        for name in names:
            if name.endswith(".a") and any(word in name for word in _system.WORDS):
                raise BlaswheelError(
                    f"{prefix} has static libraries only ({name})",
                    "build it with shared libraries, and install those",
                )


def _chosen(found: Sequence[Library], prefix: str) -> Library:
    usable = [one for one in found if one.linkable]
    if not usable:
        raise BlaswheelError(
            f"{found[0].path} can't be packed: {found[0].reason}",
            f"blaswheel show {found[0].path} tells what it is; --library FILE takes another",
        )
    ordered = sorted(usable, key=_rank)
    best = ordered[0]
    rivals = [one for one in ordered[1:] if not _covers(best, one)]
    if rivals:
        titles = ", ".join(os.path.relpath(one.path, prefix) for one in (best, *rivals)[:6])
        raise BlaswheelError(
            f"{prefix} has several libraries: {titles}",
            f"say which: --library {os.path.relpath(best.path, prefix)}",
        )
    return best


def _rank(one: Library) -> tuple[object, ...]:
    # As in an installation: what is whole before what is split by API.
    rank = _select.rank(one.replace(of_system=True))
    return (*rank[:-1], one.implementation not in one.stem, len(one.path), one.path)


def _covers(best: Library, other: Library) -> bool:
    """Tell whether another library of an installation is the same, or a part of it.

    One file has several names (``libblas.so.3``), and a distribution has its BLAS and its LAPACK
    by themselves too, beside the library with both.
    """
    if set(map(os.path.realpath, other.files)) <= set(map(os.path.realpath, best.files)):
        return True
    exported = set(best.binary.functions)
    return (
        (
            other.implementation == best.implementation
            # Built for its BLAS alone, a library lacks what it would be recognised by.
            or exported.issuperset(other.binary.functions)
        )
        and os.path.realpath(other.directory) == os.path.realpath(best.directory)
        and {one.api for one in other.families} <= {one.api for one in best.families}
        and set(other.interfaces()) <= set(best.interfaces())
    )


def files(library: Library, prefix: str) -> tuple[list[str], list[str]]:
    """Return the files of a library with its routines, and those that go with them.

    These are needed by it, and need it in turn: LAPACKE needs ``libtmglib``, which needs LAPACK.
    Under the old name, that would be another copy. What needs none of it is the compiler's.
    """
    own = [path for path in library.files if _names.infer(_binary.read(path).functions)]
    folders = dict.fromkeys(
        [*map(os.path.dirname, library.files), *_reading.folders_of(os.path.abspath(prefix))]
    )
    known: set[str] = set()
    needed: dict[str, None] = {}
    for path in own:
        binary = _binary.read(path)
        known |= {binary.soname or "", os.path.basename(path)}
        needed |= dict.fromkeys(binary.needed)
    further = []
    for name in needed:
        places = (os.path.join(folder, name) for folder in folders)
        full = next(filter(os.path.isfile, places), None)
        if full is None or name in known:
            continue
        try:
            back = _binary.read(full).needed
        except FormatError:
            continue
        if known.intersection(back):
            further.append(full)
    return own, further


def version(library: Library, prefix: str) -> str | None:
    """Return the release that a library states, else that of a ``.pc`` file of its installation."""
    text = library.version
    if text is None:
        text = _of_pc_files(library, prefix)
    if text is None:
        return None
    # What an upstream calls ``0.3.30.dev`` (PEP 440 wants a number).
    numbers = re.match(r"\d+(\.\d+)*", text)
    return numbers.group() if numbers else None


def _of_pc_files(library: Library, prefix: str) -> str | None:
    words = [library.implementation, *map(_word, library.files)]
    for folder in _reading.folders_of(os.path.abspath(prefix)):
        for place in (os.path.join(folder, "pkgconfig"), folder):
            for name in sorted(_listed(place)):
                if name.endswith(".pc") and any(word and word in name for word in words):
                    file = _shipped.read(os.path.join(place, name))
                    if file is not None and file.fields.get("Version"):
                        return file.fields["Version"]
    return None


def words(library: Library) -> tuple[str, ...]:
    """Return how the packages are called that a library's files may be of, without ``lib``."""
    own = {_word(path) for path in library.files} | {library.implementation}
    return tuple(sorted(own - {"", "unknown"}))


def _word(path: str) -> str:
    """Return the letters that a file's name begins with: ``openblas`` of libopenblas64p-r0.3.so."""
    match = re.match(r"[a-z_]+", os.path.basename(path).lower().removeprefix("lib"))
    return match.group().rstrip("_") if match else ""


def headers(library: Library) -> tuple[dict[str, str], list[str]]:
    """Return the headers of an installed library, and what was done to have them complete.

    Those of BLAS, CBLAS, LAPACK and LAPACKE, of the implementation, and what they include from the
    same folders.

    Returns
    -------
    dict
        File name, with ``/`` between folders, to path.
    list of str
        One line each.
    """
    found: dict[str, str] = {}
    notes: list[str] = []
    folders = _system.include_dirs(library.path) or library.include_dirs
    # Debian's folder for the machine, which has links from its alternatives only.
    machines = [part for part in library.path.split(os.sep) if part.endswith(_system.TRIPLETS)]
    deeper = (os.path.join(folder, one) for folder in folders for one in machines)
    folders = tuple(dict.fromkeys((*folders, *filter(os.path.isdir, deeper))))
    wanted = sorted({*_discovery.HEADERS, *library.vendor.headers, f"{library.implementation}.h"})
    queue = [(name, name) for name in wanted]
    while queue and len(found) < _MAX_HEADERS:
        name, asked = queue.pop(0)
        if asked in found or asked.startswith("/") or ".." in asked.split("/"):
            continue
        path = _first(folders, name)
        if path is None:
            instead = _instead(folders, name, is_included=name not in wanted)
            if instead is None:
                continue
            path = instead
            notes.append(f"{asked}: not there, {os.path.basename(path)} stands for it")
        found[asked] = path
        with open(path, "rb") as file:
            text = file.read(_MAX_HEADER)
        for match in _INCLUDE.finditer(text):
            inner = os.fsdecode(match.group(1))
            beside = os.path.join(os.path.dirname(asked), inner)
            queue += [(inner, inner), *([(beside, beside)] if beside != inner else [])]
    return found, notes


def _first(folders: Iterable[str], name: str) -> str | None:
    paths = (os.path.join(folder, *name.split("/")) for folder in folders)
    return next((path for path in paths if os.path.isfile(path)), None)


def _instead(folders: Sequence[str], name: str, *, is_included: bool) -> str | None:
    """Return the header that a distribution would give this name when it is installed.

    Debian's alternatives make ``cblas.h`` a link to ``cblas-netlib.h``, and its 64-bit OpenBLAS
    includes ``openblas64_config.h``, which is called ``openblas_config.h``.
    """
    if is_included and "64" in name:
        plain = _first(folders, name.replace("64", "", 1))
        if plain is not None:
            return plain
    stem, end = os.path.splitext(name)
    for folder in () if is_included else folders:
        for entry in sorted(_listed(folder)):
            if entry.startswith(f"{stem}-") and entry.endswith(end):
                return os.path.join(folder, entry)
    return None


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def check_version(text: str) -> str:
    """Return a version if it is one, in the form that file names have.

    Raises
    ------
    UsageError
        If it is none (PEP 440).
    """
    if not re.fullmatch(
        r"(\d+!)?\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?(\+[a-z0-9]+(\.[a-z0-9]+)*)?",
        text,
        re.ASCII,
    ):
        raise UsageError(f"{text!r} is no version", "give one such as 0.3.30 or 0.3.30.post1")
    return text
