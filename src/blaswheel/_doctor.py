"""Why a wheel, an extension module or a site-packages will or will not load its libraries.

Nothing is loaded. Files are read, and the loader's rules followed (`_loader`).
"""

from __future__ import annotations

import os
import re
import stat
import tempfile

from blaswheel import _binaries, _binary, _elf, _library, _loader, _roots, _routines
from blaswheel._discovery import normalised
from blaswheel._errors import BlaswheelError, FormatError
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from blaswheel._binary import Binary
    from blaswheel._loader import Loaded, Missing
    from blaswheel._names import Family

#: The codes of findings, what they mean, and how bad they are.
CODES = {
    "library-missing": "fatal",
    "blas-undefined": "fatal",
    "mkl-alone": "fatal",
    "page-alignment": "fatal",
    "unreadable": "warning",
    "ilp64-unsuffixed": "warning",
    "leaked-path": "warning",
    "no-origin": "warning",
    "outside-site-packages": "warning",
    "page-size": "warning",
    "requires-missing": "warning",
    "requires-unbounded": "warning",
    "soname": "warning",
    # Of a build, not of files.
    "no-provider": "fatal",
    "no-pkg-config": "fatal",
    "pkg-config-broken": "fatal",
    "not-on-path": "warning",
    "shadowed": "warning",
}
MAX_FILES = 20_000
SITES = ("site-packages", "dist-packages")
#: Decorations of names by Fortran compilers and C, where no library tells its own.
_USUAL = {"blas": ("_", "_64_"), "lapack": ("_", "_64_"), "cblas": ("", "64_", "_64"),
          "lapacke": ("", "64_", "_64")}  # fmt: skip


class Finding(Record):
    """One thing that is wrong.

    Attributes
    ----------
    code : str
        One of `CODES`; it stays the same from release to release.
    file : str
        Relative to the target.
    message : str
        What is wrong.
    fix : str
        What to do.
    """

    code: str
    file: str
    message: str
    fix: str

    @property
    def severity(self) -> str:
        """How bad it is: ``fatal`` if something will not work, else ``warning``."""
        return CODES[self.code]


class Use(Record):
    """The BLAS that a module calls.

    Attributes
    ----------
    file : str
    names : tuple of str
        The names of the BLAS that it imports.
    library : str, optional
        The file that has them; None if none that was found.
    expected : str, optional
        Without it, the file of another package that the module takes them from: what a wheel
        needs is not in it.
    missing : tuple of str
        Those that the library lacks.
    """

    file: str
    names: tuple[str, ...]
    library: str | None
    expected: str | None
    missing: tuple[str, ...]


class Diagnosis(Record):
    """What was found out about a target."""

    findings: tuple[Finding, ...]
    uses: tuple[Use, ...]


def of_target(target: str) -> Diagnosis:
    """Examine a wheel, an extension module, or a folder such as a site-packages.

    Raises
    ------
    BlaswheelError
        If there is no such thing, or it can't be read.
    """
    if target.endswith(".whl") and os.path.isfile(target):
        with tempfile.TemporaryDirectory(prefix="blaswheel-doctor-") as folder:
            root = os.path.realpath(folder)
            requires = _unpack(target, root)
            return _Examination(os.path.join(root, _roots.SITE), root, requires).diagnosis()
    if os.path.isdir(target):
        root = os.path.realpath(target)
        return _Examination(root, root, None).diagnosis()
    if os.path.isfile(target):
        path = os.path.realpath(target)
        root = _site_of(path)
        return _Examination(root, root, None, only=path).diagnosis()
    raise BlaswheelError(
        f"{target}: no such file or folder",
        "give a wheel, an extension module, or a folder with some",
    )


def _site_of(path: str) -> str:
    """Return the site-packages that a module is in, else its own folder."""
    folder = os.path.dirname(path)
    one = folder
    while os.path.dirname(one) != one:
        if os.path.basename(one) in SITES:
            return one
        one = os.path.dirname(one)
    return folder


