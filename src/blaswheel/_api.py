"""The Python interface: what ``import blaswheel`` offers."""

from __future__ import annotations

import os

from blaswheel import _environment, _files, _library, _naming, _offer, _pc, _runtime, _select
from blaswheel._errors import BlaswheelError, UsageError
from blaswheel._offer import Offer, Place, Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from blaswheel._loaded import Report
    from blaswheel._verdict import Verdict


class Library(_library.Library):
    """A BLAS library of the environment; see `find` and `find_all`.

    The fields of `blaswheel list --json` are attributes; in addition:

    Attributes
    ----------
    library_dir : str
        The folder to link with.
    names : dict of str to list of tuple
        Per API (``blas``, ``lapack``, ``cblas``, ``lapacke``) the (prefix, suffix) pairs under
        which its routines are exported, best first; a Fortran suffix includes the underscore.
    """

    @property
    def library_dir(self) -> str:
        """The folder to link with."""
        return self.directory

    @property
    def names(self) -> dict[str, list[tuple[str, str]]]:
        """Per API the (prefix, suffix) pairs under which its routines are exported."""
        found: dict[str, list[tuple[str, str]]] = {api: [] for api in _library.APIS}
        for family in self.families:
            found[family.api].append((family.prefix, family.suffix))
        return found

    def _offer(
        self,
        interface: str | None,
        prefix: str | None,
        suffix: str | None,
        native: bool,
        runtime: str,
        depth: int | None = None,
    ) -> Offer:
        wanted = _naming.interface_for(suffix, interface)
        wish = _select.Wish(interface=wanted)
        choice = _select.choose([self], wish)
        _select.check_suffix(choice, wish, suffix)
        if depth is not None and runtime != "origin":
            raise UsageError(
                f"a depth is for runtime 'origin', not {runtime!r}",
                "leave it out, or give runtime='origin'",
            )
        depths = _runtime.DEPTHS if depth is None else _runtime.depths(str(depth))
        request = Request(prefix=prefix, suffix=suffix, native=native, mode=runtime, depths=depths)
        return _offer.make(self, choice.interface, _offer.consistent(request), _cache())

    def compile_args(
        self,
        *,
        interface: str | None = None,
        symbol_prefix: str | None = None,
        symbol_suffix: str | None = None,
        native: bool = False,
    ) -> list[str]:
        """Return the arguments with which C and C++ sources are compiled, unquoted.

        Parameters
        ----------
        interface : {'lp64', 'ilp64'}, optional
            By default LP64 if the library has it.
        symbol_prefix, symbol_suffix : str, optional
            Of the names that the sources call; by default plain names.
        native : bool
            Whether the sources call the library's own names.

        Raises
        ------
        BlaswheelError
            If the library can't serve that, or the cache can't be written.
        """
        offer = self._offer(interface, symbol_prefix, symbol_suffix, native, "link")
        return offer.compile_args()

    def link_args(
        self,
        *,
        interface: str | None = None,
        symbol_prefix: str | None = None,
        symbol_suffix: str | None = None,
        native: bool = False,
        runtime: str = "link",
        depth: int | None = None,
    ) -> list[str]:
        """Return the arguments that link the library, unquoted; parameters as `compile_args`.

        Parameters
        ----------
        runtime : {'link', 'origin', 'absolute', 'preload'}
            How the result finds the library when it is loaded.
        depth : int, optional
            For ``origin``: how many folders below site-packages the extension module lies. By
            default there are run paths for 0 to 3.
        """
        offer = self._offer(interface, symbol_prefix, symbol_suffix, native, runtime, depth)
        return offer.link_args()

    def pkg_config(
        self,
        *,
        interface: str | None = None,
        symbol_prefix: str | None = None,
        symbol_suffix: str | None = None,
        native: bool = False,
        runtime: str = "link",
    ) -> str:
        """Return the text of a ``.pc`` file for the library; parameters as `link_args`."""
        offer = self._offer(interface, symbol_prefix, symbol_suffix, native, runtime)
        return _pc.text(_pc.fields(offer, _pc.default_name(offer), _pc.Paths()))

    def verify(self) -> Verdict:
        """Load the library in a child process and check it by calling it.

        Returns
        -------
        Verdict
            Its ``ok`` tells whether all is right, its ``failure`` what is not.
        """
        from blaswheel import _verify

        return _verify.verify(self)


