"""The implementations: by what each is recognised, and what it says of itself.

An implementation is a declaration. What can be read off any binary (names, integer width, what it
needs) is not declared, and a library of none of them serves as well.
"""

from __future__ import annotations

import os
from bisect import bisect_left

from blaswheel import _routines
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import BinaryIO

    from blaswheel._binary import Binary
    from blaswheel._names import Family


class Model(Record):
    """One way in which an implementation that comes in layers is threaded.

    Attributes
    ----------
    name : str
        What ``--threading`` calls it.
    layer : str
        Link name of the file that goes with it, between the interface and the core.
    runtime : str, optional
        Link name of the threading library that this layer calls.
    package : str, optional
        The distribution that brings it.
    system : tuple of str
        Link names of what the compiler brings.
    """

    name: str
    layer: str
    runtime: str | None = None
    package: str | None = None
    system: tuple[str, ...] = ()


class Layers(Record):
    """How an implementation that comes in layers is put together; link names.

    No layer names the others in its own tables: they find each other in what links them all.

    Attributes
    ----------
    faces : tuple of str
        The interface layers, which have the names; the first in a link.
    gnu_faces : tuple of str
        Those with the return conventions of GNU Fortran, where a release has them; taken only
        where they are asked for.
    models : tuple of Model
        The threading layers, the one to prefer first.
    core : str
        The last in a link.
    kernel : str
        One of the files that the core opens, which is there for every machine.
    whole : str
        The library that opens the layers by itself when it is called.
    family : str
        How all of its files begin: the core opens further ones beside itself.
    system : tuple of str
        What every link needs of the system.
    pc, whole_pc : str
        What consumers call the ``.pc`` file of a model, with ``{interface}`` and ``{model}``, and
        that of the whole.
    """

    faces: tuple[str, ...]
    models: tuple[Model, ...]
    core: str
    kernel: str
    whole: str
    family: str
    pc: str
    whole_pc: str
    gnu_faces: tuple[str, ...] = ()
    system: tuple[str, ...] = ()

    def pc_name(self, interface: str, model: str) -> str:
        """Return the name of the ``.pc`` file of a model; that of the whole for any other."""
        if any(model == one.name for one in self.models):
            return self.pc.format(interface=interface, model=model)
        return self.whole_pc

    def pc_names(self) -> list[str]:
        """Return the names of the ``.pc`` files of all models."""
        names = [
            self.pc_name(interface, model.name)
            for interface in ("lp64", "ilp64")
            for model in self.models
        ]
        return [*names, self.whole_pc]


class Vendor(Record):
    """An implementation of BLAS.

    Attributes
    ----------
    name : str
        As in the JSON.
    title : str
        As people write it.
    url : str
    marks : tuple of str
        Functions that no other implementation has, without the library's prefix and suffix. One
        that the library exports or imports is enough.
    states : bytes
        What stands before the release in the binary's own text; empty if there is none.
    states_options : bool
        Whether the options of the build follow it, in OpenBLAS's words.
    headers : tuple of str
        Those it comes with.
    stand_ins : tuple of (str, str)
        A standard header, and the one of its own that holds what belongs there.
    one_width : bool
        Whether all names of one build have integers of the same width.
    complex_return : {'register', 'argument'}, optional
        How complex Fortran functions return on Unix, where that is the same for all builds.
    width_macro : str, optional
        The macro that makes its headers' integers 64 bits wide, if it is one of its own.
    include_package : str, optional
        The distribution that has its headers, if they are in none of its own.
    layers : Layers, optional
        Where one library is several files.
    threads : tuple of (str, str)
        How a file's link name ends, and which threading model that stands for.
    inner : tuple of str
        Link names of files that only its others are to link with.
    """

    name: str
    title: str
    url: str = ""
    marks: tuple[str, ...] = ()
    states: bytes = b""
    states_options: bool = False
    headers: tuple[str, ...] = ()
    stand_ins: tuple[tuple[str, str], ...] = ()
    one_width: bool = True
    complex_return: str | None = None
    width_macro: str | None = None
    include_package: str | None = None
    layers: Layers | None = None
    threads: tuple[tuple[str, str], ...] = ()
    inner: tuple[str, ...] = ()


class Statement(Record):
    """What a binary says of itself.

    Attributes
    ----------
    vendor : Vendor
    version : str, optional
        The release, without ``.dev``.
    configuration : str, optional
        The options of the build, as far as they can be read: ``USE64BITINT DYNAMIC_ARCH``.
    threading : {'pthreads', 'openmp', 'none'}, optional
    """

    vendor: Vendor
    version: str | None = None
    configuration: str | None = None
    threading: str | None = None


