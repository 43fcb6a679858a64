"""Providers' libraries against ``corpus.json``: what other readers and calls have told of each.

The integer widths there were found by calling each library or by disassembly, the names by
``nm -D`` and independent readers of Mach-O and PE; nothing in it comes from blaswheel. Where the
two do not agree, a table here says why, and who is right.
"""

from __future__ import annotations

import json
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from blaswheel import _binary, _interface, _names, _vendors
from blaswheel._names import Family
from tests.providers import debian
from tests.support import Wheels

Record = dict[str, Any]

CORPUS: list[Record] = json.loads(
    Path(__file__).parent.with_name("data").joinpath("corpus.json").read_text(encoding="utf-8")
)
#: (package, version, platform) of those that every run looks at, each of a kind of its own: 310 MB
#: to download. ``--full`` takes all.
ALWAYS = {
    ("scipy-openblas32", "0.3.23.293", "macosx_10_9_x86_64"),
    ("scipy-openblas32", "0.3.23.293.2", "manylinux_2_17_x86_64"),
    ("scipy-openblas64", "0.3.23.293.2", "manylinux_2_17_x86_64"),
    ("scipy-openblas64", "0.3.23.293.2", "win_amd64"),
    ("scipy-openblas32", "0.3.27.44.6", "manylinux_2_17_x86_64"),
    ("scipy-openblas64", "0.3.27.44.6", "manylinux_2_17_aarch64"),
    ("scipy-openblas64", "0.3.31.22.1", "manylinux2014_x86_64"),
    ("scipy-openblas32", "0.3.34.481.3", "macosx_10_13_x86_64"),
    ("scipy-openblas64", "0.3.34.481.3", "macosx_11_0_arm64"),
    ("scipy-openblas32", "0.3.34.481.3", "manylinux_2_27_x86_64"),
    ("scipy-openblas64", "0.3.34.481.3", "manylinux_2_27_x86_64"),
    ("scipy-openblas32", "0.3.34.481.3", "manylinux_2_27_aarch64"),
    ("scipy-openblas32", "0.3.34.481.3", "manylinux_2_27_i686"),
    ("scipy-openblas64", "0.3.34.481.3", "manylinux_2_27_ppc64le"),
    ("scipy-openblas32", "0.3.34.481.3", "win32"),
    ("scipy-openblas64", "0.3.34.481.3", "win_amd64"),
    ("cmeel-openblas", "0.3.29-0", "musllinux_1_2_x86_64"),
    ("cmeel-openblas", "0.3.31-0", "macosx_11_0_arm64"),
    ("cmeel-openblas", "0.3.31-0", "manylinux_2_28_x86_64"),
    ("cython-blas", "0.3.0", "musllinux_1_2_x86_64"),
    ("faiss-cpu", "1.15.1", "manylinux_2_27_x86_64"),
    ("numpy", "1.26.4", "manylinux_2_17_x86_64"),
    ("numpy", "2.4.6", "manylinux_2_27_x86_64"),
    ("nvpl-blas", "0.6.0", "manylinux_2_26_aarch64"),
    ("pylib-openblas", "0.0.2", "win_amd64"),
    ("devsim-openblas", "0.1.0", "macosx_11_0_arm64"),
    ("devsim-openblas", "0.1.0", "manylinux_2_28_x86_64"),
    ("devsim-openblas", "0.1.0", "win_amd64"),
    ("blis", "1.3.4", "musllinux_1_2_x86_64"),
}
#: Debian's packages that every run looks at.
ALWAYS_DEBIAN = {"libatlas3-base", "libblas64-3", "libblis4-pthread", "liblapacke-dev"}
#: What a library is, where the package alone does not tell: openblas if nothing is said.
IMPLEMENTATIONS = {
    **dict.fromkeys(("libblas3", "libblas64-3", "liblapack3", "liblapack64-3"), "reference"),
    **dict.fromkeys(("liblapack-dev", "liblapack64-dev"), "reference"),
    **dict.fromkeys(("liblapacke", "liblapacke64", "liblapacke-dev"), "reference"),
    "liblapacke64-dev": "reference",
    "libgslcblas0": None,
    **dict.fromkeys(("libatlas3-base", "libatlas-base-dev"), None),
    **dict.fromkeys(("libblis4-pthread", "libblis64-4-pthread"), None),
    "mkl": "mkl",
    "mkl-static": None,
    "nvpl-blas": "nvpl",
}
APIS = {"fortran_blas": "blas", "lapack": "lapack", "cblas": "cblas", "lapacke": "lapacke"}
MACHINES = {"AMD64": "x86_64", "X86_64": "x86_64", "I386": "i686", "ARM64": "aarch64"}
SYSTEMS = {"Mach-O": "macho", "PE": "pe", "ar": "ar"}
#: The corpus lists these by their names; they are no API: disassembled, ddot takes six arguments,
#: the first a table of functions.
NO_API = {("fortran_blas", "nvpl_blas_core_", "")}


