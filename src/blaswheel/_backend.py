"""What the build backend does before a build: settings, requirements, the set of files."""

from __future__ import annotations

import os
import sys

from blaswheel import (
    _environment,
    _exported,
    _files,
    _naming,
    _offer,
    _pc,
    _pkgconfig,
    _project,
    _select,
    _set,
    _verify,
)
from blaswheel._errors import BlaswheelError
from blaswheel._offer import Place, Request
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from blaswheel._environment import Environment
    from blaswheel._offer import Offer
    from blaswheel._project import Settings
    from blaswheel._select import Choice, Wish

#: As the subproject's options are set: ``-Csetup-args=-Dblaswheel:interface=ilp64``.
OPTION = "blaswheel:"
#: What provides an interface, if the project names no provider.
PROVIDERS = {"lp64": "scipy-openblas32", "ilp64": "scipy-openblas64"}
#: These print nothing and exit 0 when PKG_CONFIG_PATH is set.
PKGCONF = "pkgconf != 2.5.1.post2, != 3.0.1.post0"


class Asked(Record):
    """What a project and its builder want.

    Attributes
    ----------
    settings : Settings
        Of all places together.
    wish : Wish
    config_settings : dict
        Those of the front end without what is ours.
    """

    settings: Settings
    wish: Wish
    config_settings: dict[str, Any]


def asked(config_settings: Mapping[str, Any] | None, environ: Mapping[str, str]) -> Asked:
    """Join ``-Csetup-args``, environment variables and pyproject.toml, in this order.

    Raises
    ------
    BlaswheelError
        If one of them has a wrong key or value, or they contradict each other.
    """
    front_end, rest = _split(config_settings or {})
    variables = _project.of_environment(environ)
    project = _project.of_folder()
    together = front_end.over(variables).over(project)
    interface = _naming.interface_for(together.symbol_suffix, together.interface)
    # The variable is the builder's last word: against the command line an error, over the project
    # not.
    named = front_end.provider or (None if variables.provider else project.provider)
    wish = _select.wish(None, named, interface, environ)
    return Asked(settings=together.replace(interface=interface), wish=wish, config_settings=rest)


def _split(config_settings: Mapping[str, Any]) -> tuple[Settings, dict[str, Any]]:
    """Take ``-Dblaswheel:KEY=VALUE`` out of the arguments for ``meson setup``."""
    rest = dict(config_settings)
    given = rest.get("setup-args")
    words = [given] if isinstance(given, str) else given
    if not isinstance(words, list):
        return _project.Settings(), rest
    # Meson takes an option of a subproject that is not there for an error or a warning.
    has_subproject = os.path.isfile(os.path.join("subprojects", "blaswheel", "meson.build"))
    values: dict[str, str] = {}
    kept = []
    for word in words:
        begin = f"-D{OPTION}"
        if not isinstance(word, str) or not word.startswith(begin):
            kept.append(word)
            continue
        key, _, value = word[len(begin) :].partition("=")
        if key in _project.KEYS:
            values[key] = value
        if has_subproject and key != "prefer":
            kept.append(word)
        elif key not in _project.KEYS:
            values[key] = value
    rest["setup-args"] = kept
    return _project.settings(values, f"-Csetup-args=-D{OPTION}{{}}"), rest


def requirements(wanted: Asked, *, with_provider: bool = True) -> list[str]:
    """Return what has to be installed for the build besides what is there.

    A provider, unless the environment (``build-system.requires`` is installed by now) or, with
    ``prefer = "system"``, the system has a library; a pkg-config, unless one works.
    """
    found = []
    program = None
    try:
        program = _pkgconfig.working(os.environ)
    except BlaswheelError:
        found.append(PKGCONF)
    interface = wanted.wish.interface or "lp64"
    if not with_provider or interface in system_files(wanted, program):
        return found
    environment = _environment.survey()
    try:
        _select.choose(environment.libraries, wanted.wish, environment.problems)
    except BlaswheelError:
        found.append(wanted.wish.provider or PROVIDERS[interface])
    return found


def system_files(wanted: Asked, program: str | None) -> dict[str, dict[str, str]]:
    """Return per interface the system's files that win: name and version.

    None do unless the project or its builder prefers the system. Then those of an interface do if
    they serve whatever ``meson.build`` requires of that interface, versions included: pkg-config
    knows no way to pass over a file that is too old for one that is not. A build never gets a part
    of its BLAS from the system and another from a wheel.

    Parameters
    ----------
    wanted : Asked
    program : str, optional
        A pkg-config that works.
    """
    if wanted.settings.prefer != "system" or program is None:
        return {}
    looked_for = _looked_for()
    served = {}
    for interface, end in (("lp64", ""), ("ilp64", "64")):
        names = [stem + end for stem in _pc.SET]
        wishes = {one["name"]: one for one in looked_for if one["name"] in names}
        have = {}
        for name in wishes or names:
            versions = wishes[name]["version"] if wishes else []
            version = _version(program, name, versions)
            if version is not None:
                have[name] = version
        missing = [name for name, one in wishes.items() if one["required"] and name not in have]
        if have and not missing:
            served[interface] = have
    return served


