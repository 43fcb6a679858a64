"""Projects built by ``blaswheel.mesonpy``, through each front end and in each runtime mode."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from blaswheel import _runpath
from tests.cli.sites import ILP64, LP64
from tests.examples.projects import (
    EXAMPLES,
    FOLDERS,
    Index,
    built,
    cases,
    computes,
    copied,
    fails,
    installed,
    row,
    run_paths,
    stops,
)
from tests.support import Venv

pytestmark = pytest.mark.tool("gcc", "pkg-config")
LIBRARIES = {LP64: "libscipy_openblas.so", ILP64: "libscipy_openblas64_.so"}
BESIDE = {
    "c_extension": {"blasdot/_dot": ("$ORIGIN/../scipy_openblas32/lib",)},
    "deep_extension": {"deepdot/one/two/_dot": ("$ORIGIN/../../../scipy_openblas64/lib",)},
    "cython_extension": {"cydot/_dot": ("$ORIGIN/../scipy_openblas32/lib",)},
    "fortran_extension": {"fortdot/_dot": ("$ORIGIN/../scipy_openblas32/lib",)},
    "cpp_extension": {"cppdot/_dot": ("$ORIGIN/../scipy_openblas32/lib",)},
    "library": {
        "libdot/_dot": ("$ORIGIN/../.libdot.mesonpy.libs",),
        ".libdot.mesonpy.libs/libdot3.so": ("$ORIGIN/.", "$ORIGIN/../scipy_openblas32/lib"),
    },
    "program": {
        "blasprog-1.0.data/scripts/blasprog": (
            f"$ORIGIN/../lib/python3.{sys.version_info[1]}/site-packages/scipy_openblas32/lib",
        )
    },
}
FEW = {
    ("c_extension", "origin", "pip"),
    ("deep_extension", "origin", "sdist"),
    ("cython_extension", "origin", "build"),
    ("fortran_extension", "origin", "pip"),
    ("cpp_extension", "origin", "pip"),
    ("library", "origin", "pip"),
    ("program", "origin", "pip"),
    ("c_extension", "link", "build"),
    ("deep_extension", "link", "pip"),
    ("c_extension", "preload", "pip"),
    ("program", "link", "sdist"),
}
#: Run paths into the wheel itself, which modes have no say in.
INSIDE = {"library": {"libdot/_dot": ("$ORIGIN/../.libdot.mesonpy.libs",)}}


@pytest.mark.parametrize(
    ("example", "mode", "front_end"),
    cases(FEW, ("origin", "link", "preload"), ("pip", "build", "sdist")),
)
def test_wheel(
    index: Index,
    tmp_path: Path,
    venv: Callable[..., Venv],
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
    example: str,
    mode: str,
    front_end: str,
) -> None:
    row(record_property, example, "backend", mode, front_end)
    if mode != "origin":
        monkeypatch.setenv("BLASWHEEL_RUNTIME", mode)
    wheel = built(index, copied(example, tmp_path), front_end)
    found = run_paths(wheel, tmp_path)
    expected = BESIDE[example]
    package, provider = EXAMPLES[example]
    inside = dict.fromkeys(expected, ()) | INSIDE.get(example, {})
    if mode != "origin":
        # So has an entry for a library's own folder.
        found = {name: tuple(e for e in found[name] if e != "$ORIGIN/.") for name in found}
    assert found == (expected if mode == "origin" else inside)

    clean = installed(venv("clean"), index, wheel)
    if mode == "origin":
        if example == "program":
            assert clean.run("blasprog").stdout == "2\n"
        else:
            computes(clean, package)
    elif example != "program":
        assert f"{LIBRARIES[provider]}: cannot open shared object file" in fails(clean, package)
        directory = clean.site_packages / FOLDERS[provider] / "lib"
        computes(clean, package, environ={"LD_LIBRARY_PATH": str(directory)})

    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        record = json.loads(archive.read(f"{package}-1.0.dist-info/blaswheel.json"))
    name, _, version = provider.partition("==")
    (library,) = record["libraries"]
    assert record["runtime"] == mode
    assert library["provider"] == {"name": name, "version": version}
    content = (clean.site_packages / library["file"]).read_bytes()
    assert library["sha256"] == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("example", cases({("c_extension",), ("program",)}))
def test_installed_from_its_folder(
    index: Index,
    tmp_path: Path,
    venv: Callable[..., Venv],
    record_property: Callable[[str, object], None],
    example: str,
) -> None:
    """``pip install .``, with the provider that the wheel says that it needs."""
    row(record_property, example, "backend", "origin", "pip install .")
    source = copied(example, tmp_path)
    clean = venv("clean")
    words = ("-m", "pip", "--python", clean.python, "install", ".")
    index.run(sys.executable, *words, cwd=source)
    shutil.rmtree(source)
    if example == "program":
        assert clean.run("blasprog").stdout == "2\n"
    else:
        computes(clean, EXAMPLES[example][0])


@pytest.mark.parametrize("example", cases({("cpp_extension",)}))
def test_absolute(
    index: Index,
    tmp_path: Path,
    venv: Callable[..., Venv],
    record_property: Callable[[str, object], None],
    example: str,
) -> None:
    """For development: without isolation, the run path is this environment's own."""
    row(record_property, example, "backend", "absolute", "pip, not isolated")
    package, provider = EXAMPLES[example]
    source = copied(example, tmp_path)
    here = venv("here")
    not_isolated(index, here, source, environ={"BLASWHEEL_RUNTIME": "absolute"})
    folder = here.site_packages / FOLDERS[provider] / "lib"
    files = [here.bin / "blasprog"] if example == "program" else here.site_packages.rglob("*.so")
    entries = {
        entry
        for path in files
        if "scipy_openblas" not in str(path.relative_to(here.path))
        for entry in _runpath.entries(str(path))
    }
    assert str(folder) in entries
    if example == "program":
        assert here.run("blasprog").stdout == "2\n"
    else:
        computes(here, package)


