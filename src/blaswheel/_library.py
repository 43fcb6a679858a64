"""One library, with all that is known of it without loading it."""

from __future__ import annotations

import os

from blaswheel._discovery import Distribution, wheel_tags
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from blaswheel._binary import Binary
    from blaswheel._names import Family
    from blaswheel._vendors import Vendor

APIS = ("blas", "lapack", "cblas", "lapacke")
#: Below this share of the routines of each of its APIs a library is a partial BLAS.
PARTIAL = 0.5
#: Of compilers; systems have them only where such a compiler is installed.
RUNTIMES = ("libgfortran.so", "libquadmath.so", "libgomp.so", "libflang", "libifcore.so")


class Defect(Record):
    """Something wrong with a library.

    Attributes
    ----------
    code : str
        Stable, for programs.
    severity : {'fatal', 'warning', 'note'}
    message : str
        One line.
    """

    code: str
    severity: str
    message: str


class Library(Record):
    """One library file, by what can be read without loading it; fields as in the JSON.

    Attributes
    ----------
    interface : {'lp64', 'ilp64', 'unknown'}
        Of the family that comes first.
    families : tuple of Family
        Per API the sets of names that the library exports, best first.
    linkable : bool
        Whether something can be linked against it; `reason` says why not.
    verified : bool
        Whether `interface`, `complex_return` and `float_return` were found by calls.
    parts : tuple of str
        All files of a library that is made of several, in the order in which they are linked;
        empty if `path` is all of it. `path` is the one by which the library is known.
    """

    path: str
    provider: Distribution | None
    implementation: str
    version: str | None
    binary: Binary
    interface: str
    evidence: tuple[str, ...]
    families: tuple[Family, ...]
    include_dirs: tuple[str, ...]
    linkable: bool
    reason: str
    defects: tuple[Defect, ...]
    verified: bool = False
    complex_return: str | None = None
    float_return: str | None = None
    vendor: Vendor
    #: what the binary says of its build, e.g. ``USE64BITINT DYNAMIC_ARCH ...``
    configuration: str | None = None
    #: e.g. ``pthreads``, or the model of an implementation that has several (``iomp``)
    threading: str | None = None
    lapack_version: str | None = None
    parts: tuple[str, ...] = ()
    #: whether it is the system's, and of no installed distribution
    of_system: bool = False
    #: of a DLL, the file to link with, if it comes with one
    import_library: str | None = None
    #: link names of what it needs of the compiler and the system
    system: tuple[str, ...] = ()

    @property
    def directory(self) -> str:
        """The library's folder."""
        return os.path.dirname(self.path)

    @property
    def files(self) -> tuple[str, ...]:
        """All files of the library, in the order in which they are linked."""
        return self.parts or (self.path,)

    @property
    def link_name(self) -> str:
        """What follows ``-l``: ``openblas``, or ``:libmkl_rt.so.3`` for a name ld won't guess."""
        return link_name(self.import_library or self.path)

    @property
    def stem(self) -> str:
        """The file's name as a link would call it, without versions: ``mkl_rt``."""
        return stem(self.path)

    @property
    def title(self) -> str:
        """The provider's name and version, else the path."""
        return str(self.provider) if self.provider else self.path

    def interfaces(self) -> tuple[str, ...]:
        """The interfaces that its families have, the first one first."""
        known = [family.interface for family in self.families if family.interface != "unknown"]
        return tuple(dict.fromkeys([*known, *(["unknown"] if not known else [])]))

    def as_json(self) -> dict[str, Any]:
        """Return the library's JSON.

        ``threading`` and ``parts`` are there only for libraries that come in several models, or
        in several files.
        """
        names: dict[str, list[dict[str, Any]]] = {api: [] for api in APIS}
        for family in self.families:
            names[family.api].append(
                {
                    "prefix": family.prefix,
                    "suffix": family.suffix,
                    "interface": family.interface,
                    "found": family.found,
                    "known": family.known,
                }
            )
        provider = self.provider
        several: dict[str, Any] = {}
        if self.vendor.layers or self.vendor.threads:
            several["threading"] = self.threading
        if self.parts:
            several["parts"] = list(self.parts)
        return {
            "provider": {"name": provider.name, "version": provider.version} if provider else None,
            "path": self.path,
            "implementation": self.implementation,
            "version": self.version,
            "format": self.binary.format,
            "machine": self.binary.machine,
            "soname": self.binary.soname,
            "needed": list(self.binary.needed),
            "interface": self.interface,
            "verified": self.verified,
            "evidence": list(self.evidence),
            "names": names,
            "complex_return": self.complex_return,
            "float_return": self.float_return,
            "include_dirs": list(self.include_dirs),
            "linkable": self.linkable,
            "reason": self.reason,
            "defects": [
                {"code": defect.code, "severity": defect.severity, "message": defect.message}
                for defect in self.defects
            ],
            **several,
        }


