"""The text of a ``.pc`` file: fields, variables, and paths that every reader reads back.

Three readers matter: pkg-config 0.29, pkgconf (1.x to 3.x) and Meson, which splits the output of
either as a shell would. A path with special characters is written as a link to it in the cache
(see `blaswheel._files.plain_path`); where there is none, with backslashes, which most readers
take, while none takes quotes everywhere.
"""

from __future__ import annotations

import os

from blaswheel import _files
from blaswheel._errors import BlaswheelError
from blaswheel._record import Record
from blaswheel._static import is_static

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from blaswheel._library import Library
    from blaswheel._offer import Offer

_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./+:,@=%^")


def escaped(path: str) -> str:
    """Return ``path`` as a ``.pc`` file writes it.

    Raises
    ------
    BlaswheelError
        If no ``.pc`` file can name it (line breaks and other control characters).
    """
    out = []
    for char in path:
        if char < " " or char == "\x7f":
            raise BlaswheelError(
                f"{path!r}: a .pc file can't name a path with control characters",
                "move it, or give a path through a symbolic link",
            )
        out.append(char if char in _PLAIN or not char.isascii() else f"\\{char}")
    return "".join(out)


class Paths:
    """How the paths of one ``.pc`` file are written.

    Parameters
    ----------
    relative_to : str, optional
        The folder of the file, for paths relative to it (``--relocatable``).
    sysroot : str, optional
        ``PKG_CONFIG_SYSROOT_DIR``: left out of the paths, since pkg-config adds it.
    """

    def __init__(self, relative_to: str | None = None, sysroot: str | None = None) -> None:
        self._folder = os.path.realpath(relative_to) if relative_to is not None else None
        self._sysroot = os.path.abspath(sysroot) if sysroot else None

    def __call__(self, path: str) -> str:
        """Return ``path``, which must exist, as the file writes it."""
        if not os.path.exists(path):
            raise BlaswheelError(
                f"{path}: no such file or folder, so no .pc file can name it",
                "reinstall the provider, or write the file elsewhere with --dir",
            )
        if self._folder is not None:
            relative = os.path.relpath(os.path.realpath(path), self._folder)
            parts = [] if relative == os.curdir else [escaped(relative.replace(os.sep, "/"))]
            return "/".join(["${pcfiledir}", *parts])
        full = os.path.abspath(path)
        if self._sysroot is None:
            full = _files.plain_path(full)
        else:
            if not full.startswith(self._sysroot.rstrip("/") + "/"):
                raise BlaswheelError(
                    f"PKG_CONFIG_SYSROOT_DIR is {self._sysroot}, and {full} is outside of it: "
                    "pkg-config would look for it inside",
                    "unset PKG_CONFIG_SYSROOT_DIR, or use --dir with a folder inside the sysroot",
                )
            full = full[len(self._sysroot.rstrip("/")) :]
        return escaped(full.replace(os.sep, "/"))


class Fields(Record):
    """What a ``.pc`` file says; values are complete but for the paths' escaping."""

    name: str
    description: str
    version: str
    url: str
    libs: Sequence[str]
    cflags: Sequence[str]
    #: variables in the order of the file, already escaped
    variables: Mapping[str, str]
    #: ``prefix``, already escaped
    prefix: str
    libs_private: Sequence[str] = ()


def text(fields: Fields) -> str:
    """Return the file's text."""
    from blaswheel import __version__

    lines = [f"# written by blaswheel {__version__}"]
    lines += [f"{name}={value}" for name, value in fields.variables.items()]
    # Last: under --define-prefix pkgconf rewrites what follows and begins with the prefix.
    lines += [
        f"prefix={fields.prefix}",
        "",
        f"Name: {fields.name}",
        f"Description: {fields.description}",
        f"Version: {fields.version}",
        f"URL: {fields.url}",
        f"Libs: {' '.join(fields.libs)}",
        f"Libs.private: {' '.join(fields.libs_private)}".rstrip(),
        f"Cflags: {' '.join(fields.cflags)}",
    ]
    return "\n".join(lines) + "\n"


