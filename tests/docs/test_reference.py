"""The reference is in step with the code: what the one has, the other has, and the reverse."""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from blaswheel._cli import COMMANDS
from blaswheel._commands._parser import Parser
from blaswheel._errors import BlaswheelError, UsageError
from blaswheel._project import KEYS
from blaswheel._vendors import REFERENCE, UNKNOWN, VENDORS
from tests.build_wheel import ROOT
from tests.cli.sites import ILP64, LP64, Blaswheel, fields
from tests.pages import DOCS, blocks, pages
from tests.support import Venv, Wheels

SOURCES = ROOT / "src" / "blaswheel"
TEXTS = {page: page.read_text(encoding="utf-8") for page in (*pages(), ROOT / "README.md")}


@pytest.fixture(scope="module")
def blaswheel(shared_venv: Callable[..., Venv]) -> Blaswheel:
    return Blaswheel(shared_venv(LP64, ILP64))


def module(command: str) -> ModuleType:
    return import_module(f"blaswheel._commands._{command}")


def options(command: str) -> set[str]:
    """Return all options of a command's parser."""
    parser = Parser(f"blaswheel {command}", module(command).HELP, module(command).EXAMPLE)
    module(command).configure(parser)
    assert isinstance(parser, argparse.ArgumentParser)
    return {word for action in parser._actions for word in action.option_strings}


