"""DLLs: real libraries against LLVM's tools, linked variants, damaged and hostile files."""

from __future__ import annotations

import random
import re
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from blaswheel import _binary, _names, _pe
from blaswheel._errors import FormatError
from tests.support import Wheels
from tests.unit.damage import attempt

#: specification, platform, file, machine, number of exports, (prefix, Fortran suffix, C suffix)
REAL = (
    (
        "scipy-openblas64==0.3.34.481.3",
        "win_amd64",
        "scipy_openblas64/lib/libscipy_openblas64_.dll",
        "x86_64",
        10084,
        ("scipy_", "_64_", "64_"),
    ),
    (
        "scipy-openblas32==0.3.34.481.3",
        "win32",
        "scipy_openblas32/lib/libscipy_openblas.dll",
        "i686",
        10084,
        ("scipy_", "_", ""),
    ),
    (
        "scipy-openblas32==0.3.34.481.3",
        "win_arm64",
        "scipy_openblas32/lib/scipy_openblas.dll",
        "aarch64",
        10108,
        ("scipy_", "_", ""),
    ),
    (
        "scipy-openblas64==0.3.23.293.2",
        "win_amd64",
        "scipy_openblas64/lib/libopenblas64__v0.3.23-293-gc2f4bdbb-gcc_10_3_0.dll",
        "x86_64",
        9360,
        ("", "_64_", "64_"),
    ),
    (
        "devsim-openblas==0.1.0",
        "win_amd64",
        "devsim_openblas/devsim_openblas_shim.dll",
        "x86_64",
        20,
        None,
    ),
)
EACH = pytest.mark.parametrize("real", REAL, ids=lambda real: f"{real[0]}-{real[1]}")
SOURCE = """
#define EXPORT __declspec(dllexport)
EXPORT int number_ = 3;
EXPORT const int constant_ = 4;
EXPORT int room_[100];
EXPORT int dgemm_(int a) { return a + number_; }
__declspec(dllimport) int elsewhere(int);
EXPORT int calls(int a) { return elsewhere(a) + dgemm_(a); }
int hidden_(void) { return 2; }
int _fltused;
"""
#: clang's target, dlltool's name, machine, word size
TARGETS = (
    ("x86_64", "i386:x86-64", "x86_64", 64),
    ("i686", "i386", "i686", 32),
    ("aarch64", "arm64", "aarch64", 64),
)
Link = Callable[..., Path]


@pytest.fixture
def link(tmp_path: Path) -> Link:
    """Compile SOURCE and link it for Windows, without its SDK."""

    def run(*options: str, target: tuple[str, str, str, int] = TARGETS[0]) -> Path:
        (tmp_path / "sample.c").write_text(SOURCE)
        (tmp_path / "other.def").write_text("LIBRARY other-0.dll\nEXPORTS\nelsewhere\n_elsewhere\n")
        library, objects = tmp_path / "other.lib", tmp_path / "sample.obj"
        command = ["llvm-dlltool", "-m", target[1], "-d", tmp_path / "other.def", "-l", library]
        subprocess.run(command, check=True)
        command = ["clang", f"--target={target[0]}-pc-windows-msvc", "-c", "-O1", "-fno-inline"]
        subprocess.run([*command, "-o", objects, tmp_path / "sample.c"], check=True)
        output = tmp_path / "sample-1.dll"
        command = ["lld-link", "/dll", "/noentry", "/nodefaultlib", f"/out:{output}"]
        safe = ["/safeseh:no"] if target[3] == 32 else []
        subprocess.run([*command, *safe, objects, library, *options], check=True)
        return output

    return run


def find(wheels: Wheels, real: tuple[str, str, str, object, object, object]) -> Path:
    return wheels.unpacked(real[0], real[1]) / real[2]


def readobj(path: Path, option: str) -> str:
    command = ["llvm-readobj", option, path]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def exports(path: Path) -> set[str]:
    return set(re.findall(r"^  Name: (\S+)$", readobj(path, "--coff-exports"), re.MULTILINE))


