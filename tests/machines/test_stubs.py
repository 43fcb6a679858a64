"""An alias of every machine is called, from code that uses its linkage table after the call."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from blaswheel import _alias, _stubs


class Target(NamedTuple):
    """A machine, what compiles for it, and what runs it here."""

    triple: str
    emulator: str
    linkers: tuple[str, ...] = ("bfd",)


TARGETS = {
    "x86_64": Target("x86_64-linux-gnu", "", ("bfd", "gold", "lld", "mold")),
    "aarch64": Target("aarch64-linux-gnu", "qemu-aarch64", ("bfd", "gold", "lld")),
    "ppc64le": Target("powerpc64le-linux-gnu", "qemu-ppc64le", ("bfd", "lld")),
    "s390x": Target("s390x-linux-gnu", "qemu-s390x"),
    # lld 14 does not relax, which Debian's start files ask for.
    "riscv64": Target("riscv64-linux-gnu", "qemu-riscv64"),
    "i686": Target("i686-linux-gnu", "qemu-i386", ("bfd", "gold", "lld")),
    "armv7l": Target("arm-linux-gnueabihf", "qemu-arm", ("bfd", "gold", "lld")),
}
CASES = [
    pytest.param(
        machine,
        linker,
        id=f"{machine}-{linker}",
        marks=pytest.mark.tool(
            f"{target.triple}-gcc",
            *filter(None, [target.emulator]),
            *(
                []
                if linker == "bfd" or linker == "gold"
                else ["mold" if linker == "mold" else "ld.lld"]
            ),
        ),
    )
    for machine, target in TARGETS.items()
    for linker in target.linkers
]

#: Arguments in registers of both kinds and on the stack, and a result of floating point.
SIGNATURE = "double {}(int, double, const double *, int, long, int, int, int, int, int, float, int)"
NATIVE = """
int calls;
double native_sum(int a, double b, const double *c, int d, long e, int f, int g, int h, int i,
                  int j, float k, int l)
{
    calls++;
    return a + b + c[0] + c[1] + d + e + f + g + h + i + j + k + l;
}
void native_set(double *where, double what) { *where = what; }
"""
OTHER = "int other(int x) { static int seen; seen += x; return seen; }"
#: A module: position independent, so that what follows each call goes through its GOT or TOC.
MODULE = f"""
extern int calls;
int other(int);
{SIGNATURE.format("plain_sum")};
void plain_set(double *, double);
double total;
typedef {SIGNATURE.format("(*sum)")};
sum volatile address = plain_sum;
double run(void)
{{
    double c[2] = {{0.25, 0.5}}, extra;
    total = plain_sum(1, 2.0, c, 3, 4, 5, 6, 7, 8, 9, 10.0f, 11);
    total += calls;
    total += other(100);
    plain_set(&extra, 1000.0);
    total += extra + other(1);
    total += address(1, 2.0, c, 3, 4, 5, 6, 7, 8, 9, 10.0f, 11);
    return total + calls;
}}
"""
PROGRAM = """
double run(void);
extern double total;
int main(void)
{
    double first = 66.75 + 1 + 100 + 1000 + 101 + 66.75 + 2;
    return run() != first || total + 2 != first;
}
"""
ALIASES = {"plain_sum": "native_sum", "plain_set": "native_set"}


def run(*words: str | Path, cwd: Path) -> str:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def test_every_machine_is_called_here_or_named() -> None:
    assert set(_stubs.STUBS["elf"]) == {*TARGETS, "loongarch64"}


@pytest.mark.parametrize(("machine", "linker"), CASES)
def test_calls_come_back_to_a_module_whose_table_is_intact(
    tmp_path: Path, machine: str, linker: str
) -> None:
    target = TARGETS[machine]
    (tmp_path / "libalias.a").write_bytes(_alias.archive(ALIASES, machine))
    for name, text in (
        ("native", NATIVE),
        ("other", OTHER),
        ("module", MODULE),
        ("program", PROGRAM),
    ):
        (tmp_path / f"{name}.c").write_text(text)
    # A cross compiler finds only its own linkers by itself.
    (tmp_path / "ld.lld").symlink_to(shutil.which("ld.lld") or "/nowhere")
    compiler = (
        f"{target.triple}-gcc",
        "-B",
        str(tmp_path),
        "-O2",
        "-Wl,--fatal-warnings",
        f"-fuse-ld={linker}",
    )
    shared = (*compiler, "-shared", "-fPIC")
    run(*shared, "native.c", "-o", "libnative.so", cwd=tmp_path)
    run(*shared, "other.c", "-o", "libother.so", cwd=tmp_path)
    run(
        *(*shared, "-Wl,-z,defs", "module.c", "-L.", "-lalias", "-lnative", "-lother"),
        *("-o", "libmodule.so"),
        cwd=tmp_path,
    )
    run(
        *(*compiler, "program.c", "-L.", "-lmodule", "-Wl,-rpath-link,.", "-Wl,-rpath,$ORIGIN"),
        *("-Wl,--disable-new-dtags", "-o", "program"),
        cwd=tmp_path,
    )
    emulator = (target.emulator, "-L", f"/usr/{target.triple}") if target.emulator else ()
    if (machine, linker) == ("ppc64le", "lld"):
        # lld 14 writes instructions of POWER10 where a call does not restore the table's address.
        emulator += ("-cpu", "power10")
    run(*emulator, tmp_path / "program", cwd=tmp_path)
    exported = run("readelf", "--dyn-syms", "-W", "libmodule.so", cwd=tmp_path)
    assert "native_sum" in exported and "plain_sum" not in exported


@pytest.mark.tool("readelf", "llvm-readobj")
@pytest.mark.parametrize("machine", _stubs.STUBS["elf"])
def test_readers_have_nothing_to_say(tmp_path: Path, machine: str) -> None:
    archive = tmp_path / "libalias.a"
    archive.write_bytes(_alias.archive(ALIASES, machine))
    for reader in (
        ("readelf", "-aW"),
        ("llvm-readobj", "--file-headers", "--sections", "--symbols", "--relocations", "--notes"),
        ("llvm-nm", "--print-armap"),
    ):
        said = run(*reader, archive, cwd=tmp_path)
        assert "arning" not in said and "error" not in said.lower(), said
        assert "plain_sum" in said


@pytest.mark.tool("llvm-readobj")
@pytest.mark.parametrize(
    ("kind", "machine"),
    [(kind, machine) for kind in ("macho", "pe") for machine in _stubs.STUBS[kind]],
)
def test_readers_of_other_systems_have_nothing_to_say(
    tmp_path: Path, kind: str, machine: str
) -> None:
    archive = tmp_path / "libalias.a"
    archive.write_bytes(_alias.archive(ALIASES, machine, kind))
    options = ("--file-headers", "--sections", "--symbols", "--relocations")
    said = run("llvm-readobj", *options, archive, cwd=tmp_path)
    assert "arning" not in said and "error" not in said.lower(), said
    listed = run("llvm-nm", "--print-armap", archive, cwd=tmp_path)
    mark = "_" if _stubs.stub(machine, kind).underscore else ""
    assert f"{mark}plain_sum in plain_sum.o" in listed or f"{mark}plain_sum in " in listed
    assert f"T {mark}plain_set" in listed and f"U {mark}native_set" in listed


#: Fortran functions that write their result to where the first argument points, as MKL's do.
BY_ARGUMENT = """
#include <complex.h>
void native_z(double complex *result, const int *n, const double complex *x, const int *incx,
              const double complex *y, const int *incy)
{
    *result = (double)(*n + 10 * *incx + 100 * *incy) * x[0] + y[0];
}
void native_c(float complex *result, const float complex *x, const float complex *y)
{
    *result = *x + 2 * *y;
}
"""
BY_VALUE = """
#include <complex.h>
double complex plain_z(const int *, const double complex *, const int *, const double complex *,
                       const int *);
