"""``python -m tests.full [SECTION ...] [-- PYTEST OPTIONS]``: run what takes long, record it.

Each section is a part of the tests, run with ``--full``. What became of each test is kept in
``tests/full/results/SECTION.json``, and ``docs/results.md`` is written from those files: a cell
stands there only because a run recorded it. A test that has more to tell than its outcome does so
by ``record_property("row", {"Column": "text", ...})``. Tests that did not run this time keep what
an earlier run recorded, with its date. ``--page`` alone runs nothing and writes the page anew.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.build_wheel import ROOT
from tests.consumers.matrix import CELLS, PLANNED

RESULTS = Path(__file__).with_name("results")
PAGE = ROOT / "docs" / "results.md"


class Section(NamedTuple):
    """A part of the tests: what the page says of it, where it is, and options for pytest.

    ``declared`` has the rows of tests, by the name of their parameters, that the page lists as not
    run as long as no run recorded them.
    """

    title: str
    about: str
    paths: tuple[str, ...]
    options: tuple[str, ...] = ()
    declared: tuple[tuple[str, dict[str, str]], ...] = ()


SECTIONS = {
    "corpus": Section(
        "Libraries of the corpus",
        "Each library file of `tests/data/corpus.json`, read without loading it. What is expected "
        "was found with `nm`, other readers and calls. *Width* is what the file alone tells.",
        ("tests/corpus",),
    ),
    "providers": Section(
        "Providers",
        "Linked, run and called through the `.pc` files that blaswheel writes.",
        ("tests/providers",),
    ),
    "vendors": Section(
        "MKL, NVPL, BLIS, reference, ATLAS",
        "Every model of MKL, and libraries that are split over several files.",
        ("tests/vendors",),
    ),
    "machines": Section("Other machines", "Under emulators.", ("tests/machines",)),
    "meson": Section("Meson", "Every way to get a dependency.", ("tests/meson",)),
    "examples": Section("Example projects", "Built and installed.", ("tests/examples",)),
    "wheels": Section("Wheels", "Tagged, packed and repaired.", ("tests/wheels",)),
    "release": Section(
        "Wheels of blaswheel",
        "For every platform, and their probes where they run here.",
        ("tests/release/test_release.py",),
    ),
    "consumers": Section(
        "NumPy, SciPy and others",
        "Built from their released sources, installed where only the provider is, and their own "
        "tests run. `tests/consumers/matrix.py` has what is to be built.",
        ("tests/consumers",),
        declared=(*((cell.name, cell.row) for cell in CELLS), *PLANNED),
    ),
}


class Recorder:
    """A plugin of pytest that keeps what became of each test."""

    def __init__(self) -> None:
        self.tests: dict[str, dict[str, Any]] = {}
        self.begun: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a part of a test: what fails in its fixtures counts as well."""
        name = report.nodeid.replace(os.sep, "/")
        # One that is interrupted has no end, and so no outcome.
        known = self.begun.setdefault(name, {"outcome": "passed", "seconds": 0.0, "row": {}})
        if report.when == "teardown":
            self.tests[name] = known
        known["seconds"] = round(known["seconds"] + report.duration, 1)
        if report.outcome != "passed":
            known["outcome"] = report.outcome
        for key, value in report.user_properties:
            if key == "row" and isinstance(value, dict):
                known["row"] |= value


def main(arguments: Sequence[str]) -> int:
    """Run the sections named, or all of them, and write the page."""
    names, options = list(arguments), []
    if "--" in names:
        at = names.index("--")
        names, options = names[:at], names[at + 1 :]
    only_page = names == ["--page"]
    unknown = [] if only_page else [name for name in names if name not in SECTIONS]
    if unknown:
        print(f"no section {unknown[0]!r}; sections: {', '.join(SECTIONS)}", file=sys.stderr)  # noqa: T201
        return 2
    status = 0
    for name in [] if only_page else names or SECTIONS:
        section = SECTIONS[name]
        paths = [path for path in section.paths if (ROOT / path).is_dir()]
        if not paths:
            continue
        recorder, stamp = Recorder(), when()
        ended = pytest.main(["--full", *section.options, *options, *paths], plugins=[recorder])
        if ended not in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
            status = 1
        if recorder.tests:
            save(name, recorder, stamp)
    PAGE.write_text(page(), encoding="utf-8")
    return status


