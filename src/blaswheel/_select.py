"""Choosing one library: what was asked for, the order of the rest, and why not the others."""

from __future__ import annotations

import os

from blaswheel import _environment
from blaswheel._compose import is_gnu
from blaswheel._discovery import normalised
from blaswheel._errors import BlaswheelError, UsageError
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from blaswheel._library import Library

#: Of several that fit: these implementations first, in this order; scipy-openblas before them.
ORDER = ("openblas", "mkl", "nvpl", "aocl", "blis", "reference")
#: Of one implementation: how it is threaded, the first that is there.
THREADING = ("iomp", "gomp", "tbb", "seq", "sdl")
INSTALL = {
    "lp64": "pip install scipy-openblas32",
    "ilp64": "pip install scipy-openblas64",
}
#: How the names of distributions begin that are known to carry a BLAS.
PROVIDERS = ("scipy-openblas", "cmeel-openblas", "mkl-", "nvpl-")
#: Where LIBRARY is an implementation: the distribution that has it.
INSTALL_FOR = {
    "openblas": INSTALL["lp64"],
    "mkl": "pip install mkl-devel",
    "nvpl": "pip install nvpl-blas nvpl-lapack",
    "accelerate": "Accelerate is a part of macOS, and in no wheel",
    **dict.fromkeys(
        ("aocl", "blis", "reference", "atlas", "flexiblas", "unknown"),
        "give the path of the library file",
    ),
}


class Wish(Record):
    """Which library is asked for.

    Attributes
    ----------
    library : str, optional
        A provider's name, an implementation, or the path of a library file.
    provider : str, optional
        ``NAME`` or ``NAME==VERSION``.
    interface : {'lp64', 'ilp64'}, optional
    prefer_system : bool
        Whether libraries of the system come before those of wheels.
    forced : bool
        Whether `provider` is the builder's last word (``BLASWHEEL_PROVIDER``).
    threading : str, optional
        Of an implementation that has several models: ``seq``, ``iomp``, ``gomp``, ``tbb``; and
        ``sdl``, which chooses when it runs and is taken only where it is asked for.
    """

    library: str | None = None
    provider: str | None = None
    interface: str | None = None
    forced: bool = False
    prefer_system: bool = False
    threading: str | None = None


class Choice(Record):
    """The library chosen, the interface to use of it, and what the user should be told.

    ``models`` are all of an implementation that comes in layers, for a set of files.
    """

    library: Library
    interface: str
    notes: tuple[str, ...] = ()
    models: tuple[Library, ...] = ()


def wish(
    library: str | None,
    provider: str | None,
    interface: str | None,
    environ: Mapping[str, str],
) -> Wish:
    """Join the command line with the environment; ``BLASWHEEL_PROVIDER`` is the last word.

    Raises
    ------
    BlaswheelError
        If the command line and ``BLASWHEEL_PROVIDER`` name different providers.
    """
    if library is not None and provider is None and "==" in library and not is_path(library):
        library, provider = None, library
    for text in (provider, environ.get("BLASWHEEL_PROVIDER")):
        if text and not all(text.split("==", 1)):
            raise UsageError(f"{text!r}: a name or a version is missing", "give NAME==VERSION")
    forced = environ.get("BLASWHEEL_PROVIDER") or None
    if forced is None:
        return Wish(library=library, provider=provider, interface=interface)
    if provider is not None and not _same_provider(provider, forced):
        raise _contradicts(forced, provider)
    # The command line may name a version where the variable names none.
    exact = provider if provider is not None and "==" in provider else forced
    return Wish(library=library, provider=exact, interface=interface, forced=True)


def _contradicts(forced: str, named: str) -> BlaswheelError:
    return BlaswheelError(
        f"BLASWHEEL_PROVIDER is {forced}, but the command line names {named}",
        "unset BLASWHEEL_PROVIDER, or leave the other out",
    )


def _same_provider(named: str, forced: str) -> bool:
    name, _, version = named.partition("==")
    forced_name, _, forced_version = forced.partition("==")
    if normalised(name) != normalised(forced_name):
        return False
    return version == forced_version or not (version and forced_version)


