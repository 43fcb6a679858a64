"""Mesons of several versions, each in an environment of its own in the cache of the tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.build_wheel import cache, lock
from tests.support import Venv

VERSIONS = ("1.2.3", "1.5.2", "1.12.1")


def meson(version: str) -> Path:
    """Return the program of a Meson, installed once with pip."""
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    folder = cache() / "meson" / f"{version}-python{python}"
    program = folder / "bin" / "meson"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with lock(folder.with_name(f"{folder.name}.lock")):
        if not (folder / "complete").exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
            command = [folder / "bin" / "python", "-m", "pip", "install", "--quiet"]
            done = subprocess.run(
                [*command, f"meson=={version}", "ninja"],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            if done.returncode:
                pytest.fail(f"can't install Meson {version}: {done.stdout}", pytrace=False)
            (folder / "complete").touch()
    return program


class Mesoner:
    """Someone who runs a Meson in a build environment, as a front end does.

    The environment's packages are on the search path of the Python that runs Meson, as with pip's
    build isolation.
    """

    def __init__(self, venv: Venv, version: str = VERSIONS[-1]) -> None:
        self.venv = venv
        self.program = meson(version)

    def environ(self) -> dict[str, str]:
        path = self.venv.environment()["PATH"]
        return {
            "PYTHONPATH": str(self.venv.site_packages),
            "PATH": f"{self.program.parent}:{path}",
        }

    def __call__(
        self,
        *words: str | Path,
        before: tuple[str, ...] = (),
        check: bool = True,
        environ: dict[str, str] | None = None,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        changes = {**self.environ(), **(environ or {})}
        return self.venv.run(*before, self.program, *words, check=check, environ=changes, cwd=cwd)


def write_project(folder: Path, *lines: str, languages: str = "'c'") -> Path:
    """Write a project that consists of a main meson.build."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "\n".join([f"project('consumer', {languages})", *lines, ""])
    (folder / "meson.build").write_text(text, encoding="utf-8")
    return folder
