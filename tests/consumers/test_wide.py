"""A vector that 32-bit integers can't count, through plain ILP64 names."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import Venv

ILP64 = "scipy-openblas64==0.3.34.481.3"
#: 2**31 + 8 doubles are 16 GiB of zeros, which the system maps to one page of zeros as long as
#: they are only read; two elements, the last one among them, are not zero. An integer that was
#: cut to 32 bits would be negative, or count 8 elements: 0 or 3.
PROGRAM = r"""
#define _GNU_SOURCE
#include <cblas.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

int main(void)
{
    const int64_t n = (INT64_C(1) << 31) + 8;
    double *x = mmap(NULL, n * sizeof *x, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (x == MAP_FAILED)
        return 77;
    x[0] = 3;
    x[n - 1] = 4;
    printf("%g %g %lld\n", cblas_dnrm264_(n, x, 1), cblas_ddot64_(n, x, 1, x, 1),
           (long long)cblas_idamax64_(n, x, 1));
    return 0;
}
"""


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.tool("cc", "pkg-config")
def test_more_elements_than_32_bits_count(
    shared_venv: Callable[..., Venv], tmp_path: Path, record_property: pytest.RecordProperty
) -> None:
    row = {"Project": "C, 2^31 + 8 elements", "Integers": "ilp64", "Found as": "`openblas64.pc`"}
    record_property("row", row | {"Library": ILP64.replace("==", " ")})
    venv = shared_venv(ILP64)
    venv.run("blaswheel", "pc", "--dir", tmp_path / "pc")
    source, program = tmp_path / "wide.c", tmp_path / "wide"
    source.write_text(PROGRAM)
    flags = venv.run(
        *("pkg-config", "--cflags", "--libs", "openblas64"),
        environ={"PKG_CONFIG_PATH": str(tmp_path / "pc")},
    ).stdout.split()
    subprocess.run(["cc", "-O2", "-Wall", "-Werror", source, *flags, "-o", program], check=True)
    done = venv.run("blaswheel", "exec", "--", program, check=False, timeout=850)
    if done.returncode == 77:
        pytest.skip("this system maps no 16 GiB")
    assert done.stdout == "5 25 2147483655\n"
    record_property("row", {"Its own tests": "`cblas_dnrm2`, `ddot`, `idamax`: right"})
