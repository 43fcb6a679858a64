"""Windows DLLs: the export table, and what is imported from which other DLL.

Specification: Microsoft's "PE Format"
(https://learn.microsoft.com/windows/win32/debug/pe-format).
"""

from __future__ import annotations

import struct
from itertools import compress

from blaswheel._binary import Binary
from blaswheel._bounded import MAX_NAME, File, Names, Spans, unique

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: IMAGE_FILE_MACHINE_*: the machine as wheel tags of other platforms call it, word size
MACHINES = {
    0x014C: ("i686", 32),
    0x01C4: ("armv7l", 32),
    0x8664: ("x86_64", 64),
    0xA641: ("arm64ec", 64),
    0xA64E: ("aarch64", 64),
    0xAA64: ("aarch64", 64),
}
#: Magic of the optional header: its part before the data directories, word size, an import entry
OPTIONAL = {0x10B: (96, 32, "I"), 0x20B: (112, 64, "Q")}
#: Where in the optional header the subsystem's version is
SUBSYSTEM_VERSION = 48
EXPORTS, IMPORTS, DELAYED_IMPORTS = 0, 1, 13
IMAGE_FILE_DLL, IMAGE_FILE_EXECUTABLE_IMAGE = 0x2000, 0x0002
IMAGE_SCN_CNT_CODE, IMAGE_SCN_MEM_EXECUTE = 0x20, 0x20000000
#: Windows loads no more.
MAX_SECTIONS = 96
#: Sections of this size are read once, as a whole.
MAX_KEPT = 1 << 20
#: Ordinals have 16 bits, but several names may share one.
MAX_EXPORTS = 1 << 18
#: Real libraries use a few dozen DLLs and a few thousand names of them.
MAX_DLLS = 4096
MAX_IMPORTS = 1 << 20


def read(path: str) -> Binary:
    """Read the DLL or program at ``path``.

    Raises
    ------
    FormatError
        If it is no such file, truncated or malformed.
    OSError
        If it can't be opened.
    """
    with File(path) as file:
        return parse(file)


def parse(file: File) -> Binary:
    """Read an open file."""
    return _Image(file).binary()


class _Section:
    """Where a section is in memory, where in the file, and its content once it was asked for."""

    def __init__(self, address: int, size: int, offset: int, length: int, flags: int) -> None:
        #: the part of it that the file holds; the rest is zero
        self.begin, self.end = address, address + min(size or length, length)
        self.memory_end = address + (size or length)
        self.offset = offset
        self.content: bytes | None = None
        self.code = bool(flags & (IMAGE_SCN_CNT_CODE | IMAGE_SCN_MEM_EXECUTE))


