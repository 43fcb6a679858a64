"""Linking a small program with an offer's flags: what the export table promises, tried."""

from __future__ import annotations

import os
import shlex

from blaswheel import _pkgconfig
from blaswheel._errors import BlaswheelError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from blaswheel._offer import Offer

#: One routine of each API that every implementation of it has.
_TRIED = {"blas": "ddot", "lapack": "dgesv", "cblas": "cblas_ddot", "lapacke": "LAPACKE_dgesv"}


def check(offer: Offer, text: str, folder: str | None) -> None:
    """Link a program that uses one routine of each API, with ``$CC`` or ``cc``.

    Parameters
    ----------
    text : str
        That of the ``.pc`` file: what a pkg-config reads of it is linked with, where there is one.
    folder : str, optional
        The file's, if its paths are relative to it.

    Raises
    ------
    BlaswheelError
        If there is no compiler, or it does not link; the linker's first complaint is told.
    """
    import subprocess
    import tempfile

    names = []
    for api, family in offer.families.items():
        stem = _TRIED[api]
        if offer.names is None:
            names.append(family.prefix + stem + family.suffix)
        else:
            names.append(offer.names.scheme.name(stem, fortran=api in ("blas", "lapack")))
    # In a table: a compiler knows that no function's address is zero, and would leave out a test.
    lines = [f"void {name}(void);" for name in names]
    lines += [
        f"void (*const volatile used[])(void) = {{{', '.join(names)}}};",
        "int main(void) { return used[0] == 0; }",
    ]
    compiler = shlex.split(os.environ.get("CC") or "cc")
    with tempfile.TemporaryDirectory() as scratch:
        source = os.path.join(scratch, "check.c")
        with open(source, "w", encoding="ascii") as file:
            file.write("\n".join(lines) + "\n")
        flags = _read_back(text, folder or scratch)
        if flags is None:
            flags = offer.link_args()
        command = [*compiler, source, *flags, "-o", os.path.join(scratch, "check")]
        try:
            reply = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
            )
        except OSError as error:
            raise BlaswheelError(
                f"--check-link: {compiler[0]}: {error.strerror}",
                "install a C compiler, or name it in CC",
            ) from error
    if reply.returncode != 0:
        complaint = next((line for line in reply.stderr.splitlines() if line.strip()), "no message")
        raise BlaswheelError(
            f"--check-link: {compiler[0]} does not link {offer.library.title}: {complaint}",
            "blaswheel show tells what the library has",
        )


def _read_back(text: str, folder: str) -> list[str] | None:
    """Return the link flags that pkg-config reads from a file in ``folder``; None without one."""
    import subprocess

    try:
        program = _pkgconfig.working(os.environ)
    except BlaswheelError:
        return None
    path = os.path.join(folder, f".blaswheel-check-{os.getpid()}.pc")
    try:
        with open(path, "wb") as file:
            file.write(text.encode("utf-8", "surrogateescape"))
        reply = subprocess.run(
            [program, "--libs", path],
            # PyPI's pkgconf warns where this is not set.
            env={**os.environ, "PKG_CONFIG_PATH": folder},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    finally:
        if os.path.exists(path):
            os.unlink(path)
    if reply.returncode != 0:
        lines = os.fsdecode(reply.stderr).splitlines()
        raise BlaswheelError(
            f"--check-link: {program} can't read the file: {lines[0] if lines else 'no message'}",
            "leave --check-link out, or name another pkg-config in PKG_CONFIG",
        )
    return shlex.split(os.fsdecode(reply.stdout))
