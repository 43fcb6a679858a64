"""Archives: real ones against LLVM's tools, all kinds of index, import libraries, damage."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import time
from pathlib import Path

import pytest

from blaswheel import _ar, _binary, _names
from blaswheel._binary import Binary
from blaswheel._errors import FormatError
from tests.support import Wheels

PYLIB = ("pylib-openblas==0.0.2", "win_amd64", "pylib_openblas/lib")
#: specification, platform, folder, file, its DLL, machine; GNU dlltool, Microsoft and LLVM wrote
#: these
IMPORT_LIBRARIES = (
    (
        "scipy-openblas64==0.3.34.481.3",
        "win_amd64",
        "scipy_openblas64/lib",
        "libscipy_openblas64_.lib",
        "libscipy_openblas64_.dll",
        "x86_64",
    ),
    (
        "scipy-openblas32==0.3.34.481.3",
        "win32",
        "scipy_openblas32/lib",
        "libscipy_openblas.lib",
        "libscipy_openblas.dll",
        "i686",
    ),
    (
        "scipy-openblas32==0.3.34.481.3",
        "win_arm64",
        "scipy_openblas32/lib",
        "scipy_openblas.lib",
        "scipy_openblas.dll",
        "aarch64",
    ),
    (*PYLIB, "libopenblas.lib", "libopenblas.dll", "x86_64"),
    (*PYLIB, "libopenblas.dll.a", "libopenblas.dll", "x86_64"),
)
SOURCE = """
int number_ = 3;
int dgemm_(int a) { return a + number_; }
static int local_(int a) { return a; }
int calls(int a) { return local_(a) + dgemm_(a); }
"""
NAMES = ("calls", "dgemm_", "number_")
#: clang's target, kind of index, machine, word size, byte order
TARGETS = (
    ("x86_64-linux-gnu", "gnu", "x86_64", 64, "little"),
    ("powerpc64le-linux-gnu", "gnu", "ppc64le", 64, "little"),
    ("powerpc64-linux-gnu", "gnu", "ppc64", 64, "big"),
    ("s390x-linux-gnu", "gnu", "s390x", 64, "big"),
    ("i686-linux-gnu", "bsd", "i686", 32, "little"),
    ("aarch64-linux-gnu", "bsd", "aarch64", 64, "little"),
    ("arm64-apple-macos11", "darwin", "aarch64", 64, "little"),
    ("x86_64-apple-macos10.9", "gnu", "x86_64", 64, "little"),
    ("x86_64-pc-windows-msvc", "gnu", "x86_64", 64, "little"),
    ("i686-pc-windows-msvc", "gnu", "i686", 32, "little"),
)


def compiled(folder: Path, target: str, source: str = SOURCE, name: str = "sample") -> Path:
    """Compile a source to an object file, without any C library."""
    path = folder / f"{name}.c"
    path.write_text(source)
    command = ["clang", f"--target={target}", "-c", "-O1", "-ffreestanding"]
    subprocess.run([*command, "-o", path.with_suffix(".o"), path], check=True)
    return path.with_suffix(".o")


def archived(folder: Path, operation: str, *objects: Path, kind: str = "gnu") -> Path:
    path = folder / "libsample.a"
    path.unlink(missing_ok=True)
    subprocess.run(["llvm-ar", f"--format={kind}", operation, path, *objects], check=True)
    return path


def index(path: Path) -> set[str]:
    """Return the names in an archive's index as llvm-nm lists them."""
    run = subprocess.run(
        ["llvm-nm", "--print-armap", path], check=True, capture_output=True, text=True
    )
    listed = run.stdout.partition("Archive map\n")[2].partition("\n\n")[0]
    return {line.rpartition(" in ")[0] for line in listed.splitlines()}


