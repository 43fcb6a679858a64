"""Writing files so that no reader ever sees half of one, and the cache they may live in."""

from __future__ import annotations

import os
import sys

from blaswheel._errors import BlaswheelError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def cache_dir(environ: Mapping[str, str] = os.environ) -> str:
    """Return the folder of blaswheel's cache; it need not exist.

    ``BLASWHEEL_CACHE_DIR`` if set, else the platform's place: ``$XDG_CACHE_HOME/blaswheel`` or
    ``~/.cache/blaswheel``, ``~/Library/Caches/blaswheel``, ``%LOCALAPPDATA%\\blaswheel\\Cache``.
    """
    chosen = environ.get("BLASWHEEL_CACHE_DIR")
    if chosen:
        return os.path.abspath(chosen)
    home = os.path.expanduser("~")
    if sys.platform == "win32":
        base = environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
        return os.path.join(base, "blaswheel", "Cache")
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Caches", "blaswheel")
    base = environ.get("XDG_CACHE_HOME", "")
    # The XDG specification: a relative path is invalid and is ignored.
    if not os.path.isabs(base):
        base = os.path.join(home, ".cache")
    return os.path.join(base, "blaswheel")


def write_atomically(path: str, content: bytes) -> None:
    """Write ``content`` to ``path`` by way of a temporary file beside it, creating its folder.

    Raises
    ------
    BlaswheelError
        If it can't be written; nothing is left behind.
    """
    folder = os.path.dirname(os.path.abspath(path))
    temporary = os.path.join(folder, f".{os.path.basename(path)}.{os.getpid()}.tmp")
    try:
        os.makedirs(folder, exist_ok=True)
        try:
            with open(temporary, "wb") as file:
                file.write(content)
            os.replace(temporary, path)
        except BaseException:
            try:
                os.unlink(temporary)
            except OSError:
                pass
            raise
    except OSError as error:
        raise BlaswheelError(
            f"can't write {path}: {error.strerror or error}",
            "choose a folder that you can write to",
        ) from error
