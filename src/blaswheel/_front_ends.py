"""Commands that build a project with Meson, and where they take Meson's options."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: Program to its subcommands that build, and how an option is passed; None for no subcommand.
_PIP = ("install", "wheel", "download")
_FORMS: dict[str, tuple[tuple[str, ...] | None, str]] = {
    "pip": (_PIP, "-Csetup-args={}"),
    "build": (None, "-Csetup-args={}"),
    "pyproject-build": (None, "-Csetup-args={}"),
    "meson": (("setup", "configure"), "{}"),
}
_UV: dict[str, tuple[str, ...] | None] = {"pip": ("install", "sync"), "build": None}


def with_options(command: Sequence[str], options: Sequence[str]) -> list[str] | None:
    """Return a command with Meson options passed on; None if it is none that is known.

    Options that the command has already, with whatever value, are not added: the user's word
    comes last.

    Parameters
    ----------
    command : sequence of str
        ``pip wheel ...``, ``python -m build ...``, ``meson setup ...``, ``uv build ...``
    options : sequence of str
        ``-Dblas=openblas``

    >>> with_options(["pip", "wheel", "."], ["-Dblas=openblas"])
    ['pip', 'wheel', '-Csetup-args=-Dblas=openblas', '.']
    """
    found = _place(command)
    if found is None:
        return None
    at, form = found
    everything = " ".join(command)
    added = [
        form.format(option)
        for option in options
        if f"{option.partition('=')[0]}=" not in everything
    ]
    return [*command[:at], *added, *command[at:]]


def _place(command: Sequence[str]) -> tuple[int, str] | None:
    """Return where in a command options go, and their form."""
    program = _name(command[0]) if command else ""
    first = 1
    if program.startswith("python") and command[1:2] == ["-m"] and len(command) > 2:
        program, first = command[2], 3
    elif program.startswith("python") and len(command) > 1 and _name(command[1]) == "meson.py":
        # NumPy's own copy: python vendored-meson/meson/meson.py.
        program, first = "meson", 2
    elif program == "meson.py":
        program = "meson"
    if program.startswith("pip") and program[3:].replace(".", "").isdigit():
        program = "pip"
    if program == "uv" and len(command) > 1 and command[1] in _UV:
        subcommands, form = _UV[command[1]], "--config-setting=setup-args={}"
        first = 2
    elif program in _FORMS:
        subcommands, form = _FORMS[program]
    else:
        return None
    return (first, form) if subcommands is None else _after(command, first, subcommands, form)


def _after(
    command: Sequence[str], first: int, subcommands: Sequence[str], form: str
) -> tuple[int, str] | None:
    """Return the place after the subcommand, which may follow options of the program."""
    for number in range(first, len(command)):
        if command[number] in subcommands:
            return number + 1, form
        if not command[number].startswith("-"):
            return None
    return None


def _name(program: str) -> str:
    base = os.path.basename(program).lower()
    return base.removesuffix(".exe")
