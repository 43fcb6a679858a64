"""The honest tag beside auditwheel's analysis, and a copy with another tag beside `wheel tags`."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from benchmarks.measure import SCRIPTS, Row, absent, by_turns, median, process, ratio
from tests.support import Wheels

#: Wheel, platform and Python, and how many times as fast as auditwheel it should be.
WHEELS = {
    "numpy": ("numpy==2.4.6", "manylinux_2_28_x86_64", "3.11", 5),
    "scipy": ("scipy==1.17.1", "manylinux_2_28_x86_64", "3.11", 10),
    "jaxlib": ("jaxlib==0.12.0", "manylinux_2_27_x86_64", "3.12", 2),
    "torch": ("torch==2.13.0", "manylinux_2_28_x86_64", "3.11", 5),
}
_ANALYSE = """
import sys
from pathlib import Path
from auditwheel.architecture import Architecture
from auditwheel.libc import Libc
from auditwheel.wheel_abi import analyze_wheel_abi
analyze_wheel_abi(
    Libc.GLIBC, Architecture.x86_64, Path(sys.argv[1]), frozenset(), disable_isa_ext_check=True,
    allow_graft=False,
)
"""
_PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
"""


def rows(rounds: int) -> Iterator[Row]:
    """Measure; the large wheels fewer times."""
    for name, (spec, platform, python, times) in WHEELS.items():
        try:
            path = Wheels().fetch(spec, platform, python)
        except BaseException as error:  # what pytest raises is no Exception
            if isinstance(error, KeyboardInterrupt):
                raise
            yield absent(f"tag {name}", f"the wheel {spec}")
            continue
        large = path.stat().st_size > 50_000_000
        yield from _one(name, path, times, max(3, rounds // 5) if large else rounds)


def _one(name: str, path: Path, times: float, rounds: int) -> Iterator[Row]:
    command = [str(SCRIPTS / "blaswheel"), "tag", str(path)]
    runs = {"blaswheel": process(command)}
    has_peer = find_spec("auditwheel") is not None
    if has_peer:
        runs["auditwheel"] = process([sys.executable, "-c", _ANALYSE, path])
    taken = by_turns(runs, rounds)
    size = path.stat().st_size / 1e6
    what = f"tag {name} ({size:.0f} MB)"
    if has_peer:
        value = ratio(taken, "auditwheel", "blaswheel")
        beside = f"{value:.1f} x as fast as auditwheel ({median(taken['auditwheel']):.0f} ms)"
        target = f"at least {times:g} x"
        yield Row(what, median(taken["blaswheel"]), "ms", beside, target, value >= times)
    else:
        yield absent(what, "auditwheel")
    words = [sys.executable, "-c", _PEAK, *command]
    peak = float(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    yield Row(f"{what}, memory", peak, "MB", "", "under 40 MB", peak < 40)
    yield from _write(name, path, rounds)


def _write(name: str, path: Path, rounds: int) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="blaswheel-benchmark-") as folder:
        words = [
            SCRIPTS / "blaswheel",
            "tag",
            "--write",
            "--as",
            "linux_x86_64",
            "-o",
            folder,
            path,
        ]
        copy = f"import shutil; shutil.copy({str(path)!r}, {folder!r})"
        runs = {
            "judge": process([SCRIPTS / "blaswheel", "tag", path]),
            "write": process(words),
            "copy": process([sys.executable, "-c", copy]),
        }
        if shutil.which("wheel", path=str(SCRIPTS)):
            inside = Path(folder) / path.name
            shutil.copy(path, inside)
            tags = ["tags", "--platform-tag", "linux_x86_64", str(inside)]
            runs["wheel"] = process([SCRIPTS / "wheel", *tags])
        taken = by_turns(runs, max(3, rounds // 3))
        # Judging comes first in any case.
        more = median(b - a for a, b in zip(taken["judge"], taken["write"], strict=True))
        own = max(more, 0.0)
        beside = f"{median(taken['copy']):.0f} ms to copy the file"
        if "wheel" in runs:
            beside += f", {median(taken['wheel']):.0f} ms for wheel tags"
        target = "within 2 x of copying"
        met = own <= 2 * median(taken["copy"])
        yield Row(f"tag --write {name}, without judging", own, "ms", beside, target, met)