@pytest.mark.parametrize(
    "example", cases({("deep_extension",), ("library",), ("program",), ("c_extension",)})
)
def test_no_library_from_above_site_packages(
    index: Index,
    beside: Callable[[str], Path],
    venv: Callable[..., Venv],
    record_property: Callable[[str, object], None],
    example: str,
) -> None:
    row(record_property, example, "backend", "origin", "a library above site-packages")
    package, provider = EXAMPLES[example]
    clean = installed(venv("clean"), index, beside(example))
    folder = clean.site_packages / FOLDERS[provider]
    above = clean.site_packages.parent
    for place in (above, above.parent, above.parent.parent, clean.bin):
        shutil.copytree(folder, place / folder.name)
    shutil.rmtree(folder)
    said = fails(clean, package) if example != "program" else stops(clean, package)
    assert f"{LIBRARIES[provider]}: cannot open shared object file" in said


def not_isolated(
    index: Index, venv: Venv, source: Path, *options: str, environ: Mapping[str, str] | None = None
) -> None:
    """Install a project with what the environment has."""
    provider = EXAMPLES[source.name][1]
    tools = ("blaswheel", "meson-python", "ninja", "cython", "pybind11")
    installed(venv, index, *tools, provider)
    words = ["--no-build-isolation", "--no-deps", *options, str(source)]
    index.run(
        *(sys.executable, "-m", "pip", "--python", venv.python, "install", *words),
        cwd=source.parent,
        environ={"PATH": venv.environment()["PATH"], **(environ or {})},
    )


