"""Wheels as ``--root``, and ``--platform`` that picks among them; wheels are not to be trusted."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.cli.sites import ILP64, LP64, Blaswheel
from tests.support import Wheels

PLATFORMS = {
    "manylinux_2_28_x86_64": ("elf", "x86_64"),
    "manylinux_2_28_aarch64": ("elf", "aarch64"),
    "macosx_11_0_arm64": ("macho", "aarch64"),
    "win_amd64": ("pe", "x86_64"),
}
# What users may call the same machines.
ALIASES = {"linux_aarch64": "manylinux_2_28_aarch64", "macosx_14_0_arm64": "macosx_11_0_arm64"}


def libraries(blaswheel: Blaswheel, *words: str | Path, **how: Any) -> list[dict[str, Any]]:
    found = json.loads(blaswheel("list", "--json", *words, **how).stdout)["libraries"]
    assert isinstance(found, list)
    return found


@pytest.fixture(scope="module")
def folder(wheels: Wheels, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheels of two providers for every platform, as a mirror has them."""
    made = tmp_path_factory.mktemp("wheels")
    for platform in PLATFORMS:
        for spec in (LP64, ILP64):
            wheel = wheels.fetch(spec, platform)
            (made / wheel.name).symlink_to(wheel)
    return made


@pytest.mark.parametrize("platform", [*PLATFORMS, *ALIASES])
def test_a_platform_picks_its_wheels(blaswheel: Blaswheel, folder: Path, platform: str) -> None:
    found = libraries(blaswheel, "--root", folder, "--platform", platform)
    assert [one["provider"]["name"] for one in found] == ["scipy-openblas32", "scipy-openblas64"]
    wanted = PLATFORMS[ALIASES.get(platform, platform)]
    assert {(one["format"], one["machine"]) for one in found} == {wanted}
    assert [one["interface"] for one in found] == ["lp64", "ilp64"]
    assert all(one["linkable"] for one in found)


def neutral(found: list[dict[str, Any]]) -> str:
    """Return what is told of libraries, whichever site-packages they are in."""
    (site,) = {Path(one["path"]).parents[2] for one in found}
    return json.dumps(found).replace(str(site), "SITE")


