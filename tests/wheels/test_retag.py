"""A wheel with another tag is the same wheel: what it installs is copied byte for byte."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.sites import Blaswheel
from tests.support import Venv, Wheels
from tests.wheels.making import wheel

SPEC, PLATFORM = "scipy-openblas32==0.3.34.481.3", "manylinux_2_28_x86_64"


@pytest.fixture(scope="module")
def blaswheel(shared_venv: Callable[..., Venv]) -> Blaswheel:
    return Blaswheel(shared_venv())


@pytest.fixture
def openblas(wheels: Wheels, tmp_path: Path) -> Path:
    """A real wheel, in a folder of its own."""
    real = wheels.fetch(SPEC, PLATFORM)
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / real.name
    path.write_bytes(real.read_bytes())
    return path


def records(path: Path) -> list[tuple[object, ...]]:
    with zipfile.ZipFile(path) as archive:
        return [
            (each.filename, each.CRC, each.compress_size, each.date_time, each.external_attr,
             each.compress_type, each.extra)
            for each in archive.infolist()
        ]  # fmt: skip


def member_bytes(path: Path, name: str) -> bytes:
    """Return the packed bytes of a member, as they are in the file."""
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(name)
    with path.open("rb") as file:
        file.seek(info.header_offset + 26)
        lengths = file.read(4)
        skip = int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
        file.seek(info.header_offset + 30 + skip)
        return file.read(info.compress_size)


def test_the_honest_tag(blaswheel: Blaswheel, openblas: Path) -> None:
    made = Path(blaswheel("tag", "--write", openblas).stdout.strip())
    assert made.parent == openblas.parent and openblas.exists()
    assert made.name == "scipy_openblas32-0.3.34.481.3-py3-none-manylinux_2_27_x86_64.whl"
    blaswheel("tag", "--check", made)
    before, after = records(openblas), records(made)
    assert [one[0] for one in before] == [one[0] for one in after]
    changed = {str(one[0]).partition("/")[2] for one, two in zip(before, after, strict=True)
               if one != two}  # fmt: skip
    assert changed == {"WHEEL", "RECORD"}
    # Their times and modes stay as well.
    assert [one[3:6] for one in before] == [one[3:6] for one in after]
    for name in (str(one[0]) for one in before):
        if name.partition("/")[2] not in changed:
            assert member_bytes(openblas, name) == member_bytes(made, name)


def test_two_runs_give_the_same_file(blaswheel: Blaswheel, openblas: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        blaswheel("tag", "--write", "-o", tmp_path / name, openblas)
        os.utime(openblas)
    (one,), (other,) = ((tmp_path / name).iterdir() for name in ("a", "b"))
    assert one.read_bytes() == other.read_bytes()


def test_tools_take_it(
    blaswheel: Blaswheel, openblas: Path, tmp_path: Path, venv: Callable[..., Venv]
) -> None:
    made = Path(blaswheel("tag", "--write", openblas).stdout.strip())
    environment = venv()
    environment.pip_install("--no-deps", "installer", "wheel", "packaging")
    check = (
        "import sys; from installer.sources import WheelFile\n"
        "with WheelFile.open(sys.argv[1]) as wheel: wheel.validate_record()"
    )
    environment.run("python", "-c", check, made)
    environment.run("wheel", "unpack", "--dest", tmp_path / "unpacked", made)
    environment.pip_install("--no-index", made)
    environment.run("python", "-c", "import scipy_openblas32")
    subprocess.run([sys.executable, "-m", "zipfile", "-t", made], check=True)


def test_a_chosen_tag(blaswheel: Blaswheel, openblas: Path, tmp_path: Path) -> None:
    words = ("tag", "--write", "-o", tmp_path / "out", "--as")
    for tag in ("linux_x86_64", "manylinux_2_31_x86_64", "manylinux_2_27_x86_64.linux_x86_64"):
        made = Path(blaswheel(*words, tag, openblas).stdout.strip())
        assert made.name.endswith(f"-py3-none-{tag}.whl")
        with zipfile.ZipFile(made) as archive:
            text = archive.read("scipy_openblas32-0.3.34.481.3.dist-info/WHEEL").decode()
        inner = [line for line in text.splitlines() if line.startswith("Tag:")]
        assert inner == [f"Tag: py3-none-{one}" for one in tag.split(".")]
    for tag in ("manylinux2014_x86_64", "manylinux_2_31_x86_64.manylinux_2_26_x86_64", "any"):
        error, hint = blaswheel.error(*words, tag, openblas)
        assert "promises too much" in error and "manylinux_2_27_x86_64" in hint
    assert "no platform tag" in blaswheel.error(*words, "linux", openblas, status=2)[0]


def test_remove_leaves_the_copy_only(blaswheel: Blaswheel, openblas: Path) -> None:
    made = Path(blaswheel("tag", "--write", "--remove", openblas).stdout.strip())
    assert list(openblas.parent.iterdir()) == [made]
    said = blaswheel("tag", "--write", "--remove", made)
    assert "already" in said.stderr and made.exists()


def test_tags_inside_that_are_others(blaswheel: Blaswheel, tmp_path: Path) -> None:
    """A wheel that somebody renamed: what the name says of Python is kept, the rest mended."""
    made = wheel(tmp_path, {"demo/__init__.py": b"", "demo/x.h": b"x"}, "cp312-abi3-linux_x86_64",
                 inner="py3-none-any")  # fmt: skip
    blaswheel("tag", "--write", "--as", "manylinux_2_17_x86_64.linux_x86_64", made)
    (new,) = tmp_path.glob("*manylinux*")
    with zipfile.ZipFile(new) as archive:
        text = archive.read("demo-1.0.dist-info/WHEEL").decode()
    assert [line for line in text.splitlines() if line.startswith("Tag:")] == [
        "Tag: cp312-abi3-manylinux_2_17_x86_64",
        "Tag: cp312-abi3-linux_x86_64",
    ]
    # Only the inside is wrong: the copy would have the wheel's own name.
    same = wheel(
        tmp_path / "same", {"demo/x.h": b""}, "py3-none-any", inner="py3-none-linux_x86_64"
    )
    assert "--remove" in blaswheel.error("tag", "--write", same)[1]
    blaswheel("tag", "--write", "--remove", same)
    with zipfile.ZipFile(same) as archive:
        assert b"Tag: py3-none-any\n" in archive.read("demo-1.0.dist-info/WHEEL")


def test_signatures_are_dropped(blaswheel: Blaswheel, tmp_path: Path) -> None:
    info = "demo-1.0.dist-info"
    made = wheel(
        tmp_path, {"demo/x.h": b"", f"{info}/RECORD.jws": b"{}", f"{info}/RECORD.p7s": b"x"}
    )
    new = Path(blaswheel("tag", "--write", "--as", "any", made).stdout.strip())
    with zipfile.ZipFile(new) as archive:
        assert not [name for name in archive.namelist() if "RECORD." in name]
        assert b"RECORD." not in archive.read(f"{info}/RECORD")


def test_members_with_sizes_after_them(blaswheel: Blaswheel, tmp_path: Path) -> None:
    """As a zip file is written into a pipe."""
    plain = wheel(tmp_path / "plain", {"demo/x.h": b"x" * 5000})
    piped = tmp_path / plain.name

    class Pipe:
        def __init__(self) -> None:
            self.data = b""

        def write(self, data: bytes) -> int:
            self.data += bytes(data)
            return len(data)

        def flush(self) -> None:
            pass

    pipe = Pipe()
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(pipe, "w") as target:  # type: ignore[arg-type]
        for info in source.infolist():
            target.writestr(info.filename, source.read(info), zipfile.ZIP_DEFLATED)
    piped.write_bytes(pipe.data)
    with zipfile.ZipFile(piped) as archive:
        assert all(info.flag_bits & 8 for info in archive.infolist())
    new = Path(blaswheel("tag", "--write", "--as", "any", piped).stdout.strip())
    with zipfile.ZipFile(new) as archive:
        assert archive.testzip() is None
        assert archive.read("demo/x.h") == b"x" * 5000


def test_zip64(blaswheel: Blaswheel, tmp_path: Path) -> None:
    plain = wheel(tmp_path / "plain", {"demo/x.h": b"x"})
    wide = tmp_path / plain.name
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(wide, "w") as target:
        for info in source.infolist():
            with target.open(zipfile.ZipInfo(info.filename), "w", force_zip64=True) as file:
                file.write(source.read(info))
        for number in range(70_000):
            target.writestr(f"demo/{number}", b"")
    new = Path(blaswheel("tag", "--write", "--as", "any", wide).stdout.strip())
    with zipfile.ZipFile(new) as archive:
        assert len(archive.namelist()) == 70_004
        assert archive.read("demo/x.h") == b"x"
        assert b"Tag: py3-none-any" in archive.read("demo-1.0.dist-info/WHEEL")


@pytest.mark.parametrize("damage", ["cut", "no WHEEL", "two WHEELs", "overlap", "RECORD"])
def test_what_can_not_be_copied(blaswheel: Blaswheel, tmp_path: Path, damage: str) -> None:
    made = wheel(tmp_path, {"demo/x.h": b"x" * 100})
    data = made.read_bytes()
    if damage == "cut":
        data = data[: len(data) // 2]
    elif damage == "no WHEEL":
        data = data.replace(b"dist-info/WHEEL", b"dist-info/WHEAL")
    elif damage == "two WHEELs":
        with zipfile.ZipFile(made, "a") as archive:
            archive.writestr("other-1.0.dist-info/WHEEL", "")
        data = made.read_bytes()
    elif damage == "overlap":
        at = data.rindex(b"PK\1\2")
        data = data[: at + 42] + bytes(4) + data[at + 46 :]
    else:
        at = data.index(b"demo-1.0.dist-info/RECORD") + len("demo-1.0.dist-info/RECORD")
        data = data[:at] + b"\xff" + data[at + 1 :]
    made.write_bytes(data)
    error, hint = blaswheel.error("tag", "--write", "--as", "any", "-o", tmp_path / "out", made)
    assert str(made) in error and hint
    out = tmp_path / "out"
    assert not out.exists() or not list(out.iterdir())


def test_a_folder_that_can_not_be_written(blaswheel: Blaswheel, openblas: Path) -> None:
    error, hint = blaswheel.error("tag", "--write", "-o", "/proc/nowhere", openblas)
    assert "/proc/nowhere" in error and "-o" in hint
