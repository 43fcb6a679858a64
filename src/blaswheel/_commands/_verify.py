"""``blaswheel verify``."""

from __future__ import annotations

import os
import shlex
import sys

from blaswheel import _environment, _kernels, _select, _verdict, _verify
from blaswheel._commands import _called, _options, _show
from blaswheel._errors import BlaswheelError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator, Sequence

    from blaswheel._environment import Environment
    from blaswheel._library import Library
    from blaswheel._names import Family
    from blaswheel._verdict import Child, Stage, Verdict

HELP = """Check a library by calling it, in a child process that it can't harm this one from.

Integer width is told by several calls that must agree; how complex and single-precision numbers
are returned, by right results. A crash, a hang or an exit is a verdict that names the routine."""
EXAMPLE = """examples:
  blaswheel verify scipy-openblas64
  blaswheel verify --numerics --cores ./libopenblas.so
  blaswheel verify --emulator 'qemu-aarch64 -L /usr/aarch64-linux-gnu' --probe ./blaswheel-probe \\
      --root arm/ scipy-openblas64
"""


def configure(parser: ArgumentParser) -> None:
    """Add the command's options."""
    _options.add_selection(parser)
    group = parser.add_argument_group("what to check")
    group.add_argument(
        "--numerics", action="store_true", help="results of many routines, around kernels' edges"
    )
    group.add_argument(
        "--cores",
        action="store_true",
        help="every kernel set of an OpenBLAS that this processor can run",
    )
    group.add_argument("--fork", action="store_true", help="a threaded call in a forked child")
    group.add_argument(
        "--against",
        metavar="OTHER",
        help="another library in the same scope: do they take over each other's names?",
    )
    group = parser.add_argument_group("how to run it")
    group.add_argument(
        "--as-is",
        action="store_true",
        help="leave all environment variables as they are (default: only those that choose "
        "kernels stay)",
    )
    group.add_argument("--no-cache", action="store_true", help="ignore an earlier verdict")
    group.add_argument(
        "--preload",
        metavar="FILE",
        action="append",
        default=[],
        help="open FILE before the library, for those that come in layers; repeatable",
    )
    group.add_argument("--emulator", metavar="CMD", help="run the probe by this command")
    group.add_argument("--probe", metavar="FILE", help="the blaswheel-probe to run")
    group.add_argument(
        "--timeout", metavar="SECONDS", type=float, help="time that each child is given"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: Namespace) -> int:
    """Check the library and print what was found; 1 if something is wrong."""
    emulator = shlex.split(options.emulator or "")
    if options.root is not None and not emulator:
        raise UsageError(
            "--root is for libraries of other machines, and loads none",
            "leave it out and give the library's path, or add --emulator and --probe",
        )
    if options.timeout is not None and not 0 < options.timeout <= 86400:
        raise UsageError(f"--timeout {options.timeout:g}", "give seconds, up to 86400")
    asked = _options.asked(options)
    environment, wish = asked.environment, asked.wish
    library, interface = _select_one(environment, wish)
    if not emulator and options.probe is None:
        foreign = _called.foreign(library)
        if foreign:
            raise BlaswheelError(
                f"{library.title} {foreign}",
                "add --emulator CMD and --probe FILE to run a probe of its machine",
            )
    verdict = _verify.verify(
        library,
        stages=[stage for stage in _verify.EXTRA if getattr(options, stage)],
        as_is=options.as_is,
        use_cache=not options.no_cache,
        emulator=emulator,
        probe=options.probe,
        preload=options.preload,
        timeout=options.timeout,
    )
    applied = _verify.apply(library, verdict)
    if verdict.ok:
        for contradiction in _verify.disagreements(library, verdict):
            _options.say(contradiction)
        further = []
        if interface not in applied.interfaces():
            interface = applied.interface
        further += _headers(applied, interface)
        children = _verify.runner(
            as_is=options.as_is, emulator=emulator, probe=options.probe, preload=options.preload
        )
        seconds = options.timeout or _verify.EXTRA_TIMEOUT
        if options.cores:
            has = None if emulator else _kernels.features()
            further += _cores(library, children, has, seconds)
        if options.against is not None:
            other = _other(options.against, environment)
            if os.path.realpath(other.path) == os.path.realpath(library.path):
                raise UsageError("--against names the same library", "name another one")
            further += _against(applied, other, children, seconds)
        wrong = [stage for stage in further if stage.outcome == "failed"]
        verdict = verdict.replace(
            stages=(*verdict.stages, *further),
            ok=not wrong,
            failure=_failure(library, wrong[0]) if wrong else "",
            hint=wrong[0].hint if wrong else "",
        )
    warnings = (*verdict.warnings, *_leaks(applied))
    if options.json:
        import json

        document = _document(applied, verdict, warnings)
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in _lines(applied, verdict, warnings))
    _tell_errors(verdict)
    if verdict.ok:
        return 0
    _options.say(f"{library.title} {verdict.failure}")
    sys.stderr.write(f"  {verdict.hint}\n")
    return 1


