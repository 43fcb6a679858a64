"""Mach-O files: real libraries against LLVM's tools, linked variants, damaged and hostile files."""

from __future__ import annotations

import random
import re
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from blaswheel import _binary, _macho, _names
from blaswheel._binary import Binary
from blaswheel._errors import FormatError
from tests.support import Wheels
from tests.unit.damage import attempt

ARM64, X86_64, OLD = "macosx_11_0_arm64", "macosx_10_13_x86_64", "macosx_10_9_x86_64"
#: What this library calls itself is a folder of the machine that it was built on.
CMEEL_BUILD = "/var/folders/kg/7q73ww8s3llgyl61c9z_j5g40000gn/T/cmeel-ojefp8l4/bld"
#: specification, platform, file, install name, number of exports, data among them,
#: {API: (prefix, suffix)}
REAL = (
    (
        "scipy-openblas64==0.3.34.481.3",
        ARM64,
        "scipy_openblas64/lib/libscipy_openblas64_.dylib",
        "@rpath/libscipy_openblas64_.dylib",
        (5114, 0),
        ("scipy_", "_64_", "64_"),
    ),
    (
        "scipy-openblas32==0.3.34.481.3",
        X86_64,
        "scipy_openblas32/lib/libscipy_openblas.dylib",
        "@rpath/libscipy_openblas.dylib",
        (5157, 0),
        ("scipy_", "_", ""),
    ),
    (
        "scipy-openblas32==0.3.23.293",
        OLD,
        "scipy_openblas32/lib/libopenblas_python.so",
        "/usr/local/lib/libopenblas.0.dylib",
        (5037, 0),
        ("", "_", ""),
    ),
    (
        "cmeel-openblas==0.3.31",
        ARM64,
        "cmeel.prefix/lib/libopenblas.0.3.dylib",
        f"{CMEEL_BUILD}/lib/libopenblas.0.3.dylib",
        (7003, 30),
        ("", "_", ""),
    ),
)
EACH = pytest.mark.parametrize("real", REAL, ids=lambda real: f"{real[0]}-{real[1]}")
SOURCE = """
int number_ = 3;
const int constant_ = 4;
int common_;
extern int elsewhere(int);
extern int value;
int dgemm_(int a) { return a + number_; }
int calls(int a) { return elsewhere(a) + dgemm_(a) + value; }
__attribute__((weak)) int weak_(void) { return 1; }
__attribute__((visibility("hidden"))) int hidden_(void) { return 2; }
"""
FUNCTIONS, OBJECTS = ("calls", "dgemm_", "weak_"), ("common_", "constant_", "number_")
#: clang's target, the linker's name, machine, oldest macOS
TARGETS = (
    ("arm64-apple-macos11", "arm64", "aarch64", "11.0"),
    ("x86_64-apple-macos10.9", "x86_64", "x86_64", "10.9"),
)
INFO_ONLY, EXPORTS_TRIE, SYMTAB = 0x80000022, 0x80000033, 0x2
#: A command that says nothing of interest: LC_SOURCE_VERSION.
NOTHING = 0x2A
Link = Callable[..., Path]


@pytest.fixture
def link(tmp_path: Path) -> Link:
    """Compile SOURCE and link it for macOS, without its SDK."""

    def run(
        *options: str,
        target: tuple[str, ...] = TARGETS[0],
        source: str = SOURCE,
        name: str = "libsample.dylib",
    ) -> Path:
        triple, architecture, _, oldest = target
        (tmp_path / "sample.c").write_text(source)
        command = ["clang", f"--target={triple}", "-c", "-O1", "-fno-inline", "-ffreestanding"]
        objects = tmp_path / f"{architecture}.o"
        subprocess.run([*command, "-o", objects, tmp_path / "sample.c"], check=True)
        output = tmp_path / name
        command = ["lld", "-flavor", "darwin", "-dylib", "-arch", architecture]
        command += ["-platform_version", "macos", oldest, oldest, "-undefined", "dynamic_lookup"]
        subprocess.run([*command, *options, "-o", output, objects], check=True)
        return output

    return run


def find(wheels: Wheels, real: tuple[str, str, str, object, object, object]) -> Path:
    return wheels.unpacked(real[0], real[1]) / real[2]


