"""Debian's packages, unpacked and not installed: an installed BLAS would serve other tests."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.build_wheel import cache, lock


def unpacked(*packages: str) -> Path:
    """Return a folder with the files of these packages of the system's release and machine."""
    folder = cache() / "debian" / f"{packages[0]}-and-{len(packages) - 1}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with lock(folder.with_name(f"{folder.name}.lock")):
        if folder.is_dir():
            return folder
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".") as temporary:
            root = Path(temporary) / "root"
            command = ["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", *packages]
            for attempt in (1, 2):
                done = subprocess.run(
                    command, cwd=temporary, capture_output=True, text=True, check=False
                )
                if done.returncode == 0 or attempt == 2:
                    break
                subprocess.run(["apt-get", "-qq", "update"], check=False, capture_output=True)
            if done.returncode != 0:
                pytest.fail(f"apt-get download {packages}: {done.stderr}", pytrace=False)
            for file in sorted(Path(temporary).glob("*.deb")):
                subprocess.run(["dpkg", "-x", str(file), str(root)], check=True)
            root.chmod(0o755)
            root.rename(folder)
    return folder
