"""Libraries that are made of several files: put together after each file has been examined.

Two kinds are known. An implementation that comes in layers (MKL) is put together as its vendor
declares, since its files name each other nowhere. One that is split by API (the reference BLAS,
CBLAS, LAPACK and LAPACKE, NVPL, ATLAS) is put together by what the files say: which APIs each one
has, and which others it needs.

A consumer links all of the files, also those that it needs only by way of another: the run path of
what it links is not searched for what its libraries need in turn (``DT_RUNPATH``).
"""

from __future__ import annotations

import os

from blaswheel import _binary, _elf, _library
from blaswheel._errors import FormatError
from blaswheel._library import Defect, Library
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from blaswheel._vendors import Layers, Model

#: In a link the one that calls comes before the one that is called.
LINK_ORDER = ("lapacke", "lapack", "cblas", "blas")
#: The threading of a library that opens its layers by itself.
WHOLE = "sdl"
#: What every system has where its loader looks.
_SYSTEM = (
    "ld-linux",
    "libc.",
    "libdl.",
    "libgcc_s.",
    "libm.",
    "libpthread.",
    "librt.",
    "libstdc++.",
)


class Found(Record):
    """The other files of an environment.

    Attributes
    ----------
    files : mapping of str to sequence of str
        By file name, the paths of all files that are named as libraries.
    include_dirs : sequence of (str, str)
        (distribution, folder) of every folder with BLAS headers.
    is_installation : bool
        Whether they are of one installation, so that a file of the name that a library needs is
        the one that it needs; of wheels, only the one beside it is.
    """

    files: Mapping[str, Sequence[str]]
    include_dirs: Sequence[tuple[str, str]] = ()
    is_installation: bool = False


def compose(libraries: Sequence[Library], found: Found) -> list[Library]:
    """Return the libraries of an environment with those of several files put together.

    A file that is a part of a library is no library of its own any more.

    Parameters
    ----------
    libraries : sequence of Library
        Each of one file.
    found : Found
    """
    result: list[Library] = []
    split: list[Library] = []
    for library in (_with_headers(one, found) for one in libraries):
        layers = library.vendor.layers
        if library.stem in library.vendor.inner:
            reason = f"an inner part of {library.vendor.title}"
            result.append(library.replace(linkable=False, reason=reason))
        elif layers is not None and library.stem in (*layers.faces, *layers.gnu_faces):
            result += _layered(_as_face(library, layers), layers, found)
        elif layers is not None and library.stem == layers.whole:
            result.append(_whole(library, layers))
        else:
            split.append(library)
    order = {library.path: number for number, library in enumerate(libraries)}
    result += _split(split, found)
    return sorted(result, key=lambda one: order[one.path])


def _with_headers(library: Library, found: Found) -> Library:
    """Add the headers that a vendor ships in another distribution, or say which one."""
    package = library.vendor.include_package
    if package is None or library.include_dirs:
        return library
    names = library.vendor.headers
    folders = tuple(
        folder
        for owner, folder in found.include_dirs
        if owner == package or any(os.path.isfile(os.path.join(folder, name)) for name in names)
    )
    if folders:
        return library.replace(include_dirs=tuple(dict.fromkeys(folders)))
    defect = Defect(
        code="headers-missing",
        severity="note",
        message=f"its headers are in the package {package}, which is not here: "
        f"pip install {package}",
    )
    return library.replace(defects=(*library.defects, defect))


# Layers


def _as_face(library: Library, layers: Layers) -> Library:
    if library.stem not in layers.gnu_faces:
        return library
    return library.replace(vendor=library.vendor.replace(complex_return="register"))


def _layered(face: Library, layers: Layers, found: Found) -> Iterator[Library]:
    """Yield what an interface layer makes with each threading layer that is there."""
    core = _sibling(face.path, layers.core)
    made = [
        _model(face, layers, model, layer, core, found)
        for model in layers.models
        if (layer := _sibling(face.path, model.layer)) is not None
    ]
    if core is None or not made:
        missing = layers.core if core is None else "any of its threading layers"
        reason = f"a layer of {face.vendor.title} without {missing}: nothing can be linked with it"
        yield face.replace(linkable=False, reason=reason)
        return
    defects = tuple(_kernel_defects(face, layers))
    for one in made:
        yield one.replace(defects=(*one.defects, *defects))


def _kernel_defects(face: Library, layers: Layers) -> Iterator[Defect]:
    """Tell of kernels that name no layer: loaded with a Python module, they do not find them."""
    kernel = _sibling(face.path, layers.kernel)
    if kernel is None or face.binary.format != "elf":
        return
    try:
        needed = _elf.requirements(kernel).needed
    except (FormatError, OSError):
        return
    if not any(name.startswith(f"lib{layers.core}.so") for name in needed):
        yield Defect(
            code="kernels-need-global",
            severity="warning",
            message=f"its kernels ({os.path.basename(kernel)}, ...) look for its layers in the "
            "whole process, where a Python module's libraries are not: such a module ends the "
            "process at its first call; a newer release does not",
        )


