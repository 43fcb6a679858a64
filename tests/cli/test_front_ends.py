"""``exec --for`` gives builds the options that NumPy and SciPy need, where they take them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from blaswheel._front_ends import with_options
from tests.cli.sites import ILP64, LP64, Blaswheel
from tests.support import Venv

ASKED = ["-Dblas=openblas", "-Duse-ilp64=true"]
BY_PIP = [f"-Csetup-args={option}" for option in ASKED]
BY_UV = [f"--config-setting=setup-args={option}" for option in ASKED]
OPTIONS = ("blas", "lapack", "use-ilp64", "blas-symbol-suffix", "allow-noblas")


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["pip", "wheel", "."], ["pip", "wheel", *BY_PIP, "."]),
        (
            ["/x/pip3.12", "-q", "install", "numpy"],
            ["/x/pip3.12", "-q", "install", *BY_PIP, "numpy"],
        ),
        (["python3", "-m", "pip", "wheel", "."], ["python3", "-m", "pip", "wheel", *BY_PIP, "."]),
        (["python", "-m", "build", "-w"], ["python", "-m", "build", *BY_PIP, "-w"]),
        (["pyproject-build"], ["pyproject-build", *BY_PIP]),
        (["meson", "setup", "b"], ["meson", "setup", *ASKED, "b"]),
        (
            ["python3.12", "vendored-meson/meson/meson.py", "setup", "b"],
            ["python3.12", "vendored-meson/meson/meson.py", "setup", *ASKED, "b"],
        ),
        (["./meson.py", "setup", "b"], ["./meson.py", "setup", *ASKED, "b"]),
        (["python", "meson.py", "compile"], None),
        (["uv", "build", "--wheel"], ["uv", "build", *BY_UV, "--wheel"]),
        (["uv", "pip", "install", "."], ["uv", "pip", "install", *BY_UV, "."]),
        (["PIP.EXE", "wheel", "."], ["PIP.EXE", "wheel", *BY_PIP, "."]),
        (["pip", "list"], None),
        (["python", "setup.py"], None),
        (["ninja"], None),
        ([], None),
        # The user's word comes last.
        (
            ["pip", "wheel", "-Csetup-args=-Dblas=mkl", "."],
            ["pip", "wheel", BY_PIP[1], "-Csetup-args=-Dblas=mkl", "."],
        ),
    ],
)
def test_commands(command: list[str], told: list[str] | None) -> None:
    assert with_options(command, ASKED) == told


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with NumPy's options, which says what they are."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "meson.options").write_text(
        "".join(f"option('{name}', type: 'string', value: 'unset')\n" for name in OPTIONS)
    )
    lines = [f"message('{name}', get_option('{name}'))" for name in OPTIONS]
    (folder / "meson.build").write_text("\n".join(["project('numpy')", *lines, ""]))
    (folder / "pyproject.toml").write_text(
        "[build-system]\nbuild-backend = 'mesonpy'\nrequires = []\n"
        "[project]\nname = 'numpy'\nversion = '1'\n"
    )
    return folder


@pytest.mark.tool("pkg-config")
def test_pip_and_meson(shared_venv: Callable[..., Venv], project: Path, tmp_path: Path) -> None:
    blaswheel = Blaswheel(shared_venv(LP64, ILP64))
    wheel = ("wheel", "-v", "--no-build-isolation", "--no-deps", "--no-index", "-w", tmp_path)
    pip = [sys.executable, "-m", "pip", *wheel, project]
    # Meson and ninja are beside the Python that runs the tests.
    path = (blaswheel.venv.bin, Path(sys.executable).parent, os.environ["PATH"])
    environ = {"PATH": os.pathsep.join(map(str, path))}
    meson = ["meson", "setup", tmp_path / "b", project]
    expected = {
        "lp64": ["openblas", "openblas", "unset", "unset", "false"],
        "ilp64": ["openblas", "openblas", "true", "64_", "false"],
    }
    for interface, values in expected.items():
        for command in (pip, [*meson[:2], "--wipe", *meson[2:]] if interface == "ilp64" else meson):
            words = ("exec", "--interface", interface, "--for", "numpy", "--", *command)
            done = blaswheel(*map(str, words), environ=environ)
            printed = done.stdout + done.stderr
            found = dict(
                line.split("Message: ", 1)[1].split(" ", 1)
                for line in printed.splitlines()
                if "Message: " in line
            )
            assert [found[name] for name in OPTIONS] == values, printed


@pytest.mark.tool("pkg-config")
def test_a_command_that_is_not_known(shared_venv: Callable[..., Venv]) -> None:
    done = Blaswheel(shared_venv(LP64))("exec", "--for", "scipy", "--", "true")
    assert "pass -Dblas=openblas -Dlapack=openblas to Meson" in done.stderr


def test_the_example_of_the_docstring() -> None:
    code = "import doctest, blaswheel._front_ends as m; raise SystemExit(doctest.testmod(m).failed)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.tool("pkg-config")
@pytest.mark.parametrize(
    ("options", "depths"),
    [
        (("--for", "numpy"), [2]),
        (("--for", "scipy"), [2, 3, 4, 5]),
        (("--for", "scipy", "--depth", "1"), [1]),
        ((), [0, 1, 2, 3]),
    ],
    ids=["numpy", "scipy", "said", "anyone"],
)
def test_run_paths_are_as_deep_as_the_consumers_modules(
    shared_venv: Callable[..., Venv], options: tuple[str, ...], depths: list[int]
) -> None:
    blaswheel = Blaswheel(shared_venv(LP64))
    said = blaswheel("exec", *options, "--", "pkg-config", "--libs", "openblas").stdout
    found = [word.split("/") for word in said.replace("\\", "").split() if "$ORIGIN" in word]
    assert [words.count("..") for words in found] == depths
