"""Prefix and suffix from the export table: made-up tables for each trap, and real libraries."""

from __future__ import annotations

import time
from collections.abc import Iterable

import pytest

from blaswheel import _elf, _names, _routines
from blaswheel._routines import routines
from tests.support import Wheels

Names = set[str]
APIS = ("blas", "lapack", "cblas", "lapacke")


def spelled(api: str, prefix: str, suffix: str, share: float = 1.0) -> Names:
    """Return the names of an API as a library spells them, or the first part of them."""
    names = sorted(routines(api))
    return {f"{prefix}{name}{suffix}" for name in names[: round(len(names) * share)]}


def openblas(prefix: str, c: str, fortran: str | None = None) -> Names:
    """Return what an OpenBLAS exports, its kernels and extensions included."""
    fortran = f"_{c}" if fortran is None else fortran
    names: Names = set()
    for api in APIS:
        names |= spelled(api, prefix, fortran if api in ("blas", "lapack") else c)
    names |= {f"{prefix}{name}{fortran}" for name in ("dgemm3m", "dgemm_batch", "domatcopy")}
    names |= {f"{prefix}openblas_get_config{c}", f"{prefix}cblas_dgemm_batch{c}"}
    for core in ("HASWELL", "ZEN", "SKYLAKEX"):
        names |= {f"{name}_k_{core}" for name in ("ddot", "daxpy", "dscal", "idamax", "drotg")}
        names |= {f"d{name}_{core}" for name in ("gemv_n", "gemm_kernel", "trsm_kernel_LN")}
    return names


def pairs(functions: Iterable[str]) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {api: [] for api in APIS}
    for family in _names.infer(functions):
        found[family.api].append((family.prefix, family.suffix))
    return found


def one(prefix: str, fortran: str, c: str) -> dict[str, list[tuple[str, str]]]:
    return {api: [(prefix, fortran if api in ("blas", "lapack") else c)] for api in APIS}


@pytest.mark.parametrize(
    ("prefix", "fortran", "c"),
    [
        ("", "_", ""),
        ("", "_64_", "64_"),
        ("", "_64_", "_64"),
        ("scipy_", "_", ""),
        ("scipy_", "_64_", "64_"),
        ("my_own_", "_X64_", "X64_"),
        ("", "$NEWLAPACK$ILP64", "$NEWLAPACK$ILP64"),
        ("", "", ""),
    ],
)
def test_any_decoration(prefix: str, fortran: str, c: str) -> None:
    functions = openblas(prefix, c, fortran)
    assert pairs(functions) == one(prefix, fortran, c)
    families = _names.infer(functions)
    assert all(family.found == family.known == len(routines(family.api)) for family in families)
    assert {family.interface for family in families} == {"unknown"}


def test_same_answer_every_time() -> None:
    functions = sorted(openblas("scipy_", "64_") | spelled("blas", "", "_"))
    assert _names.infer(functions) == _names.infer(reversed(functions))


def test_windows_second_family_comes_second() -> None:
    """All of BLAS and CBLAS under plain names, 58 LAPACK routines, no LAPACKE."""
    functions = openblas("scipy_", "64_") | spelled("blas", "", "_") | spelled("cblas", "", "")
    functions |= spelled("lapack", "", "_", 58 / 1984)
    functions |= spelled("blas", "scipy_", "64_") | spelled("lapack", "scipy_", "64_")
    functions |= {f"scipy_{name.upper()}64_" for name in routines("blas") | routines("lapack")}
    found = pairs(functions)
    assert [found[api][0] for api in APIS] == [
        ("scipy_", "_64_"),
        ("scipy_", "_64_"),
        ("scipy_", "64_"),
        ("scipy_", "64_"),
    ]
    assert set(found["blas"]) == {("scipy_", "_64_"), ("scipy_", "64_"), ("", "_")}
    assert set(found["lapack"]) == {("scipy_", "_64_"), ("scipy_", "64_")}
    assert found["cblas"] == [("scipy_", "64_"), ("", "")]
    assert found["lapacke"] == [("scipy_", "64_")]


def test_mkl() -> None:
    """Four spellings; plain names first, then the suffixes that go with each other."""
    functions: Names = set()
    for suffix in ("", "_", "_64", "_64_"):
        functions |= spelled("blas", "", suffix) | spelled("lapack", "", suffix, 0.99)
        functions |= spelled("cblas", "", suffix, 0.95)
    functions |= spelled("lapacke", "", "") | spelled("lapacke", "", "_64", 0.98)
    functions |= {name.upper() for name in functions}
    functions |= spelled("lapack", "mkl_lapack__", "_") | spelled("blas", "mkl_blas_", "")
    functions |= {f"mkl_{name}_omp_offload_lp64" for name in routines("cblas")}
    found = pairs(functions)
    assert found["blas"][:2] == [("", "_"), ("", "_64_")]
    assert found["lapack"][:2] == [("", "_"), ("", "_64_")]
    assert found["cblas"][:2] == [("", ""), ("", "_64")]
    assert found["lapacke"] == [("", ""), ("", "_64")]
    for api in ("blas", "lapack", "cblas"):
        assert set(found[api]) == {("", ""), ("", "_"), ("", "_64"), ("", "_64_")}