@pytest.mark.tool("llvm-nm")
@pytest.mark.parametrize("library", IMPORT_LIBRARIES, ids=lambda each: f"{each[1]}-{each[3]}")
def test_import_libraries(wheels: Wheels, library: tuple[str, str, str, str, str, str]) -> None:
    spec, platform, folder, file, dll, machine = library
    path = wheels.unpacked(spec, platform) / folder / file
    binary = _binary.read(str(path))
    assert (binary.format, binary.machine) == ("ar", machine)
    assert (binary.bits, binary.byte_order) == (32 if machine == "i686" else 64, "little")
    assert (binary.soname, binary.needed) == (dll, (dll,))
    pointer = "__imp__" if machine == "i686" else "__imp_"
    pointers = {name for name in index(path) if name.startswith("__imp_")}
    assert set(binary.functions) == {name.removeprefix(pointer) for name in pointers}
    assert binary.objects == ()
    # All that it offers is in the DLL beside it.
    beside = path.with_name(dll)
    if not beside.exists():
        beside = path.parent.parent / "bin" / dll
    assert set(binary.functions) <= set(_binary.read(str(beside)).functions)


def test_static_library_for_windows(wheels: Wheels) -> None:
    path = wheels.unpacked(*PYLIB[:2]) / PYLIB[2] / "libopenblas.a"
    binary = _binary.read(str(path))
    assert (binary.format, binary.machine, binary.bits) == ("ar", "x86_64", 64)
    assert (binary.soname, binary.needed, binary.imports) == (None, (), ())
    best: dict[str, tuple[str, str]] = {}
    for each in _names.infer(binary.functions):
        best.setdefault(each.api, (each.prefix, each.suffix))
    assert best == {
        "blas": ("", "_"),
        "lapack": ("", "_"),
        "cblas": ("", ""),
        "lapacke": ("", ""),
    }


@pytest.mark.tool("llvm-nm")
@pytest.mark.parametrize("platform", [None, "macosx_14_0_arm64"])
def test_static_libraries_in_a_wheel(wheels: Wheels, platform: str | None) -> None:
    python = "3.12" if platform else None
    folder = wheels.unpacked("numpy==2.4.6", platform, python)
    for path in (folder / "numpy").rglob("*.a"):
        binary = _binary.read(str(path))
        names = index(path)
        if platform:
            names = {name.removeprefix("_") for name in names}
        assert set(binary.functions) == names
        assert len(binary.functions) > 50


@pytest.mark.tool("clang", "llvm-ar")
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target[0]}-{target[1]}")
def test_machines_and_indices(tmp_path: Path, target: tuple[str, str, str, int, str]) -> None:
    path = archived(tmp_path, "rcs", compiled(tmp_path, target[0]), kind=target[1])
    binary = _binary.read(str(path))
    assert (binary.format, binary.functions, binary.objects) == ("ar", NAMES, ())
    assert (binary.machine, binary.bits, binary.byte_order) == target[2:]
    assert binary.soname is None


@pytest.mark.tool("clang", "ar")
def test_gnu_ar(tmp_path: Path) -> None:
    objects = compiled(tmp_path, "x86_64-linux-gnu")
    long_name = objects.rename(tmp_path / "sample_with_a_name_of_more_than_fifteen_characters.o")
    path = tmp_path / "libsample.a"
    subprocess.run(["ar", "rcs", path, long_name], check=True)
    assert _ar.read(str(path)).functions == NAMES


def wide(content: bytes) -> bytes:
    """Return an archive with the index of 64-bit offsets that System V has for large ones."""
    size = int(content[56:66])
    count = int.from_bytes(content[68:72], "big")
    offsets = struct.unpack_from(f">{count}I", content, 72)
    names = content[72 + 4 * count : 68 + size]
    longer = 4 + 4 * count
    table = struct.pack(f">{count + 1}Q", count, *(offset + longer for offset in offsets)) + names
    header = b"/SYM64/".ljust(48) + str(len(table)).encode().ljust(10) + b"`\n"
    return content[:8] + header + table + content[68 + size :]


