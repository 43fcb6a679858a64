"""Every BLAS in this process: found by what the loaded files export, asked how it runs.

The queries are functions that change nothing (thread counts, names, versions). Nothing is loaded:
handles are those of what is there (``RTLD_NOLOAD``).
"""

from __future__ import annotations

import os
import sys

from blaswheel import _process
from blaswheel._errors import FormatError
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from blaswheel._library import Library

#: What OpenBLAS's ``openblas_get_parallel`` says.
_PARALLEL = {0: "sequential", 1: "pthreads", 2: "openmp"}
#: What MKL's ``MKL_Set_Threading_Layer`` says when it is to set none (``mkl_service.h``).
_MKL_LAYERS = {0: "intel", 1: "sequential", 2: "pgi", 3: "gnu", 4: "tbb"}
#: Only MKL's dispatcher (``libmkl_rt``) has this: it loads the other files when it is first called.
_DISPATCHER = "MKL_Set_Interface_Layer"


class Copy(Record):
    """One BLAS in the process.

    Attributes
    ----------
    path : str
    provider : str, optional
        ``NAME VERSION`` of the distribution that has the file.
    implementation, interface, version
        As of `Library`.
    names : tuple of str
        How its names are spelled, such as ``scipy_*_64_``.
    threading_layer : str, optional
        ``sequential``, ``pthreads``, ``openmp``, ``intel``, ...
    threads : int, optional
        As many as it would use now.
    core : str, optional
        The kernels that it chose.
    is_global : bool
        Whether other libraries are bound to it by the order of loading.
    """

    path: str
    provider: str | None
    implementation: str
    interface: str
    version: str | None
    names: tuple[str, ...]
    threading_layer: str | None
    threads: int | None
    core: str | None
    is_global: bool


class Clash(Record):
    """Two libraries that export the same names, and what comes of it.

    Attributes
    ----------
    libraries : (str, str)
        Paths; the one that is global, or found first by `modules`, comes first.
    names : tuple of str
    is_global : bool
        Whether the first takes the place of the second for what is loaded from now on.
    modules : tuple of str
        Files that were loaded with both in one scope, as each needs both, itself or by others: the
        first serves them, and the second too (Linux).
    """

    libraries: tuple[str, str]
    names: tuple[str, ...]
    is_global: bool
    modules: tuple[str, ...]


class Report(Record):
    """What `report` found.

    Attributes
    ----------
    libraries : tuple of Copy
    threads : int
        Of all copies together, as far as they tell.
    bindings : dict
        Extension module to the BLAS libraries that its calls lead to (Linux).
    clashes : tuple of Clash
    """

    libraries: tuple[Copy, ...]
    threads: int
    bindings: dict[str, tuple[str, ...]]
    clashes: tuple[Clash, ...]

    def as_json(self) -> dict[str, Any]:
        """Return it as ``blaswheel loaded --json`` prints it."""
        return {
            "schema": 1,
            "libraries": [
                {name: _plain(getattr(one, name)) for name in one._fields} for one in self.libraries
            ],
            "threads": self.threads,
            "bindings": {name: list(paths) for name, paths in self.bindings.items()},
            "clashes": [
                {name: _plain(getattr(one, name)) for name in one._fields} for one in self.clashes
            ],
        }


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def report() -> Report:
    """Look at this process."""
    files = list(dict.fromkeys(map(os.path.realpath, _process.libraries())))
    found: list[Library] = []
    for path in files:
        library = _examined(path)
        if library is not None:
            found.append(library)
    is_linux = sys.platform == "linux"
    bindings = dict(_bindings(files, found)) if is_linux else {}
    scopes = _scopes(files) if is_linux else {}
    found = [_dispatching(library, found) for library in found if not _is_behind(library, found)]
    copies = [_copy(library, may_ask=_is_settled(library, files)) for library in found]
    return Report(
        libraries=tuple(copies),
        threads=sum(one.threads or 0 for one in copies),
        bindings=bindings,
        clashes=tuple(_clashes(found, copies, scopes)),
    )


def _examined(path: str) -> Library | None:
    """Return the library at a path if it is a BLAS, also a partial one is none."""
    from blaswheel import _library

    try:
        library = _library.examine(path, None, ())
    except (FormatError, OSError):
        return None
    if library is None or not library.families or _library.is_partial(library.families):
        return None
    return library


def _is_dispatcher(library: Library) -> bool:
    return _DISPATCHER in library.binary.functions


def _is_behind(library: Library, found: list[Library]) -> bool:
    """Tell whether it is a layer of MKL that belongs to a dispatcher: both are one copy."""
    return library.implementation == "mkl" and not _is_dispatcher(library) and any(
        _is_dispatcher(one) and one.directory == library.directory for one in found
    )  # fmt: skip


