"""What is remembered between runs: only as long as nothing that it was read from has changed."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from blaswheel import _memo
from blaswheel._binary import Binary
from blaswheel._library import Defect


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("BLASWHEEL_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def settled(tmp_path: Path) -> Path:
    """A file whose last change is so long ago that another one would show."""
    path = tmp_path / "libblas.so"
    path.write_bytes(b"one")
    time.sleep(2.1)
    return path


def test_a_value_lasts_as_long_as_its_files(settled: Path) -> None:
    value = {
        "record": Defect(code="soname", severity="warning", message="é"),
        "none": None,
        "nested": (("a", 1), ()),
    }
    _memo.remember(value, [_memo.stamp(str(settled))], "kind", "key")
    assert _memo.recall("kind", "key") == value
    assert _memo.recall("kind", "other") is None
    assert _memo.recall("other", "key") is None
    before = settled.stat()
    settled.write_bytes(b"two")
    # The same size and the same time of content: the time of status can't be set.
    os.utime(settled, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert _memo.recall("kind", "key") is None


def test_a_file_that_was_missing_matters_when_it_appears(settled: Path) -> None:
    missing = settled.with_name("cblas.h")
    _memo.remember((1,), [_memo.stamp(str(settled)), _memo.stamp(str(missing))], "kind")
    assert _memo.recall("kind") == (1,)
    missing.write_bytes(b"")
    assert _memo.recall("kind") is None


def test_what_has_just_changed_is_not_kept(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "fresh"
    path.write_bytes(b"")
    _memo.remember((1,), [_memo.stamp(str(path))], "kind")
    assert _memo.recall("kind") is None
    assert not cache.exists()


@pytest.mark.parametrize("damage", [b"", b"\0" * 40, None])
def test_a_damaged_entry_is_not_read(settled: Path, cache: Path, damage: bytes | None) -> None:
    _memo.remember(("a" * 50,), [_memo.stamp(str(settled))], "kind")
    (entry,) = (cache / "memos").iterdir()
    content = entry.read_bytes()
    for position in range(len(content)) if damage is None else (0,):
        if damage is None:
            broken = bytearray(content)
            broken[position] ^= 0x55
            entry.write_bytes(broken)
        else:
            entry.write_bytes(damage)
        assert _memo.recall("kind") is None
    entry.write_bytes(content)
    assert _memo.recall("kind") == ("a" * 50,)


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(settled: Path, cache: Path) -> None:
    cache.write_bytes(b"a file, not a folder")
    _memo.remember((1,), [_memo.stamp(str(settled))], "kind")
    assert _memo.recall("kind") is None


def test_tables_are_read_when_asked_for(settled: Path) -> None:
    probe = os.path.realpath(sys.executable)
    from blaswheel import _binary

    read = _binary.read(probe)
    _memo.remember((read,), [_memo.stamp(str(settled))], "kind")
    (known,) = _memo.recall("kind")
    assert isinstance(known, Binary)
    assert "imports" not in vars(known)
    assert known.needed == read.needed
    assert known.imports == read.imports
    assert known.functions == read.functions
    assert known.replace(path="x").imports == read.imports


def test_joined_tables_are_kept(settled: Path) -> None:
    joined = Binary(
        path=str(settled),
        format="elf",
        machine="x86_64",
        bits=64,
        byte_order="little",
        functions=("ddot_", "dgemm_"),
        joined=True,
    )
    _memo.remember((joined,), [_memo.stamp(str(settled))], "kind")
    assert _memo.recall("kind") == (joined,)
