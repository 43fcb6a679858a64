"""Building the programs of ``programs/`` with the flags of a ``.pc`` file."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import Venv, Wheels, clean_environment

PROGRAMS = Path(__file__).with_name("programs")
NEWEST = "0.3.34.481.3"
OLDER = ("0.3.23.293.2", "0.3.27.44.6", "0.3.31.22.1")
LINKERS = {"bfd": "ld.bfd", "gold": "ld.gold", "lld": "ld.lld", "mold": "mold"}


class Case(NamedTuple):
    """What a consumer asks for: the provider, options of ``pc``, and what its sources are told."""

    provider: str
    bits: int
    options: tuple[str, ...] = ()
    defines: tuple[str, ...] = ()

    @property
    def macros(self) -> list[str]:
        return [f"-DINTEGER_BITS={self.bits}", *self.defines]

    def spec(self, version: str = NEWEST) -> str:
        return f"{self.provider}=={version}"


CASES = {
    "lp64": Case("scipy-openblas32", 32),
    "ilp64": Case("scipy-openblas64", 64, (), ("-DNAMES_64",)),
    "ilp64-plain": Case("scipy-openblas64", 64, ("--interface", "ilp64", "--symbol-suffix=")),
}


class Language(NamedTuple):
    """How a program is compiled and linked: commands of GCC and of Clang."""

    source: str
    compile: dict[str, list[str]]
    link: dict[str, list[str]]
    after: dict[str, list[str]]


_STRICT = ["-O1", "-Wall", "-Wextra", "-Werror", "-c"]
LANGUAGES = {
    "c": Language(
        "calls.c",
        {"gcc": ["gcc", *_STRICT], "clang": ["clang", *_STRICT]},
        {"gcc": ["gcc"], "clang": ["clang"]},
        {},
    ),
    "cpp": Language(
        "calls.cpp",
        {"gcc": ["g++", *_STRICT], "clang": ["clang++", *_STRICT]},
        {"gcc": ["g++"], "clang": ["clang++"]},
        {},
    ),
    # Clang links what GNU Fortran compiled.
    "fortran": Language(
        "calls.F90",
        {name: ["gfortran", "-O1", "-Wall", "-Werror", "-c"] for name in ("gcc", "clang")},
        {"gcc": ["gfortran"], "clang": ["clang"]},
        {"clang": ["-lgfortran", "-lm"]},
    ),
}


class Blaswheel:
    """blaswheel in a virtual environment with one provider, or looking into an unpacked wheel."""

    def __init__(self, command: Sequence[str], options: Sequence[str], folder: Path) -> None:
        self._command = [str(word) for word in command]
        self._options = [str(word) for word in options]
        self._folder = folder
        self._written: dict[tuple[str, ...], Path] = {}

    def run(
        self, name: str, *arguments: str | Path, check: bool = True, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of blaswheel."""
        words = [*self._command, name, *self._options, *map(str, arguments)]
        return run(words, check=check, **environ)

    def pc(self, *options: str) -> Path:
        """Return a folder with an ``openblas.pc`` that ``pc`` printed, once per options."""
        if options not in self._written:
            folder = self._folder / str(len(self._written))
            folder.mkdir(parents=True)
            (folder / "openblas.pc").write_text(self.run("pc", *options).stdout, encoding="utf-8")
            self._written[options] = folder
        return self._written[options]


def run(
    words: Sequence[str | Path], *, check: bool = True, cwd: Path | None = None, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in a clean environment; with ``check``, failure fails the test."""
    done = subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        check=False,
        cwd=cwd,
        encoding="utf-8",
        env={**clean_environment(), "OPENBLAS_NUM_THREADS": "1", **environ},
        errors="surrogateescape",
        timeout=250,
    )
    if check and done.returncode:
        shown = shlex.join(str(word) for word in words)
        raise AssertionError(f"{shown}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def with_flags(
    pc: Path, question: str, *command: str | Path, names: str = "openblas", check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run ``command $(pkg-config question names)``, as people type it."""
    script = f'exec "$@" $(pkg-config {question} {names})'
    return run(["sh", "-c", script, "sh", *command], check=check, PKG_CONFIG_PATH=str(pc))


def run_path(file: Path) -> list[str]:
    """Return the entries of a file's RUNPATH."""
    output = run(["readelf", "-dW", file]).stdout
    found = re.search(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", output)
    return found[1].split(":") if found else []


class Workshop:
    """Makes each ``.pc`` file and each object once per test run."""

    def __init__(self, shared_venv: Callable[..., Venv], wheels: Wheels, folder: Path) -> None:
        self._shared_venv = shared_venv
        self._wheels = wheels
        self._folder = folder
        self._blaswheels: dict[str, Blaswheel] = {}
        self._objects: dict[tuple[str, ...], Path] = {}

    def blaswheel(self, spec: str) -> Blaswheel:
        """Return blaswheel with the newest provider in an environment, or an older one unpacked."""
        if spec not in self._blaswheels:
            folder = self._folder / spec
            if spec.endswith(f"=={NEWEST}"):
                command, options = [str(self._shared_venv(spec).bin / "blaswheel")], []
            else:
                command = [sys.executable, "-m", "blaswheel"]
                options = ["--root", str(self._wheels.unpacked(spec))]
            self._blaswheels[spec] = Blaswheel(command, options, folder)
        return self._blaswheels[spec]

    def object(self, spec: str, case: Case, language: str, compiler: str) -> Path:
        """Return a program compiled with the flags for a case."""
        key = (spec, *case.options, language, compiler)
        if key not in self._objects:
            made = LANGUAGES[language]
            path = self._folder / f"{len(self._objects)}-{language}.o"
            command = [*made.compile[compiler], *case.macros, PROGRAMS / made.source, "-o", path]
            with_flags(self.blaswheel(spec).pc(*case.options), "--cflags", *command)
            self._objects[key] = path
        return self._objects[key]

    def link(
        self,
        spec: str,
        case: Case,
        language: str,
        compiler: str,
        linker: str,
        output: Path,
        *options: str,
    ) -> Path:
        """Link a program with the flags for a case and further options of ``pc``."""
        made = LANGUAGES[language]
        compiled = self.object(spec, case, language, compiler)
        command = [*made.link[compiler], f"-fuse-ld={linker}", "-o", output, compiled]
        after = " ".join(made.after.get(compiler, []))
        script = f'exec "$@" $(pkg-config --libs openblas) {after}'
        pc = self.blaswheel(spec).pc(*case.options, *options)
        run(["sh", "-c", script, "sh", *command], PKG_CONFIG_PATH=str(pc))
        return output


def marked(values: dict[str, str]) -> list[object]:
    """Return test parameters that need a tool each."""
    return [pytest.param(name, marks=pytest.mark.tool(tool)) for name, tool in values.items()]
