"""``--system``: what the distribution has, by real packages of Debian.

They are unpacked into a folder that is put on ``LD_LIBRARY_PATH`` and ``PKG_CONFIG_PATH``, as a
user without rights to install them does.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from blaswheel import _system
from tests.cli.sites import ILP64, LP64, Blaswheel, fields
from tests.link.compiling import run, with_flags
from tests.providers import debian
from tests.support import Venv

PACKAGES = (
    *("libopenblas0-pthread", "libopenblas-pthread-dev", "libopenblas64-0-pthread"),
    *("libopenblas64-pthread-dev", "libblis4-pthread", "libblis-pthread-dev", "libblas3"),
    *("libblas-dev", "liblapack3", "liblapack-dev", "liblapacke", "liblapacke-dev"),
    "libtmglib3",
    *("libatlas3-base", "libgslcblas0", "libblis64-4-pthread", "libblis64-pthread-dev"),
)
C = """\
#include <cblas.h>
#include <stdio.h>
int main(void)
{
    double x[3] = {1, 2, 3};
    printf("%g\\n", cblas_ddot@(3, x, 1, x, 1));
    return 0;
}
"""
FORTRAN = """\
program main
  double precision :: a(1, 1) = 2, b(1) = 4
  integer :: info = 0, pivot(1)
  call dgesv(1, 1, a, 1, pivot, b, 1, info)
  print '(f3.1)', b(1)
end program
"""

pytestmark = pytest.mark.tool("dpkg", "apt-get")


@pytest.fixture(scope="module")
def libdir() -> Path:
    (folder,) = debian.unpacked(*PACKAGES).glob("usr/lib/*-linux-gnu")
    return folder


@pytest.fixture(scope="module")
def environ(libdir: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The system that a user sees: these packages, and nothing that is installed here."""
    return {
        "LD_LIBRARY_PATH": str(libdir),
        "PKG_CONFIG_PATH": str(libdir / "pkgconfig"),
        "BLASWHEEL_CACHE_DIR": str(tmp_path_factory.mktemp("cache")),
        "OPENBLAS_NUM_THREADS": "1",
    }


def include(libdir: Path) -> Path:
    return libdir.parents[1] / "include" / libdir.name


def listed(blaswheel: Blaswheel, libdir: Path, environ: dict[str, str]) -> dict[str, dict]:
    libraries = json.loads(blaswheel("list", "--json", "--system", environ=environ).stdout)
    return {
        os.path.relpath(one["path"], libdir): one
        for one in libraries["libraries"]
        if Path(one["path"]).is_relative_to(libdir)
    }


def test_list(blaswheel: Blaswheel, libdir: Path, environ: dict[str, str]) -> None:
    found = listed(blaswheel, libdir, environ)
    kinds = {
        path: (one["implementation"], one["interface"], "".join(map(str, one["names"]["lapack"])))
        for path, one in found.items()
    }
    assert kinds["openblas-pthread/libopenblas.so"][:2] == ("openblas", "lp64")
    assert kinds["openblas64-pthread/libopenblas64.so"][:2] == ("openblas", "ilp64")
    assert kinds["blis-pthread/libblis.so"][:2] == ("blis", "unknown")
    reference = found["blas/libblas.so"]
    assert reference["implementation"] == "reference"
    assert {Path(part).parent.name for part in reference["parts"]} >= {"blas", "lapack"}
    assert all(one["provider"] is None for one in found.values())
    # Nobody has a folder named like this on the path: the alternatives chose none.
    assert any(
        defect["code"] == "loader-path"
        for defect in found["openblas-pthread/libopenblas.so"]["defects"]
    )
    table = blaswheel("list", "--system", environ=environ).stdout
    assert str(libdir / "blis-pthread/libblis.so") in table
    without = blaswheel("list", "--json", environ=environ).stdout
    assert json.loads(without)["libraries"] == []


@pytest.mark.parametrize(
    ("options", "folder", "suffix"),
    [
        (("openblas",), "openblas-pthread", ""),
        (("openblas", "--interface", "ilp64"), "openblas64-pthread", "64_"),
        (("blis",), "blis-pthread", ""),
        (("blis", "--interface", "ilp64"), "blis64-pthread", "64_"),
    ],
)
def test_link(
    blaswheel: Blaswheel,
    libdir: Path,
    environ: dict[str, str],
    tmp_path: Path,
    options: tuple[str, ...],
    folder: str,
    suffix: str,
) -> None:
    text = blaswheel("pc", "--system", "--runtime", "absolute", *options, environ=environ).stdout
    assert fields(text)["libdir"] == str(libdir / folder)
    (tmp_path / "openblas.pc").write_text(text, encoding="utf-8")
    source = C.replace("@", suffix)
    if folder == "blis64-pthread":  # its header has a name of its own
        declared = f"double cblas_ddot{suffix}(long, const double *, long, const double *, long);"
        source = source.replace("#include <cblas.h>", declared)
    (tmp_path / "use.c").write_text(source, encoding="ascii")
    program = tmp_path / "use"
    # The alternatives put this header into the compiler's own folder.
    (tmp_path / "openblas64_config.h").write_text("#include <openblas_config.h>\n")
    after = ("-idirafter", tmp_path, "-idirafter", include(libdir) / folder)
    command = ("cc", *after, "-o", program, tmp_path / "use.c")
    with_flags(tmp_path, "--cflags --libs", *command)
    assert run([program]).stdout == "14\n"
    assert str(libdir / folder) in run(["ldd", program]).stdout


