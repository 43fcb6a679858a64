"""The sets of ``--dir``: which files are in them, and which are left alone or told of."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.building import build, flags, source, works
from tests.cli.sites import ILP64, LP64, Blaswheel, fields
from tests.support import Wheels

pytestmark = pytest.mark.tool("cc", "pkg-config", "meson")

PLAIN = ["blas", "cblas", "lapack", "lapacke", "openblas"]
PLAIN_64 = [f"{name}64" for name in PLAIN]
BOTH = (LP64, ILP64)


@pytest.fixture
def write(
    blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path
) -> Callable[..., tuple[list[str], str]]:
    """Write a set to ``tmp_path / "pc"``; return the names of its files and what was said."""

    def run(*options: str | Path, on: tuple[str, ...] = BOTH, **how: Any) -> tuple[list[str], str]:
        words = ["pc", "--no-verify", "--dir", tmp_path / "pc", *options]
        done = blaswheel(*words, on=list(map(wheels.unpacked, on)), **how)
        assert done.stdout == ""
        return sorted(path.stem for path in (tmp_path / "pc").glob("*.pc")), done.stderr

    return run


@pytest.mark.parametrize(
    ("on", "options", "expected"),
    [
        (BOTH, [], PLAIN + PLAIN_64),
        ((LP64,), [], PLAIN),
        ((ILP64,), [], PLAIN_64),
        (BOTH, ["--interface", "lp64"], PLAIN),
        (BOTH, ["--interface", "ilp64"], PLAIN_64),
        (BOTH, ["--interface", "ilp64", "--symbol-suffix="], PLAIN_64),
        (BOTH, ["--symbol-suffix", "64_"], PLAIN_64),
        (BOTH, ["scipy-openblas64"], PLAIN_64),
        (BOTH, ["--native"], ["scipy-openblas", "scipy-openblas64"]),
        (BOTH, ["--native", "--for", "scipy"], ["scipy-openblas", "scipy-openblas64"]),
        ((ILP64,), ["--native", "--for", "scipy"], ["scipy-openblas64"]),
        ((ILP64,), ["--native"], ["scipy-openblas64"]),
        ((LP64,), ["--native"], ["scipy-openblas"]),
        (BOTH, ["--native", "--for", "numpy"], ["scipy-openblas"]),
        (BOTH, ["--native", "--for", "numpy", "--interface", "ilp64"], ["scipy-openblas"]),
        ((ILP64,), ["--native", "--for", "numpy"], ["scipy-openblas"]),
        (BOTH, ["--for", "numpy"], PLAIN + PLAIN_64),
    ],
)
def test_names(
    write: Callable[..., tuple[list[str], str]],
    tmp_path: Path,
    on: tuple[str, ...],
    options: list[str],
    expected: list[str],
) -> None:
    names, said = write(*options, on=on)
    assert names == sorted(expected)
    for name in names:
        found = fields((tmp_path / f"pc/{name}.pc").read_text())
        assert found["Name"] == name
        wide = name.endswith("64") or (on == (ILP64,)) or "ilp64" in options
        assert found["interface"] == ("ilp64" if wide else "lp64")
        assert found["symbol_prefix"] == ("scipy_" if "--native" in options else "")
    if "--native" in options:
        # Without --for, the rule that was followed is told.
        assert ("--for numpy" in said) is ("--for" not in options)


def test_nothing_but_what_the_files_need(
    write: Callable[..., tuple[list[str], str]], tmp_path: Path
) -> None:
    write()
    folder = tmp_path / "pc"
    assert sorted(path.name for path in folder.iterdir() if path.suffix != ".pc") == [
        "include",
        "lib",
    ]
    assert sorted(path.name for path in (folder / "include").iterdir()) == ["ilp64", "lp64"]
    assert not [path for path in folder.rglob("*") if path.name.startswith(".")]
    again = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    write()
    assert again == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_numpy_needs_is_told_with_every_ilp64_file(
    write: Callable[..., tuple[list[str], str]], blaswheel: Blaswheel, wheels: Wheels
) -> None:
    plain = (
        "for NumPy add -Dblas=openblas -Dlapack=openblas -Duse-ilp64=true "
        "-Dblas-symbol-suffix=64_ -Dallow-noblas=false"
    )
    assert plain in write()[1]
    assert plain in blaswheel("pc", on=wheels.unpacked(ILP64)).stderr
    assert plain in blaswheel("env", on=wheels.unpacked(ILP64)).stderr
    assert "for NumPy" not in write(on=(LP64,))[1]
    native = write("--native", "--for", "numpy", "--interface", "ilp64")[1]
    assert "-Dblas-symbol-suffix=64_" in native and "use-ilp64" not in native


def test_files_of_an_earlier_set_are_removed(
    write: Callable[..., tuple[list[str], str]], tmp_path: Path
) -> None:
    assert write()[0] == sorted(PLAIN + PLAIN_64)
    assert write(on=(LP64,))[0] == PLAIN
    assert write("--native")[0] == ["scipy-openblas", "scipy-openblas64"]
    assert write("--native", "--for", "numpy")[0] == ["scipy-openblas"]
    assert write()[0] == sorted(PLAIN + PLAIN_64)


def test_foreign_files_are_left_alone(
    write: Callable[..., tuple[list[str], str]], tmp_path: Path
) -> None:
    folder = tmp_path / "pc"
    folder.mkdir()
    foreign = {
        "zlib.pc": "Name: zlib\n",
        "openblas64.pc": "# mine\nName: openblas64\n",
        "blas64.pc": "",
        "lapack64.pc/file": "in a folder\n",
        "notes.txt": "# written by blaswheel, not\n",
    }
    for name, text in foreign.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    write(on=(LP64,))
    for name, text in foreign.items():
        assert (folder / name).read_text() == text
    # Names of the set are taken over, as -o takes over a file.
    (folder / "lapack64.pc/file").unlink()
    (folder / "lapack64.pc").rmdir()
    write()
    assert "written by blaswheel" in (folder / "openblas64.pc").read_text()
    assert (folder / "zlib.pc").read_text() == foreign["zlib.pc"]


def test_each_file_serves_its_api(
    write: Callable[..., tuple[list[str], str]],
    blaswheel: Blaswheel,
    tmp_path: Path,
) -> None:
    write("--runtime", "absolute")
    environ = {"PKG_CONFIG_PATH": str(tmp_path / "pc")}
    for name, suffix in (("openblas", ""), ("openblas64", "64_")):
        found = flags(blaswheel.venv, name, environ=environ)
        works(blaswheel.venv, build(blaswheel.venv, tmp_path / name, found, suffix))
    validated = blaswheel.venv.run(
        "pkg-config", "--validate", *PLAIN, *PLAIN_64, environ=environ, check=False
    )
    assert (validated.returncode, validated.stderr) == (0, "")


def test_native_file_points_meson_at_the_set(
    write: Callable[..., tuple[list[str], str]], blaswheel: Blaswheel, tmp_path: Path
) -> None:
    ini = tmp_path / "deep/native.ini"
    write("--native-file", ini)
    assert ini.read_text() == (f"[built-in options]\npkg_config_path = ['{tmp_path / 'pc'}']\n")
    # Meson reads it, and the default mode is now that of extension modules.
    libs = fields((tmp_path / "pc/openblas.pc").read_text())["Libs"]
    assert "$ORIGIN" in libs.replace("\\", "")
    work = tmp_path / "work"
    source(work)
    (work / "meson.build").write_text(
        "project('x', 'c')\n"
        "foreach name : ['openblas', 'blas', 'lapacke64', 'openblas64']\n"
        "  dep = dependency(name, method: 'pkg-config')\n"
        "  message(name, dep.get_variable('interface'))\n"
        "endforeach\n"
    )
    path = os.pathsep.join([blaswheel.venv.environment()["PATH"], os.environ["PATH"]])
    done = blaswheel.venv.run(
        "meson", "setup", "--native-file", ini, "build", cwd=work, environ={"PATH": path}
    )
    assert "openblas lp64" in done.stdout and "openblas64 ilp64" in done.stdout


def test_native_file_needs_a_set(blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path) -> None:
    words = ["pc", "--native-file", tmp_path / "x.ini"]
    error, hint = blaswheel.error(*words, on=wheels.unpacked(LP64), status=2)
    assert "--native-file" in error and "--dir" in hint
    assert not (tmp_path / "x.ini").exists()


def test_output_and_dir_exclude_each_other(
    blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path
) -> None:
    words = ["pc", "-o", tmp_path / "x.pc", "--dir", tmp_path / "y"]
    error, _ = blaswheel.error(*words, on=wheels.unpacked(LP64), status=2)
    assert "-o" in error and "--dir" in error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("native", [True, False])
def test_a_file_that_would_be_used_instead_is_told(
    write: Callable[..., tuple[list[str], str]], tmp_path: Path, native: bool
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "scipy-openblas.pc").write_text("Name: other\n")
    ours = tmp_path / "pc"
    options = ["--native", "--for", "scipy"] if native else []

    def said(path: str) -> bool:
        return (
            str(other / "scipy-openblas.pc")
            in write(*options, environ={"PKG_CONFIG_PATH": path})[1]
        )

    assert said(f"{other}")
    assert said(f"{other}:{ours}")
    assert said(f":{other}")
    # NumPy and SciPy look for this name first: next to plain files it wins wherever it is.
    assert said(f"{ours}:{other}") is not native
    assert not said(f"{ours}:/nowhere")
    assert not said("")


@pytest.mark.parametrize("command", [["env"], ["exec", "--", "true"]])
def test_a_file_that_would_be_used_instead_is_told_by(
    blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path, command: list[str]
) -> None:
    (tmp_path / "scipy-openblas.pc").write_text("Name: other\n")
    environ = {"PKG_CONFIG_PATH": str(tmp_path)}
    on = wheels.unpacked(LP64)
    assert str(tmp_path) in blaswheel(*command, on=on, environ=environ).stderr
    native = [command[0], "--native", *command[1:]]
    assert str(tmp_path) not in blaswheel(*native, on=on, environ=environ).stderr


def test_a_set_changes_no_record_of_the_environment(
    write: Callable[..., tuple[list[str], str]], blaswheel: Blaswheel, wheels: Wheels
) -> None:
    on = wheels.unpacked(LP64)
    before = json.loads(blaswheel("list", "--json", on=on).stdout)
    write(on=(LP64,))
    assert json.loads(blaswheel("list", "--json", on=on).stdout) == before
