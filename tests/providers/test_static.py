"""Providers that ship an archive alone: listed, linked, called, and what they need besides."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.sites import Blaswheel, distribution, fields
from tests.link.compiling import run, with_flags
from tests.support import Venv, Wheels

LAPACK = "python-openblas-build==0.3.28rc1"
#: (provider, its version of OpenBLAS, what a link needs besides, whether it has LAPACK)
PROVIDERS = (
    ("pylib-openblas==0.0.2", "0.3.20", "-lpthread -lm", False),
    ("pythran-openblas==0.3.6", "0.3.6", "-lpthread -lm", False),
    (LAPACK, "0.3.28", "-lgfortran -lm", True),
)
C = """\
#include <cblas.h>
#include <stdio.h>
double ddot_(const int *, const double *, const int *, const double *, const int *);
int main(void)
{
    double x[3] = {1, 2, 3};
    int n = 3, one = 1;
    printf("%g %g\\n", cblas_ddot(3, x, 1, x, 1), ddot_(&n, x, &one, x, &one));
    return 0;
}
"""
FORTRAN = """\
program main
  double precision :: a(1, 1) = 2, b(1) = 4
  double precision, external :: ddot
  integer :: info = 0, pivot(1) = 1
  @call dgesv(1, 1, a, 1, pivot, b, 1, info)
  print '(f4.1, f5.1, i2)', ddot(1, b, 1, b, 1), b(1), info
end program
"""


@pytest.fixture(scope="module")
def command(shared_venv: Callable[..., Venv]) -> Callable[[str], Blaswheel]:
    return lambda spec: Blaswheel(shared_venv(spec))


@pytest.mark.parametrize(("spec", "version", "besides", "lapack"), PROVIDERS)
@pytest.mark.tool("gfortran")
def test_provider(
    command: Callable[[str], Blaswheel],
    tmp_path: Path,
    spec: str,
    version: str,
    besides: str,
    lapack: bool,
) -> None:
    blaswheel = command(spec)
    (listed,) = json.loads(blaswheel("list", "--json").stdout)["libraries"]
    assert listed["path"].endswith("lib64/libopenblas.a")
    assert (listed["format"], listed["machine"], listed["interface"]) == ("ar", "x86_64", "lp64")
    assert (listed["version"], listed["linkable"]) == (version, True)

    # It is linked into a shared library for the time of its calls.
    verified = blaswheel("verify").stdout
    assert "lp64" in verified
    assert "verified by" in verified.splitlines()[-1]

    text = blaswheel("pc", "--check-link").stdout
    said = fields(text)
    assert said["Libs"].endswith(f"-lopenblas {besides}")
    assert said["Libs.private"] == besides
    assert said["Version"] == version
    (tmp_path / "openblas.pc").write_text(text, encoding="utf-8")

    (tmp_path / "use.c").write_text(C, encoding="ascii")
    for static in ("", "--static"):
        program = tmp_path / f"use{static}"
        with_flags(
            tmp_path, f"{static} --cflags --libs", "cc", "-Wall", "-Werror", "-o", program,
            tmp_path / "use.c",
        )  # fmt: skip
        assert run([program]).stdout == "14 14\n"
        assert "openblas" not in run(["ldd", program]).stdout
    # As extension modules use it.
    with_flags(
        tmp_path, "--cflags --libs", "cc", "-shared", "-fPIC", "-Wl,-z,defs", "-o",
        tmp_path / "use.so", tmp_path / "use.c",
    )  # fmt: skip

    source = FORTRAN.replace("@", "" if lapack else "! ")
    (tmp_path / "use.f90").write_text(source, encoding="ascii")
    program = tmp_path / "use_fortran"
    with_flags(tmp_path, "--libs", "gfortran", "-o", program, tmp_path / "use.f90")
    assert run([program]).stdout == (" 4.0  2.0 0\n" if lapack else "16.0  4.0 0\n")


def test_what_it_says(command: Callable[[str], Blaswheel]) -> None:
    blaswheel = command(LAPACK)
    shown = blaswheel("show").stdout
    assert "its openblas.pc names folders that are not there (/project/build/" in shown
    assert blaswheel.error("pc", "--isolate", status=2) == [
        "python-openblas-build 0.3.28rc1 is a static library, whose names are the program's own",
        "leave --isolate out",
    ]
    message, hint = blaswheel.error("isolate", "python-openblas-build", "-o", "/dev/null")
    assert "libopenblas.a" in message
    assert hint


def test_without_a_compiler(command: Callable[[str], Blaswheel], tmp_path: Path) -> None:
    environ = {"CC": "no-such-compiler", "BLASWHEEL_CACHE_DIR": str(tmp_path)}
    assert command(LAPACK).error("verify", environ=environ) == [
        (
            "python-openblas-build 0.3.28rc1 is a static library, which has to be linked before "
            "it can be called, and no-such-compiler: No such file or directory"
        ),
        "install a C compiler, or name it in CC",
    ]
    done = command(LAPACK)("pc", environ=environ)
    assert "Libs: " in done.stdout
    assert "not verified" in done.stderr


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Objects of three formats that want what is not in them, and one thing that is."""
    folder = tmp_path_factory.mktemp("objects")
    (folder / "a.c").write_text(
        "#include <math.h>\nextern int pthread_create(void);\nextern double other(double);\n"
        "extern void _gfortran_stop_string(void);\nextern void a_name_longer_than_eight(void);\n"
        "double own(double x) { a_name_longer_than_eight(); _gfortran_stop_string();\n"
        "  return sqrt(x) + other(x) + pthread_create(); }\n",
        encoding="ascii",
    )
    (folder / "b.c").write_text("double other(double x) { return x; }\n", encoding="ascii")
    return folder