def _dispatching(library: Library, found: list[Library]) -> Library:
    """Return MKL's dispatcher with the integers of the layer that it chose, else the library."""
    if _is_dispatcher(library):
        for one in found:
            if one.directory == library.directory and _is_behind(one, found):
                return library.replace(interface=one.interface)
    return library


def _is_settled(library: Library, files: list[str]) -> bool:
    """Tell whether questions change nothing.

    The first call of MKL's dispatcher, whichever it is, loads layers, fixes interface and
    threading for good, and ends the process if a layer is missing. A layer alone can't answer.
    """
    return library.implementation != "mkl" or any(
        os.path.dirname(path) == os.path.dirname(library.path)
        and os.path.basename(path).removeprefix("lib").startswith("mkl_core.")
        for path in files
    )


def _copy(library: Library, *, may_ask: bool) -> Copy:
    ask = _Asker(library)
    layer, threads, core, version = ask.all() if may_ask else (None, None, None, None)
    spelled = dict.fromkeys(f"{one.prefix}*{one.suffix}" for one in library.families)
    return Copy(
        path=library.path,
        provider=_provider(library.path),
        implementation=library.implementation,
        interface=library.interface,
        version=version or library.version,
        names=tuple(spelled),
        threading_layer=layer,
        threads=threads,
        core=core,
        is_global=ask.is_global(),
    )


def _provider(path: str) -> str | None:
    """Return the distribution that lists a file."""
    from blaswheel import _discovery

    for distribution, info_dir in _discovery.distributions(_discovery.search_path()):
        try:
            with open(os.path.join(info_dir, "RECORD"), encoding="utf-8", errors="replace") as file:
                base = os.path.basename(path)
                if not any(base in line for line in file):
                    continue
        except OSError:
            continue
        listed = _discovery.files(distribution, info_dir)
        if listed and path in map(os.path.realpath, listed.libraries):
            return f"{distribution.name} {distribution.version}"
    return None


class _Asker:
    """Asks a loaded library, by functions that only tell."""

    def __init__(self, library: Library) -> None:
        import ctypes

        self.library = library
        self.ctypes = ctypes
        self.exported = frozenset(library.binary.functions)
        self.handle: Any = None
        flags = getattr(os, "RTLD_NOLOAD", None)
        try:
            if flags is not None:
                self.handle = ctypes.CDLL(library.path, mode=flags | os.RTLD_LOCAL)
            elif sys.platform == "win32":
                self.handle = ctypes.CDLL(library.path)
        except OSError:
            # Under another path than the one that it was loaded by.
            pass

    def all(self) -> tuple[str | None, int | None, str | None, str | None]:
        """Return threading layer, threads, core and version."""
        if self.handle is None:
            return None, None, None, None
        name = self.library.implementation
        if name == "openblas":
            return self._openblas()
        if name == "mkl":
            text = self._buffer("MKL_Get_Version_String", "mkl_get_version_string")
            threads = self._number("MKL_Get_Max_Threads", "mkl_get_max_threads")
            version = text.partition("Version ")[2].partition(" ")[0] if text else None
            return self._mkl_layer(), threads, None, version or None
        if name in ("aocl", "blis"):
            threads = self._number("bli_thread_get_num_threads")
            return None, threads, self._blis_core(), self._text("bli_info_get_version_str")
        if name == "flexiblas":
            return None, self._number("flexiblas_get_num_threads"), None, None
        if name == "reference":
            return "sequential", 1, None, None
        return None, None, None, None

    def is_global(self) -> bool:
        """Tell whether its functions are those that the whole process gets."""
        if self.handle is None or sys.platform == "win32" or not self.exported:
            return False
        process = self.ctypes.CDLL(None)
        for name in sorted(self.exported)[:50]:
            everybody = getattr(process, name, None)
            if everybody is not None:
                cast, pointer = self.ctypes.cast, self.ctypes.c_void_p
                own = getattr(self.handle, name)
                return bool(cast(everybody, pointer).value == cast(own, pointer).value)
            return False
        return False

    def _openblas(self) -> tuple[str | None, int | None, str | None, str | None]:
        layer = self._number(*self._spelled("openblas_get_parallel"))
        threads = self._number(*self._spelled("openblas_get_num_threads"))
        core = self._text(*self._spelled("openblas_get_corename"))
        words = (self._text(*self._spelled("openblas_get_config")) or "").split()
        version = words[1].removesuffix(".dev") if words[:1] == ["OpenBLAS"] and words[1:] else None
        return _PARALLEL.get(-1 if layer is None else layer), threads, core, version

    def _mkl_layer(self) -> str | None:
        function = self._function(("MKL_Set_Threading_Layer",))
        return self.library.threading if function is None else _MKL_LAYERS.get(function(-1))

    def _spelled(self, stem: str) -> list[str]:
        names = [f"{one.prefix}{stem}{one.suffix}" for one in self.library.families]
        return [stem, *dict.fromkeys(names)]

    def _function(self, names: tuple[str, ...]) -> Any:
        name = next((name for name in names if name in self.exported), None)
        return None if name is None else getattr(self.handle, name, None)

    def _number(self, *names: str) -> int | None:
        function = self._function(names)
        return None if function is None else int(function())

    def _text(self, *names: str) -> str | None:
        function = self._function(names)
        if function is None:
            return None
        function.restype = self.ctypes.c_char_p
        text = function()
        return text.decode("utf-8", "replace").strip() if text else None

    def _buffer(self, *names: str) -> str | None:
        """Call a function that fills a buffer of a given size."""
        function = self._function(names)
        if function is None:
            return None
        buffer = self.ctypes.create_string_buffer(512)
        function(buffer, 511)
        return buffer.value.decode("utf-8", "replace").strip()

    def _blis_core(self) -> str | None:
        query = self._function(("bli_arch_query_id",))
        name = self._function(("bli_arch_string",))
        if query is None or name is None:
            return None
        name.restype = self.ctypes.c_char_p
        text = name(query())
        return text.decode("utf-8", "replace") if text else None


