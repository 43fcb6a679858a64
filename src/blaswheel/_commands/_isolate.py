"""``blaswheel isolate``."""

from __future__ import annotations

from blaswheel import _isolate, _offer, _select
from blaswheel._commands import _options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

HELP = """Copy a library so that its own names can't be taken over by another library in the
process: bound to itself (DF_SYMBOLIC), under a SONAME of its own equal to the file's name."""
EXAMPLE = """example:
  blaswheel isolate scipy-openblas64 -o lib/libmyblas64.so
"""


def configure(parser: ArgumentParser) -> None:
    """Add the command's options."""
    _options.add_selection(parser)
    parser.add_argument(
        "-o", dest="output", metavar="FILE", required=True, help="the copy to write"
    )


def run(options: Namespace) -> int:
    """Write the copy."""
    asked = _options.asked(options)
    environment = asked.environment
    choice = _select.choose(environment.libraries, asked.wish, environment.problems)
    _offer.check_isolation(choice.library)
    _isolate.write(choice.library.path, options.output)
    return 0
