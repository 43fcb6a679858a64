"""A copy of a library that other libraries in the process can't reach into.

Two BLAS libraries in one scope of the loader take over each other's exported names, whichever
comes first. An ELF library with ``DF_SYMBOLIC`` looks its own names up in itself first; a copy
needs a SONAME of its own too, or the loader takes the original, if that is there already, for the
copy.

How: the string table grows by the new names, so it moves into a read-only segment behind the last
one. ``.dynamic`` stays where it is as long as its spare ``DT_NULL`` entries suffice, else it moves
too. The program header of the new segment goes behind the others if there is room, else in place
of a ``PT_NOTE`` (the build ID, which no loader reads; its section stays), else all of them move
too. Everything else keeps its address and its bytes: code, symbols, versions, relocations.
Linkers read section headers where loaders read program headers, so both are kept true.

A dependency that was found through ``$ORIGIN`` is still found: in a copy that is written to another
folder, ``$ORIGIN`` in RPATH and RUNPATH is replaced by the original's folder. Such a copy belongs
to this machine, and needs the original's neighbours for as long as it is used.

Limits
------
* The copy protects the names that the library itself defines; names that it takes from its
  dependencies (a LAPACK from a separate BLAS) are looked up as ever.
* musl ignores ``DF_SYMBOLIC``, so a library built for musl is refused.
* A library that looks for its parts beside its own file by itself (``libmkl_rt``) finds them only
  if the copy lies in the same folder.
* GNU ``strip`` breaks a copy whose program headers had to move (s390x wheels) and copies of
  libraries that patchelf has changed, as it breaks many of those libraries themselves.
* The address of a variable that the copy exports can differ from the one that an executable with
  copy relocations sees, as for every library linked with ``-Bsymbolic``.

References
----------
System V ABI, gABI 4.1, chapters 4 and 5.
"""

from __future__ import annotations

import os
import struct

from blaswheel import _files
from blaswheel._errors import BlaswheelError, FormatError, UsageError
from blaswheel._record import Record

_ET_DYN = 3
_PT_LOAD, _PT_DYNAMIC, _PT_NOTE, _PT_PHDR = 1, 2, 4, 6
_PF_W, _PF_R = 2, 4
_SHT_NULL, _SHT_STRTAB, _SHT_DYNAMIC, _SHT_NOBITS = 0, 3, 6, 8
_SHF_ALLOC = 2
_DT_NULL, _DT_NEEDED, _DT_STRTAB, _DT_STRSZ, _DT_SONAME, _DT_RPATH = 0, 1, 5, 10, 14, 15
_DT_RUNPATH, _DT_FLAGS, _DT_FLAGS_1 = 29, 30, 0x6FFFFFFB
_DF_SYMBOLIC = 2
_DF_1_PIE = 0x08000000
_PN_XNUM = 0xFFFF

#: what follows e_ident: e_type, e_machine, e_version, e_entry, e_phoff, e_shoff, e_flags,
#: e_ehsize, e_phentsize, e_phnum, e_shentsize, e_shnum, e_shstrndx
_HEADER = {1: "HHIIIIIHHHHHH", 2: "HHIQQQIHHHHHH"}
_PHOFF, _SHOFF, _PHENTSIZE, _PHNUM, _SHENTSIZE, _SHNUM = 4, 5, 8, 9, 10, 11
_SEGMENT = {
    1: ("IIIIIIII", ("type", "offset", "vaddr", "paddr", "filesz", "memsz", "flags", "align")),
    2: ("IIQQQQQQ", ("type", "flags", "offset", "vaddr", "paddr", "filesz", "memsz", "align")),
}
#: sh_name, sh_type, sh_flags, sh_addr, sh_offset, sh_size, sh_link, sh_info, sh_addralign,
#: sh_entsize
_SECTION = {1: "IIIIIIIIII", 2: "IIQQQQIIQQ"}
_SH_TYPE, _SH_FLAGS, _SH_ADDR, _SH_OFFSET, _SH_SIZE = 1, 2, 3, 4, 5
#: d_tag, d_un
_DYNAMIC = {1: "II", 2: "QQ"}
_SIZE_LIMIT = {1: 1 << 32, 2: 1 << 64}


class _Segment(Record):
    type: int
    flags: int
    offset: int
    vaddr: int
    paddr: int
    filesz: int
    memsz: int
    align: int


