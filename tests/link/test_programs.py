"""What ``blaswheel pc`` prints builds programs, whatever the language, the compiler, the linker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.link.compiling import (
    CASES,
    LANGUAGES,
    LINKERS,
    NEWEST,
    OLDER,
    PROGRAMS,
    Case,
    Workshop,
    marked,
    run,
    run_path,
    with_flags,
)

pytestmark = pytest.mark.tool("gcc", "g++", "gfortran", "pkg-config", "readelf")
COMPILERS = marked({"gcc": "gcc", "clang": "clang"})
# Runs each of its arguments, until one fails.
ALL = ["sh", "-c", 'for program; do "$program" || exit 1; done', "sh"]


def build(
    workshop: Workshop,
    spec: str,
    case: Case,
    compiler: str,
    linker: str,
    folder: Path,
    *options: str,
) -> list[Path]:
    return [
        workshop.link(spec, case, name, compiler, linker, folder / name, *options)
        for name in LANGUAGES
    ]


@pytest.mark.parametrize("linker", marked(LINKERS))
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
class TestNewest:
    """C, C++ and Fortran, in an environment with nothing but one provider."""

    def test_absolute(
        self, workshop: Workshop, tmp_path: Path, case: Case, compiler: str, linker: str
    ) -> None:
        options = ("--runtime", "absolute")
        for program in build(workshop, case.spec(), case, compiler, linker, tmp_path, *options):
            assert run([program]).stdout == "right\n"

    def test_default_under_exec(
        self, workshop: Workshop, tmp_path: Path, case: Case, compiler: str, linker: str
    ) -> None:
        programs = build(workshop, case.spec(), case, compiler, linker, tmp_path)
        assert [run_path(program) for program in programs] == [[], [], []]
        done = workshop.blaswheel(case.spec()).run("exec", "--", *ALL, *programs)
        assert done.stdout == "right\n" * 3


@pytest.mark.parametrize("version", OLDER)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_older_providers(workshop: Workshop, tmp_path: Path, case: Case, version: str) -> None:
    """Other names in the library, other headers: the same program, unchanged."""
    spec = case.spec(version)
    programs = build(workshop, spec, case, "gcc", "bfd", tmp_path, "--runtime", "absolute")
    assert [run([program]).stdout for program in programs] == ["right\n"] * 3
    programs = build(workshop, spec, case, "gcc", "bfd", tmp_path)
    done = workshop.blaswheel(spec).run("exec", "--", *ALL, *programs)
    assert done.stdout == "right\n" * 3


def test_exec_runs_a_program_by_its_name(workshop: Workshop, tmp_path: Path) -> None:
    case = CASES["lp64"]
    program = workshop.link(case.spec(), case, "c", "gcc", "bfd", tmp_path / "prog")
    bare = run([program], check=False)
    assert bare.returncode == 127
    assert "libscipy_openblas.so: cannot open shared object file" in bare.stderr
    blaswheel = workshop.blaswheel(case.spec())
    assert blaswheel.run("exec", "--", str(program)).stdout == "right\n"


def test_ilp64_symbols(workshop: Workshop) -> None:
    """The 64-bit programs call what they say: Fortran's names end in ``_64_``, C's in ``64_``."""
    case = CASES["ilp64"]
    wanted = {
        "fortran": {"ddot_64_", "zdotc_64_", "dgemm_64_", "dgesv_64_"},
        "c": {"cblas_ddot64_", "cblas_zdotc_sub64_", "LAPACKE_dgesv64_"},
    }
    for language, names in wanted.items():
        compiled = workshop.object(case.spec(), case, language, "gcc")
        symbols = run(["nm", "-u", compiled]).stdout.split()
        assert {name for name in symbols if "64_" in name} == names


@pytest.mark.parametrize("version", (*OLDER, NEWEST))
@pytest.mark.parametrize("name", ["lp64", "ilp64"])
def test_native(workshop: Workshop, tmp_path: Path, name: str, version: str) -> None:
    """With ``--native``, the provider's headers and the library's own names, told by macros."""
    case = CASES[name]
    pc = workshop.blaswheel(case.spec(version)).pc("--native", "--runtime", "absolute")
    flags = run(["pkg-config", "--cflags", "openblas"], PKG_CONFIG_PATH=str(pc)).stdout.split()
    folders = [Path(flag[2:]) for flag in flags if flag.startswith("-I")]
    assert [folder.parent.name for folder in folders] == [case.provider.replace("-", "_")]
    libraries = run(["pkg-config", "--libs", "openblas"], PKG_CONFIG_PATH=str(pc)).stdout
    assert "-lblaswheel" not in libraries
    command = ["gcc", "-Wall", "-Wextra", "-Werror", f"-DINTEGER_BITS={case.bits}"]
    program = tmp_path / "native"
    with_flags(pc, "--cflags --libs", *command, PROGRAMS / "native.c", "-o", program)
    assert run([program]).stdout == "right\n"


@pytest.mark.parametrize("options", [(), ("--native",)], ids=["plain", "native"])
@pytest.mark.parametrize("name", ["lp64", "ilp64"])
def test_check_link(workshop: Workshop, name: str, options: tuple[str, ...]) -> None:
    blaswheel = workshop.blaswheel(CASES[name].spec())
    done = blaswheel.run("pc", "--check-link", *options)
    assert done.stdout == blaswheel.run("pc", *options).stdout


@pytest.mark.parametrize(
    ("compiler", "complaint"),
    [
        ("cc -Wl,--no-such-option", "--check-link: cc does not link scipy-openblas32"),
        ("no-such-compiler", "--check-link: no-such-compiler: No such file or directory"),
    ],
)
def test_check_link_fails(
    workshop: Workshop, tmp_path: Path, compiler: str, complaint: str
) -> None:
    """Nothing is written that the compiler at hand does not link."""
    blaswheel = workshop.blaswheel(CASES["lp64"].spec())
    output = tmp_path / "openblas.pc"
    for place in ((), ("-o", output)):
        done = blaswheel.run("pc", "--check-link", *place, check=False, CC=compiler)
        assert done.returncode == 1
        assert done.stdout == ""
        assert complaint in done.stderr
        assert len(done.stderr.splitlines()) == 2
    assert not output.exists()


@pytest.mark.parametrize("linker", marked(LINKERS))
def test_alias_visibility_default(workshop: Workshop, tmp_path: Path, linker: str) -> None:
    """A shared object with undefined BLAS names is served by the program that it is linked to."""
    blaswheel = workshop.blaswheel(CASES["lp64"].spec())
    shared = tmp_path / "libuser.so"
    run(["gcc", "-shared", "-fPIC", PROGRAMS / "user.c", "-o", shared])
    command = ["gcc", f"-fuse-ld={linker}", PROGRAMS / "use.c", shared, f"-Wl,-rpath,{tmp_path}"]

    pc = blaswheel.pc("--runtime", "absolute", "--alias-visibility", "default")
    program = tmp_path / "default"
    with_flags(pc, "--libs", *command, "-o", program)
    assert run([program]).stdout == "right\n"

    program = tmp_path / "hidden"
    hidden = blaswheel.pc("--runtime", "absolute")
    done = with_flags(hidden, "--libs", *command, "-o", program, check=False)
    assert done.returncode != 0 or run([program], check=False).returncode != 0
