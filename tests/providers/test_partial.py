"""What exports some BLAS names and is no BLAS: told as partial if it takes over plain names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.sites import LP64, Blaswheel, copy, distribution
from tests.link.compiling import run
from tests.support import Wheels

ROUTINES = {
    api: (Path(__file__).parents[2] / f"src/blaswheel/data/{api}.txt").read_text().split()
    for api in ("blas", "cblas", "lapack")
}
LEVEL3 = [
    kind + name for kind in "sdcz" for name in ("gemm", "syrk", "trsm", "symm", "syr2k", "trmm")
] + ["cherk", "zherk", "chemm", "zhemm", "cher2k", "zher2k"]
#: What libtorch_cpu exports of the MKL inside it.
TORCH = [
    *(k + name for k in "sdcz" for name in ("axpy_", "copy_", "gemm_", "gemv_", "scal_", "gbmv_")),
    *("ddot_", "sdot_", "ddot_64_", "dgemm_64_", "cblas_saxpy", "cblas_daxpy", "cblas_scopy"),
    *("cblas_dcopy", "cblas_gemm_bf16bf16f32", "cblas_gemm_f16f16f32", "cblas_sscal"),
]
#: Of 16 names, ten routines of the BLAS.
SHIM = [
    *("dgemm_", "dgemv_", "dtrsm_", "ddot_", "daxpy_", "dscal_", "dcopy_", "dnrm2_", "idamax_"),
    *("dswap_", "dgetrf_", "dgetrs_", "dgetri_", "zgetrf_", "zgetrs_", "dlaswp_"),
]
#: Distributed BLAS: the names of PBLAS, of which many look like prefix p.
PBLAS = [
    *(
        f"p{kind}{name}_"
        for kind in "sdcz"
        for name in (
            *("swap", "copy", "axpy", "scal", "amax", "gemv", "trmv", "trsv", "gemm", "symm"),
            *("syrk", "syr2k", "trmm", "trsm", "tran", "geadd", "tradd"),
        )
    ),
    *("psdot_", "pddot_", "psnrm2_", "pdnrm2_", "psasum_", "pdasum_", "psger_", "pdger_"),
    *("pchemm_", "pzhemm_", "pcherk_", "pzherk_", "pcdotu_", "pzdotu_", "pssymv_", "pdsymv_"),
]
#: file, exported names, and what the list says of it; None if it is not listed.
LIBRARIES: dict[str, tuple[list[str], str | None]] = {
    "libnvblas.so.13": ([name + end for name in LEVEL3 for end in ("", "_")], "30 of 155"),
    "libtorch_cpu.so": (TORCH, "26 of 155"),
    "libshim.so": (SHIM, "10 of 155"),
    "libcublas.so.13": ([f"cublas{name.capitalize()}_v2" for name in ROUTINES["blas"]], None),
    "libscalapack.so": (PBLAS, None),
    "libgsl.so": ([f"gsl_blas_{name}" for name in ROUTINES["blas"]], None),
    "libspral.so": ([f"spral_c_{name}" for name in ROUTINES["blas"]], None),
    "libblasfeo.so": ([f"blasfeo_{name}" for name in ROUTINES["blas"]], None),
    "libblis_core.so": ([f"bli_{name}" for name in ROUTINES["blas"]], None),
    "libfew.so": (["dgemm_", "sgemm_", "other"], None),
}


def compiled(folder: Path, base: str, names: list[str]) -> Path:
    source = folder / f"{base}.c"
    source.write_text(
        "int counter;\n" + "".join(f"int {name}(void) {{ return ++counter; }}\n" for name in names),
        encoding="ascii",
    )
    run(["cc", "-shared", "-fPIC", "-o", folder / base, source])
    return folder / base


def listed(blaswheel: Blaswheel, site: Path) -> list[dict[str, object]]:
    return json.loads(blaswheel("list", "--json", "--root", site).stdout)["libraries"]


@pytest.mark.parametrize("base", LIBRARIES)
def test_stand_in(blaswheel: Blaswheel, tmp_path: Path, base: str) -> None:
    names, share = LIBRARIES[base]
    library = compiled(tmp_path, base, names)
    site = distribution(tmp_path / "site", "other", "1.0", {f"other/lib/{base}": library})
    found = listed(blaswheel, site)
    if share is None:
        assert found == []
        return
    (one,) = found
    assert one["linkable"] is False
    assert str(one["reason"]) == f"partial: {share} routines of its APIs"
    assert one["implementation"] == "unknown"
    shown = blaswheel("show", "other", "--root", site).stdout
    assert f"{share} standard routines" in shown
    message, _ = blaswheel.error("pc", "--root", site)
    assert message.startswith("other 1.0 can't be linked against: partial: ")


def test_a_partial_one_is_never_chosen(
    blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path
) -> None:
    library = compiled(tmp_path, "libshim.so", SHIM)
    site = tmp_path / "site"
    distribution(site, "a-shim", "1.0", {"shim/libshim.so": library})
    copy(wheels.unpacked(LP64), site)
    assert [one["linkable"] for one in listed(blaswheel, site)] == [True, False]
    done = blaswheel("pc", "--root", site)
    assert "provider=scipy-openblas32==0.3.34.481.3" in done.stdout
    assert "shim" not in done.stderr


@pytest.mark.parametrize("platform", ["manylinux_2_28_x86_64", "macosx_11_0_arm64", "win_amd64"])
def test_real_shim(blaswheel: Blaswheel, wheels: Wheels, platform: str) -> None:
    """devsim-openblas exports 16 names, and calls what the program loads later."""
    root = wheels.unpacked("devsim-openblas==0.1.0", platform)
    found = listed(blaswheel, root)
    assert len(found) == 1
    assert found[0]["linkable"] is False
    assert "partial" in str(found[0]["reason"])