def when() -> dict[str, str]:
    """Return the date and the commit of now; a run takes them when it begins."""
    return {"date": time.strftime("%Y-%m-%d", time.gmtime()), "commit": commit()}


def save(name: str, recorder: Recorder, stamp: dict[str, str]) -> None:
    """Put what ran now in the place of what was recorded earlier."""
    path = RESULTS / f"{name}.json"
    known: dict[str, Any] = {}
    if path.exists():
        known = json.loads(path.read_text(encoding="utf-8"))
    known |= {test: result | stamp for test, result in recorder.tests.items()}
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(dict(sorted(known.items())), indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def commit() -> str:
    """Return the commit that the tests run on; with ``+`` if files are changed."""
    own = (":!tests/full/results", ":!docs/results.md")
    commands = (
        ["git", "rev-parse", "--short=10", "HEAD"],
        ["git", "status", "--porcelain", "--untracked-files=no", "--", ".", *own],
    )
    head, changed = (
        subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
        for command in commands
    )
    return (head.strip() or "unknown") + ("+" if changed.strip() else "")


def page() -> str:
    """Return the page of all that is recorded."""
    lines = [
        "# Results of full runs",
        "",
        "Written by `python -m tests.full` from what its runs recorded; nothing is added by hand.",
        "",
    ]
    for name, section in SECTIONS.items():
        path = RESULTS / f"{name}.json"
        if path.exists():
            results = json.loads(path.read_text(encoding="utf-8"))
            lines += [f"## {section.title}", "", section.about, "", *summary(results), ""]
            lines += [*table(results, section.declared), ""]
    return "\n".join(lines)


def summary(results: dict[str, Any]) -> list[str]:
    """Return the counts, and by which commits they were made."""
    counts: dict[str, int] = {}
    for result in results.values():
        counts[result["outcome"]] = counts.get(result["outcome"], 0) + 1
    told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    dates = sorted({result["date"] for result in results.values()})
    commits = sorted({result["commit"] for result in results.values()})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return [f"{len(results)} tests: {told} ({when}; commit {', '.join(commits)})."]


def table(
    results: dict[str, Any], declared: Sequence[tuple[str, dict[str, str]]] = ()
) -> list[str]:
    """Return the tests as a table, those that fail first; columns as the tests name them.

    What is declared and was never run comes last.
    """
    known = dict(results)
    for name, row in declared:
        test = next((each for each in results if each.endswith(f"[{name}]")), None)
        if test is None:
            known[name] = {"outcome": "not run", "row": row}
        else:
            known[test] = results[test] | {"row": results[test]["row"] | row}
    columns = list(dict.fromkeys(column for one in known.values() for column in one["row"]))
    if not columns:
        columns = ["Test"]
    rows = []
    for test, result in in_order(grouped(known)):
        row = result["row"] or {columns[0]: test}
        cells = [str(row.get(column, "")).replace("|", "\\|") for column in columns]
        seconds = f"{result['seconds']:.3g}" if "seconds" in result else ""
        rows.append([*cells, result["outcome"], seconds])
    head = [*columns, "Result", "Seconds"]
    return [f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows]]


def in_order(results: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return what failed, then what has a row of its own, the rest, and what never ran."""
    order = {"passed": 1, "not run": 2}
    return sorted(
        results.items(),
        key=lambda item: (order.get(item[1]["outcome"], 0), not item[1]["row"], item[0]),
    )


def grouped(results: dict[str, Any]) -> dict[str, Any]:
    """Put tests without a row of their own together, by function and by what became of them."""
    found: dict[str, Any] = {}
    counts: dict[str, int] = {}
    for test, result in results.items():
        if result["row"]:
            found[test] = result
            continue
        name = test.partition("[")[0].rpartition("/")[2].replace(".py::", ", ").replace("_", " ")
        key = f"{name} ({result['outcome']})"
        counts[key] = counts.get(key, 0) + 1
        known = found.setdefault(key, {**result, "seconds": 0.0})
        known["seconds"] += result["seconds"]
    return {
        f"{key.rpartition(' (')[0]}: {counts[key]}" if key in counts else key: result
        for key, result in found.items()
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
