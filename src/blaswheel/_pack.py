"""A wheel from an installed BLAS: files copied and renamed, checked, and only then written.

A wheel holds no links, so the library is one file (one for each of its parts, where it is split by
API), called as its SONAME is: what links it asks the loader for that name. The name is the
package's own. Under its usual one, whichever copy of ``libopenblas.so.0`` the process has first
would serve all that were linked with another.
"""

from __future__ import annotations

import keyword
import os
import re
import shutil
import sys
import tempfile

from blaswheel import (
    _auditwheel,
    _binary,
    _headercheck,
    _licences,
    _linkcheck,
    _offer,
    _packed,
    _pc,
    _prefix,
    _reading,
    _retag,
    _runtime,
    _system,
    _tag,
    _verify,
    _wheel,
)
from blaswheel._discovery import Distribution, normalised
from blaswheel._errors import BlaswheelError, UsageError
from blaswheel._offer import Place, Request
from blaswheel._packed import Identity
from blaswheel._probe import ProbeMissingError
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from blaswheel._library import Library
    from blaswheel._offer import Offer

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", re.ASCII)
#: What auditwheel adds to the name of a library that it grafts.
_GRAFTED = re.compile(r"(-[0-9a-f]{8})+(?=\.)")
#: Where libraries of the system come from.
_SYSTEM_PREFIXES = ("/usr/local", "/usr")


class Packed(Record):
    """What was written, and what there is to say about it."""

    path: str
    notes: tuple[str, ...] = ()


def identity(name: str, version: str | None) -> Identity:
    """Return what a wheel is called; an empty version is still to be found.

    Raises
    ------
    UsageError
        If the name is none of a distribution and a module, or the version is none.
    """
    module = normalised(name).replace("-", "_")
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name of a distribution",
            "take letters, digits and single hyphens, such as my-openblas",
        )
    if not module.isidentifier() or keyword.iskeyword(module):
        raise UsageError(
            f"{name!r} would be the module {module}, which Python can't import",
            "begin with a letter, and take no keyword",
        )
    if module in sys.stdlib_module_names:
        raise UsageError(f"{name!r} would hide Python's own module {module}", "choose another name")
    checked = _prefix.check_version(version) if version is not None else ""
    return Identity(name=name, module=module, version=checked)


def pack(
    prefix: str,
    name: str,
    version: str | None = None,
    *,
    file: str | None = None,
    licences: Sequence[str] = (),
    folder: str = ".",
) -> Packed:
    """Write a wheel of the BLAS that is installed in ``prefix``.

    Parameters
    ----------
    prefix : str
    name : str
        Of the distribution; its module is called so too.
    version : str, optional
        By default the release that the library states.
    file : str, optional
        The library's file, where the prefix has several.
    licences : sequence of str
        Further licence files.
    folder : str
        Where the wheel goes.

    Raises
    ------
    BlaswheelError
        If the prefix has no library, no licence, or what was packed fails a check; then nothing is
        written.
    """
    who = identity(name, version)
    library = _prefix.library(prefix, file)
    who = _with_version(who, library, prefix)
    texts = _licences_of(prefix, library, licences)
    with tempfile.TemporaryDirectory(prefix="blaswheel-pack-") as scratch:
        packing = _Packing(who, library, prefix, scratch)
        packing.copy_headers()
        files = packing.copy_library()
        packing.add_licences(texts)
        if library.binary.format == "elf":
            packing.graft(may_lack_licences=bool(licences))
        packing.check(files)
        return packing.write(folder)


def _with_version(who: Identity, library: Library, prefix: str) -> Identity:
    if who.version:
        return who
    found = _prefix.version(library, prefix)
    if found is None and _is_for_here(library):
        # BLIS tells it when it is asked.
        found = _prefix.version(_verify.apply(library, _verify.verify(library)), prefix)
    if found is None:
        raise BlaswheelError(f"{library.path} does not say its version", "say it: --version V")
    return who.replace(version=found)


def _licences_of(prefix: str, library: Library, given: Sequence[str]) -> dict[str, str]:
    for path in given:
        if not _licences.is_text(path):
            raise UsageError(f"--license {path}: no file, empty, or too large", "give a text file")
    found = _licences.of_installation(prefix, _prefix.words(library))
    for path in given:
        found[_licences.unused(os.path.basename(path), found)] = path
    if not found:
        raise BlaswheelError(
            f"{prefix} has no licence of {library.vendor.title} (LICENSE*, COPYING* in it, in "
            "share/licenses or in share/doc)",
            "give it: --license FILE",
        )
    return found


