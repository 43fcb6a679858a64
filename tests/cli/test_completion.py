"""Shells complete commands, options and values by the script that is printed for them."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time
from pathlib import Path

import pytest

from blaswheel._cli import COMMANDS
from tests.cli.sites import Blaswheel

#: A line, and a word of what a shell offers for its end.
CASES = {
    "blaswheel rep": {"repair"},
    "blaswheel pc --interface ": {"lp64", "ilp64"},
    "blaswheel pc --cross-f": {"--cross-file"},
    "blaswheel completion ": {"bash", "fish", "zsh"},
    "blaswheel tag some-w": {"some-wheel.whl"},
    "blaswheel cmake --dir some-f": {"some-folder"},
}


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "some-wheel.whl").touch()
    (tmp_path / "some-folder").mkdir()
    return tmp_path


def written(blaswheel: Blaswheel, shell: str, path: Path) -> Path:
    path.write_text(blaswheel("completion", shell).stdout, encoding="utf-8")
    return path


@pytest.mark.tool("bash")
@pytest.mark.parametrize("line", CASES)
def test_bash(blaswheel: Blaswheel, here: Path, line: str) -> None:
    script = written(blaswheel, "bash", here / "completion.bash")
    program = (
        'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _blaswheel; '
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    words = ["bash", "-u", "-c", program, "bash", str(script), *line.split(" ")]
    done = subprocess.run(words, cwd=here, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert set(done.stdout.split()) == CASES[line]


@pytest.mark.tool("fish")
@pytest.mark.parametrize("line", CASES)
def test_fish(blaswheel: Blaswheel, here: Path, line: str) -> None:
    script = written(blaswheel, "fish", here / "completion.fish")
    words = ["fish", "--no-config", "-c", "source $argv[1]; complete -C $argv[2]", script, line]
    environ = {**os.environ, "HOME": str(here), "XDG_CONFIG_HOME": str(here / "config")}
    done = subprocess.run(words, cwd=here, capture_output=True, text=True, check=True, env=environ)
    assert done.stderr == ""
    offered = {line.partition("\t")[0].rstrip("/") for line in done.stdout.splitlines()}
    assert offered == CASES[line]


@pytest.mark.tool("zsh")
def test_zsh(blaswheel: Blaswheel, here: Path) -> None:
    """In a terminal, where keys are pressed: zsh completes in no other way."""
    written(blaswheel, "zsh", here / "_blaswheel")
    for line, offered in CASES.items():
        said = typed_into_zsh(here, line)
        assert all(word in said for word in offered), (line, said)


def typed_into_zsh(folder: Path, line: str) -> str:
    """Type a line and two tabs; return what the terminal then shows after the line."""
    terminal, other_end = pty.openpty()
    environ = {**os.environ, "TERM": "dumb", "ZDOTDIR": str(folder), "PS1": "> "}
    shell = subprocess.Popen(
        ["zsh", "-f", "-i"],
        cwd=folder,
        env=environ,
        stdin=other_end,
        stdout=other_end,
        stderr=other_end,
        start_new_session=True,
    )

    def read(until: bytes, seconds: float = 20) -> bytes:
        shown = b""
        end = time.monotonic() + seconds
        while until not in shown and time.monotonic() < end:
            if select.select([terminal], [], [], 0.1)[0]:
                shown += os.read(terminal, 65536)
        return shown

    try:
        os.write(
            terminal,
            f"fpath=({folder} $fpath); autoload -Uz compinit; compinit -u -D; "
            "bindkey '^I' complete-word; echo rea''dy\n".encode(),
        )
        assert b"ready" in read(b"ready")
        os.write(terminal, line.encode() + b"\t\t")
        return read(b"\0", 2).decode("utf-8", "replace")
    finally:
        shell.kill()
        shell.wait()
        os.close(terminal)
        os.close(other_end)


def test_every_command_is_there(blaswheel: Blaswheel) -> None:
    for shell in ("bash", "fish", "zsh"):
        text = blaswheel("completion", shell).stdout
        assert all(command in text for command in COMMANDS)
    assert blaswheel("completion", "csh", check=False).returncode == 2
