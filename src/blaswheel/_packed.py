"""The text files of a packed wheel: its module, its metadata, and its CMake config."""

from __future__ import annotations

import json
import os

from blaswheel import __version__, _cmake, _retag
from blaswheel._library import stem
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from blaswheel._offer import Offer

_INIT = '''\
"""{title}, packed by blaswheel: the library and what builds need to link it.

Importing this loads nothing.
"""

from pathlib import Path as _Path

__version__ = {version}
_FOLDER = _Path(__file__).resolve().parent
#: The library's files, in the order of a link.
FILES = {files}


def get_include_dir():
    """Return the folder of the headers."""
    return str(_FOLDER / "include")


def get_lib_dir():
    """Return the folder of the library."""
    return str(_FOLDER / "lib")


def get_pkg_config_dir():
    """Return the folder of the pkg-config files."""
    return str(_FOLDER / "lib" / "pkgconfig")


def get_cmake_prefix():
    """Return the folder that CMAKE_PREFIX_PATH is to name."""
    return str(_FOLDER)


def get_libraries():
    """Return the paths of the library's files, in the order of a link."""
    return [str(_FOLDER / "lib" / name) for name in FILES]
'''

_MAIN = '''\
"""Print the library's configuration, by asking the library where it can tell it."""

import ctypes
import sys

from {module} import __version__, get_include_dir, get_libraries, get_pkg_config_dir

FACTS = {facts}
#: Functions of the library that return a text.
ASKED = {asked}


def main():
    print({name}, __version__)
    for key, value in FACTS.items():
        print(f"{{key}}: {{value}}")
    for path in get_libraries():
        print(f"library: {{path}}")
    print(f"include: {{get_include_dir()}}")
    print(f"pkg-config: {{get_pkg_config_dir()}}")
    try:
        # The first needs the others.
        library = ctypes.CDLL(get_libraries()[0])
    except OSError as error:
        print(f"it can't be loaded here: {{error}}", file=sys.stderr)
        return 1
    for key, function in ASKED.items():
        ask = getattr(library, function)
        ask.argtypes, ask.restype = (), ctypes.c_char_p
        print(f"{{key}}: {{(ask() or b'').decode('utf-8', 'replace').strip()}}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
'''

_CMAKE = """\
# Written by blaswheel {version}.
get_filename_component({module}_ROOT_DIR "${{CMAKE_CURRENT_LIST_DIR}}/../../.." ABSOLUTE)
if(NOT TARGET {module}::{module})
  add_library({module}::{module} INTERFACE IMPORTED)
  set_target_properties({module}::{module} PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "{includes}"
    INTERFACE_COMPILE_DEFINITIONS {definitions}
    INTERFACE_LINK_OPTIONS "{options}"
    INTERFACE_LINK_LIBRARIES "{libraries}")
endif()
set({module}_INCLUDE_DIRS "{includes}")
set({module}_LIBRARIES {module}::{module})
set({module}_VERSION "{release}")
"""

#: What a text is called, and how the function that returns it ends but for prefix and suffix.
_TELLING = {
    "configuration": "openblas_get_config",
    "core": "openblas_get_corename",
    "release": "bli_info_get_version_str",
}


class Identity(Record):
    """What the wheel is called."""

    #: as the user wrote it
    name: str
    #: the importable module, and the distribution's name in file names
    module: str
    version: str

    @property
    def info(self) -> str:
        """The metadata folder."""
        return f"{self.module}-{self.version}.dist-info"


def module_files(identity: Identity, offer: Offer, files: Sequence[str]) -> dict[str, str]:
    """Return the Python files of the package by their names.

    Parameters
    ----------
    identity : Identity
    offer : Offer
        The library as it is in the wheel.
    files : sequence of str
        Names of its files, in the order of a link.
    """
    library = offer.library
    bits = "64-bit" if offer.interface == "ilp64" else "32-bit"
    facts = {
        "implementation": f"{library.vendor.title} {library.version or ''}".strip(),
        "interface": f"{offer.interface.upper()} ({bits} integers)",
        "names": ", ".join(
            f"{one.api} {one.prefix}*{one.suffix}" for one in offer.families.values()
        ),
        "threading": library.threading or "unknown",
        "machine": library.binary.machine,
    }
    exported = sorted(library.binary.functions)
    asked = {}
    for key, function in _TELLING.items():
        found = [name for name in exported if function in name and _is(name, function, offer)]
        if found:
            asked[key] = found[0]
    return {
        "__init__.py": _INIT.format(
            title=_plain(library.vendor.title),
            version=ascii(identity.version),
            files=ascii(tuple(files)),
        ),
        "__main__.py": _MAIN.format(
            module=identity.module,
            name=ascii(identity.name),
            facts=json.dumps(facts, indent=4),
            asked=json.dumps(asked, indent=4),
        ),
    }


