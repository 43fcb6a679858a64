"""Which libraries are found in an environment, and that finding them runs and writes nothing."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.sites import (
    ILP64,
    LP64,
    NEWEST,
    NUMPY,
    OLDER,
    Blaswheel,
    copy,
    distribution,
    python_path,
    snapshot,
)
from tests.support import Venv, Wheels

LIBRARY = "scipy_openblas32/lib/libscipy_openblas.so"


def found(blaswheel: Blaswheel, *arguments: str | Path, **how: Any) -> list[dict[str, Any]]:
    libraries = json.loads(blaswheel("list", "--json", *arguments, **how).stdout)["libraries"]
    assert isinstance(libraries, list)
    return libraries


def providers(libraries: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(one["provider"]["name"], one["provider"]["version"]) for one in libraries]


@pytest.fixture(scope="session")
def library(wheels: Wheels) -> Path:
    return wheels.unpacked(LP64) / LIBRARY


def test_finds_what_pip_installed(shared_venv: Callable[..., Venv], tmp_path: Path) -> None:
    venv = shared_venv(LP64, ILP64)
    libraries = found(Blaswheel(venv))
    assert providers(libraries) == [("scipy-openblas32", NEWEST), ("scipy-openblas64", NEWEST)]
    assert [one["interface"] for one in libraries] == ["lp64", "ilp64"]
    assert libraries[0]["path"] == str(venv.site_packages / LIBRARY)
    assert libraries[0]["include_dirs"] == [str(venv.site_packages / "scipy_openblas32/include")]
    assert found(Blaswheel(venv), cwd=tmp_path) == libraries


def test_an_empty_environment_is_told(blaswheel: Blaswheel) -> None:
    assert found(blaswheel) == []
    done = blaswheel("list")
    assert done.stdout == ""
    assert "no BLAS library" in done.stderr and "pip install scipy-openblas32" in done.stderr


def test_first_on_the_search_path_wins(blaswheel: Blaswheel, site: Callable[..., Path]) -> None:
    old = site(f"scipy-openblas32=={OLDER}", name="old")
    new = site(LP64, name="new")
    assert providers(found(blaswheel, on=[old, new])) == [("scipy-openblas32", OLDER)]
    assert providers(found(blaswheel, on=[new, old])) == [("scipy-openblas32", NEWEST)]


def test_vendored_libraries_are_listed_but_not_linkable(
    blaswheel: Blaswheel, wheels: Wheels
) -> None:
    numpy = wheels.unpacked(NUMPY)
    (one,) = found(blaswheel, on=numpy)
    assert one["provider"]["name"] == "numpy"
    assert os.path.dirname(one["path"]) == str(numpy / "numpy.libs")
    assert one["interface"] == "ilp64"
    assert not one["linkable"]
    assert "vendored" in one["reason"] and "numpy" in one["reason"]
    error, hint = blaswheel.error("pc", on=numpy)
    assert "numpy" in error and "vendored" in error
    assert "pip install scipy-openblas32" in hint


def test_extension_modules_and_other_libraries_are_no_blas(
    blaswheel: Blaswheel, tmp_path: Path, library: Path
) -> None:
    site = distribution(
        tmp_path / "site",
        "tool",
        "1.0",
        {
            "tool/libc_copy.so": Path("/lib/x86_64-linux-gnu/libm.so.6"),
            "tool/core.abi3.so": library,
            "tool/core.cpython-311-x86_64-linux-gnu.so": library,
            "tool/script.so": b"#!/bin/sh\n",
        },
    )
    done = blaswheel("list", on=site)
    assert done.stdout == ""
    assert "script" not in done.stderr


def test_a_library_is_known_by_its_content_not_by_its_name(
    blaswheel: Blaswheel, tmp_path: Path, library: Path
) -> None:
    files = {"x/lib/libscipy_openblas.so": library, "x/libblas_is_text.so": b"INPUT(-lblas)\n"}
    site = distribution(tmp_path / "site", "acme-mathematics", "7", files)
    (one,) = found(blaswheel, on=site)
    assert one["provider"] == {"name": "acme-mathematics", "version": "7"}
    assert one["implementation"] == "openblas"


@pytest.mark.parametrize(
    ("folder", "line"),
    [
        ("a, b", '"a, b/lib/libscipy_openblas.so",sha256=abc,12'),
        ('say "it"', '"say ""it""/lib/libscipy_openblas.so",,'),
        ("all", '"all/lib/libscipy_openblas.so","sha256=abc","12"'),
        ("crlf", "crlf/lib/libscipy_openblas.so,,\r"),
        ("ünï", "ünï/lib/libscipy_openblas.so,,"),
    ],
)
def test_file_lists_are_read_as_csv(
    blaswheel: Blaswheel, tmp_path: Path, library: Path, folder: str, line: str
) -> None:
    files: dict[str, Path | bytes] = {f"{folder}/lib/libscipy_openblas.so": library}
    site = distribution(tmp_path / "site", "odd", "1", files, record=f"odd/__init__.py,,\n{line}\n")
    (one,) = found(blaswheel, on=site)
    assert one["path"] == str(site / folder / "lib/libscipy_openblas.so")


def test_libraries_outside_of_site_packages_are_found(
    blaswheel: Blaswheel, tmp_path: Path, library: Path
) -> None:
    """The data scheme of wheels: MKL's libraries are in PREFIX/lib, headers in PREFIX/include."""
    prefix = tmp_path / "prefix"
    site = prefix / "lib/python3.11/site-packages"
    files = {
        "../../libscipy_openblas.so": library,
        "../../../include/cblas.h": b"/* cblas */\n",
    }
    distribution(site, "data-scheme", "1", files)
    (one,) = found(blaswheel, on=site)
    assert one["path"] == str(prefix / "lib/libscipy_openblas.so")
    assert one["include_dirs"] == [str(prefix / "include")]


