"""CMake projects find the BLAS of a wheel by find_package, as they find any other."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.build_wheel import ROOT
from tests.cli.sites import ILP64, LP64, Blaswheel, copy
from tests.support import Venv, Wheels, clean_environment

pytestmark = pytest.mark.tool("cmake", "gcc", "ninja")

PROJECT = """
cmake_minimum_required(VERSION 3.20)
project(demo C)
find_package({package} REQUIRED)
message(STATUS "version ${{{package}_VERSION}}")
add_executable(demo main.c)
target_link_libraries(demo PRIVATE {target})
"""
MAIN = r"""
#include <stdint.h>
{includes}
#ifdef WIDE
#define PLAIN(name) name##64_
#define FORTRAN(name) name##_64_
typedef int64_t integer;
#else
#define PLAIN(name) name
#define FORTRAN(name) name##_
typedef int32_t integer;
#endif
double dot(const integer *, const double *, const integer *, const double *, const integer *)
    __asm__(NAME);
int main(void)
{{
    double x[3] = {{1, 2, 3}};
    integer three = 3, one = 1;
    if (dot(&three, x, &one, x, &one) != 14)
        return 1;
{body}
    return 0;
}}
"""
CBLAS = ("#include <cblas.h>", "    if (PLAIN(cblas_ddot)(3, x, 1, x, 1) != 14) return 2;")
LAPACKE = (
    "#include <lapacke.h>",
    "    if (PLAIN(LAPACKE_dlange)(LAPACK_ROW_MAJOR, 'F', 1, 1, x, 1) != 1) return 3;",
)
PACKAGES = {
    "OpenBLAS": CBLAS,
    "BLAS": ("", ""),
    "CBLAS": CBLAS,
    "LAPACK": ("", ""),
    "LAPACKE": LAPACKE,
}
EXTENSION = """
cmake_minimum_required(VERSION 3.20)
project(demo C)
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)
find_package(CBLAS REQUIRED)
python_add_library(_dot MODULE demo/_dot.c WITH_SOABI)
target_link_libraries(_dot PRIVATE CBLAS::CBLAS)
install(TARGETS _dot DESTINATION demo)
"""
SCIKIT_BUILD = """
[build-system]
build-backend = "scikit_build_core.build"
requires = ["scikit-build-core"]
[project]
name = "demo"
version = "1.0"
"""


@pytest.fixture(scope="module")
def blaswheel(shared_venv: Callable[..., Venv]) -> Blaswheel:
    return Blaswheel(shared_venv(LP64, ILP64))


@pytest.fixture(scope="module")
def prefix(blaswheel: Blaswheel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cmake") / "blas"
    blaswheel("cmake", "--dir", folder)
    return folder


def build(
    tmp_path: Path,
    prefix: Path,
    package: str,
    *options: str,
    target: str = "",
    wide: bool = False,
    generator: str = "Ninja",
) -> str:
    """Configure, build and run the project; return what configuring printed."""
    work = tmp_path / f"{package}-{wide}-{generator}".replace(" ", "-")
    work.mkdir(parents=True)
    text = PROJECT.format(package=package, target=target or f"{package}::{package}")
    name = "ddot_64_" if wide else "ddot_"
    text += f'target_compile_definitions(demo PRIVATE "NAME=\\"{name}\\"" {"WIDE" * wide})\n'
    (work / "CMakeLists.txt").write_text(text)
    includes, body = PACKAGES[package]
    (work / "main.c").write_text(MAIN.format(includes=includes, body=body))
    words = ["cmake", "-S", work, "-B", work / "build", "-G", generator, *options,
             f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_FIND_PACKAGE_PREFER_CONFIG=ON"]  # fmt: skip
    configured = subprocess.run(words, capture_output=True, text=True, check=False)
    assert configured.returncode == 0, configured.stdout + configured.stderr
    built = subprocess.run(["cmake", "--build", work / "build"], capture_output=True, text=True,
                           check=False)  # fmt: skip
    assert built.returncode == 0, built.stdout + built.stderr
    assert subprocess.run([work / "build" / "demo"], check=False).returncode == 0
    return configured.stdout


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("wide", [False, True], ids=["lp64", "ilp64"])
def test_packages(tmp_path: Path, prefix: Path, package: str, wide: bool) -> None:
    options = ["-DBLA_SIZEOF_INTEGER=8"] if wide else []
    printed = build(tmp_path, prefix, package, *options, wide=wide)
    assert "-- version 0.3.34.481.3" in printed


def test_a_relative_folder(blaswheel: Blaswheel, tmp_path: Path) -> None:
    """What CMake reads is absolute: it would look for a relative path below itself."""
    blaswheel("cmake", "--dir", "blas", cwd=tmp_path)
    build(tmp_path, tmp_path / "blas", "CBLAS")


@pytest.mark.tool("make")
def test_makefiles_and_variables(tmp_path: Path, prefix: Path) -> None:
    build(tmp_path, prefix, "LAPACK", generator="Unix Makefiles", target="${LAPACK_LIBRARIES}")


def test_a_width_that_is_not_here(shared_venv: Callable[..., Venv], tmp_path: Path) -> None:
    folder = tmp_path / "blas"
    Blaswheel(shared_venv(LP64))("cmake", "--dir", folder)
    assert not list(folder.rglob("ilp64.cmake"))
    with pytest.raises(AssertionError, match=r"no CBLAS\s+with\s+integers\s+of\s+8\s+bytes"):
        build(tmp_path, folder, "CBLAS", "-DBLA_SIZEOF_INTEGER=8")


def test_versions(tmp_path: Path, prefix: Path) -> None:
    for wanted, found in (("0.3", True), ("9.9", False)):
        work = tmp_path / wanted
        work.mkdir()
        (work / "CMakeLists.txt").write_text(
            f"cmake_minimum_required(VERSION 3.20)\nproject(x C)\nfind_package(OpenBLAS {wanted})\n"
            'message(STATUS "found ${OpenBLAS_FOUND}")\n'
        )
        words = ["cmake", "-S", work, "-B", work / "b", f"-DCMAKE_PREFIX_PATH={prefix}"]
        printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        assert ("-- found 1" in printed) is found


@pytest.mark.parametrize("name", ["ünï code", "a;b", "a$b", "[==[x]==]", "quote'\""])
def test_any_path(blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path, name: str) -> None:
    site = copy(wheels.unpacked(LP64), tmp_path / name / "site")
    folder = tmp_path / "blas"
    blaswheel("cmake", "--root", site, "--dir", folder)
    build(tmp_path / "plain", folder, "CBLAS")
    blaswheel("cmake", "--root", site, "--dir", tmp_path / name / "blas")
    (tmp_path / "link").symlink_to(tmp_path / name / "blas")
    build(tmp_path / "odd", tmp_path / "link", "CBLAS")


def test_what_is_stale_is_removed(blaswheel: Blaswheel, tmp_path: Path) -> None:
    folder = tmp_path / "blas"
    blaswheel("cmake", "--dir", folder)
    (folder / "lib" / "cmake" / "BLAS" / "other.cmake").write_text("mine")
    blaswheel("cmake", "--dir", folder, "--interface", "ilp64")
    assert sorted(path.name for path in (folder / "lib/cmake/blaswheel").iterdir()) == [
        "ilp64.cmake"
    ]
    assert (folder / "lib" / "cmake" / "BLAS" / "other.cmake").exists()


def test_origin_is_refused(blaswheel: Blaswheel, tmp_path: Path) -> None:
    words = ("cmake", "--dir", tmp_path / "x", "--runtime", "origin")
    error, hint = blaswheel.error(*words, status=2)
    assert "$ORIGIN" in error and "CMAKE_INSTALL_RPATH" in hint
    assert "--dir" in blaswheel("cmake", check=False).stderr


def test_scikit_build_core_under_build_isolation(
    blaswheel: Blaswheel, tmp_path: Path, venv: Callable[..., Venv], wheels: Wheels
) -> None:
    """The environment tells CMake what it can't know; the wheel finds the provider beside it."""
    blaswheel("cmake", "--dir", tmp_path / "blas")
    project = tmp_path / "project"
    shutil.copytree(ROOT / "tests" / "link" / "programs" / "extension" / "demo", project / "demo")
    (project / "CMakeLists.txt").write_text(EXTENSION)
    (project / "pyproject.toml").write_text(SCIKIT_BUILD)
    environ = clean_environment() | {
        "CMAKE_PREFIX_PATH": str(tmp_path / "blas"),
        "CMAKE_ARGS": "-DCMAKE_FIND_PACKAGE_PREFER_CONFIG=ON "
        "-DCMAKE_INSTALL_RPATH=$ORIGIN/../scipy_openblas32/lib",
    }
    words = [sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", tmp_path / "out", project]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = (tmp_path / "out").iterdir()
    fresh = venv()
    fresh.pip_install("--no-index", "--no-deps", made, wheels.fetch(LP64))
    assert fresh.run("python", "-c", "from demo import _dot; print(_dot.dot())").stdout == "32.0\n"


@pytest.mark.full
def test_the_newest_cmake(
    tmp_path: Path, prefix: Path, venv: Callable[..., Venv], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = venv()
    made.pip_install("cmake>=4")
    monkeypatch.setenv("PATH", str(made.bin), prepend=":")
    for package in PACKAGES:
        build(tmp_path, prefix, package)
    build(tmp_path, prefix, "LAPACKE", "-DBLA_SIZEOF_INTEGER=8", wide=True)
