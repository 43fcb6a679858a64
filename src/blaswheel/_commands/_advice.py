"""What a user should know of the files just written: one line each, on stderr."""

from __future__ import annotations

import os

from blaswheel import _consumers, _memo, _pc
from blaswheel._commands._options import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from blaswheel._environment import Environment
    from blaswheel._library import Library
    from blaswheel._offer import Offer
    from blaswheel._select import Choice


def choice(choices: Sequence[Choice]) -> None:
    """Say what the choice of a library left open."""
    notes = [note for one in choices for note in one.notes]
    # One library may be chosen for both interfaces.
    fatal = [
        f"{one.library.title} {defect.message}"
        for one in choices
        for defect in one.library.defects
        if defect.severity == "fatal"
    ]
    for line in dict.fromkeys([*notes, *fatal]):
        say(line)


def files(
    offers: Sequence[Offer],
    environment: Environment,
    consumer: str | None,
    folder: str | None,
    *,
    for_meson: bool = False,
) -> None:
    """Say what NumPy needs with the files just written, and what will clash.

    Parameters
    ----------
    folder : str, optional
        That of a set.
    for_meson : bool
        Whether it is certain that Meson reads the files.
    """
    wanted = dict.fromkeys(
        " ".join(meson_options(offer, "numpy", is_set=folder is not None))
        for offer in offers
        if offer.interface == "ilp64"
    )
    for line in wanted:
        say(f"for NumPy add {line}")
    for problem in dict.fromkeys(line for one in offers for line in runtime(one, for_meson)):
        say(problem)
    for line in dict.fromkeys(
        f"{one.library.title}: {defect.message}"
        for one in offers
        for defect in one.library.defects
        if defect.code in ("headers-missing", "kernels-need-global")
    ):
        say(line)
    native = [offer for offer in offers if offer.request.native]
    if native and folder is not None and consumer is None:
        say(
            "native files are named as SciPy looks for them (ILP64 as scipy-openblas64); "
            "--for numpy names the one of the interface chosen scipy-openblas"
        )
    chosen = [offer.library for offer in offers if not offer.request.isolate]
    for line in clashes(chosen, environment):
        say(line)


def meson_options(offer: Offer, consumer: str, *, is_set: bool) -> list[str]:
    """Return the options with which NumPy or SciPy uses the files of an offer."""
    suffix = offer.symbol_suffix
    files = ("openblas", "openblas")
    if is_set:
        blas, lapack, marked = _consumers.names(offer.library, offer.interface)
        files = (blas, lapack)
        if offer.library.vendor.layers is not None:
            suffix = marked
    elif offer.library.implementation != "openblas":
        files = (_pc.default_name(offer),) * 2
    return _consumers.options(
        consumer,
        offer.interface,
        suffix,
        native=offer.request.native,
        complex_return=offer.complex_return,
        files=files,
    )


def runtime(offer: Offer, for_meson: bool) -> list[str]:
    """Return warnings about the runtime mode."""
    mode = offer.request.mode
    if mode == "origin" and not for_meson:
        return ["--runtime origin is for Meson: make and CMake mangle $ORIGIN"]
    if mode == "absolute":
        parts = offer.directory.split(os.sep)
        if any(part.startswith(("pip-build-env-", "build-env-")) for part in parts):
            gone = f"--runtime absolute records {offer.directory}, which is gone after the build"
            return [f"{gone}; use --runtime origin"]
    return []


def clashes(chosen: Sequence[Library], environment: Environment) -> list[str]:
    """Tell of libraries here that take over each other's un-renamed names in one program.

    Two libraries clash if both export a name and one of them reaches its own through the PLT or
    the GOT: in one scope the first library loaded then serves both.
    """
    found = []
    # A system has many, of which none is used unless it is asked for.
    libraries = [one for one in environment.libraries if one.linkable and not one.of_system]
    told = set()
    for one in chosen:
        for other in libraries:
            pair = frozenset((one.path, other.path))
            if other.path == one.path or pair in told or other.interface == one.interface:
                continue
            if other.provider == one.provider and other.implementation == one.implementation:
                # Layers of one library, of which a program links one or the other.
                continue
            count, examples = _taken_over(one, other)
            if count:
                told.add(pair)
                found.append(
                    f"{one.title} and {other.title} both export {count} names that they call "
                    f"through their own PLT ({', '.join(examples)}, ...): linked into one "
                    "program, one crashes the other; --isolate prevents it"
                )
    return found


def _taken_over(one: Library, other: Library) -> tuple[int, tuple[str, ...]]:
    """Return how many names of two libraries one takes over from the other, and two of them."""
    files = (*one.files, *other.files)
    known: tuple[int, tuple[str, ...]] | None = _memo.recall("clash", *files)
    if known is not None:
        return known
    stamps = [_memo.stamp(path) for path in files]
    shared = set(one.binary.functions) & set(other.binary.functions)
    reached = {*one.binary.interposable, *other.binary.interposable}
    # Names of routines say more than those of a compiler's modules (__la_xisnan_MOD_...).
    taken = sorted(shared & reached, key=lambda name: (name.startswith("_"), name))
    answer = (len(taken), tuple(taken[:2]))
    _memo.remember(answer, stamps, "clash", *files)
    return answer


def shadow(folder: str, *, native: bool) -> None:
    """Say which file called ``scipy-openblas.pc`` would be used instead of those in ``folder``.

    NumPy and SciPy look for that name before any other: next to plain files it wins wherever it
    is on the path, next to native ones if it comes first.
    """
    ours = os.path.realpath(folder)
    entries = list(filter(None, os.environ.get("PKG_CONFIG_PATH", "").split(os.pathsep)))
    for entry in entries if native else [folder, *entries]:
        if native and os.path.realpath(entry) == ours:
            return
        candidate = os.path.join(entry, "scipy-openblas.pc")
        if os.path.isfile(candidate):
            first = (
                "comes first on PKG_CONFIG_PATH" if native else "comes first for NumPy and SciPy"
            )
            say(f"{candidate} {first} and would be used instead")
            return