def rank(library: Library) -> tuple[bool, int, str, str, bool, int, bool, int, int, bool, str]:
    """Return the place of a library in the documented order; ties by name, version and path.

    Those of the system come last. Of the files of one provider shared libraries come before
    static ones, those for Intel's Fortran before those for GNU's, and those first that have both
    widths under different names: two of them in one program do not take over each other's.
    """
    provider = library.provider.name if library.provider else ""
    if provider.startswith("scipy-openblas"):
        place = 0
    elif library.implementation in ORDER:
        place = 1 + ORDER.index(library.implementation)
    else:
        place = 1 + len(ORDER)
    version = library.provider.version if library.provider else ""
    model = library.threading if library.threading in THREADING else THREADING[0]
    own_width = int("lp64" not in library.interfaces())
    # A distribution splits some libraries by API and has them whole beside that.
    missing = {"blas", "lapack"} - {family.api for family in library.families}
    lacks = len(missing) if library.of_system else 0
    several = library.of_system and bool(library.parts)
    static = library.binary.format == "ar"
    return (
        library.of_system,
        place,
        provider,
        version,
        static,
        THREADING.index(model),
        is_gnu(library),
        own_width,
        lacks,
        several,
        library.path,
    )


def choose(libraries: Sequence[Library], wanted: Wish, problems: Sequence[str] = ()) -> Choice:
    """Choose among the libraries of an environment.

    Parameters
    ----------
    libraries : sequence of Library
    wanted : Wish
    problems : sequence of str
        What was found but could not be read, one line each: told when nothing else is there.

    Raises
    ------
    BlaswheelError
        If none fits, naming the nearest miss and what to install.
    """
    named = [library for library in libraries if _is_named(library, wanted)]
    who = wanted.provider or wanted.library
    if wanted.provider and wanted.library and not named:
        if wanted.forced and not _same_provider(wanted.library, wanted.provider):
            raise _contradicts(wanted.provider, wanted.library)
        without = wanted.replace(library=None)
        if any(_is_named(library, without) for library in libraries):
            raise BlaswheelError(
                f"{wanted.library} is not in {wanted.provider}", "leave one of them out"
            )
    if who and not named:
        raise _not_there(who, wanted, libraries, problems)
    named = _threaded(named, wanted)
    usable = [library for library in named if library.linkable]
    if not usable:
        if problems and not who:
            raise BlaswheelError(problems[0], "reinstall it")
        if not named:
            raise BlaswheelError(
                "no BLAS library is installed in this environment",
                f"{INSTALL[wanted.interface or 'lp64']} installs one",
            )
        best = min(named, key=rank)
        raise BlaswheelError(
            f"{_subject(best, wanted)} can't be linked against: {best.reason}",
            _unset(wanted) + f"{INSTALL[wanted.interface or 'lp64']} installs one that can",
        )
    # What can't be read is not passed over in silence: it may be what the user wants.
    notes = [] if who else list(problems)
    for interface in (wanted.interface,) if wanted.interface else ("lp64", "ilp64"):
        fit = sorted((one for one in usable if serves(one, interface)), key=rank)
        if interface == "ilp64":
            # An unknown width is most often LP64: one that says ILP64 beside it is what is meant.
            fit.sort(key=lambda one: (*rank(one)[:2], interface not in one.interfaces()))
        if wanted.prefer_system:
            fit.sort(key=lambda one: not one.of_system)
        if fit:
            break
    else:
        best = min(usable, key=rank)
        asked = (wanted.interface or "lp64").upper()
        has = "/".join(one.upper() for one in best.interfaces())
        if problems and not who:
            raise BlaswheelError(problems[0], "reinstall it")
        raise BlaswheelError(
            f"{_subject(best, wanted)} is {has}, not {asked}",
            f"{INSTALL[wanted.interface or 'lp64']} installs an {asked} library"
            if not who
            else _unset(wanted)
            + f"ask for --interface {best.interfaces()[0]}, or for another library",
        )
    chosen = fit[0]
    if wanted.interface is None and interface == "ilp64":
        where = f"{chosen.title} has" if who else "this environment has"
        using = "" if who else f": using {chosen.title}"
        notes.append(f"{where} ILP64 (64-bit integers) only{using}")
    others = dict.fromkeys(one.title for one in fit[1:])
    others.pop(chosen.title, None)
    if others and not who:
        notes.append(f"using {chosen.title}; also here: {', '.join(others)} (--provider chooses)")
    models = tuple(one for one in libraries if _is_model(one, chosen, wanted))
    return Choice(library=chosen, interface=interface, notes=tuple(notes), models=models)


def _is_model(one: Library, chosen: Library, wanted: Wish) -> bool:
    return (
        one.vendor.layers is not None
        and one.linkable
        and is_gnu(one) == is_gnu(chosen)
        and (one.implementation, one.directory) == (chosen.implementation, chosen.directory)
        and wanted.threading in (None, one.threading)
    )


