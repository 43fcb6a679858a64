"""ELF shared libraries, read the way the dynamic loader reads them.

Only program headers and the dynamic section are used: section headers are not needed at run time,
and stripping may have removed them. A file is hostile input: every offset is checked against the
file, every table is bounded, and what does not fit is a `FormatError`.

Specification: the System V gABI, chapters 4 and 5 (https://gabi.xinuos.com); symbol versions as in
the Linux Standard Base, ``DT_GNU_HASH`` as the GNU linker writes it.
"""

from __future__ import annotations

import os
import stat
import struct
import sys
from itertools import accumulate, compress

from blaswheel._binary import Binary
from blaswheel._errors import FormatError
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterator
    from typing import BinaryIO

#: EI_DATA: byte order, its name
ORDERS = {1: ("<", "little"), 2: (">", "big")}
#: EI_CLASS: bits, rest of the file header, program header, where in it are (type, flags, offset,
#: address, size in the file), an address, 32-bit words per symbol, which of them holds info,
#: other and section index together, and which begins the value
CLASSES = {
    1: (32, "HHIIIIIHHH", "8I", (0, 6, 1, 2, 4), "I", 4, 3, 1),
    2: (64, "HHIQQQIHHH", "2I6Q", (0, 1, 2, 3, 5), "Q", 6, 1, 2),
}
#: (e_machine, bits): the machine as wheel tags call it
MACHINES = {
    (3, 32): "i686",
    (20, 32): "ppc",
    (22, 32): "s390",
    (22, 64): "s390x",
    (40, 32): "armv7l",
    (62, 32): "x32",
    (62, 64): "x86_64",
    (183, 64): "aarch64",
    (243, 32): "riscv32",
    (243, 64): "riscv64",
    (258, 64): "loongarch64",
}
#: Larger than any table of a real library, small enough to hold in memory.
MAX_TABLE = 128 << 20
#: Of all version requirements together; 16 bytes each, and real libraries have some dozens.
MAX_VERSIONS = 64 << 10
#: Linux itself takes no more than 64 KiB of program headers; real files have a dozen.
MAX_SEGMENTS = 1024

ET_EXEC, ET_DYN = 2, 3
PT_LOAD, PT_DYNAMIC = 1, 2
PF_X, PF_W = 1, 2
DT_NEEDED, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT = 1, 4, 5, 6, 10, 11
DT_SONAME, DT_RPATH, DT_SYMBOLIC, DT_RUNPATH, DT_FLAGS = 14, 15, 16, 29, 30
DT_RELA, DT_RELASZ, DT_REL, DT_RELSZ = 7, 8, 17, 18
DT_PLTRELSZ, DT_PLTREL, DT_JMPREL = 2, 20, 23
DT_GNU_HASH, DT_RELACOUNT, DT_RELCOUNT = 0x6FFFFEF5, 0x6FFFFFF9, 0x6FFFFFFA
DT_RELR, DT_VERSYM, DT_VERNEED, DT_VERNEEDNUM = 36, 0x6FFFFFF0, 0x6FFFFFFE, 0x6FFFFFFF
DF_SYMBOLIC = 2
SHN_UNDEF, SHN_ABS = 0, 0xFFF1
STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_COMMON, STT_TLS, STT_GNU_IFUNC = 0, 1, 2, 5, 6, 10
#: STB_GLOBAL, STB_WEAK, STB_GNU_UNIQUE
VISIBLE_BINDINGS = (1, 2, 10)
STV_DEFAULT, STV_PROTECTED = 0, 3
VER_FLG_WEAK = 2


def read(path: str) -> Binary:
    """Read the ELF shared library or dynamic program at ``path``.

    Raises
    ------
    FormatError
        If it is no such file, truncated or malformed.
    OSError
        If it can't be opened.
    """
    with _open(path) as file:
        return _Image(path, file).binary()


class Requirements(Record):
    """What a file needs of the system that it is loaded on.

    Attributes
    ----------
    machine : str
        As `Binary.machine`.
    needed, rpath, runpath, soname
        As of `Binary`.
    versions : tuple of (str, str, int, bool)
        File, version, index, and whether the file can do without it.
    relr : bool
        Whether it has relative relocations in the packed form (``DT_RELR``).
    """

    machine: str
    soname: str | None
    needed: tuple[str, ...]
    rpath: tuple[str, ...]
    runpath: tuple[str, ...]
    versions: tuple[tuple[str, str, int, bool], ...]
    relr: bool