float complex plain_c(const float complex *, const float complex *);
int main(void)
{
    int n = 1, incx = 2, incy = 3;
    double complex x = 1 + 2 * I, y = 5 - 7 * I;
    float complex a = 1 + 2 * I, b = 3 - 4 * I;
    return plain_z(&n, &x, &incx, &y, &incy) != 321 * x + y || plain_c(&a, &b) != a + 2 * b;
}
"""


@pytest.mark.parametrize(
    "machine",
    [
        pytest.param(
            machine,
            marks=pytest.mark.tool(
                f"{TARGETS[machine].triple}-gcc", *TARGETS[machine].emulator.split()
            ),
        )
        for machine in ("x86_64", "aarch64")
    ],
)
def test_complex_results_come_in_registers(tmp_path: Path, machine: str) -> None:
    target = TARGETS[machine]
    aliases = {"plain_z": "native_z", "plain_c": "native_c"}
    precisions = {"plain_z": "double", "plain_c": "single"}
    archive = _alias.archive(aliases, machine, results=precisions)
    (tmp_path / "libalias.a").write_bytes(archive)
    (tmp_path / "native.c").write_text(BY_ARGUMENT)
    (tmp_path / "program.c").write_text(BY_VALUE)
    compiler = (f"{target.triple}-gcc", "-O2", "-Wl,--fatal-warnings")
    run(*compiler, "-shared", "-fPIC", "native.c", "-o", "libnative.so", cwd=tmp_path)
    run(
        *(
            *compiler,
            "program.c",
            "-L.",
            "-lalias",
            "-lnative",
            "-Wl,-rpath,$ORIGIN",
            "-o",
            "program",
        ),
        cwd=tmp_path,
    )
    emulator = (target.emulator, "-L", f"/usr/{target.triple}") if target.emulator else ()
    run(*emulator, tmp_path / "program", cwd=tmp_path)
