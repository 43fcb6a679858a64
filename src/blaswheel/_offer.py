"""One library made ready for a consumer: archive and headers written, flags worked out."""

from __future__ import annotations

import os

from blaswheel import _files, _memo, _naming, _runtime, _static
from blaswheel._errors import BlaswheelError, FormatError, UsageError
from blaswheel._library import is_misnamed, link_name, stem
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from blaswheel._library import Library
    from blaswheel._names import Family
    from blaswheel._naming import Names, Scheme

#: Part of what names generated headers in a cache: raise it whenever `_headers.generate` would
#: give other text than before.
HEADERS_FORMAT = "4"


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
    complex_return : {'value'}, optional
        How the consumer's compiler returns complex results of Fortran functions, where the
        library may do it in another way; None takes the library's.
    """

    prefix: str | None = None
    suffix: str | None = None
    native: bool = False
    mode: str = "link"
    depths: tuple[int, ...] = _runtime.DEPTHS
    visibility: str = "hidden"
    isolate: bool = False
    complex_return: str | None = None


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
    if request.native and request.complex_return is not None:
        raise UsageError(
            "--native asks for the library's own functions, --complex-return for others",
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
    #: all files in the order of a link: folders and the link names in them
    libraries: tuple[tuple[str, tuple[str, ...]], ...]
    #: the folders in which the loader finds them
    directories: tuple[str, ...]
    #: where ``-static`` finds why it can't work, see `_no_static`; None where it can't be told
    no_static: str | None
    include_dirs: tuple[str, ...]
    defines: tuple[str, ...]
    symbol_prefix: str
    symbol_suffix: str

    @property
    def complex_return(self) -> str | None:
        """How complex results of Fortran functions reach the consumer; None if it is not known."""
        if self.request.complex_return is not None:
            return "register"
        return self.library.complex_return or self.library.vendor.complex_return

    def link_args(self, express: Callable[[str], str] = _files.linker_path) -> list[str]:
        """Return the link arguments; ``express`` says how a path is written."""
        run_paths: list[str] = []
        system = self.library.binary.system
        # Windows has no run paths; the system's libraries are found without one.
        mode = "link" if system == "pe" else self.request.mode
        if mode == "origin" and not self.library.of_system:
            provider = self.library.provider
            root = provider.root if provider else None
            for folder in self.directories:
                run_paths += _runtime.origin_entries(folder, root, self.request.depths, system)
        return _runtime.link_args(
            mode=mode,
            libraries=[(express(folder), names) for folder, names in self.libraries],
            alias=(express(self.alias[0]), self.alias[1]) if self.alias else None,
            no_static=express(self.no_static) if self.no_static else None,
            run_paths=list(dict.fromkeys(run_paths)),
            directories=[express(folder) for folder in self.directories],
            system=self.library.system,
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
    library = _static.completed(library)
    wide = interface == "ilp64" and (request.suffix is None or "64" in request.suffix)
    families = _naming.chosen_families(library.families, interface, marked=wide)
    if not families:
        raise _naming.nothing_offered(library.title, interface)
    if request.mode == "preload":
        _runtime.check_preload(library.title, library.binary.needed)
    directory, name = library.directory, library.link_name
    libraries = _linkable(library, place)
    directories = tuple(dict.fromkeys(os.path.dirname(path) for path in library.files))
    if library.binary.format == "elf" and is_misnamed(library.binary):
        if request.mode == "origin" and not request.isolate:
            raise BlaswheelError(
                f"{library.title} says it is called {library.binary.soname}, and is not: no run "
                "path relative to a module reaches it under that name",
                "use --runtime absolute, or a newer version",
            )
        directory, name = libraries[0][0], libraries[0][1][0]
        directories = (directory,)
    if _static.is_static(library):
        # The loader looks for nothing.
        directories = ()
    if request.isolate:
        if _static.is_static(library):
            raise UsageError(
                f"{library.title} is a static library, whose names are the program's own",
                "leave --isolate out",
            )
        directory, name = _isolated(library, place)
        libraries, directories = ((directory, (name,)),), (directory,)
    if request.native:
        names, alias = None, None
        prefix, suffix, append = _native_affixes(families)
        include_dirs = library.include_dirs
    else:
        scheme = _naming.scheme(interface, request.prefix, request.suffix)
        names, alias = _served(library, interface, families, scheme, request, place)
        prefix, suffix, append = scheme.prefix, scheme.suffix, True
        include_dirs = _generated_headers(library, interface, names, place)
    return Offer(
        library=library,
        interface=interface,
        request=request,
        families=families,
        names=names,
        alias=alias,
        directory=directory,
        link_name=name,
        libraries=libraries,
        directories=directories,
        no_static=_no_static(library, libraries[0][1][0], place),
        include_dirs=include_dirs,
        defines=(
            *_defines(interface, prefix, suffix, append, families),
            *_width_macro(library, interface),
        ),
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


def _width_macro(library: Library, interface: str) -> list[str]:
    """Return the vendor's own macro for wide integers, for headers that are used as they are."""
    macro = library.vendor.width_macro
    return [f"-D{macro}"] if macro and interface == "ilp64" else []


