"""Whatever else is in a site-packages, its libraries are found, without a traceback, and soon."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from pathlib import Path

import pytest

from blaswheel import _reading
from tests.cli.sites import Blaswheel

pytestmark = pytest.mark.tool("cc")

NAMES = ["odd", "a b", "ünï", "$(touch x)", "-Wl,-z", "a;b", "it's", "new\nline", "x" * 200]


def good(site: Path, name: str, library: Path) -> Path:
    """Install a distribution that is in order."""
    place = site / name.replace("\n", "_") / "lib" / "libsmallblas.so"
    place.parent.mkdir(parents=True)
    os.link(library, place)
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    listed = str(place.relative_to(site)).replace('"', '""')
    (info / "RECORD").write_text(f'"{listed}",,\n')
    return place


def spoil(site: Path, number: int, choose: random.Random, library: Path) -> None:
    """Add something that is not in order, and no library."""
    info = site / f"spoilt{number}-1.dist-info"
    kind = choose.randrange(14)
    if kind == 0:
        info.write_bytes(b"a file")
    elif kind == 1:
        info.symlink_to(info.name)
    elif kind == 2:
        (info / "RECORD").mkdir(parents=True)
    elif kind == 3:
        info.mkdir()
        (info / "RECORD").write_bytes(
            choose.randbytes(300) + b"\n.so,,\n\0.so,,\n../../none.so,,\n"
        )
    elif kind == 4:
        info.mkdir()
        (info / "RECORD").write_text("x.so,,\n" * choose.randrange(300))
    elif kind == 5:
        info.mkdir()
        url = choose.choice(["file:///none", "file://[", "http://x", "file:///\0", "", 7, None, []])
        noted = {"url": url, "dir_info": choose.choice([{"editable": True}, [], None])}
        (info / "direct_url.json").write_text(json.dumps(noted))
        (info / "RECORD").write_text("direct_url.json,,\n")
    elif kind == 6:
        info.mkdir()
        (info / "direct_url.json").write_bytes(b"[" * 100_000)
        (info / "RECORD").write_text("direct_url.json,,\n")
    elif kind == 7:
        content = bytearray(library.read_bytes()[: choose.randrange(1, 20_000)])
        for _ in range(choose.randrange(40)):
            content[choose.randrange(min(len(content), 400))] = choose.randrange(256)
        (site / f"spoilt{number}.so").write_bytes(content[: choose.randrange(4096)])
        info.mkdir()
        (info / "RECORD").write_text(f"spoilt{number}.so,,\n")
    elif kind == 8:
        os.mkfifo(site / f"spoilt{number}.so")
        info.mkdir()
        (info / "RECORD").write_text(f"spoilt{number}.so,,\n")
    elif kind == 9:
        folder = site / f"deep{number}"
        folder.mkdir()
        (folder / "up").symlink_to("..")
        info.mkdir()
        (info / "RECORD").write_text("/".join([f"deep{number}/up"] * 30) + "/x.so,,\n")
    elif kind == 10:
        (site / f"spoilt{number}.pth").write_bytes(choose.randbytes(50) + b"\n/none\n")
    elif kind == 11:
        (site / os.fsdecode(b"\xff\xfe%d-1.dist-info" % number)).mkdir()
    elif kind == 12:
        info.mkdir()
        (info / "RECORD").write_text("/dev/zero.so,,\n/dev/zero,,\n/proc/self/mem.so,,\n")
    else:
        info.mkdir(mode=0)


def made(folder: Path, seed: int, library: Path) -> tuple[list[str], set[str]]:
    """Make a search path and return it with the libraries on it."""
    choose = random.Random(seed)
    expected = set()
    path = []
    for number in range(choose.randrange(1, 3)):
        site = folder / f"site{number}"
        site.mkdir()
        path.append(str(site))
        for name in choose.sample(NAMES, choose.randrange(3)) if number == 0 else []:
            expected.add(str(good(site, name, library)))
        for count in range(choose.randrange(6)):
            spoil(site, count, choose, library)
    zipped = folder / "odd.zip"
    zipped.write_bytes(choose.choice([b"", b"PK\5\6" + bytes(18), choose.randbytes(200)]))
    path += choose.choice([[], [str(zipped)], ["", "\0", str(folder / "none")], [path[0]]])
    return path, expected


def check(folder: Path, library: Path, seeds: range) -> None:
    for seed in seeds:
        place = folder / str(seed)
        place.mkdir()
        path, expected = made(place, seed, library)
        begin = time.perf_counter()
        seen = _reading.read(path, here=False, system=False)
        assert time.perf_counter() - begin < 10, seed
        assert {one.path for one in seen.libraries} == expected, seed
        assert not [line for line in seen.problems if "\n" in line]
        shutil.rmtree(place)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLASWHEEL_CACHE_DIR", str(tmp_path / "cache"))


def test_site_packages(tmp_path: Path, small_blas: Path) -> None:
    check(tmp_path, small_blas, range(300))


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_ten_thousand(tmp_path: Path, small_blas: Path) -> None:
    check(tmp_path, small_blas, range(10_000))


@pytest.mark.parametrize("seed", range(6))
def test_by_command(blaswheel: Blaswheel, tmp_path: Path, small_blas: Path, seed: int) -> None:
    path, expected = made(tmp_path, seed, small_blas)
    sites = [Path(entry) for entry in path if entry and "\0" not in entry]
    done = blaswheel("list", "--json", on=sites, check=False)
    assert "Traceback" not in done.stderr
    assert done.returncode == 0, done.stderr
    assert all(json.dumps(one)[1:-1] in done.stdout for one in expected)