def wheels_of(corpus: list[Record]) -> list[Any]:
    """Return the wheels and packages of the corpus as parameters."""
    found = dict.fromkeys((one["package"], one["version"] or "", one["tag"]) for one in corpus)
    parameters = []
    for package, version, tag in found:
        platforms = tag.split("-")[-1].split(".")
        always = package in ALWAYS_DEBIAN or any(
            (package, version, platform) in ALWAYS for platform in platforms
        )
        marks = [] if always else [pytest.mark.full, pytest.mark.timeout(1800)]
        if tag.startswith("debian"):
            marks.append(pytest.mark.tool("dpkg", "apt-get"))
        label = f"{package}-{version}-{platforms[0]}" if version else package
        parameters.append(pytest.param(package, version, tag, id=label, marks=marks))
    return parameters


def test_every_run_looks_at_what_is_there() -> None:
    ids = {parameter.values for parameter in wheels_of(CORPUS)}
    named = {(package, version) for package, version, _ in ids}
    assert {(package, version) for package, version, _ in ALWAYS} <= named
    assert {package for package, _ in named} >= ALWAYS_DEBIAN
    assert len(ids) == 106
    assert len(CORPUS) == 145


def members(wheels: Wheels, package: str, version: str, tag: str, folder: Path) -> None:
    """Put the libraries of a wheel or a package, and OpenBLAS's header, into a folder."""
    paths = {one["path"] for one in CORPUS if (one["package"], one["tag"]) == (package, tag)}
    if tag.startswith("debian"):
        root = debian.unpacked(package)
        for path in paths:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).symlink_to(root / path)
        return
    python, _, platform = tag.split("-")
    serving = f"{python[2]}.{python[3:]}" if python.startswith("cp") else None
    spec = f"{package}=={version.partition('-')[0]}"
    with zipfile.ZipFile(wheels.fetch(spec, platform.split(".")[0], serving)) as archive:
        for name in archive.namelist():
            if name in paths or name.endswith("/openblas_config.h"):
                archive.extract(name, folder)


def expected_names(record: Record) -> dict[str, set[tuple[str, str]]]:
    return {
        api: {
            (prefix, suffix)
            for prefix, suffix in record["names"].get(key, [])
            if (key, prefix, suffix) not in NO_API
        }
        for key, api in APIS.items()
    }


def widths(record: Record, family: Family) -> str | None:
    """Return the width that a call has shown for a family, None if there was none."""
    stem = {"blas": "ddot", "cblas": "cblas_ddot"}.get(family.api)
    known = record["integer_width"].get(f"{family.prefix}{stem}{family.suffix}", ["unknown"])[0]
    return None if stem is None or known == "unknown" else str(known).lower()


