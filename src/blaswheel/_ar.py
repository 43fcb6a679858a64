"""Static archives and import libraries, read through their index.

The index lists the names that the members define, but not what they are: all count as functions.
Only in an import library, where a function has two names (itself, and ``__imp_`` for the pointer
to it) and a variable just the second, are variables known as such.

Formats: System V (the index is the member ``/`` or ``/SYM64/``), BSD and macOS (``__.SYMDEF``,
``__.SYMDEF SORTED``, ``__.SYMDEF_64``), COFF (a second ``/``, see Microsoft's "PE Format"), and
thin archives, whose members are files of their own.
"""

from __future__ import annotations

import os
import struct

from blaswheel import _elf, _macho, _pe
from blaswheel._binary import Binary
from blaswheel._bounded import File, Names, decoded, unique
from blaswheel._errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MAGICS = {b"!<arch>\n": False, b"!<thin>\n": True}
HEADER = 60
EM_PPC64 = 21
BSD_INDEX = ("__.SYMDEF", "__.SYMDEF SORTED", "__.SYMDEF_64", "__.SYMDEF_64 SORTED")
#: How many members are looked at for one whose machine is known (link-time optimisation has
#: members of no machine), how many of those before the first object are not objects, and how many
#: DLLs one import library is for.
MAX_LOOKED_AT = 64
MAX_SPECIAL = 8
MAX_DLLS = 256
#: The content of the members that name a DLL is much smaller.
MAX_MEMBER = 64 << 10
#: IMAGE_FILE_MACHINE_UNKNOWN, 0xFFFF
SHORT_IMPORT = b"\0\0\xff\xff"
#: Where the name of the DLL is: Microsoft and LLVM, GNU dlltool
DLL_SECTIONS = (b".idata$6", b".idata$7")
IMPORT, DESCRIPTOR, HEAD, NAME = "__imp_", "__IMPORT_DESCRIPTOR_", "head_", "_iname"
#: What import libraries define besides, for the linker.
LINKER_NAMES = (DESCRIPTOR, "__NULL_IMPORT_DESCRIPTOR", "\x7f", "__nm_")


def read(path: str) -> Binary:
    """Read the static archive or import library at ``path``.

    For an import library, ``soname`` is the DLL that it is for, and ``needed`` lists it; for
    those that are for several, and for archives that also have objects, only ``needed`` does.

    Raises
    ------
    FormatError
        If it is no archive, has no index, or is truncated or malformed.
    OSError
        If it can't be opened.
    """
    with File(path) as file:
        return parse(file)


def parse(file: File) -> Binary:
    """Read an open file."""
    return Archive(file).binary()


def ranges(path: str, words: tuple[str, ...]) -> list[tuple[int, int]]:
    """Return offset and size of the members that define a name with one of ``words`` in it."""
    with File(path) as file:
        archive = Archive(file)
        if archive.thin:
            return []
        found = {
            offset
            for name, offset in zip(archive.names, archive.offsets, strict=False)
            if any(word in name for word in words)
        }
        return [archive.member(offset) for offset in sorted(found)]


