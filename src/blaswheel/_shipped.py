"""What a provider's own headers and ``.pc`` files promise and its library does not keep.

Only `show` asks: reading a megabyte of headers would be most of what the other commands do.
"""

from __future__ import annotations

import os

from blaswheel import _discovery, _headers
from blaswheel._errors import FormatError
from blaswheel._library import Defect
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from blaswheel._library import Library

#: Which API a header is for: others are not the library's concern.
_APIS = {"cblas.h": "cblas", "lapacke.h": "lapacke", "lapack.h": "lapack", "f77blas.h": "blas"}
#: Functions that are macros to most compilers.
_INLINE = ("lapack_make_complex_",)
#: How many names a message tells.
_TOLD = 3
#: A ``.pc`` file is smaller than this by far.
_PC_LIMIT = 1 << 16


class File(Record):
    """A ``.pc`` file as a reader sees it: variables expanded."""

    path: str
    variables: Mapping[str, str]
    fields: Mapping[str, str]

    @property
    def name(self) -> str:
        """What a reader asks for."""
        return os.path.basename(self.path)


def defects(library: Library, others: Sequence[Library] = ()) -> Iterator[Defect]:
    """Yield what is wrong with the files that a provider ships beside its library.

    Parameters
    ----------
    library : Library
    others : sequence of Library
        The rest of the environment: another provider may have files of the same name.
    """
    if library.linkable and library.binary.format == "elf" and library.link_name.startswith(":"):
        yield Defect(
            code="no-dev-link",
            severity="note",
            message=f"there is no lib{library.stem}.so, which -l{library.stem} looks for: pc makes "
            "a folder of links",
        )
    yield from _header_defects(library)
    files = _pc_files(library)
    for file in files:
        yield from _pc_defects(library, file)
    yield from _same_names(library, files, others)
    yield from _top_level(library)


def _header_defects(library: Library) -> Iterator[Defect]:
    if not library.include_dirs:
        return
    try:
        headers = _headers.read(library.include_dirs)
        promised = _headers.declared(headers)
    except FormatError as error:
        yield Defect(code="headers", severity="warning", message=error.message)
        return
    has = {*library.binary.functions, *library.binary.objects}
    apis = {family.api for family in library.families}
    spoiled = _headers.garbled(dict.fromkeys(one.suffix for one in library.families))
    for header, names in promised.items():
        garbled = next((word.decode() for word in spoiled if word in headers[header]), None)
        if garbled:
            yield Defect(
                code="header-syntax",
                severity="warning",
                message=f"{header} does not compile: it has {garbled!r}, left by a renaming; the "
                "one that pc gives does",
            )
        if _APIS.get(header) not in apis or not names:
            continue
        missing = {name for name in names - has if not name.startswith(_INLINE)}
        if len(missing) * 2 > len(names):
            yield Defect(
                code="header-names",
                severity="warning",
                message=f"{header} declares {len(missing)} of its {len(names)} functions by "
                f"names that the library lacks ({_example(missing, library, has)}); the headers "
                "that pc gives declare those that it has",
            )
        elif missing:
            bare = {name for name in missing if _is_bare(name, library, has)}
            for found, what, code in (
                (missing - bare, "the library lacks", "header-undefined"),
                (bare, "the library has without prefix and suffix", "header-spelling"),
            ):
                if found:
                    yield Defect(
                        code=code,
                        severity="note",
                        message=f"{header} declares {len(names)} functions, {len(found)} of which "
                        f"{what} ({_some(found)})",
                    )


def _example(missing: set[str], library: Library, has: set[str]) -> str:
    """Return a name that a header declares with the one that the library has for it."""
    for stem in ("ddot", "dgesv", "cblas_ddot", "LAPACKE_dgesv"):
        for family in library.families:
            native = family.prefix + stem + family.suffix
            for name in (stem, f"{stem}_"):
                if name in missing and native in has:
                    return f"{name} is {native}"
    return _some(missing)


def _is_bare(name: str, library: Library, has: set[str]) -> bool:
    """Tell whether a function is there, but was not renamed as the others were."""
    for family in library.families:
        if name.startswith(family.prefix) and name.endswith(family.suffix):
            bare = name[len(family.prefix) : len(name) - len(family.suffix)]
            if bare != name and bare in has:
                return True
    return False


def _some(names: Iterable[str]) -> str:
    ordered = sorted(names, key=lambda name: (name.startswith("_"), name))
    return ", ".join(ordered[:_TOLD]) + (", ..." if len(ordered) > _TOLD else "")


def _pc_files(library: Library) -> list[File]:
    """Return the provider's ``.pc`` files that are about this library."""
    if library.provider is None:
        return []
    stem = _stem(os.path.basename(library.path))
    words = {"blas", "lapack", library.implementation, stem}
    found = []
    for path in _discovery.listed(library.provider, ".pc"):
        base = os.path.basename(path)
        if any(word and word in base for word in words):
            file = read(path)
            if file is not None:
                found.append(file)
    return found


def _stem(base: str) -> str:
    return base.removeprefix("lib").partition(".")[0]


