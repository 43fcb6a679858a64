"""Which library is chosen, what is said of the choice, and which wishes are errors."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.sites import (
    ILP64,
    LP64,
    NEWEST,
    NUMPY,
    OLDER,
    Blaswheel,
    copy,
    distribution,
    fields,
)
from tests.support import Wheels

PLAIN = "scipy-openblas32==0.3.23.293.2"


@pytest.fixture(scope="module")
def lp64(wheels: Wheels) -> Path:
    return wheels.unpacked(LP64)


@pytest.fixture(scope="module")
def ilp64(wheels: Wheels) -> Path:
    return wheels.unpacked(ILP64)


@pytest.fixture(scope="module")
def other_openblas(wheels: Wheels, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An OpenBLAS of another distribution, whose name sorts before ``scipy-openblas32``."""
    package = wheels.unpacked(PLAIN) / "scipy_openblas32"
    files: dict[str, Path | bytes] = {
        f"acme/{path.relative_to(package)}": path
        for folder in ("include", "lib")
        for path in (package / folder).iterdir()
        if path.is_file()
    }
    return distribution(tmp_path_factory.mktemp("acme") / "site", "acme_openblas", "1.0", files)


def provider(blaswheel: Blaswheel, *arguments: str | Path, **how: Any) -> tuple[str, str]:
    """Return who ``pc`` chose and what it said."""
    done = blaswheel("pc", "--no-verify", *arguments, **how)
    return fields(done.stdout)["provider"], done.stderr


def test_lp64_is_chosen_where_both_are(blaswheel: Blaswheel, lp64: Path, ilp64: Path) -> None:
    for on in ([lp64, ilp64], [ilp64, lp64]):
        chosen, said = provider(blaswheel, on=on)
        assert chosen == LP64
        assert "ILP64 (64-bit" not in said


def test_ilp64_is_chosen_where_it_is_all_there_is(blaswheel: Blaswheel, ilp64: Path) -> None:
    chosen, said = provider(blaswheel, on=ilp64)
    assert chosen == ILP64
    assert "ILP64 (64-bit integers) only" in said
    assert "-Duse-ilp64=true" in said
    _, said = provider(blaswheel, "--interface", "ilp64", on=ilp64)
    assert "only" not in said


def test_order_is_the_same_wherever_they_lie(
    blaswheel: Blaswheel, lp64: Path, other_openblas: Path
) -> None:
    for on in ([lp64, other_openblas], [other_openblas, lp64]):
        chosen, said = provider(blaswheel, on=on)
        assert chosen == LP64
        assert f"using scipy-openblas32 {NEWEST}; also here: acme-openblas 1.0" in said
    chosen, said = provider(blaswheel, on=other_openblas)
    assert (chosen, said) == ("acme-openblas==1.0", "")


def test_vendored_libraries_are_never_chosen(
    blaswheel: Blaswheel, wheels: Wheels, ilp64: Path
) -> None:
    numpy = wheels.unpacked(NUMPY)
    chosen, said = provider(blaswheel, on=[numpy, ilp64])
    assert chosen == ILP64
    assert "numpy " not in said
    error, _ = blaswheel.error("pc", "--provider", "numpy", on=[numpy, ilp64])
    assert "vendored" in error


@pytest.mark.parametrize(
    "words",
    [
        ["--provider", "scipy-openblas64"],
        ["--provider", "SciPy_OpenBLAS64"],
        ["--provider", f"scipy-openblas64=={NEWEST}"],
        ["scipy-openblas64"],
        ["scipy_openblas64"],
        ["--interface", "ilp64"],
        ["openblas", "--interface", "ilp64"],
        ["--symbol-suffix", "64_"],
        ["--symbol-suffix", "_64"],
        ["{path}"],
        ["{relative}"],
    ],
)
def test_every_way_to_name_one(
    blaswheel: Blaswheel, lp64: Path, ilp64: Path, words: list[str]
) -> None:
    path = ilp64 / "scipy_openblas64/lib/libscipy_openblas64_.so"
    relative = os.path.relpath(path, ilp64)
    words = [word.format(path=path, relative=relative) for word in words]
    chosen, said = provider(blaswheel, *words, on=[lp64, ilp64], cwd=ilp64)
    assert chosen == ILP64
    # One who names it wants no list of the others.
    assert "also here" not in said


