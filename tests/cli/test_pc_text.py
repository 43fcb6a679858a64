"""Every field and variable of a ``.pc`` file, and what becomes of it when things move."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.building import build, flags, works
from tests.cli.sites import ILP64, LP64, NEWEST, Blaswheel, copy, fields, python_path
from tests.support import Venv, Wheels

pytestmark = pytest.mark.tool("cc", "pkg-config")

VARIABLES = [
    "libdir",
    "includedir",
    "symbol_prefix",
    "symbol_suffix",
    "interface",
    "complex_return",
    "lapack_version",
    "provider",
    "openblas_config",
    "prefix",
]
FIELDS = ["Name", "Description", "Version", "URL", "Libs", "Libs.private", "Cflags"]
REQUESTS = {
    "lp64": ("32", []),
    "ilp64": ("64", []),
    "ilp64-unsuffixed": ("64", ["--interface", "ilp64", "--symbol-suffix="]),
    "prefixed": ("32", ["--symbol-prefix", "my_"]),
    "native-lp64": ("32", ["--native"]),
    "native-ilp64": ("64", ["--native"]),
    "absolute": ("32", ["--runtime", "absolute"]),
    "origin": ("32", ["--runtime", "origin"]),
    "preload": ("32", ["--runtime", "preload"]),
}


@pytest.fixture(params=REQUESTS)
def request_(request: pytest.FixtureRequest, wheels: Wheels) -> tuple[Path, list[str], str]:
    bits, words = REQUESTS[request.param]
    return wheels.unpacked(LP64 if bits == "32" else ILP64), words, bits


def test_every_file_is_complete(
    blaswheel: Blaswheel, request_: tuple[Path, list[str], str]
) -> None:
    site, words, bits = request_
    text = blaswheel("pc", *words, on=site).stdout
    found = fields(text)
    assert set(VARIABLES) <= set(found)
    assert [name for name in found if name[0].isupper()] == FIELDS
    for name in ("Name", "Description", "Version", "URL", "Libs", "Cflags"):
        assert found[name], name
    assert found["Libs.private"] == ""
    assert "gfortran" not in text and "quadmath" not in text
    # No template left over.
    assert re.sub(r"\$\{\w+\}", "", text).count("{") == 0
    assert re.sub(r"\$\{\w+\}", "", text).count("}") == 0
    assert found["interface"] == {"32": "lp64", "64": "ilp64"}[bits]
    assert found["provider"] == (LP64 if bits == "32" else ILP64)
    assert found["prefix"] == str(site / f"scipy_openblas{bits}")
    assert found["libdir"] == str(site / f"scipy_openblas{bits}/lib")
    assert found["complex_return"] == "register"
    assert re.fullmatch(r"3\.\d+\.\d+", found["lapack_version"])
    assert NEWEST.startswith(found["Version"]) and ".dev" not in found["Version"]
    assert found["URL"].startswith("https://")
    assert found["Description"].startswith("OpenBLAS (")
    assert ("64-bit" if bits == "64" else "32-bit") in found["Description"]
    assert found["openblas_config"].startswith(f"USE_64BITINT={int(bits == '64')}")
    # Every path exists, and every variable that is used is there.
    for path in re.findall(r"(?:^|=|-[IL])(/\S*)", text, re.MULTILINE):
        assert Path(path).exists(), path
    for name in re.findall(r"\$\{(\w+)\}", text):
        assert Path(found[name]).is_dir(), name


def test_archive_stands_directly_before_the_library(blaswheel: Blaswheel, wheels: Wheels) -> None:
    libs = fields(blaswheel("pc", on=wheels.unpacked(LP64)).stdout)["Libs"]
    match = re.match(
        r"-L\$\{aliasdir\} -l(blaswheel_\w+) -L\$\{libdir\}( -Wl,\S+)? -lscipy_openblas( |$)", libs
    )
    assert match
    assert ".a" not in libs
    assert "-Wl,-rpath-link,${libdir}" in libs.split()
    assert "-Wl,-rpath," not in libs
    other = fields(blaswheel("pc", on=wheels.unpacked(ILP64)).stdout)["Libs"]
    assert match[1] not in other


def test_run_path_of_runtime_absolute(blaswheel: Blaswheel, wheels: Wheels) -> None:
    words = ["pc", "--runtime", "absolute"]
    libs = fields(blaswheel(*words, on=wheels.unpacked(LP64)).stdout)["Libs"]
    assert "-Wl,-rpath,${libdir}" in libs.split()


def test_a_library_with_plain_names_is_linked_directly(
    blaswheel: Blaswheel, wheels: Wheels
) -> None:
    text = blaswheel("pc", on=wheels.unpacked("scipy-openblas32==0.3.23.293.2")).stdout
    assert fields(text)["symbol_prefix"] == ""
    assert "-lblaswheel" not in text or "-lopenblas_python" in text


@pytest.mark.parametrize(
    ("spec", "words", "expected"),
    [
        (LP64, [], []),
        (
            ILP64,
            [],
            [
                "-DBLAS_SYMBOL_SUFFIX=64_",
                "-DHAVE_BLAS_ILP64",
                "-DOPENBLAS_ILP64_NAMING_SCHEME",
                "-DLAPACK_ILP64",
            ],
        ),
        (
            ILP64,
            ["--interface", "ilp64", "--symbol-suffix="],
            ["-DHAVE_BLAS_ILP64", "-DLAPACK_ILP64"],
        ),
        (LP64, ["--native"], ["-DBLAS_SYMBOL_PREFIX=scipy_"]),
        (
            ILP64,
            ["--native"],
            [
                "-DBLAS_SYMBOL_PREFIX=scipy_",
                "-DBLAS_SYMBOL_SUFFIX=64_",
                "-DHAVE_BLAS_ILP64",
                "-DOPENBLAS_ILP64_NAMING_SCHEME",
                "-DLAPACK_ILP64",
            ],
        ),
        ("scipy-openblas32==0.3.23.293.2", ["--native"], []),
        (
            "scipy-openblas64==0.3.23.293.2",
            ["--native"],
            [
                "-DBLAS_SYMBOL_SUFFIX=64_",
                "-DHAVE_BLAS_ILP64",
                "-DOPENBLAS_ILP64_NAMING_SCHEME",
                "-DLAPACK_ILP64",
            ],
        ),
    ],
)
def test_macros(
    blaswheel: Blaswheel, wheels: Wheels, spec: str, words: list[str], expected: list[str]
) -> None:
    site = wheels.unpacked(spec)
    found = fields(blaswheel("pc", *words, on=site).stdout)
    assert [word for word in found["Cflags"].split() if word.startswith("-D")] == expected
    if "--native" in words:
        package = spec.partition("==")[0].replace("-", "_")
        assert found["includedir"] == str(site / package / "include")
        assert "-lblaswheel" not in found["Libs"]


def test_name_is_that_of_the_file(blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path) -> None:
    site = wheels.unpacked(LP64)
    assert fields(blaswheel("pc", on=site).stdout)["Name"] == "openblas"
    assert fields(blaswheel("pc", on=wheels.unpacked(ILP64)).stdout)["Name"] == "openblas64"
    blaswheel("pc", "-o", tmp_path / "deep/er/mine.pc", on=site)
    assert fields((tmp_path / "deep/er/mine.pc").read_text())["Name"] == "mine"
    assert sorted(path.name for path in (tmp_path / "deep/er").iterdir()) == ["mine.pc"]


def test_output_is_what_stdout_would_be(
    blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path
) -> None:
    site, file = wheels.unpacked(LP64), tmp_path / "openblas.pc"
    printed = blaswheel("pc", on=site).stdout
    assert blaswheel("pc", "-o", file, on=site).stdout == ""
    assert file.read_text() == printed
    # An existing file is replaced, in one step.
    file.write_text("old\n")
    blaswheel("pc", "-o", "openblas.pc", on=site, cwd=tmp_path)
    assert file.read_text() == printed
    assert [path.name for path in tmp_path.iterdir()] == ["openblas.pc"]


def test_version_is_without_dev(blaswheel: Blaswheel, wheels: Wheels) -> None:
    """The wheel's own file says 0.3.34.dev where the distribution is 0.3.34.481.3."""
    for spec in (LP64, ILP64, "scipy-openblas32==0.3.27.44.6"):
        text = blaswheel("pc", on=wheels.unpacked(spec)).stdout
        version = fields(text)["Version"]
        assert re.fullmatch(r"0\.3\.\d+(\.\d+)*", version)
        assert spec.partition("==")[2].startswith(version)


