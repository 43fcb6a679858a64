"""NumPy's released source, unchanged, finds the BLAS of an installed wheel and works with it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.consumers.building import binaries, dynamic, imports, needed, unpacked
from tests.readme import Newcomer
from tests.support import Venv, Wheels, clean_environment

NUMPY = "2.4.6"
LP64, ILP64 = "scipy-openblas32==0.3.34.481.3", "scipy-openblas64==0.3.34.481.3"
LP64_FILE, ILP64_FILE = "libscipy_openblas.so", "libscipy_openblas64_.so"
OPENBLAS = ("-Dblas=openblas", "-Dlapack=openblas", "-Dallow-noblas=false")
WIDE = ("-Duse-ilp64=true", "-Dblas-symbol-suffix=64_")
#: The macros by which NumPy's sources name the routines and their integers.
NAMING = re.compile(r"-D(BLAS_SYMBOL|HAVE_BLAS_ILP64|OPENBLAS_ILP64|NO_APPEND|ACCELERATE).*")
ILP64_MACROS = {
    "-DBLAS_SYMBOL_SUFFIX=64_",
    "-DHAVE_BLAS_ILP64",
    "-DOPENBLAS_ILP64_NAMING_SCHEME",
}

# To set NumPy up takes ten seconds, and minutes where much else runs.
pytestmark = pytest.mark.timeout(900)


def new_enough_python() -> str:
    """Return a Python that this NumPy builds with."""
    if sys.version_info >= (3, 11):
        return sys.executable
    found = filter(None, (shutil.which(f"python3.{minor}") for minor in (14, 13, 12, 11)))
    return next(found, None) or pytest.fail(f"NumPy {NUMPY} needs Python 3.11 or newer")


class Configured:
    """A build folder of NumPy that Meson has set up."""

    def __init__(self, folder: Path, printed: str) -> None:
        self.folder = folder
        self.printed = printed

    def _read(self, name: str) -> list[dict[str, Any]]:
        path = self.folder / "meson-info" / f"intro-{name}.json"
        content: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        return content

    def dependency(self, name: str) -> dict[str, Any]:
        """Return what Meson knows of a dependency."""
        return next(each for each in self._read("dependencies") if each["name"] == name)

    def linalg(self) -> dict[str, Any]:
        """Return what Meson knows of the module that calls LAPACK."""
        return next(each for each in self._read("targets") if "_umath_linalg" in each["name"])

    def naming(self) -> set[str]:
        """Return the macros with which that module is compiled."""
        sources = self.linalg()["target_sources"]
        arguments = {each for source in sources for each in source.get("parameters", ())}
        return {each for each in arguments if NAMING.fullmatch(each)}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, wheels: Wheels) -> Path:
    """Return NumPy's source as it was released."""
    folder = tmp_path_factory.mktemp("numpy") / "source"
    return unpacked(wheels.sdist(f"numpy=={NUMPY}"), folder)