def _looked_for() -> list[dict[str, Any]]:
    """Return each dependency that the project's ``meson.build`` names, by Meson's own reading.

    Names that are computed, and all but the first of several, remain unknown.
    """
    import json
    import subprocess

    tool = _project.tables().get("tool")
    table = tool.get("meson-python") if isinstance(tool, dict) else None
    named = table.get("meson") if isinstance(table, dict) else None
    meson = os.environ.get("MESON") or (named if isinstance(named, str) else "meson")
    command = [sys.executable, meson] if meson.endswith(".py") else [meson]
    try:
        answer = subprocess.run(
            [*command, "introspect", "--scan-dependencies", "meson.build"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=120,
        )
        found = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return []
    return [one for one in found if isinstance(one, dict) and {"name", "version"} <= one.keys()]


def _version(program: str, name: str, versions: Sequence[str]) -> str | None:
    """Return the version of a file that pkg-config finds, None if it is not one of ``versions``."""
    import subprocess

    conditions = []
    for one in versions:
        number = one.lstrip("<>=! ")
        operator = one[: len(one) - len(number)].strip().replace("==", "=") or "="
        conditions.append(f"{name} {operator} {number.strip()}")
    try:
        for question in (["--exists", *(conditions or [name])], ["--modversion", name]):
            answer = subprocess.run(
                [program, *question],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=True,
                timeout=60,
            )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.decode("utf-8", "replace").strip()


def target() -> str | None:
    """Return the site-packages that an isolated build is for; None if the build is not isolated.

    Under pip the interpreter is that of the target environment, with other folders on its search
    path. Other front ends have one in a temporary environment, and tell nothing of the target.
    """
    import sysconfig

    site = sysconfig.get_path("platlib")
    return None if os.path.realpath(site) in map(os.path.realpath, sys.path) else site


class Ready(Record):
    """What a build is given.

    Attributes
    ----------
    environ : dict
        All variables of its environment.
    offers : tuple of Offer
        The libraries of wheels that it can link.
    system : dict
        The system's files that win: name and version.
    """

    environ: dict[str, str]
    offers: tuple[Offer, ...]
    system: dict[str, str]


def ready(
    wanted: Asked, folder: str, mode: str, *, lasting: bool = False, root: str | None = None
) -> Ready:
    """Write the set of files for a build to ``folder``.

    Parameters
    ----------
    wanted : Asked
    folder : str
        For the files; with ``lasting`` for archives and headers too, which else are in the cache.
    mode : str
        The runtime mode.
    root : str, optional
        Another site-packages to take the library from.

    Raises
    ------
    BlaswheelError
        If there is no library that serves.
    """
    settings = wanted.settings
    request = _offer.consistent(
        Request(prefix=settings.symbol_prefix, suffix=settings.symbol_suffix, mode=mode)
    )
    program = _pkgconfig.working(os.environ) if settings.prefer == "system" else None
    served = system_files(wanted, program)
    environment = _environment.survey(root)
    environment = environment.replace(libraries=tuple(map(_verify.as_known, environment.libraries)))
    choices = _choices(wanted.wish, environment, request, served)
    offers: tuple[Offer, ...] = ()
    if choices:
        place = Place(folder=folder) if lasting else _place(folder)
        sysroot = os.environ.get("PKG_CONFIG_SYSROOT_DIR") or None
        offers = _set.write(folder, choices, request, place=place, sysroot=sysroot).offers
    for choice in choices:
        for note in choice.notes:
            say(note)
        say(f"{choice.library.title} ({choice.interface.upper()}), runtime {mode}")
    for files in served.values():
        say(f"the system's {', '.join(f'{name} {files[name]}' for name in files)}")
    environ = _exported.environment(
        os.environ,
        folder if choices else None,
        [folder for offer in offers for folder in offer.directories],
    )
    system = {name: version for files in served.values() for name, version in files.items()}
    return Ready(environ=environ, offers=offers, system=system)


def ready_in_place(wanted: Asked, folder: str, mode: str) -> Ready:
    """Write the set for an editable build, which has to last, as the library behind it does.

    Raises
    ------
    BlaswheelError
        If the library would be gone after the build.
    """
    site = target()
    try:
        made = ready(wanted, folder, mode, lasting=True, root=site)
    except BlaswheelError as error:
        if site is None:
            raise
        raise BlaswheelError(
            "an editable install under build isolation would link a library that is gone "
            f"afterwards ({error.message})",
            "pip install --no-build-isolation -e . links the one of this environment",
        ) from error
    _files.write_atomically(os.path.join(folder, ".gitignore"), b"*\n")
    return made


def _choices(
    wish: Wish, environment: Environment, request: Request, served: Mapping[str, object]
) -> list[Choice]:
    """Choose a library for each interface that the system does not serve."""
    try:
        choices = _set.choices_for(environment.libraries, wish, environment.problems, request, None)
        _select.check_suffix(choices[0], wish, request.suffix)
    except BlaswheelError:
        if (wish.interface or "lp64") not in served:
            raise
        return []
    return [choice for choice in choices if choice.interface not in served]


def _place(folder: str) -> Place:
    """Return the cache for archives and headers, or ``folder`` where there can be no cache."""
    try:
        cache = _files.cache_dir()
        _files.make_folder(cache)
    except BlaswheelError:
        return Place(folder=folder)
    return Place(folder=cache, is_cache=True) if os.access(cache, os.W_OK) else Place(folder=folder)


def say(line: str) -> None:
    """Tell the builder something; front ends show it with what Meson says."""
    sys.stderr.write(f"blaswheel: {line}\n")
    sys.stderr.flush()
