"""The honest platform tag of a wheel: what its binaries need, and nothing of this machine.

Specifications: PEP 600 (manylinux), PEP 656 (musllinux), PEP 425, and the packaging user guide's
"Platform compatibility tags".
"""

from __future__ import annotations

import posixpath

from blaswheel import _binaries, _policies, _roots
from blaswheel._errors import BlaswheelError
from blaswheel._record import Record
from blaswheel._roots import Platform, platform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from blaswheel._binaries import Elf, Found
    from blaswheel._elf import Requirements

#: Of tags: what the readers call otherwise.
_MACOS_MACHINES = {"aarch64": "arm64", "i686": "i386"}
_WINDOWS = {"x86_64": "win_amd64", "aarch64": "win_arm64", "i686": "win32", "armv7l": "win_arm32"}
_LOADERS = ("ld-linux", "ld64.so", "ld.so", "ld-lsb")


class Deciding(Record):
    """What keeps a tag from being a more general one.

    Attributes
    ----------
    file : str
        Member of the wheel.
    symbol : str, optional
        The first symbol wanted in that version, or the library that no policy has.
    version : str, optional
        Such as ``GLIBC_2.27``, ``macOS 11.0``.
    """

    file: str
    symbol: str | None = None
    version: str | None = None

    @property
    def text(self) -> str:
        """For people."""
        parts = [part for part in (self.symbol, self.version) if part]
        return f"{self.file} needs {' in '.join(parts)}" if parts else self.file


class Verdict(Record):
    """What a wheel's name promises, and what its binaries need.

    Attributes
    ----------
    declared : str
        The platform tags in the file's name.
    computed : str
        The honest ones, the most general that the binaries allow.
    deciding : Deciding, optional
        None where nothing keeps the wheel from running anywhere.
    honest : bool
        Whether the declared tags promise no more than the binaries keep.
    broken : tuple of str
        The declared tags that promise too much.
    notes : tuple of str
        What could not be verified, and what else there is to know.
    extension : bool
        Whether it has extension modules, which are for one Python.
    refused : tuple of str
        Of the tags that were chosen instead, those that promise too much.
    """

    declared: str
    computed: str
    deciding: Deciding | None
    honest: bool
    broken: tuple[str, ...]
    notes: tuple[str, ...]
    extension: bool
    refused: tuple[str, ...] = ()


def honest(path: str, external: Iterable[str] = (), chosen: Sequence[str] = ()) -> Verdict:
    """Judge the platform tags of a wheel by its binaries.

    Parameters
    ----------
    path : str
        The wheel.
    external : iterable of str
        File names or SONAMEs of libraries that other wheels bring.
    chosen : sequence of str
        Other platform tags to judge, see `Verdict.refused`.

    Raises
    ------
    BlaswheelError
        If it can't be read, or is no wheel.
    """
    declared = _roots.named(path).tags
    found = _binaries.scan(path)
    judge = _Judge(found, frozenset(external), declared)
    if sum(map(bool, (found.elf, found.macho, found.pe))) > 1:
        judge.notes.append("it has binaries of several systems, and a tag is for one")
    judge.notes += found.unread
    computed, deciding = judge.tag()
    for tag in chosen:
        if tag != "any":
            platform(tag)  # refuses what is none
    broken = tuple(tag for tag in declared if judge.promises_too_much(tag))
    return Verdict(
        declared=".".join(declared),
        computed=computed,
        deciding=deciding,
        honest=not broken,
        broken=broken,
        notes=tuple(dict.fromkeys(judge.notes)),
        extension=found.extension,
        refused=tuple(tag for tag in chosen if judge.promises_too_much(tag)),
    )


