"""Lines that put a folder before what an environment variable holds, per shell."""

from __future__ import annotations

from blaswheel._errors import BlaswheelError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def _sh(name: str, folder: str) -> str:
    quoted = "'" + folder.replace("'", "'\\''") + "'"
    return f'export {name}={quoted}"${{{name}:+:${name}}}"\n'


def _fish(name: str, folder: str) -> str:
    quoted = "'" + folder.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return (
        f'if set -q {name}; and test -n "${name}"; set -gx {name} {quoted}:"${name}"; '
        f"else; set -gx {name} {quoted}; end\n"
    )


def _powershell(name: str, folder: str) -> str:
    quoted = "'" + folder.replace("'", "''") + "'"
    return (
        f"$env:{name} = {quoted} + "
        f"$(if ($env:{name}) {{ [IO.Path]::PathSeparator + $env:{name} }})\n"
    )


def _cmd(name: str, folder: str) -> str:
    # In a batch file % begins a variable; quotes and control characters are in no Windows path.
    quoted = folder.replace("%", "%%")
    return f'if defined {name} (set "{name}={quoted};%{name}%") else (set "{name}={quoted}")\n'


PREPEND: dict[str, Callable[[str, str], str]] = {
    "sh": _sh,
    "fish": _fish,
    "powershell": _powershell,
    "cmd": _cmd,
}


def prepend(shell: str, name: str, folder: str) -> str:
    """Return the line that puts ``folder`` first in the path variable ``name``.

    Raises
    ------
    BlaswheelError
        If a line of that shell can't say the folder.
    """
    if any(char in folder for char in "\r\n\0") or (shell == "cmd" and '"' in folder):
        raise BlaswheelError(
            f"{folder!r}: can't be named on a line of {shell}", "set BLASWHEEL_CACHE_DIR elsewhere"
        )
    return PREPEND[shell](name, folder)
