"""The dot product of two vectors, by BLAS from Cython."""

from __future__ import annotations

from ._dot import dot as dot
