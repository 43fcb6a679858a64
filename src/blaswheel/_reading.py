"""Reading every BLAS library of an environment, or what is at a path."""

from __future__ import annotations

import os
import sys

from blaswheel import _binary, _compose, _discovery
from blaswheel._compose import Found
from blaswheel._errors import BlaswheelError, FormatError
from blaswheel._library import examine, stem
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from blaswheel._library import Library

#: Of one folder that is looked through; installations have some dozens.
MAX_FOLDERS = 200
MAX_FILES = 5000
#: Files that are named like these are told when they can't be read; any other file that looks
#: like a library but is none concerns nobody here.
_TELLING = ("blas", "lapack", "mkl", "blis", "atlas", "nvpl", "flexi")


class Seen(Record):
    """What was found.

    Attributes
    ----------
    libraries : tuple of Library
    problems : tuple of str
        One line for each library that is listed but can't be read.
    looked_in : tuple of str
        The folders that were looked through, of which no list of files tells what is in them.
    """

    libraries: tuple[Library, ...]
    problems: tuple[str, ...] = ()
    looked_in: tuple[str, ...] = ()


def read(path: Sequence[str], *, here: bool, system: bool) -> Seen:
    """Read every library of the distributions on ``path``.

    Parameters
    ----------
    path : sequence of str
        From `blaswheel._discovery.search_path`.
    here : bool
        Whether it is of this machine.
    system : bool
        Also those of the system.
    """
    libraries: list[Library] = []
    problems: list[str] = []
    looked_in: list[str] = []
    by_name: dict[str, list[str]] = {}
    include_dirs: list[tuple[str, str]] = []
    for distribution, member in _discovery.zipped(path):
        if _is_telling(member):
            problems.append(
                f"{distribution}: {os.path.basename(member)} is inside {distribution.root}, where "
                "no linker finds it"
            )
    for distribution, info_dir in _discovery.distributions(path):
        files = _discovery.files(distribution, info_dir)
        if files is None:
            if _is_telling(distribution.name) and not _has_file_list(info_dir):
                problems.append(f"{distribution}: its list of files (RECORD) is missing")
            continue
        looked_in += files.looked_in
        for file in files.libraries:
            by_name.setdefault(os.path.basename(file), []).append(file)
        include_dirs += [(distribution.name, folder) for folder in files.include_dirs]
        for file in _one_of_copies(files.libraries):
            problem = None
            try:
                library = examine(file, distribution, files.include_dirs)
                if library is not None:
                    libraries.append(library)
            except FormatError as error:
                problem = error.message
            except OSError as error:
                problem = f"{file}: {error.strerror}"
            if problem and _is_telling(file):
                problems.append(f"{distribution}: {problem}")
    libraries = _importable(libraries, by_name)
    shared = [library for library in libraries if library.binary.format != "ar"]
    composed = _compose.compose(shared, Found(files=by_name, include_dirs=include_dirs))
    static = [_static(library) for library in libraries if library.binary.format == "ar"]
    found = (*composed, *static)
    if here and sys.platform == "darwin":
        from blaswheel import _accelerate

        found = (*found, _accelerate.here())
    if system:
        from blaswheel import _system

        own = {os.path.realpath(path) for one in found for path in one.files}
        further = [one for one in _system.libraries() if os.path.realpath(one.path) not in own]
        found = (*found, *further)
    return Seen(libraries=found, problems=tuple(problems), looked_in=tuple(looked_in))


def _importable(libraries: list[Library], files: dict[str, list[str]]) -> list[Library]:
    """Return the libraries, each DLL with its import library.

    That is known by what it says: files may be named in any way. Of several for one DLL the one
    that Microsoft's linker finds too comes first.
    """
    dlls = [one for one in libraries if one.binary.format == "pe"]
    if not dlls:
        return libraries
    known: dict[tuple[str, str], str] = {}
    for base in sorted(files, key=lambda base: (not base.endswith(".lib"), base)):
        for path in files[base] if base.endswith((".lib", ".a")) else ():
            try:
                binary = _binary.read(path)
            except (FormatError, OSError):
                continue
            if binary.soname:
                known.setdefault((binary.soname.lower(), binary.machine), path)
    return [
        one.replace(
            import_library=known.get((os.path.basename(one.path).lower(), one.binary.machine))
        )
        if one.binary.format == "pe"
        else one
        for one in libraries
    ]