def _leaks(library: Library) -> list[str]:
    """Return what can go wrong with names that a renamed library left as they were."""
    return [
        f"{defect.message}, which crashes it if they have other integers; blaswheel isolate "
        "prevents it"
        for defect in library.defects
        if defect.code == "namespace-leak"
    ]


def _select_one(environment: Environment, wish: _select.Wish) -> tuple[Library, str]:
    if wish.library or wish.provider:
        # What can't be linked against can still be called.
        return _show.named(environment.libraries, wish, environment.problems)
    choice = _select.choose(environment.libraries, wish, environment.problems)
    for note in choice.notes:
        _options.say(note)
    return choice.library, choice.interface


def _other(text: str, environment: Environment) -> Library:
    if _select.is_path(text):
        return _environment.one_file(text, environment)
    wish = _select.Wish(library=text)
    return _show.named(environment.libraries, wish, environment.problems)[0]


def _headers(library: Library, interface: str) -> list[Stage]:
    """Compare the integers that headers declare, under our flags, with the library's."""
    from blaswheel import _headercheck, _offer
    from blaswheel._commands._pc import cache

    found = []
    for native, label in ((True, "headers"), (False, "plain headers")):
        try:
            request = _offer.Request(native=native)
            widths = _headercheck.widths(_offer.make(library, interface, request, cache()))
        except BlaswheelError as error:
            found.append(_verdict.Stage(name=label, outcome="unknown", detail=error.message))
            continue
        if not widths:
            found.append(_verdict.Stage(name=label, outcome="absent"))
        for api, (width, complaint) in widths.items():
            agrees = width in (interface, "unknown")
            found.append(
                _verdict.Stage(
                    name=f"{label}, {api}",
                    outcome=width if agrees else "failed",
                    detail=complaint
                    if agrees
                    else f"its {api} header declares {width.upper()} integers, calls show "
                    f"{interface.upper()}",
                    hint="" if agrees else "compile without this header, or use another library",
                )
            )
    return found


def _cores(
    library: Library, run: _verify.Runner, has: frozenset[str] | None, seconds: float
) -> list[Stage]:
    """Run each kernel set of an OpenBLAS once, and compare it with the one asked for."""
    if library.implementation != "openblas":
        return [
            _verdict.Stage(
                name="cores", outcome="unknown", detail="only OpenBLAS lets a variable choose them"
            )
        ]
    families = _verify.uses(library)[0]

    def start(core: str, stages: Sequence[str]) -> tuple[Child, str | None]:
        child = run(
            library,
            families,
            "cores",
            stages,
            seconds,
            arguments=("--threads", "1"),
            core=core,
        )
        return child, _verdict.core(_verdict.parse(child.output).values)

    # Which kernel set each name stands for in this build: asking crashes nothing.
    standing: dict[str, list[str]] = {}
    for core in _kernels.runnable(library.binary.machine, has):
        _, reported = start(core, ("identity",))
        standing.setdefault(reported or core, []).append(core)
    faults: dict[str, str] = {}
    found = []
    for reported, names in standing.items():
        core = next((name for name in names if name.lower() == reported.lower()), names[0])
        child, used = start(core, ("identity", "agreement", "numerics"))
        told = _verdict.parse(child.output)
        fault = _verdict.what_is_wrong(child, told, {}, library.implementation)
        wrong = fault[0] if fault else ""
        if not wrong and used != reported:
            wrong = f"asked for {core}, the library uses {used or 'one that it does not name'}"
        others = [name for name in names if name.lower() != reported.lower()]
        also = f"; asked for {', '.join(others)} it uses this one" if others else ""
        if wrong:
            faults[reported] = wrong
        checks = told.values.get("numerics.checks", "0")
        found.append(
            _verdict.Stage(
                name=f"core {reported}",
                outcome="failed" if wrong else "ok",
                detail=(wrong or f"{checks} results checked") + also,
            )
        )
    good = next((name for name in standing if name not in faults), None)
    hint = f"OPENBLAS_CORETYPE={good} avoids it" if good else "use another library"
    return [
        stage.replace(hint=hint) if stage.outcome == "failed" else stage for stage in found
    ] or [_verdict.Stage(name="cores", outcome="unknown", detail="no list of this machine's cores")]