class _Library(Record):
    """The parts of an ELF shared library that a copy changes."""

    order: str  # of bytes, as struct writes it
    elf_class: int
    header: tuple[int, ...]
    segments: tuple[_Segment, ...]
    sections: tuple[tuple[int, ...], ...]
    #: (tag, value), without the closing DT_NULL
    dynamic: tuple[tuple[int, int], ...]
    #: entries that fit where the dynamic section is, the closing DT_NULL among them
    capacity: int
    strings: bytes


def isolated(source: bytes, soname: str, *, origin: str | None = None) -> bytes:
    """Return a copy of an ELF shared library that binds its own names to itself.

    Parameters
    ----------
    source : bytes
        The library.
    soname : str
        The SONAME of the copy.
    origin : str, optional
        What ``$ORIGIN`` is replaced by in RPATH and RUNPATH: the absolute path of the folder that
        the library was in. By default ``$ORIGIN`` stays.

    Returns
    -------
    bytes
        The copy; ``source`` itself if nothing needs to change. The same input always gives the
        same output.

    Raises
    ------
    FormatError
        If ``source`` is malformed.
    BlaswheelError
        If it is not an ELF shared library, is built for musl, or already has that SONAME.
    UsageError
        If ``soname`` can't be a SONAME.
    """
    name = os.fsencode(soname)
    if not name or b"/" in name or b"\0" in name:
        raise UsageError(f"{soname!r} can't be the SONAME of a library", "choose a plain file name")
    library = _parse(source)
    _check(library, name)
    strings = bytearray(library.strings)

    def added(text: bytes) -> int:
        offset = len(strings)
        strings.extend(text + b"\0")
        return offset

    dynamic = list(library.dynamic)
    has_flags = has_soname = False
    for index, (tag, value) in enumerate(dynamic):
        if tag == _DT_FLAGS:
            dynamic[index] = (tag, value | _DF_SYMBOLIC)
            has_flags = True
        elif tag == _DT_SONAME:
            if _string(library, value) != name:
                dynamic[index] = (tag, added(name))
            has_soname = True
        elif tag in (_DT_RPATH, _DT_RUNPATH) and origin is not None:
            path = _string(library, value)
            anchored = _anchored(path, origin)
            if anchored != path:
                dynamic[index] = (tag, added(anchored))
    if not has_flags:
        dynamic.append((_DT_FLAGS, _DF_SYMBOLIC))
    if not has_soname:
        dynamic.append((_DT_SONAME, added(name)))
    if tuple(dynamic) == library.dynamic:
        return bytes(source)
    return _rebuilt(source, library, dynamic, bytes(strings))


def write(path: str, output: str) -> None:
    """Write an isolated copy of the library at ``path`` to ``output``.

    The SONAME is the file name of ``output``. In another folder than the library's own,
    ``$ORIGIN`` in RPATH and RUNPATH is replaced by the library's folder.

    Raises
    ------
    BlaswheelError
        As `isolated`, or if a file can't be read or written; nothing is left behind.
    """
    soname = os.path.basename(output)
    if not soname or os.path.isdir(output):
        raise UsageError(f"{output} is a folder", "give the path of the file to write")
    if not os.path.isfile(path):
        problem = "not a file" if os.path.exists(path) else "no such file"
        raise BlaswheelError(f"{path}: {problem}", "give the path of a shared library")
    folder = os.path.dirname(os.path.abspath(path))
    target = os.path.dirname(os.path.abspath(output))
    try:
        if os.path.exists(output) and os.path.samefile(path, output):
            raise UsageError(
                f"{output} is the library itself", "write the copy to a file of its own"
            )
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        raise BlaswheelError(
            f"can't read {path}: {error.strerror or error}", "give the path of a shared library"
        ) from error
    same_folder = os.path.realpath(folder) == os.path.realpath(target)
    try:
        copy = isolated(source, soname, origin=None if same_folder else folder)
    except BlaswheelError as error:
        # The pure function does not know which file it is about.
        raise type(error)(f"{path}: {error.message}", error.hint) from error
    _files.write_atomically(output, copy)


