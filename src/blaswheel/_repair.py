"""Making a consumer's wheel load its BLAS on other machines.

Either the library is grafted into the wheel, which auditwheel does, or it stays in the provider's
wheel: then each module gets the run path that its depth needs, and the wheel requires the provider.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile

from blaswheel import (
    _auditwheel,
    _binaries,
    _built,
    _distributor,
    _doctor,
    _elf,
    _environment,
    _licences,
    _policies,
    _rawzip,
    _reading,
    _retag,
    _roots,
    _runpath,
    _tag,
    _wheel,
)
from blaswheel._discovery import info_dir, normalised, wheel_tags
from blaswheel._errors import BlaswheelError, FormatError, UsageError
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from blaswheel._discovery import Distribution
    from blaswheel._library import Library

#: Parts of the names of files that are a BLAS or belong to one.
_TELLING = ("blas", "lapack", "mkl_", "blis", "atlas", "nvpl", "flexi")
_OPENS_OTHERS = "libmkl_"
#: Whose authors ask third parties not to require them at run time (MacPython/openblas-libs #203).
_NOT_FOR_OTHERS = ("scipy-openblas32", "scipy-openblas64")
_STUB = b'''"""The BLAS is inside this wheel: nothing has to be loaded first."""
'''


class Wish(Record):
    """What is asked for.

    Attributes
    ----------
    link : bool
        Leave the library in the provider's wheel.
    source : str, optional
        A wheel, site-packages or prefix to take the library from; by default this environment.
    any_version : bool
        Take another file than the one that the wheel was built with.
    add_requires : bool
        Let the wheel require the provider.
    preload : bool
        With `link`, put the file that loads the library into the packages that need it.
    platform : str, optional
        The platform tag, instead of the oldest that is honest.
    """

    link: bool = False
    source: str | None = None
    any_version: bool = False
    add_requires: bool = False
    preload: bool = True
    platform: str | None = None


class Repaired(Record):
    """The wheel that was written, and what its maker should know."""

    path: str
    notes: tuple[str, ...]


class Module(Record):
    """An ELF file in a wheel.

    Attributes
    ----------
    member : str
    folder : str, optional
        Where it gets installed, below a prefix; None where that is not known.
    """

    member: str
    folder: str | None
    soname: str | None
    needed: tuple[str, ...]
    run_path: tuple[str, ...]


class Part(Record):
    """A file that modules need, of a library in a provider."""

    library: Library
    path: str


def other_tool(path: str) -> tuple[str, str] | None:
    """Return the command that repairs a wheel of another system, and what it is for."""
    systems = {_roots.platform(tag).system for tag in _roots.named(path).tags if tag != "any"}
    if "macosx" in systems:
        return "delocate-wheel --wheel-dir {folder} {wheel}", "macOS"
    if "win" in systems:
        return "delvewheel repair --wheel-dir {folder} {wheel}", "Windows"
    return None


def repair(path: str, folder: str, wish: Wish) -> Repaired:
    """Write a copy of a wheel that loads its BLAS on other machines to a folder.

    Parameters
    ----------
    path : str
        A wheel for Linux.
    folder : str
    wish : Wish

    Raises
    ------
    BlaswheelError
        If the library is not here, is another one than the wheel was built with, can't be taken
        into the wheel, or the result would not load. Nothing is written then.
    """
    named = _roots.named(path)
    modules = _modules(path)
    if not modules:
        raise BlaswheelError(
            f"{os.path.basename(path)}: has no library or extension module for Linux",
            "there is nothing to repair",
        )
    inside = {name for one in modules for name in _names_of(one)}
    outside = {
        name
        for one in modules
        for name in one.needed
        if name not in inside and name not in _policies.LIBRARIES and not _is_loader(name)
    }
    opening = next((name for name in sorted(outside) if name.startswith(_OPENS_OTHERS)), None)
    if opening is not None and not wish.link:
        raise BlaswheelError(
            f"{os.path.basename(path)} needs {opening}, which opens further libraries beside "
            "itself: grafted alone it does not run",
            "leave it in its own wheel: --link",
        )
    recorded = _recorded(path)
    parts = _parts(path, outside, recorded, wish, named.tags)
    job = _Job(path, named, modules, parts, outside, wish)
    with tempfile.TemporaryDirectory(prefix="blaswheel-repair-") as scratch:
        made = job.linked(scratch) if wish.link else job.vendored(scratch)
        external = job.external() if wish.link else ()
        verdict = _tag.honest(made, external, [wish.platform] if wish.platform else ())
        if verdict.refused:
            why = f": {verdict.deciding.text}" if verdict.deciding is not None else ""
            raise BlaswheelError(
                f"{wish.platform} promises too much{why}",
                f"{verdict.computed} is the most that is honest",
            )
        job.check(made)
        tags = wish.platform or verdict.computed
        target = os.path.join(folder, _retag.name_with(made, tags))
        if os.path.exists(target) and os.path.samefile(target, path):
            raise BlaswheelError(
                f"{path}: the repaired wheel has the same name", "give another folder with -w"
            )
        written = _retag.retag(made, tags, folder)
    return Repaired(path=written, notes=tuple(dict.fromkeys([*job.notes, *verdict.notes])))


def _modules(path: str) -> list[Module]:
    found = []
    with tempfile.TemporaryDirectory(prefix="blaswheel-repair-") as scratch:
        place = os.path.join(scratch, "member")
        for member, magic in _binaries.members(path, place):
            if not _runpath.is_elf(magic):
                continue
            try:
                linked = _runpath.linked(place)
                soname = _elf.requirements(place).soname
            except FormatError:
                # An object file, or a static program.
                continue
            found.append(
                Module(
                    member=member,
                    folder=_built.installed_in(member),
                    soname=soname,
                    needed=linked.needed,
                    run_path=linked.run_path,
                )
            )
    return found


def _names_of(module: Module) -> Iterable[str]:
    return filter(None, (module.soname, os.path.basename(module.member)))


def _is_loader(name: str) -> bool:
    return name.startswith(("ld-linux", "ld64.so", "ld.so", "ld-musl", "libc.musl-"))


def _recorded(path: str) -> list[Mapping[str, str]]:
    """Return what a wheel says of the libraries that it was built with: all of it may be wrong."""
    with open(path, "rb") as file:
        archive = _rawzip.Archive(path, file)
        names = [entry.name.decode("utf-8", "replace") for entry in archive.entries]
        end = f".dist-info/{_built.RECORD_NAME}"
        name = next((one for one in names if one.endswith(end) and one.count("/") == 1), None)
        if name is None:
            return []
        content = archive.read(name)
    try:
        libraries = json.loads(content)["libraries"]
        return [
            {
                "name": normalised(str(one["provider"]["name"])),
                "version": str(one["provider"]["version"]),
                "file": str(one["file"]),
                "sha256": str(one["sha256"]),
            }
            for one in libraries
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(
            f"{path}: its {_built.RECORD_NAME} is malformed", "build the wheel again"
        ) from error


def _parts(
    path: str,
    outside: set[str],
    recorded: Sequence[Mapping[str, str]],
    wish: Wish,
    tags: Sequence[str],
) -> dict[str, Part]:
    """Return the files of providers that a wheel needs, by the names it asks for."""
    libraries = _libraries(wish.source, tags)
    base = os.path.basename(path)
    for one in recorded:
        _check_recorded(base, one, libraries, wish)
    wanted = {(one["name"]) for one in recorded}
    found: dict[str, Part] = {}
    for library in libraries:
        if not library.linkable or library.of_system:
            continue
        owner = library.provider.name if library.provider else None
        for file in library.files:
            name = _soname(file)
            first = found.get(name)
            # Of several the one that the wheel was built with.
            is_built_with = owner in wanted
            if name in outside and (first is None or (is_built_with and not _of(first, wanted))):
                found[name] = Part(library=library, path=file)
    missing = [
        name
        for name in sorted(outside - set(found))
        if any(word in name.lower() for word in _TELLING)
        and not any(os.path.isfile(os.path.join(each, name)) for each in _folders(found))
    ]
    if missing:
        where = wish.source or "this environment"
        raise BlaswheelError(
            f"{base} needs {', '.join(missing)}, which no provider in {where} has",
            "install the provider that it was built with, or give its wheel: --from WHEEL",
        )
    return found


def _of(part: Part, owners: set[str]) -> bool:
    return part.library.provider is not None and part.library.provider.name in owners


def _folders(parts: Mapping[str, Part]) -> list[str]:
    return list(dict.fromkeys(os.path.dirname(one.path) for one in parts.values()))


def _libraries(source: str | None, tags: Sequence[str]) -> Sequence[Library]:
    if source is None:
        return _environment.survey().libraries
    platform = _roots.platform(tags[0])
    machine = f"linux_{platform.machine}"
    try:
        tag = tags[0] if platform.system == "musllinux" else machine
        return _environment.survey(source, platform=tag).libraries
    except BlaswheelError:
        if not os.path.isdir(source):
            raise
        # Of no wheel: the prefix of an installation.
        return _reading.at(source)


def _soname(path: str) -> str:
    try:
        return _elf.requirements(path).soname or os.path.basename(path)
    except FormatError:
        return os.path.basename(path)


def _check_recorded(
    base: str, one: Mapping[str, str], libraries: Sequence[Library], wish: Wish
) -> None:
    """Check that what a wheel was built with is here.

    Raises
    ------
    BlaswheelError
        If it is not, or is another one.
    """
    owners = {lib.provider.name: lib.provider for lib in libraries if lib.provider is not None}
    built_with = f"{one['name']}=={one['version']}"
    provider = owners.get(one["name"])
    if provider is None:
        if wish.any_version and libraries:
            return
        raise BlaswheelError(
            f"{base} was built with {built_with}, which is not "
            f"{f'in {wish.source}' if wish.source else 'here'}",
            f"pip install {built_with}, or give its wheel: --from WHEEL",
        )
    if wish.any_version:
        return
    file = os.path.join(provider.root, *one["file"].split("/"))
    if not os.path.isfile(file) or _built.sha256(file) != one["sha256"]:
        raise BlaswheelError(
            f"{base} was built with {built_with}, and {provider.name} {provider.version} here has "
            f"another {os.path.basename(file)}",
            f"pip install {built_with}, or --any-version to take this one",
        )


class _Job:
    """One wheel, and what is done to it."""

    def __init__(
        self,
        path: str,
        named: _roots.Wheel,
        modules: Sequence[Module],
        parts: Mapping[str, Part],
        outside: set[str],
        wish: Wish,
    ) -> None:
        self.path = path
        self.base = os.path.basename(path)
        self.named = named
        self.modules = modules
        self.parts = parts
        self.outside = outside
        self.wish = wish
        self.notes: list[str] = []

    # Into the wheel.

    def vendored(self, scratch: str) -> str:
        """Graft the library, and whatever else no policy promises."""
        changed = self._run_paths(scratch, with_provider=False)
        for member in self._preload_files():
            changed[member] = _STUB
        for provider in self._providers():
            changed |= self._licences(provider)
        staged = self._staged(scratch, changed)
        if not self.outside:
            self.notes.append(f"{self.base} needs no library of another package")
            return staged
        for name in self._required():
            self.notes.append(f"the wheel requires {name}, which it needs no more")
        folder = os.path.join(scratch, "grafted")
        os.mkdir(folder)
        return _auditwheel.graft(
            staged, folder, search=_folders(self.parts), platform=self.wish.platform
        )

    def _licences(self, provider: Distribution) -> dict[str, str | bytes]:
        """Return the provider's licences, which go where its library goes."""
        source = info_dir(provider)
        files = _licences.of_metadata(source) if source is not None else {}
        if not files:
            self.notes.append(f"{provider.name} has no licence file: add the one of its library")
        folder = f"{self._info_dir()}/licenses/{provider.name}"
        return {f"{folder}/{name}": path for name, path in files.items()}

    def _required(self) -> list[str]:
        """Return the providers that the wheel requires, of those whose library is grafted."""
        required = {normalised(_name_in(line)) for line in self._requires()}
        return sorted(required & {one.name for one in self._providers()})

    # In the provider's wheel.

    def linked(self, scratch: str) -> str:
        """Leave the library where it is, and let every module find it there."""
        if not self.parts:
            raise BlaswheelError(
                f"{self.base} needs no library of a provider",
                "--vendor takes what else it needs into the wheel",
            )
        for one in self.parts.values():
            if one.library.provider is None:
                raise BlaswheelError(
                    f"{one.path} is in no distribution that pip could install beside the wheel",
                    "take it into the wheel: --vendor",
                )
        changed = self._run_paths(scratch, with_provider=True)
        changed |= self._metadata()
        if self.wish.preload:
            changed |= self._preload()
        for provider in self._providers():
            if provider.name in _NOT_FOR_OTHERS:
                self.notes.append(
                    f"the authors of {provider.name} ask that no other project but NumPy and SciPy "
                    "requires it at run time: nothing is promised of its next release; --vendor "
                    "does without"
                )
            self._note_tags(provider)
        staged = self._staged(scratch, changed)
        external = self.external()
        if self.outside <= set(external):
            return staged
        folder = os.path.join(scratch, "grafted")
        os.mkdir(folder)
        return _auditwheel.graft(
            staged,
            folder,
            search=_folders(self.parts),
            exclude=external,
            platform=self.wish.platform,
        )

    def external(self) -> tuple[str, ...]:
        """Return the names of all libraries that the providers have beside those needed."""
        names: set[str] = set(self.parts)
        for folder in _folders(self.parts):
            for base in sorted(os.listdir(folder)):
                path = os.path.join(folder, base)
                if _binaries.is_loadable(base) and os.path.isfile(path):
                    names |= {base, _soname(path)}
        return tuple(sorted(names))

    def _note_tags(self, provider: Distribution) -> None:
        """Tell if the provider's own wheel is for fewer systems than this one will be."""
        for tag in wheel_tags(provider):
            platform = tag.rpartition("-")[2]
            try:
                needs = _roots.platform(platform)
            except UsageError:
                continue
            if needs.system in ("manylinux", "musllinux"):
                self.notes.append(
                    f"{provider.name} {provider.version} is for {platform}: where that is too new, "
                    "pip installs neither, whatever this wheel's own tag says"
                )
                return

    def _providers(self) -> list[Distribution]:
        found = {}
        for one in self.parts.values():
            if one.library.provider is not None:
                found[one.library.provider.name] = one.library.provider
        return [found[name] for name in sorted(found)]

    # The parts of a wheel.

    def _staged(self, scratch: str, changed: Mapping[str, str | bytes]) -> str:
        folder = os.path.join(scratch, "staged")
        os.mkdir(folder)
        target = os.path.join(folder, self.base)
        if changed:
            _wheel.rewrite(self.path, target, changed=changed)
        else:
            shutil.copyfile(self.path, target)
        return target

    def _run_paths(self, scratch: str, *, with_provider: bool) -> dict[str, str | bytes]:
        """Return the files whose run path changes, with the right one set."""
        folders = {one.folder for one in self.modules if one.folder is not None}
        by_member = {one.member: one for one in self.modules}
        changed: dict[str, str | bytes] = {}
        place = os.path.join(scratch, "member")
        for number, (member, _magic) in enumerate(_binaries.members(self.path, place)):
            module = by_member.get(member)
            if module is None:
                continue
            new = [entry for entry in module.run_path if _leads_inside(entry, module, folders)]
            wanted = [name for name in module.needed if name in self.parts]
            if with_provider:
                new += [self._entry(module, self.parts[name]) for name in wanted]
            new = list(dict.fromkeys(new))
            if new == list(module.run_path):
                continue
            kept = os.path.join(scratch, str(number))
            os.replace(place, kept)
            _built.write_run_path(kept, member, new)
            changed[member] = kept
        return changed

    def _entry(self, module: Module, part: Part) -> str:
        if module.folder is None:
            raise BlaswheelError(
                f"{module.member}: where installers put it is not known, so that no run path "
                "leads from there to the library",
                "put it into a package, or use --vendor",
            )
        provider = part.library.provider
        assert provider is not None
        where = _built.installed_from(provider, os.path.dirname(part.path))
        relative = os.path.relpath(where, module.folder)
        return "$ORIGIN" if relative == os.curdir else f"$ORIGIN/{relative}"

    def _requires(self) -> list[str]:
        return [value for key, value in _headers(self._read("METADATA")) if key == "requires-dist"]

    def _read(self, name: str) -> bytes:
        with open(self.path, "rb") as file:
            return _rawzip.Archive(self.path, file).read(f"{self._info_dir()}/{name}")

    def _info_dir(self) -> str:
        with open(self.path, "rb") as file:
            return _retag.info_dir(_rawzip.Archive(self.path, file))

    def _metadata(self) -> dict[str, str | bytes]:
        """Check that the wheel requires its providers, within bounds, or let it."""
        lines = self._requires()
        added = []
        for provider in self._providers():
            # One with a marker does not count: it may not be asked for.
            own = [
                line
                for line in lines
                if normalised(_name_in(line)) == provider.name and ";" not in line
            ]
            bounded = any(sign in line for line in own for sign in ("==", "<", "~="))
            exact = f"{provider.name}=={provider.version}"
            if self.wish.add_requires and not bounded:
                added.append(exact)
            elif not own:
                raise BlaswheelError(
                    f"{self.base} needs {provider.name} and does not require it",
                    f"--add-requires adds {exact}, or name it in the project's dependencies",
                )
            elif not bounded:
                self.notes.append(
                    f"the wheel allows any later {provider.name}, whose file names and symbols "
                    "have changed before: --add-requires adds a bound"
                )
        if not added:
            return {}
        return {f"{self._info_dir()}/METADATA": _with_requirements(self._read("METADATA"), added)}

    def _preload_files(self) -> list[str]:
        """Return the files in the wheel that load a library, as blaswheel writes them."""
        found = []
        with open(self.path, "rb") as file:
            archive = _rawzip.Archive(self.path, file)
            for entry in archive.entries:
                name = entry.name.decode("utf-8", "surrogateescape")
                base = name.rpartition("/")[2]
                is_named = base.startswith(_distributor.STEM) and base.endswith(".py")
                if is_named and _distributor.is_ours(archive.read(name)):
                    found.append(name)
        return found

    def _preload(self) -> dict[str, str | bytes]:
        """Return the files that load the library, one in each package that needs it."""
        needing = [
            (one.member, self.parts[name].library)
            for one in self.modules
            for name in one.needed
            if name in self.parts
        ]
        with open(self.path, "rb") as file:
            archive = _rawzip.Archive(self.path, file)
            names = {entry.name.decode("utf-8", "surrogateescape") for entry in archive.entries}
            made, notes = _distributor.placed(
                needing, lambda name: archive.read(name) if name in names else None
            )
        self.notes += notes
        return dict(made)

    # What came of it.

    def check(self, made: str) -> None:
        """Examine the result as ``blaswheel doctor`` does.

        Raises
        ------
        BlaswheelError
            If it would not load.
        """
        for one in _doctor.of_target(made).findings:
            if one.severity == "fatal":
                raise BlaswheelError(f"{one.file} {one.message}", one.fix)
            if one.code in ("leaked-path", "outside-site-packages", "no-origin"):
                self.notes.append(f"{one.file} {one.message}")


