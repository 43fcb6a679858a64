"""Writing a changed wheel: its members in the order they were, RECORD by what is in them now."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import zipfile

from blaswheel._errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


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
        If the wheel has no RECORD.
    """
    rows: list[tuple[str, str, int | str]] = []
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:

        def put(info: zipfile.ZipInfo, content: bytes) -> None:
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            rows.append((info.filename, f"sha256={digest.decode()}", len(content)))
            new.writestr(info, content)

        record = None
        left = dict(changed)
        for info in old.infolist():
            if info.filename.endswith(".dist-info/RECORD") and info.filename.count("/") == 1:
                record = info
            elif info.filename not in removed:
                value = left.pop(info.filename, None)
                put(info, old.read(info) if value is None else _content(value))
        if record is None:
            raise FormatError(f"{source}: no wheel: it has no RECORD", "build it again")
        for name, value in left.items():
            info = zipfile.ZipInfo(name, record.date_time)
            info.compress_type = record.compress_type
            info.external_attr = 0o644 << 16
            put(info, _content(value))
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([*rows, (record.filename, "", "")])
        new.writestr(record, text.getvalue())


def _content(value: str | bytes) -> bytes:
    if isinstance(value, bytes):
        return value
    with open(value, "rb") as file:
        return file.read()
