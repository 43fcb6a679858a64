"""The rules of each loader, on records of files that are nowhere."""

from __future__ import annotations

from blaswheel import _loader
from blaswheel._binary import Binary


def made(path: str, kind: str, **fields: tuple[str, ...] | str) -> tuple[str, Binary]:
    binary = Binary(
        path=path, format=kind, machine="x86_64", bits=64, byte_order="little", **fields
    )
    return path, binary


def missing(files: dict[str, Binary], path: str = "/s/pkg/m") -> list[str]:
    return [one.name for one in _loader.load(path, files).missing]


def test_run_paths_are_inherited_and_the_newer_ones_not() -> None:
    a = made("/s/libs/a.so", "elf", needed=("b.so",))
    b = made("/s/libs/b.so", "elf")
    for field, lost in (("rpath", []), ("runpath", ["b.so"])):
        module = made(
            "/s/pkg/m", "elf", needed=("a.so", "libc.so.6"), **{field: ("$ORIGIN/../libs",)}
        )
        assert missing(dict([module, a, b])) == lost
    # One with a RUNPATH does not look at what it would have inherited.
    module = made("/s/pkg/m", "elf", needed=("a.so",), rpath=("$ORIGIN/../libs",))
    a = made("/s/libs/a.so", "elf", needed=("b.so",), runpath=("$ORIGIN/../other",))
    assert missing(dict([module, a, b])) == ["b.so"]


def test_what_is_loaded_already_serves_by_its_soname() -> None:
    module = made("/s/pkg/m", "elf", needed=("b-1.so", "a.so"), runpath=("${ORIGIN}/../libs",))
    b = made("/s/libs/b-1.so", "elf", soname="b.so")
    a = made("/s/libs/a.so", "elf", needed=("b.so",))
    assert missing(dict([module, a, b])) == []
    # What a file itself needs comes before what its libraries need, in whatever order.
    module = made("/s/pkg/m", "elf", needed=("a.so", "b-1.so"), runpath=("${ORIGIN}/../libs",))
    assert missing(dict([module, a, b])) == []
    module = made("/s/pkg/m", "elf", needed=("a.so",), runpath=("${ORIGIN}/../libs",))
    assert missing(dict([module, a, b])) == ["b.so"]


def test_macos() -> None:
    module = made(
        "/s/pkg/m", "macho", needed=("@rpath/a.dylib", "/usr/lib/libSystem.B.dylib"),
        rpath=("@loader_path/.dylibs",),
    )  # fmt: skip
    a = made("/s/pkg/.dylibs/a.dylib", "macho", needed=("@rpath/b.dylib", "@loader_path/c.dylib"))
    b = made("/s/pkg/.dylibs/b.dylib", "macho", needed=("/opt/x/d.dylib",))
    c = made("/s/pkg/.dylibs/c.dylib", "macho")
    # @rpath is that of the file that brought it in as well.
    assert missing(dict([module, a, b, c])) == ["/opt/x/d.dylib"]
    assert missing(dict([module, a, c])) == ["@rpath/b.dylib"]


def test_windows() -> None:
    needed = ("KERNEL32.dll", "python312.dll", "A.dll", "api-ms-win-crt-math-l1-1-0.dll")
    module = made("/s/pkg/m", "pe", needed=needed)
    beside = made("/s/pkg/a.DLL", "pe", needed=("b-1234.dll",))
    added = made("/s/pkg.libs/b-1234.dll", "pe")
    assert missing(dict([module, beside, added])) == []
    assert missing(dict([module, added])) == ["A.dll"]
    beside = made("/s/pkg.libs/a.DLL", "pe", needed=("b-1234.dll",))
    assert missing(dict([module, beside, added])) == []
    assert missing(dict([module, beside])) == ["b-1234.dll"]


def test_circles_end() -> None:
    a = made("/s/pkg/m", "elf", needed=("b.so",), rpath=("$ORIGIN",))
    b = made("/s/pkg/b.so", "elf", needed=("m", "b.so"), rpath=("$ORIGIN",))
    loaded = _loader.load("/s/pkg/m", dict([a, b]))
    assert loaded.missing == () and loaded.files == ("/s/pkg/m", "/s/pkg/b.so")
