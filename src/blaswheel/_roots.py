"""Foreign environments as files: wheels read where they are, and the platforms they are for.

A wheel is unpacked into the cache as far as a BLAS concerns it (libraries, headers, metadata), in
the layout in which an installer would put it under a prefix, so that everything else sees an
installed environment. Wheels come from anywhere: nothing in one is believed.
Specification: https://packaging.python.org/en/latest/specifications/binary-distribution-format/
"""

from __future__ import annotations

import os
import re
import zipfile

from blaswheel import _files, _zips
from blaswheel._errors import BlaswheelError, UsageError
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SITE = os.path.join("lib", "python3", "site-packages")
#: Bounds on what a wheel may unpack to; the largest real library (MKL's) has 0.5 GB.
MAX_MEMBERS = 200_000
MAX_SIZE = 8 << 30
#: What of a wheel may matter to somebody who links with its library.
_WANTED = (".so", ".dylib", ".dll", ".a", ".lib", ".h", ".pc", ".f", ".f90", ".fi")
#: Where the schemes of ``NAME-VERSION.data/`` go under a prefix.
_SCHEMES = {"purelib": SITE, "platlib": SITE, "data": ""}
_LEGACY = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}


class Platform(Record):
    """A platform tag.

    Attributes
    ----------
    system : {'linux', 'manylinux', 'musllinux', 'macosx', 'win', 'any'}
        ``linux`` stands for any version of glibc.
    version : tuple of int
        Of the C library or of macOS; empty where the tag has none.
    machine : str
        As in wheel tags (``x86_64``, ``arm64``, ``amd64``).
    """

    system: str
    version: tuple[int, ...] = ()
    machine: str = ""


def platform(tag: str) -> Platform:
    """Return what a platform tag says.

    Raises
    ------
    UsageError
        If it is none.
    """
    found = re.fullmatch(r"(manylinux|musllinux|macosx)_(\d{1,4})_(\d{1,4})_(\w+)", tag)
    if found:
        system, major, minor, machine = found.groups()
        return Platform(system=system, version=(int(major), int(minor)), machine=machine)
    found = re.fullmatch(r"(manylinux1|manylinux2010|manylinux2014)_(\w+)", tag)
    if found:
        return Platform(system="manylinux", version=_LEGACY[found[1]], machine=found[2])
    found = re.fullmatch(r"(linux|macosx|win)_(\w+)", tag)
    if found:
        return Platform(system=found[1], machine=found[2])
    if tag == "win32":
        return Platform(system="win", machine="32")
    raise UsageError(
        f"{tag}: no platform tag",
        "give one as wheels have it: linux_aarch64, manylinux_2_28_x86_64, macosx_11_0_arm64, "
        "win_amd64",
    )


def serves(offered: Platform, wanted: Platform) -> bool:
    """Tell whether what is for one platform works on another."""
    if offered.system == "any":
        return True
    machines = {offered.machine, *(("arm64", "x86_64") if offered.machine == "universal2" else ())}
    if wanted.machine not in machines:
        return False
    if wanted.system == "linux":
        return offered.system in ("linux", "manylinux")
    if offered.system == "linux":
        # Which C library it needs is not said.
        return wanted.system in ("manylinux", "musllinux")
    if offered.system != wanted.system:
        return False
    return not wanted.version or offered.version <= wanted.version


def machine_of(wanted: Platform) -> tuple[str, str]:
    """Return the format and the machine of libraries for a platform, as readers tell them."""
    kind = {"macosx": "macho", "win": "pe"}.get(wanted.system, "elf")
    names = {"amd64": "x86_64", "arm64": "aarch64", "32": "i686"}
    return kind, names.get(wanted.machine, wanted.machine)


class Wheel(Record):
    """What the file name of a wheel says."""

    path: str
    name: str
    version: str
    tags: tuple[str, ...]


def prefix(paths: Sequence[str], tag: str | None) -> str:
    """Unpack the wheels that are for a platform, and return the prefix that they are in.

    Parameters
    ----------
    paths : sequence of str
        Wheels.
    tag : str, optional
        A platform tag.

    Raises
    ------
    BlaswheelError
        If a wheel can't be read, none is for the platform, or several could be meant.
    """
    chosen = _chosen([named(path) for path in paths], tag)
    parts = []
    for wheel in chosen:
        stat = os.stat(wheel.path)
        real = os.path.realpath(wheel.path)
        parts += [real, str(stat.st_size), str(stat.st_mtime_ns)]
    folder = os.path.join(_files.cache_dir(), "wheels", _files.digest(*parts))
    if not os.path.isdir(folder):
        _files.fill_folder_atomically(folder, lambda into: _unpack_all(chosen, into))
    return folder


def named(path: str) -> Wheel:
    """Return what the file name of a wheel says.

    Raises
    ------
    BlaswheelError
        If it is not named as a wheel.
    """
    parts = os.path.basename(path)[: -len(".whl")].split("-")
    if not path.endswith(".whl") or len(parts) not in (5, 6) or not all(parts):
        raise BlaswheelError(
            f"{path}: not the name of a wheel", "name it as its builder did: NAME-VERSION-TAGS.whl"
        )
    name = re.sub(r"[-_.]+", "-", parts[0]).lower()
    return Wheel(path=path, name=name, version=parts[1], tags=tuple(parts[-1].split(".")))


