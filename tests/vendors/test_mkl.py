"""MKL as pip installs it: layers without development links, in the data scheme."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import Venv, Wheels
from tests.vendors.programs import both_run, flags

MODELS = ("seq", "iomp", "gomp", "tbb")
PLAIN = ("blas", "cblas", "lapack", "lapacke")
#: All that a build needs, by release of MKL: the OpenMP and TBB packages have their own numbers.
GENERATIONS = {
    "2021.4.0": ("2021.4.0", "2021.4.0"),
    "2022.2.1": ("2022.2.1", "2021.7.1"),
    "2023.2.0": ("2023.2.0", "2021.10.0"),
    "2024.2.2": ("2024.2.1", "2021.13.1"),
    "2025.3.1": ("2025.3.3", "2022.3.1"),
    "2026.2.0": ("2026.2.0", "2023.2.0"),
}
NEWEST = "2026.2.0"


def specs(version: str) -> list[str]:
    openmp, tbb = GENERATIONS[version]
    return [
        f"mkl=={version}",
        f"mkl-devel=={version}",
        f"mkl-include=={version}",
        f"intel-openmp=={openmp}",
        f"tbb=={tbb}",
    ]


class Mkl(NamedTuple):
    """An environment with MKL and blaswheel, and the set of files that was written for it."""

    version: str
    venv: Venv
    folder: Path

    @property
    def lib(self) -> Path:
        return self.venv.path / "lib"

    def environ(self) -> dict[str, str]:
        return {"LD_LIBRARY_PATH": str(self.lib), "MKL_NUM_THREADS": "2"}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(version, marks=() if version == NEWEST else pytest.mark.full)
        for version in GENERATIONS
    ],
)
def mkl(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    wheels: Wheels,
    blaswheel_wheel: Path,
) -> Mkl:
    made = Venv(tmp_path_factory.mktemp("mkl") / "venv")
    version = request.param
    files = map(wheels.fetch, specs(version))
    made.pip_install("--no-index", "--no-deps", blaswheel_wheel, *files)
    folder = tmp_path_factory.mktemp("set") / "pc"
    made.run("blaswheel", "pc", "--dir", folder, "--check-link")
    return Mkl(version, made, folder)


def test_every_model_is_a_library(mkl: Mkl) -> None:
    listed = json.loads(mkl.venv.run("blaswheel", "list", "--json").stdout)["libraries"]
    found = {
        (one["interface"], one["threading"]): one
        for one in listed
        if one["linkable"] and "mkl_gf" not in one["path"]
    }
    assert set(found) == {(width, model) for width in ("lp64", "ilp64") for model in MODELS} | {
        ("lp64", "sdl")
    }
    names = [Path(part).name.partition(".so")[0] for part in found["lp64", "iomp"]["parts"]]
    assert names == ["libmkl_intel_lp64", "libmkl_intel_thread", "libmkl_core", "libiomp5"]
    assert "parts" not in found["lp64", "sdl"]
    table = mkl.venv.run("blaswheel", "list").stdout
    assert "mkl (iomp)" in table and "mkl (sdl)" in table
    warned = {
        "kernels-need-global" in {defect["code"] for defect in one["defects"]}
        for one in listed
        if one.get("threading") != "sdl"
    }
    assert warned == {mkl.version < "2023"}
    # Beside these are ScaLAPACK and others, whose names only look alike: pdgetrf_.
    assert list(mkl.lib.glob("libmkl_scalapack_lp64.so*"))
    assert {one["implementation"] for one in listed} == {"mkl"}


def test_the_set_has_a_file_per_model(mkl: Mkl) -> None:
    written = {path.stem for path in mkl.folder.glob("*.pc")}
    assert written == {
        *PLAIN,
        *(f"{name}64" for name in PLAIN),
        *(f"mkl-dynamic-{width}-{model}" for width in ("lp64", "ilp64") for model in MODELS),
        "mkl-sdl",
    }


@pytest.mark.tool("gcc", "gfortran", "pkg-config")
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("width", "bits"), [("lp64", 32), ("ilp64", 64)])
def test_programs_of_a_model(mkl: Mkl, tmp_path: Path, model: str, width: str, bits: int) -> None:
    name = f"mkl-dynamic-{width}-{model}"
    both_run(mkl.venv, tmp_path, mkl.folder, name, bits=bits, environ=mkl.environ())
    libs = flags(mkl.venv, mkl.folder, name)[1]
    assert next(word for word in libs if word.startswith("-lmkl")) == f"-lmkl_intel_{width}"
    assert "-lmkl_rt" not in libs


@pytest.mark.tool("gcc", "gfortran", "pkg-config")
def test_programs_of_the_plain_set_and_the_single_library(mkl: Mkl, tmp_path: Path) -> None:
    environ = mkl.environ()
    both_run(mkl.venv, tmp_path, mkl.folder, *PLAIN, bits=32, environ=environ)
    wide = [f"{name}64" for name in PLAIN]
    both_run(mkl.venv, tmp_path, mkl.folder, *wide, bits=64, suffix="64_", environ=environ)
    both_run(mkl.venv, tmp_path, mkl.folder, "mkl-sdl", bits=32, environ=environ)
    # The header of MKL's own name, as its documentation has it.
    source = tmp_path / "own.c"
    source.write_text(
        "#include <mkl.h>\n#include <stdio.h>\n"
        'int main(void) { double x[2] = {3, 4}; printf("%zu %g\\n", sizeof(MKL_INT), '
        "cblas_dnrm2(2, x, 1)); return 0; }\n"
    )
    for name, size in (("mkl-dynamic-lp64-seq", 4), ("mkl-dynamic-ilp64-seq", 8)):
        cflags, libs = flags(mkl.venv, mkl.folder, name)
        mkl.venv.run("gcc", *cflags, source, "-o", tmp_path / "own", *libs)
        assert mkl.venv.run(tmp_path / "own", environ=environ).stdout == f"{size} 5\n"


@pytest.mark.tool("gcc", "gfortran", "pkg-config")
@pytest.mark.parametrize("model", MODELS)
def test_run_paths_reach_what_other_wheels_have(mkl: Mkl, tmp_path: Path, model: str) -> None:
    """libiomp5 and libtbb are in wheels of their own, and no file of MKL has a run path."""
    folder = tmp_path / "pc"
    options = ("--runtime", "absolute", "--threading", model)
    mkl.venv.run("blaswheel", "pc", "--dir", folder, *options)
    assert {path.stem for path in folder.glob("mkl-*.pc")} == {
        f"mkl-dynamic-{width}-{model}" for width in ("lp64", "ilp64")
    }
    both_run(mkl.venv, tmp_path, folder, *PLAIN, bits=32)
    both_run(mkl.venv, tmp_path, folder, f"mkl-dynamic-ilp64-{model}", bits=64)


@pytest.mark.tool("gcc", "pkg-config")
@pytest.mark.parametrize("model", ["iomp", "tbb"])
def test_an_extension_module_reaches_the_data_scheme(mkl: Mkl, tmp_path: Path, model: str) -> None:
    """``PREFIX/lib`` from a package in ``PREFIX/lib/python3.x/site-packages``."""
    folder = tmp_path / "pc"
    options = ("--runtime", "origin", "--depth", "1", "--threading", model)
    mkl.venv.run("blaswheel", "pc", "--dir", folder, *options)
    _, libs = flags(mkl.venv, folder, "cblas")
    source = tmp_path / "dot.c"
    source.write_text(
        "double cblas_ddot(int, const double *, int, const double *, int);\n"
        "double dot(void) { const double x[2] = {3, 4}; return cblas_ddot(2, x, 1, x, 1); }\n"
    )
    package = mkl.venv.site_packages / f"dot_{model}"
    package.mkdir(exist_ok=True)
    built = package / "libdot.so"
    mkl.venv.run("gcc", "-shared", "-fPIC", source, "-o", built, *libs)
    code = "import ctypes; dot = ctypes.CDLL({!r}).dot; dot.restype = ctypes.c_double; print(dot())"
    code = code.format(str(built))
    if mkl.version < "2023":
        # The kernels that it opens look for the layers' functions in the whole process, where
        # those of an extension module are not.
        failed = mkl.venv.run("python", "-c", code, check=False)
        assert "Cannot load libmkl_def.so." in failed.stderr + failed.stdout
        code = f"import ctypes; ctypes.CDLL({str(built)!r}, ctypes.RTLD_GLOBAL); {code}"
    assert mkl.venv.run("python", "-c", code).stdout == "25.0\n"
    shutil.rmtree(package)


@pytest.mark.tool("gcc", "pkg-config")
@pytest.mark.parametrize("order", [("cblas", "cblas64"), ("cblas64", "cblas")])
def test_both_widths_in_one_program(mkl: Mkl, tmp_path: Path, order: tuple[str, str]) -> None:
    if mkl.version == "2021.4.0":
        # Before 2022 no name of MKL says 64: the layers have the same names for both widths.
        assert "-lmkl_intel_ilp64" in flags(mkl.venv, mkl.folder, "cblas64")[1]
        return
    source = tmp_path / "both.c"
    source.write_text(
        "#include <stdio.h>\n"
        "double cblas_ddot(int, const double *, int, const double *, int);\n"
        "double cblas_ddot64_(long, const double *, long, const double *, long);\n"
        "double ddot_(int *, double *, int *, double *, int *);\n"
        "double ddot_64_(long *, double *, long *, double *, long *);\n"
        "int main(void) { double x[2] = {3, 4};\n"
        "  int n[2] = {2, -1}, i[2] = {1, -1}; long m = 2, j = 1;\n"
        '  printf("%g %g %g %g\\n", cblas_ddot(2, x, 1, x, 1), cblas_ddot64_(2, x, 1, x, 1),\n'
        "         ddot_(n, x, i, x, i), ddot_64_(&m, x, &j, x, &j)); return 0; }\n"
    )
    _, libs = flags(mkl.venv, mkl.folder, *order)
    mkl.venv.run("gcc", source, "-o", tmp_path / "both", *libs)
    assert mkl.venv.run(tmp_path / "both", environ=mkl.environ()).stdout == "25 25 25 25\n"


def test_the_single_library_is_taken_only_when_asked_for(mkl: Mkl) -> None:
    for options in ((), ("mkl",), ("--provider", "mkl")):
        text = mkl.venv.run("blaswheel", "pc", *options).stdout
        assert "-lmkl_core" in text and "-lmkl_rt" not in text
    for options in (("mkl_rt",), ("--threading", "sdl")):
        text = mkl.venv.run("blaswheel", "pc", *options).stdout
        assert "-lmkl_rt" in text and "-lmkl_core" not in text
        assert "Description: Intel oneMKL (LP64: 32-bit integers, sdl)\n" in text


def test_show_tells_what_scipy_needs(mkl: Mkl) -> None:
    shown = mkl.venv.run("blaswheel", "show", "mkl").stdout
    assert "through a hidden argument: SciPy needs -Duse-g77-abi=true" in shown
    advice = mkl.venv.run("blaswheel", "show", "mkl", "--for", "scipy").stdout.splitlines()[0]
    name = "mkl-dynamic-lp64-iomp"
    assert advice == f"-Dblas={name} -Dlapack={name} -Duse-g77-abi=true"


@pytest.mark.parametrize("model", [*MODELS, "sdl"])
def test_verify_loads_all_layers(mkl: Mkl, model: str) -> None:
    done = mkl.venv.run("blaswheel", "verify", "mkl", "--threading", model)
    assert done.stdout.splitlines()[-1].startswith(f"ok: mkl {mkl.version} lp64 *")


def test_a_path_stands_for_the_layers_around_it(mkl: Mkl, tmp_path: Path) -> None:
    path = next(mkl.lib.glob("libmkl_intel_ilp64.so.*"))
    text = mkl.venv.run("blaswheel", "pc", path, "--threading", "seq").stdout
    assert "-lmkl_intel_ilp64 -lmkl_sequential -lmkl_core" in text
    assert "interface=ilp64\n" in text
    core = next(mkl.lib.glob("libmkl_core.so.*"))
    refused = mkl.venv.run("blaswheel", "show", mkl.lib / "libiomp5.so", check=False)
    assert "is no BLAS" in refused.stderr
    assert "libmkl_intel_lp64" in mkl.venv.run("blaswheel", "show", core).stdout


def test_there_is_no_isolated_copy_of_layers(mkl: Mkl, tmp_path: Path) -> None:
    done = mkl.venv.run("blaswheel", "isolate", "mkl", "-o", tmp_path / "copy.so", check=False)
    assert done.returncode == 1
    assert "is made of 4 files" in done.stderr
    assert not (tmp_path / "copy.so").exists()


class Part(NamedTuple):
    without: str
    complaint: str


@pytest.fixture
def partly(venv: Callable[..., Venv], wheels: Wheels, blaswheel_wheel: Path) -> Callable[..., Venv]:
    def make(without: str) -> Venv:
        made = venv()
        files = [wheels.fetch(spec) for spec in specs(NEWEST) if not spec.startswith(without)]
        made.pip_install("--no-index", "--no-deps", blaswheel_wheel, *files)
        return made

    return make


def test_without_headers_the_package_is_named(partly: Callable[..., Venv]) -> None:
    venv = partly("mkl-include")
    done = venv.run("blaswheel", "pc", "--no-verify")
    assert "its headers are in the package mkl-include, which is not here" in done.stderr
    assert "pip install mkl-include" in done.stderr
    assert "-I" not in done.stdout
    assert "headers-missing" in venv.run("blaswheel", "show", "mkl").stdout


def test_without_its_threading_library_a_model_is_not_linkable(
    partly: Callable[..., Venv],
) -> None:
    venv = partly("intel-openmp")
    done = venv.run("blaswheel", "pc", "--threading", "iomp", check=False)
    assert done.returncode == 1
    assert "libiomp5 is not here, which mkl_intel_thread calls: pip install intel-openmp" in (
        done.stderr
    )
    # What is left is chosen in the documented order.
    assert "-lmkl_gnu_thread" in venv.run("blaswheel", "pc", "--no-verify").stdout


COMPLEX = """
program complex_functions
  implicit none
  integer, parameter :: ik = BITS / 8, sp = kind(1e0), dp = kind(1d0)
  integer(ik), parameter :: one = 1, two = 2
  complex(sp), external :: CDOTC, CDOTU
  complex(dp), external :: ZDOTC, ZDOTU