def test_relocatable_needs_a_file(blaswheel: Blaswheel, wheels: Wheels) -> None:
    error, hint = blaswheel.error("pc", "--relocatable", on=wheels.unpacked(LP64), status=2)
    assert "--relocatable" in error and "-o FILE or --dir DIR" in hint


@pytest.mark.parametrize("words", [["-o", "{}/openblas.pc"], ["--dir", "{}"]])
def test_relocatable_survives_a_move(
    blaswheel: Blaswheel, site: Callable[..., Path], tmp_path: Path, words: list[str]
) -> None:
    """The provider's site-packages and the file move together; the cache is gone."""
    site(LP64, name="old/lib/site-packages")
    old, new, cache = tmp_path / "old", tmp_path / "new place", tmp_path / "cache"
    words = [word.format(old / "pc") for word in words]
    blaswheel(
        *("pc", "--relocatable", "--runtime", "absolute", *words),
        on=old / "lib/site-packages",
        environ={"BLASWHEEL_CACHE_DIR": str(cache)},
    )
    text = (old / "pc/openblas.pc").read_text()
    assert str(tmp_path) not in text
    assert fields(text)["prefix"].startswith("${pcfiledir}/..")
    shutil.rmtree(cache)
    plain = tmp_path / "moved"
    old.rename(plain)
    environ = {"PKG_CONFIG_PATH": str(plain / "pc")}
    found = flags(blaswheel.venv, "openblas", environ=environ)
    assert any(str(plain) in word for word in found)
    works(blaswheel.venv, build(blaswheel.venv, tmp_path / "first", found))
    plain.rename(new)
    environ = {"PKG_CONFIG_PATH": str(new / "pc")}
    found = flags(blaswheel.venv, "openblas", environ=environ)
    works(blaswheel.venv, build(blaswheel.venv, tmp_path / "second", found))


