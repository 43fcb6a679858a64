"""``blaswheel env``."""

from __future__ import annotations

import os

from blaswheel._commands import _advice, _options, _shells
from blaswheel._commands._prepared import prepare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

HELP = "Print the shell lines that put a set of pkg-config files for this environment on the path."
EXAMPLE = """examples:
  eval "$(blaswheel env)"
  blaswheel env --shell powershell | Out-String | Invoke-Expression
"""


def configure(parser: ArgumentParser) -> None:
    """Add the command's options."""
    _options.add_selection(parser)
    _options.add_naming(parser)
    parser.add_argument(
        "--shell", choices=sorted(_shells.PREPEND), help="the shell's language (default: sh)"
    )


def run(options: Namespace) -> int:
    """Write the set to the cache and print the lines."""
    written, environment = prepare(options, "link")
    shell = options.shell or ("cmd" if os.name == "nt" else "sh")
    _options.put(_shells.prepend(shell, "PKG_CONFIG_PATH", written.folder))
    _advice.files(written.offers, environment, options.consumer, written.folder)
    return 0