#ifdef CLADIV
  complex(sp), external :: CLADIV
  complex(dp), external :: ZLADIV
#endif
  complex(sp) :: c(2) = [(1, 2), (3, 4)]
  complex(dp) :: z(2) = [(1, 2), (3, 4)]
  complex(sp) :: single
  complex(dp) :: double
  single = CDOTC(two, c, one, c, one)
  write(*, '(2(1x, i0))', advance='no') nint(real(single)), nint(aimag(single))
  single = CDOTU(two, c, one, c, one)
  write(*, '(2(1x, i0))', advance='no') nint(real(single)), nint(aimag(single))
#ifdef CLADIV
  single = CLADIV(c(2) * c(1), c(1))
  write(*, '(2(1x, i0))', advance='no') nint(real(single)), nint(aimag(single))
#endif
  double = ZDOTC(two, z, one, z, one)
  write(*, '(2(1x, i0))', advance='no') nint(real(double)), nint(aimag(double))
  double = ZDOTU(two, z, one, z, one)
  write(*, '(2(1x, i0))', advance='no') nint(real(double)), nint(aimag(double))
#ifdef ZLADIV
  double = ZLADIV(z(2) * z(1), z(1))
  write(*, '(2(1x, i0))', advance='no') nint(real(double)), nint(aimag(double))
