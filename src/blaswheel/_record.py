"""Immutable records: frozen dataclasses without the cost of importing ``dataclasses``.

blaswheel runs inside every configure step, and ``dataclasses`` (through ``inspect``) costs more
than all of blaswheel's own work. A subclass of `Record` lists its fields as annotations, with
optional defaults, and gets a keyword constructor, equality, hash and repr; type checkers see a
frozen, keyword-only dataclass.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

    from typing_extensions import Self, dataclass_transform
else:

    def dataclass_transform(**_kwargs):
        return lambda cls: cls


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Record:
    """Base of the facts that blaswheel passes along; fields are the subclass's annotations."""

    _fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls._fields = cls._fields + tuple(
            name for name in cls.__annotations__ if not name.startswith("_")
        )

    def __init__(self, **values: Any) -> None:
        own = self.__dict__
        for name in self._fields:
            if name in values:
                own[name] = values.pop(name)
            elif hasattr(type(self), name):
                own[name] = getattr(type(self), name)
            else:
                raise TypeError(f"{type(self).__name__}: missing field {name!r}")
        if values:
            raise TypeError(f"{type(self).__name__}: unknown field {next(iter(values))!r}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self._fields)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._fields)
        return f"{type(self).__name__}({inner})"

    def replace(self, **changes: Any) -> Self:
        """Return a copy with the given fields changed."""
        return type(self)(**{**{name: getattr(self, name) for name in self._fields}, **changes})
