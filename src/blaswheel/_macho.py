"""macOS libraries (Mach-O), thin and universal, read the way the dynamic loader reads them.

Exports come from the export trie, which is what the loader searches; libraries older than it have
the symbol table only. C names begin with an underscore in this format: it is removed, and exports
without one, which C can't name, are left out.

Specification: Apple's ``mach-o/loader.h``, ``fat.h`` and ``nlist.h``.
"""

from __future__ import annotations

import os
import struct
from itertools import compress

from blaswheel._binary import Binary
from blaswheel._bounded import MAX_NAME, File, Names, Spans, decoded, unique
from blaswheel._errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: Magic number: byte order and word size
MAGICS = {
    b"\xfe\xed\xfa\xce": (">", 32),
    b"\xfe\xed\xfa\xcf": (">", 64),
    b"\xce\xfa\xed\xfe": ("<", 32),
    b"\xcf\xfa\xed\xfe": ("<", 64),
}
#: Magic number of a universal file: one entry of its table, (type, subtype, offset, size)
UNIVERSAL = {b"\xca\xfe\xba\xbe": ">IIII4x", b"\xca\xfe\xba\xbf": ">IIQQ8x"}
#: cputype: the machine as wheel tags of other platforms call it
MACHINES = {
    7: "i686",
    12: "armv7l",
    18: "ppc",
    0x01000007: "x86_64",
    0x0100000C: "aarch64",
    0x02000012: "arm64_32",
    0x01000012: "ppc64",
}
#: (cputype, cpusubtype without its flags): what only some of those machines run
SUBTYPES = {(0x01000007, 8): "x86_64h", (0x0100000C, 2): "arm64e"}
#: Word size: size of the file header, segment header, section header, symbol
LAYOUTS = {
    32: (28, "16s4I4i", "16s16sIIIIIIIII", "IBBHI"),
    64: (32, "16s4Q4i", "16s16sQQIIIIIIII", "IBBHQ"),
}
#: PLATFORM_* of LC_BUILD_VERSION, and the older commands
PLATFORMS = {1: "macos", 2: "ios", 3: "tvos", 4: "watchos", 6: "maccatalyst", 7: "iossimulator"}
VERSION_MIN = {0x24: "macos", 0x25: "ios", 0x2F: "tvos", 0x30: "watchos"}
#: More machines than that are a Java class file, which begins with the same number.
MAX_PARTS = 32
MAX_COMMANDS = 16 << 20

MH_EXECUTE, MH_DYLIB, MH_BUNDLE, MH_DYLIB_STUB = 2, 6, 8, 9
MH_TWOLEVEL = 0x80
LC_REQ_DYLD = 0x80000000
LC_SEGMENT, LC_SEGMENT_64 = 0x1, 0x19
LC_SYMTAB, LC_DYSYMTAB = 0x2, 0xB
LC_ID_DYLIB, LC_LOAD_DYLIB, LC_LAZY_LOAD_DYLIB = 0xD, 0xC, 0x20
LC_LOAD_WEAK_DYLIB = 0x18 | LC_REQ_DYLD
LC_REEXPORT_DYLIB = 0x1F | LC_REQ_DYLD
LC_LOAD_UPWARD_DYLIB = 0x23 | LC_REQ_DYLD
LC_RPATH = 0x1C | LC_REQ_DYLD
LC_DYLD_INFO, LC_DYLD_INFO_ONLY = 0x22, 0x22 | LC_REQ_DYLD
LC_DYLD_EXPORTS_TRIE = 0x33 | LC_REQ_DYLD
LC_BUILD_VERSION = 0x32
LOADS = (
    LC_LOAD_DYLIB,
    LC_LOAD_WEAK_DYLIB,
    LC_REEXPORT_DYLIB,
    LC_LOAD_UPWARD_DYLIB,
    LC_LAZY_LOAD_DYLIB,
)
VM_PROT_EXECUTE = 4
#: S_ATTR_PURE_INSTRUCTIONS, S_ATTR_SOME_INSTRUCTIONS
INSTRUCTIONS = 0x80000000 | 0x400
EXPORT_SYMBOL_FLAGS_KIND_MASK, EXPORT_SYMBOL_FLAGS_KIND_ABSOLUTE = 3, 2
EXPORT_SYMBOL_FLAGS_REEXPORT = 8
N_STAB, N_PEXT, N_TYPE, N_EXT = 0xE0, 0x10, 0x0E, 0x01
N_UNDF, N_ABS, N_SECT, N_INDR = 0x0, 0x2, 0xE, 0xA
#: Entries of the indirect symbol table that name no symbol: INDIRECT_SYMBOL_LOCAL, ..._ABS
INDIRECT_NONE = 0xC0000000


