"""The small file by which a package loads its BLAS before its extension modules do."""

from __future__ import annotations

import ast
import os

from blaswheel import _files, _runtime, _static
from blaswheel._errors import BlaswheelError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from blaswheel._library import Library

STEM = "_distributor_init"
NAME = f"{STEM}.py"
#: On the third line of the file.
_MARK = b"Written by blaswheel."

_TEXT = '''\
"""Load the BLAS of a wheel before the extension modules that need it. Import this first.

Written by blaswheel. A library of one file is loaded by its path for those alone that ask for it
by name: nothing else in the process gets to see its functions.
"""

import ctypes
import os
import sys
from importlib import metadata

PROVIDER = {provider!r}
REQUIREMENT = {requirement!r}
#: In the order in which they are loaded.
FILES = {files!r}


def _paths():
    try:
        distribution = metadata.distribution(PROVIDER)
    except metadata.PackageNotFoundError:
        raise ImportError(
            f"{{PROVIDER}} is not installed, whose BLAS is needed here: pip install "
            f"'{{REQUIREMENT}}'"
        ) from None
    known = {{file.name: file for file in distribution.files or ()}}
    for name in FILES:
        path = os.fspath(distribution.locate_file(known[name])) if name in known else ""
        if not os.path.isfile(path):
            raise ImportError(
                f"{{name}} is missing in {{PROVIDER}} {{distribution.version}}: pip install "
                f"--force-reinstall '{{REQUIREMENT}}'"
            )
        yield os.path.abspath(path)


def _load(path):
    if sys.platform == "win32":
        _kept.append(os.add_dll_directory(os.path.dirname(path)))
        return ctypes.WinDLL(path)
    if len(FILES) == 1:
        return ctypes.CDLL(path, mode=os.RTLD_LOCAL)
    # Layers that need each other both ways: what one wants of a later one is looked up when it
    # is called, in the whole process, since a library that was loaded by itself sees no other.
    process = ctypes.CDLL(None)
    process.dlopen.restype = ctypes.c_void_p
    process.dlerror.restype = ctypes.c_char_p
    handle = process.dlopen(os.fsencode(path), os.RTLD_LAZY | os.RTLD_GLOBAL)
    if not handle:
        raise ImportError((process.dlerror() or b"").decode(errors="replace"))
    return handle


#: Handles: a library stays loaded, and a folder searched, as long as they are kept.
_kept = []
for _path in _paths():
    _kept.append(_load(_path))
'''


def write(path: str, library: Library) -> str:
    """Write the file that loads a library; return its path.

    Parameters
    ----------
    path : str
        A package's folder, in which it is called ``_distributor_init.py``, or the file's own path.
    library : Library
        Of a distribution: that is how it is found where the package is installed.

    Raises
    ------
    BlaswheelError
        If the library can't be loaded in this way, or the file can't be written.
    """
    if os.path.isdir(path):
        path = os.path.join(path, NAME)
    _files.write_atomically(path, text(library).encode())
    return path


def text(library: Library) -> str:
    """Return the content of the file.

    Raises
    ------
    BlaswheelError
        If the library is of no distribution, static, or built for musl.
    """
    provider = library.provider
    if provider is None or library.of_system:
        raise BlaswheelError(
            f"{library.title} is in no distribution, by whose name it could be found elsewhere",
            "choose one that pip installs",
        )
    return _TEXT.format(
        provider=provider.name,
        requirement=f"{provider.name}=={provider.version}",
        files=tuple(os.path.basename(each) for each in in_order(library)),
    )


def placed(
    needing: Iterable[tuple[str, Library]], read: Callable[[str], bytes | None]
) -> tuple[dict[str, bytes], list[str]]:
    """Return the files that load the libraries for the packages of a wheel.

    Parameters
    ----------
    needing : iterable of (str, Library)
        Each module's name in the wheel, and a library that it needs.
    read : callable
        Returns the content of a member of the wheel; None if there is no such member.

    Returns
    -------
    files : dict
        Member to content.
    notes : list of str
        What the wheel's maker should know, a line each.
    """
    packages: dict[str, list[Library]] = {}
    for member, library in needing:
        top, deeper, _ = member.partition("/")
        known = packages.setdefault(top, []) if deeper else []
        if library not in known:
            known.append(library)
    files: dict[str, bytes] = {}
    notes = []
    for package, libraries in packages.items():
        start = read(f"{package}/__init__.py")
        if start is None:
            continue
        for number, library in enumerate(libraries):
            module = STEM if not number else f"{STEM}_{library.interface}"
            present = read(f"{package}/{module}.py")
            if present is not None and not is_ours(present):
                # NumPy's and SciPy's own, which imports another one if that is there.
                own, module = module, f"{module}_local"
                if not _imports(present, module):
                    notes.append(f"{package}/{own}.py is the project's own, and stays as it is")
                    continue
                start += b"\n" + present
            try:
                files[f"{package}/{module}.py"] = text(library).encode()
            except BlaswheelError as error:
                notes.append(f"no file that loads the library first: {error.message}")
                continue
            if not _imports(start, module):
                notes.append(
                    f"{package}/__init__.py does not import {module}: the library is found in the "
                    "same site-packages only; before its first extension module let it say: "
                    f"from . import {module}"
                )
    return files, notes


def _imports(source: bytes, module: str) -> bool:
    """Tell whether Python code imports a module of its own package; nothing of it is run."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            parts = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Import):
            parts = [part for alias in node.names for part in alias.name.split(".")]
        else:
            continue
        if module in parts:
            return True
    return False


def is_ours(content: bytes) -> bool:
    """Tell whether a file is one that `text` gave."""
    return _MARK in content[:400]


def in_order(library: Library) -> tuple[str, ...]:
    """Return the files of a library as they are to be loaded: what others need comes first.

    Raises
    ------
    BlaswheelError
        If it is static, or built for musl.
    """
    if _static.is_static(library):
        raise BlaswheelError(
            f"{library.title} is a static library, which nobody loads", "choose another library"
        )
    _runtime.check_preload(library.title, library.binary.needed)
    return tuple(reversed(library.files))