@pytest.fixture
def configure(source: Path, tmp_path: Path) -> Callable[..., Configured]:
    """Set NumPy up with its own Meson: ``configure(*options, before=(), environ={})``."""

    def run(
        *options: str, before: tuple[str | Path, ...] = (), environ: dict[str, str] | None = None
    ) -> Configured:
        folder = tmp_path / "build"
        meson = source / "vendored-meson" / "meson" / "meson.py"
        command = [*before, new_enough_python(), meson, "setup", folder, source, *options]
        done = subprocess.run(
            command,
            capture_output=True,
            check=False,
            env=clean_environment() | (environ or {}),
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return Configured(folder, done.stdout)

    return run


@pytest.fixture
def both(shared_venv: Callable[..., Venv]) -> Venv:
    """Return an environment in which LP64 and ILP64 are installed."""
    return shared_venv(LP64, ILP64)


@pytest.mark.tool("cc", "c++", "pkg-config", "readelf", "nm")
def test_lp64_is_found_and_stays_lp64_with_both_installed(
    both: Venv, configure: Callable[..., Configured]
) -> None:
    exec_ = (both.bin / "blaswheel", "exec", "--depth", "2", "--")
    build = configure(*OPENBLAS, before=exec_)
    assert "Run-time dependency openblas found: YES" in build.printed
    found = build.dependency("openblas")
    assert f"-Wl,-L{both.site_packages}/scipy_openblas32/lib" in found["link_args"]
    assert build.naming() == set()

    # The one module that calls LAPACK, linked.
    (module,) = map(Path, build.linalg()["filename"])
    target = module.relative_to(build.folder)
    subprocess.run(["ninja", "-C", build.folder, target], capture_output=True, check=True)
    assert LP64_FILE in needed(module)
    assert ILP64_FILE not in needed(module)
    names = imports(module)
    assert {"scipy_dgesv_", "scipy_dgesdd_"} <= names
    assert not any("64_" in name for name in names if name.startswith("scipy_"))
    assert dynamic(module, "RUNPATH") == ["$ORIGIN/../../scipy_openblas32/lib"]


@pytest.mark.tool("cc", "c++", "pkg-config")
@pytest.mark.parametrize(
    ("options", "name", "library", "macros"),
    [
        (OPENBLAS, "openblas", f"scipy_openblas32/lib/{LP64_FILE}", set()),
        ((*OPENBLAS, *WIDE), "openblas64", f"scipy_openblas64/lib/{ILP64_FILE}", ILP64_MACROS),
    ],
    ids=["lp64", "ilp64"],
)
def test_a_folder_with_both_interfaces_gives_the_one_that_is_asked_for(
    both: Venv,
    configure: Callable[..., Configured],
    tmp_path: Path,
    options: tuple[str, ...],
    name: str,
    library: str,
    macros: set[str],
) -> None:
    folder = tmp_path / "pc"
    both.run("blaswheel", "pc", "--dir", folder)
    build = configure(*options, environ={"PKG_CONFIG_PATH": str(folder)})
    assert f"{both.site_packages}/{library}" in build.dependency(name)["link_args"]
    assert build.naming() == macros


@pytest.mark.tool("cc", "c++", "pkg-config")
def test_native_ilp64_needs_the_suffix_alone(
    both: Venv, configure: Callable[..., Configured], tmp_path: Path
) -> None:
    folder = tmp_path / "pc"
    both.run(
        *("blaswheel", "pc", "--native", "--for", "numpy", "--interface", "ilp64", "--dir", folder)
    )
    build = configure("-Dblas-symbol-suffix=64_", environ={"PKG_CONFIG_PATH": str(folder)})
    assert "Run-time dependency scipy-openblas found: YES" in build.printed
    library = f"{both.site_packages}/scipy_openblas64/lib/{ILP64_FILE}"
    assert library in build.dependency("scipy-openblas")["link_args"]
    assert build.naming() == ILP64_MACROS | {"-DBLAS_SYMBOL_PREFIX=scipy_"}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("pc", "--interface", "ilp64"), (*OPENBLAS, *WIDE)),
        (("pc", "--interface", "ilp64", "-o", "openblas64.pc"), (*OPENBLAS, *WIDE)),
        (("pc", "--dir", "pc"), (*OPENBLAS, *WIDE)),
        (("pc", "--symbol-suffix", "_64"), ("-Duse-ilp64=true", "-Dblas-symbol-suffix=_64")),
        (("pc", "--interface", "ilp64", "--symbol-suffix="), ("-Dblas-symbol-suffix=",)),
        (("pc", "--native", "--interface", "ilp64"), ("-Dblas-symbol-suffix=64_",)),
        (("pc", "--native", "--dir", "pc"), ("-Dblas-symbol-suffix=64_",)),
    ],
    ids=" ".join,
)
def test_stderr_tells_what_numpy_needs_with_ilp64(
    both: Venv, tmp_path: Path, arguments: tuple[str, ...], told: tuple[str, ...]
) -> None:
    done = both.run("blaswheel", *arguments, cwd=tmp_path)
    (line,) = [line for line in done.stderr.splitlines() if "for NumPy" in line]
    assert set(told) <= set(line.split())


def test_stderr_does_not_speak_of_numpy_with_lp64(both: Venv) -> None:
    assert "NumPy" not in both.run("blaswheel", "pc").stderr


