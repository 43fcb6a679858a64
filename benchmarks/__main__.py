"""``python -m benchmarks [NAME ...]``: measure, print a table, and write it.

Needs an environment with blaswheel and its test extra, scipy-openblas32, scipy-openblas64 and the
peers: pkgconf, pyelftools, lief. A peer that is not there is named in its row.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path

from benchmarks import measure

HERE = Path(__file__).parent
NAMES = ("startup", "reading", "alias", "verify", "growth", "meson", "tag")
START, END = "<!-- table: {} -->", "<!-- end -->"


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=15, help="how often (default: 15)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there")
    parser.add_argument("--record", action="store_true", help="write the table to README.md")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in NAMES]
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r}; there are {', '.join(NAMES)}")
    about = measure.machine()
    sys.stdout.write(f"{about}; medians of {options.rounds}\n\n")
    found = {}
    for name in options.names or NAMES:
        rows = []
        for row in importlib.import_module(f"benchmarks.{name}").rows(options.rounds):
            rows.append(row)
            sys.stdout.write(" | ".join(row.cells) + "\n")
            sys.stdout.flush()
        found[name] = rows
        if options.record:
            _record(name, f"{about}; medians of {options.rounds}", rows)
    if options.json:
        content = {name: [row._asdict() for row in rows] for name, rows in found.items()}
        text = json.dumps({"machine": about, "rounds": options.rounds, "rows": content}, indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")


def _record(name: str, about: str, rows: list[measure.Row]) -> None:
    """Put a table into README.md in the place of the one that is there."""
    path = HERE / "README.md"
    text = path.read_text(encoding="utf-8")
    before, start, rest = text.partition(START.format(name))
    if not start:
        sys.exit(f"README.md has no place for {name}")
    _, end, after = rest.partition(END)
    path.write_text(f"{before}{start}\n{about}\n\n{measure.table(rows)}{end}{after}", "utf-8")


if __name__ == "__main__":
    main()
