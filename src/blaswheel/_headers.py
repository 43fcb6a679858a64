"""C headers that declare the names a consumer calls, made from those that a provider ships.

A provider's headers declare its own names, often not even those that its library exports, and
leave the integer width to a macro on the command line. Each generated header is the provider's
text with the declared names replaced and the width fixed, together with the provider's files that
it includes: a folder of them needs nothing else, can be moved, and can't be mixed up with the
headers of another library. Only names, the macros that make names, and the width are touched.
"""

from __future__ import annotations

import os
import re

from blaswheel._errors import FormatError
from blaswheel._naming import C_NAMESPACES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from blaswheel._names import Family
    from blaswheel._naming import Names, Scheme

# The headers that consumers include, and the provider's files that they are made from, best first.
_SOURCES = {
    "cblas.h": ("cblas.h",),
    "f77blas.h": ("f77blas.h",),
    "lapack.h": ("lapack.h",),
    "lapacke.h": ("lapacke.h",),
    "lapacke_utils.h": ("lapacke_utils.h",),
}

# Limits on what a provider may have us read: the largest header known has 0.9 MB.
_FILE_LIMIT = 16 << 20
_FILES_LIMIT = 64

# Macros that make integers 64 bits wide, and the integer types whose width a header is checked
# for.
_WIDTH_MACROS = ("LAPACK_ILP64", "OPENBLAS_USE64BITINT")
_OTHER_WIDTH_MACROS = ("MKL_ILP64", "NVPL_ILP64")
_INTEGERS = (b"blasint", b"lapack_int", b"MKL_INT", b"nvpl_int_t")

# Macros that make a Fortran symbol of a routine's name.
_MANGLING = rb"(?:BLASFUNC|LAPACK_GLOBAL(?:_SUFFIX)?)"

_NAMESPACES = (*C_NAMESPACES, "lapack_make_complex_")

# The patterns begin with a literal character, which makes them fast on a megabyte of text, and
# have no two repetitions that could share a text, which keeps them linear on a hostile one.
# A macro may stand for the name of a file (NVPL's configuration).
_INCLUDE = re.compile(rb'#[ \t]*(?:include|define[ \t]+\w{1,64}_H_FILE)[ \t]*"([\w.-]+)"')
_WIDTH_DEFINITION = re.compile(
    rf"#[ \t]*define[ \t]+(?:{'|'.join(_WIDTH_MACROS + _OTHER_WIDTH_MACROS)})\b[^\r\n]*".encode()
)
_MANGLING_DEFINITION = re.compile(
    rb"(#[ \t]*define[ \t]+" + _MANGLING + rb"\([ \t]*(\w{1,64})\b[^)\r\n]*\))([^\r\n]*)"
)
_MANGLED = re.compile(_MANGLING + rb"\([ \t]*(\w+)")
_COMMENT = re.compile(rb"/\*(?:.*?\*/|.*)|//[^\n]*", re.DOTALL)
_DIRECTIVE = re.compile(rb"#[^\\\n]*(?:\\.[^\\\n]*)*", re.DOTALL)
_CALL = re.compile(rb"\b(\w+)\s*\(")
_MACRO = re.compile(rb"#[ \t]*define[ \t]+(\w+)")
_WORD = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"
_IN_NAMESPACE = re.compile("|".join(_NAMESPACES).encode())


def read(
    include_dirs: Sequence[str], stand_ins: Iterable[tuple[str, str]] = ()
) -> dict[str, bytes]:
    """Return the provider's BLAS and LAPACK headers and what they include of its own, by name.

    Parameters
    ----------
    include_dirs : sequence of str
    stand_ins : iterable of (str, str)
        The standard name of a header, and the provider's own for what it holds.

    Raises
    ------
    FormatError
        If they are larger or more than any known provider's by far.
    """
    headers: dict[str, bytes] = {}
    wanted = list(_SOURCES)
    own = dict(stand_ins)
    for name in wanted:
        sources = [own[name]] if name in own else []
        sources += _SOURCES.get(name, (name,))
        text = next(filter(None, (_find(source, include_dirs) for source in sources)), None)
        if text is None:
            continue
        headers[name] = text
        wanted += sorted({found.decode() for found in _INCLUDE.findall(text)} - set(wanted))
        if len(wanted) > _FILES_LIMIT:
            raise FormatError(
                f"{include_dirs[0]}: the BLAS headers include more than {_FILES_LIMIT} files",
                "use the provider's own headers: --native",
            )
    return headers