def find_all(
    *,
    root: str | None = None,
    python: str | None = None,
    system: bool = False,
    platform: str | None = None,
) -> list[Library]:
    """Return every BLAS library of an environment, those that can't be linked against included.

    Nothing is imported, run or loaded.

    Parameters
    ----------
    root : str, optional
        A foreign site-packages, a wheel (unpacked or not) or a folder of wheels, instead of this
        environment.
    python : str, optional
        Another interpreter, whose environment is looked into.
    system : bool
        Also the libraries of this system.
    platform : str, optional
        The platform tag by which wheels and libraries of `root` are picked.

    Raises
    ------
    BlaswheelError
        If there is no such folder or interpreter.
    """
    found = sorted(_survey(root, python, system, platform).libraries, key=_select.rank)
    return [_public(library) for library in found]


def find(
    library: str | None = None,
    *,
    interface: str | None = None,
    provider: str | None = None,
    root: str | None = None,
    python: str | None = None,
    system: bool = False,
    platform: str | None = None,
) -> Library:
    """Return the one library that ``blaswheel pc`` would choose.

    Parameters
    ----------
    library : str, optional
        A provider's name, an implementation's, or the path of a library file.
    interface : {'lp64', 'ilp64'}, optional
        By default what ``BLASWHEEL_INTERFACE`` says, else LP64 if it is there.
    provider : str, optional
        ``NAME`` or ``NAME==VERSION``; the environment variable ``BLASWHEEL_PROVIDER`` counts too.
    root, python, platform : str, optional
        As for `find_all`.
    system : bool
        Whether a library of the system will do where no wheel has one; ``BLASWHEEL_PREFER=system``
        puts it first.

    Raises
    ------
    BlaswheelError
        If none fits; it tells what to install.

    Examples
    --------
    >>> import blaswheel
    >>> blaswheel.find(interface="ilp64").link_args()  # doctest: +SKIP
    ['-L/.../lib', '-lblaswheel_...', '-L/.../scipy_openblas64/lib', '-lscipy_openblas64_', ...]
    """
    if interface is None:
        interface = os.environ.get("BLASWHEEL_INTERFACE") or None
    wanted = _naming.interface_for(None, interface)
    wish = _select.wish(library, provider, wanted, os.environ)
    prefer_system = os.environ.get("BLASWHEEL_PREFER") == "system"
    wish = wish.replace(prefer_system=prefer_system)
    environment = _survey(root, python, system or (prefer_system and root is None), platform)
    if wish.library and _select.is_path(wish.library):
        environment = _environment.including(wish.library, environment)
    return _public(_select.choose(environment.libraries, wish, environment.problems).library)


def _survey(
    root: str | None, python: str | None, system: bool, platform: str | None
) -> _environment.Environment:
    if root is not None and system:
        raise UsageError("root is a foreign folder, system is this machine", "give one of them")
    if platform is not None and root is None:
        raise UsageError("platform picks among what root has", "give root too")
    return _environment.survey(root, python, system=system, platform=platform)


def _public(library: _library.Library) -> Library:
    return Library(**{name: getattr(library, name) for name in library._fields})


def _cache() -> Place:
    return Place(folder=_files.cache_dir(), is_cache=True)


def preload(
    library: str | None = None, *, interface: str | None = None, provider: str | None = None
) -> list[str]:
    """Load the BLAS of a wheel into this process, for those that need it by name; return its files.

    Extension modules that were linked with it then load wherever they are installed. Nothing else
    gets to see its functions, and its distribution is not imported. Call it before the modules
    are imported, as often as you like.

    Parameters
    ----------
    library, interface, provider : str, optional
        As for `find`.

    Raises
    ------
    ImportError
        If there is no such library, or it can't be loaded.
    """
    from blaswheel import _preload

    try:
        return _preload.load(find(library, interface=interface, provider=provider))
    except UsageError:
        raise
    except BlaswheelError as error:
        raise ImportError(f"{error.message}: {error.hint}") from error


def write_distributor_init(
    path: str,
    library: str | None = None,
    *,
    interface: str | None = None,
    provider: str | None = None,
) -> str:
    """Write the file by which a package loads its BLAS, without blaswheel; return its path.

    Import it in the package's ``__init__.py`` before anything else:
    ``from . import _distributor_init``.

    Parameters
    ----------
    path : str
        The package's folder, in which the file is called ``_distributor_init.py``, or the file's
        own path.
    library, interface, provider : str, optional
        As for `find`.

    Raises
    ------
    BlaswheelError
        If there is no such library, it can't be loaded in this way (musl, static), or the file
        can't be written.
    """
    from blaswheel import _distributor

    return _distributor.write(path, find(library, interface=interface, provider=provider))


def loaded() -> Report:
    """Tell of every BLAS in this process: where it is from, its names, integers and threads.

    They are found by what the loaded files export, whatever they are called. Nothing is loaded or
    changed.
    """
    from blaswheel import _loaded

    return _loaded.report()
