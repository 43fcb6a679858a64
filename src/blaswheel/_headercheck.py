"""Compiling with an offer's flags: do the headers declare the integers that the library has?"""

from __future__ import annotations

import os
import shlex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from blaswheel._offer import Offer

#: Per API its header, a function that every provider's declares, and its type for an integer.
_DECLARED = {
    "cblas": (
        "cblas.h",
        "cblas_ddot",
        "double (*)({0}, const double *, {0}, const double *, {0})",
    ),
    "lapacke": ("lapacke.h", "LAPACKE_dgetrf", "{0} (*)(int, {0}, {0}, double *, {0}, {0} *)"),
}
#: C's types for each width; one of them is what a header uses.
_TYPES = {"lp64": ("int",), "ilp64": ("long", "long long")}


def widths(offer: Offer) -> dict[str, tuple[str, str]]:
    """Return per API the width of the integers that its header declares, and why if unknown.

    Returns
    -------
    dict
        ``cblas`` and ``lapacke``, where there is a header and the library has the API, to
        (``lp64``, ``ilp64`` or ``unknown``, the compiler's first complaint).
    """
    found = {}
    for api, (header, stem, shape) in _DECLARED.items():
        family = offer.families.get(api)
        if family is None or not any(
            os.path.isfile(os.path.join(folder, header)) for folder in offer.include_dirs
        ):
            continue
        name = (
            f"{family.prefix}{stem}{family.suffix}"
            if offer.names is None
            else offer.names.scheme.name(stem, fortran=False)
        )
        other = "ilp64" if offer.interface == "lp64" else "lp64"
        complaints = []
        for interface in (offer.interface, other):
            complaint = _compile(header, name, shape, interface, offer.compile_args())
            if complaint is None:
                found[api] = (interface, "")
                break
            complaints.append(complaint)
        else:
            found[api] = ("unknown", complaints[0])
    return found


def _compile(
    header: str, name: str, shape: str, interface: str, arguments: list[str]
) -> str | None:
    """Return None if ``name`` is declared with integers of that width, else why not."""
    import subprocess

    cases = "".join(f"{shape.format(kind)}: 1, " for kind in _TYPES[interface])
    # A complete program of no code: the types are compared when it is compiled.
    source = (
        f"#include <{header}>\n"
        f'_Static_assert(_Generic(&{name}, {cases}default: 0), "another width");\n'
    )
    compiler = shlex.split(os.environ.get("CC") or "cc")
    command = [*compiler, "-std=gnu11", "-fsyntax-only", "-x", "c", *arguments, "-"]
    try:
        reply = subprocess.run(
            command,
            input=source,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except OSError as error:
        return f"{compiler[0]}: {error.strerror}"
    if reply.returncode == 0:
        return None
    errors = [line for line in reply.stderr.splitlines() if "error" in line]
    return (errors or [f"{compiler[0]} exits with {reply.returncode}"])[0][:200]
