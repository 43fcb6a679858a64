"""Accelerate, the BLAS of macOS: reported, and linked by the system's own compiler alone.

There is no file to read: the library is in the loader's cache. Its names are in the text stubs of
an SDK where one is installed; else they are those that Apple documents: since macOS 13.3 the names
of LAPACK 3.9 and newer, with the suffix ``$NEWLAPACK`` (and ``$ILP64`` after it for 64-bit
integers; Fortran names without underscore), which the headers give to callers that define
``ACCELERATE_NEW_LAPACK`` and ``ACCELERATE_LAPACK_ILP64``; before, plain names of LAPACK 3.2.
Source: https://developer.apple.com/documentation/accelerate/blas
"""

from __future__ import annotations

import os
import re

from blaswheel import _names, _routines, _vendors
from blaswheel._binary import Binary
from blaswheel._library import Library
from blaswheel._names import Family

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

FRAMEWORK = "/System/Library/Frameworks/Accelerate.framework/Versions/A/Accelerate"
#: Where the stubs are inside an SDK.
STUBS = tuple(
    "System/Library/Frameworks/Accelerate.framework/Versions/A/Frameworks/"
    f"vecLib.framework/Versions/A/{name}.tbd"
    for name in ("libBLAS", "libLAPACK")
)
SDK = "/Library/Developer/CommandLineTools/SDKs/MacOSX.sdk"
VERSION_FILE = "/System/Library/CoreServices/SystemVersion.plist"
#: The release that has the new names.
NEW = (13, 3)
REASON = (
    "a part of macOS: link it by -framework Accelerate and define ACCELERATE_NEW_LAPACK "
    "(and ACCELERATE_LAPACK_ILP64)"
)
#: (suffix of C names, of Fortran names, interface)
OLD_NAMES = (("", "_", "lp64"),)
NEW_NAMES = (
    ("$NEWLAPACK", "$NEWLAPACK", "lp64"),
    ("$NEWLAPACK$ILP64", "$NEWLAPACK$ILP64", "ilp64"),
)
_LIMIT = 16 << 20


def here(environ: Mapping[str, str] = os.environ) -> Library:
    """Return the framework of this system, a macOS."""
    return library(release(), environ.get("SDKROOT") or SDK, os.uname().machine)


def release(path: str = VERSION_FILE) -> tuple[int, ...]:
    """Return the system's release, as its version file tells it; empty if it does not."""
    try:
        with open(path, "rb") as file:
            text = file.read(1 << 16)
    except OSError:
        return ()
    found = re.search(rb"<key>ProductVersion</key>\s*<string>([0-9.]{1,40})</string>", text)
    return tuple(int(part) for part in found[1].split(b".") if part) if found else ()


def library(version: tuple[int, ...], sdk: str, machine: str) -> Library:
    """Return what is known of the framework of a release of macOS.

    Parameters
    ----------
    version : tuple of int
        Of macOS.
    sdk : str
        Folder of an SDK; need not exist.
    machine : str
    """
    functions = stubs(sdk)
    if functions:
        families = tuple(
            family.replace(interface="ilp64" if "ILP64" in family.suffix else "lp64")
            for family in _names.infer(functions)
        )
        evidence = f"names as the stubs in {sdk} have them"
    else:
        families = tuple(_documented(version))
        evidence = "names as Apple documents them: the library is no file, and no SDK is here"
    # The new names first, LP64 first of them.
    families = tuple(
        sorted(
            families,
            key=lambda one: (
                _routines.APIS.index(one.api),
                "$NEWLAPACK" not in one.suffix,
                one.interface != "lp64",
            ),
        )
    )
    vendor = next(one for one in _vendors.VENDORS if one.name == "accelerate")
    return Library(
        path=FRAMEWORK,
        provider=None,
        implementation=vendor.name,
        vendor=vendor,
        version=".".join(map(str, version)) or None,
        binary=Binary(
            path=FRAMEWORK,
            format="macho",
            machine={"arm64": "aarch64"}.get(machine, machine),
            bits=64,
            byte_order="little",
            soname=FRAMEWORK,
            functions=functions,
        ),
        interface=families[0].interface if families else "lp64",
        evidence=(evidence,),
        families=families,
        include_dirs=(),
        linkable=False,
        reason=REASON,
        defects=(),
        of_system=True,
    )


def stubs(sdk: str) -> tuple[str, ...]:
    """Return the functions in an SDK's text stubs, sorted; empty without an SDK.

    A stub lists the symbols with their leading underscore, in quotes where they have a ``$``.
    """
    found: set[str] = set()
    for name in STUBS:
        try:
            with open(os.path.join(sdk, name), "rb") as file:
                text = file.read(_LIMIT)
        except OSError:
            continue
        found.update(one.decode() for one in re.findall(rb"[\s,\['\"]_([\w$]{1,200})", text))
    return tuple(sorted(found))


def _documented(version: tuple[int, ...]) -> list[Family]:
    schemes = (*NEW_NAMES, *OLD_NAMES) if version >= NEW else OLD_NAMES
    found = []
    for api in ("blas", "lapack", "cblas"):
        known = len(_routines.routines(api))
        for c, fortran, interface in schemes:
            suffix = c if api == "cblas" else fortran
            found.append(
                Family(
                    api=api, prefix="", suffix=suffix, found=known, known=known, interface=interface
                )
            )
    return found