def test_kernels_beside_the_public_names() -> None:
    atlas = spelled("blas", "", "_") | spelled("cblas", "", "")
    assert pairs(atlas | spelled("blas", "atl_f77wrap_", "_"))["blas"] == [("", "_")]
    nvpl = spelled("cblas", "", "") | spelled("cblas", "", "_64")
    for suffix in ("_", "_64_"):
        nvpl |= spelled("blas", "", suffix) | spelled("blas", "", f"_internal{suffix}")
    assert pairs(nvpl)["blas"] == [("", "_"), ("", "_64_")]
    flexiblas = openblas("", "")
    for kind in ("real", "chain"):
        flexiblas |= spelled("blas", f"flexiblas_{kind}_", "_")
        flexiblas |= spelled("lapack", f"flexiblas_{kind}_", "_")
    assert pairs(flexiblas) == one("", "_", "")


@pytest.mark.parametrize(
    "functions",
    [
        spelled("blas", "ATL_", ""),
        spelled("blas", "nvpl_blas_core_", ""),
        spelled("blas", "gsl_blas_", ""),
        spelled("blas", "bl1_", ""),
        spelled("blas", "blasfeo_", ""),
        spelled("blas", "spral_c_", ""),
        # What a library for many processors has per processor.
        {
            f"{letter}{name}_k_HASWELL"
            for letter in "sdcz"
            for name in ("dot", "axpy", "scal", "copy", "swap", "asum", "nrm2", "rot", "gemv")
        },
        # GPU interceptor, level 3 only; 26 BLAS names in a machine-learning library.
        {
            f"{letter}{name}{end}"
            for letter in "sdcz"
            for name in ("gemm", "symm", "syrk", "syr2k", "trmm", "trsm")
            for end in ("", "_")
        },
        spelled("blas", "", "_", 26 / 155),
        # Distributed memory: no banded or packed storage, no rotations.
        {
            f"p{letter}{name}_"
            for letter in "sdcz"
            for name in (
                *("dot", "dotu", "dotc", "axpy", "scal", "copy", "swap", "asum", "nrm2"),
                *("gemv", "symv", "hemv", "trmv", "trsv", "ger", "gerc", "geru", "syr", "her"),
                *("gemm", "symm", "hemm", "syrk", "herk", "syr2k", "her2k", "trmm", "trsm"),
            )
        },
        {"dgemm_", "dgemv_", "malloc", "cblas_dgemm"},
        set(),
    ],
    ids=lambda functions: min(functions, default="empty"),
)
def test_no_family(functions: Names) -> None:
    assert _names.infer(functions) == ()


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("prefix", ["", "scipy_"])
def test_one_api_alone(api: str, prefix: str) -> None:
    suffix = "_" if api in ("blas", "lapack") else ""
    (family,) = _names.infer(spelled(api, prefix, suffix))
    assert (family.api, family.prefix, family.suffix) == (api, prefix, suffix)


def test_incomplete_library_is_a_family_with_its_share() -> None:
    """EPEL's OpenBLAS 0.3.15 lacks four CBLAS routines."""
    missing = {"cblas_crotg", "cblas_zrotg", "cblas_csrot", "cblas_zdrot"}
    (family,) = _names.infer(spelled("cblas", "", "") - missing)
    assert family.found == family.known - 4


def test_work_functions_are_no_family() -> None:
    assert pairs(openblas("scipy_", "64_"))["lapacke"] == [("scipy_", "64_")]


@pytest.mark.parametrize(("number", "fortran", "c"), [("32", "_", ""), ("64", "_64_", "64_")])
def test_real(wheels: Wheels, number: str, fortran: str, c: str) -> None:
    folder = wheels.unpacked(f"scipy-openblas{number}==0.3.34.481.3")
    (path,) = folder.glob(f"scipy_openblas{number}/lib/*.so")
    functions = _elf.read(str(path)).functions
    assert pairs(functions) == one("scipy_", fortran, c)
    found = {family.api: family.found for family in _names.infer(functions)}
    # No xerbla; no dcabs1, scabs1 in CBLAS; 28 LAPACK routines keep their bare names.
    assert found == {
        "blas": len(routines("blas")) - 1,
        "lapack": len(routines("lapack")) - 28,
        "cblas": len(routines("cblas")) - 2,
        "lapacke": len(routines("lapacke")),
    }
    best = 1.0
    for _ in range(10):
        begin = time.process_time()
        _names.infer(functions)
        best = min(best, time.process_time() - begin)
    assert best < 0.02


def test_routine_lists() -> None:
    assert {"dgemm", "zgerc", "idamax", "xerbla", "lsame", "dgemmtr"} <= routines("blas")
    assert {"dgesv", "dgetrf", "zheevd", "ilaver", "dlamch", "dgegs"} <= routines("lapack")
    assert {"cblas_dgemm", "cblas_zdotc_sub", "cblas_isamax"} <= routines("cblas")
    assert {"LAPACKE_dgesv", "LAPACKE_dgesv_work", "LAPACKE_zheevd"} <= routines("lapacke")
    assert not routines("blas") & routines("lapack")
    for api in APIS:
        assert all(name.isascii() and name.replace("_", "").isalnum() for name in routines(api))
    for name in ("gemm", "gemv", "trsm"):
        assert {letter + name for letter in "sdcz"} <= routines("blas")
    for name in ("gesv", "potrf", "gesdd", "geev", "geqp3rk", "gedmd"):
        assert {letter + name for letter in "sdcz"} <= routines("lapack")
    assert routines("blas") is _routines.routines("blas")
    with pytest.raises(ValueError, match="no API"):
        routines("xblas")