def read(path: str, machine: str | None = None) -> Binary:
    """Read the Mach-O library or program at ``path``.

    Parameters
    ----------
    path : str
        A thin or universal file; also a universal one of static archives.
    machine : str, optional
        Which part of a universal file; by default this machine's, else the first. The record's
        ``machines`` tells which there are.

    Raises
    ------
    FormatError
        If it is no such file, truncated or malformed, or has no part for ``machine``.
    OSError
        If it can't be opened.
    """
    with File(path) as file:
        return parse(file, machine)


def parse(file: File, machine: str | None = None) -> Binary:
    """Read an open file."""
    if file.at(0, min(4, file.size), "file header") not in UNIVERSAL:
        return _Image(file).binary()
    parts = _parts(file)
    machines = tuple(parts)
    if machine is None:
        here = _this_machine()
        machine = here if here in parts else machines[0]
    if machine not in parts:
        raise FormatError(
            f"{file.path}: not for {machine}, but for {', '.join(machines)}",
            "choose another library, or another machine",
        )
    part = parts[machine]
    if part.at(0, min(8, part.size), "file header") == b"!<arch>\n":
        from blaswheel import _ar

        binary = _ar.parse(part)
    else:
        binary = _Image(part).binary()
    if binary.machine != machine:
        raise file.error(f"its part for {machine} is for {binary.machine}")
    return binary.replace(machines=machines)


def _this_machine() -> str:
    name = os.uname().machine if hasattr(os, "uname") else ""
    return {"arm64": "aarch64"}.get(name, name)


def machine_name(kind: int, subtype: int) -> str:
    """Return the machine of a cputype and cpusubtype."""
    name = MACHINES.get(kind, f"macho-{kind}")
    return SUBTYPES.get((kind, subtype & 0xFFFFFF), name)


def _parts(file: File) -> dict[str, File]:
    """Return the parts of a universal file by machine, in order."""
    magic, count = file.at(0, 4, "file header"), file.at(4, 4, "file header")
    entry, parts = UNIVERSAL[magic], int.from_bytes(count, "big")
    if not 0 < parts <= MAX_PARTS:
        raise file.error("not a Mach-O file")
    length = struct.calcsize(entry)
    table = list(struct.iter_unpack(entry, file.at(8, length * parts, "table of machines")))
    end = 8 + length * parts
    for _, _, offset, size in sorted(table, key=lambda each: each[2]):
        if offset < end:
            raise file.error("its parts overlap")
        end = offset + size
    found: dict[str, File] = {}
    for kind, subtype, offset, size in table:
        found.setdefault(machine_name(kind, subtype), file.part(offset, size))
    return found


