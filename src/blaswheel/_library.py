"""One library, with all that is known of it without loading it."""

from __future__ import annotations

import os

from blaswheel import _binary, _interface, _names, _vendors
from blaswheel._discovery import Distribution
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from blaswheel._binary import Binary
    from blaswheel._names import Family

APIS = ("blas", "lapack", "cblas", "lapacke")
#: Below this share of the routines of each of its APIs a library is a partial BLAS.
PARTIAL = 0.5


class Defect(Record):
    """Something wrong with a library.

    Attributes
    ----------
    code : str
        Stable, for programs.
    severity : {'fatal', 'warning', 'note'}
    message : str
        One line.
    """

    code: str
    severity: str
    message: str


class Library(Record):
    """One library file, by what can be read without loading it; fields as in the JSON.

    Attributes
    ----------
    interface : {'lp64', 'ilp64', 'unknown'}
        Of the family that comes first.
    families : tuple of Family
        Per API the sets of names that the library exports, best first.
    linkable : bool
        Whether something can be linked against it; `reason` says why not.
    verified : bool
        Whether `interface`, `complex_return` and `float_return` were found by calls.
    """

    path: str
    provider: Distribution | None
    implementation: str
    version: str | None
    binary: Binary
    interface: str
    evidence: tuple[str, ...]
    families: tuple[Family, ...]
    include_dirs: tuple[str, ...]
    linkable: bool
    reason: str
    defects: tuple[Defect, ...]
    verified: bool = False
    complex_return: str | None = None
    float_return: str | None = None
    #: what the binary says of its build, e.g. ``USE64BITINT DYNAMIC_ARCH ...``
    configuration: str | None = None

    @property
    def directory(self) -> str:
        """The library's folder."""
        return os.path.dirname(self.path)

    @property
    def link_name(self) -> str:
        """What follows ``-l``: ``openblas``, or ``:libmkl_rt.so.3`` for a name ld won't guess."""
        base = os.path.basename(self.path)
        if base.startswith("lib") and base.endswith((".so", ".dylib")):
            return base[3 : base.rindex(".")]
        return f":{base}"

    @property
    def title(self) -> str:
        """The provider's name and version, else the path."""
        return str(self.provider) if self.provider else self.path

    def interfaces(self) -> tuple[str, ...]:
        """The interfaces that its families have, the first one first."""
        known = [family.interface for family in self.families if family.interface != "unknown"]
        return tuple(dict.fromkeys([*known, *(["unknown"] if not known else [])]))

    def as_json(self) -> dict[str, Any]:
        """Return the object that SPEC calls a library in JSON."""
        names: dict[str, list[dict[str, Any]]] = {api: [] for api in APIS}
        for family in self.families:
            names[family.api].append(
                {
                    "prefix": family.prefix,
                    "suffix": family.suffix,
                    "interface": family.interface,
                    "found": family.found,
                    "known": family.known,
                }
            )
        provider = self.provider
        return {
            "provider": {"name": provider.name, "version": provider.version} if provider else None,
            "path": self.path,
            "implementation": self.implementation,
            "version": self.version,
            "format": self.binary.format,
            "machine": self.binary.machine,
            "soname": self.binary.soname,
            "needed": list(self.binary.needed),
            "interface": self.interface,
            "verified": self.verified,
            "evidence": list(self.evidence),
            "names": names,
            "complex_return": self.complex_return,
            "float_return": self.float_return,
            "include_dirs": list(self.include_dirs),
            "linkable": self.linkable,
            "reason": self.reason,
            "defects": [
                {"code": defect.code, "severity": defect.severity, "message": defect.message}
                for defect in self.defects
            ],
        }
