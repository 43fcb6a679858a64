"""Where output goes: links, pipes, folders, no home folder; and values that say nothing."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tests.cli.sites import LP64, Blaswheel, python_path
from tests.support import Wheels


@pytest.fixture(scope="module")
def lp64(wheels: Wheels) -> Path:
    return wheels.unpacked(LP64)


def test_what_a_link_leads_to_is_written(blaswheel: Blaswheel, lp64: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.pc"
    target.write_text("old")
    link = tmp_path / "link.pc"
    link.symlink_to(target)
    blaswheel("pc", "-o", link, on=lp64)
    assert link.is_symlink()
    assert "Libs:" in target.read_text()


def test_a_pipe_is_written_to_and_stays_one(
    blaswheel: Blaswheel, lp64: Path, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    blaswheel("pc", "-o", pipe, on=lp64)
    reader.join(timeout=30)
    assert "Libs:" in read[0]
    assert pipe.is_fifo()


def test_stdout_by_its_name(blaswheel: Blaswheel, lp64: Path) -> None:
    assert "Libs:" in blaswheel("pc", "-o", "/dev/stdout", on=lp64).stdout


def test_a_folder_is_no_file(blaswheel: Blaswheel, lp64: Path, tmp_path: Path) -> None:
    error, hint = blaswheel.error("pc", "-o", tmp_path, on=lp64)
    assert "it is a folder" in error and "path of a file" in hint


@pytest.mark.parametrize("option", ["-o", "--dir", "--provider", "--root"])
def test_an_empty_value_is_an_error(blaswheel: Blaswheel, lp64: Path, option: str) -> None:
    done = blaswheel("pc", option, "", on=lp64, check=False)
    assert done.returncode == 2
    assert done.stdout == "" and "is empty" in done.stderr


def test_sysroot_is_an_error_for_exec_and_env_too(
    blaswheel: Blaswheel, lp64: Path, tmp_path: Path
) -> None:
    environ = {**python_path(lp64), "PKG_CONFIG_SYSROOT_DIR": str(tmp_path)}
    for words in (["env"], ["exec", "--", "true"]):
        error, _hint = blaswheel.error(*words, environ=environ)
        assert "PKG_CONFIG_SYSROOT_DIR" in error


def test_check_link_reads_the_file_as_pkg_config_does(
    blaswheel: Blaswheel, lp64: Path, tmp_path: Path
) -> None:
    """A wrapper that drops a flag stands for a reader that can't read what was written."""
    reader = tmp_path / "pkg-config"
    reader.write_text(
        "#!/bin/sh\nPATH=${PATH#*:}\n"
        'case "$*" in *check*) pkg-config "$@" | sed s/-lscipy_openblas//;; '
        '*) exec pkg-config "$@";; esac\n'
    )
    reader.chmod(0o755)
    environ = {**python_path(lp64), "PKG_CONFIG": str(reader)}
    output = tmp_path / "openblas.pc"
    environ["PATH"] = f"{tmp_path}:{blaswheel.venv.bin}:{os.environ['PATH']}"
    error, _hint = blaswheel.error("pc", "--check-link", "-o", output, environ=environ)
    assert "does not link" in error
    assert not output.exists()
    del environ["PKG_CONFIG"], environ["PATH"]
    blaswheel("pc", "--check-link", "-o", output, environ=environ)
    assert output.exists()
    blaswheel("pc", "--check-link", "--relocatable", "--dir", tmp_path / "set", environ=environ)
    assert not list((tmp_path / "set").glob(".*"))


def test_a_version_in_the_library_s_place(blaswheel: Blaswheel, lp64: Path) -> None:
    right = LP64
    text = blaswheel("pc", right, on=lp64).stdout
    assert f"provider={right}" in text
    for wrong in ("scipy-openblas32==", "==1"):
        done = blaswheel("pc", wrong, on=lp64, check=False)
        assert done.returncode == 2 and "NAME==VERSION" in done.stderr


def test_no_typo_is_to_be_installed(blaswheel: Blaswheel, lp64: Path) -> None:
    _error, hint = blaswheel.error("pc", "scipi-openblas", on=lp64)
    assert "pip install" not in hint and "scipy-openblas32" in hint


def test_a_lost_file_list_is_told(blaswheel: Blaswheel, lp64: Path, tmp_path: Path) -> None:
    info = next(lp64.glob("*.dist-info"))
    (tmp_path / info.name).mkdir()
    error, hint = blaswheel.error("pc", on=tmp_path)
    assert "RECORD" in error and "reinstall" in hint
