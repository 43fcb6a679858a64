"""``blaswheel repair``."""

from __future__ import annotations

import shlex

from blaswheel import _repair
from blaswheel._commands import _options
from blaswheel._errors import BlaswheelError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

HELP = """Make a wheel load its BLAS on other machines: with the library taken into it (by
auditwheel), or from the provider's wheel beside it. Prints the path of the repaired wheel."""
EXAMPLE = """examples:
  blaswheel repair dist/demo-1.0-cp312-cp312-linux_x86_64.whl
  blaswheel repair --from wheels -w out dist/demo-1.0-cp312-cp312-linux_x86_64.whl
  blaswheel repair --link --add-requires dist/demo-1.0-cp312-cp312-linux_x86_64.whl
"""


def configure(parser: ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("wheels", metavar="WHEEL", nargs="+", help="a wheel for Linux")
    parser.add_argument(
        "-w",
        "--wheel-dir",
        metavar="DIR",
        default="wheelhouse",
        help="where the repaired wheel goes (default: wheelhouse)",
    )
    parser.add_argument("--plat", metavar="TAG", help="the platform tag it shall have")
    group = parser.add_argument_group("the library")
    where = group.add_mutually_exclusive_group()
    where.add_argument("--vendor", action="store_true", help="take it into the wheel (the default)")
    where.add_argument("--link", action="store_true", help="leave it in the provider's wheel")
    group.add_argument(
        "--from",
        dest="source",
        metavar="WHEEL|DIR",
        help="take it from there, instead of from this environment",
    )
    group.add_argument(
        "--any-version",
        action="store_true",
        help="take another file than the one that the wheel was built with",
    )
    group.add_argument(
        "--add-requires",
        action="store_true",
        help="with --link: let the wheel require this version of the provider",
    )
    group.add_argument(
        "--no-preload",
        action="store_true",
        help="with --link: write no file that loads the library from another site-packages",
    )


def run(options: Namespace) -> int:
    """Repair each wheel."""
    wish = _repair.Wish(
        link=options.link,
        source=options.source,
        any_version=options.any_version,
        add_requires=options.add_requires,
        preload=not options.no_preload,
        platform=options.plat,
    )
    for path in options.wheels:
        other = _repair.other_tool(path)
        if other is not None:
            command, system = other
            folder = shlex.quote(options.wheel_dir)
            _options.put(command.format(folder=folder, wheel=shlex.quote(path)) + "\n")
            raise BlaswheelError(
                f"{path}: is for {system}, whose wheels blaswheel does not repair",
                "run the command above, with the provider installed",
            )
        done = _repair.repair(path, options.wheel_dir, wish)
        for note in done.notes:
            _options.say(note)
        _options.put(done.path + "\n")
    return 0
