"""Why a build here finds its BLAS, or does not: which pkg-config it asks, and what that reads."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from blaswheel import _environment, _pkgconfig, _project
from blaswheel._doctor import Finding
from blaswheel._errors import BlaswheelError
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from blaswheel._library import Library

#: What consumers ask for, in NumPy's order and then by API.
NAMES = ("scipy-openblas", "openblas", "openblas64", "blas", "cblas", "lapack", "lapacke")


class Answer(Record):
    """What the build's pkg-config says of a name.

    Attributes
    ----------
    name : str
    version : str, optional
        None if it is not found.
    path : str, optional
        The file.
    """

    name: str
    version: str | None
    path: str | None

    @property
    def text(self) -> str:
        """What Meson would print."""
        if self.version is None:
            return f"Run-time dependency {self.name} found: NO (tried pkg-config)"
        return f"Run-time dependency {self.name} found: YES {self.version}"


class Build(Record):
    """What was found out about builds here.

    Attributes
    ----------
    pkg_config : str, optional
        The program that a build would run.
    works : bool
        Whether it reads a file on ``PKG_CONFIG_PATH``.
    answers : tuple of Answer
    libraries : tuple of str
        The BLAS libraries of the environment that can be linked.
    findings : tuple of Finding
    """

    pkg_config: str | None
    works: bool
    answers: tuple[Answer, ...]
    libraries: tuple[str, ...]
    findings: tuple[Finding, ...]


def examine(environ: Mapping[str, str], python: str | None = None) -> Build:
    """Examine this environment, or that of another interpreter.

    Raises
    ------
    BlaswheelError
        If the interpreter can't be asked.
    """
    environment = _environment.survey(None, python)
    libraries = [one for one in environment.libraries if one.linkable]
    first = environ.get("PKG_CONFIG") or "pkg-config"
    program = shutil.which(first, path=environ.get("PATH"))
    works = program is not None and _pkgconfig.passes(program, environ)
    answers = [_ask(program, name, environ) for name in NAMES] if program and works else []
    found = _findings(program, works, answers, libraries, environ)
    return Build(
        pkg_config=program,
        works=works,
        answers=tuple(answers),
        libraries=tuple(one.title for one in libraries),
        findings=tuple(found),
    )


def of_project(folder: str, environ: Mapping[str, str]) -> Build:
    """Examine the environment that a project's build requirements make, as pip would make it.

    Raises
    ------
    BlaswheelError
        If the project has no build requirements, or they can't be installed.
    """
    import tempfile

    requires = _requires(folder)
    with tempfile.TemporaryDirectory(prefix="blaswheel-doctor-") as place:
        target = os.path.join(place, "environment")
        _run([sys.executable, "-m", "venv", target], "make an environment")
        scripts = os.path.join(target, "Scripts" if os.name == "nt" else "bin")
        python = os.path.join(scripts, "python.exe" if os.name == "nt" else "python")
        words = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requires]
        if requires:
            _run([python, *words], "install the build requirements")
        path = os.pathsep.join([scripts, environ.get("PATH", os.defpath)])
        return examine({**environ, "PATH": path}, python)


def _requires(folder: str) -> list[str]:
    path = os.path.join(folder, _project.FILE)
    try:
        with open(path, "rb") as file:
            content = _project.parsed(file.read())
    except OSError as error:
        raise BlaswheelError(
            f"{path}: {error.strerror}", "give the folder of a project with a pyproject.toml"
        ) from error
    system = content.get("build-system", {})
    requires = system.get("requires", []) if isinstance(system, dict) else []
    if not isinstance(requires, list) or not all(isinstance(each, str) for each in requires):
        raise BlaswheelError(f"{path}: build-system.requires is no list of texts", "correct it")
    # Not an option in disguise.
    return [each for each in requires if not each.startswith("-")]


def _run(command: list[str], what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()
        raise BlaswheelError(f"can't {what}: {lines[-1]}", "try the same by hand")


def _ask(program: str, name: str, environ: Mapping[str, str]) -> Answer:
    version = _pkgconfig.ask(program, "--modversion", name, environ)
    asked = "--variable=pcfiledir"
    folder = _pkgconfig.ask(program, asked, name, environ) if version else None
    return Answer(
        name=name,
        version=version or None,
        path=os.path.join(folder, f"{name}.pc") if folder else None,
    )


def _findings(
    program: str | None,
    works: bool,
    answers: list[Answer],
    libraries: list[Library],
    environ: Mapping[str, str],
) -> Iterator[Finding]:
    if not libraries and not any(answer.version for answer in answers):
        yield Finding(
            code="no-provider",
            file="",
            message="no BLAS is installed here, by pip or for pkg-config",
            fix="pip install scipy-openblas32",
        )
    if program is None:
        yield Finding(
            code="no-pkg-config",
            file="",
            message=f"there is no {environ.get('PKG_CONFIG') or 'pkg-config'} on PATH: builds find "
            "no .pc file",
            fix="pip install pkgconf, or apt-get install pkgconf",
        )
        return
    if not works:
        yield Finding(
            code="pkg-config-broken",
            file=program,
            message="does not read a healthy file on PKG_CONFIG_PATH; two releases of PyPI's "
            "pkgconf print nothing and exit with 0",
            fix=_instead(environ),
        )
        return
    if libraries and not any(answer.version for answer in answers):
        yield Finding(
            code="not-on-path",
            file="",
            message=f"{libraries[0].title} is installed, but pkg-config finds no file for it: "
            "wheels are not where it looks",
            fix='blaswheel exec -- CMD, or eval "$(blaswheel env)" before it',
        )
    winner = next((one for one in answers if one.name == "scipy-openblas" and one.version), None)
    other = next((one for one in answers if one.name == "openblas" and one.version), None)
    if winner and other and os.path.dirname(winner.path or "") != os.path.dirname(other.path or ""):
        yield Finding(
            code="shadowed",
            file=winner.path or "",
            message="NumPy takes scipy-openblas.pc before any other file, and this one is not from "
            f"where openblas.pc is ({os.path.dirname(other.path or '')})",
            fix="take its folder off PKG_CONFIG_PATH, or pass -Dblas=openblas",
        )


def _instead(environ: Mapping[str, str]) -> str:
    try:
        return f"PKG_CONFIG={_pkgconfig.working(environ)}, as blaswheel exec does by itself"
    except BlaswheelError:
        return "pip install -U pkgconf, or apt-get install pkgconf"