def test_a_distribution_without_a_file_list_holds_nothing(
    blaswheel: Blaswheel, site: Callable[..., Path]
) -> None:
    folder = site(LP64)
    (folder / f"scipy_openblas32-{NEWEST}.dist-info/RECORD").unlink()
    assert found(blaswheel, on=folder) == []


def test_a_listed_file_that_is_missing_is_told(
    blaswheel: Blaswheel, site: Callable[..., Path]
) -> None:
    folder = site(LP64, ILP64)
    (folder / LIBRARY).unlink()
    done = blaswheel("list", "--json", on=folder)
    assert providers(json.loads(done.stdout)["libraries"]) == [("scipy-openblas64", NEWEST)]
    (line,) = done.stderr.splitlines()
    assert "scipy-openblas32" in line and str(folder / LIBRARY) in line and "No such file" in line


def test_many_distributions_do_not_hide_one(
    blaswheel: Blaswheel, site: Callable[..., Path]
) -> None:
    folder = site(LP64)
    for number in range(1000):
        name = f"package_{number}"
        record = "".join(f"{name}/module_{i}.py,sha256=x,1\n" for i in range(20))
        distribution(folder, name, "1.0", {}, record=record)
    assert providers(found(blaswheel, on=folder)) == [("scipy-openblas32", NEWEST)]


@pytest.mark.parametrize("which", ["site-packages", "prefix", "wheel"])
def test_root_looks_into_a_foreign_environment(
    blaswheel: Blaswheel, shared_venv: Callable[..., Venv], wheels: Wheels, which: str
) -> None:
    venv = shared_venv(LP64, ILP64)
    root = {
        "site-packages": venv.site_packages,
        "prefix": venv.path,
        "wheel": wheels.unpacked(ILP64),
    }[which]
    names = [name for name, _ in providers(found(blaswheel, "--root", root))]
    own = ["scipy-openblas32"] if which != "wheel" else []
    assert names == [*own, "scipy-openblas64"]


def test_root_is_instead_of_this_environment(
    shared_venv: Callable[..., Venv], wheels: Wheels
) -> None:
    libraries = found(Blaswheel(shared_venv(LP64)), "--root", wheels.unpacked(ILP64))
    assert [name for name, _ in providers(libraries)] == ["scipy-openblas64"]


def test_root_gives_absolute_paths(
    blaswheel: Blaswheel, site: Callable[..., Path], tmp_path: Path
) -> None:
    folder = site(LP64)
    (one,) = found(blaswheel, "--root", folder.name, cwd=tmp_path)
    assert one["path"] == str(folder / LIBRARY)


@pytest.mark.parametrize("what", ["absent", "file", "empty"])
def test_root_that_is_no_environment(blaswheel: Blaswheel, tmp_path: Path, what: str) -> None:
    root = tmp_path / what
    if what == "file":
        root.write_bytes(b"")
    elif what == "empty":
        root.mkdir()
    error, _ = blaswheel.error("list", "--root", root)
    assert str(root) in error


