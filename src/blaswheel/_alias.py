"""Alias archives: a static library that gives a shared library names it does not export.

Each member is an ELF object that defines one name and jumps to the native one, so that a linker
takes only what is used; the result imports the native names and exports nothing new. The archive
format is the System V one as GNU ``ar`` writes it; the objects follow the System V ABI, chapter 4.

Everything in a member but the names depends on their lengths only, so that one template per pair
of lengths serves: five thousand aliases take milliseconds.
"""

from __future__ import annotations

import struct

from blaswheel import _files
from blaswheel._errors import BlaswheelError
from blaswheel._stubs import stub

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from blaswheel._stubs import Stub

#: Part of every archive's name: raise it whenever `archive` would write other bytes than before.
_FORMAT = 1

# STV_* of the symbol table.
_VISIBILITIES = {"default": 0, "hidden": 2}

_MAGIC = b"!<arch>\n"
# Header of an archive's member: name 16 characters, date 12, uid 6, gid 6, mode 8, size 10.
_HEADER = b"%-16b0           0     0     644     %-10d`\n"
_HEADER_SIZE = 60
# Every object starts at a multiple of this, as those who map the archive like it.
_ALIGNMENT = 8

# One string table names sections and symbols, as the ABI allows.
_SECTION_NAMES = b"\0.rela.text\0.note.gnu.property\0.note.GNU-stack\0.symtab\0.strtab\0"


def name(aliases: Mapping[str, str], machine: str, *, visibility: str = "hidden", stem: str) -> str:
    """Return the link name of the archive of ``aliases``: ``blaswheel_<stem>_<16 digits>``.

    The digits are a 64-bit hash over all that decides the archive's bytes, so that no two archives
    meet under one name. The file is ``lib<name>.a``.
    """
    lines = [f"{_FORMAT} {machine} {visibility}"]
    lines += [f"{offered} {native}" for offered, native in _needed(aliases)]
    text = "\n".join(lines)
    return f"blaswheel_{stem}_{_files.digest(text)}"


def archive(aliases: Mapping[str, str], machine: str, *, visibility: str = "hidden") -> bytes:
    """Return a static archive that defines each key of ``aliases`` as a jump to its value.

    The same arguments give the same bytes.

    Parameters
    ----------
    aliases : mapping
        Offered name to native name. A name offered as itself needs no alias and gets none.
    machine : str
        As `Binary.machine` names it.
    visibility : {"hidden", "default"}
        Of the offered names. Hidden ones stay inside the output that the archive is linked into;
        default ones are exported from it, and so also serve the shared objects beside it.

    Raises
    ------
    BlaswheelError
        If there is no alias code for the machine, or a name can't be that of an alias.
    """
    code = stub(machine)
    names = [
        (offered.encode("utf-8", "surrogateescape"), native.encode("utf-8", "surrogateescape"))
        for offered, native in _needed(aliases)
    ]
    objects: dict[tuple[int, int], tuple[bytes, bytes]] = {}
    members = []
    long_names = []
    long_size = 0
    for offered, native in names:
        member = offered.replace(b"/", b"_") + b".o/"
        if len(member) > 16:
            # Too long for the header, which then tells where the table "//" holds it.
            long_names.append(b"%b\n" % member)
            member, long_size = b"/%d" % long_size, long_size + len(long_names[-1])
        if native.endswith(offered):
            # Its tail serves as the offered name too, as in any string table.
            strings, start = native, len(native) - len(offered)
        else:
            strings, start = b"%b\0%b" % (native, offered), len(native) + 1
        key = (start, len(strings))
        around = objects.get(key)
        if around is None:
            around = objects[key] = _object(code, _VISIBILITIES[visibility], *key)
        members.append(b"%-16b%b%b%b" % (member, around[0], strings, around[1]))

    # The index: count and offsets of the members (big-endian on every machine), then the symbols.
    count = len(members)
    symbols = b"".join([b"%b\0" % offered for offered, _native in names])
    symbols += bytes(_missing(4 + 4 * count + len(symbols)))
    table = b""
    if long_names:
        long_names.append(b"\n" * _missing(_HEADER_SIZE + long_size))
        content = b"".join(long_names)
        table = b"%-48b%-10d`\n%b" % (b"//", len(content), content)
    offset = len(_MAGIC) + _HEADER_SIZE + 4 + 4 * count + len(symbols) + len(table)
    offsets = []
    for piece in members:
        offsets.append(offset)
        offset += len(piece)
    if offset >= 1 << 32:
        raise BlaswheelError(
            f"{count} aliases do not fit one archive", "use the library's own names: --native"
        )
    index = struct.pack(f">{1 + count}I", count, *offsets) + symbols
    return b"".join((_MAGIC, _HEADER % (b"/", len(index)), index, table, *members))


