"""``blaswheel exec``."""

from __future__ import annotations

import os
import sys

from blaswheel import _exported, _pkgconfig
from blaswheel._commands import _options
from blaswheel._commands._prepared import prepare
from blaswheel._errors import BlaswheelError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping, Sequence

    from blaswheel._offer import Offer

HELP = """Run a command that finds the environment's BLAS: the set of pkg-config files on its
PKG_CONFIG_PATH, a pkg-config that works, and the library's folder on the loader's path. With --for,
pip, build, uv and meson also get the options that the consumer's build needs."""
EXAMPLE = """examples:
  blaswheel exec -- meson setup build
  blaswheel exec -- ./prog
  blaswheel exec --for numpy --interface ilp64 -- \\
    pip wheel --no-cache-dir --no-binary numpy numpy
"""


def configure(parser: ArgumentParser) -> None:
    """Add the command's options."""
    parser.usage = "blaswheel exec [OPTIONS] [LIBRARY] -- CMD [ARG ...]"
    _options.add_selection(parser)
    _options.add_naming(parser)


def run(options: Namespace) -> int:
    """Run the command; its exit status is ours."""
    command: list[str] = options.command
    if not command:
        raise UsageError("no command to run", "blaswheel exec [OPTIONS] -- CMD [ARG ...]")
    written, _ = prepare(options, "origin")
    asked = os.environ.get("PKG_CONFIG")
    folders = (folder for offer in written.offers for folder in offer.directories)
    environ = _exported.environment(os.environ, written.folder, folders)
    program = environ["PKG_CONFIG"]
    if asked and not _pkgconfig.is_same(asked, program, os.environ):
        _options.say(f"PKG_CONFIG is {asked}, which reads no file; using {program}")
    if options.consumer is not None:
        command = _for_consumer(command, written.offers[0], options.consumer)
    return _run(command, environ)


def _for_consumer(command: list[str], offer: Offer, consumer: str) -> list[str]:
    """Return the command with what the consumer's build needs to be told, or tell the user."""
    from blaswheel import _front_ends
    from blaswheel._commands import _advice

    wanted = _advice.meson_options(offer, consumer, is_set=True)
    told = _front_ends.with_options(command, wanted)
    if told is None:
        _options.say(f"{command[0]} is not known to build: pass {' '.join(wanted)} to Meson")
        return command
    return told


def _run(command: Sequence[str], environ: Mapping[str, str]) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        if os.name == "posix":
            # The command takes our place: signals and the terminal reach it without a middleman.
            # Python ignores these two, which a command would inherit.
            import signal

            for name in (signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(name, signal.SIG_DFL)
            os.execvpe(command[0], list(command), dict(environ))
        import subprocess

        return subprocess.run(command, env=environ, check=False).returncode
    except OSError as error:
        raise BlaswheelError(
            f"{command[0]}: {error.strerror}", "give a command that is on PATH"
        ) from error
