"""A set for another machine, written from its wheels, builds programs that run there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.sites import Blaswheel
from tests.support import Venv, Wheels

NEWEST = "0.3.34.481.3"
#: The last release with wheels for 32-bit Linux.
I686 = "0.3.31.188.0"


class Host(NamedTuple):
    """A machine that programs are built for."""

    tag: str
    specs: tuple[str, ...]
    compiler: tuple[str, ...]
    runner: tuple[str, ...]
    platform: str
    interfaces: tuple[str, ...] = ("lp64", "ilp64")


def openblas(version: str, *widths: str) -> tuple[str, ...]:
    return tuple(f"scipy-openblas{width}=={version}" for width in widths)


def linux(machine: str, triple: str, emulator: str, tag: str, *specs: str) -> Host:
    runner = (emulator, "-L", f"/usr/{triple}", "-E")
    interfaces = ("lp64", "ilp64") if len(specs) > 1 else ("lp64",)
    return Host(tag, specs, (f"{triple}-gcc",), runner, f"linux_{machine}", interfaces)


BOTH = openblas(NEWEST, "32", "64")
ARM = ("aarch64", "aarch64-linux-gnu", "qemu-aarch64")
HOSTS = {
    "aarch64": linux(*ARM, "manylinux_2_28_aarch64", *BOTH),
    "nvpl": linux(*ARM, "manylinux_2_26_aarch64", "nvpl-blas==0.6.0", "nvpl-lapack==0.4.0.1"),
    "ppc64le": linux(
        "ppc64le", "powerpc64le-linux-gnu", "qemu-ppc64le", "manylinux_2_28_ppc64le", *BOTH
    ),
    "s390x": linux("s390x", "s390x-linux-gnu", "qemu-s390x", "manylinux_2_28_s390x", *BOTH),
    "windows": Host("win_amd64", BOTH, ("x86_64-w64-mingw32-gcc",), ("wine",), "win_amd64"),
}
#: Linked, but not run here.
LINKED = {
    # Its library needs a libz of that machine.
    "i686": Host(
        "manylinux2014_i686",
        openblas(I686, "32"),
        ("i686-linux-gnu-gcc",),
        (),
        "linux_i686",
        ("lp64",),
    ),
    "macos-arm64": Host(
        "macosx_11_0_arm64",
        BOTH,
        ("zig", "cc", "-target", "aarch64-macos"),
        (),
        "macosx_12_0_arm64",
    ),
    "macos-x86_64": Host(
        "macosx_10_15_x86_64",
        BOTH,
        ("zig", "cc", "-target", "x86_64-macos"),
        (),
        "macosx_11_0_x86_64",
    ),
    "windows-arm64": Host(
        "win_arm64", BOTH, ("zig", "cc", "-target", "aarch64-windows-gnu"), (), "win_arm64"
    ),
    "windows-i686": Host(
        "win32",
        openblas(NEWEST, "32"),
        ("zig", "cc", "-target", "x86-windows-gnu"),
        (),
        "win32",
        ("lp64",),
    ),
    "windows-lld": Host(
        "win_amd64", BOTH, ("zig", "cc", "-target", "x86_64-windows-gnu"), (), "win_amd64"
    ),
}

PROGRAM = r"""
#include <stdint.h>
#include <cblas.h>
#include <lapacke.h>
#ifdef WIDE
typedef int64_t integer;
#define PLAIN(name) name##64_
#define FORTRAN(name) name##_64_
#else
typedef int32_t integer;
#define PLAIN(name) name
#define FORTRAN(name) name##_
#endif
void FORTRAN(dgemm)(const char *, const char *, const integer *, const integer *, const integer *,
                    const double *, const double *, const integer *, const double *,
                    const integer *, const double *, double *, const integer *);
