from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.examples.projects import Index, built, copied
from tests.support import Wheels


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, wheels: Wheels, blaswheel_wheel: Path) -> Index:
    return Index(tmp_path_factory.mktemp("index"), wheels, blaswheel_wheel)


@pytest.fixture(scope="module")
def beside(index: Index, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Build an example by the backend, once for all that only read its wheel."""

    @functools.cache
    def build(example: str) -> Path:
        return built(index, copied(example, tmp_path_factory.mktemp(example)), "pip")

    return build
