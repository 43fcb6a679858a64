"""The wheel has the right tag and content, and the probe is found however it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from email.parser import Parser
from pathlib import Path

import pytest

from tests.build_wheel import ROOT, copy_sources
from tests.support import Venv, clean_environment, unpack

SCRIPTS = "Scripts" if sys.platform == "win32" else "bin"
PROBE = "blaswheel-probe.exe" if sys.platform == "win32" else "blaswheel-probe"
FIND = "from blaswheel._probe import find; print(find(), end='')"

MakeVenv = Callable[..., Venv]


def found(venv: Venv, pythonpath: Path | None = None) -> Path:
    """Return the probe that blaswheel finds, after running it."""
    environ = {"PYTHONPATH": str(pythonpath)} if pythonpath else {}
    path = Path(venv.run("python", "-c", FIND, environ=environ).stdout)
    assert path.is_absolute()
    help_text = subprocess.run([path, "--help"], capture_output=True, text=True, check=True).stdout
    assert help_text.startswith("usage: blaswheel-probe")
    return path


def refusal(venv: Venv, pythonpath: Path | None = None) -> list[str]:
    """Return the lines of the error that blaswheel gives for a probe that is not there."""
    script = (
        "from blaswheel._errors import BlaswheelError\n"
        "from blaswheel._probe import find\n"
        "try: print(find())\n"
        "except BlaswheelError as error: print(error)\n"
    )
    environ = {"PYTHONPATH": str(pythonpath)} if pythonpath else {}
    return venv.run("python", "-c", script, environ=environ).stdout.splitlines()


def stale_probe(folder: Path) -> Path:
    """Write a ``blaswheel-probe`` that is not this blaswheel's into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / PROBE
    path.write_text("#!/bin/sh\nexit 99\n")
    path.chmod(0o755)
    return path


# What is in the distributions.


def test_one_wheel_serves_every_python(blaswheel_wheel: Path) -> None:
    name, version, python, abi, platform = blaswheel_wheel.stem.split("-")
    assert (name, version, python, abi) == ("blaswheel", "0.1.0", "py3", "none")
    assert platform != "any"


def test_the_wheel_holds_the_package_and_the_probe_and_nothing_else(blaswheel_wheel: Path) -> None:
    with zipfile.ZipFile(blaswheel_wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        probe = archive.getinfo(f"blaswheel-0.1.0.data/scripts/{PROBE}")
    source = ROOT / "src" / "blaswheel"
    wanted = [*source.rglob("*.py"), *source.glob("data/*.txt"), source / "py.typed"]
    package = {
        f"blaswheel-0.1.0.data/purelib/{path.relative_to(source.parent).as_posix()}"
        for path in wanted
    }
    package |= {
        f"blaswheel-0.1.0.data/purelib/blaswheel/_subproject/{name}"
        for name in ("blaswheel.wrap", "blaswheel/meson.build", "blaswheel/meson.options")
    }
    assert names == package | {probe.filename}
    assert probe.external_attr >> 16 & 0o111


def test_the_metadata_says_what_users_rely_on(blaswheel_wheel: Path) -> None:
    with zipfile.ZipFile(blaswheel_wheel) as archive:
        text = archive.read("blaswheel-0.1.0.dist-info/METADATA").decode()
        entry_points = archive.read("blaswheel-0.1.0.dist-info/entry_points.txt").decode()
    metadata = Parser().parsestr(text)
    assert metadata["License-Expression"] == "BSD-3-Clause"
    assert metadata["Requires-Python"] == ">=3.10"
    extras = set(metadata.get_all("Provides-Extra", ()))
    assert {"openblas32", "openblas64", "test"} <= extras
    # Nothing comes along that was not asked for.
    assert all("extra ==" in each for each in metadata.get_all("Requires-Dist", ()))
    assert "blaswheel = blaswheel._cli:main" in entry_points.replace("=", " = ").replace("  ", " ")


@pytest.mark.tool("git")
def test_the_source_distribution_builds_the_same_wheel(
    tmp_path: Path, blaswheel_wheel: Path
) -> None:
    tree = copy_sources(tmp_path / "tree")
    for command in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"],
    ):
        subprocess.run(["git", "-C", str(tree), *command], check=True)
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path / "dist")]
    subprocess.run([*build, str(tree)], check=True, capture_output=True, env=clean_environment())
    (sdist,) = (tmp_path / "dist").glob("*.tar.gz")
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    assert sdist.name == "blaswheel-0.1.0.tar.gz"
    assert wheel.name == blaswheel_wheel.name
    with tarfile.open(sdist) as archive:
        assert "blaswheel-0.1.0/LICENSE" in archive.getnames()
    with zipfile.ZipFile(wheel) as ours, zipfile.ZipFile(blaswheel_wheel) as theirs:
        assert sorted(ours.namelist()) == sorted(theirs.namelist())


# Where the probe is found.


def test_in_a_virtual_environment(venv: MakeVenv, blaswheel_wheel: Path) -> None:
    made = venv("ünï code")
    made.pip_install("--no-index", blaswheel_wheel)
    assert found(made) == made.bin / PROBE
    assert made.run("blaswheel", "--version").stdout == "blaswheel 0.1.0\n"