@pytest.mark.tool("gfortran")
def test_reference(
    blaswheel: Blaswheel, libdir: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    where = ("--system", "reference")
    assert "lp64" in blaswheel("verify", *where, environ=environ).stdout
    text = blaswheel("pc", "--runtime", "absolute", *where, environ=environ).stdout
    (tmp_path / "openblas.pc").write_text(text, encoding="utf-8")
    (tmp_path / "use.f90").write_text(FORTRAN, encoding="ascii")
    program = tmp_path / "use"
    with_flags(tmp_path, "--libs", "gfortran", "-o", program, tmp_path / "use.f90")
    assert run([program]).stdout == "2.0\n"
    needed = run(["ldd", program]).stdout
    assert str(libdir / "lapack") in needed
    assert str(libdir / "blas/libblas.so.3") in needed


def test_verify(blaswheel: Blaswheel, environ: dict[str, str]) -> None:
    done = blaswheel("verify", "blis", "--system", environ=environ)
    assert "verified by" in done.stdout.splitlines()[-1]
    # What a call has shown is known from then on.
    shown = json.loads(blaswheel("show", "blis", "--system", "--json", environ=environ).stdout)
    assert (shown["interface"], shown["verified"]) == ("lp64", True)


def test_wheels_come_first(
    shared_venv: Callable[..., Venv], libdir: Path, environ: dict[str, str]
) -> None:
    blaswheel = Blaswheel(shared_venv(LP64, ILP64))

    def provider(*options: str, **more: str) -> str:
        text = blaswheel("pc", "--no-verify", *options, environ=environ | more).stdout
        said = fields(text)
        return said["provider"] or said["libdir"]

    wheel, openblas = "scipy-openblas32==0.3.34.481.3", str(libdir / "openblas-pthread")
    assert provider() == provider("--system") == provider("openblas", "--system") == wheel
    assert provider("blis", "--system") == str(libdir / "blis-pthread")
    assert provider(f"{openblas}/libopenblas.so") == openblas
    assert provider(BLASWHEEL_PREFER="system") == openblas
    assert provider(BLASWHEEL_PREFER="wheel") == wheel
    assert provider("--provider", "scipy-openblas32", BLASWHEEL_PREFER="system") == wheel
    said = blaswheel("pc", "--no-verify", "--system", environ=environ).stderr
    assert f"{openblas}/libopenblas.so" in said
    assert blaswheel.error("pc", environ=environ | {"BLASWHEEL_PREFER": "both"}, status=2) == [
        "BLASWHEEL_PREFER is 'both'",
        "it takes wheel or system",
    ]


def test_exec_and_env(
    blaswheel: Blaswheel, libdir: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "use.c").write_text(C.replace("@", ""), encoding="ascii")
    build = f"cc {tmp_path}/use.c -o {tmp_path}/use $(pkg-config --cflags --libs cblas)"
    command = ("sh", "-c", f"{build} && {tmp_path}/use && ldd {tmp_path}/use")
    done = blaswheel("exec", "--system", "blis", "--", *command, environ=environ)
    assert done.stdout.startswith("14\n")
    assert f"{libdir}/blis-pthread/libblis.so.4" in done.stdout
    lines = blaswheel("env", "--system", "blis", environ=environ).stdout
    assert lines.startswith("export PKG_CONFIG_PATH=")


def test_api(blaswheel: Blaswheel, libdir: Path, environ: dict[str, str]) -> None:
    script = (
        "import blaswheel; print(blaswheel.find(system=True).path);"
        "print(len(blaswheel.find_all()), len(blaswheel.find_all(system=True)) > 5)"
    )
    done = blaswheel.venv.run("python", "-c", script, environ=environ)
    assert done.stdout.splitlines() == [
        str(libdir / "openblas-pthread/libopenblas.so"),
        "0 True",
    ]


def test_contradictions(blaswheel: Blaswheel, tmp_path: Path) -> None:
    assert blaswheel.error("list", "--system", "--root", tmp_path, status=2) == [
        "--root looks into a foreign folder, --system at this machine",
        "give one of them",
    ]


@pytest.mark.tool("ldconfig")
@pytest.mark.parametrize("kind", ["new", "compat"])
def test_loader_cache(libdir: Path, tmp_path: Path, kind: str) -> None:
    """What is read of a cache is what ``ldconfig`` prints of it."""
    (tmp_path / "ld.so.conf").write_text(f"{libdir}\n{libdir}/openblas-pthread\n")
    cache = tmp_path / "ld.so.cache"
    made = ["ldconfig", "-X", "-c", kind, "-f", tmp_path / "ld.so.conf", "-C", cache]
    subprocess.run([str(word) for word in made], check=True, capture_output=True)
    printed = run(["ldconfig", "-p", "-C", cache]).stdout
    expected: dict[str, str] = {}
    for line in printed.splitlines()[1:]:
        if " => " in line:
            name, _, path = line.partition(" => ")
            expected.setdefault(name.split()[0], path)
    found = _system.loader_cache(str(cache))
    assert found.items() <= expected.items()
    assert found["libopenblas.so.0"] == str(libdir / "openblas-pthread/libopenblas.so.0")
    assert {name for name in expected if "blas" in name or "lapack" in name} <= found.keys()
    content = cache.read_bytes()
    for cut in range(0, len(content), 1 + len(content) // 40):
        for damaged in (content[:cut], content[:cut] + b"\xff" * 8 + content[cut + 8 :]):
            cache.write_bytes(damaged)
            assert isinstance(_system.loader_cache(str(cache)), dict)