def _static(library: Library) -> Library:
    """Return a static library, which can't be linked alone if its implementation has layers."""
    if library.vendor.layers is None or not library.linkable:
        return library
    reason = f"a static layer of {library.vendor.title}: link its layers by its own .pc files"
    return library.replace(linkable=False, reason=reason)


def at(path: str) -> tuple[Library, ...]:
    """Return the libraries at ``path``: a library file and what it needs, or all in a folder.

    Raises
    ------
    BlaswheelError
        If it can't be read or is no BLAS.
    """
    full = os.path.abspath(path)
    if os.path.isdir(full):
        found = _in_prefix(full)
        hint = "give the prefix of an installation, with its libraries in lib/"
    else:
        found = _with_needed(full, path)
        hint = "give the path of a BLAS library; blaswheel list shows those that are installed"
    if not found:
        raise BlaswheelError(
            f"{path}: is no BLAS: it exports no full set of BLAS, CBLAS, LAPACK or LAPACKE", hint
        )
    return found


def is_at(library: Library, path: str) -> bool:
    """Tell whether a library is the one at ``path``, made of the file there, or in the folder."""
    real = os.path.realpath(path)
    if os.path.isdir(real):
        # What is in a view of links (Nix, Spack, conda) is in it, wherever the links lead.
        named = os.path.abspath(path).rstrip(os.sep) + os.sep
        folder = real.rstrip(os.sep) + os.sep
        return library.path.startswith(named) or os.path.realpath(library.path).startswith(folder)
    if stem(real) in _compose.runtimes(library):
        return False
    return real in map(os.path.realpath, library.files)


def _with_needed(full: str, path: str) -> tuple[Library, ...]:
    """Return what the file at ``full`` makes with the others that it needs."""
    try:
        library = examine(full, None, _include_dirs_beside(full))
    except OSError as error:
        raise BlaswheelError(
            f"{path}: {error.strerror}", "give the path of a shared library"
        ) from error
    if library is None:
        return ()
    together = {full: library}
    queue = [library]
    by_name: dict[str, list[str]] = {}
    while queue:
        one = queue.pop()
        folders = _searched(one)
        for folder in folders[:1]:
            for name in os.listdir(folder):
                by_name.setdefault(name, []).append(os.path.join(folder, name))
        for name in one.binary.needed:
            needed = _needed(name, folders, like=one)
            if needed is None or needed.path in together:
                continue
            together[needed.path] = needed
            queue.append(needed)
    found = Found(files=by_name, is_installation=True)
    composed = _compose.compose(list(together.values()), found)
    return tuple(one for one in composed if is_at(one, full))


def _needed(name: str, folders: Sequence[str], *, like: Library) -> Library | None:
    """Return the BLAS library called ``name`` in the first folder that has one of a kind."""
    found = []
    for number, folder in enumerate(folders):
        candidate = os.path.join(folder, name)
        if not os.path.isfile(candidate):
            continue
        try:
            library = examine(candidate, None, _include_dirs_beside(candidate))
        except (FormatError, OSError):
            continue
        if library is not None:
            found.append((number > 0, library.implementation != like.implementation, library))
    return min(found, key=lambda each: each[:2])[2] if found else None


def _searched(library: Library) -> list[str]:
    """Return the folders in which a library finds others, or they lie beside it.

    Debian has each implementation in a folder of its own, for its alternatives to lead to.
    """
    own = library.directory
    run_paths = [
        os.path.normpath(entry.replace("${ORIGIN}", own).replace("$ORIGIN", own))
        for entry in (*library.binary.runpath, *library.binary.rpath)
    ]
    parent = os.path.dirname(own)
    return list(dict.fromkeys([own, *run_paths, *_inside(own), parent, *_inside(parent)]))