def test_a_moved_venv(
    blaswheel: Blaswheel, venv: Callable[..., Venv], wheels: Wheels, tmp_path: Path
) -> None:
    old = venv("old")
    copy(wheels.unpacked(LP64), old.site_packages)
    blaswheel(
        *("pc", "--relocatable", "--runtime", "absolute", "--dir", old.path / "share/pkgconfig"),
        "--root",
        old.path,
    )
    new = tmp_path / "new"
    old.path.rename(new)
    environ = {"PKG_CONFIG_PATH": str(new / "share/pkgconfig")}
    for name in ("openblas", "blas", "cblas", "lapack", "lapacke"):
        found = flags(blaswheel.venv, name, environ=environ)
        assert not any("old" in word for word in found)
    works(blaswheel.venv, build(blaswheel.venv, tmp_path / "work", found))


@pytest.mark.parametrize("words", [["-o", "{}/openblas.pc"], ["--dir", "{}"]])
@pytest.mark.parametrize("relocatable", [False, True])
def test_define_prefix(
    blaswheel: Blaswheel,
    site: Callable[..., Path],
    tmp_path: Path,
    words: list[str],
    relocatable: bool,
) -> None:
    """pkgconf rewrites the prefix to where a file in lib/pkgconfig is: that changes nothing."""
    folder = tmp_path / "tree/lib/pkgconfig"
    words = [word.format(folder) for word in words]
    if relocatable:
        words.append("--relocatable")
    blaswheel("pc", *words, on=site(LP64))
    environ = {"PKG_CONFIG_PATH": str(folder)}
    usual = flags(blaswheel.venv, "openblas", environ=environ)
    defined = ["--define-prefix", "--cflags", "--libs"]
    assert flags(blaswheel.venv, "openblas", *defined, environ=environ) == usual
    for name in ("libdir", "includedir"):
        question = [f"--variable={name}"]
        usual = flags(blaswheel.venv, "openblas", *question, environ=environ)
        assert Path(usual[0]).is_dir()
        question.insert(0, "--define-prefix")
        assert flags(blaswheel.venv, "openblas", *question, environ=environ) == usual


