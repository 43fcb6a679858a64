"""The command under test."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cli.sites import Blaswheel
from tests.support import Venv


@pytest.fixture(scope="session")
def blaswheel(shared_venv: Callable[..., Venv]) -> Blaswheel:
    """The installed command, in an environment that holds no BLAS."""
    return Blaswheel(shared_venv())
