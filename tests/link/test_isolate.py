"""Isolated copies compute right where the originals crash each other, and change nothing else."""

from __future__ import annotations

import random
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from blaswheel import _isolate
from blaswheel._errors import BlaswheelError, UsageError

VERSION = "0.3.34.481.3"
WHEELS = [
    f"scipy-openblas{bits}=={version}"
    for version in ("0.3.23.293.2", "0.3.27.44.6", "0.3.31.22.1", VERSION)
    for bits in (32, 64)
]
# The last NumPy that has wheels for the running Python.
NUMPY = "numpy==2.4.6" if sys.version_info >= (3, 11) else "numpy==2.2.6"
FOREIGN = ["manylinux_2_27_aarch64", "manylinux_2_27_s390x"]
LINKERS = [
    pytest.param(linker, marks=pytest.mark.tool(f"ld.{linker}" if linker != "mold" else linker))
    for linker in ("bfd", "gold", "lld", "mold")
]

# One program, both integer widths: each factorisation must give back the matrix.
BOTH = r"""
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#define N 96

#define DEFINE(NAME, INT, GEQRF, GESDD) \
  void GEQRF(INT *, INT *, double *, INT *, double *, double *, INT *, INT *); \
  void GESDD(const char *, INT *, INT *, double *, INT *, double *, double *, INT *, \
             double *, INT *, double *, INT *, INT *, INT *, size_t); \
  static void NAME(void) { \
    INT n = N, info = -1, lwork = 64 * N * N, *iwork = malloc(8 * N * sizeof *iwork); \
    double *work = malloc(sizeof *work * 64 * N * N), *a = matrix(), *b = matrix(); \
    double *u = matrix(), *v = matrix(), s[N], tau[N], worst = 0; \
    GEQRF(&n, &n, b, &n, tau, work, &lwork, &info); \
    if (info != 0) fail(#GEQRF " info"); \
    for (int i = 0; i < N; i++) for (int j = i; j < N; j++) { /* R'R = A'A */ \
      double left = 0, right = 0; \
      for (int k = 0; k < N; k++) { \
        right += a[k + N * i] * a[k + N * j]; \
        if (k <= i) left += b[k + N * i] * b[k + N * j]; \
      } \
      worst = fmax(worst, fabs(left - right)); \
    } \
    if (!(worst < 1e-9)) fail(#GEQRF " result"); \
    b = matrix(); \
    GESDD("A", &n, &n, b, &n, s, u, &n, v, &n, work, &lwork, iwork, &info, 1); \
    if (info != 0) fail(#GESDD " info"); \
    worst = 0; \
    for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) { /* U S V' = A */ \
      double sum = 0; \
      for (int k = 0; k < N; k++) sum += u[i + N * k] * s[k] * v[k + N * j]; \
      worst = fmax(worst, fabs(sum - a[i + N * j])); \
    } \
    if (!(worst < 1e-10)) fail(#GESDD " result"); \
    lwork = -1; \
    GESDD("A", &n, &n, b, &n, s, u, &n, v, &n, work, &lwork, iwork, &info, 1); \
    if (!(work[0] > N && work[0] < 64 * N * N)) fail(#GESDD " work size"); \
  }

static void fail(const char *what) { printf("wrong: %s\n", what); exit(1); }
static double *matrix(void) {
  static unsigned seed;
  double *a = malloc(sizeof *a * N * N);
  seed = 1;
  for (int i = 0; i < N * N; i++)
    a[i] = (double)((seed = seed * 1103515245u + 12345u) >> 16 & 1023) / 1024 - 0.5;
  return a;
}
DEFINE(lp64, int32_t, scipy_dgeqrf_, scipy_dgesdd_)
DEFINE(ilp64, int64_t, scipy_dgeqrf_64_, scipy_dgesdd_64_)
int main(void) { lp64(); ilp64(); puts("right"); return 0; }
"""

