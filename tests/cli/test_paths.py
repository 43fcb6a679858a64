"""Any path works: of the environment, of the files and of the cache, for every reader."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.building import build, flags, source, works
from tests.cli.sites import LP64, Blaswheel, copy, python_path, snapshot
from tests.support import Venv, Wheels

pytestmark = pytest.mark.tool("cc", "pkg-config", "meson", "ninja")

NAMES = {
    "space": "with  two spaces",
    "unicode": "ünï κ",
    "dollar": "a$HOME$(x)",
    "hash": "a#b",
    "quotes": 'it\'s "q"',
    "comma": "one,two",
    "shell": "a&b;c|d*e?[f](g)<h>~`!",
    "backslash": "a\\b",
    "equals": "a=b%20{c}",
}
ALL = 'a b ünï $x #1 it\'s "q",c\\d'
PLACES = ["environment", "files", "cache"]
MESON = """\
project('paths', 'c', meson_version: '>=1.2')
openblas = dependency('openblas')
executable('prog', 'prog.c', dependencies: openblas)
summary('libdir', openblas.get_variable('libdir'))
"""


@pytest.fixture(scope="session")
def pkgconf(tmp_path_factory: pytest.TempPathFactory, wheels: Wheels) -> Path:
    """The program inside PyPI's ``pkgconf``."""
    folder = copy(
        wheels.unpacked("pkgconf==3.0.7.post0"), tmp_path_factory.mktemp("pkgconf") / "site"
    )
    program = folder / "pkgconf/.bin/pkgconf"
    program.chmod(0o755)
    return program


@pytest.fixture
def read_back(blaswheel: Blaswheel, pkgconf: Path, tmp_path: Path) -> Callable[..., None]:
    """Check that each reader gets a program that runs from the files in a folder.

    Meson asks either pkg-config.
    """

    def check(files: Path, provider: Path, by_meson: bool = True) -> None:
        venv = blaswheel.venv
        environ = {"PKG_CONFIG_PATH": str(files)}
        for number, program in enumerate(["pkg-config", pkgconf]):
            found = flags(venv, "openblas", pkg_config=program, environ=environ)
            folders = [word[2:] for word in found if word[:2] in ("-I", "-L")]
            assert folders and all(os.path.isdir(folder) for folder in folders), found
            assert any(os.path.samefile(folder, provider) for folder in folders)
            (libdir,) = flags(
                venv, "openblas", "--variable=libdir", pkg_config=program, environ=environ
            )
            assert os.path.samefile(libdir, provider)
            works(venv, build(venv, tmp_path / f"work{number}", found))
        # As make does: the words unquoted, in a shell.
        command = "cc prog.c $(pkg-config --cflags --libs openblas) -o again"
        venv.run("sh", "-c", command, cwd=tmp_path / "work0", environ=environ)
        for number, program in enumerate(["pkg-config", pkgconf] if by_meson else []):
            work = tmp_path / f"meson{number}"
            source(work)
            (work / "meson.build").write_text(MESON)
            environ["PKG_CONFIG"] = str(program)
            meson(venv, work, environ)
            works(venv, work / "build/prog")

    return check


def meson(venv: Venv, work: Path, environ: dict[str, str], *options: str | Path) -> None:
    """Configure and build with the Meson of the interpreter that runs the tests."""
    path = {"PATH": os.pathsep.join([venv.environment()["PATH"], os.environ["PATH"]])}
    for words in (["setup", "build", *options], ["compile", "-C", "build"]):
        venv.run("meson", *words, cwd=work, environ={**environ, **path})


def place(tmp_path: Path, odd: str, which: str) -> dict[str, Path]:
    """Return a path for each place, odd for one or for all."""
    return {
        one: tmp_path / (f"{odd} {one}" if which in (one, "all") else one) / "x" for one in PLACES
    }


@pytest.mark.parametrize(
    ("odd", "which"),
    [*((name, "all") for name in NAMES), *(("everything", one) for one in PLACES)],
)
def test_odd_paths(
    blaswheel: Blaswheel,
    site: Callable[..., Path],
    tmp_path: Path,
    read_back: Callable[..., None],
    odd: str,
    which: str,
) -> None:
    places = place(tmp_path, NAMES.get(odd, ALL), which)
    folder = site(LP64, name=str(places["environment"]))
    environ = {"BLASWHEEL_CACHE_DIR": str(places["cache"])}
    # With -o archives and headers are in the cache.
    output = (
        ["-o", places["files"] / "openblas.pc"] if which == "cache" else ["--dir", places["files"]]
    )
    blaswheel("pc", "--runtime", "absolute", *output, on=folder, environ=environ)
    read_back(places["files"], folder / "scipy_openblas32/lib")