def _linkable(library: Library, place: Place) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return folders and link names, in order, under which linkers and build tools find the files.

    Many wheels have no development link: ``libmkl_core.so.3`` is all there is. ld takes
    ``-l:libmkl_core.so.3``, but Meson and CMake don't find such a name, and record no run path.
    So they get a folder of links, which has all that the loader may look for in it too.
    """
    groups: list[tuple[str, tuple[str, ...]]] = []
    for file in library.files:
        own = file == library.path and library.import_library
        path = own or file
        folder, name = os.path.dirname(path), link_name(path)
        misnamed = file == library.path and is_misnamed(library.binary)
        if library.binary.format == "elf" and (name.startswith(":") or misnamed):
            linked = _links(library, folder, place)
            if linked is not None:
                folder, name = linked, stem(path)
        if groups and groups[-1][0] == folder:
            groups[-1] = (folder, (*groups[-1][1], name))
        else:
            groups.append((folder, (name,)))
    return tuple(groups)


def _links(library: Library, folder: str, place: Place) -> str | None:
    """Make the folder of links to a folder of libraries; None where there are no links."""
    if os.name == "nt":
        return None
    target = os.path.join(place.folder, "lib", f"links-{_files.digest(os.path.realpath(folder))}")
    names = {os.path.basename(path) for path in library.files if os.path.dirname(path) == folder}
    links = {f"lib{stem(name)}.so": name for name in names}
    links |= {name: name for name in _loaded_from(library, folder, names)}
    if is_misnamed(library.binary) and library.directory == folder:
        links[(library.binary.soname or "").rpartition("/")[2]] = os.path.basename(library.path)
    try:
        os.makedirs(target, exist_ok=True)
        for link, name in links.items():
            path = os.path.join(folder, name)
            leads = path if place.is_cache else os.path.relpath(path, os.path.realpath(target))
            _files.symlink(leads, os.path.join(target, link))
    except OSError as error:
        raise BlaswheelError(
            f"can't write {target}: {error.strerror or error}",
            "use pc --dir DIR to have all in a folder of yours, or set BLASWHEEL_CACHE_DIR",
        ) from error
    return target


def _loaded_from(library: Library, folder: str, names: set[str]) -> set[str]:
    """Return the files of a folder that the loader may want when it has opened ``names`` there.

    The versions of each, what each needs from beside itself, and what a layered implementation
    opens beside itself.
    """
    present = os.listdir(folder)
    layers = library.vendor.layers
    begins = tuple(f"lib{stem(name)}.so" for name in names)
    if layers is not None:
        begins += (f"lib{layers.family}",)
    wanted = {name for name in present if name.startswith(begins) and ".so" in name}
    beside = set(present)
    queue = [name for name in names if layers is None]
    from blaswheel import _binary

    while queue:
        try:
            needed = set(_binary.read(os.path.join(folder, queue.pop())).needed)
        except (FormatError, OSError):
            continue
        fresh = (needed & beside) - wanted
        wanted |= fresh
        queue += fresh
    return wanted


def _stem(library: Library, interface: str) -> str:
    """Return the part of an archive's name that tells a reader of link lines what it is for."""
    base = library.provider.name if library.provider else library.implementation
    clean = "".join(c if c.isascii() and c.isalnum() else "_" for c in base)
    return clean if "64" in clean or interface == "lp64" else f"{clean}_{interface}"


