from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples.projects import Index
from tests.support import Wheels


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, wheels: Wheels, blaswheel_wheel: Path) -> Index:
    return Index(tmp_path_factory.mktemp("index"), wheels, blaswheel_wheel)
