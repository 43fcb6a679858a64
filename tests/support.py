"""What the fixtures of ``conftest.py`` hand out: downloaded wheels, virtual environments."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.build_wheel import cache, lock

WINDOWS = sys.platform == "win32"


def clean_environment() -> dict[str, str]:
    """Return this process's environment without what would change a build or blaswheel's choice."""
    dropped = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "LD_PRELOAD")
    return {name: value for name, value in os.environ.items() if name not in dropped}


class Wheels:
    """Real distributions, downloaded once with pip and kept in ``tests/.cache``.

    One that can't be had fails the test.
    """

    def fetch(self, spec: str, platform: str | None = None, python: str | None = None) -> Path:
        """Return the wheel of ``spec`` (``name==version``).

        ``platform`` is a platform tag (``win_amd64``), ``python`` a version (``3.11``); by
        default those of the running interpreter.
        """
        version = python or f"{sys.version_info[0]}.{sys.version_info[1]}"
        folder = cache() / "wheels" / spec / (platform or "here")
        serving = (f"-cp{version.replace('.', '')}-", "-abi3-", "-py3-", "-py2.py3-")

        def found() -> Path | None:
            wheels = sorted(folder.glob("*.whl"))
            return next((each for each in wheels if any(tag in each.name for tag in serving)), None)

        options = ["--only-binary=:all:"]
        if platform:
            options += ["--platform", platform]
        if platform or python:
            options += ["--python-version", version]
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *options]
        return self._get(folder, found, lambda target: [*command, "--dest", target, spec])

    def sdist(self, spec: str) -> Path:
        """Return the source distribution of ``spec``, as it was released."""
        folder = cache() / "sdists" / spec
        script = str(Path(__file__).with_name("fetch_sdist.py"))
        return self._get(
            folder,
            lambda: next(iter(sorted(folder.glob("[!.]*"))), None),
            lambda target: [sys.executable, script, spec, target],
        )

    def unpacked(self, spec: str, platform: str | None = None, python: str | None = None) -> Path:
        """Return a folder with the content of the wheel of ``spec``; nobody may change it.

        It is looked at, not run: by default the one for Python 3.11, whichever runs the tests.
        """
        wheel = self.fetch(spec, platform, python or "3.11")
        folder = cache() / "unpacked" / (platform or "here") / wheel.stem
        folder.parent.mkdir(parents=True, exist_ok=True)
        with lock(folder.with_name(f"{folder.name}.lock")):
            if not folder.is_dir():
                temporary = Path(tempfile.mkdtemp(prefix=".unpack-", dir=folder.parent))
                unpack(wheel, temporary)
                temporary.chmod(0o755)
                temporary.rename(folder)
        return folder

    @staticmethod
    def _get(
        folder: Path, found: Callable[[], Path | None], command: Callable[[str], list[str]]
    ) -> Path:
        have = found()
        if have is not None:
            return have
        folder.mkdir(parents=True, exist_ok=True)
        with lock(folder / ".lock"):
            have = found()
            if have is not None:
                return have
            with tempfile.TemporaryDirectory(prefix=".download-", dir=folder) as temporary:
                run = subprocess.run(
                    command(temporary),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    errors="replace",
                    check=False,
                )
                for each in Path(temporary).iterdir():
                    each.replace(folder / each.name)
            have = found()
        if have is None:
            pytest.fail(f"can't download to {folder}: {run.stdout.strip()[-2000:]}", pytrace=False)
        return have


def unpack(wheel: Path, folder: Path) -> None:
    """Extract ``wheel`` with the modes of its files."""
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            path = archive.extract(info, folder)
            mode = info.external_attr >> 16
            if mode & 0o777 and not info.is_dir():
                os.chmod(path, mode & 0o777)


def measure(venv: Venv, wheels: Wheels) -> None:
    """Have `tests.coverage` measure what runs in an environment, if that is what runs the tests."""
    if "COVERAGE_PROCESS_CONFIG" in os.environ:
        import coverage

        venv.pip_install(
            "--no-index", "--no-deps", wheels.fetch(f"coverage=={coverage.__version__}")
        )


class Venv:
    """A virtual environment without pip, made for one test.

    Attributes
    ----------
    path, bin, python, site_packages : Path
        Its folder, the one with its programs, its interpreter, and where packages go.
    """

    def __init__(self, path: Path, python: str = sys.executable) -> None:
        self.path = path
        subprocess.run([python, "-m", "venv", "--without-pip", str(path)], check=True)
        self.bin = path / ("Scripts" if WINDOWS else "bin")
        self.python = self.bin / ("python.exe" if WINDOWS else "python")
        if WINDOWS:
            self.site_packages = path / "Lib" / "site-packages"
        else:
            (self.site_packages,) = (path / "lib").glob("python3*/site-packages")

    def environment(self, changes: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment of a shell in which this one is active, with ``changes``."""
        environ = clean_environment()
        outer = str(Path(sys.executable).parent)
        path = [each for each in environ.get("PATH", "").split(os.pathsep) if each != outer]
        environ["PATH"] = os.pathsep.join([str(self.bin), *path])
        environ["VIRTUAL_ENV"] = str(self.path)
        environ.update(changes or {})
        return environ

    def run(
        self,
        *command: str | Path,
        check: bool = True,
        cwd: str | Path | None = None,
        environ: Mapping[str, str] | None = None,
        given: str = "",
        timeout: float = 250,
    ) -> subprocess.CompletedProcess[str]:
        """Run ``command`` as in a shell in which this environment is active.

        Output is captured as text; ``environ`` is what to change in the environment, ``given``
        is standard input. With ``check``, another exit status than 0 fails the test.
        """
        environment = self.environment(environ)
        words = [str(word) for word in command]
        program = shutil.which(words[0], path=environment["PATH"]) or words[0]
        done = subprocess.run(
            [program, *words[1:]],
            capture_output=True,
            check=False,
            cwd=cwd,
            encoding="utf-8",
            env=environment,
            errors="surrogateescape",
            input=given,
            timeout=timeout,
        )
        if check and done.returncode:
            raise AssertionError(
                f"{' '.join(words)}: exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
            )
        return done

    def pip_install(self, *arguments: str | Path) -> None:
        """Install with the pip of the interpreter that runs the tests."""
        command = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "--quiet"]
        done = subprocess.run(
            [*command, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=clean_environment(),
            errors="replace",
            check=False,
        )
        if done.returncode:
            raise AssertionError(f"pip install {arguments}: {done.stdout}")
