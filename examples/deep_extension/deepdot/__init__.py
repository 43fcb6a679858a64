"""A module three packages deep, with 64-bit integers."""

from __future__ import annotations

from .one.two._dot import dot as dot
