"""What was found out before, kept in the cache for as long as the files it was read from last.

A memo is a value under a key, with a stamp of each file that it depends on; it holds while all
stamps do. The cache is its owner's, and as trusted as the archives in it; a damaged entry is not
read: its digest comes first.
"""

from __future__ import annotations

import marshal
import os
import sys

from blaswheel import _files
from blaswheel._binary import Binary
from blaswheel._errors import BlaswheelError
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    #: path, size, time of the last change of content and of status (ns); None if it is not there
    Stamp = tuple[str, tuple[int, int, int] | None]

#: What `marshal` writes can be read by every Python that has this version or a newer one.
_MARSHAL_VERSION = 4
_SEAL = 16
#: What changed so shortly ago (ns) may change again without a trace in its times.
_UNSETTLED = 2_000_000_000
_RECORD, _UNREAD = "\0record", "\0unread"
#: The tables of a library take longer to keep than to read again when somebody needs them.
_TABLES = ("functions", "objects", "imports", "interposable", "forwards")


def stamp(path: str) -> Stamp:
    """Return what tells whether a file or folder is still what it was."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return path, None
    return path, (status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def recall(kind: str, *key: str) -> Any:
    """Return the value that was remembered under a key, if nothing it depends on changed."""
    try:
        with open(_entry(kind, key), "rb") as file:
            content = file.read()
    except (OSError, BlaswheelError):
        return None
    seal, packed = content[:_SEAL], content[_SEAL:]
    if _seal(packed) != seal:
        return None
    try:
        stamps, value = marshal.loads(packed)
    except (EOFError, TypeError, ValueError):
        return None
    if any(stamp(path) != (path, was) for path, was in stamps):
        return None
    return _unpacked(value)


def remember(value: object, stamps: Iterable[Stamp], kind: str, *key: str) -> None:
    """Keep a value of records, tuples, dictionaries, strings and numbers.

    ``stamps`` are those taken before the value was found. What changed in the last two seconds is
    not kept, and a cache that can't be written costs time, nothing else.
    """
    import time

    listed = tuple(stamps)
    settled = time.time_ns() - _UNSETTLED
    if any(was is not None and was[2] > settled for _, was in listed):
        return
    packed = marshal.dumps((listed, _packed(value)), _MARSHAL_VERSION)
    try:
        _files.write_atomically(_entry(kind, key), _seal(packed) + packed)
    except BlaswheelError:
        pass


def _entry(kind: str, key: tuple[str, ...]) -> str:
    """Return the path of an entry: of this very installation, since another may find otherwise."""
    _, changed = stamp(__file__)
    name = _files.digest(kind, sys.implementation.cache_tag or "", __file__, str(changed), *key)
    return os.path.join(_files.cache_dir(), "memos", name)


def _seal(packed: bytes) -> bytes:
    return _files.digest(packed.decode("latin-1")).encode()


class Unread(Binary):
    """A binary whose tables are read when first asked for."""

    def __getattribute__(self, name: str) -> Any:
        own = object.__getattribute__(self, "__dict__")
        if name in _TABLES and name not in own:
            from blaswheel import _binary

            read = _binary.read(own["path"], own["machine"])
            for table in _TABLES:
                own[table] = getattr(read, table)
        return object.__getattribute__(self, name)


def _packed(value: Any) -> Any:
    if isinstance(value, Binary) and not value.joined:
        fields = {name: _packed(getattr(value, name)) for name in _kept(value)}
        return (_UNREAD, fields)
    if isinstance(value, Record):
        kind = type(value)
        fields = {name: _packed(getattr(value, name)) for name in value._fields}
        return (_RECORD, kind.__module__, kind.__qualname__, fields)
    if isinstance(value, tuple):
        return tuple(map(_packed, value))
    if isinstance(value, dict):
        return {key: _packed(each) for key, each in value.items()}
    return value


def _kept(binary: Binary) -> Iterable[str]:
    return (name for name in binary._fields if name not in _TABLES)


def _unpacked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unpacked(each) for key, each in value.items()}
    if not isinstance(value, tuple):
        return value
    if value[:1] == (_UNREAD,):
        return _made(Unread, value[1])
    if value[:1] == (_RECORD,):
        _, module, name, fields = value
        from importlib import import_module

        return _made(getattr(import_module(module), name), fields)
    return tuple(map(_unpacked, value))


def _made(kind: type[Record], fields: dict[str, Any]) -> Record:
    """Return a record as it was: without asking for the fields that an unread one lacks."""
    record = kind.__new__(kind)
    record.__dict__.update((name, _unpacked(each)) for name, each in fields.items())
    return record
