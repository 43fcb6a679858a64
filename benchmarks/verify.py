"""Checking a library by calling it, in a child process."""

from __future__ import annotations

import os
from collections.abc import Iterator

from benchmarks.measure import Row, absent, by_turns, call, median
from tests.support import Wheels

SPECS = {
    "scipy-openblas32": "scipy_openblas32/lib/libscipy_openblas.so",
    "scipy-openblas64": "scipy_openblas64/lib/libscipy_openblas64_.so",
}
RELEASE = "0.3.34.481.3"


def rows(rounds: int) -> Iterator[Row]:
    """Measure: from the call in Python to the verdict, the child's whole life in between."""
    from blaswheel import _verify
    from blaswheel._reading import at

    for name, path in SPECS.items():
        folder = Wheels().unpacked(f"{name}=={RELEASE}", "manylinux_2_28_x86_64", "3.11")
        (library,) = at(str(folder / path))
        times = by_turns(
            {"": call(lambda one=library: _verify.verify(one, use_cache=False))}, rounds
        )
        taken = median(times[""])
        yield Row(f"verify {name}", taken, "ms", "", "under 10 ms", taken < 10)
        yield absent(f"verify {name}, beside libblastrampoline in-process", "libblastrampoline")
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    times = by_turns(
        {
            "": call(
                lambda: _verify.verify(library, use_cache=False, stages=("numerics",), as_is=True)
            )
        },
        rounds,
    )
    taken = median(times[""])
    yield Row("verify --numerics, one thread", taken, "ms", "", "under 100 ms", taken < 100)