class TestEditable:
    @pytest.mark.parametrize(
        "example",
        [
            case
            for case in cases({("cython_extension",)})
            # meson-python installs no programs in place.
            if case.values[0] not in ("program", "c_extension")
        ],
    )
    def test_every_example(
        self,
        index: Index,
        tmp_path: Path,
        venv: Callable[..., Venv],
        record_property: Callable[[str, object], None],
        example: str,
    ) -> None:
        row(record_property, example, "backend", "origin", "editable")
        source = copied(example, tmp_path)
        here = venv("here")
        not_isolated(index, here, source, "-e")
        assert computes(here, EXAMPLES[example][0]).startswith(str(source))

    def test_in_place(self, index: Index, tmp_path: Path, venv: Callable[..., Venv]) -> None:
        source = copied("c_extension", tmp_path)
        here = venv("here")
        not_isolated(index, here, source, "-e")
        assert computes(here, "blasdot") == str(source / "blasdot" / "__init__.py")
        # Meson and the compiler run once more, by the set that has outlived the build.
        meson = source / "meson.build"
        meson.write_text(meson.read_text() + "message('again')\n")
        c = source / "blasdot" / "_dot.c"
        c.write_text(
            c.read_text().replace("cblas_ddot(3, x, 1, y, 1)", "2 * cblas_ddot(3, x, 1, y, 1)")
        )
        done = here.run(
            "python",
            "-c",
            "import blasdot; print(blasdot.dot((1, 2, 3), (4, 5, 6)))",
            cwd=here.path,
        )
        assert done.stdout.splitlines()[-1] == "64.0"

    def test_isolated_without_a_provider_there(
        self, index: Index, tmp_path: Path, venv: Callable[..., Venv]
    ) -> None:
        source = copied("c_extension", tmp_path)
        said = index.run(
            *(sys.executable, "-m", "pip", "--python", venv("bare").python, "install"),
            *("--no-deps", "-e", str(source)),
            cwd=tmp_path,
            check=False,
        )
        assert "blaswheel: error: an editable install under build isolation" in said
        assert "pip install --no-build-isolation -e ." in said

    def test_isolated_with_the_target_s_provider(
        self, index: Index, tmp_path: Path, venv: Callable[..., Venv]
    ) -> None:
        source = copied("c_extension", tmp_path)
        there = installed(venv("there"), index, LP64)
        index.run(
            *(sys.executable, "-m", "pip", "--python", there.python, "install"),
            *("--no-deps", "-e", str(source)),
            cwd=tmp_path,
        )
        (module,) = source.glob("build/*/_dot*.so")
        content = module.read_bytes()
        assert str(there.site_packages / "scipy_openblas32" / "lib").encode() in content
        assert b"pip-build-env-" not in content


class TestSystem:
    """``prefer = "system"``, with a file of the system that is new enough, or too old."""

    @pytest.mark.parametrize(("version", "wins"), [("0.3.40", True), ("0.3.5", False)])
    def test_prefer(self, index: Index, tmp_path: Path, version: str, wins: bool) -> None:
        source = copied("c_extension", tmp_path)
        meson = source / "meson.build"
        meson.write_text(
            meson.read_text().replace("('openblas')", "('openblas', version: '>=0.3.20')")
        )
        project = source / "pyproject.toml"
        project.write_text(project.read_text() + '\n[tool.blaswheel]\nprefer = "system"\n')
        (tmp_path / "cblas.h").write_text(
            "double cblas_ddot(int, const double *, int, const double *, int);\n"
        )
        pc = tmp_path / "pc"
        pc.mkdir()
        (pc / "openblas.pc").write_text(
            f"Name: openblas\nDescription: system\nVersion: {version}\n"
            f"Libs: -lm\nCflags: -I{tmp_path}\n"
        )
        said = index.run(
            *(sys.executable, "-m", "pip", "wheel", "-v", "--no-deps", "-w", "dist", str(source)),
            cwd=tmp_path,
            environ={"PKG_CONFIG_PATH": str(pc)},
        )
        (wheel,) = (tmp_path / "dist").glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            record = json.loads(archive.read("blasdot-1.0.dist-info/blaswheel.json"))
        if wins:
            assert f"blaswheel: the system's openblas {version}" in said
            assert "Successfully installed scipy-openblas32" not in said
            assert record["system"] == {"openblas": version}
            assert record["libraries"] == []
        else:
            assert "openblas found: YES 0.3.34" in said
            assert [one["provider"]["name"] for one in record["libraries"]] == ["scipy-openblas32"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('interfce = "lp64"', "[tool.blaswheel]: interfce: there is no such key"),
        ('interface = "lp46"', '[tool.blaswheel]: interface is "lp46"'),
        ("runtime = 3", "[tool.blaswheel]: runtime is 3"),
        ('provider = "scipy-openblas32=="', "a name or a version is missing"),
    ],
)
def test_wrong_settings(index: Index, tmp_path: Path, line: str, message: str) -> None:
    source = copied("c_extension", tmp_path)
    project = source / "pyproject.toml"
    project.write_text(project.read_text() + f"\n[tool.blaswheel]\n{line}\n")
    said = index.run(
        *(sys.executable, "-m", "pip", "wheel", "--no-deps", str(source)), cwd=tmp_path, check=False
    )
    assert message in said
    assert "Traceback" not in said.partition("blaswheel: error:")[2].partition("[end of output]")[0]


