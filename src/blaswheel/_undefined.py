"""What the members of an archive call and do not define.

Formats: ELF, Mach-O and COFF objects, each with its table of symbols.
"""

from __future__ import annotations

import struct

from blaswheel import _ar, _elf, _macho, _pe
from blaswheel._bounded import File, Names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: Of which library a name is, by its beginning.
_BEGINNINGS = {
    "_gfortran_": "gfortran",
    "_gfortrani_": "gfortran",
    "GOMP_": "gomp",
    "__kmpc_": "omp",
    "pthread_": "pthread",
    "sem_": "pthread",
    "dlopen": "dl",
    "dlsym": "dl",
}
#: What C's library of mathematics has, as far as a BLAS calls it.
_MATH = frozenset(
    f"{prefix}{name}{kind}"
    for prefix in ("", "c")
    for name in (
        *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "sin"),
        *("sincos", "sinh", "tan", "tanh", "exp", "exp2", "expm1", "log", "log10", "log1p"),
        *("log2", "pow", "sqrt", "cbrt", "hypot", "abs", "arg", "floor", "ceil", "trunc"),
        *("round", "lround", "llround", "rint", "nearbyint", "fmod", "fma", "frexp", "ldexp"),
    )
    for kind in ("", "f", "l")
) - {"abs", "labs"}
#: In the order of a link; the last ones serve those before them.
_ORDER = ("gfortran", "gomp", "omp", "pthread", "dl", "m")
#: COFF: size of its header, of a symbol, and the class of those that others see.
_COFF_HEADER, _COFF_SYMBOL, _EXTERNAL = 20, 18, 2
_SHT_SYMTAB = 2
_LC_SYMTAB = 2
_N_STAB, _N_EXT = 0xE0, 0x01


def undefined(path: str) -> set[str]:
    """Return the names that the members of the archive at ``path`` want from elsewhere.

    Other members may define them. Those of formats without a table that can be read here (link-time
    optimisation) count as wanting nothing.

    Raises
    ------
    FormatError
        If the archive or a member is malformed.
    OSError
        If it can't be read.
    """
    found: set[str] = set()
    with File(path) as file:
        archive = _ar.Archive(file)
        if archive.thin:
            return found
        # Members that overlap would be read again and again.
        left = 2 * file.size
        for at in archive.members:
            offset, size = archive.member(at)
            left -= size
            if left < 0:
                raise file.error("its members overlap")
            part = file.part(offset, size)
            magic = part.at(0, min(size, _COFF_HEADER), "member")
            try:
                if magic[:4] == b"\x7fELF":
                    found |= _undefined_elf(part)
                elif magic[:4] in _macho.MAGICS:
                    found |= _undefined_macho(part, magic[:4])
                elif magic[:4] != _ar.SHORT_IMPORT and len(magic) == _COFF_HEADER:
                    found |= _undefined_coff(part, magic)
            except struct.error:
                raise file.error("malformed member") from None
    return found


def _undefined_elf(part: File) -> set[str]:
    ident = part.at(0, 16, "header")
    if ident[4] not in _elf.CLASSES or ident[5] not in _elf.ORDERS:
        raise part.error("malformed member")
    order = _elf.ORDERS[ident[5]][0]
    wide = _elf.CLASSES[ident[4]][0] == 64
    header = struct.Struct(order + ("QQIHHHHHH" if wide else "IIIHHHHHH"))
    _, table, _, _, _, _, entry, count, _ = header.unpack(
        part.at(32 if wide else 28, header.size, "header")
    )
    section = struct.Struct(order + ("IIQQQQIIQQ" if wide else "IIIIIIIIII"))
    if not count or entry != section.size:
        return set()
    sections = list(section.iter_unpack(part.at(table, count * entry, "sections")))
    symbol = struct.Struct(order + ("IBBHQQ" if wide else "IIIBBH"))
    found: set[str] = set()
    for _, kind, _, _, offset, size, link, _, _, _ in sections:
        if kind != _SHT_SYMTAB or link >= len(sections):
            continue
        symbols = part.at(offset, size - size % symbol.size, "symbols")
        names = Names(part, part.at(sections[link][4], sections[link][5], "names"))
        # The section's number is what a symbol is defined in; 0 is none.
        index = 3 if wide else 5
        wanted = [
            each[0] for each in symbol.iter_unpack(symbols) if each[index] == 0 and each[0] != 0
        ]
        found.update(names.many(wanted))
    return found


def _undefined_macho(part: File, magic: bytes) -> set[str]:
    order, bits = _macho.MAGICS[magic]
    count, size = struct.unpack(f"{order}II", part.at(16, 8, "header"))
    begin = 32 if bits == 64 else 28
    commands = part.at(begin, size, "load commands")
    symbol = struct.Struct(order + ("IBBHQ" if bits == 64 else "IBBHI"))
    at = 0
    for _ in range(count):
        kind, length = struct.unpack_from(f"{order}II", commands, at)
        if kind == _LC_SYMTAB:
            offset, number, strings, length_of_strings = struct.unpack_from(
                f"{order}IIII", commands, at + 8
            )
            names = Names(part, part.at(strings, length_of_strings, "names"))
            table = part.at(offset, number * symbol.size, "symbols")
            wanted = [
                name
                for name, type_, section, _, value in symbol.iter_unpack(table)
                if type_ & _N_EXT and not type_ & _N_STAB and section == 0 and value == 0
            ]
            return {name.removeprefix("_") for name in names.many(wanted)}
        if length < 8:
            raise part.error("malformed member")
        at += length
    return set()


def _undefined_coff(part: File, header: bytes) -> set[str]:
    machine, _, _, table, count = struct.unpack_from("<HHIII", header)
    if not count or machine not in _pe.MACHINES:
        return set()
    symbols = part.at(table, count * _COFF_SYMBOL, "symbols")
    at = table + count * _COFF_SYMBOL
    (size,) = struct.unpack("<I", part.at(at, 4, "names"))
    names = Names(part, part.at(at, min(size, part.size - at), "names"))
    found, wanted = set(), []
    skip = 0
    for short, value, section, _, kind, more in struct.iter_unpack("<8sIhHBB", symbols):
        if skip:
            skip -= 1
            continue
        skip = more
        if kind == _EXTERNAL and section == 0 and value == 0:
            if short[:4] == b"\0\0\0\0":
                wanted.append(int.from_bytes(short[4:], "little"))
            else:
                found.add(short.rstrip(b"\0").decode("utf-8", "surrogateescape"))
    found.update(names.many(wanted))
    return {name.removeprefix("__imp_") for name in found}


def link_names(wanted: Iterable[str]) -> tuple[str, ...]:
    """Return the link names of what the compiler and the system must bring, in order."""
    found = set()
    for name in wanted:
        if name in _MATH:
            found.add("m")
            continue
        for beginning, link_name in _BEGINNINGS.items():
            if name.startswith(beginning):
                found.add(link_name)
    return tuple(name for name in _ORDER if name in found)
