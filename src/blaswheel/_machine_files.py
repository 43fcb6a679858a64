"""Meson's machine files that make it look into a folder of pkg-config files.

Specification: https://mesonbuild.com/Machine-files.html
"""

from __future__ import annotations

import os

from blaswheel import _files
from blaswheel._errors import BlaswheelError

_CROSS = """\
# For `meson setup --cross-file`, before the file that describes the machine: of what both set,
# that one then wins.
{path}
[binaries]
pkg-config = '{program}'

[properties]
pkg_config_libdir = ['{folder}']
"""


def native(folder: str) -> str:
    """Return a native file: ``folder`` before what else Meson would look into.

    Raises
    ------
    BlaswheelError
        If Meson can't be told of `folder`.
    """
    return _path(_quotable(folder))


def cross(folder: str, program: str) -> str:
    """Return a cross file: only ``folder``, since what the build machine has is not for the host.

    Parameters
    ----------
    folder : str
        Absolute path of the pkg-config files.
    program : str
        The pkg-config that reads them.

    Raises
    ------
    BlaswheelError
        If Meson can't be told of one of them.
    """
    plain = _quotable(folder)
    return _CROSS.format(path=_path(plain), program=_quotable(program), folder=plain)


def _path(folder: str) -> str:
    return f"[built-in options]\npkg_config_path = ['{folder}']\n"


def _quotable(path: str) -> str:
    # Meson knows no escapes in these files: a quote can't be written, a backslash is one.
    plain = _files.plain_path(path).replace(os.sep, "/")
    if "'" in plain or "\n" in plain:
        raise BlaswheelError(
            f"{path}: a Meson machine file can't name a path with a quote or a line break",
            "choose another folder for --dir",
        )
    return plain
