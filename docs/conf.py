"""The documentation's site: ``sphinx-build -W docs build/docs``, with the extra ``docs``."""

from __future__ import annotations

import contextlib
import io
from importlib import import_module
from pathlib import Path

from blaswheel import __version__
from blaswheel._cli import COMMANDS, main

project = "blaswheel"
author = "The blaswheel developers"
project_copyright = author
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["upstream/*/*"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
autodoc_typehints = "description"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
default_role = "code"

html_theme = "furo"
html_title = f"blaswheel {version}"
html_static_path: list[str] = []

_INTRODUCTION = """\
# Commands

Data go to stdout, words to stderr: one line on what is wrong, and one on what to do.

| exit status | means |
|---|---|
| 0 | all went well |
| 1 | what was asked for can't be had, or a check found something |
| 2 | the command line makes no sense |
| 130 | interrupted |
| any | `exec`: that of its command |
"""


def _help(*words: str) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.suppress(SystemExit):
        main([*words, "--help"])
    return output.getvalue()


def _write_commands() -> None:
    """Write the page of the commands from what ``--help`` prints."""
    parts = [_INTRODUCTION]
    for command in COMMANDS:
        module = import_module(f"blaswheel._commands._{command}")
        assert module.HELP
        parts.append(f"## {command}\n\n```text\n{_help(command)}```\n")
    path = Path(__file__).parent / "reference" / "commands.md"
    text = "\n".join(parts)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


_write_commands()
