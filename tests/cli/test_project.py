"""``[tool.blaswheel]`` of the project in the current folder, and what comes before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.sites import Blaswheel, fields
from tests.support import Wheels


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.blaswheel]\ninterface = "ilp64"\nsymbol-prefix = "my_"\nruntime = "absolute"\n'
    )
    return tmp_path


@pytest.fixture
def site(wheels: Wheels) -> list[Path]:
    specs = ("scipy-openblas32==0.3.34.481.3", "scipy-openblas64==0.3.34.481.3")
    return [wheels.unpacked(spec) for spec in specs]


def test_it_is_used_and_told(blaswheel: Blaswheel, folder: Path, site: list[Path]) -> None:
    done = blaswheel("pc", "--no-verify", on=site, cwd=folder)
    found = fields(done.stdout)
    assert found["provider"] == "scipy-openblas64==0.3.34.481.3"
    assert found["symbol_prefix"] == "my_"
    assert "-Wl,-rpath,${libdir}" in found["Libs"]
    assert done.stderr.splitlines()[0] == (
        "blaswheel: using [tool.blaswheel] of pyproject.toml: "
        "interface = 'ilp64', symbol-prefix = 'my_', runtime = 'absolute'"
    )


def test_variables_and_options_come_first(
    blaswheel: Blaswheel, folder: Path, site: list[Path]
) -> None:
    found = fields(
        blaswheel(
            *("pc", "--no-verify", "--runtime", "link"),
            on=site,
            cwd=folder,
            environ={"BLASWHEEL_INTERFACE": "lp64", "BLASWHEEL_SYMBOL_PREFIX": ""},
        ).stdout
    )
    assert found["provider"] == "scipy-openblas32==0.3.34.481.3"
    assert found["symbol_prefix"] == ""
    assert "-Wl,-rpath,${libdir}" not in found["Libs"]


@pytest.mark.parametrize(
    ("words", "environ"),
    [(["--interface", "lp64"], {}), ([], {"BLASWHEEL_INTERFACE": "lp64"})],
    ids=["option", "variable"],
)
def test_who_asks_for_lp64_gets_no_names_of_ilp64(
    blaswheel: Blaswheel,
    tmp_path: Path,
    site: list[Path],
    words: list[str],
    environ: dict[str, str],
) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.blaswheel]\nsymbol-suffix = "64_"\n')
    how = {"on": site, "cwd": tmp_path}
    found = fields(blaswheel("pc", "--no-verify", *words, environ=environ, **how).stdout)
    assert (found["interface"], found["symbol_suffix"]) == ("lp64", "")
    found = fields(blaswheel("pc", "--no-verify", **how).stdout)
    assert (found["interface"], found["symbol_suffix"]) == ("ilp64", "64_")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.blaswheel]\ninterfce = 'lp64'\n", "interfce: there is no such key"),
        ("[tool]\nblaswheel = 3\n", "tool.blaswheel is no table"),
        ("[tool.blaswheel\n", "pyproject.toml is no TOML"),
        ("x = " + "[" * 100000 + "\n# blaswheel", "pyproject.toml is no TOML"),
        ("[tool.blaswheel]\nprefer = 'best'\n", 'prefer is "best"'),
    ],
)
def test_what_is_wrong(
    blaswheel: Blaswheel, tmp_path: Path, site: list[Path], text: str, message: str
) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    assert message in blaswheel.error("env", on=site, cwd=tmp_path)[0]


def test_other_projects_are_none_of_ours(
    blaswheel: Blaswheel, tmp_path: Path, site: list[Path]
) -> None:
    (tmp_path / "pyproject.toml").write_text("this is no TOML")
    assert "[tool.blaswheel]" not in blaswheel("env", on=site, cwd=tmp_path).stderr