def generate(
    include_dirs: Sequence[str],
    names: Names,
    families: Iterable[Family],
    *,
    ilp64: bool,
    stand_ins: Iterable[tuple[str, str]] = (),
    both: bool = False,
) -> dict[str, bytes]:
    """Return headers that declare the names a consumer calls: file name to content.

    Only headers that the provider has are among them. A function that the provider declares
    without having it stays declared, under the name it would have; `declared` tells which names a
    set of headers promises. The same input gives the same bytes.

    Parameters
    ----------
    include_dirs : sequence of str
        The provider's, searched in this order.
    names : Names
        The consumer's names and how the library serves them.
    families : iterable of Family
        The library's own names. Headers may use them, one half of them, or plain names.
    ilp64 : bool
        Whether the library's integers have 64 bits.
    stand_ins : iterable of (str, str)
        As for `read`.
    both : bool
        Whether the provider's headers declare names for both widths: those that say 64, and
        plain ones whose width a macro decides. Then only the latter become the consumer's.

    Raises
    ------
    FormatError
        If the headers are larger or more than any known provider's by far.
    """
    natives = [
        (family.prefix, family.suffix) for family in families if family.api in ("cblas", "lapacke")
    ]
    headers = read(include_dirs, stand_ins)
    kept = tuple(suffix for _, suffix in natives if "64" in suffix) if both else ()
    if kept:
        natives = [(prefix, suffix) for prefix, suffix in natives if suffix not in kept]
    renames = _Renames(names.scheme, natives, names.offered, kept)
    read_here = [
        macro
        for macro in _OTHER_WIDTH_MACROS
        if any(macro.encode() in text for text in headers.values())
    ]
    width = "".join(
        f"#undef {macro}\n" + (f"#define {macro}\n" if ilp64 else "")
        for macro in (*_WIDTH_MACROS, *read_here)
    )
    interface = "ILP64" if ilp64 else "LP64"
    preamble = (
        "/* Made by blaswheel from the provider's header of this name: its names and integers are\n"
        f"   those of the {interface} library that it was made for. */\n{width}"
    ).encode()
    return {
        name: b"".join((preamble, renames.apply(text), _check(name, text, ilp64)))
        for name, text in headers.items()
    }


def declared(headers: Mapping[str, bytes]) -> dict[str, frozenset[str]]:
    """Return the functions that each of ``headers`` declares, as symbols.

    Both a provider's headers and generated ones will do.
    """
    spelling = (b"", b"_")
    for text in headers.values():
        for _start, parameter, body in _MANGLING_DEFINITION.findall(text):
            around = body.replace(b"##", b"").strip().split(parameter)
            if b"##" in body and len(around) == 2:
                spelling = around[0].strip(), around[1].strip()
                break
    found = {}
    for name, text in headers.items():
        plain = _COMMENT.sub(b" ", text)
        mangled = {
            spelling[0] + stem + spelling[1]
            for stem in _MANGLED.findall(_MANGLING_DEFINITION.sub(b"", plain))
        }
        called = set(_CALL.findall(_DIRECTIVE.sub(b"", plain)))
        symbols = mangled.union(filter(_IN_NAMESPACE.search, called))
        found[name] = frozenset(symbol.decode("ascii", "replace") for symbol in symbols)
    return found


def garbled(suffixes: Iterable[str]) -> list[bytes]:
    """Return what no C has, and some headers do that were renamed by a script.

    scipy-openblas64 0.3.27.63 has ``typedef void (*openblas_dojob_callback64_)64_(int ...``.
    """
    return [f"){suffix}(".encode() for suffix in suffixes if suffix[:1].isdigit()]


def _find(name: str, include_dirs: Sequence[str]) -> bytes | None:
    """Return the content of the first file called ``name`` in the folders, None without one."""
    for folder in include_dirs:
        path = os.path.join(folder, name)
        try:
            with open(path, "rb") as file:
                text = file.read(_FILE_LIMIT + 1)
        except OSError:
            continue
        if len(text) > _FILE_LIMIT:
            raise FormatError(
                f"{path}: larger than {_FILE_LIMIT >> 20} MB, not a BLAS header",
                "use the provider's own headers: --native",
            )
        return text
    return None


