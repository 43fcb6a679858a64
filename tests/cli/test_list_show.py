"""What ``list`` and ``show`` print, and that they mind no pipe."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cli.sites import ILP64, LP64, NEWEST, NUMPY, Blaswheel, distribution, python_path
from tests.support import Wheels

ILP64_OPTIONS = "-Dblas=openblas -Dlapack=openblas -Duse-ilp64=true -Dblas-symbol-suffix=64_"
#: The JSON of one library: field to type; every field is always there.
SCHEMA: dict[str, Any] = {
    "provider": (dict, type(None)),
    "path": str,
    "implementation": str,
    "version": (str, type(None)),
    "format": str,
    "machine": str,
    "soname": (str, type(None)),
    "needed": list,
    "interface": str,
    "verified": bool,
    "evidence": list,
    "names": dict,
    "complex_return": (str, type(None)),
    "float_return": (str, type(None)),
    "include_dirs": list,
    "linkable": bool,
    "reason": str,
    "defects": list,
}


@pytest.fixture(scope="module")
def both(wheels: Wheels, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Folders with an LP64 and an ILP64 library and a vendored one."""
    return [wheels.unpacked(spec) for spec in (LP64, ILP64, NUMPY)]


@pytest.fixture
def unknown(tmp_path: Path) -> dict[str, str]:
    """What makes blaswheel forget that it ever called a library."""
    return {"BLASWHEEL_CACHE_DIR": str(tmp_path / "no-cache")}


def test_table(blaswheel: Blaswheel, both: Sequence[Path], unknown: dict[str, str]) -> None:
    done = blaswheel("list", on=both, environ=unknown)
    assert blaswheel(on=both, environ=unknown).stdout == done.stdout
    assert done.stderr == ""
    heading, lp64, ilp64, vendored = done.stdout.splitlines()
    columns = ["LIBRARY", "VERSION", "INTERFACE", "VERIFIED", "NAMES", "APIS", "LINKABLE"]
    assert heading.split() == ["PROVIDER", *columns]
    apis = ["blas", "lapack", "cblas", "lapacke"]
    head = ["scipy-openblas32", NEWEST, "openblas"]
    assert lp64.split()[:3] == head
    assert lp64.split()[4:] == ["lp64", "no", "scipy_*_", *apis, "yes"]
    assert ilp64.split()[4:] == ["ilp64", "no", "scipy_*_64_", *apis, "yes"]
    assert vendored.startswith("numpy ") and "  no: vendored into numpy" in vendored
    # Columns stand under their headings.
    for column in ("LIBRARY", "INTERFACE", "LINKABLE"):
        start = heading.index(column)
        assert {line[start - 2 : start] for line in (lp64, ilp64, vendored)} == {"  "}


def test_options_without_a_command_are_those_of_list(blaswheel: Blaswheel, wheels: Wheels) -> None:
    root = wheels.unpacked(LP64)
    assert blaswheel("--root", root).stdout == blaswheel("list", "--root", root).stdout


def test_list_json_is_as_specified(
    blaswheel: Blaswheel, both: Sequence[Path], unknown: dict[str, str]
) -> None:
    done = blaswheel("list", "--json", on=both, environ=unknown)
    document = json.loads(done.stdout)
    assert list(document) == ["schema", "libraries"]
    assert document["schema"] == 1
    for one in document["libraries"]:
        assert list(one) == list(SCHEMA)
        for field, kind in SCHEMA.items():
            assert isinstance(one[field], kind), field
        assert list(one["names"]) == ["blas", "lapack", "cblas", "lapacke"]
        for families in one["names"].values():
            for family in families:
                assert list(family) == ["prefix", "suffix", "interface", "found", "known"]
                assert 0 < family["found"] <= family["known"]
        for defect in one["defects"]:
            assert list(defect) == ["code", "severity", "message"]
            assert defect["severity"] in ("fatal", "warning", "note")
            assert "\n" not in defect["message"]
        assert one["evidence"] and all(isinstance(line, str) for line in one["evidence"])
        assert one["format"] == "elf"
        assert one["implementation"] == "openblas"
        assert not one["verified"] and one["complex_return"] is None
        assert bool(one["reason"]) is not one["linkable"]


