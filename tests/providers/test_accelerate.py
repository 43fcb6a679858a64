"""Accelerate, by what NumPy's and SciPy's wheels for macOS 14 import of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from blaswheel import _accelerate, _binary, _routines
from blaswheel._library import Library
from tests.support import Wheels

APIS = ("blas", "lapack", "cblas")


def served(library: Library, interface: str) -> set[str]:
    return {
        routine + family.suffix
        for family in library.families
        if family.interface == interface
        for routine in _routines.routines(family.api)
    }


@pytest.mark.parametrize(
    ("spec", "interface", "suffix"),
    [
        ("numpy==2.4.6", "ilp64", "$NEWLAPACK$ILP64"),
        pytest.param("scipy==1.17.1", "lp64", "$NEWLAPACK", marks=pytest.mark.full),
    ],
)
def test_what_consumers_import(wheels: Wheels, spec: str, interface: str, suffix: str) -> None:
    root = wheels.unpacked(spec, "macosx_14_0_arm64", "3.12")
    wanted: set[str] = set()
    for path in root.rglob("*.so"):
        binary = _binary.read(str(path))
        names = {name for name in binary.imports if "$NEWLAPACK" in name}
        if names:
            assert _accelerate.FRAMEWORK in binary.needed
        wanted |= names
    assert len(wanted) > 40
    assert all(name.endswith(suffix) for name in wanted)
    # Of the routines that the list does not have, LAPACK has them too: they are newer or internal.
    library = _accelerate.library((14, 0), "/nowhere", "arm64")
    unknown = wanted - served(library, interface)
    assert len(unknown) * 20 <= len(wanted), sorted(unknown)


def test_report(tmp_path: Path) -> None:
    one = _accelerate.library((14, 2, 1), str(tmp_path), "arm64").as_json()
    assert one["provider"] is None
    assert (one["implementation"], one["version"]) == ("accelerate", "14.2.1")
    assert (one["machine"], one["interface"], one["linkable"]) == ("aarch64", "lp64", False)
    assert "-framework Accelerate" in one["reason"]
    pairs = [(each["suffix"], each["interface"]) for each in one["names"]["lapack"]]
    assert pairs == [("$NEWLAPACK", "lp64"), ("$NEWLAPACK$ILP64", "ilp64"), ("_", "lp64")]
    assert one["names"]["lapacke"] == []
    old = _accelerate.library((13, 2), str(tmp_path), "x86_64").as_json()
    assert [each["suffix"] for each in old["names"]["blas"]] == ["_"]


def test_names_in_an_sdk(tmp_path: Path) -> None:
    """Stubs as Apple writes them: YAML, with quotes around names that have a dollar sign."""
    for stub, apis in zip(_accelerate.STUBS, (("blas", "cblas"), ("lapack",)), strict=True):
        names = []
        for api in apis:
            for routine in sorted(_routines.routines(api)):
                names.append(f"_{routine}" + ("" if api == "cblas" else "_"))
                if routine != "dgesv":
                    names += [f"'_{routine}$NEWLAPACK'", f"'_{routine}$NEWLAPACK$ILP64'"]
        (tmp_path / stub).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / stub).write_text(
            "--- !tapi-tbd\ntbd-version: 4\ntargets: [ arm64-macos ]\n"
            f"install-name: '{_accelerate.FRAMEWORK}'\nexports:\n"
            f"  - targets: [ arm64-macos ]\n    symbols: [ {', '.join(names)} ]\n...\n",
            encoding="ascii",
        )
    library = _accelerate.library((14, 0), str(tmp_path), "arm64")
    found = {
        (one.api, one.suffix): (one.interface, one.known - one.found) for one in library.families
    }
    assert found == {
        **{("blas", s): (i, 0) for s, i in SPELLINGS.items()},
        **{("lapack", s): (i, int(s != "_")) for s, i in SPELLINGS.items()},
        **{("cblas", s.strip("_")): (i, 0) for s, i in SPELLINGS.items()},
    }
    assert library.families[0].suffix == "$NEWLAPACK"


SPELLINGS = {"$NEWLAPACK": "lp64", "$NEWLAPACK$ILP64": "ilp64", "_": "lp64"}


def test_release(tmp_path: Path) -> None:
    path = tmp_path / "SystemVersion.plist"
    path.write_text(
        "<plist><dict>\n<key>ProductName</key>\n<string>macOS</string>\n"
        "<key>ProductVersion</key>\n\t<string>14.2.1</string>\n</dict></plist>\n"
    )
    assert _accelerate.release(str(path)) == (14, 2, 1)
    path.write_text("<key>ProductVersion</key><string>..</string>")
    assert _accelerate.release(str(path)) == ()
    assert _accelerate.release(str(tmp_path / "none")) == ()
