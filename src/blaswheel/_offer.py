"""One library made ready for a consumer: archive and headers written, flags worked out."""

from __future__ import annotations

import os

from blaswheel import _alias, _files, _headers, _naming, _runtime
from blaswheel._errors import BlaswheelError, UsageError
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from blaswheel._library import Library
    from blaswheel._names import Family
    from blaswheel._naming import Names


class Request(Record):
    """What a consumer wants of a library.

    Attributes
    ----------
    prefix, suffix : str, optional
        Of the names that the consumer uses; None is plain.
    native : bool
        The library's own names instead, by macros.
    mode : {'link', 'origin', 'absolute', 'preload'}
    depths : tuple of int
        For mode ``origin``, see `blaswheel._runtime`.
    visibility : {'hidden', 'default'}
        Of the names in the alias archive.
    isolate : bool
        Link an isolated copy of the library.
    """

    prefix: str | None = None
    suffix: str | None = None
    native: bool = False
    mode: str = "link"
    depths: tuple[int, ...] = _runtime.DEPTHS
    visibility: str = "hidden"
    isolate: bool = False


def consistent(request: Request) -> Request:
    """Return ``request`` if it does not contradict itself.

    Raises
    ------
    UsageError
        If it does.
    """
    if request.mode not in _runtime.MODES:
        raise UsageError(f"runtime {request.mode!r}", f"it is one of {', '.join(_runtime.MODES)}")
    if request.native and (request.prefix is not None or request.suffix is not None):
        raise UsageError(
            "--native asks for the library's own names, --symbol-prefix and --symbol-suffix for "
            "others",
            "leave one of them out",
        )
    if request.isolate and request.mode == "origin":
        raise UsageError(
            "an isolated copy is not in the provider's wheel: no run path relative to a module "
            "reaches it",
            "use --runtime absolute, or link and repair the wheel",
        )
    return request


class Place(Record):
    """Where archives, headers and isolated copies are written.

    Attributes
    ----------
    folder : str
    is_cache : bool
        The cache keeps what is there under a name that tells its content; a folder of the user's
        is brought up to date.
    """

    folder: str
    is_cache: bool = False


class Offer(Record):
    """A library as a consumer gets it; all paths exist."""

    library: Library
    interface: str
    request: Request
    families: dict[str, Family]
    #: None with the library's own names
    names: Names | None
    #: folder and link name of the archive
    alias: tuple[str, str] | None
    #: the folder to link with (an isolated copy has its own) and the link name in it
    directory: str
    link_name: str
    #: where ``-static`` finds why it can't work, see `_no_static`; None where it can't be told
    no_static: str | None
    include_dirs: tuple[str, ...]
    defines: tuple[str, ...]
    symbol_prefix: str
    symbol_suffix: str

    def link_args(self, express: Callable[[str], str] = _files.linker_path) -> list[str]:
        """Return the link arguments; ``express`` says how a path is written."""
        run_paths: list[str] = []
        if self.request.mode == "origin":
            provider = self.library.provider
            run_paths = _runtime.origin_entries(
                self.directory, provider.root if provider else None, self.request.depths
            )
        return _runtime.link_args(
            mode=self.request.mode,
            directory=express(self.directory),
            library=(self.link_name,),
            alias=(express(self.alias[0]), self.alias[1]) if self.alias else None,
            no_static=express(self.no_static) if self.no_static else None,
            run_paths=run_paths,
            elf=self.library.binary.format == "elf",
        )

    def compile_args(self, express: Callable[[str], str] = str) -> list[str]:
        """Return the compile arguments; ``express`` says how a path is written."""
        return [*(f"-I{express(folder)}" for folder in self.include_dirs), *self.defines]


def make(library: Library, interface: str, request: Request, place: Place) -> Offer:
    """Make a library ready for a consumer, writing what it needs to ``place``.

    Raises
    ------
    BlaswheelError
        If the library can't serve the request, or ``place`` can't be written.
    """
    families = _naming.chosen_families(library.families, interface)
    if not families:
        raise _naming.nothing_offered(library.title, interface)
    if request.mode == "preload":
        _runtime.check_preload(library.title, library.binary.needed)
    directory, link_name = library.directory, library.link_name
    if request.isolate:
        directory, link_name = _isolated(library, place)
    if request.native:
        names, alias = None, None
        prefix, suffix, append = _native_affixes(families)
        include_dirs = library.include_dirs
    else:
        scheme = _naming.scheme(interface, request.prefix, request.suffix)
        names = _naming.serve(library.binary.functions, families, scheme)
        prefix, suffix, append = scheme.prefix, scheme.suffix, True
        aliases = names.aliases
        alias = _archive(library, interface, aliases, request, place) if aliases else None
        include_dirs = _generated_headers(library, interface, names, place)
    return Offer(
        library=library,
        interface=interface,
        request=request,
        families=families,
        names=names,
        alias=alias,
        directory=directory,
        link_name=link_name,
        no_static=_no_static(library, link_name, place),
        include_dirs=include_dirs,
        defines=tuple(_defines(interface, prefix, suffix, append, families)),
        symbol_prefix=prefix,
        symbol_suffix=suffix,
    )


