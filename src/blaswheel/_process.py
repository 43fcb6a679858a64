"""The libraries that this process has loaded; nothing is loaded, called or changed for it."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def libraries() -> list[str]:
    """Return the paths of the files that are loaded, in the order of their addresses or loading."""
    readers = {"darwin": _of_dyld, "win32": _of_windows}
    read = readers.get(sys.platform)
    return list(dict.fromkeys(path for path, *_ in mappings())) if read is None else read()


def mappings() -> Iterator[tuple[str, int, int, int]]:
    """Yield path, start, end and file offset of each part of a file in memory (Linux)."""
    try:
        with open("/proc/self/maps", "rb") as file:
            content = file.read()
    except OSError:
        return
    for line in content.splitlines():
        fields = line.split(None, 5)
        if len(fields) < 6 or not fields[5].startswith(b"/"):
            continue
        path = os.fsdecode(fields[5])
        if path.endswith(" (deleted)") or not os.path.isfile(path):
            continue
        start, _, end = fields[0].partition(b"-")
        yield path, int(start, 16), int(end, 16), int(fields[2], 16)


def at(address: int, ranges: list[tuple[str, int, int, int]]) -> str | None:
    """Return the file that an address belongs to."""
    return next((path for path, start, end, _ in ranges if start <= address < end), None)


def _of_dyld() -> list[str]:
    """Ask dyld (``mach-o/dyld.h``)."""
    import ctypes

    process = ctypes.CDLL(None)
    process._dyld_get_image_name.restype = ctypes.c_char_p
    names = [process._dyld_get_image_name(n) for n in range(process._dyld_image_count())]
    return [os.fsdecode(name) for name in names if name]


def _of_windows() -> list[str]:
    """Ask Windows for the modules (``psapi.h``)."""
    import ctypes

    windll = getattr(ctypes, "windll")  # noqa: B009 (of Windows only)
    kernel, psapi = windll.kernel32, windll.psapi
    kernel.GetCurrentProcess.restype = ctypes.c_void_p
    process = ctypes.c_void_p(kernel.GetCurrentProcess())
    modules = (ctypes.c_void_p * 4096)()
    needed = ctypes.c_uint32()
    size = ctypes.sizeof(modules)
    if not psapi.EnumProcessModules(process, modules, size, ctypes.byref(needed)):
        return []
    found = []
    for number in range(min(needed.value, size) // ctypes.sizeof(ctypes.c_void_p)):
        name = ctypes.create_unicode_buffer(32768)
        if kernel.GetModuleFileNameW(ctypes.c_void_p(modules[number]), name, len(name)):
            found.append(name.value)
    return found
