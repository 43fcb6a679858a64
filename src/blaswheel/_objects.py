"""Object files with one alias each, in the format of every system that a linker reads.

Everything in such a file but the names depends on the names' lengths only: `around` gives what
stands before and after them, so that one template serves all names of the same lengths.
"""

from __future__ import annotations

import struct

from blaswheel._stubs import GOT, NATIVE, CoffStub, ElfStub, MachoStub

#: Objects begin at a multiple of this in an archive, as those who map it like them to.
ALIGNMENT = 8

# STV_* of the symbol table.
VISIBILITIES = {"default": 0, "hidden": 2}


def around(
    code: ElfStub | MachoStub | CoffStub, visibility: str, start: int, size: int
) -> tuple[bytes, bytes]:
    """Return what stands in an object before and after the native and the offered name.

    Parameters
    ----------
    code : ElfStub, MachoStub or CoffStub
    visibility : {'hidden', 'default'}
        Of the offered name. COFF has no such thing: what a DLL exports is said elsewhere.
    start, size : int
        The names are one text of `size` bytes: the native one from its beginning to the first
        NUL or the end, the offered one from `start` to its end.
    """
    if isinstance(code, ElfStub):
        return _elf(code, visibility, start, size)
    if isinstance(code, MachoStub):
        return _macho(code, visibility, start, size)
    return _coff(code, start, size)


def _filled(size: int) -> bytes:
    """Fill an object up so that the next, after an archive's header of 60 bytes, is aligned."""
    return bytes(-(size + 60) % ALIGNMENT)


def _elf(code: ElfStub, visibility: str, start: int, size: int) -> tuple[bytes, bytes]:
    """Return an ELF object: System V ABI, chapter 4.

    The file header is followed by property note, symbols, relocations, section headers, code, and
    the names of sections and symbols in one table, as the ABI allows.
    """
    wide = code.bits == 64
    order = "<" if code.byte_order == "little" else ">"
    word = 8 if wide else 4
    file_header = struct.Struct(order + ("16sHHIQQQIHHHHHH" if wide else "16sHHIIIIIHHHHHH"))
    section_header = struct.Struct(order + ("IIQQQQIIQQ" if wide else "IIIIIIIIII"))
    rela = code.explicit_addends
    relocation_table = b".rela.text" if rela else b".rel.text"
    got = any(target == GOT for *_, target in code.relocations)
    texts = [
        relocation_table,
        b".note.gnu.property",
        b".note.GNU-stack",
        b".symtab",
        b".strtab",
        *([code.mapping.encode()] if code.mapping else []),
        *([b"_GLOBAL_OFFSET_TABLE_"] if got else []),
    ]
    names = b"\0%b\0" % b"\0".join(texts)

    def place(text: bytes) -> int:
        return names.index(text + b"\0")

    def symbol(name: int, info: int, other: int, section: int, length: int) -> bytes:
        if wide:
            return struct.pack(order + "IBBHQQ", name, info, other, section, 0, length)
        return struct.pack(order + "IIIBBH", name, 0, length, info, other, section)

    strings = len(names)
    local = [symbol(0, 0, 0, 0, 0)]
    if code.mapping:
        local.append(symbol(place(code.mapping.encode()), 0, 0, 1, 0))  # STB_LOCAL, STT_NOTYPE
    other = VISIBILITIES[visibility] | code.other
    symbols = [
        *local,
        symbol(strings + start, 0x12, other, 1, len(code.code)),  # STB_GLOBAL, STT_FUNC
        symbol(strings, 0x10, 0, 0, 0),  # STB_GLOBAL, STT_NOTYPE, undefined
    ]
    if got:
        symbols.append(symbol(place(b"_GLOBAL_OFFSET_TABLE_"), 0x10, 0, 0, 0))
    numbers = {NATIVE: len(local) + 1, GOT: len(local) + 2}

    def relocation(offset: int, kind: int, addend: int, target: int) -> bytes:
        number = numbers[target]
        info = number << 32 | kind if wide else number << 8 | kind
        if rela:
            return struct.pack(order + ("QQq" if wide else "IIi"), offset, info, addend)
        return struct.pack(order + ("QQ" if wide else "II"), offset, info)

    table = b"".join(symbols)
    relocations = b"".join([relocation(*entry) for entry in code.relocations])
    note = b""
    if code.features is not None:
        # One note of type NT_GNU_PROPERTY_TYPE_0 with one property, filled up to a word.
        kind, value = code.features
        description = struct.pack(order + f"III{word - 4}x", kind, 4, value)
        note = struct.pack(order + "III4s", 4, len(description), 5, b"GNU\0") + description

    count = 7 if note else 6
    note_at = file_header.size
    symbols_at = note_at + len(note)
    relocations_at = symbols_at + len(table)
    headers_at = relocations_at + len(relocations)
    headers_end = headers_at + count * section_header.size
    code_at = headers_end + -headers_end % code.alignment
    strings_at = code_at + len(code.code)
    strings_end = strings_at + strings + size + 1

    def section(
        name: int, kind: int, flags: int, offset: int, length: int, alignment: int, *further: int
    ) -> bytes:
        link, info, entry = further or (0, 0, 0)
        return section_header.pack(
            name, kind, flags, 0, offset, length, link, info, alignment, entry
        )

    last = count - 1
    alloc, execinstr, info_link = 0x2, 0x4, 0x40  # SHF_*
    progbits, symtab, strtab, notes = 1, 2, 3, 7  # SHT_*
    headers = [
        bytes(section_header.size),
        # ".text" is the end of the name of its relocations.
        section(
            place(b".text"), progbits, alloc | execinstr, code_at, len(code.code), code.alignment
        ),
        section(
            place(relocation_table), 4 if rela else 9, info_link, relocations_at, len(relocations),
            word, last - 1, 1, len(relocations) // len(code.relocations),
        ),
        section(place(b".note.GNU-stack"), progbits, 0, headers_end, 0, 1),
        section(
            place(b".symtab"), symtab, 0, symbols_at, len(table), word,
            last, len(local), len(table) // len(symbols),
        ),
        section(place(b".strtab"), strtab, 0, strings_at, strings_end - strings_at, 1),
    ]  # fmt: skip
    if note:
        named = place(b".note.gnu.property")
        headers.insert(3, section(named, notes, alloc, note_at, len(note), word))
    identity = struct.pack("4sBBB9x", b"\x7fELF", 2 if wide else 1, 1 if order == "<" else 2, 1)
    header = file_header.pack(
        identity, 1, code.elf_machine, 1, 0, 0, headers_at, code.elf_flags,
        file_header.size, 0, 0, section_header.size, count, last,
    )  # fmt: skip
    before = b"".join((header, note, table, relocations, *headers))
    before += bytes(code_at - headers_end) + code.code + names
    return before, b"\0" + _filled(strings_end)