@pytest.mark.parametrize(
    ("spec", "path", "interface", "prefix", "suffixes"),
    [
        (LP64, "scipy_openblas32/lib/libscipy_openblas.so", "lp64", "scipy_", ("_", "")),
        (
            ILP64,
            "scipy_openblas64/lib/libscipy_openblas64_.so",
            "ilp64",
            "scipy_",
            ("_64_", "64_"),
        ),
        (
            "scipy-openblas32==0.3.23.293.2",
            "scipy_openblas32/lib/libopenblas_python.so",
            "lp64",
            "",
            ("_", ""),
        ),
        (
            "scipy-openblas64==0.3.23.293.2",
            "scipy_openblas64/lib/libopenblas_python.so",
            "ilp64",
            "",
            ("_64_", "64_"),
        ),
    ],
)
def test_facts_of_the_real_wheels(
    blaswheel: Blaswheel,
    wheels: Wheels,
    spec: str,
    path: str,
    interface: str,
    prefix: str,
    suffixes: tuple[str, str],
) -> None:
    root = wheels.unpacked(spec)
    name, _, version = spec.partition("==")
    one = json.loads(blaswheel("show", "--json", "--root", root).stdout)
    listed = json.loads(blaswheel("list", "--json", "--root", root).stdout)["libraries"][0]
    # What the provider's other files promise is looked at by show alone.
    defects = listed.pop("defects")
    assert {field: one[field] for field in listed} == listed
    assert one["defects"][: len(defects)] == defects
    assert one["provider"] == {"name": name, "version": version}
    assert one["path"] == str(root / path)
    assert one["soname"] == Path(path).name
    assert one["version"].startswith(".".join(version.split(".")[:3]))
    assert ".dev" not in one["version"]
    assert "libc.so.6" in one["needed"]
    assert one["interface"] == interface
    assert one["machine"] == "x86_64"
    for api, (best, *_) in one["names"].items():
        suffix = suffixes[api in ("cblas", "lapacke")]
        assert (best["prefix"], best["suffix"], best["interface"]) == (prefix, suffix, interface)
        assert best["found"] > 0.9 * best["known"]
    assert one["include_dirs"] == [str(root / path.split("/")[0] / "include")]
    assert one["linkable"] and one["reason"] == ""


def test_what_calls_showed_is_remembered(
    blaswheel: Blaswheel, both: Sequence[Path], unknown: dict[str, str]
) -> None:
    blaswheel("pc", on=both, environ=unknown)
    done = blaswheel("list", "--json", on=both, environ=unknown)
    called, other, _ = json.loads(done.stdout)["libraries"]
    assert called["verified"] and called["complex_return"] == "register"
    assert not other["verified"]


def test_show_tells_what_list_has_no_room_for(
    blaswheel: Blaswheel, wheels: Wheels, unknown: dict[str, str]
) -> None:
    root = wheels.unpacked(LP64)
    text = blaswheel("show", "--root", root, environ=unknown).stdout
    assert text.startswith(f"scipy-openblas32 {NEWEST}\n")
    for expected in (
        "libscipy_openblas.so",
        "OpenBLAS",
        "libm.so.6",
        "not verified",
        "2605 of 2605",
        str(root / "scipy_openblas32/include"),
        "[namespace-leak]",
    ):
        assert expected in text


@pytest.mark.parametrize("named", ["numpy", "path"])
def test_show_tells_of_a_library_that_is_not_linkable(
    blaswheel: Blaswheel, both: Sequence[Path], named: str
) -> None:
    (library,) = (both[2] / "numpy.libs").glob("libscipy_openblas*")
    done = blaswheel("show", "numpy" if named == "numpy" else library, on=both)
    assert str(library) in done.stdout
    assert "no: vendored into numpy" in done.stdout
    assert done.stderr == ""


def test_show_a_library_file_of_no_distribution(
    blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path
) -> None:
    library = tmp_path / "libmine.so"
    library.symlink_to(wheels.unpacked(LP64) / "scipy_openblas32/lib/libscipy_openblas.so")
    one = json.loads(blaswheel("show", "libmine.so", "--json", cwd=tmp_path).stdout)
    assert one["provider"] is None
    assert one["path"] == str(library)
    assert one["interface"] == "lp64"


@pytest.mark.parametrize(
    ("consumer", "interface", "expected"),
    [
        ("numpy", "lp64", "-Dblas=openblas -Dlapack=openblas -Dallow-noblas=false"),
        (
            "numpy",
            "ilp64",
            f"{ILP64_OPTIONS} -Dallow-noblas=false",
        ),
        ("scipy", "lp64", "-Dblas=openblas -Dlapack=openblas"),
        ("scipy", "ilp64", ILP64_OPTIONS),
    ],
)
def test_show_for_a_consumer(
    blaswheel: Blaswheel, both: Sequence[Path], consumer: str, interface: str, expected: str
) -> None:
    done = blaswheel("show", "--for", consumer, "--interface", interface, on=both)
    assert done.stdout.splitlines()[0] == expected