#endif
  write(*, *)
end program
"""


@pytest.mark.tool("gfortran", "pkg-config")
@pytest.mark.parametrize(("width", "bits", "suffix"), [("lp64", 32, ""), ("ilp64", 64, "_64")])
@pytest.mark.parametrize("model", ["seq", "sdl"])
def test_complex_functions_as_gfortran_calls_them(
    mkl: Mkl, tmp_path: Path, model: str, width: str, bits: int, suffix: str
) -> None:
    if model == "sdl" and width == "ilp64":
        # mkl_rt has 64-bit integers under names that say so.
        suffix = "_64"
    (tmp_path / "program.F90").write_text(COMPLEX)
    words = ["--interface", width, "--threading", model]
    if width == "ilp64":
        words += ["--symbol-suffix", suffix]
    output = tmp_path / "pc" / "blas.pc"
    if (mkl.version, model, width) == ("2021.4.0", "sdl", "ilp64"):
        # Before 2022 no name of mkl_rt says 64.
        refused = mkl.venv.run("blaswheel", "pc", *words, check=False)
        assert "is LP64, not ILP64" in refused.stderr
        return
    mkl.venv.run("blaswheel", "pc", *words, "--complex-return", "value", "-o", output)
    names = ["CDOTC", "CDOTU", "ZDOTC", "ZDOTU"]
    # Before 2024 there is no zladiv_64.
    has_division = width == "lp64" or mkl.version >= "2024"
    names += ["CLADIV", "ZLADIV"] if has_division else []
    defines = [f"-D{name}={name.lower()}{suffix}" for name in names]
    _, libs = flags(mkl.venv, tmp_path / "pc", "blas")
    program = tmp_path / "program"
    command = ["gfortran", f"-DBITS={bits}", *defines, tmp_path / "program.F90", "-o", program]
    mkl.venv.run(*command, *libs)
    printed = mkl.venv.run(program, environ=mkl.environ()).stdout
    expected = ["30", "0", "-10", "28", *(["3", "4"] if has_division else [])]
    assert printed.split() == expected * 2
    assert "\ncomplex_return=register\n" in output.read_text()
    # The library's own way: gfortran does not understand it.
    mkl.venv.run("blaswheel", "pc", *words, "-o", tmp_path / "pc" / "own.pc")
    assert "\ncomplex_return=argument\n" in (tmp_path / "pc" / "own.pc").read_text()


@pytest.mark.tool("gcc", "pkg-config")
@pytest.mark.parametrize("model", ["seq", "iomp"])
def test_layers_that_are_loaded_first(mkl: Mkl, tmp_path: Path, model: str) -> None:
    """A module without a run path, in a process that loaded the layers for it."""
    if mkl.version == "2021.4.0":
        return  # its kernels are found in programs only, see above
    folder = tmp_path / "pc"
    words = ("--runtime", "preload", "--interface", "lp64", "--threading", model)
    mkl.venv.run("blaswheel", "pc", *words, "-o", folder / "blas.pc")
    _, libs = flags(mkl.venv, folder, "blas")
    (tmp_path / "dot.c").write_text(
        "double cblas_ddot(int, const double *, int, const double *, int);\n"
        "double dot(void) { const double x[2] = {3, 4}; return cblas_ddot(2, x, 1, x, 1); }\n"
    )
    built = tmp_path / "dot.so"
    mkl.venv.run("gcc", "-shared", "-fPIC", tmp_path / "dot.c", "-o", built, *libs)
    load = f"import ctypes; dot = ctypes.CDLL({str(built)!r}).dot; dot.restype = ctypes.c_double"
    assert mkl.venv.run("python", "-c", load, check=False).returncode == 1
    chosen = f"""
