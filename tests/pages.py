"""Read the code blocks of the documentation's pages, and run them as their readers would.

A comment on the line before a block says what becomes of it:

``<!-- run: NAME -->``
    Run in the environment NAME of `ENVIRONMENTS` (sh and python). A ``text`` or ``json`` block that
    is the next one is what it prints: see `_agrees`.
``<!-- run: NAME; fails -->``
    The same, and its exit status is not 0.
``<!-- run: NAME; needs: gfortran make -->``
    The same; the test needs these programs.
``<!-- file: PATH -->``, ``<!-- file: PATH; add -->``
    Write it to a file in the page's folder, or add it to that file.
``<!-- not run: WHY -->``
    Neither; WHY is one of `REASONS`.
``<!-- run by: tests/... -->``
    Left to that test.

Blocks of one page run in one shell, in order, in a folder of the page. With
``<!-- run by: tests/... -->`` before no block, the whole page is left to that test.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.build_wheel import ROOT
from tests.cli.sites import ILP64, LP64
from tests.support import clean_environment

DOCS = ROOT / "docs"
#: Providers that an environment has beside blaswheel and the build tools. In `new` there is nothing
#: but python3 and the system's programs; `debian` has packages of Debian on LD_LIBRARY_PATH.
ENVIRONMENTS: dict[str, tuple[str, ...]] = {
    "new": (),
    "none": (),
    "lp64": (LP64,),
    "ilp64": (ILP64,),
    "both": (LP64, ILP64),
    "mkl": ("mkl==2026.2.0", "mkl-include==2026.2.0", "intel-openmp==2026.2.0"),
    "reference": ("cmeel-lapack==3.12.1",),
    "debian": (),
}
#: Why a block is not run, and how many there may be: what can be run is.
REASONS = {"macOS": 3, "Windows": 3, "root": 3, "CI": 3, "atheris": 1}
#: What readers of a page that names it have, since they have a checkout.
CHECKOUT = ("examples", "src/probe")
#: Languages of blocks that show what something prints, or are no code.
PRINTED = ("text", "json")
#: Where the Linux loader, make and others say what is wrong in the language of the user.
ENVIRON = {"LC_ALL": "C.UTF-8", "COLUMNS": "80", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}

_FENCE = re.compile(
    r"^(?:<!-- (?P<marker>[^\n]*) -->\n)?"
    r"^(?P<ticks>```+)(?P<language>[^\n`]*)\n(?P<code>.*?)^(?P=ticks)$",
    re.MULTILINE | re.DOTALL,
)
_ELSEWHERE = re.compile(r"^<!-- run by: (\S+) -->\n(?!```)", re.MULTILINE)


class Block(NamedTuple):
    """A fenced block of a page.

    ``settings`` is what its marker says, ``printed`` the next block if that shows output.
    """

    line: int
    language: str
    settings: Mapping[str, str]
    code: str
    printed: str | None = None

    @property
    def accounted(self) -> bool:
        """Tell whether it is known what becomes of it."""
        return len({"run", "file", "not run", "run by"} & set(self.settings)) == 1


def pages() -> list[Path]:
    """Return all pages with blocks that run here, README.md not among them: see `tests.readme`."""
    found = [*DOCS.rglob("*.md"), ROOT / "CONTRIBUTING.md", ROOT / "examples" / "README.md"]
    # Written by programs.
    generated = {DOCS / "results.md", DOCS / "reference" / "commands.md"}
    return sorted(page for page in found if page not in generated)


def run_by(page: Path) -> str | None:
    """Return the test that runs a page's blocks instead, if there is one."""
    match = _ELSEWHERE.search(page.read_text(encoding="utf-8"))
    return match[1] if match else None


def blocks(page: Path) -> list[Block]:
    """Return the code blocks of a page, without directives of the site; output joins its block."""
    text = page.read_text(encoding="utf-8")
    found: list[Block] = []
    for match in _FENCE.finditer(text):
        language = match["language"].strip()
        if language.startswith("{"):
            continue
        block = Block(
            line=text.count("\n", 0, match.start("ticks")) + 1,
            language=language,
            settings=_settings(match["marker"] or ""),
            code=match["code"],
        )
        last = found[-1] if found else block
        shows = language in PRINTED and not block.settings
        if shows and "run" in last.settings and last.printed is None:
            found[-1] = last._replace(printed=block.code)
        elif language != "text" or block.settings:
            found.append(block)
    return found


def _settings(marker: str) -> dict[str, str]:
    parts = (part.partition(":") for part in marker.split(";") if part.strip())
    return {name.strip(): value.strip() for name, _, value in parts}


