"""What CONTRIBUTING.md says of the modules is true: all are listed, and imports go one way."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.build_wheel import ROOT

SOURCES = ROOT / "src" / "blaswheel"
MODULES = sorted(path.stem for path in SOURCES.glob("*.py"))
#: The surface: they import from all layers, and nothing imports them.
TOP = {"__init__", "__main__", "_api", "_cli"}


def layers() -> dict[str, int]:
    """Return the number of the layer of each module."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("\n## Tests\n")[0]
    found: dict[str, int] = {}
    for match in re.finditer(r"^(\d+)\. (.*(?:\n   .*)*)", text, re.MULTILINE):
        for name in re.findall(r"`(\w+)`", match[2]):
            assert name not in found, name
            found[name] = int(match[1])
    return found


def imported(module: str) -> Iterator[str]:
    """Yield the modules of blaswheel that a module needs when it runs."""
    tree = ast.parse((SOURCES / f"{module}.py").read_text(encoding="utf-8"))
    checking = {
        id(each)
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for each in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and id(node) not in checking:
            if node.module == "blaswheel":
                yield from (name.name for name in node.names)
            elif node.module and node.module.startswith("blaswheel._"):
                yield node.module.split(".")[1]


def test_every_module_is_listed() -> None:
    assert set(layers()) == set(MODULES) - TOP


@pytest.mark.parametrize("module", sorted(set(MODULES) - TOP))
def test_imports_go_one_way(module: str) -> None:
    known = layers()
    later = [name for name in imported(module) if known.get(name, 0) > known[module]]
    assert not later
