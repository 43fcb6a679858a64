"""The program ``blaswheel-probe``, by itself: on small libraries bent for a purpose, and real ones.

What it reports of a real library is compared with what is known of that library; what it does to
a library that crashes, hangs, exits or prints shows that nothing of it harms the caller.
"""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.build_wheel import ROOT, cache
from tests.support import Wheels, clean_environment

SOURCES = sorted((ROOT / "src" / "probe").glob("*.c"))
TEST_LIBRARY = ROOT / "tests" / "c" / "testblas.c"
STRICT = ("-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Werror")
LATEST = "0.3.34.481.3"
X86_64 = platform.machine() in ("x86_64", "AMD64")

pytestmark = pytest.mark.skipif(
    sys.platform != "linux",
    reason="the test libraries and most wheels are those of Linux",
)


class Report:
    """What one run of the probe wrote and how it ended."""

    def __init__(self, run: subprocess.CompletedProcess[str]) -> None:
        self.status = run.returncode
        self.errors = run.stderr
        self.lines = [line.partition("=")[::2] for line in run.stdout.splitlines()]
        self.values = {key: value for key, value in self.lines if key != "stage"}
        stages = [value for key, value in self.lines if key == "stage"]
        self.last_stage = stages[-1] if stages else ""
        self.is_complete = bool(self.lines) and self.lines[-1] == ("done", "ok")

    def __getitem__(self, key: str) -> str:
        return self.values[key]

    def all(self, key: str) -> list[str]:
        return [value for name, value in self.lines if name == key]


def compile_c(target: Path, sources: list[Path], *options: str, compiler: str = "cc") -> Path:
    """Compile ``sources`` to ``target`` without a warning."""
    command = [*compiler.split(), *map(str, sources), "-o", str(target), *options]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return target


def families(prefix: str = "", fortran: str = "_", c: str = "", only: str = "") -> list[str]:
    """Return the ``--family`` options for a decoration, or for one API of it."""
    suffixes = {"blas": fortran, "lapack": fortran, "cblas": c, "lapacke": c}
    chosen = {api: suffix for api, suffix in suffixes.items() if only in ("", api)}
    return [f"--family={api}:{prefix}:{suffix}" for api, suffix in chosen.items()]


def run_probe(
    program: Path | list[str],
    *arguments: str | Path,
    environ: Mapping[str, str] | None = None,
    given: str = "",
    timeout: float = 120,
) -> Report:
    words = [str(program)] if isinstance(program, Path) else program
    for argument in map(str, arguments):
        # --family=X is one word here for brevity, two for the program.
        words = (
            [*words, *argument.split("=", 1)] if argument.startswith("--") else [*words, argument]
        )
    environment = {**clean_environment(), "OPENBLAS_NUM_THREADS": "2", **(environ or {})}
    return Report(
        subprocess.run(
            words,
            input=given,
            capture_output=True,
            text=True,
            env=environment,
            timeout=timeout,
            check=False,
        )
    )


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The probe, as the system's compiler makes it."""
    target = tmp_path_factory.mktemp("probe") / "blaswheel-probe"
    return compile_c(target, SOURCES, *STRICT, "-O2", "-ldl")