int main(void)
{
    double x[] = {1, 2, 3}, a[] = {2, 1, 1, 3}, b[] = {3, 5}, c[4], one = 1, zero = 0;
    integer two = 2, pivots[3] = {0, 0, -7};
    if (PLAIN(cblas_ddot)(3, x, 1, x, 1) != 14)
        return 1;
    FORTRAN(dgemm)("N", "N", &two, &two, &two, &one, a, &two, a, &two, &zero, c, &two);
    if (c[0] != 5 || c[1] != 5 || c[2] != 5 || c[3] != 10)
        return 2;
#ifndef NO_LAPACKE
    if (PLAIN(LAPACKE_dgesv)(LAPACK_ROW_MAJOR, 2, 1, a, 2, (void *)pivots, b, 1) != 0)
        return 3;
    if (b[0] < 0.79 || b[0] > 0.81 || b[1] < 1.39 || b[1] > 1.41 || pivots[2] != -7)
        return 4;
#endif
    return 0;
}
"""


def run(*words: str | Path, cwd: Path, environ: dict[str, str] | None = None) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        words,
        cwd=cwd,
        env={**os.environ, "PATH": path, **(environ or {})},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def blaswheel(shared_venv: Callable[..., Venv]) -> Blaswheel:
    return Blaswheel(shared_venv())


@pytest.fixture(scope="module")
def prepared(
    blaswheel: Blaswheel, wheels: Wheels, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Host], Path]:
    """Write the set of a host from a folder with its wheels; once for each."""
    made: dict[str, Path] = {}

    def prepare(host: Host) -> Path:
        key = f"{host.tag} {host.specs}"
        if key not in made:
            folder = made[key] = tmp_path_factory.mktemp("host")
            (folder / "wheels").mkdir()
            for spec in host.specs:
                wheel = wheels.fetch(spec, host.tag)
                (folder / "wheels" / wheel.name).symlink_to(wheel)
            blaswheel(
                *("pc", "--root", folder / "wheels", "--platform", host.platform),
                *("--dir", folder / "pc"),
            )
        return made[key]

    return prepare


def link(host: Host, folder: Path, interface: str, tmp_path: Path) -> tuple[Path, Path]:
    """Link the program through the set; return it, and the folder of the library."""
    wide = interface == "ilp64"
    names = [f"openblas{'64' * wide}"]
    if not (folder / "pc" / f"{names[0]}.pc").exists():
        names = [f"{name}{'64' * wide}" for name in ("lapack", "cblas", "blas")]
    ask = ("pkg-config", "--define-variable=x=y")
    environ = {"PKG_CONFIG_LIBDIR": str(folder / "pc"), "PKG_CONFIG_PATH": ""}
    flags = run(*ask, "--cflags", "--libs", *names, cwd=tmp_path, environ=environ).split()
    where = run(*ask, "--variable=libdir", names[0], cwd=tmp_path, environ=environ).strip()
    (tmp_path / "program.c").write_text(PROGRAM)
    defines = ["-DWIDE"] if wide else []
    if not (folder / "pc" / f"lapacke{'64' * wide}.pc").exists():
        defines.append("-DNO_LAPACKE")
    output = tmp_path / ("program.exe" if "windows" in host.compiler[-1] or "mingw" in
                         host.compiler[0] else "program")  # fmt: skip
    run(*host.compiler, *defines, "program.c", *flags, "-o", output, cwd=tmp_path)
    return output, Path(where)


CASES = [
    pytest.param(
        host,
        interface,
        id=f"{name}-{interface}",
        marks=pytest.mark.tool(host.compiler[0], host.runner[0], "pkg-config"),
    )
    for name, host in HOSTS.items()
    for interface in host.interfaces
]


@pytest.mark.parametrize(("host", "interface"), CASES)
def test_programs_run(
    prepared: Callable[[Host], Path], tmp_path: Path, host: Host, interface: str
) -> None:
    folder = prepared(host)
    program, where = link(host, folder, interface, tmp_path)
    if host.runner == ("wine",):
        environ = {"WINEPATH": f"Z:{where}", "WINEDEBUG": "-all", "WINEPREFIX": str(tmp_path / "w")}
        run("wine", program, cwd=tmp_path, environ=environ)
    else:
        threads = {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
        run(*host.runner, f"LD_LIBRARY_PATH={where}", program, cwd=tmp_path, environ=threads)


@pytest.mark.parametrize(
    ("host", "interface"),
    [
        pytest.param(
            host,
            interface,
            id=f"{name}-{interface}",
            marks=pytest.mark.tool(
                "pkg-config",
                "llvm-objdump",
                *(host.compiler[:1] if "gcc" in host.compiler[0] else ()),
            ),
        )
        for name, host in LINKED.items()
        for interface in host.interfaces
    ],
)
def test_programs_link(
    prepared: Callable[[Host], Path], tmp_path: Path, host: Host, interface: str
) -> None:
    folder = prepared(host)
    if host.compiler[0] == "zig":
        host = host._replace(compiler=(sys.executable, "-m", "ziglang", *host.compiler[1:]))
    program, _ = link(host, folder, interface, tmp_path)
    macos = "macos" in host.compiler[-1]
    reader = ("llvm-nm", "--undefined-only") if macos else ("llvm-objdump", "-p", "-T")
    said = run(*reader, program, cwd=tmp_path)
    assert ("scipy_cblas_ddot64_" if interface == "ilp64" else "scipy_cblas_ddot") in said


@pytest.mark.tool("aarch64-linux-gnu-gcc", "qemu-aarch64", "pkg-config")
@pytest.mark.parametrize("runtime", ["link", "absolute"])
def test_meson_builds_for_another_machine(
    blaswheel: Blaswheel,
    prepared: Callable[[Host], Path],
    tmp_path: Path,
    runtime: str,
) -> None:
    folder = prepared(HOSTS["aarch64"])
    blaswheel(
        *("pc", "--root", folder / "wheels", "--platform", "linux_aarch64", "--runtime", runtime),
        *("--dir", tmp_path / "pc", "--cross-file", tmp_path / "blas.ini"),
    )
    (tmp_path / "machine.ini").write_text(
        "[host_machine]\nsystem = 'linux'\ncpu_family = 'aarch64'\ncpu = 'aarch64'\n"
        "endian = 'little'\n[binaries]\nc = 'aarch64-linux-gnu-gcc'\n"
        "exe_wrapper = ['qemu-aarch64', '-L', '/usr/aarch64-linux-gnu']\n"
    )
    work = tmp_path / "work"
    work.mkdir()
    (work / "program.c").write_text(PROGRAM)
    (work / "meson.build").write_text(
        "project('x', 'c')\n"
        "narrow = executable('narrow', 'program.c', dependencies: dependency('openblas'))\n"
        "wide = executable('wide', 'program.c', c_args: '-DWIDE', "
        "dependencies: dependency('openblas64'))\n"
        "test('narrow', narrow)\ntest('wide', wide)\n"
    )
    files = ("--cross-file", tmp_path / "blas.ini", "--cross-file", tmp_path / "machine.ini")
    run("meson", "setup", *files, "build", work, cwd=tmp_path)
    run("meson", "compile", "-C", "build", cwd=tmp_path)
    run("meson", "test", "-C", "build", cwd=tmp_path)


def test_list_of_what_is_for_one_machine(
    blaswheel: Blaswheel, prepared: Callable[[Host], Path]
) -> None:
    folder = prepared(HOSTS["s390x"])
    words = ("list", "--json", "--root", folder / "wheels", "--platform", "linux_s390x")
    found = json.loads(blaswheel(*words).stdout)["libraries"]
    assert {(one["machine"], one["interface"]) for one in found} == {
        ("s390x", "lp64"),
        ("s390x", "ilp64"),
    }
