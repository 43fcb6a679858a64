"""``blaswheel verify`` on libraries compiled for it: each fault is a verdict, and harms nobody."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from blaswheel import _child, _environment, _probe, _routines, _verify
from blaswheel._child import run
from blaswheel._library import Library
from blaswheel._names import Family
from blaswheel._verdict import Child, judge
from tests.support import Wheels

pytestmark = [
    pytest.mark.tool("gcc"),
    pytest.mark.skipif(sys.platform != "linux", reason="the test library is for ELF systems"),
]

SOURCE = Path(__file__).resolve().parent.parent / "c" / "testblas.c"
#: What the probe calls of what the test library leaves out: no name may stand for nothing there.
CALLED = {
    *("snrm2", "scnrm2", "cladiv", "zladiv", "slamch", "slange", "cblas_cdotc_sub"),
    "LAPACKE_ilaver",
}

Build = Callable[..., Path]


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str, str], Path]:
    """Give the other names of a whole BLAS and LAPACK, as weak functions that do nothing."""
    folder = tmp_path_factory.mktemp("fillers")

    def compile_once(prefix: str, fortran: str, c: str) -> Path:
        path = folder / f"filler-{prefix}-{fortran}-{c}.o"
        if not path.exists():
            lines = []
            for api, suffix in (("blas", fortran), ("lapack", fortran), ("cblas", c)):
                stems = sorted(_routines.routines(api) - CALLED)
                lines += [
                    f"__attribute__((weak)) void {prefix}{s}{suffix}(void) {{}}" for s in stems
                ]
            source = path.with_suffix(".c")
            source.write_text("\n".join(lines) + "\n")
            subprocess.run(["gcc", "-fPIC", "-c", source, "-o", path], check=True)
        return path

    return compile_once


@pytest.fixture
def build(tmp_path: Path, objects: Callable[[str, str, str], Path]) -> Build:
    """Compile the test library: ``build("CRASH_LOAD", PREFIX="scipy_")``."""

    def compile_library(
        *macros: str, name: str = "libtestblas.so", link: tuple[str, ...] = (), **values: object
    ) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        filler = objects(
            str(values.get("PREFIX", "")),
            str(values.get("FORTRAN_SUFFIX", "_")),
            str(values.get("C_SUFFIX", "")),
        )
        defines = [f"-D{macro}=1" for macro in macros]
        defines += [f"-D{macro}={value}" for macro, value in values.items()]
        command = ["gcc", "-shared", "-fPIC", "-O1", *defines, SOURCE, filler, "-o", path, *link]
        subprocess.run(command, check=True)
        return path

    return compile_library


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLASWHEEL_CACHE_DIR", str(tmp_path / "cache"))
    for name in list(os.environ):
        if name.startswith(("OPENBLAS_", "MKL_", "OMP_", "NVPL_", "BLIS_")):
            monkeypatch.delenv(name)


def blaswheel(*arguments: object, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "blaswheel", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


def examined(path: Path) -> Library:
    return _environment.one_file(str(path), _environment.Environment(libraries=()))


def test_a_sound_library_passes(build: Build) -> None:
    done = blaswheel("verify", build())
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("ok: ")
    assert last.endswith("lp64 * verified by 6 calls")


@pytest.mark.parametrize(
    ("prefix", "fortran", "c", "bits", "interface"),
    [
        ("", "_", "", 32, "lp64"),
        ("", "_", "", 64, "ilp64"),
        ("", "_64_", "64_", 64, "ilp64"),
        ("", "_64_", "64_", 32, "lp64"),
        ("", "_64_", "_64", 64, "ilp64"),
        ("", "64_", "64_", 64, "ilp64"),
        ("scipy_", "_", "", 32, "lp64"),
        ("scipy_", "_64_", "64_", 64, "ilp64"),
        ("my", "_", "", 64, "ilp64"),
    ],
)
def test_width_is_what_calls_show_whatever_the_names_say(
    build: Build, prefix: str, fortran: str, c: str, bits: int, interface: str
) -> None:
    path = build(PREFIX=prefix, FORTRAN_SUFFIX=fortran, C_SUFFIX=c, BLAS_INT=bits)
    done = blaswheel("verify", "--json", path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["interface"] == interface
    assert document["verified"] is True
    for api in ("blas", "lapack", "cblas"):
        (family,) = document["names"][api]
        assert (family["prefix"], family["suffix"]) == (prefix, c if api == "cblas" else fortran)
        assert family["interface"] == interface
    stages = {stage["name"]: stage["outcome"] for stage in document["stages"]}
    assert stages["width"] == interface
    assert stages["agreement"] == "ok"


def test_the_call_wins_over_the_names_and_stderr_says_so(build: Build) -> None:
    path = build(FORTRAN_SUFFIX="_64_", C_SUFFIX="64_", BLAS_INT=32)
    done = blaswheel("verify", path)
    assert done.returncode == 0
    assert "calls show LP64, not ILP64" in done.stderr


@pytest.mark.parametrize(("macro", "told"), [(None, "register"), ("COMPLEX_ARGUMENT", "argument")])
def test_complex_return_is_told_by_right_values(build: Build, macro: str | None, told: str) -> None:
    verdict = _verify.verify(examined(build(*[macro] if macro else [])))
    assert verdict.ok
    assert verdict.complex_return == told


@pytest.mark.parametrize(("macro", "told"), [(None, "float"), ("F2C_FLOATS", "double")])
def test_float_return_is_told_by_right_values(build: Build, macro: str | None, told: str) -> None:
    verdict = _verify.verify(examined(build(*[macro] if macro else [])))
    assert verdict.ok
    assert verdict.float_return == told


@pytest.mark.parametrize(
    ("macros", "told"),
    [
        (["CRASH_LOAD"], "crashed with SIGSEGV while it was loaded (stage load.open)"),
        (["CRASH_CALL"], "crashed with SIGSEGV in isamax (stage width.0.isamax)"),
        (["ILLEGAL_CALL"], "crashed with SIGILL in isamax (stage width.0.isamax)"),
        (["EXIT_LOAD"], "ended the process with exit status 0 while it was loaded"),
        (["EXIT_CALL"], "ended the process with exit status 0 in isamax"),
        (["WRONG_ROWS"], "computes wrong: cblas_dgemm_rows"),
        (["STUB"], "no call tells the width of its integers"),
        (["BLAS_INT=32", "LAPACK_INT=64"], "a mixed build: blas *_ is lp64, lapack *_ is ilp64"),
    ],
)
def test_a_fault_is_a_verdict_that_names_the_stage(
    build: Build, macros: list[str], told: str
) -> None:
    plain = [macro for macro in macros if "=" not in macro]
    values = dict(macro.split("=") for macro in macros if "=" in macro)
    done = blaswheel("verify", build(*plain, **values))
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("failed: ")
    assert told in done.stdout.splitlines()[-1]
    what, hint = [line for line in done.stderr.splitlines() if not line.startswith("  |")]
    assert told in what
    assert hint.strip()


def test_a_hang_is_ended_and_named(build: Build) -> None:
    path = build("LOOP_CALL")
    start = time.monotonic()
    done = blaswheel("verify", "--timeout", "1", path)
    assert time.monotonic() - start < 20
    assert done.returncode == 1
    assert "did not end within 1 s: hangs in isamax (stage width.0.isamax)" in done.stdout


def test_a_stop_on_negative_lengths_is_not_provoked(build: Build) -> None:
    done = blaswheel("verify", build("STOP_NEGATIVE"))
    assert done.returncode == 0, done.stdout


def test_what_a_library_prints_is_no_report(build: Build) -> None:
    done = blaswheel("verify", build("PRINT"))
    assert done.returncode == 0, done.stdout
    # Its forged lines are shown as what they are.
    assert "  | width=mixed" in done.stderr.splitlines()


def test_a_missing_dependency_is_named(build: Build, tmp_path: Path) -> None:
    other = tmp_path / "libother.so"
    source = tmp_path / "other.c"
    source.write_text("int function_of_another_library(void) { return 0; }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", other], check=True)
    path = build("NEEDS_MISSING", link=(f"-L{tmp_path}", "-Wl,--no-as-needed", "-lother"))
    moved = tmp_path / "elsewhere" / "libother.so"
    moved.parent.mkdir()
    other.rename(moved)
    done = blaswheel("verify", path)
    assert done.returncode == 1
    assert "does not load: libother.so: cannot open" in done.stdout
    assert "install what has libother.so, or give its path with --preload" in done.stderr
    assert str(path) in done.stdout


def test_loading_that_changes_the_process_is_told(build: Build) -> None:
    told = json.loads(blaswheel("verify", "--json", build("HANDLE_SIGNAL")).stdout)["warnings"]
    assert any("handlers of signals" in warning for warning in told)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="sets a register of x86-64")
def test_flush_to_zero_is_told(build: Build) -> None:
    told = json.loads(blaswheel("verify", "--json", build("FLUSH_TO_ZERO")).stdout)["warnings"]
    assert any("flush subnormal numbers to zero" in warning for warning in told)


def fake_probe(folder: Path, script: str) -> Path:
    path = folder / "probe"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("head -c 3000 /dev/urandom", "not its protocol"),
        ("echo hello", "not its protocol"),
        ("echo stage=load.open; echo done=ok; exec cat /dev/zero", "writes without end"),
        ("echo stage=load.open; exec yes a=b", "writes without end"),
        ("exec yes >&2", "writes without end"),
        ("exit 0", "did not start: exit status 0"),
        ("echo usage: x >&2; exit 2", "did not start: exit status 2: usage: x"),
        ("echo stage=load.open; echo done=ok; kill -KILL $$", "crashed with SIGKILL"),
        ("echo stage=width.0.isamax; exec sleep 100", "did not end within 1 s: hangs in isamax"),
        ("echo stage=width.0.isamax; exec >&- 2>&-; sleep 100", "hangs in isamax"),
        ("sleep 100 & echo stage=load.open; exit 7", "exit status 7 while it was loaded"),
    ],
)
def test_what_a_child_writes_is_not_trusted(
    build: Build, tmp_path: Path, script: str, told: str
) -> None:
    start = time.monotonic()
    probe = fake_probe(tmp_path, script)
    done = blaswheel("verify", "--probe", probe, "--timeout", "1", build())
    assert time.monotonic() - start < 20
    assert done.returncode == 1
    assert told in done.stdout.splitlines()[-1]


def test_a_crash_in_a_kernel_names_the_core_and_the_variable_that_avoids_it() -> None:
    output = (
        b"family.0=blas::_\nstage=identity.openblas_core\nidentity.openblas_core=SkylakeX\n"
        b"stage=agreement.dgemm\n"
    )
    family = Family(api="blas", prefix="", suffix="_", found=1, known=1)
    child = Child(
        purpose="calls",
        families=(family,),
        stages=_verify.STAGES,
        output=output,
        status=None,
        signal=signal.SIGILL,
    )
    verdict = judge([child], {}, "openblas")
    assert verdict.failure == (
        "crashed with SIGILL in dgemm on core SkylakeX (stage agreement.dgemm)"
    )
    assert verdict.hint == "try OPENBLAS_CORETYPE=Haswell"
    verdict = judge([child], {"OPENBLAS_CORETYPE": "SkylakeX"}, "openblas")
    assert verdict.hint.startswith("OPENBLAS_CORETYPE is SkylakeX: unset it")


@pytest.mark.corpus
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the cores are those of x86-64")
def test_a_kernel_set_that_crashes_is_named(wheels: Wheels, tmp_path: Path) -> None:
    # The real probe, but a processor that fails in one kernel set.
    program = _probe.find()
    probe = fake_probe(
        tmp_path,
        f"""case "$*" in *numerics*)
            if [ "$OPENBLAS_CORETYPE" = Nehalem ]; then
                echo stage=numerics.dgemm.33; kill -ILL $$
            fi
        esac
        exec {shlex.quote(program)} "$@\"""",
    )
    folder = wheels.unpacked("scipy-openblas64==0.3.34.481.3")
    path = folder / "scipy_openblas64" / "lib" / "libscipy_openblas64_.so"
    done = blaswheel("verify", "--cores", "--probe", probe, path, timeout=250)
    assert done.returncode == 1
    (failed,) = [line for line in done.stdout.splitlines() if line.startswith("  core Nehalem")]
    assert "crashed with SIGILL in dgemm" in failed
    assert "avoids it" in done.stderr
    assert "OPENBLAS_CORETYPE=Nehalem avoids" not in done.stderr


