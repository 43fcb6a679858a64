"""Fixtures and markers; what they hand out is in ``support.py``."""

from __future__ import annotations

import filecmp
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.build_wheel import ROOT, wheel
from tests.support import Venv, Wheels, measure

#: What a user's shell may have set that would change what blaswheel or a build tool does.
FOREIGN = ("BLASWHEEL_", "PKG_CONFIG", "CFLAGS", "CPPFLAGS", "CXXFLAGS", "FFLAGS", "LDFLAGS")
MISSING_TOOL = "missing tool"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--full", action="store_true", help="also run the tests that take minutes each"
    )


def pytest_configure(config: pytest.Config) -> None:
    _refuse_another_checkout()
    for name in list(os.environ):
        if name.startswith(FOREIGN) and not name.startswith("BLASWHEEL_TEST_"):
            del os.environ[name]
    # Tools that pip installed beside this interpreter (meson, ninja), without an activation.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    # Nothing of the user's cache is read, nothing is left in it.
    folder = tempfile.mkdtemp(prefix="blaswheel-cache-")
    os.environ["BLASWHEEL_CACHE_DIR"] = folder
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def pytest_report_header() -> str:
    return f"blaswheel: {Path(_installed()).parent}"


def _installed() -> str:
    spec = find_spec("blaswheel")
    if spec is None or spec.origin is None:
        raise pytest.UsageError("blaswheel is not installed here; ./test does it")
    return spec.origin


def _refuse_another_checkout() -> None:
    """Stop unless the blaswheel that the tests import has the code that is here."""
    installed = Path(_installed()).parent
    source = ROOT / "src" / "blaswheel"
    names = [path.relative_to(source).as_posix() for path in source.rglob("*.py")]
    _, differing, absent = filecmp.cmpfiles(source, installed, names, shallow=False)
    if differing or absent:
        raise pytest.UsageError(
            f"{installed} is not this checkout's ({', '.join(sorted(differing + absent))}); "
            "./test installs it"
        )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--full"):
        return
    full = [item for item in items if item.get_closest_marker("full")]
    if full:
        config.hook.pytest_deselected(items=full)
        items[:] = [item for item in items if not item.get_closest_marker("full")]


def pytest_runtest_setup(item: pytest.Item) -> None:
    tools = {name for marker in item.iter_markers("tool") for name in marker.args}
    missing = sorted(name for name in tools if not shutil.which(name))
    if missing:
        item.user_properties.extend((MISSING_TOOL, name) for name in missing)
        reason = f"{MISSING_TOOL}: {', '.join(missing)}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    missing = {
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == MISSING_TOOL
    }
    if missing:
        terminalreporter.section("missing tools", sep="=", yellow=True)
        terminalreporter.line(
            f"{', '.join(sorted(missing))}: their tests did not run; tests/tools.txt has packages"
        )


@pytest.fixture(scope="session")
def wheels() -> Wheels:
    """Real wheels and source distributions: `support.Wheels`."""
    return Wheels()


@pytest.fixture(scope="session")
def blaswheel_wheel() -> Path:
    """The wheel of this checkout, built by pip under build isolation."""
    return wheel()


@pytest.fixture
def venv(tmp_path: Path) -> Callable[..., Venv]:
    """Make a virtual environment: ``venv()``, ``venv("name with spaces")``."""

    def make(name: str = "venv", python: str = sys.executable) -> Venv:
        return Venv(tmp_path / name, python)

    return make


@pytest.fixture
def provider_venv(
    venv: Callable[..., Venv], wheels: Wheels, blaswheel_wheel: Path
) -> Callable[..., Venv]:
    """Make a virtual environment with blaswheel and providers in it, by pip.

    ``provider_venv("scipy-openblas32==0.3.34.481.3", name="ünï")``.
    """

    def make(*specs: str, name: str = "venv") -> Venv:
        made = venv(name)
        made.pip_install("--no-index", "--no-deps", blaswheel_wheel, *map(wheels.fetch, specs))
        measure(made, wheels)
        return made

    return make


@pytest.fixture(scope="session")
def shared_venv(
    tmp_path_factory: pytest.TempPathFactory, wheels: Wheels, blaswheel_wheel: Path
) -> Callable[..., Venv]:
    """Return the same environment for the same providers; no test may change it."""
    made: dict[frozenset[str], Venv] = {}

    def get(*specs: str) -> Venv:
        key = frozenset(specs)
        if key not in made:
            new = Venv(tmp_path_factory.mktemp("shared") / "venv")
            files = map(wheels.fetch, specs)
            new.pip_install("--no-index", "--no-deps", blaswheel_wheel, *files)
            measure(new, wheels)
            made[key] = new
        return made[key]

    return get
