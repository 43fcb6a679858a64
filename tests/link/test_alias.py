"""Alias archives do their work in every linker, whatever the flags, and leave no trace."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from blaswheel import _alias, _offer, _reading, _routines
from blaswheel._errors import BlaswheelError

pytestmark = pytest.mark.tool("gcc", "nm", "ar", "readelf")

PROVIDER = "scipy-openblas32==0.3.34.481.3"
LINKERS = [
    pytest.param(linker, marks=pytest.mark.tool(f"ld.{linker}" if linker != "mold" else linker))
    for linker in ("bfd", "gold", "lld", "mold")
]

C_PROGRAM = r"""
#ifdef __cplusplus
extern "C"
#else
extern
#endif
double cblas_ddot(int, const double *, int, const double *, int);
#ifdef __cplusplus
extern "C" {
#endif
void cblas_zdotc_sub(int, const void *, int, const void *, int, void *);
int LAPACKE_dgesv(int, int, int, double *, int, int *, double *, int);
double ddot_(const int *, const double *, const int *, const double *, const int *);
#ifdef __cplusplus
}
#endif

typedef double (*dot)(const int *, const double *, const int *, const double *, const int *);
dot volatile address = ddot_;  /* also a relocation in data */

int main(void) {
  double x[] = {1, 2, 3}, y[] = {4, 5, 6}, z[] = {1, 2, 3, 4}, w[2];
  double a[] = {2, 0, 0, 4}, b[] = {2, 8};
  int n = 3, one = 1, ipiv[3] = {0, 0, -7};
  if (cblas_ddot(3, x, 1, y, 1) != 32) return 1;
  cblas_zdotc_sub(2, z, 1, z, 1, w);
  if (w[0] != 30 || w[1] != 0) return 2;
  if (LAPACKE_dgesv(102, 2, 1, a, 2, ipiv, b, 2) != 0) return 3;
  if (b[0] != 1 || b[1] != 2 || ipiv[0] != 1 || ipiv[1] != 2 || ipiv[2] != -7) return 4;
  if (address != ddot_ || address(&n, x, &one, y, &one) != 32) return 5;
  return 0;
}
"""

FORTRAN_PROGRAM = """
      program main
      double precision x(3), y(3), a(2, 2), b(2, 2), c(2, 2), ddot
      complex*16 z(2), zdotc
      integer ipiv(2), info
      external ddot, zdotc, dgemm, dgesv
      data x /1, 2, 3/, y /4, 5, 6/, a /2, 0, 0, 4/, b /1, 2, 3, 4/
      z(1) = (1, 2)
      z(2) = (3, 4)
      if (ddot(3, x, 1, y, 1) .ne. 32) stop 1
      if (zdotc(2, z, 1, z, 1) .ne. (30, 0)) stop 2
      call dgemm('N', 'N', 2, 2, 2, 1d0, a, 2, b, 2, 0d0, c, 2)
      if (c(2, 1) .ne. 8) stop 3
      call dgesv(2, 1, a, 2, ipiv, c, 2, info)
      if (info .ne. 0 .or. c(2, 1) .ne. 2) stop 4
      end
