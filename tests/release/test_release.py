"""What ``python tools/release`` builds: honest tags, and probes that run on their systems."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.build_wheel import ROOT, cache, source_files
from tests.cli.sites import LP64
from tests.support import Venv, Wheels, clean_environment

pytestmark = pytest.mark.timeout(1200)
#: Target: the tag, and how the probe in its wheel is run here.
FEW = {
    "manylinux-x86_64": ("manylinux2014_x86_64.manylinux_2_17_x86_64", ()),
    "manylinux-aarch64": (
        "manylinux2014_aarch64.manylinux_2_17_aarch64",
        ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"),
    ),
    "musllinux-x86_64": ("musllinux_1_2_x86_64", ("/lib/ld-musl-x86_64.so.1",)),
    "windows-amd64": ("win_amd64", ("wine",)),
}
MORE = {
    "manylinux-ppc64le": (
        "manylinux2014_ppc64le.manylinux_2_17_ppc64le",
        ("qemu-ppc64le", "-L", "/usr/powerpc64le-linux-gnu"),
    ),
    "manylinux-s390x": (
        "manylinux2014_s390x.manylinux_2_17_s390x",
        ("qemu-s390x", "-L", "/usr/s390x-linux-gnu"),
    ),
    # Neither their C library nor their system is here.
    "musllinux-aarch64": ("musllinux_1_2_aarch64", None),
    "musllinux-ppc64le": ("musllinux_1_2_ppc64le", None),
    "musllinux-s390x": ("musllinux_1_2_s390x", None),
    "macos-x86_64": ("macosx_10_13_x86_64", None),
    "macos-arm64": ("macosx_11_0_arm64", None),
    "windows-arm64": ("win_arm64", None),
}
LIBRARIES = {
    "manylinux-aarch64": "manylinux_2_28_aarch64",
    "manylinux-ppc64le": "manylinux_2_28_ppc64le",
    "manylinux-s390x": "manylinux_2_28_s390x",
    "musllinux-x86_64": "musllinux_1_2_x86_64",
    "windows-amd64": "win_amd64",
}


def release(folder: Path, *words: str | Path) -> list[Path]:
    """Run the tool as its users do, and return what it has written."""
    zig = str(cache() / "zig")
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "release", "-o", folder, *words],
        env={
            **clean_environment(),
            "SOURCE_DATE_EPOCH": "1750000000",
            "ZIG_GLOBAL_CACHE_DIR": zig,
            "ZIG_LOCAL_CACHE_DIR": zig,
        },
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [Path(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of the files as they are: meson-python takes for it what is committed."""
    folder = tmp_path_factory.mktemp("sdist")
    path = folder / "blaswheel-0.1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for file in source_files():
            archive.add(file, f"blaswheel-0.1.0/{file.relative_to(ROOT).as_posix()}")
    return path


@pytest.fixture(scope="module")
def wheels_of(
    sdist: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[dict[str, object]], dict[str, Path]]:
    """Build the wheels of some targets."""

    def build(targets: dict[str, object]) -> dict[str, Path]:
        only = [word for name in targets for word in ("--only", name)]
        _, *made = release(tmp_path_factory.mktemp("dist"), "--sdist", sdist, *only)
        return dict(zip(targets, made, strict=True))

    return build


@pytest.fixture(scope="module")
def made(wheels_of: Callable[..., dict[str, Path]]) -> Callable[[str], Path]:
    """Return the wheel of a target: a few are built together, and all others."""
    known: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in known:
            known.update(wheels_of(FEW if name in FEW else MORE))
        return known[name]

    return get


def targets(*, running: bool) -> list[object]:
    """Return the parameters of a test; all but a few are for full runs."""
    found: list[object] = []
    for name, (_, runner) in {**FEW, **MORE}.items():
        marks = [] if name in FEW else [pytest.mark.full]
        marks += [pytest.mark.tool(runner[0])] if running and runner else []
        if runner or not running:
            found.append(pytest.param(name, marks=marks))
    return found


def probe_of(wheel: Path, folder: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if "/scripts/blaswheel-probe" in one)
        # Windows has no such modes.
        assert name.endswith(".exe") or archive.getinfo(name).external_attr >> 16 & 0o111
        path = folder / Path(name).name
        path.write_bytes(archive.read(name))
    path.chmod(0o755)
    return path