@pytest.mark.corpus
@pytest.mark.parametrize(("package", "version", "tag"), wheels_of(CORPUS))
def test_wheel(
    wheels: Wheels,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
    package: str,
    version: str,
    tag: str,
) -> None:
    records = [
        one
        for one in CORPUS
        if (one["package"], one["version"] or "", one["tag"]) == (package, version, tag)
    ]
    row = {
        "Package": f"{package} {version}".rstrip(),
        "Platform": tag.split("-")[-1].split(".")[0] if version else "Debian amd64",
        "Files": str(len(records)),
    }
    record_property("row", row)
    members(wheels, package, version, tag, tmp_path)
    include_dirs = tuple(str(path.parent) for path in tmp_path.rglob("openblas_config.h"))
    spellings: dict[str, None] = {}
    interfaces: dict[str, None] = {}
    for record in records:
        path = str(tmp_path / record["path"])
        binary = _binary.read(path, MACHINES.get(record["arch"]))
        check_file(record, binary)
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
            assert len({first[api].suffix for api in apis if api in first}) <= 1
        spellings |= {f"`{one.prefix}*{one.suffix}`": None for one in families}

        identified = _vendors.identify(binary, families)
        implementation = IMPLEMENTATIONS.get(package, "openblas")
        assert implementation in (None, identified.name)
        stated = _vendors.statement(path, identified)
        judged = _interface.judge(binary, families, stated, include_dirs)
        for family in judged.families:
            assert family.interface in (widths(record, family) or family.interface, "unknown")
            assert family.interface != "unknown" or not tells_its_width(record, include_dirs)
            interfaces[family.interface] = None
        if package.startswith("scipy-openblas"):
            assert version.startswith(stated.version or "")
    row["Names"] = " ".join(spellings) or "none"
    row["Width"] = ", ".join(interfaces) or "-"
    record_property("row", row)


def tells_its_width(record: Record, include_dirs: tuple[str, ...]) -> bool:
    """Tell whether there is something in or beside a library that says its width.

    Nothing does in a vendored Windows build of OpenBLAS without suffix, in what Debian splits off
    OpenBLAS, in the reference implementation, ATLAS and BLIS of 32-bit integers.
    """
    suffixes = [suffix for pairs in record["names"].values() for _, suffix in pairs]
    if any("64" in suffix for suffix in suffixes) or include_dirs:
        return True
    base = record["path"].rpartition("/")[2]
    if "openblas" in base:
        return record["format"] != "PE"
    return "64" in base


def no_exports(path: str) -> int:
    """Return how many of a file's symbols are no exports, by ``nm``.

    Names of versions have no section (``A``); torch has a local symbol in its dynamic table, for
    which, as for all that no other file sees, ``nm`` writes a small letter.
    """
    command = ["nm", "-D", "--defined-only", "--without-symbol-versions", path]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    symbols = [line.split() for line in done.stdout.splitlines()]
    return len({name for _, kind, name in symbols if kind == "A" or kind in "bdrt"})


def check_file(record: Record, binary: _binary.Binary) -> None:
    """Compare what a file says of itself with what other readers read."""
    if record["arch"] is not None:
        assert binary.machine == MACHINES.get(record["arch"], record["arch"])
    names = {*binary.functions, *binary.objects}
    if record["format"].startswith("ELF"):
        assert f"ELF{binary.bits}-{binary.byte_order[0].upper()}E" == record["format"]
        assert len(names) in (record["exports"], record["exports"] - no_exports(binary.path))
        assert ":".join(binary.rpath) == (record["rpath"] or "")
        assert ":".join(binary.runpath) == (record["runpath"] or "")
    else:
        assert binary.format == SYSTEMS[record["format"]]
        assert len(names) == record["exports"]
        if record["format"] == "Mach-O":
            assert list(binary.rpath) == (record["rpath"] or [])
    if record["format"] != "ar":
        assert binary.soname == record["soname"]
        assert list(binary.needed) == record["needed"]
