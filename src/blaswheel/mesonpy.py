"""A build backend: meson-python, with the BLAS of a wheel where Meson looks for it.

In pyproject.toml::

    [build-system]
    build-backend = "blaswheel.mesonpy"
    requires = ["meson-python", "blaswheel"]

``dependency('openblas')`` in ``meson.build`` then finds the library of ``scipy-openblas32``, or of
what ``[tool.blaswheel]`` asks for. Every hook is meson-python's own; around those that run Meson
there is a set of ``.pc`` files, and what they build has the run paths that it needs.

Specification: PEP 517 and PEP 660.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile

import mesonpy as _mesonpy

from blaswheel import _backend, _built
from blaswheel._errors import BlaswheelError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from blaswheel._backend import Asked, Ready

    Settings = Mapping[str, Any] | None


def __getattr__(name: str) -> Any:
    """Give out whatever else meson-python has: hooks of its later versions."""
    return getattr(_mesonpy, name)


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    """End the build with a line on what is wrong and one on what to do."""
    try:
        yield
    except BlaswheelError as error:
        sys.stderr.write(f"\nblaswheel: error: {error.message}\n")
        if error.hint:
            sys.stderr.write(f"  {error.hint}\n")
        sys.stderr.flush()
        raise SystemExit(1) from error


@contextlib.contextmanager
def _environment(environ: Mapping[str, str]) -> Iterator[None]:
    """Have this process, and what it starts, see other environment variables."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def _files(wanted: Asked) -> Iterator[Ready]:
    """Have a set of files for one build, and its environment."""
    with tempfile.TemporaryDirectory(prefix="blaswheel-pc-") as folder:
        ready = _backend.ready(wanted, folder, _mode(wanted))
        with _environment(ready.environ):
            yield ready


def _mode(wanted: Asked) -> str:
    return wanted.settings.runtime or "origin"


def _requires(hook: str, config_settings: Settings, *, with_provider: bool = True) -> list[str]:
    with _errors():
        wanted = _backend.asked(config_settings, os.environ)
        ours = _backend.requirements(wanted, with_provider=with_provider)
    theirs: list[str] = getattr(_mesonpy, hook)(wanted.config_settings)
    return [*theirs, *ours]


def get_requires_for_build_sdist(config_settings: Settings = None) -> list[str]:
    """Return what a source distribution needs: meson-python configures the project for it."""
    return _requires("get_requires_for_build_sdist", config_settings)


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """Return what a wheel needs besides ``build-system.requires``."""
    return _requires("get_requires_for_build_wheel", config_settings)


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    """Return what an editable wheel needs; no provider under isolation, where it would be gone."""
    return _requires(
        "get_requires_for_build_editable",
        config_settings,
        with_provider=_backend.target() is None,
    )


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """Build a source distribution."""
    with _errors():
        wanted = _backend.asked(config_settings, os.environ)
        with _files(wanted):
            name: str = _mesonpy.build_sdist(sdist_directory, wanted.config_settings)
    return name


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build a wheel, and set the run paths in it."""
    with _errors():
        wanted = _backend.asked(config_settings, os.environ)
        with _files(wanted) as ready:
            name: str = _mesonpy.build_wheel(
                wheel_directory, wanted.config_settings, metadata_directory
            )
        _built.finish(os.path.join(wheel_directory, name), ready, _mode(wanted))
    return name


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build an editable wheel: modules stay in the build tree, where only a full path serves."""
    with _errors():
        wanted = _backend.asked(config_settings, os.environ)
        mode = _mode(wanted)
        mode = "absolute" if mode == "origin" else mode
        # It outlives the build: Meson reads it again when meson.build has changed, and headers and
        # archive are what the next compilation needs.
        folder = os.path.abspath(os.path.join("build", f"blaswheel-{sys.implementation.cache_tag}"))
        ready = _backend.ready_in_place(wanted, folder, mode)
        with _environment(ready.environ):
            name: str = _mesonpy.build_editable(
                wheel_directory, wanted.config_settings, metadata_directory
            )
        _built.record(os.path.join(wheel_directory, name), ready, mode)
    return name