def verified(venv: Venv, wheels: Wheels, name: str, probe: Path, runner: tuple[str, ...]) -> None:
    """Let a probe call a real library of its system."""
    site = wheels.unpacked(LP64, LIBRARIES[name])
    (library,) = (
        path
        for path in (site / "scipy_openblas32" / "lib").iterdir()
        if "openblas" in path.name and path.suffix in (".so", ".dll")
    )
    environ = {"WINEDEBUG": "-all", "WINEPREFIX": str(cache() / "wine")}
    emulator = " ".join(runner)
    if runner[0].startswith("/lib/ld-musl"):
        emulator += f" --library-path {site / 'scipy_openblas32.libs'}"
    done = venv.run(
        *("blaswheel", "verify", "--json", "--no-cache", "--emulator", emulator),
        *("--probe", probe, library),
        environ=environ,
        timeout=400,
    )
    told = json.loads(done.stdout)
    assert (told["verified"], told["interface"]) == (True, "lp64")


@pytest.mark.parametrize("name", targets(running=False))
def test_wheels(made: Callable[[str], Path], name: str) -> None:
    wheel, tag = made(name), {**FEW, **MORE}[name][0]
    assert wheel.name == f"blaswheel-0.1.0-py3-none-{tag}.whl"
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        text = archive.read("blaswheel-0.1.0.dist-info/WHEEL").decode()
        assert {line for line in text.splitlines() if line.startswith("Tag:")} == {
            f"Tag: py3-none-{one}" for one in tag.split(".")
        }
        assert "blaswheel-0.1.0.data/purelib/blaswheel/_cli.py" in archive.namelist()


def test_the_wheel_for_this_machine(
    made: Callable[[str], Path], wheels: Wheels, venv: Callable[..., Venv]
) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("the wheels built here are for x86-64")
    clean = venv("clean")
    wheel = made("manylinux-x86_64")
    clean.pip_install("--no-index", "--no-deps", wheel, wheels.fetch(LP64))
    said = clean.run("blaswheel", "verify").stdout
    assert "lp64" in said.lower()
    assert "prefix=" in clean.run("blaswheel", "pc").stdout


@pytest.mark.parametrize("name", targets(running=True))
def test_probes_of_other_systems(
    made: Callable[[str], Path],
    wheels: Wheels,
    shared_venv: Callable[..., Venv],
    tmp_path: Path,
    name: str,
) -> None:
    runner = {**FEW, **MORE}[name][1]
    assert runner
    verified(shared_venv(), wheels, name, probe_of(made(name), tmp_path), runner)


def test_two_runs_give_the_same(
    made: Callable[[str], Path], wheels_of: Callable[..., dict[str, Path]]
) -> None:
    again = wheels_of({"manylinux-x86_64": None})
    assert again["manylinux-x86_64"].read_bytes() == made("manylinux-x86_64").read_bytes()


def test_without_its_probe_it_does_all_but_load(
    made: Callable[[str], Path], wheels: Wheels, venv: Callable[..., Venv], tmp_path: Path
) -> None:
    clean = venv("clean")
    wheel = made("manylinux-x86_64")
    clean.pip_install("--no-index", "--no-deps", wheel, wheels.fetch(LP64))
    (clean.bin / "blaswheel-probe").unlink()
    assert "scipy-openblas32" in clean.run("blaswheel", "list").stdout
    assert "openblas" in clean.run("blaswheel", "show").stdout
    done = clean.run("blaswheel", "pc", "-o", tmp_path / "openblas.pc")
    assert "not verified" in done.stderr
    assert (tmp_path / "openblas.pc").is_file()
    assert "manylinux" in clean.run("blaswheel", "tag", wheel).stdout
    clean.run("blaswheel", "cmake", "--dir", tmp_path / "cmake")
    clean.run("blaswheel", "doctor", clean.site_packages / "scipy_openblas32")
    failed = clean.run("blaswheel", "verify", check=False)
    assert failed.returncode == 1
    wrong, hint = failed.stderr.splitlines()[-2:]
    assert "blaswheel-probe" in wrong
    assert hint.strip()


@pytest.mark.tool("git")
def test_the_source_distribution(tmp_path: Path) -> None:
    """All that is committed, and the wheel of a newcomer can be built from it."""
    checkout = tmp_path / "checkout"
    done = subprocess.run(
        ["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip("a checkout of git is needed")
    subprocess.run(["git", "clone", "--quiet", ROOT, checkout], check=True)
    built = subprocess.run(
        [sys.executable, "-m", "build", "--sdist", "--outdir", tmp_path / "dist", checkout],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    (made,) = (tmp_path / "dist").glob("*.tar.gz")
    tracked = subprocess.run(
        ["git", "-C", checkout, "ls-files"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    with tarfile.open(made) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert set(tracked) <= names
    assert names - set(tracked) - {str(p) for one in tracked for p in Path(one).parents} <= {
        "PKG-INFO",
        "",
    }
