"""Another platform tag for a wheel, without touching a byte of what it installs."""

from __future__ import annotations

import base64
import hashlib
import os

from blaswheel import _rawzip
from blaswheel._errors import BlaswheelError, FormatError

_SIGNATURES = ("RECORD.jws", "RECORD.p7s")


def name_with(path: str, platforms: str) -> str:
    """Return the file name of a wheel with other platform tags."""
    parts = os.path.basename(path).removesuffix(".whl").split("-")
    return "-".join([*parts[:-1], platforms]) + ".whl"


def retag(path: str, platforms: str, folder: str) -> str:
    """Write a copy of a wheel with other platform tags to a folder; return its path.

    The file name, the ``Tag:`` lines and their line in RECORD change, signatures are left out; the
    compressed bytes of all else are copied as they are. The same wheel gives the same copy.

    Parameters
    ----------
    path : str
        The wheel. Its file name counts where the tags inside it are others.
    platforms : str
        One or several platform tags, joined by dots.
    folder : str
        Where the copy goes; not that of the wheel, if its name does not change.

    Raises
    ------
    BlaswheelError
        If it is no wheel, or can't be written.
    """
    name = name_with(path, platforms)
    target = os.path.join(folder, name)
    temporary = os.path.join(folder, f".{name}.{os.urandom(4).hex()}.tmp")
    try:
        os.makedirs(folder, exist_ok=True)
        try:
            with open(path, "rb") as source, open(temporary, "wb") as file:
                archive = _rawzip.Archive(path, source)
                changed, removed = _changes(archive, name)
                _rawzip.copy(archive, file, changed, removed)
            os.replace(temporary, target)
        except BaseException:
            if os.path.exists(temporary):
                os.unlink(temporary)
            raise
    except OSError as error:
        what = error.filename or target
        raise BlaswheelError(
            f"{what}: {error.strerror or error}", "choose a folder that you can write to with -o"
        ) from error
    return target


def inner_tags(path: str) -> list[str]:
    """Return the ``Tag:`` lines of a wheel, in order."""
    with open(path, "rb") as file:
        archive = _rawzip.Archive(path, file)
        text = archive.read(f"{info_dir(archive)}/WHEEL").decode("utf-8", "surrogateescape")
    lines = (line.partition(":") for line in text.splitlines())
    return [value.strip() for key, _, value in lines if key.strip().lower() == "tag"]


def tags_of(name: str) -> list[str]:
    """Return the ``Tag:`` lines of a wheel of this file name, one for each triple."""
    python, abi, platforms = name.removesuffix(".whl").split("-")[-3:]
    return [
        f"{one}-{other}-{third}"
        for one in python.split(".")
        for other in abi.split(".")
        for third in platforms.split(".")
    ]


def info_dir(archive: _rawzip.Archive) -> str:
    """Return the name of a wheel's metadata folder."""
    found = {
        folder
        for folder, _, rest in (
            entry.name.decode("utf-8", "surrogateescape").partition("/")
            for entry in archive.entries
        )
        if folder.endswith(".dist-info") and rest == "WHEEL"
    }
    if len(found) != 1:
        raise FormatError(f"{archive.path}: no wheel: it has {len(found)} files *.dist-info/WHEEL",
                          "give the path of a wheel")  # fmt: skip
    return found.pop()


def _changes(archive: _rawzip.Archive, name: str) -> tuple[dict[str, bytes], set[str]]:
    folder = info_dir(archive)
    wheel, record = f"{folder}/WHEEL", f"{folder}/RECORD"
    text = _with_tags(archive.read(wheel), tags_of(name))
    present = {entry.name.decode("utf-8", "surrogateescape") for entry in archive.entries}
    removed = {f"{folder}/{each}" for each in _SIGNATURES} & present
    digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=")
    line = b"%b,sha256=%b,%d" % (wheel.encode(), digest, len(text))
    lines = []
    for old in archive.read(record).splitlines(keepends=True):
        listed = old.rpartition(b",")[0].rpartition(b",")[0].strip(b'"').decode("utf-8", "replace")
        if listed == wheel:
            lines.append(line + old[len(old.rstrip(b"\r\n")) :])
        elif listed not in removed:
            lines.append(old)
    return {wheel: text, record: b"".join(lines)}, removed


def _with_tags(text: bytes, tags: list[str]) -> bytes:
    """Return the content of WHEEL with other ``Tag:`` lines, where the first of them was."""
    lines = text.splitlines(keepends=True)
    end = b"\r\n" if lines and lines[0].endswith(b"\r\n") else b"\n"
    new = [f"Tag: {tag}".encode() + end for tag in tags]
    kept: list[bytes] = []
    place = None
    for line in lines:
        if line.partition(b":")[0].strip().lower() == b"tag":
            place = len(kept) if place is None else place
        else:
            kept.append(line)
    if place is None:
        # Before what may be an empty line at the end.
        place = next((n for n, line in enumerate(kept) if not line.strip()), len(kept))
    return b"".join([*kept[:place], *new, *kept[place:]])