def link_name(path: str) -> str:
    """Return what follows ``-l`` for the file at ``path``; ``:`` and the file's name if ld would
    not guess it.
    """
    base = os.path.basename(path)
    if base.startswith("lib") and base.endswith((".so", ".dylib")):
        return base[3 : base.rindex(".")]
    if base.startswith("lib") and base.endswith(".a"):
        # A linker takes the shared library beside it first.
        name = base[3:-2].removesuffix(".dll")
        if base.endswith(".dll.a") or not os.path.exists(f"{path[:-2]}.so"):
            return name
    if base.endswith(".lib"):
        # All linkers for Windows look for NAME.lib, not all for libNAME.lib.
        return base[:-4]
    return f":{base}"


def stem(path: str) -> str:
    """Return a file's link name without versions: ``mkl_rt`` for ``libmkl_rt.so.3``.

    >>> stem("/usr/lib/liblapack.so.3.11.0")
    'lapack'
    """
    base = os.path.basename(path).removeprefix("lib")
    for end in (".so", ".dylib", ".dll", ".a", ".lib"):
        head, found, _ = base.partition(end)
        if found:
            return head
    return base


def examine(
    path: str, provider: Distribution | None, include_dirs: Sequence[str]
) -> Library | None:
    """Read the library at ``path``; None if it exports no BLAS, CBLAS, LAPACK or LAPACKE.

    Raises
    ------
    FormatError
        If the file is malformed.
    OSError
        If it can't be opened.
    """
    # What only reading needs is not loaded where what was read before will do.
    from blaswheel import _binary, _interface, _names, _vendors

    binary = _binary.read(path)
    if binary.format == "ar" and binary.needed:
        # An import library is a part of the DLL that it is for.
        return None
    families = _names.infer(binary.functions) or _names.partial(binary.functions)
    if not families:
        return None
    vendor = _vendors.identify(binary, families)
    if vendor is _vendors.REFERENCE and is_partial(families):
        # What has few other names than these is no implementation for that.
        vendor = _vendors.UNKNOWN
    stated = _vendors.statement(path, vendor)
    judged = _interface.judge(binary, families, stated, include_dirs)
    reason = _why_not_linkable(binary, judged.families, provider)
    return Library(
        path=path,
        provider=provider,
        implementation=vendor.name,
        vendor=vendor,
        version=stated.version,
        configuration=stated.configuration,
        threading=stated.threading,
        binary=binary,
        interface=judged.families[0].interface,
        evidence=judged.evidence,
        families=judged.families,
        include_dirs=tuple(include_dirs),
        linkable=not reason,
        reason=reason,
        defects=tuple(_defects(binary, judged.families, provider)),
    )


def _why_not_linkable(
    binary: Binary, families: Sequence[Family], provider: Distribution | None
) -> str:
    folder, _base = os.path.split(binary.path)
    if folder.endswith((".libs", ".dylibs")):
        owner = str(provider) if provider else os.path.basename(folder)
        return f"vendored into {owner} for itself: no headers, and its name changes"
    if is_partial(families):
        # Of an API under several spellings the fullest.
        best = {one.api: one for one in sorted(families, key=lambda one: one.found)}
        found = sum(family.found for family in best.values())
        known = sum(family.known for family in best.values())
        return f"partial: {found} of {known} routines of its APIs"
    if binary.format == "macho" and is_misnamed(binary):
        return f"its install name {binary.soname} is no file: what links it can't be loaded"
    if binary.format == "elf" and not _has_sections(binary.path):
        return "its section table was stripped, without which no linker reads it (the loader does)"
    return ""


def _has_sections(path: str) -> bool:
    """Tell whether an ELF file has a section table: linkers need one, loaders do not."""
    with open(path, "rb", buffering=0) as file:
        header = file.read(64)
    # e_shoff; EI_CLASS says how long addresses are.
    return any(header[40:48] if header[4:5] == b"\x02" else header[32:36])


def is_partial(families: Sequence[Family]) -> bool:
    """Tell whether all APIs of a library are there in parts only."""
    return all(family.found < PARTIAL * family.known for family in families)


