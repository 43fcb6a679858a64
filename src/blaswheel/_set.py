"""The whole set of ``.pc`` files for an environment, in a folder that holds nothing else."""

from __future__ import annotations

import os

from blaswheel import _files, _offer, _pc, _select, _vendors
from blaswheel._compose import is_gnu
from blaswheel._errors import BlaswheelError
from blaswheel._offer import Place, Request
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from blaswheel._library import Library
    from blaswheel._offer import Offer
    from blaswheel._select import Choice, Wish

#: Names that NumPy and SciPy look up before any other; see `native_name`.
NATIVE_NAMES = ("scipy-openblas", "scipy-openblas64")


class Written(Record):
    """A set as written: its folder, and the offers that stand behind its files."""

    folder: str
    offers: tuple[Offer, ...]
    names: tuple[str, ...]


def native_name(offer: Offer, consumer: str | None) -> str:
    """Return the name of a native file.

    NumPy takes a file called ``scipy-openblas.pc`` before any other, whatever interface it was
    asked for; SciPy takes LP64 from it and ILP64 from ``scipy-openblas64.pc``.
    """
    if consumer == "numpy" or offer.interface == "lp64":
        return NATIVE_NAMES[0]
    return NATIVE_NAMES[1]


def write(
    folder: str,
    choices: Sequence[Choice],
    request: Request,
    *,
    consumer: str | None = None,
    relocatable: bool = False,
    place: Place | None = None,
    sysroot: str | None = None,
    check: Callable[[Offer, str, str | None], None] | None = None,
) -> Written:
    """Write the set for one library per interface to ``folder``.

    Files of an earlier set that do not belong to this one are removed: a stale ``openblas64.pc``
    would be found by the next build. Others are left alone.

    Parameters
    ----------
    choices : sequence of Choice
        At most one per interface.
    consumer : {'numpy', 'scipy'}, optional
        For native files, whose names they are to have.
    place : Place, optional
        Where archives and headers go; by default ``folder``.
    check : callable
        Called with each offer, the text of its file, and the file's folder if paths are relative
        to it, before any file is written; it raises if something is not right.
    """
    where = place or Place(folder=folder)
    offers = []
    texts: dict[str, str] = {}
    paths = _pc.Paths(folder if relocatable else None, sysroot)
    for choice in choices:
        offer = _offer.make(choice.library, choice.interface, request, where)
        offers.append(offer)
        texts |= _models(choice, request, where, paths, check, folder if relocatable else None)
        names = [native_name(offer, consumer)] if request.native else _pc.set_names(offer)
        texts |= {name: _pc.text(_pc.fields(offer, name, paths)) for name in names}
        if check is not None and names:
            check(offer, texts[names[0]], folder if relocatable else None)
    if not texts:
        raise BlaswheelError(
            "there is no library to write a set for", "blaswheel list shows what is there"
        )
    for name, text in texts.items():
        content = text.encode("utf-8", "surrogateescape")
        _files.write_atomically(os.path.join(folder, f"{name}.pc"), content)
    _remove_stale(folder, set(texts))
    return Written(folder=folder, offers=tuple(offers), names=tuple(texts))


def _models(
    choice: Choice,
    request: Request,
    where: Place,
    paths: _pc.Paths,
    check: Callable[[Offer, str, str | None], None] | None,
    beside: str | None,
) -> dict[str, str]:
    """Return the files by which consumers name a model of an implementation that has several.

    They are under the names that the vendor documents: plain ones, and for wide integers those of
    the interface layer that has wide integers under plain names.
    """
    texts = {}
    plain = request.replace(prefix="", suffix="", native=False)
    for library in () if request.native or is_gnu(choice.library) else choice.models:
        layers = library.vendor.layers
        if layers is None or library.threading is None or library.interface != choice.interface:
            continue
        name = layers.pc_name(library.interface, library.threading)
        offer = _offer.make(library, library.interface, plain, where)
        # Their own headers as well: mkl.h.
        offer = offer.replace(include_dirs=(*offer.include_dirs, *library.include_dirs))
        texts[name] = _pc.text(_pc.fields(offer, name, paths))
        if check is not None:
            check(offer, texts[name], beside)
    return texts


def _remove_stale(folder: str, written: set[str]) -> None:
    known = [f"{stem}{end}" for stem in _pc.SET for end in ("", "64")] + list(NATIVE_NAMES)
    for vendor in _vendors.VENDORS:
        known += vendor.layers.pc_names() if vendor.layers else ()
    for name in known:
        if name not in written:
            path = os.path.join(folder, f"{name}.pc")
            _files.remove_written(path, b"# written by blaswheel ")


def choices_for(
    libraries: Sequence[Library],
    wanted: Wish,
    problems: Sequence[str],
    request: Request,
    consumer: str | None,
) -> list[Choice]:
    """Choose one library per interface, or one alone where the request is for one interface.

    It is if it names an interface or a suffix, or asks for NumPy's native file: one name can't
    stand for two libraries.
    """
    first = _select.choose(libraries, wanted, problems)
    alone = request.suffix is not None or (request.native and consumer == "numpy")
    if wanted.interface is not None or alone or first.interface == "ilp64":
        return [first]
    try:
        return [first, _select.choose(libraries, wanted.replace(interface="ilp64"), problems)]
    except BlaswheelError:
        # No ILP64 library here: the set is that of LP64.
        return [first]


def write_cached(
    choices: Sequence[Choice],
    request: Request,
    consumer: str | None,
    sysroot: str | None = None,
) -> Written:
    """Write the set into the cache, in a folder named by what it is made from."""
    cache = _files.cache_dir()
    parts = [repr(request), consumer or ""]
    for choice in choices:
        parts += [choice.interface, *(f"{one.path} {one.threading}" for one in choice.models)]
        for path in choice.library.files:
            stat = os.stat(path)
            parts += [path, str(stat.st_size), str(stat.st_mtime_ns)]
    folder = os.path.join(cache, "sets", _files.digest(*parts))
    return write(
        folder,
        choices,
        request,
        consumer=consumer,
        place=Place(folder=cache, is_cache=True),
        sysroot=sysroot,
    )
