"""From what the probe wrote, and how it ended, to a verdict that a person can act on."""

from __future__ import annotations

import sys

from blaswheel import _kernels
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from blaswheel._names import Family

_KEY_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
_SHOWN = 60
#: How many names of a list a sentence gives.
_MOST = 4

# What Windows gives as exit status of a process that crashed (ntstatus.h).
_WINDOWS_CRASHES = {
    0xC0000005: "an access violation",
    0xC000001D: "an illegal instruction",
    0xC0000094: "an integer division by zero",
    0xC00000FD: "a stack overflow",
    0xC0000374: "a corrupted heap",
    0xC0000409: "a failed security check",
}
#: No number of a report has as many.
_DIGITS = 20


class Child(Record):
    """One run of the probe: what it was asked, what it wrote and how it ended.

    Attributes
    ----------
    purpose : str
        ``calls`` for the stages that every verdict rests on, else the stage's name; shown.
    families : tuple of Family
        In the order in which the probe was given them.
    stages : tuple of str
        Those asked for.
    output, errors : bytes
    status, signal, ended_for
        As `blaswheel._child.Ended` has them.
    seconds : float
        The time that it was given.
    core : str, optional
        The kernel set that it was told to use.
    """

    purpose: str
    families: tuple[Family, ...]
    stages: tuple[str, ...]
    output: bytes
    errors: bytes = b""
    status: int | None = 0
    signal: int | None = None
    ended_for: str | None = None
    seconds: float = 0.0
    core: str | None = None


class Told(Record):
    """A report in parts.

    Attributes
    ----------
    values : dict of str to str
        Key to value; of a key that comes several times the last.
    missing, data : tuple of str
        Names that the loader does not find, and those that are no functions.
    called : tuple of str
        The stages that were begun, in order; the last is where it ended.
    garbage : str, optional
        The first line that is none of the protocol.
    """

    values: dict[str, str]
    missing: tuple[str, ...]
    data: tuple[str, ...]
    called: tuple[str, ...]
    garbage: str | None

    @property
    def is_complete(self) -> bool:
        """Whether the probe came to its end."""
        return self.values.get("done") == "ok" and self.garbage is None


class Stage(Record):
    """What one stage showed.

    Attributes
    ----------
    name : str
    outcome : str
        ``ok``, ``lp64``, ``failed``, ``unknown``, ...
    detail : str
    names : str
        Spelling of the names that were called, where a library has several.
    hint : str
        What to do, if the outcome is ``failed``.
    """

    name: str
    outcome: str
    detail: str = ""
    names: str = ""
    hint: str = ""


class Verdict(Record):
    """What calls to a library showed.

    Attributes
    ----------
    ok : bool
    failure, hint : str
        One line on what is wrong and one on what to do; empty if all is right.
    stages : tuple of Stage
    interfaces : tuple of (Family, str)
        The width of each family's integers: ``lp64``, ``ilp64``, or ``unknown``.
    calls : int
        How many calls told the width; all agree.
    complex_return : str, optional
        ``register``, ``argument``, ``mixed`` or ``unknown``; None if the library has no function
        that returns a complex number.
    float_return : str, optional
        ``float``, ``double``, ``mixed`` or ``unknown``.
    version, lapack_version, core : str, optional
        As the library states them when asked.
    threads : int, optional
    warnings : tuple of str
        What is not wrong but should be known, a sentence each.
    environment : dict of str to str
        The variables that had a say.
    values : tuple of dict
        All that the probe wrote, per child.
    errors : str
        What the children wrote to standard error.
    cached : bool
        Whether this was found by an earlier run.
    """

    ok: bool
    failure: str
    hint: str
    stages: tuple[Stage, ...]
    interfaces: tuple[tuple[Family, str], ...]
    calls: int
    complex_return: str | None
    float_return: str | None
    version: str | None
    lapack_version: str | None
    core: str | None
    threads: int | None
    warnings: tuple[str, ...]
    environment: dict[str, str]
    values: tuple[dict[str, str], ...]
    errors: str
    cached: bool = False

    def interface_of(self, family: Family) -> str:
        """Return the width that calls to a family's names showed."""
        for known, interface in self.interfaces:
            if (known.api, known.prefix, known.suffix) == (
                family.api,
                family.prefix,
                family.suffix,
            ):
                return interface
        return "unknown"

    def outcome(self, stage: str) -> str | None:
        """Return the outcome of a stage, of the first names that it was run for."""
        return next((one.outcome for one in self.stages if one.name == stage), None)


def parse(output: bytes) -> Told:
    """Take a report apart; lines that are none of the protocol are garbage, not an error."""
    values: dict[str, str] = {}
    missing: list[str] = []
    data: list[str] = []
    called: list[str] = []
    garbage = None
    lines = output.decode("ascii", "backslashreplace").split("\n")
    for number, line in enumerate(lines):
        key, equals, value = line.partition("=")
        if not equals or not key or not _KEY_CHARACTERS.issuperset(key):
            # The last line ends in a newline, or a crash has cut it.
            if number < len(lines) - 1 and garbage is None:
                garbage = line[:_SHOWN]
            continue
        if key == "stage":
            called.append(value)
        elif key == "symbols.missing_name":
            missing.append(value)
        elif key == "symbols.data_name":
            data.append(value)
        else:
            values[key] = value
    return Told(
        values=values,
        missing=tuple(missing),
        data=tuple(data),
        called=tuple(called),
        garbage=garbage,
    )


def judge(
    children: Sequence[Child],
    environment: Mapping[str, str],
    implementation: str,
    cached: bool = False,
) -> Verdict:
    """Join what several children showed of one library into a verdict.

    Parameters
    ----------
    children : sequence of Child
        Those that called, then those of further stages.
    environment : mapping
        The variables that had a say.
    implementation : str
        Of the library, for the hint after a crash.
    """
    told = [parse(child.output) for child in children]
    failure, hint = "", ""
    stages: list[Stage] = []
    warnings: list[str] = []
    calling = [child for child in children if child.purpose == "calls"]
    for child, one in zip(children, told, strict=True):
        wrong = what_is_wrong(child, one, environment, implementation)
        if wrong and not failure:
            failure, hint = wrong
        names = spelling(child.families) if len(calling) > 1 else ""
        stages += _stages(child, one, names, wrong[0] if wrong else "")
        if child.purpose == "calls":
            warnings += _warnings(one)
    interfaces: list[tuple[Family, str]] = []
    for child, one in zip(children, told, strict=True):
        if child.purpose == "calls":
            for index, family in enumerate(child.families):
                interfaces.append((family, one.values.get(f"width.{index}", "unknown")))
    first = told[0].values if told else {}
    errors = "".join(child.errors.decode("utf-8", "replace") for child in children)
    return Verdict(
        ok=not failure,
        failure=failure,
        hint=hint,
        stages=tuple(stages),
        interfaces=tuple(interfaces),
        calls=sum(
            _number(one.values.get("width.answers"))
            for child, one in zip(children, told, strict=True)
            if child.purpose == "calls"
        ),
        complex_return=_convention(first.get("returns.complex")),
        float_return=_convention(first.get("returns.float")),
        version=version(first),
        lapack_version=first.get("identity.lapack_version"),
        core=core(first),
        threads=_threads(first),
        warnings=tuple(dict.fromkeys(warnings)),
        environment=dict(environment),
        values=tuple(one.values for one in told),
        errors=errors,
        cached=cached,
    )


def spelling(families: Sequence[Family]) -> str:
    """Return how the names of families are spelled, in C if they have that: ``scipy_*64_``."""
    for api in ("cblas", "lapacke"):
        for family in families:
            if family.api == api:
                return f"{family.prefix}*{family.suffix}"
    return f"{families[0].prefix}*{families[0].suffix}" if families else "*"


