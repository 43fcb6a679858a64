"""``env`` for every shell, and what a command finds that ``exec`` runs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from blaswheel._commands import _shells
from blaswheel._errors import BlaswheelError
from tests.cli.building import build, flags
from tests.cli.sites import ILP64, LP64, Blaswheel, copy, python_path
from tests.support import Wheels

pytestmark = pytest.mark.tool("cc", "pkg-config")

ODD = '/a b/ünï $x `y` "q" it\'s \\z %P% !'
BROKEN_RELEASES = ["2.5.1.post2", "3.0.1.post0"]


@pytest.fixture(scope="module")
def lp64(wheels: Wheels) -> Path:
    return wheels.unpacked(LP64)


@pytest.fixture(scope="module")
def ilp64(wheels: Wheels) -> Path:
    return wheels.unpacked(ILP64)


@pytest.mark.parametrize("shell", ["sh", "bash", "dash"])
@pytest.mark.parametrize("before", [None, "", "/other:/more"])
def test_env_in_a_shell(
    blaswheel: Blaswheel, lp64: Path, ilp64: Path, shell: str, before: str | None
) -> None:
    script = 'set -eu; eval "$(blaswheel env 2>/dev/null)"; printf "%s" "$PKG_CONFIG_PATH"; '
    script += "printf '\\n'; pkg-config --modversion openblas openblas64"
    environ = python_path([lp64, ilp64])
    if before is not None:
        environ["PKG_CONFIG_PATH"] = before
    lines = blaswheel.venv.run(shell, "-c", script, environ=environ).stdout.splitlines()
    first, *rest = lines[0].split(":")
    assert (Path(first) / "openblas64.pc").is_file()
    assert rest == (before.split(":") if before else [])
    assert len(lines) == 3


@pytest.mark.tool("fish")
@pytest.mark.parametrize("before", [None, "", "/other:/more"])
def test_env_in_fish(blaswheel: Blaswheel, lp64: Path, tmp_path: Path, before: str | None) -> None:
    script = "blaswheel env --shell fish 2>/dev/null | source; env | grep ^PKG_CONFIG_PATH="
    environ = {
        **python_path(lp64),
        "BLASWHEEL_CACHE_DIR": str(tmp_path / "it's \\ $a ünï"),
        "HOME": str(tmp_path),
    }
    if before is not None:
        environ["PKG_CONFIG_PATH"] = before
    value = blaswheel.venv.run("fish", "--no-config", "-c", script, environ=environ).stdout
    first, *rest = value.strip().partition("=")[2].split(":")
    assert (Path(first) / "openblas.pc").is_file()
    assert rest == (before.split(":") if before else [])


def test_line_of_sh_can_name_any_folder() -> None:
    line = _shells.prepend("sh", "X_PATH", ODD)
    for before, expected in (({}, ODD), ({"X_PATH": "/b"}, f"{ODD}:/b")):
        done = subprocess.run(
            ["sh", "-c", f'{line}printf "%s" "$X_PATH"'],
            env={"PATH": os.defpath, **before},
            capture_output=True,
            check=True,
        )
        assert os.fsdecode(done.stdout) == expected


def test_lines_of_other_shells() -> None:
    folder = "C:\\Program Files (x86)\\it's %P%"
    assert _shells.prepend("powershell", "P", folder) == (
        "$env:P = 'C:\\Program Files (x86)\\it''s %P%' + "
        "$(if ($env:P) { [IO.Path]::PathSeparator + $env:P })\n"
    )
    assert _shells.prepend("cmd", "P", folder) == (
        'if defined P (set "P=C:\\Program Files (x86)\\it\'s %%P%%;%P%") '
        'else (set "P=C:\\Program Files (x86)\\it\'s %%P%%")\n'
    )
    assert _shells.prepend("fish", "P", "/it's \\") == (
        'if set -q P; and test -n "$P"; set -gx P \'/it\\\'s \\\\\':"$P"; '
        "else; set -gx P '/it\\'s \\\\'; end\n"
    )


@pytest.mark.parametrize("shell", ["sh", "fish", "powershell", "cmd"])
def test_a_line_is_one_line(blaswheel: Blaswheel, lp64: Path, shell: str) -> None:
    with pytest.raises(BlaswheelError):
        _shells.prepend(shell, "P", "/a\nb")
    assert blaswheel("env", "--shell", shell, on=lp64).stdout.count("\n") == 1


def test_env_of_an_unknown_shell(blaswheel: Blaswheel, lp64: Path) -> None:
    error, _ = blaswheel.error("env", "--shell", "tcsh", on=lp64, status=2)
    assert "tcsh" in error and "powershell" in error


def test_env_of_each_request_is_a_folder_of_its_own(
    blaswheel: Blaswheel, lp64: Path, ilp64: Path
) -> None:
    """Another environment, or another request, is another folder."""
    lines = {
        blaswheel("env", *words, on=on).stdout
        for on in ([lp64], [lp64, ilp64])
        for words in ([], ["--runtime", "absolute"], ["--symbol-prefix", "x_"])
    }
    assert len(lines) == 6
    assert blaswheel("env", on=lp64).stdout in lines


def test_exec_gives_flags_and_loads_the_library(
    blaswheel: Blaswheel, lp64: Path, tmp_path: Path
) -> None:
    printed = blaswheel("exec", "--", "pkg-config", "--cflags", "--libs", "openblas", on=lp64)
    assert "-lscipy_openblas" in printed.stdout
    files = tmp_path / "pc"
    blaswheel("pc", "--dir", files, on=lp64)
    environ = {"PKG_CONFIG_PATH": str(files)}
    program = build(
        blaswheel.venv, tmp_path / "work", flags(blaswheel.venv, "openblas", environ=environ)
    )
    # Linked without a run path: only exec finds the library.
    assert blaswheel.venv.run(program, check=False).returncode == 127
    assert blaswheel("exec", "--", program, on=lp64).stdout == "14 2\n"
    assert blaswheel("exec", "--", "./prog", on=lp64, cwd=program.parent).stdout == "14 2\n"


def test_exec_keeps_what_was_on_the_paths(blaswheel: Blaswheel, lp64: Path, ilp64: Path) -> None:
    names = ["PKG_CONFIG_PATH", "LD_LIBRARY_PATH"]
    script = "; ".join(f'echo "${name}"' for name in names)
    command = ["exec", "--", "sh", "-c", script]
    environ = {"PKG_CONFIG_PATH": "/p", "LD_LIBRARY_PATH": "/l:/m"}
    before = blaswheel(*command, on=[lp64, ilp64], environ=environ).stdout.splitlines()
    assert before[0].endswith(":/p") and before[0].count(":") == 1
    libraries = [lp64 / "scipy_openblas32/lib", ilp64 / "scipy_openblas64/lib"]
    assert before[1] == ":".join([*map(str, libraries), "/l", "/m"])
    alone = blaswheel(*command, on=lp64).stdout.splitlines()
    # An empty entry would be the current folder.
    assert all(line and ":" not in line for line in alone)


def test_exec_passes_everything_through(blaswheel: Blaswheel, lp64: Path) -> None:
    words = ["", "a b", "--", "-h", "--json", "$x", "ünï"]
    done = blaswheel("exec", "--", "printf", "%s|", *words, on=lp64)
    assert done.stdout == "".join(f"{word}|" for word in words)
    done = blaswheel("exec", "--", "sh", "-c", "echo to stderr >&2", on=lp64)
    assert done.stderr == "to stderr\n"
    given = blaswheel.venv.run(
        "blaswheel", "exec", "--", "cat", given="from stdin", environ=python_path(lp64)
    )
    assert given.stdout == "from stdin"


@pytest.mark.parametrize("status", [0, 1, 3, 255])
def test_exec_has_the_status_of_its_command(blaswheel: Blaswheel, lp64: Path, status: int) -> None:
    command = ["exec", "--", "sh", "-c", f"exit {status}"]
    assert blaswheel(*command, on=lp64, check=False).returncode == status


def test_exec_hands_signals_on(blaswheel: Blaswheel, lp64: Path) -> None:
    done = blaswheel("exec", "--", "sh", "-c", "kill -TERM $$", on=lp64, check=False)
    assert done.returncode == -signal.SIGTERM
    environ = blaswheel.venv.environment(python_path(lp64))
    program = shutil.which("blaswheel", path=environ["PATH"])
    assert program
    script = "trap 'echo caught; exit 7' TERM; echo ready; while :; do sleep 0.05; done"
    with subprocess.Popen(
        [program, "exec", "--", "sh", "-c", script],
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.terminate()
        assert child.stdout.readline() == "caught\n"
        assert child.wait(60) == 7


def test_exec_gives_its_command_the_usual_signals(blaswheel: Blaswheel, lp64: Path) -> None:
    """Python ignores SIGPIPE; a command that inherited that would not end with its reader."""
    show = "grep SigIgn /proc/self/status"
    usual = blaswheel.venv.run("sh", "-c", show).stdout
    assert blaswheel("exec", "--", "sh", "-c", show, on=lp64).stdout == usual


@pytest.mark.parametrize("words", [[], ["--"], ["scipy-openblas32"], ["scipy-openblas32", "--"]])
def test_exec_without_a_command(blaswheel: Blaswheel, lp64: Path, words: list[str]) -> None:
    error, hint = blaswheel.error("exec", *words, on=lp64, status=2)
    assert "no command" in error and "-- CMD" in hint


def test_exec_without_the_dashes(blaswheel: Blaswheel, lp64: Path) -> None:
    error, hint = blaswheel.error("exec", "meson", "setup", "build", on=lp64, status=2)
    assert "setup" in error or "--" in error
    assert hint


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("no-such-command", "No such file or directory"),
        ("/no/such/command", "No such file or directory"),
        ("{}/file", "Permission denied"),
        ("{}", "Permission denied"),
    ],
)
def test_exec_of_what_is_no_command(
    blaswheel: Blaswheel, lp64: Path, tmp_path: Path, command: str, why: str
) -> None:
    (tmp_path / "file").write_text("#!/bin/sh\n")
    command = command.format(tmp_path)
    error, _ = blaswheel.error("exec", "--", command, on=lp64)
    assert error == f"{command}: {why}"


def test_exec_without_a_library(blaswheel: Blaswheel, tmp_path: Path) -> None:
    error, hint = blaswheel.error("exec", "--", "touch", tmp_path / "ran")
    assert "no BLAS library" in error and "pip install" in hint
    assert not (tmp_path / "ran").exists()


def ask(blaswheel: Blaswheel, on: Path | list[Path], **environ: str) -> str:
    """Return the pkg-config that a command is told to use, and what it says of the set."""
    script = 'echo "$PKG_CONFIG"; "$PKG_CONFIG" --libs openblas'
    done = blaswheel("exec", "--", "/bin/sh", "-c", script, on=on, environ=environ)
    program, libs = done.stdout.splitlines()
    assert "-lscipy_openblas" in libs
    return program


def path_with(blaswheel: Blaswheel, *folders: Path) -> str:
    return os.pathsep.join([*map(str, folders), blaswheel.venv.environment()["PATH"]])


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path.parent


@pytest.mark.parametrize(
    "text",
    ["exit 0", "echo 1.2.3", "exit 1", "kill -SEGV $$", "echo oops; exit 0", "printf '\\377'"],
)
def test_exec_passes_a_broken_pkg_config_over(
    blaswheel: Blaswheel, lp64: Path, tmp_path: Path, text: str
) -> None:
    usual = ask(blaswheel, lp64)
    folder = script(tmp_path / "pkg-config", text)
    assert ask(blaswheel, lp64, PATH=path_with(blaswheel, folder)) == usual
    # Also one that was asked for, since it would find nothing.
    assert ask(blaswheel, lp64, PKG_CONFIG=str(folder / "pkg-config")) == usual


def test_exec_takes_a_pkg_config_that_works(
    blaswheel: Blaswheel, lp64: Path, tmp_path: Path
) -> None:
    usual = ask(blaswheel, lp64)
    folder = script(tmp_path / "bin/my-pkg-config", f'exec {usual} "$@"')
    mine = str(folder / "my-pkg-config")
    assert ask(blaswheel, lp64, PKG_CONFIG=mine) == mine
    path = path_with(blaswheel, folder)
    assert ask(blaswheel, lp64, PKG_CONFIG="my-pkg-config", PATH=path) == mine


@pytest.mark.parametrize("release", BROKEN_RELEASES)
def test_exec_passes_broken_releases_of_pkgconf_over(
    blaswheel: Blaswheel, lp64: Path, wheels: Wheels, tmp_path: Path, release: str
) -> None:
    """Their ``pkg-config`` prints nothing and exits 0; the program inside is healthy."""
    site = copy(wheels.unpacked(f"pkgconf=={release}"), tmp_path / "site")
    call = "import pkgconf.__main__ as main; main._vanilla_entrypoint()"
    folder = script(
        tmp_path / "bin/pkg-config",
        f'PYTHONPATH="{site}" exec "{blaswheel.venv.python}" -c "{call}" "$@"',
    )
    blaswheel("pc", "--dir", tmp_path / "pc", on=lp64)
    question = [folder / "pkg-config", "--modversion", "openblas"]
    silent = blaswheel.venv.run(*question, environ={"PKG_CONFIG_PATH": str(tmp_path / "pc")})
    assert silent.stdout == ""
    # Where the system has one, that; else the program inside.
    on = [lp64, site]
    assert Path(ask(blaswheel, on, PATH=path_with(blaswheel, folder))).parent != folder
    only = os.pathsep.join([str(folder), str(blaswheel.venv.bin)])
    assert ask(blaswheel, on, PATH=only) == str(site / "pkgconf/.bin/pkgconf")
    # Also for those that call pkg-config by its name, with either on the path or none.
    question = ["exec", "--", "pkg-config", "--libs", "openblas"]
    for path in (path_with(blaswheel, folder), only, str(blaswheel.venv.bin)):
        done = blaswheel(*question, on=on, environ={"PATH": path})
        assert "-lscipy_openblas" in done.stdout


def test_exec_without_any_pkg_config(blaswheel: Blaswheel, lp64: Path, tmp_path: Path) -> None:
    path = str(blaswheel.venv.bin)
    error, hint = blaswheel.error("exec", "--", "/bin/true", on=lp64, environ={"PATH": path})
    assert "no pkg-config" in error and "pip install pkgconf" in hint
    folder = script(tmp_path / "pkg-config", "exit 0")
    environ = {"PATH": os.pathsep.join([str(folder), path])}
    error, hint = blaswheel.error("exec", "--", "/bin/true", on=lp64, environ=environ)
    assert str(folder / "pkg-config") in error and "pip install pkgconf" in hint


def test_exec_reaches_a_library_whose_folder_no_path_variable_can_hold(
    blaswheel: Blaswheel, site: Callable[..., Path], tmp_path: Path
) -> None:
    """``LD_LIBRARY_PATH`` has no way to say a colon."""
    folder = site(LP64, name="a:b;c")
    library = folder / "scipy_openblas32/lib/libscipy_openblas.so"
    files = tmp_path / "pc"
    blaswheel("pc", library, "--dir", files)
    found = flags(blaswheel.venv, "openblas", environ={"PKG_CONFIG_PATH": str(files)})
    program = build(blaswheel.venv, tmp_path / "work", found)
    assert blaswheel("exec", "--runtime", "link", library, "--", program).stdout == "14 2\n"