# dgeqr2 of the first library, in a child that loads both into the global scope.
GLOBAL = """
import ctypes, sys
order = sys.argv[1:]
loaded = {width: ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
          for width, path in (item.split("=", 1) for item in order)}
for width, name, integer in (("32", "scipy_dgeqr2_", ctypes.c_int32),
                             ("64", "scipy_dgeqr2_64_", ctypes.c_int64)):
    n, info = integer(3), integer(-1)
    a = (ctypes.c_double * 9)(3, 4, 0, 1, 2, 5, 6, 7, 8)
    tau, work = (ctypes.c_double * 3)(), (ctypes.c_double * 3)()
    ref = ctypes.byref
    getattr(loaded[width], name)(ref(n), ref(n), a, ref(n), tau, work, ref(info))
    assert info.value == 0
    assert abs(abs(a[0]) - 5) < 1e-12, a[0]
    assert abs(a[0] * a[3] - (3 * 1 + 4 * 2)) < 1e-12, a[3]
print("right")
"""


def run(*command: Any, **options: Any) -> str:
    result = subprocess.run(
        [str(part) for part in command], check=False, capture_output=True, text=True, **options
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def library_of(wheels: Any, spec: str, platform: str | None = None) -> Path:
    folder = Path(wheels.unpacked(spec, platform))
    [path] = [*folder.glob("*/lib/lib*openblas*.so"), *folder.glob("*.libs/lib*openblas*.so")]
    return path


def isolate(path: Path, output: Path) -> Path:
    _isolate.write(str(path), str(output))
    return output


def dynamic(path: Path) -> dict[str, str]:
    lines = run("readelf", "-dW", path).splitlines()
    found = (re.search(r"\((\w+)\)\s+(.*)", line) for line in lines)
    return {match[1]: match[2] for match in found if match}


def contents(path: Path) -> str:
    """All that a copy must keep: symbols with addresses, versions, relocations."""
    return run("readelf", "-sVrW", "--dyn-syms", path)


@pytest.fixture(scope="module")
def originals(wheels: Any) -> dict[str, Path]:
    return {bits: library_of(wheels, f"scipy-openblas{bits}=={VERSION}") for bits in ("32", "64")}


@pytest.fixture(scope="module")
def copies(originals: dict[str, Path], tmp_path_factory: Any) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("copies")
    return {bits: isolate(path, folder / f"libown{bits}.so") for bits, path in originals.items()}


# -- Real libraries: two in one process -------------------------------------------------------


def program_with_both(libraries: dict[str, Path], order: tuple[str, str], folder: Path) -> Path:
    source, program = folder / "both.c", folder / ("both" + "".join(order))
    source.write_text(BOTH)
    paths = [libraries[bits] for bits in order]
    run(
        *("gcc", "-O1", "-Wall", source, "-o", program, "-Wl,--no-as-needed", *paths),
        *(f"-Wl,-rpath,{path.parent}" for path in paths),
        "-lm",
    )
    return program


@pytest.mark.parametrize("order", [("32", "64"), ("64", "32")])
def test_a_program_linked_to_both_copies_computes_right(
    copies: dict[str, Path], order: tuple[str, str], tmp_path: Path
) -> None:
    assert run(program_with_both(copies, order, tmp_path)) == "right\n"


def test_a_program_linked_to_both_originals_does_not(
    originals: dict[str, Path], tmp_path: Path
) -> None:
    program = program_with_both(originals, ("64", "32"), tmp_path)
    result = subprocess.run([program], check=False, capture_output=True, text=True)
    assert result.returncode != 0
    assert "right" not in result.stdout


@pytest.mark.parametrize("order", [("32", "64"), ("64", "32")])
def test_both_copies_in_the_global_scope_compute_right(
    copies: dict[str, Path], order: tuple[str, str]
) -> None:
    arguments = [f"{bits}={copies[bits]}" for bits in order]
    assert run(sys.executable, "-c", GLOBAL, *arguments) == "right\n"


def test_both_originals_in_the_global_scope_do_not(originals: dict[str, Path]) -> None:
    arguments = [f"{bits}={originals[bits]}" for bits in ("64", "32")]
    result = subprocess.run(
        [sys.executable, "-c", GLOBAL, *arguments], check=False, capture_output=True
    )
    assert result.returncode != 0


def test_a_copy_beats_originals_that_are_in_the_global_scope_before_it(
    originals: dict[str, Path], copies: dict[str, Path]
) -> None:
    script = "import ctypes, sys\nctypes.CDLL(sys.argv.pop(1), mode=ctypes.RTLD_GLOBAL)\n" + GLOBAL
    arguments = [originals["64"], f"32={copies['32']}", f"64={originals['64']}"]
    assert run(sys.executable, "-c", script, *arguments) == "right\n"


def test_copy_and_original_are_two_libraries(
    originals: dict[str, Path], copies: dict[str, Path], tmp_path: Path
) -> None:
    # Needed by SONAME, as a linked program needs it, with the original there already.
    source, consumer = tmp_path / "consumer.c", tmp_path / "libconsumer.so"
    source.write_text(
        "extern void scipy_dgemm_(void); void *address(void) { return (void *)scipy_dgemm_; }\n"
    )
    copy = copies["32"]
    run("gcc", "-shared", "-fPIC", source, "-o", consumer, copy, f"-Wl,-rpath,{copy.parent}")
    script = (
        "import ctypes, sys\n"
        "original = ctypes.CDLL(sys.argv[1])\n"
        "address = ctypes.CDLL(sys.argv[2]).address\n"
        "address.restype = ctypes.c_void_p\n"
        "print(address() != ctypes.cast(original.scipy_dgemm_, ctypes.c_void_p).value)\n"
        "maps = open('/proc/self/maps').read()\n"
        "print(sys.argv[1] in maps, sys.argv[3] in maps)\n"
    )
    printed = run(sys.executable, "-c", script, originals["32"], consumer, copy)
    assert printed.split() == ["True", "True", "True"]


# -- Real libraries: what a copy keeps --------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "platform"),
    [
        *((spec, None) for spec in WHEELS),
        (NUMPY, None),
        *((f"scipy-openblas32=={VERSION}", platform) for platform in FOREIGN),
    ],
)
def test_a_copy_keeps_everything_but_its_name(
    wheels: Any, tmp_path: Path, spec: str, platform: str | None
) -> None:
    original = library_of(wheels, spec, platform)
    copy = isolate(original, tmp_path / "libcopy.so")
    assert contents(copy) == contents(original)
    before, after = dynamic(original), dynamic(copy)
    assert after["SONAME"] == "Library soname: [libcopy.so]"
    assert after["FLAGS"] == "SYMBOLIC"
    for tag in ("RPATH", "RUNPATH"):
        if tag in before:
            assert after[tag] == before[tag].replace("$ORIGIN", str(original.parent))
    changed = {"SONAME", "FLAGS", "STRTAB", "STRSZ", "NULL", "RPATH", "RUNPATH"}
    assert {tag: text for tag, text in after.items() if tag not in changed} == {
        tag: text for tag, text in before.items() if tag not in changed
    }
    warnings = subprocess.run(
        ["readelf", "-lSdW", copy], capture_output=True, text=True, check=True
    ).stderr
    assert warnings == ""