class _Judge:
    """Works out the tag of the binaries that were found."""

    def __init__(self, found: Found, external: frozenset[str], declared: Sequence[str]) -> None:
        self.found = found
        self.external = external
        self.declared = declared
        self.notes: list[str] = []
        self.minor = 0
        self.musl = False
        self.foreign: Deciding | None = None
        self.deciding: Deciding | None = None
        self.machines: list[str] = []
        self.macos: tuple[int, ...] = ()
        self.beside: dict[str, set[str]] = {}
        if found.elf:
            self.machines = list(dict.fromkeys(one.needs.machine for one in found.elf))
            self._elf()
        elif found.macho:
            self._macho()
        elif found.pe:
            self._pe()
        if len(self.machines) > 1:
            self.notes.append(f"it has binaries for {', '.join(self.machines)}")

    def tag(self) -> tuple[str, Deciding | None]:
        """Return the honest tag and what decides it."""
        if self.found.elf:
            machine = self.machines[0]
            if self.foreign is not None or not self.minor:
                return f"linux_{machine}", self.foreign or self.deciding
            if self.musl:
                return f"musllinux_1_{self._musl_minor()}_{machine}", self.deciding
            return ".".join(sorted(_policies.tags(self.minor, machine))), self.deciding
        if self.found.macho:
            return self._macos_tag(), self.deciding
        if self.machines:
            machine = self.machines[0]
            return _WINDOWS.get(machine, f"win_{machine}"), self.deciding
        # A binary that can't be read is for some system, whichever.
        return ".".join(self.declared) if self.found.unread else "any", None

    def promises_too_much(self, tag: str) -> bool:
        """Tell whether there are systems that a declared tag is for and the binaries are not."""
        if not self.deciding and not self.found.elf:
            return False
        try:
            said = Platform(system="any") if tag == "any" else platform(tag)
        except BlaswheelError:
            self.notes.append(f"{tag}: not a tag that is known here")
            return False
        if said.system == "any":
            return True
        if self.found.elf:
            if said.system not in ("linux", "manylinux", "musllinux"):
                return True
            if [said.machine] != self.machines:
                return True
            if said.system == "linux":
                return False
            if self.foreign is not None:
                return True
            if said.system == "musllinux":
                # What needs no C library is for both.
                return not self.musl and any(one.needs.needed for one in self.found.elf)
            if self.musl:
                return True
            return not self.minor or said.version < (2, self.minor)
        if self.found.macho:
            if said.system != "macosx":
                return True
            machines = ["arm64", "x86_64"] if said.machine == "universal2" else [said.machine]
            if not set(machines) <= set(self.machines):
                return True
            # From 11 on, tags tell the first number only.
            told = said.version if said.version < (11,) else (said.version[0], 0)
            return told < self._oldest_macos(said.machine)
        return tag != self.tag()[0]

    # Linux.

    def _elf(self) -> None:
        self.minor = _policies.FIRST.get(self.machines[0], 17)
        musl = [one for one in self.found.elf if _is_musl(one.needs)]
        glibc = [one for one in self.found.elf if any(n == "libc.so.6" for n in one.needs.needed)]
        self.musl = bool(musl) and not glibc
        self.deciding = Deciding(file=self.found.elf[0].name, version=self.machines[0])
        inside = self._inside()
        if musl and glibc:
            self.foreign = Deciding(file=musl[0].name, symbol="musl's C library")
            self.notes.append("it has binaries for glibc and for musl, and no system has both")
            return
        for one in self.found.elf:
            self._libraries(one, inside)
            if not self.musl:
                self._versions(one, inside)
        if self.musl:
            relr = next((one for one in self.found.elf if one.needs.relr), None)
            if relr is not None:
                self.notes.append(
                    f"{relr.name} has packed relocations (DT_RELR): it crashes with musl before "
                    "1.2.4, which no tag can say"
                )
            self.notes.append("musl's symbols have no versions: which release they need can't be "
                              "verified")  # fmt: skip

    def _musl_minor(self) -> int:
        """Return the minor of musl: as declared, since nothing tells it; else 1.2."""
        minors = [
            said.version[1]
            for said in map(_parsed, self.declared)
            if said is not None and said.system == "musllinux" and said.version[:1] == (1,)
        ]
        return min(minors, default=2)

    def _inside(self) -> set[str]:
        """Return the names of libraries that the wheel has where its run paths lead.

        Those beside each other are noted as well: the first to be loaded, by its path, brings the
        others (MKL).
        """
        for one in self.found.elf:
            beside = self.beside.setdefault(posixpath.dirname(one.name), set())
            beside.add(posixpath.basename(one.name))
            if one.needs.soname:
                beside.add(one.needs.soname)
        reached = {folder for one in self.found.elf for folder in one.reaches}
        names = set()
        for one in self.found.elf:
            if posixpath.dirname(one.name) in reached:
                names.add(posixpath.basename(one.name))
                if one.needs.soname:
                    names.add(one.needs.soname)
        return names

    def _libraries(self, one: Elf, inside: set[str]) -> None:
        inside = inside | self.beside[posixpath.dirname(one.name)]
        for name in one.needs.needed:
            if name in inside or name in self.external or name.startswith(_LOADERS):
                continue
            if self.musl:
                known = name in ("libc.so", "libz.so.1") or name.startswith("libc.musl-")
                minor: int | None = 0 if known else None
            else:
                minor = _policies.LIBRARIES.get(name)
            if minor is None:
                if self.foreign is None:
                    self.foreign = Deciding(file=one.name, symbol=name)
                self.notes.append(
                    f"{one.name} needs {name}, which neither the wheel nor a policy has"
                )
            elif minor > self.minor:
                self.minor, self.deciding = minor, Deciding(file=one.name, symbol=name)

    def _versions(self, one: Elf, inside: set[str]) -> None:
        inside = inside | self.beside[posixpath.dirname(one.name)]
        for file, version, index, weak in one.needs.versions:
            if weak or file in inside or file in self.external:
                continue
            if file not in _policies.LIBRARIES and not file.startswith(_LOADERS):
                continue  # told already, as a library that no policy has
            minor = _policies.minor(version)
            if minor is None:
                why = f"{one.name} needs {version} of {file}, which no policy has"
                if version == "GLIBC_PRIVATE":
                    why = f"{one.name} needs {version} of {file}, which is for glibc's own files"
                self.notes.append(why)
                if self.foreign is None:
                    self.foreign = Deciding(
                        file=one.name, symbol=one.symbols.get(index), version=version
                    )
            elif minor > self.minor or (
                # The first file at the first minor has nothing to say until a version does.
                minor == self.minor
                and self.deciding is not None
                and self.deciding.version in self.machines
            ):
                self.minor = max(minor, self.minor)
                self.deciding = Deciding(
                    file=one.name, symbol=one.symbols.get(index), version=version
                )

    # macOS.

    def _macho(self) -> None:
        per_file: dict[str, set[str]] = {}
        for name, machine, version in self.found.macho:
            per_file.setdefault(name, set()).add(_MACOS_MACHINES.get(machine, machine))
            if version > self.macos:
                self.macos = version
                self.deciding = Deciding(file=name, version=f"macOS {'.'.join(map(str, version))}")
        common = set.intersection(*per_file.values())
        self.machines = sorted(common)
        if not common:
            self.notes.append("no machine has all of its binaries")
            self.machines = sorted(set.union(*per_file.values()))
        if not self.macos:
            self.macos = (10, 0)
            self.deciding = Deciding(file=self.found.macho[0][0])
            self.notes.append("its binaries do not say which macOS they are for")

    def _oldest_macos(self, machine: str) -> tuple[int, int]:
        """Return the macOS of the tag: from 11 on, tags have the first number only."""
        major, minor = (*self.macos, 0)[:2]
        if major >= 11:
            major, minor = major + (minor > 0 or any(self.macos[2:])), 0
        # There is no older macOS for arm64.
        return max((major, minor), (11, 0)) if machine == "arm64" else (major, minor)

    def _macos_tag(self) -> str:
        machine = "universal2" if self.machines == ["arm64", "x86_64"] else self.machines[0]
        major, minor = self._oldest_macos(machine)
        return f"macosx_{major}_{minor}_{machine}"

    # Windows.

    def _pe(self) -> None:
        machines = list(dict.fromkeys(machine for _, machine, _ in self.found.pe))
        if len(machines) > 1 and all(
            program and not _is_installed(name) for name, _, program in self.found.pe
        ):
            # No Windows runs all of them: they are there to be copied (setuptools' launchers).
            self.notes.append(
                f"it has programs for Windows on {', '.join(machines)}, taken for data: it is for "
                "any system unless it runs them itself"
            )
            return
        self.machines = machines
        self.deciding = Deciding(file=self.found.pe[0][0], version=machines[0])


def _parsed(tag: str) -> Platform | None:
    try:
        return None if tag == "any" else platform(tag)
    except BlaswheelError:
        return None


def _is_installed(name: str) -> bool:
    """Tell whether pip puts a member of a wheel where programs are."""
    folder, _, rest = name.partition("/")
    return folder.endswith(".data") and rest.startswith("scripts/")


def _is_musl(needs: Requirements) -> bool:
    return any(name == "libc.so" or name.startswith("libc.musl-") for name in needs.needed)
