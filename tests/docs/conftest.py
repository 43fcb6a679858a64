"""The environments in which the documentation's pages are followed."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.sites import LP64
from tests.examples.projects import TOOLS
from tests.pages import ENVIRONMENTS, Place, Reader
from tests.providers import debian
from tests.support import Venv, Wheels

#: What a developer has installed; what pip finds besides.
INSTALLED = (*TOOLS, "pip==26.3", "setuptools==80.9.0", "build==1.6.1", "pyproject-hooks==1.3.3")
OTHERS = (
    ("auditwheel==6.8.2",),
    ("pyelftools==0.33",),
    ("scikit-build-core==1.1.2",),
    ("pathspec==1.1.1",),
    ("pkgconf==3.0.1.post0",),
    ("numpy==2.4.6", "manylinux_2_28_x86_64", "3.12"),
    (LP64, "manylinux_2_28_aarch64"),
    ("nvpl-blas==0.6.0", "manylinux_2_26_aarch64"),
    ("nvpl-lapack==0.4.0.1", "manylinux_2_26_aarch64"),
)
PACKAGES = (
    *("libopenblas0-pthread", "libopenblas-pthread-dev"),
    *("libblis4-pthread", "libblis-pthread-dev"),
)


@pytest.fixture(scope="session")
def place(
    tmp_path_factory: pytest.TempPathFactory, wheels: Wheels, blaswheel_wheel: Path
) -> Callable[[str], Place]:
    """Return an environment of `tests.pages` by its name; each is made once."""

    @functools.cache
    def make(name: str) -> Place:
        folder = tmp_path_factory.mktemp(name)
        if name == "new":
            # python3 alone, without what is installed beside it.
            (folder / "python3").symlink_to(os.path.realpath(sys.executable))
            return Place(folder)
        made = Venv(folder / "venv")
        files = map(wheels.fetch, (*INSTALLED, *ENVIRONMENTS[name]))
        made.pip_install("--no-index", "--no-deps", blaswheel_wheel, *files)
        environ = {"VIRTUAL_ENV": str(made.path)}
        if name == "debian":
            (libraries,) = debian.unpacked(*PACKAGES).glob("usr/lib/*-linux-gnu")
            environ["LD_LIBRARY_PATH"] = str(libraries)
            environ["PKG_CONFIG_PATH"] = str(libraries / "pkgconfig")
        return Place(made.bin, environ)

    return make


@pytest.fixture(scope="session")
def links(wheels: Wheels, blaswheel_wheel: Path) -> list[Path]:
    """Return folders with the wheels that pip finds, instead of an index."""
    specs = [*OTHERS, *((spec,) for spec in (*INSTALLED, *ENVIRONMENTS["both"]))]
    files = [blaswheel_wheel, *(wheels.fetch(*each) for each in specs)]
    return sorted({file.parent for file in files})


@pytest.fixture
def reader(place: Callable[[str], Place], links: list[Path], tmp_path: Path) -> Reader:
    return Reader(tmp_path / "page", place, links)
