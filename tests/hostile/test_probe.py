"""The program that calls a library has no memory error of its own, whatever the library does."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.build_wheel import ROOT

pytestmark = pytest.mark.tool("gcc")

#: What a function, or the loading, does.
DEEDS = {
    "crash": "*(volatile int *)8 = 1;",
    "exit": "_exit(0);",
    "abort": "abort();",
    "hang": "for (;;) { volatile int i = 0; (void)i; }",
    "write": 'if (write(1, "done=ok\\nwidth=ilp64\\n", 20) < 0) _exit(3);',
    "flood": 'for (int i = 0; i < 4096; i++) puts("width=mixed and much more of the same");',
    "close": "for (int i = 0; i < 64; i++) close(i);",
    "fork": "if (fork() == 0) _exit(0);",
    "stack": "char big[64 << 20]; memset(big, 1, sizeof big); seen = big[9];",
    "scribble": "memset(environ, 0, sizeof *environ);",
}
SOURCE = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
extern char **environ;
volatile int seen;
static void deed(void) {{ {deed} }}
#ifdef LOADING
__attribute__((constructor)) static void load(void) {{ deed(); }}
#endif
int isamax_(void) {{ deed(); return 0; }}
int sasum_(void) {{ deed(); return 0; }}
double ddot_(void) {{ deed(); return 0; }}
double dnrm2_(void) {{ deed(); return 0; }}
void dgemm_(void) {{ deed(); }}
"""


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("probe") / "probe"
    command = ["gcc", "-std=c11", "-D_GNU_SOURCE", "-g", "-fsanitize=address,undefined"]
    command += ["-fno-sanitize-recover=all", *map(str, sorted((ROOT / "src/probe").glob("*.c")))]
    subprocess.run([*command, "-o", output, "-ldl", "-lm", "-lpthread"], check=True)
    return output


def run(probe: Path, *arguments: str | Path, given: bytes = b"") -> tuple[int, bytes]:
    """Run the probe; the first process in a report of a sanitizer would be the probe's own code."""
    done = subprocess.run(
        [str(probe), *map(str, arguments)],
        input=given,
        capture_output=True,
        timeout=60,
        check=False,
        # Crashes are the library's: the probe tells of them by the signal.
        env={"ASAN_OPTIONS": "handle_segv=0:handle_abort=0:detect_leaks=0", "LC_ALL": "C"},
    )
    assert b"AddressSanitizer" not in done.stderr, done.stderr
    assert b"runtime error" not in done.stderr, done.stderr
    return done.returncode, done.stdout


@pytest.mark.parametrize("when", ["call", "load"])
@pytest.mark.parametrize("deed", DEEDS)
def test_hostile_libraries(probe: Path, tmp_path: Path, deed: str, when: str) -> None:
    (tmp_path / "odd.c").write_text(SOURCE.format(deed=DEEDS[deed]))
    options = ["-DLOADING"] if when == "load" else []
    library = tmp_path / "odd.so"
    command = ["gcc", "-shared", "-fPIC", "-w", "-O0", *options, "-o", library, tmp_path / "odd.c"]
    subprocess.run(command, check=True)
    _, output = run(probe, "--cpu-seconds=1", "--family", "odd::_", library)
    # What it wrote itself is not taken for the report.
    assert b"width=ilp64" not in output
    assert b"width=mixed" not in output


@pytest.mark.parametrize(
    "arguments",
    [
        ["--family", ""],
        ["--family", ":" * 5000],
        ["--family", "a" * 100_000 + "::_"],
        ["--family", "::" + "%n%s" * 1000],
        ["--stage=" + "x" * 100_000],
        ["--cpu-seconds=" + "9" * 400],
        ["--cpu-seconds=-1"],
        ["--names=" + "/" * 5000],
        ["--family", "x::_"] * 500,
        [""],
        ["\udcff\udcfe"],
        ["--"],
    ],
    ids=lambda arguments: arguments[0][:12] if arguments else "none",
)
def test_hostile_arguments(probe: Path, arguments: list[str]) -> None:
    run(probe, *arguments)
    run(probe, *arguments, "/nonexistent.so")


@pytest.mark.parametrize("given", [b"", b"\0" * 5000, b"a" * 200_000, b"\xff\n" * 5000, b"%s%n\n"])
def test_hostile_names(probe: Path, small_blas: Path, given: bytes) -> None:
    run(probe, "--names=-", "--family", "blas::_", small_blas, given=given)