def _bindings(files: Iterable[str], found: list[Library]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each other file that calls BLAS functions, and whose functions these are.

    The loader wrote the addresses into the file's linkage table; they are read from there.
    """
    import ctypes

    from blaswheel import _elf

    own = {library.path for library in found}
    exported = frozenset().union(*(library.binary.functions for library in found))
    ranges = list(_process.mappings())
    for path in files:
        if path in own:
            continue
        try:
            slots = _elf.slots(path, exported)
        except (FormatError, OSError):
            continue
        starts = [start - offset for other, start, _, offset in ranges
                  if os.path.realpath(other) == path and offset == 0]  # fmt: skip
        if not slots or not starts:
            continue
        reached = []
        for address in slots:
            place = starts[0] + address
            if _process.at(place, ranges) is None:
                continue
            value = ctypes.c_void_p.from_address(place).value or 0
            target = _process.at(value, ranges)
            # A slot that is not filled yet leads back into the file itself.
            if target is not None and os.path.realpath(target) in own:
                reached.append(os.path.realpath(target))
        yield path, tuple(dict.fromkeys(reached))


def _scopes(files: Iterable[str]) -> dict[str, list[str]]:
    """Return for each file those that are looked through for its names, in order (Linux).

    The loader goes by what a file needs, then by what those need, and so on, each once. What is
    global comes before all of them.
    """
    from blaswheel import _elf

    needed: dict[str, tuple[str, ...]] = {}
    known: dict[str, str] = {}
    for path in files:
        try:
            needs = _elf.requirements(path)
        except (FormatError, OSError):
            continue
        needed[path] = needs.needed
        for name in (needs.soname, os.path.basename(path)):
            if name:
                known.setdefault(name, path)
    scopes = {}
    for path in needed:
        scope = [path]
        for one in scope:
            # The list grows while it is gone through.
            wanted = (known.get(os.path.basename(name)) for name in needed[one])
            scope += dict.fromkeys(each for each in wanted if each and each not in scope)
        scopes[path] = scope
    return scopes


def _clashes(
    found: list[Library], copies: list[Copy], scopes: dict[str, list[str]]
) -> Iterator[Clash]:
    own = {library.path for library in found}
    for number, one in enumerate(found):
        for other_number in range(number + 1, len(found)):
            other = found[other_number]
            is_global = copies[number].is_global or copies[other_number].is_global
            modules = [
                path
                for path, scope in scopes.items()
                if path not in own and one.path in scope and other.path in scope
            ]
            names = set(one.binary.functions) & set(other.binary.functions)
            if not is_global and not modules:
                # Only names that one of them itself looks up could be taken over.
                names &= {*one.binary.interposable, *other.binary.interposable}
            if not names:
                continue
            pair = one, other
            scope = scopes[modules[0]] if modules else []
            # What is global is found first, else what comes first in the scope.
            firsts = [
                (not copies[at].is_global, scope.index(library.path) if scope else at)
                for at, library in ((number, one), (other_number, other))
            ]
            if firsts[1] < firsts[0]:
                pair = other, one
            yield Clash(
                libraries=(pair[0].path, pair[1].path),
                names=tuple(sorted(names)),
                is_global=is_global,
                modules=tuple(modules),
            )
