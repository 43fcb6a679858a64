"""The dot product of two vectors, by BLAS from Fortran."""

from __future__ import annotations

from ._dot import dot as dot