def requirements(path: str) -> Requirements:
    """Read what an ELF file needs, and nothing of its symbols; a static program needs nothing.

    Raises as `read` does.
    """
    with _open(path) as file:
        image = _Image(path, file, may_be_static=True)

        def text(offset: int) -> str:
            return _text(image, offset)

        def texts(tag: int) -> tuple[str, ...]:
            return tuple(map(text, image.dynamic.get(tag, ())))

        def paths(tag: int) -> tuple[str, ...]:
            return tuple(entry for each in texts(tag) for entry in each.split(":"))

        return Requirements(
            machine=image.machine,
            soname=next(iter(texts(DT_SONAME)[-1:]), None),
            needed=texts(DT_NEEDED),
            rpath=paths(DT_RPATH),
            runpath=paths(DT_RUNPATH),
            versions=tuple(
                (text(name), text(version), index, weak)
                for name, version, index, weak in _version_needs(image)
            ),
            relr=DT_RELR in image.dynamic,
        )


def versioned_symbol(path: str, index: int) -> str | None:
    """Return the first symbol that a file wants in the version of an index.

    Raises as `read` does.
    """
    with _open(path) as file:
        image = _Image(path, file)
        if DT_VERSYM not in image.dynamic:
            return None
        count = _symbol_count(image, 0)
        table = image.load(image.value(DT_VERSYM), count * 2, "versions of symbols")
        per_symbol = image.symbol[0] * 4
        wanted = struct.pack(image.order + "H", index)
        at = -1
        while (at := table.find(wanted, at + 1)) >= 0:
            if at % 2:
                continue
            address = image.value(DT_SYMTAB) + at // 2 * per_symbol
            (offset,) = struct.unpack(image.order + "I", image.load(address, 4, "symbol table"))
            return _text(image, offset)
        return None


def alignments(path: str) -> list[tuple[int, int, int]]:
    """Return offset, address and alignment of each segment that is loaded.

    Raises as `read` does.
    """
    with _open(path) as file:
        return _Image(path, file, may_be_static=True).alignments


def slots(path: str, names: Container[str]) -> list[int]:
    """Return where in memory, from its base, a file has the addresses of functions of others.

    Raises as `read` does.

    Parameters
    ----------
    path : str
    names : container of str
        Which functions.
    """
    with _open(path) as file:
        image = _Image(path, file)
        per_symbol = image.symbol[0] * 4
        wide = image.bits == 64
        found = []
        wanted: dict[int, bool] = {}
        for table, length in ((DT_JMPREL, DT_PLTRELSZ), (DT_RELA, DT_RELASZ), (DT_REL, DT_RELSZ)):
            if table not in image.dynamic:
                continue
            addend = table == DT_RELA or (table == DT_JMPREL and image.value(DT_PLTREL) == DT_RELA)
            pattern = (
                image.order + ("QQ" if wide else "II") + (("q" if wide else "i") if addend else "")
            )
            size = struct.calcsize(pattern)
            content = image.load(image.value(table), image.value(length), "relocations")
            for place, info, *_ in struct.iter_unpack(
                pattern, content[: len(content) // size * size]
            ):
                number = info >> 32 if wide else info >> 8
                if not number:
                    continue
                if number not in wanted:
                    address = image.value(DT_SYMTAB) + number * per_symbol
                    (offset,) = struct.unpack(
                        image.order + "I", image.load(address, 4, "symbol table")
                    )
                    wanted[number] = _text(image, offset) in names
                if wanted[number]:
                    found.append(place)
        return found


def _text(image: _Image, offset: int) -> str:
    """Return the string that begins at an offset of the string table, of at most 4 KiB."""
    left = image.value(DT_STRSZ) - offset
    content = image.load(image.value(DT_STRTAB) + offset, min(max(left, 0), 4096), "string table")
    text, end, _ = content.partition(b"\0")
    if not end:
        raise image.error("a name lies outside the string table")
    return text.decode("utf-8", "surrogateescape")


def constant_ranges(path: str) -> list[tuple[int, int]]:
    """Return (offset, size) of what is loaded read-only, where strings are; code comes last.

    Raises as `read` does.
    """
    with _open(path) as file:
        ranges = [
            (bool(flags & PF_X), offset, end - start)
            for start, end, offset, flags in _Image(path, file).loaded
            if not flags & PF_W
        ]
    return [(offset, size) for _, offset, size in sorted(ranges)]


def _open(path: str) -> BinaryIO:
    """Open a file; a FIFO too, without waiting for one who writes to it."""

    def opener(path: str, flags: int) -> int:
        return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))

    try:
        return open(path, "rb", buffering=0, opener=opener)
    except IsADirectoryError:
        raise _irregular(path) from None


