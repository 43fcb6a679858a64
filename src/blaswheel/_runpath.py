"""Run paths of ELF files: reading them, and setting them in place.

A linker writes ``DT_RUNPATH`` (or ``DT_RPATH``) as one string of entries with ``:`` between them.
It is set in place: the new string goes where the old one is, which moves nothing else in the file.
That needs as many bytes as the old one had, less those that linkers let other names share (a
symbol called ``lib`` may be the end of ``.../lib``).
"""

from __future__ import annotations

import os
import struct
import tempfile

from blaswheel import _elf
from blaswheel._errors import BlaswheelError
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Dynamic tags whose value is a string: NEEDED, SONAME, RPATH, RUNPATH, CONFIG, DEPAUDIT, AUDIT,
#: AUXILIARY, FILTER.
_STRING_TAGS = (1, 14, 15, 29, 0x6FFFFEFA, 0x6FFFFEFB, 0x6FFFFEFC, 0x7FFFFFFD, 0x7FFFFFFF)
_DT_VERDEF, _DT_VERDEFNUM = 0x6FFFFFFC, 0x6FFFFFFD
_VERSIONS = "table of versions"


class NoRoomError(BlaswheelError):
    """The run path can't be set in place: there is none, or the new one is longer."""


def is_elf(head: bytes) -> bool:
    """Tell whether a file that begins with ``head`` is an ELF file."""
    return head[:4] == b"\x7fELF"


class Linked(Record):
    """What an ELF file asks the loader for, and where it has it look."""

    needed: tuple[str, ...]
    #: without empty entries; ``DT_RPATH`` only where there is no ``DT_RUNPATH``, as in the loader
    run_path: tuple[str, ...]


def linked(path: str) -> Linked:
    """Read the ELF file at ``path``.

    Raises
    ------
    FormatError
        If it is no dynamically linked ELF file, or malformed.
    OSError
        If it can't be opened.
    """
    with _elf._open(path) as file:
        image = _elf._Image(path, file)
        strings = _elf._Strings(image)
        tag = next((one for one in (_elf.DT_RUNPATH, _elf.DT_RPATH) if one in image.dynamic), None)
        text = "" if tag is None else strings.at(image.value(tag))
        return Linked(
            needed=tuple(map(strings.at, image.dynamic.get(_elf.DT_NEEDED, ()))),
            run_path=tuple(filter(None, text.split(":"))),
        )


def entries(path: str) -> tuple[str, ...]:
    """Return the run path of the ELF file at ``path``; raises as `linked` does."""
    return linked(path).run_path


def replaced(data: bytes, new: Sequence[str], *, name: str = "the file") -> bytes:
    """Return the content of an ELF file with its run path set to ``new``, in place.

    The kind stays: a ``DT_RPATH`` stays one. Without entries the tag is removed. Nothing of the
    old path is left in the file, but for what other names share with it.

    Parameters
    ----------
    data : bytes
        The content of a dynamically linked ELF file.
    new : sequence of str
        The entries.
    name : str
        What the file is called in messages.

    Raises
    ------
    FormatError
        If the file is malformed.
    NoRoomError
        If there is no run path to replace, or not enough room.
    """
    with tempfile.TemporaryFile() as file:
        file.write(data)
        image = _elf._Image(name, file)
        tags = [tag for tag in (_elf.DT_RUNPATH, _elf.DT_RPATH) if tag in image.dynamic]
        if not tags:
            if not new:
                return data
            raise NoRoomError(f"{name}: has no run path that could be changed", "link it anew")
        spans = {_span(image, offset) for tag in tags for offset in image.dynamic[tag]}
        table = image.extent(image.value(_elf.DT_STRTAB), "string table")[0]
        # Of several the last one counts.
        begin, room = _span(image, image.value(tags[0]))
        text = os.fsencode(":".join(new))
        if len(text) > room:
            raise NoRoomError(
                f"{name}: a run path of {len(text)} bytes does not fit in place ({room} bytes)",
                "link it with a longer run path",
            )
        result = bytearray(data)
        for start, length in spans:
            result[table + start : table + start + length] = bytes(length)
        result[table + begin : table + begin + len(text)] = text
        # Where both are, the loader reads DT_RUNPATH alone.
        _drop_tags(image, result, set(tags[1:] if new else tags))
    return bytes(result)


def _span(image: _elf._Image, start: int) -> tuple[int, int]:
    """Return where in the string table a run path is, and how many bytes no other name uses."""
    content = image.load(image.value(_elf.DT_STRTAB), image.value(_elf.DT_STRSZ), "string table")
    end = content.find(b"\0", start)
    if end < 0:
        raise image.error("a name lies outside the string table")
    others = set(_name_offsets(image))
    if content[start - 1 : start] not in (b"", b"\0"):
        # Perhaps the end of a longer name, whose first byte is what tells.
        first = content.rfind(b"\0", 0, start) + 1
        if any(first <= other < start for other in others):
            raise NoRoomError(f"{image.path}: its run path is the end of another name", "")
    inside = [other for other in others if start <= other < end]
    # The last byte before a shared name is the new string's end.
    return start, (min(inside) - 1 - start if inside else end - start)


def _name_offsets(image: _elf._Image) -> Iterator[int]:
    """Yield where each name begins that is not the run path."""
    for tag in _STRING_TAGS:
        if tag not in (_elf.DT_RPATH, _elf.DT_RUNPATH):
            yield from image.dynamic.get(tag, ())
    strings = _elf._Strings(image)
    yield from _elf._Symbols(image, strings).offsets
    yield from _version_names(image)


def _version_names(image: _elf._Image) -> Iterator[int]:
    """Yield where the names begin that the tables of needed and of defined versions use."""
    # Per table: its tags; format, and where in an entry are the count and the place of its parts
    # and the step to the next one; the same of a part: its name, and the step.
    needs = (_elf.DT_VERNEED, _elf.DT_VERNEEDNUM, "HHIII", (1, 3, 4), "IHHII", (3, 4))
    definitions = (_DT_VERDEF, _DT_VERDEFNUM, "HHHHIII", (3, 5, 6), "II", (0, 1))
    for tag, number, entry, (count, parts, further), part, (name, step) in (needs, definitions):
        if tag not in image.dynamic:
            continue
        offset, available = image.extent(image.value(tag), _VERSIONS)
        content = image.at(offset, min(available, _elf.MAX_VERSIONS), _VERSIONS)
        left = len(content) // 8
        at = 0
        try:
            for _ in range(image.value(number)):
                fields = struct.unpack_from(image.order + entry, content, at)
                if tag == _elf.DT_VERNEED:
                    yield fields[2]
                part_at = at + fields[parts]
                for _ in range(fields[count]):
                    left -= 1
                    if left < 0:
                        raise image.error(f"malformed {_VERSIONS}")
                    values = struct.unpack_from(image.order + part, content, part_at)
                    yield values[name]
                    part_at += values[step]
                at += fields[further]
        except struct.error:
            raise image.error(f"outside its segment: {_VERSIONS}") from None


def _drop_tags(image: _elf._Image, result: bytearray, dropped: set[int]) -> None:
    """Take tags out of the dynamic section: what follows moves up, DT_NULL fills the end."""
    form = f"{image.order}2{image.address}"
    begin = image.dynamic_offset
    end = begin + struct.calcsize(form) * sum(map(len, image.dynamic.values()))
    kept = b"".join(
        struct.pack(form, tag, value)
        for tag, value in struct.iter_unpack(form, result[begin:end])
        if tag not in dropped
    )
    result[begin:end] = kept.ljust(end - begin, b"\0")