@pytest.mark.tool("clang", "llvm-ar", "llvm-nm")
def test_index_of_64_bits(tmp_path: Path) -> None:
    path = archived(tmp_path, "rcs", compiled(tmp_path, "x86_64-linux-gnu"))
    path.write_bytes(wide(path.read_bytes()))
    assert index(path) == set(NAMES)
    assert _ar.read(str(path)).functions == NAMES


@pytest.mark.tool("clang", "llvm-lib", "llvm-nm")
@pytest.mark.parametrize("machine", ["x86_64", "i686"])
def test_coff_index(tmp_path: Path, machine: str) -> None:
    objects = compiled(tmp_path, f"{machine}-pc-windows-msvc")
    path = tmp_path / "sample.lib"
    subprocess.run(["llvm-lib", f"/out:{path}", objects], check=True)
    assert path.read_bytes().count(b"\n/ ") >= 1
    assert _ar.read(str(path)).functions == NAMES


@pytest.mark.tool("clang", "llvm-ar")
def test_thin_archives(tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    objects = compiled(folder, "aarch64-linux-gnu", name="a_name_of_more_than_fifteen_characters")
    path = archived(tmp_path, "rcsT", objects)
    assert path.read_bytes()[:8] == b"!<thin>\n"
    binary = _binary.read(str(path))
    assert (binary.machine, binary.functions) == ("aarch64", NAMES)
    objects.unlink()
    with pytest.raises(FormatError, match=r"whose member .* is not there"):
        _binary.read(str(path))


@pytest.mark.tool("clang", "llvm-ar")
def test_link_time_optimisation(tmp_path: Path) -> None:
    """Members of bitcode are for no machine; a member after them may be."""
    source = tmp_path / "bitcode.c"
    source.write_text("int first(int a) { return a; }\n")
    bitcode = tmp_path / "bitcode.o"
    subprocess.run(["clang", "-c", "-flto", "-o", bitcode, source], check=True)
    path = archived(tmp_path, "rcs", bitcode, compiled(tmp_path, "s390x-linux-gnu"))
    binary = _ar.read(str(path))
    assert (binary.machine, binary.functions) == ("s390x", tuple(sorted({*NAMES, "first"})))
    with pytest.raises(FormatError, match="without an object for a known machine"):
        _ar.read(str(archived(tmp_path, "rcs", bitcode)))


@pytest.mark.tool("clang", "llvm-ar")
def test_objects_that_define_nothing(tmp_path: Path) -> None:
    objects = compiled(tmp_path, "riscv64-linux-gnu", "extern int a;")
    content = bytearray(archived(tmp_path, "rcS", objects).read_bytes())
    header = b"/".ljust(48) + b"4".ljust(10) + b"`\n" + bytes(4)
    path = tmp_path / "libsample.a"
    path.write_bytes(content[:8] + header + content[8:])
    binary = _ar.read(str(path))
    assert (binary.machine, binary.functions) == ("riscv64", ())


@pytest.mark.tool("clang", "llvm-ar")
def test_without_index(tmp_path: Path) -> None:
    objects = compiled(tmp_path, "x86_64-linux-gnu")
    with pytest.raises(FormatError, match="without an index") as caught:
        _binary.read(str(archived(tmp_path, "rcS", objects)))
    assert "ranlib" in caught.value.hint
    path = tmp_path / "libempty.a"
    path.write_bytes(b"!<arch>\n")
    with pytest.raises(FormatError, match="an empty archive"):
        _binary.read(str(path))


@pytest.mark.tool("llvm-dlltool")
@pytest.mark.parametrize(
    ("machine", "name"),
    [("i386:x86-64", "x86_64"), ("i386", "i686"), ("arm64", "aarch64")],
)
def test_variables_of_a_dll(tmp_path: Path, machine: str, name: str) -> None:
    (tmp_path / "a.def").write_text("LIBRARY lib-1.dll\nEXPORTS\ndgemm_\nnumber_ DATA\n")
    path = tmp_path / "a.lib"
    command = ["llvm-dlltool", "-m", machine, "-d", tmp_path / "a.def", "-l", path]
    subprocess.run(command, check=True)
    binary = _binary.read(str(path))
    assert (binary.machine, binary.soname) == (name, "lib-1.dll")
    assert (binary.functions, binary.objects) == (("dgemm_",), ("number_",))


@pytest.mark.tool("clang", "llvm-dlltool", "llvm-lib")
def test_libraries_of_several_dlls_and_objects(tmp_path: Path) -> None:
    parts = []
    for number in (1, 2):
        (tmp_path / "a.def").write_text(f"LIBRARY lib-{number}.dll\nEXPORTS\ndgemm{number}_\n")
        parts.append(tmp_path / f"part{number}.lib")
        command = ["llvm-dlltool", "-m", "i386:x86-64", "-d", tmp_path / "a.def", "-l", parts[-1]]
        subprocess.run(command, check=True)
    path = tmp_path / "all.lib"
    subprocess.run(["llvm-lib", f"/out:{path}", *parts], check=True)
    binary = _ar.read(str(path))
    assert (binary.soname, binary.needed) == (None, ("lib-1.dll", "lib-2.dll"))
    assert binary.functions == ("dgemm1_", "dgemm2_")
    objects = compiled(tmp_path, "x86_64-pc-windows-msvc")
    subprocess.run(["llvm-lib", f"/out:{path}", parts[0], objects], check=True)
    binary = _ar.read(str(path))
    assert (binary.soname, binary.needed) == (None, ("lib-1.dll",))
    assert binary.functions == ("calls", "dgemm1_", "dgemm_", "number_")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an archive"),
        (b"!<arch>", "not an archive"),
        (b"!<arch>\n" + b"a" * 59, "without an index"),
        (b"!<arch>\n" + b"a" * 60, "malformed header"),
        (b"!<arch>\n" + b"/".ljust(48) + b"9999999999`\n", "outside the file"),
        (b"!<arch>\n" + b"/".ljust(48) + b"-1".ljust(10) + b"`\n", "malformed header"),
        (b"!<arch>\n" + b"/".ljust(48) + b"4".ljust(10) + b"`\n" + b"\xff" * 4, "malformed index"),
        (b"!<arch>\n" + b"/".ljust(48) + b"2".ljust(10) + b"`\n" + b"\0" * 4, "malformed index"),
        (b"!<arch>\n" + b"#1/9".ljust(48) + b"2".ljust(10) + b"`\nab", "malformed header"),
        (b"!<arch>\n" + b"__.SYMDEF".ljust(48) + b"4".ljust(10) + b"`\n\1\0\0\0", "malformed ind"),
    ],
    ids=range(10),
)
def test_no_archive(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "libsample.a"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=message):
        _ar.read(str(path))


