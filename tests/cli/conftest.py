"""The command under test, and environments to run it in."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.sites import Blaswheel, copy
from tests.support import Venv, Wheels


@pytest.fixture(scope="session")
def blaswheel(shared_venv: Callable[..., Venv]) -> Blaswheel:
    """The installed command, in an environment that holds no BLAS."""
    return Blaswheel(shared_venv())


@pytest.fixture(autouse=True)
def links(tmp_path: Path) -> Iterator[None]:
    """Remove links to a test's folder, made outside of the cache where that has an odd path."""
    yield
    for link in Path(f"/var/tmp/blaswheel-{os.geteuid()}").glob("*"):
        if link.is_symlink() and Path(os.readlink(link)).is_relative_to(tmp_path):
            link.unlink(missing_ok=True)


@pytest.fixture
def site(tmp_path: Path, wheels: Wheels) -> Callable[..., Path]:
    """Make a site-packages with wheels in it: ``site(LP64, ILP64, name="other")``."""

    def make(*specs: str, name: str = "site") -> Path:
        folder = tmp_path / name
        folder.mkdir(parents=True, exist_ok=True)
        for spec in specs:
            copy(wheels.unpacked(spec), folder)
        return folder

    return make
