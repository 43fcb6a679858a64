"""``show`` tells what a provider's own headers and ``.pc`` files promise and do not keep."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.cli.sites import ILP64, LP64, Blaswheel, copy, distribution
from tests.support import Wheels


def shown(blaswheel: Blaswheel, *arguments: str | Path) -> dict[str, list[str]]:
    """Return the messages of a library's defects by their code."""
    document = json.loads(blaswheel("show", "--json", *arguments).stdout)
    found: dict[str, list[str]] = {}
    for defect in document["defects"]:
        found.setdefault(defect["code"], []).append(f"{defect['severity']}: {defect['message']}")
    return found


def exports(path: Path) -> set[str]:
    """Return a library's exported names, by another reader than blaswheel's."""
    done = subprocess.run(
        ["nm", "-D", "--defined-only", "--format=posix", str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    return {line.split()[0].partition("@")[0] for line in done.stdout.splitlines()}


def test_newest(blaswheel: Blaswheel, wheels: Wheels) -> None:
    site = wheels.unpacked(ILP64)
    found = shown(blaswheel, "--root", site)
    assert found["header-names"] == [
        (
            "warning: f77blas.h declares 429 of its 457 functions by names that the library lacks "
            "(ddot_ is scipy_ddot_64_); the headers that pc gives declare those that it has"
        ),
        (
            "warning: lapack.h declares 1336 of its 1336 functions by names that the library lacks "
            "(dgesv_ is scipy_dgesv_64_); the headers that pc gives declare those that it has"
        ),
    ]
    assert found["header-undefined"] == [
        (
            "note: cblas.h declares 236 functions, 17 of which the library lacks "
            "(scipy_cblas_bgemm64_, scipy_cblas_bgemv64_, scipy_cblas_bscal64_, ...)"
        ),
        (
            "note: lapacke.h declares 2524 functions, 72 of which the library lacks "
            "(scipy_LAPACKE_cgbrfsx64_, scipy_LAPACKE_cgbrfsx_work64_, "
            "scipy_LAPACKE_cgbsvxx64_, ...)"
        ),
    ]
    has = exports(site / "scipy_openblas64/lib/libscipy_openblas64_.so")
    assert not {"ddot_", "dgesv_", "scipy_cblas_bgemm64_", "scipy_LAPACKE_cgbrfsx64_"} & has
    assert {"scipy_ddot_64_", "scipy_dgesv_64_", "openblas_cancel"} <= has
    assert found["header-spelling"] == [
        (
            "note: cblas.h declares 236 functions, 3 of which the library has without prefix and "
            "suffix (scipy_openblas_cancel64_, scipy_openblas_getaffinity64_, "
            "scipy_openblas_setaffinity64_)"
        )
    ]
    assert found["pc-lapack-ilp64"] == [
        (
            "warning: its scipy-openblas.pc lacks -DLAPACK_ILP64: lapacke.h then declares 32-bit "
            "integers, and LAPACKE writes beyond the caller's arrays"
        )
    ]
    assert found["pc-libs-private"] == [
        (
            "note: its scipy-openblas.pc asks for -lm -lpthread -lgfortran -lquadmath "
            "-lscipy_openblas64_ when linked statically, which a shared library does not need"
        )
    ]
    assert "pc-rpath" in found
    assert found["top-level"] == [
        "note: its metadata lists a package openblas, which is not in the wheel"
    ]
    assert not {"pc-version", "pc-path", "pc-same-name", "pc-width"} & found.keys()
    text = blaswheel("show", "--root", site).stdout
    for message in found["header-names"]:
        assert message.partition(": ")[2] in text


def test_older(blaswheel: Blaswheel, wheels: Wheels) -> None:
    plain_lapacke = shown(blaswheel, "--root", wheels.unpacked("scipy-openblas64==0.3.27.44.6"))
    assert any(
        message.startswith("warning: lapacke.h declares 2514 of its 2516 functions")
        and "(LAPACKE_dgesv is scipy_LAPACKE_dgesv64_)" in message
        for message in plain_lapacke["header-names"]
    ), plain_lapacke
    dev = shown(blaswheel, "--root", wheels.unpacked("scipy-openblas32==0.3.31.22.1"))
    assert dev["pc-version"] == [
        "note: its scipy-openblas.pc says version 0.3.31.dev, the library 0.3.31"
    ]
    assert "pc-lapack-ilp64" not in dev
    strided = "scipy_cblas_cgemm_batch_strided"
    assert any(strided in message for message in dev["header-spelling"])


def test_two_with_one_name(blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path) -> None:
    for spec in (LP64, ILP64):
        copy(wheels.unpacked(spec), tmp_path)
    for own, other in (("32", "64"), ("64", "32")):
        found = shown(blaswheel, f"scipy-openblas{own}", "--root", tmp_path)
        assert found["pc-same-name"] == [
            (
                f"warning: scipy-openblas{other} 0.3.34.481.3 has a scipy-openblas.pc too: "
                "which one a build finds depends on the order of the path"
            )
        ]


def test_no_development_link(blaswheel: Blaswheel, wheels: Wheels) -> None:
    root = wheels.unpacked("nvpl-blas==0.6.0", "manylinux_2_26_aarch64")
    found = shown(blaswheel, "nvpl-blas", "--interface", "lp64", "--root", root)
    assert found["no-dev-link"] == [
        (
            "note: there is no libnvpl_blas_lp64_gomp.so, which -lnvpl_blas_lp64_gomp looks for: "
            "pc makes a folder of links"
        )
    ]
    assert not list(root.rglob("libnvpl_blas_lp64_gomp.so"))


def pc(**fields: str) -> bytes:
    lines = [f"{key.replace('_', '.')}: {value}" for key, value in fields.items()]
    return "\n".join(("prefix=/nowhere", *lines, "")).encode()


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (
            pc(Version="1", Libs="-L${prefix}/lib -lx"),
            "pc-path",
            "warning: its x-openblas.pc names folders that are not there (/nowhere/lib)",
        ),
        (pc(Version="1", Libs=""), "pc-libs", "has no Libs"),
        (pc(Libs="-lx"), "pc-version", "has no version: no reader accepts it"),
        (pc(Version="1", Libs="-l{get_library()}"), "pc-text", "text that was never filled in"),
        (
            b"openblas_config=USE_64BITINT= NO_LAPACKE=\n" + pc(Version="1", Libs="-lx"),
            "pc-width",
            "says 'USE_64BITINT=' though the library is ILP64",
        ),
    ],
)
def test_broken_pc(
    blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path, text: bytes, code: str, message: str
) -> None:
    library = wheels.unpacked(ILP64) / "scipy_openblas64/lib/libscipy_openblas64_.so"
    distribution(
        tmp_path,
        "mine",
        "1.0",
        {"mine/lib/libscipy_openblas64_.so": library, "mine/lib/pkgconfig/x-openblas.pc": text},
    )
    found = shown(blaswheel, "mine", "--root", tmp_path)
    assert len(found[code]) == 1
    assert message in found[code][0]


def test_hostile_pc(blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path) -> None:
    library = wheels.unpacked(LP64) / "scipy_openblas32/lib/libscipy_openblas.so"
    doubling = "a0=" + "x" * 60000 + "\n"
    doubling += "".join(f"a{n + 1}=${{a{n}}}${{a{n}}}\n" for n in range(60))
    files = {
        "one": doubling.encode() + pc(Version="1", Libs="${a60} ${", Cflags="${pcfiledir"),
        "two": b"\xff\0=\n:\n=:\n${}:${}=\n" * 500,
        "six": b"Version: " + b"${a" * 20000,
    }
    contents: dict[str, Path | bytes] = {"mine/lib/libscipy_openblas.so": library}
    contents |= {f"mine/pkgconfig/{name}-blas.pc": text for name, text in files.items()}
    distribution(tmp_path, "mine", "1.0", contents)
    done = blaswheel("show", "mine", "--root", tmp_path)
    assert re.search(r"linkable +yes", done.stdout)
