"""The parser of every command's options: argparse, with errors and output as everywhere here."""

from __future__ import annotations

import argparse
import sys

from blaswheel._errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """Say what is wrong in one line and what to do in another; don't swallow failed writes."""

    def __init__(self, prog: str, description: str, epilog: str) -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        """Raise a `UsageError` instead of exiting."""
        raise UsageError(message, f"{self.prog} --help shows the options and an example")

    def print_help(self, file: object = None) -> None:
        """Write the help to standard output."""
        sys.stdout.write(self.format_help())
