"""Kernel sets: which of them a processor can run, and the variables that choose one.

A DYNAMIC_ARCH OpenBLAS has a set of kernels per kind of processor and takes the one that
``OPENBLAS_CORETYPE`` names, whether this processor has its instructions or not.
"""

from __future__ import annotations

from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class Core(Record):
    """A kernel set of OpenBLAS.

    Attributes
    ----------
    name : str
        For ``OPENBLAS_CORETYPE``; case does not matter there.
    needs : tuple of str
        Processor features, by Linux's names.
    below : str, optional
        The kernel set to try where this one does not work.
    """

    name: str
    needs: tuple[str, ...] = ()
    below: str | None = None


_AVX512 = ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_BF16 = (*_AVX512, "avx512_bf16")
#: Per machine, the most demanding first; for one that its build lacks, a library takes another.
CORES: dict[str, tuple[Core, ...]] = {
    "x86_64": (
        Core(name="Sapphirerapids", needs=(*_BF16, "amx_bf16"), below="SkylakeX"),
        Core(name="Cooperlake", needs=_BF16, below="SkylakeX"),
        Core(name="SkylakeX", needs=_AVX512, below="Haswell"),
        Core(name="Zen", needs=("avx2", "fma"), below="Haswell"),
        Core(name="Haswell", needs=("avx2", "fma"), below="Sandybridge"),
        Core(name="Excavator", needs=("avx", "fma", "fma4"), below="Sandybridge"),
        Core(name="Steamroller", needs=("avx", "fma", "fma4"), below="Sandybridge"),
        Core(name="Piledriver", needs=("avx", "fma", "fma4"), below="Sandybridge"),
        Core(name="Bulldozer", needs=("avx", "fma4"), below="Sandybridge"),
        Core(name="Sandybridge", needs=("avx",), below="Nehalem"),
        Core(name="Barcelona", needs=("sse4a",), below="Prescott"),
        Core(name="Nehalem", needs=("sse4_2",), below="Core2"),
        Core(name="Penryn", needs=("sse4_1",), below="Core2"),
        Core(name="Atom", needs=("ssse3",), below="Prescott"),
        Core(name="Core2", needs=("ssse3",), below="Prescott"),
        Core(name="Prescott", needs=("pni",)),
    ),
    "aarch64": (
        Core(name="NEOVERSEV1", needs=("sve", "bf16"), below="NEOVERSEN1"),
        Core(name="NEOVERSEN2", needs=("sve2", "bf16"), below="NEOVERSEN1"),
        Core(name="A64FX", needs=("sve",), below="ARMV8"),
        Core(name="ARMV8SVE", needs=("sve",), below="ARMV8"),
        Core(name="NEOVERSEN1", needs=("asimddp",), below="ARMV8"),
        Core(name="THUNDERX3T110", below="ARMV8"),
        Core(name="THUNDERX2T99", below="ARMV8"),
        Core(name="CORTEXA57", below="ARMV8"),
        Core(name="CORTEXA53", below="ARMV8"),
        Core(name="ARMV8"),
    ),
    "ppc64le": (
        Core(name="POWER10", needs=("arch_3_1",), below="POWER9"),
        Core(name="POWER9", needs=("arch_3_00",), below="POWER8"),
        Core(name="POWER8"),
    ),
    "s390x": (
        Core(name="Z14", needs=("vxe",), below="Z13"),
        Core(name="Z13", needs=("vx",), below="ZARCH_GENERIC"),
        Core(name="ZARCH_GENERIC"),
    ),
}


def processor() -> str:
    """Return the lines of ``/proc/cpuinfo`` on the first processor that stay the same.

    Frequencies and numbers of this one processor among many are left out. Where there is no such
    file, what the system tells of the machine.
    """
    import os

    changing = (
        "processor",
        "cpu mhz",
        "bogomips",
        "core id",
        "apicid",
        "initial apicid",
        "physical id",
        "siblings",
        "cpu cores",
        "clock",
        "timebase",
    )
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            text = b""
            # The first processor's block: with hundreds of them, the whole file takes long.
            while b"\n\n" not in text and len(text) < 1 << 16:
                chunk = file.read(1 << 13)
                if not chunk:
                    break
                text += chunk
    except OSError:
        if os.name == "nt":
            return os.environ.get("PROCESSOR_IDENTIFIER", "")
        system = os.uname()
        return f"{system.sysname} {system.machine} {system.version}"
    lines = text.partition(b"\n\n")[0].decode("ascii", "replace").split("\n")
    return "\n".join(
        line for line in lines if line.partition(":")[0].strip().lower() not in changing
    )


def features() -> frozenset[str]:
    """Return the features of this processor as Linux names them; empty where it does not tell."""
    found: set[str] = set()
    for line in processor().split("\n"):
        key, _, value = line.partition(":")
        if key.strip().lower() in ("flags", "features"):
            found.update(value.split())
    return frozenset(found)


def runnable(machine: str, has: frozenset[str] | None) -> list[str]:
    """Return the kernel sets to try on a processor, the most demanding first.

    Parameters
    ----------
    machine : str
        Of the library.
    has : frozenset of str, optional
        The processor's features; None if they are not known, then all are tried.
    """
    return [
        core.name for core in CORES.get(machine, ()) if has is None or has.issuperset(core.needs)
    ]


def advice(implementation: str, core: str | None, environment: Mapping[str, str]) -> str:
    """Return what to do about a library that crashes or computes wrong with a kernel set."""
    for name in ("OPENBLAS_CORETYPE", "MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR", "BLIS_ARCH_TYPE"):
        if name in environment:
            return f"{name} is {environment[name]}: unset it, or give it another value"
    if implementation == "openblas" and core is not None:
        lower = below(core)
        if lower is not None:
            return f"try OPENBLAS_CORETYPE={lower}"
    if implementation == "mkl":
        return "try MKL_ENABLE_INSTRUCTIONS=AVX2, or SSE4_2"
    if implementation in ("aocl", "blis"):
        return "try BLIS_ARCH_TYPE=generic"
    return "use another library, or another version of it; --as-is runs it with your environment"


def below(core: str) -> str | None:
    """Return a less demanding kernel set than ``core``, or None."""
    for cores in CORES.values():
        for one in cores:
            if one.name.lower() == core.lower():
                return one.below
    return None
