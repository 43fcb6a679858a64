"""Read the marked code blocks of ``README.md`` and of pages in ``docs``, and run them.

As a newcomer would: in a shell, with a Python and little else.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.build_wheel import ROOT, copy_sources
from tests.support import clean_environment

_BLOCK = re.compile(r"^<!-- test: (\S+) -->\n```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str = "README.md") -> dict[str, str]:
    """Return the marked blocks of a page by name, in order."""
    return dict(_BLOCK.findall((ROOT / page).read_text(encoding="utf-8")))


class Newcomer:
    """Someone with a fresh copy of the checkout, a Python and a shell.

    Parameters
    ----------
    page : str
        Whose blocks they run.
    blaswheel : Path, optional
        A wheel. With it they have no copy, but an empty folder, and a package index whose
        blaswheel is this one.

    Attributes
    ----------
    folder : Path
        The copy, with the files that blaswheel is built from. What its programs write elsewhere
        (temporary files, blaswheel's cache) is inside it too.
    """

    def __init__(
        self,
        folder: Path,
        python: str = sys.executable,
        *,
        page: str = "README.md",
        blaswheel: Path | None = None,
    ) -> None:
        self.page = page
        self.folder = folder if blaswheel else copy_sources(folder)
        programs, temporary = folder / ".newcomer" / "bin", folder / ".newcomer" / "tmp"
        programs.mkdir(parents=True)
        temporary.mkdir()
        # python3 alone, without the test tools that are installed beside it.
        (programs / "python3").symlink_to(os.path.realpath(python))
        environ = clean_environment()
        outer = str(Path(sys.executable).parent)
        path = [each for each in environ["PATH"].split(os.pathsep) if each != outer]
        self.environ = environ | {
            "BLASWHEEL_CACHE_DIR": str(folder / ".newcomer" / "cache"),
            "PATH": os.pathsep.join([str(programs), *path]),
            "TMPDIR": str(temporary),
        }
        if blaswheel:
            constraint = folder / ".newcomer" / "constraint.txt"
            constraint.write_text(f"blaswheel @ {blaswheel.as_uri()}\n", encoding="utf-8")
            self.environ["PIP_CONSTRAINT"] = str(constraint)

    def run(
        self, *names: str, options: Mapping[str, str] | None = None, timeout: float = 280
    ) -> str:
        """Run the named blocks in one shell and return what they print.

        ``options`` are added to commands (``{"pip wheel": "-Ckey=value"}``). A command that fails
        fails the test.
        """
        known = blocks(self.page)
        script = "".join(known[name] for name in names)
        for command, added in (options or {}).items():
            assert script.count(command) == 1
            script = script.replace(command, f"{command} {added}")
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            capture_output=True,
            check=False,
            cwd=self.folder,
            encoding="utf-8",
            env=self.environ,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=timeout,
        )
        if done.returncode:
            pytest.fail(
                f"{self.page}, {', '.join(names)}: exit status {done.returncode}\n"
                f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}",
                pytrace=False,
            )
        return done.stdout
