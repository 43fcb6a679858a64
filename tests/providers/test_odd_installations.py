"""Providers that are not where or what they should be."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pytest

from tests.cli.sites import ILP64, LP64, NEWEST, OLDER, Blaswheel, copy, distribution, fields
from tests.link.compiling import run, with_flags
from tests.support import Venv, Wheels

LIBRARY = "scipy_openblas32/lib/libscipy_openblas.so"
C = """\
#include <cblas.h>
#include <stdio.h>
int main(void)
{
    double x[3] = {1, 2, 3};
    printf("%g\\n", cblas_ddot(3, x, 1, x, 1));
    return 0;
}
"""


def listed(blaswheel: Blaswheel, *arguments: str | Path, **how: object) -> list[dict[str, object]]:
    done = blaswheel("list", "--json", *arguments, **how)
    return json.loads(done.stdout)["libraries"]


def runs(blaswheel: Blaswheel, folder: Path, *arguments: str | Path, **how: object) -> str:
    """Build a program with a ``.pc`` file, run it, and return the file."""
    text = blaswheel("pc", "--runtime", "absolute", *arguments, **how).stdout
    (folder / "openblas.pc").write_text(text, encoding="utf-8")
    (folder / "use.c").write_text(C, encoding="ascii")
    with_flags(folder, "--cflags --libs", "cc", "-o", folder / "use", folder / "use.c")
    assert run([folder / "use"]).stdout == "14\n"
    return text


@pytest.mark.tool("llvm-strip")
def test_without_section_table(blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path) -> None:
    """The loader needs none, linkers do: what is there is told, and why it can't be linked."""
    site = copy(wheels.unpacked(LP64), tmp_path / "site")
    (whole,) = listed(blaswheel, "--root", site)
    stripped, whole_file = tmp_path / "stripped.so", wheels.unpacked(LP64) / LIBRARY
    shutil.copyfile(site / LIBRARY, stripped)
    run(["llvm-strip", "--strip-sections", stripped])
    (site / LIBRARY).unlink()
    shutil.copyfile(stripped, site / LIBRARY)
    assert "There are no sections" in run(["readelf", "-S", site / LIBRARY]).stdout
    (one,) = listed(blaswheel, "--root", site)
    reason = "its section table was stripped, without which no linker reads it (the loader does)"
    assert (one["linkable"], one["reason"]) == (False, reason)
    for field in ("names", "interface", "version", "needed", "soname", "implementation"):
        assert one[field] == whole[field], field
    assert reason in blaswheel.error("pc", "--root", site)[0]
    # It is as good as it was when it is called.
    assert "verified by" in blaswheel("verify", site / LIBRARY).stdout
    source = tmp_path / "use.c"
    source.write_text("int scipy_ddot_(void);\nint main(void) { return scipy_ddot_(); }\n")
    for linker, library in (("bfd", stripped), ("lld", stripped), ("bfd", whole_file)):
        command = ["cc", f"-fuse-ld={linker}", source, library, "-o", tmp_path / "use"]
        assert (run(command, check=False).returncode == 0) is (library != stripped)


def test_renamed(blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path) -> None:
    """Its SONAME is that of another file: programs that are linked with it still load it."""
    library = wheels.unpacked(LP64) / LIBRARY
    headers = library.parents[1] / "include"
    files: dict[str, Path | bytes] = {"mine/lib/libmine.so": library}
    files |= {f"mine/include/{path.name}": path for path in headers.iterdir() if path.is_file()}
    site = distribution(tmp_path / "site", "mine", "1.0", files)
    (one,) = listed(blaswheel, "--root", site)
    assert one["implementation"] == "openblas"
    assert one["linkable"] is True
    assert [defect["code"] for defect in one["defects"]].count("soname") == 1
    text = runs(blaswheel, tmp_path, "--root", site)
    assert "-lmine" in fields(text)["Libs"]
    loaded = run(["ldd", tmp_path / "use"]).stdout
    assert "libscipy_openblas.so" in loaded
    assert "not found" not in loaded


def test_editable(blaswheel: Blaswheel, wheels: Wheels, venv: type[Venv], tmp_path: Path) -> None:
    """Installed in place by pip: the library is where the project is."""
    project = tmp_path / "my project"
    copy(wheels.unpacked(LP64) / "scipy_openblas32", project / "src/scipy_openblas32")
    (project / "pyproject.toml").write_text(
        "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n"
        "[project]\nname = 'my-blas'\nversion = '2.0'\n",
        encoding="ascii",
    )
    (project / "backend.py").write_text(BACKEND, encoding="ascii")
    made = venv("editable")
    made.pip_install("--no-build-isolation", "--no-deps", "--editable", project)
    assert not list(made.site_packages.rglob("*.so"))
    (one,) = listed(blaswheel, "--python", made.python)
    assert one["provider"] == {"name": "my-blas", "version": "2.0"}
    assert one["path"] == str(project / "src" / LIBRARY)
    assert one["include_dirs"] == [str(project / "src/scipy_openblas32/include")]
    text = runs(blaswheel, tmp_path, "--python", made.python)
    assert fields(text)["provider"] == "my-blas==2.0"
    # No run path relative to a module in site-packages reaches it.
    message, hint = blaswheel.error("pc", "--python", made.python, "--runtime", "origin")
    assert "is in no site-packages" in message
    assert "--runtime absolute" in hint