def _check(library: _Library, soname: bytes) -> None:
    """Refuse what would give a copy that is not isolated."""
    tags = dict(library.dynamic)
    if tags.get(_DT_FLAGS_1, 0) & _DF_1_PIE:
        raise BlaswheelError("a program, not a library", "give the path of a shared library")
    for tag, value in library.dynamic:
        if tag != _DT_NEEDED:
            continue
        needed = _string(library, value)
        # musl's own name for itself, and the name of musl's file, by which musl-gcc links.
        if needed.startswith(b"libc.musl-") or needed == b"libc.so":
            raise BlaswheelError(
                f"built for musl ({os.fsdecode(needed)}), which ignores DF_SYMBOLIC: a copy would "
                "not be isolated",
                "link only one BLAS library into a program; musl keeps libraries apart that are "
                "loaded with dlopen(RTLD_LOCAL)",
            )
    if (
        _DT_SONAME in tags
        and _string(library, tags[_DT_SONAME]) == soname
        and not tags.get(_DT_FLAGS, 0) & _DF_SYMBOLIC
    ):
        raise BlaswheelError(
            f"its SONAME is already {os.fsdecode(soname)}: the loader would take the original and "
            "the copy for the same library",
            "give the copy another file name",
        )


def _anchored(path: bytes, origin: str) -> bytes:
    """Replace ``$ORIGIN`` in a run path by the folder it stood for."""
    if b"$ORIGIN" not in path and b"${ORIGIN}" not in path:
        return path
    folder = os.fsencode(origin)
    # A run path has no quoting: ":" separates, and the loader expands these three.
    special = (b":", b"$ORIGIN", b"$LIB", b"$PLATFORM", b"${")
    if any(text in folder for text in special):
        raise BlaswheelError(
            f"it finds its dependencies beside itself, and a run path can't name {origin}",
            "write the copy to the folder of the library, or move the library",
        )
    return path.replace(b"${ORIGIN}", folder).replace(b"$ORIGIN", folder)


def _parse(source: bytes) -> _Library:
    if source[:4] != b"\x7fELF":
        raise _not_elf(source)
    try:
        elf_class, data = source[4], source[5]
        order = {1: "<", 2: ">"}[data]
        header = struct.unpack_from(order + _HEADER[elf_class], source, 16)
    except (IndexError, KeyError, struct.error):
        raise _malformed("its ELF header is truncated or unknown") from None
    if header[0] != _ET_DYN:
        raise BlaswheelError("not a shared library", "give the path of a shared library")
    layout, fields = _SEGMENT[elf_class]
    segments = tuple(
        _Segment(**dict(zip(fields, values, strict=True)))
        for values in _table(
            source, order + layout, header[_PHOFF], header[_PHENTSIZE], header[_PHNUM]
        )
    )
    # The copy has one more; from 0xffff on the count is kept elsewhere.
    if len(segments) + 1 >= _PN_XNUM:
        raise _malformed("too many program headers")
    sections: tuple[tuple[int, ...], ...] = ()
    if header[_SHNUM]:
        sections = _table(
            source,
            order + _SECTION[elf_class],
            header[_SHOFF],
            header[_SHENTSIZE],
            header[_SHNUM],
        )
    _check_segments(segments, len(source))
    dynamic, capacity = _dynamic(source, order + _DYNAMIC[elf_class], segments)
    return _Library(
        order=order,
        elf_class=elf_class,
        header=header,
        segments=segments,
        sections=sections,
        dynamic=dynamic,
        capacity=capacity,
        strings=_strings(source, segments, dynamic),
    )


def _not_elf(source: bytes) -> BlaswheelError:
    magic = bytes(source[:4])
    if magic[:2] == b"MZ" or magic in (
        b"\xfe\xed\xfa\xce",
        b"\xfe\xed\xfa\xcf",
        b"\xce\xfa\xed\xfe",
        b"\xcf\xfa\xed\xfe",
        b"\xca\xfe\xba\xbe",
    ):
        kind = "a Windows" if magic[:2] == b"MZ" else "a macOS"
        return BlaswheelError(
            f"{kind} library: no other library can take over its names",
            "link the library as it is",
        )
    if magic == b"!<ar":
        return BlaswheelError("a static archive", "give the path of a shared library")
    return FormatError(
        "not an ELF library" if magic else "empty file", "give the path of a shared library"
    )


def _malformed(problem: str) -> FormatError:
    return FormatError(f"malformed: {problem}", "install the library anew")