def output(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def by_trie(path: Path) -> set[str]:
    """Return the exports as llvm-objdump lists them."""
    listed = output("llvm-objdump", "--macho", "--exports-trie", path)
    return set(re.findall(r"^0x[0-9A-F]+  _(\S+)", listed, re.MULTILINE))


def by_nm(path: Path) -> tuple[set[str], set[str], set[str]]:
    """Return (functions, objects, imports) as llvm-nm tells them."""
    names: dict[bool | None, set[str]] = {True: set(), False: set(), None: set()}
    for line in output("llvm-nm", "--extern-only", "--format=darwin", "-m", path).splitlines():
        kind, _, name = line.partition(" external ")
        if not name:
            continue
        name = re.sub(r" \(.*\)$", "", name).rpartition(" ")[2].removeprefix("_")
        if "(undefined" in kind:
            names[None].add(name)
        else:
            names["(__TEXT,__text)" in kind].add(name)
    return names[True], names[False], names[None]


def commands(path: Path, command: str, field: str) -> list[str]:
    """Return a field of all load commands of a kind as llvm-objdump lists them."""
    listed = output("llvm-objdump", "--macho", "--private-headers", path)
    return [
        match[1]
        for part in listed.split("Load command")[1:]
        if re.search(rf"cmd {command}\n", part)
        and (match := re.search(rf"^ *{field} (.*?)(?: \(offset \d+\))?$", part, re.MULTILINE))
    ]


@EACH
@pytest.mark.tool("llvm-nm", "llvm-objdump")
def test_agrees_with_llvm(wheels: Wheels, real: tuple[str, str, str, str, object, object]) -> None:
    path = find(wheels, real)
    binary = _macho.read(str(path))
    functions, objects, imports = by_nm(path)
    assert {*binary.functions, *binary.objects} == by_trie(path)
    assert set(binary.functions) == functions
    assert set(binary.objects) == objects
    assert set(binary.imports) == imports
    assert binary.functions == tuple(sorted(set(binary.functions)))
    assert list(binary.needed) == commands(path, "LC_LOAD_DYLIB", "name")
    assert list(binary.rpath) == commands(path, "LC_RPATH", "path")
    assert [binary.soname] == commands(path, "LC_ID_DYLIB", "name")
    declared = commands(path, "LC_BUILD_VERSION", "minos")
    declared += commands(path, "LC_VERSION_MIN_MACOSX", "version")
    assert binary.minimum_os == ("macos", declared[0])


@EACH
def test_known_libraries(
    wheels: Wheels, real: tuple[str, str, str, str, tuple[int, int], tuple[str, str, str]]
) -> None:
    _, platform, _, install_name, (exports, data), (prefix, fortran, c) = real
    binary = _binary.read(str(find(wheels, real)))
    assert (binary.format, binary.bits, binary.byte_order) == ("macho", 64, "little")
    assert binary.machine == ("aarch64" if "arm64" in platform else "x86_64")
    assert binary.soname == install_name
    assert (len(binary.functions) + len(binary.objects), len(binary.objects)) == (exports, data)
    assert binary.symbolic
    assert binary.interposable == binary.machines == binary.forwards == ()
    assert [(each.api, each.prefix, each.suffix) for each in _names.infer(binary.functions)] == [
        ("blas", prefix, fortran),
        ("lapack", prefix, fortran),
        ("cblas", prefix, c),
        ("lapacke", prefix, c),
    ]


def test_leaked_names(wheels: Wheels) -> None:
    """macOS builds leave one to four names plain; other systems' leave many more."""
    for real in REAL[:2]:
        binary = _macho.read(str(find(wheels, real)))
        assert 1 <= sum("scipy_" not in name for name in binary.functions) <= 4


def test_consumers_of_accelerate(wheels: Wheels) -> None:
    folder = wheels.unpacked("numpy==2.4.6", "macosx_14_0_arm64", "3.12")
    (path,) = folder.glob("numpy/linalg/_umath_linalg*.so")
    binary = _binary.read(str(path))
    assert binary.soname is None
    assert binary.functions == ("PyInit__umath_linalg",)
    assert "dgesv$NEWLAPACK$ILP64" in binary.imports
    assert any("Accelerate.framework" in each for each in binary.needed)
    assert binary.minimum_os == ("macos", "14.0")


@pytest.mark.tool("clang", "lld")
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target[1])
def test_linked(link: Link, target: tuple[str, ...]) -> None:
    path = link(
        "-install_name", "@rpath/ünï/libb.dylib", "-rpath", "@loader_path/a b", target=target
    )
    binary = _binary.read(str(path))
    assert binary.functions == FUNCTIONS
    assert binary.objects == OBJECTS
    assert set(binary.imports) >= {"elsewhere", "value"}
    assert binary.soname == "@rpath/ünï/libb.dylib"
    assert binary.rpath == ("@loader_path/a b",)
    assert (binary.machine, binary.minimum_os) == (target[2], ("macos", target[3]))


