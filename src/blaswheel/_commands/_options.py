"""Options that several commands share, and what they mean together with the environment."""

from __future__ import annotations

import os
import sys

from blaswheel import _consumers, _environment, _naming, _project, _runtime, _select
from blaswheel._errors import UsageError
from blaswheel._offer import Request, consistent
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence

    from blaswheel._environment import Environment
    from blaswheel._project import Settings
    from blaswheel._select import Wish

CONSUMERS = ("numpy", "scipy")


def add_place(parser: ArgumentParser) -> None:
    """Add the options that say which environment to look into."""
    group = parser.add_argument_group("where to look")
    group.add_argument(
        "--root",
        metavar="DIR",
        help="a foreign site-packages, a wheel (unpacked or not), or a folder of wheels, instead "
        "of this environment",
    )
    group.add_argument(
        "--platform",
        metavar="TAG",
        help="with --root: the platform whose wheel or library is meant (linux_aarch64, "
        "macosx_11_0_arm64, win_amd64)",
    )
    group.add_argument(
        "--system",
        action="store_true",
        help="also the libraries of this system; after those of wheels, unless named",
    )
    group.add_argument(
        "--python", metavar="PYTHON", help="another interpreter's environment, instead of this one"
    )


def add_selection(parser: ArgumentParser) -> None:
    """Add LIBRARY and the options that choose it."""
    parser.add_argument(
        "library",
        metavar="LIBRARY",
        nargs="?",
        help="a provider (scipy-openblas64), an implementation (openblas), or a library file",
    )
    group = parser.add_argument_group("which library")
    group.add_argument(
        "--interface",
        choices=_naming.INTERFACES,
        help="width of the library's integers: lp64 32 bits (default), ilp64 64 bits",
    )
    group.add_argument(
        "--provider", metavar="NAME[==VERSION]", help="the distribution to take the library from"
    )
    group.add_argument(
        "--threading",
        choices=_select.THREADING,
        help="of MKL and NVPL: the threading layer to link; sdl is mkl_rt, which chooses when it "
        "runs (default: the first of these that is there, never sdl)",
    )
    add_place(parser)


def add_naming(parser: ArgumentParser) -> None:
    """Add the options that say which names the consumer calls and how it links."""
    group = parser.add_argument_group("names and linking")
    group.add_argument(
        "--symbol-prefix", metavar="P", help="prefix of the names that the consumer calls"
    )
    group.add_argument(
        "--symbol-suffix",
        metavar="S",
        help="their suffix (default: none for LP64, 64_ for ILP64; one with 64 implies ILP64)",
    )
    group.add_argument(
        "--native",
        action="store_true",
        help="the library's own names, told to headers by macros, instead of plain ones",
    )
    group.add_argument(
        "--for",
        dest="consumer",
        choices=CONSUMERS,
        help="the consumer that the files are for",
    )
    group.add_argument(
        "--runtime",
        choices=_runtime.MODES,
        help="how the result finds the library when it is loaded",
    )
    group.add_argument(
        "--depth",
        metavar="N[,N]",
        help="for --runtime origin: how many folders below site-packages the modules lie "
        "(default: 0,1,2,3; as they lie in the consumer of --for)",
    )
    group.add_argument(
        "--complex-return",
        choices=("value",),
        help="value: zdotc_ and its like return complex numbers as gfortran does, also where the "
        "library (MKL) writes them to memory",
    )
    group.add_argument(
        "--alias-visibility",
        choices=("hidden", "default"),
        default="hidden",
        help="default: the names in the alias archive also serve shared objects linked beside it",
    )
    group.add_argument(
        "--isolate",
        action="store_true",
        help="link an isolated copy, whose own names no other library takes over",
    )


class Asked(Record):
    """The options of a command joined with the environment variables."""

    wish: Wish
    environment: Environment


def survey(options: Namespace) -> Environment:
    """Survey the environment that the options name."""
    if options.root is not None and options.python is not None:
        raise UsageError("--root and --python exclude each other", "give one of them")
    if options.root is not None and options.system:
        raise UsageError(
            "--root looks into a foreign folder, --system at this machine", "give one of them"
        )
    if options.platform is not None and options.root is None:
        raise UsageError(
            "--platform picks among what --root has", "add --root DIR, or leave --platform out"
        )
    system = options.root is None and (options.system or prefers_system())
    return _environment.survey(
        options.root, options.python, system=system, platform=options.platform
    )


def prefers_system() -> bool:
    """Tell whether ``BLASWHEEL_PREFER`` puts the system's libraries before those of wheels."""
    prefer = _variable("BLASWHEEL_PREFER", _project.PREFER) or _project.of_folder().prefer
    return prefer == "system"


