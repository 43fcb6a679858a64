"""Programs link and run through the files of providers that are not scipy-openblas or MKL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import Venv
from tests.vendors.programs import both_run

pytestmark = pytest.mark.tool("gcc", "gfortran", "pkg-config")
APIS = ("lapacke", "lapack", "cblas", "blas")
#: Provider, and the interfaces that it has. None of these wheels brings its libgfortran along.
PROVIDERS = {
    # One library in three copies, in a prefix of its own.
    "cmeel-openblas==0.3.31": ("lp64",),
    # The reference implementation: four libraries, with both widths in each.
    "cmeel-lapack==3.12.1": ("lp64", "ilp64"),
}


@pytest.mark.parametrize("runtime", ["absolute", "link"])
@pytest.mark.parametrize(
    ("spec", "interface"),
    [(spec, interface) for spec, interfaces in PROVIDERS.items() for interface in interfaces],
)
def test_programs(
    shared_venv: Callable[..., Venv], tmp_path: Path, spec: str, interface: str, runtime: str
) -> None:
    venv = shared_venv(spec)
    words = ("pc", "--dir", tmp_path / "pc", "--runtime", runtime, "--check-link")
    venv.run("blaswheel", *words)
    wide = interface == "ilp64"
    names = [f"{api}{'64' * wide}" for api in APIS]
    environ = {}
    if runtime == "link":
        environ["LD_LIBRARY_PATH"] = str(venv.site_packages / "cmeel.prefix" / "lib")
    both_run(
        *(venv, tmp_path, tmp_path / "pc", *names),
        bits=64 if wide else 32,
        suffix="64_" if wide else "",
        environ=environ,
    )


def test_both_widths_of_one_library_are_shown_by_calls(shared_venv: Callable[..., Venv]) -> None:
    said = shared_venv("cmeel-lapack==3.12.1").run("blaswheel", "verify").stdout
    assert said.splitlines()[-1].startswith("ok: cmeel-lapack 3.12.1 lp64 *, ilp64 *_64")


def test_a_promise_that_the_wheel_breaks_is_fatal(shared_venv: Callable[..., Venv]) -> None:
    said = shared_venv("cmeel-openblas==0.3.31").run("blaswheel", "show").stdout
    (line,) = [line for line in said.splitlines() if line.lstrip().startswith("fatal")]
    assert "libgfortran.so.5" in line and "manylinux_2_28" in line


def test_what_is_said_of_both_widths_of_one_library_is_said_once(
    shared_venv: Callable[..., Venv], tmp_path: Path
) -> None:
    words = ("blaswheel", "pc", "--dir", tmp_path / "pc")
    lines = shared_venv("cmeel-lapack==3.12.1").run(*words).stderr.splitlines()
    assert any("libgfortran.so.5" in line for line in lines)
    assert len(lines) == len(set(lines))