def test_a_path_through_a_link_is_the_provider_s_library(
    blaswheel: Blaswheel, lp64: Path, ilp64: Path, tmp_path: Path
) -> None:
    link = tmp_path / "liblinked.so"
    link.symlink_to(lp64 / "scipy_openblas32/lib/libscipy_openblas.so")
    assert provider(blaswheel, link, on=[lp64, ilp64])[0] == LP64


def test_a_path_outside_of_every_distribution(
    blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path
) -> None:
    package = wheels.unpacked(PLAIN) / "scipy_openblas32"
    copy(package / "lib", tmp_path / "prefix/lib")
    copy(package / "include", tmp_path / "prefix/include")
    library = tmp_path / "prefix/lib/libopenblas_python.so"
    text = blaswheel("pc", library, "--native").stdout
    assert fields(text)["provider"] == ""
    assert fields(text)["includedir"] == str(tmp_path / "prefix/include")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--provider", "mkl"], "asked for mkl, which is not in this environment"),
        (["--provider", f"scipy-openblas32=={OLDER}"], f"version {NEWEST} is installed"),
        (["scipy-openblas32==1"], f"version {NEWEST} is installed"),
        (["blis"], "asked for blis"),
        (["./nowhere.so"], "./nowhere.so: No such file or directory"),
        (["--interface", "ilp64"], f"scipy-openblas32 {NEWEST} is LP64, not ILP64"),
        (["--symbol-suffix", "64_"], f"scipy-openblas32 {NEWEST} is LP64, not ILP64"),
        (["--interface", "ilp64", "scipy-openblas32"], "is LP64, not ILP64"),
        (["--provider", "scipy-openblas32", "scipy-openblas64"], "scipy-openblas64"),
    ],
)
def test_what_is_not_there_is_an_error(
    blaswheel: Blaswheel, lp64: Path, words: list[str], expected: str
) -> None:
    error, _ = blaswheel.error("pc", *words, on=lp64)
    assert expected in error


@pytest.mark.parametrize(
    ("wanted", "install"),
    [("lp64", "pip install scipy-openblas32"), ("ilp64", "pip install scipy-openblas64")],
)
def test_an_empty_environment_says_what_to_install(
    blaswheel: Blaswheel, wanted: str, install: str
) -> None:
    error, hint = blaswheel.error("pc", "--interface", wanted)
    assert "no BLAS library" in error
    assert install in hint


def test_implementations_are_not_names_to_install(blaswheel: Blaswheel) -> None:
    assert "pip install scipy-openblas32" in blaswheel.error("pc", "openblas")[1]
    assert "pip install mkl-devel" in blaswheel.error("pc", "mkl")[1]


@pytest.mark.parametrize("suffix", ["64_", "_64", "_64_", "x64"])
def test_lp64_under_a_suffix_that_says_64_is_a_contradiction(
    blaswheel: Blaswheel, lp64: Path, suffix: str
) -> None:
    words = ["--interface", "lp64", "--symbol-suffix", suffix]
    error, _ = blaswheel.error("pc", *words, on=lp64, status=2)
    assert suffix in error and "lp64" in error


def test_unsuffixed_ilp64_must_be_asked_for(blaswheel: Blaswheel, lp64: Path, ilp64: Path) -> None:
    error, hint = blaswheel.error("pc", "--symbol-suffix=", on=ilp64)
    assert "ILP64" in error and "--interface ilp64" in hint
    error, _ = blaswheel.error("pc", on=ilp64, environ={"BLASWHEEL_SYMBOL_SUFFIX": "_"})
    assert "ILP64" in error
    words = ["--interface", "ilp64", "--symbol-suffix="]
    chosen, _ = provider(blaswheel, *words, on=[lp64, ilp64])
    assert chosen == ILP64
    # Where LP64 is there, an empty suffix says nothing of the interface.
    assert provider(blaswheel, "--symbol-suffix=", on=[ilp64, lp64])[0] == LP64


