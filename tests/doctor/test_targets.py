"""What doctor says of wheels and modules, and that the loader agrees."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.sites import LP64, Blaswheel
from tests.support import Venv, Wheels
from tests.wheels.making import library, wheel

pytestmark = pytest.mark.tool("gcc")
MANYLINUX = "manylinux_2_28_x86_64"


@pytest.fixture(scope="module")
def blaswheel(shared_venv: Callable[..., Venv]) -> Blaswheel:
    return Blaswheel(shared_venv())


def findings(blaswheel: Blaswheel, target: Path) -> list[dict[str, Any]]:
    done = blaswheel("doctor", "--json", target, check=False)
    found = json.loads(done.stdout)["findings"]
    assert done.returncode == int(any(one["severity"] == "fatal" for one in found)), done
    assert isinstance(found, list)
    return found


def codes(found: list[dict[str, Any]]) -> list[str]:
    return [one["code"] for one in found]


def loads(path: Path) -> bool:
    """Ask the loader itself."""
    code = f"import ctypes; ctypes.CDLL({str(path)!r})"
    return (
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode
        == 0
    )


# Real wheels.


@pytest.mark.parametrize(
    ("platform", "python"),
    [(MANYLINUX, "3.11"), ("macosx_11_0_arm64", "3.12"), ("win_amd64", "3.12")],
)
def test_numpy_is_healthy(blaswheel: Blaswheel, wheels: Wheels, platform: str, python: str) -> None:
    done = blaswheel("doctor", wheels.fetch("numpy==2.4.6", platform, python))
    assert done.stdout.endswith("\nnothing is wrong\n")
    calls = [line for line in done.stdout.splitlines() if "_umath_linalg" in line]
    assert len(calls) == 1 and "scipy_openblas64_" in calls[0]


def test_scipy(blaswheel: Blaswheel, wheels: Wheels) -> None:
    found = findings(blaswheel, wheels.fetch("scipy==1.17.1", MANYLINUX, "3.11"))
    assert codes(found) == ["leaked-path", "no-origin"]
    assert found[0]["file"].startswith("scipy/special/cython_special.")
    assert "/opt/_internal/" in found[0]["message"]
    assert found[1]["file"].startswith("scipy.libs/libgfortran-")
    assert "libquadmath-" in found[1]["message"]


def test_providers(blaswheel: Blaswheel, wheels: Wheels) -> None:
    assert findings(blaswheel, wheels.fetch(LP64, MANYLINUX)) == []
    leaked = findings(blaswheel, wheels.fetch(LP64, "macosx_11_0_arm64"))
    assert set(codes(leaked)) == {"leaked-path"} and "/opt/gfortran" in leaked[0]["message"]
    needs = findings(blaswheel, wheels.fetch("cmeel-openblas==0.3.31", MANYLINUX))
    assert set(codes(needs)) == {"library-missing"} and "libgfortran.so.5" in needs[0]["message"]


# What a chain of libraries needs: a module, a, b; RPATH is inherited, RUNPATH is not.

A, B = "libdemo_a.so", "libdemo_b.so"


@pytest.mark.parametrize(
    ("module_path", "a_path", "tags", "expected"),
    [
        ("$ORIGIN/../demo.libs", "", "--disable-new-dtags", ["no-origin"]),
        ("$ORIGIN/../demo.libs", "", "--enable-new-dtags", ["no-origin", "library-missing"]),
        ("$ORIGIN/../demo.libs", "$ORIGIN", "--enable-new-dtags", []),
        ("$ORIGIN/../demo.libs", "$ORIGIN", "--disable-new-dtags", []),
        ("", "$ORIGIN", "--enable-new-dtags", ["library-missing"]),
    ],
)
def test_chains(
    blaswheel: Blaswheel,
    tmp_path: Path,
    module_path: str,
    a_path: str,
    tags: str,
    expected: list[str],
) -> None:
    site = tmp_path / "site-packages"
    libs = site / "demo.libs"
    b = library(libs, "int b(void) { return 1; }\n", f"-Wl,-soname,{B}", name=B)
    options = [f"-Wl,-rpath,{a_path}"] if a_path else []
    a = library(libs, "int b(void);\nint a(void) { return b(); }\n", str(b), f"-Wl,-soname,{A}",
                f"-Wl,{tags}", *options, name=A)  # fmt: skip
    options = [f"-Wl,-rpath,{module_path}"] if module_path else []
    module = library(site / "demo", "int a(void);\nint m(void) { return a(); }\n", str(a),
                     f"-Wl,{tags}", *options, name="_m.so")  # fmt: skip
    found = findings(blaswheel, site)
    assert sorted(codes(found)) == sorted(expected)
    assert loads(module) is ("library-missing" not in expected)
    # The same in a wheel.
    made = wheel(tmp_path / "w", {"demo/_m.so": module, f"demo.libs/{A}": a, f"demo.libs/{B}": b})
    assert sorted(codes(findings(blaswheel, made))) == sorted(expected)


def test_run_paths(blaswheel: Blaswheel, tmp_path: Path) -> None:
    cases = {
        "/opt/build/lib": ["leaked-path"],
        "lib": ["leaked-path"],
        "$ORIGIN/../../../open": ["outside-site-packages"],
        "$ORIGIN/../../../open/none/lib": ["outside-site-packages"],
        "$ORIGIN/../../../closed": [],
        "$ORIGIN/../../../closed/none/lib": [],
        "$ORIGIN/../other/lib": [],
        "/usr/lib": [],
    }
    for name, mode in (("open", 0o777), ("closed", 0o755)):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(mode)
    for entry, expected in cases.items():
        site = tmp_path / str(abs(hash(entry))) / "site-packages"
        library(site / "demo", "int m(void) { return 1; }\n", f"-Wl,-rpath,{entry}", name="_m.so")
        found = findings(blaswheel, site)
        assert codes(found) == expected, entry
        assert all(entry in one["message"] for one in found)
    # What is above the environments of others is not known.
    entry = "$ORIGIN/../../../../../closed"
    source = "int m(void) { return 1; }\n"
    module = library(tmp_path, source, f"-Wl,-rpath,{entry}", name="_m.so")
    made = wheel(tmp_path / "w", {"demo/_m.so": module})
    (found,) = findings(blaswheel, made)
    assert found["code"] == "outside-site-packages"
    assert "to wherever others may write" in found["message"]


def test_soname_that_is_no_file(blaswheel: Blaswheel, tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    path = library(site / "demo", "int m(void) { return 1; }\n", "-Wl,-soname,libother.so.0")
    assert codes(findings(blaswheel, site)) == ["soname"]
    (path.parent / "libother.so.0").symlink_to(path.name)
    assert findings(blaswheel, site) == []


def test_pages(blaswheel: Blaswheel, tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    path = library(site / "demo", "int m(void) { return 1; }\n", name="_m.so")
    data = bytearray(path.read_bytes())
    # The third PT_LOAD, of constants only, eight bytes further than its offset allows.
    start = int.from_bytes(data[32:40], "little")
    headers = [start + 56 * number for number in range(int.from_bytes(data[56:58], "little"))]
    at = [at for at in headers if data[at] == 1][2] + 16
    address = int.from_bytes(data[at : at + 8], "little")
    data[at : at + 8] = (address + 8).to_bytes(8, "little")
    path.write_bytes(data)
    assert "page-alignment" in codes(findings(blaswheel, site))
    assert not loads(path)


@pytest.mark.tool("aarch64-linux-gnu-gcc")
def test_small_pages_of_another_machine(blaswheel: Blaswheel, tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    (site / "demo").mkdir(parents=True)
    (tmp_path / "m.c").write_text("int m(void) { return 1; }\n")
    for size, expected in (("4096", ["page-size"]), ("65536", [])):
        words = ["aarch64-linux-gnu-gcc", "-shared", "-fPIC", "-nostdlib", "m.c",
                 f"-Wl,-z,max-page-size={size}", "-o", site / "demo" / "_m.so"]  # fmt: skip
        subprocess.run(words, cwd=tmp_path, check=True)
        assert codes(findings(blaswheel, site)) == expected


# Which BLAS.


@pytest.fixture(scope="module")
def openblas(wheels: Wheels) -> Path:
    (path,) = wheels.unpacked(LP64, MANYLINUX).rglob("libscipy_openblas.so")
    return path


def blas_module(site: Path, openblas: Path, source: str, *options: str) -> Path:
    target = site / "scipy_openblas32" / "lib" / openblas.name
    if not target.exists():
        target.parent.mkdir(parents=True)
        shutil.copy(openblas, target)
    return library(site / "demo", source, str(target), "-Wl,-rpath,$ORIGIN/../scipy_openblas32/lib",
                   *options, name="_m.so")  # fmt: skip


def test_what_a_module_calls(blaswheel: Blaswheel, openblas: Path, tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    source = "void scipy_dgemm_(void);\nvoid m(void) { scipy_dgemm_(); }\n"
    module = blas_module(site, openblas, source)
    said = blaswheel("doctor", module).stdout.splitlines()
    calls = "demo/_m.so: 1 names of the BLAS (scipy_dgemm_), of"
    assert said[0] == f"{calls} scipy_openblas32/lib/libscipy_openblas.so"
    assert loads(module)
    # A name that the library lacks; found when it is called at the latest.
    source = (
        "void scipy_dgemm_(void), scipy_cblas_sbgemm(void), scipy_cblas_srotx(void);\n"
        "void scipy_sbgemm_(void), scipy_slarf1f_(void);\n"
        "void m(void) { scipy_dgemm_(); scipy_slarf1f_(); }\n"
    )
    blas_module(site, openblas, source, "-Wl,--unresolved-symbols=ignore-all", "-Wl,-z,lazy")
    found = findings(blaswheel, site)
    assert codes(found) in (["blas-undefined"], [])
    listed = json.loads(blaswheel("doctor", "--json", site, check=False).stdout)["blas"]
    assert listed[0]["library"] == "scipy_openblas32/lib/libscipy_openblas.so"


def test_a_name_that_the_library_lacks(blaswheel: Blaswheel, tmp_path: Path) -> None:
    """A BLAS without one of its routines."""
    from blaswheel import _routines

    site = tmp_path / "site-packages"
    stems = sorted(_routines.routines("blas") - {"dtrsm"})
    source = "".join(f"void {stem}_(void) {{}}\n" for stem in stems)
    blas = library(site / "demo.libs", source, "-Wl,-soname,libblas.so", name="libblas.so")
    module = library(
        site / "demo",
        "void dgemm_(void), dtrsm_(void);\nvoid m(void) { dgemm_(); dtrsm_(); }\n",
        *(str(blas), "-Wl,-rpath,$ORIGIN/../demo.libs", "-Wl,-z,now"),
        *("-Wl,--unresolved-symbols=ignore-all",),
        name="_m.so",
    )
    (one,) = findings(blaswheel, site)
    assert one["code"] == "blas-undefined"
    assert (
        "imports 2 names of the BLAS, 1 of which demo.libs/libblas.so lacks (dtrsm_)"
        in one["message"]
    )
    assert not loads(module)


def test_wide_integers_under_plain_names(blaswheel: Blaswheel, tmp_path: Path) -> None:
    from blaswheel import _routines

    site = tmp_path / "site-packages"
    source = "".join(f"void {stem}_(void) {{}}\n" for stem in sorted(_routines.routines("blas")))
    blas = library(site / "demo.libs", source, "-Wl,-soname,libblas64.so", name="libblas64.so")
    library(site / "demo", "void dgemm_(void);\nvoid m(void) { dgemm_(); }\n", str(blas),
            "-Wl,-rpath,$ORIGIN/../demo.libs", name="_m.so")  # fmt: skip
    (one,) = findings(blaswheel, site)
    assert one["code"] == "ilp64-unsuffixed" and "dgemm_" in one["message"]


def requiring(made: Path, requires: list[str]) -> Path:
    """Let a wheel require these."""
    with zipfile.ZipFile(made) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    metadata = "demo-1.0.dist-info/METADATA"
    content[metadata] += "".join(f"Requires-Dist: {one}\n" for one in requires).encode()
    with zipfile.ZipFile(made, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return made


@pytest.mark.parametrize(
    ("requires", "expected"),
    [
        ([], ["requires-missing"]),
        (["scipy-openblas32"], ["requires-unbounded"]),
        (["scipy_openblas32>=0.3.30"], ["requires-unbounded"]),
        (["scipy-openblas32==0.3.34.481.3; extra == 'blas'"], ["requires-missing"]),
        (["scipy-openblas32==0.3.34.481.3"], []),
        (["scipy-openblas32>=0.3.30,<0.4"], []),
    ],
)
def test_a_library_of_another_wheel(
    blaswheel: Blaswheel, openblas: Path, tmp_path: Path, requires: list[str], expected: list[str]
) -> None:
    source = "void scipy_dgemm_(void);\nvoid m(void) { scipy_dgemm_(); }\n"
    module = blas_module(tmp_path / "site-packages", openblas, source)
    made = requiring(wheel(tmp_path / "w", {"demo/_m.so": module}), requires)
    assert codes(findings(blaswheel, made)) == expected
    # What it calls is told as well, though the library is in no wheel of this project's.
    (use,) = json.loads(blaswheel("doctor", "--json", made, check=False).stdout)["blas"]
    assert use["names"] == ["scipy_dgemm_"]
    assert use["library"] is None
    assert use["expected"] == "scipy_openblas32/lib/libscipy_openblas.so"
    said = blaswheel("doctor", made, check=False).stdout.splitlines()
    assert said[0].endswith("scipy_openblas32/lib/libscipy_openblas.so, which is not in here")


@pytest.mark.parametrize(
    ("requires", "expected"), [([], ["requires-missing"] * 2), (["mkl==2026.2.0"], [])]
)
def test_a_library_in_the_environments_lib_folder(
    blaswheel: Blaswheel, tmp_path: Path, requires: list[str], expected: list[str]
) -> None:
    """MKL's wheel puts its libraries beside lib/python3.x/site-packages, and so does any venv."""
    lib = tmp_path / "prefix" / "lib"
    site = lib / "python3.11" / "site-packages"
    core = library(lib, "int core(void) { return 1; }\n", "-Wl,-soname,libmkl_core.so.3",
                   name="libmkl_core.so.3")  # fmt: skip
    source = "int core(void);\nint layer(void) { return core(); }\n"
    layer = library(lib, source, str(core), "-Wl,-soname,libmkl_lp64.so.3",
                    "-Wl,-rpath,$ORIGIN", name="libmkl_lp64.so.3")  # fmt: skip
    module = library(
        *(
            site / "demo",
            "int layer(void), core(void);\nint m(void) { return layer() + core(); }\n",
        ),
        *(str(layer), str(core), "-Wl,-rpath,$ORIGIN/../../.."),
        name="_m.so",
    )
    assert loads(module)
    assert findings(blaswheel, site) == []
    assert findings(blaswheel, module) == []
    # A wheel does not have them.
    made = requiring(wheel(tmp_path / "w", {"demo/_m.so": module}), requires)
    assert codes(findings(blaswheel, made)) == expected
    core.unlink()
    assert set(codes(findings(blaswheel, site))) == {"library-missing"}


