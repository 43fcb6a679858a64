"""BLAS libraries of the system: where the loader and pkg-config look, read as files.

Neither is run: the loader's cache and the ``.pc`` files are read. A distribution may have several
implementations at once, each in a folder of its own, of which its alternatives choose one for the
loader (Debian's ``libblas.so.3``): all are found, and it is told where the loader takes another.
Source of the cache's format: glibc, ``sysdeps/generic/dl-cache.h``.
"""

from __future__ import annotations

import os
import struct
import sys

from blaswheel import _compose, _discovery, _shipped
from blaswheel._compose import Found
from blaswheel._errors import FormatError
from blaswheel._library import Defect, Library, examine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Words in the names of files and folders that are looked at; others concern nobody here.
WORDS = ("blas", "lapack", "mkl", "blis", "atlas", "nvpl", "flexi")
LOADER_CACHE = "/etc/ld.so.cache"
_MAGIC = b"glibc-ld.so.cache1.1"
_HEADER, _ENTRY = struct.Struct("=20sIIB3xI12x"), struct.Struct("=iIIIQ")
#: A cache has some thousand entries.
_LIMIT = 32 << 20
#: Of one folder; ``/usr/lib`` has some thousand files.
_MAX_FILES = 100_000
_LOADER_PATH = {"darwin": "DYLD_LIBRARY_PATH"}.get(sys.platform, "LD_LIBRARY_PATH")
_DEFAULTS = {
    "darwin": ("/usr/local/lib", "/opt/homebrew/lib", "/opt/homebrew/opt/openblas/lib"),
    "win32": (),
}
_UNIX = ("/usr/local/lib", "/usr/local/lib64", "/usr/lib", "/usr/lib64", "/lib", "/lib64")


def libraries(environ: Mapping[str, str] = os.environ) -> tuple[Library, ...]:
    """Return the BLAS libraries of the system, in the order in which they are looked for.

    ``LD_LIBRARY_PATH`` first, then the folders that ``.pc`` files on ``PKG_CONFIG_PATH`` and
    pkg-config's own path name, the loader's cache, the usual folders.
    """
    loader = loader_cache()
    versions = _pc_versions(environ)
    folders = [*_entries(environ, _LOADER_PATH), *versions, *map(os.path.dirname, loader.values())]
    folders += _usual()
    by_name: dict[str, list[str]] = {}
    found: list[Library] = []
    for path in _candidates(folders, by_name):
        try:
            library = examine(path, None, include_dirs(path))
        except (FormatError, OSError):
            continue
        if library is not None and runs_here(library):
            found.append(library)
    composed = _compose.compose(found, Found(files=by_name, is_installation=True))
    searched = _entries(environ, _LOADER_PATH)
    return tuple(
        one.replace(
            of_system=True,
            version=one.version or versions.get(one.directory),
            defects=(*one.defects, *_taken(one, loader, searched)),
        )
        for one in composed
    )


