"""Checking a library by calling it, in a child: what the probe is asked, with which environment."""

from __future__ import annotations

import os

from blaswheel import _files, _kernels
from blaswheel._errors import BlaswheelError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from blaswheel._library import Library
    from blaswheel._names import Family
    from blaswheel._verdict import Child, Verdict

#: What every verdict rests on, in the order in which it is run.
STAGES = ("load", "symbols", "identity", "width", "returns", "agreement")
#: Further stages, each in a child of its own.
EXTRA = ("numerics", "fork")
#: Wall-clock seconds that a child is given.
TIMEOUT = 60.0
EXTRA_TIMEOUT = 300.0
_FORMAT = "blaswheel verdict 1"

# Variables that select kernels stay, since a user sets them where a build would crash without;
# the verdict tells them.
_KERNEL_VARIABLES = (
    "BLIS_ARCH_TYPE",
    "MKL_CBWR",
    "MKL_DEBUG_CPU_TYPE",
    "MKL_ENABLE_INSTRUCTIONS",
    "NVPL_BLAS_DEBUG_CPU_TYPE",
    "OPENBLAS_CORETYPE",
    "OPENBLAS_L2_SIZE",
)
# What begins so changes threads, interface, loading or output, and is dropped.
_STEERING = (
    "ARMPL_",
    "BLIS_",
    "DYLD_",
    "FLEXIBLAS",
    "GFORTRAN_",
    "GLIBC_TUNABLES",
    "GOMP_",
    "GOTO",
    "KMP_",
    "LBT_",
    "LD_",
    "MKL_",
    "NVPL_",
    "OMP_",
    "OPENBLAS_",
    "VECLIB_",
)


