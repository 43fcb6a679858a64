"""Run paths of ELF files that real linkers wrote, set in place."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
from pathlib import Path

import pytest

from blaswheel import _runpath
from blaswheel._errors import FormatError

NEAR, FAR = "$ORIGIN/../provider/lib", "$ORIGIN/../../provider/lib"
LINKERS = [
    pytest.param(name, marks=pytest.mark.tool(f"ld.{name}")) for name in ("bfd", "gold", "lld")
]
KINDS = {"RUNPATH": "--enable-new-dtags", "RPATH": "--disable-new-dtags"}

pytestmark = pytest.mark.tool("gcc", "readelf")


def library(folder: Path, *options: str, source: str = "int lib(void) { return 7; }\n") -> bytes:
    """Link a library; its function has the name that its run path ends with."""
    (folder / "a.c").write_text(source)
    command = ["gcc", "-shared", "-fPIC", "a.c", "-o", "liba.so", *options]
    subprocess.run(command, cwd=folder, check=True)
    return (folder / "liba.so").read_bytes()


def shown(path: Path) -> list[tuple[str, str]]:
    """Return kind and value of each run path, as binutils see it."""
    done = subprocess.run(
        ["readelf", "--dynamic", path], capture_output=True, text=True, check=True
    )
    assert not done.stderr
    return re.findall(r"\((RUNPATH|RPATH)\).*\[(.*)\]", done.stdout)


@pytest.mark.parametrize("linker", LINKERS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("new", [(NEAR,), (FAR,), ("$ORIGIN",), ()])
def test_in_place(tmp_path: Path, linker: str, kind: str, new: tuple[str, ...]) -> None:
    data = library(tmp_path, f"-fuse-ld={linker}", f"-Wl,{KINDS[kind]}", f"-Wl,-rpath,{NEAR}:{FAR}")
    changed = _runpath.replaced(data, new)
    path = tmp_path / f"lib{len(new)}{os.urandom(4).hex()}.so"
    path.write_bytes(changed)
    assert len(changed) == len(data)
    assert shown(path) == ([(kind, ":".join(new))] if new else [])
    assert _runpath.entries(str(path)) == new
    assert ctypes.CDLL(str(path)).lib() == 7
    if NEAR not in new:
        assert NEAR.encode() not in changed


def test_shared_bytes_stay(tmp_path: Path) -> None:
    """GNU ld lets the function ``lib`` be the end of ``.../lib``: those bytes are not ours."""
    data = library(tmp_path, "-fuse-ld=bfd", f"-Wl,-rpath,{NEAR}")
    assert data.count(b"provider/lib\0") == 1
    with pytest.raises(_runpath.NoRoomError, match="does not fit in place"):
        _runpath.replaced(data, (NEAR.replace("provider", "PROVIDER"),))


@pytest.mark.parametrize("cut", [10, 100, 1000])
def test_truncated(tmp_path: Path, cut: int) -> None:
    data = library(tmp_path, f"-Wl,-rpath,{NEAR}")
    with pytest.raises(FormatError):
        _runpath.replaced(data[:cut], ())


def test_none_to_change(tmp_path: Path) -> None:
    data = library(tmp_path)
    assert _runpath.replaced(data, ()) == data
    with pytest.raises(_runpath.NoRoomError, match="has no run path"):
        _runpath.replaced(data, (NEAR,))