def _is(name: str, function: str, offer: Offer) -> bool:
    """Tell whether an export is a function of the library, in one of its own spellings."""
    ends = {family.suffix for family in offer.library.families}
    ends |= {end.removeprefix("_") for end in ends} | {""}
    prefixes = {family.prefix for family in offer.library.families} | {""}
    return any(name == f"{prefix}{function}{end}" for prefix in prefixes for end in ends)


def cmake_files(identity: Identity, offer: Offer, files: Sequence[str]) -> dict[str, str]:
    """Return the CMake config of a package called as the module, by file name."""
    module, release = identity.module, identity.version
    top = f"${{{module}_ROOT_DIR}}"
    options = [f"LINKER:-rpath-link,{top}/lib"] if offer.library.binary.format == "elf" else []
    return {
        f"{module}Config.cmake": _CMAKE.format(
            version=__version__,
            module=module,
            release=release,
            # CMake refuses a target with a folder that is not there.
            includes=f"{top}/include" if offer.include_dirs else "",
            definitions=_cmake.listed([define.removeprefix("-D") for define in offer.defines]),
            options=";".join(options),
            libraries=";".join(f"{top}/lib/{name}" for name in files),
        ),
        f"{module}ConfigVersion.cmake": _cmake.VERSION.format(version=__version__, release=release),
    }


def metadata(
    identity: Identity, tags: str, summary: str, url: str, licences: Iterable[str]
) -> dict[str, str]:
    """Return the files of the metadata folder but RECORD and the licences, by their names.

    Parameters
    ----------
    identity : Identity
    tags : str
        As at the end of the file name.
    summary, url : str
        Of the library.
    licences : iterable of str
        Names of the files in ``licenses/``.
    """
    name = f"{identity.module}-{identity.version}-{tags}.whl"
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {identity.name}",
        f"Version: {identity.version}",
        f"Summary: {_plain(summary)}",
        *([f"Project-URL: Library, {_plain(url)}"] if url else []),
        "Requires-Python: >=3.8",
        *(f"License-File: {licence}" for licence in licences),
    ]
    wheel = [
        "Wheel-Version: 1.0",
        f"Generator: blaswheel {__version__}",
        "Root-Is-Purelib: false",
        *(f"Tag: {tag}" for tag in _retag.tags_of(name)),
    ]
    points = [
        "[pkg_config]",
        f"{identity.name} = {identity.module}.lib.pkgconfig",
        "",
        # Of scikit-build-core.
        "[cmake.prefix]",
        f"{identity.module} = {identity.module}",
    ]
    return {
        "METADATA": "\n".join(lines) + "\n",
        "WHEEL": "\n".join(wheel) + "\n",
        "entry_points.txt": "\n".join(points) + "\n",
    }


def _plain(text: str) -> str:
    """Return a text from a binary as one line that ends no string."""
    line = "".join(char if " " <= char < "\x7f" and char not in '"\\' else " " for char in text)
    return " ".join(line.split())


def file_names(module: str, paths: Sequence[str]) -> dict[str, str]:
    """Return the names of a library's ELF files in the wheel, by their paths.

    One file is called as the module; of several each by its own link name too. No other library
    has such a name, so that none is taken for it.
    """
    if len(paths) == 1:
        return {paths[0]: f"lib{module}.so"}
    names: dict[str, str] = {}
    for path in paths:
        clean = "".join(char if char.isalnum() and char.isascii() else "_" for char in stem(path))
        name = f"lib{module}_{clean}.so"
        while name in names.values():
            name = f"{os.path.splitext(name)[0]}_.so"
        names[path] = name
    return names
