"""scipy-openblas of every release since 2023: linked and run through blaswheel's ``.pc`` files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.building import PROGRAM
from tests.cli.sites import Blaswheel, fields
from tests.link.compiling import run, with_flags
from tests.support import Wheels, unpack

#: Those of which there is a wheel for Linux x86_64, of both integer widths.
BUILDS = {
    "0.3.23": "293 293.1 293.2",
    "0.3.24": "95.0 95.1",
    "0.3.26": "0 0.1 0.2 0.4",
    "0.3.27": "0.0 0.1 44.2 44.3 44.4 44.5 44.6 63.0 63.1",
    "0.3.28": "0.1 0.2",
    "0.3.29": "0.0 265.0 265.1",
    "0.3.30": "0.0 0.1 0.2 0.3 0.4 0.6 0.7 0.8 359.2 443.0 443.1",
    "0.3.31": "22.0 22.1 126.1 126.4 126.5 159.0 188.0",
    "0.3.33": "0.0 112.0 201.0",
    "0.3.34": "0.0 106.0 237.0 237.1 237.2 481.3",
}
RELEASES = [f"{version}.{build}" for version, builds in BUILDS.items() for build in builds.split()]
#: One of each kind: without a prefix; with a SONAME that is no file; with a ``cblas.h`` that does
#: not compile; with plain ``lapacke.h``, without a ``.pc`` file and with one; the newest. 100 MB.
KINDS = {
    ("64", "0.3.23.293.2"),
    ("32", "0.3.24.95.0"),
    ("32", "0.3.27.44.6"),
    ("64", "0.3.27.63.1"),
    ("64", "0.3.30.359.2"),
    ("32", "0.3.34.481.3"),
    ("64", "0.3.34.481.3"),
}
FORTRAN = """\
program main
  double precision :: a(1, 1) = 2, b(1) = 4
  integer :: info = 0, pivot(1)
  call DGESV(1, 1, a, 1, pivot, b, 1, info)
  print '(f3.1)', b(1)
end program
"""


def parameters() -> list[object]:
    return [
        pytest.param(
            width,
            release,
            marks=[] if (width, release) in KINDS else [pytest.mark.full],
            id=f"scipy-openblas{width}-{release}",
        )
        for release in RELEASES
        for width in ("32", "64")
    ]


@pytest.mark.parametrize(("width", "release"), parameters())
@pytest.mark.tool("gfortran")
def test_release(
    blaswheel: Blaswheel,
    wheels: Wheels,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
    width: str,
    release: str,
) -> None:
    spec = f"scipy-openblas{width}=={release}"
    root = tmp_path / "root"
    unpack(wheels.fetch(spec), root)
    (one,) = json.loads(blaswheel("list", "--json", "--root", root).stdout)["libraries"]
    interface, suffix = {"32": ("lp64", ""), "64": ("ilp64", "64_")}[width]
    assert one["interface"] == interface
    assert one["linkable"], one["reason"]
    assert release.startswith(one["version"])
    prefix = "" if release.startswith("0.3.23") else "scipy_"
    assert one["names"]["cblas"][0]["prefix"] == prefix
    shipped = sorted(path.name for path in root.rglob("*.pc"))
    record_property(
        "row",
        {
            "Release": spec.replace("==", " "),
            "Library": Path(one["path"]).name,
            "SONAME": one["soname"],
            "Names": f"`{prefix}*{suffix}`",
            "Its .pc": ", ".join(shipped) or "none",
            "Defects": ", ".join(
                sorted(
                    {
                        defect["code"]
                        for defect in json.loads(
                            blaswheel("show", "--json", "--root", root).stdout
                        )["defects"]
                        if defect["severity"] != "note"
                    }
                )
            ),
        },
    )

    text = blaswheel("pc", "--root", root, "--runtime", "absolute").stdout
    said = fields(text)
    assert said["provider"] == spec
    assert said["Libs.private"] == ""
    (tmp_path / "openblas.pc").write_text(text, encoding="utf-8")
    (tmp_path / "use.c").write_text(PROGRAM.replace("@", suffix), encoding="ascii")
    program = tmp_path / "use"
    command = ("cc", "-Wall", "-Wextra", "-Werror", "-o", program, tmp_path / "use.c")
    with_flags(tmp_path, "--cflags --libs", *command)
    assert run([program]).stdout == "14 2\n"
    needed = run(["ldd", program]).stdout
    assert "not found" not in needed

    routine = "dgesv_64" if width == "64" else "dgesv"
    (tmp_path / "use.f90").write_text(FORTRAN.replace("DGESV", routine), encoding="ascii")
    eight = ["-fdefault-integer-8"] if width == "64" else []
    program = tmp_path / "use_fortran"
    with_flags(tmp_path, "--libs", "gfortran", *eight, "-o", program, tmp_path / "use.f90")
    assert run([program]).stdout == "2.0\n"


@pytest.mark.parametrize(("width", "release"), [("32", "0.3.24.95.0")])
def test_soname_that_is_no_file(
    blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path, width: str, release: str
) -> None:
    root = tmp_path / "root"
    unpack(wheels.fetch(f"scipy-openblas{width}=={release}"), root)
    assert (
        "SONAME libscipy_openblas.so.0 is not the file's name libscipy_openblasp-r0.3.24.dev.so: "
        "a folder of links serves what links it"
    ) in blaswheel("show", "--root", root).stdout
    assert blaswheel.error("pc", "--root", root, "--runtime", "origin") == [
        (
            "scipy-openblas32 0.3.24.95.0 says it is called libscipy_openblas.so.0, and is not: no "
            "run path relative to a module reaches it under that name"
        ),
        "use --runtime absolute, or a newer version",
    ]
    # A set of files in a folder of the user's has its links in it.
    blaswheel("pc", "--root", root, "--runtime", "absolute", "--dir", tmp_path / "pc")
    (link,) = (tmp_path / "pc").rglob("libscipy_openblas.so.0")
    assert link.is_symlink()
    assert link.resolve().name == "libscipy_openblasp-r0.3.24.dev.so"


def test_header_that_does_not_compile(blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path) -> None:
    """A script that renamed functions renamed types, and put a suffix after a parenthesis."""
    root = tmp_path / "root"
    unpack(wheels.fetch("scipy-openblas64==0.3.27.63.1"), root)
    shipped = root / "scipy_openblas64/include/cblas.h"
    assert run(["cc", "-fsyntax-only", "-x", "c", shipped], check=False).returncode != 0
    assert (
        "cblas.h does not compile: it has ')64_(', left by a renaming; the one that pc gives does "
        "[header-syntax]"
    ) in blaswheel("show", "--root", root).stdout