@pytest.mark.parametrize(("declared", "status"), [("int", 0), ("long", 1)])
def test_headers_are_compared_with_the_binary(
    build: Build, tmp_path: Path, declared: str, status: int
) -> None:
    include = tmp_path / "include"
    include.mkdir()
    (include / "cblas.h").write_text(
        f"double cblas_ddot({declared} n, const double *x, {declared} incx,\n"
        f"                  const double *y, {declared} incy);\n"
    )
    done = blaswheel("verify", build(name="lib/libtestblas.so"))
    assert done.returncode == status, done.stdout
    if status:
        assert "its cblas header declares ILP64 integers, calls show LP64" in done.stdout


def test_a_probe_that_can_not_be_run_is_an_error(build: Build, tmp_path: Path) -> None:
    path = build()
    for arguments in (["--probe", tmp_path / "none"], ["--emulator", "no-such-emulator -L x"]):
        done = blaswheel("verify", *arguments, path)
        assert done.returncode == 1
        assert "can't run" in done.stderr
        assert "Traceback" not in done.stderr


def test_an_emulator_is_given_the_probe(build: Build) -> None:
    done = blaswheel("verify", "--emulator", "env RUN_BY=emulator", build())
    assert done.returncode == 0, done.stderr


def test_root_never_loads(build: Build, tmp_path: Path) -> None:
    marker = tmp_path / "loaded"
    probe = fake_probe(tmp_path, f"touch {marker}")
    done = blaswheel("verify", "--root", tmp_path, "--probe", probe)
    assert done.returncode == 2
    assert not marker.exists()