class Archive:
    """An open archive with its index read."""

    def __init__(self, file: File) -> None:
        self.file = file
        magic = file.at(0, min(8, file.size), "file header")
        if magic not in MAGICS:
            raise file.error("not an archive")
        self.thin = MAGICS[magic]
        #: the names in the index, and where the header is of the member that defines each
        self.names: list[str] = []
        self.offsets: list[int] = []
        self.long_names = b""
        indices = 0
        at = 8
        for _ in range(MAX_SPECIAL):
            if at + HEADER > file.size:
                break
            name, size, data = self.header(at)
            if name == "/":
                self.index_coff(data, size) if indices else self.index(data, size, 4)
                indices += 1
            elif name == "/SYM64/":
                self.index(data, size, 8)
                indices += 1
            elif name == "//":
                self.long_names = file.at(data, size, "table of names")
            elif name in BSD_INDEX:
                self.index_bsd(data, size, 8 if "_64" in name else 4)
                indices += 1
            elif not name.startswith("/<"):
                break
            at = data + size + size % 2
        if not indices:
            what = "an empty archive" if file.size == 8 else "an archive without an index"
            raise FormatError(f"{file.path}: {what}", "run ranlib on it")
        #: where the members are that define something
        self.members: list[int] = sorted(set(self.offsets))
        if self.members:
            self.member(self.members[-1])

    def header(self, at: int) -> tuple[str, int, int]:
        """Return name, size and offset of the content of the member whose header is at ``at``."""
        content = self.file.at(at, HEADER, "header of a member")
        digits = content[48:58].rstrip(b" ")
        if content[58:] != b"`\n" or not digits.isdigit():
            raise self.file.error("malformed header of a member")
        name, size, data = content[:16].rstrip(b" "), int(digits), at + HEADER
        if name[:3] == b"#1/" and name[3:].isdigit():
            # BSD: the name is the beginning of the content.
            length = int(name[3:])
            if length > size:
                raise self.file.error("malformed header of a member")
            name = self.file.at(data, length, "name of a member").rstrip(b"\0")
            data, size = data + length, size - length
        return name.decode("utf-8", "surrogateescape"), size, data

    def index(self, at: int, size: int, width: int) -> None:
        """Read an index of System V: the count, the offsets, the names in the same order."""
        content = self.file.at(at, size, "index")
        count = int.from_bytes(content[:width], "big")
        begin = width + count * width
        if size < width or begin > size:
            raise self.file.error("malformed index")
        self.file.spend(count)
        code = "Q" if width == 8 else "I"
        self.offsets = list(struct.unpack_from(f">{count}{code}", content, width))
        self.names = self.ordered(content[begin:], count)

    def index_coff(self, at: int, size: int) -> None:
        """Read the second index of COFF: the members, which of them has each name, the names."""
        content = self.file.at(at, size, "index")
        try:
            (members,) = struct.unpack_from("<I", content)
            (count,) = struct.unpack_from("<I", content, 4 + members * 4)
            self.file.spend(members + count)
            offsets = struct.unpack_from(f"<{members}I", content, 4)
            which = struct.unpack_from(f"<{count}H", content, 8 + members * 4)
            self.offsets = [offsets[number - 1] for number in which]
        except (struct.error, IndexError):
            raise self.file.error("malformed index") from None
        self.names = self.ordered(content[8 + members * 4 + count * 2 :], count)

    def index_bsd(self, at: int, size: int, width: int) -> None:
        """Read an index of BSD: (name, member) of each, then the names; sizes before both."""
        content = self.file.at(at, size, "index")
        for order in ("little", "big"):
            length = int.from_bytes(content[:width], order)
            begin = width + length
            strings = int.from_bytes(content[begin : begin + width], order)
            if length % (2 * width) == 0 and begin + width + strings <= size:
                break
        else:
            raise self.file.error("malformed index")
        self.file.spend(length // (2 * width))
        code = ("<" if order == "little" else ">") + ("QQ" if width == 8 else "II")
        table = list(struct.iter_unpack(code, content[width:begin]))
        self.offsets = [offset for _, offset in table]
        table_of_names = content[begin + width : begin + width + strings]
        self.names = Names(self.file, table_of_names).many([name for name, _ in table])

    def ordered(self, content: bytes, count: int) -> list[str]:
        """Return the first names of a table in which they follow each other."""
        self.file.spend(count, len(content))
        names = content.split(b"\0", count)
        if len(names) <= count:
            raise self.file.error("malformed index")
        return decoded(names[:count])

    def member(self, at: int) -> tuple[int, int]:
        """Return offset and size of the content of the member whose header is at ``at``."""
        _, size, data = self.header(at)
        if data + (0 if self.thin else size) > self.file.size:
            raise self.file.error("truncated")
        return data, size

    def begin(self, at: int, length: int) -> bytes:
        """Return at most ``length`` bytes of the content of the member at ``at``."""
        data, size = self.member(at)
        file = self.file
        if not self.thin:
            return file.at(data, min(length, size), "member")
        name, _, _ = self.header(at)
        if name[:1] == "/" and name[1:].isascii() and name[1:].isdigit():
            end = self.long_names.find(b"\n", int(name[1:]))
            raw = self.long_names[int(name[1:]) : end] if end >= 0 else b""
            name = os.fsdecode(raw)
        name = name.rstrip("/")
        if not name or "\0" in name:
            raise file.error("malformed header of a member")
        path = os.path.join(os.path.dirname(file.path), name)
        try:
            with File(path) as other:
                return other.at(0, min(length, other.size), "member")
        except OSError:
            raise FormatError(
                f"{file.path}: a thin archive whose member {name!r} is not there",
                "build it again, without the option for thin archives",
            ) from None

    def walk(self) -> Iterator[int]:
        """Yield where members are: those that define something, or the first of all."""
        if self.members:
            yield from self.members
            return
        at = 8
        while at + HEADER <= self.file.size:
            name, size, data = self.header(at)
            special = name in ("/", "//", "/SYM64/", *BSD_INDEX) or name.startswith("/<")
            if not special:
                yield at
            at = data + (size + size % 2 if special or not self.thin else 0)

    def target(self) -> tuple[str, int, str, str]:
        """Return machine, word size, byte order and format of the first object."""
        for count, at in enumerate(self.walk()):
            found = _target(self.begin(at, 20))
            if found:
                return found
            if count > MAX_LOOKED_AT:
                break
        raise self.file.error("an archive without an object for a known machine")

    def dll(self, at: int) -> str | None:
        """Return the DLL that a member of an import library names."""
        content = self.begin(at, MAX_MEMBER)
        try:
            if content[:4] == SHORT_IMPORT:
                return decoded(content[20:].split(b"\0", 2)[:2])[1]
            _, sections, _, _, _, optional, _ = struct.unpack_from("<HHIIIHH", content)
            table = content[20 + optional : 20 + optional + sections * 40]
            for name, size, offset in struct.iter_unpack("<8s8xII16x", table):
                if name in DLL_SECTIONS and offset + size <= len(content):
                    text = content[offset : offset + size].split(b"\0", 1)[0]
                    return text.decode("utf-8", "surrogateescape") or None
        except (struct.error, IndexError):
            raise self.file.error("malformed member of an import library") from None
        return None

    def dlls(self, linkers: set[str]) -> list[str]:
        """Return the DLLs that an import library is for, from the linker's own names in it.

        Microsoft's and LLVM's have a descriptor per DLL, those of GNU dlltool a member with the
        DLL's name.
        """
        telling = [name for name in linkers if name.startswith(DESCRIPTOR) or name.endswith(NAME)]
        if not telling:
            first = next(at for at, name in enumerate(self.names) if name.startswith(IMPORT))
            members = {self.offsets[first]} if self.short(self.offsets[first]) else set()
        elif len(telling) > MAX_DLLS:
            raise self.file.error("malformed import library")
        else:
            members = {self.offsets[self.names.index(name)] for name in telling}
        return list(dict.fromkeys(dll for dll in map(self.dll, sorted(members)) if dll))

    def short(self, at: int) -> bool:
        """Tell whether a member is an import without code."""
        return self.begin(at, 4) == SHORT_IMPORT

    def binary(self) -> Binary:
        """Read the rest."""
        machine, bits, order, kind = self.target()
        functions, objects = self.names, set[str]()
        dlls: list[str] = []
        pure = False
        if kind == "pe":
            imported = {name[len(IMPORT) :] for name in functions if name.startswith(IMPORT)}
            own = {name for name in functions if not name.startswith(IMPORT)}
            if imported:
                linkers = _names_for_the_linker(own)
                own -= linkers
                dlls = self.dlls(linkers)
            if dlls:
                objects = imported - own
                pure = own <= imported
            functions = list(own)
        if kind == "macho" or (kind == "pe" and machine == "i686"):
            # There, C names begin with an underscore.
            functions = [name[1:] for name in functions if name[:1] == "_"]
            objects = {name[1:] for name in objects if name[:1] == "_"}
        return Binary(
            path=self.file.path,
            format="ar",
            machine=machine,
            bits=bits,
            byte_order=order,
            object_format=kind,
            soname=dlls[0] if pure and len(dlls) == 1 else None,
            needed=tuple(dlls),
            functions=unique(functions),
            objects=unique(objects),
        )


def _names_for_the_linker(names: set[str]) -> set[str]:
    """Return what import libraries define besides what they are for.

    GNU dlltool adds ``_head_X`` and ``X_iname`` per DLL.
    """
    found = {name for name in names if name.startswith(LINKER_NAMES)}
    ends = {name[: -len(NAME)].lstrip("_"): name for name in names if name.endswith(NAME)}
    if ends:
        heads = {
            name.lstrip("_")[len(HEAD) :].lstrip("_"): name
            for name in names
            if name.startswith(("_" + HEAD, "__" + HEAD))
        }
        both = heads.keys() & ends.keys()
        found.update(heads[key] for key in both)
        found.update(ends[key] for key in both)
    return found


def _target(content: bytes) -> tuple[str, int, str, str] | None:
    """Return machine, word size, byte order and format of an object that begins like this."""
    if content[:4] == b"\x7fELF" and len(content) == 20:
        if content[4] not in _elf.CLASSES or content[5] not in _elf.ORDERS:
            return None
        order, byte_order = _elf.ORDERS[content[5]]
        bits = _elf.CLASSES[content[4]][0]
        (number,) = struct.unpack_from(f"{order}H", content, 18)
        machine = _elf.MACHINES.get((number, bits), f"elf-{number}")
        if number == EM_PPC64:
            machine = "ppc64le" if byte_order == "little" else "ppc64"
        return machine, bits, byte_order, "elf"
    if content[:4] in _macho.MAGICS and len(content) >= 12:
        order, bits = _macho.MAGICS[content[:4]]
        kind, subtype = struct.unpack_from(f"{order}II", content, 4)
        byte_order = "little" if order == "<" else "big"
        return _macho.machine_name(kind, subtype), bits, byte_order, "macho"
    # Import members and objects with many sections begin with a machine that is none.
    at = 6 if content[:4] == SHORT_IMPORT else 0
    number = int.from_bytes(content[at : at + 2], "little")
    if number in _pe.MACHINES:
        machine, bits = _pe.MACHINES[number]
        return machine, bits, "little", "pe"
    return None