def test_sysroot_that_all_is_inside_of(
    blaswheel: Blaswheel, site: Callable[..., Path], tmp_path: Path
) -> None:
    sysroot = tmp_path / "sysroot"
    folder = site(LP64, name="sysroot/usr/lib/site-packages")
    files = sysroot / "usr/share/pkgconfig"
    environ = {"PKG_CONFIG_SYSROOT_DIR": str(sysroot)}
    for extra in ([], ["--relocatable"], ["--native"]):
        blaswheel("pc", *extra, "--dir", files, on=folder, environ=environ)
        name = "scipy-openblas" if extra == ["--native"] else "openblas"
        found = flags(blaswheel.venv, name, environ={**environ, "PKG_CONFIG_PATH": str(files)})
        paths = [word[2:] for word in found if word[:2] in ("-I", "-L")]
        assert paths
        for path in paths:
            assert path.startswith(str(sysroot)) and Path(path).is_dir(), path
            assert path.count(str(sysroot)) == 1
        if extra != ["--native"]:
            program = build(blaswheel.venv, tmp_path / "work", found)
            library = {"LD_LIBRARY_PATH": str(folder / "scipy_openblas32/lib")}
            works(blaswheel.venv, program, library)


@pytest.mark.parametrize("words", [[], ["-o", "{}/x/openblas.pc"], ["--dir", "{}/x"]])
def test_sysroot_that_something_is_outside_of(
    blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path, words: list[str]
) -> None:
    sysroot = tmp_path / "sysroot"
    sysroot.mkdir()
    words = [word.format(tmp_path) for word in words]
    environ = {"PKG_CONFIG_SYSROOT_DIR": str(sysroot)}
    error, hint = blaswheel.error("pc", *words, on=wheels.unpacked(LP64), environ=environ)
    assert str(sysroot) in error and "outside" in error
    assert "--dir" in hint
    assert not (tmp_path / "x/openblas.pc").exists()


def test_sysroot_that_is_the_root_of_all(
    blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path
) -> None:
    site = wheels.unpacked(LP64)
    text = blaswheel("pc", on=site, environ={"PKG_CONFIG_SYSROOT_DIR": "/"}).stdout
    assert text == blaswheel("pc", on=site).stdout


def test_check_link_links(blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path) -> None:
    site = wheels.unpacked(LP64)
    for words in ([], ["--native"]):
        assert "Libs: -L" in blaswheel("pc", "--check-link", *words, on=site).stdout
    environ = {"CC": "false"}
    for output in (["-o", tmp_path / "x/openblas.pc"], ["--dir", tmp_path / "x"], []):
        error, _ = blaswheel.error("pc", "--check-link", *output, on=site, environ=environ)
        assert "--check-link" in error
        assert not (tmp_path / "x/openblas.pc").exists()
    error, hint = blaswheel.error("pc", "--check-link", on=site, environ={"CC": "/no/cc -g"})
    assert "/no/cc" in error and "compiler" in hint


def test_two_providers_on_one_command_line(
    blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path
) -> None:
    on = [wheels.unpacked(LP64), wheels.unpacked(ILP64)]
    blaswheel("pc", "--dir", tmp_path / "pc", on=on)
    environ = {"PKG_CONFIG_PATH": str(tmp_path / "pc"), **python_path(on)}
    done = blaswheel.venv.run("pkg-config", "--libs", "openblas", "openblas64", environ=environ)
    names = [word for word in done.stdout.split() if word.startswith("-l")]
    assert len(names) == len(set(names)) == 4