@pytest.mark.parametrize("spec", [*WHEELS, NUMPY])
def test_a_copy_in_another_folder_finds_the_dependencies_of_the_original(
    wheels: Any, tmp_path: Path, spec: str
) -> None:
    copy = isolate(library_of(wheels, spec), tmp_path / "cache" / "libcopy.so")
    run(sys.executable, "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1])", copy)


def test_a_copy_beside_the_original_keeps_origin(wheels: Any, tmp_path: Path) -> None:
    original = library_of(wheels, "scipy-openblas32==0.3.27.44.6")
    folder = tmp_path / "lib"
    folder.mkdir()
    for file in original.parent.glob("*.so*"):
        (folder / file.name).symlink_to(file)
    copy = isolate(folder / original.name, folder / "libcopy.so")
    assert dynamic(copy)["RPATH"] == dynamic(original)["RPATH"]
    run(sys.executable, "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1])", copy)


@pytest.mark.parametrize("name", ["a:b", "a$LIB", "${b}"])
def test_a_folder_that_a_run_path_cannot_name_is_refused(
    wheels: Any, tmp_path: Path, name: str
) -> None:
    original = library_of(wheels, "scipy-openblas32==0.3.27.44.6")
    folder = tmp_path / name
    folder.mkdir()
    (folder / original.name).symlink_to(original)
    with pytest.raises(BlaswheelError, match="run path can't name"):
        _isolate.write(str(folder / original.name), str(tmp_path / "out" / "libcopy.so"))
    assert not (tmp_path / "out").exists()


