"""What the Meson subproject adds to a configure step, beside a ``.pc`` file that is there already.

The same project, which has ``dependency('openblas')`` and little else, is configured by turns:
without a BLAS; with a ready-made ``openblas.pc`` on ``PKG_CONFIG_PATH``; with a lookup that finds
nothing, which Meson does before it falls back; with the subproject; and with the subproject where
that lookup is left out (``--wrap-mode=forcefallback``). Prints medians, and the median of what each
costs more than the project without a BLAS in the same round. Needs an environment with blaswheel,
scipy-openblas32, Meson and ninja, and a pkg-config.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

SCRIPTS = Path(sys.executable).parent
NONE = "no BLAS"
PYTHON = "py = import('python').find_installation(pure: false)"
BLAS = "blas = dependency('openblas')"


def run(*words: str | Path, **environ: str) -> None:
    """Run a command of this environment; its output is shown only if it fails."""
    changes = {"PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}", **environ}
    done = subprocess.run(
        [SCRIPTS / words[0], *words[1:]],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        env={**os.environ, **changes},
    )
    if done.returncode:
        sys.exit(done.stdout.decode(errors="replace"))


class Case(NamedTuple):
    """A project, and how it is configured."""

    lines: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    has_pc: bool = False
    has_subproject: bool = False


CASES = {
    NONE: Case(),
    ".pc file": Case((BLAS,), has_pc=True),
    "lookup without success": Case(("dependency('openblas', required: false)",)),
    "subproject": Case((BLAS,), has_subproject=True),
    "subproject, forced": Case((BLAS,), ("--wrap-mode=forcefallback",), has_subproject=True),
}


def projects(folder: Path, first: tuple[str, ...]) -> dict[str, Path]:
    """Write the project of each case."""
    run("blaswheel", "pc", "--no-verify", "--interface", "lp64", "--dir", folder / "pc")
    made = {}
    for number, (name, case) in enumerate(CASES.items()):
        made[name] = folder / str(number)
        made[name].mkdir()
        content = "\n".join(["project('benchmark', 'c')", *first, *case.lines, ""])
        (made[name] / "meson.build").write_text(content, encoding="utf-8")
        if case.has_subproject:
            run("blaswheel", "meson", made[name])
    return made


def seconds(project: Path, case: Case) -> float:
    """Return how long it takes to configure a project."""
    build = project / "build"
    shutil.rmtree(build, ignore_errors=True)
    environ = {"PKG_CONFIG_PATH": str(project.parent / "pc") if case.has_pc else ""}
    started = time.perf_counter()
    run("meson", "setup", *case.options, build, project, **environ)
    return time.perf_counter() - started


def measure(made: dict[str, Path], rounds: int) -> dict[str, list[float]]:
    """Return the times of each project, by turns, after one round that fills caches."""
    times: dict[str, list[float]] = {name: [] for name in CASES}
    for number in range(rounds + 1):
        for name, case in CASES.items():
            taken = seconds(made[name], case)
            times[name] += [taken] if number else []
    return times


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    rounds = parser.parse_args().rounds
    machine = f"{os.cpu_count()} CPUs, {platform.platform()}"
    out = [f"Python {platform.python_version()}, {machine}; medians of {rounds}"]
    for title, lines in {"C project": (), "Python extension": (PYTHON,)}.items():
        with tempfile.TemporaryDirectory(prefix="blaswheel-benchmark-") as folder:
            times = measure(projects(Path(folder), lines), rounds)
        out.append(f"{title:24} {'ms':>8} {'more':>8}")
        for name, values in times.items():
            more = statistics.median(a - b for a, b in zip(values, times[NONE], strict=True))
            out.append(f"{name:24} {1000 * statistics.median(values):8.0f} {1000 * more:8.0f}")
    sys.stdout.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
