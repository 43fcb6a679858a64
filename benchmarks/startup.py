"""Whole processes beside each other: what ``blaswheel pc`` adds to a configure step.

Runs every command in turn, A B C A B C, and prints each one's median and its median ratio to a bare
interpreter's in the same round. Needs an environment with blaswheel and scipy-openblas64; a peer
that is not there is named.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

SCRIPTS = Path(sys.executable).parent
BARE = "python -c pass"


def commands() -> dict[str, list[str] | None]:
    """Return what is measured; None where it is not installed."""
    peer = shutil.which("pkgconf-pypi", path=str(SCRIPTS))
    provider = find_spec("scipy_openblas64")
    return {
        BARE: [sys.executable, "-c", "pass"],
        "blaswheel pc": [str(SCRIPTS / "blaswheel"), "pc"],
        "blaswheel list": [str(SCRIPTS / "blaswheel"), "list"],
        'python -c "import blaswheel"': [sys.executable, "-c", "import blaswheel"],
        'python -c "import scipy_openblas64"': [sys.executable, "-c", "import scipy_openblas64"]
        if provider
        else None,
        "pkgconf-pypi --cflags --libs": [peer, "--cflags", "--libs", "scipy-openblas"]
        if peer
        else None,
    }


def seconds(command: list[str]) -> float:
    """Return how long a command takes."""
    started = time.perf_counter()
    subprocess.run(
        command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ
    )
    return time.perf_counter() - started


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    wanted = commands()
    present = {name: command for name, command in wanted.items() if command is not None}
    for command in present.values():
        seconds(command)
    times: dict[str, list[float]] = {name: [] for name in present}
    for _ in range(rounds):
        for name, command in present.items():
            times[name].append(seconds(command))
    machine = f"{os.cpu_count()} CPUs, {platform.platform()}"
    lines = [
        f"Python {platform.python_version()}, {machine}; medians of {rounds}",
        f"{'command':40} {'ms':>8} {'ratio':>8}",
    ]
    for name, values in times.items():
        ratio = statistics.median(a / b for a, b in zip(values, times[BARE], strict=True))
        lines.append(f"{name:40} {1000 * statistics.median(values):8.1f} {ratio:8.2f}")
    lines += [f"{name:40} not installed here" for name, command in wanted.items() if not command]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