class _Image:
    """An open thin file with its load commands read."""

    def __init__(self, file: File) -> None:
        self.file = file
        magic = file.at(0, 4, "file header")
        if magic not in MAGICS:
            raise file.error("not a Mach-O file")
        self.order, self.bits = MAGICS[magic]
        header, *self.layouts = LAYOUTS[self.bits]
        kind, subtype, self.type, count, size, self.flags = struct.unpack(
            f"{self.order}6I", file.at(4, 24, "file header")
        )
        if self.type not in (MH_EXECUTE, MH_DYLIB, MH_BUNDLE, MH_DYLIB_STUB):
            raise file.error("an object file or core dump, not a shared library")
        self.machine = machine_name(kind, subtype)
        if size > MAX_COMMANDS:
            raise file.error("malformed load commands")
        self.install_name: str | None = None
        self.needed: list[str] = []
        self.reexports: list[str] = []
        self.rpath: list[str] = []
        self.systems: list[tuple[str, str]] = []
        #: (address, end) and flags of each section, and of each segment with code
        self.sections: list[tuple[int, int, int]] = []
        self.base: int | None = None
        #: (offset, size) of the export trie
        self.trie: tuple[int, int] | None = None
        self.symtab = (0, 0, 0, 0)
        self.dysymtab: tuple[int, ...] | None = None
        self.commands(file.at(header, size, "load commands"), count)

    def commands(self, content: bytes, count: int) -> None:
        """Read the load commands."""
        at = 0
        for _ in range(count):
            if at + 8 > len(content):
                raise self.file.error("malformed load commands")
            what, size = struct.unpack_from(f"{self.order}II", content, at)
            if size < 8 or at + size > len(content):
                raise self.file.error("malformed load commands")
            try:
                self.command(what, content[at : at + size])
            except struct.error:
                raise self.file.error("malformed load commands") from None
            at += size

    def command(self, what: int, content: bytes) -> None:
        """Take from one load command what is of interest."""

        def words(count: int) -> tuple[int, ...]:
            return struct.unpack_from(f"{self.order}{count}I", content, 8)

        if what in (LC_SEGMENT, LC_SEGMENT_64):
            self.segment(content)
        elif what == LC_SYMTAB:
            offset, symbols, strings, size = words(4)
            self.symtab = (offset, symbols, strings, size)
        elif what == LC_DYSYMTAB:
            self.dysymtab = words(18)
        elif what in (LC_DYLD_INFO, LC_DYLD_INFO_ONLY):
            offset, size = words(10)[8:]
            self.trie = (offset, size)
        elif what == LC_DYLD_EXPORTS_TRIE:
            offset, size = words(2)
            self.trie = (offset, size)
        elif what == LC_ID_DYLIB:
            self.install_name = self.text(content)
        elif what == LC_RPATH:
            self.rpath.append(self.text(content))
        elif what in LOADS:
            self.needed.append(self.text(content))
            if what == LC_REEXPORT_DYLIB:
                self.reexports.append(self.needed[-1])
        elif what == LC_BUILD_VERSION:
            platform, version = words(2)
            self.systems.append((PLATFORMS.get(platform, f"platform-{platform}"), _dotted(version)))
        elif what in VERSION_MIN:
            self.systems.append((VERSION_MIN[what], _dotted(words(1)[0])))

    def text(self, content: bytes) -> str:
        """Return the string of a load command, whose place its first word tells."""
        (offset,) = struct.unpack_from(f"{self.order}I", content, 8)
        if not 12 <= offset <= len(content):
            raise self.file.error("malformed load commands")
        return content[offset:].split(b"\0", 1)[0].decode("utf-8", "surrogateescape")

    def segment(self, content: bytes) -> None:
        segment, section, _ = (self.order + layout for layout in self.layouts)
        _, address, memory, offset, size, _, protection, count, _ = struct.unpack_from(
            segment, content, 8
        )
        if self.type != MH_DYLIB_STUB and offset + size > self.file.size:
            raise self.file.error("truncated")
        if offset == 0 and size and self.base is None:
            # The segment that holds the file header: trie addresses count from there.
            self.base = address
        at, step = 8 + struct.calcsize(segment), struct.calcsize(section)
        if at + count * step > len(content) or count < 0:
            raise self.file.error("malformed load commands")
        for values in struct.iter_unpack(section, content[at : at + count * step]):
            begin, length, flags = values[2], values[3], values[8]
            self.sections.append((begin, begin + length, flags))
        if not count and protection & VM_PROT_EXECUTE:
            self.sections.append((address, address + memory, INSTRUCTIONS))

    def binary(self) -> Binary:
        """Read the rest."""
        symbols = _Symbols(self)
        exports = symbols.exports() if self.trie is None else _trie_exports(self, *self.trie)
        macos = [each for each in self.systems if each[0] == "macos"]
        symbolic = bool(self.flags & MH_TWOLEVEL)
        exported = {*exports.functions, *exports.objects}
        return Binary(
            path=self.file.path,
            format="macho",
            machine=self.machine,
            bits=self.bits,
            byte_order="little" if self.order == "<" else "big",
            soname=self.install_name,
            needed=tuple(self.needed),
            rpath=tuple(self.rpath),
            functions=unique(exports.functions),
            objects=unique(exports.objects),
            imports=unique(map(_plain, symbols.undefined())),
            interposable=()
            if symbolic
            else unique(exported.intersection(map(_plain, symbols.indirect()))),
            symbolic=symbolic,
            minimum_os=next(iter(macos or self.systems), None),
            forwards=tuple(sorted(exports.forwards)),
            reexports=tuple(self.reexports),
        )


