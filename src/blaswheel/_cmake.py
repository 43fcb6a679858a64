"""CMake config files for ``find_package(OpenBLAS)``, BLAS, CBLAS, LAPACK and LAPACKE.

Specification: cmake-packages(7). Each package is one target and the variables that CMake's own
modules set; what a library is linked with stands in a file for each width of integers, and
``BLA_SIZEOF_INTEGER`` chooses, as it does for those modules.
"""

from __future__ import annotations

import os

from blaswheel import __version__, _files, _offer, _pc
from blaswheel._errors import BlaswheelError, UsageError
from blaswheel._offer import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from blaswheel._offer import Offer, Request
    from blaswheel._select import Choice

#: Package to the name of its file in the set of pkg-config files.
PACKAGES = {
    "OpenBLAS": "openblas",
    "BLAS": "blas",
    "CBLAS": "cblas",
    "LAPACK": "lapack",
    "LAPACKE": "lapacke",
}
_SIZES = {"lp64": 4, "ilp64": 8}

_CONFIG = """\
# Written by blaswheel {version}.
set(_blaswheel_size "${{BLA_SIZEOF_INTEGER}}")
if(NOT _blaswheel_size OR _blaswheel_size STREQUAL "ANY")
  set(_blaswheel_size {default})
endif()
set(_blaswheel_sizes {sizes})
if(NOT _blaswheel_size IN_LIST _blaswheel_sizes)
  set({package}_FOUND FALSE)
  set({package}_NOT_FOUND_MESSAGE
      "blaswheel knows no {package} with integers of ${{_blaswheel_size}} bytes here")
  return()
endif()
if(_blaswheel_size EQUAL 8)
  set(_blaswheel_interface ilp64)
else()
  set(_blaswheel_interface lp64)
endif()
include("${{CMAKE_CURRENT_LIST_DIR}}/../blaswheel/${{_blaswheel_interface}}.cmake")
if(NOT TARGET {package}::{package})
  add_library({package}::{package} INTERFACE IMPORTED)
  set_target_properties({package}::{package} PROPERTIES
    INTERFACE_LINK_LIBRARIES blaswheel::${{_blaswheel_interface}})
endif()
set({package}_LIBRARIES {package}::{package})
set({package}_INCLUDE_DIRS ${{blaswheel_${{_blaswheel_interface}}_INCLUDE_DIRS}})
set({package}_VERSION ${{blaswheel_${{_blaswheel_interface}}_VERSION}})
set({package}_LINKER_FLAGS "")
set({package}_FOUND TRUE)
"""

#: The file that says whether a version will do.
VERSION = """\
# Written by blaswheel {version}.
set(PACKAGE_VERSION [==[{release}]==])
if(PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_FIND_VERSION STREQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
endif()
"""

_INTERFACE = """\
# Written by blaswheel {version}: {title}
if(NOT TARGET blaswheel::{interface})
  add_library(blaswheel::{interface} INTERFACE IMPORTED)
  set_target_properties(blaswheel::{interface} PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES {includes}
    INTERFACE_COMPILE_DEFINITIONS {definitions}
    INTERFACE_LINK_OPTIONS {options}
    INTERFACE_LINK_LIBRARIES {libraries})
endif()
set(blaswheel_{interface}_INCLUDE_DIRS {includes})
set(blaswheel_{interface}_VERSION {release})
"""


def write(folder: str, choices: Sequence[Choice], request: Request) -> tuple[Offer, ...]:
    """Write the config files for one library per interface below ``folder``.

    ``CMAKE_PREFIX_PATH`` is to name the folder; archives and headers are in it as well.

    Raises
    ------
    BlaswheelError
        If a library can't serve the request, or the folder can't be written.
    """
    if request.mode == "origin":
        raise UsageError(
            "CMake mangles $ORIGIN in what it links with",
            "leave --runtime out, and set CMAKE_INSTALL_RPATH to $ORIGIN/...",
        )
    # CMake reads a relative path as one below whichever folder reads the file.
    folder = os.path.abspath(folder)
    place = Place(folder=folder)
    offers = [_offer.make(one.library, one.interface, request, place) for one in choices]
    top = os.path.join(folder, "lib", "cmake")
    texts = {f"blaswheel/{one.interface}.cmake": _interface(one) for one in offers}
    for package, name in PACKAGES.items():
        having = [one for one in offers if _has(one, name)]
        if not having:
            continue
        sizes = [_SIZES[one.interface] for one in having]
        release = _release(having[0])
        base = f"{package}/{package}Config"
        texts[f"{base}.cmake"] = _CONFIG.format(
            version=__version__,
            package=package,
            default=sizes[0],
            sizes=" ".join(map(str, sizes)),
        )
        texts[f"{base}Version.cmake"] = VERSION.format(version=__version__, release=release)
    for name, text in texts.items():
        content = text.encode("utf-8", "surrogateescape")
        _files.write_atomically(os.path.join(top, *name.split("/")), content)
    _remove_stale(top, set(texts))
    return tuple(offers)


