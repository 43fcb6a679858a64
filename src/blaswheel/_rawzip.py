"""Zip files with some members replaced or left out, and all others copied byte for byte.

`zipfile` can't copy without unpacking and packing again, which takes long and changes the bytes.
Specification: PKWARE's APPNOTE.TXT.
"""

from __future__ import annotations

import os
import struct
import zlib

from blaswheel._errors import FormatError
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO

_END = struct.Struct("<4sHHHHIIH")
_LOCATOR = struct.Struct("<4sIQI")
_END64 = struct.Struct("<4sQHHIIQQQQ")
_CENTRAL = struct.Struct("<4sHHHHHHIIIHHHHHII")
_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_FULL = 0xFFFFFFFF
MAX_DIRECTORY = 256 << 20
#: Of a member that is read or replaced.
MAX_MEMBER = 64 << 20


class _Entry(Record):
    """A line of the central directory."""

    name: bytes
    #: of the member's local header
    offset: int
    fields: tuple[int, ...]
    extra: bytes
    comment: bytes


class Archive:
    """An open zip file."""

    def __init__(self, path: str, file: BinaryIO) -> None:
        self.path = path
        self.file = file
        self.size = os.fstat(file.fileno()).st_size
        self._find_directory()
        self.entries = self._entries()

    def error(self, what: str) -> FormatError:
        return FormatError(f"{self.path}: {what}", "download or build it again")

    def at(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes at an offset."""
        if offset < 0 or offset + length > self.size:
            raise self.error("truncated, or no zip file")
        self.file.seek(offset)
        content = self.file.read(length)
        if len(content) != length:
            raise self.error("truncated while it was read")
        return content

    def _find_directory(self) -> None:
        tail_size = min(self.size, _END.size + 0xFFFF)
        tail = self.at(self.size - tail_size, tail_size)
        at = tail.rfind(b"PK\5\6")
        if at < 0 or len(tail) - at < _END.size:
            raise self.error("no zip file")
        end = _END.unpack_from(tail, at)
        self.comment = tail[at + _END.size :]
        count, size, offset = end[4], end[5], end[6]
        end_at = self.size - tail_size + at
        self.is_64 = end_at >= _LOCATOR.size and (self.at(end_at - _LOCATOR.size, 4) == b"PK\6\7")
        if self.is_64:
            place = _LOCATOR.unpack(self.at(end_at - _LOCATOR.size, _LOCATOR.size))[2]
            wide = _END64.unpack(self.at(place, _END64.size))
            if wide[0] != b"PK\6\6":
                raise self.error("malformed end of the zip file")
            count, size, offset, end_at = wide[7], wide[8], wide[9], place
        if size > MAX_DIRECTORY or offset + size > end_at:
            raise self.error("malformed directory")
        self.count, self.directory_size, self.directory = count, size, offset

    def _entries(self) -> list[_Entry]:
        content = self.at(self.directory, self.directory_size)
        entries = []
        at = 0
        for _ in range(self.count):
            if at + _CENTRAL.size > len(content):
                raise self.error("malformed directory")
            magic, *fields = _CENTRAL.unpack_from(content, at)
            lengths = fields[9:12]
            ends = at + _CENTRAL.size, sum(lengths[:1]), sum(lengths[:2]), sum(lengths)
            start = ends[0]
            if magic != b"PK\1\2" or start + ends[3] > len(content):
                raise self.error("malformed directory")
            extra = content[start + ends[1] : start + ends[2]]
            offset = fields[15]
            if offset == _FULL:
                place = self._wide_offset(fields, extra)
                (offset,) = struct.unpack_from("<Q", extra, place)
            entries.append(
                _Entry(
                    name=content[start : start + ends[1]],
                    offset=offset,
                    fields=tuple(fields),
                    extra=extra,
                    comment=content[start + ends[2] : start + ends[3]],
                )
            )
            at = start + ends[3]
        if len({entry.offset for entry in entries}) != len(entries):
            raise self.error("members lie on top of each other")
        return entries

    def _wide_offset(self, fields: list[int] | tuple[int, ...], extra: bytes) -> int:
        """Return where in the extra field the 64-bit offset is."""
        at = 0
        while at + 4 <= len(extra):
            kind, length = struct.unpack_from("<HH", extra, at)
            place = at + 4 + 8 * ((fields[8] == _FULL) + (fields[7] == _FULL))
            if kind == 1 and place + 8 <= at + 4 + length and at + 4 + length <= len(extra):
                return place
            at += 4 + length
        raise self.error("malformed directory")

    def find(self, name: str) -> _Entry:
        """Return the one member of a name."""
        found = [entry for entry in self.entries if entry.name == name.encode()]
        if len(found) != 1:
            raise self.error(f"{name} is there {len(found)} times")
        return found[0]

    def read(self, name: str) -> bytes:
        """Return the content of a small member."""
        entry = self.find(name)
        method, crc, packed, size = (entry.fields[number] for number in (3, 6, 7, 8))
        if max(packed, size) > MAX_MEMBER:
            raise self.error(f"{name} is larger than {MAX_MEMBER >> 20} MB")
        local = _LOCAL.unpack(self.at(entry.offset, _LOCAL.size))
        content = self.at(entry.offset + _LOCAL.size + local[9] + local[10], packed)
        if method == 8:
            unpacker = zlib.decompressobj(-15)
            try:
                content = unpacker.decompress(content, size + 1)
            except zlib.error as error:
                raise self.error(f"{name}: {error}") from None
        elif method != 0:
            raise self.error(f"{name} is packed in a way that wheels are not")
        if len(content) != size or zlib.crc32(content) != crc:
            raise self.error(f"{name} is damaged")
        return content


def copy(
    archive: Archive, target: BinaryIO, changed: Mapping[str, bytes], removed: set[str]
) -> None:
    """Write a copy: bytes, order, times and modes of the members stay what they are.

    Parameters
    ----------
    archive : Archive
    target : file
        Open for writing.
    changed : mapping
        Member to its new content.
    removed : set of str
        Members to leave out.
    """
    contents = {name.encode(): content for name, content in changed.items()}
    left_out = {name.encode() for name in removed}
    ordered = sorted(archive.entries, key=lambda entry: entry.offset)
    ends = [entry.offset for entry in ordered[1:]] + [archive.directory] * bool(ordered)
    written: dict[int, bytes] = {}
    # What stands before the first member, as in a file that unpacks itself.
    _copy_bytes(archive, target, 0, ordered[0].offset if ordered else 0)
    for entry, end in zip(ordered, ends, strict=True):
        if entry.name in left_out:
            continue
        at = target.tell()
        if entry.name in contents:
            written[entry.offset] = _replace(entry, contents[entry.name], target, at)
        else:
            _copy_bytes(archive, target, entry.offset, end)
            written[entry.offset] = _moved(archive, entry, at)
    start = target.tell()
    lines = [written[entry.offset] for entry in archive.entries if entry.offset in written]
    target.write(b"".join(lines))
    size = target.tell() - start
    wide = archive.is_64 or start >= _FULL or size >= _FULL or len(lines) >= 0xFFFF
    if wide:
        place = target.tell()
        target.write(_END64.pack(b"PK\6\6", 44, 45, 45, 0, 0, len(lines), len(lines), size, start))
        target.write(_LOCATOR.pack(b"PK\6\7", 0, place, 1))
    target.write(
        _END.pack(
            b"PK\5\6", 0, 0, min(len(lines), 0xFFFF), min(len(lines), 0xFFFF),
            min(size, _FULL), min(start, _FULL), len(archive.comment),
        )
    )  # fmt: skip
    target.write(archive.comment)


def _copy_bytes(archive: Archive, target: BinaryIO, start: int, end: int) -> None:
    if end < start or end > archive.size:
        raise archive.error("malformed directory")
    archive.file.seek(start)
    left = end - start
    while left:
        chunk = archive.file.read(min(left, 1 << 20))
        if not chunk:
            raise archive.error("truncated while it was read")
        target.write(chunk)
        left -= len(chunk)


def _line(entry: _Entry, fields: list[int], extra: bytes) -> bytes:
    head = _CENTRAL.pack(b"PK\1\2", *fields)
    return b"".join((head, entry.name, extra, entry.comment))


def _moved(archive: Archive, entry: _Entry, offset: int) -> bytes:
    fields = list(entry.fields)
    if fields[15] == _FULL:
        extra = bytearray(entry.extra)
        struct.pack_into("<Q", extra, archive._wide_offset(fields, entry.extra), offset)
        return _line(entry, fields, bytes(extra))
    if offset >= _FULL:
        raise archive.error("it would grow beyond 4 GB, in a form that has no room for it")
    fields[15] = offset
    return _line(entry, fields, entry.extra)


def _replace(entry: _Entry, content: bytes, target: BinaryIO, offset: int) -> bytes:
    """Write a member with new content, packed as it was, and return its line."""
    fields = list(entry.fields)
    method = 8 if fields[3] == 8 else 0
    packed = content
    if method == 8:
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        packed = packer.compress(content) + packer.flush()
    # No sizes after the content (bit 3), and nothing of old sizes.
    fields[2] &= ~0x8
    fields[3] = method
    fields[6], fields[7], fields[8] = zlib.crc32(content), len(packed), len(content)
    fields[10] = 0
    fields[15] = offset
    target.write(
        _LOCAL.pack(
            b"PK\3\4", fields[1], fields[2], method, fields[4], fields[5],
            fields[6], len(packed), len(content), len(entry.name), 0,
        )
    )  # fmt: skip
    target.write(entry.name)
    target.write(packed)
    return _line(entry, fields, b"")