import blaswheel
from blaswheel import _preload
wanted = ("lp64", {model!r})
library = next(one for one in blaswheel.find_all()
               if (one.interface, one.threading) == wanted and "mkl_gf" not in one.path)
print(len(_preload.load(library)))
"""
    printed = mkl.venv.run("python", "-c", f"{chosen}\n{load}\nprint(dot())").stdout
    assert printed.split() == ["3" if model == "seq" else "4", "25.0"]


def test_looking_at_the_dispatcher_changes_nothing(mkl: Mkl) -> None:
    """Its first call would load layers, fix the interface, and exit if a layer is missing."""
    (library,) = mkl.lib.glob("libmkl_rt.so*[0-9]")
    code = f"""
import ctypes, blaswheel
rt = ctypes.CDLL({str(library)!r})
maps = lambda: {{line.split()[-1] for line in open("/proc/self/maps") if "libmkl" in line}}
before = maps()
(one,) = blaswheel.loaded().libraries
print(one.threads, maps() == before, rt.MKL_Set_Interface_Layer(1))
"""
    environ = {**mkl.environ(), "MKL_INTERFACE_LAYER": "GNU"}
    assert mkl.venv.run("python", "-c", code, environ=environ).stdout == "None True 1\n"


@pytest.mark.parametrize(
    ("threading", "interface", "threads"),
    [("intel", "lp64", 2), ("sequential", "ilp64", 1), ("tbb", "lp64", None)],
)
def test_what_the_dispatcher_chose(
    mkl: Mkl, threading: str, interface: str, threads: int | None
) -> None:
    """The dispatcher and the layers that it loads are one copy."""
    (library,) = mkl.lib.glob("libmkl_rt.so*[0-9]")
    code = f"""