BACKEND = """\
import base64, hashlib, zipfile, os
def build_editable(folder, config_settings=None, metadata_directory=None):
    name = "my_blas-2.0-py3-none-any.whl"
    info = "my_blas-2.0.dist-info"
    files = {
        "__editable__.my_blas.pth": os.path.abspath("src") + "\\n",
        info + "/METADATA": "Metadata-Version: 2.1\\nName: my-blas\\nVersion: 2.0\\n",
        info + "/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    files[info + "/RECORD"] = "".join(f"{each},,\\n" for each in [*files, info + "/RECORD"])
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        for each, content in files.items():
            wheel.writestr(each, content)
    return name
def build_wheel(*arguments):
    raise SystemExit(1)
"""


def test_in_a_zip(blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path) -> None:
    """Python imports from it, no linker reads it."""
    archive = tmp_path / "blas.zip"
    shutil.copyfile(wheels.fetch(LP64), archive)
    done = blaswheel("list", on=archive)
    inside = f"scipy-openblas32 {NEWEST}: libscipy_openblas.so is inside {archive}"
    assert f"blaswheel: {inside}, where no linker finds it\n" in done.stderr
    assert done.stdout == ""
    assert blaswheel.error("pc", on=archive)[0] == f"{inside}, where no linker finds it"
    assert blaswheel.error("pc", "scipy-openblas32", on=archive)[0].startswith(inside)
    # One that is installed is used all the same.
    site = copy(wheels.unpacked(ILP64), tmp_path / "site")
    assert fields(blaswheel("pc", on=[archive, site]).stdout)["interface"] == "ilp64"
    for broken in (b"", b"PK\x03\x04", b"no zip"):
        archive.write_bytes(broken)
        assert listed(blaswheel, on=archive) == []
    with zipfile.ZipFile(archive, "w") as other:
        other.writestr("module.py", "")
    assert blaswheel("list", "--json", on=archive).stderr == ""


def test_twice_on_the_path(blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path) -> None:
    """As Python does: the first of a name is the one that is there."""
    new = copy(wheels.unpacked(LP64), tmp_path / "new")
    old = copy(wheels.unpacked(f"scipy-openblas32=={OLDER}"), tmp_path / "old")
    for order, version in (([new, old], NEWEST), ([old, new], OLDER), ([new, new], NEWEST)):
        (one,) = listed(blaswheel, on=order)
        assert one["provider"] == {"name": "scipy-openblas32", "version": version}
        assert Path(str(one["path"])).is_relative_to(order[0])


def test_the_same_folder_by_two_names(blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path) -> None:
    site = copy(wheels.unpacked(LP64), tmp_path / "site")
    (tmp_path / "link").symlink_to(site)
    assert len(listed(blaswheel, on=[site, tmp_path / "link"])) == 1


def test_half_removed(blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path) -> None:
    """What is missing is told, and what is there is used."""
    site = copy(wheels.unpacked(LP64), tmp_path / "site")
    copy(wheels.unpacked(ILP64), site)
    (site / LIBRARY).unlink()
    done = blaswheel("list", "--root", site)
    assert "scipy-openblas64" in done.stdout
    assert "scipy-openblas32" not in done.stdout
    assert f"{site / LIBRARY}: No such file or directory" in done.stderr
    assert str(site / LIBRARY) in blaswheel.error("pc", "scipy-openblas32", "--root", site)[0]
    # Without its headers it can be linked; that there are none is said.
    shutil.rmtree(site / "scipy_openblas64/include")
    assert "headers         none" in blaswheel("show", "scipy-openblas64", "--root", site).stdout
    said = fields(blaswheel("pc", "--root", site).stdout)
    assert "-I" not in said["Cflags"]
    # With its metadata gone nobody knows that it is there.
    shutil.rmtree(next(site.glob("scipy_openblas64-*.dist-info")))
    assert blaswheel.error("pc", "scipy-openblas64", "--root", site)[0].startswith(
        "asked for scipy-openblas64"
    )


@pytest.mark.parametrize(
    "noted",
    [
        "{",
        "[]",
        '{"dir_info": {"editable": true}}',
        '{"dir_info": {"editable": true}, "url": 3}',
        '{"dir_info": {"editable": true}, "url": "file:///%00"}',
        '{"dir_info": {"editable": true}, "url": "file://[/x"}',
        '{"dir_info": {"editable": true}, "url": "file:///nowhere"}',
        '{"dir_info": {"editable": true}, "url": "https://example.org/x"}',
        "[" * 100_000,
    ],
)
def test_editable_from_nowhere(blaswheel: Blaswheel, tmp_path: Path, noted: str) -> None:
    info = "mine-1.0.dist-info/direct_url.json"
    site = distribution(tmp_path, "mine", "1.0", {"mine.py": b""}, record=f"mine.py,,\n{info},,\n")
    (site / info).write_text(noted, encoding="ascii")
    assert listed(blaswheel, "--root", site) == []


def test_editable_project_that_is_endless(blaswheel: Blaswheel, tmp_path: Path) -> None:
    """A link that leads back to the project is not followed."""
    info = "mine-1.0.dist-info/direct_url.json"
    site = distribution(tmp_path / "site", "mine", "1.0", {}, record=f"{info},,\n")
    project = tmp_path / "project"
    (project / "a" / "b").mkdir(parents=True)
    (project / "a" / "b" / "back").symlink_to(project)
    (site / info).write_text(
        json.dumps({"dir_info": {"editable": True}, "url": project.as_uri()}), encoding="ascii"
    )
    assert listed(blaswheel, "--root", site) == []