def _needed(aliases: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the (offered, native) pairs to write, in the archive's order."""
    needed = [pair for pair in sorted(aliases.items()) if pair[0] != pair[1]]
    natives = {native for _offered, native in needed}
    for offered, native in needed:
        if offered in natives:
            # The linker would take the archive's definition, not the library's.
            raise BlaswheelError(
                f"{offered} is offered as {native} and at the same time another name's native one",
                "choose another --symbol-prefix or --symbol-suffix",
            )
    # "@" makes a version of what follows it; the others end a name in the archive's tables.
    every = "".join([f"{offered} {native} " for offered, native in needed])
    if (
        every.count(" ") != 2 * len(needed)
        or any(character in every for character in "\0\n\r\t@")
        or any(not offered or not native for offered, native in needed)
    ):
        raise BlaswheelError(
            "a name with blanks, control characters or '@' can't be that of an alias",
            "choose another --symbol-prefix or --symbol-suffix",
        )
    return needed


def _missing(size: int) -> int:
    """Return the number of bytes from ``size`` to the next multiple of the alignment."""
    return -size % _ALIGNMENT


def _object(code: Stub, visibility: int, start: int, strings_size: int) -> tuple[bytes, bytes]:
    """Return what stands in a member before and after the native and the offered name.

    ``strings_size`` is the length of the string that holds both names, the native one first and
    the offered one from ``start`` to its end. Before are the rest of the archive's
    header, after the name, and the object: ELF header, property note, symbols, relocations,
    section headers, code, and the names of the sections.
    """
    wide = code.bits == 64
    order = "<" if code.byte_order == "little" else ">"
    word = 8 if wide else 4
    file_header = struct.Struct(order + ("16sHHIQQQIHHHHHH" if wide else "16sHHIIIIIHHHHHH"))
    section_header = struct.Struct(order + ("IIQQQQIIQQ" if wide else "IIIIIIIIII"))

    def symbol(name: int, info: int, other: int, section: int, size: int) -> bytes:
        if wide:
            return struct.pack(order + "IBBHQQ", name, info, other, section, 0, size)
        return struct.pack(order + "IIIBBH", name, 0, size, info, other, section)

    def relocation(offset: int, kind: int, addend: int) -> bytes:
        # Against the native name, which is symbol 2.
        info = 2 << 32 | kind if wide else 2 << 8 | kind
        return struct.pack(order + ("QQq" if wide else "IIi"), offset, info, addend)

    strings = len(_SECTION_NAMES)
    symbols = b"".join(
        (
            symbol(0, 0, 0, 0, 0),
            symbol(strings + start, 0x12, visibility, 1, len(code.code)),  # STB_GLOBAL, STT_FUNC
            symbol(strings, 0x10, 0, 0, 0),  # STB_GLOBAL, STT_NOTYPE, undefined
        )
    )
    relocations = b"".join([relocation(*entry) for entry in code.relocations])
    note = b""
    if code.features is not None:
        # One note of type NT_GNU_PROPERTY_TYPE_0 with one property, filled up to a word.
        kind, value = code.features
        description = struct.pack(order + f"III{word - 4}x", kind, 4, value)
        note = struct.pack(order + "III4s", 4, len(description), 5, b"GNU\0") + description

    # The sections' places: note, symbols and relocations after the file header; then the table of
    # section headers; last what has a length or an alignment of its own, the code and the names.
    count = 7 if note else 6
    note_at = file_header.size
    symbols_at = note_at + len(note)
    relocations_at = symbols_at + len(symbols)
    headers_at = relocations_at + len(relocations)
    headers_end = headers_at + count * section_header.size
    code_at = headers_end + -headers_end % code.alignment
    strings_at = code_at + len(code.code)
    strings_end = strings_at + strings + strings_size + 1

    def section(
        name: bytes,
        kind: int,
        flags: int,
        offset: int,
        size: int,
        alignment: int,
        *table: int,
    ) -> bytes:
        link, info, entry = table or (0, 0, 0)
        place = _SECTION_NAMES.index(name + b"\0")
        return section_header.pack(
            place, kind, flags, 0, offset, size, link, info, alignment, entry
        )

    last = count - 1
    alloc, execinstr, info_link = 0x2, 0x4, 0x40  # SHF_*
    progbits, symtab, strtab, rela, notes = 1, 2, 3, 4, 7  # SHT_*
    headers = [
        bytes(section_header.size),
        section(b".text", progbits, alloc | execinstr, code_at, len(code.code), code.alignment),
        section(
            b".rela.text", rela, info_link, relocations_at, len(relocations), word,
            last - 1, 1, len(relocations) // len(code.relocations),
        ),
        section(b".note.GNU-stack", progbits, 0, headers_end, 0, 1),
        section(b".symtab", symtab, 0, symbols_at, len(symbols), word, last, 1, len(symbols) // 3),
        section(b".strtab", strtab, 0, strings_at, strings_end - strings_at, 1),
    ]  # fmt: skip
    if note:
        headers.insert(3, section(b".note.gnu.property", notes, alloc, note_at, len(note), word))
    identity = struct.pack("4sBBB9x", b"\x7fELF", 2 if wide else 1, 1 if order == "<" else 2, 1)
    header = file_header.pack(
        identity, 1, code.elf_machine, 1, 0, 0, headers_at, code.elf_flags,
        file_header.size, 0, 0, section_header.size, count, last,
    )  # fmt: skip
    before = b"".join((header, note, symbols, relocations, *headers))
    before += bytes(code_at - headers_end) + code.code + _SECTION_NAMES
    after = bytes(1 + _missing(_HEADER_SIZE + strings_end))
    archive_header = _HEADER % (b"", strings_end + len(after) - 1)
    return archive_header[16:] + before, after
