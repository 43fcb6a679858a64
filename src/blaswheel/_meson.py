"""What the Meson subproject asks at configure time: ``python -m blaswheel._meson 1 KEY=VALUE...``.

The answer is for ``subprojects/blaswheel/meson.build``: lines of a key, a tab and a value, of which
those of an offer (``lp64``, ``ilp64``, ``lp64-native``, ``ilp64-native``) begin with its name. What
is wrong is an answer too (``error``), so that Meson says it; another exit status than 0 means that
there is no blaswheel that could answer. The files are committed to projects, where they may be
older than the blaswheel that answers: version 1 of the question stays answered as it is.
"""

from __future__ import annotations

import os
import sys

from blaswheel import _files, _naming, _offer, _pc, _project, _select, _set, _verify
from blaswheel._commands import _options
from blaswheel._errors import BlaswheelError
from blaswheel._offer import Place
from blaswheel._project import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from blaswheel._library import Library
    from blaswheel._offer import Offer, Request
    from blaswheel._select import Choice

PROTOCOL = "1"
#: What the subproject provides.
NAMES = (*_pc.SET, *(f"{name}64" for name in _pc.SET), *_set.NATIVE_NAMES)
#: The subproject's, with the names that they have on the command line.
OPTIONS = (
    "interface",
    "provider",
    "symbol-prefix",
    "symbol-suffix",
    "native",
    "runtime",
    "depth",
    "root",
    "platform",
)
#: What Meson calls machines (family, byte order), and what binaries are said to be for.
_MACHINES = {
    ("aarch64", "little"): ("aarch64", "arm64"),
    ("arm", "little"): ("armv7l",),
    ("ppc64", "little"): ("ppc64le",),
    ("x86", "little"): ("i686",),
    ("x86_64", "little"): ("x86_64", "amd64"),
}
_SYSTEMS = {"windows": "pe", "cygwin": "pe", "darwin": "macho"}


class Asked:
    """The subproject's options, as the options of a command."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.library = None
        self.provider = values.get("provider")
        self.interface = values.get("interface")
        self.symbol_prefix = values.get("symbol-prefix")
        self.symbol_suffix = values.get("symbol-suffix")
        self.native = values.get("native") == "true"
        self.runtime = values.get("runtime")
        self.depth = values.get("depth")
        self.root = values.get("root")
        self.platform = values.get("platform")
        self.python = None
        self.system = False
        self.consumer = None
        self.threading = None
        self.alias_visibility = "hidden"
        self.isolate = False
        self.complex_return = None
        #: of the project that has the subproject, the weakest word
        self.project = _project.of_folder(values["project"]) if "project" in values else Settings()


class _AsIs(_pc.Paths):
    """Paths for Meson, which needs no escapes."""

    def __call__(self, path: str) -> str:
        return os.path.abspath(path)


def answer(words: Sequence[str]) -> str:
    """Return the answer to a question; one that can't be had is an ``error`` line."""
    try:
        lines = [tuple(map(_one_line, line)) for line in _lines(words)]
    except BlaswheelError as error:
        hint = f" ({error.hint})" if error.hint else ""
        text = " ".join(f"{error.message}{hint}".split())
        for option in OPTIONS:
            text = text.replace(f"--{option}", f"blaswheel:{option}")
        lines = [("error", text)]
    return "".join("\t".join(line) + "\n" for line in lines)


def _one_line(text: str) -> str:
    # Meson ends a line wherever Unicode does.
    if "\t" in text or len(text.splitlines()) > 1:
        raise BlaswheelError(
            f"{text!r}: Meson can't be told a path with a tab or a line break",
            "move it, or give a path through a symbolic link",
        )
    return text