def test_root_reads_libraries_of_other_machines(blaswheel: Blaswheel, wheels: Wheels) -> None:
    root = wheels.unpacked(ILP64, platform="manylinux_2_28_aarch64")
    (one,) = found(blaswheel, "--root", root)
    assert (one["machine"], one["interface"], one["linkable"]) == ("aarch64", "ilp64", True)


def test_python_looks_into_another_interpreter(
    blaswheel: Blaswheel, shared_venv: Callable[..., Venv], tmp_path: Path
) -> None:
    other = shared_venv(LP64, ILP64)
    libraries = found(blaswheel, "--python", other.python)
    assert libraries[0]["path"] == str(other.site_packages / LIBRARY)
    assert len(libraries) == 2
    # Neither the current folder nor what lies in it has a say.
    (tmp_path / "json.py").write_text("raise SystemExit('json of the current folder')\n")
    copy(other.site_packages / "scipy_openblas32", tmp_path / "scipy_openblas32")
    relative = os.path.relpath(other.python, tmp_path)
    assert found(blaswheel, "--python", other.python, cwd=tmp_path) == libraries
    assert found(blaswheel, "--python", relative, cwd=tmp_path) == libraries


@pytest.mark.parametrize(
    "python", ["/nowhere/python3", "/bin/false", "/bin/cat", "/bin/echo", "/bin/true"]
)
def test_python_that_is_none(blaswheel: Blaswheel, python: str) -> None:
    error, _ = blaswheel.error("list", "--python", python)
    assert f"--python {python}" in error


def test_root_and_python_exclude_each_other(blaswheel: Blaswheel, tmp_path: Path) -> None:
    error, _ = blaswheel.error("list", "--root", tmp_path, "--python", sys.executable, status=2)
    assert "--root" in error and "--python" in error


@pytest.mark.parametrize(
    "command", [["list"], ["show"], ["pc"], ["pc", "--dir", "{}"], ["env"], ["exec", "--", "true"]]
)
def test_no_provider_is_imported_and_nothing_is_written_beside_it(
    blaswheel: Blaswheel, site: Callable[..., Path], tmp_path: Path, command: list[str]
) -> None:
    folder = site(LP64)
    for name in ("__init__.py", "__main__.py"):
        module = folder / "scipy_openblas32" / name
        module.unlink()
        module.write_text(f"open({str(tmp_path / 'imported')!r}, 'w')\nraise SystemExit(3)\n")
    work = tmp_path / "work"
    work.mkdir()
    cache = tmp_path / "cache"
    before = snapshot(folder)
    words = [word.format(tmp_path / "set") for word in command]
    environ = {"BLASWHEEL_CACHE_DIR": str(cache), "HOME": str(tmp_path / "home")}
    blaswheel(*words, on=folder, environ=environ, cwd=work)
    assert not (tmp_path / "imported").exists()
    assert snapshot(folder) == before
    assert snapshot(work) == {}
    assert not (tmp_path / "home").exists()
    if command[0] in ("list", "show"):
        assert not cache.exists()


def test_no_provider_is_imported_by_the_python_interface(
    blaswheel: Blaswheel, site: Callable[..., Path]
) -> None:
    folder = site(LP64)
    program = "import sys, blaswheel; blaswheel.find().link_args(); print('\\n'.join(sys.modules))"
    modules = blaswheel.venv.run("python", "-c", program, environ=python_path(folder)).stdout
    assert "scipy_openblas32" not in modules.split()


def test_cache_is_where_the_platform_has_it(
    blaswheel: Blaswheel, site: Callable[..., Path], tmp_path: Path
) -> None:
    folder = site(LP64)
    home, xdg, own = (tmp_path / name for name in ("home", "xdg", "own"))
    environ = {"HOME": str(home), "XDG_CACHE_HOME": "", "BLASWHEEL_CACHE_DIR": ""}
    for change, expected in (
        ({}, home / ".cache/blaswheel"),
        # The XDG specification: a relative path is ignored.
        ({"XDG_CACHE_HOME": "relative"}, home / ".cache/blaswheel"),
        ({"XDG_CACHE_HOME": str(xdg)}, xdg / "blaswheel"),
        ({"XDG_CACHE_HOME": str(xdg), "BLASWHEEL_CACHE_DIR": str(own)}, own),
    ):
        text = blaswheel("pc", "--no-verify", on=folder, environ={**environ, **change}).stdout
        assert f"aliasdir={expected}/lib\n" in text
        assert expected.is_dir()
