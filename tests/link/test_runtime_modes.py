"""Where each runtime mode's result finds the library, by build tool: docs/runtime-modes.md, tried.

The same extension module is built by every tool in every mode, imported where it was built, then,
with the environment that it was built in gone, from another one that has the provider too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.build_wheel import ROOT
from tests.link.compiling import NEWEST, PROGRAMS, run, run_path
from tests.support import Venv, Wheels, unpack

pytestmark = pytest.mark.tool("gcc", "pkg-config", "readelf")
PAGE = ROOT / "docs" / "runtime-modes.md"
PROVIDER = f"scipy-openblas32=={NEWEST}"
LIBRARY = "scipy_openblas32/lib"
MODES = ("link", "origin", "absolute", "preload")
INCLUDE = sysconfig.get_path("include")
BLASWHEEL = [sys.executable, "-m", "blaswheel"]


class Build(NamedTuple):
    """A build of the extension module in an environment that is going to be deleted."""

    #: site-packages of that environment, with the provider
    environment: Path
    #: the project, a copy
    source: Path
    #: where to build
    folder: Path
    pc: Path

    @property
    def library_dir(self) -> Path:
        return self.environment / LIBRARY

    def run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        return run(words, cwd=self.folder, PKG_CONFIG_PATH=str(self.pc))


def provide(wheels: Wheels, folder: Path) -> Path:
    """Make a site-packages with the provider, of hard links where the file system allows."""
    unpacked = wheels.unpacked(PROVIDER)

    def copy(source: str, target: str) -> str:
        try:
            os.link(source, target)
        except OSError:
            shutil.copy2(source, target)
        return target

    shutil.copytree(unpacked, folder, copy_function=copy)
    return folder


def prepare(wheels: Wheels, folder: Path, *options: str) -> Build:
    environment = provide(wheels, folder / "environment" / "site-packages")
    source = Path(shutil.copytree(PROGRAMS / "extension", folder / "source"))
    build = Build(environment, source, folder / "build", folder / "pc")
    build.folder.mkdir()
    build.pc.mkdir()
    command = [*BLASWHEEL, "pc", "--root", environment, *options]
    (build.pc / "openblas.pc").write_text(run(command).stdout, encoding="utf-8")
    return build


def only_module(folder: Path) -> Path:
    [path] = folder.rglob("_dot*.so")
    return path


def shell(build: Build) -> Path:
    script = 'cc -O -fPIC -shared -I"$1" "$2" $(pkg-config --cflags --libs openblas) -o _dot.so'
    build.run("sh", "-c", script, "sh", INCLUDE, build.source / "demo" / "_dot.c")
    return only_module(build.folder)


def make(build: Build) -> Path:
    build.run("make", "-C", build.source, f"PYTHON_INCLUDE={INCLUDE}")
    return only_module(build.source)


def cmake(build: Build, generator: str) -> Path:
    options = ["-G", generator, f"-DPYTHON_INCLUDE={INCLUDE}"]
    build.run("cmake", "-S", build.source, "-B", build.folder, *options)
    build.run("cmake", "--build", build.folder)
    return only_module(build.folder)


def cmake_make(build: Build) -> Path:
    return cmake(build, "Unix Makefiles")


def cmake_ninja(build: Build) -> Path:
    return cmake(build, "Ninja")


def meson(build: Build) -> Path:
    build.run("meson", "setup", build.folder, build.source, f"--prefix={build.folder}/installed")
    build.run("meson", "compile", "-C", build.folder)
    return only_module(build.folder)


def meson_install(build: Build) -> Path:
    meson(build)
    build.run("meson", "install", "-C", build.folder)
    return only_module(build.folder / "installed")


def wheel(build: Build) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps"]
    build.run(*command, "--wheel-dir", build.folder, build.source)
    [path] = build.folder.glob("*.whl")
    unpack(path, build.folder / "installed")
    return only_module(build.folder / "installed")


TOOLS: dict[str, tuple[Callable[[Build], Path], tuple[str, ...]]] = {
    "shell": (shell, ()),
    "make": (make, ("make",)),
    "CMake with make": (cmake_make, ("cmake", "make")),
    "CMake with Ninja": (cmake_ninja, ("cmake", "ninja")),
    "Meson build tree": (meson, ("meson", "ninja")),
    "`meson install`": (meson_install, ("meson", "ninja")),
    "meson-python wheel": (wheel, ("meson", "ninja")),
}
CELLS = [
    pytest.param(
        tool,
        mode,
        marks=pytest.mark.tool(*programs),
        id=f"{tool.strip('`').replace(' ', '-')}-{mode}",
    )
    for tool, (_, programs) in TOOLS.items()
    for mode in MODES
]


def imported(extension: Path, *, preload: Path | None = None) -> str:
    """Return what comes of importing the module in a new interpreter and computing with it.

    The interpreter may first load the library at ``preload``, by itself.
    """
    lines = ["import ctypes, sys", f"sys.path.insert(0, {str(extension.parent)!r})"]
    if preload:
        lines.append(f"ctypes.CDLL({str(preload)!r})")
    lines += ["import _dot", "print(_dot.dot())"]
    done = run([sys.executable, "-I", "-c", "\n".join(lines)], check=False)
    if done.returncode == 0:
        assert done.stdout == "32.0\n"
        return "right"
    if "libscipy_openblas.so: cannot open shared object file" in done.stderr:
        return "not found"
    assert "undefined symbol: cblas_ddot" in done.stderr
    return "not linked"


def package(extension: Path, site_packages: Path) -> Path:
    """Copy an extension module into a package and return its new path."""
    folder = site_packages / "demo"
    folder.mkdir()
    (folder / "__init__.py").touch()
    return Path(shutil.copy2(extension, folder))


def entries(depths: Sequence[int]) -> list[str]:
    """Return the run paths from modules so many folders below site-packages."""
    return ["/".join(["$ORIGIN", *[".."] * depth, LIBRARY]) for depth in depths]


def table() -> dict[tuple[str, str], str]:
    """Return the cells of the page's table by tool and mode."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line]
    [start] = [number for number, row in enumerate(rows) if row[1:] == [f"`{m}`" for m in MODES]]
    body = rows[start + 2 : start + 2 + len(TOOLS)]
    return {(row[0], mode): cell for row in body for mode, cell in zip(MODES, row[1:], strict=True)}


