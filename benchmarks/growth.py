"""How time grows with the size of the input, as the exponent of a power law."""

from __future__ import annotations

import math
import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.measure import SCRIPTS, Row, by_turns, call, median, process
from benchmarks.startup import site
from tests.support import Wheels

DISTRIBUTIONS = (20, 200, 1000, 5000)
EXPORTS = (1000, 10_000, 50_000, 200_000)
LIBRARIES = (1, 10, 100)


def exponent(sizes: tuple[int, ...], times: list[float]) -> float:
    """Return the slope of log(time) against log(size)."""
    return statistics.linear_regression(
        list(map(math.log, sizes)), list(map(math.log, times))
    ).slope


def rows(rounds: int) -> Iterator[Row]:
    """Measure."""
    with tempfile.TemporaryDirectory(prefix="blaswheel-benchmark-") as name:
        folder = Path(name)
        yield _row("blaswheel pc", "distributions", DISTRIBUTIONS, _distributions(folder), rounds)
        yield _row("naming", "exports", EXPORTS, _exports(), rounds)
        yield _row(
            "blaswheel list, nothing cached", "libraries", LIBRARIES, _libraries(folder), rounds
        )


def _row(
    what: str, of: str, sizes: tuple[int, ...], runs: dict[str, Callable[[], float]], rounds: int
) -> Row:
    times = [median(values) for values in by_turns(runs, rounds).values()]
    power = exponent(sizes, times)
    said = ", ".join(f"{size}: {taken:.3g} ms" for size, taken in zip(sizes, times, strict=True))
    return Row(
        f"{what} against the number of {of}: exponent", power, "", said, "at most 1.1", power <= 1.1
    )


def _distributions(folder: Path) -> dict[str, Callable[[], float]]:
    return {
        str(count): process(
            [SCRIPTS / "blaswheel", "pc"], {"PYTHONPATH": str(site(folder / f"d{count}", count))}
        )
        for count in DISTRIBUTIONS
    }


def _exports() -> dict[str, Callable[[], float]]:
    """Return the naming of made up export tables: a whole BLAS, and as many names more."""
    from blaswheel import _binary, _names

    wheel = Wheels().unpacked("scipy-openblas64==0.3.34.481.3", "manylinux_2_28_x86_64", "3.11")
    (path,) = wheel.rglob("libscipy_openblas64_.so")
    real = _binary.read(str(path)).functions
    runs = {}
    for count in EXPORTS:
        made = (*real[:count], *(f"other_{number}_" for number in range(count - len(real))))
        runs[str(count)] = call(lambda made=made: _names.infer(made))
    return runs


def _libraries(folder: Path) -> dict[str, Callable[[], float]]:
    """Return the survey of environments with as many providers, each with a file of its own."""
    import shutil

    wheel = Wheels().unpacked("scipy-openblas32==0.3.34.481.3", "manylinux_2_28_x86_64", "3.11")
    (path,) = wheel.rglob("libscipy_openblas.so")
    runs = {}
    for count in LIBRARIES:
        target = folder / f"l{count}"
        for number in range(count):
            name = f"provider_{number}"
            (target / name).mkdir(parents=True)
            library = target / name / path.name
            shutil.copy(path, library)
            info = target / f"{name}-1.0.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            (info / "RECORD").write_text(f"{name}/{path.name},,\n")
        words = [SCRIPTS / "blaswheel", "list", "--root", target]
        runs[str(count)] = process(
            words,
            lambda: {"BLASWHEEL_CACHE_DIR": tempfile.mkdtemp(prefix="cache-", dir=folder)},
        )
    return runs
