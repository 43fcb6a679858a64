"""What the Meson subproject and the backend add, beside a ``.pc`` file that is there already.

The same project, which has ``dependency('openblas')`` and little else, is configured by turns:
without a BLAS; with a ready-made ``openblas.pc`` on ``PKG_CONFIG_PATH``; with a lookup that finds
nothing, which Meson does before it falls back; with the subproject; and with the subproject where
that lookup is left out (``--wrap-mode=forcefallback``).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from benchmarks.measure import SCRIPTS, Row, absent, by_turns, median, process

NONE = "no BLAS"
PYTHON = "py = import('python').find_installation(pure: false)"
BLAS = "blas = dependency('openblas')"


def run(*words: str | Path, **environ: str) -> None:
    """Run a command of this environment; its output is shown only if it fails."""
    changes = {"PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}", **environ}
    done = subprocess.run(
        [SCRIPTS / words[0], *words[1:]],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        env={**os.environ, **changes},
    )
    if done.returncode:
        sys.exit(done.stdout.decode(errors="replace"))


class Case(NamedTuple):
    """A project, and how it is configured."""

    lines: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    has_pc: bool = False
    has_subproject: bool = False


CASES = {
    NONE: Case(),
    ".pc file": Case((BLAS,), has_pc=True),
    "lookup without success": Case(("dependency('openblas', required: false)",)),
    "subproject": Case((BLAS,), has_subproject=True),
    "subproject, forced": Case((BLAS,), ("--wrap-mode=forcefallback",), has_subproject=True),
}


def projects(folder: Path, first: tuple[str, ...]) -> dict[str, Path]:
    """Write the project of each case."""
    run("blaswheel", "pc", "--no-verify", "--interface", "lp64", "--dir", folder / "pc")
    made = {}
    for number, (name, case) in enumerate(CASES.items()):
        made[name] = folder / str(number)
        made[name].mkdir()
        content = "\n".join(["project('benchmark', 'c')", *first, *case.lines, ""])
        (made[name] / "meson.build").write_text(content, encoding="utf-8")
        if case.has_subproject:
            run("blaswheel", "meson", made[name])
    return made


def milliseconds(project: Path, case: Case) -> float:
    """Return how long it takes to configure a project."""
    build = project / "build"
    shutil.rmtree(build, ignore_errors=True)
    environ = {"PKG_CONFIG_PATH": str(project.parent / "pc") if case.has_pc else ""}
    started = time.perf_counter()
    run("meson", "setup", *case.options, build, project, **environ)
    return 1000 * (time.perf_counter() - started)


def rows(rounds: int) -> Iterator[Row]:
    """Measure."""
    if not shutil.which("meson", path=str(SCRIPTS)):
        yield absent("configuring with Meson", "meson")
        return
    for title, lines in {"C project": (), "Python extension": (PYTHON,)}.items():
        with tempfile.TemporaryDirectory(prefix="blaswheel-benchmark-") as folder:
            made = projects(Path(folder), lines)
            runs = {name: partial(milliseconds, made[name], case) for name, case in CASES.items()}
            yield from _configured(title, by_turns(runs, rounds))
    if find_spec("mesonpy") is None:
        yield absent("building a wheel with the backend", "meson-python")
        return
    with tempfile.TemporaryDirectory(prefix="blaswheel-benchmark-") as folder:
        yield _backend(Path(folder), rounds)


def _configured(title: str, times: dict[str, list[float]]) -> Iterator[Row]:
    base = times[".pc file"]
    yield Row(f"{title}: configuring with a ready-made .pc file", median(base), "ms")
    for name in ("subproject, forced", "subproject"):
        more = median(a - b for a, b in zip(times[name], base, strict=True))
        lookup = "lookup without success"
        own = median(a - b for a, b in zip(times[name], times[lookup], strict=True))
        beside = "" if "forced" in name else f"{own:.0f} ms more than Meson's own failed lookup"
        yield Row(f"{title}: {name}, more", more, "ms", beside, "at most 100 ms", more <= 100)


def _backend(folder: Path, rounds: int) -> Row:
    """Build the same wheel by mesonpy with a ready-made file, and by our backend."""
    (folder / "out").mkdir()
    build = "import sys, {0} as b; b.build_wheel(sys.argv[1])"
    runs = {}
    for backend in ("mesonpy", "blaswheel.mesonpy"):
        project = folder / backend
        project.mkdir()
        (project / "pyproject.toml").write_text(
            f"[build-system]\nbuild-backend = '{backend}'\nrequires = []\n"
            "[project]\nname = 'demo'\nversion = '1'\n"
        )
        module = "py.extension_module('demo', 'demo.c', dependencies: blas, install: true)"
        lines = ["project('demo', 'c')", PYTHON, BLAS, module, ""]
        (project / "meson.build").write_text("\n".join(lines))
        (project / "demo.c").write_text(
            "#include <cblas.h>\n"
            "double f(void) { double x = 1; return cblas_ddot(1, &x, 1, &x, 1); }\n"
        )
        run("blaswheel", "pc", "--no-verify", "--interface", "lp64", "--dir", folder / "pc")
        path = str(folder / "pc") if backend == "mesonpy" else ""
        environ = {
            "PKG_CONFIG_PATH": path,
            "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}",
            "BLASWHEEL_INTERFACE": "lp64",
        }
        command = [sys.executable, "-c", build.format(backend), folder / "out"]
        runs[backend] = process(command, environ, project)
    times = by_turns(runs, rounds)
    more = median(a - b for a, b in zip(times["blaswheel.mesonpy"], times["mesonpy"], strict=True))
    beside = f"{median(times['mesonpy']):.0f} ms by mesonpy with a ready-made .pc file"
    what = "building a wheel with the backend, more"
    return Row(what, more, "ms", beside, "at most 150 ms", more <= 150)
