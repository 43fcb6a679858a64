"""Which BLAS and LAPACK names a library exports, and what it puts around them.

No list of prefixes or suffixes is used. An export that contains a well-known routine's name
proposes a pair (text before, text after); the pair is a family if most of the standard routines
exist under it. Internal kernels can look the same (``ATL_dgemm``, ``flexiblas_real_dgemm_``), so a
prefix counts only where both a C and a Fortran API have it, or where nothing else is there.
"""

from __future__ import annotations

from blaswheel import _routines
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

FORTRAN = ("blas", "lapack")
C = ("cblas", "lapacke")
#: Per API, a routine that no library leaves out; some that internal kernels and partial libraries
#: (GPU interceptors, distributed-memory BLAS) leave out; the share of all routines asked for.
#: Some families consist of a few dozen LAPACK routines (OpenBLAS's own, ATLAS's own): no LAPACK.
PROPOSERS = {
    "blas": ("dgemv", ("ddot", "idamax", "drotg", "dgbmv", "dtpsv", "dgemm", "ztrsm"), 2 / 3),
    "lapack": ("dgetrf", ("dgesv", "dpotrf", "zgetrs", "dgeqrf", "dgels"), 1 / 4),
    "cblas": (
        "cblas_dgemv",
        ("cblas_ddot", "cblas_idamax", "cblas_dgbmv", "cblas_dtpsv", "cblas_dgemm", "cblas_ztrsm"),
        2 / 3,
    ),
    # Half of LAPACKE are the *_work functions, which look like a family of their own.
    "lapacke": (
        "LAPACKE_dgetrf",
        ("LAPACKE_dgesv", "LAPACKE_dpotrf", "LAPACKE_zgetrs", "LAPACKE_dgeqrf", "LAPACKE_dgels"),
        2 / 3,
    ),
}
#: This many routines of the BLAS make a partial one.
FEW = 10
#: Sets of names with this share of the best one's coverage are equals: others decide.
EQUAL = 0.9


class Family(Record):
    """A complete set of names of one API: prefix + routine + suffix.

    Attributes
    ----------
    api : {'blas', 'lapack', 'cblas', 'lapacke'}
    prefix, suffix : str
        What surrounds a routine's name; a Fortran suffix includes the underscore (``_64_``).
    found, known : int
        How many of the API's standard routines exist under these names, of how many there are.
    interface : {'lp64', 'ilp64', 'unknown'}
        The width of its integers, as far as is known.
    """

    api: str
    prefix: str
    suffix: str
    found: int
    known: int
    interface: str = "unknown"


def infer(functions: Iterable[str]) -> tuple[Family, ...]:
    """Return the families among a library's exported functions.

    Parameters
    ----------
    functions : iterable of str
        All exported function names.

    Returns
    -------
    tuple of Family
        By API (``blas``, ``lapack``, ``cblas``, ``lapacke``), best first; the first of each API
        belong together. Their interface is ``unknown``: names alone don't tell it.
    """
    exported = frozenset(functions)
    # One text to search in: MKL has 65,000 names.
    text = "\n".join(("", *exported, ""))
    candidates = [family for api in _routines.APIS for family in _candidates(api, exported, text)]
    return tuple(_ranked(_believable(candidates)))


def partial(functions: Iterable[str]) -> tuple[Family, ...]:
    """Return families of which only a few routines are there, under plain names.

    What has them is no BLAS (GPU libraries that take over some routines, an MKL inside another
    library, a shim), but another library in the process gets them for its own.
    """
    exported = frozenset(functions)
    found = []
    for api, routine in (("blas", "dgemm"), ("cblas", "cblas_dgemm")):
        routines = _routines.routines(api)
        for suffix in ("", "_", "_64", "_64_", "64_"):
            if routine + suffix not in exported:
                continue
            count = len(exported.intersection([name + suffix for name in routines]))
            if count >= FEW:
                one = Family(api=api, prefix="", suffix=suffix, found=count, known=len(routines))
                found.append(one)
    return tuple(sorted(found, key=lambda one: (one.api, one.suffix not in ("", "_"))))


