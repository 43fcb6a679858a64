"""Alias archives: a static library that gives a shared library names it does not export.

Each member is an object that defines one name and jumps to the native one, so that a linker takes
only what is used; the result imports the native names and exports nothing new. The archive's format
is that of the system: GNU's for ELF, Microsoft's for COFF, BSD's for Mach-O.

Everything in a member but the names depends on their lengths only, so that one template per pair
of lengths serves: five thousand aliases take milliseconds.
"""

from __future__ import annotations

import struct
from itertools import accumulate

from blaswheel import _files
from blaswheel._errors import BlaswheelError
from blaswheel._objects import ALIGNMENT, around
from blaswheel._stubs import complex_stub, stub

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    #: offered name, what is before the names in the object, the names, what is after, the size
    Member = tuple[bytes, bytes, bytes, bytes, int]

#: Part of every archive's name: raise it whenever `archive` would write other bytes than before.
_FORMAT = 1

_MAGIC = b"!<arch>\n"
# Header of an archive's member: name 16 characters, date 12, uid 6, gid 6, mode 8, size 10.
_HEADER = b"%-16b0           0     0     644     %-10d`\n"
_HEADER_SIZE = 60


def name(
    aliases: Mapping[str, str],
    machine: str,
    kind: str = "elf",
    *,
    visibility: str = "hidden",
    results: Mapping[str, str] | None = None,
    stem: str,
) -> str:
    """Return the link name of the archive of ``aliases``: ``blaswheel_<stem>_<16 digits>``.

    The digits are a 64-bit hash over all that decides the archive's bytes, so that no two archives
    meet under one name. The file is ``lib<name>.a``.
    """
    lines = [f"{_FORMAT} {kind} {machine} {visibility}"]
    lines += [f"{offered} {native}" for offered, native in _needed(aliases)]
    lines += sorted(f"{offered} = {precision}" for offered, precision in (results or {}).items())
    text = "\n".join(lines)
    return f"blaswheel_{stem}_{_files.digest(text)}"


def archive(
    aliases: Mapping[str, str],
    machine: str,
    kind: str = "elf",
    *,
    visibility: str = "hidden",
    results: Mapping[str, str] | None = None,
) -> bytes:
    """Return a static archive that defines each key of ``aliases`` as a jump to its value.

    The same arguments give the same bytes.

    Parameters
    ----------
    aliases : mapping
        Offered name to native name. A name offered as itself needs no alias and gets none.
    machine : str
        As `Binary.machine` names it.
    kind : {'elf', 'macho', 'pe'}
        Format of the objects.
    visibility : {"hidden", "default"}
        Of the offered names. Hidden ones stay inside the output that the archive is linked into;
        default ones are exported from it, and so also serve the shared objects beside it.
    results : mapping, optional
        Offered name to ``single`` or ``double``, for functions whose complex result the native one
        writes to memory and the caller wants in registers.

    Raises
    ------
    BlaswheelError
        If there is no alias code for the machine, or a name can't be that of an alias.
    """
    plain = stub(machine, kind)
    results = results or {}
    codes = {each: complex_stub(machine, kind, each) for each in set(results.values())}
    mark = "_" if plain.underscore else ""
    objects: dict[tuple[int, int, str | None], tuple[bytes, bytes, int]] = {}
    members = []
    for name, native_name in _needed(aliases):
        offered = f"{mark}{name}".encode("utf-8", "surrogateescape")
        native = f"{mark}{native_name}".encode("utf-8", "surrogateescape")
        if native.endswith(offered):
            # Its tail serves as the offered name too, as in any string table.
            strings, start = native, len(native) - len(offered)
        else:
            strings, start = b"%b\0%b" % (native, offered), len(native) + 1
        key = (start, len(strings), results.get(name))
        found = objects.get(key)
        if found is None:
            code = codes[key[2]] if key[2] else plain
            before, after = around(code, visibility, start, len(strings))
            found = objects[key] = before, after, len(before) + len(strings) + len(after)
        members.append((offered, found[0], strings, found[1], found[2]))
    write = {"elf": _gnu, "macho": _bsd, "pe": _microsoft}[kind]
    pieces = write(members)
    if sum(map(len, pieces)) >= 1 << 32:
        raise BlaswheelError(
            f"{len(members)} aliases do not fit one archive",
            "use the library's own names: --native",
        )
    return b"".join(pieces)


