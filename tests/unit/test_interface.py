"""Implementation, release and integer width, read off files that are never loaded."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest

from blaswheel import _elf, _interface, _names, _vendors
from blaswheel._binary import Binary
from blaswheel._names import Family
from blaswheel._routines import routines
from blaswheel._vendors import Statement, Vendor
from tests.support import Wheels


def vendor(name: str) -> Vendor:
    return {each.name: each for each in (*_vendors.VENDORS, _vendors.REFERENCE)}[name]


def library(name: str, functions: set[str], form: str = "elf") -> tuple[Binary, tuple[Family, ...]]:
    binary = Binary(
        path=f"/lib/{name}",
        format=form,
        machine="x86_64",
        bits=64,
        byte_order="little",
        functions=tuple(sorted(functions)),
    )
    return binary, _names.infer(functions)


def spelled(*families: tuple[str, str, str]) -> set[str]:
    return {prefix + name + suffix for api, prefix, suffix in families for name in routines(api)}


PLAIN = spelled(("blas", "", "_"), ("cblas", "", ""))


@pytest.mark.parametrize(
    ("spec", "pattern", "version", "width", "options"),
    [
        (
            "scipy-openblas32==0.3.34.481.3",
            "scipy_openblas32/lib/*.so",
            "0.3.34.481.3",
            "lp64",
            "DYNAMIC_ARCH NO_AFFINITY",
        ),
        (
            "scipy-openblas64==0.3.34.481.3",
            "scipy_openblas64/lib/*.so",
            "0.3.34.481.3",
            "ilp64",
            "USE64BITINT DYNAMIC_ARCH NO_AFFINITY",
        ),
        # ".dev" in the file; and its text is copied in parts of 16 bytes, the last one in code.
        (
            "scipy-openblas32==0.3.23.293.2",
            "scipy_openblas32/lib/*.so",
            "0.3.23",
            "lp64",
            "DYNAMIC_ARCH",
        ),
        (
            "scipy-openblas64==0.3.23.293.2",
            "scipy_openblas64/lib/*.so",
            "0.3.23",
            "ilp64",
            "USE64BITINT DYNAMIC_ARCH",
        ),
        (
            "numpy==2.4.6",
            "numpy.libs/libscipy_openblas64_-*.so",
            None,
            "ilp64",
            "USE64BITINT DYNAMIC_ARCH NO_AFFINITY",
        ),
    ],
)
def test_real(
    wheels: Wheels, spec: str, pattern: str, version: str | None, width: str, options: str
) -> None:
    (path,) = wheels.unpacked(spec).glob(pattern)
    binary = _elf.read(str(path))
    families = _names.infer(binary.functions)
    identified = _vendors.identify(binary, families)
    assert identified.name == "openblas"
    stated = _vendors.statement(str(path), identified)
    assert stated.version is not None
    assert stated.version.startswith(version or "0.3.")
    assert version is None or stated.version == version
    assert stated.configuration == options
    assert stated.threading == "pthreads"
    judged = _interface.judge(binary, families, stated)
    assert {family.interface for family in judged.families} == {width}
    assert [family.replace(interface="unknown") for family in judged.families] == list(families)
    assert judged.evidence[0].startswith(width)
    # Without the suffix the text of the binary says the same.
    plain = tuple(family.replace(suffix="") for family in families)
    judged = _interface.judge(binary.replace(soname=None, path="/a.so"), plain, stated)
    assert {family.interface for family in judged.families} == {width}


@pytest.mark.parametrize(
    ("name", "functions", "expected"),
    [
        ("libblas.so.3", PLAIN, "reference"),
        ("libblas.so.3", PLAIN | {f"{name}sub_" for name in ("ddot", "zdotc")}, "reference"),
        ("libblas.so.3", PLAIN | {f"other_{number}" for number in range(50)}, "unknown"),
        ("libblis.so.4", PLAIN | {"bli_info_get_version_str", "bli_init"}, "blis"),
        ("libatlas.so.3", PLAIN | {"ATL_buildinfo", "ATL_dgemm"}, "atlas"),
        ("libflexiblas.so.3", PLAIN | {"flexiblas_list", "openblas_get_parallel"}, "flexiblas"),
        ("libnvpl_blas_lp64_seq.so.0", PLAIN | {"nvpl_blas_get_version"}, "nvpl"),
        ("libmkl_rt.so.3", PLAIN | {"MKL_Get_Version_String"}, "mkl"),
        ("libopenblas.so.0", PLAIN | {"openblas_get_config"}, "openblas"),
        (
            "libopenblas64_.so.0",
            spelled(("blas", "x_", "_64_"), ("cblas", "x_", "64_")) | {"x_openblas_get_config64_"},
            "openblas",
        ),
        (
            "libopenblas64_.so.0",
            spelled(("blas", "", "_64_")) | {"openblas_get_config64_"},
            "openblas",
        ),
        ("libc.so.6", {"malloc"}, "unknown"),
    ],
)
def test_identify(name: str, functions: set[str], expected: str) -> None:
    assert _vendors.identify(*library(name, functions)).name == expected


def test_split_library_is_known_by_what_it_imports() -> None:
    binary, families = library("libblas.so.3", PLAIN)
    binary = binary.replace(imports=("blas_memory_alloc", "malloc"))
    assert _vendors.identify(binary, families).name == "openblas"


def widths(
    binary: Binary, families: tuple[Family, ...], stated: Statement, *include_dirs: str
) -> dict[tuple[str, str], str]:
    judged = _interface.judge(binary, families, stated, include_dirs)
    return {(family.api, family.suffix): family.interface for family in judged.families}


@pytest.mark.parametrize(
    ("name", "soname", "expected"),
    [
        ("libblas.so.3", None, "unknown"),
        ("libblas.so.3", "libblas64.so.3", "ilp64"),
        ("libblas64.so.3", None, "ilp64"),
        ("libopenblas64p-r0.3.21.so", None, "ilp64"),
        ("libopenblas64_-1234abcd.so", None, "ilp64"),
        ("libopenblasp-r0.3.64.so", None, "unknown"),
        ("libopenblas-61654e64.so", None, "unknown"),
        ("libopenblas_x86_64.so", None, "unknown"),
        ("libnvpl_blas_lp64_seq.so.0", None, "lp64"),
        ("libnvpl_blas_ilp64_gomp.so.0", None, "ilp64"),
    ],
)
def test_file_names(name: str, soname: str | None, expected: str) -> None:
    binary, families = library(name, PLAIN)
    binary = binary.replace(soname=soname)
    stated = Statement(vendor=_vendors.UNKNOWN)
    assert set(widths(binary, families, stated).values()) == {expected}


@pytest.mark.parametrize(
    ("options", "form", "expected"),
    [
        ("USE64BITINT DYNAMIC_ARCH", "elf", "ilp64"),
        ("DYNAMIC_ARCH NO_AFFINITY", "elf", "lp64"),
        # Cut off before the place where USE64BITINT would be; Windows builds never say it.
        ("NO_LAPACKE", "elf", "unknown"),
        (None, "elf", "unknown"),
        ("DYNAMIC_ARCH", "pe", "unknown"),
    ],
)
def test_what_the_binary_says(options: str | None, form: str, expected: str) -> None:
    binary, families = library("libopenblas.so.0", PLAIN, form=form)
    stated = Statement(vendor=vendor("openblas"), version="0.3.31", configuration=options)
    assert set(widths(binary, families, stated).values()) == {expected}


def test_the_binary_goes_before_its_name() -> None:
    binary, families = library("libopenblas64.so.0", PLAIN)
    stated = Statement(vendor=vendor("openblas"), version="0.3.31", configuration="DYNAMIC_ARCH")
    judged = _interface.judge(binary, families, stated)
    assert {family.interface for family in judged.families} == {"lp64"}
    # What disagrees is told.
    assert [line.partition(":")[0] for line in judged.evidence] == ["lp64", "ilp64"]


def test_mkl_names_differ_in_width() -> None:
    functions = PLAIN | spelled(("blas", "", "_64_"), ("cblas", "", "_64"))
    stated = Statement(vendor=vendor("mkl"))
    for name, plain in (
        ("libmkl_rt.so.3", "lp64"),
        ("libmkl_intel_lp64.so.3", "lp64"),
        ("libmkl_intel_ilp64.so.3", "ilp64"),
    ):
        assert widths(*library(name, functions), stated) == {
            ("blas", "_"): plain,
            ("blas", "_64_"): "ilp64",
            ("cblas", ""): plain,
            ("cblas", "_64"): "ilp64",
        }


def test_plain_names_of_an_ilp64_windows_build() -> None:
    """They are second names of the same ILP64 code."""
    functions = PLAIN | spelled(("blas", "scipy_", "_64_"), ("cblas", "scipy_", "64_"))
    binary, families = library("libscipy_openblas64_.dll", functions, form="pe")
    stated = Statement(vendor=vendor("openblas"))
    assert set(widths(binary, families, stated).values()) == {"ilp64"}


def test_header_of_a_build_that_says_nothing(tmp_path: Path) -> None:
    binary, families = library("libopenblas.dll", PLAIN, form="pe")
    stated = Statement(vendor=vendor("openblas"))
    header = tmp_path / "openblas_config.h"
    header.write_text('#define OPENBLAS_VERSION " OpenBLAS 0.3.31 "\n')
    assert set(widths(binary, families, stated, str(tmp_path)).values()) == {"lp64"}
    header.write_text(header.read_text() + "#define OPENBLAS_USE64BITINT \n")
    assert set(widths(binary, families, stated, str(tmp_path)).values()) == {"ilp64"}
    assert set(widths(binary, families, stated, str(tmp_path / "none")).values()) == {"unknown"}


@pytest.mark.tool("gcc")
@pytest.mark.parametrize(
    ("text", "version", "options", "threading"),
    [
        (
            r"OpenBLAS 0.3.31.dev  USE64BITINT DYNAMIC_ARCH \0",
            "0.3.31",
            "USE64BITINT DYNAMIC_ARCH",
            "none",
        ),
        (r"OpenBLAS 0.3.31 USE_OPENMP ZEN\0 MAX_THREADS=%d", "0.3.31", "USE_OPENMP", "openmp"),
        (r"OpenBLAS 0.3.31.188.0 ZEN\0 MAX_THREADS=%d", "0.3.31.188.0", None, "pthreads"),
        (r"OpenBLAS : a warning\0OpenBLAS 2 errors\0OpenBLAS 0.3.9 \0", "0.3.9", None, "none"),
        (r"OpenBLAS 0.3.9", "0.3.9", None, "none"),
        (r"OpenBLAS 0.3.", "0.3", None, "none"),
        (r"OpenBLAS 9x\xff", None, None, None),
        (r"no release at all", None, None, None),
    ],
)
def test_statement(
    tmp_path: Path,
    text: str,
    version: str | None,
    options: str | None,
    threading: str | None,
) -> None:
    source = tmp_path / "sample.c"
    source.write_text(f'const char text[] = "{text}";\nint f(void) {{ return 0; }}\n')
    path = tmp_path / "libsample.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", path, source], check=True)
    stated = _vendors.statement(str(path), vendor("openblas"))
    assert (stated.version, stated.configuration) == (version, options)
    assert stated.threading == threading


@pytest.mark.tool("gcc")
def test_statement_across_the_border_of_two_reads(tmp_path: Path) -> None:
    source = tmp_path / "sample.c"
    path = tmp_path / "libsample.so"
    for before in range((1 << 20) - 4200, (1 << 20) + 100, 700):
        source.write_text(
            f"const char filler[{before}] = {{1}};\n"
            'const char text[] = "OpenBLAS 0.3.31 DYNAMIC_ARCH ";\n'
        )
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", path, source], check=True)
        assert _vendors.statement(str(path), vendor("openblas")).version == "0.3.31"
    # A file of another format is searched as a whole.
    size = (1 << 20) - 3
    path.write_bytes(struct.pack(f"<2s{size}x", b"MZ") + b"OpenBLAS 0.3.9 DYNAMIC_ARCH \0")
    assert _vendors.statement(str(path), vendor("openblas")).version == "0.3.9"


def test_vendors_are_told_apart() -> None:
    names = [each.name for each in _vendors.VENDORS]
    assert len(set(names)) == len(names)
    marks = [mark for each in _vendors.VENDORS for mark in each.marks]
    assert len(set(marks)) == len(marks)
