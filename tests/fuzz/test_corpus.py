"""Every reader reads or refuses its corpus, and what a few seconds of fuzzing make of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.build_wheel import ROOT
from tests.fuzz import CORPUS
from tests.fuzz.targets import TARGETS

#: Of fuzzing, for each reader.
SECONDS = int(os.environ.get("BLASWHEEL_FUZZ_SECONDS", "10"))
#: The same inputs in each run, so that a change is to blame for what fails; 0 takes others.
SEED = os.environ.get("BLASWHEEL_FUZZ_SEED", "1")

FILES = sorted(path for path in CORPUS.glob("*/*") if path.is_file())


def test_each_reader_has_a_corpus_that_is_small() -> None:
    assert {path.parent.name for path in FILES} == set(TARGETS)
    assert sum(path.stat().st_size for path in FILES) < 200_000


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_corpus(path: Path) -> None:
    begin = time.perf_counter()
    TARGETS[path.parent.name](path.read_bytes())
    assert time.perf_counter() - begin < 5


@pytest.mark.skipif(find_spec("atheris") is None, reason="atheris is not for this Python")
@pytest.mark.parametrize("name", sorted(TARGETS))
def test_fuzzing(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", name, "--seconds", str(SECONDS), "--seed", SEED],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"},
        check=False,
        capture_output=True,
        text=True,
        timeout=SECONDS + 120,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert not list(tmp_path.iterdir())
    # It is the reader that was fuzzed, not what is in front of it.
    runs = re.search(r"number_of_executed_units: (\d+)", done.stderr)
    assert runs is not None
    assert int(runs[1]) > 100