class _Image:
    """An open file with its headers read."""

    def __init__(self, file: File) -> None:
        self.file = file
        header = file.at(0, 64, "file header")
        if header[:2] != b"MZ":
            raise file.error("not a PE file")
        (start,) = struct.unpack_from("<I", header, 60)
        header = file.at(start, 24, "file header")
        if header[:4] != b"PE\0\0":
            raise file.error("a DOS or 16-bit program, not a DLL")
        machine, count, _, _, _, length, kind = struct.unpack_from("<HHIIIHH", header, 4)
        if not kind & IMAGE_FILE_EXECUTABLE_IMAGE:
            raise file.error("not linked, not a DLL")
        optional = file.at(start + 24, length, "optional header")
        magic = int.from_bytes(optional[:2], "little")
        if magic not in OPTIONAL or length < OPTIONAL[magic][0]:
            raise file.error("malformed optional header")
        fixed, self.bits, self.entry = OPTIONAL[magic]
        self.machine, bits = MACHINES.get(machine, (f"pe-{machine:04x}", self.bits))
        if bits != self.bits:
            raise file.error("its word size is not that of its machine")
        version = struct.unpack_from("<HH", optional, SUBSYSTEM_VERSION)
        self.minimum = ".".join(map(str, version))
        (directories,) = struct.unpack_from("<I", optional, fixed - 4)
        if directories > (length - fixed) // 8:
            raise file.error("malformed optional header")
        #: (address, size) of each table
        self.directories = list(
            struct.iter_unpack("<II", optional[fixed : fixed + directories * 8])
        )
        (size_of_headers,) = struct.unpack_from("<I", optional, 60)
        self.sections = [_Section(0, size_of_headers, 0, min(size_of_headers, file.size), 0)]
        if count > MAX_SECTIONS:
            raise file.error("too many sections")
        table = file.at(start + 24 + length, count * 40, "section table")
        for size, address, raw, offset, flags in struct.iter_unpack("<8x4I12xI", table):
            if raw and offset + raw > file.size:
                raise file.error("truncated")
            self.sections.append(_Section(address, size, offset, raw if offset else 0, flags))
        self.recent = self.sections[0]

    def section(self, address: int, what: str) -> _Section:
        """Return the section with an address that the file has content for."""
        if self.recent.begin <= address < self.recent.end:
            return self.recent
        for section in self.sections:
            if section.begin <= address < section.end:
                self.recent = section
                return section
        raise self.file.error(f"outside the file: {what}")

    def read(self, section: _Section, begin: int, end: int) -> tuple[bytes, int]:
        """Return the content of a part of a section, or of more, and the address of its start.

        What memory holds beyond the file's part is zero: the first byte of that is included.
        """
        kept = section.end - section.begin <= MAX_KEPT
        if kept:
            begin, end = section.begin, section.end
        content = section.content
        if content is None:
            content = self.file.at(section.offset + begin - section.begin, end - begin, "section")
            if section.end < section.memory_end:
                content += b"\0"
            if kept:
                section.content = content
        return content, begin

    def load(self, address: int, length: int, what: str) -> bytes:
        """Return ``length`` bytes at an address."""
        if not length:
            return b""
        section = self.section(address, what)
        end = address + length
        if end > section.end:
            raise self.file.error(f"outside its section: {what}")
        content, begin = self.read(section, address, end)
        return content[address - begin : end - begin]

    def name(self, address: int) -> str:
        """Return the name at an address."""
        return self.names((address,))[0]

    def names(self, addresses: tuple[int, ...]) -> list[str]:
        """Return the names at these addresses, in this order."""
        if not addresses:
            return []
        begin, end = min(addresses), max(addresses)
        section = self.section(begin, "name")
        if end >= section.end:
            # Not in one section, which no linker does but the format allows.
            inside = [address for address in addresses if section.begin <= address < section.end]
            found = dict(zip(inside, self.names(tuple(inside)), strict=True))
            outside = [address for address in addresses if address not in found]
            found.update(zip(outside, self.names(tuple(outside)), strict=True))
            return [found[address] for address in addresses]
        content, begin = self.read(section, begin, min(end + MAX_NAME, section.end))
        return Names(self.file, content).many([address - begin for address in addresses])

    def directory(self, index: int) -> tuple[int, int]:
        """Return the address and size of a table, (0, 0) if there is none."""
        found = self.directories[index] if index < len(self.directories) else (0, 0)
        return found if found[0] else (0, 0)

    def binary(self) -> Binary:
        """Read the rest."""
        exports = _Exports(self)
        imports = _Imports(self)
        return Binary(
            path=self.file.path,
            format="pe",
            machine=self.machine,
            bits=self.bits,
            byte_order="little",
            soname=exports.dll,
            needed=tuple(dict.fromkeys(imports.dlls)),
            functions=unique(exports.functions),
            objects=unique(exports.objects),
            imports=unique(imports.names),
            # Names are always looked up in the DLL that they were imported from.
            symbolic=True,
            minimum_os=("windows", self.minimum),
            forwards=tuple(sorted(exports.forwards)),
        )


