"""The standard routines: what the reference implementation of each API defines.

The lists in ``data/`` hold one name a line. They are those of reference LAPACK 3.12 with its BLAS
and CBLAS, deprecated routines included; not the test generators, nor what needs the
extra-precision BLAS, nor any implementation's own additions.
"""

from __future__ import annotations

import os

APIS = ("blas", "lapack", "cblas", "lapacke")

_read: dict[str, frozenset[str]] = {}


def routines(api: str) -> frozenset[str]:
    """Return the names of the standard routines of an API.

    Parameters
    ----------
    api : {'blas', 'lapack', 'cblas', 'lapacke'}

    Returns
    -------
    frozenset of str
        Without any decoration: ``dgemm``, ``dgesv``, ``cblas_dgemm``, ``LAPACKE_dgesv``.
    """
    if api not in _read:
        if api not in APIS:
            raise ValueError(f"no API {api!r}")
        path = os.path.join(os.path.dirname(__file__), "data", f"{api}.txt")
        with open(path, encoding="ascii") as file:
            _read[api] = frozenset(file.read().split())
    return _read[api]