class _Packing:
    """The wheel on its way: a tree of files, and what there is to say."""

    def __init__(self, who: Identity, source: Library, prefix: str, scratch: str) -> None:
        self.who = who
        self.source = source
        self.prefix = prefix
        self.scratch = scratch
        self.notes: list[str] = []
        #: of the wheel, to contents or paths
        self.members: dict[str, str | bytes] = {}
        self.licences: list[str] = []
        self.summary, self.url = who.name, ""
        self.tree = os.path.join(scratch, "tree")
        self.package = os.path.join(self.tree, who.module)
        self.include = os.path.join(self.package, "include")
        self.lib = os.path.join(self.package, "lib")
        self.pkgconfig = os.path.join(self.lib, "pkgconfig")
        os.makedirs(self.pkgconfig)

    # Files of the library.

    def copy_headers(self) -> None:
        """Copy the headers, complete."""
        found, notes = _prefix.headers(self.source)
        self.notes += notes
        for name, path in found.items():
            target = os.path.join(self.include, *name.split("/"))
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copyfile(path, target)
        if not found:
            os.makedirs(self.include, exist_ok=True)
            self.notes.append(f"{self.prefix} has no headers: C code can't be compiled with this")

    def copy_library(self) -> tuple[str, ...]:
        """Copy the library's files under their names in the wheel; return these."""
        kind = self.source.binary.format
        if kind == "elf":
            return self._copy_elf()
        return self._copy_macho() if kind == "macho" else self._copy_pe()

    def _copy_elf(self) -> tuple[str, ...]:
        own, further = _prefix.files(self.source, self.prefix)
        paths = (*own, *further)
        names = _packed.file_names(self.who.module, paths)
        renamed = {}
        for path, name in names.items():
            binary = _binary.read(path)
            for old in {binary.soname or os.path.basename(path), os.path.basename(path)}:
                renamed[old] = name
        for path, name in names.items():
            target = os.path.join(self.lib, name)
            shutil.copyfile(path, target)
            os.chmod(target, 0o755)
            binary = _binary.read(path)
            arguments = ["--set-soname", name]
            others = [old for old in binary.needed if old in renamed]
            for old in others:
                arguments += ["--replace-needed", old, renamed[old]]
            if others:
                arguments += ["--force-rpath", "--set-rpath", "$ORIGIN"]
            elif binary.rpath or binary.runpath:
                # Those of the machine that built it; what is grafted gets its own.
                arguments += ["--remove-rpath"]
            _auditwheel.patch(target, *arguments)
        return tuple(names[path] for path in own)

    def _copy_macho(self) -> tuple[str, ...]:
        path, soname = self.source.path, self.source.binary.soname or ""
        name = _plain(soname.rpartition("/")[2] or os.path.basename(path))
        shutil.copyfile(path, os.path.join(self.lib, name))
        self.notes.append(
            f"{name} keeps its install name {soname}, by which what links it looks for it; "
            "install_name_tool changes it, on a Mac"
        )
        self._tell_needed(("/usr/lib/", "/System/"))
        return (name,)

    def _copy_pe(self) -> tuple[str, ...]:
        path, importing = self.source.path, self.source.import_library
        name = os.path.basename(path)
        for one in (path, *([importing] if importing else [])):
            shutil.copyfile(one, os.path.join(self.lib, _plain(os.path.basename(one))))
        self.notes.append(
            f"{name} keeps its name, which its import library tells: another {name} that the "
            "process has already is taken for it"
        )
        if importing is None:
            self.notes.append(f"there is no import library of {name}: MSVC can't link it")
        self._tell_needed(
            ("api-ms-", "kernel32", "msvcrt", "ucrtbase", "user32", "advapi32", "ntdll", "shell32")
        )
        return (name,)

    def _tell_needed(self, system: tuple[str, ...]) -> None:
        tool = "delocate-wheel" if self.source.binary.format == "macho" else "delvewheel repair"
        own = self.source.binary.soname
        needed = [
            name
            for name in self.source.binary.needed
            if not name.lower().startswith(tuple(one.lower() for one in system)) and name != own
        ]
        if needed:
            self.notes.append(f"it needs {', '.join(needed)}, which were not packed: run {tool}")

    # What it needs.

    def add_licences(self, texts: dict[str, str]) -> None:
        """Add licence files to the metadata."""
        for name, path in texts.items():
            clean = re.sub(r"[^A-Za-z0-9._+-]", "_", name)
            unique = _licences.unused(clean, self.licences)
            self.licences.append(unique)
            self.members[f"{self.who.info}/licenses/{unique}"] = path

    def graft(self, *, may_lack_licences: bool) -> None:
        """Vendor what the library needs and no policy has, with the licences of that."""
        bare = self._write_wheel(f"linux_{self.source.binary.machine}", "bare", compress=False)
        deciding = _tag.honest(bare).deciding
        if deciding is None or deciding.symbol is None or deciding.version is not None:
            return  # it needs versions of the system's libraries, and no further ones
        before = set(os.listdir(self.lib))
        folders = list(dict.fromkeys(map(os.path.dirname, self.source.files)))
        folders += _reading.folders_of(os.path.abspath(self.prefix))
        made = _auditwheel.graft(
            bare,
            self._folder("grafted"),
            into="/lib",
            compress=False,
            search=list(dict.fromkeys(folders)),
        )
        self._take(made)
        places = (self.prefix, os.path.join(self.prefix, "usr"), *_SYSTEM_PREFIXES)
        for name in sorted(set(os.listdir(self.lib)) - before):
            original = _GRAFTED.sub("", name)
            texts = _licences.of_library(original, places)
            if not texts:
                if not may_lack_licences:
                    raise BlaswheelError(
                        f"{original}, which is packed too, has no licence in {' or '.join(places)}",
                        "give it: --license FILE",
                    )
                self.notes.append(f"{original} is packed too: its licence has to be among yours")
            known = {self.members[key] for key in self.members if "/licenses/" in key}
            self.add_licences(
                {
                    key: path
                    for key, path in texts.items()
                    if all(_content(path) != _content(str(other)) for other in known)
                }
            )

    def _take(self, wheel: str) -> None:
        """Take the libraries and the bill of materials from what auditwheel wrote."""
        import zipfile

        with zipfile.ZipFile(wheel) as archive:
            for member in archive.namelist():
                folder, _, name = member.rpartition("/")
                if folder == f"{self.who.module}/lib" and name and not name.endswith(".pc"):
                    target = os.path.join(self.lib, name)
                    with open(target, "wb") as file:
                        file.write(archive.read(member))
                    os.chmod(target, 0o755)
                elif folder == f"{self.who.info}/sboms" and name:
                    self.members[member] = archive.read(member)

    # Checks.

    def check(self, files: Sequence[str]) -> None:
        """Read, compile, link and call what is in the tree; write what builds find it by."""
        library = self._packed_library(files)
        here = _is_for_here(library)
        if here:
            library = self._called(library)
        else:
            binary = library.binary
            libc = ", musl" if _runtime.is_musl(binary.needed) else ""
            self.notes.append(
                f"not run: {os.path.basename(self.source.path)} is for another system "
                f"({binary.format}, {binary.machine}{libc})"
            )
        if library.interfaces() == ("unknown",):
            self.notes.append("its integer width is not known: taken for LP64")
        place = Place(folder=os.path.join(self.scratch, "offer"))
        offers = []
        for interface in library.interfaces():
            width = "lp64" if interface == "unknown" else interface
            offer = _offer.make(library, width, Request(native=True), place)
            offers.append(offer.replace(no_static=None))
        for number, offer in enumerate(offers):
            name = self.who.name if number == 0 else f"{self.who.name}-{offer.interface}"
            fields = _pc.fields(offer, name, _pc.Paths(relative_to=self.pkgconfig))
            self.summary = fields.description if number == 0 else self.summary
            text = _pc.text(fields)
            self._check_offer(offer, text, here=here)
            with open(os.path.join(self.pkgconfig, f"{name}.pc"), "w", encoding="utf-8") as file:
                file.write(text)
        first = offers[0]
        texts = {
            f"{self.who.module}/{name}": text
            for name, text in _packed.module_files(self.who, first, files).items()
        }
        importing = first.library.import_library
        linked = [os.path.basename(importing)] if importing else files
        texts |= {
            f"{self.who.module}/lib/cmake/{self.who.module}/{name}": text
            for name, text in _packed.cmake_files(self.who, first, linked).items()
        }
        self.members |= {name: text.encode() for name, text in texts.items()}
        self.url = library.vendor.url

    def _called(self, library: Library) -> Library:
        """Return the library with what calls show."""
        try:
            verdict = _verify.verify(library, use_cache=False)
        except ProbeMissingError as error:
            self.notes.append(f"not run: {error.message}")
            return library
        if not verdict.ok:
            raise BlaswheelError(f"{self.source.path}, packed, {verdict.failure}", verdict.hint)
        self.notes += verdict.warnings
        return _verify.apply(library, verdict)

    def _packed_library(self, files: Sequence[str]) -> Library:
        """Return the library as it is in the tree."""
        found = _reading.at(os.path.join(self.lib, files[0]))
        library = found[0]
        have = {os.path.basename(path) for path in library.files}
        known = self.source.interfaces()
        if have != set(files) or known not in (library.interfaces(), ("unknown",)):
            raise BlaswheelError(
                f"{self.source.path} is not what it was when it is packed: "
                f"{', '.join(sorted(have))}",
                "please report this, with the prefix",
            )
        owner = Distribution(
            name=normalised(self.who.name), version=self.who.version, root=self.tree
        )
        importing = self.source.import_library
        headers = (self.include,) if os.listdir(self.include) else ()
        return library.replace(
            provider=owner,
            include_dirs=headers,
            import_library=importing and os.path.join(self.lib, os.path.basename(importing)),
        )

    def _check_offer(self, offer: Offer, text: str, *, here: bool) -> None:
        if shutil.which((os.environ.get("CC") or "cc").split()[0]) is None:
            self.notes.append("no C compiler here: headers and links were not tried")
            return
        for api, (width, why) in _headercheck.widths(offer).items():
            if width == offer.interface:
                continue
            if width == "unknown":
                raise BlaswheelError(
                    f"the header of {api} does not compile: {why}",
                    "add what it lacks to the prefix's include folder",
                )
            raise BlaswheelError(
                f"the header of {api} declares {width.upper()}, and the library is "
                f"{offer.interface.upper()}",
                "install the headers that belong to it",
            )
        if not here:
            return
        try:
            _linkcheck.check(offer, text, self.pkgconfig)
        except BlaswheelError as error:
            # Nobody asked for it by that option.
            raise BlaswheelError(error.message.removeprefix("--check-link: "), error.hint) from None

    # The wheel.

    def write(self, folder: str) -> Packed:
        """Write the wheel with its honest tag."""
        path = self._write_wheel("any", "whole")
        verdict = _tag.honest(path)
        self.notes += verdict.notes
        if verdict.computed.startswith("linux_") and verdict.deciding is not None:
            self.notes.append(f"no manylinux tag: {verdict.deciding.text}")
        written = _retag.retag(path, verdict.computed, folder)
        return Packed(path=os.path.normpath(written), notes=tuple(dict.fromkeys(self.notes)))

    def _folder(self, name: str) -> str:
        """Return an empty folder outside of the tree."""
        path = os.path.join(self.scratch, name)
        os.makedirs(path)
        return path

    def _write_wheel(self, tag: str, place: str, *, compress: bool = True) -> str:
        """Write what is there so far to a folder of ours."""
        folder = self._folder(place)
        who, tags = self.who, f"py3-none-{tag}"
        members = dict(self.members)
        texts = _packed.metadata(who, tags, self.summary, self.url, sorted(self.licences))
        members |= {f"{who.info}/{name}": text.encode() for name, text in texts.items()}
        for top, _, names in os.walk(self.package):
            for name in names:
                full = os.path.join(top, name)
                members[os.path.relpath(full, self.tree).replace(os.sep, "/")] = full
        path = os.path.join(folder, f"{who.module}-{who.version}-{tags}.whl")
        _wheel.write(path, members, who.info, compress=compress)
        return path


def _plain(name: str) -> str:
    """Return a file name that a file has to keep, if it is one that any build file can have."""
    if not re.fullmatch(r"\w[\w.+-]*", name, re.ASCII):
        raise BlaswheelError(f"{name!r} is no name for a library in a wheel", "rename the library")
    return name


def _is_for_here(library: Library) -> bool:
    """Tell whether this system can load a library."""
    kind = {"darwin": "macho", "win32": "pe"}.get(sys.platform, "elf")
    if library.binary.format != kind or not _system.runs_here(library):
        return False
    needed = library.binary.needed
    if kind == "elf" and ("libc.so.6" in needed or _runtime.is_musl(needed)):
        return _runtime.is_musl(needed) != _has_glibc()
    return True


def _has_glibc() -> bool:
    """Tell whether this process runs with glibc; the probe does as well."""
    try:
        return bool(os.confstr("CS_GNU_LIBC_VERSION"))
    except (AttributeError, OSError, ValueError):
        return False


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
