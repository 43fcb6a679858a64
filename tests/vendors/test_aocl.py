"""AMD's AOCL: a BLIS and a libflame of its own, told from those by what they export."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.sites import Blaswheel, distribution, fields
from tests.link.compiling import run, with_flags
from tests.support import Venv, Wheels

# The wheels are for one Python each, and are looked at, not imported.
WHEEL = ("aoclda==5.3.0.1", "manylinux_2_28_x86_64")


@pytest.fixture(scope="module")
def unpacked(wheels: Wheels) -> Path:
    return wheels.unpacked(*WHEEL)


@pytest.fixture(scope="module")
def blaswheel(shared_venv: Callable[..., Venv]) -> Blaswheel:
    return Blaswheel(shared_venv())


@pytest.fixture
def provider(unpacked: Path, tmp_path: Path) -> Path:
    """Return a site-packages with these libraries as AMD's archive has them: in a ``lib``."""
    files = {f"aocl/lib/{path.name}": path for path in (unpacked / "aoclda.libs").iterdir()}
    return distribution(tmp_path / "site", "aocl", "5.3.0", dict(files))


def test_what_another_wheel_has_for_itself(blaswheel: Blaswheel, unpacked: Path) -> None:
    listed = json.loads(blaswheel("list", "--json", "--root", unpacked).stdout)["libraries"]
    assert [(one["implementation"], one["version"], one["linkable"]) for one in listed] == [
        ("aocl", "5.3.0", False),
        ("aocl", None, False),
    ]
    apis = [[api for api, families in one["names"].items() if families] for one in listed]
    assert apis == [["blas", "cblas"], ["lapack", "lapacke"]]
    # The options that OpenBLAS states are not asked of it.
    said = blaswheel("show", listed[0]["path"]).stdout
    assert "implementation  AMD AOCL 5.3.0\n" in said


@pytest.mark.tool("cc", "pkg-config")
def test_a_program(blaswheel: Blaswheel, provider: Path, tmp_path: Path) -> None:
    words = ("pc", "aocl", "--root", provider, "--interface", "lp64", "--runtime", "absolute")
    text = blaswheel(*words).stdout
    assert fields(text)["provider"] == "aocl==5.3.0"
    (tmp_path / "openblas.pc").write_text(text, encoding="utf-8")
    (tmp_path / "use.c").write_text(
        "double cblas_ddot(int, const double *, int, const double *, int);\n"
        "void dgesv_(int *, int *, double *, int *, int *, double *, int *, int *);\n"
        "int main(void) {\n"
        "    double x[3] = {1, 2, 3}, a[1] = {2}, b[1] = {4};\n"
        "    int one = 1, pivot, info;\n"
        "    dgesv_(&one, &one, a, &one, &pivot, b, &one, &info);\n"
        "    return cblas_ddot(3, x, 1, x, 1) != 14 || b[0] != 2;\n"
        "}\n",
        encoding="ascii",
    )
    with_flags(tmp_path, "--libs", "cc", "-o", tmp_path / "use", tmp_path / "use.c")
    run([tmp_path / "use"])


def test_width_and_conventions_by_calls(blaswheel: Blaswheel, provider: Path) -> None:
    done = blaswheel("verify", "aocl", "--json", on=provider)
    verdict = json.loads(done.stdout)
    assert (verdict["interface"], verdict["complex_return"]) == ("lp64", "argument")
    assert verdict["ok"]
    # What calls showed, SciPy and gfortran have to be told.
    said = blaswheel("show", "aocl", on=provider).stdout
    assert "SciPy needs -Duse-g77-abi=true" in said and "--complex-return value" in said
