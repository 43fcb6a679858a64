"""Wheels that would write elsewhere, unpack without end or say what is not so are refused."""

from __future__ import annotations

import os
import stat
import zipfile
from pathlib import Path

import pytest

from blaswheel import _binaries, _files, _roots
from blaswheel._errors import BlaswheelError

pytestmark = pytest.mark.filterwarnings("ignore:Duplicate name")
INFO = "odd-1.dist-info/METADATA"


def wheel(folder: Path, *members: tuple[str, bytes], mode: int = 0o100644) -> Path:
    path = folder / "odd-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(INFO, b"")
        for name, content in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)
    return path


def unpack(path: Path, into: Path) -> list[Path]:
    chosen = [_roots.named(str(path))]
    _files.fill_folder_atomically(str(into), lambda folder: _roots._unpack_all(chosen, folder))
    return [one for one in into.rglob("*") if not one.is_dir()]


@pytest.mark.parametrize(
    "name",
    [
        *("../x.so", "a/../../x.so", "/x.so", "a//x.so", "./x.so", "C:/x.so", "a\\..\\x.so"),
        *("odd-1.data/data/../../../x.so", "odd-1.data/../x.so"),
    ],
)
def test_members_that_lead_out(tmp_path: Path, name: str) -> None:
    with pytest.raises(BlaswheelError, match="leads out of it"):
        unpack(wheel(tmp_path, (name, b"x")), tmp_path / "into")
    assert [path.name for path in tmp_path.iterdir()] == ["odd-1-py3-none-any.whl"]


def test_symbolic_links(tmp_path: Path) -> None:
    with pytest.raises(BlaswheelError, match="symbolic link"):
        unpack(wheel(tmp_path, ("x.so", b"/etc/passwd"), mode=0o120777), tmp_path / "into")


@pytest.mark.parametrize("kind", [stat.S_IFBLK, stat.S_IFCHR, stat.S_IFIFO, stat.S_IFSOCK])
def test_devices_become_files(tmp_path: Path, kind: int) -> None:
    for path in unpack(wheel(tmp_path, ("x.so", b"x"), mode=kind | 0o6777), tmp_path / "into"):
        status = os.lstat(path)
        assert stat.S_ISREG(status.st_mode)
        assert not status.st_mode & 0o6000


def test_members_that_are_there_twice(tmp_path: Path) -> None:
    with pytest.raises(BlaswheelError, match="twice"):
        unpack(wheel(tmp_path, ("x.so", b"a"), ("x.so", b"b")), tmp_path / "into")


def test_members_inside_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(BlaswheelError, match="inside of a file"):
        unpack(wheel(tmp_path, ("x.so", b"a"), ("x.so/y.so", b"b")), tmp_path / "into")


def test_a_member_larger_than_it_says(tmp_path: Path) -> None:
    """A bomb: its directory states 100 bytes, and what is packed is 64 MB."""
    path = wheel(tmp_path, ("x.so", b"\x7fELF" + bytes(64 << 20)))
    content = path.read_bytes()
    size = ((64 << 20) + 4).to_bytes(4, "little")
    assert content.count(size) == 2
    path.write_bytes(content.replace(size, (100).to_bytes(4, "little")))
    with pytest.raises(BlaswheelError, match="can't be read as a wheel"):
        unpack(path, tmp_path / "into")
    with pytest.raises(BlaswheelError, match="can't be read as a wheel"):
        _binaries.scan(str(path))
    assert not (tmp_path / "into").exists()


def test_a_record_that_lies_is_not_believed(tmp_path: Path) -> None:
    lies = b"../../../etc/lib.so,,\n/etc/passwd.so,,\nodd-1.dist-info/none.so,sha256=x,1\n"
    path = wheel(tmp_path, ("x.so", b"x"), ("odd-1.dist-info/RECORD", lies))
    (record,) = [one for one in unpack(path, tmp_path / "into") if one.name == "RECORD"]
    assert record.read_text() == "odd-1.dist-info/METADATA,,\nx.so,,\n"
