"""Whole processes: what ``blaswheel pc`` adds to a configure step, at any size of environment."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from benchmarks.measure import SCRIPTS, Row, absent, by_turns, median, process, ratio

BARE = "python -c pass"
PC = "blaswheel pc, verdict cached"
IMPORT = 'python -c "import blaswheel"'
PROVIDER = 'python -c "import scipy_openblas64"'
PKGCONF = "pkgconf-pypi --cflags --libs scipy-openblas"
FIRST = "blaswheel pc, nothing cached"
FEW, MANY = 20, 1000
#: What a start must not load where nothing needs it.
HEAVY = ("ctypes", "email", "importlib.metadata", "json", "subprocess", "zipfile")


def site(folder: Path, count: int) -> Path:
    """Write a site-packages with as many distributions, each with some files."""
    for number in range(count):
        name = f"package_{number}"
        (folder / name).mkdir(parents=True)
        info = folder / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        files = [f"{name}/module_{each}.py" for each in range(30)]
        (info / "RECORD").write_text("".join(f"{each},sha256=x,1\n" for each in files))
    return folder


def rows(rounds: int) -> Iterator[Row]:
    """Measure."""
    with tempfile.TemporaryDirectory(prefix="blaswheel-benchmark-") as name:
        folder = Path(name)
        yield from _starts(folder, rounds)
        yield from _environments(folder, rounds)
    yield _loaded()


def _starts(folder: Path, rounds: int) -> Iterator[Row]:
    python, blaswheel = sys.executable, str(SCRIPTS / "blaswheel")
    runs = {
        BARE: process([python, "-c", "pass"]),
        PC: process([blaswheel, "pc"]),
        "blaswheel list": process([blaswheel, "list"]),
        IMPORT: process([python, "-c", "import blaswheel"]),
        FIRST: process(
            [blaswheel, "pc"],
            lambda: {"BLASWHEEL_CACHE_DIR": tempfile.mkdtemp(prefix="cache-", dir=folder)},
        ),
    }
    peer = shutil.which("pkgconf-pypi", path=str(SCRIPTS))
    if peer:
        runs[PKGCONF] = process([peer, "--cflags", "--libs", "scipy-openblas"])
    if find_spec("scipy_openblas64"):
        runs[PROVIDER] = process([python, "-c", "import scipy_openblas64"])
    times = by_turns(runs, rounds)

    def bare(of: str, limit: float | None = None) -> Row:
        value = ratio(times, of, BARE)
        target, met = (f"at most {limit:g} x", value <= limit) if limit else ("", None)
        return Row(of, median(times[of]), "ms", f"{value:.2f} x bare Python", target, met)

    yield Row(BARE, median(times[BARE]), "ms")
    yield bare(PC, 3)
    for name, limit, target in (
        (PKGCONF, 1 / 3, "below a third"),
        (PROVIDER, 1.0, "faster"),
    ):
        if name not in runs:
            yield absent(f"{PC}, beside {name}", name.split()[0])
            continue
        value = ratio(times, PC, name)
        beside = f"{value:.2f} x of {median(times[name]):.0f} ms for {name}"
        yield Row(PC, median(times[PC]), "ms", beside, target, value < limit)
    yield bare(FIRST, 8)
    yield bare("blaswheel list")
    more = median(a - b for a, b in zip(times[IMPORT], times[BARE], strict=True))
    yield Row(f"{IMPORT}, more than bare", more, "ms", "", "at most 10 ms", more <= 10)


def _environments(folder: Path, rounds: int) -> Iterator[Row]:
    blaswheel = str(SCRIPTS / "blaswheel")
    warm, cold = {}, {}
    for count in (FEW, MANY):
        path = {"PYTHONPATH": str(site(folder / f"site-{count}", count))}
        warm[f"{count}"] = process([blaswheel, "pc"], path)
        cold[f"{count}"] = process(
            [blaswheel, "list"],
            lambda path=path: {
                **path,
                "BLASWHEEL_CACHE_DIR": tempfile.mkdtemp(prefix="cache-", dir=folder),
            },
        )
    times = by_turns(warm, rounds)
    value = ratio(times, str(MANY), str(FEW))
    yield Row(
        f"blaswheel pc among {MANY} distributions",
        median(times[str(MANY)]),
        "ms",
        f"{value:.2f} x among {FEW}",
        "at most 1.5 x",
        value <= 1.5,
    )
    times = by_turns(cold, rounds)
    value = ratio(times, str(MANY), str(FEW))
    yield Row(
        f"blaswheel list among {MANY} distributions, nothing cached",
        median(times[str(MANY)]),
        "ms",
        f"{value:.2f} x among {FEW}",
    )


def _loaded() -> Row:
    """Tell which heavy modules a start with everything cached loads."""
    import subprocess

    program = (
        "import sys; from blaswheel._cli import main; main(['pc']);"
        f"print(*(set(sys.modules) & set({HEAVY!r})), file=sys.stderr)"
    )
    command = [sys.executable, "-I", "-c", program]
    # The first time fills the cache for this search path.
    subprocess.run(command, check=True, capture_output=True)
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    names = done.stderr.splitlines()[-1].split()
    target = f"none of {', '.join(HEAVY)}"
    what = "heavy modules that `blaswheel pc` imports"
    return Row(what, len(names), "", ", ".join(names), target, not names)
