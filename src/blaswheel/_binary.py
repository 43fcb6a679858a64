"""What a binary file states about itself, whatever its format: one record for all readers."""

from __future__ import annotations

from blaswheel._errors import FormatError
from blaswheel._record import Record


class Binary(Record):
    """One library file, as its dynamic tables describe it.

    Names are decoded as UTF-8 with ``surrogateescape``, so that any byte string survives. For
    Mach-O the leading underscore of C names has been removed.
    """

    path: str
    #: ``elf``, ``macho``, ``pe`` or ``ar``
    format: str
    #: as in wheel tags: ``x86_64``, ``aarch64``, ``i686``, ``ppc64le``, ``s390x``, ``riscv64``, ...
    machine: str
    #: word size, 32 or 64
    bits: int
    #: ``little`` or ``big``
    byte_order: str
    #: SONAME (ELF), install name (Mach-O), DLL name in the export table (PE)
    soname: str | None = None
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()
    #: exported function names (code, not data), sorted
    functions: tuple[str, ...] = ()
    #: exported data names, sorted
    objects: tuple[str, ...] = ()
    #: names that the library wants from others, sorted
    imports: tuple[str, ...] = ()
    #: (file, version) pairs that the library needs from others, e.g. ("libc.so.6", "GLIBC_2.17")
    version_needs: tuple[tuple[str, str], ...] = ()
    #: exported names that the library itself reaches through its PLT or GOT: another library
    #: that exports the same name in the same scope can take them over. Empty if it binds
    #: symbolically.
    interposable: tuple[str, ...] = ()
    #: whether the library binds its own names to itself (DF_SYMBOLIC, two-level namespace)
    symbolic: bool = False


def read(path: str) -> Binary:
    """Read the library file at ``path``, choosing the reader by its magic number.

    Raises
    ------
    FormatError
        If the file is of no known format, or malformed.
    OSError
        If it can't be opened.
    """
    with open(path, "rb") as file:
        magic = file.read(8)
    if magic[:4] == b"\x7fELF":
        from blaswheel import _elf

        return _elf.read(path)
    raise FormatError(
        f"{path}: not a library of a known format" if magic else f"{path}: empty file",
        "give the path of an ELF shared library",
    )
