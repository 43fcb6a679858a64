"""The alias archive: writing it, what an alias adds to a program, what a call through it costs."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Row, by_turns, call, median
from tests.support import Wheels

SPEC = "scipy-openblas64==0.3.34.481.3"
LIBRARY = "scipy_openblas64/lib/libscipy_openblas64_.so"
#: What has extensions of its own calls about as many routines.
COUNT = 100

_CALLS = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
double NATIVE_DDOT(int64_t, const double *, int64_t, const double *, int64_t);
double PLAIN_DDOT(int64_t, const double *, int64_t, const double *, int64_t);
#define GEMM(name) void name(int, int, int, int64_t, int64_t, int64_t, double, const double *, \\
    int64_t, const double *, int64_t, double, double *, int64_t)
GEMM(NATIVE_GEMM);
GEMM(PLAIN_GEMM);
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}
int main(int argc, char **argv)
{
    int rounds = atoi(argv[1]);
    long calls = 2000000;
    int64_t n = 1000;
    double x = 2, sum = 0, start;
    double *a = calloc(n * n, 8), *b = calloc(n * n, 8), *c = calloc(n * n, 8);
    if (argc < 2 || !a || !b || !c)
        return 2;
    for (int round = 0; round <= rounds; round++) {
        double times[4];
        start = now();
        for (long i = 0; i < calls; i++)
            sum += NATIVE_DDOT(1, &x, 1, &x, 1);
        times[0] = (now() - start) / calls;
        start = now();
        for (long i = 0; i < calls; i++)
            sum += PLAIN_DDOT(1, &x, 1, &x, 1);
        times[1] = (now() - start) / calls;
        start = now();
        NATIVE_GEMM(101, 111, 111, n, n, n, 1, a, n, b, n, 0, c, n);
        times[2] = now() - start;
        start = now();
        PLAIN_GEMM(101, 111, 111, n, n, n, 1, a, n, b, n, 0, c, n);
        times[3] = now() - start;
        if (round)
            printf("%f %f %f %f\\n", times[0], times[1], times[2], times[3]);
    }
    return sum < 0;
}
"""


def rows(rounds: int) -> Iterator[Row]:
    """Measure."""
    path = str(Wheels().unpacked(SPEC, "manylinux_2_28_x86_64", "3.11") / LIBRARY)
    aliases = _aliases(path)
    yield from _writing(aliases, rounds)
    with tempfile.TemporaryDirectory(prefix="blaswheel-benchmark-") as name:
        folder = Path(name)
        yield from _size(path, aliases, folder)
        yield from _speed(path, folder, rounds)


def _aliases(path: str) -> dict[str, str]:
    from blaswheel import _naming
    from blaswheel._reading import at

    (library,) = at(path)
    scheme = _naming.scheme("ilp64")
    families = _naming.chosen_families(library.families, "ilp64")
    names = _naming.serve(library.binary.functions, families, scheme, library.families)
    return names.aliases


def _writing(aliases: dict[str, str], rounds: int) -> Iterator[Row]:
    from blaswheel import _alias

    size = len(_alias.archive(aliases, "x86_64")) / 1e6
    times = by_turns({"": call(lambda: _alias.archive(aliases, "x86_64"))}, rounds)[""]
    what = f"alias archive of {len(aliases)} names"
    yield Row(what, median(times), "ms", "", "under 40 ms", median(times) < 40)
    yield Row(f"{what}, its size", size, "MB", "", "4.2 MB", size < 4.25)


def _size(path: str, aliases: dict[str, str], folder: Path) -> Iterator[Row]:
    """Link the same extension by native names, and by plain ones through the archive."""
    from blaswheel import _alias, _binary

    archive = folder / "libalias.a"
    archive.write_bytes(_alias.archive(aliases, "x86_64"))
    chosen = [each for each in aliases if each.startswith("cblas_")][:COUNT]
    sizes, symbols = [], []
    for number, names in enumerate((chosen, [aliases[each] for each in chosen])):
        source = folder / f"{number}.c"
        lines = [f"void {each}(void);" for each in names]
        calls = " ".join(f"{each}();" for each in names)
        source.write_text("\n".join([*lines, f"void run(void) {{ {calls} }}", ""]))
        output = folder / f"{number}.so"
        subprocess.run(
            ["gcc", "-O2", "-shared", "-fPIC", source, archive, path, "-o", output], check=True
        )
        listed = subprocess.run(
            ["size", "-d", output], check=True, capture_output=True, text=True
        ).stdout
        sizes.append(int(listed.splitlines()[1].split()[3]))
        binary = _binary.read(str(output))
        symbols.append(len(binary.functions) + len(binary.imports))
    each = (sizes[0] - sizes[1]) / COUNT
    what = "what one alias adds to an extension"
    yield Row(what, each, "bytes", "", "at most 48 bytes", each <= 48)
    more = symbols[0] - symbols[1]
    yield Row(f"{what}: dynamic symbols", more, "", "", "none", more == 0)


def _speed(path: str, folder: Path, rounds: int) -> Iterator[Row]:
    from blaswheel import _alias

    natives = {"DDOT": "scipy_cblas_ddot64_", "GEMM": "scipy_cblas_dgemm64_"}
    plain = {key: native.removeprefix("scipy_") for key, native in natives.items()}
    pairs = {plain[key]: natives[key] for key in natives}
    (folder / "libcalled.a").write_bytes(_alias.archive(pairs, "x86_64"))
    (folder / "calls.c").write_text(_CALLS)
    defines = [f"-DNATIVE_{key}={name}" for key, name in natives.items()]
    defines += [f"-DPLAIN_{key}={name}" for key, name in plain.items()]
    program = folder / "calls"
    # As an extension would: calls that go through the linkage table.
    command = ["gcc", "-O2", *defines, folder / "calls.c", folder / "libcalled.a", path]
    subprocess.run([*command, f"-Wl,-rpath,{Path(path).parent}", "-o", program], check=True)
    done = subprocess.run(
        [program, str(rounds)],
        check=True,
        capture_output=True,
        text=True,
        env={"OPENBLAS_NUM_THREADS": "1"},
    )
    lines = [tuple(map(float, line.split())) for line in done.stdout.splitlines()]
    direct = median(line[0] for line in lines)
    more = median(line[1] - line[0] for line in lines)
    what = "cblas_ddot, n = 1, through an alias, more than directly"
    yield Row(what, more, "ns", f"{direct:.1f} ns directly", "within 1 ns", abs(more) <= 1)
    ratios = sorted(line[3] / line[2] for line in lines)
    noise = sorted(line[2] for line in lines)
    spread = noise[-1] / noise[0] - 1
    value = median(ratios)
    yield Row(
        "cblas_dgemm, n = 1000, through an alias",
        median(line[3] for line in lines) / 1e6,
        "ms",
        f"{value:.3f} x directly",
        "within noise",
        abs(value - 1) <= max(spread, 0.01),
    )
