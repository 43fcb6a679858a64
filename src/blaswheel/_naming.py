"""From the names that a consumer calls to the names that a library exports."""

from __future__ import annotations

from blaswheel import _routines
from blaswheel._errors import BlaswheelError, UsageError
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from blaswheel._names import Family

INTERFACES = ("lp64", "ilp64")
FORTRAN_APIS = ("blas", "lapack")
#: How C functions that are no standard routine begin. A library without a prefix may export
#: anything; only these belong to its BLAS.
C_NAMESPACES = ("cblas_", "LAPACKE_", "openblas_", "goto_", "catlas_", "bli_thread_")


class Scheme(Record):
    """The names that a consumer uses.

    C names are prefix + name + suffix. Fortran names are prefix + name + ``_`` + suffix if the
    suffix ends in ``_`` (OpenBLAS's scheme, ``dgemm_64_``), else prefix + name + suffix + ``_``
    (the scheme of MKL and the reference library, ``dgemm_64_`` from ``_64``).
    """

    prefix: str = ""
    suffix: str = ""

    @property
    def fortran_suffix(self) -> str:
        """What follows a Fortran routine's name, the underscore included."""
        return f"_{self.suffix}" if self.suffix.endswith("_") else f"{self.suffix}_"

    def name(self, stem: str, *, fortran: bool) -> str:
        """Return what the consumer calls the routine ``stem`` (``dgemm``, ``cblas_dgemm``)."""
        return self.prefix + stem + (self.fortran_suffix if fortran else self.suffix)


def scheme(interface: str, prefix: str | None = None, suffix: str | None = None) -> Scheme:
    """Return the scheme asked for; what is None is plain: no prefix, ``64_`` for ILP64.

    Raises
    ------
    UsageError
        If a prefix or suffix can't be part of a symbol's name.
    """
    plain = "64_" if interface == "ilp64" else ""
    chosen = Scheme(prefix=prefix or "", suffix=plain if suffix is None else suffix)
    for option, text in (("--symbol-prefix", chosen.prefix), ("--symbol-suffix", chosen.suffix)):
        if not all(c.isascii() and (c.isalnum() or c in "_$") for c in text):
            raise UsageError(
                f"{option} {text!r}: not part of a symbol's name",
                "use letters, digits, _ and $ only",
            )
    if chosen.prefix[:1].isdigit():
        raise UsageError(
            f"--symbol-prefix {chosen.prefix!r}: a name can't begin with a digit",
            "begin it with a letter or _",
        )
    return chosen


class Names(Record):
    """How a consumer's names are served by one library.

    Attributes
    ----------
    scheme : Scheme
        The consumer's.
    offered : dict
        Consumer's name to native name, for everything that the library has to offer.
    standard : dict
        Per API, how many of its standard routines are among them.
    """

    scheme: Scheme
    offered: dict[str, str]
    standard: dict[str, int]

    @property
    def aliases(self) -> dict[str, str]:
        """Those that the library does not export under the consumer's name."""
        return {name: native for name, native in self.offered.items() if name != native}


class LaterNames(Names):
    """Names of which all but the table is known; it is worked out when first asked for."""

    def __init__(
        self, *, scheme: Scheme, standard: dict[str, int], offer: Callable[[], dict[str, str]]
    ) -> None:
        self.__dict__.update(scheme=scheme, standard=standard)
        self.__dict__["offer"] = offer

    def __getattribute__(self, name: str) -> Any:
        own = object.__getattribute__(self, "__dict__")
        if name == "offered" and name not in own:
            own[name] = own["offer"]()
        return object.__getattribute__(self, name)


def chosen_families(
    families: Iterable[Family], interface: str, *, marked: bool = False
) -> dict[str, Family]:
    """Return per API the first family of ``interface``; they come best first.

    A family of unknown width serves only where the API has none of the width asked for.

    Parameters
    ----------
    families : iterable of Family
    interface : {'lp64', 'ilp64'}
    marked : bool
        Take names that say 64 before those that do not: no other library in the process then
        has them with integers of another width.
    """
    chosen: dict[str, Family] = {}
    ordered = list(families)
    if marked:
        ordered.sort(key=lambda family: "64" not in family.suffix)
    for wanted in (interface, "unknown"):
        for family in ordered:
            if family.interface == wanted:
                chosen.setdefault(family.api, family)
    return chosen


#: Routines without integers, which serve both widths.
_WITHOUT_INTEGERS = frozenset(
    f"{before}{routine}"
    for before in ("", "cblas_")
    for routine in (
        "srotg",
        "drotg",
        "crotg",
        "zrotg",
        "srotmg",
        "drotmg",
        "scabs1",
        "dcabs1",
    )
)