def project(options: Namespace) -> Settings:
    """Return what ``[tool.blaswheel]`` of the project in the current folder sets, telling it once.

    It is the weakest word: options and environment variables come before it.
    """
    if not hasattr(options, "project"):
        options.project = _project.of_folder()
        if options.project:
            say(f"using [tool.blaswheel] of pyproject.toml: {options.project}")
    found: Settings = options.project
    return found


def asked(options: Namespace) -> Asked:
    """Return what is asked for and where; a LIBRARY that is a path joins the environment."""
    environ = os.environ
    weakest = project(options)
    suffix = getattr(options, "symbol_suffix", None)
    if suffix is None and not getattr(options, "native", False):
        suffix = _suffix_of_environment(options, weakest)
    interface = options.interface
    if interface is None:
        interface = _variable("BLASWHEEL_INTERFACE", _naming.INTERFACES)
        if interface == "lp64" and suffix is not None and "64" in suffix:
            # The command line's suffix is the stronger word.
            interface = None if getattr(options, "symbol_suffix", None) else interface
        elif interface is None and not (suffix and "64" in suffix):
            interface = weakest.interface
    interface = _naming.interface_for(suffix, interface)
    provider = options.provider
    if provider is None and options.library is None and not environ.get("BLASWHEEL_PROVIDER"):
        provider = weakest.provider
    wish = _select.wish(options.library, provider, interface, environ)
    wish = wish.replace(
        threading=getattr(options, "threading", None), prefer_system=prefers_system()
    )
    environment = survey(options)
    if wish.library and _select.is_path(wish.library):
        environment = _environment.including(wish.library, environment)
    return Asked(wish=wish, environment=environment)


def _suffix_of_environment(options: Namespace, weakest: Settings) -> str | None:
    """Return the suffix that a variable sets, else the project, unless a stronger word forbids it.

    Who asks for LP64 does not want the names of a project's ILP64.
    """
    suffix = os.environ.get("BLASWHEEL_SYMBOL_SUFFIX")
    if suffix is not None or weakest.symbol_suffix is None:
        return suffix
    interface = options.interface or _variable("BLASWHEEL_INTERFACE", _naming.INTERFACES)
    means_wide = "64" in weakest.symbol_suffix
    return None if interface == "lp64" and means_wide else weakest.symbol_suffix


def request(options: Namespace, mode: str) -> Request:
    """Return what the naming options ask for; ``mode`` is the command's default runtime mode."""
    weakest = project(options)
    prefix, suffix = options.symbol_prefix, options.symbol_suffix
    if not options.native:
        if prefix is None:
            prefix = os.environ.get("BLASWHEEL_SYMBOL_PREFIX", weakest.symbol_prefix)
        if suffix is None:
            suffix = _suffix_of_environment(options, weakest)
    chosen = options.runtime or _variable("BLASWHEEL_RUNTIME", _runtime.MODES)
    chosen = chosen or weakest.runtime or mode
    if options.depth is not None and chosen != "origin":
        raise UsageError(
            f"--depth is for --runtime origin, not {chosen}",
            "leave it out, or add --runtime origin",
        )
    wanted = Request(
        prefix=prefix,
        suffix=suffix,
        native=options.native,
        mode=chosen,
        depths=_depths(options),
        visibility=options.alias_visibility,
        isolate=options.isolate,
        complex_return=options.complex_return,
    )
    return consistent(wanted)


def _depths(options: Namespace) -> tuple[int, ...]:
    """Return how deep the modules lie: as said, as in the consumer named, or as anywhere."""
    if options.depth is not None:
        return _runtime.depths(options.depth)
    return _consumers.DEPTHS.get(options.consumer, _runtime.DEPTHS)


def sysroot() -> str | None:
    """Return the folder that pkg-config puts before the paths of a file, if there is one."""
    return os.environ.get("PKG_CONFIG_SYSROOT_DIR") or None


def _variable(name: str, values: Sequence[str]) -> str | None:
    value = os.environ.get(name)
    if not value:
        return None
    if value not in values:
        raise UsageError(f"{name} is {value!r}", f"it takes {' or '.join(values)}")
    return value


def say(line: str) -> None:
    """Tell the user something; data goes to stdout, words to stderr."""
    sys.stderr.write(f"blaswheel: {line}\n")


def put(data: str) -> None:
    """Write what another program reads: bytes of paths as they are, in no terminal's encoding."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data.encode("utf-8", "surrogateescape"))
