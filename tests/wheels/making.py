"""Small wheels with binaries in them, made for a test."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path


def wheel(
    folder: Path,
    members: Mapping[str, bytes | Path],
    tags: str = "py3-none-linux_x86_64",
    *,
    inner: str | None = None,
    name: str = "demo-1.0",
) -> Path:
    """Write a wheel with these members; ``inner`` are the tags inside, if they are others."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{tags}.whl"
    info = f"{name}.dist-info"
    content = {key: _bytes(value) for key, value in members.items()}
    content[f"{info}/METADATA"] = b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"
    content[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: false\nTag: {inner or tags}\n"
    ).encode()
    lines = [f"{key},sha256={_digest(value)},{len(value)}" for key, value in content.items()]
    content[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,", ""]).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, value in content.items():
            archive.writestr(key, value)
    return path


def _bytes(value: bytes | Path) -> bytes:
    return value if isinstance(value, bytes) else value.read_bytes()


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def library(folder: Path, source: str, *options: str, name: str = "libdemo.so") -> Path:
    """Compile a shared library."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    (folder / f"{name}.c").write_text(source)
    command = ["gcc", "-shared", "-fPIC", f"{name}.c", *options, "-o", path]
    subprocess.run(command, cwd=folder, check=True)
    return path
