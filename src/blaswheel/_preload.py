"""Loading the BLAS of an installed wheel into this process, for those who need it by name."""

from __future__ import annotations

import os
import sys

from blaswheel import _distributor
from blaswheel._errors import BlaswheelError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from blaswheel._library import Library

#: Handles by path: a library stays loaded, and a folder searched, as long as they are kept.
_loaded: dict[str, Any] = {}


def load(library: Library) -> list[str]:
    """Load the files of a library by their paths, for nobody but those who ask for it by name.

    Loading again does nothing. The provider is not imported: importing scipy-openblas makes its
    functions global, and other libraries take them for their own.

    Raises
    ------
    BlaswheelError
        If a file can't be loaded; the loader's reason is part of the message.
    """
    paths = [os.path.abspath(path) for path in _distributor.in_order(library)]
    for path in paths:
        if path not in _loaded:
            try:
                _loaded[path] = _open(path, single=len(paths) == 1)
            except OSError as error:
                raise BlaswheelError(
                    f"{path} can't be loaded: {error}", "blaswheel verify tells more"
                ) from error
    return paths


def _open(path: str, *, single: bool) -> object:
    import ctypes

    if sys.platform == "win32":
        folder = os.add_dll_directory(os.path.dirname(path))
        return folder, ctypes.WinDLL(path)
    if single:
        return ctypes.CDLL(path, mode=os.RTLD_LOCAL)
    # Layers that need each other both ways: what one wants of a later one is looked up when it is
    # called, in the whole process, since a library that was loaded by itself sees no other.
    process = ctypes.CDLL(None)
    process.dlopen.restype = ctypes.c_void_p
    process.dlerror.restype = ctypes.c_char_p
    handle = process.dlopen(os.fsencode(path), os.RTLD_LAZY | os.RTLD_GLOBAL)
    if not handle:
        raise OSError((process.dlerror() or b"").decode(errors="replace"))
    return handle