class _Exports:
    """Exported C names by kind, from their raw names and addresses."""

    def __init__(
        self,
        image: _Image,
        names: list[str],
        addresses: Sequence[int],
        forwards: list[tuple[str, str]],
    ) -> None:
        code = Spans((begin, end) for begin, end, flags in image.sections if flags & INSTRUCTIONS)
        inside = code.hold(addresses)
        outside = [not each for each in inside]
        self.functions = [name[1:] for name in compress(names, inside) if name[:1] == "_"]
        self.objects = [name[1:] for name in compress(names, outside) if name[:1] == "_"]
        self.forwards = [
            (name[1:], _plain(target or name)) for name, target in forwards if name[:1] == "_"
        ]
        # Whether code or data is for the other library to say; nearly all is code.
        self.functions += [name for name, _ in self.forwards]


def _trie_exports(image: _Image, offset: int, size: int) -> _Exports:
    """Read the export trie.

    A node is the size of what follows for the name that ends here (none if 0), that, the number
    of branches, and for each the text it adds to the name and the offset of its node. Numbers are
    LEB128: seven bits a byte, lowest first, the highest bit set in all but the last. Calls cost
    most here, so short numbers are read in place.
    """
    file, what = image.file, "export table"
    trie = file.at(offset, size, what)
    text = trie.decode("latin-1")
    names: list[str] = []
    places: list[int] = []
    # In a tree of this size there are no more nodes: more come from a loop, or shared branches.
    nodes = size // 2 + 1
    known = spent = 0
    pending = [(0, "")] if size else []
    try:
        while pending:
            begin, name = pending.pop()
            at = begin + 1
            info = trie[begin]
            if info:
                if info > 127:
                    info, at = _number(trie, begin)
                names.append(name)
                places.append(at)
                at += info
            branches = trie[at]
            at += 1
            for _ in range(branches):
                end = text.index("\0", at)
                longer = name + text[at:end]
                child = trie[end + 1]
                at = end + 2
                if child > 127:
                    child += (trie[at] - 1) << 7
                    at += 1
                    if child > 0x3FFF:
                        child += (trie[at] - 1) << 14
                        at += 1
                        if child > 0x1FFFFF:
                            child, at = _number(trie, end + 1)
                info = trie[child]
                if 0 < info < 128 and not trie[child + 1 + info]:
                    # Most nodes end a name and have no branches.
                    names.append(longer)
                    places.append(child + 1)
                else:
                    pending.append((child, longer))
            nodes -= branches
            if nodes < 0:
                raise file.error(f"the {what} has a loop")
            known += branches
            spent += len(name) * branches + at - begin
            if spent > MAX_NAME:
                if len(name) > MAX_NAME:
                    raise file.error("a name is too long")
                file.spend(known, spent)
                known = spent = 0
        file.spend(known, spent)
        addresses, forwards = _terminals(image, trie, places)
    except (IndexError, ValueError):
        raise file.error(f"the {what} has no end") from None
    if not all(map(str.isascii, names)):
        names = decoded([name.encode("latin-1") for name in names])
    if forwards:
        kept = [index not in forwards for index in range(len(names))]
        pairs = [(names[index], target) for index, target in forwards.items()]
        return _Exports(image, list(compress(names, kept)), list(compress(addresses, kept)), pairs)
    return _Exports(image, names, addresses, [])


def _terminals(image: _Image, trie: bytes, places: list[int]) -> tuple[list[int], dict[int, str]]:
    """Read what a trie says of the names that end at these places.

    Returns the address of each, and the name in another library of those that are re-exported,
    by their index (empty if it is the same).
    """
    base = image.base or 0
    addresses: list[int] = []
    forwards: dict[int, str] = {}
    for index, at in enumerate(places):
        if not trie[at]:
            # No flags, and an address of at most four bytes: nearly all.
            value = trie[at + 1]
            if value > 127:
                value += (trie[at + 2] - 1) << 7
                if value > 0x3FFF:
                    value += (trie[at + 3] - 1) << 14
                    if value > 0x1FFFFF:
                        value += (trie[at + 4] - 1) << 21
                        if value > 0xFFFFFFF:
                            value, _ = _number(trie, at + 1)
            addresses.append(base + value)
            continue
        flags, begin = _number(trie, at)
        value, begin = _number(trie, begin)
        if flags & EXPORT_SYMBOL_FLAGS_REEXPORT:
            end = trie.find(0, begin, begin + MAX_NAME)
            if end < 0:
                raise image.file.error("a name lies outside its table")
            image.file.spend(1, end - begin)
            forwards[index] = trie[begin:end].decode("utf-8", "surrogateescape")
        # An absolute value is no address of code.
        absolute = flags & EXPORT_SYMBOL_FLAGS_KIND_MASK == EXPORT_SYMBOL_FLAGS_KIND_ABSOLUTE
        addresses.append(-1 if absolute else base + value)
    return addresses, forwards