def _gnu(members: list[Member]) -> list[bytes]:
    """Return the archive as GNU ``ar`` writes it: System V, with an index."""
    named, table = _named(members, b"/\n")
    # The index: count and offsets of the members (big-endian on every machine), then the symbols.
    # It and the table are filled up, so that the first object is aligned like all others.
    count = len(members)
    symbols = b"".join([b"%b\0" % member[0] for member in members])
    symbols += bytes(-(4 + 4 * count + len(symbols)) % ALIGNMENT)
    at = len(_MAGIC) + _HEADER_SIZE + 4 + 4 * count + len(symbols) + len(table)
    offsets = _offsets(at, members)
    index = struct.pack(f">{1 + count}I", count, *offsets) + symbols
    return [_MAGIC, _HEADER % (b"/", len(index)), index, table, *named]


def _microsoft(members: list[Member]) -> list[bytes]:
    """Return the archive as Microsoft's ``lib`` writes it: with two indices.

    The first is GNU's; the second has the members in their order, and the symbols sorted, each with
    the number of its member. ("PE Format", archive file format.)
    """
    named, table = _named(members, b"\0")
    count = len(members)
    symbols = b"".join([b"%b\0" % member[0] for member in members])
    first_size = 4 + 4 * count + len(symbols)
    first_end = bytes(first_size % 2)
    ordered = sorted(range(count), key=lambda number: members[number][0])
    second_size = 4 + 4 * count + 4 + 2 * count + len(symbols)
    second_end = bytes(second_size % 2)
    at = len(_MAGIC) + 2 * _HEADER_SIZE + len(table)
    at += first_size + len(first_end) + second_size + len(second_end)
    # Members need an even place, and no more here.
    offsets = _offsets(at, members)
    if count >= 1 << 16:
        raise BlaswheelError(
            f"{count} aliases do not fit one archive", "use the library's own names: --native"
        )
    first = struct.pack(f">{1 + count}I", count, *offsets) + symbols
    second = struct.pack(f"<{1 + count}I", count, *offsets)
    second += struct.pack(f"<I{count}H", count, *(number + 1 for number in ordered))
    second += b"".join([b"%b\0" % members[number][0] for number in ordered])
    return [
        _MAGIC,
        *(_HEADER % (b"/", len(first)), first, first_end),
        *(_HEADER % (b"/", len(second)), second, second_end),
        table,
        *named,
    ]


def _bsd(members: list[Member]) -> list[bytes]:
    """Return the archive as macOS's ``libtool`` writes it: BSD, with a sorted index.

    Names stand before the content, filled up so that objects begin at a multiple of eight bytes.
    """
    pieces = []
    sizes = []
    for offered, before, strings, after, size in members:
        name = offered.removeprefix(b"_").replace(b"/", b"_") + b".o"
        length = len(name) + 1 + -(_HEADER_SIZE + len(name) + 1) % ALIGNMENT
        header = _HEADER % (b"#1/%d" % length, length + size)
        pieces.append(b"".join((header, name.ljust(length, b"\0"), before, strings, after)))
        sizes.append(len(pieces[-1]))
    ordered = sorted(range(len(members)), key=lambda number: members[number][0])
    texts = b"".join([b"%b\0" % members[number][0] for number in ordered])
    texts += bytes(-len(texts) % ALIGNMENT)
    title = b"__.SYMDEF SORTED".ljust(20, b"\0")
    size = 4 + 8 * len(members) + 4 + len(texts)
    at = len(_MAGIC) + _HEADER_SIZE + len(title) + size
    offsets = list(accumulate(sizes, initial=at))
    entries = []
    place = 0
    for number in ordered:
        entries += [place, offsets[number]]
        place += len(members[number][0]) + 1
    index = struct.pack(f"<{1 + len(entries)}I", 4 * len(entries), *entries)
    index += struct.pack("<I", len(texts)) + texts
    return [_MAGIC, _HEADER % (b"#1/20", len(title) + size), title, index, *pieces]


def _named(members: list[Member], end: bytes) -> tuple[list[bytes], bytes]:
    """Return the members with their headers, and the member "//" that holds long names."""
    named = []
    long_names = []
    long_size = 0
    for offered, before, strings, after, size in members:
        plain = offered.replace(b"/", b"_") + b".o"
        name = plain + b"/"
        if len(name) > 16:
            # Too long for the header, which then tells where the table "//" holds it.
            long_names.append(plain + end)
            name, long_size = b"/%d" % long_size, long_size + len(long_names[-1])
        named.append(b"%b%b%b%b" % (_HEADER % (name, size), before, strings, after))
    if not long_names:
        return named, b""
    long_names.append(b"\n" * (-(_HEADER_SIZE + long_size) % ALIGNMENT))
    content = b"".join(long_names)
    return named, b"%-48b%-10d`\n%b" % (b"//", len(content), content)


def _offsets(at: int, members: list[Member]) -> list[int]:
    """Return where each member begins, the first at ``at``."""
    sizes = [_HEADER_SIZE + size for *_, size in members]
    return list(accumulate(sizes[:-1], initial=at)) if sizes else []


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