def test_no_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "libfifo.a")
    for path in (tmp_path, tmp_path / "libfifo.a", Path("/dev/zero")):
        with pytest.raises(FormatError, match="not a regular file"):
            _binary.read(str(path))
    with pytest.raises(FileNotFoundError):
        _binary.read(str(tmp_path / "absent.a"))


def bsd(names: bytes, offsets: list[int]) -> bytes:
    """Return an archive that is just an index of BSD, of one member."""
    table = b"".join(struct.pack("<II", offset, 8) for offset in offsets)
    content = struct.pack("<I", len(table)) + table + struct.pack("<I", len(names)) + names
    header = b"__.SYMDEF".ljust(48) + str(len(content)).encode().ljust(10) + b"`\n"
    return b"!<arch>\n" + header + content


def test_overlapping_names(tmp_path: Path) -> None:
    """A million names, each the end of a longer one: 30 GB of text in a file of 8 MB."""
    path = tmp_path / "libsample.a"
    path.write_bytes(bsd(b"a" * 60000 + b"\0", [index % 60000 for index in range(1_000_000)]))
    begin = time.perf_counter()
    with pytest.raises(FormatError, match="too much space"):
        _ar.read(str(path))
    assert time.perf_counter() - begin < 5


def test_member_outside_the_file(tmp_path: Path) -> None:
    path = tmp_path / "libsample.a"
    for place in (0, 1 << 31, 0xFFFFFFFF):
        table = struct.pack(">II", 1, place) + b"dgemm_\0"
        header = b"/".ljust(48) + str(len(table)).encode().ljust(10) + b"`\n"
        path.write_bytes(b"!<arch>\n" + header + table)
        with pytest.raises(FormatError, match=r"outside the file|malformed header"):
            _ar.read(str(path))


