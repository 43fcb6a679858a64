"""``blaswheel loaded``."""

from __future__ import annotations

import sys

from blaswheel._commands import _options
from blaswheel._errors import BlaswheelError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from blaswheel._loaded import Report

HELP = """Import modules, and tell of every BLAS that is in the process then: which file, whose,
with which integers and threads, which module calls which, and which take over names of others."""
EXAMPLE = """examples:
  blaswheel loaded -i numpy,scipy.linalg
  blaswheel loaded -i numpy --json
"""


def configure(parser: ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "-i",
        dest="modules",
        metavar="MODULES",
        required=True,
        help="modules to import, in this order, with commas between them",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: Namespace) -> int:
    """Import the modules, and tell."""
    _import(options.modules)
    from blaswheel import _loaded

    report = _loaded.report()
    if options.json:
        import json

        _options.put(json.dumps(report.as_json(), indent=2) + "\n")
    else:
        _options.put(_text(report))
    return 0


def _import(modules: str) -> None:
    from importlib import import_module

    # As `python -c` has it, so that what is imported is what the user's programs get.
    if "" not in sys.path:
        sys.path.insert(0, "")
    for name in filter(None, modules.split(",")):
        try:
            import_module(name.strip())
        except Exception as error:
            raise BlaswheelError(
                f"importing {name} fails: {type(error).__name__}: {error}",
                "blaswheel doctor tells why a module does not load"
                if isinstance(error, ImportError)
                else "import it in Python to see where",
            ) from error


def _text(report: Report) -> str:
    if not report.libraries:
        return "no BLAS is loaded\n"
    lines = []
    for one in report.libraries:
        threads = "" if one.threads is None else f", {one.threads} threads"
        layer = f" ({one.threading_layer})" if one.threading_layer else ""
        core = f", core {one.core}" if one.core else ""
        lines += [
            one.path,
            f"  {one.implementation} {one.version or ''}".rstrip()
            + f", {one.interface}, {' '.join(one.names)}{threads}{layer}{core}",
            f"  of {one.provider or 'no distribution'}"
            + (", global: what is loaded later is bound to it" if one.is_global else ""),
        ]
    lines.append(f"{len(report.libraries)} copies, {report.threads} threads together")
    for module, paths in report.bindings.items():
        if paths:
            lines += [f"{module}", *(f"  calls {path}" for path in paths)]
    for clash in report.clashes:
        names = ", ".join(clash.names[:3]) + (", ..." if len(clash.names) > 3 else "")
        effect = "the first serves both" if clash.is_global else "harmless while they are apart"
        lines += [f"{len(clash.names)} names ({names}) are in both, {effect}:"]
        lines += [f"  {path}" for path in clash.libraries]
    return "\n".join(lines) + "\n"
