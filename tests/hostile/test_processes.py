"""Ends at any moment, several at once, and little room leave no torn file."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.sites import Blaswheel
from tests.hostile.test_site_packages import good

pytestmark = pytest.mark.tool("cc", "sh", "prlimit")


@pytest.fixture
def site(tmp_path: Path, small_blas: Path) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    good(folder, "small", small_blas)
    return folder


@pytest.fixture
def command(blaswheel: Blaswheel) -> list[str]:
    program = shutil.which("blaswheel", path=blaswheel.venv.environment()["PATH"])
    assert program is not None
    return [program, "pc", "--no-verify"]


def environment(blaswheel: Blaswheel, site: Path, cache: Path) -> dict[str, str]:
    changes = {"PYTHONPATH": str(site), "BLASWHEEL_CACHE_DIR": str(cache)}
    return blaswheel.venv.environment(changes)


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(".tmp") and ".tmp/" not in str(path)
    }


def test_killed_at_any_moment(
    blaswheel: Blaswheel, site: Path, command: list[str], tmp_path: Path
) -> None:
    environ = environment(blaswheel, site, tmp_path / "cache")
    output = tmp_path / "out"
    words = [*command, "--dir", str(output)]
    begin = time.monotonic()
    subprocess.run(words, env=environ, check=True)
    lasts = time.monotonic() - begin
    whole = content(output)
    choose = random.Random(1)
    for _ in range(25):
        shutil.rmtree(output)
        shutil.rmtree(tmp_path / "cache", ignore_errors=True)
        child = subprocess.Popen(words, env=environ)
        time.sleep(choose.uniform(0, lasts))
        child.kill()
        child.wait()
        if output.exists():
            left = content(output)
            assert left.items() <= whole.items()
        else:
            output.mkdir()
    # Nothing that was left is in the way.
    subprocess.run(words, env=environ, check=True)
    assert content(output) == whole


def test_several_at_once(
    blaswheel: Blaswheel, site: Path, command: list[str], tmp_path: Path
) -> None:
    environ = environment(blaswheel, site, tmp_path / "cache")
    words = [*command, "--dir", str(tmp_path / "out")]
    children = [subprocess.Popen(words, env=environ) for _ in range(4)]
    assert [child.wait() for child in children] == [0] * 4
    at_once = content(tmp_path / "out")
    subprocess.run(words, env=environ, check=True)
    assert content(tmp_path / "out") == at_once
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.parametrize("limit", [0, 1, 100, 1000])
def test_no_room(
    blaswheel: Blaswheel, site: Path, command: list[str], tmp_path: Path, limit: int
) -> None:
    environ = environment(blaswheel, site, tmp_path / "cache")
    words = ["prlimit", f"--fsize={limit}", *command, "--dir", str(tmp_path / "out")]
    done = subprocess.run(words, env=environ, check=False, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 2
    assert "can't write" in done.stderr
    assert not [path for path in tmp_path.rglob("*") if path.name.endswith(".tmp")]


@pytest.mark.parametrize(
    "how",
    [
        *("{} <&-", "{} >&- || test $? = 1", "{} 2>&-", "{} >/dev/full || test $? = 1"),
        *("env -u HOME {}", "LC_ALL=C {}", "prlimit --as=400000000 {}"),
    ],
)
def test_odd_surroundings(
    blaswheel: Blaswheel, site: Path, command: list[str], tmp_path: Path, how: str
) -> None:
    line = how.format(" ".join(command))
    done = subprocess.run(
        ["sh", "-c", line],
        env=environment(blaswheel, site, tmp_path / "cache"),
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_names_that_are_no_utf8(
    blaswheel: Blaswheel, small_blas: Path, command: list[str], tmp_path: Path
) -> None:
    site = tmp_path / os.fsdecode(b"s\xff\xe9")
    site.mkdir()
    good(site, "small", small_blas)
    environ = environment(blaswheel, site, tmp_path / "cache")
    for language in ("C", "C.UTF-8"):
        environ["LC_ALL"] = language
        done = subprocess.run(command, env=environ, check=False, capture_output=True)
        assert b"Traceback" not in done.stderr
        assert done.returncode == 0, done.stderr
        assert b"Libs:" in done.stdout