def test_a_folder_with_odd_characters_is_named(wheels: Any, tmp_path: Path) -> None:
    original = library_of(wheels, "scipy-openblas32==0.3.27.44.6")
    folder = tmp_path / "a b # $x ünï"
    folder.mkdir()
    for file in original.parent.glob("*.so*"):
        (folder / file.name).symlink_to(file)
    copy = isolate(folder / original.name, tmp_path / "out" / "libcöpy 1.so")
    run(sys.executable, "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1])", copy)


def test_isolating_twice_changes_nothing(copies: dict[str, Path], tmp_path: Path) -> None:
    copy = copies["32"].read_bytes()
    assert _isolate.isolated(copy, copies["32"].name) == copy
    again = isolate(copies["32"], tmp_path / "libother.so")
    assert dynamic(again)["SONAME"] == "Library soname: [libother.so]"
    run(sys.executable, "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1])", again)


def test_the_same_input_gives_the_same_bytes(originals: dict[str, Path]) -> None:
    source = originals["32"].read_bytes()
    assert _isolate.isolated(source, "libx.so") == _isolate.isolated(source, "libx.so")


def test_a_copy_survives_strip(copies: dict[str, Path], tmp_path: Path) -> None:
    stripped = {bits: tmp_path / f"libown{bits}.so" for bits in copies}
    for bits, path in copies.items():
        run("strip", "-o", stripped[bits], path)
    assert run(program_with_both(stripped, ("64", "32"), tmp_path)) == "right\n"


# -- Small libraries: odd layouts and every linker --------------------------------------------

SMALL = r"""
static char zeros[1 << 20];
int shared_value = VALUE;
static __thread int thread_value = VALUE;
static int constructed;
__attribute__((constructor)) static void construct(void) { constructed = VALUE; }
__attribute__((noinline)) int helper(void) { return VALUE + zeros[VALUE]; }
int (*pointer)(void) = helper;
int ENTRY(void) {
  if (constructed != VALUE || thread_value != VALUE || shared_value != VALUE) return -1;
  return helper() == VALUE && pointer() == VALUE ? VALUE : -2;
}
"""
SMALL_PROGRAM = r"""
int one(void), two(void);
int main(void) { return one() != 1 ? 1 : two() != 2 ? 2 : 0; }
"""
LAYOUTS = {
    "plain": [],
    "no SONAME": ["no SONAME"],
    "one segment": ["-Wl,-z,noseparate-code"],
    "read-only": ["-Wl,-z,relro", "-Wl,-z,now"],
    "no build ID": ["-Wl,--build-id=none"],
    "run path": ["-Wl,-rpath,$ORIGIN/../none"],
    "stripped": ["-s"],
    "old hash": ["-Wl,--hash-style=sysv"],
    "large pages": ["-Wl,-z,max-page-size=0x200000"],
    "versions": ["-Wl,--version-script=VERSIONS"],
}


def small(folder: Path, name: str, value: int, linker: str, flags: list[str]) -> Path:
    source, path = folder / "small.c", folder / f"lib{name}.so"
    source.write_text(SMALL)
    versions = folder / "versions"
    versions.write_text("SMALL_1 { global: *; };\n")
    flags = [flag.replace("VERSIONS", str(versions)) for flag in flags]
    flags = (
        [flag for flag in flags if flag != "no SONAME"]
        if "no SONAME" in flags
        else [*flags, f"-Wl,-soname,lib{name}.so"]
    )
    run(
        *("gcc", "-O1", "-shared", "-fPIC", f"-DVALUE={value}", f"-DENTRY={name}"),
        *(source, "-o", path, f"-fuse-ld={linker}", *flags),
    )
    return path