def test_setup_args_come_first(index: Index, tmp_path: Path) -> None:
    """The command line before a variable, a variable before the project."""
    source = copied("deep_extension", tmp_path)
    project = source / "pyproject.toml"
    project.write_text(project.read_text() + 'runtime = "absolute"\n')
    wheel = built(
        index,
        source,
        "pip",
        "-Csetup-args=-Dblaswheel:runtime=origin",
    )
    assert run_paths(wheel, tmp_path) == BESIDE["deep_extension"]


# Mode ``preload``: the backend puts the file that loads the library into the package.


@pytest.fixture(scope="module")
def preloading(index: Index, tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = copied("c_extension", tmp_path_factory.mktemp("preload"))
    package = source / "blasdot" / "__init__.py"
    line = "from __future__ import annotations\n"
    text = package.read_text()
    assert line in text
    package.write_text(text.replace(line, f"{line}\nfrom . import _distributor_init\n"))
    project = source / "pyproject.toml"
    project.write_text(project.read_text() + '\n[tool.blaswheel]\nruntime = "preload"\n')
    return built(index, source, "pip")


def test_preload_in_one_site_packages(
    index: Index, preloading: Path, venv: Callable[..., Venv], tmp_path: Path
) -> None:
    assert run_paths(preloading, tmp_path) == {"blasdot/_dot": ()}
    clean = installed(venv("clean"), index, preloading)
    computes(clean, "blasdot")
    assert (clean.site_packages / "blasdot" / "_distributor_init.py").is_file()


@pytest.mark.parametrize("elsewhere", ["provider", "package"])
def test_preload_in_two_site_packages(
    index: Index, preloading: Path, venv: Callable[..., Venv], tmp_path: Path, elsewhere: str
) -> None:
    """As with ``--target``, the user's packages, and a base environment."""
    clean = venv("clean")
    here, there = (preloading, LP64) if elsewhere == "provider" else (LP64, preloading)
    installed(clean, index, "--no-deps", here)
    installed(clean, index, "--no-deps", "--target", tmp_path / "other", there)
    computes(clean, "blasdot", environ={"PYTHONPATH": str(tmp_path / "other")})


def test_preload_without_the_provider(
    index: Index, preloading: Path, venv: Callable[..., Venv]
) -> None:
    bare = installed(venv("bare"), index, "--no-deps", preloading)
    assert f"pip install '{LP64}'" in fails(bare, "blasdot")


def test_preload_that_is_not_imported_is_told(index: Index, tmp_path: Path) -> None:
    source = copied("c_extension", tmp_path)
    said = index.run(
        *(sys.executable, "-m", "pip", "wheel", "-v", "--no-deps", "-w", "dist", str(source)),
        cwd=tmp_path,
        environ={"BLASWHEEL_RUNTIME": "preload"},
    )
    assert "blasdot/__init__.py does not import _distributor_init" in said
