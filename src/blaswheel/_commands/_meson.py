"""``blaswheel meson``."""

from __future__ import annotations

import os

from blaswheel._commands import _options
from blaswheel._errors import BlaswheelError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

HELP = """Write the Meson subproject into a project. Where the system has no BLAS,
dependency('openblas') then gives that of a wheel that build-system.requires names."""
EXAMPLE = """examples:
  blaswheel meson
  git add subprojects/blaswheel.wrap subprojects/blaswheel
  blaswheel meson --check
"""


def configure(parser: ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "project",
        metavar="DIR",
        nargs="?",
        default=os.curdir,
        help="the folder of the project's main meson.build (default: this one)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; exit with 1 unless the files are there and current",
    )
    parser.add_argument(
        "--force", action="store_true", help="replace files that were edited or are another's"
    )


def run(options: Namespace) -> int:
    """Write the files, or tell whether they are current."""
    from blaswheel import _subproject

    if options.check and options.force:
        raise UsageError("--check writes nothing that --force could be for", "give one of them")
    if options.check:
        wrong = {
            path: state
            for path, state in _subproject.states(options.project).items()
            if state != "current"
        }
        if wrong:
            told = ", ".join(f"{path} is {state}" for path, state in wrong.items())
            raise BlaswheelError(told, "run blaswheel meson")
        return 0
    written = _subproject.write(options.project, force=options.force)
    for path in written:
        _options.put(f"{path}\n")
    if not written:
        _options.say("the subproject is current")
        return 0
    _options.say("commit subprojects/blaswheel.wrap and subprojects/blaswheel/")
    for line in _advice(options.project):
        _options.say(line)
    return 0


def _advice(project: str) -> list[str]:
    """Say what the project's build requirements lack."""
    path = os.path.join(project, "pyproject.toml")
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return ["the build needs blaswheel and a provider: pip install blaswheel scipy-openblas32"]
    _, _, table = text.partition("[build-system]")
    wanted = []
    if "blaswheel" not in table.partition("\n[")[0]:
        wanted.append('"blaswheel"')
    if not any(name in table.partition("\n[")[0] for name in ("openblas", "mkl", "nvpl")):
        wanted.append('"scipy-openblas32"')
    if not wanted:
        return []
    return [f"add {' and '.join(wanted)} to requires of [build-system] in {path}"]