def _table(
    source: bytes, layout: str, offset: int, entry_size: int, count: int
) -> tuple[tuple[int, ...], ...]:
    size = struct.calcsize(layout)
    if entry_size != size or offset + count * size > len(source):
        raise _malformed("a header table is not within the file")
    return tuple(struct.iter_unpack(layout, source[offset : offset + count * size]))


def _check_segments(segments: tuple[_Segment, ...], size: int) -> None:
    end = 0
    for segment in segments:
        if segment.type != _PT_LOAD:
            continue
        if (
            segment.offset + segment.filesz > size
            or segment.filesz > segment.memsz
            or segment.vaddr < end
            or segment.align & (segment.align - 1)
        ):
            raise _malformed("a segment is not within the file, or not in order")
        end = segment.vaddr + segment.memsz
    if not end:
        raise _malformed("no segment to load")


def _dynamic(
    source: bytes, layout: str, segments: tuple[_Segment, ...]
) -> tuple[tuple[tuple[int, int], ...], int]:
    tables = [segment for segment in segments if segment.type == _PT_DYNAMIC]
    if len(tables) != 1:
        raise _malformed("no dynamic section, or several")
    [table] = tables
    size = struct.calcsize(layout)
    count = table.filesz // size
    if table.offset + table.filesz > len(source):
        raise _malformed("the dynamic section is not within the file")
    # Loaders read it by its address, linkers by its place in the file.
    if _place(segments, table.vaddr, table.filesz) != table.offset:
        raise _malformed("the dynamic section is not where it is loaded")
    entries: list[tuple[int, int]] = []
    content = source[table.offset : table.offset + count * size]
    for tag, value in struct.iter_unpack(layout, content):
        if tag == _DT_NULL:
            break
        entries.append((tag, value))
    else:
        # ld --spare-dynamic-tags=0 writes no end; the copy gets one.
        return tuple(entries), count
    # What is behind the end is spare only if nobody keeps anything in it.
    rest = content[len(entries) * size :]
    spare = (len(rest) - len(rest.lstrip(b"\0"))) // size
    return tuple(entries), len(entries) + max(spare, 1)


def _strings(
    source: bytes, segments: tuple[_Segment, ...], dynamic: tuple[tuple[int, int], ...]
) -> bytes:
    addresses = [value for tag, value in dynamic if tag == _DT_STRTAB]
    sizes = [value for tag, value in dynamic if tag == _DT_STRSZ]
    if len(addresses) != 1 or len(sizes) != 1:
        raise _malformed("no string table, or several")
    offset = _place(segments, addresses[0], sizes[0])
    strings = bytes(source[offset : offset + sizes[0]])
    if strings[-1:] != b"\0":
        raise _malformed("the string table has no end")
    return strings


def _place(segments: tuple[_Segment, ...], address: int, size: int) -> int:
    """Return where in the file ``size`` bytes are that are loaded at ``address``."""
    for segment in segments:
        if (
            segment.type == _PT_LOAD
            and segment.vaddr <= address
            and address + size <= segment.vaddr + segment.filesz
        ):
            return address - segment.vaddr + segment.offset
    raise _malformed("an address is in no segment")


def _string(library: _Library, offset: int) -> bytes:
    end = library.strings.find(b"\0", offset)
    if end < 0:
        raise _malformed("a name is not in the string table")
    return library.strings[offset:end]


