"""A shared object that holds nothing but the names of others: a library of several files as one.

The probe opens one file. What a consumer of a composed library gets is all of its files in one
scope, in the order of its link; an object that needs them all is that scope, whatever the files
themselves say. It needs them by path, so that no run path and no variable has a say.

Specification: the System V gABI, chapters 4 and 5 (https://gabi.xinuos.com).
"""

from __future__ import annotations

import struct

from blaswheel import _bounded
from blaswheel._errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: What a link takes from the compiler, as the loader calls it. The rest every program has.
LOADED = {"gomp": "libgomp.so.1"}

_DT_NULL, _DT_NEEDED, _DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_SYMENT = (
    0,
    1,
    4,
    5,
    6,
    10,
    11,
)
_PT_LOAD, _PT_DYNAMIC, _PT_GNU_STACK = 1, 2, 0x6474E551
_EM_S390 = 22
#: The largest page of any system: segments are aligned to it.
_PAGE = 0x10000


def write(files: Sequence[str], system: Sequence[str] = ()) -> bytes:
    """Return an ELF shared object that needs ``files`` in this order, for their machine.

    Parameters
    ----------
    files : sequence of str
        Absolute paths.
    system : sequence of str
        Link names of what else belongs to the library.

    Raises
    ------
    FormatError
        If the first file is no ELF file.
    OSError
        If it can't be read.
    """
    with _bounded.File(files[0]) as file:
        head = file.at(0, 64, "file header")
    if head[:4] != b"\x7fELF" or head[4] not in (1, 2) or head[5] not in (1, 2):
        raise FormatError(f"{files[0]}: not an ELF file", "give a shared library")
    wide = head[4] == 2
    order = "<" if head[5] == 1 else ">"
    machine = struct.unpack_from(order + "H", head, 18)[0]
    flags = struct.unpack_from(order + "I", head, 48 if wide else 36)[0]
    names = [name.encode("utf-8", "surrogateescape") for name in files]
    names += [LOADED[name].encode() for name in system if name in LOADED]

    strings = b"\0"
    needed = []
    for name in names:
        needed.append((_DT_NEEDED, len(strings)))
        strings += name + b"\0"
    header_size, entry_size, symbol_size = (64, 56, 24) if wide else (52, 32, 16)
    word = "Q" if wide else "I"
    # One bucket and one symbol, the null one. Only s390x has entries of 64 bits.
    hashes = struct.pack(order + ("4Q" if wide and machine == _EM_S390 else "4I"), 1, 1, 0, 0)
    at_dynamic = header_size + 3 * entry_size
    size_dynamic = (len(needed) + 6) * 2 * struct.calcsize(order + word)
    at_symbols = at_dynamic + size_dynamic
    at_hashes = at_symbols + symbol_size
    at_strings = at_hashes + len(hashes)
    entries = [
        *needed,
        (_DT_HASH, at_hashes),
        (_DT_STRTAB, at_strings),
        (_DT_SYMTAB, at_symbols),
        (_DT_STRSZ, len(strings)),
        (_DT_SYMENT, symbol_size),
        (_DT_NULL, 0),
    ]
    dynamic = b"".join(struct.pack(order + 2 * word, *entry) for entry in entries)
    total = at_strings + len(strings)

    def segment(kind: int, offset: int, size: int, alignment: int) -> bytes:
        read_write = 6
        if wide:
            return struct.pack(
                order + "2I6Q", kind, read_write, offset, offset, offset, size, size, alignment
            )
        return struct.pack(
            order + "8I", kind, offset, offset, offset, size, size, read_write, alignment
        )

    shared_object = 3
    # What follows the word for the flags: sizes and counts of tables; there are no sections.
    rest = (header_size, entry_size, 3, 0, 0, 0)
    header = head[:16] + struct.pack(
        order + ("HHIQQQIHHHHHH" if wide else "HHIIIIIHHHHHH"),
        shared_object, machine, 1, 0, header_size, 0, flags, *rest,
    )  # fmt: skip
    return b"".join(
        (
            header,
            segment(_PT_LOAD, 0, total, _PAGE),
            segment(_PT_DYNAMIC, at_dynamic, size_dynamic, 8),
            segment(_PT_GNU_STACK, 0, 0, 16),
            dynamic,
            bytes(symbol_size),
            hashes,
            strings,
        )
    )