def _convention(value: str | None) -> str | None:
    return None if value in (None, "absent") else value


def _number(text: str | None) -> int:
    # Of what a library can make the probe write: Python refuses numbers of thousands of digits.
    return int(text) if text and text.isdecimal() and len(text) < _DIGITS else 0


def version(values: Mapping[str, str]) -> str | None:
    """Return the version that a library states when asked."""
    words = values.get("identity.openblas_config", "").split()
    if len(words) > 1 and words[0] == "OpenBLAS":
        return words[1].removesuffix(".dev")
    for key, before in (("identity.mkl_version", "Version "), ("identity.blis_version", "")):
        text = values.get(key, "")
        if text and before in text:
            number = text[text.index(before) + len(before) :].split("-")[0].split(" ")[0]
            if number[:1].isdecimal():
                return number
    return None


def core(values: Mapping[str, str]) -> str | None:
    """Return the kernel set that a library says it uses."""
    return values.get("identity.openblas_core") or values.get("identity.blis_core")


def _threads(values: Mapping[str, str]) -> int | None:
    for name in ("openblas", "mkl", "blis", "nvpl"):
        text = values.get(f"identity.{name}_threads", "")
        if text.isdecimal():
            return _number(text)
    return None


def routine(stage: str) -> str:
    """Return the routine that a stage calls: ``dgemm`` of ``numerics.dgemm.33``."""
    parts = [part for part in stage.split(".")[1:] if not part.isdecimal()]
    if not parts or parts[0] in ("child", "parent"):
        parts = parts[1:]
    name = parts[0] if parts else stage
    for end in ("_columns", "_rows"):
        name = name.removesuffix(end)
    return name


def _where(one: Told) -> str:
    """Say during what a child ended."""
    if not one.called:
        return "before its first stage"
    stage = one.called[-1]
    name = stage.split(".")[0]
    if name == "load":
        what = "while it was loaded"
    elif name == "identity":
        what = f"while it was asked for its {routine(stage)}"
    elif name == "symbols":
        what = "while its names were looked up"
    else:
        what = f"in {routine(stage)}"
    running = core(one.values)
    on = f" on core {running}" if running and name != "load" else ""
    return f"{what}{on} (stage {stage})"


def what_is_wrong(
    child: Child, one: Told, environment: Mapping[str, str], implementation: str
) -> tuple[str, str] | None:
    """Return what a child shows to be wrong and what to do about it, or None."""
    return (
        _wrong_end(child, one, environment, implementation)
        or _wrong_load(one)
        or _wrong_width(child, one)
        or _wrong_results(one, environment, implementation)
    )


def _wrong_end(
    child: Child, one: Told, environment: Mapping[str, str], implementation: str
) -> tuple[str, str] | None:
    if one.garbage is not None:
        return (
            f"what the probe wrote is not its protocol: {one.garbage!r}",
            "leave --probe out, or give it the blaswheel-probe of this version",
        )
    if one.is_complete and child.ended_for is None and child.status in (0, 1):
        return None
    import signal

    out_of_time = (getattr(signal, "SIGXCPU", None), getattr(signal, "SIGALRM", None))
    if child.ended_for == "output":
        return f"writes without end, {_where(one)}", "use another library"
    if child.ended_for == "timeout" or (
        child.signal is not None and child.signal in out_of_time and not one.is_complete
    ):
        return (
            f"did not end within {child.seconds:g} s: hangs {_where(one)}",
            "--timeout SECONDS gives it longer",
        )
    if child.signal is not None:
        try:
            name = signal.Signals(child.signal).name
        except ValueError:
            name = f"signal {child.signal}"
        return (
            f"crashed with {name} {_where(one)}",
            _kernels.advice(implementation, core(one.values) or child.core, environment),
        )
    crash = _WINDOWS_CRASHES.get((child.status or 0) & 0xFFFFFFFF)
    if crash:
        return (
            f"crashed with {crash} {_where(one)}",
            _kernels.advice(implementation, core(one.values) or child.core, environment),
        )
    if not one.called:
        complaint = child.errors.decode("utf-8", "replace").strip().split("\n")[0][:200]
        return (
            f"the probe did not start: exit status {child.status}"
            + (f": {complaint}" if complaint else ""),
            "leave --probe out, or give it the blaswheel-probe of this version",
        )
    return (
        f"ended the process with exit status {child.status} {_where(one)}",
        "it would end any program that uses it so; use another library",
    )