@pytest.mark.parametrize("suffix", ["a b", "-", "ü", "'", "$(x)"])
def test_a_suffix_that_is_no_part_of_a_name(blaswheel: Blaswheel, lp64: Path, suffix: str) -> None:
    error, _ = blaswheel.error("pc", f"--symbol-suffix={suffix}", on=lp64, status=2)
    assert "--symbol-suffix" in error


def test_provider_variable_is_the_last_word(blaswheel: Blaswheel, lp64: Path, ilp64: Path) -> None:
    environ = {"BLASWHEEL_PROVIDER": "scipy-openblas64"}
    on = [lp64, ilp64]
    assert provider(blaswheel, on=on, environ=environ)[0] == ILP64
    exact = {"BLASWHEEL_PROVIDER": ILP64}
    assert provider(blaswheel, on=on, environ=exact)[0] == ILP64
    # The command line may say the same in other words, or more exactly.
    library = ilp64 / "scipy_openblas64/lib/libscipy_openblas64_.so"
    for words in (
        ["--provider", "scipy_openblas64"],
        ["--provider", ILP64],
        ["scipy-openblas64"],
        ["openblas"],
        [library],
    ):
        assert provider(blaswheel, *words, on=on, environ=environ)[0] == ILP64
    assert provider(blaswheel, "--provider", ILP64, on=on, environ=exact)[0] == ILP64


@pytest.mark.parametrize(
    ("forced", "words", "expected"),
    [
        ("scipy-openblas64", ["--provider", "scipy-openblas32"], ["64", "scipy-openblas32"]),
        ("scipy-openblas64", ["scipy-openblas32"], ["64", "scipy-openblas32"]),
        ("scipy-openblas64", ["mkl"], ["64", "mkl"]),
        ("scipy-openblas64", ["{lp64}"], ["64", "libscipy_openblas.so"]),
        (
            "scipy-openblas64",
            ["--provider", "scipy-openblas64", "scipy-openblas32"],
            ["scipy-openblas64", "scipy-openblas32"],
        ),
        ("scipy-openblas64", ["--interface", "lp64"], ["scipy-openblas64", "ILP64, not LP64"]),
        (ILP64, ["--provider", f"scipy-openblas64=={OLDER}"], [NEWEST, OLDER]),
        (f"scipy-openblas64=={OLDER}", [], [OLDER, NEWEST]),
        ("scipy-openblas64", ["--provider", f"scipy-openblas64=={OLDER}"], [OLDER, NEWEST]),
        ("mkl", [], ["mkl", "not in this environment"]),
        ("mkl", ["--provider", "scipy-openblas32"], ["mkl", "scipy-openblas32"]),
        ("mkl", ["scipy-openblas32"], ["mkl", "scipy-openblas32"]),
    ],
)
def test_provider_variable_that_cannot_be_followed(
    blaswheel: Blaswheel,
    lp64: Path,
    ilp64: Path,
    forced: str,
    words: list[str],
    expected: list[str],
) -> None:
    library = lp64 / "scipy_openblas32/lib/libscipy_openblas.so"
    words = [word.format(lp64=library) for word in words]
    environ = {"BLASWHEEL_PROVIDER": forced}
    for command in (["pc"], ["exec"]):
        rest = ["--", "true"] if command == ["exec"] else []
        error, _ = blaswheel.error(*command, *words, *rest, on=[lp64, ilp64], environ=environ)
        assert "BLASWHEEL_PROVIDER" in error
        for text in expected:
            assert text in error


