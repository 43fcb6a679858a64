"""What doctor says of builds: which pkg-config, which file, and what stands in the way."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.sites import LP64, Blaswheel
from tests.support import Venv, Wheels

pytestmark = pytest.mark.tool("pkg-config")
CLEAN = {"PKG_CONFIG_PATH": "", "PKG_CONFIG_LIBDIR": "/nowhere"}


@pytest.fixture(scope="module")
def blaswheel(shared_venv: Callable[..., Venv]) -> Blaswheel:
    return Blaswheel(shared_venv(LP64))


def codes(blaswheel: Blaswheel, *words: str | Path, **environ: str) -> list[str]:
    done = blaswheel("doctor", "--json", *words, environ={**CLEAN, **environ}, check=False)
    found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    assert done.returncode == int(any(one["severity"] == "fatal" for one in found))
    return [one["code"] for one in found]


def test_a_wheel_that_pkg_config_does_not_see(blaswheel: Blaswheel, tmp_path: Path) -> None:
    done = blaswheel("doctor", environ=CLEAN)
    assert "Run-time dependency openblas found: NO (tried pkg-config)" in done.stdout
    assert "scipy-openblas32 0.3.34.481.3 is installed, but pkg-config finds no file" in done.stdout
    assert "blaswheel exec" in done.stdout
    # And once it does.
    blaswheel("pc", "--dir", tmp_path / "pc")
    path = str(tmp_path / "pc")
    done = blaswheel("doctor", environ={**CLEAN, "PKG_CONFIG_PATH": path})
    assert "Run-time dependency openblas found: YES 0.3.34.481.3" in done.stdout
    assert f"({path}/openblas.pc)" in done.stdout
    assert done.stdout.endswith("nothing is wrong\n")


def test_nothing_is_installed(shared_venv: Callable[..., Venv]) -> None:
    assert codes(Blaswheel(shared_venv())) == ["no-provider"]


def test_no_pkg_config(blaswheel: Blaswheel, tmp_path: Path) -> None:
    assert codes(blaswheel, PKG_CONFIG=str(tmp_path / "none")) == ["no-pkg-config"]


def test_a_broken_pkg_config(blaswheel: Blaswheel, tmp_path: Path) -> None:
    """As two releases of PyPI's pkgconf: silent and content."""
    broken = tmp_path / "pkg-config"
    broken.write_text("#!/bin/sh\nexit 0\n")
    broken.chmod(0o755)
    path = os.pathsep.join(map(str, (tmp_path, blaswheel.venv.bin, os.environ["PATH"])))
    assert codes(blaswheel, PATH=path) == ["pkg-config-broken"]
    said = blaswheel("doctor", environ={**CLEAN, "PATH": path}, check=False).stdout
    assert "PKG_CONFIG=" in said


def test_the_published_release_that_is_broken(
    venv: Callable[..., Venv], wheels: Wheels, blaswheel_wheel: Path
) -> None:
    made = venv()
    specs = (LP64, "pkgconf==3.0.1.post0")
    made.pip_install("--no-index", "--no-deps", blaswheel_wheel, *map(wheels.fetch, specs))
    path = f"{made.bin}{os.pathsep}{os.environ['PATH']}"
    assert codes(Blaswheel(made), PATH=path) == ["pkg-config-broken"]


def test_a_file_from_elsewhere_that_numpy_takes_first(blaswheel: Blaswheel, tmp_path: Path) -> None:
    blaswheel("pc", "--dir", tmp_path / "ours")
    other = tmp_path / "other"
    other.mkdir()
    (other / "scipy-openblas.pc").write_text("Name: x\nDescription: x\nVersion: 1\nLibs: -lx\n")
    path = os.pathsep.join([str(tmp_path / "ours"), str(other)])
    assert codes(blaswheel, PKG_CONFIG_PATH=path) == ["shadowed"]


def test_of_a_project(blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path) -> None:
    """In an environment of its build requirements, whatever is installed here."""
    project = tmp_path / "project"
    project.mkdir()
    file = project / "pyproject.toml"
    file.write_text("[build-system]\nrequires = []\n")
    assert codes(blaswheel, "--project", project) == ["no-provider"]
    url = wheels.fetch(LP64).as_uri()
    file.write_text(f"[build-system]\nrequires = ['scipy-openblas32 @ {url}']\n")
    assert codes(blaswheel, "--project", project) == ["not-on-path"]
    file.write_text("[build-system]\nrequires = ['no-such-thing-at-all']\n")
    error, _ = blaswheel.error("doctor", "--project", project)
    assert "can't install the build requirements" in error
    for text in ("[build-system]\nrequires = 1\n", "no toml"):
        file.write_text(text)
        assert "pyproject.toml" in blaswheel.error("doctor", "--project", project)[0]
    assert "pyproject.toml" in blaswheel.error("doctor", "--project", tmp_path / "nowhere")[0]
