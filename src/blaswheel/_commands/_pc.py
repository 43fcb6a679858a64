"""``blaswheel pc``."""

from __future__ import annotations

import os

from blaswheel import _files, _offer, _pc, _select, _set
from blaswheel._commands import _advice, _called, _options
from blaswheel._errors import UsageError
from blaswheel._offer import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable

    from blaswheel._offer import Offer, Request
    from blaswheel._select import Choice, Wish

HELP = """Print a pkg-config file for a library, or write it or the whole set of them.

Consumers call plain names (dgemm_, cblas_dgemm, LAPACKE_dgesv; with 64_ for ILP64) whatever the
library exports: what it lacks comes from a small static archive that the file links before it."""
EXAMPLE = """examples:
  blaswheel pc > openblas.pc
  blaswheel pc --interface ilp64 -o pc/openblas64.pc
  blaswheel pc --dir pc && PKG_CONFIG_PATH=pc meson setup build
  blaswheel pc --root wheels --platform linux_aarch64 --dir pc --cross-file blas.ini
"""


def configure(parser: ArgumentParser) -> None:
    """Add the command's options."""
    _options.add_selection(parser)
    _options.add_naming(parser)
    group = parser.add_argument_group("output")
    group.add_argument("-o", dest="output", metavar="FILE", help="write the file there")
    group.add_argument(
        "--dir",
        metavar="DIR",
        help="write the whole set there: openblas, blas, cblas, lapack, lapacke, and with 64",
    )
    group.add_argument(
        "--native-file",
        metavar="FILE",
        help="with --dir: also write a Meson native file that makes Meson look there "
        "(--runtime is then origin by default)",
    )
    group.add_argument(
        "--cross-file",
        metavar="FILE",
        help="with --dir: also write the lines of a Meson cross file for it, for a cross build",
    )
    group.add_argument(
        "--relocatable",
        action="store_true",
        help="with -o or --dir: paths relative to the file, archive and headers beside it",
    )
    group.add_argument(
        "--check-link", action="store_true", help="also link a program with the compiler at hand"
    )
    group.add_argument(
        "--no-verify",
        action="store_true",
        help="go by the files alone: do not call the library in a child process first",
    )


def run(options: Namespace) -> int:
    """Print or write what is asked for."""
    _check_usage(options)
    for_meson = bool(options.native_file or options.cross_file)
    request = _options.request(options, "origin" if for_meson else "link")
    asked = _options.asked(options)
    environment = asked.environment
    if options.dir is not None:
        choices = _set.choices_for(
            environment.libraries, asked.wish, environment.problems, request, options.consumer
        )
    else:
        choices = [_select.choose(environment.libraries, asked.wish, environment.problems)]
    _select.check_suffix(choices[0], asked.wish, request.suffix)
    choices = _by_calls(choices, options, asked.wish)
    write = _write_set if options.dir is not None else _write_one
    offers = write(choices, request, options)
    _advice.choice(choices)
    _advice.files(
        offers,
        environment,
        options.consumer,
        options.dir,
        for_meson=for_meson,
    )
    if options.dir is not None:
        _advice.shadow(options.dir, native=request.native)
    return 0


def _write_set(choices: list[Choice], request: Request, options: Namespace) -> tuple[Offer, ...]:
    texts = _machine_files_of(options)
    written = _set.write(
        options.dir,
        choices,
        request,
        consumer=options.consumer,
        relocatable=options.relocatable,
        sysroot=_options.sysroot(),
        check=_check(options),
    )
    for path, text in texts.items():
        _files.write_atomically(path, text.encode("utf-8", "surrogateescape"))
    return written.offers


def _machine_files_of(options: Namespace) -> dict[str, str]:
    """Return the Meson machine files that are asked for: path to text."""
    texts: dict[str, str] = {}
    if options.native_file is None and options.cross_file is None:
        return texts
    from blaswheel import _machine_files

    folder = os.path.abspath(options.dir)
    if options.native_file is not None:
        texts[options.native_file] = _machine_files.native(folder)
    if options.cross_file is not None:
        from blaswheel import _pkgconfig

        program = _pkgconfig.working(os.environ)
        texts[options.cross_file] = _machine_files.cross(folder, program)
    return texts


def _write_one(choices: list[Choice], request: Request, options: Namespace) -> tuple[Offer, ...]:
    folder = os.path.dirname(os.path.abspath(options.output)) if options.output else None
    beside = folder if options.relocatable else None
    place = cache() if beside is None else Place(folder=beside)
    offer = _offer.make(choices[0].library, choices[0].interface, request, place)
    name = _pc.default_name(offer)
    if options.output:
        name = os.path.splitext(os.path.basename(options.output))[0]
    text = _pc.text(_pc.fields(offer, name, _pc.Paths(beside, _options.sysroot())))
    check = _check(options)
    if check is not None:
        if beside is not None:
            _files.make_folder(beside)
        check(offer, text, beside)
    if options.output:
        _files.write_atomically(options.output, text.encode("utf-8", "surrogateescape"))
    else:
        _options.put(text)
    return (offer,)


def _check(options: Namespace) -> Callable[[Offer, str, str | None], None] | None:
    if not options.check_link:
        return None
    from blaswheel import _linkcheck

    return _linkcheck.check


def _by_calls(choices: list[Choice], options: Namespace, wish: Wish) -> list[Choice]:
    if options.no_verify or options.root is not None:
        return choices
    return _called.by_calls(choices, wish.interface)


def cache() -> Place:
    """Return the cache as a place for archives and headers."""
    return Place(folder=_files.cache_dir(), is_cache=True)


def _check_usage(options: Namespace) -> None:
    if options.output is not None and options.dir is not None:
        raise UsageError("-o and --dir exclude each other", "give one of them")
    if options.relocatable and options.output is None and options.dir is None:
        raise UsageError(
            "--relocatable writes paths relative to the file, and stdout is no file",
            "add -o FILE or --dir DIR",
        )
    for name in ("native", "cross"):
        if getattr(options, f"{name}_file") is not None and options.dir is None:
            raise UsageError(f"--{name}-file is for a set of files", "add --dir DIR")
