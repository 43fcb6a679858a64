"""The environment variables with which a build finds a set of files and the library behind it."""

from __future__ import annotations

import os
import sys

from blaswheel import _files, _pkgconfig

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: What the loader searches before the system's folders.
LOADER_PATH = {"darwin": "DYLD_LIBRARY_PATH", "win32": "PATH"}.get(sys.platform, "LD_LIBRARY_PATH")


def environment(
    environ: Mapping[str, str], folder: str | None, library_dirs: Iterable[str]
) -> dict[str, str]:
    """Return ``environ`` with a pkg-config that works and finds the files in ``folder``.

    Parameters
    ----------
    environ : mapping
    folder : str, optional
        That of the set, which comes before what is on ``PKG_CONFIG_PATH``.
    library_dirs : iterable of str
        For the loader: a program that a build runs finds the library, however it was linked.

    Raises
    ------
    BlaswheelError
        If no pkg-config works.
    """
    changed = dict(environ)
    program = _pkgconfig.working(environ)
    changed["PKG_CONFIG"] = program
    own = _pkgconfig.folder_for(program, environ)
    if own is not None:
        _prepend(changed, "PATH", [own])
    if folder is not None:
        _prepend(changed, "PKG_CONFIG_PATH", [folder])
    _prepend(changed, LOADER_PATH, [_files.loader_path(one) for one in library_dirs])
    return changed


def _prepend(environ: dict[str, str], name: str, folders: list[str]) -> None:
    before = [environ[name]] if environ.get(name) else []
    if folders:
        environ[name] = os.pathsep.join([*dict.fromkeys(folders), *before])