def _leads_inside(entry: str, module: Module, folders: set[str]) -> bool:
    """Tell whether a run path leads from a module to a folder of its own wheel."""
    word = next((one for one in ("$ORIGIN", "${ORIGIN}") if entry.startswith(one)), None)
    if word is None or module.folder is None:
        return False
    return os.path.normpath(module.folder + "/" + entry[len(word) :]) in folders


def _headers(content: bytes) -> list[tuple[str, str]]:
    """Return the fields of METADATA, their names in lower case."""
    head = content.decode("utf-8", "replace").replace("\r\n", "\n").partition("\n\n")[0]
    # A line that begins with a space goes on with the field before.
    lines = (line.partition(":") for line in head.split("\n") if line[:1] not in (" ", "\t"))
    return [(key.strip().lower(), value.strip()) for key, _, value in lines]


def _name_in(requirement: str) -> str:
    end = next(
        (n for n, char in enumerate(requirement) if not (char.isalnum() or char in "-_.")),
        len(requirement),
    )
    return requirement[:end]


def _with_requirements(content: bytes, added: Sequence[str]) -> bytes:
    """Return METADATA with more ``Requires-Dist`` fields, after those that are there."""
    lines = content.splitlines(keepends=True)
    # One of spaces is not empty: it goes on with a licence of several lines, or the like.
    end = next((n for n, line in enumerate(lines) if not line.strip(b"\r\n")), len(lines))
    places = [n for n in range(end) if lines[n].lower().startswith(b"requires-dist:")]
    at = places[-1] + 1 if places else end
    line_end = b"\r\n" if lines and lines[0].endswith(b"\r\n") else b"\n"
    if at and not lines[at - 1].endswith(b"\n"):
        lines[at - 1] += line_end
    new = [f"Requires-Dist: {one}".encode() + line_end for one in added]
    return b"".join([*lines[:at], *new, *lines[at:]])
