"""Build what a release of blaswheel consists of: ``python tools/release [OPTIONS]``.

The source distribution, and a wheel for each platform of `TARGETS`. All wheels have the same
Python code; the probe in each is compiled by PyPI's ``ziglang``, which brings the headers and the
oldest C library of every target. Each wheel gets the platform tag that ``blaswheel tag`` works
out; if that is not the one in `TARGETS`, the release stops.

It runs with the Python of an environment that has blaswheel with its test extra (``build``,
``ziglang``). Two runs give the same files; times are those of ``SOURCE_DATE_EPOCH``, else of the
last commit.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from blaswheel import _retag, _tag, _wheel

ROOT = Path(__file__).resolve().parent.parent.parent
PROBE = "blaswheel-probe"
FLAGS = ("-std=c11", "-O2", "-DNDEBUG", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wconversion",
         "-Werror", "-s")  # fmt: skip


class Target(NamedTuple):
    """A platform: zig's name for it, the tag that its wheel must have, and more options."""

    zig: str
    tag: str
    options: tuple[str, ...] = ()


#: musl's loader can open libraries in programs alone that are linked with musl as a library.
_MUSL = ("-dynamic",)
#: Before glibc 2.34 ``dlopen`` is in a library of its own.
_GLIBC = ("-ldl",)
TARGETS = {
    **{
        f"manylinux-{machine}": Target(
            f"{name}-linux-gnu.{glibc}",
            f"manylinux2014_{machine}.manylinux_2_17_{machine}",
            (*_GLIBC, *options),
        )
        for machine, name, glibc, options in (
            ("x86_64", "x86_64", "2.17", ()),
            ("aarch64", "aarch64", "2.17", ()),
            # The oldest that zig has; what the probe needs of it was there in 2.17, but for
            # printf with the long double of newer compilers.
            ("ppc64le", "powerpc64le", "2.19", ("-mabi=ibmlongdouble",)),
            ("s390x", "s390x", "2.17", ()),
        )
    },
    **{
        f"musllinux-{machine}": Target(f"{name}-linux-musl", f"musllinux_1_2_{machine}", _MUSL)
        for machine, name in (
            ("x86_64", "x86_64"),
            ("aarch64", "aarch64"),
            ("ppc64le", "powerpc64le"),
            ("s390x", "s390x"),
        )
    },
    "macos-x86_64": Target("x86_64-macos.10.13", "macosx_10_13_x86_64"),
    "macos-arm64": Target("aarch64-macos.11.0", "macosx_11_0_arm64"),
    "windows-amd64": Target("x86_64-windows-gnu", "win_amd64"),
    "windows-arm64": Target("aarch64-windows-gnu", "win_arm64"),
}


def main() -> None:
    """Build all, or what is asked for, and print the paths."""
    parser = argparse.ArgumentParser(prog="python tools/release", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("-o", dest="folder", default="dist", type=Path, help="default: dist")
    parser.add_argument("--only", action="append", choices=TARGETS, help="repeatable")
    parser.add_argument("--sdist", type=Path, help="take this one, and build none")
    options = parser.parse_args()
    os.environ.setdefault("SOURCE_DATE_EPOCH", last_commit())
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="blaswheel-release-") as scratch:
        sdist = options.sdist or built(ROOT, options.folder, "--sdist")
        sys.stdout.write(f"{sdist}\n")
        source = unpacked(sdist, Path(scratch))
        base = built(source, Path(scratch) / "base", "--wheel")
        for name in options.only or TARGETS:
            made = wheel(base, source, TARGETS[name], options.folder)
            sys.stdout.write(f"{made}\n")
            sys.stdout.flush()


def last_commit() -> str:
    """Return the time of the last commit, in seconds since 1970."""
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    try:
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        sys.exit("no time for the files: set SOURCE_DATE_EPOCH, or run from a checkout")


def built(source: Path, folder: Path, what: str) -> Path:
    """Return the distribution that ``build`` makes of a source tree."""
    made = run(sys.executable, "-m", "build", what, "--outdir", folder, source)
    name = made.strip().splitlines()[-1].removeprefix("Successfully built ").strip()
    return folder / name


def unpacked(sdist: Path, folder: Path) -> Path:
    """Unpack a source distribution, and return its folder."""
    with tarfile.open(sdist) as archive:
        # Not every 3.10 and 3.11 has the argument filter.
        members = archive.getmembers()
        unsafe = [one.name for one in members if one.name.startswith("/") or ".." in one.name]
        if unsafe:
            sys.exit(f"{sdist}: {unsafe[0]} would be written elsewhere")
        archive.extractall(folder)
    return folder / members[0].name.partition("/")[0]


def wheel(base: Path, source: Path, target: Target, folder: Path) -> Path:
    """Write the wheel for a platform: that of this machine with another probe and another tag."""
    windows = "windows" in target.zig
    with tempfile.TemporaryDirectory(prefix="blaswheel-release-") as scratch:
        program = compiled(source, target, Path(scratch) / (PROBE + ".exe" * windows))
        with zipfile.ZipFile(base) as archive:
            scripts = [name for name in archive.namelist() if ".data/scripts/" in name]
        old = next(name for name in scripts if name.endswith(f"/{PROBE}"))
        new = old + ".exe" * windows
        changed = Path(scratch) / _retag.name_with(str(base), target.tag)
        _wheel.rewrite(
            str(base), str(changed), changed={new: str(program)}, removed=[old] * windows
        )
        verdict = _tag.honest(str(changed))
        if sorted(verdict.computed.split(".")) != sorted(target.tag.split(".")):
            why = verdict.deciding.text if verdict.deciding else "by its probe"
            sys.exit(f"{changed.name}: {verdict.computed} would be honest: {why}")
        return Path(_retag.retag(str(changed), verdict.computed, str(folder)))


def compiled(source: Path, target: Target, program: Path) -> Path:
    """Compile the probe for a platform."""
    files = sorted((source / "src" / "probe").glob("*.c"))
    # zig's compiler cache is by the paths and times of what it reads.
    command = [sys.executable, "-m", "ziglang", "cc", "-target", target.zig, *FLAGS]
    relative = [os.path.relpath(file, source) for file in files]
    run(*command, *relative, *target.options, "-o", program, cwd=source)
    # For Windows it writes a file with symbols, too.
    program.with_suffix(".pdb").unlink(missing_ok=True)
    return program


def run(
    *words: str | Path, cwd: Path | None = None, environ: Mapping[str, str] | None = None
) -> str:
    """Run a command; what it says is shown only if it fails."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env={**os.environ, **(environ or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        sys.exit(f"{shutil.which(str(words[0]))}: exit status {done.returncode}\n{done.stdout}")
    return done.stdout


if __name__ == "__main__":
    main()