def small_program(folder: Path, first: Path, second: Path, linker: str) -> int:
    source, program = folder / "program.c", folder / "program"
    source.write_text(SMALL_PROGRAM)
    run(
        *("gcc", source, "-o", program, f"-fuse-ld={linker}", f"-L{first.parent}"),
        *(f"-l:{first.name}", f"-l:{second.name}", f"-Wl,-rpath,{first.parent}"),
    )
    return subprocess.run([program], check=False).returncode


@pytest.mark.parametrize("linker", LINKERS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_small_libraries_of_every_layout(tmp_path: Path, linker: str, layout: str) -> None:
    flags = LAYOUTS[layout]
    if linker == "gold" and layout == "one segment":
        flags = ["-Wl,--no-rosegment"]  # its name for it
    libraries = {
        name: small(tmp_path, name, value, linker, flags)
        for name, value in (("one", 1), ("two", 2))
    }
    assert small_program(tmp_path, libraries["one"], libraries["two"], linker) != 0
    own = {
        name: isolate(path, tmp_path / "own" / f"lib{name}-own.so")
        for name, path in libraries.items()
    }
    for name, path in own.items():
        assert contents(path) == contents(libraries[name])
        assert dynamic(path)["SONAME"] == f"Library soname: [{path.name}]"
    assert small_program(tmp_path, own["one"], own["two"], linker) == 0
    assert small_program(tmp_path, own["two"], own["one"], linker) == 0


@pytest.mark.parametrize("flag", ["-Wl,--spare-dynamic-tags=0", "-Wl,--spare-dynamic-tags=1"])
def test_without_spare_entries_the_dynamic_section_moves(tmp_path: Path, flag: str) -> None:
    one, two = (
        small(tmp_path, name, value, "bfd", [flag, "no SONAME"])
        for name, value in (("one", 1), ("two", 2))
    )
    one, two = (isolate(path, tmp_path / "own" / path.name) for path in (one, two))
    assert small_program(tmp_path, two, one, "bfd") == 0
    assert small_program(tmp_path, one, two, "bfd") == 0


@pytest.mark.tool("llvm-objcopy")
def test_without_section_headers_a_copy_still_loads(tmp_path: Path) -> None:
    bare = tmp_path / "libbare.so"
    run("llvm-objcopy", "--strip-sections", small(tmp_path, "one", 1, "bfd", []), bare)
    copy = isolate(bare, tmp_path / "libcopy.so")
    script = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).one())"
    assert run(sys.executable, "-c", script, copy) == "1\n"


@pytest.mark.tool("clang")
@pytest.mark.tool("ld.lld")
@pytest.mark.parametrize("target", ["i686", "powerpc", "powerpc64le", "mips", "riscv32"])
def test_32_bit_and_big_endian(tmp_path: Path, target: str) -> None:
    source, original = tmp_path / "one.c", tmp_path / "libone.so"
    source.write_text("int helper(void) { return 1; } int one(void) { return helper(); }\n")
    run(
        *("clang", f"--target={target}-linux-gnu", "-fuse-ld=lld", "-nostdlib", "-shared"),
        *("-fPIC", source, "-o", original, "-Wl,-soname,libone.so"),
    )
    copy = isolate(original, tmp_path / "libcopy.so")
    assert contents(copy) == contents(original)
    assert dynamic(copy)["SONAME"] == "Library soname: [libcopy.so]"
    assert "SYMBOLIC" in dynamic(copy)["FLAGS"]


# -- What can't be isolated -------------------------------------------------------------------


@pytest.mark.tool("musl-gcc")
def test_a_library_for_musl_is_refused(tmp_path: Path) -> None:
    source, library = tmp_path / "one.c", tmp_path / "libone.so"
    source.write_text("#include <stdlib.h>\nvoid *one(void) { return malloc(1); }\n")
    run("musl-gcc", "-shared", "-fPIC", source, "-o", library)
    with pytest.raises(BlaswheelError, match="musl"):
        _isolate.write(str(library), str(tmp_path / "libcopy.so"))
    assert not (tmp_path / "libcopy.so").exists()


