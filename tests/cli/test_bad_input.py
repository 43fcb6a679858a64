"""What is wrong is said in one line, what to do in another; nothing is left behind."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.sites import ILP64, LP64, NEWEST, Blaswheel, distribution, fields, snapshot
from tests.support import Wheels

pytestmark = pytest.mark.tool("cc", "nm")

LIBRARY = "scipy_openblas32/lib/libscipy_openblas.so"
OUTPUTS = [[], ["-o", "{}/out/x.pc"], ["--dir", "{}/out"]]


@pytest.fixture(scope="module")
def lp64(wheels: Wheels) -> Path:
    return wheels.unpacked(LP64)


def damaged(folder: Path, how: str) -> Path:
    """Replace the library of a site-packages by something else."""
    library = folder / LIBRARY
    whole = library.read_bytes()
    library.unlink()
    if how == "fifo":
        os.mkfifo(library)
    elif how == "folder":
        library.mkdir()
    elif how == "link":
        library.symlink_to("libscipy_openblas.so")
    elif how == "device":
        library.symlink_to("/dev/zero")
    elif how != "missing":
        library.write_bytes(
            {
                "empty": b"",
                "text": b"GROUP ( libopenblas.so.0 )\n",
                "magic": b"\x7fELF",
                "header": whole[:64],
                "half": whole[: len(whole) // 2],
                "class": whole[:4] + b"\x07" + whole[5:4096],
                "ones": b"\x7fELF" + b"\xff" * 4096,
                "zeros": b"\x7fELF\x02\x01\x01" + bytes(4096),
                "macho": b"\xcf\xfa\xed\xfe" + bytes(100),
                "pe": b"MZ" + bytes(100),
                "archive": b"!<arch>\n" + bytes(100),
            }[how]
        )
    return library


DAMAGES = [
    *("missing", "empty", "text", "magic", "header", "half", "class", "ones", "zeros"),
    *("macho", "pe", "archive", "fifo", "folder", "link", "device"),
]


@pytest.mark.parametrize("how", DAMAGES)
def test_a_provider_whose_library_is_damaged(
    blaswheel: Blaswheel, site: Callable[..., Path], tmp_path: Path, how: str
) -> None:
    folder = site(LP64)
    library = damaged(folder, how)
    cache = {"BLASWHEEL_CACHE_DIR": str(tmp_path / "cache")}
    for words in (
        ["pc"],
        ["pc", "scipy-openblas32", "-o", str(tmp_path / "out/x.pc")],
        ["pc", "--dir", str(tmp_path / "out")],
        ["exec", "--", "true"],
        ["show"],
    ):
        error, hint = blaswheel.error(*words, on=folder, environ=cache)
        assert str(library) in error
        assert error.startswith("scipy-openblas32")
        assert "reinstall" in hint
    # Given by its path, too; it is the user's to mend.
    error, _ = blaswheel.error("pc", library, on=folder, environ=cache)
    assert str(library) in error
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "cache").exists()
    # It is told, and hides nothing else.
    listed = blaswheel("list", on=folder)
    assert listed.stdout == ""
    assert str(library) in listed.stderr


@pytest.mark.parametrize("record", [b"\x00\xff\xfe,,\n", b'"', b",,,\n" * 5, b"a.so", b"\n\r\n"])
def test_file_lists_that_are_none(
    blaswheel: Blaswheel, lp64: Path, tmp_path: Path, record: bytes
) -> None:
    site = distribution(tmp_path / "site", "odd", "1", {})
    (site / "odd-1.dist-info/RECORD").write_bytes(record + b'\n"x\n../\0.so,,\nblas.so/,,\n')
    text = blaswheel("pc", on=[site, lp64]).stdout
    assert fields(text)["provider"] == LP64


def test_metadata_folders_that_are_none(blaswheel: Blaswheel, lp64: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    for name in (".dist-info", "-.dist-info", "nameless.dist-info", "a-b-c-1.dist-info"):
        (site / name).mkdir(parents=True)
    (site / "file-1.dist-info").write_text("")
    (site / "folder-1.dist-info/RECORD").mkdir(parents=True)
    (site / "loop-1.dist-info").symlink_to("loop-1.dist-info")
    assert fields(blaswheel("pc", on=[site, lp64]).stdout)["provider"] == LP64
    error, _ = blaswheel.error("pc", "--root", site)
    assert "no BLAS library" in error


@pytest.mark.parametrize(
    "output",
    [
        ["-o", "{file}/x.pc"],
        ["-o", "{folder}"],
        ["-o", "/proc/x.pc"],
        ["--dir", "{file}"],
        ["--dir", "{file}/deeper"],
        ["--dir", "/proc/blaswheel"],
        ["--dir", "{folder}", "--native-file", "{file}/x.ini"],
        ["--relocatable", "-o", "{file}/x.pc"],
    ],
)
def test_output_that_cannot_be_written(
    blaswheel: Blaswheel, lp64: Path, tmp_path: Path, output: list[str]
) -> None:
    work = tmp_path / "work"
    (work / "folder").mkdir(parents=True)
    (work / "file").write_bytes(b"mine")
    words = [word.format(file=work / "file", folder=work / "folder") for word in output]
    before = snapshot(work)
    error, hint = blaswheel.error("pc", *words, on=lp64, cwd=work)
    assert error.startswith("can't write ")
    assert hint
    if "--native-file" not in words:
        assert snapshot(work) == before
    assert (work / "file").read_bytes() == b"mine"


@pytest.mark.parametrize("cache", ["file", "below", "proc"])
@pytest.mark.parametrize("command", [["pc"], ["env"], ["exec", "--", "true"]])
def test_cache_that_cannot_be_written(
    blaswheel: Blaswheel, lp64: Path, tmp_path: Path, cache: str, command: list[str]
) -> None:
    (tmp_path / "file").write_bytes(b"")
    path = {"file": tmp_path / "file", "below": tmp_path / "file/x", "proc": "/proc/blaswheel"}
    environ = {"BLASWHEEL_CACHE_DIR": str(path[cache])}
    error, hint = blaswheel.error(*command, on=lp64, environ=environ)
    assert f"can't write {path[cache]}" in error
    assert "BLASWHEEL_CACHE_DIR" in hint
    if command == ["pc"]:
        assert "--dir" in hint
        # And that helps.
        blaswheel("pc", "--dir", tmp_path / "pc", on=lp64, environ=environ)
        assert (tmp_path / "pc/openblas.pc").is_file()


@pytest.mark.parametrize("command", ["list", "show"])
def test_commands_that_write_nothing_need_no_cache(
    blaswheel: Blaswheel, lp64: Path, command: str
) -> None:
    environ = {"BLASWHEEL_CACHE_DIR": "/proc/blaswheel"}
    done = blaswheel(command, on=lp64, environ=environ)
    assert done.stdout and done.stderr == ""


def test_a_damaged_cache_is_mended(blaswheel: Blaswheel, lp64: Path, tmp_path: Path) -> None:
    """Half of a file is never seen, since all are renamed into place; what is gone is written."""
    environ = {"BLASWHEEL_CACHE_DIR": str(tmp_path)}
    first = blaswheel("pc", on=lp64, environ=environ).stdout
    everything = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert everything
    assert not [path for path in tmp_path.rglob("*") if path.suffix == ".tmp"]
    for path in everything:
        if path.suffix == ".a":
            path.unlink()
    assert blaswheel("pc", on=lp64, environ=environ).stdout == first
    assert {path for path in tmp_path.rglob("*") if path.is_file()} >= set(everything)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["nonsense"], "nonsense"),
        (["nonsense", "--help"], "nonsense"),
        (["pc", "--nonsense"], "--nonsense"),
        (["--nonsense"], "--nonsense"),
        (["list", "extra"], "extra"),
        (["pc", "one", "two"], "two"),
        (["pc", "--interface", "ilp32"], "ilp32"),
        (["pc", "--interface"], "--interface"),
        (["pc", "--runtime", "magic"], "magic"),
        (["pc", "--for", "matlab"], "matlab"),
        (["pc", "--depth", "2"], "--depth"),
        (["pc", "--runtime", "origin", "--depth", "deep"], "deep"),
        (["pc", "--prov", "x"], "--prov"),
        (["isolate"], "-o"),
        (["env", "--shell", "csh"], "csh"),
    ],
)
def test_usage_errors_exit_2(
    blaswheel: Blaswheel, lp64: Path, words: list[str], named: str
) -> None:
    error, _ = blaswheel.error(*words, on=lp64, status=2)
    assert named in error


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize(
    "words",
    [
        ["--interface", "ilp64"],
        ["--provider", "mkl-devel"],
        ["--runtime", "origin", "--isolate"],
        ["--native", "--symbol-suffix", "x"],
        ["--symbol-prefix", "0"],
    ],
)
def test_nothing_is_left_behind(
    blaswheel: Blaswheel, lp64: Path, tmp_path: Path, words: list[str], output: list[str]
) -> None:
    output = [word.format(tmp_path) for word in output]
    environ = {"BLASWHEEL_CACHE_DIR": str(tmp_path / "cache")}
    done = blaswheel("pc", "--no-verify", *words, *output, on=lp64, check=False, environ=environ)
    assert done.returncode in (1, 2)
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 2
    assert not [path for path in tmp_path.iterdir() if path.name != "cache"]
    # What was read of the environment is remembered; nothing of the request is.
    assert {path.name for path in tmp_path.glob("cache/*")} <= {"memos"}


@pytest.mark.parametrize(
    "path", ["nowhere.so", "/dev/null", "/dev/zero", "/usr", "/etc/hostname", "./l m.so", "/bin/sh"]
)
def test_a_path_that_is_no_blas(blaswheel: Blaswheel, tmp_path: Path, path: str) -> None:
    error, _ = blaswheel.error("pc", path, cwd=tmp_path)
    assert path in error


@pytest.mark.parametrize(
    "source",
    [
        "void dgemm_(void){} void ddot_(void){}",
        "int cblas_ddot(void){return 0;}",
    ],
)
def test_a_library_with_a_handful_of_routines(
    blaswheel: Blaswheel, tmp_path: Path, source: str
) -> None:
    """Stubs of that kind are in many wheels: nothing can be built against them."""
    library = tmp_path / "libblas_stub.so"
    command = ["cc", "-shared", "-x", "c", "-", "-o", str(library)]
    subprocess.run(command, input=source.encode(), check=True)
    error, hint = blaswheel.error("pc", library)
    assert str(library) in error
    assert hint


def test_a_library_of_another_machine(blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path) -> None:
    """Nothing is loaded with --root; without, that it can't be called is told."""
    site = wheels.unpacked(ILP64, platform="manylinux_2_28_aarch64")
    done = blaswheel("pc", "--native", "--root", site)
    assert fields(done.stdout)["interface"] == "ilp64"
    done = blaswheel("pc", "--native", on=site)
    assert "not verified" in done.stderr and "aarch64" in done.stderr