def _wrong_load(one: Told) -> tuple[str, str] | None:
    if one.values.get("load") != "failed":
        return None
    error = one.values.get("load.error", "no reason given")
    needed = error.partition(": cannot open shared object file")[0]
    if needed != error and needed != one.values.get("load.failed_path"):
        hint = (
            f"install what has {needed}, or give its path with --preload; --as-is also looks "
            "where the environment says"
        )
    elif "undefined symbol" in error or "symbol not found" in error:
        hint = "give the library that has it with --preload"
    else:
        hint = "blaswheel show tells what it needs"
    return f"does not load: {error}", hint


def _wrong_width(child: Child, one: Told) -> tuple[str, str] | None:
    if "width" not in child.stages:
        return None
    width = one.values.get("width")
    if width == "mixed":
        told = []
        for index, family in enumerate(child.families):
            answer = one.values.get(f"width.{index}", "unknown")
            told.append(f"{family.api} {family.prefix}*{family.suffix} is {answer}")
        return (
            f"a mixed build: {', '.join(told)}",
            "nothing can be linked to it; use another library",
        )
    if width == "unknown" or not _number(one.values.get("width.answers")):
        return (
            "no call tells the width of its integers: its functions do not what their names say",
            "use another library",
        )
    return None


def _wrong_results(
    one: Told, environment: Mapping[str, str], implementation: str
) -> tuple[str, str] | None:
    for stage in ("agreement", "numerics", "against"):
        if one.values.get(stage) == "wrong":
            wrong = [
                key
                for key, value in one.values.items()
                if key.startswith(f"{stage}.") and value == "wrong"
            ]
            names = [key.partition(".")[2] for key in wrong]
            detail = one.values.get(f"{wrong[0]}.detail", "") if wrong else ""
            running = core(one.values)
            return (
                f"computes wrong: {some(names)}"
                + (f" on core {running}" if running else "")
                + (f" ({detail})" if detail else ""),
                _kernels.advice(implementation, running, environment)
                if stage == "numerics"
                else "use another library",
            )
    fork = one.values.get("fork")
    if fork not in (None, "ok", "unknown"):
        return (
            f"in a forked child: {fork}",
            "start processes by spawn or forkserver, or load the library after the fork",
        )
    return None


def some(names: Sequence[str]) -> str:
    """Return the first of a list of names, and how many more there are."""
    shown = ", ".join(names[:_MOST])
    return shown + (f" and {len(names) - _MOST} more" if len(names) > _MOST else "")


def _stages(child: Child, one: Told, names: str, wrong: str) -> list[Stage]:
    values = one.values
    begun = {stage.split(".")[0] for stage in one.called}
    last = one.called[-1].split(".")[0] if one.called else None
    found = []
    for name in child.stages:
        label = name if child.purpose == "calls" else child.purpose
        if not one.is_complete and (name == last or (last is None and name == child.stages[0])):
            found.append(Stage(name=label, outcome="failed", detail=wrong, names=names))
            continue
        outcome, detail = _outcome(name, child, one)
        if outcome is None:
            outcome = "not run" if name not in begun else "unknown"
        found.append(Stage(name=label, outcome=outcome, detail=detail, names=names))
    if values.get("load") == "failed":
        return [Stage(name="load", outcome="failed", detail=wrong, names=names)]
    return found


