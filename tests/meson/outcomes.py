"""What each form of ``dependency()`` gives, by way: the table of docs/meson.md."""

from __future__ import annotations

from typing import NamedTuple

FOUND, ABSENT, ERROR, SYSTEM = "wheel", "not found", "error", "system"


class Row(NamedTuple):
    """One form, with the options of ``meson setup`` it is tried with."""

    form: str
    subproject: str
    pkg_config: str
    options: str = ""
    #: whether the system has an OpenBLAS, of release 0.2.20
    system: bool = False
    #: outcomes of the subproject that are others, by version of Meson
    other: tuple[tuple[str, str], ...] = ()


NAMES = (
    "openblas",
    "OpenBLAS",
    "blas",
    "cblas",
    "lapack",
    "lapacke",
    "openblas64",
    "blas64",
    "cblas64",
    "lapack64",
    "lapacke64",
)
#: pkg-config knows names by their case.
ROWS = (
    *(Row(f"dependency('{name}')", FOUND, FOUND) for name in NAMES if name != "OpenBLAS"),
    Row("dependency('OpenBLAS')", FOUND, ERROR),
    Row("dependency('scipy-openblas')", FOUND, ERROR),
    Row("dependency('scipy-openblas64')", FOUND, ERROR),
    Row("dependency('openblas', version: '>=0.3.20')", FOUND, FOUND),
    Row("dependency('openblas', version: ['>=0.3.20', '<0.4'])", FOUND, FOUND),
    Row("dependency('openblas', version: '>=99')", ERROR, ERROR),
    Row("dependency('openblas', version: '>=99', required: false)", ABSENT, ABSENT),
    Row("dependency('openblas', modules: ['cblas'])", FOUND, FOUND),
    Row("dependency('openblas', method: 'pkg-config')", FOUND, FOUND),
    Row("dependency('openblas', static: true)", FOUND, FOUND),
    Row("dependency('openblas', static: false)", FOUND, FOUND),
    Row("dependency('flexiblas', 'openblas')", FOUND, FOUND),
    Row("dependency('openblas', fallback: ['blaswheel', 'openblas_dep'])", FOUND, FOUND),
    Row("dependency('openblas', required: false)", ABSENT, FOUND),
    Row("dependency('openblas', required: false, allow_fallback: true)", FOUND, FOUND),
    Row("dependency('openblas', allow_fallback: false)", ERROR, FOUND),
    Row("dependency('openblas')", ERROR, FOUND, "--wrap-mode=nofallback"),
    Row("dependency('openblas', required: false)", ABSENT, FOUND, "--wrap-mode=nofallback"),
    Row("dependency('openblas')", FOUND, FOUND, "--wrap-mode=nodownload"),
    Row("dependency('openblas', required: false)", FOUND, FOUND, "--wrap-mode=forcefallback"),
    Row("dependency('openblas', required: false)", FOUND, FOUND, "-Dforce_fallback_for=openblas"),
    Row("dependency('openblas', required: false)", FOUND, FOUND, "-Dforce_fallback_for=blaswheel"),
    Row("dependency('openblas')", FOUND, FOUND, "-Ddefault_library=static"),
    Row("dependency('openblas')", SYSTEM, FOUND, system=True),
    Row("dependency('openblas', required: false)", SYSTEM, FOUND, system=True),
    Row("dependency('openblas', version: '>=0.3.20')", FOUND, FOUND, system=True),
    Row("dependency('openblas')", FOUND, FOUND, "--wrap-mode=forcefallback", system=True),
)


def table() -> list[str]:
    """Return the table as docs/meson.md has it."""
    lines = [
        "| form | `meson setup` | system's OpenBLAS | subproject | pkg-config |",
        "|---|---|---|---|---|",
    ]
    for row in ROWS:
        options = f"`{row.options}`" if row.options else ""
        system = "0.2.20" if row.system else "none"
        told = row.subproject
        for version, outcome in row.other:
            told += f" ({outcome} with Meson {version})"
        lines.append(f"| `{row.form}` | {options} | {system} | {told} | {row.pkg_config} |")
    return lines
