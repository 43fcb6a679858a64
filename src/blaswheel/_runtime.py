"""Runtime modes: what a link line adds so that the library is found when the result is loaded."""

from __future__ import annotations

import os

from blaswheel._errors import BlaswheelError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MODES = ("link", "origin", "absolute", "preload")
#: How deep below site-packages an extension module lies, if nothing is said.
DEPTHS = (0, 1, 2, 3)
MAX_DEPTH = 16
_ORIGINS = {"elf": "$ORIGIN", "macho": "@loader_path"}


def depths(text: str) -> tuple[int, ...]:
    """Parse ``--depth``: how many folders below site-packages the extension modules lie.

    >>> depths("2")
    (2,)
    >>> depths("1,2,4")
    (1, 2, 4)
    """
    try:
        values = tuple(int(part) for part in text.split(","))
    except ValueError:
        values = (-1,)
    if not all(0 <= value <= MAX_DEPTH for value in values):
        raise UsageError(
            f"--depth {text}: not a depth",
            f"give whole numbers from 0 to {MAX_DEPTH}, e.g. --depth 2 or --depth 1,2",
        )
    if len(values) > len(DEPTHS):
        raise UsageError(
            f"--depth {text}: more than {len(DEPTHS)} run paths", "give the depths that are needed"
        )
    return tuple(sorted(set(values)))


def origin_entries(
    library_dir: str, site_packages: str | None, at: Sequence[int], system: str = "elf"
) -> list[str]:
    """Return run paths from an extension module to ``library_dir``, nearest first.

    ``system`` is the format of its libraries: each loader has its own word for the module's folder.

    Raises
    ------
    BlaswheelError
        If the library is not in the site-packages that the module will be in.
    """
    relative = os.path.relpath(library_dir, site_packages) if site_packages else os.pardir
    outside = relative.split(os.sep)[0] == os.pardir or os.path.isabs(relative)
    if outside and not (site_packages and _is_data_scheme(library_dir, site_packages)):
        raise BlaswheelError(
            f"{library_dir} is in no site-packages: no run path relative to a module reaches it",
            "use --runtime absolute, or --runtime link and repair the wheel",
        )
    origin = _ORIGINS[system]
    entries = []
    for depth in at:
        parts = [os.pardir] * depth + ([] if relative == os.curdir else relative.split(os.sep))
        entries.append("/".join([origin, *parts]))
    return entries


def _is_data_scheme(library_dir: str, site_packages: str) -> bool:
    """Tell whether a folder is ``PREFIX/lib`` for ``PREFIX/lib/python3.x/site-packages``.

    Wheels put there what is in the ``data`` scheme; every environment has both in this place.
    """
    lib, python = os.path.split(os.path.dirname(site_packages))
    prefix, base = os.path.split(lib)
    return (
        python.startswith("python")
        and base in ("lib", "lib64")
        and library_dir in (os.path.join(prefix, name) for name in ("lib", "lib64"))
    )


def check_preload(title: str, needed: Sequence[str]) -> None:
    """Refuse to have a library loaded first where that does not help those who need it.

    Raises
    ------
    BlaswheelError
        If ``needed`` has musl's C library.
    """
    if is_musl(needed):
        raise BlaswheelError(
            f"{title} is built for musl, where a library that was loaded by its path does not "
            "serve a module that needs it by name",
            "use --runtime origin",
        )


def link_args(
    *,
    mode: str,
    libraries: Sequence[tuple[str, Sequence[str]]],
    alias: tuple[str, str] | None,
    no_static: str | None,
    run_paths: Sequence[str],
    directories: Sequence[str],
    system: Sequence[str] = (),
    elf: bool = True,
) -> list[str]:
    """Return the arguments that link a library, and its alias archive before it.

    Parameters
    ----------
    mode : {'link', 'origin', 'absolute', 'preload'}
    libraries : sequence of (folder, link names)
        In order: ``openblas`` for ``-lopenblas``, ``:libmkl_rt.so.3`` for a file name.
    alias : (folder, link name), optional
        The alias archive.
    no_static : str, optional
        Folder where ``-static`` finds why it can't work; searched last.
    run_paths : sequence of str
        What `origin_entries` gives, for mode ``origin``.
    directories : sequence of str
        The folders in which the loader finds the libraries.
    system : sequence of str
        Link names of what the compiler and the system bring.

    Notes
    -----
    The archive goes directly before the library, as ``-L -l``: after it, ``--as-needed`` drops
    the library; as a path, CMake puts it before the objects. In ``origin`` mode the linker's own
    spelling keeps Meson from resolving the library, for which it would record an absolute run
    path that meson-python keeps. Else no two ``-Wl,`` are neighbours, since pkgconf 1.8 joins
    those and loses the backslash before a space.

    Of a library made of several, all are kept: the loader looks for what one needs of another
    along the other's run path, not along that of the program.
    """
    spelling = "-Wl,{}" if mode == "origin" else "{}"
    keep = elf and sum(len(names) for _, names in libraries) > 1
    args = []
    if alias:
        args += [spelling.format(f"-L{alias[0]}"), spelling.format(f"-l{alias[1]}")]
    if keep:
        args.append("-Wl,--push-state,--no-as-needed")
    searched = list(directories) if elf else []
    last = len(libraries) - 1
    for number, (folder, names) in enumerate(libraries):
        here = searched if number == last else searched[:1]
        searched = searched[len(here) :]
        args.append(spelling.format(f"-L{folder}"))
        for count, directory in enumerate(here):
            args += [spelling.format(f"-L{directory}")] if count else []
            args.append(f"-Wl,-rpath-link,{directory}")
        args += [spelling.format(f"-l{name}") for name in names]
    args += [spelling.format(f"-l{name}") for name in system]
    if no_static:
        # In the linker's own spelling: Meson looks through -L folders by how near they are to the
        # .pc file, not in order, and would take what is there for the library.
        args.insert(len(args) - keep, f"-Wl,-L{no_static}")
    if keep:
        args.append("-Wl,--pop-state")
    args += [f"-Wl,-rpath,{entry}" for entry in run_paths]
    if mode == "absolute":
        args[:0] = absolute_entries(directories)
    return args


def absolute_entries(directories: Sequence[str]) -> list[str]:
    """Return run paths to folders, with something between them that pkgconf does not join."""
    args: list[str] = []
    for folder in directories:
        args += [*([f"-L{folder}"] if args else []), f"-Wl,-rpath,{folder}"]
    return args


def is_musl(needed: Iterable[str]) -> bool:
    """Tell whether a library that needs these is built for musl."""
    # musl's own name for itself, and the name of musl's file, by which musl-gcc links.
    return any(name.startswith("libc.musl-") or name == "libc.so" for name in needed)
