"""The binaries of a wheel, and what they need: read one at a time, through one temporary file."""

from __future__ import annotations

import os
import posixpath
import tempfile
import zipfile
from itertools import chain

from blaswheel import _elf, _policies, _zips
from blaswheel._errors import BlaswheelError, FormatError
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from blaswheel._elf import Requirements

MAX_MEMBERS = 200_000
#: Of one member, and of all together, unpacked.
MAX_MEMBER, MAX_SIZE = 8 << 30, 32 << 30
_ELF_MAGIC = b"\x7fELF"
_MACHO_MAGICS = tuple(
    bytes.fromhex(magic)
    for magic in ("feedface", "feedfacf", "cefaedfe", "cffaedfe", "cafebabe", "cafebabf")
)


class Elf(Record):
    """An ELF file."""

    name: str
    needs: Requirements
    #: the folders of the wheel that its run paths lead to
    reaches: tuple[str, ...]
    #: the first symbol of each version that may decide, by the version's index
    symbols: dict[int, str]


class Found(Record):
    """The binaries of a wheel."""

    elf: tuple[Elf, ...]
    #: member, machine, oldest macOS
    macho: tuple[tuple[str, str, tuple[int, ...]], ...]
    #: member, machine, whether it is a program
    pe: tuple[tuple[str, str, bool], ...]
    unread: tuple[str, ...]
    extension: bool


def is_loadable(name: str) -> bool:
    """Tell by its name whether a file is a library or an extension module."""
    _, versioned, version = name.rpartition(".so.")
    return name.endswith((".so", ".dylib", ".pyd", ".dll")) or (
        bool(versioned) and version.replace(".", "").isdigit()
    )


def scan(path: str) -> Found:
    """Read every binary of a wheel.

    Raises
    ------
    BlaswheelError
        If the wheel can't be read.
    """
    elf: list[Elf] = []
    macho: list[tuple[str, str, tuple[int, ...]]] = []
    pe: list[tuple[str, str, bool]] = []
    unread: list[str] = []
    extension = False
    with tempfile.TemporaryDirectory(prefix="blaswheel-tag-") as folder:
        place = os.path.join(folder, "member")
        for name, magic in members(path, place):
            base = posixpath.basename(name)
            extension = extension or (
                ".cpython-" in base or ".abi3." in base or ".pyd" in base or ".cp3" in base
            )
            try:
                if magic == _ELF_MAGIC:
                    elf.append(_read_elf(name, place))
                elif magic in _MACHO_MAGICS:
                    macho += _read_macho(name, place)
                else:
                    pe += _read_pe(name, place)
            except FormatError as error:
                if not _is_object(place):
                    why = error.message.partition(": ")[2] or error.message
                    unread.append(f"{name}: not verified: {why}")
    return Found(
        elf=tuple(elf),
        macho=tuple(macho),
        pe=tuple(pe),
        unread=tuple(unread),
        extension=extension,
    )


def members(path: str, place: str) -> Iterator[tuple[str, bytes]]:
    """Put each binary of a wheel into the file at ``place``; yield its name and first bytes."""
    try:
        with _zips.opened(path) as archive:
            members = archive.infolist()
            if len(members) > MAX_MEMBERS:
                raise _unreadable(path, f"it has {len(members)} members")
            left = MAX_SIZE
            for member in members:
                left -= member.file_size
                if member.file_size > MAX_MEMBER or left < 0:
                    raise _unreadable(path, f"it unpacks to more than {MAX_SIZE >> 30} GB")
                if member.file_size < 52 or member.filename.endswith("/"):
                    continue
                content = _zips.chunks(archive, member, head=4)
                magic = next(content)
                if magic != _ELF_MAGIC and magic[:2] != b"MZ" and magic not in _MACHO_MAGICS:
                    content.close()
                    continue
                with open(place, "wb") as target:
                    target.writelines(chain((magic,), content))
                yield member.filename, magic
    except zipfile.BadZipFile as error:
        raise _unreadable(path, str(error)) from error
    except OSError as error:
        raise BlaswheelError(
            f"{path}: {error.strerror or error}", "give the path of a wheel"
        ) from error


def _unreadable(path: str, why: str) -> BlaswheelError:
    return BlaswheelError(f"{path}: can't be read as a wheel: {why}", "download or build it again")


def _read_elf(name: str, place: str) -> Elf:
    needs = _elf.requirements(place)
    # Told now, while the file is here: of each library the newest version may decide.
    newest: dict[str, tuple[int, int]] = {}
    for _file, version, index, weak in needs.versions:
        family = version.partition("_")[0]
        minor = 1000 if _policies.minor(version) is None else _policies.minor(version) or 0
        if not weak and minor > newest.get(family, (-1, 0))[0]:
            newest[family] = minor, index
    symbols = {}
    for _minor, index in newest.values():
        symbol = _elf.versioned_symbol(place, index)
        if symbol is not None:
            symbols[index] = symbol
    home = posixpath.dirname(name)
    reaches = []
    for entry in (*needs.rpath, *needs.runpath):
        for origin in ("$ORIGIN", "${ORIGIN}"):
            if entry == origin or entry.startswith(f"{origin}/"):
                reached = posixpath.normpath(posixpath.join(home, f".{entry[len(origin) :]}"))
                reaches.append("" if reached == "." else reached)
    return Elf(name=name, needs=needs, reaches=tuple(reaches), symbols=symbols)


def _read_macho(name: str, place: str) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    from blaswheel import _binary

    first = _binary.read(place)
    for machine in first.machines or (first.machine,):
        binary = first if machine == first.machine else _binary.read(place, machine)
        if binary.format == "ar":
            continue
        system, version = binary.minimum_os or ("macos", "")
        if system != "macos":
            continue
        yield name, machine, tuple(int(part) for part in version.split(".") if part.isdigit())


def _read_pe(name: str, place: str) -> Iterator[tuple[str, str, bool]]:
    """Yield a DLL or program; nothing for one of MS-DOS."""
    from blaswheel import _pe

    with open(place, "rb") as file:
        head = file.read(64)
        if len(head) < 64:
            return
        file.seek(int.from_bytes(head[60:64], "little"))
        head = file.read(24)
    if head[:4] != b"PE\0\0":
        return
    code = int.from_bytes(head[4:6], "little")
    machine, _ = _pe.MACHINES.get(code, (f"pe-{code:04x}", 0))
    yield name, machine, not int.from_bytes(head[22:24], "little") & _pe.IMAGE_FILE_DLL


def _is_object(place: str) -> bool:
    """Tell whether an ELF file is for a linker, and so needs nothing."""
    with open(place, "rb") as file:
        head = file.read(18)
    order = "big" if head[5:6] == b"\2" else "little"
    return head[:4] == _ELF_MAGIC and int.from_bytes(head[16:18], order) == 1  # type: ignore[arg-type]
