"""``[tool.blaswheel]`` in a project's pyproject.toml: what a project wants of its BLAS."""

from __future__ import annotations

import os
import sys

from blaswheel import _naming, _runtime
from blaswheel._errors import BlaswheelError
from blaswheel._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

PREFER = ("wheel", "system")
#: Key to the values that it takes, None where any text will do.
KEYS: dict[str, tuple[str, ...] | None] = {
    "interface": _naming.INTERFACES,
    "symbol-prefix": None,
    "symbol-suffix": None,
    "provider": None,
    "runtime": _runtime.MODES,
    "prefer": PREFER,
}
FILE = "pyproject.toml"


class Settings(Record):
    """What is set, key by key; None where nothing is."""

    interface: str | None = None
    symbol_prefix: str | None = None
    symbol_suffix: str | None = None
    provider: str | None = None
    runtime: str | None = None
    prefer: str | None = None

    def __bool__(self) -> bool:
        return any(value is not None for value in self._values())

    def over(self, weaker: Settings) -> Settings:
        """Return these settings, with those of ``weaker`` where nothing is set here."""
        mine = {name: getattr(self, name) for name in self._fields}
        return weaker.replace(**{name: value for name, value in mine.items() if value is not None})

    def __str__(self) -> str:
        values = {key: getattr(self, _field(key)) for key in KEYS}
        return ", ".join(f"{key} = {value!r}" for key, value in values.items() if value is not None)


def _field(key: str) -> str:
    return key.replace("-", "_")


def settings(values: Mapping[str, Any], where: str) -> Settings:
    """Check key by key what is set.

    Parameters
    ----------
    values : mapping
        Keys as in pyproject.toml.
    where : str
        What to call the place in messages; ``{}`` in it stands for the key.

    Raises
    ------
    BlaswheelError
        If there is no such key, or it does not take the value.
    """
    found = {}
    for key, value in values.items():
        name = where.format(key)
        if key not in KEYS:
            raise BlaswheelError(f"{name}: there is no such key", f"the keys are {', '.join(KEYS)}")
        allowed = KEYS[key]
        if not isinstance(value, str) or (allowed is not None and value not in allowed):
            takes = " or ".join(f'"{one}"' for one in allowed) if allowed else "a text"
            raise BlaswheelError(f"{name} is {_shown(value)}", f"it takes {takes}")
        found[_field(key)] = value
    provider = found.get("provider")
    if provider is not None and not all(provider.split("==", 1)):
        raise BlaswheelError(
            f"{where.format('provider')} is {_shown(provider)}: a name or a version is missing",
            'give it as "NAME" or "NAME==VERSION"',
        )
    return Settings(**found)


def _shown(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def of_environment(environ: Mapping[str, str]) -> Settings:
    """Return what the variables ``BLASWHEEL_INTERFACE``, ... set.

    An empty variable sets nothing, but for prefix and suffix, which may be empty.
    """
    found = {}
    for key in KEYS:
        value = environ.get(f"BLASWHEEL_{_field(key).upper()}")
        if value or (value is not None and key.startswith("symbol-")):
            found[key] = value
    names = {key: f"BLASWHEEL_{_field(key).upper()}" for key in found}
    checked = Settings()
    for key, value in found.items():
        checked = settings({key: value}, names[key]).over(checked)
    return checked


def of_folder(folder: str = os.curdir) -> Settings:
    """Return what ``[tool.blaswheel]`` of the project in ``folder`` sets; nothing without one.

    Raises
    ------
    BlaswheelError
        If it is no table, has a wrong key or value, or can't be read.
    """
    tool = tables(folder).get("tool", {})
    table = tool.get("blaswheel", {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise BlaswheelError(f"{FILE}: tool.blaswheel is no table", "write it as [tool.blaswheel]")
    return settings(table, f"{FILE}, [tool.blaswheel]: {{}}")


def tables(folder: str = os.curdir) -> dict[str, Any]:
    """Return the content of the pyproject.toml in ``folder``; empty if it says nothing of us.

    Raises
    ------
    BlaswheelError
        If it is no TOML, or this Python can't read TOML.
    """
    path = os.path.join(folder, FILE)
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError:
        return {}
    # Reading TOML costs more than all else that a command does; few projects have something.
    if b"blaswheel" not in content:
        return {}
    return parsed(content)


def parsed(content: bytes) -> dict[str, Any]:
    """Return the content of a pyproject.toml.

    Raises
    ------
    BlaswheelError
        If it is no TOML, or this Python can't read TOML.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        try:
            import tomli as tomllib
        except ImportError:
            if b"tool.blaswheel" not in content.replace(b" ", b""):
                # Most likely one of its build requirements, which is no setting.
                return {}
            raise BlaswheelError(
                f"{FILE} has [tool.blaswheel], and Python 3.10 reads no TOML by itself",
                "pip install tomli, or use Python 3.11 or later",
            ) from None
    try:
        content_of: dict[str, Any] = tomllib.loads(content.decode("utf-8"))
        return content_of
    # ValueError: no UTF-8, no TOML, or a number of more digits than Python reads.
    except (ValueError, RecursionError) as error:
        raise BlaswheelError(f"{FILE} is no TOML: {error}", "correct it") from None