def _inside(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            inside = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return sorted(inside)[:MAX_FOLDERS]


def _in_prefix(prefix: str) -> tuple[Library, ...]:
    """Return every library in the folders of an installation."""
    by_name: dict[str, list[str]] = {}
    libraries: list[Library] = []
    for folder in folders_of(prefix):
        try:
            names = [name for name in sorted(os.listdir(folder)) if _is_named_as_one(name)]
        except OSError:
            continue
        paths = [os.path.join(folder, name) for name in names[:MAX_FILES]]
        files = tuple(path for path in paths if os.path.isfile(path))
        for path in files:
            by_name.setdefault(os.path.basename(path), []).append(path)
        for path in _one_of_copies(files):
            if not _is_telling(path) or path.endswith((".a", ".lib")):
                continue
            try:
                library = examine(path, None, _include_dirs_beside(path))
            except (FormatError, OSError):
                continue
            if library is not None:
                libraries.append(library)
    found = Found(files=by_name, is_installation=True)
    return tuple(_compose.compose(_importable(libraries, by_name), found))


def folders_of(prefix: str) -> tuple[str, ...]:
    """Return the folders of an installation that may have libraries, itself first."""
    folders = [prefix]
    for base in (prefix, os.path.join(prefix, "usr"), os.path.join(prefix, "Library")):
        for lib in ("lib", "lib64", "bin"):
            folder = os.path.join(base, lib)
            if os.path.isdir(folder):
                folders.append(folder)
                folders += [one for one in _inside(folder) if one.endswith(("-gnu", "-musl"))]
    folders += [deeper for folder in folders[1:] or folders for deeper in _inside(folder)]
    return tuple(dict.fromkeys(folders))


def _is_named_as_one(name: str) -> bool:
    return ".so" in name or name.lower().endswith((".dylib", ".dll", ".a", ".lib"))


def _include_dirs_beside(path: str) -> tuple[str, ...]:
    """The include folders of an installed prefix, seen from its library.

    The library is in ``lib``, in the folder of its machine in there, or one deeper still.
    """
    prefix = os.path.dirname(os.path.abspath(path))
    # Debian has a folder of headers called as the one of the library.
    own = os.path.basename(prefix)
    machine = ""
    for _ in range(3):
        prefix, base = os.path.split(prefix)
        if base.endswith(("-gnu", "-musl")):
            machine = base
        include = os.path.join(prefix, "include")
        tops = [include, *([os.path.join(include, machine)] if machine else [])]
        folders = [
            os.path.join(top, name) for top in tops for name in (own, "", "openblas", "blis", "mkl")
        ]
        found = tuple(
            folder.rstrip(os.sep)
            for folder in dict.fromkeys(folders)
            if any(os.path.isfile(os.path.join(folder, header)) for header in _discovery.HEADERS)
        )
        if found or base in ("lib", "lib64", "bin"):
            return found
    return ()


def _one_of_copies(paths: tuple[str, ...]) -> list[str]:
    """Leave out what is the same file twice: wheels hold no links, so they hold copies.

    Of ``libopenblas.so``, ``.so.0`` and ``.so.0.3`` of one size in one folder the shortest name
    stays: the one that ``-lopenblas`` finds. So it is with ``libopenblas.0.dylib``, and with
    archives, whatever their names.
    """
    kept: dict[tuple[str, str, int], str] = {}
    for path in paths:
        folder, base = os.path.split(path)
        try:
            size = os.stat(path).st_size
        except OSError:
            size = -1
        key = (folder, _without_version(base), size)
        if key not in kept or len(path) < len(kept[key]):
            kept[key] = path
    return list(dict.fromkeys(kept.values()))


def _without_version(base: str) -> str:
    if base.endswith(".dylib"):
        return base.partition(".")[0] + ".dylib"
    return ".a" if base.endswith(".a") else base.partition(".so")[0]


def _has_file_list(info_dir: str) -> bool:
    return os.path.exists(os.path.join(info_dir, "RECORD"))


def _is_telling(path: str) -> bool:
    base = os.path.basename(path).lower()
    return any(word in base for word in _TELLING)
