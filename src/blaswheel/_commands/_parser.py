"""The parser of every command's options: argparse, with errors and output as everywhere here."""

from __future__ import annotations

import argparse
import os
import sys

from blaswheel._errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn


#: Options whose empty value means something.
MAY_BE_EMPTY = ("symbol_prefix", "symbol_suffix")


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """As wide as the terminal; asking for that by itself, argparse loads all of `shutil`."""

    def __init__(self, prog: str, width: int | None = None) -> None:
        super().__init__(prog, width=width or _columns() - 2)


def _columns() -> int:
    try:
        return int(os.environ["COLUMNS"])
    except (KeyError, ValueError):
        pass
    try:
        return os.get_terminal_size(1).columns or 80
    except OSError:
        return 80


class Parser(argparse.ArgumentParser):
    """Say what is wrong in one line and what to do in another; don't swallow failed writes."""

    def __init__(self, prog: str, description: str, epilog: str) -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            formatter_class=_Formatter,
            allow_abbrev=False,
        )

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str], namespace: None = None
    ) -> argparse.Namespace:
        """Parse; an empty value is one that somebody forgot to set, but for a prefix or suffix."""
        options = super().parse_args(args, namespace)
        for name, value in vars(options).items():
            if value == "" and name not in MAY_BE_EMPTY:
                raise UsageError(
                    f"the value of {name.replace('_', '-')} is empty", "give one, or leave it out"
                )
        return options

    def error(self, message: str) -> NoReturn:
        """Raise a `UsageError` instead of exiting."""
        raise UsageError(message, f"{self.prog} --help shows the options and an example")

    def print_help(self, file: object = None) -> None:
        """Write the help to standard output."""
        sys.stdout.write(self.format_help())