def test_mkl_without_its_layers(blaswheel: Blaswheel, tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    library(site / "demo.libs", "int m(void) { return 1; }\n", name="libmkl_rt-1234.so.2")
    assert codes(findings(blaswheel, site)) == ["mkl-alone"]
    library(site / "demo.libs", "int m(void) { return 1; }\n", name="libmkl_core.so.2")
    assert findings(blaswheel, site) == []


# What can't be examined.


def test_damaged_files(blaswheel: Blaswheel, tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    site.mkdir()
    (site / "x.so").write_bytes(b"\x7fELF" + bytes(40))
    (site / "y.so").write_bytes(b"")
    assert codes(findings(blaswheel, site)) == ["unreadable", "unreadable"]
    assert "no such file" in blaswheel.error("doctor", tmp_path / "nowhere")[0]
    (tmp_path / "empty").mkdir()
    assert "no library" in blaswheel.error("doctor", tmp_path / "empty")[0]
    (tmp_path / "empty" / "text").write_text("no library\n")
    said = blaswheel("doctor", tmp_path / "empty" / "text").stdout
    assert "unreadable" in said and "not a library of a known format" in said
    broken = tmp_path / "a-1-py3-none-any.whl"
    broken.write_bytes(b"PK")
    assert str(broken) in blaswheel.error("doctor", broken)[0]


def test_text_has_what_and_how(blaswheel: Blaswheel, tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    library(site / "demo", "int m(void) { return 1; }\n", "-Wl,-rpath,/opt/x", name="_m.so")
    said = blaswheel("doctor", site).stdout.splitlines()
    assert said[0].startswith("warning: demo/_m.so has the run path /opt/x")
    assert said[0].endswith("[leaked-path]") and said[1].startswith("  ")
    assert "TARGET" in blaswheel.error("doctor", site, "--project", tmp_path, status=2)[0]