def test_a_library_that_crashes_is_no_crash_of_ours(
    blaswheel: Blaswheel, lp64: Path, tmp_path: Path
) -> None:
    """All names of a real library, each of which ends the process."""
    names = subprocess.run(
        ["nm", "-D", "--defined-only", str(lp64 / LIBRARY)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    routines = re.findall(r" T ((?:scipy_)\w+)$", names, re.MULTILINE)
    assembler = ".text\nall:\n ud2\n" + "".join(
        f".globl {name}\n.type {name}, @function\n.set {name}, all\n" for name in routines
    )
    library = tmp_path / "libcrash.so"
    command = ["cc", "-shared", "-x", "assembler", "-", "-o", str(library)]
    subprocess.run(command, input=assembler.encode(), check=True)
    done = blaswheel("pc", library, "-o", tmp_path / "out/x.pc", check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert str(library) in done.stderr and "SIGILL" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_folder_that_vanishes_under_us(blaswheel: Blaswheel, lp64: Path, tmp_path: Path) -> None:
    script = 'mkdir gone; cd gone; rmdir ../gone; exec blaswheel "$@"'
    environ = {"PYTHONPATH": str(lp64)}
    for words in (["list"], ["pc"], ["show"], ["exec", "--", "true"]):
        done = blaswheel.venv.run(
            "sh", "-c", script, "sh", *words, cwd=tmp_path, environ=environ, check=False
        )
        assert "Traceback" not in done.stderr
        assert done.returncode == 0, done.stderr
    for words in (["pc", "-o", "x.pc"], ["pc", "--dir", "x"], ["show", "./x.so"]):
        done = blaswheel.venv.run(
            "sh", "-c", script, "sh", *words, cwd=tmp_path, environ=environ, check=False
        )
        assert "Traceback" not in done.stderr
        assert done.returncode == 1
        assert len(done.stderr.splitlines()) == 2


def test_the_version_that_is_asked_for_is_told(blaswheel: Blaswheel, lp64: Path) -> None:
    error, hint = blaswheel.error("pc", "--provider", "scipy-openblas32==0.1", on=lp64)
    assert error == f"asked for scipy-openblas32==0.1, but version {NEWEST} is installed"
    assert hint == "pip install scipy-openblas32==0.1"