def _macho(code: MachoStub, visibility: str, start: int, size: int) -> tuple[bytes, bytes]:
    """Return a Mach-O object: Apple's ``mach-o/loader.h``, ``nlist.h`` and ``reloc.h``."""
    commands_size = 72 + 80 + 24 + 24 + 80
    code_at = 32 + commands_size
    relocations_at = code_at + len(code.code)
    relocations_at += -relocations_at % 8
    symbols_at = relocations_at + 8 * len(code.relocations)
    strings_at = symbols_at + 2 * 16
    strings_size = 1 + size + 1
    strings_size += -(strings_at + strings_size) % ALIGNMENT
    header = struct.pack(
        "<8I", 0xFEEDFACF, code.cpu, code.subtype, 1, 4, commands_size, 0x2000, 0
    )  # MH_OBJECT, MH_SUBSECTIONS_VIA_SYMBOLS
    length = len(code.code)
    segment = struct.pack(
        "<II16sQQQQIIII", 0x19, 72 + 80, b"", 0, length, code_at, length, 7, 7, 1, 0
    )  # LC_SEGMENT_64
    segment += struct.pack(
        "<16s16sQQIIIIIIII", b"__text", b"__TEXT", 0, length, code_at,
        code.alignment.bit_length() - 1, relocations_at, len(code.relocations),
        0x80000400, 0, 0, 0,
    )  # fmt: skip
    # LC_BUILD_VERSION for macOS, without the tools that built it.
    version = struct.pack("<6I", 0x32, 24, 1, code.minimum_os, code.minimum_os, 0)
    symtab = struct.pack("<6I", 0x2, 24, symbols_at, 2, strings_at, strings_size)
    dysymtab = struct.pack("<20I", 0xB, 80, 0, 0, 0, 1, 1, 1, *(0,) * 12)
    # Against symbol 1, relative to the program counter, of four bytes, external.
    relocations = b"".join(
        struct.pack("<II", offset, 1 | 1 << 24 | 2 << 25 | 1 << 27 | kind << 28)
        for offset, kind, _addend, _target in code.relocations
    )
    hidden = 0x10 if visibility == "hidden" else 0  # N_PEXT
    symbols = struct.pack("<IBBHQ", 1 + start, 0x0F | hidden, 1, 0, 0)  # N_SECT | N_EXT
    symbols += struct.pack("<IBBHQ", 1, 0x01, 0, 0, 0)  # N_UNDF | N_EXT
    before = b"".join((header, segment, version, symtab, dysymtab, code.code))
    before += bytes(relocations_at - len(before)) + relocations + symbols + b"\0"
    # BSD's archives align by the names before the objects.
    return before, bytes(strings_size - 1 - size)


def _coff(code: CoffStub, start: int, size: int) -> tuple[bytes, bytes]:
    """Return a COFF object: Microsoft's "PE Format"."""
    code_at = 20 + 40
    relocations_at = code_at + len(code.code)
    symbols_at = relocations_at + 10 * len(code.relocations)
    features = code.features is not None
    count = 3 if features else 2
    header = struct.pack("<HHIIIHH", code.coff_machine, 1, 0, symbols_at, count, 0, 0)
    # IMAGE_SCN_CNT_CODE, MEM_EXECUTE, MEM_READ, and the alignment.
    flags = 0x60000020 | code.alignment.bit_length() << 20
    section = struct.pack(
        "<8sIIIIIIHHI", b".text", 0, 0, len(code.code), code_at, relocations_at, 0,
        len(code.relocations), 0, flags,
    )  # fmt: skip
    relocations = b"".join(
        struct.pack("<IIH", offset, count - 1, kind) for offset, kind, *_ in code.relocations
    )
    symbols = b""
    if features:
        symbols += struct.pack("<8sIhHBB", b"@feat.00", code.features, -1, 0, 3, 0)
    symbols += struct.pack("<IIIhHBB", 0, 4 + start, 0, 1, 0x20, 2, 0)
    symbols += struct.pack("<IIIhHBB", 0, 4, 0, 0, 0x20, 2, 0)
    before = b"".join((header, section, code.code, relocations, symbols))
    before += struct.pack("<I", 4 + size + 1)
    return before, b"\0" + _filled(len(before) + size + 1)