def _check(name: str, text: bytes, ilp64: bool) -> bytes:
    """Return declarations that do not compile where the integers have not the library's width."""
    if name not in _SOURCES:
        return b""
    integer = next((integer for integer in _INTEGERS if integer in text), None)
    if integer is None:
        return b""
    bits = 64 if ilp64 else 32
    guard = f"BLASWHEEL_{re.sub(r'[^A-Z0-9]', '_', name.upper())}"
    stem = name.partition(".")[0]
    kind = integer.decode()
    return (
        f"\n#ifndef {guard}\n#define {guard}\n"
        f"typedef char blaswheel_{stem}_{kind}_has_{bits}_bits"
        f"[sizeof({kind}) == {bits // 8} ? 1 : -1];\n#endif\n"
    ).encode()


class _Renames(dict[bytes, bytes]):
    """From an identifier in a provider's header to what a generated one has in its place."""

    def __init__(
        self,
        scheme: Scheme,
        natives: list[tuple[str, str]],
        offered: Container[str],
        kept: Iterable[str] = (),
    ) -> None:
        super().__init__()
        self._offered = offered
        self._kept = tuple(suffix.encode() for suffix in kept)
        self._prefix = scheme.prefix.encode()
        self._suffix = scheme.suffix.encode()
        self._fortran_suffix = scheme.fortran_suffix.encode()
        # The longest first, as one may be the beginning or end of another; nothing last.
        prefixes = sorted({prefix for prefix, _ in natives} | {""}, key=len, reverse=True)
        suffixes = sorted({suffix for _, suffix in natives} | {""}, key=len, reverse=True)
        self._native_prefixes = [prefix.encode() for prefix in prefixes]
        self._native_suffixes = [suffix.encode() for suffix in suffixes]
        self._macros: set[bytes] = set()
        self._garbled = garbled(suffixes)

        every = tuple(self._native_prefixes)
        self._namespaces = {space.encode(): every for space in _NAMESPACES}
        if any(prefix + suffix for prefix, suffix in natives):
            # Macros like LAPACK_dgesv, decorated by mistake where all of LAPACKE is.
            self._namespaces |= {each + b"LAPACK_": (b"",) for each in every[:-1] or every}
        self._mangling = rb"\1 %b\2##%b" % (
            self._prefix and self._prefix + b"##",
            self._fortran_suffix,
        )

    def apply(self, text: bytes) -> bytes:
        """Return a header's text with the consumer's names."""
        for word in self._garbled:
            text = text.replace(word, b")(")
        self._macros.update(_MACRO.findall(text))
        text = _WIDTH_DEFINITION.sub(b"", text)
        text = _MANGLING_DEFINITION.sub(self._mangling, text)
        done = 0
        pieces: list[bytes] = []
        for start, end in sorted(self._found(text)):
            if start >= done:
                pieces += text[done:start], self[text[start:end]]
                done = end
        return b"".join((*pieces, text[done:]))

    def _found(self, text: bytes) -> Iterator[tuple[int, int]]:
        """Find the names in a text: where each begins and ends.

        One search for each namespace, as a search for a literal text is fast, and one for any of
        several is not.
        """
        for space, prefixes in self._namespaces.items():
            if space not in text:
                continue
            for match in re.finditer(re.escape(space) + rb"\w+", text):
                start, end = match.span()
                if text.startswith(b".h", end):
                    continue  # a file that is included
                for prefix in prefixes:
                    first = start - len(prefix)
                    if first < 0 or not text.startswith(prefix, first):
                        continue
                    if not first or text[first - 1] not in _WORD:
                        yield first, end
                        break

    def __missing__(self, found: bytes) -> bytes:
        replacement = self[found] = self._rename(found)
        return replacement

    def _rename(self, found: bytes) -> bytes:
        if self._kept and found.endswith(self._kept):
            return found
        for prefix in self._native_prefixes:
            if found.startswith(prefix):
                break
        for suffix in self._native_suffixes:
            if found.endswith(suffix):
                break
        stem = found[len(prefix) : len(found) - len(suffix)]
        if found in self._macros or stem.startswith(b"LAPACK_"):
            # No symbol: consumers know macros by their plain names, whatever the library's.
            return stem
        name = self._prefix + stem + self._suffix
        if prefix or suffix or stem.startswith((b"cblas_", b"LAPACKE_")) or self._serves(name):
            return name
        # A vendor's function for Fortran, spelled out: openblas_set_num_threads_.
        if stem.endswith(b"_"):
            name = self._prefix + stem[:-1] + self._fortran_suffix
            if self._serves(name):
                return name
        return found  # a type

    def _serves(self, name: bytes) -> bool:
        return name.decode("ascii") in self._offered