def _rebuilt(
    source: bytes, library: _Library, dynamic: list[tuple[int, int]], strings: bytes
) -> bytes:
    """Return ``source`` with a segment behind it for all that no longer fits where it was."""
    order, elf_class = library.order, library.elf_class
    segment_layout, fields = _SEGMENT[elf_class]
    entry_layout = order + _DYNAMIC[elf_class]
    loads = [segment for segment in library.segments if segment.type == _PT_LOAD]
    moves = len(dynamic) + 1 > library.capacity
    table_size = (len(dynamic) + 1) * struct.calcsize(entry_layout)

    # The new segment: program headers and dynamic section if they move, then the strings. An
    # address congruent to the file offset needs no padding in the file beyond this.
    start = _aligned(len(source), 16)
    headers_start, dispensable = library.header[_PHOFF], None
    headers_size = (len(library.segments) + 1) * struct.calcsize(order + segment_layout)
    if not _is_free(library, headers_start, headers_size):
        notes = [segment for segment in library.segments if segment.type == _PT_NOTE]
        if notes:
            dispensable = notes[-1]
            headers_size -= struct.calcsize(order + segment_layout)
        else:
            headers_start = start
    headers_move = headers_start == start
    dynamic_start = _aligned(start + headers_size, 16) if headers_move else start
    strings_start = dynamic_start + (table_size if moves else 0)
    end = strings_start + len(strings)
    # The largest page that the library was linked for; no system has pages of less than 4 KiB.
    alignment = max(4096, *(segment.align for segment in loads))
    base = _aligned(loads[-1].vaddr + loads[-1].memsz, alignment) + start % alignment - start
    if base + end >= _SIZE_LIMIT[elf_class]:
        raise _malformed("no room behind its last segment")

    old_strings = next(value for tag, value in dynamic if tag == _DT_STRTAB)
    new_values = {_DT_STRTAB: base + strings_start, _DT_STRSZ: len(strings)}
    dynamic = [(tag, new_values.get(tag, value)) for tag, value in dynamic]
    table = b"".join(struct.pack(entry_layout, *entry) for entry in (*dynamic, (_DT_NULL, 0)))

    segments: list[_Segment] = []
    for segment in library.segments:
        if segment is dispensable:
            continue
        if segment.type == _PT_PHDR and headers_move:
            segments.append(_moved(segment, base, start, headers_size))
        elif segment.type == _PT_PHDR:
            segments.append(segment.replace(filesz=headers_size, memsz=headers_size))
        elif segment.type == _PT_DYNAMIC and moves:
            segments.append(_moved(segment, base, dynamic_start, table_size))
        else:
            segments.append(segment)
        if segment is loads[-1]:
            # Loaders before glibc 2.36 write to the dynamic section.
            new = segment.replace(flags=_PF_R | (_PF_W if moves else 0), align=alignment)
            segments.append(_moved(new, base, start, end - start))
    headers = b"".join(
        struct.pack(order + segment_layout, *(getattr(segment, field) for field in fields))
        for segment in segments
    )

    copy = bytearray(source).ljust(dynamic_start, b"\0")
    copy[headers_start : headers_start + headers_size] = headers
    if moves:
        copy += table
    else:
        place = next(segment for segment in segments if segment.type == _PT_DYNAMIC).offset
        copy[place : place + table_size] = table
    copy += strings

    header = list(library.header)
    header[_PHOFF], header[_PHNUM] = headers_start, len(segments)
    struct.pack_into(order + _HEADER[elf_class], copy, 16, *header)
    layout = order + _SECTION[elf_class]
    for index, values in enumerate(library.sections):
        section = list(values)
        if (
            section[_SH_TYPE] == _SHT_STRTAB
            and section[_SH_FLAGS] & _SHF_ALLOC
            and section[_SH_ADDR] == old_strings
        ):
            place, size = strings_start, len(strings)
        elif section[_SH_TYPE] == _SHT_DYNAMIC and moves:
            place, size = dynamic_start, table_size
        else:
            continue
        section[_SH_ADDR], section[_SH_OFFSET], section[_SH_SIZE] = base + place, place, size
        struct.pack_into(layout, copy, header[_SHOFF] + index * struct.calcsize(layout), *section)
    return bytes(copy)


def _is_free(library: _Library, start: int, size: int) -> bool:
    """Return whether the program headers may grow to ``size`` bytes where they are.

    Without section headers nobody can tell what the bytes behind them are for.
    """
    end = start + size
    taken = [
        (section[_SH_OFFSET], section[_SH_SIZE])
        for section in library.sections
        if section[_SH_TYPE] not in (_SHT_NULL, _SHT_NOBITS)
    ]
    taken += [
        (segment.offset, segment.filesz)
        for segment in library.segments
        if segment.type not in (_PT_LOAD, _PT_PHDR)
    ]
    section_layout = library.order + _SECTION[library.elf_class]
    taken.append((library.header[_SHOFF], len(library.sections) * struct.calcsize(section_layout)))
    return (
        bool(library.sections)
        and not any(offset < end and start < offset + length for offset, length in taken if length)
        and any(
            segment.offset <= start and end <= segment.offset + segment.filesz
            for segment in library.segments
            if segment.type == _PT_LOAD
        )
    )


def _moved(segment: _Segment, base: int, offset: int, size: int) -> _Segment:
    return segment.replace(
        offset=offset, vaddr=base + offset, paddr=base + offset, filesz=size, memsz=size
    )


def _aligned(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment
