"""The dot product of two vectors, by a library of the project that uses BLAS."""

from __future__ import annotations

from ._dot import dot as dot