#: ``.pc`` names of the plain set, per API.
SET = {
    "openblas": ("blas", "cblas"),
    "blas": ("blas",),
    "cblas": ("cblas",),
    "lapack": ("lapack",),
    "lapacke": ("lapacke",),
}


def set_names(offer: Offer) -> list[str]:
    """Return the names under which consumers look for what an offer has.

    ``openblas`` only for an OpenBLAS; all with ``64`` for ILP64, whatever its suffix: a consumer
    that asks for ``openblas`` expects 32-bit integers.
    """
    assert offer.names is not None
    end = "64" if offer.interface == "ilp64" else ""
    found = []
    for name, apis in SET.items():
        if name == "openblas" and offer.library.implementation != "openblas":
            continue
        if any(offer.names.standard.get(api) for api in apis):
            found.append(name + end)
    return found


def default_name(offer: Offer) -> str:
    """Return the name that a file of this offer goes under if nothing else is said."""
    if offer.request.native and offer.library.implementation == "openblas":
        return "scipy-openblas" if offer.symbol_prefix else "openblas"
    base = offer.library.implementation
    if base in ("unknown", "reference"):
        base = "blas"
    return f"{base}64" if offer.interface == "ilp64" else base


def fields(offer: Offer, name: str, paths: Paths) -> Fields:
    """Return the content of the ``.pc`` file called ``name`` for an offer."""
    library = offer.library
    provider = library.provider
    vendor = library.vendor
    variables: dict[str, str] = {}
    spelled: dict[str, str] = {}

    def variable(key: str, path: str) -> None:
        variables[key] = paths(path)
        spelled[path] = f"${{{key}}}"

    variable("libdir", offer.directory)
    for number, folder in enumerate(one for one in offer.directories if one != offer.directory):
        variable(f"libdir{number + 2}", folder)
    linked = [folder for folder, _ in offer.libraries if folder not in offer.directories]
    for number, folder in enumerate(dict.fromkeys(linked)):
        variable("linkdir" if number == 0 else f"linkdir{number + 1}", folder)
    if offer.alias:
        variable("aliasdir", offer.alias[0])
    if offer.no_static:
        variable("nostaticdir", offer.no_static)
    for number, folder in enumerate(offer.include_dirs):
        variable("includedir" if number == 0 else f"includedir{number + 1}", folder)
    bits = "64-bit" if offer.interface == "ilp64" else "32-bit"
    threads = f", {library.threading}" if library.threading else ""
    variables |= {
        "symbol_prefix": offer.symbol_prefix,
        "symbol_suffix": offer.symbol_suffix,
        "interface": offer.interface,
        "complex_return": offer.complex_return or "",
        "lapack_version": library.lapack_version or "",
        "provider": f"{provider.name}=={provider.version}" if provider else "",
        "openblas_config": _openblas_config(library, offer.interface),
    }
    # A file without a version satisfies no reader: pkg-config refuses it.
    version = library.version or (provider.version if provider else "0")
    return Fields(
        name=name,
        description=f"{vendor.title} ({offer.interface.upper()}: {bits} integers{threads})",
        version=version,
        url=vendor.url,
        libs=offer.link_args(lambda path: spelled.get(path) or paths(path)),
        cflags=offer.compile_args(lambda path: spelled.get(path) or paths(path)),
        variables=variables,
        prefix=paths(_prefix(offer.directory)),
        # Those that ask for a static link get what every link gets: nothing else is there.
        libs_private=[f"-l{name}" for name in library.system] if is_static(library) else (),
    )


def _prefix(directory: str) -> str:
    parent, base = os.path.split(directory)
    return parent if base in ("lib", "lib64") else directory


def _openblas_config(library: Library, interface: str) -> str:
    """NumPy before 2.0 reads this variable without a default; the words are OpenBLAS's own."""
    words = [f"USE_64BITINT={int(interface == 'ilp64')}"]
    if library.configuration:
        words += [word for word in library.configuration.split() if word != "USE64BITINT"]
    return " ".join(words)