def test_one_wheel_is_what_its_unpacked_folder_is(
    blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    zipped = libraries(
        blaswheel,
        "--root",
        wheels.fetch(LP64, python="3.11"),
        environ={"BLASWHEEL_CACHE_DIR": str(cache)},
    )
    # Neither knows what a call showed earlier.
    environ = {"BLASWHEEL_CACHE_DIR": str(tmp_path / "other")}
    plain = libraries(blaswheel, "--root", wheels.unpacked(LP64), environ=environ)
    assert neutral(zipped) == neutral(plain)
    # No more than the members needed: no code of the provider.
    written = {path.suffix for path in cache.rglob("*") if path.is_file()}
    assert written.isdisjoint({".py", ".pyi", ".exe"}) and ".so" in written
    assert not [path for path in cache.rglob("*") if path.suffix == ".tmp"]


def test_a_wheel_whose_files_belong_in_the_data_scheme(
    blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path
) -> None:
    wheel = made(
        tmp_path,
        {
            "lib/libscipy_openblas.so": library(wheels),
            "include/cblas.h": b"double cblas_ddot(int, const double *);\n",
        },
        under="demo-1.0.data/data",
    )
    (one,) = libraries(blaswheel, "--root", wheel)
    assert one["provider"] == {"name": "demo", "version": "1.0"}
    assert Path(one["path"]).name == "libscipy_openblas.so"
    assert Path(one["path"]).parent.name == "lib" and "site-packages" not in one["path"]


def test_the_newest_that_still_serves_is_taken(blaswheel: Blaswheel, folder: Path) -> None:
    error, _ = blaswheel.error("list", "--root", folder, "--platform", "manylinux_2_17_x86_64")
    assert error == "no wheel there is for manylinux_2_17_x86_64"


def test_a_later_wheel_of_the_same_platform_is_preferred(
    blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path
) -> None:
    content = {"demo/libdemo.so": library(wheels)}
    for tag in ("manylinux_2_17_x86_64.manylinux2014_x86_64", "manylinux_2_28_x86_64"):
        made(tmp_path / "w", {**content, f"demo/{tag}.h": b""}, tags=tag)
    (one,) = libraries(blaswheel, "--root", tmp_path / "w", "--platform", "manylinux_2_35_x86_64")
    assert [path.name for path in Path(one["path"]).parent.glob("*.h")] == [
        "manylinux_2_28_x86_64.h"
    ]


def test_several_that_could_be_meant_are_named(blaswheel: Blaswheel, folder: Path) -> None:
    error, hint = blaswheel.error("list", "--root", folder)
    assert "several wheels of scipy-openblas32" in error and "macosx_11_0_arm64.whl" in error
    assert "--platform" in hint


def test_two_versions_of_a_platform_are_named(
    blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path
) -> None:
    content = {"demo/libdemo.so": library(wheels)}
    for version in ("1.0", "2.0"):
        made(tmp_path / "w", content, version=version)
    error, hint = blaswheel.error("list", "--root", tmp_path / "w", "--platform", "linux_x86_64")
    assert "demo-1.0-" in error and "demo-2.0-" in error and "one wheel" in hint


def test_a_platform_without_a_wheel_lists_what_there_is(blaswheel: Blaswheel, folder: Path) -> None:
    error, hint = blaswheel.error("pc", "--root", folder, "--platform", "linux_riscv64")
    assert "linux_riscv64" in error and "manylinux_2_28_aarch64" in hint


@pytest.mark.parametrize("tag", ["arm", "linux", "manylinux_x86_64", "any", "win_"])
def test_what_is_no_platform_tag(blaswheel: Blaswheel, folder: Path, tag: str) -> None:
    error, hint = blaswheel.error("list", "--root", folder, "--platform", tag, status=2)
    assert "platform tag" in error and "linux_aarch64" in hint


def test_a_platform_needs_a_root(blaswheel: Blaswheel) -> None:
    error, hint = blaswheel.error("list", "--platform", "linux_aarch64", status=2)
    assert "--platform" in error and "--root" in hint


def test_a_platform_also_picks_among_installed_libraries(
    blaswheel: Blaswheel, wheels: Wheels
) -> None:
    here = wheels.unpacked(LP64)
    assert libraries(blaswheel, "--root", here, "--platform", "linux_x86_64")
    error, _ = blaswheel.error("pc", "--root", here, "--platform", "linux_aarch64")
    assert "x86_64 (elf)" in error and "linux_aarch64" in error


def test_a_changed_wheel_is_read_again(
    blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path
) -> None:
    wheel = made(tmp_path, {"demo/libdemo.so": library(wheels)})
    assert len(libraries(blaswheel, "--root", wheel)) == 1
    made(tmp_path, {"demo/readme.h": b"nothing"})
    assert libraries(blaswheel, "--root", wheel) == []


def test_many_at_once_unpack_into_one_cache(
    blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path
) -> None:
    wheel = wheels.fetch(LP64, "win_amd64")
    environ = {"BLASWHEEL_CACHE_DIR": str(tmp_path / "cache")}

    def ask(_: int) -> str:
        return blaswheel("list", "--json", "--root", wheel, environ=environ).stdout

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(ask, range(4)))) == 1
    assert len(list((tmp_path / "cache/wheels").iterdir())) == 1


# Wheels made to do harm.


def library(wheels: Wheels) -> bytes:
    path = wheels.unpacked(LP64) / "scipy_openblas32/lib/libscipy_openblas.so"
    return path.read_bytes()