@pytest.mark.parametrize(("tool", "mode"), CELLS)
def test_table(wheels: Wheels, tmp_path: Path, tool: str, mode: str) -> None:
    build = prepare(wheels, tmp_path, "--runtime", mode)
    extension = TOOLS[tool][0](build)
    recorded = run_path(extension)
    if not recorded:
        record = "nothing"
    elif recorded == [str(build.library_dir)]:
        record = "the folder"
    elif recorded == entries(range(4)):
        record = "`$ORIGIN/...`"
    else:
        assert [entry.replace("$ORIGIN", "", 1) for entry in entries(range(4))] == [
            entry.removeprefix("$$ORIGIN").removeprefix("$") for entry in recorded
        ]
        record = f"`{recorded[0].removesuffix(LIBRARY)}...`"

    here = imported(extension)
    shutil.rmtree(build.environment)
    elsewhere = provide(wheels, tmp_path / "elsewhere" / "site-packages")
    moved = package(extension, elsewhere)
    there = imported(moved)
    if here == there:
        outcome = here
    else:
        outcome = {("right", "not found"): "here", ("not found", "right"): "beside"}[here, there]
    assert table()[tool, mode] == f"{record}; {outcome}"
    # Whatever the tool recorded: a library of that name that is loaded already is used.
    if outcome != "not linked":
        library = elsewhere / LIBRARY / "libscipy_openblas.so"
        assert imported(moved, preload=library) == "right"


def test_wheel_in_another_environment(
    wheels: Wheels, tmp_path: Path, venv: Callable[..., Venv]
) -> None:
    """A wheel built in ``origin`` mode needs nothing but the provider beside it."""
    build = prepare(wheels, tmp_path / "machine", "--runtime", "origin")
    wheel(build)
    [built] = build.folder.glob("*.whl")
    kept = Path(shutil.move(built, tmp_path))
    shutil.rmtree(tmp_path / "machine")

    clean = venv("ünï $HOME #1")
    clean.pip_install("--no-index", kept, wheels.fetch(PROVIDER))
    done = clean.run("python", "-c", "from demo import _dot; print(_dot.dot())")
    assert done.stdout == "32.0\n"
    extension = only_module(clean.site_packages)
    assert run_path(extension) == entries(range(4))
    for folder in (str(tmp_path), os.environ["BLASWHEEL_CACHE_DIR"]):
        assert os.fsencode(folder) not in extension.read_bytes()


