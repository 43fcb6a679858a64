"""What README.md says is true: its blocks run as they are, and print what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.build_wheel import ROOT
from tests.readme import Newcomer, blocks

README = (ROOT / "README.md").read_text(encoding="utf-8")
#: ``tests/consumers/test_numpy.py`` runs the numpy block.
RUN_HERE = {"install", "shell", "c", "fortran", "meson"}
RUN_ELSEWHERE = {"numpy"}


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Newcomer:
    """Return someone who ran the install block."""
    made = Newcomer(tmp_path_factory.mktemp("newcomer") / "blaswheel")
    assert made.run("install") == ""
    return made


def test_each_block_is_run_by_a_test() -> None:
    assert set(blocks()) == RUN_HERE | RUN_ELSEWHERE
    # Without a mark, and so not run: the tests themselves.
    assert README.count("```sh\n") == len(blocks()) + 1
    assert "```sh\n./test\n```" in README


def test_installing_leaves_a_file_that_describes_the_wheel(newcomer: Newcomer) -> None:
    text = (newcomer.folder / "openblas.pc").read_text(encoding="utf-8")
    assert "\nprovider=scipy-openblas32==" in text
    assert "\ninterface=lp64\n" in text
    assert "\nsymbol_prefix=\n" in text


@pytest.mark.tool("bash", "cc", "pkg-config")
def test_c(newcomer: Newcomer) -> None:
    printed = newcomer.run("shell", "c")
    assert printed == "14\n"
    assert f"It prints `{printed.strip()}`." in README


@pytest.mark.tool("bash", "gfortran", "pkg-config")
def test_fortran(newcomer: Newcomer) -> None:
    printed = newcomer.run("shell", "fortran")
    assert printed == "  0.80  1.40\n"
    assert f"It prints `{printed.strip()}`." in README


@pytest.mark.tool("bash", "cc", "pkg-config")
def test_meson(newcomer: Newcomer) -> None:
    # The program is the C example's.
    newcomer.run("shell", "c")
    printed = newcomer.run("shell", "meson")
    assert "Run-time dependency openblas found: YES" in printed
    assert printed.endswith("\n14\n")


def test_the_examples_change_no_file_of_the_checkout(newcomer: Newcomer) -> None:
    for name in ("README.md", "meson.build", "pyproject.toml"):
        assert (newcomer.folder / name).read_bytes() == (ROOT / name).read_bytes()


@pytest.mark.parametrize("page", ["README.md", "docs/numpy.md"])
def test_links_lead_to_files(page: str) -> None:
    path = ROOT / page
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text(encoding="utf-8"))
    local = [each for each in targets if not each.startswith(("http:", "https:"))]
    missing = [each for each in local if not Path(path.parent, each).exists()]
    assert not missing