def _unpack(wheel: str, root: str) -> list[str]:
    """Put the binaries of a wheel where an installer would, and return what it requires."""
    from blaswheel import _rawzip

    place = os.path.join(root, ".member")
    for name, _magic in _binaries.members(wheel, place):
        to = _roots.place_of(name)
        if to is not None:
            target = os.path.join(root, to)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.replace(place, target)
    with open(wheel, "rb") as file:
        archive = _rawzip.Archive(wheel, file)
        names = [entry.name.decode("utf-8", "replace") for entry in archive.entries]
        metadata = next(
            (n for n in names if n.endswith(".dist-info/METADATA") and n.count("/") == 1), None
        )
        text = archive.read(metadata).decode("utf-8", "replace") if metadata else ""
    head = text.replace("\r\n", "\n").partition("\n\n")[0]
    lines = (line.partition(":") for line in head.split("\n"))
    return [value.strip() for key, _, value in lines if key.lower() == "requires-dist"]


class _Examination:
    """The binaries of a target, and what is wrong with them.

    Parameters
    ----------
    site : str
        The site-packages: run paths that leave it are not safe.
    root : str
        Where to look for binaries; file names are told relative to `site`.
    requires : list of str, optional
        What the wheel requires, if the target is one.
    only : str, optional
        The one file to tell of.
    """

    def __init__(
        self, site: str, root: str, requires: list[str] | None, *, only: str | None = None
    ) -> None:
        self.site = site
        self.root = root
        self.requires = requires
        self.only = only
        self.findings: list[Finding] = []
        self.files: dict[str, Binary] = {}
        self.families: dict[str, tuple[Family, ...]] = {}

    def diagnosis(self) -> Diagnosis:
        """Examine all, and tell."""
        for path in self._paths():
            self._read(os.path.realpath(path))
        if not self.files and not self.findings:
            raise BlaswheelError(
                f"{self.only or self.root}: no library or extension module is there",
                "give a wheel, an extension module, or a folder with some",
            )
        here = list(self.files)
        self._read_data()
        for path in here:
            self._check_file(path, self.files[path])
        uses: list[Use] = []
        chosen = [path for path in here if self.only is None or path == self.only]
        loads = {path: _loader.load(path, self.files) for path in chosen}
        # What another file brings in is judged there: it may find what is loaded already.
        brought = {other for loaded in loads.values() for other in loaded.files[1:]}
        for path, loaded in loads.items():
            if path in brought:
                self._check_vendored(path)
            else:
                self._check_loading(path, loaded)
            uses += self._uses(path, loaded)
        return Diagnosis(findings=tuple(dict.fromkeys(self.findings)), uses=tuple(uses))

    def _paths(self) -> Iterator[str]:
        if self.only is not None:
            yield self.only
        count = 0
        for folder, folders, names in os.walk(self.root):
            if self.only is not None and os.path.basename(self.site) not in SITES:
                folders.clear()  # any folder: what is beside the file, and no more
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(names):
                if _binaries.is_loadable(name):
                    count += 1
                    yield os.path.join(folder, name)
            if count > MAX_FILES:
                raise BlaswheelError(
                    f"{self.root}: more than {MAX_FILES} libraries",
                    "give a folder with less in it",
                )

    def _read_data(self) -> None:
        """Read what is needed of the environment's own lib folder, where MKL's wheel puts it."""
        data = self._data()
        order = list(self.files) if data is not None else []
        for path in order:
            binary = self.files[path]
            if not any(leads == data for _, leads in _loader.run_paths(path, binary)):
                continue
            for name in binary.needed:
                found = os.path.join(data or "", name.removeprefix("@rpath/"))
                if os.path.dirname(found) == data and os.path.isfile(found):
                    known = found in self.files
                    self._read(found)
                    if not known and found in self.files:
                        order.append(found)

    def _read(self, path: str) -> None:
        if path in self.files:
            return
        try:
            self.files[path] = _binary.read(path)
        except FormatError as error:
            why = error.message.partition(": ")[2] or error.message
            self._tell("unreadable", path, f"can't be read: {why}", "build or install it again")
        except OSError as error:
            self._tell(
                "unreadable", path, f"can't be read: {error.strerror}", "see who may read it"
            )

    def _name(self, path: str) -> str:
        return os.path.relpath(path, self.site)

    def _tell(self, code: str, path: str, message: str, fix: str) -> None:
        if self.only is None or path == self.only:
            self.findings.append(
                Finding(code=code, file=self._name(path), message=message, fix=fix)
            )

    # A file by itself.

    def _check_file(self, path: str, binary: Binary) -> None:
        base, folder = os.path.basename(path), os.path.dirname(path)
        leaf = (binary.soname or base).rpartition("/")[2]
        if binary.system == "elf" and leaf != base:
            beside = os.path.join(folder, leaf)
            if beside not in self.files and not os.path.exists(beside):
                self._tell(
                    "soname",
                    path,
                    f"is called {leaf} by those that are linked with it, and no such file is "
                    "beside it",
                    f"patchelf --set-soname {base} it, before anything is linked with it",
                )
        for entry, leads in _loader.run_paths(path, binary):
            self._check_run_path(path, entry, leads)
        beside_it = [os.path.basename(one) for one in self.files if os.path.dirname(one) == folder]
        if base.startswith("libmkl_rt") and not any(
            one.startswith("libmkl_core") for one in beside_it
        ):
            self._tell(
                "mkl-alone",
                path,
                "is MKL's single library without the layers that it opens from its own folder",
                "link MKL by layers, or leave it in its own wheel (auditwheel --exclude)",
            )
        if binary.format == "elf":
            self._check_pages(path, binary)

    def _check_run_path(self, path: str, entry: str, leads: str) -> None:
        if entry.startswith(("@executable_path", "@rpath")):
            return
        if entry.startswith("/"):
            if not entry.startswith(("/usr/lib", "/lib")):
                self._tell(
                    "leaked-path",
                    path,
                    f"has the run path {entry}, a folder of the machine that built it",
                    "take it out: blaswheel.mesonpy does, and patchelf --set-rpath",
                )
        elif entry[:1] not in ("$", "@"):
            self._tell(
                "leaked-path",
                path,
                f"has the run path {entry!r}, which is relative to whatever folder is current",
                "use $ORIGIN",
            )
        elif leads != self.site and not leads.startswith(self._inside()):
            # What the folders above a site-packages are is known of one that is here.
            place = None if self.requires is not None else _open_to_others(leads, self.site)
            if place is not None or self.requires is not None:
                where = f"{place}, where others can write" if place else "wherever others may write"
                self._tell(
                    "outside-site-packages",
                    path,
                    f"has the run path {entry}, which leads out of site-packages, to {where}: they "
                    "decide what is loaded",
                    "give it the one entry that its depth needs, as blaswheel.mesonpy does",
                )

    def _inside(self) -> tuple[str, ...]:
        data = self._data()
        return (self.site + os.sep, *((data + os.sep, data) if data is not None else ()))

    def _data(self) -> str | None:
        """Return where wheels have libraries of the data scheme: PREFIX/lib, if there is one."""
        # Beside lib/python3.x/site-packages.
        prefix = os.path.dirname(os.path.dirname(os.path.dirname(self.site)))
        is_site = os.path.basename(self.site) == "site-packages"
        return os.path.join(prefix, "lib") if is_site and len(prefix) > 1 else None

    def _check_pages(self, path: str, binary: Binary) -> None:
        try:
            segments = _elf.alignments(path)
        except (FormatError, OSError):
            return
        if any(size > 1 and offset % size != address % size for offset, address, size in segments):
            self._tell(
                "page-alignment",
                path,
                "has a segment that is not aligned to pages: the loader refuses it",
                "strip a library before patchelf, not after it",
            )
        small = [size for *_, size in segments if 1 < size < 0x10000]
        if small and binary.machine in ("aarch64", "ppc64le"):
            self._tell(
                "page-size",
                path,
                f"is aligned to pages of {min(small)} bytes: systems with pages of 64 KiB refuse "
                "it",
                "link it with -Wl,-z,max-page-size=65536",
            )

    # What it brings into a process.

    def _check_loading(self, path: str, loaded: Loaded) -> None:
        for missing in loaded.missing:
            provider = self._provider(missing)
            if provider is not None and self.requires is not None:
                self._check_requires(path, missing, provider, self.requires)
            elif self.requires is not None and self._data() in missing.outside:
                self._check_requires_data(path, missing, self.requires)
            else:
                by = "" if missing.file == path else f" by {self._name(missing.file)}"
                self._tell(
                    "library-missing",
                    path,
                    f"needs {missing.name}{by}, which is neither here nor on every system",
                    "install what has it, or bring it along: blaswheel exec -- auditwheel repair",
                )

    def _check_vendored(self, path: str) -> None:
        """Check what another file brings in: what it needs may be there only by chance."""
        for name in _loader.alone(path, self.files):
            self._tell(
                "no-origin",
                path,
                f"needs {name}, which is here too, and has no run path to it: it loads only if "
                "somebody has loaded that before, and ld.bfd can't link with it",
                "patchelf --add-rpath '$ORIGIN' it; auditwheel 6.7 and later does",
            )

    def _provider(self, missing: Missing) -> str | None:
        """Return the package into whose folder a run path leads, if it is not here."""
        for folder in missing.outside:
            if folder.startswith(self.site + os.sep):
                top = os.path.relpath(folder, self.site).split(os.sep)[0]
                if not os.path.isdir(os.path.join(self.site, top)):
                    return top
        return None

    def _check_requires(
        self, path: str, missing: Missing, provider: str, requires: list[str]
    ) -> None:
        wanted = normalised(provider)
        for line in requires:
            name = line[: next((n for n, char in enumerate(line)
                                if not (char.isalnum() or char in "-_.")), len(line))]  # fmt: skip
            # One with a marker does not count: it may not be asked for.
            if normalised(name) != wanted or ";" in line:
                continue
            if not any(sign in line for sign in ("==", "<", "~=")):
                self._tell(
                    "requires-unbounded",
                    path,
                    f"needs {missing.name} of {name}, of which any later version is allowed: names "
                    "and file names have changed before",
                    f"require {name}==VERSION, or one with an upper bound",
                )
            return
        self._tell(
            "requires-missing",
            path,
            f"needs {missing.name} in {provider}/ beside it, and the wheel does not require what "
            "has it",
            f"add {wanted}==VERSION to the project's dependencies",
        )

    def _check_requires_data(self, path: str, missing: Missing, requires: list[str]) -> None:
        """Check that a wheel requires what has a library in the environment's lib folder."""
        # Which package that is no file tells; its name is as a rule in the library's: libmkl_core.
        stem = normalised(os.path.basename(missing.name).removeprefix("lib"))
        for line in requires:
            name = re.match(r"[\w.-]*", line)
            if ";" not in line and name and stem.startswith(normalised(name[0]) or " "):
                return
        self._tell(
            "requires-missing",
            path,
            f"needs {missing.name} in the environment's own lib folder, where other wheels put "
            "theirs, and the wheel does not require what has it",
            "add the package that has it, with a version, to the project's dependencies",
        )

    # Which BLAS it calls.

    def _uses(self, path: str, loaded: Loaded) -> Iterator[Use]:
        if self._of(path):
            return  # a BLAS itself
        imports = frozenset(self.files[path].imports)
        best: tuple[frozenset[str], str | None] = (frozenset(), None)
        for other in loaded.files[1:]:
            names = self._names(imports, self._of(other))
            if len(names & frozenset(self.files[other].functions)) > len(best[0]):
                best = names, other
        wanted, library = best
        expected = None
        if library is None:
            expected = self._expected(path, loaded)
            wanted = _usual(imports, any_prefix=expected is not None)
        if not wanted:
            return
        exported: frozenset[str] = frozenset()
        for other in loaded.files[1:]:
            exported |= frozenset(self.files[other].functions)
        missing = wanted - exported if library is not None else wanted
        where = self._name(library) if library is not None else None
        yield Use(
            file=self._name(path),
            names=tuple(sorted(wanted)),
            library=where,
            expected=expected,
            missing=tuple(sorted(missing)),
        )
        if library is None:
            return
        if missing:
            self._tell(
                "blas-undefined",
                path,
                f"imports {len(wanted)} names of the BLAS, {len(missing)} of which {where} lacks "
                f"({_some(missing)})",
                "build it again with the .pc file of this library",
            )
        bare = {each for each in wanted - missing if "64" not in each}
        if bare and self._of(library)[0].interface == "ilp64":
            self._tell(
                "ilp64-unsuffixed",
                path,
                f"imports {len(bare)} names that do not say 64 ({_some(bare)}) from {where}, whose "
                "integers have 64 bits",
                "make sure that it passes 64-bit integers, or use names with a suffix",
            )

    def _expected(self, path: str, loaded: Loaded) -> str | None:
        """Return the library of another package that a module needs, if there is just one."""
        found = {
            self._name(os.path.join(folder, missing.name))
            for missing in loaded.missing
            for folder in missing.outside
            if missing.file == path and self._provider(missing) is not None
        }
        return found.pop() if len(found) == 1 else None

    def _of(self, path: str) -> tuple[Family, ...]:
        """Return the families of a library, with their widths; none if it is no BLAS."""
        if path not in self.families:
            binary = self.files[path]
            library = None
            if len(binary.functions) > 100:
                try:
                    library = _library.examine(path, None, ())
                except (FormatError, OSError):
                    pass
            self.families[path] = library.families if library is not None else ()
        return self.families[path]

    def _names(self, imports: frozenset[str], families: tuple[Family, ...]) -> frozenset[str]:
        found: frozenset[str] = frozenset()
        for family in families:
            found |= _routines_in(imports, family.api, family.prefix, family.suffix)
        return found