REFERENCE = Vendor(
    name="reference",
    one_width=False,
    title="Reference BLAS",
    url="https://www.netlib.org/lapack/",
    headers=("cblas.h", "lapacke.h", "lapack.h"),
)
UNKNOWN = Vendor(name="unknown", title="BLAS", one_width=False)
#: In the order in which they are tried: FlexiBLAS has thread functions named as OpenBLAS's.
VENDORS = (
    Vendor(
        name="flexiblas",
        title="FlexiBLAS",
        url="https://www.mpi-magdeburg.mpg.de/projects/flexiblas",
        marks=("flexiblas_current_backend", "flexiblas_get_version", "flexiblas_list"),
        headers=("flexiblas/cblas.h", "flexiblas/lapacke.h"),
    ),
    Vendor(
        name="openblas",
        title="OpenBLAS",
        url="https://www.openblas.net",
        # The last is for libraries that Debian splits off: they call its memory allocator.
        marks=("openblas_get_config", "openblas_get_parallel", "blas_memory_alloc"),
        states=b"OpenBLAS ",
        states_options=True,
        headers=("cblas.h", "lapacke.h", "lapack.h", "f77blas.h", "openblas_config.h"),
        complex_return="register",
    ),
    Vendor(
        name="mkl",
        title="Intel oneMKL",
        url="https://www.intel.com/content/www/us/en/developer/tools/oneapi/onemkl.html",
        marks=("MKL_Get_Version_String", "mkl_get_version_string", "mkl_serv_get_version"),
        headers=("mkl.h", "mkl_cblas.h", "mkl_lapacke.h"),
        stand_ins=(("cblas.h", "mkl_cblas.h"), ("lapacke.h", "mkl_lapacke.h")),
        one_width=False,
        complex_return="argument",
        width_macro="MKL_ILP64",
        include_package="mkl-include",
        layers=Layers(
            faces=("mkl_intel_lp64", "mkl_intel_ilp64"),
            gnu_faces=("mkl_gf_lp64", "mkl_gf_ilp64"),
            models=(
                Model(
                    name="iomp",
                    layer="mkl_intel_thread",
                    runtime="iomp5",
                    package="intel-openmp",
                ),
                Model(name="gomp", layer="mkl_gnu_thread", system=("gomp",)),
                Model(name="tbb", layer="mkl_tbb_thread", runtime="tbb", package="tbb"),
                Model(name="seq", layer="mkl_sequential"),
            ),
            core="mkl_core",
            kernel="mkl_def",
            whole="mkl_rt",
            family="mkl_",
            pc="mkl-dynamic-{interface}-{model}",
            whole_pc="mkl-sdl",
            system=("pthread", "m", "dl"),
        ),
    ),
    Vendor(
        name="nvpl",
        title="NVIDIA Performance Libraries",
        url="https://docs.nvidia.com/nvpl/",
        marks=("nvpl_blas_get_version", "nvpl_lapack_get_version"),
        headers=("nvpl_blas.h", "nvpl_blas_cblas.h", "nvpl_lapack.h"),
        stand_ins=(("cblas.h", "nvpl_blas_cblas.h"), ("lapacke.h", "nvpl_lapacke.h")),
        one_width=False,
        width_macro="NVPL_ILP64",
        threads=(("_gomp", "gomp"), ("_seq", "seq")),
        inner=("nvpl_blas_core", "nvpl_lapack_core"),
    ),
    # Before BLIS, of which its BLAS is made: it has all of that one's marks too.
    Vendor(
        name="aocl",
        title="AMD AOCL",
        url="https://www.amd.com/en/developer/aocl.html",
        marks=(
            *("AOCL_BLIS_set_progress", "bli_aocl_enable_instruction_query"),
            "FLA_Get_AOCL_Version",
        ),
        states=b"AOCL-BLAS ",
        headers=("blis.h", "cblas.h", "FLAME.h", "lapacke.h", "lapack.h"),
    ),
    Vendor(
        name="blis",
        title="BLIS",
        url="https://github.com/flame/blis",
        marks=("bli_info_get_version_str", "bli_thread_set_num_threads"),
        headers=("blis.h", "cblas.h"),
    ),
    Vendor(
        name="atlas",
        title="ATLAS",
        url="https://math-atlas.sourceforge.net",
        marks=("ATL_buildinfo", "ATL_dscal", "ATL_dgemm", "ATL_dgetrf"),
        headers=("cblas.h", "clapack.h"),
    ),
    Vendor(
        name="accelerate",
        title="Apple Accelerate",
        url="https://developer.apple.com/documentation/accelerate",
        marks=("BLASSetThreading", "APPLE_NTHREADS"),
        headers=("vecLib/cblas.h",),
        one_width=False,
    ),
)
#: Of what the reference implementation exports, this share at most is no standard routine.
OTHER_SHARE = 0.05
#: What OpenBLAS puts into its text, always after the width of the integers.
OPTIONS = ("DYNAMIC_ARCH", "USE_OPENMP", "USE_TLS", "NO_AFFINITY")
#: Those that come before it, and it.
EARLY_OPTIONS = ("NO_CBLAS", "NO_LAPACK", "NO_LAPACKE", "USE64BITINT")

_CHUNK = 1 << 20
#: How far from its release OpenBLAS's other texts are looked for.
_NEAR = 64 << 10
#: The longest text looked at.
_LONGEST = 256


