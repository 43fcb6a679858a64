"""LP64 and ILP64 in one process: extension modules by themselves, one program by isolation.

A ``ddot`` would not tell: the libraries clash in names that both forgot to rename, which ``dgeqrf``
and ``dgesdd`` call.
"""

from __future__ import annotations

import itertools
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.link.compiling import LINKERS, NEWEST, PROGRAMS, marked, run, with_flags
from tests.support import Venv

pytestmark = pytest.mark.tool("gcc", "pkg-config", "make")
SPECS = (f"scipy-openblas32=={NEWEST}", f"scipy-openblas64=={NEWEST}")
ORDERS = list(itertools.permutations(("openblas", "openblas64")))
MACROS = {"lp64": [], "ilp64": ["-DNAMES_64"]}
CLASH = "linked into one program, one crashes the other; --isolate prevents it"
RIGHT = "lp64 right, ilp64 right\n"


class Both(NamedTuple):
    """An environment with both providers, sets of ``.pc`` files, and the program's objects."""

    venv: Venv
    plain: Path
    isolated: Path
    #: what ``pc`` said on stderr
    words: dict[str, str]
    objects: list[Path]


@pytest.fixture(scope="module")
def both(shared_venv: Callable[..., Venv], tmp_path_factory: pytest.TempPathFactory) -> Both:
    venv = shared_venv(*SPECS)
    folder = tmp_path_factory.mktemp("both")
    words = {}
    for name, options in (("plain", []), ("isolated", ["--isolate"])):
        command = [venv.bin / "blaswheel", "pc", "--dir", folder / name, "--runtime", "absolute"]
        words[name] = run([*command, *options]).stderr
    objects = [folder / f"{name}.o" for name in ("main", *MACROS)]
    for path, macros in zip(objects, (["-DMAIN"], *MACROS.values()), strict=True):
        strict = ["-O1", "-Wall", "-Wextra", "-Werror"]
        run(["gcc", *strict, *macros, "-c", PROGRAMS / "factor.c", "-o", path])
    return Both(venv, folder / "plain", folder / "isolated", words, objects)


@pytest.mark.parametrize("order", list(itertools.permutations(MACROS)), ids=" then ".join)
def test_two_modules(both: Both, tmp_path: Path, order: tuple[str, str]) -> None:
    """Python loads modules into scopes of their own: both are right, whichever comes first."""
    for name, macros in MACROS.items():
        command = ["gcc", "-O1", "-fPIC", "-shared", f"-I{sysconfig.get_path('include')}"]
        command += [*macros, f"-DMODULE={name}", PROGRAMS / "factor.c", "-lm"]
        package = "openblas64" if name == "ilp64" else "openblas"
        with_flags(both.plain, "--libs", *command, "-o", tmp_path / f"{name}.so", names=package)
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        f"import {order[0]} as first\nimport {order[1]} as second\n"
        "print(first.factor(), second.factor(), first.factor())"
    )
    assert run([both.venv.python, "-I", "-c", script]).stdout == "right right right\n"


def link(both: Both, pc: Path, order: tuple[str, str], output: Path, linker: str = "bfd") -> Path:
    command = ["gcc", f"-fuse-ld={linker}", *both.objects, "-lm", "-o", output]
    with_flags(pc, "--libs", *command, names=" ".join(order))
    return output


@pytest.mark.parametrize("linker", marked(LINKERS))
@pytest.mark.parametrize("order", ORDERS, ids=" then ".join)
def test_one_program_isolated(
    both: Both, tmp_path: Path, order: tuple[str, str], linker: str
) -> None:
    program = link(both, both.isolated, order, tmp_path / "program", linker)
    assert run([program]).stdout == RIGHT
    assert "crashes" not in both.words["isolated"]


def test_one_program_clashes(both: Both, tmp_path: Path) -> None:
    """Without isolation it depends on the order of linking, and ``pc`` says so."""
    assert CLASH in both.words["plain"]
    single = run([both.venv.bin / "blaswheel", "pc", "--interface", "lp64"])
    assert CLASH in single.stderr
    outcomes = []
    for number, order in enumerate(ORDERS):
        program = link(both, both.plain, order, tmp_path / str(number))
        done = run([program], check=False)
        outcomes.append((done.returncode, done.stdout))
    assert any(outcome != (0, RIGHT) for outcome in outcomes), outcomes
