"""Where a system's loader finds the libraries that a file needs, by its own rules.

* ELF, glibc: the requester's ``DT_RPATH`` and those of the files that brought it in, unless it has
  a ``DT_RUNPATH``; then that, which is not inherited; a library that is loaded already serves by
  its SONAME, wherever it is (ld.so(8)).
* Mach-O: ``@loader_path`` is the requester's folder, ``@rpath`` stands for each ``LC_RPATH`` of the
  requester and of the files that brought it in (dyld(1)).
* Windows: the folder of the module, and those that a package adds; names have no case.
"""

from __future__ import annotations

import os

from blaswheel import _policies
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from blaswheel._binary import Binary

_ORIGINS = ("$ORIGIN", "${ORIGIN}")
_MUSL = ("libc.so", "libc.musl-")
_LOADERS = ("ld-linux", "ld64.so", "ld-musl", "linux-vdso")
#: What every macOS and Windows has. Python's own DLLs are in the process before any module.
_MACOS = ("/usr/lib/", "/System/")
_WINDOWS = (
    "advapi32", "api-ms-", "bcrypt", "cfgmgr32", "comctl32", "comdlg32", "crypt32", "dbghelp",
    "dwmapi", "gdi32", "imm32", "iphlpapi", "kernel32", "kernelbase", "msvcrt", "netapi32", "ntdll",
    "ole32", "oleaut32", "opengl32", "pdh", "powrprof", "psapi", "python", "rpcrt4", "secur32",
    "setupapi", "shell32", "shlwapi", "synchronization", "ucrtbase", "user32", "userenv", "uxtheme",
    "vcruntime140", "version", "winhttp", "wininet", "winmm", "winspool", "ws2_32", "wsock32",
)  # fmt: skip


class Missing(Record):
    """A library that the loader does not find.

    Attributes
    ----------
    file : str
        The file that needs it.
    name : str
    outside : tuple of str
        Where its run paths lead to that nothing is: other packages.
    """

    file: str
    name: str
    outside: tuple[str, ...]


class Loaded(Record):
    """What a module brings into a process.

    Attributes
    ----------
    files : tuple of str
        In the order of loading, the module first.
    missing : tuple of Missing
    """

    files: tuple[str, ...]
    missing: tuple[Missing, ...]


def load(path: str, files: Mapping[str, Binary]) -> Loaded:
    """Follow what a module needs.

    Parameters
    ----------
    path : str
        The module, one of `files`.
    files : mapping
        Every binary there is, by its path.
    """
    order = [path]
    parents: dict[str, str | None] = {path: None}
    names: dict[str, str] = {}
    missing = []
    for file in order:
        binary = files[file]
        for name in binary.needed:
            if _is_system(name, binary) or _known(name, binary) in names:
                continue
            found, tried = _find(name, file, parents, files)
            if found is None:
                missing.append(Missing(file=file, name=name, outside=tuple(tried)))
                continue
            names[_known(name, binary)] = found
            soname = files[found].soname
            if soname and binary.system == "elf":
                names.setdefault(soname, found)
            if found not in parents:
                parents[found] = file
                order.append(found)
    return Loaded(files=tuple(order), missing=tuple(missing))


def alone(path: str, files: Mapping[str, Binary]) -> Iterator[str]:
    """Yield what a file needs and finds only if somebody else has loaded it before."""
    binary = files[path]
    here = {os.path.basename(one): one for one in files}
    for name in binary.needed:
        if _is_system(name, binary) or name not in here:
            continue
        found, _ = _find(name, path, {path: None}, files)
        if found is None:
            yield name


def run_paths(path: str, binary: Binary) -> Iterator[tuple[str, str]]:
    """Yield each run path of a file as it is written, and the folder that it stands for."""
    home = os.path.dirname(path)
    for entry in (*binary.rpath, *binary.runpath):
        yield entry, _expand(entry, home)


def _expand(entry: str, home: str) -> str:
    for origin in (*_ORIGINS, "@loader_path"):
        if entry == origin or entry.startswith(f"{origin}/"):
            return os.path.normpath(home + entry[len(origin) :])
    return entry


def _known(name: str, binary: Binary) -> str:
    return name.lower() if binary.system == "pe" else name


def _is_system(name: str, binary: Binary) -> bool:
    """Tell whether every system of the kind has a library."""
    if binary.system == "macho":
        return name.startswith(_MACOS)
    if binary.system == "pe":
        return name.lower().startswith(_WINDOWS)
    return name in _policies.LIBRARIES or name.startswith((*_LOADERS, *_MUSL))


def _find(
    name: str, file: str, parents: Mapping[str, str | None], files: Mapping[str, Binary]
) -> tuple[str | None, list[str]]:
    """Return the file that the loader takes, and the folders it looked into where nothing is."""
    binary = files[file]
    tried = []
    for candidate in _candidates(name, file, parents, files):
        if candidate in files:
            return candidate, []
        tried.append(os.path.dirname(candidate))
    if binary.system == "pe":
        wanted = name.lower()
        # The folders that packages add: where their DLLs are.
        found = next((one for one in files if os.path.basename(one).lower() == wanted), None)
        return found, tried
    return None, tried


def _candidates(
    name: str, file: str, parents: Mapping[str, str | None], files: Mapping[str, Binary]
) -> Iterator[str]:
    binary = files[file]
    home = os.path.dirname(file)
    if binary.system == "macho":
        if name.startswith("@rpath/"):
            one: str | None = file
            while one is not None:
                for _entry, folder in run_paths(one, files[one]):
                    yield os.path.normpath(os.path.join(folder, name[len("@rpath/") :]))
                one = parents[one]
        elif name.startswith("@loader_path/"):
            yield os.path.normpath(os.path.join(home, name[len("@loader_path/") :]))
        else:
            yield name
        return
    if "/" in name:
        yield os.path.normpath(os.path.join(home, name))
        return
    if binary.system == "pe":
        yield os.path.join(home, name)
        return
    folders = []
    if not binary.runpath:
        one = file
        while one is not None:
            if not files[one].runpath:
                folders += [_expand(entry, os.path.dirname(one)) for entry in files[one].rpath]
            one = parents[one]
    folders += [_expand(entry, home) for entry in binary.runpath]
    for folder in folders:
        yield os.path.join(folder, name)