def identify(binary: Binary, families: Sequence[Family]) -> Vendor:
    """Return the implementation that a library is, `UNKNOWN` if it can't be told.

    The reference implementation has no mark of its own: it is what exports the standard routines
    and hardly anything else.
    """
    affixes = dict.fromkeys((family.prefix, family.suffix) for family in families)
    for prefix, suffix in list(affixes):
        # A Fortran suffix's counterpart in C, where the library has no C API: _64_ and 64_, _64.
        affixes[prefix, suffix.removeprefix("_")] = affixes[prefix, suffix.removesuffix("_")] = None
    affixes["", ""] = None
    for vendor in VENDORS:
        for mark in vendor.marks:
            for prefix, suffix in affixes:
                name = prefix + mark + suffix
                if _is_among(name, binary.functions) or _is_among(name, binary.imports):
                    return vendor
    standard: set[str] = set()
    for family in families:
        names = _routines.routines(family.api)
        standard.update(family.prefix + name + family.suffix for name in names)
    others = [name for name in binary.functions if name not in standard and not _is_helper(name)]
    if families and len(others) <= OTHER_SHARE * len(binary.functions):
        return REFERENCE
    return UNKNOWN


def _is_among(name: str, names: Sequence[str]) -> bool:
    """Tell whether sorted names hold one: a set of them takes longer to make than to search."""
    at = bisect_left(names, name)
    return at < len(names) and names[at] == name


def _is_helper(name: str) -> bool:
    """Tell whether the reference CBLAS, LAPACK or LAPACKE uses such a function for itself."""
    return name.rstrip("_").endswith("sub") or name.startswith(("__la_", "lapack_make_complex_"))


def statement(path: str, vendor: Vendor) -> Statement:
    """Return what the binary at ``path`` says of itself.

    Raises
    ------
    FormatError
        If it is malformed.
    OSError
        If it can't be read.
    """
    if not vendor.states:
        return Statement(vendor=vendor)
    with open(path, "rb", buffering=0) as file:
        for offset, size in _ranges(path, file, vendor):
            for at in _occurrences(file, offset, size, vendor.states):
                text = _part(file, at, min(at + _LONGEST, offset + size))
                version, options = _release(text[len(vendor.states) :])
                if version and not vendor.states_options:
                    return Statement(vendor=vendor, version=version)
                if version:
                    begin, end = max(offset, at - _NEAR), min(at + _NEAR, offset + size)
                    return Statement(
                        vendor=vendor,
                        version=version,
                        configuration=" ".join(options) or None,
                        threading=_threading(options, _part(file, begin, end)),
                    )
    return Statement(vendor=vendor)


def _part(file: BinaryIO, begin: int, end: int) -> bytes:
    file.seek(begin)
    return file.read(end - begin)


def _ranges(path: str, file: BinaryIO, vendor: Vendor) -> list[tuple[int, int]]:
    magic = _part(file, 0, 8)
    if magic[:4] == b"\x7fELF":
        from blaswheel import _elf

        return _elf.constant_ranges(path)
    if magic.startswith((b"!<arch>", b"!<thin>")):
        from blaswheel import _ar

        return _ar.ranges(path, vendor.marks)
    return [(0, os.fstat(file.fileno()).st_size)]


def _occurrences(file: BinaryIO, offset: int, size: int, mark: bytes) -> Iterator[int]:
    """Yield the file offsets in a range where ``mark`` stands before a digit."""
    end = offset + size
    while offset < end:
        # Chunks overlap, so that what lies across their border is found.
        chunk = _part(file, offset, min(offset + _CHUNK + len(mark), end))
        at = chunk.find(mark)
        while at >= 0:
            if chunk[at + len(mark) : at + len(mark) + 1].isdigit():
                yield offset + at
            at = chunk.find(mark, at + 1)
        offset += _CHUNK


def _release(text: bytes) -> tuple[str | None, list[str]]:
    """Split ``0.3.34.481.3  USE64BITINT DYNAMIC_ARCH ...`` into release and options.

    Compilers copy a short string by 16-byte constants, and then its last bytes are in the code:
    what follows is another text. Only what is known to be an option is taken.
    """
    word, _, rest = text.partition(b"\0")[0].partition(b" ")
    number = word.decode("ascii", "replace").removesuffix(".dev")
    parts = number.split(".")
    while parts and not (parts[-1].isascii() and parts[-1].isdigit()):
        parts.pop()
    if len(parts) < 2 or not all(part.isdigit() for part in parts):
        return None, []
    words = rest.decode("ascii", "replace").split(" ")
    return ".".join(parts), [word for word in words if word in OPTIONS + EARLY_OPTIONS]


def _threading(options: Sequence[str], near: bytes) -> str:
    if "USE_OPENMP" in options:
        return "openmp"
    # A build without threads has no text for their number.
    return "pthreads" if b" MAX_THREADS=" in near else "none"