def table(text: str, header: str) -> list[list[str]]:
    """Return the cells of every table whose header begins so, without the header."""
    rows: list[list[str]] = []
    inside = False
    for line in text.splitlines():
        if not line.startswith("|"):
            inside = False
        elif line.startswith(header):
            inside = True
        elif inside and not line.startswith("|--"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def coded(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def used(text: str) -> Iterator[tuple[str, str]]:
    """Yield each option that a text gives to a command of blaswheel, with the command."""
    text = text.replace("\\\n", " ")
    for match in re.finditer(r"\bblaswheel ([a-z]+)\b([^\n`|;&)]*)", text):
        command, rest = match[1], re.split(r" -- | --$", match[2])[0]
        if command in COMMANDS:
            for option in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", rest):
                yield command, option


def test_commands_and_options_that_the_pages_use_exist() -> None:
    known = {command: options(command) for command in COMMANDS}
    texts = {page.name: text for page, text in TEXTS.items()}
    texts |= {f"{each} --help": module(each).EXAMPLE for each in COMMANDS}
    found = [(name, *each) for name, text in texts.items() for each in used(text)]
    assert len(found) > 100
    assert not [(name, *each) for name, *each in found if each[1] not in known[each[0]]]


def test_options_of_prose_exist() -> None:
    """An option in code by itself is one of some command, or of a tool that is named here."""
    ours = {option for command in COMMANDS for option in options(command)}
    others = {
        "meson": {"--wrap-mode", "--cross-file"},
        "pip": {"--no-binary", "--no-build-isolation", "--no-cache-dir", "--target"},
        "pkg-config": {"--define-prefix", "--libs", "--cflags", "--variable"},
        "blaswheel": {"--help", "--version"},
        "probe": {"--help"},
        "tests": {"--full"},
    }
    known = ours.union(*others.values())
    for page, text in TEXTS.items():
        if "upstream" in str(page):
            continue
        for option in re.findall(r"`(--[a-z][a-z-]*)[ =`]", text):
            assert option in known, (page.name, option)


def test_exit_status(blaswheel: Blaswheel, tmp_path: Path) -> None:
    stated = {row[0] for row in table((DOCS / "conf.py").read_text(), "| exit status")}
    assert stated == {"0", "1", "2", "130", "any"}
    assert (BlaswheelError.exit_status, UsageError.exit_status) == (1, 2)
    assert blaswheel("list").returncode == 0
    blaswheel.error("pc", "no-such-provider")
    blaswheel.error("pc", "--no-such-option", status=2)
    done = blaswheel("exec", "--", "sh", "-c", "exit 7", check=False)
    assert done.returncode == 7
    (tmp_path / "stops.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    done = blaswheel("loaded", "-i", "stops", on=tmp_path, check=False)
    assert (done.returncode, done.stderr) == (130, "")


def test_variables_and_keys() -> None:
    rows = table(TEXTS[DOCS / "reference" / "settings.md"], "| variable | key")
    variables = {name for row in rows for name in coded(row[0])}
    keys = {name for row in rows for name in coded(row[1])}
    assert keys == set(KEYS)
    text = "".join(path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py"))
    read = set(re.findall(r"BLASWHEEL_[A-Z_]*[A-Z]", text))
    read |= {f"BLASWHEEL_{key.upper().replace('-', '_')}" for key in KEYS}
    assert variables == read


def codes() -> set[str]:
    """Return every code that a finding or a defect is made with in the sources."""
    found: set[str] = set()
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                if name in ("Defect", "Finding"):
                    values = [word.value for word in node.keywords if word.arg == "code"]
                elif name in ("_tell", "defect"):
                    values = node.args[:1]
                else:
                    continue
            elif isinstance(node, ast.For) and "code" in ast.unparse(node.target):
                values = [each for each in ast.walk(node.iter) if isinstance(each, ast.Constant)]
            else:
                continue
            found |= {each.value for each in values if isinstance(each, ast.Constant)}
    return {code for code in found if re.fullmatch(r"[a-z0-9-]+", code)}


def test_codes_of_findings_and_defects() -> None:
    stated = [
        code for text in TEXTS.values() for row in table(text, "| code |") for code in coded(row[0])
    ]
    assert set(stated) == codes()
    for page, text in TEXTS.items():
        rows = [code for row in table(text, "| code |") for code in coded(row[0])]
        assert len(rows) == len(set(rows)), page.name


def test_variables_of_pc_files(
    blaswheel: Blaswheel, wheels: Wheels, shared_venv: Callable[..., Venv], tmp_path: Path
) -> None:
    text = TEXTS[DOCS / "reference" / "pc.md"]
    stated = {name for row in table(text, "| variable |") for name in coded(row[0])}
    nvpl = wheels.unpacked("nvpl-blas==0.6.0", "manylinux_2_26_aarch64")
    several = Blaswheel(shared_venv("cmeel-lapack==3.12.1"))
    files = [
        blaswheel("pc").stdout,
        blaswheel("pc", "--native").stdout,
        blaswheel("pc", "--root", nvpl, "--interface", "lp64").stdout,
        several("pc").stdout,
    ]
    blaswheel("pc", "--relocatable", "-o", tmp_path / "x.pc")
    files.append((tmp_path / "x.pc").read_text(encoding="utf-8"))
    # Further folders of one kind are numbered.
    variables = {name.rstrip("2") for file in files for name in fields(file) if name[0].islower()}
    assert variables == {name.rstrip("2") for name in stated} - {"pcfiledir"}


def test_fields_of_pc_files(blaswheel: Blaswheel) -> None:
    text = TEXTS[DOCS / "reference" / "pc.md"]
    stated = {name for row in table(text, "| field |") for name in coded(row[0])}
    assert {name for name in fields(blaswheel("pc").stdout) if name[0].isupper()} == stated


def test_schemas_know_every_implementation() -> None:
    names = {vendor.name for vendor in (*VENDORS, REFERENCE, UNKNOWN)}
    found = 0
    for schema in (DOCS / "schemas").glob("*.json"):
        for values in re.findall(r'"enum": (\[[^\]]*"blis"[^\]]*\])', schema.read_text("utf-8")):
            found += 1
            assert set(json.loads(values)) >= names, schema.name
    assert found


def test_schemas_are_all_listed() -> None:
    text = TEXTS[DOCS / "reference" / "json.md"]
    for schema in (DOCS / "schemas").glob("*.json"):
        assert schema.name in text


def test_links_of_pages_lead_to_files() -> None:
    for page, text in TEXTS.items():
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            generated = target.endswith("reference/commands.md")
            assert generated or Path(page.parent, target).exists(), (page.name, target)


def test_every_command_has_a_block_that_runs_it() -> None:
    run = "".join(
        block.code for page in pages() for block in blocks(page) if "run" in block.settings
    )
    missing = [command for command in COMMANDS if f"blaswheel {command}" not in run]
    assert not missing