@EACH
@pytest.mark.tool("llvm-readobj")
def test_agrees_with_llvm(
    wheels: Wheels, real: tuple[str, str, str, object, object, object]
) -> None:
    path = find(wheels, real)
    binary = _pe.read(str(path))
    assert {*binary.functions, *binary.objects} == exports(path)
    assert binary.functions == tuple(sorted(set(binary.functions)))
    imports = readobj(path, "--coff-imports")
    assert list(binary.needed) == re.findall(r"^  Name: (\S+)$", imports, re.MULTILINE)
    assert set(binary.imports) == set(re.findall(r"^  Symbol: (\S+)", imports, re.MULTILINE))
    headers = readobj(path, "--file-headers")
    version = re.findall(r"M\w+SubsystemVersion: (\d+)", headers)
    assert binary.minimum_os == ("windows", ".".join(version))


@EACH
def test_known_libraries(
    wheels: Wheels, real: tuple[str, str, str, str, int, tuple[str, str, str] | None]
) -> None:
    _, _, file, machine, count, names = real
    binary = _binary.read(str(find(wheels, real)))
    assert (binary.format, binary.machine) == ("pe", machine)
    assert (binary.bits, binary.byte_order) == (32 if machine == "i686" else 64, "little")
    assert binary.soname == file.rpartition("/")[2]
    assert (len(binary.functions), binary.objects) == (count, ())
    assert binary.symbolic
    assert binary.interposable == binary.forwards == ()
    assert "KERNEL32.dll" in binary.needed
    best: dict[str, tuple[str, str]] = {}
    for each in _names.infer(binary.functions):
        best.setdefault(each.api, (each.prefix, each.suffix))
    if names is None:
        assert best == {}
    else:
        prefix, fortran, c = names
        assert (best["blas"], best["lapack"]) == ((prefix, fortran), (prefix, fortran))
        assert (best["cblas"], best["lapacke"]) == ((prefix, c), (prefix, c))


@pytest.mark.parametrize("real", REAL[:2], ids=["64", "32"])
def test_leaked_names(wheels: Wheels, real: tuple[str, str, str, object, object, object]) -> None:
    """The DLLs export plain names besides; the import libraries beside them do not offer these."""
    path = find(wheels, real)
    exported = {name for name in _pe.read(str(path)).functions if "scipy_" not in name}
    assert len(exported) == 492
    assert {"dgemm_", "cblas_dgemm"} <= exported
    offered = set(_binary.read(str(path.with_suffix(".lib"))).functions)
    assert len(exported & offered) == 2


@pytest.mark.tool("clang", "lld-link", "llvm-dlltool")
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target[2])
def test_linked(link: Link, target: tuple[str, str, str, int]) -> None:
    binary = _binary.read(str(link("/subsystem:windows,10.5", target=target)))
    assert binary.functions == ("calls", "dgemm_")
    assert binary.objects == ("constant_", "number_", "room_")
    assert set(binary.imports) <= {"elsewhere", "_elsewhere"}
    assert binary.needed == ("other-0.dll",)
    assert binary.soname == "sample-1.dll"
    assert (binary.machine, binary.bits) == target[2:]
    assert binary.minimum_os == ("windows", "10.5")


@pytest.mark.tool("clang", "lld-link", "llvm-dlltool")
def test_forwards_and_ordinals(link: Link) -> None:
    path = link(
        "/export:forwarded_=other-0.elsewhere",
        "/export:by_number_=other-0.#7",
        "/export:nameless_=dgemm_,@7,NONAME",
        "/export:again_=dgemm_,@9",
    )
    binary = _pe.read(str(path))
    assert binary.functions == ("again_", "by_number_", "calls", "dgemm_", "forwarded_")
    assert binary.objects == ("constant_", "number_", "room_")
    assert binary.forwards == (
        ("by_number_", "other-0.#7"),
        ("forwarded_", "other-0.elsewhere"),
    )


