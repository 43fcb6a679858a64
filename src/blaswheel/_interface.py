"""LP64 or ILP64, by what can be seen without loading the library; unknown stays unknown."""

from __future__ import annotations

import os

from blaswheel import _vendors
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from blaswheel._binary import Binary
    from blaswheel._names import Family
    from blaswheel._vendors import Statement

#: OpenBLAS's header of its options is a few kilobytes.
MAX_HEADER = 1 << 20


class Verdict(Record):
    """The families of a library with the width of their integers, and how it is known.

    Attributes
    ----------
    families : tuple of Family
        In the order given.
    evidence : tuple of str
        What was seen, one line each, also what disagrees.
    """

    families: tuple[Family, ...]
    evidence: tuple[str, ...]


def judge(
    binary: Binary,
    families: Sequence[Family],
    stated: Statement,
    include_dirs: Sequence[str] = (),
) -> Verdict:
    """Tell the width of the integers of each family.

    Parameters
    ----------
    binary : Binary
    families : sequence of Family
    stated : Statement
        What the binary says of itself.
    include_dirs : sequence of str
        Where its headers are, if it comes with any.
    """
    evidence: list[str] = []
    marked = list(dict.fromkeys(each.suffix for each in families if "64" in each.suffix))
    if marked:
        evidence.append(f"ilp64: names end in {', '.join(marked)}")
    plain, seen = _of_the_rest(binary, bool(marked), stated, include_dirs)
    if len(marked) < len({each.suffix for each in families}) or not marked:
        evidence.extend(seen)
    return Verdict(
        families=tuple(
            each.replace(interface="ilp64" if "64" in each.suffix else plain) for each in families
        ),
        evidence=tuple(evidence),
    )


def _of_the_rest(
    binary: Binary, marked: bool, stated: Statement, include_dirs: Sequence[str]
) -> tuple[str, list[str]]:
    """Return the interface of the families whose suffix says nothing, and the evidence.

    The first sign decides: they come in order of trust.
    """
    vendor = stated.vendor
    signs: list[tuple[str, str]] = []
    if vendor.one_width and marked:
        signs.append(("ilp64", f"all names of one {vendor.title} build have the same width"))
    options = (stated.configuration or "").split()
    if "USE64BITINT" in options:
        signs.append(("ilp64", f"the binary says {vendor.title} {stated.version} USE64BITINT"))
    elif binary.system != "pe" and any(option in _vendors.OPTIONS for option in options):
        # The text of Windows builds never has it.
        signs.append(
            ("lp64", f"the binary says {vendor.title} {stated.version} without USE64BITINT")
        )
    for name in dict.fromkeys(filter(None, (binary.soname, os.path.basename(binary.path)))):
        width = _by_name(name)
        if width:
            signs.append((width, f"it is called {name}"))
    if vendor.name == "mkl" and not signs:
        signs.append(("lp64", "MKL's plain names, unless MKL_INTERFACE_LAYER is set"))
    if vendor.name == "reference" and marked and not signs:
        # BUILD_INDEX64_EXT_API of LAPACK 3.12: both widths in one library.
        signs.append(("lp64", f"the plain names of a {vendor.title} that has others with 64"))
    for folder in include_dirs:
        width = _by_header(os.path.join(folder, "openblas_config.h"))
        if width and vendor.name == "openblas":
            signs.append((width, f"openblas_config.h in {folder}"))
    return (signs[0][0] if signs else "unknown"), [f"{width}: {what}" for width, what in signs]


def _by_name(name: str) -> str | None:
    """Tell the width that a file name or SONAME stands for: ``libblas64.so.3``."""
    for width in ("ilp64", "lp64"):
        if width in name:
            return width
    stem = name.partition(".")[0].partition("-")[0].rstrip("_")
    stem = stem.removesuffix("_pic")
    # Fedora and Debian add how it was threaded: libopenblas64p, libopenblas64o.
    if stem.endswith(("64p", "64o")):
        stem = stem[:-1]
    return "ilp64" if stem.endswith("64") and not stem.endswith(("x86_64", "amd64")) else None


def _by_header(path: str) -> str | None:
    """Tell the width in OpenBLAS's header of its own options."""
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_HEADER)
    except OSError:
        return None
    for line in text.splitlines():
        words = line.split()
        if words[:2] == [b"#define", b"OPENBLAS_USE64BITINT"]:
            return "ilp64"
    return "lp64" if b"OPENBLAS_VERSION" in text else None
