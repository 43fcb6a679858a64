"""Which files of which installed distributions could be a BLAS: file lists only, nothing is run.

Distributions are found as `importlib.metadata` finds them (``*.dist-info`` folders on the search
path, the first of a name wins), but only the file list is read: a thousand distributions are
common in a build environment, and parsing their metadata would cost more than all the rest.
Specification: https://packaging.python.org/en/latest/specifications/recording-installed-packages/
"""

from __future__ import annotations

import os
import sys

from blaswheel._errors import BlaswheelError
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

#: Headers whose folder is an include folder of a BLAS.
HEADERS = frozenset(
    (
        "cblas.h",
        "lapacke.h",
        "lapack.h",
        "f77blas.h",
        "openblas_config.h",
        "mkl_cblas.h",
        "mkl_lapacke.h",
        "nvpl_blas_cblas.h",
        "nvpl_lapacke.h",
    )
)
#: Of the file with a wheel's tags.
MAX_METADATA = 1 << 20
#: How far a project that is installed in place is looked through.
EDITABLE_DEPTH = 5
EDITABLE_FOLDERS = 2000
#: No file list of a real distribution comes near this size (torch: 3 MB).
MAX_RECORD_SIZE = 64 << 20


class Distribution(Record):
    """One installed distribution.

    Attributes
    ----------
    name : str
        Normalised (PEP 503): lower case, ``-`` between words.
    version : str
        As the metadata folder is named.
    root : str
        The folder that paths in the file list are relative to (site-packages).
    """

    name: str
    version: str
    root: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


class Files(Record):
    """What a distribution holds that concerns a BLAS; absolute paths, in the order listed."""

    distribution: Distribution
    libraries: tuple[str, ...] = ()
    #: folders that hold one of `HEADERS`
    include_dirs: tuple[str, ...] = ()
    #: of a project that is installed in place: the folders that were looked through
    looked_in: tuple[str, ...] = ()


def normalised(name: str) -> str:
    """Return a distribution's name as PEP 503 normalises it."""
    return "-".join(filter(None, name.lower().replace("_", "-").replace(".", "-").split("-")))


def search_path(
    root: str | None = None, python: str | None = None, platform: str | None = None
) -> tuple[str, ...]:
    """Return the folders to look for distributions in.

    Parameters
    ----------
    root : str, optional
        A foreign site-packages, an unpacked wheel, the prefix of an environment, a wheel, or a
        folder with wheels.
    python : str, optional
        Another interpreter, asked for its ``sys.path``.
    platform : str, optional
        The platform tag by which wheels of `root` are picked.

    Raises
    ------
    BlaswheelError
        If there is no such folder or interpreter, or `root` holds no distribution.
    """
    if root is not None:
        return (_root_folder(root, platform),)
    path = sys.path if python is None else _path_of(python)
    return tuple(
        dict.fromkeys(
            entry
            for entry in path
            if entry and (os.path.isdir(entry) or (_is_zip(entry) and os.path.isfile(entry)))
        )
    )


def _is_zip(entry: str) -> bool:
    return entry.lower().endswith((".zip", ".whl", ".egg"))


def zipped(path: Sequence[str]) -> Iterator[tuple[Distribution, str]]:
    """Yield the distributions inside zip files on ``path`` that list a library, with its name.

    Python imports from such files; no linker and no loader reads them.
    """
    for entry in path:
        if not _is_zip(entry) or not os.path.isfile(entry):
            continue
        import zipfile

        from blaswheel import _zips

        try:
            with _zips.opened(entry) as archive:
                names = archive.namelist()
        except (OSError, zipfile.BadZipFile):
            continue
        infos = dict.fromkeys(name.partition("/")[0] for name in names if ".dist-info/" in name)
        for info in infos:
            name, _, version = info.removesuffix(".dist-info").rpartition("-")
            distribution = Distribution(name=normalised(name), version=version, root=entry)
            for member in names:
                if _is_library_name(os.fsencode(member).rpartition(b"/")[2]):
                    yield distribution, member