@pytest.mark.tool("clang", "lld-link", "llvm-dlltool")
def test_without_exports_or_delayed(link: Link, tmp_path: Path) -> None:
    (tmp_path / "helper.c").write_text(
        "void *__delayLoadHelper2(void *a, void *b) { return a ? a : b; }"
    )
    command = ["clang", "--target=x86_64-pc-windows-msvc", "-c", "-o", tmp_path / "helper.obj"]
    subprocess.run([*command, tmp_path / "helper.c"], check=True)
    path = link("/delayload:other-0.dll", str(tmp_path / "helper.obj"))
    binary = _pe.read(str(path))
    assert (binary.needed, binary.imports) == (("other-0.dll",), ("elsewhere",))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "outside the file"),
        (b"MZ", "outside the file"),
        (b"\x7fELF" + bytes(100), "not a PE file"),
        (b"MZ" + bytes(58) + b"\xff\xff\xff\xff", "outside the file"),
        (b"MZ" + bytes(58) + b"\x40\0\0\0" + bytes(100), "DOS"),
        (b"MZ" + bytes(58) + b"\x40\0\0\0PE\0\0" + bytes(100), "not linked"),
    ],
    ids=range(6),
)
def test_no_library(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "sample.dll"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=message):
        _pe.read(str(path))


@pytest.mark.tool("clang", "lld-link", "llvm-dlltool")
def test_object_files(link: Link, tmp_path: Path) -> None:
    link()
    with pytest.raises(FormatError, match="not a library of a known format"):
        _binary.read(str(tmp_path / "sample.obj"))


@pytest.mark.tool("clang", "lld-link", "llvm-dlltool")
def test_truncated_anywhere(link: Link) -> None:
    path = link()
    content = path.read_bytes()
    for length in range(0, len(content), 64):
        path.write_bytes(content[:length])
        assert attempt(_pe.read, path) is None


@pytest.mark.tool("clang", "lld-link", "llvm-dlltool")
def test_any_field_damaged(link: Link) -> None:
    """Every 4 bytes, with hostile values."""
    path = link("/export:forwarded_=other-0.elsewhere")
    content = path.read_bytes()
    random.seed(24)
    for at in range(0, len(content) - 3, 4):
        value = random.choice((0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, random.getrandbits(32)))
        damaged = bytearray(content)
        struct.pack_into("<I", damaged, at, value)
        path.write_bytes(damaged)
        attempt(_pe.read, path)


@pytest.mark.tool("clang", "lld-link", "llvm-dlltool")
def test_random_damage(link: Link) -> None:
    path = link("/export:forwarded_=other-0.elsewhere")
    content = path.read_bytes()
    random.seed(25)
    for _ in range(1500):
        damaged = bytearray(content)
        for _ in range(random.choice((1, 2, 8, 64))):
            damaged[random.randrange(len(damaged))] = random.randrange(256)
        path.write_bytes(damaged)
        attempt(_pe.read, path)


