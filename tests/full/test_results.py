"""The page of results has what runs recorded, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.full.__main__ import PAGE, RESULTS, SECTIONS, Recorder, main, page, save, when


def test_the_page_is_what_runs_recorded() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()
    assert {path.stem for path in RESULTS.glob("*.json")} <= SECTIONS.keys()


def test_every_library_of_the_corpus_is_recorded() -> None:
    known = json.loads((RESULTS / "corpus.json").read_text(encoding="utf-8"))
    rows = [result["row"] for result in known.values() if result["row"]]
    assert sum(int(row["Files"]) for row in rows) == 145
    assert {result["outcome"] for result in known.values()} == {"passed"}


def test_a_later_run_keeps_what_it_did_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.full.__main__.RESULTS", tmp_path)
    for outcomes in ({"a": "passed", "b[1]": "failed", "b[2]": "passed"}, {"b[1]": "passed"}):
        recorder = Recorder()
        recorder.tests = {
            f"tests/x/test_x.py::test_{name}": {"outcome": outcome, "seconds": 1.0, "row": {}}
            for name, outcome in outcomes.items()
        }
        save("corpus", recorder, when())
    text = page()
    assert "3 tests: 3 passed" in text
    assert "| test x, test b: 2 | passed | 2 |" in text


def test_unknown_section(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nothing"]) == 2
    assert "no section 'nothing'" in capsys.readouterr().err
