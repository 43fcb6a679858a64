"""The command line: which command, and how errors leave it.

Each command is a module of `blaswheel._commands` with ``HELP`` (a line), ``EXAMPLE`` (of its
help), ``configure(parser)`` and ``run(options)``, which returns the exit status. Only the module
of the command that is run gets imported.
"""

from __future__ import annotations

import io
import os
import sys

from blaswheel._errors import BlaswheelError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

#: Command to what it does; the module is the command's name with an underscore before it.
COMMANDS = {
    "list": "list every BLAS library in the environment",
    "show": "tell all that is known of one library",
    "pc": "print or write pkg-config files",
    "env": "print the shell lines that put the pkg-config files on PKG_CONFIG_PATH",
    "exec": "run a command with the pkg-config files and the library at hand",
    "meson": "write the Meson subproject into a project",
    "cmake": "write CMake config files",
    "verify": "check a library by calling it, in a child process",
    "doctor": "tell why a build finds its BLAS or not, or why files load or not",
    "loaded": "tell of every BLAS in a process that imports modules",
    "pack": "make a wheel from an installed BLAS",
    "tag": "tell the honest platform tag of a wheel, and retag it",
    "repair": "make a wheel load its BLAS on other machines",
    "isolate": "copy a library so that no other library takes over its names",
    "completion": "print a script by which a shell completes commands and options",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``blaswheel ARGUMENTS`` and return its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _prepare_streams()
    try:
        status = _run(words)
        sys.stdout.flush()
    except BlaswheelError as error:
        status = _report(error)
    except BrokenPipeError:
        # The reader has what it wants (``blaswheel list | head -1``).
        _discard_output()
        status = 0
    except OSError as error:
        status = _report(_failed(error))
        if error.filename is None:
            _discard_output()
    except KeyboardInterrupt:
        status = 130
    return status


def _prepare_streams() -> None:
    """Make every standard stream one that can be written to, and that can write any path."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # Closed by the caller: its number must not become that of a file that we write.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _discard_output() -> None:
    """Write what is left to nowhere: Python's own flush at exit would complain once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _failed(error: OSError) -> BlaswheelError:
    """Return what a failed read or write means to a user, where nothing better was said."""
    why = error.strerror or str(error)
    if error.filename is None:
        return BlaswheelError(f"can't write the output: {why}", "send it elsewhere")
    return BlaswheelError(f"{os.fsdecode(error.filename)}: {why}", "see what is wrong with it")


def _run(words: list[str]) -> int:
    if words and words[0] in COMMANDS:
        name, words = words[0], words[1:]
    elif not words or (words[0].startswith("-") and words[0] not in ("-h", "--help", "--version")):
        name = "list"
    elif words[0] in ("-h", "--help"):
        sys.stdout.write(_help())
        return 0
    elif words[0] == "--version":
        from blaswheel import __version__

        sys.stdout.write(f"blaswheel {__version__}\n")
        return 0
    else:
        raise UsageError(
            f"no command {words[0]!r}",
            f"commands: {', '.join(COMMANDS)}; blaswheel --help tells what they do",
        )
    module = _module(name)
    command: list[str] | None = None
    if name == "exec":
        # What follows -- is another program's command line.
        end = words.index("--") if "--" in words else len(words)
        words, command = words[:end], words[end + 1 :]
    from blaswheel._commands._parser import Parser

    parser = Parser(f"blaswheel {name}", module.HELP, module.EXAMPLE)
    module.configure(parser)
    try:
        options = parser.parse_args(words)
    except SystemExit:
        # After --help.
        return 0
    if command is not None:
        options.command = command
    status: int = module.run(options)
    return status


def _module(name: str) -> ModuleType:
    from importlib import import_module

    return import_module(f"blaswheel._commands._{name}")


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [
        "usage: blaswheel [COMMAND] [OPTIONS]",
        "",
        "Use the BLAS inside an installed wheel from any build.",
        "",
        *(f"  {name:{width}}  {what}" for name, what in COMMANDS.items()),
        "",
        "Without a command: list. blaswheel COMMAND --help shows options and an example.",
        "",
    ]
    return "\n".join(lines)


def _report(error: BlaswheelError) -> int:
    sys.stderr.write(f"blaswheel: {error.message}\n")
    if error.hint:
        sys.stderr.write(f"  {error.hint}\n")
    return error.exit_status
