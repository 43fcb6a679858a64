"""``blaswheel show``."""

from __future__ import annotations

import sys

from blaswheel import _consumers, _select, _shipped, _verify
from blaswheel._commands import _options
from blaswheel._errors import BlaswheelError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

    from blaswheel._library import Library

HELP = "Tell all that is known of one library: names, coverage, interface and why, defects."
EXAMPLE = """examples:
  blaswheel show scipy-openblas64
  blaswheel show --for numpy --interface ilp64
  blaswheel show openblas --system
"""
#: How many names of a list are printed; --json gives all.
MOST = 8


def configure(parser: ArgumentParser) -> None:
    """Add the command's options."""
    _options.add_selection(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--for",
        dest="consumer",
        choices=_options.CONSUMERS,
        help="print the options that this library needs there",
    )


def run(options: Namespace) -> int:
    """Print what is known."""
    if options.consumer is not None and options.json:
        raise UsageError(
            "--for prints options for people, --json does not", "leave one of them out"
        )
    asked = _options.asked(options)
    environment, wish = asked.environment, asked.wish
    if wish.library or wish.provider:
        # What can't be linked against can still be shown.
        library, interface = named(environment.libraries, wish, environment.problems)
    else:
        choice = _select.choose(environment.libraries, wish, environment.problems)
        library, interface = choice.library, choice.interface
        for note in choice.notes:
            _options.say(note)
    library = _verify.as_known(library)
    if interface not in library.interfaces():
        interface = library.interface
    if options.consumer is None:
        found = _shipped.defects(library, environment.libraries)
        library = library.replace(defects=(*library.defects, *found))
    if options.consumer is not None:
        if not library.linkable:
            raise BlaswheelError(
                f"{library.title} can't be linked against: {library.reason}",
                "blaswheel list shows what can be",
            )
        sys.stdout.write(_consumers.advice(library, interface, options.consumer))
    elif options.json:
        import json

        sys.stdout.write(json.dumps({"schema": 1, **library.as_json()}, indent=2) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in describe(library))
    return 0


def named(
    libraries: tuple[Library, ...], wish: _select.Wish, problems: tuple[str, ...]
) -> tuple[Library, str]:
    """Return the library that is asked for by name, linkable or not, and its interface."""
    as_linkable = tuple(one.replace(linkable=True) for one in libraries)
    choice = _select.choose(as_linkable, wish, problems)
    chosen = choice.library
    library = next(one for one in libraries if (one.path, one.parts) == (chosen.path, chosen.parts))
    return library, choice.interface


def describe(library: Library) -> Iterator[str]:
    """Yield the lines that tell a person of a library."""
    binary = library.binary
    yield library.title

    def row(label: str, text: str) -> str:
        return f"  {label:15} {text}"

    for number, path in enumerate(library.files):
        yield row("" if number else "files" if library.parts else "file", path)
    threading = f", {library.threading}" if library.threading else ""
    release = f" {library.version}" if library.version else ""
    yield row("implementation", f"{library.vendor.title}{release}{threading}")
    yield row("format", f"{binary.format} {binary.machine}, SONAME {binary.soname or 'none'}")
    yield row("needs", ", ".join(binary.needed) or "nothing")
    state = "verified by calls" if library.verified else "not verified"
    yield row("interface", f"{library.interface} ({state})")
    for evidence in library.evidence:
        yield row("", evidence)
    for number, family in enumerate(library.families):
        share = f"{family.found} of {family.known}"
        spelling = f"{family.prefix}*{family.suffix}"
        yield row(
            "names" if number == 0 else "",
            f"{family.api:8} {spelling:16} {family.interface:8} {share} standard routines",
        )
    returned = _consumers.complex_return(library)
    how = returned or "not called"
    if returned is not None and library.complex_return is None:
        how = f"{returned} (all builds of {library.vendor.title}; not called)"
    yield row("complex return", how)
    if returned == "argument":
        yield row("", "through a hidden argument: SciPy needs -Duse-g77-abi=true;")
        yield row("", "for gfortran: blaswheel pc --complex-return value")
    yield row("headers", ", ".join(library.include_dirs) or "none")
    yield row("linkable", "yes" if library.linkable else f"no: {library.reason}")
    for defect in library.defects:
        yield row(defect.severity, f"{defect.message} [{defect.code}]")
