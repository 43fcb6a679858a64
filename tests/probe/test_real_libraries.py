"""Every real library that this machine can load gets the integer width that it is known to have.

The widths are those that programs linked to them, or calls through ctypes, have shown.
"""

from __future__ import annotations

import glob
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from blaswheel import _library, _verify
from blaswheel._library import Library
from blaswheel._verdict import Verdict
from tests.build_wheel import cache, lock
from tests.support import Venv, Wheels

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine != "x86_64",
    reason="the libraries are those of Linux on x86-64",
)


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BLASWHEEL_CACHE_DIR", str(tmp_path / "cache"))
    for name in list(os.environ):
        if name.startswith(("OPENBLAS_", "MKL_", "OMP_", "NVPL_", "BLIS_")):
            monkeypatch.delenv(name)


def examined(path: Path) -> Library:
    """Return the one file at ``path`` as a library, without the others that it may belong to."""
    library = _library.examine(str(path), None, ())
    assert library is not None
    return library


def only(folder: Path, pattern: str) -> Path:
    (found,) = glob.glob(str(folder / pattern))
    return Path(found)


def widths(verdict: Verdict) -> dict[str, str]:
    """Return the width per API, of the names that come first, and check that all agree."""
    assert verdict.ok, f"{verdict.failure}\n{verdict.hint}\n{verdict.errors}"
    told: dict[str, str] = {}
    for family, interface in verdict.interfaces:
        told.setdefault(family.api, interface)
    return told


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("spec", "pattern", "interface"),
    [
        ("scipy-openblas32==0.3.23.293.2", "scipy_openblas32/lib/lib*.so", "lp64"),
        ("scipy-openblas64==0.3.23.293.2", "scipy_openblas64/lib/lib*.so", "ilp64"),
        ("scipy-openblas32==0.3.27.44.6", "scipy_openblas32/lib/lib*.so", "lp64"),
        ("scipy-openblas64==0.3.27.44.6", "scipy_openblas64/lib/lib*.so", "ilp64"),
        ("scipy-openblas32==0.3.31.22.1", "scipy_openblas32/lib/lib*.so", "lp64"),
        ("scipy-openblas64==0.3.31.22.1", "scipy_openblas64/lib/lib*.so", "ilp64"),
        ("scipy-openblas32==0.3.34.481.3", "scipy_openblas32/lib/lib*.so", "lp64"),
        ("scipy-openblas64==0.3.34.481.3", "scipy_openblas64/lib/lib*.so", "ilp64"),
        ("numpy==1.26.4", "numpy.libs/libopenblas*.so", "ilp64"),
        ("numpy==2.4.6", "numpy.libs/libscipy_openblas*.so", "ilp64"),
        ("scipy==1.17.1", "scipy.libs/libscipy_openblas*.so", "lp64"),
    ],
)
def test_openblas_of_wheels(wheels: Wheels, spec: str, pattern: str, interface: str) -> None:
    folder = wheels.unpacked(spec, python="3.11")
    path = next(
        Path(path)
        for path in sorted(glob.glob(str(folder / pattern)))
        if "gfortran" not in path and "quadmath" not in path
    )
    library = examined(path)
    # Vendored libraries need others of their folder by a name that only a package's loader knows.
    verdict = _verify.verify(library, preload=vendored(path.parent))
    assert set(widths(verdict).values()) == {interface}
    assert set(widths(verdict)) >= {"blas", "lapack", "cblas"}
    assert verdict.complex_return == "register"
    assert verdict.float_return == "float"
    assert verdict.calls >= 6
    assert verdict.version is not None
    assert verdict.version.startswith("0.3.")
    assert _verify.verify(library, preload=vendored(path.parent)).cached


def vendored(folder: Path) -> list[str]:
    return [str(path) for stem in ("quadmath", "gfortran") for path in folder.glob(f"*{stem}*")]


class Debian:
    """Packages of this machine's distribution, unpacked beside each other, not installed."""

    def unpacked(self, package: str) -> Path:
        folder = cache() / "debs" / package
        folder.parent.mkdir(exist_ok=True)
        with lock(folder.with_name(f"{package}.lock")):
            if not folder.is_dir():
                with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
                    done = subprocess.run(
                        ["apt-get", "download", package],
                        cwd=temporary,
                        capture_output=True,
                        text=True,
                        check=False,
                    )
                    debs = list(Path(temporary).glob("*.deb"))
                    if len(debs) != 1:
                        pytest.fail(f"apt-get download {package}: {done.stderr}", pytrace=False)
                    target = Path(temporary) / "unpacked"
                    subprocess.run(["dpkg", "-x", debs[0], target], check=True)
                    target.rename(folder)
        return folder / "usr" / "lib" / "x86_64-linux-gnu"

    def file(self, place: str) -> Path:
        """Return the file of ``package:pattern``."""
        package, _, pattern = place.partition(":")
        return only(self.unpacked(package), pattern)