@pytest.mark.tool("clang", "lld")
def test_kinds_of_needed_libraries(link: Link, tmp_path: Path) -> None:
    for name in ("libplain", "libweak", "libagain"):
        link("-install_name", f"/opt/{name}.dylib", source=f"int {name}_f;", name=f"{name}.dylib")
    binary = _macho.read(
        str(
            link(
                str(tmp_path / "libplain.dylib"),
                "-weak_library",
                str(tmp_path / "libweak.dylib"),
                "-reexport_library",
                str(tmp_path / "libagain.dylib"),
            )
        )
    )
    assert set(binary.needed) == {f"/opt/lib{name}.dylib" for name in ("plain", "weak", "again")}
    assert binary.reexports == ("/opt/libagain.dylib",)


@pytest.mark.tool("clang", "lld")
def test_flat_namespace(link: Link) -> None:
    binary = _macho.read(str(link("-flat_namespace")))
    assert not binary.symbolic
    assert set(binary.interposable) <= {*binary.functions, *binary.objects}


@pytest.mark.tool("clang", "lld")
def test_names_of_any_bytes_and_many(link: Link) -> None:
    many = "".join(f"int ünï_{number}(void) {{ return {number}; }}\n" for number in range(400))
    binary = _macho.read(str(link(source=many)))
    assert binary.functions == tuple(sorted(f"ünï_{number}" for number in range(400)))


def changed(path: Path, *changes: tuple[int, int, bytes]) -> Path:
    """Write a copy with load commands of a kind (1st) made another kind (2nd) with this start."""
    content = bytearray(path.read_bytes())
    count, at = struct.unpack_from("<I", content, 16)[0], 32
    for _ in range(count):
        kind, size = struct.unpack_from("<II", content, at)
        for old, new, start in changes:
            if kind == old:
                struct.pack_into("<I", content, at, new)
                content[at + 8 : at + 8 + len(start)] = start
        at += size
    copy = path.with_name("changed.dylib")
    copy.write_bytes(content)
    return copy


def place_of_trie(path: Path) -> tuple[int, int]:
    content, at = path.read_bytes(), 32
    while struct.unpack_from("<I", content, at)[0] != INFO_ONLY:
        at += struct.unpack_from("<I", content, at + 4)[0]
    offset, size = struct.unpack_from("<II", content, at + 40)
    return offset, size


@pytest.mark.parametrize("real", [REAL[0], REAL[3]], ids=["scipy", "cmeel"])
def test_three_ways_to_list_exports(
    wheels: Wheels, tmp_path: Path, real: tuple[str, str, str, object, object, object]
) -> None:
    """The trie under its other command, and the symbol table alone, give the same record."""
    path = tmp_path / "lib.dylib"
    path.write_bytes(find(wheels, real).read_bytes())
    expected = _macho.read(str(path))
    place = struct.pack("<II", *place_of_trie(path))
    for new, start in ((EXPORTS_TRIE, place), (NOTHING, b"")):
        copy = changed(path, (INFO_ONLY, new, start))
        assert _macho.read(str(copy)).replace(path=str(path)) == expected