class Installed:
    """A NumPy built as README.md says, in an environment where nothing of the build is left."""

    def __init__(self, wheel: Path, venv: Venv, provider: str, build_folder: str) -> None:
        self.wheel = wheel
        self.venv = venv
        self.provider = provider
        self.build_folder = build_folder

    def binaries(self) -> Iterator[Path]:
        """Yield every ELF file of the installed NumPy."""
        return binaries(self.venv.site_packages / "numpy")

    @property
    def linalg(self) -> Path:
        """The module that calls LAPACK."""
        (path,) = (self.venv.site_packages / "numpy" / "linalg").glob("_umath_linalg*.so")
        return path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, wheels: Wheels) -> Installed:
    """Build NumPy by README.md's block, remove all that built it, and install the wheel."""
    folder = tmp_path_factory.mktemp("build")
    newcomer = Newcomer(folder / "blaswheel", new_enough_python())
    # Without the second to fifth version, for newer CPUs, of what has no BLAS in it: most of the
    # build's time.
    quick = {"pip wheel": "-Csetup-args=-Dcpu-dispatch=none"}
    newcomer.run("install", "shell", "numpy", options=quick, timeout=1700)
    (wheel,) = newcomer.folder.glob("numpy-*.whl")
    (info,) = newcomer.folder.glob("venv/lib/python3*/site-packages/scipy_openblas64-*.dist-info")
    version = info.name.removesuffix(".dist-info").rpartition("-")[2]
    kept = tmp_path_factory.mktemp("kept")
    wheel = Path(shutil.move(wheel, kept))
    shutil.rmtree(folder)
    venv = Venv(kept / "venv", new_enough_python())
    provider = wheels.fetch(f"scipy-openblas64=={version}")
    venv.pip_install("--no-index", "--no-deps", wheel, provider)
    venv.pip_install("pytest", "hypothesis")
    return Installed(wheel, venv, version, str(folder))


FULL = [
    # The build takes four minutes on two processors where nothing else runs.
    pytest.mark.timeout(1800),
    pytest.mark.tool("bash", "cc", "c++", "pkg-config", "readelf", "nm"),
]


class TestBuiltAsTheReadmeSays:
    """The one full build."""

    pytestmark = FULL

    def test_it_finds_only_the_provider_beside_it(self, built: Installed) -> None:
        for path in built.binaries():
            entries = [each for value in dynamic(path, "RUNPATH") for each in value.split(":")]
            assert dynamic(path, "RPATH") == []
            if ILP64_FILE in needed(path):
                assert entries == ["$ORIGIN/../../scipy_openblas64/lib"], path
            else:
                assert all(each.startswith("$ORIGIN") for each in entries), path

    def test_no_path_of_the_build_is_in_a_binary(self, built: Installed) -> None:
        binaries = list(built.binaries())
        assert len(binaries) > 10
        found = [path for path in binaries if built.build_folder.encode() in path.read_bytes()]
        assert found == []

    def test_it_calls_the_native_names_with_wide_integers(self, built: Installed) -> None:
        assert ILP64_FILE in needed(built.linalg)
        names = imports(built.linalg)
        assert {"scipy_dgesv_64_", "scipy_dgesdd_64_", "scipy_zgeev_64_"} <= names
        # No plain name is left, neither taken from elsewhere nor given to others.
        assert not [name for name in names if re.match(r"(cblas_)?[sdcz]ge[a-z]+_", name)]
        exports = subprocess.run(
            ["nm", "-D", "--defined-only", built.linalg],
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        assert "dgesv" not in exports

    def test_show_config_says_openblas(self, built: Installed) -> None:
        program = (
            "import json, numpy; from numpy.linalg import lapack_lite;"
            "print(json.dumps([numpy.show_config('dicts')['Build Dependencies'],"
            "lapack_lite._ilp64]))"
        )
        dependencies, wide = json.loads(built.venv.run("python", "-c", program).stdout)
        assert wide is True
        for each in ("blas", "lapack"):
            assert dependencies[each]["name"] == "openblas64"
            assert f"{built.provider}.".startswith(f"{dependencies[each]['version']}.")

    def test_its_own_tests_pass(self, built: Installed, tmp_path: Path) -> None:
        done = built.venv.run(
            *("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyargs", "numpy.linalg"),
            check=False,
            cwd=tmp_path,
            timeout=900,
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr
        passed = re.search(r"(\d+) passed", done.stdout)
        assert passed and int(passed[1]) > 400