def _chosen(wheels: Sequence[Wheel], tag: str | None) -> list[Wheel]:
    """Return one wheel of each project; those of other platforms are left out."""
    wanted = platform(tag) if tag is not None else None
    chosen = []
    for name in dict.fromkeys(wheel.name for wheel in wheels):
        fit = [one for one in wheels if one.name == name and _fits(one, wanted)]
        if wanted is not None and fit:
            best = max(_need(one, wanted) for one in fit)
            fit = [one for one in fit if _need(one, wanted) == best]
        if len(fit) > 1:
            candidates = ", ".join(os.path.basename(one.path) for one in fit)
            raise BlaswheelError(
                f"several wheels of {name} could be meant: {candidates}",
                "say which by --platform TAG, or give one wheel with --root"
                if wanted is None
                else "give one wheel with --root",
            )
        chosen += fit
    if not chosen:
        have = sorted({tag for wheel in wheels for tag in wheel.tags})
        raise BlaswheelError(
            f"no wheel there is for {tag}", f"there are wheels for {', '.join(have)}"
        )
    return chosen


def _fits(wheel: Wheel, wanted: Platform | None) -> bool:
    return wanted is None or any(serves(one, wanted) for one in _platforms(wheel))


def _platforms(wheel: Wheel) -> Iterator[Platform]:
    for tag in wheel.tags:
        try:
            yield Platform(system="any") if tag == "any" else platform(tag)
        except UsageError:
            # Of a system that is not known here (android, ios).
            continue


def _need(wheel: Wheel, wanted: Platform) -> tuple[bool, tuple[int, ...]]:
    """Return how new a system a wheel needs: the newest that fits is the one made for it."""
    fit = [one for one in _platforms(wheel) if serves(one, wanted)]
    return any(one.system != "any" for one in fit), max(one.version for one in fit)


def _unpack_all(wheels: Sequence[Wheel], folder: str) -> None:
    os.makedirs(os.path.join(folder, SITE), exist_ok=True)
    for wheel in wheels:
        try:
            _unpack(wheel, folder)
        except zipfile.BadZipFile as error:
            raise _refused(wheel.path, str(error)) from error


def _refused(path: str, why: str) -> BlaswheelError:
    return BlaswheelError(f"{path}: can't be read as a wheel: {why}", "download it again")


def _unpack(wheel: Wheel, folder: str) -> None:
    with _zips.opened(wheel.path) as archive:
        members = archive.infolist()
        if len(members) > MAX_MEMBERS:
            raise _refused(wheel.path, f"it has {len(members)} members")
        placed: dict[str, zipfile.ZipInfo] = {}
        left = MAX_SIZE
        info_dir = ""
        for member in members:
            if member.filename.endswith("/"):
                continue
            place = place_of(member.filename)
            if place is None:
                raise _refused(wheel.path, f"member {member.filename!r} leads out of it")
            if (member.external_attr >> 16) & 0o170000 == 0o120000:
                raise _refused(wheel.path, f"member {member.filename!r} is a symbolic link")
            top, _, rest = member.filename.partition("/")
            if top.endswith(".dist-info"):
                info_dir = top
                if rest == "RECORD":
                    # Written anew: installers list where they put things.
                    continue
            elif not _is_wanted(place):
                continue
            if place in placed:
                raise _refused(wheel.path, f"member {member.filename!r} is there twice")
            left -= member.file_size
            if left < 0:
                raise _refused(wheel.path, f"it unpacks to more than {MAX_SIZE >> 30} GB")
            placed[place] = member
        if not info_dir:
            raise _refused(wheel.path, "it has no *.dist-info folder")
        for place, member in placed.items():
            above = os.path.dirname(place)
            while above:
                if above in placed:
                    raise _refused(wheel.path, f"member {member.filename!r} is inside of a file")
                above = os.path.dirname(above)
            _extract(archive, member, os.path.join(folder, place))
        lines = [os.path.relpath(place, SITE).replace(os.sep, "/") for place in sorted(placed)]
        record = os.path.join(folder, SITE, info_dir, "RECORD")
        os.makedirs(os.path.dirname(record), exist_ok=True)
        with open(record, "wb") as file:
            file.write("".join(f"{_quoted(line)},,\n" for line in lines).encode())


def _quoted(line: str) -> str:
    return '"{}"'.format(line.replace('"', '""')) if set(line) & set(',"\n') else line


def _is_wanted(place: str) -> bool:
    base = os.path.basename(place).lower()
    return base.endswith(_WANTED) or ".so." in base


def place_of(name: str) -> str | None:
    """Return where a member goes under the prefix; None if it is to go elsewhere."""
    parts = name.split("/")
    if any(part in ("", ".", "..") or "\\" in part or ":" in part for part in parts):
        return None
    if parts[0].endswith(".data") and len(parts) > 2:
        scheme = _SCHEMES.get(parts[1], os.path.join("other", parts[1]))
        return os.path.join(scheme, *parts[2:])
    return os.path.join(SITE, *parts)


def _extract(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    # Wheels may own the same file; an installer too lets the later one have it.
    with open(path, "wb") as target:
        for chunk in _zips.chunks(archive, member):
            target.write(chunk)