@pytest.fixture(scope="session")
def testblas(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Compile the test library: ``testblas("BLAS_INT=64", "STUB")``."""
    folder = tmp_path_factory.mktemp("testblas")
    made: dict[tuple[str, ...], Path] = {}

    def make(*macros: str, compiler: str = "cc") -> Path:
        key = (compiler, *macros)
        if key not in made:
            # -w: a function without its body ignores its parameters, which is the purpose.
            options = ["-std=gnu11", "-O1", "-w", "-fPIC", "-shared", *(f"-D{m}" for m in macros)]
            target = folder / f"lib{len(made)}.so"
            made[key] = compile_c(target, [TEST_LIBRARY], *options, compiler=compiler)
        return made[key]

    return make


@pytest.fixture(scope="session")
def openblas(wheels: Wheels) -> Callable[..., tuple[list[str], Path]]:
    """Family options and path of a scipy-openblas wheel's library."""

    def get(bits: int, version: str = LATEST, tag: str | None = None) -> tuple[list[str], Path]:
        folder = wheels.unpacked(f"scipy-openblas{bits}=={version}", tag)
        patterns = ("*openblas*.so", "*openblas*.dll")
        found = [
            path
            for pattern in patterns
            for path in folder.glob(f"scipy_openblas{bits}/lib/{pattern}")
        ]
        prefix = "" if version.startswith("0.3.23") else "scipy_"
        suffix = "64_" if bits == 64 else ""
        return families(prefix, f"_{suffix}", suffix), found[0]

    return get


# Usage


def test_help_is_complete(program: Path) -> None:
    run = subprocess.run([program, "--help"], capture_output=True, text=True, check=True)
    for option in ("family", "stage", "names", "preload", "against", "threads", "cpu-seconds"):
        assert f"--{option}" in run.stdout
    assert "Example:" in run.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["a", "b"],
        ["--family", "blas", "a"],
        ["--family", "blis::", "a"],
        ["--family", "blas:" + "x" * 64 + ":", "a"],
        ["--stage", "cores", "a"],
        ["--cpu-seconds", "-1", "a"],
        ["--cpu-seconds", "1e3", "a"],
        ["--threads", "0", "a"],
        ["--nothing", "x", "a"],
        ["a", "--family"],
        [word for _ in range(33) for word in ("--family", "blas::_")] + ["a"],
    ],
)
def test_wrong_usage_says_what_and_what_to_do(program: Path, arguments: list[str]) -> None:
    run = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert run.stdout == ""
    assert len(run.stderr.splitlines()) == 2


