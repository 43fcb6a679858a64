"""Namespace leaks: names that a renamed library left as they were, and calls by them itself.

OpenBLAS is renamed by a list of names. What is not in the list keeps its plain name, in LP64 and
ILP64 builds alike, and is called through the procedure linkage table: where two such libraries
are in one scope (linked into one program, or one opened RTLD_GLOBAL, as the Python packages of
scipy-openblas do when they are imported), the first one's function serves both.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from blaswheel._library import Library

#: How many names a sentence gives.
_MOST = 3


def exported(library: Library) -> tuple[str, ...]:
    """Return the exports that lack the prefix or the suffix of all of the library's families.

    A library that has plain names of its own (no prefix, and no suffix but Fortran's underscore)
    leaks nothing: all of its names are meant to be found.
    """
    marks = {(family.prefix, family.suffix.strip("_")) for family in library.families}
    if not marks or ("", "") in marks:
        return ()
    decorations = [(prefix, suffix) for prefix, suffix in marks]
    return tuple(
        name
        for name in library.binary.functions
        if not any(
            name.startswith(prefix) and name.rstrip("_").endswith(suffix)
            for prefix, suffix in decorations
        )
    )


def interposable(library: Library) -> tuple[str, ...]:
    """Return those of `exported` that the library reaches through its PLT or GOT, sorted."""
    reached = set(library.binary.interposable)
    return tuple(name for name in exported(library) if name in reached)


def sentences(library: Library) -> tuple[str, ...]:
    """Return what can go wrong with a library's leaks, and what prevents it; empty if nothing."""
    taken = interposable(library)
    if not taken:
        return ()
    shown = ", ".join(taken[:_MOST]) + (", ..." if len(taken) > _MOST else "")
    return (
        f"{len(taken)} of the {len(exported(library))} names that it left as they were ({shown}) "
        "it calls through its PLT: another library with such names in one scope (linked beside "
        "it, or opened RTLD_GLOBAL before it) takes them over, and calls of the other integer "
        "width compute garbage or crash; blaswheel isolate prevents it",
    )
