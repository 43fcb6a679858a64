"""Static libraries: what a program that links one needs besides, and a shared copy to call.

A shared library says what it needs; an archive does not. What its members call and do not define
tells it: ``pthread_create`` is libpthread's, ``_gfortran_concat_string`` libgfortran's.
"""

from __future__ import annotations

import os

from blaswheel import _files
from blaswheel._errors import BlaswheelError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from blaswheel._library import Library

#: What starts a thread.
_THREADS = frozenset(("pthread_create", "_beginthreadex", "CreateThread", "GOMP_parallel"))


class NotLinkedError(BlaswheelError):
    """A static library can't be linked here, so that it can't be called."""


def is_static(library: Library) -> bool:
    """Tell whether a library is a static one."""
    return library.binary.format == "ar"


def completed(library: Library) -> Library:
    """Return a library with what a link of it needs besides, where it does not say so itself.

    Raises
    ------
    FormatError
        If it is a malformed archive.
    OSError
        If it can't be read.
    """
    if not is_static(library) or library.system:
        return library
    from blaswheel import _undefined

    wanted = _undefined.undefined(library.path) - set(library.binary.functions)
    threading = library.threading
    if threading == "pthreads" and not _THREADS & wanted:
        threading = "none"
    return library.replace(system=_undefined.link_names(wanted), threading=threading)


def loadable(library: Library) -> str:
    """Return the path of a file that can be opened: a static library's shared copy in the cache.

    Raises
    ------
    NotLinkedError
        As for `shared`.
    BlaswheelError
        If the cache can't be written.
    """
    if not is_static(library):
        return library.path
    import tempfile

    stat = os.stat(library.path)
    real = os.path.realpath(library.path)
    key = _files.digest(real, str(stat.st_size), str(stat.st_mtime_ns))
    folder = os.path.join(_files.cache_dir(), "shared", key)
    name = _shared_name(library)
    path = os.path.join(folder, name)
    if not os.path.isfile(path):
        _files.make_folder(folder)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            os.replace(shared(library, scratch), path)
    return path


def _shared_name(library: Library) -> str:
    return f"{os.path.basename(library.path).rpartition('.')[0]}.so"


def shared(library: Library, folder: str) -> str:
    """Link a static library into a shared one in ``folder``, to be called, and return its path.

    Raises
    ------
    NotLinkedError
        If there is no compiler, or it does not link, as code that is not position-independent
        does not.
    """
    import shlex
    import subprocess

    compiler = shlex.split(os.environ.get("CC") or "cc")
    output = os.path.join(folder, _shared_name(library))
    command = [*compiler, "-shared", "-o", output, "-Wl,--whole-archive", library.path]
    command += ["-Wl,--no-whole-archive", *(f"-l{name}" for name in completed(library).system)]
    try:
        reply = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise NotLinkedError(
            f"{library.title} is a static library, which has to be linked before it can be "
            f"called, and {compiler[0]}: {error.strerror}",
            "install a C compiler, or name it in CC",
        ) from error
    if reply.returncode != 0:
        complaint = next((line for line in reply.stderr.splitlines() if line.strip()), "no message")
        raise NotLinkedError(
            f"{library.title} is a static library, and {compiler[0]} can't link it: {complaint}",
            "install what is missing, or use another library",
        )
    return output