def _native_affixes(families: dict[str, Family]) -> tuple[str, str, bool]:
    """Return prefix and C suffix of the library's own names, and whether Fortran appends ``_``."""
    for api in ("cblas", "lapacke"):
        if api in families:
            family = families[api]
            fortran = families.get("blas") or families.get("lapack")
            return family.prefix, family.suffix, fortran is None or fortran.suffix != family.suffix
    family = next(iter(families.values()))
    if not family.suffix.endswith("_"):
        return family.prefix, family.suffix, False
    # ``_64_`` is ``64_`` in OpenBLAS's scheme, ``_`` is no suffix.
    return family.prefix, family.suffix[1:], True


def _defines(
    interface: str, prefix: str, suffix: str, append: bool, families: dict[str, Family]
) -> list[str]:
    """Return the macros that tell headers and NumPy the names and the integer width.

    NumPy and SciPy read ``BLAS_SYMBOL_PREFIX``, ``BLAS_SYMBOL_SUFFIX``, ``HAVE_BLAS_ILP64``,
    ``OPENBLAS_ILP64_NAMING_SCHEME`` and ``NO_APPEND_FORTRAN`` (their ``npy_cblas.h``); LAPACKE's
    own header reads ``LAPACK_ILP64``, without which its integers stay at 32 bits.
    """
    defines = []
    if prefix:
        defines.append(f"-DBLAS_SYMBOL_PREFIX={prefix}")
    if suffix:
        defines.append(f"-DBLAS_SYMBOL_SUFFIX={suffix}")
    if not append:
        defines.append("-DNO_APPEND_FORTRAN")
    if interface == "ilp64":
        defines.append("-DHAVE_BLAS_ILP64")
        if suffix.endswith("_"):
            defines.append("-DOPENBLAS_ILP64_NAMING_SCHEME")
        defines.append("-DLAPACK_ILP64")
    return defines


def _stem(library: Library, interface: str) -> str:
    """Return the part of an archive's name that tells a reader of link lines what it is for."""
    base = library.provider.name if library.provider else library.implementation
    clean = "".join(c if c.isascii() and c.isalnum() else "_" for c in base)
    return clean if "64" in clean or interface == "lp64" else f"{clean}_{interface}"


def _archive(
    library: Library, interface: str, aliases: dict[str, str], request: Request, place: Place
) -> tuple[str, str]:
    machine = library.binary.machine
    name = _alias.name(
        aliases, machine, visibility=request.visibility, stem=_stem(library, interface)
    )
    folder = os.path.join(place.folder, "lib")
    path = os.path.join(folder, f"lib{name}.a")
    if not os.path.isfile(path):
        content = _alias.archive(aliases, machine, visibility=request.visibility)
        _in_place(place, lambda: _files.write_atomically(path, content))
    return folder, name


def _no_static(library: Library, link_name: str, place: Place) -> str | None:
    """Write what a static link finds in the place of the library, and return its folder.

    With ``-static`` a linker passes the shared library over and says no more than that it can't
    find it. Here it finds a linker script that asks for a library whose name is the reason; all
    linkers read such scripts and tell the name.
    """
    if library.binary.format != "elf" or link_name.startswith(":"):
        return None
    folder = os.path.join(place.folder, "lib", "shared-only")
    path = os.path.join(folder, f"lib{link_name}.a")
    if not os.path.isfile(path):
        reason = f"{link_name}-is-a-shared-library-only--link-without-static"
        content = f"/* Found by -static alone. */\nINPUT(-l{reason})\n".encode()
        _in_place(place, lambda: _files.write_atomically(path, content))
    return folder


def _generated_headers(
    library: Library, interface: str, names: Names, place: Place
) -> tuple[str, ...]:
    if not library.include_dirs:
        return ()
    if place.is_cache:
        # By what it is made from: the provider's headers as they are now, and the names.
        parts = [_headers.FORMAT, interface, names.scheme.prefix, names.scheme.suffix]
        parts += sorted({f"{f.api} {f.prefix} {f.suffix}" for f in library.families})
        for folder in library.include_dirs:
            for entry in sorted(os.listdir(folder)):
                stat = os.stat(os.path.join(folder, entry))
                parts.append(f"{folder}/{entry} {stat.st_size} {stat.st_mtime_ns}")
        folder = os.path.join(place.folder, "include", _files.digest(*parts))
        if os.path.isdir(folder):
            return (folder,)
    else:
        folder = os.path.join(place.folder, "include", interface)
    headers = _headers.generate(
        library.include_dirs, names, library.families, ilp64=interface == "ilp64"
    )
    if place.is_cache:
        _in_place(place, lambda: _files.write_folder_atomically(folder, headers))
    else:
        for name, content in headers.items():
            _files.write_atomically(os.path.join(folder, name), content)
    return (folder,)


def _isolated(library: Library, place: Place) -> tuple[str, str]:
    from blaswheel import _isolate

    stat = os.stat(library.path)
    key = _files.digest(os.path.realpath(library.path), str(stat.st_size), str(stat.st_mtime_ns))
    name = f"blaswheel_isolated_{_stem(library, library.interface)}_{key}"
    folder = os.path.join(place.folder, "lib")
    path = os.path.join(folder, f"lib{name}.so")
    if not os.path.isfile(path):
        _in_place(place, lambda: _isolate.write(library.path, path))
    return folder, name


def _in_place(place: Place, write: Callable[[], None]) -> None:
    try:
        write()
    except BlaswheelError as error:
        if not place.is_cache:
            raise
        raise BlaswheelError(
            error.message,
            "use pc --dir DIR to have all in a folder of yours, or set BLASWHEEL_CACHE_DIR",
        ) from error