@pytest.mark.tool("clang", "llvm-ar")
def test_hostile_thin_archives(tmp_path: Path) -> None:
    """What a member's name leads to is looked at only if it is a file, and just its header."""
    objects = compiled(tmp_path, "x86_64-linux-gnu", name="a_name_of_more_than_fifteen_characters")
    path = archived(tmp_path, "rcsT", objects)
    content = path.read_bytes()
    name = objects.name.encode()
    for other in (b"/dev/zero", b"/", b"../" * 6 + b"dev/full", b"\0", b"\xff\xfe", b"", b"a\nb"):
        path.write_bytes(
            content.replace(name + b"/\n", (other + b"/\n").ljust(len(name) + 2, b"/"))
        )
        with pytest.raises(FormatError) as caught:
            _ar.read(str(path))
        assert "\n" not in caught.value.message


def attempt(path: Path) -> Binary | None:
    """Read a damaged file: only a FormatError may come of it, and soon."""
    begin = time.perf_counter()
    try:
        return _ar.read(str(path))
    except FormatError as error:
        assert str(path.parent) in error.message
        assert "\n" not in error.message
        return None
    finally:
        assert time.perf_counter() - begin < 5


def samples(folder: Path) -> list[bytes]:
    """Return an archive with each kind of index, and an import library."""
    found = [
        archived(folder, "rcs", compiled(folder, target), kind=kind).read_bytes()
        for target, kind, *_ in (TARGETS[0], TARGETS[5], TARGETS[6])
    ]
    path = folder / "sample.lib"
    objects = compiled(folder, "x86_64-pc-windows-msvc")
    subprocess.run(["llvm-lib", f"/out:{path}", objects], check=True)
    found.append(path.read_bytes())
    (folder / "a.def").write_text("LIBRARY lib-1.dll\nEXPORTS\ndgemm_\nnumber_ DATA\n")
    command = ["llvm-dlltool", "-m", "i386", "-d", folder / "a.def", "-l", path]
    subprocess.run(command, check=True)
    return [*found, wide(found[0]), path.read_bytes()]


@pytest.mark.tool("clang", "llvm-ar", "llvm-lib", "llvm-dlltool")
def test_damage(tmp_path: Path) -> None:
    """Truncated anywhere, any 4 bytes replaced, bytes at random: of each kind of archive."""
    path = tmp_path / "damaged.a"
    random.seed(26)
    for content in samples(tmp_path):
        path.write_bytes(content)
        whole = attempt(path)
        assert whole is not None
        for length in range(0, len(content), 16):
            path.write_bytes(content[:length])
            # Members after the last that defines something are not needed.
            assert attempt(path) in (None, whole)
        for at in range(0, len(content) - 3, 4):
            value = random.choice((0, 1, 0x7FFFFFFF, 0xFFFFFFFF, random.getrandbits(32)))
            damaged = bytearray(content)
            struct.pack_into("<I", damaged, at, value)
            path.write_bytes(damaged)
            attempt(path)
        for _ in range(200):
            damaged = bytearray(content)
            for _ in range(random.choice((1, 2, 8, 64))):
                damaged[random.randrange(len(damaged))] = random.randrange(256)
            path.write_bytes(damaged)
            attempt(path)
