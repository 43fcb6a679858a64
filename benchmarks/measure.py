"""What the benchmarks share: runs by turns, medians of what was paired, a table and JSON."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

SCRIPTS = Path(sys.executable).parent


class Row(NamedTuple):
    """One line of the table.

    Attributes
    ----------
    what : str
        What was measured.
    value : float
        The median, in `unit`.
    unit : str
    beside : str
        The same of a peer in the same run, as a ratio or in its own words; empty if there is none.
    target : str
        What it should be; empty for what is only reported.
    met : bool or None
        Whether it is.
    note : str
        Why not, or which peer was not there.
    """

    what: str
    value: float
    unit: str
    beside: str = ""
    target: str = ""
    met: bool | None = None
    note: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as text: what, value, beside, target, whether it is met."""
        said = "" if self.met is None else "yes" if self.met else "**no**"
        value = f"{self.value:.3g}" if self.value < 1000 else f"{self.value:.0f}"
        beside = "; ".join(filter(None, (self.beside, self.note)))
        return self.what, f"{value} {self.unit}", beside, self.target, said


def absent(what: str, peer: str) -> Row:
    """Return the row of a measurement whose peer is not there."""
    return Row(what, float("nan"), "", note=f"{peer} is not installed here")


def process(
    command: Sequence[str | Path],
    environ: Mapping[str, str] | Callable[[], dict[str, str]] | None = None,
    cwd: Path | None = None,
) -> Callable[[], float]:
    """Return what runs a command as a whole process and returns how many ms it took.

    ``environ`` has changes to the environment, or makes them anew for each run.
    """
    words = [str(word) for word in command]

    def run() -> float:
        changes = environ() if callable(environ) else environ
        merged = {**os.environ, **(changes or {})}
        started = time.perf_counter()
        subprocess.run(
            words,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=merged,
            cwd=cwd or tempfile.gettempdir(),  # no project's folder, which may have settings
        )
        return 1000 * (time.perf_counter() - started)

    return run


def call(function: Callable[[], object], repeat: int = 1) -> Callable[[], float]:
    """Return what calls a function here and returns how many ms one call took."""

    def run() -> float:
        started = time.perf_counter()
        for _ in range(repeat):
            function()
        return 1000 * (time.perf_counter() - started) / repeat

    return run


def by_turns(runs: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Return the times of each, A B C A B C, after one round that fills caches."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, run in runs.items():
            taken = run()
            times[name] += [taken] if number else []
    return times


def median(values: Iterable[float]) -> float:
    """Return the median."""
    return statistics.median(values)


def ratio(times: Mapping[str, Sequence[float]], of: str, to: str) -> float:
    """Return the median ratio of what was measured in the same round."""
    return median(a / b for a, b in zip(times[of], times[to], strict=True))


def machine() -> str:
    """Return what the numbers were measured on."""
    model = ""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next(line.partition(":")[2].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        pass
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return (
        f"Python {platform.python_version()}, {os.cpu_count()} CPUs {model}, {platform.platform()}"
        f"{load}"
    )


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a Markdown table."""
    lines = ["| what | median | beside | target | met |", "|---|---|---|---|---|"]
    for row in rows:
        cells = [cell.replace("|", "\\|") for cell in row.cells]
        if row.value != row.value:
            cells[1] = "-"
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
