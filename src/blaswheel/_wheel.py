"""Writing wheels: a new one, or a changed one whose members keep their order.

Specification: https://packaging.python.org/en/latest/specifications/binary-distribution-format/
"""

from __future__ import annotations

import base64
import copy
import csv
import hashlib
import io
import os
import time
import zipfile

from blaswheel import _zips
from blaswheel._errors import FormatError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

#: Of members, where nothing else is said: the first that a zip file can tell.
_FIRST = 315532800
#: The last that it can tell.
_LAST = 4354819198


def write(
    target: str, members: Mapping[str, str | bytes], info: str, *, compress: bool = True
) -> None:
    """Write a wheel: members in order of their names, those of ``info`` last, RECORD at the end.

    The same members give the same file: all have the time that ``SOURCE_DATE_EPOCH`` says (else
    1980), and what is not executable is 0644.

    Parameters
    ----------
    target : str
        The wheel.
    members : mapping
        Member to its content, or the path of a file that has it.
    info : str
        The ``.dist-info`` folder, of which all but RECORD is among the members.
    compress : bool
        Not for a wheel that is read once and thrown away.

    Raises
    ------
    UsageError
        If ``SOURCE_DATE_EPOCH`` is no number.
    """
    moment = time.gmtime(_epoch())[:6]
    rows: list[tuple[str, str, int | str]] = []

    def put(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
        entry = zipfile.ZipInfo(name, moment)
        entry.compress_type = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
        entry.create_system = 3  # Unix, whose modes are told
        entry.external_attr = (0o100755 if _is_program(content) else 0o100644) << 16
        archive.writestr(entry, content)

    with zipfile.ZipFile(target, "w") as archive:
        for name in sorted(members, key=lambda name: (name.startswith(f"{info}/"), name)):
            content = _content(members[name])
            rows.append(_row(name, hashlib.sha256(content).digest(), len(content)))
            put(archive, name, content)
        record = f"{info}/RECORD"
        put(archive, record, _csv([*rows, (record, "", "")]))


def _epoch() -> int:
    text = os.environ.get("SOURCE_DATE_EPOCH")
    if not text:
        return _FIRST
    try:
        value = int(text)
    except ValueError:
        raise UsageError(
            f"SOURCE_DATE_EPOCH is {text!r}, not a number of seconds", "set a number, or unset it"
        ) from None
    return min(max(value, _FIRST), _LAST)


def _is_program(content: bytes) -> bool:
    return content.startswith((b"\x7fELF", b"#!"))


def _row(name: str, digest: bytes, size: int) -> tuple[str, str, int | str]:
    text = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    return name, f"sha256={text}", size


def _csv(rows: list[tuple[str, str, int | str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8", "surrogateescape")


def rewrite(
    source: str,
    target: str,
    *,
    changed: Mapping[str, str | bytes],
    removed: Collection[str] = (),
) -> None:
    """Copy a wheel with some members replaced, added or left out.

    Parameters
    ----------
    source, target : str
        The wheel and the copy, which must be another file.
    changed : mapping
        Member to its new content, or the path of a file that has it.
    removed : collection of str
        Members to leave out.

    Raises
    ------
    FormatError
        If the wheel is damaged, has no RECORD, or has a member twice.
    """
    try:
        with _zips.opened(source) as old, zipfile.ZipFile(target, "w") as new:
            _rewrite(source, old, new, changed, removed)
    except zipfile.BadZipFile as error:
        raise FormatError(
            f"{source}: can't be read as a wheel: {error}", "build it again"
        ) from error


def _rewrite(
    source: str,
    old: zipfile.ZipFile,
    new: zipfile.ZipFile,
    changed: Mapping[str, str | bytes],
    removed: Collection[str],
) -> None:
    rows: list[tuple[str, str, int | str]] = []
    members = old.infolist()
    if len({info.filename for info in members}) < len(members):
        raise FormatError(f"{source}: no wheel: a member is there twice", "build it again")

    def keep(info: zipfile.ZipInfo) -> None:
        state = hashlib.sha256()
        # zipfile writes into the record of a member where it has put it.
        with new.open(copy.copy(info), "w") as file:
            for piece in _zips.chunks(old, info):
                state.update(piece)
                file.write(piece)
        if not info.is_dir():
            rows.append(_row(info.filename, state.digest(), info.file_size))

    def put(info: zipfile.ZipInfo, content: bytes) -> None:
        rows.append(_row(info.filename, hashlib.sha256(content).digest(), len(content)))
        new.writestr(info, content)

    record = None
    left = dict(changed)
    for info in members:
        if info.filename.endswith(".dist-info/RECORD") and info.filename.count("/") == 1:
            record = info
        elif info.filename in left:
            put(info, _content(left.pop(info.filename)))
        elif info.filename not in removed:
            keep(info)
    if record is None:
        raise FormatError(f"{source}: no wheel: it has no RECORD", "build it again")
    for name, value in left.items():
        info = zipfile.ZipInfo(name, record.date_time)
        info.compress_type = record.compress_type
        info.external_attr = 0o644 << 16
        put(info, _content(value))
    new.writestr(record, _csv([*rows, (record.filename, "", "")]))


def _content(value: str | bytes) -> bytes:
    if isinstance(value, bytes):
        return value
    with open(value, "rb") as file:
        return file.read()