def test_show_for_a_consumer_refuses(blaswheel: Blaswheel, wheels: Wheels) -> None:
    path = wheels.unpacked(NUMPY)
    error, _ = blaswheel.error("show", "--for", "numpy", "numpy", on=path)
    assert "can't be linked against: vendored into numpy" in error
    error, _ = blaswheel.error("show", "--for", "numpy", "--json", on=path, status=2)
    assert error == "--for prints options for people, --json does not"


def test_every_command_helps_with_an_example(blaswheel: Blaswheel) -> None:
    general = blaswheel("--help").stdout
    commands = [line.split()[0] for line in general.splitlines() if line.startswith("  ")]
    assert {"list", "show", "pc", "env", "exec", "verify", "isolate"} <= set(commands)
    for command in commands:
        text = blaswheel(command, "--help").stdout
        assert "example" in text and f"  blaswheel {command}" in text.partition("example")[2]
    assert blaswheel("--version").stdout.startswith("blaswheel 0.")


def test_paths_that_are_not_utf8(blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path) -> None:
    library = wheels.unpacked(LP64) / "scipy_openblas32/lib/libscipy_openblas.so"
    folder = "latin-\udce4"
    site = tmp_path / "site"
    files: dict[str, Path | bytes] = {f"{folder}/libscipy_openblas.so": library}
    distribution(site, "odd", "1", files, record="")
    record = b"latin-\xe4/libscipy_openblas.so,,\n"
    (site / "odd-1.dist-info/RECORD").write_bytes(record)
    for command in (["list"], ["show"], ["show", "--json"], ["list", "--json"], ["pc"]):
        done = blaswheel(*command, on=site)
        assert "openblas" in done.stdout


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_terminals_of_any_encoding(
    blaswheel: Blaswheel, site: Callable[..., Path], encoding: str
) -> None:
    folder = site(LP64, name="ünï κ")
    environ = {"PYTHONIOENCODING": encoding}
    assert "scipy-openblas32" in blaswheel("list", on=folder, environ=environ).stdout
    assert "openblas" in blaswheel("show", on=folder, environ=environ).stdout
    one = json.loads(blaswheel("show", "--json", on=folder, environ=environ).stdout)
    assert one["path"].startswith(str(folder))


def shell(
    blaswheel: Blaswheel, line: str, on: Path | Sequence[Path]
) -> subprocess.CompletedProcess[str]:
    return blaswheel.venv.run(
        "bash", "-c", f"set -o pipefail; {line}", check=False, environ=python_path(on)
    )


@pytest.mark.parametrize(
    "line",
    [
        "blaswheel list | head -1",
        "blaswheel list --json | head -1",
        "blaswheel list | true",
        "blaswheel pc | head -1",
        "blaswheel --help | true",
        "blaswheel pc --help | true",
        "blaswheel show --json | head -c 1",
    ],
)
def test_a_closed_pipe_is_no_error(blaswheel: Blaswheel, both: Sequence[Path], line: str) -> None:
    for _ in range(3):
        done = shell(blaswheel, line, both[0])
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "line",
    [
        "blaswheel list <&-",
        "blaswheel list >&-",
        "blaswheel list 2>&-",
        "blaswheel show --json <&- 2>&-",
        "blaswheel pc -o {}/x.pc <&- >&- 2>&-",
        "blaswheel exec -- true <&- >&- 2>&-",
    ],
)
def test_closed_streams_are_no_error(
    blaswheel: Blaswheel, both: Sequence[Path], tmp_path: Path, line: str
) -> None:
    done = shell(blaswheel, line.format(tmp_path), both)
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr
    assert done.returncode == 0
    if "-o" in line:
        assert "Name: x\n" in (tmp_path / "x.pc").read_text()


@pytest.mark.parametrize("command", ["list", "show", "pc", "env", "--help", "pc --help"])
def test_a_full_disk_is_an_error(blaswheel: Blaswheel, both: Sequence[Path], command: str) -> None:
    done = shell(blaswheel, f"blaswheel {command} > /dev/full", both[0])
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr
