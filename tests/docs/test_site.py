"""The documentation's site builds without a warning, and has what the commands print."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.build_wheel import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the built site, from a copy: what a build writes stays out of the checkout."""
    tree = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", tree / "docs")
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tree)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "docs", "html"]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return tree / "html"


def test_every_command_is_in_the_reference(site: Path) -> None:
    from blaswheel._cli import COMMANDS

    page = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    for command in COMMANDS:
        assert f"usage: blaswheel {command}" in page


def test_the_public_functions_are_in_the_reference(site: Path) -> None:
    import blaswheel

    page = (site / "reference" / "python.html").read_text(encoding="utf-8")
    missing = [name for name in dir(blaswheel) if f"blaswheel.{name}" not in page]
    assert missing in ([], ["__version__"])


def test_every_page_is_reachable(site: Path) -> None:
    """Sphinx itself warns of a page that is in no table of contents; this is the first page."""
    first = (site / "index.html").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert f'href="{page.stem}.html"' in first or page.stem == "index"
