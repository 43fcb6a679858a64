"""What a binary file states about itself, whatever its format: one record for all readers."""

from __future__ import annotations

from blaswheel._errors import FormatError
from blaswheel._record import Record

#: Of thin files, both word sizes and byte orders, and of universal ones.
MACHO_MAGICS = ("feedface", "feedfacf", "cefaedfe", "cffaedfe", "cafebabe", "cafebabf")


class Binary(Record):
    """One library file, as its dynamic tables describe it.

    Names are decoded as UTF-8 with ``surrogateescape``, so that any byte string survives. For
    Mach-O the leading underscore of C names has been removed.
    """

    path: str
    #: ``elf``, ``macho``, ``pe`` or ``ar``
    format: str
    #: of an archive's members: ``elf``, ``macho`` or ``pe``; empty if it is none
    object_format: str = ""
    #: as in wheel tags: ``x86_64``, ``aarch64``, ``i686``, ``ppc64le``, ``s390x``, ``riscv64``, ...
    machine: str
    #: word size, 32 or 64
    bits: int
    #: ``little`` or ``big``
    byte_order: str
    #: what a program linked with it asks the loader for: SONAME (ELF), install name (Mach-O), DLL
    #: name in the export table (PE), the one DLL of an import library (ar)
    soname: str | None = None
    #: the libraries it asks for, also those it can do without (weak, delayed), in order
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()
    #: exported function names (code, not data), sorted; all names in the index of an archive
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
    #: (platform, oldest version) it declares to run on, e.g. ("macos", "11.0")
    minimum_os: tuple[str, str] | None = None
    #: the machines of all parts of a universal file (Mach-O), in order; empty if it is none
    machines: tuple[str, ...] = ()
    #: (name, target) of exported names that are another library's: "DLL.name" or "DLL.#number"
    #: (PE), the name there (Mach-O)
    forwards: tuple[tuple[str, str], ...] = ()
    #: the needed libraries whose names count as its own to a linker (Mach-O)
    reexports: tuple[str, ...] = ()
    #: whether the tables are those of several files together
    joined: bool = False

    @property
    def system(self) -> str:
        """The format of the objects in it, or its own: ``elf``, ``macho`` or ``pe``."""
        return self.object_format or self.format


def read(path: str, machine: str | None = None) -> Binary:
    """Read the library file at ``path``, choosing the reader by its magic number.

    Parameters
    ----------
    path : str
        An ELF or Mach-O shared library, a DLL, a static archive or an import library.
    machine : str, optional
        Which part of a universal file; by default this machine's, else the first.

    Raises
    ------
    FormatError
        If the file is of no known format, or malformed.
    OSError
        If it can't be opened.
    """
    from blaswheel._bounded import File

    with File(path) as file:
        magic = file.at(0, min(8, file.size), "file header")
        if magic[:4] == b"\x7fELF":
            from blaswheel import _elf

            return _elf.read(path)
        if magic[:2] == b"MZ":
            from blaswheel import _pe

            return _pe.parse(file)
        if magic in (b"!<arch>\n", b"!<thin>\n"):
            from blaswheel import _ar

            return _ar.parse(file)
        if magic[:4].hex() in MACHO_MAGICS:
            from blaswheel import _macho

            return _macho.parse(file, machine)
    raise FormatError(
        f"{path}: not a library of a known format" if magic else f"{path}: empty file",
        "give the path of a shared library, a DLL or an archive",
    )