@pytest.mark.parametrize("name", ["space", "unicode", "dollar", "hash"])
def test_odd_paths_of_relocatable_files(
    blaswheel: Blaswheel,
    site: Callable[..., Path],
    tmp_path: Path,
    pkgconf: Path,
    name: str,
) -> None:
    """Paths are relative; the folder of the file is told by pkg-config, as it will."""
    site(LP64, name="tree/site")
    blaswheel(
        *("pc", "--relocatable", "--runtime", "absolute", "--dir", tmp_path / "tree/pc"),
        on=tmp_path / "tree/site",
    )
    moved = tmp_path / NAMES[name]
    (tmp_path / "tree").rename(moved)
    environ = {"PKG_CONFIG_PATH": str(moved / "pc")}
    for number, program in enumerate(["pkg-config", pkgconf]):
        found = flags(blaswheel.venv, "openblas", pkg_config=program, environ=environ)
        works(blaswheel.venv, build(blaswheel.venv, tmp_path / f"work{number}", found))


def test_links_are_followed_not_resolved(
    blaswheel: Blaswheel, site: Callable[..., Path], tmp_path: Path
) -> None:
    """An environment that is reached through a link stays there: the link may be moved on."""
    site(LP64, name="v1/site")
    (tmp_path / "current").symlink_to("v1")
    text = blaswheel("pc", on=tmp_path / "current/site").stdout
    assert f"libdir={tmp_path}/current/site/scipy_openblas32/lib\n" in text


def test_packages_that_are_links(
    blaswheel: Blaswheel,
    wheels: Wheels,
    tmp_path: Path,
    read_back: Callable[..., None],
) -> None:
    """uv can install wheels as links to its cache."""
    unpacked, folder = wheels.unpacked(LP64), tmp_path / "site"
    for path in unpacked.rglob("*"):
        target = folder / path.relative_to(unpacked)
        if path.is_dir():
            target.mkdir(parents=True)
        else:
            target.symlink_to(path)
    blaswheel("pc", "--runtime", "absolute", "--dir", tmp_path / "pc", on=folder)
    read_back(tmp_path / "pc", folder / "scipy_openblas32/lib", False)


def test_output_through_a_link(blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    blaswheel("pc", "--dir", tmp_path / "link", on=wheels.unpacked(LP64))
    assert (tmp_path / "real/openblas.pc").is_file()
    environ = {"PKG_CONFIG_PATH": str(tmp_path / "link")}
    works_with = flags(blaswheel.venv, "openblas", environ=environ)
    build(blaswheel.venv, tmp_path / "work", works_with)


@pytest.mark.parametrize("command", ["pc", "env", "list", "show"])
def test_read_only_site_packages(blaswheel: Blaswheel, read_only: Path, command: str) -> None:
    before = snapshot(read_only)
    assert blaswheel(command, on=read_only).stdout
    assert snapshot(read_only) == before


@pytest.fixture
def read_only(site: Callable[..., Path], tmp_path: Path) -> Iterator[Path]:
    """A site-packages that nobody can write to, root included: a read-only mount if we may."""
    folder = site(LP64)
    mounted = [
        subprocess.run(["mount", *words, str(folder)], check=False, capture_output=True).returncode
        for words in (["--bind", str(folder)], ["-o", "remount,ro,bind"])
    ]
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir() and any(mounted):
            path.chmod(0o555)
    yield folder
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir() and any(mounted):
            path.chmod(0o755)
    if mounted[0] == 0:
        subprocess.run(["umount", str(folder)], check=True)


def test_native_files_of_odd_folders(
    blaswheel: Blaswheel, site: Callable[..., Path], tmp_path: Path
) -> None:
    files = tmp_path / ALL / "pc"
    folder = site(LP64)
    blaswheel(
        *("pc", "--runtime", "absolute", "--dir", files, "--native-file", tmp_path / "native.ini"),
        on=folder,
    )
    work = tmp_path / "work"
    source(work)
    (work / "meson.build").write_text(MESON)
    meson(blaswheel.venv, work, {}, "--native-file", tmp_path / "native.ini")
    works(blaswheel.venv, work / "build/prog")


def test_python_interface_gives_paths_as_they_are(
    blaswheel: Blaswheel, site: Callable[..., Path], tmp_path: Path
) -> None:
    folder = site(LP64, name=ALL)
    program = (
        "import blaswheel, json; one = blaswheel.find();"
        "print(json.dumps([one.compile_args(), one.link_args(runtime='absolute')]))"
    )
    environ = {**python_path(folder), "BLASWHEEL_CACHE_DIR": str(tmp_path / f"{ALL} cache")}
    answer = blaswheel.venv.run("python", "-c", program, environ=environ).stdout
    arguments = [word for words in json.loads(answer) for word in words]
    works(blaswheel.venv, build(blaswheel.venv, tmp_path / "work", arguments))
