"""A small BLAS, compiled, and the command that reads it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from blaswheel import _routines
from tests.cli.sites import Blaswheel
from tests.support import Venv


@pytest.fixture(scope="session")
def blaswheel(shared_venv: Callable[..., Venv]) -> Blaswheel:
    return Blaswheel(shared_venv())


@pytest.fixture(scope="session")
def small_blas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a library that has all names of a BLAS, and is small."""
    folder = tmp_path_factory.mktemp("blas")
    output, source = folder / "libsmallblas.so", folder / "small.c"
    names = [f"{name}_" for name in sorted(_routines.routines("blas"))]
    names += sorted(_routines.routines("cblas"))
    source.write_text("".join(f"void {name}(void) {{}}\n" for name in names))
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-s", "-o", output, source], check=True)
    return output
