"""Every BLAS library of an environment: from installed distributions, or one file given by path."""

from __future__ import annotations

import os

from blaswheel import _binary, _compose, _discovery
from blaswheel._compose import Found
from blaswheel._errors import BlaswheelError, FormatError
from blaswheel._library import examine
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from blaswheel._library import Library

#: Files that are named like these are told when they can't be read; any other file that looks
#: like a library but is none concerns nobody here.
_TELLING = ("blas", "lapack", "mkl", "blis", "atlas", "nvpl", "flexi")


class Environment(Record):
    """What was found.

    Attributes
    ----------
    libraries : tuple of Library
        In the order of the search path.
    problems : tuple of str
        One line for each library that is listed but can't be read.
    """

    libraries: tuple[Library, ...]
    problems: tuple[str, ...] = ()


def survey(
    root: str | None = None, python: str | None = None, *, system: bool = False
) -> Environment:
    """Find every BLAS library of an environment, running nothing and loading nothing.

    Parameters
    ----------
    root, python : str, optional
        As for `blaswheel._discovery.search_path`.
    system : bool
        Also those of the system.
    """
    libraries: list[Library] = []
    problems: list[str] = []
    by_name: dict[str, list[str]] = {}
    include_dirs: list[tuple[str, str]] = []
    for distribution, info_dir in _discovery.distributions(_discovery.search_path(root, python)):
        files = _discovery.files(distribution, info_dir)
        if files is None:
            if _is_telling(distribution.name) and not _has_file_list(info_dir):
                problems.append(f"{distribution}: its list of files (RECORD) is missing")
            continue
        for path in files.libraries:
            by_name.setdefault(os.path.basename(path), []).append(path)
        include_dirs += [(distribution.name, folder) for folder in files.include_dirs]
        for path in _one_of_copies(files.libraries):
            problem = None
            try:
                library = examine(path, distribution, files.include_dirs)
                if library is not None:
                    libraries.append(library)
            except FormatError as error:
                problem = error.message
            except OSError as error:
                problem = f"{path}: {error.strerror}"
            if problem and _is_telling(path):
                problems.append(f"{distribution}: {problem}")
    libraries = _importable(libraries, by_name)
    shared = [library for library in libraries if library.binary.format != "ar"]
    composed = _compose.compose(shared, Found(files=by_name, include_dirs=include_dirs))
    static = [_static(library) for library in libraries if library.binary.format == "ar"]
    found = (*composed, *static)
    if system:
        from blaswheel import _system

        own = {os.path.realpath(path) for one in found for path in one.files}
        further = [one for one in _system.libraries() if os.path.realpath(one.path) not in own]
        found = (*found, *further)
    return Environment(libraries=found, problems=tuple(problems))


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


def one_file(path: str, environment: Environment) -> Library:
    """Return the library at ``path``: of the environment's if it is one, else by itself.

    Raises
    ------
    BlaswheelError
        If it can't be read or is no BLAS.
    """
    real = os.path.realpath(path)
    for library in environment.libraries:
        if os.path.realpath(library.path) == real:
            return library
    try:
        found = examine(os.path.abspath(path), None, _include_dirs_beside(path))
    except OSError as error:
        raise BlaswheelError(
            f"{path}: {error.strerror}", "give the path of a shared library"
        ) from error
    if found is None:
        raise BlaswheelError(
            f"{path}: is no BLAS: it exports no full set of BLAS, CBLAS, LAPACK or LAPACKE",
            "give the path of a BLAS library; blaswheel list shows those that are installed",
        )
    return found


def including(path: str, environment: Environment) -> Environment:
    """Return the environment with the library at ``path`` in it.

    Raises
    ------
    BlaswheelError
        If it can't be read or is no BLAS.
    """
    library = one_file(path, environment)
    if library in environment.libraries:
        return environment
    return environment.replace(libraries=(*environment.libraries, library))


def _include_dirs_beside(path: str) -> tuple[str, ...]:
    """The include folders of an installed prefix, seen from its library."""
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(path)))
    include = os.path.join(prefix, "include")
    folders = [include, *(os.path.join(include, name) for name in ("openblas", "blis", "mkl"))]
    return tuple(
        folder
        for folder in folders
        if any(os.path.isfile(os.path.join(folder, header)) for header in _discovery.HEADERS)
    )


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
