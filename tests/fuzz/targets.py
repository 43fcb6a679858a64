"""What is fuzzed: one function for each reader, which takes the bytes of a file.

A reader may refuse what it is given with its own error, a `BlaswheelError` of one line. Anything
else that it raises is a finding, and so is a file outside the folder that it unpacks into.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from blaswheel import (
    _ar,
    _binaries,
    _discovery,
    _elf,
    _files,
    _macho,
    _pe,
    _project,
    _rawzip,
    _roots,
    _runpath,
    _shipped,
    _verdict,
)
from blaswheel._bounded import File
from blaswheel._errors import BlaswheelError

Target = Callable[[bytes], None]

#: In memory, where there is such a place: a reader takes a path.
_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
_FOLDER = tempfile.TemporaryDirectory(prefix="blaswheel-fuzz-", dir=_MEMORY)
PLACE = Path(_FOLDER.name)


@contextmanager
def refused() -> Iterator[None]:
    """Let a reader refuse, in one line."""
    try:
        yield
    except BlaswheelError as error:
        assert error.message
        assert "\n" not in error.message + error.hint, repr(error)


def _written(name: str, data: bytes) -> str:
    path = PLACE / name
    path.write_bytes(data)
    return str(path)


def elf(data: bytes) -> None:
    """All that is read of an ELF file, and the run path written anew."""
    path = _written("elf", data)
    readers: list[Callable[[str], object]] = [
        _elf.read,
        _elf.requirements,
        lambda path: _elf.versioned_symbol(path, 2),
        _elf.alignments,
        lambda path: _elf.slots(path, {"dgemm_"}),
        _elf.constant_ranges,
        _runpath.linked,
        _runpath.entries,
        lambda _: _runpath.replaced(data, ("$ORIGIN",)),
    ]
    for read in readers:
        with refused():
            read(path)


def macho(data: bytes) -> None:
    """A Mach-O file, and each part of a universal one."""
    path = _written("macho", data)
    with refused():
        first = _macho.read(path)
        for machine in first.machines[:8]:
            with refused():
                _macho.read(path, machine)


def pe(data: bytes) -> None:
    """A DLL, as a library and as part of a wheel."""
    path = _written("pe", data)
    with refused():
        _pe.read(path)
    with refused():
        list(_binaries._read_pe("pe", path))


def ar(data: bytes) -> None:
    """An archive."""
    with refused(), File(_written("ar", data)) as file:
        _ar.parse(file)


def rawzip(data: bytes) -> None:
    """A wheel that is copied with one member changed."""
    path = _written("rawzip", data)
    with refused(), open(path, "rb") as file:
        archive = _rawzip.Archive(path, file)
        for entry in archive.entries[:8]:
            with refused(), suppress(UnicodeDecodeError):
                archive.read(entry.name.decode())
        names = [entry.name.decode("latin-1") for entry in archive.entries]
        _rawzip.copy(archive, io.BytesIO(), dict.fromkeys(names[:1], b"new"), set(names[1:2]))


def wheel(data: bytes) -> None:
    """A wheel that is unpacked, and one whose binaries are read."""
    path = _written("odd-1-py3-none-any.whl", data)
    with tempfile.TemporaryDirectory(dir=PLACE) as folder:
        inner = os.path.join(folder, "inner")
        os.mkdir(inner)
        with refused():
            chosen = [_roots.named(path)]
            _files.fill_folder_atomically(
                os.path.join(inner, "prefix"), lambda into: _roots._unpack_all(chosen, into)
            )
        assert os.listdir(folder) == ["inner"]
        for base, folders, files in os.walk(inner):
            for name in (*folders, *files):
                assert not os.path.islink(os.path.join(base, name))
    with refused():
        _binaries.scan(path)
    list(_discovery.zipped([path]))


def pc(data: bytes) -> None:
    """A ``.pc`` file that a provider ships."""
    file = _shipped.read(_written("odd.pc", data))
    assert file is not None
    assert all(len(value) <= 2 * _shipped._PC_LIMIT for value in file.variables.values())


def record(data: bytes) -> None:
    """The metadata of an installed distribution: RECORD, direct_url.json and WHEEL after zeros."""
    folder = PLACE / "site" / "odd-1.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    parts = data.split(b"\0\0", 2)
    for name, content in zip(
        ("RECORD", "direct_url.json", "WHEEL"), [*parts, b"", b""], strict=False
    ):
        # An editable distribution is read where its project is: in a folder that has nothing.
        (folder / name).write_bytes(content.replace(b"file:///", b"file:///proc/self/fdinfo/"))
    distribution = _discovery.Distribution(name="odd", version="1", root=str(PLACE / "site"))
    with refused():
        _discovery.files(distribution, str(folder))
        _discovery.listed(distribution, ".so")
        _discovery.wheel_tags(distribution)


def pyproject(data: bytes) -> None:
    """A project's settings."""
    folder = PLACE / "project"
    folder.mkdir(exist_ok=True)
    (folder / "pyproject.toml").write_bytes(data)
    with refused():
        _project.of_folder(str(folder))
    with refused():
        _project.parsed(data)


def protocol(data: bytes) -> None:
    """What the probe's child wrote, or what a library made it write."""
    first, _, rest = data.partition(b"\0")
    ends = (0, 1, 70, None)
    status = ends[first[0] % 4] if first else 0
    child = _verdict.Child(
        purpose="calls",
        families=(),
        stages=("load", "symbols", "width", "returns", "numerics"),
        output=rest,
        errors=first,
        status=status,
        signal=11 if status is None else None,
        ended_for=("timeout", "output", None)[first[1] % 3] if len(first) > 1 else None,
    )
    verdict = _verdict.judge([child], {}, "openblas")
    assert "\n" not in verdict.failure + verdict.hint


TARGETS: dict[str, Target] = {
    target.__name__: target
    for target in (elf, macho, pe, ar, rawzip, wheel, pc, record, pyproject, protocol)
}