def universal(path: Path, *parts: bytes, wide: bool = False, place: int | None = None) -> Path:
    """Write a universal file; the parts keep their order."""
    table, body, at = b"", b"", 4096
    for part in parts:
        if part[:4] == b"\xcf\xfa\xed\xfe":
            kind, subtype = struct.unpack_from("<II", part, 4)
        else:
            kind, subtype = 0x0100000C, 0
        body += bytes(at - 4096 - len(body)) + part
        layout = ">IIQQII" if wide else ">IIIII"
        values = (kind, subtype, at if place is None else place, len(part), 12, 0)
        table += struct.pack(layout, *values[: len(layout) - 1])
        at += -(-len(part) // 4096) * 4096
    magic = 0xCAFEBABF if wide else 0xCAFEBABE
    header = struct.pack(">II", magic, len(parts)) + table
    path.write_bytes(header.ljust(4096, b"\0") + body)
    return path


@pytest.mark.tool("clang", "lld", "llvm-objdump")
@pytest.mark.parametrize("wide", [False, True])
def test_universal(link: Link, tmp_path: Path, wide: bool) -> None:
    parts = [link(target=target, name=f"{target[1]}.dylib") for target in TARGETS]
    contents = [part.read_bytes() for part in parts]
    path = universal(tmp_path / "lib.dylib", *contents, wide=wide)
    listed = output("llvm-objdump", "--macho", "--universal-headers", path)
    assert "nfat_arch 2" in listed
    for part, target in zip(parts, TARGETS, strict=True):
        binary = _binary.read(str(path), target[2])
        assert binary.machines == ("aarch64", "x86_64")
        assert binary.replace(machines=(), path=str(part)) == _macho.read(str(part))
    assert _binary.read(str(path)).machine in ("aarch64", "x86_64")
    with pytest.raises(FormatError, match="not for ppc, but for aarch64, x86_64"):
        _binary.read(str(path), "ppc")


@pytest.mark.tool("clang", "lld", "llvm-ar")
def test_universal_static_archive(link: Link, tmp_path: Path) -> None:
    link()
    archive = tmp_path / "libsample.a"
    command = ["llvm-ar", "--format=darwin", "rcs", archive, tmp_path / "arm64.o"]
    subprocess.run(command, check=True)
    path = universal(tmp_path / "libboth.a", archive.read_bytes())
    binary = _binary.read(str(path))
    assert (binary.format, binary.machine, binary.machines) == ("ar", "aarch64", ("aarch64",))
    assert {*FUNCTIONS, *OBJECTS} <= set(binary.functions)


def test_universal_of_one_part(wheels: Wheels) -> None:
    folder = wheels.unpacked(REAL[2][0], REAL[2][1])
    binary = _binary.read(str(folder / "scipy_openblas32/.dylibs/libgcc_s.1.1.dylib"))
    assert (binary.machine, binary.machines) == ("x86_64", ("x86_64",))
    assert "__udivti3" in binary.functions


@pytest.mark.tool("clang", "lld")
def test_hostile_universal_files(link: Link, tmp_path: Path) -> None:
    part = link().read_bytes()
    path = tmp_path / "lib.dylib"
    for content, message in (
        (universal(path, part, part, place=4096).read_bytes(), "overlap"),
        (universal(path, part, place=0).read_bytes(), "overlap"),
        (universal(path, part, place=0xFFFFF000).read_bytes(), "truncated"),
        (universal(path, part).read_bytes()[:-4096], "truncated"),
        (b"\xca\xfe\xba\xbe\0\0\0\x34" + bytes(4096), "not a Mach-O"),
        (b"\xca\xfe\xba\xbe\xff\xff\xff\xff" + bytes(4096), "not a Mach-O"),
        (b"\xca\xfe\xba\xbe" + bytes(4096), "not a Mach-O"),
        (b"\xca\xfe\xba\xbe", "outside the file"),
        (universal(path, b"\xca\xfe\xba\xbe" + part).read_bytes(), "not a Mach-O"),
        (universal(path, b"!<arch>\n").read_bytes(), "empty archive"),
    ):
        path.write_bytes(content)
        with pytest.raises(FormatError, match=message):
            _binary.read(str(path))


def with_trie(
    path: Path, trie: bytes, machine: tuple[int, int] = (0x0100000C, 0), order: str = "<"
) -> Path:
    """Write a loadable bundle with one segment, code only, and this export trie."""
    bits = 64 if machine[0] & 0x01000000 else 32
    fixed = 32 if bits == 64 else 28
    segment = struct.pack(
        order + ("16s4Q2i2I" if bits == 64 else "16s4I2i2I"),
        *(b"__TEXT", 0x1000, 0x100000, 0, 0x200, 5, 5, 0, 0),
    )
    segment = struct.pack(order + "II", 0x19 if bits == 64 else 0x1, len(segment) + 8) + segment
    other = struct.pack(order + "6I", 0xC, 48, 24, 0, 0, 0) + b"/usr/lib/libb.dylib".ljust(
        24, b"\0"
    )
    at = fixed + len(segment) + len(other) + 48
    load = segment + other + struct.pack(order + "12I", INFO_ONLY, 48, *[0] * 8, at, len(trie))
    magic = 0xFEEDFACF if bits == 64 else 0xFEEDFACE
    header = struct.pack(order + "7I", magic, *machine, 8, 3, len(load), 0x85)
    content = header.ljust(fixed, b"\0") + load + trie
    path.write_bytes(content.ljust(0x200, b"\0"))
    return path


def leaf(name: bytes, *info: int) -> bytes:
    """Return a trie with one name and what it says of it."""
    start = len(name) + 4
    return bytes([0, 1]) + name + bytes([0, start, len(info), *info, 0])


@pytest.mark.tool("llvm-objdump")
def test_kinds_of_exports(tmp_path: Path) -> None:
    """What linkers for macOS write and lld does not; llvm-objdump reads the same from it."""
    path = tmp_path / "lib.dylib"

    def kinds(*info: int) -> tuple[Binary, str]:
        with_trie(path, leaf(b"_dgemm_", *info))
        return _macho.read(str(path)), output("llvm-objdump", "--macho", "--exports-trie", path)

    binary, listed = kinds(0, 0x90, 0x02)
    assert (binary.functions, binary.objects, binary.forwards) == (("dgemm_",), (), ())
    assert "0x00001110  _dgemm_" in listed
    binary, listed = kinds(4, 0x90, 0x02)
    assert binary.functions == ("dgemm_",)
    assert "[weak_def]" in listed
    binary, listed = kinds(2, 0x90, 0x02)
    assert (binary.functions, binary.objects) == ((), ("dgemm_",))
    assert "[absolute]" in listed
    # A resolver chooses among implementations when the library is loaded.
    binary, listed = kinds(16, 0x90, 0x02, 0x98, 0x02)
    assert binary.functions == ("dgemm_",)
    assert "resolver=" in listed
    binary, listed = kinds(8, 1, *b"_other_", 0)
    assert binary.functions == ("dgemm_",)
    assert binary.forwards == (("dgemm_", "other_"),)
    assert "[re-export] _dgemm_ (_other_ from libb)" in listed
    binary, listed = kinds(8, 1, 0)
    assert "[re-export] _dgemm_ (from libb)" in listed
    assert binary.forwards == (("dgemm_", "dgemm_"),)


def test_names_that_c_cannot_have(tmp_path: Path) -> None:
    binary = _macho.read(str(with_trie(tmp_path / "lib.dylib", leaf(b"dgemm_", 0, 0))))
    assert binary.functions == binary.objects == ()


@pytest.mark.parametrize(
    ("machine", "order", "name", "bits"),
    [
        ((7, 3), "<", "i686", 32),
        ((18, 0), ">", "ppc", 32),
        ((0x01000012, 0), ">", "ppc64", 64),
        ((0x0100000C, 0x80000002), "<", "arm64e", 64),
        ((0x01000007, 8), "<", "x86_64h", 64),
        ((99, 0), "<", "macho-99", 32),
    ],
)
def test_other_machines(
    tmp_path: Path, machine: tuple[int, int], order: str, name: str, bits: int
) -> None:
    path = with_trie(tmp_path / "lib.dylib", leaf(b"_dgemm_", 0, 16), machine, order)
    binary = _binary.read(str(path))
    assert (binary.machine, binary.bits) == (name, bits)
    assert binary.byte_order == ("little" if order == "<" else "big")
    assert binary.functions == ("dgemm_",)


def chain(label: bytes, count: int) -> bytes:
    """Return a trie of nodes that each end a name and go on with a label."""
    trie = b""
    for number in range(1, count + 1):
        child = number * (len(label) + 9)
        place = bytes([child & 127 | 128, child >> 7 & 127 | 128, child >> 14 & 127 | 128])
        place += bytes([child >> 21])
        trie += b"\x02\0\0" + b"\1" + label + b"\0" + place
    return trie + b"\0\0"


@pytest.mark.parametrize(
    ("trie", "message"),
    [
        (b"\0\1_a\0\0", "loop"),
        (b"\0\1\0\0", "loop"),
        (b"\0\2_a\0\0_b\0\0", "loop"),
        (b"\0\xff" + b"\0\0" * 255, "loop|no end"),
        (b"\0\1_a\0\x06\0\2_b\0\x0f_c\0\x0f\0\2_d\0\x18_e\0\x18" + b"\0\0", "loop|no end"),
        (b"\0\1_a\0\xff\xff\xff\xff\x0f", "no end"),
        (b"\0\1_a\0" + b"\xff" * 4000, "no end"),
        (b"\xff" * 4000, "no end"),
        (b"\0\1_a" + b"b" * 100, "no end"),
        (
            b"\0\1" + b"_" * 70000 + b"\0\xf8\xa2\x04" + b"\0\1a\0\xfe\xa2\x04\0\0\0",
            "too long|no end",
        ),
        (chain(b"_", 100000), "too much space"),
        (chain(b"_" * 1000, 9000), "too much space|too long"),
    ],
    ids=range(12),
)
def test_hostile_trie(tmp_path: Path, trie: bytes, message: str) -> None:
    path = with_trie(tmp_path / "lib.dylib", trie)
    begin = time.perf_counter()
    with pytest.raises(FormatError, match=message):
        _macho.read(str(path))
    assert time.perf_counter() - begin < 10


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "outside the file"),
        (b"MZ" + bytes(100), "not a Mach-O file"),
        (b"\xcf\xfa\xed\xfe", "outside the file"),
        (b"\xcf\xfa\xed\xfe" + bytes(100), "object file"),
    ],
)
def test_no_library(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "lib.dylib"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=message):
        _macho.read(str(path))


