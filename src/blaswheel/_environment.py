"""Every BLAS library of an environment: from installed distributions, or one file given by path."""

from __future__ import annotations

import os

from blaswheel import _discovery, _memo
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from blaswheel._library import Library
    from blaswheel._reading import Seen


class Environment(Record):
    """What was found.

    Attributes
    ----------
    libraries : tuple of Library
        In the order of the search path.
    problems : tuple of str
        One line for each library that is listed but can't be read.
    """

    libraries: tuple[Library, ...]
    problems: tuple[str, ...] = ()


def survey(
    root: str | None = None,
    python: str | None = None,
    *,
    system: bool = False,
    platform: str | None = None,
) -> Environment:
    """Find every BLAS library of an environment, running nothing and loading nothing.

    Parameters
    ----------
    root, python : str, optional
        As for `blaswheel._discovery.search_path`.
    system : bool
        Also those of the system.
    platform : str, optional
        A platform tag: only the libraries of `root` that are for it, and wheels by it.
    """
    found = _survey(root, python, system, platform)
    return found if platform is None else _of_platform(found, platform)


def _survey(
    root: str | None, python: str | None, system: bool, platform: str | None
) -> Environment:
    path = _discovery.search_path(root, python, platform)
    key = ("environment", str(root is None), *path)
    lists = _discovery.stamps(path)
    known = None if system else _memo.recall(*key)
    if known is not None and known["lists"] == lists:
        return Environment(libraries=known["libraries"])
    from blaswheel import _reading

    seen = _reading.read(path, here=root is None, system=system)
    if not seen.problems and not system:
        value = {"lists": lists, "libraries": seen.libraries}
        _memo.remember(value, _stamps(seen), *key)
    return Environment(libraries=seen.libraries, problems=seen.problems)


def _of_platform(environment: Environment, tag: str) -> Environment:
    """Leave out the libraries of other platforms, and say so where nothing else is there."""
    from blaswheel import _roots

    kind, machine = _roots.machine_of(_roots.platform(tag))
    fit = []
    problems = list(environment.problems)
    for library in environment.libraries:
        binary = library.binary
        if binary.format in (kind, "ar") and machine in (binary.machine, *binary.machines):
            fit.append(library)
        else:
            problems.append(
                f"{library.title} is for {binary.machine} ({binary.format}), not for {tag}"
            )
    return Environment(libraries=tuple(fit), problems=tuple(dict.fromkeys(problems)))


def _stamps(seen: Seen) -> Iterator[_memo.Stamp]:
    """Stamp what libraries were judged by: the files, their folders, and the headers."""
    yield from map(_memo.stamp, seen.looked_in)
    for library in seen.libraries:
        for path in library.files:
            yield _memo.stamp(path)
            yield _memo.stamp(os.path.dirname(path))
        for folder in library.include_dirs:
            for header in _discovery.HEADERS:
                yield _memo.stamp(os.path.join(folder, header))


def at_path(path: str, environment: Environment) -> tuple[Library, ...]:
    """Return the libraries at ``path``: of the environment's if it has them, else by themselves.

    Parameters
    ----------
    path : str
        A library file, which stands for itself and what it needs of others beside it; or a
        folder, the prefix of an installation or one with libraries in it, which stands for all
        that is in it.
    environment : Environment

    Raises
    ------
    BlaswheelError
        If it can't be read or is no BLAS.
    """
    known = tuple(one for one in environment.libraries if is_at(one, path))
    if known:
        return known
    from blaswheel import _reading

    return _reading.at(path)


def one_file(path: str, environment: Environment) -> Library:
    """Return the library at ``path``, of several models the first.

    Raises
    ------
    BlaswheelError
        If it can't be read or is no BLAS.
    """
    return at_path(path, environment)[0]


def is_at(library: Library, path: str) -> bool:
    """Tell whether a library is the one at ``path``, made of the file there, or in the folder."""
    from blaswheel import _reading

    return _reading.is_at(library, path)


def including(path: str, environment: Environment) -> Environment:
    """Return the environment with what is at ``path`` in it.

    Raises
    ------
    BlaswheelError
        If it can't be read or is no BLAS.
    """
    fresh = [one for one in at_path(path, environment) if one not in environment.libraries]
    return environment.replace(libraries=(*environment.libraries, *fresh)) if fresh else environment
