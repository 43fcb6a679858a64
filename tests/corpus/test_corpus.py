"""Providers' ELF libraries against ``corpus.json``: what ``nm`` and calls have told of each.

The integer widths there were found by calling each library or by disassembly, the names by
``nm -D``; nothing in it comes from blaswheel.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from blaswheel import _elf, _interface, _names, _vendors
from blaswheel._names import Family
from tests.support import Wheels

Record = dict[str, Any]

CORPUS: list[Record] = json.loads(
    Path(__file__).parent.with_name("data").joinpath("corpus.json").read_text(encoding="utf-8")
)
#: (package, version, machine, implementation), each of a kind of its own; 300 MB to download.
WHEELS = (
    ("scipy-openblas32", "0.3.23.293.2", "manylinux_2_17_x86_64", "openblas"),
    ("scipy-openblas64", "0.3.23.293.2", "manylinux_2_17_x86_64", "openblas"),
    ("scipy-openblas32", "0.3.27.44.6", "manylinux_2_17_x86_64", "openblas"),
    ("scipy-openblas64", "0.3.27.44.6", "manylinux_2_17_aarch64", "openblas"),
    ("scipy-openblas64", "0.3.31.22.1", "manylinux2014_x86_64", "openblas"),
    ("scipy-openblas32", "0.3.34.481.3", "manylinux_2_27_x86_64", "openblas"),
    ("scipy-openblas64", "0.3.34.481.3", "manylinux_2_27_x86_64", "openblas"),
    ("scipy-openblas32", "0.3.34.481.3", "manylinux_2_27_aarch64", "openblas"),
    ("scipy-openblas32", "0.3.34.481.3", "manylinux_2_27_i686", "openblas"),
    ("scipy-openblas64", "0.3.34.481.3", "manylinux_2_27_ppc64le", "openblas"),
    ("cmeel-openblas", "0.3.29-0", "musllinux_1_2_x86_64", "openblas"),
    ("cmeel-openblas", "0.3.31-0", "manylinux_2_28_aarch64", "openblas"),
    ("cmeel-openblas", "0.3.31-0", "manylinux_2_28_x86_64", "openblas"),
    ("cython-blas", "0.3.0", "musllinux_1_2_x86_64", "openblas"),
    ("faiss-cpu", "1.15.1", "manylinux_2_27_x86_64", "openblas"),
    ("numpy", "1.26.4", "manylinux_2_17_x86_64", "openblas"),
    ("numpy", "2.4.6", "manylinux_2_27_x86_64", "openblas"),
    ("scipy", "1.17.1", "manylinux_2_27_x86_64", "openblas"),
    ("scs", "3.3.1", "manylinux_2_27_x86_64", "openblas"),
    ("slycot", "0.7.1", "manylinux_2_27_x86_64", "openblas"),
    ("nvpl-blas", "0.6.0", "manylinux_2_26_aarch64", "nvpl"),
    ("devsim-openblas", "0.1.0", "manylinux_2_28_x86_64", None),
    ("blis", "1.3.4", "musllinux_1_2_x86_64", None),
    pytest.param("mkl", "2026.2.0", "manylinux_2_28_x86_64", "mkl", marks=pytest.mark.full),
)
APIS = {"fortran_blas": "blas", "lapack": "lapack", "cblas": "cblas", "lapacke": "lapacke"}
#: The corpus lists these by their names; they are kernels: ddot takes six arguments, the first a
#: table of functions.
KERNELS = {("fortran_blas", "nvpl_blas_core_", "")}


def records(package: str, version: str, platform: str) -> list[Record]:
    found = [
        record
        for record in CORPUS
        if (record["package"], record["version"]) == (package, version)
        and platform in record["tag"].split("-")[-1].split(".")
        and record["format"].startswith("ELF")
    ]
    assert found
    return found


def expected_names(record: Record) -> dict[str, set[tuple[str, str]]]:
    return {
        api: {
            (prefix, suffix)
            for prefix, suffix in record["names"].get(key, [])
            if (key, prefix, suffix) not in KERNELS
        }
        for key, api in APIS.items()
    }


def widths(record: Record, family: Family) -> str | None:
    """Return the width that a call has shown for a family, None if there was none."""
    stem = {"blas": "ddot", "cblas": "cblas_ddot"}.get(family.api)
    known = record["integer_width"].get(f"{family.prefix}{stem}{family.suffix}", ["unknown"])[0]
    return None if stem is None or known == "unknown" else str(known).lower()


@pytest.mark.corpus
@pytest.mark.parametrize(("package", "version", "platform", "implementation"), WHEELS)
def test_wheel(
    wheels: Wheels,
    tmp_path: Path,
    package: str,
    version: str,
    platform: str,
    implementation: str | None,
) -> None:
    listed = records(package, version, platform)
    tag = listed[0]["tag"].split("-")[0]
    python = f"3.{tag[3:]}" if tag.startswith("cp3") else None
    wheel = wheels.fetch(f"{package}=={version.partition('-')[0]}", platform, python)
    for record in listed:
        with zipfile.ZipFile(wheel) as archive:
            path = archive.extract(record["path"], tmp_path)
        binary = _elf.read(path)
        assert binary.machine == record["arch"]
        assert f"ELF{binary.bits}-{binary.byte_order[0].upper()}E" == record["format"]
        assert binary.soname == record["soname"]
        assert list(binary.needed) == record["needed"]
        assert ":".join(binary.rpath) == (record["rpath"] or "")
        assert ":".join(binary.runpath) == (record["runpath"] or "")
        # nm counts the name of a version, which NVPL has one of, as a symbol.
        versions = package == "nvpl-blas"
        assert len({*binary.functions, *binary.objects}) == record["exports"] - versions

        families = _names.infer(binary.functions)
        found: dict[str, set[tuple[str, str]]] = {api: set() for api in APIS.values()}
        for family in families:
            found[family.api].add((family.prefix, family.suffix))
        assert found == expected_names(record)
        if not families:
            continue
        first = {family.api: family for family in reversed(families)}
        assert len({family.prefix for family in first.values()}) == 1
        for apis in (("blas", "lapack"), ("cblas", "lapacke")):
            assert len({first[api].suffix for api in apis if api in first}) == 1

        identified = _vendors.identify(binary, families)
        assert identified.name == implementation
        stated = _vendors.statement(path, identified)
        judged = _interface.judge(binary, families, stated)
        for family in judged.families:
            assert family.interface == (widths(record, family) or family.interface)
            assert family.interface != "unknown"
        if package.startswith("scipy-openblas"):
            assert version.startswith(stated.version or "nothing stated")