def serve(
    functions: tuple[str, ...],
    families: dict[str, Family],
    wanted: Scheme,
    every: Iterable[Family] = (),
) -> Names:
    """Work out how a library's exports serve the names of a scheme.

    Parameters
    ----------
    functions : tuple of str
        The library's exported functions.
    families : dict
        The family to use per API, from `chosen_families`.
    wanted : Scheme
        The consumer's names.
    every : iterable of Family
        All that the library has: a routine's bare name may belong to one of another width.
    """
    other_width = {
        one.api
        for one in every
        if one.api in families
        and not one.prefix + one.suffix.strip("_")
        and one.interface != families[one.api].interface
    }
    exported = set(functions)
    offered: dict[str, str] = {}
    standard: dict[str, int] = {}
    taken: set[str] = set()
    for api, family in families.items():
        fortran = api in FORTRAN_APIS
        end = wanted.fortran_suffix if fortran else wanted.suffix
        count = 0
        for stem in _routines.routines(api):
            native = family.prefix + stem + family.suffix
            if native not in exported:
                # Some builds forget to rename a routine: it is there under its bare name.
                native = f"{stem}_" if fortran else stem
                if native not in exported or not family.prefix + family.suffix.strip("_"):
                    continue
                if api in other_width and stem not in _WITHOUT_INTEGERS:
                    continue
            offered[wanted.prefix + stem + end] = native
            taken.add(native)
            count += 1
        standard[api] = count
    for stem, fortran, native in _extensions(exported - taken, families):
        name = wanted.name(stem, fortran=fortran)
        # What the library exports under a name keeps its meaning.
        if name == native or name not in exported:
            offered.setdefault(name, native)
    return Names(scheme=wanted, offered=offered, standard=standard)


#: Functions with a complex result, by its precision. Compilers disagree on how to return it.
COMPLEX_FUNCTIONS = {
    "cdotc": "single",
    "cdotu": "single",
    "cladiv": "single",
    "zdotc": "double",
    "zdotu": "double",
    "zladiv": "double",
}


def complex_functions(
    names: Names, functions: tuple[str, ...], families: dict[str, Family], every: Iterable[Family]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the complex functions of a scheme under other spellings, to be wrapped.

    A wrapper has the consumer's name, so that it must call the function by another one; MKL has
    ``zdotc`` beside ``zdotc_``.

    Parameters
    ----------
    names, functions, families, every
        As for `serve`, and what it gave.

    Returns
    -------
    tuple of dict
        Consumer's name to native name, and to the result's precision.

    Raises
    ------
    BlaswheelError
        If an offered one has no other spelling.
    """
    exported = set(functions)
    natives: dict[str, str] = {}
    precisions: dict[str, str] = {}
    for stem, precision in COMPLEX_FUNCTIONS.items():
        offered = names.scheme.name(stem, fortran=True)
        if offered not in names.offered:
            continue
        api = "lapack" if stem.endswith("ladiv") else "blas"
        interface = families[api].interface if api in families else None
        spellings = [names.offered[offered]]
        spellings += [
            one.prefix + stem + one.suffix
            for one in every
            if one.api == api and one.interface == interface
        ]
        native = next((one for one in spellings if one != offered and one in exported), None)
        if native is None:
            raise BlaswheelError(
                f"{offered} can't be made to return its value: the library has it under no other "
                "name to call it by",
                "leave out --complex-return, or give other names with --symbol-prefix",
            )
        natives[offered] = native
        precisions[offered] = precision
    return natives, precisions


def _extensions(
    names: Iterable[str], families: dict[str, Family]
) -> Iterator[tuple[str, bool, str]]:
    """Yield (stem, whether Fortran, native name) of exports that are no standard routine.

    Fortran first: its suffix is the longer one (``_64_`` against ``64_``).
    """
    fortran = next((families[api] for api in FORTRAN_APIS if api in families), None)
    c = next((families[api] for api in ("cblas", "lapacke") if api in families), None)
    for name in sorted(names):
        if fortran and _between(name, fortran):
            stem = name[len(fortran.prefix) : len(name) - len(fortran.suffix)]
            if fortran.suffix and not stem.endswith("_") and _is_lower(stem):
                yield stem, True, name
                continue
        if c and _between(name, c):
            stem = name[len(c.prefix) : len(name) - len(c.suffix)]
            if c.prefix or stem.startswith(C_NAMESPACES):
                yield stem, False, name


def _between(name: str, family: Family) -> bool:
    return (
        len(name) > len(family.prefix) + len(family.suffix)
        and name.startswith(family.prefix)
        and name.endswith(family.suffix)
    )


def _is_lower(stem: str) -> bool:
    return stem[0].isalpha() and stem.isascii() and stem == stem.lower()


def interface_for(suffix: str | None, interface: str | None) -> str | None:
    """Return the interface that a request asks for, None if it leaves the choice open.

    Raises
    ------
    UsageError
        If the suffix says 64 bits and the interface 32, or there is no such interface.
    """
    if interface is not None and interface not in INTERFACES:
        raise UsageError(f"interface {interface!r}", f"it is {' or '.join(INTERFACES)}")
    if suffix is not None and "64" in suffix:
        if interface == "lp64":
            raise UsageError(
                f"the suffix {suffix} means 64-bit integers, the interface lp64 means 32-bit",
                "give --interface ilp64, or a suffix without 64",
            )
        return "ilp64"
    return interface


def nothing_offered(what: str, interface: str) -> BlaswheelError:
    """Return the error for a library that has no routine of the interface asked for."""
    return BlaswheelError(
        f"{what} has no {interface.upper()} routines",
        "blaswheel list shows what is there",
    )
