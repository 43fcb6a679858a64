"""Reading zip files by `zipfile`, which has many kinds of errors for one that is damaged."""

from __future__ import annotations

import errno
import struct
import zipfile
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator

try:
    from lzma import LZMAError
except ImportError:
    # Of a Python that was built without it, and so does not read such members.
    LZMAError = zlib.error  # type: ignore[assignment, misc]

#: RuntimeError: encrypted, or packed by a method that zipfile does not have.
DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    LZMAError,
    struct.error,
    EOFError,
    OverflowError,
    RuntimeError,
    ValueError,
)
_CHUNK = 1 << 20


def opened(path: str) -> zipfile.ZipFile:
    """Open a zip file for reading.

    Raises
    ------
    BadZipFile
        If it is damaged, or none.
    OSError
        If the file can't be read.
    """
    try:
        return zipfile.ZipFile(path)
    except DAMAGE as error:
        raise damaged(error) from error
    except OSError as error:
        # Of a directory that would begin before the file.
        if error.errno == errno.EINVAL:
            raise damaged(error) from error
        raise


def chunks(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, head: int = _CHUNK
) -> Generator[bytes, None, None]:
    """Yield the content of a member, of exactly the size that its archive states.

    The first piece has at most ``head`` bytes.

    Raises
    ------
    BadZipFile
        If the member is damaged: an OSError is that of who writes down what is read.
    """
    left, size = member.file_size, head
    try:
        with archive.open(member) as source:
            while chunk := source.read(min(size, left + 1)):
                left, size = left - len(chunk), _CHUNK
                if left < 0:
                    raise zipfile.BadZipFile(f"member {member.filename!r} is larger than it says")
                yield chunk
    # bzip2 reports damage as an OSError.
    except (*DAMAGE, OSError) as error:
        raise damaged(error) from error
    if left:
        raise zipfile.BadZipFile(f"member {member.filename!r} is smaller than it says")


def damaged(error: Exception) -> zipfile.BadZipFile:
    """Return what to raise for an error of `zipfile`: in one line, whatever it quotes."""
    words = " ".join(str(error).split())
    return zipfile.BadZipFile(words.encode("ascii", "backslashreplace").decode() or "no zip file")