def _against(library: Library, other: Library, run: _verify.Runner, seconds: float) -> list[Stage]:
    """Open two libraries in one scope, in both orders, and see whether each computes right."""
    found = []
    for first, second in ((library, other), (other, library)):
        for victim, rest, option in (
            (first, second, "--against-after"),
            (second, first, "--against"),
        ):
            for families in _verify.uses(victim):
                child = run(
                    victim,
                    families,
                    "against",
                    ("against",),
                    seconds,
                    arguments=(option, os.path.abspath(rest.path)),
                )
                told = _verdict.parse(child.output)
                wrong = _verdict.what_is_wrong(child, told, {}, victim.implementation)
                order = f"in one scope: {_short(first)}, then {_short(second)}"
                what = wrong[0] if wrong else "computes right"
                found.append(
                    _verdict.Stage(
                        name="against",
                        outcome="failed" if wrong else told.values.get("against", "unknown"),
                        detail=f"{_short(victim)} {what} ({order})",
                        hint="open each RTLD_LOCAL, or link a copy made by blaswheel isolate"
                        if wrong
                        else "",
                    )
                )
    return found


def _failure(library: Library, stage: Stage) -> str:
    """Return what a failed stage says of a library, to be read after its name."""
    own = stage.detail.removeprefix(f"{_short(library)} ")
    if own == stage.detail and stage.name == "against":
        return f"spoils another library: {own}"
    return own


def _short(library: Library) -> str:
    return str(library.provider) if library.provider else os.path.basename(library.path)


def _lines(library: Library, verdict: Verdict, warnings: Sequence[str]) -> Iterator[str]:
    yield from library.files
    labels = [f"{one.name} {one.names}".rstrip() for one in verdict.stages]
    width = max(map(len, labels), default=0)
    outcomes = max((len(one.outcome) for one in verdict.stages), default=0)
    for label, one in zip(labels, verdict.stages, strict=True):
        yield f"  {label:{width}}  {one.outcome:{outcomes}}  {one.detail}".rstrip()
    for name, value in verdict.environment.items():
        yield f"  with {name}={value}"
    for warning in warnings:
        yield f"  warning: {warning}"
    if verdict.ok:
        again = " (by an earlier run; --no-cache runs it anew)" if verdict.cached else ""
        yield f"ok: {library.title} {_summary(verdict)} verified by {verdict.calls} calls{again}"
    else:
        yield f"failed: {library.title} {verdict.failure}"


def _summary(verdict: Verdict) -> str:
    """Return the width and the spelling of each use, as ``ilp64 scipy_*64_``."""
    groups: dict[str, list[Family]] = {}
    for family, interface in verdict.interfaces:
        if interface != "unknown":
            groups.setdefault(interface, []).append(family)
    return ", ".join(
        f"{interface} {_verdict.spelling(families)}" for interface, families in groups.items()
    )


def _document(library: Library, verdict: Verdict, warnings: Sequence[str]) -> dict[str, object]:
    return {
        "schema": 1,
        **library.as_json(),
        "ok": verdict.ok,
        "failure": verdict.failure or None,
        "hint": verdict.hint or None,
        "cached": verdict.cached,
        "environment": verdict.environment,
        "warnings": list(warnings),
        "stages": [
            {
                "name": stage.name,
                "names": stage.names or None,
                "outcome": stage.outcome,
                "detail": stage.detail,
            }
            for stage in verdict.stages
        ],
        "values": list(verdict.values),
    }


def _tell_errors(verdict: Verdict) -> None:
    """Show what the children wrote to standard error, as theirs."""
    for line in verdict.errors.splitlines():
        sys.stderr.write(f"  | {line}\n")
