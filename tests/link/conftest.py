"""Fixtures of the tests that link real programs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.link.compiling import Workshop
from tests.support import Venv, Wheels


@pytest.fixture(scope="session")
def workshop(
    shared_venv: Callable[..., Venv], wheels: Wheels, tmp_path_factory: pytest.TempPathFactory
) -> Workshop:
    """Return what makes ``.pc`` files and objects, each once."""
    return Workshop(shared_venv, wheels, tmp_path_factory.mktemp("workshop"))
