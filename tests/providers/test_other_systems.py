"""Libraries of Windows and macOS, listed and offered from their wheels; nothing of them is run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.sites import NEWEST, Blaswheel, fields
from tests.link.compiling import run, with_flags
from tests.support import Wheels


def only(blaswheel: Blaswheel, root: Path) -> list[dict]:
    return json.loads(blaswheel("list", "--json", "--root", root).stdout)["libraries"]


@pytest.mark.parametrize(
    ("spec", "platform", "dll", "link_name", "interface"),
    [
        (
            "scipy-openblas64==0.3.23.293.2",
            "win_amd64",
            "libopenblas64__v0.3.23-293-gc2f4bdbb-gcc_10_3_0.dll",
            "libopenblas64__v0.3.23-293-gc2f4bdbb-gcc_10_3_0",
            "ilp64",
        ),
        (f"scipy-openblas32=={NEWEST}", "win32", "libscipy_openblas.dll",
         "libscipy_openblas", "lp64"),
        (
            f"scipy-openblas64=={NEWEST}",
            "win_amd64",
            "libscipy_openblas64_.dll",
            "libscipy_openblas64_",
            "ilp64",
        ),
        (f"scipy-openblas32=={NEWEST}", "win_arm64", "scipy_openblas.dll",
         "scipy_openblas", "lp64"),
        ("pylib-openblas==0.0.2", "win_amd64", "libopenblas.dll", "libopenblas", "lp64"),
    ],
)  # fmt: skip
def test_windows(
    blaswheel: Blaswheel,
    wheels: Wheels,
    spec: str,
    platform: str,
    dll: str,
    link_name: str,
    interface: str,
) -> None:
    root = wheels.unpacked(spec, platform)
    one = only(blaswheel, root)[0]
    assert Path(one["path"]).name == dll
    assert (one["format"], one["interface"], one["linkable"]) == ("pe", interface, True)
    text = blaswheel("pc", "--root", root, "--native").stdout
    libs = fields(text)["Libs"].split()
    assert libs[-1] == f"-l{link_name}"
    # The import library is where the first word says, and is one: it names the DLL.
    folder = fields(text)[libs[0].removeprefix("-L${").removesuffix("}")]
    (library,) = Path(folder).glob(f"{link_name}.lib")
    assert dll.encode() in library.read_bytes()
    assert fields(text)["Libs.private"] == ""


def test_windows_names_of_both_kinds(blaswheel: Blaswheel, wheels: Wheels) -> None:
    """Newer DLLs export plain names as well, which have the integers of the renamed ones."""
    root = wheels.unpacked(f"scipy-openblas64=={NEWEST}", "win_amd64")
    (one,) = only(blaswheel, root)
    pairs = [(each["prefix"], each["suffix"], each["interface"]) for each in one["names"]["cblas"]]
    assert pairs == [("scipy_", "64_", "ilp64"), ("", "", "ilp64")]
    shown = json.loads(blaswheel("show", "--json", "--root", root).stdout)
    (defect,) = [each for each in shown["defects"] if each["code"] == "plain-ilp64"]
    assert defect["severity"] == "warning"
    assert "cblas_dgemm" in defect["message"]


@pytest.mark.tool("x86_64-w64-mingw32-gcc", "llvm-readobj")
def test_link_with_import_library(blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path) -> None:
    """A compiler for Windows links a program with the words of the file."""
    root = wheels.unpacked(f"scipy-openblas32=={NEWEST}", "win_amd64")
    text = blaswheel("pc", "--root", root, "--native").stdout
    (tmp_path / "openblas.pc").write_text(text, encoding="utf-8")
    (tmp_path / "use.c").write_text(
        "double scipy_cblas_ddot(int, const double *, int, const double *, int);\n"
        "int main(void) { double x[1] = {2}; return scipy_cblas_ddot(1, x, 1, x, 1) != 4; }\n",
        encoding="ascii",
    )
    program = tmp_path / "use.exe"
    command = ("x86_64-w64-mingw32-gcc", "-o", program, tmp_path / "use.c")
    with_flags(tmp_path, "--libs", *command)
    imported = run(["llvm-readobj", "--coff-imports", program]).stdout
    assert "Name: libscipy_openblas.dll" in imported


@pytest.mark.parametrize(
    ("spec", "platform", "name", "reason"),
    [
        (f"scipy-openblas32=={NEWEST}", "macosx_10_13_x86_64", "libscipy_openblas.dylib", ""),
        (f"scipy-openblas64=={NEWEST}", "macosx_11_0_arm64", "libscipy_openblas64_.dylib", ""),
        ("cmeel-openblas==0.3.31", "macosx_11_0_arm64", "libopenblas.dylib", ""),
        (
            "scipy-openblas32==0.3.23.293",
            "macosx_10_9_x86_64",
            "libopenblas_python.so",
            (
                "its install name /usr/local/lib/libopenblas.0.dylib is no file: what links it "
                "can't be loaded"
            ),
        ),
    ],
)
def test_macos(
    blaswheel: Blaswheel, wheels: Wheels, spec: str, platform: str, name: str, reason: str
) -> None:
    (one,) = only(blaswheel, wheels.unpacked(spec, platform))
    assert Path(one["path"]).name == name
    assert (one["format"], one["linkable"], one["reason"]) == ("macho", not reason, reason)
    assert one["interface"] == ("ilp64" if "64==" in spec else "lp64")
    codes = {defect["code"] for defect in one["defects"]}
    # cmeel's is named by the folder that it was built in, and a file of that name is there.
    assert ("install-name" in codes) is (not spec.startswith("scipy-openblas") or bool(reason))


def test_cmeel(blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path) -> None:
    """Its files are in ``cmeel.prefix``, three times; it needs a libgfortran of the system."""
    root = wheels.unpacked("cmeel-openblas==0.3.31")
    done = blaswheel("list", "--json", "--root", root)
    (one,) = json.loads(done.stdout)["libraries"]
    assert one["path"] == str(root / "cmeel.prefix/lib/libopenblas.so")
    assert one["include_dirs"] == [str(root / "cmeel.prefix/include/openblas")]
    said = (
        "needs libgfortran.so.5 of the system, which the wheel does not bring, though its tag "
        "py3-none-manylinux_2_28_x86_64 promises that it needs nothing else"
    )
    assert done.stderr == f"blaswheel: cmeel-openblas 0.3.31 {said}\n"
    assert {"code": "system-runtime", "severity": "fatal", "message": said} in one["defects"]
    assert said in blaswheel("show", "--root", root).stdout
    written = blaswheel("pc", "--root", root, "--runtime", "absolute")
    assert said in written.stderr
    (tmp_path / "openblas.pc").write_text(written.stdout, encoding="utf-8")
    (tmp_path / "use.c").write_text(
        "#include <cblas.h>\n#include <stdio.h>\nint main(void) { double x[2] = {1, 2};\n"
        'printf("%g\\n", cblas_ddot(2, x, 1, x, 1)); return 0; }\n',
        encoding="ascii",
    )
    script = f"cc {tmp_path}/use.c -o {tmp_path}/use $(pkg-config --cflags --libs openblas)"
    run(["sh", "-c", script], PKG_CONFIG_PATH=str(tmp_path))
    assert run([tmp_path / "use"]).stdout == "5\n"