def read(path: str) -> File | None:
    """Read a ``.pc`` file and expand its variables; None if it can't be read."""
    try:
        with open(path, "rb") as stream:
            text = stream.read(_PC_LIMIT).decode("utf-8", "replace")
    except OSError:
        return None
    variables = {"pcfiledir": os.path.dirname(os.path.abspath(path))}
    fields: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        equals, colon = line.find("="), line.find(":")
        if equals >= 0 and not 0 <= colon < equals:
            variables[line[:equals].strip()] = _expanded(line[equals + 1 :].strip(), variables)
        elif colon >= 0:
            fields[line[:colon].strip()] = _expanded(line[colon + 1 :].strip(), variables)
    return File(path=path, variables=variables, fields=fields)


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    out, _, rest = text.partition("${")
    while rest:
        name, closed, after = rest.partition("}")
        if closed:
            # A value is already expanded: what it doubles here is bounded by the file's lines.
            out += variables.get(name, "")[:_PC_LIMIT]
        between, _, rest = after.partition("${")
        out += between
        if len(out) > _PC_LIMIT:
            return out[:_PC_LIMIT]
    return out


def _pc_defects(library: Library, file: File) -> Iterator[Defect]:
    def defect(code: str, severity: str, message: str) -> Defect:
        return Defect(code=code, severity=severity, message=f"its {file.name} {message}")

    flags = file.fields.get("Cflags", file.fields.get("CFlags", "")).split()
    libs = file.fields.get("Libs", "").split()
    missing = _missing_folders([*flags, *libs])
    if missing:
        yield defect("pc-path", "warning", f"names folders that are not there ({_some(missing)})")
    elif not libs:
        yield defect("pc-libs", "warning", "has no Libs: nothing is linked")
    if any(mark in word for word in (*flags, *libs) for mark in ("{", "}", "(")):
        yield defect("pc-text", "warning", "holds text that was never filled in")
    ilp64 = library.interface == "ilp64"
    if ilp64 and "lapacke" in {family.api for family in library.families}:
        if not any(word.startswith("-DLAPACK_ILP64") for word in flags):
            yield defect(
                "pc-lapack-ilp64",
                "warning",
                "lacks -DLAPACK_ILP64: lapacke.h then declares 32-bit integers, and LAPACKE "
                "writes beyond the caller's arrays",
            )
    elif not ilp64 and library.interface == "lp64" and "-DLAPACK_ILP64" in flags:
        yield defect("pc-lapack-ilp64", "warning", "has -DLAPACK_ILP64 for a library that is LP64")
    words = file.variables.get("openblas_config", "").split()
    stated = next((word for word in words if word.startswith("USE_64BITINT=")), None)
    if stated is not None and ilp64 and stated not in ("USE_64BITINT=1", "USE_64BITINT=ON"):
        yield defect("pc-width", "warning", f"says {stated!r} though the library is ILP64")
    version = file.fields.get("Version", "")
    if not version:
        yield defect("pc-version", "warning", "has no version: no reader accepts it")
    elif library.version and not _agrees(version, library.version):
        yield defect("pc-version", "note", f"says version {version}, the library {library.version}")
    private = file.fields.get("Libs.private", "").split()
    if private and library.binary.format != "ar":
        yield defect(
            "pc-libs-private",
            "note",
            f"asks for {' '.join(word for word in private if word.startswith('-l'))} when linked "
            "statically, which a shared library does not need",
        )
    if any(word.startswith("-Wl,-rpath,") for word in libs):
        yield defect("pc-rpath", "note", "puts its folder's absolute path into what is linked")


def _missing_folders(words: Iterable[str]) -> list[str]:
    folders = dict.fromkeys(
        os.path.normpath(word[2:]) for word in words if word.startswith(("-L/", "-I/"))
    )
    return [folder for folder in folders if not os.path.isdir(folder)]


def _agrees(one: str, other: str) -> bool:
    """Tell whether of two releases one is the beginning of the other; ``.dev`` is none."""
    short, long = sorted((one.split("."), other.split(".")), key=len)
    return "dev" not in one and long[: len(short)] == short


def _same_names(
    library: Library, files: Sequence[File], others: Sequence[Library]
) -> Iterator[Defect]:
    names = {file.name for file in files}
    seen = set()
    for other in others:
        provider = other.provider
        if provider is None or provider == library.provider or provider in seen:
            continue
        seen.add(provider)
        for path in _discovery.listed(provider, ".pc"):
            base = os.path.basename(path)
            if base in names:
                yield Defect(
                    code="pc-same-name",
                    severity="warning",
                    message=f"{provider} has a {base} too: which one a build finds depends on the "
                    "order of the path",
                )


def _top_level(library: Library) -> Iterator[Defect]:
    provider = library.provider
    folder = _discovery.info_dir(provider) if provider else None
    if provider is None or folder is None:
        return
    try:
        with open(os.path.join(folder, "top_level.txt"), encoding="utf-8") as file:
            names = file.read(_PC_LIMIT).split()
    except (OSError, ValueError):
        return
    for name in names:
        path = os.path.join(provider.root, name)
        if not name.isidentifier() or os.path.isdir(path) or os.path.isfile(f"{path}.py"):
            continue
        if any(entry.startswith(f"{name}.") for entry in os.listdir(provider.root)):
            continue
        yield Defect(
            code="top-level",
            severity="note",
            message=f"its metadata lists a package {name}, which is not in the wheel",
        )
