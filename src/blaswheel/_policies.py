"""Which versions of which system libraries a manylinux tag promises, and no more.

PEP 600: ``manylinux_2_N`` is for every Linux with glibc 2.N or later. What else such systems have
is in the policies that auditwheel publishes (read off release 6.8.2): per policy the libraries that
a wheel may need, and the newest versions of their symbols. glibc's versions name their minor.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: Machine to the minor of its first policy. No system is older.
FIRST = {
    "x86_64": 5,
    "i686": 5,
    "aarch64": 17,
    "armv7l": 17,
    "ppc64": 17,
    "ppc64le": 17,
    "s390x": 17,
    "riscv64": 31,
    "loongarch64": 36,
}
#: Library to the minor from which it may be needed.
LIBRARIES = {
    "libX11.so.6": 5,
    "libXext.so.6": 5,
    "libXrender.so.1": 5,
    "libICE.so.6": 5,
    "libSM.so.6": 5,
    "libGL.so.1": 5,
    "libanl.so.1": 5,
    "libatomic.so.1": 5,
    "libc.so.6": 5,
    "libdl.so.2": 5,
    "libexpat.so.1": 12,
    "libgcc_s.so.1": 5,
    "libglib-2.0.so.0": 5,
    "libgobject-2.0.so.0": 5,
    "libgthread-2.0.so.0": 5,
    "libm.so.6": 5,
    "libmvec.so.1": 24,
    "libnsl.so.1": 5,
    "libpthread.so.0": 5,
    "libresolv.so.2": 5,
    "librt.so.1": 5,
    "libstdc++.so.6": 5,
    "libutil.so.1": 5,
    "libz.so.1": 5,
}
#: Per set of versions: minor of a policy to the newest version in it.
VERSIONS = {
    "GLIBCXX": {
        5: "3.4.8",
        12: "3.4.13",
        17: "3.4.19",
        24: "3.4.22",
        27: "3.4.24",
        31: "3.4.28",
        34: "3.4.29",
        35: "3.4.30",
        39: "3.4.33",
    },
    "CXXABI": {
        5: "1.3.1",
        12: "1.3.3",
        17: "1.3.7",
        24: "1.3.10",
        27: "1.3.11",
        31: "1.3.12",
        34: "1.3.13",
        39: "1.3.15",
    },
    "GCC": {5: "4.2.0", 12: "4.3.0", 17: "4.8.0", 27: "7.0.0", 35: "12.0.0", 39: "14.0.0"},
    "ZLIB": {12: "1.2.2.4", 17: "1.2.5.2", 27: "1.2.9", 37: "1.2.12"},
    "LIBATOMIC": {24: "1.2"},
}
#: Versions that are no numbers.
WORDS = {
    "CXXABI_TM_1": 17,
    "CXXABI_FLOAT128": 24,
    # What marks the use of a feature of the loader.
    "GLIBC_ABI_DT_RELR": 36,
    "GLIBC_ABI_DT_X86_64_PLT": 42,
    "GLIBC_ABI_GNU2_TLS": 42,
    "GLIBC_ABI_GNU_TLS": 42,
}
#: The tags that came before PEP 600.
LEGACY = {5: "manylinux1", 12: "manylinux2010", 17: "manylinux2014"}


def minor(version: str) -> int | None:
    """Return the first minor of glibc whose systems have a version of symbols.

    >>> minor("GLIBC_2.27"), minor("GLIBCXX_3.4.20"), minor("CXXABI_1.3.5")
    (27, 24, 17)

    None if no policy has it: it is newer, private, or of another library.
    """
    if version in WORDS:
        return WORDS[version]
    family, _, text = version.partition("_")
    number = _number(text)
    if not number:
        return None
    if family == "GLIBC":
        return number[1] if number[0] == 2 and len(number) > 1 else None
    policies = VERSIONS.get(family, {})
    return next((each for each, newest in policies.items() if number <= _number(newest)), None)


def _number(text: str) -> tuple[int, ...]:
    parts = text.split(".")
    if not all(part.isascii() and part.isdigit() and len(part) < 6 for part in parts):
        return ()
    return tuple(map(int, parts))


def tags(minor: int, machine: str) -> Iterator[str]:
    """Yield the platform tags of a minor: PEP 600's, and the one that came before it."""
    yield f"manylinux_2_{minor}_{machine}"
    if minor in LEGACY and (minor == 17 or machine in ("x86_64", "i686")):
        yield f"{LEGACY[minor]}_{machine}"