@pytest.mark.parametrize(
    "target",
    ["x86_64-linux-gnu", "x86-linux-gnu", "s390x-linux-gnu", "aarch64-macos", "x86_64-windows-gnu",
     "x86-windows-gnu"],
)  # fmt: skip
def test_undefined(objects: Path, tmp_path: Path, target: str) -> None:
    from blaswheel import _binary, _undefined

    compiled = []
    for name in ("a", "b"):
        path = tmp_path / f"{name}.o"
        zig = [sys.executable, "-m", "ziglang", "cc", f"--target={target}"]
        command = [
            *zig,
            "-c",
            "-fno-builtin",
            "-fno-sanitize=all",
            "-o",
            path,
            objects / f"{name}.c",
        ]
        subprocess.run(
            [str(word) for word in command],
            check=True,
            env={**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(tmp_path / "zig")},
        )
        compiled.append(path)
    archive = tmp_path / "lib.a"
    run([sys.executable, "-m", "ziglang", "ar", "rcs", archive, *compiled],
        ZIG_GLOBAL_CACHE_DIR=str(tmp_path / "zig"))  # fmt: skip
    wanted = {name.lstrip("_") for name in _undefined.undefined(str(archive))}
    expected = {"sqrt", "other", "pthread_create", "gfortran_stop_string"}
    assert expected | {"a_name_longer_than_eight"} <= wanted
    binary = _binary.read(str(archive))
    assert {"own", "other"} <= {name.lstrip("_") for name in binary.functions}
    assert binary.system == {"l": "elf", "m": "macho", "w": "pe"}[target.split("-")[1][0]]


@pytest.mark.parametrize("at", range(0, 3000, 97))
def test_damaged(objects: Path, tmp_path: Path, at: int) -> None:
    from blaswheel import _undefined
    from blaswheel._errors import FormatError

    archive = tmp_path / "lib.a"
    for name in ("a", "b"):
        run(["cc", "-c", "-o", tmp_path / f"{name}.o", objects / f"{name}.c"])
    run(["ar", "rcs", archive, tmp_path / "a.o", tmp_path / "b.o"])
    content = bytearray(archive.read_bytes())
    content[at % len(content) : at % len(content) + 8] = b"\xff" * 8
    archive.write_bytes(content)
    try:
        _undefined.undefined(str(archive))
    except FormatError as error:
        assert error.message
    archive.write_bytes(content[: at % len(content)])
    with pytest.raises(FormatError):
        _undefined.undefined(str(archive))


def test_nothing_tells_its_width(blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path) -> None:
    lines = ["int counter;"]
    lines += [f"int {name}_(void) {{ return ++counter; }}" for name in NAMES]
    source = tmp_path / "blas.c"
    source.write_text("\n".join(lines) + "\n", encoding="ascii")
    run(["cc", "-c", "-o", tmp_path / "blas.o", source])
    run(["ar", "rcs", tmp_path / "libblas.a", tmp_path / "blas.o"])
    site = tmp_path / "site"
    distribution(site, "mine", "1.0", {"mine/lib/libblas.a": tmp_path / "libblas.a"})
    (listed,) = json.loads(blaswheel("list", "--json", "--root", site).stdout)["libraries"]
    assert (listed["interface"], listed["implementation"]) == ("unknown", "reference")


NAMES = (Path(__file__).parents[2] / "src/blaswheel/data/blas.txt").read_text().split()