def _outcome(name: str, child: Child, one: Told) -> tuple[str | None, str]:
    values = one.values
    if name == "load":
        if "load" not in values:
            return None, ""
        return values["load"], _load_detail(values)
    if name == "symbols":
        if "symbols.expected" not in values:
            return None, ""
        lacking = [*one.missing, *one.data]
        detail = f"{values.get('symbols.present', '?')} of {values['symbols.expected']} names"
        return (
            "ok" if not lacking else "incomplete",
            f"{detail}; not functions: {some(lacking)}" if lacking else f"{detail} found",
        )
    if name == "identity":
        detail = _identity_detail(values)
        return ("ok" if detail else "unknown"), detail
    if name == "width":
        answers = [
            key.split(".")[2]
            for key, value in values.items()
            if key.count(".") >= 2 and key.startswith("width.") and value in ("lp64", "ilp64")
        ]
        detail = f"{len(answers)} calls: {', '.join(answers)}" if answers else ""
        return values.get("width"), detail
    if name == "returns":
        parts = []
        for kind in ("complex", "float"):
            value = values.get(f"returns.{kind}")
            if value not in (None, "absent"):
                parts.append(f"{kind}: {value}")
        known = "returns.complex" in values
        told = "unknown" if any("unknown" in part for part in parts) else "ok"
        return (told if parts else "absent") if known else None, ", ".join(parts)
    if name == "agreement":
        check = values.get("agreement.nan_check")
        detail = f"LAPACKE's NaN check {check}" if check in ("on", "off") else ""
        return values.get("agreement"), detail
    if name == "numerics":
        return values.get("numerics"), f"{values.get('numerics.checks', '0')} results checked"
    return values.get(name), ""


def _load_detail(values: Mapping[str, str]) -> str:
    parts = []
    microseconds = _number(values.get("load.microseconds"))
    if microseconds:
        parts.append(f"{microseconds / 1000:.1f} ms")
    before, after = values.get("load.threads_before", ""), values.get("load.threads_after", "")
    if before.isdecimal() and after.isdecimal():
        parts.append(f"{_number(after) - _number(before)} threads started")
    return ", ".join(parts)


def _identity_detail(values: Mapping[str, str]) -> str:
    parts = []
    for key, label in (
        ("openblas_config", ""),
        ("mkl_version", ""),
        ("mkl_threading", "threading layer "),
        ("blis_version", "BLIS "),
        ("nvpl_version", "NVPL "),
        ("flexiblas_backend", "FlexiBLAS, backend "),
        ("atlas", "ATLAS, built by it: "),
        ("openblas_core", "core "),
        ("blis_core", "core "),
        ("lapack_version", "LAPACK "),
    ):
        text = values.get(f"identity.{key}")
        if text:
            parts.append(f"{label}{text}")
    threads = _threads(values)
    if threads is not None:
        parts.append(f"{threads} threads")
    return ", ".join(parts)


def _warnings(one: Told) -> list[str]:
    values = one.values
    found = []
    if values.get("load.flush_to_zero") == "yes":
        found.append(
            "loading it makes the processor flush subnormal numbers to zero, for the whole program"
        )
    before, after = values.get("load.cpus_before", ""), values.get("load.cpus_after", "")
    if before.isdecimal() and after.isdecimal() and _number(after) < _number(before):
        found.append(f"loading it pins the process to {after} of {before} processors")
    if values.get("load.signal_handlers"):
        found.append(f"loading it installs handlers of signals: {values['load.signal_handlers']}")
    if one.missing:
        found.append(
            f"the loader does not find {len(one.missing)} names of its export table: "
            f"{some(one.missing)}"
        )
    if one.data:
        found.append(f"{len(one.data)} routine names are data, not code: {some(one.data)}")
    if values.get("returns.complex") == "mixed" and sys.platform != "win32":
        found.append("its functions return complex numbers in different ways")
    if values.get("returns.complex") == "unknown":
        found.append("no call tells how it returns complex numbers")
    if values.get("returns.float") in ("unknown", "mixed"):
        found.append(f"how it returns single-precision numbers: {values['returns.float']}")
    return found