def is_misnamed(binary: Binary) -> bool:
    """Tell whether a library tells those that link it a file name that is not there."""
    folder, base = os.path.split(binary.path)
    leaf = _leaf(binary.soname or base)
    return leaf != base and not os.path.exists(os.path.join(folder, leaf))


def _leaf(soname: str) -> str:
    """Return the file that an install name of Mach-O ends in; other names have no folder."""
    return soname.rpartition("/")[2] or soname


def _is_link(path: str, soname: str) -> bool:
    """Tell whether a file is a link to the one that its SONAME names, as for development."""
    try:
        return os.path.samefile(path, os.path.join(os.path.dirname(path), soname))
    except OSError:
        return False


def _defects(
    binary: Binary, families: Sequence[Family], provider: Distribution | None
) -> Iterator[Defect]:
    base = os.path.basename(binary.path)
    if binary.format == "macho" and (binary.soname or "").startswith("/"):
        if not os.path.exists(binary.soname or ""):
            yield Defect(
                code="install-name",
                severity="warning",
                message=f"install name {binary.soname} is a path of the machine that built it: "
                "change it in what links it (install_name_tool -change)",
            )
    elif (
        binary.soname and _leaf(binary.soname) != base and not _is_link(binary.path, binary.soname)
    ):
        yield Defect(
            code="soname",
            severity="warning",
            message=f"SONAME {binary.soname} is not the file's name {base}"
            + (": a folder of links serves what links it" if is_misnamed(binary) else ""),
        )
    if provider is not None and binary.format == "elf":
        yield from _missing_runtimes(binary, provider)
    marked = any("64" in one.suffix for one in families)
    plain = [one for one in families if not one.prefix and "64" not in one.suffix]
    if marked and plain and plain[-1].interface == "ilp64":
        routine = "cblas_dgemm" if plain[-1].api == "cblas" else f"dgemm{plain[-1].suffix}"
        yield Defect(
            code="plain-ilp64",
            severity="warning",
            message=f"exports {routine} and other plain names too, with 64-bit integers: what "
            "means an LP64 library by them crashes if it finds this one",
        )
    leaked = leaks(binary, families)
    if leaked:
        yield Defect(
            code="namespace-leak",
            severity="warning",
            message=f"calls {len(leaked)} names without its prefix or suffix through its PLT "
            f"({', '.join(leaked[:3])}, ...): another library in the same scope takes them over",
        )


def _missing_runtimes(binary: Binary, provider: Distribution) -> Iterator[Defect]:
    """Yield what a wheel's library needs of a compiler and the wheel does not bring."""
    folders = [os.path.dirname(binary.path)]
    for entry in (*binary.rpath, *binary.runpath):
        folders.append(entry.replace("${ORIGIN}", folders[0]).replace("$ORIGIN", folders[0]))
    missing = ", ".join(
        name
        for name in binary.needed
        if name.startswith(RUNTIMES)
        and not any(os.path.exists(os.path.join(folder, name)) for folder in folders)
    )
    if not missing:
        return
    claimed = next((tag for tag in wheel_tags(provider) if "linux_" in tag.rpartition("-")[2]), "")
    claims = "manylinux" in claimed or "musllinux" in claimed
    promise = f", though its tag {claimed} promises that it needs nothing else" if claims else ""
    yield Defect(
        code="system-runtime",
        severity="fatal" if claims else "warning",
        message=f"needs {missing} of the system, which the wheel does not bring{promise}",
    )


def leaks(binary: Binary, families: Sequence[Family]) -> tuple[str, ...]:
    """Return exports outside the library's own families that it reaches through its PLT or GOT.

    In one scope with a library that exports the same name, the first one loaded serves both: with
    integers of two widths that is a crash. A library of plain names leaks nothing that it does
    not offer, so that only those with a prefix or suffix of their own are judged.
    """
    affixes = {(family.prefix, family.suffix) for family in families}
    if any(not prefix and not suffix.strip("_") for prefix, suffix in affixes):
        return ()
    found = list(binary.interposable)
    for prefix in {prefix for prefix, _ in affixes}:
        ends = tuple(end for one, end in affixes if one == prefix)
        found = [name for name in found if not (name.startswith(prefix) and name.endswith(ends))]
    # Names of routines say more than those of a compiler's modules (__la_xisnan_MOD_...).
    return tuple(sorted(found, key=lambda name: (name.startswith("_"), name)))