@pytest.mark.parametrize(
    ("option", "depths", "outcome"),
    [("1", (1,), "right"), ("2", (2,), "not found"), ("2,1", (1, 2), "right")],
)
def test_depth(
    wheels: Wheels, tmp_path: Path, option: str, depths: tuple[int, ...], outcome: str
) -> None:
    """``--depth`` gives the run paths of the depths named, nearest first, and no other."""
    build = prepare(wheels, tmp_path, "--runtime", "origin", "--depth", option)
    extension = shell(build)
    assert run_path(extension) == entries(depths)
    assert imported(package(extension, build.environment)) == outcome


@pytest.mark.tool("make", "cmake")
def test_run_paths_by_the_tool(wheels: Wheels, tmp_path: Path) -> None:
    """The ways that the page recommends for make and CMake, in mode ``link``."""
    build = prepare(wheels, tmp_path)
    makefile = build.source / "Makefile"
    line = "LDFLAGS += '-Wl,-rpath,$$ORIGIN/../scipy_openblas32/lib'"
    assert line in PAGE.read_text(encoding="utf-8")
    makefile.write_text(f"{line}\n{makefile.read_text(encoding='utf-8')}", encoding="utf-8")
    made = [make(build)]

    option = "-DCMAKE_INSTALL_RPATH='$ORIGIN/../scipy_openblas32/lib'"
    page = PAGE.with_name("cmake.md")
    assert option in page.read_text(encoding="utf-8")
    name, _, value = option.removeprefix("-D").partition("=")
    setting = f"set({name} {value})".replace("'", '"')
    lists = build.source / "CMakeLists.txt"
    text = lists.read_text(encoding="utf-8").replace("add_library", f"{setting}\nadd_library")
    install = "install(TARGETS _dot LIBRARY DESTINATION demo)"
    lists.write_text(f"{text}{install}\n", encoding="utf-8")
    cmake_make(build)
    build.run("cmake", "--install", build.folder, "--prefix", build.folder / "installed")
    made.append(only_module(build.folder / "installed"))

    shutil.rmtree(build.environment)
    for number, extension in enumerate(made):
        assert run_path(extension) == entries([1])
        elsewhere = provide(wheels, tmp_path / f"elsewhere{number}" / "site-packages")
        assert imported(package(extension, elsewhere)) == "right"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--depth", "1"], "--depth is for --runtime origin, not link"),
        (["--runtime", "origin", "--depth", "-1"], "--depth -1: not a depth"),
        (["--runtime", "origin", "--depth", "x"], "--depth x: not a depth"),
        (["--runtime", "origin", "--depth", "1,2,3,4,5"], "--depth 1,2,3,4,5: more than 4"),
    ],
)
def test_depth_is_checked(wheels: Wheels, options: list[str], complaint: str) -> None:
    root = wheels.unpacked(PROVIDER)
    done = run([*BLASWHEEL, "pc", "--root", root, *options], check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert complaint in done.stderr


def test_preload_adds_nothing(wheels: Wheels) -> None:
    command = [*BLASWHEEL, "pc", "--root", wheels.unpacked(PROVIDER), "--runtime"]
    assert run([*command, "preload"]).stdout == run([*command, "link"]).stdout


def test_preload_is_refused_for_musl(wheels: Wheels) -> None:
    """There a library loaded by its path does not satisfy a later NEEDED."""
    root = wheels.unpacked(PROVIDER, "musllinux_1_2_x86_64")
    command = [*BLASWHEEL, "pc", "--root", root, "--runtime"]
    done = run([*command, "preload"], check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "is built for musl" in done.stderr
    assert "$ORIGIN" in run([*command, "origin"]).stdout


def test_origin_warns_of_other_tools(wheels: Wheels, tmp_path: Path) -> None:
    """Only where it is not certain that Meson reads the files."""
    command = [*BLASWHEEL, "pc", "--root", wheels.unpacked(PROVIDER)]
    told = "make and CMake mangle $ORIGIN"
    assert told in run([*command, "--runtime", "origin"]).stderr
    assert told not in run(command).stderr
    native = ["--dir", tmp_path / "pc", "--native-file", tmp_path / "native.ini"]
    assert told not in run([*command, *native]).stderr


def test_absolute_warns_of_a_build_environment(wheels: Wheels, tmp_path: Path) -> None:
    folder = provide(wheels, tmp_path / "pip-build-env-1" / "overlay" / "site-packages")
    done = run([*BLASWHEEL, "pc", "--root", folder, "--runtime", "absolute"])
    assert f"records {folder / LIBRARY}, which is gone after the build" in done.stderr
