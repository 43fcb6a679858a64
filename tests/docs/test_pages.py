"""What the pages of the documentation say is true: their blocks run, and print what is shown."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.build_wheel import ROOT
from tests.pages import ENVIRONMENTS, REASONS, Reader, blocks, pages, run_by

PAGES = {str(page.relative_to(ROOT)): page for page in pages()}


def _followed() -> list[object]:
    """Return the pages with blocks that run here, each with the programs that it needs."""
    found: list[object] = []
    for name, page in PAGES.items():
        run = [block.settings for block in blocks(page) if "run" in block.settings]
        if run and run_by(page) is None:
            needs = {word for each in run for word in each.get("needs", "").split()}
            marks = pytest.mark.tool("bash", *sorted(needs))
            found.append(pytest.param(page, id=name, marks=marks))
    return found


@pytest.mark.parametrize("page", _followed())
def test_what_the_page_says_comes_of_it(page: Path, reader: Reader) -> None:
    reader.follow(page)


@pytest.mark.parametrize("name", PAGES)
def test_every_block_is_accounted_for(name: str) -> None:
    page = PAGES[name]
    elsewhere = [block.settings["run by"] for block in blocks(page) if "run by" in block.settings]
    whole = run_by(page)
    for each in [*elsewhere, *([whole] if whole else [])]:
        test = ROOT / each
        assert page.stem in test.stem or page.name in test.read_text(encoding="utf-8")
    if whole:
        return
    text = page.read_text(encoding="utf-8")
    assert not re.findall(r"^[ \t>]+```", text, re.MULTILINE), "a fence is indented"
    for block in blocks(page):
        where = f"{name}:{block.line}"
        assert block.accounted, f"{where}: no marker says what becomes of this block"
        assert block.settings.get("run", "new") in ENVIRONMENTS, where
        assert "run" not in block.settings or block.language in ("sh", "python"), where


def test_few_blocks_are_not_run() -> None:
    whys = Counter(
        block.settings["not run"]
        for page in PAGES.values()
        for block in blocks(page)
        if "not run" in block.settings
    )
    assert set(whys) <= set(REASONS)
    for why, count in whys.items():
        assert count <= REASONS[why], why