def _candidates(api: str, exported: frozenset[str], text: str) -> list[Family]:
    """Return every pair of prefix and suffix under which the API's routines exist."""
    proposer, anchors, share = PROPOSERS[api]
    found = []
    for prefix, suffix in _pairs(proposer, text):
        hits = sum(prefix + anchor + suffix in exported for anchor in anchors)
        if hits * 2 < len(anchors):
            continue
        routines = _routines.routines(api)
        # Decorated in one go: a name at a time takes four times as long.
        between = f"{suffix}\n{prefix}"
        wanted = f"{prefix}{between.join(routines)}{suffix}".split("\n")
        count = len(exported.intersection(wanted))
        if count >= share * len(routines):
            found.append(
                Family(api=api, prefix=prefix, suffix=suffix, found=count, known=len(routines))
            )
    return found


def _pairs(routine: str, text: str) -> set[tuple[str, str]]:
    """Return what surrounds a routine's name in the lines of ``text``."""
    pairs = set()
    at = text.find(routine)
    while at >= 0:
        begin, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
        prefix = text[begin:at]
        # In scipy_cblas_dgemv the Fortran routine's name is part of the C one's.
        if not prefix.endswith(("cblas_", "LAPACKE_")):
            pairs.add((prefix, text[at + len(routine) : end]))
        at = text.find(routine, end)
    return pairs


def _believable(families: list[Family]) -> list[Family]:
    """Leave out what only looks like a family: a library's internal functions.

    Those have a prefix (``ATL_dgemm``), or a word as suffix (``dgemm_internal_64_``), that C and
    Fortran APIs do not share. Without any better family, a prefix is believed if the names end as
    a Fortran compiler's do, or if it is a C API's, and if most of the API is there: of LAPACK,
    ScaLAPACK has a quarter under names that begin with ``p``.
    """
    fortran = [family for family in families if family.api in FORTRAN]
    c = [family for family in families if family.api in C]
    public = {"", *({family.prefix for family in fortran} & {family.prefix for family in c})}
    believed = [family for family in families if family.prefix in public]
    if not believed:
        return [
            family
            for family in families
            if (family.api in C or family.suffix.endswith("_")) and family.found * 2 > family.known
        ]
    paired: set[tuple[str, str]] = set()
    for one in fortran:
        for other in c:
            if one.prefix == other.prefix and _disagreement(one.suffix, other.suffix) < 2:
                paired |= {(one.prefix, one.suffix), (other.prefix, other.suffix)}
    wordless = [
        family
        for family in believed
        if (family.prefix, family.suffix) in paired
        or not any(char.isalpha() for char in family.suffix)
    ]
    return wordless or believed


def _ranked(families: list[Family]) -> list[Family]:
    """Order families by API, best first, so that the first of each API go together.

    Whole sets (one prefix, one Fortran suffix, one C suffix) are compared, not families: the
    plain names that Windows builds export besides ``scipy_*`` are as complete as those for CBLAS,
    but have hardly any LAPACK.
    """
    sets: set[tuple[str, str | None, str | None]] = set()
    for prefix in {family.prefix for family in families}:
        own = [family for family in families if family.prefix == prefix]
        fortran = {family.suffix for family in own if family.api in FORTRAN}
        c = {family.suffix for family in own if family.api in C}
        sets.update((prefix, one, other) for one in fortran or (None,) for other in c or (None,))

    def members(prefix: str, fortran: str | None, c: str | None) -> list[Family]:
        return [
            family
            for family in families
            if family.prefix == prefix
            and family.suffix == (fortran if family.api in FORTRAN else c)
        ]

    coverage = {each: sum(family.found for family in members(*each)) for each in sets}
    best = max(coverage.values(), default=0)

    def key(each: tuple[str, str | None, str | None]) -> tuple[object, ...]:
        prefix, fortran, c = each
        return (
            coverage[each] < EQUAL * best,
            _disagreement(fortran, c),
            len(prefix) + len(fortran or "") + len(c or ""),
            -coverage[each],
            prefix,
            fortran or "",
            c or "",
        )

    ordered = dict.fromkeys(family for each in sorted(sets, key=key) for family in members(*each))
    return sorted(ordered, key=lambda family: _routines.APIS.index(family.api))


def _disagreement(fortran: str | None, c: str | None) -> int:
    """Tell how far a Fortran suffix is from what goes with a C suffix; 0 is as compilers do it.

    ``_64_`` goes with ``64_`` (OpenBLAS) and with ``_64`` (MKL, the reference implementation).
    """
    if fortran is None or c is None:
        return 0 if fortran is None or fortran.endswith("_") else 1
    if fortran in (f"_{c}", f"{c}_"):
        return 0
    return 1 if fortran == c else 2
