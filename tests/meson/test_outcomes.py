"""Each form of ``dependency()``, by way and version of Meson: run, and compared with the table."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.build_wheel import ROOT
from tests.cli.sites import ILP64, LP64, NEWEST
from tests.meson.mesons import VERSIONS, Mesoner, write_project
from tests.meson.outcomes import ABSENT, ERROR, FOUND, ROWS, SYSTEM, Row, table
from tests.support import Venv

pytestmark = pytest.mark.tool("cc", "pkg-config")
WAYS = ("subproject", "pkg-config")
SYSTEM_PC = """\
Name: openblas
Description: an old OpenBLAS of the system
Version: 0.2.20
Libs: -lm
"""


def shared(row: Row, way: str) -> bool:
    """Tell whether a form can be tried together with others, which it does not change.

    Once the subproject was configured for one, others find it that would not have it configured.
    """
    outcome = row.subproject if way == "subproject" else row.pkg_config
    return outcome == FOUND and not row.options and not row.system and "allow" not in row.form


class Tried:
    """Runs the forms; those that can be are tried in one project."""

    def __init__(self, folder: Path, venv: Venv) -> None:
        self.folder = folder
        self.venv = venv
        self.together = functools.cache(self._together)

    def outcome(self, row: Row, way: str, version: str) -> str:
        if shared(row, way):
            return self.together(way, version)[row.form]
        return self._run([row], way, version)[row.form]

    def _together(self, way: str, version: str) -> dict[str, str]:
        return self._run([row for row in ROWS if shared(row, way)], way, version)

    def _run(self, rows: Sequence[Row], way: str, version: str) -> dict[str, str]:
        lines = []
        for number, row in enumerate(rows):
            lines += [f"d = {row.form}", f"message('form {number}', d.found(), d.version())"]
        name = f"{way}-{version}-{len(list(self.folder.iterdir()))}"
        project = write_project(self.folder / name, *lines)
        mesoner = Mesoner(self.venv, version)
        if way == "subproject":
            self.venv.run("blaswheel", "meson", project)
        environ = {}
        if rows[0].system:
            pc = self.folder / f"{name}-system"
            pc.mkdir()
            (pc / "openblas.pc").write_text(SYSTEM_PC)
            environ["PKG_CONFIG_PATH"] = str(pc)
        before = ("blaswheel", "exec", "--") if way == "pkg-config" else ()
        done = mesoner(
            *("setup", *rows[0].options.split(), project / "build", project),
            before=before,
            environ=environ,
            check=False,
        )
        if done.returncode:
            assert len(rows) == 1, done
            assert "ERROR: Dependency" in done.stdout, done
            return {rows[0].form: ERROR}
        found = {}
        for line in done.stdout.splitlines():
            _, mark, rest = line.partition("Message: form ")
            if mark:
                number, is_found, release = f"{rest} -".split(" ")[:3]
                meant = {NEWEST: FOUND, "0.2.20": SYSTEM}
                outcome = meant[release] if is_found == "true" else ABSENT
                found[rows[int(number)].form] = outcome
        return found


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory, shared_venv: Callable[..., Venv]) -> Tried:
    return Tried(tmp_path_factory.mktemp("forms"), shared_venv(LP64, ILP64))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "row", [pytest.param(row, id=f"{row.form} {row.options} {row.system}") for row in ROWS]
)
def test_form(tried: Tried, row: Row, way: str, version: str) -> None:
    wanted = row.pkg_config if way == "pkg-config" else dict(row.other).get(version, row.subproject)
    assert tried.outcome(row, way, version) == wanted


def test_the_page_has_the_table() -> None:
    page = (ROOT / "docs" / "meson.md").read_text(encoding="utf-8")
    assert "\n".join(table()) in page
