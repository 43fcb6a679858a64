"""The examples of docs/upstream still show what its README.md says."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.build_wheel import ROOT
from tests.link.compiling import run_path
from tests.meson.mesons import VERSIONS, meson
from tests.support import Wheels, clean_environment, unpack

pytestmark = pytest.mark.tool("cc", "readelf")
EXAMPLES = ROOT / "docs" / "upstream"
PAGE = (EXAMPLES / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLES, tmp_path / "upstream"))


@pytest.fixture
def library(folder: Path) -> Path:
    made = folder / "one"
    made.mkdir()
    command = ["cc", "-shared", "-fPIC", "-Wl,-soname,libone.so", "one.c", "-o", "one/libone.so"]
    subprocess.run(command, check=True, cwd=folder)
    return made


def run(*words: str | Path, cwd: Path) -> str:
    environ = clean_environment()
    environ["PATH"] = f"{meson(VERSIONS[-1]).parent}:{environ['PATH']}"
    done = subprocess.run(
        list(map(str, words)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        cwd=cwd,
        env=environ,
    )
    return done.stdout


def setup(folder: Path, name: str, *options: str) -> str:
    return run(meson(VERSIONS[-1]), "setup", "build", name, *options, cwd=folder)


def test_dependency_name(folder: Path) -> None:
    assert re.search(r"^Message: dep\d+$", setup(folder, "dependency-name"), re.MULTILINE)


def test_override_modules(folder: Path) -> None:
    printed = setup(folder, "override-modules").splitlines()
    told = [line for line in PAGE.splitlines() if "(modules: cblas)'" in line]
    assert len(told) == 2
    assert [line for line in printed if "(modules: cblas)'" in line] == told


def test_check_run_path(folder: Path, library: Path) -> None:
    assert "Message: check: 127\n" in setup(folder, "check-run-path", f"-Dfolder={library}")
    printed = run(meson(VERSIONS[-1]), "test", "-C", "build", cwd=folder)
    assert re.search(r"^1/1 check:program +OK", printed, re.MULTILINE)


def test_numpy_subproject(folder: Path, wheels: Wheels) -> None:
    with tarfile.open(wheels.sdist("numpy==2.4.6")) as archive:
        members = [one for one in archive.getmembers() if "/vendored-meson/" in one.name]
        archive.extractall(folder, members)
    [program] = folder.glob("numpy-*/vendored-meson/meson/meson.py")
    printed = run(sys.executable, program, "setup", "build", "numpy-subproject", cwd=folder)
    line = "NameError: name 'extra_default_options' is not defined"
    assert line in PAGE and line in printed


def test_meson_python_run_path(folder: Path, library: Path) -> None:
    name = "meson-python-run-path"
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    run(*pip, "-w", "dist", f"./{name}", f"-Csetup-args=-Dfolder={library}", cwd=folder)
    [wheel] = (folder / "dist").glob("*.whl")
    unpack(wheel, folder / "wheel")
    [module] = (folder / "wheel").glob("_m*.so")
    assert run_path(module) == [str(library)]
    setup(folder, name, f"-Dfolder={library}", f"--prefix={folder}/installed")
    run(meson(VERSIONS[-1]), "install", "-C", "build", cwd=folder)
    [module] = (folder / "installed").rglob("_m*.so")
    assert run_path(module) == []
