"""Compiling, linking and running a program with what a ``.pc`` file says, by several readers."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from tests.support import Venv

#: Calls one routine of each API under plain names; prints 14 and 2.
PROGRAM = """\
#include <cblas.h>
#include <lapacke.h>
#include <stdio.h>

int main(void)
{
    double x[3] = {1, 2, 3}, a[1] = {2}, b[1] = {4};
    lapack_int pivot[1];
    if (LAPACKE_dgesv@(LAPACK_COL_MAJOR, 1, 1, a, 1, pivot, b, 1) != 0)
        return 1;
    printf("%g %g\\n", cblas_ddot@(3, x, 1, x, 1), b[0]);
    return 0;
}
"""


def source(folder: Path, suffix: str = "") -> Path:
    """Write the program, which calls names with a suffix."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "prog.c"
    path.write_text(PROGRAM.replace("@", suffix))
    return path


def flags(
    venv: Venv,
    name: str,
    *questions: str,
    pkg_config: str | Path = "pkg-config",
    environ: Mapping[str, str] | None = None,
) -> list[str]:
    """Return what a pkg-config answers, split as a shell does."""
    words = questions or ("--cflags", "--libs")
    return shlex.split(venv.run(pkg_config, *words, name, environ=environ).stdout)


def build(venv: Venv, folder: Path, arguments: list[str], suffix: str = "") -> Path:
    """Compile and link the program with the arguments of a pkg-config."""
    program = folder / "prog"
    strict = ["-Wall", "-Wextra", "-Werror"]
    venv.run("cc", *strict, source(folder, suffix), "-o", program, *arguments)
    return program


def works(venv: Venv, program: Path, environ: Mapping[str, str] | None = None) -> None:
    """Run the program, and see that it computes right."""
    assert venv.run(program, environ=environ).stdout == "14 2\n"