def _model(
    face: Library, layers: Layers, model: Model, layer: str, core: str | None, found: Found
) -> Library:
    parts = [face.path, layer, *([core] if core else [])]
    reason = face.reason
    if model.runtime is not None:
        runtime = _runtime_library(model.runtime, face.path, found)
        if runtime is not None:
            parts.append(runtime)
        else:
            reason = f"lib{model.runtime} is not here, which {model.layer} calls: pip install "
            reason += model.package or model.runtime
    return face.replace(
        parts=tuple(parts),
        threading=model.name,
        system=(*model.system, *layers.system),
        linkable=not reason,
        reason=reason,
    )


def _whole(library: Library, layers: Layers) -> Library:
    note = Defect(
        code="chosen-at-run-time",
        severity="note",
        message="opens its layers when it is first called: the environment variables "
        "MKL_INTERFACE_LAYER and MKL_THREADING_LAYER choose integer width and threading",
    )
    return library.replace(threading=WHOLE, system=layers.system, defects=(*library.defects, note))


def _sibling(path: str, link_name: str) -> str | None:
    """Return the file called ``link_name`` beside ``path``, of the same version if there is one."""
    folder, base = os.path.split(path)
    _, _, version = base.partition(".so")
    for end in dict.fromkeys((version, "")):
        candidate = os.path.join(folder, f"lib{link_name}.so{end}")
        if os.path.isfile(candidate):
            return candidate
    return None


def is_gnu(library: Library) -> bool:
    """Tell whether a library is made for GNU Fortran, and so is no other's equal."""
    layers = library.vendor.layers
    return layers is not None and library.stem in layers.gnu_faces


def runtimes(library: Library) -> frozenset[str]:
    """Return the link names of threading libraries that may be parts of a library."""
    layers = library.vendor.layers
    models = layers.models if layers is not None else ()
    return frozenset(model.runtime for model in models if model.runtime is not None)


def _runtime_library(link_name: str, near: str, found: Found) -> str | None:
    """Return the file of a threading library: beside ``near``, else from another distribution.

    The development name (``libtbb.so``) is a linker script in some packages, and a copy in
    others; a name with a version is the library.
    """
    folder = os.path.dirname(near)
    begin = f"lib{link_name}.so"
    names = sorted(name for name in found.files if name == begin or name.startswith(f"{begin}."))
    paths = [path for name in names for path in found.files[name] if os.path.isfile(path)]
    for name in (begin, *(f"{begin}.{number}" for number in range(1, 20))):
        beside = os.path.join(folder, name)
        if os.path.isfile(beside):
            paths.append(beside)
    beside_first = sorted(
        dict.fromkeys(paths), key=lambda path: (os.path.dirname(path) != folder, path)
    )
    for path in beside_first:
        try:
            binary = _binary.read(path)
        except (FormatError, OSError):
            continue
        # The file that the loader will ask for, of those that are the same.
        named = os.path.join(os.path.dirname(path), binary.soname or "")
        return named if binary.soname and os.path.isfile(named) else path
    return None


# Split by API


def _split(libraries: Sequence[Library], found: Found) -> list[Library]:
    """Put together what has one API each; the rest is returned as it is."""
    usable = [one for one in libraries if one.linkable and one.binary.format == "elf"]
    made: list[Library] = []
    used: set[str] = set()
    for base in usable:
        if "blas" not in _apis(base):
            continue
        members = _members(base, usable)
        if len(members) > 1:
            made.append(_joined(members, found))
            used.update(member.path for member in members)
    rest = [one for one in libraries if one.path not in used]
    return [*(_with_model(_with_further(one, found)) for one in rest), *made]


def _with_further(library: Library, found: Found) -> Library:
    """Return a library of one file with what has to be linked beside it."""
    if not library.linkable or library.binary.format != "elf":
        return library
    further = _further([library], found)
    return library.replace(parts=(library.path, *further)) if further else library


def _apis(library: Library) -> frozenset[str]:
    return frozenset(family.api for family in library.families)


