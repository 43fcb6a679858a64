"""``blaswheel loaded``."""

from __future__ import annotations

import os
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
  blaswheel loaded -i numpy --python venv/bin/python
"""
#: Loads this blaswheel into another interpreter, and nothing else of this environment.
_ELSEWHERE = """
import sys
from importlib import util
folder, *words = sys.argv[1:]
if sys.version_info < (3, 10):
    sys.exit("blaswheel: loaded --python needs Python 3.10 or later, and this is {}.{}\\n"
             "  give another one".format(*sys.version_info))
del sys.argv[1:]
spec = util.spec_from_file_location(
    "blaswheel", folder + "/__init__.py", submodule_search_locations=[folder]
)
sys.modules["blaswheel"] = module = util.module_from_spec(spec)
spec.loader.exec_module(module)
from blaswheel._cli import main
sys.exit(main(words))
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
    parser.add_argument(
        "--python", metavar="PYTHON", help="import them in another interpreter, with its packages"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: Namespace) -> int:
    """Import the modules, and tell."""
    if options.python is not None:
        return _elsewhere(options)
    _import(options.modules)
    from blaswheel import _loaded

    report = _loaded.report()
    if options.json:
        import json

        _options.put(json.dumps(report.as_json(), indent=2) + "\n")
    else:
        _options.put(_text(report))
    return 0


def _elsewhere(options: Namespace) -> int:
    """Run the same command in another interpreter; return its exit status."""
    import subprocess

    from blaswheel import _discovery

    # Refuses what is no Python.
    _discovery.search_path(python=options.python)
    words = ["loaded", "-i", options.modules, *(["--json"] if options.json else [])]
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    try:
        done = subprocess.run([options.python, "-c", _ELSEWHERE, folder, *words], check=False)
    except OSError as error:
        raise BlaswheelError(
            f"--python {options.python}: {error.strerror}",
            "give the path of a working Python interpreter",
        ) from error
    return done.returncode


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
        if clash.is_global:
            effect = "the first serves both"
        elif clash.modules:
            effect = f"the first serves all of {', '.join(map(os.path.basename, clash.modules))}"
        else:
            effect = "harmless while they are apart"
        lines += [f"{len(clash.names)} names ({names}) are in both, {effect}:"]
        lines += [f"  {path}" for path in clash.libraries]
    return "\n".join(lines) + "\n"