def test_children_and_their_children_end(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    script = f"sleep 100 & echo $! > {note}; sleep 100"
    ended = run(["sh", "-c", script], os.environ, timeout=0.5)
    assert ended.ended_for == "timeout"
    for _ in range(100):
        status = Path(f"/proc/{note.read_text().strip()}/stat")
        # A zombie has ended; nobody in this container may be there to reap it.
        if not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z":
            break
        time.sleep(0.05)
    else:
        pytest.fail("a child's child lives on")


@pytest.mark.parametrize("implementation", ["_run_posix", "_run_elsewhere"])
def test_children_are_bounded_on_every_system(implementation: str) -> None:
    start = getattr(_child, implementation)
    echoed = start(["cat"], os.environ, b"x" * 300_000, 20.0)
    assert (echoed.status, echoed.ended_for, echoed.output) == (0, None, b"x" * 300_000)
    flood = start(["sh", "-c", "exec yes"], os.environ, b"", 20.0)
    assert flood.ended_for == "output"
    assert len(flood.output) <= _child.MAX_OUTPUT
    noise = start(["sh", "-c", "yes | head -c 300000 >&2; exit 3"], os.environ, b"", 20.0)
    assert (noise.status, len(noise.errors)) == (3, _child.KEPT_ERRORS)
    assert start(["sleep", "100"], os.environ, b"", 0.3).ended_for == "timeout"


def test_no_descriptor_is_left_open() -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    for command in (["true"], ["cat"], ["/nonexistent"]):
        try:
            run(command, os.environ, given=b"x" * 300_000, timeout=5)
        except FileNotFoundError:
            pass
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_environment_keeps_what_selects_kernels_only() -> None:
    environ = {
        "PATH": "/bin",
        "OPENBLAS_CORETYPE": "Haswell",
        "OPENBLAS_NUM_THREADS": "7",
        "OMP_NUM_THREADS": "7",
        "MKL_INTERFACE_LAYER": "ILP64",
        "MKL_CBWR": "AVX2",
        "LD_PRELOAD": "x.so",
        "GFORTRAN_UNBUFFERED_ALL": "1",
    }
    child, recorded = _verify.environment(environ)
    assert child == {"PATH": "/bin", "OPENBLAS_CORETYPE": "Haswell", "MKL_CBWR": "AVX2"}
    assert recorded == {"MKL_CBWR": "AVX2", "OPENBLAS_CORETYPE": "Haswell"}
    child, recorded = _verify.environment(environ, as_is=True)
    assert child == environ
    assert recorded.keys() == environ.keys() - {"PATH"}


def test_preloads_are_dropped_and_kept_as_is(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    crashing = build("CRASH_LOAD", name="crash/libcrash.so")
    path = build()
    monkeypatch.setenv("LD_PRELOAD", str(crashing))
    library = examined(path)
    assert _verify.verify(library).ok
    assert not _verify.verify(library, as_is=True).ok


def entries(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache" / "verdicts").glob("[!.]*"))


def test_a_verdict_is_remembered_for_file_and_environment(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = build()
    library = examined(path)
    assert _verify.cached(library) is None
    first = _verify.verify(library)
    assert not first.cached
    again = _verify.verify(library)
    assert again.cached
    assert again.replace(cached=False) == first
    assert _verify.cached(library) == again
    assert not _verify.verify(library, use_cache=False).cached
    assert not _verify.verify(library, as_is=True).cached
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    other = _verify.verify(library)
    assert not other.cached
    assert other.environment == {"OPENBLAS_CORETYPE": "Haswell"}
    monkeypatch.delenv("OPENBLAS_CORETYPE")
    assert len(entries(tmp_path)) == 2
    os.utime(path, ns=(1, 1))
    assert not _verify.verify(library).cached


def test_a_failure_is_tried_again(build: Build, tmp_path: Path) -> None:
    library = examined(build("STUB"))
    assert not _verify.verify(library).ok
    assert entries(tmp_path) == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[: len(content) // 2],
        lambda content: content.replace(b"lp64", b"ilp6"),
        lambda content: b"\xff" * len(content),
        lambda content: content + b"more\n",
    ],
)
def test_a_damaged_entry_is_made_anew(
    build: Build, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    library = examined(build())
    _verify.verify(library)
    (entry,) = entries(tmp_path)
    sound = entry.read_bytes()
    entry.write_bytes(damage(sound))
    verdict = _verify.verify(library)
    assert verdict.ok
    assert not verdict.cached
    assert _verify.verify(library).cached


def test_an_unwritable_cache_is_no_error(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BLASWHEEL_CACHE_DIR", str(tmp_path / "file" / "cache"))
    done = blaswheel("verify", build())
    assert done.returncode == 0, done.stderr


def test_list_and_show_use_a_verdict_and_load_nothing(build: Build, tmp_path: Path) -> None:
    path = build(BLAS_INT=64)
    before = json.loads(blaswheel("show", "--json", path).stdout)
    assert before["verified"] is False
    assert entries(tmp_path) == []
    blaswheel("verify", path)
    after = json.loads(blaswheel("show", "--json", path).stdout)
    assert after["verified"] is True
    assert after["interface"] == "ilp64"
    assert after["complex_return"] == "register"


def test_pc_calls_first_and_the_call_wins(build: Build) -> None:
    path = build(FORTRAN_SUFFIX="_64_", C_SUFFIX="64_", BLAS_INT=32, name="liblying.so")
    done = blaswheel("pc", path)
    assert done.returncode == 0, done.stderr
    assert "interface=lp64" in done.stdout
    assert "calls show LP64, not ILP64" in done.stderr
    asked = blaswheel("pc", "--interface", "ilp64", path)
    assert asked.returncode == 1
    assert asked.stdout == ""
    trusted = blaswheel("pc", "--no-verify", path)
    assert "interface=ilp64" in trusted.stdout


def test_pc_of_a_library_that_crashes_is_an_error(build: Build, tmp_path: Path) -> None:
    path = build("CRASH_CALL")
    done = blaswheel("pc", path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "crashed with SIGSEGV in isamax" in done.stderr
    assert "--no-verify" in done.stderr
    assert blaswheel("pc", "--no-verify", path).returncode == 0
