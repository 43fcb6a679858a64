"""The Meson subproject: written into projects, and what they get of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.sites import ILP64, LP64, NEWEST
from tests.link.compiling import run_path
from tests.meson.mesons import VERSIONS, Mesoner, write_project
from tests.support import Venv, Wheels

pytestmark = pytest.mark.tool("cc", "readelf")
FILES = [
    "subprojects/blaswheel.wrap",
    "subprojects/blaswheel/meson.build",
    "subprojects/blaswheel/meson.options",
]
DOT = """\
#include <cblas.h>
#include <stdio.h>
int main(void)
{
    double x[3] = {1, 2, 3};
    printf("%g\\n", NAME(3, x, 1, x, 1));
    return 0;
}
"""
TWO = [
    "narrow = dependency('openblas')",
    "wide = dependency('openblas64')",
    "test('narrow', executable('narrow', 'dot.c', c_args: '-DNAME=cblas_ddot',",
    "  dependencies: narrow, install: true))",
    "test('wide', executable('wide', 'dot.c', c_args: '-DNAME=cblas_ddot64_',",
    "  dependencies: wide, install: true))",
]


@pytest.fixture(scope="module")
def venv(shared_venv: Callable[..., Venv]) -> Venv:
    return shared_venv(LP64, ILP64)


@pytest.fixture(scope="module")
def narrow(shared_venv: Callable[..., Venv]) -> Venv:
    """Return an environment with an LP64 library only."""
    return shared_venv(LP64)


def consumer(venv: Venv, folder: Path, *lines: str, languages: str = "'c'") -> Path:
    write_project(folder, *lines, languages=languages)
    (folder / "dot.c").write_text(DOT)
    venv.run("blaswheel", "meson", folder)
    return folder


def messages(output: str) -> list[str]:
    return re.findall(r"Message: (.*)", output)


# The command.


def test_it_writes_the_files_and_says_what_to_do(venv: Venv, tmp_path: Path) -> None:
    project = write_project(tmp_path / "project")
    (project / "pyproject.toml").write_text('[build-system]\nrequires = ["meson-python"]\n')
    assert venv.run("blaswheel", "meson", "--check", project, check=False).returncode == 1
    done = venv.run("blaswheel", "meson", cwd=project)
    assert done.stdout.splitlines() == FILES
    assert done.stderr.splitlines() == [
        "blaswheel: commit subprojects/blaswheel.wrap and subprojects/blaswheel/",
        (
            'blaswheel: add "blaswheel" and "scipy-openblas32" to requires of [build-system] '
            "in ./pyproject.toml"
        ),
    ]
    assert venv.run("blaswheel", "meson", "--check", project).stdout == ""
    again = venv.run("blaswheel", "meson", project)
    assert (again.stdout, again.stderr) == ("", "blaswheel: the subproject is current\n")


def test_edited_and_foreign_files_stay(venv: Venv, tmp_path: Path) -> None:
    project = consumer(venv, tmp_path / "project")
    built = project / FILES[1]
    ours = built.read_text()
    built.write_text(ours + "# mine\n")
    refused = venv.run("blaswheel", "meson", project, check=False)
    assert refused.returncode == 1
    assert refused.stderr.splitlines() == [
        f"blaswheel: {built} was edited",
        "  move it away, or say --force to have it replaced",
    ]
    assert built.read_text() == ours + "# mine\n"
    checked = venv.run("blaswheel", "meson", "--check", project, check=False)
    assert checked.stderr.splitlines() == [
        f"blaswheel: {FILES[1]} is edited",
        "  run blaswheel meson",
    ]
    assert venv.run("blaswheel", "meson", "--force", project).stdout.splitlines() == [FILES[1]]
    assert built.read_text() == ours
    wrap = project / FILES[0]
    wrap.write_text("[wrap-file]\ndirectory = blaswheel\n")
    refused = venv.run("blaswheel", "meson", project, check=False)
    assert refused.stderr.splitlines()[0] == f"blaswheel: {wrap} was not written by blaswheel"


def test_line_ends_and_releases_do_not_count_as_edits(venv: Venv, tmp_path: Path) -> None:
    project = consumer(venv, tmp_path / "project")
    for name in FILES:
        text = (project / name).read_text().replace("blaswheel 0.1.0,", "blaswheel 0.0.9,", 1)
        (project / name).write_bytes(text.replace("\n", "\r\n").encode())
    venv.run("blaswheel", "meson", "--check", project)


def test_files_of_another_release_are_brought_up_to_date(venv: Venv, tmp_path: Path) -> None:
    project = consumer(venv, tmp_path / "project")
    code = (
        "import sys; from pathlib import Path; from blaswheel._files import digest;"
        "path = Path(sys.argv[1]); text = '# a comment\\n';"
        "path.write_text(f'# written by blaswheel 0.0.9, digest {digest(text)}: x\\n{text}')"
    )
    venv.run("python", "-c", code, project / FILES[2])
    checked = venv.run("blaswheel", "meson", "--check", project, check=False)
    assert checked.stderr.splitlines()[0] == f"blaswheel: {FILES[2]} is old"
    assert venv.run("blaswheel", "meson", project).stdout.splitlines() == [FILES[2]]


def test_it_wants_a_meson_project(venv: Venv, tmp_path: Path) -> None:
    done = venv.run("blaswheel", "meson", tmp_path, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"blaswheel: {tmp_path} is no Meson project: it has no meson.build",
        "  give the folder of the project's main meson.build",
    ]
    assert list(tmp_path.iterdir()) == []


# What a project gets.


@pytest.mark.parametrize("version", VERSIONS)
def test_both_interfaces_in_one_project(venv: Venv, tmp_path: Path, version: str) -> None:
    project = consumer(venv, tmp_path / "ein Projekt", *TWO)
    meson = Mesoner(venv, version)
    build, prefix = project / "build", tmp_path / "installed"
    done = meson("setup", f"--prefix={prefix}", build, project)
    assert messages(done.stdout) == [
        f"LP64: OpenBLAS {NEWEST} of scipy-openblas32 {NEWEST}, runtime origin",
        f"ILP64: OpenBLAS {NEWEST} of scipy-openblas64 {NEWEST}, runtime origin",
    ]
    assert "WARNING" not in done.stdout
    # In the build tree the library is found; what is installed has run paths to it and no others.
    meson("test", "-C", build)
    meson("install", "-C", build)
    for name, provider in (("narrow", "scipy_openblas32"), ("wide", "scipy_openblas64")):
        program = prefix / "bin" / name
        ups = ("", "../", "../../", "../../../")
        assert run_path(program) == [f"$ORIGIN/{up}{provider}/lib" for up in ups]
    installed = [path for path in prefix.rglob("*") if path.is_file()]
    assert sorted(path.name for path in installed) == ["narrow", "wide"]
    targets = json.loads(meson("introspect", "--targets", build).stdout)
    assert sorted(target["name"] for target in targets) == ["narrow", "wide"]


def test_wide_integers_that_are_not_there(narrow: Venv, tmp_path: Path) -> None:
    project = consumer(narrow, tmp_path / "project", "dependency('openblas64')")
    done = Mesoner(narrow)("setup", project / "build", project, check=False)
    assert done.returncode == 1
    assert "ERROR: Dependency 'openblas64' is required but not found" in done.stdout
    [reason] = [line for line in messages(done.stdout) if line.startswith("not here")]
    assert reason == (
        "not here: openblas64, blas64, cblas64, lapack64, lapacke64, scipy-openblas64: "
        f"scipy-openblas32 {NEWEST} is LP64, not ILP64 (pip install scipy-openblas64 installs an "
        "ILP64 library)"
    )


def test_an_interface_that_was_asked_for_stands_behind_all_names(
    venv: Venv, narrow: Venv, tmp_path: Path
) -> None:
    lines = [
        "d = dependency('openblas', default_options: ['interface=ilp64'])",
        "message(d.get_variable('interface'), d.get_variable('symbol_suffix'))",
        "test('t', executable('t', 'dot.c', c_args: '-DNAME=cblas_ddot64_', dependencies: d))",
    ]
    project = consumer(venv, tmp_path / "project", *lines)
    meson = Mesoner(venv)
    done = meson("setup", project / "build", project)
    assert messages(done.stdout)[-1] == "ilp64 64_"
    meson("test", "-C", project / "build")
    done = Mesoner(narrow)("setup", project / "other", project, check=False)
    assert done.returncode == 1
    assert f"scipy-openblas32 {NEWEST} is LP64, not ILP64" in done.stdout


def test_options_and_variables(venv: Venv, tmp_path: Path) -> None:
    lines = [
        "d = dependency('cblas')",
        "foreach name : ['provider', 'interface', 'symbol_prefix', 'symbol_suffix', 'libdir']",
        "  message(name, d.get_variable(name, default_value: 'none'))",
        "endforeach",
        "test('t', executable('t', 'dot.c', c_args: '-DNAME=my_cblas_ddot_x', dependencies: d))",
    ]
    project = consumer(venv, tmp_path / "project", *lines)
    options = ["-Dblaswheel:symbol-prefix=my_", "-Dblaswheel:symbol-suffix=_x"]
    meson = Mesoner(venv)
    done = meson("setup", *options, "-Dblaswheel:runtime=absolute", project / "build", project)
    lib = venv.site_packages / "scipy_openblas32" / "lib"
    assert messages(done.stdout)[-5:] == [
        f"provider scipy-openblas32=={NEWEST}",
        "interface lp64",
        "symbol_prefix my_",
        "symbol_suffix _x",
        f"libdir {lib}",
    ]
    meson("test", "-C", project / "build")
    assert str(lib) in run_path(project / "build" / "t")


def test_variables_of_the_environment(venv: Venv, tmp_path: Path) -> None:
    project = consumer(venv, tmp_path / "project", "dependency('blas')")
    meson = Mesoner(venv)
    environ = {"BLASWHEEL_PROVIDER": "scipy-openblas64", "BLASWHEEL_RUNTIME": "link"}
    done = meson("setup", project / "a", project, environ=environ, check=False)
    assert "ERROR: Dependency 'blas' is required but not found" in done.stdout
    assert f"ILP64: OpenBLAS {NEWEST} of scipy-openblas64 {NEWEST}, runtime link" in done.stdout
    environ["BLASWHEEL_PROVIDER"] = "mkl"
    done = meson("setup", project / "b", project, environ=environ, check=False)
    assert done.returncode == 1
    assert (
        "ERROR: Problem encountered: BLASWHEEL_PROVIDER asks for mkl, which is not in"
        in done.stdout
    )


def test_settings_of_the_project(venv: Venv, tmp_path: Path) -> None:
    lines = ["d = dependency('blas')", "message(d.get_variable('symbol_suffix'))"]
    project = consumer(venv, tmp_path / "project", *lines)
    (project / "pyproject.toml").write_text('[tool.blaswheel]\nsymbol-suffix = "_mine"\n')
    meson = Mesoner(venv)
    done = meson("setup", project / "a", project)
    assert messages(done.stdout)[0] == (
        "using [tool.blaswheel] of pyproject.toml: symbol-suffix = '_mine'"
    )
    assert messages(done.stdout)[-1] == "_mine"
    done = meson("setup", "-Dblaswheel:symbol-suffix=_yours", project / "b", project)
    assert messages(done.stdout)[-1] == "_yours"
    (project / "pyproject.toml").write_text('[tool.blaswheel]\ninterfaces = "lp64"\n')
    done = meson("setup", project / "c", project, check=False)
    assert done.returncode == 1
    assert re.search("ERROR: Problem encountered: .*interfaces", done.stdout)


def test_a_shared_library_is_all_there_is_for_static(venv: Venv, tmp_path: Path) -> None:
    project = consumer(venv, tmp_path / "project", "dependency('blas', static: true)")
    done = Mesoner(venv)("setup", project / "build", project)
    assert (
        "WARNING: a wheel has its BLAS as a shared library: it is linked as one, static or not"
        in done.stdout
    )


@pytest.mark.parametrize("required", [True, False])
def test_without_blaswheel_one_line_says_what_to_install(
    venv: Venv, tmp_path: Path, required: bool
) -> None:
    line = f"dependency('openblas', required: {str(required).lower()}, allow_fallback: true)"
    project = consumer(venv, tmp_path / "project", line)
    meson = Mesoner(venv)
    empty = tmp_path / "empty"
    empty.mkdir()
    environ = {"PYTHONPATH": str(empty), "PATH": f"{meson.program.parent}:/usr/bin:/bin"}
    done = meson("setup", project / "build", project, environ=environ, check=False)
    assert done.returncode == (1 if required else 0)
    # Where Meson goes on it repeats the reason.
    what = "ERROR" if required else "Exception"
    said = (
        f"{what}: Problem encountered: no blaswheel in .*: pip install blaswheel scipy-openblas32,"
    )
    assert len(re.findall(said, done.stdout)) == 1


def test_without_a_provider(shared_venv: Callable[..., Venv], tmp_path: Path) -> None:
    bare = shared_venv()
    project = consumer(bare, tmp_path / "project", "dependency('openblas')")
    done = Mesoner(bare)("setup", project / "build", project, check=False)
    assert done.returncode == 1
    assert (
        "ERROR: Problem encountered: no BLAS library is installed in this environment "
        "(pip install scipy-openblas32 installs one)" in done.stdout
    )


def test_the_command_answers_where_mesons_python_has_no_blaswheel(
    venv: Venv, tmp_path: Path
) -> None:
    project = consumer(venv, tmp_path / "project", "dependency('openblas')")
    done = Mesoner(venv)("setup", project / "build", project, environ={"PYTHONPATH": ""})
    assert f"Program blaswheel-meson found: YES ({venv.bin}/blaswheel-meson)" in done.stdout


@pytest.mark.tool("g++", "gfortran")
@pytest.mark.parametrize("language", ["cpp", "fortran"])
def test_projects_without_c(venv: Venv, tmp_path: Path, language: str) -> None:
    lines = ["d = dependency('blas')", "test('t', executable('t', source, dependencies: d))"]
    if language == "cpp":
        source = DOT.replace("NAME", "cblas_ddot")
    else:
        source = (
            "program t\ndouble precision, external :: ddot\ndouble precision :: x(2) = [3, 4]\n"
            "if (ddot(2, x, 1, x, 1) /= 25) stop 1\nend program\n"
        )
    end = {"cpp": "cpp", "fortran": "f90"}[language]
    lines[1] = lines[1].replace("source", f"'t.{end}'")
    project = consumer(venv, tmp_path / "project", *lines, languages=f"'{language}'")
    (project / f"t.{end}").write_text(source)
    meson = Mesoner(venv)
    meson("setup", project / "build", project)
    meson("test", "-C", project / "build")


def test_a_cache_that_cannot_be_written(venv: Venv, tmp_path: Path) -> None:
    project = consumer(venv, tmp_path / "project", *TWO)
    meson = Mesoner(venv)
    # A file where the folder should be, as no permission stops root.
    (tmp_path / "file").touch()
    environ = {"BLASWHEEL_CACHE_DIR": str(tmp_path / "file" / "cache")}
    meson("setup", project / "build", project, environ=environ)
    meson("test", "-C", project / "build")


def test_the_build_tree_works_after_a_reconfigure(venv: Venv, tmp_path: Path) -> None:
    project = consumer(venv, tmp_path / "project", *TWO)
    meson = Mesoner(venv)
    meson("setup", project / "build", project)
    meson("test", "-C", project / "build")
    meson("setup", "--reconfigure", project / "build", project)
    meson("test", "-C", project / "build")


# Cross builds.

CROSS = """\
[binaries]
c = 'aarch64-linux-gnu-gcc'
ar = 'aarch64-linux-gnu-ar'
strip = 'aarch64-linux-gnu-strip'
exe_wrapper = ['qemu-aarch64', '-L', '/usr/aarch64-linux-gnu']
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
"""


@pytest.mark.tool("aarch64-linux-gnu-gcc", "qemu-aarch64")
@pytest.mark.parametrize("native", [False, True], ids=["plain", "native"])
@pytest.mark.parametrize("version", VERSIONS)
def test_cross(venv: Venv, wheels: Wheels, tmp_path: Path, version: str, native: bool) -> None:
    root = wheels.unpacked(LP64, "manylinux_2_28_aarch64")
    name = "scipy_cblas_ddot" if native else "cblas_ddot"
    lines = [TWO[0], TWO[2].replace("cblas_ddot", name), TWO[3]]
    project = consumer(venv, tmp_path / "project", *lines)
    (tmp_path / "cross.ini").write_text(CROSS)
    meson = Mesoner(venv, version)
    words = ["setup", "--cross-file", tmp_path / "cross.ini"]
    refused = meson(*words, project / "a", project, check=False)
    assert refused.returncode == 1
    assert "it is for x86_64 (elf), and the build for aarch64 linux" in refused.stdout
    # An unpacked wheel, or the wheel itself.
    place = root if native else wheels.fetch(LP64, "manylinux_2_28_aarch64")
    options = [f"-Dblaswheel:root={place}", f"-Dblaswheel:native={str(native).lower()}"]
    meson(*words, *options, project / "b", project)
    meson("test", "-C", project / "b")
    header = (project / "b" / "narrow").read_bytes()[:20]
    assert header[18:20] == b"\xb7\x00"


@pytest.mark.tool("aarch64-linux-gnu-gcc")
def test_the_build_machine_of_a_cross_build(venv: Venv, wheels: Wheels, tmp_path: Path) -> None:
    root = wheels.unpacked(LP64, "manylinux_2_28_aarch64")
    lines = [
        "add_languages('c', native: true)",
        "message('build', dependency('blas', native: true).get_variable('libdir'))",
        "message('host', dependency('blas').get_variable('libdir'))",
    ]
    project = consumer(venv, tmp_path / "project", *lines)
    (tmp_path / "cross.ini").write_text(
        f"{CROSS}[blaswheel:project options]\nroot = '{root}'\nnative = true\n"
    )
    done = Mesoner(venv)("setup", "--cross-file", tmp_path / "cross.ini", project / "b", project)
    found = dict(line.split(" ") for line in messages(done.stdout) if line.count(" ") == 1)
    lib = Path("scipy_openblas32", "lib")
    assert found == {"build": str(venv.site_packages / lib), "host": str(root / lib)}


# What goes wrong.


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["-Dblaswheel:interface=lp64", "-Dblaswheel:symbol-suffix=64_"],
            "the suffix 64_ means 64-bit integers, the interface lp64 means 32-bit (give blas",
        ),
        (
            ["-Dblaswheel:provider=scipy-openblas128"],
            "asked for scipy-openblas128, which is not in this environment",
        ),
        (
            ["-Dblaswheel:depth=99"],
            "blaswheel:depth 99: not a depth (give whole numbers from 0 to 16",
        ),
        (
            ["-Dblaswheel:root=/dev/null/x"],
            "blaswheel:root /dev/null/x: no such folder",
        ),
    ],
)
def test_bad_options_are_told_in_one_line(
    venv: Venv, tmp_path: Path, options: list[str], said: str
) -> None:
    project = consumer(venv, tmp_path / "project", "dependency('blas')")
    done = Mesoner(venv)("setup", *options, project / "build", project, check=False)
    assert done.returncode == 1
    assert f"ERROR: Problem encountered: {said}" in done.stdout


def test_a_blaswheel_that_fails_is_not_called_absent(venv: Venv, tmp_path: Path) -> None:
    project = consumer(venv, tmp_path / "project", "dependency('blas')")
    broken = tmp_path / "broken" / "blaswheel"
    broken.mkdir(parents=True)
    (broken / "__init__.py").touch()
    (broken / "_meson.py").write_text("raise RuntimeError('no luck')\n")
    environ = {"PYTHONPATH": str(broken.parent)}
    done = Mesoner(venv)("setup", project / "build", project, environ=environ, check=False)
    assert "ERROR: Problem encountered: blaswheel failed: RuntimeError: no luck" in done.stdout


def test_files_of_another_protocol_ask_to_be_written_again(venv: Venv, tmp_path: Path) -> None:
    project = consumer(venv, tmp_path / "project", "dependency('blas')")
    path = project / FILES[1]
    path.write_text(path.read_text().replace("['1',", "['2',"))
    done = Mesoner(venv)("setup", project / "build", project, check=False)
    said = "was written by another version of blaswheel (run blaswheel meson again)"
    assert f"ERROR: Problem encountered: subprojects/blaswheel {said}" in done.stdout


@pytest.mark.parametrize("name", ["ünï code", "a$b,c"])
def test_any_path(wheels: Wheels, blaswheel_wheel: Path, tmp_path: Path, name: str) -> None:
    venv = Venv(tmp_path / name)
    venv.pip_install("--no-index", "--no-deps", blaswheel_wheel, wheels.fetch(LP64))
    project = consumer(venv, tmp_path / f"project {name}", TWO[0], *TWO[2:4])
    meson = Mesoner(venv)
    meson("setup", f"--prefix={tmp_path / 'installed'}", project / "build", project)
    meson("test", "-C", project / "build")
    meson("install", "-C", project / "build")
    assert all(entry.startswith("$ORIGIN") for entry in run_path(tmp_path / "installed/bin/narrow"))


def test_subprojects_that_is_a_file(venv: Venv, tmp_path: Path) -> None:
    project = write_project(tmp_path / "project")
    (project / "subprojects").touch()
    done = venv.run("blaswheel", "meson", project, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"blaswheel: can't write {project}/subprojects/")