@pytest.fixture(scope="session")
def debian() -> Debian:
    return Debian()


@pytest.mark.corpus
@pytest.mark.tool("apt-get", "dpkg", "gfortran")
@pytest.mark.parametrize(
    ("place", "needs", "expected"),
    [
        ("libopenblas0-pthread:openblas-pthread/libopenblasp-r*.so", [], "blas lapack cblas: lp64"),
        ("libopenblas0-openmp:openblas-openmp/libopenblasp-r*.so", [], "blas lapack cblas: lp64"),
        ("libopenblas0-serial:openblas-serial/libopenblas-r*.so", [], "blas lapack cblas: lp64"),
        ("libopenblas0-pthread:openblas-pthread/libblas.so.3", [], "blas cblas: lp64"),
        ("libopenblas0-pthread:openblas-pthread/liblapack.so.3", [], "lapack: lp64"),
        (
            "libopenblas64-0-pthread:openblas64-pthread/libopenblas64p-r*.so",
            [],
            "blas lapack cblas: ilp64",
        ),
        ("libopenblas64-0-pthread:openblas64-pthread/liblapack64.so.3", [], "lapack: ilp64"),
        ("libblis4-pthread:blis-pthread/libblis.so.4", [], "blas cblas: lp64"),
        ("libblis4-pthread:blis-pthread/libblas.so.3", [], "blas cblas: lp64"),
        ("libblis64-4-pthread:blis64-pthread/libblis64.so.4", [], "blas cblas: ilp64"),
        ("libblas3:blas/libblas.so.3", [], "blas cblas: lp64"),
        ("libblas64-3:blas64/libblas64.so.3", [], "blas cblas: ilp64"),
        ("liblapack3:lapack/liblapack.so.3", ["libblas3:blas/libblas.so.3"], "lapack: lp64"),
        (
            "liblapack64-3:lapack64/liblapack64.so.3",
            ["libblas64-3:blas64/libblas64.so.3"],
            "lapack: ilp64",
        ),
        (
            "liblapacke:liblapacke.so.3",
            [
                "libblas3:blas/libblas.so.3",
                "liblapack3:lapack/liblapack.so.3",
                "libtmglib3:libtmglib.so.3",
            ],
            "lapacke: lp64",
        ),
        (
            "liblapacke64:liblapacke64.so.3",
            [
                "libblas64-3:blas64/libblas64.so.3",
                "liblapack64-3:lapack64/liblapack64.so.3",
                "libtmglib64-3:libtmglib64.so.3",
            ],
            "lapacke: ilp64",
        ),
        (
            "libatlas3-base:atlas/libblas.so.3",
            ["libatlas3-base:libatlas.so.3"],
            "blas cblas: lp64",
        ),
        (
            "libatlas3-base:atlas/liblapack.so.3",
            ["libatlas3-base:libatlas.so.3", "libatlas3-base:atlas/libblas.so.3"],
            "lapack: lp64",
        ),
        ("libatlas3-base:libcblas.so.3", ["libatlas3-base:libatlas.so.3"], "cblas: lp64"),
        ("libatlas3-base:libf77blas.so.3", ["libatlas3-base:libatlas.so.3"], "blas: lp64"),
    ],
)
def test_libraries_of_debian(debian: Debian, place: str, needs: list[str], expected: str) -> None:
    preload = [str(debian.file(need)) for need in needs]
    library = examined(debian.file(place))
    if needs:
        alone = _verify.verify(library)
        assert not alone.ok
        assert "cannot open shared object file" in alone.failure
    verdict = _verify.verify(library, preload=preload)
    apis, _, interface = expected.partition(": ")
    assert widths(verdict) == dict.fromkeys(apis.split(), interface)
    assert verdict.complex_return in ("register", None)
    assert verdict.float_return in ("float", None)


@pytest.fixture(scope="session")
def mkl(tmp_path_factory: pytest.TempPathFactory, wheels: Wheels) -> Path:
    """The folder of MKL's libraries, as pip installs them beside each other."""
    made = Venv(tmp_path_factory.mktemp("mkl") / "venv")
    specs = ("mkl==2026.2.0", "intel-openmp==2026.2.0")
    made.pip_install("--no-index", "--no-deps", *map(wheels.fetch, specs))
    return made.path / "lib"