def _root_folder(root: str, platform: str | None) -> str:
    if not os.path.isdir(root):
        if root.endswith(".whl") and os.path.isfile(root):
            return _unpacked([root], platform)
        what = "neither a folder nor a wheel" if os.path.exists(root) else "no such folder or wheel"
        raise BlaswheelError(
            f"--root {root}: {what}", "give a site-packages folder, a wheel, or a folder of wheels"
        )
    candidates = [root]
    for lib in ("lib", "lib64"):
        folder = os.path.join(root, lib)
        if os.path.isdir(folder):
            candidates += [
                os.path.join(folder, name, "site-packages")
                for name in sorted(os.listdir(folder))
                if name.startswith("python3")
            ]
    candidates.append(os.path.join(root, "Lib", "site-packages"))
    for folder in candidates:
        if os.path.isdir(folder) and any(name.endswith(".dist-info") for name in _names(folder)):
            return os.path.abspath(folder)
    wheels = [os.path.join(root, name) for name in sorted(_names(root)) if name.endswith(".whl")]
    if wheels:
        return _unpacked(wheels, platform)
    raise BlaswheelError(
        f"--root {root}: holds no installed distribution (no *.dist-info folder) and no wheel",
        "give a site-packages folder, the prefix of an environment, a wheel, or a folder of wheels",
    )


def _unpacked(wheels: Sequence[str], platform: str | None) -> str:
    from blaswheel import _roots

    return os.path.join(_roots.prefix(wheels, platform), _roots.SITE)


#: Imports what is built in only: a module in the current folder could stand for any other.
_PRINT_PATH = "import sys; print(*map(ascii, sys.path), sep=chr(10))"


def _path_of(python: str) -> list[str]:
    import ast
    import subprocess

    try:
        answer = subprocess.run(
            [python, "-c", _PRINT_PATH],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=60,
        )
        path = [ast.literal_eval(line) for line in answer.stdout.decode("ascii").splitlines()]
    except (OSError, subprocess.SubprocessError, ValueError, SyntaxError) as error:
        raise BlaswheelError(
            f"--python {python}: can't ask it for its search path ({_first_line(error)})",
            "give the path of a working Python interpreter",
        ) from error
    if not path:
        raise BlaswheelError(
            f"--python {python}: tells no search path, so it is no Python interpreter",
            "give the path of a working Python interpreter",
        )
    # "" stands for that interpreter's current folder.
    return [entry for entry in path if isinstance(entry, str) and entry]


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def distributions(path: Sequence[str]) -> Iterator[tuple[Distribution, str]]:
    """Yield each distribution on ``path`` with its metadata folder; the first of a name wins."""
    seen = set()
    for root in path:
        for entry in sorted(_names(root)):
            if not entry.endswith(".dist-info"):
                continue
            name, _, version = entry[: -len(".dist-info")].rpartition("-")
            name = normalised(name)
            if name in seen:
                continue
            seen.add(name)
            distribution = Distribution(name=name, version=version, root=root)
            yield distribution, os.path.join(root, entry)


def stamps(path: Sequence[str]) -> tuple[tuple[str, tuple[tuple[str, int, int], ...]], ...]:
    """Return what tells whether the distributions on ``path`` and their file lists are the same.

    Per folder: each distribution, with the size and time (ns) of its file list; -1 without one.
    """
    return tuple(
        (
            root,
            tuple(
                (entry, *_size_and_time(f"{root}/{entry}/RECORD"))
                for entry in sorted(_names(root))
                if entry.endswith(".dist-info")
            ),
        )
        for root in path
    )