def test_interface_variable(blaswheel: Blaswheel, lp64: Path, ilp64: Path) -> None:
    on, environ = [lp64, ilp64], {"BLASWHEEL_INTERFACE": "ilp64"}
    assert provider(blaswheel, on=on, environ=environ)[0] == ILP64
    # The command line is stronger.
    assert provider(blaswheel, "--interface", "lp64", on=on, environ=environ)[0] == LP64
    suffix = {"BLASWHEEL_SYMBOL_SUFFIX": "64_"}
    assert provider(blaswheel, on=on, environ=suffix)[0] == ILP64
    narrow = {"BLASWHEEL_INTERFACE": "lp64"}
    assert provider(blaswheel, "--symbol-suffix", "64_", on=on, environ=narrow)[0] == ILP64
    error, _ = blaswheel.error("pc", on=on, environ={**narrow, **suffix}, status=2)
    assert "64_" in error
    error, hint = blaswheel.error("pc", on=on, environ={"BLASWHEEL_INTERFACE": "int"}, status=2)
    assert "BLASWHEEL_INTERFACE" in error and "lp64 or ilp64" in hint
    error, _ = blaswheel.error("pc", on=on, environ={"BLASWHEEL_RUNTIME": "magic"}, status=2)
    assert "BLASWHEEL_RUNTIME" in error


def test_naming_variables(blaswheel: Blaswheel, lp64: Path) -> None:
    environ = {"BLASWHEEL_SYMBOL_PREFIX": "my_", "BLASWHEEL_SYMBOL_SUFFIX": "_x"}
    found = fields(blaswheel("pc", on=lp64, environ=environ).stdout)
    assert (found["symbol_prefix"], found["symbol_suffix"]) == ("my_", "_x")
    words = ["--symbol-prefix", "your_", "--symbol-suffix="]
    found = fields(blaswheel("pc", *words, on=lp64, environ=environ).stdout)
    assert (found["symbol_prefix"], found["symbol_suffix"]) == ("your_", "")
    # --native on the command line is stronger than variables, and contradicts other options.
    found = fields(blaswheel("pc", "--native", on=lp64, environ=environ).stdout)
    assert (found["symbol_prefix"], found["symbol_suffix"]) == ("scipy_", "")
    error, _ = blaswheel.error("pc", "--native", "--symbol-prefix", "x", on=lp64, status=2)
    assert "--native" in error


def test_a_damaged_library_is_not_passed_over_in_silence(
    blaswheel: Blaswheel, site: Callable[..., Path], ilp64: Path
) -> None:
    folder = site(LP64)
    library = folder / "scipy_openblas32/lib/libscipy_openblas.so"
    library.unlink()
    library.write_bytes(b"\x7fELF")
    chosen, said = provider(blaswheel, on=[folder, ilp64])
    assert chosen == ILP64
    assert str(library) in said
    error, _ = blaswheel.error("pc", "--interface", "lp64", on=[folder, ilp64])
    assert str(library) in error
    error, _ = blaswheel.error("pc", "scipy-openblas32", on=[folder, ilp64])
    assert str(library) in error


@pytest.mark.parametrize("command", ["pc", "show", "env"])
def test_the_same_on_every_run(
    blaswheel: Blaswheel, lp64: Path, ilp64: Path, other_openblas: Path, command: str
) -> None:
    seen = set()
    for seed in ("0", "1", "2"):
        environ = {"PYTHONHASHSEED": seed}
        done = blaswheel(command, on=[ilp64, other_openblas, lp64], environ=environ)
        seen.add((done.stdout, done.stderr))
    assert len(seen) == 1


def test_what_calls_show_is_what_the_file_says(blaswheel: Blaswheel, ilp64: Path) -> None:
    found = fields(blaswheel("pc", on=ilp64).stdout)
    assert found["complex_return"] == "register"
    assert found["lapack_version"].startswith("3.")
    one = json.loads(blaswheel("show", "--json", on=ilp64).stdout)
    assert one["complex_return"] == "register"


def test_a_prefix_of_links(blaswheel: Blaswheel, lp64: Path, tmp_path: Path) -> None:
    """As Nix, Spack and conda make them: what is in it is in it, wherever the links lead."""
    package = lp64 / "scipy_openblas32"
    (tmp_path / "view" / "lib").mkdir(parents=True)
    (tmp_path / "view" / "include").symlink_to(package / "include")
    for library in (package / "lib").glob("*.so"):
        (tmp_path / "view" / "lib" / library.name).symlink_to(library)
    for name in (tmp_path / "view", tmp_path / "view" / "lib" / "libscipy_openblas.so"):
        found = fields(blaswheel("pc", "--no-verify", name).stdout)
        assert found["Description"].startswith("OpenBLAS (LP64")