class _Exports:
    """The export table."""

    def __init__(self, image: _Image) -> None:
        self.dll: str | None = None
        self.functions: list[str] = []
        self.objects: list[str] = []
        self.forwards: list[tuple[str, str]] = []
        table, size = image.directory(EXPORTS)
        if not table:
            return
        name, _, functions, names, addresses, pointers, ordinals = struct.unpack(
            "<12x7I", image.load(table, 40, "export table")
        )
        if name:
            self.dll = image.name(name)
        # What has an ordinal only has no name to link by.
        what = "export table"
        if names > MAX_EXPORTS:
            raise image.file.error(f"the {what} is too large")
        pointed = struct.unpack(f"<{names}I", image.load(pointers, names * 4, what))
        numbers = struct.unpack(f"<{names}H", image.load(ordinals, names * 2, what))
        if numbers and max(numbers) >= functions:
            raise image.file.error(f"malformed {what}")
        targets = struct.unpack(f"<{functions}I", image.load(addresses, functions * 4, what))
        where = [targets[number] for number in numbers]
        found = image.names(pointed)
        code = Spans((each.begin, each.memory_end) for each in image.sections if each.code)
        executable = code.hold(where)
        forwarded = Spans(((table, table + size),)).hold(where)
        if any(forwarded):
            # Whether code or data is for the other DLL to say; nearly all is code.
            executable = [one or other for one, other in zip(executable, forwarded, strict=True)]
            texts = image.names(tuple(compress(where, forwarded)))
            self.forwards = list(zip(compress(found, forwarded), texts, strict=True))
        self.functions = list(compress(found, executable))
        if len(self.functions) < len(found):
            # No address: an entry that is not used.
            rest = zip(found, where, executable, strict=True)
            self.objects = [name for name, address, is_code in rest if address and not is_code]


class _Imports:
    """The import tables, of the DLLs that are loaded at once and of those that may come later."""

    def __init__(self, image: _Image) -> None:
        self.image = image
        self.dlls: list[str] = []
        self.names: list[str] = []
        self.remaining = MAX_IMPORTS
        for lookup, _, _, dll, addresses in self.descriptors(IMPORTS, "<5I"):
            if not dll or not addresses:
                break
            # Some linkers write no lookup table; then the address table in the file is its copy.
            self.add(dll, lookup or addresses)
        for attributes, dll, _, _, lookup, _, _, _ in self.descriptors(DELAYED_IMPORTS, "<8I"):
            if not dll:
                break
            # Without this bit, they are addresses of a 32-bit process, as Visual C++ 6 wrote them.
            if attributes & 1:
                self.add(dll, lookup)

    def descriptors(self, directory: int, layout: str) -> Iterator[tuple[int, ...]]:
        """Yield the entries of a table that ends with an empty one."""
        table, _ = self.image.directory(directory)
        step = struct.calcsize(layout)
        for index in range(MAX_DLLS if table else 0):
            yield struct.unpack(layout, self.image.load(table + index * step, step, "import table"))
        if table:
            raise self.image.file.error("the import table has no end")

    def add(self, dll: int, lookup: int) -> None:
        """Add the names that are wanted from one DLL."""
        image = self.image
        self.dlls.append(image.name(dll))
        by_ordinal = 1 << (image.bits - 1)
        section = image.section(lookup, "import table")
        addresses: list[int] = []
        size = image.bits // 8
        at = lookup
        while True:
            length = min(512, section.end - at) // size * size
            if not length:
                raise image.file.error("the import table has no end")
            content = image.load(at, length, "import table")
            entries = struct.unpack(f"<{length // size}{image.entry}", content)
            end = entries.index(0) if 0 in entries else len(entries)
            # A hint of two bytes comes before each name.
            addresses += [entry + 2 for entry in entries[:end] if not entry & by_ordinal]
            self.remaining -= len(entries)
            if self.remaining < 0:
                raise image.file.error("the import table is too large")
            if end < len(entries):
                break
            at += length
        self.names += image.names(tuple(addresses))
