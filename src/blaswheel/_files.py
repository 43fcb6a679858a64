"""Writing files so that no reader ever sees half of one, and the cache they may live in."""

from __future__ import annotations

import os
import stat
import sys

from blaswheel._errors import BlaswheelError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def cache_dir(environ: Mapping[str, str] = os.environ) -> str:
    """Return the folder of blaswheel's cache; it need not exist.

    ``BLASWHEEL_CACHE_DIR`` if set, else the platform's place: ``$XDG_CACHE_HOME/blaswheel`` or
    ``~/.cache/blaswheel``, ``~/Library/Caches/blaswheel``, ``%LOCALAPPDATA%\\blaswheel\\Cache``.
    """
    chosen = environ.get("BLASWHEEL_CACHE_DIR")
    if chosen:
        return os.path.abspath(chosen)
    home = os.path.expanduser("~")
    if not os.path.isabs(home):
        # A user without HOME and without an entry in the password file.
        home = f"/var/tmp/blaswheel-{os.geteuid()}"
        os.makedirs(home, mode=0o700, exist_ok=True)
        if not _is_ours(home):
            raise BlaswheelError(
                f"there is no home folder for the cache, and {home} is another user's",
                "set BLASWHEEL_CACHE_DIR to a folder of yours",
            )
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

    A symbolic link stays one: what it leads to is written. So does a device or a pipe, into which
    the content goes as it is.

    Raises
    ------
    BlaswheelError
        If it can't be written; nothing is left behind.
    """
    if os.path.isdir(path):
        raise BlaswheelError(f"can't write {path}: it is a folder", "give the path of a file")
    is_special = os.path.exists(path) and not os.path.isfile(path)
    if os.path.islink(path) and not is_special:
        path = os.path.realpath(path)
    folder = os.path.dirname(os.path.abspath(path))
    temporary = os.path.join(folder, f".{os.path.basename(path)}.{os.urandom(4).hex()}.tmp")
    try:
        os.makedirs(folder, exist_ok=True)
        if is_special:
            with open(path, "wb") as file:
                file.write(content)
            return
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


def make_folder(path: str) -> None:
    """Create the folder ``path`` if it is not there.

    Raises
    ------
    BlaswheelError
        If it can't be made.
    """
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise BlaswheelError(
            f"can't write {path}: {error.strerror or error}",
            "choose a folder that you can write to",
        ) from error


def write_folder_atomically(folder: str, files: Mapping[str, bytes]) -> None:
    """Create ``folder`` with ``files`` in it at once; a folder that exists is left as it is.

    Raises
    ------
    BlaswheelError
        If it can't be written; nothing is left behind.
    """

    def fill(into: str) -> None:
        for name, content in files.items():
            with open(os.path.join(into, name), "wb") as file:
                file.write(content)

    fill_folder_atomically(folder, fill)


def fill_folder_atomically(folder: str, fill: Callable[[str], None]) -> None:
    """Create ``folder`` at once with what ``fill`` puts into the empty folder that it is given.

    A folder that exists is left as it is.

    Raises
    ------
    BlaswheelError
        If it can't be written; nothing is left behind.
    """
    parent = os.path.dirname(os.path.abspath(folder))
    # Not by tempfile: importing it takes longer than the rest.
    temporary = os.path.join(parent, f".{os.path.basename(folder)}.{os.urandom(8).hex()}.tmp")
    try:
        os.makedirs(parent, exist_ok=True)
        os.mkdir(temporary, 0o755)
        fill(temporary)
        try:
            os.rename(temporary, folder)
        except OSError:
            # Somebody else was faster: what is there has the same content by its name.
            if not os.path.isdir(folder):
                raise
    except OSError as error:
        raise BlaswheelError(
            f"can't write {folder}: {error.strerror or error}",
            "choose a folder that you can write to",
        ) from error
    finally:
        if os.path.isdir(temporary):
            import shutil

            shutil.rmtree(temporary, ignore_errors=True)


def remove_written(path: str, mark: bytes) -> None:
    """Remove the file ``path`` if it is there and begins with ``mark``: nobody else's."""
    if not os.path.isfile(path):
        return
    with open(path, "rb") as file:
        is_written = file.read(len(mark)) == mark
    if is_written:
        os.unlink(path)


def digest(*parts: str) -> str:
    """Return 16 hexadecimal digits that stand for ``parts`` (64 bits of BLAKE2b)."""
    try:
        # What hashlib would give, without loading OpenSSL.
        from _blake2 import blake2b
    except ImportError:
        from hashlib import blake2b

    text = "\0".join(parts).encode("utf-8", "surrogateescape")
    value: str = blake2b(text, digest_size=8).hexdigest()
    return value


_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./+@=")


def plain_path(folder: str) -> str:
    """Return a path to ``folder`` that needs no quoting: itself, or a symbolic link to it.

    pkgconf 1.8 loses the backslash before a space in ``-Wl,...`` and puts one between the bytes
    of a non-ASCII character, on which Meson fails; make and shells expand ``$`` once more. A path
    that has none of these is the only one that all of them take. Links are in the cache, or where
    the cache's own path is not plain (``/home/jörg``) in ``/var/tmp``, which outlives a restart.
    Where no link can be made (Windows, an unwritable cache) the folder itself is returned.
    """
    if _PLAIN.issuperset(folder) or os.name == "nt":
        return folder
    links = os.path.join(cache_dir(), "paths")
    if not _PLAIN.issuperset(links):
        links = f"/var/tmp/blaswheel-{os.geteuid()}"
    real = os.path.realpath(folder)
    link = os.path.join(links, digest(real))
    try:
        os.makedirs(links, mode=0o755, exist_ok=True)
        if links.startswith("/var/tmp/") and not _is_ours(links):
            return folder
        symlink(real, link)
    except OSError:
        return folder
    return link


def symlink(target: str, link: str) -> None:
    """Make ``link`` lead to ``target``, in place of where it led before.

    Raises
    ------
    OSError
        If that can't be done.
    """
    try:
        if os.readlink(link) == target:
            return
    except OSError:
        pass
    temporary = f"{link}.{os.urandom(4).hex()}.tmp"
    os.symlink(target, temporary)
    os.replace(temporary, link)


def _is_ours(folder: str) -> bool:
    """Tell whether nobody else can put links into a folder (anyone can make one in /var/tmp)."""
    status = os.lstat(folder)
    mine = status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return mine and stat.S_ISDIR(status.st_mode)


def linker_path(folder: str) -> str:
    """Return a path to ``folder`` that ``-Wl,`` can hold, which a comma would end."""
    return plain_path(folder) if "," in folder else folder


def loader_path(folder: str) -> str:
    """Return a path to ``folder`` that a path variable can hold, which its separator would end.

    The GNU loader also takes a semicolon for a separator.
    """
    return plain_path(folder) if os.pathsep in folder or ";" in folder else folder