def _threaded(named: Sequence[Library], wanted: Wish) -> list[Library]:
    """Return the libraries that are threaded as is asked for.

    Raises
    ------
    BlaswheelError
        If there is none, or only one that is taken on request.
    """
    who = wanted.provider or wanted.library or "this environment"
    models = dict.fromkeys(one.threading for one in named if one.threading in THREADING)
    if wanted.threading is not None:
        fit = [one for one in _usual(named, wanted) if one.threading == wanted.threading]
        if named and not fit:
            have = ", ".join(sorted(filter(None, models), key=THREADING.index))
            raise BlaswheelError(
                f"{who} has no library with --threading {wanted.threading}",
                f"it has {have}" if have else "leave --threading out",
            )
        return fit
    fit = [
        one
        for one in _usual(named, wanted)
        if one.threading != "sdl" or _is_stem(wanted.library, one)
    ]
    if named and not fit:
        raise BlaswheelError(
            f"{named[0].title} has nothing but lib{named[0].stem}, which chooses interface and "
            "threading when it runs",
            "ask for it: --threading sdl",
        )
    return fit


def _usual(named: Sequence[Library], wanted: Wish) -> list[Library]:
    """Leave out what only one compiler can call, unless it is asked for by its file."""
    return [one for one in named if not is_gnu(one) or _is_stem(wanted.library, one)]


def _is_stem(text: str | None, library: Library) -> bool:
    """Tell whether LIBRARY is the library's file, by path or by its link name (``mkl_rt``)."""
    return text is not None and (is_path(text) or text == library.stem)


def check_suffix(choice: Choice, wanted: Wish, suffix: str | None) -> None:
    """Refuse to give 64-bit integers under names that say 32, unless that is asked for.

    Raises
    ------
    BlaswheelError
        If a suffix without 64 is asked for, no interface, and only ILP64 is there.
    """
    if wanted.interface is not None or suffix is None or choice.interface != "ilp64":
        return
    raise BlaswheelError(
        f"the suffix {suffix!r} stands for 32-bit integers, and only ILP64 is here "
        f"({choice.library.title})",
        f"{INSTALL['lp64']}, or say --interface ilp64 if 64-bit integers are meant",
    )


def _subject(library: Library, wanted: Wish) -> str:
    if wanted.forced:
        return f"BLASWHEEL_PROVIDER asks for {library.title}, which"
    return library.title


def _unset(wanted: Wish) -> str:
    return "unset BLASWHEEL_PROVIDER, or " if wanted.forced else ""


def serves(library: Library, interface: str) -> bool:
    """Tell whether a library has routines of an interface, as far as is known."""
    return interface in library.interfaces() or library.interfaces() == ("unknown",)


def _is_named(library: Library, wanted: Wish) -> bool:
    if wanted.provider:
        if library.provider is None:
            return False
        name, _, version = wanted.provider.partition("==")
        if normalised(name) != library.provider.name:
            return False
        if version and version != library.provider.version:
            return False
    if wanted.library:
        if is_path(wanted.library):
            return _environment.is_at(library, wanted.library)
        if wanted.library == library.stem:
            return True
        if library.provider and normalised(wanted.library) == library.provider.name:
            return True
        return wanted.library.lower() == library.implementation
    return True


def is_path(text: str) -> bool:
    """Tell whether LIBRARY is a path rather than a provider's or an implementation's name."""
    if os.sep in text or (os.altsep is not None and os.altsep in text) or ".so" in text:
        return True
    return os.path.isfile(text)


def _how_to_install(who: str) -> str:
    """Return what to do for a name that is not here: no typo is to be installed from PyPI."""
    name = normalised(who.partition("==")[0])
    if name.startswith(PROVIDERS):
        return f"pip install {who}"
    return INSTALL_FOR.get(who.lower(), "")


def _not_there(
    who: str, wanted: Wish, libraries: Sequence[Library], problems: Sequence[str]
) -> BlaswheelError:
    name, _, version = who.partition("==")
    how = "BLASWHEEL_PROVIDER asks for" if wanted.forced else "asked for"
    for problem in problems:
        if normalised(name) in normalised(problem):
            return BlaswheelError(problem, "reinstall it")
    for library in libraries:
        if library.provider and library.provider.name == normalised(name):
            return BlaswheelError(
                f"{how} {who}, but version {library.provider.version} is installed",
                f"pip install {name}=={version}" if version else "blaswheel list shows all",
            )
    have = ", ".join(dict.fromkeys(one.title for one in sorted(libraries, key=rank)))
    return BlaswheelError(
        f"{how} {who}, which is not in this environment",
        "; ".join(filter(None, (_how_to_install(who), f"here: {have}" if have else "")))
        or "blaswheel list shows what is here",
    )
