"""Reading a file that may be malformed or hostile: nothing beyond its end, nothing without limit.

The readers of the binary formats see a file through `File`; names come through `Names`, code is
told from data by `Spans`.
"""

from __future__ import annotations

import os
import stat
from itertools import accumulate

from blaswheel._errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

    from typing_extensions import Self

#: Larger than any table of a real library, small enough to hold in memory.
MAX_TABLE = 256 << 20
#: No compiler makes longer ones.
MAX_NAME = 64 << 10
#: What the names and symbols of a file may take up in memory, each with the object that holds it.
#: Tables can be made to overlap, so this has nothing to do with the size of the file.
MAX_MEMORY = 256 << 20
OVERHEAD = 64
#: How many names are taken before what they cost is looked at.
CHUNK = 1024


class File:
    """A regular file, or a part of one, open for reading; a context manager.

    Parameters
    ----------
    path : str
        The file.

    Raises
    ------
    FormatError
        If it is not a regular file.
    OSError
        If it can't be opened.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.begin = 0
        self._left = [MAX_MEMORY]
        self._file = open(path, "rb", buffering=0, opener=_open)  # noqa: SIM115
        self.size = os.fstat(self._file.fileno()).st_size

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def part(self, offset: int, size: int) -> File:
        """Return a part as a file of its own, open as long as the whole is."""
        if offset + size > self.size:
            raise self.error("truncated")
        part = File.__new__(File)
        part.__dict__.update(self.__dict__)
        part.begin += offset
        part.size = size
        return part

    def error(self, what: str) -> FormatError:
        """Return the error to raise for a malformed file."""
        return FormatError(f"{self.path}: {what}", "reinstall what it belongs to")

    def at(self, offset: int, length: int, what: str) -> bytes:
        """Return ``length`` bytes at an offset; ``what`` they are is for the message."""
        if length > MAX_TABLE or offset + length > self.size:
            raise self.error(f"outside the file: {what}")
        if not length:
            return b""
        self._file.seek(self.begin + offset)
        content = self._file.read(length)
        while content and len(content) < length:
            more = self._file.read(length - len(content))
            if not more:
                break
            content += more
        if len(content) != length:
            raise self.error("truncated while it was read")
        return content

    def spend(self, count: int, characters: int = 0) -> None:
        """Count what names or symbols take up in memory, to stop at a limit."""
        self._left[0] -= count * OVERHEAD + characters
        if self._left[0] < 0:
            raise self.error("its names take up too much space")


def _open(path: str, flags: int) -> int:
    # Not to wait for a writer if it is a FIFO.
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FormatError(f"{path}: not a regular file", "give the path of a library")
    return descriptor


class Names:
    """A table of names that end with a zero byte.

    Parameters
    ----------
    file : File
        What it was read from.
    content : bytes
        The table.
    """

    def __init__(self, file: File, content: bytes) -> None:
        self.file = file
        self.content = content

    def at(self, offset: int) -> str:
        """Return the name that begins at an offset."""
        return self.many((offset,))[0]

    def many(self, offsets: Sequence[int]) -> list[str]:
        """Return the names that begin at these offsets, in this order."""
        if not offsets:
            return []
        content, find = self.content, self.content.find
        # Linkers write most tables in this order without gaps: cutting them up is faster.
        if len(offsets) > 100 and 0 <= offsets[0] < offsets[-1]:
            run = content[offsets[0] : max(0, find(0, offsets[-1], offsets[-1] + MAX_NAME))]
            lengths = [length + 1 for length in map(len, run.split(b"\0"))]
            if list(accumulate(lengths, initial=offsets[0]))[:-1] == list(offsets):
                self.file.spend(len(offsets), len(run))
                return decoded([run])
        found: list[bytes] = []
        for first in range(0, len(offsets), CHUNK):
            begins = offsets[first : first + CHUNK]
            ends = [find(0, begin, begin + MAX_NAME) for begin in begins]
            if min(ends) < 0 or min(begins) < 0:
                raise self.file.error("a name lies outside its table")
            self.file.spend(len(begins), sum(ends) - sum(begins))
            found += map(content.__getitem__, map(slice, begins, ends))
        return decoded(found)


def decoded(names: list[bytes]) -> list[str]:
    """Decode names as UTF-8, keeping whatever else is in them."""
    # Together, because that is several times faster; names have no zero bytes.
    return b"\0".join(names).decode("utf-8", "surrogateescape").split("\0") if names else []


def unique(names: Iterable[str]) -> tuple[str, ...]:
    """Return names sorted, each once."""
    return tuple(dict.fromkeys(sorted(names)))


class Spans:
    """Ranges of addresses.

    Parameters
    ----------
    spans : iterable of (int, int)
        First address and end of each; they may touch or overlap.
    """

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        merged: list[int] = []
        for begin, end in sorted(spans):
            if begin >= end:
                continue
            if merged and begin <= merged[-1]:
                merged[-1] = max(merged[-1], end)
            else:
                merged += (begin, end)
        self.bounds = merged

    def hold(self, addresses: Iterable[int]) -> list[bool]:
        """Tell of each address whether it lies in one of the ranges."""
        bounds = self.bounds
        if len(bounds) == 2:
            begin, end = bounds
            return [begin <= address < end for address in addresses]
        from bisect import bisect_right

        return [bool(bisect_right(bounds, address) & 1) for address in addresses]
