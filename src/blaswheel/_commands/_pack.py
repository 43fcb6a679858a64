"""``blaswheel pack``."""

from __future__ import annotations

from blaswheel import _pack
from blaswheel._commands import _options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

HELP = """Make a wheel from an installed BLAS: the library under a name of its own, its headers, a
pkg-config file, a CMake config and the licences. What the library needs beyond a manylinux tag is
put beside it by auditwheel. All is compiled, linked and called before the wheel is written."""
EXAMPLE = """examples:
  blaswheel pack /opt/OpenBLAS --name my-openblas
  blaswheel pack /usr --library lib/x86_64-linux-gnu/blis-pthread/libblis.so.4 --name my-blis
"""


def configure(parser: ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("prefix", metavar="PREFIX", help="where it is installed, with lib/")
    parser.add_argument(
        "--name", required=True, help="of the wheel; its module is called so too (my_openblas)"
    )
    parser.add_argument(
        "--version", metavar="V", help="of the wheel, by default the library's release"
    )
    parser.add_argument(
        "--library",
        metavar="FILE",
        help="the library's file, where PREFIX has several; may be relative to PREFIX",
    )
    parser.add_argument(
        "--license",
        metavar="FILE",
        action="append",
        default=[],
        help="a licence to include, beside those that PREFIX has; may be repeated",
    )
    parser.add_argument(
        "-o", dest="folder", metavar="DIR", default=".", help="write the wheel into this folder"
    )


def run(options: Namespace) -> int:
    """Write the wheel and print its path."""
    packed = _pack.pack(
        options.prefix,
        options.name,
        options.version,
        file=options.library,
        licences=options.license,
        folder=options.folder,
    )
    for note in packed.notes:
        _options.say(note)
    _options.put(packed.path + "\n")
    return 0