def _lines(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    values = dict(word.split("=", 1) for word in words[1:] if "=" in word)
    machine = values.get("machine", "")
    if words[:1] != [PROTOCOL] or "build" not in values or machine.count(" ") != 2:
        raise BlaswheelError(
            "subprojects/blaswheel was written by another version of blaswheel",
            "run blaswheel meson again",
        )
    options: Namespace = Asked(values)  # type: ignore[assignment]
    if options.project:
        yield "message", f"using [tool.blaswheel] of pyproject.toml: {options.project}"
    request = _options.request(options, "origin")
    asked = _options.asked(options)
    libraries = _fitting(asked.environment.libraries, machine)
    elsewhere = bool(libraries) and not any(_of(one, machine) for one in libraries)
    if options.root is not None and elsewhere and values.get("cross") == "false":
        # From Meson 1.12 a cross build configures the subproject for the build machine too, with
        # the same options.
        yield "message", f"{options.root} is for another machine: looking here for this one"
        options.root = options.platform = None
        asked = _options.asked(options)
        libraries = _fitting(asked.environment.libraries, machine)
    problems = asked.environment.problems
    first = _select.choose(libraries, asked.wish, problems)
    _select.check_suffix(first, asked.wish, request.suffix)
    choices = [first]
    absent = {}
    if asked.wish.interface is None and request.suffix is None:
        for interface in _naming.INTERFACES:
            if interface == first.interface:
                continue
            try:
                choices.append(
                    _select.choose(libraries, asked.wish.replace(interface=interface), problems)
                )
            except BlaswheelError as error:
                absent[interface] = f"{error.message} ({error.hint})"
    yield from (("message", note) for note in dict.fromkeys(first.notes))
    # One interface that was asked for stands behind all names.
    alone = asked.wish.interface is not None
    build = values["build"]
    for choice in choices:
        yield from _offers(choice, request, build, alone=alone)
    for interface, reason in absent.items():
        names = [name for name in NAMES if ("64" in name) == (interface == "ilp64")]
        yield "message", f"not here: {', '.join(names)}: {reason}"


def _fitting(libraries: Iterable[Library], machine: str) -> list[Library]:
    """Return the libraries; those of another machine are there, but can't be linked."""
    found = []
    for one in map(_verify.as_known, libraries):
        if _of(one, machine):
            found.append(one)
            continue
        reason = (
            f"it is for {one.binary.machine} ({one.binary.system}), and the build for "
            f"{' '.join(machine.split()[1::-1])}: give the option blaswheel:root the "
            "site-packages or the wheel of the host platform"
        )
        found.append(one.replace(linkable=False, reason=reason))
    return found


def _of(library: Library, machine: str) -> bool:
    """Tell whether a library is one of a machine: Meson's system, family and byte order."""
    system, family, order = machine.split(" ")
    names = {name.lower() for name in library.binary.machines or (library.binary.machine,)}
    return library.binary.system == _SYSTEMS.get(system, "elf") and not names.isdisjoint(
        _MACHINES.get((family, order), (family,))
    )


def _offers(
    choice: Choice, request: Request, build: str, *, alone: bool
) -> Iterator[tuple[str, ...]]:
    place = _place(build)
    offer = _offer.make(choice.library, choice.interface, request, place)
    names = _names(offer, alone=alone)
    vendor = offer.library.vendor.title
    yield (
        "message",
        f"{choice.interface.upper()}: {vendor} {offer.library.version or ''}".rstrip()
        + f" of {choice.library.title}, runtime {request.mode}",
    )
    yield from _described(offer, choice.interface, names, build)
    if choice.library.implementation == "openblas":
        # Who asks for this name expects the library's own.
        native = request.replace(prefix=None, suffix=None, native=True)
        own = [_set.native_name(offer, None)]
        if alone:
            own = list(_set.NATIVE_NAMES)
        given = (
            offer
            if request.native
            else _offer.make(choice.library, choice.interface, native, place)
        )
        yield from _described(given, f"{choice.interface}-native", own, build)


def _place(build: str) -> Place:
    """Return the cache, or where it can't be written (no home folder), one in the build folder."""
    try:
        cache = _files.cache_dir()
        os.makedirs(cache, exist_ok=True)
        if os.access(cache, os.W_OK):
            return Place(folder=cache, is_cache=True)
    except (BlaswheelError, OSError):
        pass
    return Place(folder=os.path.join(build, "made"))


def _names(offer: Offer, *, alone: bool) -> list[str]:
    standard = offer.names.standard if offer.names else offer.families
    found = []
    for name, apis in _pc.SET.items():
        if name == "openblas" and offer.library.implementation != "openblas":
            continue
        if any(standard.get(api) for api in apis):
            wide = offer.interface == "ilp64"
            found += [name] if alone or not wide else []
            found += [f"{name}64"] if wide else []
    return found


def _described(
    offer: Offer, key: str, names: Sequence[str], build: str
) -> Iterator[tuple[str, ...]]:
    fields = _pc.fields(offer, "blas", _AsIs())
    yield "offer", key
    yield f"{key}.version", fields.version
    for name in names:
        yield f"{key}.name", name
    for name, value in (*fields.variables.items(), ("prefix", fields.prefix)):
        yield f"{key}.variable", name, value
    for word in offer.compile_args():
        yield f"{key}.compile", word
    for word in offer.link_args():
        yield f"{key}.link", word
    if not offer.directories or offer.library.of_system:
        return
    for folder, stems in offer.libraries:
        leads = _link_in(build, folder)
        for stem in stems:
            if not stem.startswith(":"):
                yield f"{key}.library", leads, stem


def _link_in(build: str, folder: str) -> str:
    """Return a link in the build folder to the folder of a library, or where none can be, that."""
    link = os.path.join(os.path.abspath(build), f"blas-{_files.digest(os.path.realpath(folder))}")
    if os.name == "nt":
        return folder
    try:
        os.makedirs(build, exist_ok=True)
        _files.symlink(os.path.abspath(folder), link)
    except OSError:
        return folder
    return link


def main() -> int:
    """Answer the command line."""
    _options.put(answer(sys.argv[1:]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