def made(
    folder: Path,
    members: dict[str, bytes],
    *,
    under: str = "",
    tags: str = "manylinux_2_17_x86_64",
    version: str = "1.0",
) -> Path:
    """Write a wheel, with whatever names."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"demo-{version}-py3-none-{tags}.whl"
    info = f"demo-{version}.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in members.items():
            archive.writestr(f"{under}/{name}" if under else name, content)
        archive.writestr(f"{info}/METADATA", f"Name: demo\nVersion: {version}\n")
        archive.writestr(f"{info}/RECORD", "demo/lies.so,,\n../../../../etc/passwd,,\n")
    return path


def refused(blaswheel: Blaswheel, wheel: Path, tmp_path: Path) -> str:
    """Return why a wheel was refused, after a look at whether anything was left behind."""
    cache = tmp_path / "cache"
    error, hint = blaswheel.error(
        "list", "--root", wheel, environ={"BLASWHEEL_CACHE_DIR": str(cache)}
    )
    assert str(wheel) in error and hint
    assert not [path for path in cache.rglob("*") if path.is_file()]
    return error


@pytest.mark.parametrize(
    "name",
    ["../escape.so", "/tmp/escape.so", "demo/../../escape.so", "demo/./x.so", "demo\\..\\x.so",
     "C:/escape.so", "demo//x.so", "demo-1.0.data/data/../../../escape.so"],
)  # fmt: skip
def test_members_that_lead_out(blaswheel: Blaswheel, tmp_path: Path, name: str) -> None:
    wheel = tmp_path / "w" / "demo-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    # zipfile itself mends such names as it writes them.
    stand_in = "M" * len(name)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(stand_in, b"\x7fELF")
        archive.writestr("demo-1.0.dist-info/METADATA", "Name: demo\nVersion: 1.0\n")
    wheel.write_bytes(wheel.read_bytes().replace(stand_in.encode(), name.encode()))
    error = refused(blaswheel, wheel, tmp_path)
    assert "leads out of it" in error or "dist-info" in error or "differ" in error


def test_symbolic_links(blaswheel: Blaswheel, tmp_path: Path) -> None:
    wheel = made(tmp_path / "w", {})
    with zipfile.ZipFile(wheel, "a") as archive:
        link = zipfile.ZipInfo("demo/libdemo.so")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    assert "symbolic link" in refused(blaswheel, wheel, tmp_path)


def test_members_that_are_there_twice(blaswheel: Blaswheel, tmp_path: Path) -> None:
    wheel = made(tmp_path / "w", {"demo/libdemo.so": b"one"})
    with zipfile.ZipFile(wheel, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("demo/libdemo.so", b"another")
    assert "twice" in refused(blaswheel, wheel, tmp_path)


def test_a_member_that_says_it_is_smaller_than_it_is(blaswheel: Blaswheel, tmp_path: Path) -> None:
    wheel = made(tmp_path / "w", {"demo/libdemo.so": bytes(50_000_000)})
    data = bytearray(wheel.read_bytes())
    size = (50_000_000).to_bytes(4, "little")
    assert data.count(size) == 2
    wheel.write_bytes(data.replace(size, (1000).to_bytes(4, "little")))
    refused(blaswheel, wheel, tmp_path)


def test_a_wheel_that_says_it_unpacks_to_terabytes(blaswheel: Blaswheel, tmp_path: Path) -> None:
    wheel = made(tmp_path / "w", {f"demo/lib{each}.so": bytes(1000) for each in range(5)})
    data = bytearray(wheel.read_bytes())
    wheel.write_bytes(
        data.replace((1000).to_bytes(4, "little"), (4_000_000_000).to_bytes(4, "little"))
    )
    assert "more than" in refused(blaswheel, wheel, tmp_path)


def test_an_encrypted_member(blaswheel: Blaswheel, tmp_path: Path) -> None:
    wheel = made(tmp_path / "w", {"demo/libdemo.so": b"secret" * 100})
    data = bytearray(wheel.read_bytes())
    central = data.index(b"PK\x01\x02")
    data[6] |= 1
    data[central + 8] |= 1
    wheel.write_bytes(data)
    refused(blaswheel, wheel, tmp_path)


@pytest.mark.parametrize("damage", ["empty", "text", "cut", "flipped"])
def test_damaged_wheels(blaswheel: Blaswheel, tmp_path: Path, damage: str) -> None:
    wheel = made(tmp_path / "w", {"demo/libdemo.so": os.urandom(10_000)})
    data = bytearray(wheel.read_bytes())
    data[5000] ^= 0xFF
    texts = {"empty": b"", "text": b"not a wheel\n" * 9, "cut": data[:6000], "flipped": bytes(data)}
    wheel.write_bytes(texts[damage])
    refused(blaswheel, wheel, tmp_path)


def test_a_wheel_without_metadata(blaswheel: Blaswheel, tmp_path: Path) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("demo/libdemo.so", b"x")
    wheel = tmp_path / "demo-1.0-py3-none-any.whl"
    wheel.write_bytes(content.getvalue())
    assert "dist-info" in refused(blaswheel, wheel, tmp_path)


def test_a_file_that_is_not_named_as_a_wheel(blaswheel: Blaswheel, tmp_path: Path) -> None:
    wheel = made(tmp_path / "w", {})
    other = wheel.with_name("demo.whl")
    wheel.rename(other)
    assert "not the name of a wheel" in refused(blaswheel, other, tmp_path)


# A set for a cross build.


def test_a_cross_file_makes_meson_look_there(
    blaswheel: Blaswheel, folder: Path, tmp_path: Path
) -> None:
    """For the same machine, so that the result runs here; `tests/machines` has others."""
    ini = tmp_path / "blas.ini"
    blaswheel(
        *("pc", "--root", folder, "--platform", "linux_x86_64", "--runtime", "absolute"),
        *("--dir", tmp_path / "pc", "--cross-file", ini),
    )
    machine = tmp_path / "machine.ini"
    machine.write_text(
        "[host_machine]\nsystem = 'linux'\ncpu_family = 'x86_64'\ncpu = 'x86_64'\n"
        "endian = 'little'\n[binaries]\nc = 'gcc'\n"
    )
    work = tmp_path / "work"
    work.mkdir()
    (work / "meson.build").write_text(
        "project('x', 'c')\n"
        "executable('x', 'x.c', dependencies: dependency('openblas', method: 'pkg-config'))\n"
    )
    (work / "x.c").write_text(
        "#include <cblas.h>\n"
        "int main(void) { double x[2] = {3, 4}; return cblas_ddot(2, x, 1, x, 1) != 25; }\n"
    )
    setup = ("setup", "--cross-file", ini, "--cross-file", machine, "build", work)
    subprocess.run(["meson", *map(str, setup)], cwd=tmp_path, check=True)
    subprocess.run(["ninja", "-C", "build"], cwd=tmp_path, check=True)
    subprocess.run([tmp_path / "build" / "x"], check=True)


def test_a_cross_file_needs_a_set(blaswheel: Blaswheel, tmp_path: Path) -> None:
    error, hint = blaswheel.error("pc", "--cross-file", tmp_path / "x.ini", status=2)
    assert "--cross-file" in error and "--dir" in hint


#: Stops at whatever would run or load something.
GUARDED = """
import sys
def guard(event, arguments):
    if event.startswith(("subprocess.", "os.exec", "os.posix_spawn", "os.fork", "os.system",
                         "ctypes.dlopen")):
        sys.exit(f"{event} {arguments}")
sys.addaudithook(guard)
from blaswheel._cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_set_of_another_platform_runs_nothing(
    blaswheel: Blaswheel, folder: Path, tmp_path: Path, platform: str
) -> None:
    words = ("pc", "--native", "--root", folder, "--platform", platform, "--dir", tmp_path / "pc")
    blaswheel.venv.run("python", "-c", GUARDED, *words)
    assert (tmp_path / "pc" / "scipy-openblas.pc").is_file()