def test_a_wheel_for_musl_is_refused(wheels: Any, tmp_path: Path) -> None:
    library = library_of(wheels, f"scipy-openblas32=={VERSION}", "musllinux_1_2_x86_64")
    with pytest.raises(BlaswheelError, match=r"musl \(libc\.musl-x86_64\.so\.1\)"):
        _isolate.write(str(library), str(tmp_path / "libcopy.so"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"INPUT(libopenblas.so.0)\n", "not an ELF"),
        (b"MZ" + bytes(100), "a Windows library"),
        (b"\xcf\xfa\xed\xfe" + bytes(100), "a macOS library"),
        (b"!<arch>\n", "a static archive"),
        (b"\x7fELF", "malformed"),
        (b"\x7fELF\x09\x09" + bytes(100), "malformed"),
    ],
)
def test_what_is_no_elf_library_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "libx.so"
    path.write_bytes(content)
    with pytest.raises(BlaswheelError, match=message) as caught:
        _isolate.write(str(path), str(tmp_path / "libcopy.so"))
    assert caught.value.hint
    assert not (tmp_path / "libcopy.so").exists()


def test_programs_and_objects_are_refused(tmp_path: Path) -> None:
    source = tmp_path / "main.c"
    source.write_text("int main(void) { return 0; }\n")
    for flags, message in (
        (["-c"], "not a shared library"),
        (["-no-pie"], "not a shared library"),
        (["-pie"], "a program"),
    ):
        run("gcc", *flags, source, "-o", tmp_path / "main")
        with pytest.raises(BlaswheelError, match=message):
            _isolate.write(str(tmp_path / "main"), str(tmp_path / "libcopy.so"))


def test_paths_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    library = small(tmp_path, "one", 1, "bfd", [])
    before = library.read_bytes()
    for path, output, error in (
        (library, library, UsageError),
        (library, tmp_path, UsageError),
        (library, tmp_path / "none" / library.name, BlaswheelError),
        (tmp_path, tmp_path / "libcopy.so", BlaswheelError),
        (tmp_path / "none.so", tmp_path / "libcopy.so", BlaswheelError),
        (library, library / "libcopy.so", BlaswheelError),
    ):
        with pytest.raises(error) as caught:
            _isolate.write(str(path), str(output))
        assert caught.value.hint
    for soname in ("", "a/b", "a\0b"):
        with pytest.raises(UsageError):
            _isolate.isolated(before, soname)
    assert library.read_bytes() == before
    assert sorted(file.suffix for file in tmp_path.iterdir()) == ["", ".c", ".so"]


def test_damaged_libraries_give_an_error_or_a_copy(tmp_path: Path) -> None:
    # A traceback would be anything but these.
    source = small(tmp_path, "one", 1, "bfd", ["-s", "-Wl,-rpath,$ORIGIN"]).read_bytes()

    def attempt(damaged: bytes) -> bool:
        try:
            copy = _isolate.isolated(damaged, "libcopy.so", origin="/somewhere")
        except BlaswheelError:
            return False
        assert copy[:4] == b"\x7fELF"
        return True

    for length in range(0, len(source), 101):
        assert not attempt(source[:length])
    generator = random.Random(7)
    ends = [0, 64, 64 + 56 * struct.unpack_from("<H", source, 56)[0]]
    [table] = re.findall(r"DYNAMIC +0x(\w+)", run("readelf", "-lW", tmp_path / "libone.so"))
    start = int(table, 16)
    outcomes = set()
    for _ in range(3000):
        damaged = bytearray(source)
        for _ in range(generator.randint(1, 3)):
            low, high = generator.choice([(4, ends[1]), (ends[1], ends[2]), (start, start + 512)])
            value = generator.choice([0, 1, 127, 128, 255, generator.randrange(256)])
            damaged[generator.randrange(low, high)] = value
        outcomes.add(attempt(bytes(damaged)))
    assert outcomes == {True, False}
