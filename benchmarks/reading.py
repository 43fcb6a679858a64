"""Reading a library's tables and naming what it has, beside pyelftools and lief."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.measure import Row, absent, by_turns, call, median, ratio
from tests.support import Wheels

OPENBLAS = "scipy-openblas64==0.3.34.481.3"
MKL = "mkl==2026.2.0"
#: Platform of the wheel, pattern of the file in it, target in ms.
FILES = {
    "libscipy_openblas64_.so": (OPENBLAS, "manylinux_2_28_x86_64", 3.0),
    "libmkl_rt.so.*": (MKL, "manylinux_2_28_x86_64", 25.0),
    "libscipy_openblas64_.dylib": (OPENBLAS, "macosx_11_0_arm64", 6.0),
    "libscipy_openblas64_*.dll": (OPENBLAS, "win_amd64", 6.0),
}


_READ = (
    "from blaswheel import _binary, _names;"
    "binary = _binary.read(sys.argv[1]); _names.infer(binary.functions)"
)


def ours(path: str) -> int:
    """Read and name a library as blaswheel does; return the number of functions."""
    from blaswheel import _binary, _names

    binary = _binary.read(path)
    assert _names.infer(binary.functions)
    return len(binary.functions)


def pyelftools(path: str) -> int:
    """Read the names of an ELF file's functions with pyelftools."""
    from elftools.elf.elffile import ELFFile

    with open(path, "rb") as file:
        symbols = ELFFile(file).get_section_by_name(".dynsym").iter_symbols()
        return len(
            {
                symbol.name
                for symbol in symbols
                if symbol["st_shndx"] != "SHN_UNDEF" and symbol["st_info"]["type"] == "STT_FUNC"
            }
        )


def lief(path: str) -> int:
    """Read the names of a file's exported functions with lief."""
    import lief as module

    binary: Any = module.parse(path)
    return len({function.name for function in binary.exported_functions})


def rows(rounds: int) -> Iterator[Row]:
    """Measure."""
    for pattern, (spec, platform, limit) in FILES.items():
        folder = Wheels().unpacked(spec, platform, "3.11")
        path = str(next(iter(sorted(folder.rglob(pattern)))))
        yield from _file(Path(path).name, path, limit, rounds)


def _file(name: str, path: str, limit: float, rounds: int) -> Iterator[Row]:
    what = f"reading and naming {name} ({ours(path)} functions)"
    runs: dict[str, Callable[[], float]] = {"blaswheel": call(lambda: ours(path))}
    peers = {"lief": lief}
    if ".so" in name:
        peers["pyelftools"] = pyelftools
    modules = {"pyelftools": "elftools", "lief": "lief"}
    for peer, read in peers.items():
        if find_spec(modules[peer]):
            runs[peer] = call(lambda read=read: read(path))
    times = by_turns(runs, rounds)
    taken = median(times["blaswheel"])
    yield Row(what, taken, "ms", "", f"under {limit:g} ms", taken < limit)
    for peer in peers:
        if peer not in runs:
            yield absent(f"{what}, beside {peer}", peer)
            continue
        value = ratio(times, peer, "blaswheel")
        beside = f"{value:.1f} x as fast as {peer} ({median(times[peer]):.1f} ms)"
        yield Row(f"{name}, beside {peer}", taken, "ms", beside, "at least 10 x", value >= 10)
    more = _peak(_READ, path) - _peak("pass", path)
    yield Row(f"memory for {name}", more, "MB", "", "below 5 MB", more < 5)


def _peak(statement: str, path: str) -> float:
    """Return the peak memory of a process in MB."""
    # Not ru_maxrss, which a process inherits from the one that started it.
    program = (
        f"import sys; {statement};"
        "print(next(x for x in open('/proc/self/status') if 'VmHWM' in x).split()[1])"
    )
    command = [sys.executable, "-c", program, path]
    peaks = [
        int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(5)
    ]
    return median(peaks) / 1024