def image(
    path: Path, body: bytes, exports: int = 0, imports: int = 0, room: int = 0, copies: int = 1
) -> Path:
    """Write a DLL of one section, which begins at address 0x1000 and at 0x2000 in the file.

    Further copies of the section share its content, and follow in memory.
    """
    optional = bytearray(240)
    struct.pack_into("<H", optional, 0, 0x20B)
    struct.pack_into("<I", optional, 60, 0x200 if copies == 1 else 0)
    struct.pack_into("<I", optional, 108, 16)
    struct.pack_into("<4I", optional, 112, exports, 40, imports, 40)
    coff = struct.pack("<HHIIIHH", 0x8664, copies, 0, 0, 0, 240, 0x2002)
    step = -(-max(room, len(body)) // 0x1000) * 0x1000
    sections = b"".join(
        struct.pack(
            "<8s4I12xI",
            *(b".text", room or len(body), 0x1000 + step * copy, len(body), 0x2000, 0x60000020),
        )
        for copy in range(copies)
    )
    header = b"MZ" + bytes(58) + struct.pack("<I", 64) + b"PE\0\0" + coff + optional + sections
    path.write_bytes(header.ljust(0x2000, b"\0") + body)
    return path


def export_table(count: int, names: bytes, text: bytes) -> bytes:
    """Return a table of ``count`` names of the first function."""
    first = 0x1028
    places = (first, first + 4, first + 4 + len(names))
    table = struct.pack("<12x7I", 0, 1, 1, count, *places)
    return table + struct.pack("<I", 0x1000) + names + bytes(2 * count) + text


def test_names_beyond_what_the_file_holds_are_zero(tmp_path: Path) -> None:
    body = export_table(1, struct.pack("<I", 0x1000 + 40 + 4 + 4 + 2), b"dgemm_")
    path = image(tmp_path / "a.dll", body, exports=0x1000, room=0x2000)
    assert [name for name, _ in _pe.read(str(path)).forwards] == ["dgemm_"]
    with pytest.raises(FormatError, match="name"):
        _pe.read(str(image(path, body, exports=0x1000)))


def test_names_in_the_headers_and_in_a_section(tmp_path: Path) -> None:
    body = export_table(2, struct.pack("<II", 0x1000 + 40 + 4 + 8 + 4, 2), b"dgemm_\0")
    path = image(tmp_path / "a.dll", body, exports=0x1000)
    content = bytearray(path.read_bytes())
    content[2:9] = b"ddot_\0\0"
    path.write_bytes(content)
    assert _pe.read(str(path)).functions == ("ddot_", "dgemm_")


def test_overlapping_names(tmp_path: Path) -> None:
    """Names that are each the end of a longer one: 7 GB of text in a file of 2 MB."""
    count = 250_000
    start = 0x1000 + 40 + 4 + count * 6
    names = struct.pack(f"<{count}I", *(start + index % 60000 for index in range(count)))
    path = image(
        tmp_path / "a.dll",
        export_table(count, names, b"a" * 60000 + b"\0"),
        exports=0x1000,
    )
    begin = time.perf_counter()
    with pytest.raises(FormatError, match="too much space"):
        _pe.read(str(path))
    assert time.perf_counter() - begin < 5


def test_names_in_many_sections(tmp_path: Path) -> None:
    count, copies = 50_000, 96
    length = 40 + 4 + count * 6 + 7
    step = -(-length // 0x1000) * 0x1000
    start = 0x1000 + length - 7
    names = struct.pack(f"<{count}I", *(start + index % copies * step for index in range(count)))
    body = export_table(count, names, b"dgemm_\0")
    begin = time.perf_counter()
    path = image(tmp_path / "a.dll", body, exports=0x1000, copies=copies)
    assert {name for name, _ in _pe.read(str(path)).forwards} == {"dgemm_"}
    assert time.perf_counter() - begin < 10
    with pytest.raises(FormatError, match="too many sections"):
        _pe.read(str(image(path, body, exports=0x1000, copies=97)))


@pytest.mark.parametrize("count", [0xFFFFFFFF, 0x40000000, 0x7FFFFFFF, 1 << 20])
def test_four_billion_names(tmp_path: Path, count: int) -> None:
    body = bytearray(export_table(1, bytes(4), b""))
    struct.pack_into("<I", body, 24, count)
    with pytest.raises(FormatError, match="export table"):
        _pe.read(str(image(tmp_path / "a.dll", bytes(body), exports=0x1000)))
    struct.pack_into("<II", body, 20, count, 1)
    with pytest.raises(FormatError, match="export table"):
        _pe.read(str(image(tmp_path / "a.dll", bytes(body), exports=0x1000)))


def test_overlapping_imports(tmp_path: Path) -> None:
    """A thousand DLLs that all share one table of a hundred thousand imports."""
    dlls, names = 1000, 100_000
    table = 0x1000 + 20 * (dlls + 1)
    text = table + 8 * (names + 1)
    entry = struct.pack("<5I", table, 0, 0, text + 2, table)
    body = entry * dlls + bytes(20) + struct.pack("<Q", text) * names + bytes(8) + b"\0\0a.dll\0"
    begin = time.perf_counter()
    with pytest.raises(FormatError, match="import table is too large"):
        _pe.read(str(image(tmp_path / "a.dll", body, imports=0x1000)))
    assert time.perf_counter() - begin < 10


@pytest.mark.parametrize("body", [b"\1" * 0x1000, b"\1" * 200000])
def test_endless_imports(tmp_path: Path, body: bytes) -> None:
    with pytest.raises(FormatError):
        _pe.read(str(image(tmp_path / "a.dll", body, imports=0x1000)))
    entry = struct.pack("<5I", 0x1000 + 20, 0, 0, 0x1000, 1)
    with pytest.raises(FormatError, match=r"no end|outside"):
        _pe.read(str(image(tmp_path / "a.dll", entry + b"\1" * 200, imports=0x1000)))
