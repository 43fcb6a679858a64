"""``blaswheel tag``."""

from __future__ import annotations

import os

from blaswheel import _retag, _tag
from blaswheel._commands import _options
from blaswheel._errors import BlaswheelError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from blaswheel._tag import Verdict

HELP = """Tell the honest platform tag of a wheel: what its binaries need, and which file and symbol
decide it. Nothing of this machine counts. --write makes a copy with that tag, without touching a
byte of what it installs."""
EXAMPLE = """examples:
  blaswheel tag dist/demo-1.0-cp312-cp312-linux_x86_64.whl
  blaswheel tag --check dist/*.whl
  blaswheel tag --write --remove dist/demo-1.0-cp312-cp312-linux_x86_64.whl
"""


def configure(parser: ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("wheels", metavar="WHEEL", nargs="+", help="a wheel")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--check", action="store_true", help="exit 1 if a wheel's tag promises too much"
    )
    parser.add_argument(
        "--external",
        metavar="DIST",
        action="append",
        default=[],
        help="a distribution, wheel or folder that brings libraries which the wheel needs",
    )
    group = parser.add_argument_group("writing a copy")
    group.add_argument("--write", action="store_true", help="write it, beside the wheel")
    group.add_argument(
        "--as",
        dest="chosen",
        metavar="TAG[.TAG]",
        help="with --write: with these tags, which must not promise too much",
    )
    group.add_argument("-o", dest="folder", metavar="DIR", help="with --write: into this folder")
    group.add_argument(
        "--remove", action="store_true", help="with --write: delete the wheel afterwards"
    )


def run(options: Namespace) -> int:
    """Tell of each wheel, and write copies."""
    if not options.write and (options.chosen or options.folder or options.remove):
        raise UsageError("--as, -o and --remove say how a copy is written", "add --write")
    if options.json and len(options.wheels) > 1:
        raise UsageError("--json is for one wheel", "give one wheel")
    from blaswheel import _external

    external = [name for each in options.external for name in _external.names(each)]
    status = 0
    for number, path in enumerate(options.wheels):
        verdict = _tag.honest(path, external, options.chosen.split(".") if options.chosen else ())
        if options.json:
            _options.put(_json(verdict))
        elif not options.write:
            _options.put(("\n" if number else "") + _text(path, verdict))
        if options.write:
            _options.put(_write(path, verdict, options) + "\n")
        if options.check and not verdict.honest:
            status = 1
            _options.say(_broken(path, verdict))
    return status


def _text(path: str, verdict: Verdict) -> str:
    lines = [
        os.path.basename(path),
        f"  declared  {verdict.declared}",
        f"  honest    {verdict.computed}",
    ]
    if verdict.deciding is not None:
        lines.append(f"  decided   {verdict.deciding.text}")
    if not verdict.honest:
        lines.append(f"  wrong     {', '.join(verdict.broken)} promises too much")
    if not verdict.extension and "-py3-none-" not in os.path.basename(path):
        lines.append("  note      it has no extension module: py3-none would do")
    lines += [f"  note      {note}" for note in verdict.notes]
    return "\n".join(lines) + "\n"


def _json(verdict: Verdict) -> str:
    import json

    deciding = verdict.deciding
    document = {
        "schema": 1,
        "declared": verdict.declared,
        "computed": verdict.computed,
        "deciding": {
            "file": deciding.file,
            "symbol": deciding.symbol,
            "version": deciding.version,
        }
        if deciding is not None
        else None,
        "honest": verdict.honest,
        "notes": list(verdict.notes),
    }
    return json.dumps(document, indent=2) + "\n"


def _broken(path: str, verdict: Verdict) -> str:
    why = f": {verdict.deciding.text}" if verdict.deciding is not None else ""
    return (
        f"{os.path.basename(path)}: {', '.join(verdict.broken)} promises too much, "
        f"{verdict.computed} is honest{why}"
    )


def _write(path: str, verdict: Verdict, options: Namespace) -> str:
    """Write a wheel's copy and return its path."""
    tags = options.chosen or verdict.computed
    folder = options.folder or os.path.dirname(os.path.abspath(path))
    name = _retag.name_with(path, tags)
    if verdict.refused:
        why = f": {verdict.deciding.text}" if verdict.deciding is not None else ""
        raise BlaswheelError(
            f"{', '.join(verdict.refused)} promises too much{why}",
            f"{verdict.computed} is the most that is honest",
        )
    target = os.path.join(folder, name)
    same = os.path.exists(target) and os.path.samefile(target, path)
    if same and sorted(_retag.inner_tags(path)) == sorted(_retag.tags_of(name)):
        _options.say(f"{os.path.basename(path)} has this tag already")
        return path
    if same and not options.remove:
        raise BlaswheelError(
            f"{path}: only the tags inside are others, and the copy has the same name",
            "add -o DIR, or --remove to put it in the wheel's place",
        )
    written = _retag.retag(path, tags, folder)
    if options.remove and not same:
        os.unlink(path)
    return written