def environment(
    environ: Mapping[str, str], *, as_is: bool = False
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the child's environment, and what of it has a say in what the library does.

    Parameters
    ----------
    environ : mapping
        The user's.
    as_is : bool
        Keep all of it, to reproduce what the user sees.
    """
    steering = {name for name in environ if name.startswith(_STEERING)}
    kept = steering if as_is else steering.intersection(_KERNEL_VARIABLES)
    child = {name: value for name, value in environ.items() if name in kept or name not in steering}
    return child, {name: environ[name] for name in sorted(kept)}


def verify(
    library: Library,
    *,
    stages: Sequence[str] = (),
    as_is: bool = False,
    use_cache: bool = True,
    emulator: Sequence[str] = (),
    probe: str | None = None,
    preload: Sequence[str] = (),
    timeout: float | None = None,
) -> Verdict:
    """Load a library in children and check it by calling it.

    Parameters
    ----------
    library : Library
    stages : sequence of str
        Further ones: ``numerics``, ``fork``.
    as_is : bool
        Leave the environment as it is; nothing is taken from the cache, or put there.
    use_cache : bool
        Whether an earlier verdict on the same file, processor and environment will do.
    emulator : sequence of str
        A program and its arguments that runs the probe and a library of another machine.
    probe : str, optional
        Path of the probe, instead of the one that was installed with blaswheel.
    preload : sequence of str
        Libraries to open before this one, for those that come in layers.
    timeout : float, optional
        Wall-clock seconds that each child is given.

    Returns
    -------
    Verdict
        A library that crashes, hangs, exits or computes wrong is a verdict, not an error.

    Raises
    ------
    BlaswheelError
        If there is no probe, or it or the emulator can't be started.
    """
    for stage in stages:
        if stage not in EXTRA:
            raise UsageError(f"no stage {stage!r}", f"further stages are {' and '.join(EXTRA)}")
    program = _program(probe)
    environ, recorded = environment(os.environ, as_is=as_is)
    may_cache = use_cache and not as_is
    entry = None
    if may_cache:
        entry = _entry(library, recorded, program, emulator, preload)
        if not stages:
            known = _recall(entry, library, recorded)
            if known is not None:
                return known
    from blaswheel import _verdict

    run = Runner(program, emulator, preload, environ)
    children = [
        run(library, families, "calls", STAGES, timeout or TIMEOUT) for families in uses(library)
    ]
    verdict = _verdict.judge(children, recorded, library.implementation)
    if verdict.ok and entry is not None:
        _remember(entry, children)
    if verdict.ok and stages:
        for stage in stages:
            for families in uses(library):
                children += _further(run, library, families, stage, timeout or EXTRA_TIMEOUT)
        verdict = _verdict.judge(children, recorded, library.implementation)
    return verdict


def _further(
    run: Runner, library: Library, families: Sequence[Family], stage: str, timeout: float
) -> list[Child]:
    if stage != "numerics":
        return [run(library, families, stage, (stage,), timeout)]
    # One thread first: a wrong kernel is then told apart from wrong threading.
    one_thread = ("--threads", "1")
    return [
        run(library, families, "numerics, one thread", (stage,), timeout, arguments=one_thread),
        run(library, families, "numerics, all threads", (stage,), timeout),
    ]


def cached(library: Library) -> Verdict | None:
    """Return what an earlier run showed of a library, if it is as it was; load nothing."""
    try:
        program = _program(None)
        _, recorded = environment(os.environ)
        return _recall(_entry(library, recorded, program, (), ()), library, recorded)
    except (BlaswheelError, OSError):
        return None


def as_known(library: Library) -> Library:
    """Return a library with what an earlier run showed, if there was one; load nothing."""
    verdict = cached(library)
    return library if verdict is None else apply(library, verdict)


def uses(library: Library) -> list[tuple[Family, ...]]:
    """Return the families of a library in groups that a program would use together.

    A library that has names of both widths (MKL) is not a mixed build: nobody uses both as one,
    and MKL fixes its width at the first call. Names of one width, or of none that is known, are
    for one use, and must agree.
    """
    groups: dict[str, list[Family]] = {}
    for family in library.families:
        groups.setdefault(family.interface, []).append(family)
    return [tuple(group) for group in groups.values()]


class Runner:
    """Runs the probe on libraries, with what is the same for all of its children."""

    def __init__(
        self,
        program: str,
        emulator: Sequence[str],
        preload: Sequence[str],
        environ: Mapping[str, str],
    ) -> None:
        self.program = program
        self.emulator = tuple(emulator)
        self.preload = tuple(preload)
        self.environ = environ

    def __call__(
        self,
        library: Library,
        families: Sequence[Family],
        purpose: str,
        stages: Sequence[str],
        timeout: float,
        *,
        arguments: Sequence[str] = (),
        core: str | None = None,
    ) -> Child:
        """Run one child and return what became of it.

        Parameters
        ----------
        library : Library
        families : sequence of Family
            The names to call.
        purpose : str
        stages : sequence of str
        timeout : float
            Seconds.
        arguments : sequence of str
            Further ones for the probe.
        core : str, optional
            The kernel set that an OpenBLAS is told to use.
        """
        from blaswheel import _child
        from blaswheel._verdict import Child

        command = [*self.emulator, self.program]
        for family in families:
            command += ["--family", f"{family.api}:{family.prefix}:{family.suffix}"]
        for stage in stages:
            command += ["--stage", stage]
        given = b""
        if "symbols" in stages:
            command += ["--names", "-"]
            given = _expected(library, families)
        for path in self.preload:
            command += ["--preload", os.path.abspath(path)]
        if library.vendor.layers is not None and library.parts:
            # As in a program that is linked with them: the kernels that MKL 2021 and 2022 open
            # look for the functions of the layers in the whole process.
            command += ["--scope", "global"]
        # The probe's own bound holds if this process is killed; ours is there first.
        command += ["--cpu-seconds", str(max(1, int(timeout + 0.999)))]
        environ = dict(self.environ)
        if core is not None:
            environ["OPENBLAS_CORETYPE"] = core
        try:
            with _Opened(library) as path:
                command += [*arguments, path]
                ended = _child.run(command, environ, given=given, timeout=timeout)
        except OSError as error:
            raise BlaswheelError(
                f"can't run {command[0]}: {error.strerror or error}",
                "give a program that runs here with --emulator"
                if self.emulator
                else "reinstall blaswheel, or give the program with --probe",
            ) from error
        return Child(
            purpose=purpose,
            families=tuple(families),
            stages=tuple(stages),
            output=ended.output,
            errors=ended.errors,
            status=ended.status,
            signal=ended.signal,
            ended_for=ended.ended_for,
            seconds=timeout,
            core=core,
        )


class _Opened:
    """The one file to open: the library's, or for the time of a child one that needs its parts."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._folder = ""

    def __enter__(self) -> str:
        library = self._library
        if not library.parts:
            from blaswheel import _static

            return os.path.abspath(_static.loadable(library))
        import tempfile

        from blaswheel import _bundle

        content = _bundle.write([os.path.abspath(path) for path in library.parts], library.system)
        self._folder = tempfile.mkdtemp(prefix="blaswheel-")
        path = os.path.join(self._folder, os.path.basename(library.path))
        with open(path, "wb") as file:
            file.write(content)
        return path

    def __exit__(self, *_: object) -> None:
        if self._folder:
            import shutil

            shutil.rmtree(self._folder, ignore_errors=True)


def runner(
    *,
    as_is: bool = False,
    emulator: Sequence[str] = (),
    probe: str | None = None,
    preload: Sequence[str] = (),
) -> Runner:
    """Return what runs children for `verify`'s parameters."""
    environ, _ = environment(os.environ, as_is=as_is)
    return Runner(_program(probe), emulator, preload, environ)


def apply(library: Library, verdict: Verdict) -> Library:
    """Return what is known of a library after it has been called: the call wins.

    What no call told stays as the static evidence has it. A library that has not passed is
    returned as it is.
    """
    if not verdict.ok:
        return library
    families = []
    for family in library.families:
        told = verdict.interface_of(family)
        families.append(family.replace(interface=told) if told != "unknown" else family)
    first = families[0].interface
    changes: dict[str, object] = {
        "families": tuple(families),
        "interface": library.interface if first == "unknown" else first,
        "verified": True,
        "complex_return": verdict.complex_return,
        "float_return": verdict.float_return,
        "version": verdict.version or library.version,
        "evidence": (f"{verdict.calls} calls agree", *library.evidence),
    }
    if "lapack_version" in library._fields and verdict.lapack_version:
        changes["lapack_version"] = verdict.lapack_version
    return library.replace(**changes)


def disagreements(library: Library, verdict: Verdict) -> list[str]:
    """Return where calls contradict what names, headers or the shipped ``.pc`` say."""
    told: dict[tuple[str, str], list[str]] = {}
    for family in library.families:
        called = verdict.interface_of(family)
        if "unknown" not in (called, family.interface) and called != family.interface:
            spelling = f"{family.prefix}*{family.suffix}"
            told.setdefault((called, family.interface), []).append(spelling)
    return [
        f"{', '.join(dict.fromkeys(names))}: calls show {called.upper()}, not {static.upper()} as "
        "its names and files say; the calls win"
        for (called, static), names in told.items()
    ]


def _program(probe: str | None) -> str:
    if probe is not None:
        return os.path.abspath(probe)
    from blaswheel import _probe

    return _probe.find()


def _expected(library: Library, families: Sequence[Family]) -> bytes:
    """The names of families that the export table has, a line each, for the loader to confirm."""
    from blaswheel import _routines

    exported = set(library.binary.functions)
    names: dict[str, None] = {}
    for family in families:
        for stem in sorted(_routines.routines(family.api)):
            name = f"{family.prefix}{stem}{family.suffix}"
            if name in exported:
                names[name] = None
    return "".join(f"{name}\n" for name in names).encode("utf-8", "surrogateescape")


# The cache. An entry is what the children wrote, so that an old verdict and a new one are the
# same code's work. Only what passed is kept: a failure is tried again, for what it lacked may be
# there by then.


def _entry(
    library: Library,
    recorded: Mapping[str, str],
    program: str,
    emulator: Sequence[str],
    preload: Sequence[str],
) -> str | None:
    """Return the path of a verdict's cache entry; None if a file can't be looked at."""
    from blaswheel import __version__

    parts = [_FORMAT, __version__, _kernels.processor(), *emulator]
    try:
        for path in (*library.files, program, *preload):
            real = os.path.realpath(path)
            stat = os.stat(real)
            # These stand for the content: what rewrites a file changes its ctime.
            parts += [real, str(stat.st_size), str(stat.st_mtime_ns), str(stat.st_ctime_ns)]
    except OSError:
        return None
    if hasattr(os, "sched_getaffinity"):
        parts.append(str(len(os.sched_getaffinity(0))))
    parts += [f"{name}={value}" for name, value in recorded.items()]
    for family in library.families:
        parts.append(f"{family.api}:{family.prefix}:{family.suffix}")
    return os.path.join(_files.cache_dir(), "verdicts", _files.digest(*parts))


def _remember(entry: str, children: Sequence[Child]) -> None:
    lines = [_FORMAT.encode()]
    for child in children:
        lines.append(b"child")
        lines += child.output.rstrip(b"\n").split(b"\n")
    text = b"\n".join(lines) + b"\n"
    seal = _files.digest(text.decode("ascii", "backslashreplace"))
    try:
        _files.write_atomically(entry, text + f"seal {seal}\n".encode())
    except BlaswheelError:
        # A cache that can't be written costs time, nothing else.
        pass


def _recall(entry: str | None, library: Library, recorded: Mapping[str, str]) -> Verdict | None:
    if entry is None:
        return None
    try:
        with open(entry, "rb") as file:
            content = file.read()
    except OSError:
        return None
    text, _, seal = content.rpartition(b"seal ")
    if _files.digest(text.decode("ascii", "backslashreplace")).encode() != seal.strip():
        # Damaged: it will be written anew.
        return None
    from blaswheel import _verdict

    known = {f"{one.api}:{one.prefix}:{one.suffix}": one for one in library.families}
    children = []
    for output in text.rstrip(b"\n").split(b"\nchild\n")[1:]:
        values = _verdict.parse(output + b"\n").values
        named = [values[key] for key in values if key.startswith("family.")]
        if not named or not known.keys() >= set(named):
            return None
        children.append(
            _verdict.Child(
                purpose="calls",
                families=tuple(known[name] for name in named),
                stages=STAGES,
                output=output + b"\n",
            )
        )
    if not children:
        return None
    verdict = _verdict.judge(children, recorded, library.implementation, cached=True)
    return verdict if verdict.ok else None
