"""``blaswheel completion``."""

from __future__ import annotations

from blaswheel import _completion
from blaswheel._commands import _options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

HELP = """Print a script by which a shell completes commands, options and their values."""
EXAMPLE = """examples:
  eval "$(blaswheel completion bash)"
  blaswheel completion fish > ~/.config/fish/completions/blaswheel.fish
  blaswheel completion zsh > ~/.zfunc/_blaswheel
"""


def configure(parser: ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("shell", choices=_completion.SHELLS, help="the shell")


def run(options: Namespace) -> int:
    """Print the script."""
    _options.put(_completion.script(options.shell))
    return 0