def loader_cache(path: str = LOADER_CACHE) -> dict[str, str]:
    """Return what the loader's cache says of libraries named as a BLAS: file name to path.

    Empty where there is none, or it is of another kind (musl, other systems).
    """
    try:
        with open(path, "rb") as file:
            content = file.read(_LIMIT)
    except OSError:
        return {}
    # Caches for old loaders too have this part inside.
    begin = content.find(_MAGIC)
    if begin < 0 or len(content) < begin + _HEADER.size:
        return {}
    _, count, _, _, _ = _HEADER.unpack_from(content, begin)
    table = content[begin + _HEADER.size : begin + _HEADER.size + count * _ENTRY.size]
    found: dict[str, str] = {}
    for _, key, value, _, _ in _ENTRY.iter_unpack(table[: len(table) // _ENTRY.size * _ENTRY.size]):
        name, target = _text(content, begin + key), _text(content, begin + value)
        if _is_telling(name) and os.path.isabs(target):
            found.setdefault(name, target)
    return found


def _text(content: bytes, at: int) -> str:
    return os.fsdecode(content[at : max(at, content.find(b"\0", at, at + 4096))])


def _entries(environ: Mapping[str, str], name: str) -> list[str]:
    """Return the folders of a path variable."""
    # The GNU loader takes a semicolon for a separator too.
    text = environ.get(name, "").replace(";", os.pathsep)
    return [os.path.abspath(entry) for entry in text.split(os.pathsep) if entry]


def _usual() -> list[str]:
    folders = list(_DEFAULTS.get(sys.platform, _UNIX))
    if sys.platform not in _DEFAULTS:
        for base in ("/usr/local/lib", "/usr/lib"):
            folders += [one for one in _inside(base) if os.path.basename(one).endswith(TRIPLETS)]
    return folders


#: How Debian's folders per machine end.
TRIPLETS = ("-gnu", "-gnueabihf", "-gnueabi", "-gnux32", "-musl", "-musleabihf")


def _pc_versions(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the library folders that ``.pc`` files of a BLAS name, with the version they say."""
    fixed = _entries(environ, "PKG_CONFIG_LIBDIR")
    path = _entries(environ, "PKG_CONFIG_PATH")
    path += fixed or [
        os.path.join(folder, "pkgconfig")
        for folder in (*_usual(), "/usr/share", "/usr/local/share")
    ]
    found: dict[str, str] = {}
    for folder in dict.fromkeys(path):
        for name in _names(folder):
            if not name.endswith(".pc") or not _is_telling(name):
                continue
            file = _shipped.read(os.path.join(folder, name))
            if file is None:
                continue
            words = file.fields.get("Libs", "").split()
            named = [word[2:] for word in words if word.startswith("-L/")]
            named.append(file.variables.get("libdir", ""))
            for library_dir in filter(os.path.isabs, named):
                found.setdefault(os.path.normpath(library_dir), file.fields.get("Version", ""))
    return found


def _candidates(folders: Iterable[str], by_name: dict[str, list[str]]) -> list[str]:
    """Return the files to look at, each once, by the best of its names.

    Fill ``by_name`` with the paths of all that are named as libraries, by their names.
    """
    queue = [folder for folder in dict.fromkeys(folders) if os.path.isdir(folder)]
    queue += [one for folder in queue for one in _inside(folder) if _is_telling(one)]
    best: dict[str, str] = {}
    for folder in dict.fromkeys(queue):
        for name in _names(folder):
            if not (".so" in name or name.endswith(".dylib")):
                continue
            path = os.path.join(folder, name)
            if not os.path.isfile(path):
                continue
            by_name.setdefault(name, []).append(path)
            if not _is_telling(name):
                continue
            real = os.path.realpath(path)
            if real not in best or _worth(path, real) < _worth(best[real], real):
                best[real] = path
    return list(best.values())


def _worth(path: str, real: str) -> tuple[bool, bool, int]:
    """Order the names of one file: in its own folder, for development, without versions.

    A name elsewhere is what the alternatives choose today.
    """
    elsewhere = os.path.realpath(os.path.dirname(path)) != os.path.dirname(real)
    return elsewhere, not path.endswith((".so", ".dylib")), len(os.path.basename(path))


def include_dirs(path: str) -> tuple[str, ...]:
    """Return the folders with the headers of a library of the system.

    ``/usr/include`` and its folder per machine, and in them one called as the library's own folder
    (Debian's ``openblas-pthread``), or as the implementation.
    """
    folder = os.path.dirname(os.path.abspath(path))
    names = [os.path.basename(folder), "openblas", "blis", "mkl", "flexiblas", "atlas", ""]
    stem = os.path.basename(path).removeprefix("lib").partition(".")[0]
    found: dict[str, None] = {}
    machine = ""
    for _ in range(3):
        folder, base = os.path.split(folder)
        if base.endswith(TRIPLETS):
            machine = base
        include = os.path.join(folder, "include")
        for top in (os.path.join(include, machine), include):
            for name in names:
                own = name in (names[0], "") or name in stem
                candidate = os.path.join(top, name).rstrip(os.sep)
                if own and any(_has(candidate, header) for header in _discovery.HEADERS):
                    found[candidate] = None
        if base in ("lib", "lib64", "bin"):
            break
    return tuple(found)


def _has(folder: str, name: str) -> bool:
    return os.path.isfile(os.path.join(folder, name))


def runs_here(library: Library) -> bool:
    """Tell whether a library is of this machine: several may be installed side by side."""
    machine = os.uname().machine if hasattr(os, "uname") else "x86_64"
    bits = 64 if sys.maxsize > 1 << 32 else 32
    own = {"arm64": "aarch64", "i386": "i686"}
    known = {own.get(one, one) for one in (library.binary.machine, *library.binary.machines)}
    return library.binary.bits == bits and (own.get(machine, machine) in known or bits == 32)


def _taken(library: Library, loader: Mapping[str, str], searched: Iterable[str]) -> list[Defect]:
    """Tell where the loader finds another library under a library's SONAME, or none."""
    soname = library.binary.soname
    if not soname or library.binary.format != "elf" or os.path.isabs(soname):
        return []
    first = next((folder for folder in searched if _has(folder, soname)), None)
    found = os.path.join(first, soname) if first else loader.get(soname)
    if found is None:
        usual = (os.path.join(folder, soname) for folder in _usual())
        found = next((path for path in usual if os.path.isfile(path)), None)
    own = os.path.join(library.directory, soname)
    if found is not None and os.path.realpath(found) == os.path.realpath(own):
        return []
    what = f"finds {found} for {soname}, which is not this" if found else f"finds no {soname}"
    message = f"the loader {what}: use --runtime absolute"
    return [Defect(code="loader-path", severity="warning", message=message)]


def _is_telling(path: str) -> bool:
    base = os.path.basename(path).lower()
    return any(word in base for word in WORDS)


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))[:_MAX_FILES]
    except OSError:
        return []


def _inside(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.path for entry in entries if entry.is_dir())
    except OSError:
        return []