def test_in_the_users_own_packages(tmp_path: Path, venv: MakeVenv, blaswheel_wheel: Path) -> None:
    made = venv()
    # pip refuses --user in a virtual environment that does not see the system's packages.
    config = made.path / "pyvenv.cfg"
    config.write_text(config.read_text().replace("= false", "= true"))
    home = {"PYTHONUSERBASE": str(tmp_path / "home")}
    made.run(
        *(sys.executable, "-m", "pip", "--python", made.python, "install", "--user"),
        *("--no-index", "--ignore-installed", blaswheel_wheel),
        environ=home,
    )
    path = Path(made.run("python", "-c", FIND, environ=home).stdout)
    assert (tmp_path / "home") in path.parents
    assert path.name == PROBE


def test_in_a_target_folder(tmp_path: Path, venv: MakeVenv, blaswheel_wheel: Path) -> None:
    made = venv()
    target = tmp_path / "target"
    made.pip_install("--no-index", "--target", target, blaswheel_wheel)
    # Another blaswheel in the environment, and one where the RECORD of a target points.
    stale_probe(made.bin)
    stale_probe(tmp_path / "bin")
    assert found(made, target) == target / "bin" / PROBE


def test_under_a_prefix(tmp_path: Path, venv: MakeVenv, blaswheel_wheel: Path) -> None:
    made = venv()
    prefix = tmp_path / "prefix"
    made.pip_install("--no-index", "--prefix", prefix, blaswheel_wheel)
    stale_probe(made.bin)
    (site,) = prefix.glob("**/site-packages")
    assert found(made, site) == prefix / SCRIPTS / PROBE


def test_where_the_installer_left_no_list_of_files(venv: MakeVenv, blaswheel_wheel: Path) -> None:
    made = venv()
    made.pip_install("--no-index", blaswheel_wheel)
    shutil.rmtree(made.site_packages / "blaswheel-0.1.0.dist-info")
    assert found(made) == made.bin / PROBE


def test_in_an_editable_installation(tmp_path: Path, venv: MakeVenv) -> None:
    made = venv()
    made.pip_install("meson-python", "meson", "ninja")
    tree = copy_sources(tmp_path / "tree")
    made.pip_install("--no-build-isolation", "--no-deps", "--editable", tree)
    stale_probe(made.bin)
    path = found(made)
    assert path.parent.parent.parent.parent == tree / "build"


def test_in_an_editable_installation_built_elsewhere(tmp_path: Path, venv: MakeVenv) -> None:
    made = venv()
    made.pip_install("meson-python", "meson", "ninja")
    tree = copy_sources(tmp_path / "tree")
    elsewhere = tmp_path / "elsewhere"
    options = ["--no-build-isolation", "--no-deps", f"--config-settings=build-dir={elsewhere}"]
    made.pip_install(*options, "--editable", tree)
    assert found(made) == elsewhere / "src" / "probe" / PROBE


def test_in_a_source_tree(tmp_path: Path, venv: MakeVenv) -> None:
    made = venv()
    tree = copy_sources(tmp_path / "tree")
    stale_probe(made.bin)
    what, todo = refusal(made, tree / "src")
    assert what == f"{PROBE} is not built in {tree}"
    setup, compile_it = todo.removeprefix("build it there: ").split(" && ")
    subprocess.run(setup.split(), cwd=tree, check=True, capture_output=True)
    subprocess.run(compile_it.split(), cwd=tree, check=True, capture_output=True)
    assert found(made, tree / "src") == tree / "build" / "probe" / "src" / "probe" / PROBE


def test_a_missing_one_is_an_error_whatever_is_on_path(
    tmp_path: Path, venv: MakeVenv, blaswheel_wheel: Path
) -> None:
    made = venv()
    made.pip_install("--no-index", blaswheel_wheel)
    (made.bin / PROBE).unlink()
    stale_probe(tmp_path / "stale")
    stale = {"PATH": f"{tmp_path / 'stale'}{os.pathsep}{os.environ['PATH']}"}
    script = "from blaswheel._probe import find; find()"
    done = made.run(made.python, "-c", script, environ=stale, check=False)
    package = made.site_packages / "blaswheel"
    assert f"{PROBE}, a part of blaswheel, is missing beside {package}" in done.stderr
    assert "pip install --force-reinstall blaswheel" in done.stderr


def test_an_unpacked_wheel_has_no_probe_to_run(
    tmp_path: Path, venv: MakeVenv, blaswheel_wheel: Path
) -> None:
    unpack(blaswheel_wheel, tmp_path / "wheel")
    what, _ = refusal(venv(), tmp_path / "wheel" / "blaswheel-0.1.0.data" / "purelib")
    assert "is missing beside" in what


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"\xff\xfe\x00,,\n",
        b"../../../bin/nothing/blaswheel-probe,,\n" * 3,
        b'"",,\n"\n,,,,\n/blaswheel-probe\n',
    ],
)
def test_a_damaged_list_of_files_is_passed_over(
    venv: MakeVenv, blaswheel_wheel: Path, record: bytes
) -> None:
    made = venv()
    made.pip_install("--no-index", blaswheel_wheel)
    (made.site_packages / "blaswheel-0.1.0.dist-info" / "RECORD").write_bytes(record)
    assert found(made) == made.bin / PROBE