@pytest.mark.corpus
def test_mkl_has_both_widths_under_two_suffixes(mkl: Path) -> None:
    library = examined(only(mkl, "libmkl_rt.so.*"))
    verdict = _verify.verify(library)
    assert verdict.ok, verdict.failure
    assert {interface for family, interface in verdict.interfaces if "64" not in family.suffix} == {
        "lp64"
    }
    assert {
        interface
        for family, interface in verdict.interfaces
        if "64" in family.suffix and interface != "unknown"
    } == {"ilp64"}
    assert verdict.complex_return == "argument"
    assert verdict.version is not None
    assert verdict.version.startswith("2026.")


@pytest.mark.corpus
@pytest.mark.parametrize("layer", ["LP64", "ILP64"])
def test_mkl_follows_its_interface_layer(
    mkl: Path, monkeypatch: pytest.MonkeyPatch, layer: str
) -> None:
    monkeypatch.setenv("MKL_INTERFACE_LAYER", layer)
    library = examined(only(mkl, "libmkl_rt.so.*"))
    verdict = _verify.verify(library, as_is=True)
    assert set(widths(verdict).values()) == {layer.lower()}
    # What a shell happens to hold has no say otherwise.
    assert set(widths(_verify.verify(library)).values()) == {"lp64"}


@pytest.mark.corpus
def test_mkl_that_ends_the_process_is_a_verdict(mkl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MKL_INTERFACE_LAYER", "GNU")
    verdict = _verify.verify(examined(only(mkl, "libmkl_rt.so.*")), as_is=True)
    assert not verdict.ok
    assert verdict.failure.startswith("ended the process with exit status 2")
    assert "libmkl_gf_lp64" in verdict.errors


@pytest.mark.corpus
@pytest.mark.parametrize("interface", ["lp64", "ilp64"])
def test_mkl_in_layers(mkl: Path, interface: str) -> None:
    library = examined(only(mkl, f"libmkl_intel_{interface}.so.*"))
    alone = _verify.verify(library)
    assert not alone.ok
    assert "undefined symbol" in alone.failure
    layers = [str(only(mkl, f"libmkl_{layer}.so.*")) for layer in ("core", "sequential")]
    verdict = _verify.verify(library, preload=layers)
    assert set(widths(verdict).values()) == {interface}


@pytest.mark.corpus
def test_two_widths_in_one_scope_crash_and_verify_shows_it(
    shared_venv: Callable[..., Venv],
) -> None:
    venv = shared_venv("scipy-openblas32==0.3.34.481.3", "scipy-openblas64==0.3.34.481.3")
    done = venv.run(
        "blaswheel", "verify", "scipy-openblas32", "--against", "scipy-openblas64", check=False
    )
    assert done.returncode == 1
    last = done.stdout.splitlines()[-1]
    assert (
        "(in one scope: scipy-openblas64 0.3.34.481.3, then scipy-openblas32 0.3.34.481.3)" in last
    )
    assert "blaswheel isolate" in done.stderr
    shown = venv.run("blaswheel", "show", "scipy-openblas64").stdout
    assert "namespace-leak" in shown


@pytest.mark.corpus
def test_verify_of_an_installed_provider(shared_venv: Callable[..., Venv]) -> None:
    venv = shared_venv("scipy-openblas64==0.3.34.481.3")
    done = venv.run("blaswheel", "verify", "--numerics", "--fork", "--no-cache", timeout=200)
    assert done.stdout.splitlines()[-1] == (
        "ok: scipy-openblas64 0.3.34.481.3 ilp64 scipy_*64_ verified by 8 calls"
    )
    rows = {line.split("  ")[1]: line for line in done.stdout.splitlines() if line[:2] == "  "}
    for row in ("headers, cblas", "headers, lapacke", "plain headers, lapacke"):
        assert "ilp64" in rows[row]
    assert "ok" in rows["fork"]
    assert "ok" in rows["numerics, all threads"]


@pytest.mark.corpus
def test_every_kernel_set_that_this_processor_can_run(shared_venv: Callable[..., Venv]) -> None:
    venv = shared_venv("scipy-openblas64==0.3.34.481.3")
    done = venv.run("blaswheel", "verify", "--cores", timeout=250)
    rows = [line for line in done.stdout.splitlines() if line.startswith("  core ")]
    assert any("core Nehalem" in row for row in rows)
    assert all(" ok " in row for row in rows)
    # A name stands for one kernel set: none is run twice.
    names = [row.split()[1] for row in rows]
    assert len(names) == len(set(names))