def _irregular(path: str) -> FormatError:
    return FormatError(f"{path}: not a regular file", "give the path of a shared library")


class _Image:
    """An open file with its program headers and dynamic section read."""

    def __init__(self, path: str, file: BinaryIO, *, may_be_static: bool = False) -> None:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise _irregular(path)
        self.path = path
        self.file = file
        self.size = status.st_size
        ident = self.at(0, 16, "file header")
        if ident[:4] != b"\x7fELF":
            raise self.error("not an ELF file")
        if ident[4] not in CLASSES or ident[5] not in ORDERS:
            raise self.error("of an unknown class or byte order")
        self.order, self.byte_order = ORDERS[ident[5]]
        self.bits, header, segment, fields, self.address, *self.symbol = CLASSES[ident[4]]
        header = self.order + header
        kind, machine, _, _, offset, _, _, _, entry, count = struct.unpack(
            header, self.at(16, struct.calcsize(header), "file header")
        )
        if kind not in (ET_EXEC, ET_DYN):
            raise self.error("an object file or core dump, not a shared library")
        self.machine = MACHINES.get((machine, self.bits), f"elf-{machine}")
        if machine == 21:
            self.machine = "ppc64le" if self.byte_order == "little" else "ppc64"
        segment = self.order + segment
        if entry != struct.calcsize(segment) or count > MAX_SEGMENTS:
            raise self.error("malformed program headers")
        table = self.at(offset, entry * count, "program headers")
        #: (address, end of the part that is in the file, offset, flags) of each PT_LOAD
        self.loaded: list[tuple[int, int, int, int]] = []
        dynamic = None
        #: (offset, address, alignment) of each PT_LOAD
        self.alignments: list[tuple[int, int, int]] = []
        for values in struct.iter_unpack(segment, table):
            what, flags, offset, address, length = (values[i] for i in fields)
            if what == PT_LOAD:
                # p_align is the last field in both classes.
                self.alignments.append((offset, address, values[-1]))
                if offset + length > self.size:
                    raise self.error("truncated")
                self.loaded.append((address, address + length, offset, flags))
            elif what == PT_DYNAMIC:
                dynamic = (address, length)
        #: every value of each tag, in order
        self.dynamic: dict[int, list[int]] = {}
        if dynamic is None:
            if may_be_static:
                return
            raise self.error("statically linked, not a shared library")
        #: where the dynamic section is in the file
        self.dynamic_offset = self.extent(dynamic[0], "dynamic section")[0]
        step = struct.calcsize(self.order + self.address) * 2
        content = self.load(dynamic[0], dynamic[1] // step * step, "dynamic section")
        for tag, value in struct.iter_unpack(f"{self.order}2{self.address}", content):
            if tag == 0:
                break
            self.dynamic.setdefault(tag, []).append(value)

    def error(self, what: str) -> FormatError:
        return FormatError(f"{self.path}: {what}", "reinstall what it belongs to")

    def at(self, offset: int, length: int, what: str) -> bytes:
        """Return ``length`` bytes at a file offset."""
        if length > MAX_TABLE or offset + length > self.size:
            raise self.error(f"outside the file: {what}")
        self.file.seek(offset)
        content = self.file.read(length)
        if len(content) != length:
            raise self.error("truncated while it was read")
        return content

    def extent(self, address: int, what: str) -> tuple[int, int]:
        """Return the file offset of an address, and how many bytes of its segment follow."""
        for start, end, offset, _ in self.loaded:
            if start <= address < end:
                return offset + address - start, end - address
        raise self.error(f"outside the file: {what}")

    def load(self, address: int, length: int, what: str) -> bytes:
        """Return ``length`` bytes at an address."""
        if length == 0:
            return b""
        offset, available = self.extent(address, what)
        if length > available:
            raise self.error(f"outside its segment: {what}")
        return self.at(offset, length, what)

    def words(self, content: bytes) -> memoryview:
        """View content as 32-bit words; slicing one with a step is how columns are taken."""
        if self.byte_order != sys.byteorder:
            from array import array

            swapped = array("I", content)
            swapped.byteswap()
            return memoryview(swapped)
        return memoryview(content).cast("I")

    def value(self, tag: int, default: int = 0) -> int:
        """Return the last value of a dynamic tag, as the loader does."""
        return self.dynamic.get(tag, (default,))[-1]

    def binary(self) -> Binary:
        """Read the rest."""
        strings = _Strings(self)
        symbols = _Symbols(self, strings)
        flags = self.value(DT_FLAGS)
        symbolic = DT_SYMBOLIC in self.dynamic or bool(flags & DF_SYMBOLIC)
        soname = self.dynamic.get(DT_SONAME)

        def texts(tag: int) -> tuple[str, ...]:
            return tuple(map(strings.at, self.dynamic.get(tag, ())))

        def paths(tag: int) -> tuple[str, ...]:
            return tuple(entry for text in texts(tag) for entry in text.split(":"))

        return Binary(
            path=self.path,
            format="elf",
            machine=self.machine,
            bits=self.bits,
            byte_order=self.byte_order,
            soname=strings.at(soname[-1]) if soname else None,
            needed=texts(DT_NEEDED),
            rpath=paths(DT_RPATH),
            runpath=paths(DT_RUNPATH),
            functions=symbols.functions,
            objects=symbols.objects,
            imports=symbols.imports,
            version_needs=tuple(
                (strings.at(file), strings.at(version))
                for file, version, _, weak in _version_needs(self)
                if not weak
            ),
            interposable=() if symbolic else symbols.interposable(),
            symbolic=symbolic,
        )


class _Strings:
    """The dynamic string table."""

    def __init__(self, image: _Image) -> None:
        self.image = image
        content = image.load(image.value(DT_STRTAB), image.value(DT_STRSZ), "string table")
        if content[-1:] not in (b"", b"\0"):
            raise image.error("the string table has no end")
        # Latin-1 keeps one character per byte, so that offsets stay what they are.
        self.text = content.decode("latin-1")
        self.plain = content.isascii()
        # Names may overlap, so that a small table could hold any length of text.
        self.left = MAX_TABLE
        self.parts: list[str] = []
        self.starts: list[int] = []

    def at(self, offset: int) -> str:
        """Return the string that begins at an offset."""
        return self.all([offset])[0]

    def all(self, offsets: list[int]) -> list[str]:
        """Return the strings that begin at these offsets."""
        text = self.text
        find = text.find
        ends = [find("\0", offset) for offset in offsets]
        self.left -= sum(ends) - sum(offsets)
        if -1 in ends or self.left < 0:
            raise self.image.error("a name lies outside the string table")
        found = [text[offset:end] for offset, end in zip(offsets, ends, strict=True)]
        return found if self.plain else [_decoded(name) for name in found]

    def sorted(self, offsets: set[int]) -> tuple[str, ...]:
        """Return the strings at these offsets, sorted, each once.

        Taking them in the order of the table, cut up once, is what makes this fast: linkers
        write long runs in order, and sorting is the larger part of the work.
        """
        if len(offsets) < 256:
            return tuple(sorted(set(self.all(list(offsets)))))
        if not self.parts:
            self.parts = self.text.split("\0")
            sizes = map((1).__add__, map(len, self.parts))
            self.starts = list(accumulate(sizes, initial=0))
        found = list(compress(self.parts, map(offsets.__contains__, self.starts)))
        if not self.plain:
            found = [_decoded(name) for name in found]
        if len(found) < len(offsets):
            # Linkers also let a name be the end of another.
            found += self.all(sorted(offsets.difference(self.starts)))
        found.sort()
        return tuple(dict.fromkeys(found))


def _decoded(name: str) -> str:
    return name.encode("latin-1").decode("utf-8", "surrogateescape")


class _Symbols:
    """The dynamic symbol table."""

    def __init__(self, image: _Image, strings: _Strings) -> None:
        self.image = image
        self.strings = strings
        per_symbol, info_at, self.value_at = image.symbol
        self.size = per_symbol * 4
        if image.value(DT_SYMENT, self.size) != self.size:
            raise image.error("malformed symbol table")
        # What relocations name is a lower bound where a hash table says nothing.
        self.referenced = set(_referenced(image))
        count = _symbol_count(image, max(self.referenced, default=-1) + 1)
        if self.referenced and max(self.referenced) >= count:
            raise image.error("a relocation names a symbol that is not there")
        self.content = image.load(image.value(DT_SYMTAB), count * self.size, "symbol table")
        words = image.words(self.content)
        self.offsets = words[0::per_symbol].tolist()
        self.infos = words[info_at::per_symbol].tolist()
        self.classify()
        self.functions = self.named(self.code)
        self.objects = self.named(self.data)
        self.imports = self.named(self.undefined)
        if self.untyped:
            self.sort_out_untyped()

    def classify(self) -> None:
        """Decide once per distinct (info, other, section), of which a file has few."""
        little = self.image.byte_order == "little"
        self.code: set[int] = set()
        self.data: set[int] = set()
        self.undefined: set[int] = set()
        self.untyped: set[int] = set()
        self.protected: set[int] = set()
        for word in set(self.infos):
            if little:
                info, visibility, section = word & 0xFF, word >> 8 & 3, word >> 16
            else:
                info, visibility, section = word >> 24, word >> 16 & 3, word & 0xFFFF
            kind = info & 15
            if info >> 4 not in VISIBLE_BINDINGS:
                continue
            if section == SHN_UNDEF:
                self.undefined.add(word)
            elif visibility not in (STV_DEFAULT, STV_PROTECTED):
                continue
            elif kind in (STT_FUNC, STT_GNU_IFUNC):
                self.code.add(word)
            elif section == SHN_ABS:
                continue  # a number, such as the name of a version
            elif kind in (STT_OBJECT, STT_COMMON, STT_TLS):
                self.data.add(word)
            elif kind == STT_NOTYPE:
                self.untyped.add(word)
            if visibility == STV_PROTECTED:
                self.protected.add(word)

    def named(self, words: set[int]) -> tuple[str, ...]:
        """Return the names of the symbols of a class, sorted, without the repeats of versions."""
        if not words:
            return ()
        return self.strings.sorted(set(compress(self.offsets, map(words.__contains__, self.infos))))

    def sort_out_untyped(self) -> None:
        """Untyped symbols (hand-written assembly) are code if they point into a code segment."""
        code: set[int] = set()
        data: set[int] = set()
        pattern = self.image.order + self.image.address
        executable = [(start, end) for start, end, _, flags in self.image.loaded if flags & PF_X]
        for index, word in enumerate(self.infos):
            if word in self.untyped:
                (address,) = struct.unpack_from(
                    pattern, self.content, index * self.size + self.value_at * 4
                )
                inside = any(start <= address < end for start, end in executable)
                (code if inside else data).add(self.offsets[index])
        self.functions = tuple(sorted({*self.functions, *self.strings.sorted(code)}))
        self.objects = tuple(sorted({*self.objects, *self.strings.sorted(data)}))

    def interposable(self) -> tuple[str, ...]:
        """Return the exports that the library reaches by name, at the mercy of the search order."""
        exported = (self.code | self.data | self.untyped) - self.protected
        offsets, infos = self.offsets, self.infos
        return self.strings.sorted(
            {offsets[index] for index in self.referenced if infos[index] in exported}
        )


def _symbol_count(image: _Image, referenced: int) -> int:
    """Return the number of dynamic symbols, which only the hash tables know.

    ``DT_GNU_HASH`` sorts the exported symbols to the end of the table, by bucket: the last chain
    ends with the last symbol. A table without exports leaves the number of imports open; then
    ``referenced``, what the relocations name, is what is known of them.
    """
    if DT_GNU_HASH in image.dynamic:
        address = image.value(DT_GNU_HASH)
        buckets, first, bloom, _ = image.words(image.load(address, 16, "hash table"))
        chains = address + 16 + bloom * image.bits // 8
        last = max(image.words(image.load(chains, buckets * 4, "hash table")), default=0)
        chains += buckets * 4
        if last == 0:
            if DT_HASH not in image.dynamic:
                return max(first, referenced)
        elif last < first:
            raise image.error("malformed hash table")
        else:
            offset, available = image.extent(chains + (last - first) * 4, "hash table")
            while available >= 4:
                # A chain is a few words long; it ends at the word with the lowest bit set.
                length = min(available // 4 * 4, 256)
                for word in image.words(image.at(offset, length, "hash table")):
                    last += 1
                    if word & 1:
                        return last
                offset, available = offset + length, available - length
                if last > MAX_TABLE // 16:
                    break
            raise image.error("the hash table has no end")
    if DT_HASH in image.dynamic:
        # Two words: the number of buckets and that of symbols. On s390x they have 64 bits, as the
        # loader reads them, but for those that LLVM's linker writes: then the upper half of the
        # first would not be zero.
        address = image.value(DT_HASH)
        wide = image.machine == "s390x" and image.load(address, 4, "hash table") == bytes(4)
        content = image.load(address, 16 if wide else 8, "hash table")
        return int(struct.unpack(image.order + ("2Q" if wide else "2I"), content)[1])
    if DT_SYMTAB in image.dynamic and image.value(DT_STRSZ) > 1 and referenced:
        raise image.error("it has symbols, but no hash table that says how many")
    return 0


def _referenced(image: _Image) -> Iterator[int]:
    """Yield the index of each symbol that a relocation names."""
    wide = image.bits == 64
    plt = (DT_JMPREL, DT_PLTRELSZ, None)
    for table, length, count in (
        (DT_RELA, DT_RELASZ, DT_RELACOUNT),
        (DT_REL, DT_RELSZ, DT_RELCOUNT),
        plt,
    ):
        if table not in image.dynamic:
            continue
        addend = table == DT_RELA or (count is None and image.value(DT_PLTREL) == DT_RELA)
        per_entry = (3 if addend else 2) * (2 if wide else 1)
        size = image.value(length)
        if size % (per_entry * 4):
            raise image.error("malformed relocations")
        # The linker puts relative relocations, which name no symbol, first and counts them.
        skip = image.value(count) * per_entry * 4 if count else 0
        if skip > size:
            raise image.error("malformed relocations")
        start = image.value(table) + skip
        words = image.words(image.load(start, size - skip, "relocations"))
        if wide:
            # The upper half of r_info.
            upper = 3 if image.byte_order == "little" else 2
            found = set(words[upper::per_entry].tolist())
        else:
            found = {word >> 8 for word in words[1::per_entry].tolist()}
        found.discard(0)
        yield from found


def _version_needs(image: _Image) -> Iterator[tuple[int, int, int, bool]]:
    """Yield file, version, its index, and whether the library can do without, for each version.

    File and version are offsets in the string table; the index is what ``DT_VERSYM`` has.
    """
    count = image.value(DT_VERNEEDNUM)
    if not count or DT_VERNEED not in image.dynamic:
        return
    what = "table of versions"
    offset, available = image.extent(image.value(DT_VERNEED), what)
    content = image.at(offset, min(available, MAX_VERSIONS), what)
    remaining = len(content) // 16
    need = 0
    try:
        for _ in range(count):
            version, each, file, auxiliary, step = struct.unpack_from(
                image.order + "HHIII", content, need
            )
            if version != 1:
                raise image.error(f"malformed {what}")
            at = need + auxiliary
            for _ in range(each):
                remaining -= 1
                if remaining < 0:
                    raise image.error(f"malformed {what}")
                _, flags, index, name, further = struct.unpack_from(
                    image.order + "IHHII", content, at
                )
                yield file, name, index & 0x7FFF, bool(flags & VER_FLG_WEAK)
                at += further
                if not further:
                    break
            need += step
            if not step:
                break
    except struct.error:
        raise image.error(f"outside its segment: {what}") from None
