"""``blaswheel list``."""

from __future__ import annotations

import sys

from blaswheel import _verify
from blaswheel._commands import _options
from blaswheel._compose import is_gnu
from blaswheel._library import APIS
from blaswheel._select import INSTALL, THREADING, rank

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from blaswheel._library import Library

HELP = "List every BLAS library in the environment, those that can't be linked against included."
EXAMPLE = """example:
  blaswheel list
  blaswheel list --json --root build/site-packages
  blaswheel list --system
"""


def configure(parser: ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    _options.add_place(parser)


def run(options: Namespace) -> int:
    """Print the table, or the JSON."""
    environment = _options.survey(options)
    known = [_verify.as_known(one) for one in environment.libraries]
    libraries = sorted(known, key=lambda one: (not one.linkable, rank(one)))
    for problem in environment.problems:
        _options.say(problem)
    for one in libraries:
        for defect in one.defects:
            if defect.severity == "fatal":
                _options.say(f"{one.title} {defect.message}")
    if options.json:
        import json

        document = {"schema": 1, "libraries": [one.as_json() for one in libraries]}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    elif libraries:
        sys.stdout.write(table(libraries))
    else:
        _options.say("no BLAS library is installed in this environment")
        sys.stderr.write(f"  {INSTALL['lp64']} installs one\n")
    return 0


def names(library: Library) -> str:
    """Return how a library spells ``dgemm``-like names, as ``scipy_*_64_``; per API if C alone."""
    first = library.families[0]
    return f"{first.prefix}*{first.suffix}"


def implementation(library: Library) -> str:
    """Return the implementation, with its threading model where one provider has several."""
    model = f" ({library.threading})" if library.threading in THREADING else ""
    if is_gnu(library):
        model = f" ({library.threading}, GNU Fortran)"
    return f"{library.implementation}{model}"


def table(libraries: list[Library]) -> str:
    """Return the libraries as a table with a heading."""
    rows = [
        ("PROVIDER", "LIBRARY", "VERSION", "INTERFACE", "VERIFIED", "NAMES", "APIS", "LINKABLE")
    ]
    for one in libraries:
        offered = {family.api for family in one.families}
        rows.append(
            (
                one.title,
                implementation(one),
                one.version or "-",
                one.interface,
                "yes" if one.verified else "no",
                names(one),
                " ".join(api for api in APIS if api in offered),
                "yes" if one.linkable else f"no: {one.reason}",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        + "\n"
        for row in rows
    )