def _number(content: bytes, at: int) -> tuple[int, int]:
    """Return the LEB128 number at an offset, and the offset after it."""
    value = shift = 0
    while shift < 64:
        byte = content[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    # As wrong as one that the table's end cuts off.
    raise IndexError


def _plain(name: str) -> str:
    """Return the C name; what has no underscore stays as it is (``dyld_stub_binder``)."""
    return name[1:] if name[:1] == "_" else name


def _dotted(version: int) -> str:
    """Return a version that is packed as xxxx.yy.zz; a zero at the end is left out."""
    major, minor, patch = version >> 16, version >> 8 & 255, version & 255
    return f"{major}.{minor}.{patch}" if patch else f"{major}.{minor}"


class _Symbols:
    """The symbol table: what is wanted from others, and old libraries' exports."""

    def __init__(self, image: _Image) -> None:
        self.image = image
        self.offset, self.count, strings, size = image.symtab
        self.layout = image.order + image.layouts[2]
        self.size = struct.calcsize(self.layout)
        file = image.file
        if self.offset + self.count * self.size > file.size:
            raise file.error("the symbol table lies outside the file")
        self.strings = Names(file, file.at(strings, size, "string table"))

    def range(self, first: int, count: int) -> list[tuple[int, ...]]:
        """Return some symbols: (name, type, section, flags, value) of each."""
        if first + count > self.count:
            raise self.image.file.error("malformed symbol table")
        self.image.file.spend(count)
        content = self.image.file.at(
            self.offset + first * self.size, count * self.size, "symbol table"
        )
        return list(struct.iter_unpack(self.layout, content))

    def external(self, group: int) -> list[tuple[int, ...]]:
        """Return the external symbols: defined ones (group 0) or undefined ones (group 1).

        ``LC_DYSYMTAB`` tells where in the table they are; without it all are looked at.
        """
        table = self.image.dysymtab
        symbols = (
            self.range(0, self.count)
            if table is None
            else self.range(table[2 + group * 2], table[3 + group * 2])
        )
        return [
            symbol
            for symbol in symbols
            if symbol[1] & (N_STAB | N_PEXT | N_EXT) == N_EXT
            and (symbol[1] & N_TYPE == N_UNDF) == bool(group)
        ]

    def undefined(self) -> list[str]:
        """Return the raw names of what is wanted from other libraries."""
        return self.strings.many([symbol[0] for symbol in self.external(1)])

    def indirect(self) -> list[str]:
        """Return the raw names of what is reached through stubs and pointers."""
        table = self.image.dysymtab
        if table is None:
            return []
        content = self.image.file.at(table[12], table[13] * 4, "indirect symbol table")
        entries = {entry for (entry,) in struct.iter_unpack(f"{self.image.order}I", content)}
        indices = [entry for entry in entries if not entry & INDIRECT_NONE]
        if indices and max(indices) >= self.count:
            raise self.image.file.error("malformed symbol table")
        symbols = self.range(0, self.count) if indices else []
        return self.strings.many([symbols[index][0] for index in indices])

    def exports(self) -> _Exports:
        """Return the exports of a library without a trie."""
        defined = [each for each in self.external(0) if each[1] & N_TYPE != N_INDR]
        renamed = [each for each in self.external(0) if each[1] & N_TYPE == N_INDR]
        return _Exports(
            self.image,
            self.strings.many([symbol[0] for symbol in defined]),
            [symbol[4] if symbol[1] & N_TYPE == N_SECT else -1 for symbol in defined],
            list(
                zip(
                    self.strings.many([symbol[0] for symbol in renamed]),
                    # Their value is where in the table of names the other name is.
                    self.strings.many([symbol[4] for symbol in renamed]),
                    strict=True,
                )
            ),
        )
