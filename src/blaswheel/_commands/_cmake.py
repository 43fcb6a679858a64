"""``blaswheel cmake``."""

from __future__ import annotations

import os

from blaswheel import _cmake, _set, _verify
from blaswheel._commands import _advice, _options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

HELP = """Write CMake config files, for find_package(OpenBLAS), BLAS, CBLAS, LAPACK and LAPACKE.
BLA_SIZEOF_INTEGER chooses between 32-bit (4) and 64-bit (8) integers, if both are here."""
EXAMPLE = """example:
  blaswheel cmake --dir blas
  cmake -B build -DCMAKE_PREFIX_PATH=$PWD/blas -DCMAKE_FIND_PACKAGE_PREFER_CONFIG=ON
"""


def configure(parser: ArgumentParser) -> None:
    """Add the command's options."""
    _options.add_selection(parser)
    _options.add_naming(parser)
    group = parser.add_argument_group("output")
    group.add_argument("--dir", metavar="DIR", required=True, help="write them below this folder")


def run(options: Namespace) -> int:
    """Write the files."""
    request = _options.request(options, "link")
    asked = _options.asked(options)
    libraries = tuple(map(_verify.as_known, asked.environment.libraries))
    choices = _set.choices_for(
        libraries, asked.wish, asked.environment.problems, request, options.consumer
    )
    _cmake.write(options.dir, choices, request)
    _advice.choice(choices)
    _options.say(
        f"cmake -DCMAKE_PREFIX_PATH={os.path.abspath(options.dir)} "
        "-DCMAKE_FIND_PACKAGE_PREFER_CONFIG=ON: without the latter CMake's own modules look for "
        "BLAS and LAPACK"
    )
    return 0
