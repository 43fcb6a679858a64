"""What the commands print as JSON is what the documentation's schemas say."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from blaswheel import _routines
from tests.build_wheel import ROOT
from tests.cli.sites import ILP64, LP64, NUMPY, Blaswheel
from tests.support import Venv, Wheels

SCHEMAS = ROOT / "docs" / "schemas"


def check(name: str, text: str) -> Any:
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    document = json.loads(text)
    errors = [f"{error.json_path}: {error.message}" for error in
              Draft202012Validator(schema).iter_errors(document)]  # fmt: skip
    assert not errors
    return document


@pytest.fixture(scope="module")
def blaswheel(shared_venv: Callable[..., Venv]) -> Blaswheel:
    return Blaswheel(shared_venv(LP64, ILP64, NUMPY))


def test_list(blaswheel: Blaswheel) -> None:
    # NumPy's own copy, which can't be linked, among them.
    assert len(check("list", blaswheel("list", "--json").stdout)["libraries"]) == 3


@pytest.mark.parametrize("platform", ["macosx_11_0_arm64", "win_amd64"])
def test_libraries_of_other_systems(blaswheel: Blaswheel, wheels: Wheels, platform: str) -> None:
    folder = wheels.unpacked(LP64, platform)
    assert check("list", blaswheel("list", "--json", "--root", folder).stdout)["libraries"]


def test_show(blaswheel: Blaswheel) -> None:
    assert check("library", blaswheel("show", "--json", "scipy-openblas64").stdout)["linkable"]


def test_verify(blaswheel: Blaswheel) -> None:
    words = ("verify", "--json", "scipy-openblas64")
    called = check("verify", blaswheel(*words).stdout)
    assert called["ok"] and called["verified"]
    assert check("verify", blaswheel(*words).stdout)["cached"]


@pytest.mark.tool("gcc")
def test_a_library_that_crashes(blaswheel: Blaswheel, tmp_path: Path) -> None:
    """Every routine of it ends the process."""
    stems = sorted(_routines.routines("blas"))
    source = tmp_path / "blas.c"
    lines = [f"void {stem}_(void) {{ __builtin_trap(); }}" for stem in stems]
    source.write_text("\n".join([*lines, ""]))
    library = tmp_path / "libblas.so"
    subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", library], check=True)
    done = blaswheel("verify", "--json", library, check=False)
    assert done.returncode == 1
    assert not check("verify", done.stdout)["ok"]


def test_tag(blaswheel: Blaswheel, wheels: Wheels) -> None:
    assert check("tag", blaswheel("tag", "--json", wheels.fetch(LP64)).stdout)["honest"]
    assert check("tag", blaswheel("tag", "--json", wheels.fetch("packaging==26.4")).stdout)


def test_loaded(blaswheel: Blaswheel) -> None:
    words = ("loaded", "--json", "-i", "scipy_openblas64,numpy")
    found = check("loaded", blaswheel(*words).stdout)
    assert len(found["libraries"]) == 2 and found["clashes"] and found["bindings"]


def test_doctor(blaswheel: Blaswheel, wheels: Wheels) -> None:
    found = check("doctor", blaswheel("doctor", "--json", wheels.fetch(NUMPY)).stdout)
    assert found["findings"] == [] and found["blas"]
    assert check("doctor", blaswheel("doctor", "--json", check=False).stdout)