"""

# What an extension module's object file looks like: one entry point, BLAS called from it.
EXTENSION = r"""
double ddot_(const int *, const double *, const int *, const double *, const int *);
__attribute__((visibility("default"))) double entry(const double *x, const double *y) {
  int n = 3, one = 1;
  return ddot_(&n, x, &one, y, &one);
}
"""

CALLER = r"""
extern double entry(const double *, const double *);
int main(void) {
  double x[] = {1, 2, 3}, y[] = {4, 5, 6};
  return entry(x, y) != 32;
}
"""

OBJECTS = {
    "gcc.o": ("gcc", "main.c", "-O2", "-fPIE"),
    "gcc-nopie.o": ("gcc", "main.c", "-O2", "-fno-pie"),
    "gcc-lto.o": ("gcc", "main.c", "-O2", "-flto"),
    "clang-lto.o": ("clang", "main.c", "-O2", "-flto"),
    "gcc-sections.o": ("gcc", "main.c", "-O2", "-ffunction-sections", "-fdata-sections"),
    "g++.o": ("g++", "-x", "c++", "main.c", "-O2"),
    "clang.o": ("clang", "main.c", "-O2"),
    "gfortran.o": ("gfortran", "main.f", "-O2"),
    "extension.o": ("gcc", "extension.c", "-O2", "-fPIC", "-fcf-protection"),
    "caller.o": ("gcc", "caller.c", "-O2"),
}


def run(*arguments: str | Path, cwd: Path | None = None) -> str:
    """Run a tool that must succeed, and return its standard output."""
    done = subprocess.run(arguments, check=False, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def exported(library: Path) -> set[str]:
    """Return the names that ``library`` exports, by ``nm``."""
    lines = run("nm", "-D", "--defined-only", library).splitlines()
    return {line.split()[-1].partition("@")[0] for line in lines}


class Bench:
    """Compiled objects, a library, and the archive of all its plain names, in one folder."""

    def __init__(self, folder: Path, library: Path) -> None:
        self.folder = folder
        self.library = library
        functions = exported(library)
        self.aliases = {
            native.removeprefix("scipy_"): native
            for native in functions
            if native.startswith("scipy_")
        }
        name = _alias.name(self.aliases, "x86_64", stem="openblas")
        self.archive = folder / f"lib{name}.a"
        self.archive.write_bytes(_alias.archive(self.aliases, "x86_64"))
        self.provider = (
            f"-L{library.parent}",
            f"-l{library.stem.removeprefix('lib')}",
            f"-Wl,-rpath,{library.parent}",
        )
        self.libs = (f"-L{folder}", f"-l{name}", *self.provider)
        (folder / "main.c").write_text(C_PROGRAM)
        (folder / "main.f").write_text(FORTRAN_PROGRAM)
        (folder / "extension.c").write_text(EXTENSION)
        (folder / "caller.c").write_text(CALLER)

    def object(self, name: str) -> Path:
        """Return an object file, compiled once."""
        path = self.folder / name
        if not path.exists():
            run(*OBJECTS[name], "-c", "-o", name, cwd=self.folder)
        return path


@pytest.fixture(scope="module")
def bench(wheels: Any, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    library = next(Path(wheels.unpacked(PROVIDER)).glob("scipy_openblas32/lib/*.so"))
    return Bench(tmp_path_factory.mktemp("alias"), library)


# What is written


@pytest.mark.tool("llvm-readobj")
def test_readers_have_nothing_to_say(bench: Bench, tmp_path: Path) -> None:
    small = tmp_path / "small.a"
    names = sorted(bench.aliases)[::40]
    small.write_bytes(_alias.archive({name: bench.aliases[name] for name in names}, "x86_64"))
    for command in (("readelf", "-aW"), ("llvm-readobj", "--all")):
        done = subprocess.run((*command, small), check=False, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        assert "arning" not in done.stdout
    assert run("ar", "t", small).split() == [f"{name}.o" for name in names]


def test_index_is_what_ranlib_writes(bench: Bench, tmp_path: Path) -> None:
    again = tmp_path / "again.a"
    run("ar", "x", bench.archive, cwd=tmp_path)
    members = [f"{name}.o" for name in sorted(bench.aliases)]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(members)
    run("ar", "rcD", again, *members, cwd=tmp_path)
    assert run("nm", "-s", again) == run("nm", "-s", bench.archive)


def test_member_is_one_hidden_jump(bench: Bench, tmp_path: Path) -> None:
    run("ar", "x", bench.archive, "ddot_.o", cwd=tmp_path)
    code = run("objdump", "-dr", tmp_path / "ddot_.o")
    assert [
        line.split("\t")[2].split()[0] for line in code.splitlines() if line.count("\t") == 2
    ] == ["endbr64", "jmp"]
    assert "R_X86_64_GOTPCRELX\tscipy_ddot_-0x4" in code
    description = run("readelf", "-snW", tmp_path / "ddot_.o")
    assert "FUNC    GLOBAL HIDDEN     1 ddot_" in description
    assert "x86 feature: IBT, SHSTK" in description


def test_same_arguments_give_the_same_bytes_and_name(bench: Bench) -> None:
    backwards = dict(reversed(bench.aliases.items()))
    assert _alias.archive(backwards, "x86_64") == bench.archive.read_bytes()
    assert f"lib{_alias.name(backwards, 'x86_64', stem='openblas')}.a" == bench.archive.name


def test_no_two_contents_share_a_name() -> None:
    names = {
        _alias.name(aliases, "x86_64", visibility=visibility, stem="blas")
        for aliases in ({}, {"a": "b"}, {"a": "c"}, {"a": "b", "c": "d"}, {"a": "bc", "d": "e"})
        for visibility in ("hidden", "default")
    }
    assert len(names) == 10


def test_a_name_offered_as_itself_needs_no_alias(tmp_path: Path) -> None:
    aliases = {"cblas_crotg": "cblas_crotg", "cblas_ddot": "scipy_cblas_ddot"}
    (tmp_path / "two.a").write_bytes(_alias.archive(aliases, "x86_64"))
    assert run("ar", "t", tmp_path / "two.a") == "cblas_ddot.o\n"


def test_odd_names_survive(tmp_path: Path) -> None:
    aliases = {"a/b$c": "x$NEWLAPACK$ILP64", "d" * 300: "y", "ünï_": "z", "\udcff": "w"}
    (tmp_path / "odd.a").write_bytes(_alias.archive(aliases, "x86_64"))
    listing = subprocess.run(("nm", "-s", tmp_path / "odd.a"), capture_output=True, check=True)
    assert listing.stderr == b""
    for name in (b"a/b$c", b"d" * 300, "ünï_".encode(), b"\xff"):
        assert b" T " + name + b"\n" in listing.stdout


@pytest.mark.parametrize("name", ["", "a\0b", "a\nb", "a b", "dgemm_@@V1"])
def test_unusable_names_are_refused(name: str) -> None:
    for aliases in ({name: "native"}, {"offered": name}):
        with pytest.raises(BlaswheelError):
            _alias.archive(aliases, "x86_64")
        with pytest.raises(BlaswheelError):
            _alias.name(aliases, "x86_64", stem="blas")


def test_an_alias_of_an_alias_is_refused() -> None:
    with pytest.raises(BlaswheelError, match="b"):
        _alias.archive({"a": "b", "b": "c"}, "x86_64")


def test_a_machine_without_alias_code_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(BlaswheelError, match=r"vax.*\n.*--native"):
        _alias.archive({"a": "b"}, "vax")


# What linkers make of it


@pytest.mark.parametrize("linker", LINKERS)
@pytest.mark.parametrize(
    ("driver", "name"),
    [
        pytest.param(driver, f"{driver}.o", marks=pytest.mark.tool(driver))
        for driver in ("gcc", "g++", "clang", "gfortran")
    ],
)
def test_programs_run(bench: Bench, tmp_path: Path, linker: str, driver: str, name: str) -> None:
    program = tmp_path / "program"
    run(driver, f"-fuse-ld={linker}", bench.object(name), "-Wl,--as-needed", *bench.libs,
        "-o", program)  # fmt: skip
    run(program)


@pytest.mark.parametrize("linker", LINKERS)
@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("gcc-nopie.o", ("-no-pie",)),
        ("gcc-sections.o", ("-Wl,--gc-sections",)),
        ("gcc.o", ("-pie", "-Wl,-z,now", "-Wl,-z,defs")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_flags_do_no_harm(
    bench: Bench, tmp_path: Path, linker: str, name: str, flags: tuple[str, ...]
) -> None:
    program = tmp_path / "program"
    run("gcc", f"-fuse-ld={linker}", *flags, bench.object(name), *bench.libs, "-o", program)
    run(program)


@pytest.mark.parametrize("linker", LINKERS)
def test_link_time_optimisation_finds_the_aliases(
    bench: Bench, tmp_path: Path, linker: str
) -> None:
    # lld reads the intermediate code of LLVM only, the others here that of GCC.
    driver = "clang" if linker == "lld" else "gcc"
    program = tmp_path / "program"
    run(driver, f"-fuse-ld={linker}", "-flto", "-O2", bench.object(f"{driver}-lto.o"),
        *bench.libs, "-o", program)  # fmt: skip
    run(program)


@pytest.mark.parametrize("linker", LINKERS)
@pytest.mark.parametrize("gc", ["--no-gc-sections", "--gc-sections"])
def test_the_whole_archive_links(bench: Bench, tmp_path: Path, linker: str, gc: str) -> None:
    program = tmp_path / "program"
    run("gcc", f"-fuse-ld={linker}", f"-Wl,{gc}", bench.object("gcc.o"), "-Wl,--whole-archive",
        *bench.libs[:2], "-Wl,--no-whole-archive", *bench.provider, "-o", program)  # fmt: skip
    run(program)


@pytest.mark.parametrize("linker", LINKERS)
def test_the_archive_may_be_named_twice(bench: Bench, tmp_path: Path, linker: str) -> None:
    program = tmp_path / "program"
    run("gcc", f"-fuse-ld={linker}", bench.object("gcc.o"), *bench.libs, *bench.libs,
        bench.archive, *bench.provider, "-o", program)  # fmt: skip
    run(program)


@pytest.mark.parametrize("linker", LINKERS)
def test_an_extension_exports_nothing_new_and_imports_the_native_name(
    bench: Bench, tmp_path: Path, linker: str
) -> None:
    extension = tmp_path / "libextension.so"
    run("gcc", f"-fuse-ld={linker}", "-shared", bench.object("extension.o"), *bench.libs,
        "-o", extension)  # fmt: skip
    alone = tmp_path / "libalone.so"
    run("gcc", f"-fuse-ld={linker}", "-shared", bench.object("extension.o"), "-o", alone)
    assert exported(extension) == exported(alone)
    undefined = run("nm", "-D", "--undefined-only", extension).split()
    assert "scipy_ddot_" in undefined
    assert "ddot_" not in undefined
    program = tmp_path / "program"
    run("gcc", f"-fuse-ld={linker}", bench.object("caller.o"), extension,
        f"-Wl,-rpath,{tmp_path}", f"-Wl,-rpath-link,{bench.library.parent}",
        "-o", program)  # fmt: skip
    run(program)


@pytest.mark.parametrize("linker", LINKERS)
def test_a_marked_output_stays_marked_and_its_stack_not_executable(
    bench: Bench, tmp_path: Path, linker: str
) -> None:
    extension = tmp_path / "libextension.so"
    run("gcc", f"-fuse-ld={linker}", "-shared", "-nostdlib", bench.object("extension.o"),
        *bench.libs, "-o", extension)  # fmt: skip
    assert "x86 feature: IBT, SHSTK" in run("readelf", "-nW", extension)
    stack = [line for line in run("readelf", "-lW", extension).splitlines() if "GNU_STACK" in line]
    assert len(stack) == 1
    assert "RWE" not in stack[0]


@pytest.mark.parametrize("linker", LINKERS)
def test_default_visibility_serves_shared_objects_that_name_no_blas(
    bench: Bench, tmp_path: Path, linker: str
) -> None:
    plugin = tmp_path / "libplugin.so"
    run("gcc", f"-fuse-ld={linker}", "-shared", bench.object("extension.o"), "-o", plugin)
    name = _alias.name(bench.aliases, "x86_64", visibility="default", stem="openblas")
    archive = _alias.archive(bench.aliases, "x86_64", visibility="default")
    (tmp_path / f"lib{name}.a").write_bytes(archive)
    program = tmp_path / "program"
    run("gcc", f"-fuse-ld={linker}", bench.object("caller.o"), plugin, f"-L{tmp_path}",
        f"-l{name}", *bench.provider, f"-Wl,-rpath,{tmp_path}", "-o", program)  # fmt: skip
    assert "ddot_" in exported(program)
    run(program)


def test_hidden_visibility_does_not(bench: Bench, tmp_path: Path) -> None:
    plugin = tmp_path / "libplugin.so"
    run("gcc", "-shared", bench.object("extension.o"), "-o", plugin)
    done = subprocess.run(
        ("gcc", "-fuse-ld=bfd", bench.object("caller.o"), plugin, *bench.libs,
         "-o", tmp_path / "program"),
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode != 0
    assert "hidden symbol `ddot_'" in done.stderr


@pytest.mark.parametrize("linker", LINKERS)
def test_a_static_link_names_the_library_that_is_not_static(
    bench: Bench, tmp_path: Path, linker: str
) -> None:
    done = subprocess.run(
        ("gcc", f"-fuse-ld={linker}", "-static", bench.object("gcc.o"), *bench.libs,
         "-o", tmp_path / "program"),
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode != 0
    assert not (tmp_path / "program").exists()
    assert "scipy_openblas" in done.stderr


def test_a_complex_function_without_another_spelling_is_refused(tmp_path: Path) -> None:
    """A wrapper has the consumer's name, and must call the function by another one."""
    stems = sorted(_routines.routines("blas"))
    (tmp_path / "blas.c").write_text("".join(f"void {stem}_(void) {{}}\n" for stem in stems))
    library = tmp_path / "libblas.so"
    run("gcc", "-shared", "-fPIC", tmp_path / "blas.c", "-o", library)
    (one,) = _reading.at(str(library))
    place = _offer.Place(folder=str(tmp_path / "made"))
    request = _offer.Request(complex_return="value")
    by_argument = one.replace(complex_return="argument")
    with pytest.raises(BlaswheelError, match="cdotc_"):
        _offer.make(by_argument, "lp64", request, place)
    # Under another name it can be called by its own.
    renamed = _offer.make(by_argument, "lp64", request.replace(prefix="my_"), place)
    assert renamed.complex_return == "register" and renamed.alias is not None
    by_value = one.replace(complex_return="register")
    assert _offer.make(by_value, "lp64", request, place).alias is None