def _size_and_time(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return -1, -1
    return status.st_size, status.st_mtime_ns


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    # ValueError: a search path may hold what can't be a path.
    except (OSError, ValueError):
        return []


def files(distribution: Distribution, info_dir: str) -> Files | None:
    """Return what the distribution lists that may be a BLAS; None if there is nothing.

    A distribution without a file list (half removed, or not installed by a package installer)
    holds nothing.
    """
    try:
        with open(os.path.join(info_dir, "RECORD"), "rb") as file:
            record = file.read(MAX_RECORD_SIZE)
    except OSError:
        return None
    if b"direct_url.json" in record and _is_editable(info_dir):
        return _editable(distribution, info_dir)
    if not any(mark in record for mark in (b".so", b".dylib", b".dll", b".a,", b".lib,", b".h,")):
        return None
    libraries: list[str] = []
    include_dirs: dict[str, None] = {}
    for line in record.split(b"\n"):
        raw = _path_in(line)
        base = raw[raw.rfind(b"/") + 1 :]
        if not _is_library_name(base) and base[-2:] != b".h":
            continue
        relative = os.fsdecode(raw)
        if "\0" in relative:
            continue
        name = os.path.basename(relative)
        if base[-2:] == b".h" and name not in HEADERS:
            continue
        full = os.path.normpath(os.path.join(distribution.root, relative))
        if base[-2:] == b".h":
            include_dirs[os.path.dirname(full)] = None
        else:
            libraries.append(full)
    if not libraries and not include_dirs:
        return None
    return Files(
        distribution=distribution,
        libraries=tuple(libraries),
        # What is listed may have been removed.
        include_dirs=tuple(filter(os.path.isdir, include_dirs)),
    )


def _direct_url(info_dir: str) -> dict[str, Any]:
    """Return what an installer noted of where a distribution came from (PEP 610)."""
    import json

    try:
        with open(os.path.join(info_dir, "direct_url.json"), encoding="utf-8") as file:
            noted = json.loads(file.read(MAX_METADATA))
    except (OSError, ValueError, RecursionError):
        return {}
    return noted if isinstance(noted, dict) else {}


def _is_editable(info_dir: str) -> bool:
    noted = _direct_url(info_dir).get("dir_info")
    return isinstance(noted, dict) and noted.get("editable") is True


def _editable(distribution: Distribution, info_dir: str) -> Files | None:
    """Return what the folder holds that a distribution is installed from in place (PEP 660).

    How modules are found differs by build backend (a path, a finder, a loader that builds first);
    the folder is the same for all. It is looked through to a bound: it is somebody's project.
    """
    url = _direct_url(info_dir).get("url")
    if not isinstance(url, str) or not url.startswith("file:"):
        return None
    from urllib.parse import unquote, urlsplit
    from urllib.request import url2pathname

    try:
        project = url2pathname(unquote(urlsplit(url).path) if os.name != "nt" else url[7:])
    except ValueError:
        return None
    libraries: list[str] = []
    include_dirs: dict[str, None] = {}
    queue = [(project, 0)]
    for folder, depth in queue:
        try:
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except (OSError, ValueError):
            continue
        if any(entry.name == "pyvenv.cfg" for entry in found):
            continue
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                inside = depth < EDITABLE_DEPTH and len(queue) < EDITABLE_FOLDERS
                if inside and not entry.name.startswith((".", "__pycache__", "node_modules")):
                    queue.append((entry.path, depth + 1))
            elif entry.name in HEADERS:
                include_dirs[folder] = None
            elif _is_library_name(os.fsencode(entry.name)):
                libraries.append(entry.path)
    return Files(
        distribution=distribution,
        libraries=tuple(libraries),
        include_dirs=tuple(include_dirs),
        looked_in=tuple(folder for folder, _ in queue),
    )


def info_dir(distribution: Distribution) -> str | None:
    """Return the metadata folder of a distribution; None if it is gone."""
    for entry in sorted(_names(distribution.root)):
        if entry.endswith(".dist-info"):
            name, _, version = entry[: -len(".dist-info")].rpartition("-")
            if (normalised(name), version) == (distribution.name, distribution.version):
                return os.path.join(distribution.root, entry)
    return None


def wheel_tags(distribution: Distribution) -> list[str]:
    """Return the tags of the wheel that a distribution was installed from."""
    folder = info_dir(distribution)
    try:
        with open(os.path.join(folder or "", "WHEEL"), encoding="utf-8", errors="replace") as file:
            lines = file.read(MAX_METADATA).splitlines()
    except OSError:
        return []
    return [line[4:].strip() for line in lines if line.startswith("Tag:")]


def listed(distribution: Distribution, ending: str) -> list[str]:
    """Return the files of a distribution whose names end so, as absolute paths."""
    folder = info_dir(distribution)
    if folder is None:
        return []
    try:
        with open(os.path.join(folder, "RECORD"), "rb") as file:
            record = file.read(MAX_RECORD_SIZE)
    except OSError:
        return []
    end = os.fsencode(ending)
    found = []
    for line in record.split(b"\n"):
        raw = _path_in(line)
        if raw.endswith(end) and b"\0" not in raw:
            found.append(os.path.normpath(os.path.join(distribution.root, os.fsdecode(raw))))
    return found


def _path_in(line: bytes) -> bytes:
    """Return the path in a line ``path,hash,size``; csv quotes one that has a comma or a quote."""
    if line[:1] == b'"':
        return line[1:].replace(b'""', b"\0").partition(b'"')[0].replace(b"\0", b'"')
    return line.partition(b",")[0]


def _is_library_name(base: bytes) -> bool:
    """Tell whether a file of this name is worth opening (its magic number then decides).

    Extension modules are not: nothing can be linked against them.
    """
    if base.endswith((b".so", b".dylib", b".dll", b".a", b".lib")):
        return not (base.endswith(b".abi3.so") or b".cpython-" in base or b".pypy" in base)
    stem, dot, version = base.partition(b".so.")
    return bool(dot and stem and version[:1].isdigit())
