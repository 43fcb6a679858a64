"""A C and a Fortran program that call BLAS and LAPACK, built with what a pkg-config says."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support import Venv

#: Every API by its header; INTEGER is the integer that the library takes.
C = r"""
#include <cblas.h>
#ifdef HAS_LAPACKE
#include <lapacke.h>
#endif
#include <stdio.h>
#define JOINED(name, end) name##end
#define WITH(name, end) JOINED(name, end)
#define C(name) WITH(name, C_END)
#define QUOTED(text) #text
#define TEXT(text) QUOTED(text)
/* Under names of their own here: headers declare these too, each in its own way. */
double dot(const INTEGER *, const double *, const INTEGER *, const double *, const INTEGER *)
    __asm__("ddot" TEXT(F_END));
#ifdef HAS_LAPACK
void solve(const INTEGER *, const INTEGER *, double *, const INTEGER *, INTEGER *, double *,
           const INTEGER *, INTEGER *) __asm__("dgesv" TEXT(F_END));
#endif

int main(void)
{
    const double x[3] = {1, 2, 3};
    const INTEGER one = 1, three = 3;
    printf("%g %g", C(cblas_ddot)(3, x, 1, x, 1), dot(&three, x, &one, x, &one));
#ifdef HAS_LAPACK
    double a[4] = {2, 0, 0, 4}, b[2] = {2, 8};
    INTEGER pivot[4] = {-7, -7, -7, -7}, info = -7;
    const INTEGER two = 2;
    solve(&two, &one, a, &two, pivot + 1, b, &two, &info);
    printf(" %g %g %d%d%d%d", b[0], b[1], (int)pivot[0], (int)pivot[1], (int)pivot[2],
           (int)pivot[3]);
#endif
#ifdef HAS_LAPACKE
    double c[4] = {2, 0, 0, 4}, d[2] = {6, 4};
    lapack_int swaps[2];
    const int status = (int)C(LAPACKE_dgesv)(LAPACK_ROW_MAJOR, 2, 1, c, 2, swaps, d, 1);
    printf(" %d %g %g %d", status, d[0], d[1], sizeof(lapack_int) == sizeof(INTEGER));
#endif
    printf("\n");
    return 0;
}
"""
FORTRAN = """
program calls
  implicit none
  integer, parameter :: ik = BITS / 8, dp = kind(1d0)
  integer(ik), parameter :: one = 1, two = 2, three = 3
  real(dp), external :: DDOT
  real(dp) :: x(3) = [1, 2, 3], a(2, 2), b(2)
  integer(ik) :: pivot(4) = -7, info = -7
  write(*, '(i0)', advance='no') nint(DDOT(three, x, one, x, one))
#ifdef HAS_LAPACK
  a = reshape([2, 0, 0, 4], [2, 2])
  b = [2, 8]
  call DGESV(two, one, a, two, pivot(2), b, two, info)
  write(*, '(*(1x, i0))', advance='no') nint(b), pivot, info
#endif
  write(*, *)
end program
"""
APIS = ("blas", "cblas", "lapack", "lapacke")


def expected_of_c(apis: Sequence[str] = APIS) -> str:
    return (
        "14 14"
        + (" 1 2 -712-7" if "lapack" in apis else "")
        + (" 0 3 1 1" if "lapacke" in apis else "")
        + "\n"
    )


def expected_of_fortran(apis: Sequence[str] = APIS) -> str:
    return "14" + (" 1 2 -7 1 2 -7 0" if "lapack" in apis else "")


def flags(venv: Venv, folder: Path, *names: str) -> tuple[list[str], list[str]]:
    """Return the compile and the link arguments of files in ``folder``, as a shell gets them."""
    environ = {"PKG_CONFIG_PATH": str(folder)}
    answers = [
        shlex.split(venv.run("pkg-config", question, *names, environ=environ).stdout)
        for question in ("--cflags", "--libs")
    ]
    return answers[0], answers[1]


def both_run(
    venv: Venv,
    scratch: Path,
    folder: Path,
    *names: str,
    bits: int,
    suffix: str = "",
    apis: Sequence[str] = APIS,
    environ: Mapping[str, str] | None = None,
    runner: Sequence[str] = (),
    compilers: tuple[str, str] = ("gcc", "gfortran"),
    extra: Sequence[str] = (),
) -> None:
    """Build the programs with the ``.pc`` files ``names``, run them and look at what they say.

    Parameters
    ----------
    bits : int
        Width of the integers that they pass.
    suffix : str
        Of the names that they call, as ``--symbol-suffix``.
    environ : mapping, optional
        Of the programs when they run.
    runner : sequence of str
        A program that runs them.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    cflags, libs = flags(venv, folder, *names)
    tag = "_".join((*names, str(bits), suffix)).replace("-", "_")
    ends = f"_{suffix}" if suffix.endswith("_") else f"{suffix}_"
    defines = [f"-DHAS_{api.upper()}" for api in apis]
    source = scratch / f"{tag}.c"
    source.write_text(C)
    program = scratch / f"{tag}_c"
    integer = "long long" if bits == 64 else "int"
    venv.run(
        compilers[0], "-Wall", "-Wextra", "-Werror", *defines, f"-DINTEGER={integer}",
        f"-DC_END={suffix}", f"-DF_END={ends}", *extra, *cflags, source, "-o", program, *libs,
    )  # fmt: skip
    ran = venv.run(*runner, program, environ=environ)
    assert ran.stdout == expected_of_c(apis), (ran.stdout, ran.stderr)

    source = scratch / f"{tag}.F90"
    source.write_text(FORTRAN)
    program = scratch / f"{tag}_f"
    end = ends.removesuffix("_")
    venv.run(
        compilers[1], *defines, f"-DBITS={bits}", f"-DDDOT=ddot{end}", f"-DDGESV=dgesv{end}",
        *extra, source, "-o", program, *libs,
    )  # fmt: skip
    ran = venv.run(*runner, program, environ=environ)
    assert ran.stdout.strip() == expected_of_fortran(apis), (ran.stdout, ran.stderr)