def _members(base: Library, libraries: Sequence[Library]) -> list[Library]:
    """Return the libraries that go with ``base``, in the order of a link."""
    members = [base]
    has = set(_apis(base))
    # LAPACKE needs the LAPACK that is found before it.
    for api in ("cblas", "lapack", "lapacke"):
        if api in has:
            continue
        fit = [
            one
            for one in libraries
            if api in _apis(one) and not _apis(one) & has and _goes_with(one, members, libraries)
        ]
        # The one beside the base if there are several.
        fit.sort(key=lambda one: (one.directory != base.directory, one.path))
        if fit:
            members.append(fit[0])
            has |= _apis(fit[0])
    return sorted(
        members, key=lambda one: min(LINK_ORDER.index(family.api) for family in one.families)
    )


def _goes_with(one: Library, members: Sequence[Library], libraries: Iterable[Library]) -> bool:
    """Tell whether a library works with others: it needs one of them, or they are a pair."""
    base = members[0]
    if one.binary.machine != base.binary.machine or not _same_names(one, base):
        return False
    known = {_soname(member) for member in members}
    needed = set(one.binary.needed)
    if needed & known:
        # Beside it may be another library of that name, which then is the one that it needs.
        beside = {
            _soname(other)
            for other in libraries
            if other.directory == one.directory and other not in members
        }
        return not needed & known & beside
    others = {_soname(other) for other in libraries if other is not one} - known
    return (
        not needed & others
        and one.directory == base.directory
        and one.vendor.name == base.vendor.name
    )


def _same_names(one: Library, base: Library) -> bool:
    """Tell whether two libraries have integers of one width and names of one kind."""
    widths = set(one.interfaces()) & set(base.interfaces())
    if not widths and "unknown" not in (*one.interfaces(), *base.interfaces()):
        return False
    prefixes = {family.prefix for family in base.families}
    ends = {family.suffix.strip("_") for family in base.families}
    return any(
        family.prefix in prefixes and family.suffix.strip("_") in ends for family in one.families
    )


def _soname(library: Library) -> str:
    return library.binary.soname or os.path.basename(library.path)


def _joined(members: Sequence[Library], found: Found) -> Library:
    """Return one library made of several; it is known by the file that has the BLAS."""
    base = next(one for one in members if "blas" in _apis(one))
    binaries = [one.binary for one in members]
    families = sorted(
        (family for one in members for family in one.families),
        key=lambda family: _library.APIS.index(family.api),
    )
    width = next((one.interface for one in members if one.interface != "unknown"), "unknown")
    marked = [
        family.replace(interface=width) if family.interface == "unknown" else family
        for family in families
    ]
    own = {_soname(one) for one in members}
    needed = dict.fromkeys(name for one in binaries for name in one.needed if name not in own)
    further = _further(members, found)
    binary = base.binary.replace(
        joined=True,
        needed=tuple(needed),
        functions=tuple(sorted({name for one in binaries for name in one.functions})),
        objects=tuple(sorted({name for one in binaries for name in one.objects})),
        interposable=tuple(sorted({name for one in binaries for name in one.interposable})),
        version_needs=tuple(dict.fromkeys(pair for one in binaries for pair in one.version_needs)),
    )
    evidence = dict.fromkeys(line for one in members for line in one.evidence)
    defects = dict.fromkeys(defect for one in members for defect in one.defects)
    return _with_model(
        base.replace(
            binary=binary,
            parts=(*(one.path for one in members), *further),
            interface=width,
            families=tuple(marked),
            evidence=tuple(evidence),
            include_dirs=tuple(
                dict.fromkeys(folder for one in members for folder in one.include_dirs)
            ),
            defects=tuple(defects),
            version=next((one.version for one in members if one.version), None),
            implementation=base.implementation,
        )
    )


def _further(members: Sequence[Library], found: Found) -> list[str]:
    """Return what parts need, can't find by themselves, and is in the environment.

    ``libatlas.so.3`` beside ``libcblas.so.3``: without a run path of its own a library finds
    what it needs only if the consumer links it too.
    """
    own = {_soname(one) for one in members}
    result: dict[str, None] = {}
    for one in members:
        if one.binary.rpath or one.binary.runpath:
            continue
        for name in one.binary.needed:
            if name in own or name.startswith(_SYSTEM):
                continue
            beside = os.path.join(one.directory, name)
            paths = [beside] if os.path.isfile(beside) else []
            if found.is_installation:
                paths += found.files.get(name, ())
            if paths and not _is_searched(os.path.dirname(paths[0])):
                result[paths[0]] = None
    return list(result)


def _is_searched(folder: str) -> bool:
    """Tell whether every loader looks into a folder without being told."""
    parent, base = os.path.split(os.path.realpath(folder))
    if base.endswith(("-gnu", "-musl")):
        parent, base = os.path.split(parent)
    return base in ("lib", "lib64") and parent in ("/", "/usr", "/usr/local")


def _with_model(library: Library) -> Library:
    for end, model in library.vendor.threads:
        if library.stem.endswith(end):
            return library.replace(threading=model)
    return library
