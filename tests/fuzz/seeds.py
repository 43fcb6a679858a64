"""``python -m tests.fuzz.seeds``: make the seeds of the corpus again, by clang, LLD and zipfile."""

from __future__ import annotations

import io
import struct
import subprocess
import tempfile
import zipfile
from pathlib import Path

from tests.fuzz import CORPUS

SOURCE = """
extern int other(int);
int number = 7;
int ddot_(int n) { return n + number; }
int dgemm_(int n) { return ddot_(n) + other(n); }
int cblas_dgemm(int n) { return dgemm_(n); }
"""
ELF = {"x86_64-linux-gnu": "elf_x86_64", "i686-linux-gnu": "elf_i386", "s390x-linux-gnu": ""}
MACHO = "x86_64-apple-macos10.14"
PC = b"""prefix=${pcfiledir}/../..
libdir=${prefix}/lib
# a comment
Name: odd
Description: An odd one: with a colon
Version: 1.2
Libs: -L${libdir} -lodd ${extra}
Cflags: -I"${prefix}/include dir" -DX=1
"""
RECORD = b"""odd/lib/libodd.so,sha256=abc,12
"odd/a, ""b"".so.1",,
../../../lib/odd.dll,,
odd/include/cblas.h,,
odd-1.dist-info/direct_url.json,,
\0\0{"url": "file:///x", "dir_info": {"editable": true}}\0\0Wheel-Version: 1.0
Tag: py3-none-any
"""
PYPROJECT = b"""[build-system]
requires = ["blaswheel"]
[tool.blaswheel]
interface = "lp64"
provider = "scipy-openblas32==0.3.34"
symbol-prefix = ""
"""
PROTOCOL = b"""\x00\x02\x00protocol=1
load.ok=yes
identity.openblas_config=OpenBLAS 0.3.34 DYNAMIC_ARCH
identity.openblas_threads=4
symbols.missing=2
symbols.missing_name=dsysv_
width.0=lp64
width.answers=12
returns.complex=register
stage=numerics.dgemm.33
numerics.dgemm.33=ok
"""


def run(*command: str | Path) -> None:
    subprocess.run([str(word) for word in command], check=True)


def keep(reader: str, name: str, content: bytes) -> None:
    folder = CORPUS / reader
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)


def compiled(folder: Path, target: str) -> Path:
    source, output = folder / "odd.c", folder / f"{target}.o"
    source.write_text(SOURCE)
    options = [] if "windows" in target else ["-fPIC"]
    run(
        "clang", f"--target={target}", "-c", "-Os", "-ffreestanding", *options, source, "-o", output
    )
    return output


def universal(content: bytes) -> bytes:
    """Return a universal file with one part, which two entries share."""
    kinds = ((0x01000007, 3), (0x0100000C, 0))
    parts = b"".join(struct.pack(">5I", *kind, 64, len(content), 6) for kind in kinds)
    return (struct.pack(">II", 0xCAFEBABE, len(kinds)) + parts).ljust(64, b"\0") + content


def binaries(folder: Path) -> None:
    output = folder / "output"
    for target, emulation in ELF.items():
        built = compiled(folder, target)
        if emulation:
            options = ["-m", emulation, "-shared", "-s", "-soname=libodd.so.1", "-rpath=$ORIGIN/x"]
            run(
                "ld.lld",
                *options,
                "-z",
                "max-page-size=64",
                "--hash-style=both",
                built,
                "-o",
                output,
            )
            keep("elf", target, output.read_bytes())
        archive = folder / f"{target}.a"
        run("ar", "rcs", archive, built)
        keep("ar", target, archive.read_bytes())
    options = ["-arch", "x86_64", "-platform_version", "macos", "10.14", "10.14", "-dylib"]
    options += ["-undefined", "dynamic_lookup"]
    run("lld", "-flavor", "darwin", *options, compiled(folder, MACHO), "-o", output)
    keep("macho", MACHO, output.read_bytes())
    keep("macho", "universal", universal(output.read_bytes()))
    built = compiled(folder, "x86_64-pc-windows-msvc")
    # Nothing there exports what it wants.
    options = ["/dll", "/noentry", "/nodefaultlib", "/force:unresolved", "/export:dgemm_"]
    run("lld-link", *options, "/export:number,DATA", f"/out:{output}.dll", built)
    keep("pe", "x86_64", Path(f"{output}.dll").read_bytes())
    keep("ar", "import", Path(f"{output}.lib").read_bytes())


def wheels() -> None:
    library = (CORPUS / "elf" / "x86_64-linux-gnu").read_bytes()
    for name, method in (
        ("stored", zipfile.ZIP_STORED),
        ("deflated", zipfile.ZIP_DEFLATED),
        ("lzma", zipfile.ZIP_LZMA),
        ("bzip2", zipfile.ZIP_BZIP2),
    ):
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w", method) as archive:
            members = {
                "odd/libodd.so": library[:1024],
                "odd-1.data/data/lib/odd.a": b"!<arch>\n",
                "odd-1.dist-info/METADATA": b"Name: odd\n",
                "odd-1.dist-info/RECORD": b"odd/libodd.so,,\n",
            }
            for member, text in members.items():
                archive.writestr(zipfile.ZipInfo(member), text, method)
        keep("wheel", name, content.getvalue())
        if method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            keep("rawzip", name, content.getvalue())


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        binaries(Path(folder))
    wheels()
    keep("pc", "usual", PC)
    keep("record", "usual", RECORD)
    keep("pyproject", "usual", PYPROJECT)
    keep("protocol", "usual", PROTOCOL)


if __name__ == "__main__":
    main()