def test_a_file_that_is_no_library_is_an_answer(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "with\nnewline"
    path.write_text("no library")
    report = run_probe(program, path)
    assert report.status == 1
    assert report.is_complete
    assert report["load"] == "failed"
    assert report["load.failed_path"].endswith("with\\x0anewline")
    assert report["load.error"]


# Width


@pytest.mark.parametrize(
    ("macros", "options"),
    [
        ((), families()),
        (("PREFIX=scipy_", "FORTRAN_SUFFIX=_"), families("scipy_", "_", "")),
        (("FORTRAN_SUFFIX=",), families("", "", "")),
        (("FORTRAN_SUFFIX=__",), families("", "__", "")),
        (
            ("PREFIX=scipy_", "FORTRAN_SUFFIX=_64_", "C_SUFFIX=64_"),
            families("scipy_", "_64_", "64_"),
        ),
        (("FORTRAN_SUFFIX=_64", "C_SUFFIX=_64"), families("", "_64", "_64")),
        (("FORTRAN_SUFFIX=64_", "C_SUFFIX=64_"), families("", "64_", "64_")),
        (
            ("FORTRAN_SUFFIX=$NEWLAPACK$ILP64", "C_SUFFIX=$NEWLAPACK$ILP64"),
            families("", "$NEWLAPACK$ILP64", "$NEWLAPACK$ILP64"),
        ),
    ],
)
@pytest.mark.parametrize("bits", [32, 64])
def test_width_comes_from_calls_not_from_names(
    program: Path,
    testblas: Callable[..., Path],
    macros: tuple[str, ...],
    options: list[str],
    bits: int,
) -> None:
    report = run_probe(program, *options, testblas(*macros, f"BLAS_INT={bits}"))
    expected = "ilp64" if bits == 64 else "lp64"
    assert report.status == 0
    assert report["width"] == expected
    assert report["width.answers"] == "7"
    assert {report[f"width.{family}"] for family in range(4)} == {expected}
    assert report["agreement"] == "ok"


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("only", ["blas", "lapack", "cblas", "lapacke"])
def test_one_interface_alone_suffices(
    program: Path, testblas: Callable[..., Path], only: str, bits: int
) -> None:
    others = [api for api in ("blas", "lapack", "cblas", "lapacke") if api != only]
    library = testblas(f"BLAS_INT={bits}", *(f"NO_{api.upper()}" for api in others))
    report = run_probe(program, *families(only=only), library)
    assert report.status == 0
    assert report["width"] == ("ilp64" if bits == 64 else "lp64")


def test_a_mixed_build_fails(program: Path, testblas: Callable[..., Path]) -> None:
    report = run_probe(program, *families(), testblas("BLAS_INT=32", "LAPACK_INT=64"))
    assert report.status == 1
    assert report.is_complete
    assert report["width"] == "mixed"
    assert report["width.0"] == "lp64"
    assert report["width.1"] == "ilp64"


def test_a_stub_is_unknown_everywhere(program: Path, testblas: Callable[..., Path]) -> None:
    report = run_probe(program, *families(), testblas("STUB"))
    assert report.status == 0
    answers = {value for key, value in report.values.items() if key.startswith("width.")}
    assert answers == {"unknown", "absent", "0"}
    assert report["returns.complex"] == "unknown"
    assert report["returns.float"] == "unknown"
    assert report["agreement"] == "unknown"


@pytest.mark.parametrize("bits", [32, 64])
def test_no_negative_length_reaches_a_library_that_stops_on_it(
    program: Path, testblas: Callable[..., Path], bits: int
) -> None:
    report = run_probe(program, *families(), testblas("STOP_NEGATIVE", f"BLAS_INT={bits}"))
    assert report.status == 0
    assert report.is_complete
    assert report["width"] == ("ilp64" if bits == 64 else "lp64")


@pytest.mark.tool("prlimit")
@pytest.mark.parametrize("bits", [32, 64])
def test_crafted_lengths_answer_where_address_space_is_short(
    program: Path, testblas: Callable[..., Path], bits: int
) -> None:
    limited = ["prlimit", "--as=1000000000", str(program)]
    report = run_probe(limited, *families(), testblas(f"BLAS_INT={bits}"))
    expected = "ilp64" if bits == 64 else "lp64"
    assert report["width.0.isamax"] == "unknown"
    assert report["width.0.isamax.crafted"] == expected
    assert report["width.0.ddot.crafted"] == expected
    assert report["width.2.cblas_isamax.crafted"] == expected
    assert report["width"] == expected


# Return conventions


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize(
    ("macro", "cdotc", "zdotc", "both"),
    [
        ("PLAIN", "register", "register", "register"),
        ("COMPLEX_ARGUMENT", "argument", "argument", "argument"),
        ("COMPLEX_MIXED", "register", "argument", "mixed"),
    ],
)
def test_complex_results(
    program: Path,
    testblas: Callable[..., Path],
    macro: str,
    cdotc: str,
    zdotc: str,
    both: str,
    bits: int,
) -> None:
    report = run_probe(program, *families(), testblas(macro, f"BLAS_INT={bits}"))
    assert report["returns.0.cdotc"] == cdotc
    assert report["returns.0.zdotc"] == zdotc
    assert report["returns.complex"] == both
    if macro == "COMPLEX_ARGUMENT":
        assert report["returns.1.zladiv"] == "argument"


@pytest.mark.parametrize(("macro", "expected"), [("PLAIN", "float"), ("F2C_FLOATS", "double")])
def test_float_results(
    program: Path, testblas: Callable[..., Path], macro: str, expected: str
) -> None:
    report = run_probe(program, *families(), testblas(macro))
    assert report["returns.0.sdot"] == expected
    assert report["returns.0.sasum"] == expected
    assert report["returns.float"] == expected


# Agreement and numbers


def test_a_row_major_layer_that_is_wrong(program: Path, testblas: Callable[..., Path]) -> None:
    report = run_probe(program, *families(), testblas("WRONG_ROWS"))
    assert report.status == 1
    assert report["agreement.cblas_dgemm_rows"] == "wrong"
    assert report["agreement.cblas_dgemm_columns"] == "ok"
    assert report["agreement"] == "wrong"


@pytest.mark.parametrize(("macro", "expected"), [("PLAIN", "on"), ("NO_NAN_CHECK", "off")])
def test_nan_check_of_lapacke(
    program: Path, testblas: Callable[..., Path], macro: str, expected: str
) -> None:
    assert run_probe(program, *families(), testblas(macro))["agreement.nan_check"] == expected


@pytest.mark.parametrize(
    ("macro", "text"),
    [
        ("READS_RESULT", "error nan"),
        ("OVERRUN", "wrote past the result"),
        ("WRONG_EDGE", "order 65 "),
    ],
)
def test_numerics_find_what_is_wrong(
    program: Path, testblas: Callable[..., Path], macro: str, text: str
) -> None:
    report = run_probe(program, "--stage=numerics", *families(), testblas(macro))
    assert report.status == 1
    assert report["numerics.dgemm"] == "wrong"
    assert text in report["numerics.dgemm.detail"].replace("-nan", "nan")
    assert report["numerics"] == "wrong"


def test_numerics_pass_what_is_right(program: Path, testblas: Callable[..., Path]) -> None:
    for bits in (32, 64):
        library = testblas("PLAIN", f"BLAS_INT={bits}")
        report = run_probe(program, "--stage=numerics", *families(), library)
        assert report.status == 0
        assert report["numerics.dgemm"] == "ok"
        assert report["numerics.sgemm"] == "absent"
        assert report["numerics"] == "ok"


# Libraries that misbehave


@pytest.mark.parametrize(
    ("macro", "ended", "stage"),
    [
        ("CRASH_LOAD", -signal.SIGSEGV, "load.open"),
        ("EXIT_LOAD", 0, "load.open"),
        ("CRASH_CALL", -signal.SIGSEGV, "width.0.isamax"),
        ("ILLEGAL_CALL", -signal.SIGILL, "width.0.isamax"),
        ("EXIT_CALL", 0, "width.0.isamax"),
    ],
)
def test_an_end_inside_the_library_names_the_stage(
    program: Path, testblas: Callable[..., Path], macro: str, ended: int, stage: str
) -> None:
    report = run_probe(program, *families(), testblas(macro))
    assert report.status == ended
    assert not report.is_complete
    assert report.last_stage == stage


def test_an_endless_loop_ends_at_the_limit(program: Path, testblas: Callable[..., Path]) -> None:
    start = time.monotonic()
    report = run_probe(program, "--cpu-seconds=1", *families(), testblas("LOOP_CALL"))
    assert time.monotonic() - start < 30
    assert report.status in (-signal.SIGXCPU, -signal.SIGKILL, -signal.SIGALRM)
    assert report.last_stage == "width.0.isamax"


def test_a_crash_leaves_no_core_file(
    program: Path, testblas: Callable[..., Path], tmp_path: Path
) -> None:
    command = [str(program), "--family", "blas::_", str(testblas("CRASH_CALL"))]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert list(tmp_path.iterdir()) == []


def test_what_a_library_prints_cannot_garble_the_report(
    program: Path, testblas: Callable[..., Path]
) -> None:
    report = run_probe(program, *families(), testblas("PRINT"))
    assert report.status == 0
    assert report.all("done") == ["ok"]
    assert report.all("width") == ["lp64"]
    assert "width=mixed" in report.errors


def test_the_probe_ends_with_its_parent(
    program: Path, testblas: Callable[..., Path], tmp_path: Path
) -> None:
    library = testblas("LOOP_CALL")
    code = (
        "import os, subprocess, sys, time\n"
        f"child = subprocess.Popen({[str(program), '--family', 'blas::_', str(library)]!r},\n"
        "    stdout=subprocess.PIPE)\n"
        "while b'isamax' not in child.stdout.readline(): pass\n"
        "print(child.pid, flush=True)\n"
        "os._exit(0)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    pid = int(run.stdout)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            return
        if state == "Z":
            return
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    pytest.fail("the probe outlived its parent")


def test_a_missing_library_is_named(
    program: Path, testblas: Callable[..., Path], tmp_path: Path
) -> None:
    other = tmp_path / "libother.so"
    source = tmp_path / "other.c"
    source.write_text("int function_of_another_library(void) { return 1; }\n")
    compile_c(other, [source], "-shared", "-fPIC")
    library = tmp_path / "libneeds.so"
    options = ["-std=gnu11", "-w", "-shared", "-fPIC", "-DNEEDS_MISSING", str(other)]
    compile_c(library, [TEST_LIBRARY], *options)
    assert run_probe(program, *families(), library)["load"] == "ok"
    other.unlink()
    report = run_probe(program, *families(), library)
    assert report.status == 1
    assert report["load"] == "failed"
    assert "libother.so" in report["load.error"]


def test_a_preload_serves_what_the_library_lacks(
    program: Path, testblas: Callable[..., Path], tmp_path: Path
) -> None:
    source = tmp_path / "layer.c"
    source.write_text("extern int layer(void);\nint isamax_(void) { return layer(); }\n")
    top = compile_c(tmp_path / "libtop.so", [source], "-shared", "-fPIC", "-Wl,-z,now")
    base = tmp_path / "base.c"
    base.write_text("int layer(void) { return 0; }\n")
    below = compile_c(tmp_path / "libbelow.so", [base], "-shared", "-fPIC")
    assert run_probe(program, top)["load"] == "failed"
    assert run_probe(program, f"--preload={below}", top)["load"] == "ok"


def test_the_mathematical_library_is_there_as_in_any_program(program: Path, tmp_path: Path) -> None:
    """MKL's kernels call libm without naming it among what they need."""
    source = tmp_path / "needs_libm.c"
    source.write_text(
        "float cabsf(float _Complex);\n"
        "long isamax_(void *n, float _Complex *x, void *step);\n"
        "long isamax_(void *n, float _Complex *x, void *step)\n"
        "{ (void)n; (void)step; return (long)cabsf(*x); }\n"
    )
    library = compile_c(tmp_path / "libneeds.so", [source], "-shared", "-fPIC")
    report = run_probe(program, *families(only="blas"), library)
    assert report.is_complete, report.errors


@pytest.mark.skipif(not X86_64, reason="sets the control word of x86-64")
def test_loading_that_flushes_subnormals_is_reported(
    program: Path, testblas: Callable[..., Path]
) -> None:
    assert run_probe(program, testblas("FLUSH_TO_ZERO"))["load.flush_to_zero"] == "yes"
    assert run_probe(program, testblas())["load.flush_to_zero"] == "no"


def test_loading_that_handles_signals_is_reported(
    program: Path, testblas: Callable[..., Path]
) -> None:
    assert run_probe(program, testblas("HANDLE_SIGNAL"))["load.signal_handlers"] == "SIGFPE"
    assert run_probe(program, testblas())["load.signal_handlers"] == ""


def test_loading_that_pins_the_process_is_reported(
    program: Path, testblas: Callable[..., Path]
) -> None:
    report = run_probe(program, testblas("PIN"))
    assert report["load.cpus_before"] == str(len(os.sched_getaffinity(0)))
    assert report["load.cpus_after"] == "1"


# Symbols


def test_symbols_are_looked_up_and_data_is_no_function(
    program: Path, testblas: Callable[..., Path], tmp_path: Path
) -> None:
    names = ["isamax_", "dnrm2_", "nowhere_", "x" * 300, "cblas_dgemm"]
    library = testblas("DATA_SYMBOL")
    file = tmp_path / "names"
    file.write_text("\n".join(names) + "\n\n")
    from_file = run_probe(program, f"--names={file}", library)
    from_input = run_probe(program, "--names=-", library, given="\r\n".join(names[:3]))
    assert from_input["symbols.expected"] == "3"
    assert from_input.all("symbols.missing_name") == ["nowhere_"]
    assert from_file["symbols.present"] == "2"
    assert from_file.all("symbols.data_name") == ["dnrm2_"]
    assert from_file["symbols"] == "incomplete"
    missing = run_probe(program, f"--names={tmp_path / 'absent'}", library)
    assert missing.status == 1
    assert missing["symbols"] == "unknown"


def test_unsafe_bytes_of_a_name_do_not_reach_the_report(
    program: Path, testblas: Callable[..., Path]
) -> None:
    report = run_probe(program, "--names=-", testblas(), given="a\x1bb\\c\n")
    assert report.all("symbols.missing_name") == ["a\\x1bb\\x5cc"]


# Real libraries

VERSIONS = ["0.3.23.293.2", "0.3.27.44.6", "0.3.31.22.1", LATEST]


@pytest.mark.skipif(not X86_64, reason="wheels of x86-64")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("bits", [32, 64])
def test_openblas_wheels(
    program: Path, openblas: Callable[..., tuple[list[str], Path]], bits: int, version: str
) -> None:
    options, library = openblas(bits, version)
    report = run_probe(program, *options, library)
    assert report.status == 0, report.values
    assert report["width"] == ("ilp64" if bits == 64 else "lp64")
    assert int(report["width.answers"]) >= 7
    assert report["returns.complex"] == "register"
    assert report["returns.float"] == "float"
    assert report["agreement"] == "ok"
    assert ("USE64BITINT" in report["identity.openblas_config"]) == (bits == 64)
    assert report["identity.lapack_version"].startswith("3.")


@pytest.mark.skipif(not X86_64, reason="wheels of x86-64")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("bits", [32, 64])
def test_openblas_computes_right(
    program: Path, openblas: Callable[..., tuple[list[str], Path]], bits: int, threads: int
) -> None:
    options, library = openblas(bits)
    stages = ["--stage=identity", "--stage=numerics", "--stage=fork", f"--threads={threads}"]
    report = run_probe(program, *stages, *options, library)
    assert report.status == 0, report.values
    assert report["identity.openblas_threads"] == str(threads)
    assert report["numerics"] == "ok"
    assert int(report["numerics.checks"]) > 2000
    assert report["fork"] == "ok"


@pytest.mark.skipif(not X86_64, reason="wheels of x86-64")
def test_an_ilp64_wheel_in_scope_breaks_an_lp64_one(
    program: Path, openblas: Callable[..., tuple[list[str], Path]]
) -> None:
    """The two wheels share names that were not renamed, and call them through the linkage table."""
    options, lp64 = openblas(32)
    _, ilp64 = openblas(64)
    before = run_probe(program, "--stage=load", f"--against={ilp64}", *options, lp64)
    assert before.status != 0
    assert before.values.get("against") != "ok"
    assert before.last_stage.startswith("against.")
    after = run_probe(program, "--stage=load", f"--against-after={ilp64}", *options, lp64)
    assert after.status == 0
    assert after["against"] == "ok"


@pytest.mark.full
@pytest.mark.skipif(not X86_64, reason="wheels of x86-64")
@pytest.mark.parametrize(
    ("environ", "options", "expected"),
    [
        ({}, families(), "lp64"),
        ({"MKL_INTERFACE_LAYER": "ILP64"}, families(), "ilp64"),
        ({}, families("", "_64_", "_64"), "ilp64"),
    ],
)
def test_mkl_through_its_single_library(
    program: Path,
    wheels: Wheels,
    environ: dict[str, str],
    options: list[str],
    expected: str,
) -> None:
    folders = mkl_folders(wheels)
    environ = {**environ, "LD_LIBRARY_PATH": ":".join(map(str, folders))}
    (library,) = folders[0].glob("libmkl_rt.so.*")
    stages = [f"--stage={stage}" for stage in ("identity", "returns", "agreement", "numerics")]
    report = run_probe(program, *stages, "--threads=1", *options, library, environ=environ)
    assert report.status == 0, (report.values, report.errors)
    assert report["width"] == expected
    assert report["returns.complex"] == "argument"
    assert report["agreement"] == "ok"
    assert report["numerics"] == "ok"
    assert "2026.2" in report["identity.mkl_version"]
    assert report["identity.mkl_threading"] == "intel"


@pytest.mark.full
@pytest.mark.skipif(not X86_64, reason="wheels of x86-64")
def test_mkl_whose_layer_is_missing_exits_and_is_attributed(program: Path, wheels: Wheels) -> None:
    folders = mkl_folders(wheels)
    environ = {"MKL_INTERFACE_LAYER": "GNU", "LD_LIBRARY_PATH": ":".join(map(str, folders))}
    (library,) = folders[0].glob("libmkl_rt.so.*")
    report = run_probe(program, *families(), library, environ=environ)
    assert report.status == 2
    assert not report.is_complete
    assert report.last_stage.startswith("identity.")
    assert "libmkl_gf_lp64" in report.errors


@pytest.mark.full
@pytest.mark.skipif(not X86_64, reason="wheels of x86-64")
@pytest.mark.parametrize("layer", ["lp64", "ilp64"])
def test_mkl_through_its_layers(program: Path, wheels: Wheels, layer: str) -> None:
    folder = mkl_folders(wheels)[0]
    environ = {"LD_LIBRARY_PATH": str(folder)}
    (library,) = folder.glob(f"libmkl_intel_{layer}.so.*")
    below = [next(folder.glob(f"libmkl_{name}.so.*")) for name in ("core", "sequential")]
    preloads = [f"--preload={path}" for path in below]
    alone = run_probe(program, *families(), library, environ=environ)
    assert not alone.is_complete or alone["load"] == "failed"
    report = run_probe(program, *preloads, *families(), library, environ=environ)
    assert report.status == 0, (report.values, report.errors)
    assert report["width"] == layer


def mkl_folders(wheels: Wheels) -> list[Path]:
    return [
        wheels.unpacked(spec) / f"{spec.replace('-', '_').replace('==', '-')}.data" / "data" / "lib"
        for spec in ("mkl==2026.2.0", "intel-openmp==2026.2.0")
    ]


# Other machines and compilers


@pytest.mark.tool("clang")
def test_clang_has_no_warning(tmp_path: Path) -> None:
    options = ["-Wshadow", "-Wstrict-prototypes", "-ldl"]
    compile_c(tmp_path / "probe", SOURCES, *STRICT, *options, compiler="clang")


@pytest.mark.tool("musl-gcc")
@pytest.mark.skipif(not X86_64, reason="a wheel of x86-64")
def test_musl(
    tmp_path: Path,
    testblas: Callable[..., Path],
    openblas: Callable[..., tuple[list[str], Path]],
) -> None:
    probe = compile_c(tmp_path / "probe", SOURCES, *STRICT, compiler="musl-gcc")
    bent = testblas("DATA_SYMBOL", "BLAS_INT=64", compiler="musl-gcc")
    report = run_probe(probe, "--names=-", *families(), bent, given="dnrm2_\nisamax_\n")
    assert report["width"] == "ilp64"
    assert report.all("symbols.data_name") == ["dnrm2_"]
    options, library = openblas(64, tag="musllinux_1_2_x86_64")
    report = run_probe(probe, *options, library)
    assert report.status == 0
    assert report["width"] == "ilp64"
    assert report["returns.complex"] == "register"


FOREIGN = {
    "aarch64": ("aarch64-linux-gnu", "register"),
    "s390x": ("s390x-linux-gnu", "argument"),
    "ppc64le": ("powerpc64le-linux-gnu", "register"),
}


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize(
    "machine",
    [
        pytest.param(
            machine, marks=pytest.mark.tool(f"{triplet}-gcc", f"qemu-{machine}"), id=machine
        )
        for machine, (triplet, _) in FOREIGN.items()
    ],
)
def test_wheels_of_other_machines_under_an_emulator(
    tmp_path: Path,
    openblas: Callable[..., tuple[list[str], Path]],
    testblas: Callable[..., Path],
    machine: str,
    bits: int,
) -> None:
    """s390x is big-endian, and returns complex numbers through a pointer in C as well."""
    triplet, convention = FOREIGN[machine]
    compiler = f"{triplet}-gcc"
    probe = compile_c(tmp_path / "probe", SOURCES, *STRICT, "-ldl", compiler=compiler)
    emulated = [f"qemu-{machine}", "-L", f"/usr/{triplet}", str(probe)]
    options, library = openblas(bits, tag=f"manylinux_2_28_{machine}")
    expected = "ilp64" if bits == 64 else "lp64"
    report = run_probe(emulated, "--threads=1", *options, library)
    assert report.status == 0, report.values
    assert report["width"] == expected
    assert int(report["width.answers"]) >= 6
    assert report["returns.complex"] == convention
    assert report["returns.native_complex"] == convention
    assert report["agreement"] == "ok"
    stub = testblas("STUB", f"BLAS_INT={bits}", compiler=compiler)
    assert run_probe(emulated, *families(), stub)["width"] == "unknown"
    mixed = testblas("LAPACK_INT=64", "BLAS_INT=32", compiler=compiler)
    assert run_probe(emulated, *families(), mixed)["width"] == "mixed"


#: Zig builds each target's C library when it first compiles for it, which takes up to minutes: one
#: target of each kind is compiled for in every run.
TARGETS = [
    "aarch64-linux-musl",
    "aarch64-macos",
    "x86_64-macos",
    "x86_64-windows-gnu",
    *(
        pytest.param(target, marks=pytest.mark.full)
        for target in (
            "aarch64-linux-gnu.2.17",
            "x86_64-linux-gnu.2.17",
            "x86_64-linux-musl",
            "aarch64-windows-gnu",
        )
    ),
]


def zig(tmp_path: Path, target: str) -> Path:
    name = "probe.exe" if "windows" in target else "probe"
    folder = cache() / "zig"
    folder.mkdir(parents=True, exist_ok=True)
    command = ["python-zig", "cc", "-target", target, *STRICT, "-O2", *map(str, SOURCES)]
    environ = {
        **clean_environment(),
        "ZIG_GLOBAL_CACHE_DIR": str(folder),
        "ZIG_LOCAL_CACHE_DIR": str(folder),
    }
    run = subprocess.run(
        [*command, "-o", str(tmp_path / name)],
        capture_output=True,
        text=True,
        env=environ,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "warning" not in run.stderr
    return tmp_path / name


@pytest.mark.timeout(900)
@pytest.mark.tool("python-zig")
@pytest.mark.parametrize("target", TARGETS)
def test_cross_compilation(tmp_path: Path, target: str) -> None:
    assert zig(tmp_path, target).stat().st_size > 0


@pytest.mark.timeout(900)
@pytest.mark.tool("python-zig", "wine")
@pytest.mark.parametrize("bits", [32, 64])
def test_the_windows_wheel_under_wine(
    tmp_path: Path, openblas: Callable[..., tuple[list[str], Path]], bits: int
) -> None:
    probe = zig(tmp_path, "x86_64-windows-gnu")
    options, library = openblas(bits, tag="win_amd64")
    environ = {"WINEPREFIX": str(cache() / "wine"), "WINEDEBUG": "-all"}
    report = run_probe(
        ["wine", str(probe)], "--threads=1", *options, f"Z:{library}", environ=environ, timeout=300
    )
    assert report.status == 0, report.values
    assert report["width"] == ("ilp64" if bits == 64 else "lp64")
    assert report["returns.0.cdotc"] == "register"
    assert report["returns.0.zdotc"] == "argument"
    assert report["returns.complex"] == "mixed"
    assert report["agreement"] == "ok"


# Memory errors of the probe itself


@pytest.mark.parametrize("macros", [(), ("BLAS_INT=64",), ("STUB",), ("COMPLEX_ARGUMENT",)])
def test_no_undefined_behaviour(
    tmp_path: Path, testblas: Callable[..., Path], macros: tuple[str, ...]
) -> None:
    sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-ldl"]
    probe = compile_c(tmp_path / "probe", SOURCES, *STRICT, *sanitizers)
    stages = [f"--stage={stage}" for stage in ("symbols", "identity", "returns", "agreement")]
    report = run_probe(
        probe,
        *stages,
        "--stage=numerics",
        "--stage=fork",
        "--names=-",
        *families(),
        testblas(*macros),
        given="isamax_\nnone_\n",
    )
    assert report.is_complete, report.errors
    assert "runtime error" not in report.errors


@pytest.mark.tool("valgrind")
@pytest.mark.parametrize("bits", [32, 64])
def test_no_memory_error(program: Path, testblas: Callable[..., Path], bits: int) -> None:
    checked = ["valgrind", "--quiet", "--error-exitcode=99", str(program)]
    library = testblas(f"BLAS_INT={bits}")
    report = run_probe(checked, "--names=-", *families(), library, given="isamax_\n")
    assert report.status == 0, report.errors
    assert report.is_complete
    assert report["width"] == ("ilp64" if bits == 64 else "lp64")


@pytest.mark.tool("gcc")
def test_the_program_needs_nothing_but_libc(program: Path) -> None:
    readelf = shutil.which("readelf")
    assert readelf is not None
    run = subprocess.run([readelf, "-d", str(program)], capture_output=True, text=True, check=True)
    needed = [
        line.split("[")[1].rstrip("]") for line in run.stdout.splitlines() if "NEEDED" in line
    ]
    assert set(needed) <= {"libc.so.6", "libdl.so.2", f"ld-linux-{platform.machine()}.so.2"}