@pytest.mark.tool("clang", "lld")
def test_object_files(link: Link, tmp_path: Path) -> None:
    link()
    with pytest.raises(FormatError, match="object file"):
        _binary.read(str(tmp_path / "arm64.o"))


@pytest.mark.tool("clang", "lld")
def test_truncated_anywhere(link: Link) -> None:
    path = link()
    content = path.read_bytes()
    for length in range(0, len(content), 64):
        path.write_bytes(content[:length])
        assert attempt(_macho.read, path) is None


@pytest.mark.tool("clang", "lld")
@pytest.mark.parametrize("what", [INFO_ONLY, NOTHING])
def test_any_field_damaged(link: Link, what: int) -> None:
    """Every 4 bytes of the header, the load commands and the tables, with hostile values."""
    path = changed(link(), (INFO_ONLY, what, b""))
    content = path.read_bytes()
    random.seed(22)
    size = 32 + struct.unpack_from("<I", content, 20)[0]
    tables = (len(content) - 0x800) // 4 * 4
    for at in [*range(0, size, 4), *range(tables, len(content) - 3, 4)]:
        value = random.choice((0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, random.getrandbits(32)))
        damaged = bytearray(content)
        struct.pack_into("<I", damaged, at, value)
        path.write_bytes(damaged)
        attempt(_macho.read, path)


@pytest.mark.tool("clang", "lld")
def test_random_damage(link: Link) -> None:
    path = link()
    content = path.read_bytes()
    random.seed(23)
    places = [*range(0x600), *range(len(content) - 0x600, len(content))]
    for _ in range(1500):
        damaged = bytearray(content)
        for _ in range(random.choice((1, 2, 8, 64))):
            damaged[random.choice(places)] = random.randrange(256)
        path.write_bytes(damaged)
        attempt(_macho.read, path)