def _open_to_others(path: str, site: str) -> str | None:
    """Return where somebody else can put a library for a run path; None if nobody can.

    That is the folder itself or, if there is no such folder, the one in which it could be made.
    """
    while not os.path.isdir(path):
        parent = os.path.dirname(path)
        if parent == path:
            return None
        path = parent
    try:
        status, owner = os.stat(path), os.stat(site).st_uid
    except OSError:
        return None
    # A user's own group has the user's number.
    shared = status.st_gid not in (0, status.st_uid)
    writable = status.st_mode & (stat.S_IWOTH | (stat.S_IWGRP if shared else 0))
    known = (0, owner, os.geteuid() if hasattr(os, "geteuid") else owner)
    return path if writable or status.st_uid not in known else None


def _routines_in(names: frozenset[str], api: str, prefix: str, suffix: str) -> frozenset[str]:
    """Return those of the names that are routines of an API with this decoration."""
    wanted = [prefix + stem + suffix for stem in _routines.routines(api)]
    return names.intersection(wanted)


def _usual(imports: frozenset[str], *, any_prefix: bool) -> frozenset[str]:
    """Return those of the names that are routines with a usual suffix.

    With a prefix before it if ``any_prefix``, one that ends in an underscore: ``scipy_``.
    """
    found: set[str] = set()
    for api, suffixes in _USUAL.items():
        stems = _routines.routines(api)
        for name in imports:
            for suffix in suffixes:
                stem = name.removesuffix(suffix) if name.endswith(suffix) else ""
                while stem and stem not in stems and any_prefix:
                    stem = stem.partition("_")[2]
                if stem in stems:
                    found.add(name)
    return frozenset(found)


def _some(names: frozenset[str] | set[str]) -> str:
    return ", ".join(sorted(names)[:3]) + (", ..." if len(names) > 3 else "")