def _served(
    library: Library,
    interface: str,
    families: dict[str, Family],
    scheme: Scheme,
    request: Request,
    place: Place,
) -> tuple[Names, tuple[str, str] | None]:
    """Return how the names are served, and the archive that serves those that need one."""

    wrapped = request.complex_return == "value" and _returns_by_argument(library)
    results: dict[str, str] = {}

    def serve() -> Names:
        functions = library.binary.functions
        names = _naming.serve(functions, families, scheme, library.families)
        if not wrapped:
            return names
        natives, precisions = _naming.complex_functions(
            names, functions, families, library.families
        )
        results.update(precisions)
        return names.replace(offered={**names.offered, **natives})

    folder = os.path.join(place.folder, "lib")
    parts = (repr(families), repr(library.families), repr(scheme), request.visibility, str(wrapped))
    key = ("served", *library.files, interface, *parts, folder)
    known = _memo.recall(*key)
    if known is not None:
        archive = known["archive"]
        if archive is None or os.path.isfile(os.path.join(folder, f"lib{archive}.a")):
            later = _naming.LaterNames(
                scheme=scheme, standard=known["standard"], offer=lambda: serve().offered
            )
            return later, None if archive is None else (folder, archive)
    stamps = [_memo.stamp(path) for path in library.files]
    names = serve()
    aliases = names.aliases
    alias = _archive(library, interface, aliases, results, request, place) if aliases else None
    value = {"standard": names.standard, "archive": alias and alias[1]}
    _memo.remember(value, stamps, *key)
    return names, alias


def _returns_by_argument(library: Library) -> bool:
    """Tell whether complex results come by a hidden first argument.

    Raises
    ------
    BlaswheelError
        If that is not known.
    """
    known = library.complex_return or library.vendor.complex_return
    if known is None:
        raise BlaswheelError(
            f"how {library.title} returns complex results is not known",
            "blaswheel verify tells it, by a call; or leave --complex-return out",
        )
    return known == "argument"


def _archive(
    library: Library,
    interface: str,
    aliases: dict[str, str],
    results: dict[str, str],
    request: Request,
    place: Place,
) -> tuple[str, str]:
    from blaswheel import _alias

    machine, kind = library.binary.machine, library.binary.system
    visibility = request.visibility
    stem = _stem(library, interface)
    name = _alias.name(aliases, machine, kind, visibility=visibility, results=results, stem=stem)
    folder = os.path.join(place.folder, "lib")
    path = os.path.join(folder, f"lib{name}.a")
    if not os.path.isfile(path):
        content = _alias.archive(aliases, machine, kind, visibility=visibility, results=results)
        _in_place(place, lambda: _files.write_atomically(path, content))
        if kind == "pe":
            # Microsoft's linkers look for this name.
            other = os.path.join(folder, f"{name}.lib")
            _in_place(place, lambda: _files.write_atomically(other, content))
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
        parts = [HEADERS_FORMAT, interface, names.scheme.prefix, names.scheme.suffix]
        parts += sorted({f"{f.api} {f.prefix} {f.suffix}" for f in library.families})
        parts.append(library.vendor.width_macro or "")
        for folder in library.include_dirs:
            for entry in sorted(os.listdir(folder)):
                stat = os.stat(os.path.join(folder, entry))
                parts.append(f"{folder}/{entry} {stat.st_size} {stat.st_mtime_ns}")
        folder = os.path.join(place.folder, "include", _files.digest(*parts))
        if os.path.isdir(folder):
            return (folder,)
    else:
        # One folder per set of names, which a set of files may have several of.
        usual = names.scheme == _naming.scheme(interface)
        own = "" if usual else f"-{_files.digest(names.scheme.prefix, names.scheme.suffix)}"
        folder = os.path.join(place.folder, "include", f"{interface}{own}")
    from blaswheel import _headers

    headers = _headers.generate(
        library.include_dirs,
        names,
        library.families,
        ilp64=interface == "ilp64",
        stand_ins=library.vendor.stand_ins,
        both=library.vendor.width_macro is not None,
    )
    if place.is_cache:
        _in_place(place, lambda: _files.write_folder_atomically(folder, headers))
    else:
        for name, content in headers.items():
            _files.write_atomically(os.path.join(folder, name), content)
    return (folder,)


def _isolated(library: Library, place: Place) -> tuple[str, str]:
    from blaswheel import _isolate

    check_isolation(library)
    stat = os.stat(library.path)
    key = _files.digest(os.path.realpath(library.path), str(stat.st_size), str(stat.st_mtime_ns))
    name = f"blaswheel_isolated_{_stem(library, library.interface)}_{key}"
    folder = os.path.join(place.folder, "lib")
    path = os.path.join(folder, f"lib{name}.so")
    if not os.path.isfile(path):
        _in_place(place, lambda: _isolate.write(library.path, path))
    return folder, name


def check_isolation(library: Library) -> None:
    """Refuse to isolate a library that one file is not all of.

    Raises
    ------
    BlaswheelError
        If it is made of several.
    """
    if library.parts:
        raise BlaswheelError(
            f"{library.title} is made of {len(library.parts)} files, which find each other by "
            "their names: there is no isolated copy of it",
            "leave --isolate out, or use another library",
        )


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
