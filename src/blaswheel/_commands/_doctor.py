"""``blaswheel doctor``."""

from __future__ import annotations

import os

from blaswheel._commands import _options
from blaswheel._errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence

    from blaswheel._doctor import Finding, Use
    from blaswheel._doctor_build import Build

HELP = """Tell why a build here finds its BLAS or does not; or why a wheel, an extension module or
what is in a folder will or will not load its libraries, and which BLAS each module calls.

Exit status 1 if something will not work."""
EXAMPLE = """examples:
  blaswheel doctor
  blaswheel doctor --project .
  blaswheel doctor dist/demo-1.0-cp312-cp312-manylinux_2_28_x86_64.whl
  blaswheel doctor venv/lib/python3.12/site-packages/numpy
"""


def configure(parser: ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "target",
        metavar="TARGET",
        nargs="?",
        help="a wheel, an extension module, or a folder such as a site-packages",
    )
    parser.add_argument(
        "--project",
        metavar="DIR",
        help="look into the environment that this project's build requirements make",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: Namespace) -> int:
    """Examine, and tell."""
    if options.target is not None and options.project is not None:
        raise UsageError("--project is for builds, TARGET for files", "give one of them")
    if options.target is not None:
        from blaswheel import _doctor

        diagnosis = _doctor.of_target(options.target)
        findings: Sequence[Finding] = diagnosis.findings
        if options.json:
            _options.put(_json(findings, diagnosis.uses))
        else:
            _options.put(_uses(diagnosis.uses) + _text(findings))
    else:
        from blaswheel import _doctor_build

        if options.project is not None:
            build = _doctor_build.of_project(options.project, os.environ)
        else:
            build = _doctor_build.examine(os.environ)
        findings = build.findings
        _options.put(_json(findings, ()) if options.json else _build(build) + _text(findings))
    return int(any(one.severity == "fatal" for one in findings))


def _json(findings: Sequence[Finding], uses: Sequence[Use]) -> str:
    import json

    document = {
        "schema": 1,
        "findings": [
            {
                "code": one.code,
                "severity": one.severity,
                "file": one.file,
                "message": one.message,
                "fix": one.fix,
            }
            for one in findings
        ],
        "blas": [
            {"file": one.file, "count": len(one.names), "names": list(one.names),
             "library": one.library, "expected": one.expected, "missing": list(one.missing)}
            for one in uses
        ],
    }  # fmt: skip
    return json.dumps(document, indent=2) + "\n"


def _text(findings: Sequence[Finding]) -> str:
    if not findings:
        return "nothing is wrong\n"
    lines = []
    for one in findings:
        where = f"{one.file} " if one.file else ""
        lines += [f"{one.severity}: {where}{one.message} [{one.code}]", f"  {one.fix}"]
    return "\n".join(lines) + "\n"


def _uses(uses: Sequence[Use]) -> str:
    lines = []
    for one in uses:
        what = one.library or "nobody: none that has them was found"
        if one.expected is not None:
            what = f"{one.expected}, which is not in here"
        examples = ", ".join(one.names[:2]) + (", ..." if len(one.names) > 2 else "")
        lines.append(f"{one.file}: {len(one.names)} names of the BLAS ({examples}), of {what}")
    return "\n".join([*lines, ""]) if lines else ""


def _build(build: Build) -> str:
    program = build.pkg_config or "none"
    state = "" if build.pkg_config is None else ", works" if build.works else ", does not work"
    lines = [f"pkg-config  {program}{state}"]
    lines += [f"libraries   {', '.join(build.libraries) or 'none'}"]
    for answer in build.answers:
        where = f"  ({answer.path})" if answer.path else ""
        lines.append(f"  {answer.text}{where}")
    return "\n".join(lines) + "\n"