def _has(offer: Offer, name: str) -> bool:
    if name == "openblas":
        return offer.library.implementation == "openblas"
    standard = offer.names.standard if offer.names else offer.families
    return any(standard.get(api) for api in _pc.SET[name])


def _release(offer: Offer) -> str:
    provider = offer.library.provider
    return offer.library.version or (provider.version if provider else "0")


def _interface(offer: Offer) -> str:
    options = []
    if offer.library.binary.format == "elf":
        # So that ld finds what the library itself needs.
        options = [f"LINKER:-rpath-link,{_files.plain_path(one)}" for one in offer.directories]
    if offer.request.mode == "absolute":
        options += [f"LINKER:-rpath,{_files.plain_path(one)}" for one in offer.directories]
    return _INTERFACE.format(
        version=__version__,
        interface=offer.interface,
        title=offer.library.title,
        includes=listed(map(_files.plain_path, offer.include_dirs)),
        definitions=listed(define.removeprefix("-D") for define in offer.defines),
        options=listed(options),
        libraries=listed(_libraries(offer)),
        release=_quoted(_release(offer)),
    )


def _libraries(offer: Offer) -> Iterator[str]:
    """Yield what to link, in order: by paths, which CMake leaves after the objects."""
    if offer.alias is not None:
        folder, name = offer.alias
        yield _file(folder, name)
    count = sum(len(names) for _, names in offer.libraries)
    keep = count > 1 and offer.library.binary.format == "elf"
    if keep:
        yield "-Wl,--push-state,--no-as-needed"
    for folder, names in offer.libraries:
        for name in names:
            yield _file(folder, name)
    if keep:
        yield "-Wl,--pop-state"
    yield from offer.library.system


def _file(folder: str, name: str) -> str:
    """Return the file that a linker takes for a link name in a folder."""
    if name.startswith(":"):
        candidates = [name[1:]]
    else:
        forms = ("lib{}.so", "lib{}.dylib", "lib{}.dll.a", "{}.lib", "lib{}.lib", "lib{}.a")
        candidates = [form.format(name) for form in forms]
    for each in candidates:
        if os.path.isfile(os.path.join(folder, each)):
            return os.path.join(_files.plain_path(folder), each).replace(os.sep, "/")
    raise BlaswheelError(
        f"{folder} has no file for -l{name}", "blaswheel show tells which files there are"
    )


def listed(values: Iterator[str] | Sequence[str] | map[str]) -> str:
    """Return a list as one argument: a semicolon separates, and none may be in a value."""
    return _quoted(";".join(value.replace(";", "\\;") for value in values))


def _quoted(text: str) -> str:
    """Return a bracket argument, in which nothing has a meaning (cmake-language(7))."""
    level = 2
    while f"]{'=' * level}]" in text or text.endswith(f"]{'=' * level}"):
        level += 1
    return f"[{'=' * level}[{text}]{'=' * level}]"


def _remove_stale(top: str, written: set[str]) -> None:
    """Remove what an earlier call wrote for a package or a width that is not there any more."""
    names = [f"blaswheel/{interface}.cmake" for interface in _SIZES]
    for package in PACKAGES:
        names += [f"{package}/{package}Config{end}.cmake" for end in ("", "Version")]
    for name in names:
        path = os.path.join(top, *name.split("/"))
        if name not in written:
            _files.remove_written(path, b"# Written by blaswheel ")