import ctypes, blaswheel
known = ctypes.CDLL({str(library)!r}).MKL_Get_Max_Threads()
report = blaswheel.loaded()
(one,) = report.libraries
assert report.threads == one.threads == known and one.version
print(one.threading_layer, one.interface, one.threads)
"""
    environ = {**mkl.environ(), "MKL_THREADING_LAYER": threading.upper(),
               "MKL_INTERFACE_LAYER": interface.upper()}  # fmt: skip
    said = mkl.venv.run("python", "-c", code, environ=environ).stdout.split()
    assert said[:2] == [threading, interface]
    # TBB takes as many as there are processors.
    assert threads is None or said[2] == str(threads)


@pytest.mark.tool("gcc")
def test_the_meson_subproject(mkl: Mkl, wheels: Wheels, tmp_path: Path) -> None:
    """Both widths in one project, with all that MKL's layers need from other wheels."""
    if mkl.version != NEWEST:
        return  # the subproject asks for libraries as all else here does
    mkl.venv.pip_install(
        *("--no-index", "--no-deps"), *map(wheels.fetch, ("meson==1.12.1", "ninja==1.13.2"))
    )
    (tmp_path / "meson.build").write_text(
        "project('p', 'c')\n"
        "test('narrow', executable('narrow', 'narrow.c', dependencies: dependency('blas')))\n"
        "test('wide', executable('wide', 'wide.c', dependencies: dependency('lapacke64')))\n"
    )
    (tmp_path / "narrow.c").write_text(
        "double ddot_(const int *, const double *, const int *, const double *, const int *);\n"
        "int main(void) { int n = 2, one = 1; double x[2] = {3, 4};\n"
        "                 return ddot_(&n, x, &one, x, &one) != 25; }\n"
    )
    (tmp_path / "wide.c").write_text(
        "#include <lapacke.h>\n"
        "int main(void) { double a[1] = {2}, b[1] = {4}; lapack_int p[1];\n"
        "                 return sizeof(p[0]) != 8 || b[0] != 4 ||\n"
        "                        LAPACKE_dgesv64_(LAPACK_ROW_MAJOR, 1, 1, a, 1, p, b, 1) != 0 ||\n"
        "                        b[0] != 2; }\n"
    )
    environ = {"PATH": f"{mkl.venv.bin}:{os.environ['PATH']}"}
    mkl.venv.run("blaswheel", "meson", tmp_path)
    for words in (["setup", "build"], ["compile", "-C", "build"], ["test", "-C", "build"]):
        mkl.venv.run("meson", *words, cwd=tmp_path, environ=environ)