class Place(NamedTuple):
    """An environment, made: the folder of its programs, and variables that it sets."""

    programs: Path
    environ: Mapping[str, str] = {}


class Reader:
    """Someone who follows a page: a folder, a shell, and the environments that the page names.

    Parameters
    ----------
    folder : Path
        Where the page's files go; it need not exist.
    place : callable
        Returns an environment by its name.
    links : list of Path
        Folders with all wheels that pip finds.
    """

    def __init__(self, folder: Path, place: Callable[[str], Place], links: list[Path]) -> None:
        self.folder = folder
        self.place = place
        self.outputs, home, temporary = (
            folder.with_name(f"{folder.name}-{each}") for each in ("outputs", "home", "tmp")
        )
        for each in (folder, self.outputs, home, temporary):
            each.mkdir(parents=True)
        environ = clean_environment()
        # A cache of one's own is in the home folder.
        del environ["BLASWHEEL_CACHE_DIR"]
        outer = str(Path(sys.executable).parent)
        self.path = [each for each in environ["PATH"].split(os.pathsep) if each != outer]
        self.environ = environ | {
            **ENVIRON,
            "HOME": str(home),
            "TMPDIR": str(temporary),
            "PATH": os.pathsep.join([str(place("new").programs), *self.path]),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": " ".join(map(str, links)),
        }

    def follow(self, page: Path) -> None:
        """Run what the page says, and fail the test where something else comes of it."""
        self.run(blocks(page), page.name)

    def run(self, todo: list[Block], page: str) -> None:
        """Run blocks in one shell, in order; ``page`` is what messages call their page."""
        for part in CHECKOUT:
            if any(f"{part}/" in block.code for block in todo if "run" in block.settings):
                shutil.copytree(ROOT / part, self.folder / part)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", "".join(map(self._lines, todo))],
            capture_output=True,
            check=False,
            cwd=self.folder,
            encoding="utf-8",
            env=self.environ,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=280,
        )
        problems, last = [], ""
        for block in todo:
            output = self.outputs / str(block.line)
            if not output.exists():
                continue
            said = output.read_text(encoding="utf-8", errors="replace")
            last = f"{page}:{block.line}\n{block.code}\n{said[-4000:]}"
            if block.printed is not None and not _agrees(block.printed, said):
                problems.append(f"{page}:{block.line} prints\n{_compared(block, said)}")
        if done.returncode:
            problems.append(f"exit status {done.returncode}: {last}\n{done.stderr[-1000:]}")
        if problems:
            pytest.fail("\n\n".join(problems), pytrace=False)

    def _lines(self, block: Block) -> str:
        end = "END OF BLOCK"
        if "file" in block.settings:
            path = shlex.quote(block.settings["file"])
            redirect = ">>" if "add" in block.settings else ">"
            here = shlex.quote(str(self.folder))
            write = f'mkdir -p "$(dirname {path})" && cat {redirect}{path}'
            return f"(cd {here} && {write}) <<'{end}'\n{block.code}{end}\n"
        if "run" not in block.settings:
            return ""
        code, name = block.code, block.settings["run"]
        if block.language == "python":
            code = f"python - <<'{end}'\n{code}{end}\n"
        if "fails" in block.settings:
            code = f"set +e\n{code}status=$?\nset -e\n((status != 0))\n"
        lines = [f"exec >{shlex.quote(str(self.outputs / str(block.line)))} 2>&1\n"]
        if name != "new":
            programs, variables = self.place(name)
            path = os.pathsep.join([str(programs), *self.path])
            for variable, value in {"PATH": path, **variables}.items():
                lines.append(f"export {variable}={shlex.quote(value)}\n")
        return "".join([*lines, code])


def _agrees(wanted: str, said: str) -> bool:
    """Tell whether output is as the page shows it.

    A line ``...`` stands for any number of lines, ``...`` in a line for any text of that line.
    """
    lines = (
        r"(?:.*\n)*" if line == "..." else ".*".join(map(re.escape, line.split("..."))) + r"\n"
        for line in _stripped(wanted).splitlines()
    )
    return re.fullmatch("".join(lines), _stripped(said)) is not None


def _stripped(text: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in text.strip("\n").splitlines())


def _compared(block: Block, said: str) -> str:
    wanted = _stripped(block.printed or "").splitlines()
    return "\n".join(
        difflib.unified_diff(wanted, _stripped(said).splitlines(), "the page", "here", lineterm="")
    )
