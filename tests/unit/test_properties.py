"""What holds for any names: families are inferred, and alias archives call what they should."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blaswheel import _alias, _names
from blaswheel._routines import routines

#: C's keywords, and what a program has already.
TAKEN = {"main", "puts", "if", "do", "for", "int", "auto", "asm", "case", "char", "else", "enum",
         "goto", "long", "void", "exit", "read", "free"}  # fmt: skip
identifiers = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,30}", fullmatch=True).filter(
    lambda name: name not in TAKEN and not name.startswith("_")
)
prefixes = st.one_of(st.just(""), st.from_regex(r"[a-z][a-z0-9]{0,7}_", fullmatch=True))
#: What stands behind names in C, and how Fortran's underscore goes with it.
suffixes = st.tuples(
    st.from_regex(r"(_?[0-9]{1,3}_?)?", fullmatch=True),
    st.sampled_from(("{0}_", "_{0}", "{0}")),
)


@settings(max_examples=150, deadline=None)
@given(prefix=prefixes, suffix=suffixes, noise=st.sets(identifiers, max_size=40))
def test_names_are_inferred(prefix: str, suffix: tuple[str, str], noise: set[str]) -> None:
    c, form = suffix
    # Without either, Fortran compilers write one underscore or none.
    fortran = form.format(c)
    ends = {"blas": fortran, "lapack": fortran, "cblas": c, "lapacke": c}
    names = {f"{prefix}{stem}{end}" for api, end in ends.items() for stem in routines(api)}
    found = {}
    for family in _names.infer(names | noise):
        found.setdefault(family.api, (family.prefix, family.suffix))
        assert family.found <= family.known
    assert found == {api: (prefix, end) for api, end in ends.items()}


@pytest.mark.tool("gcc", "readelf", "llvm-readobj")
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(names=st.lists(identifiers, min_size=1, max_size=12, unique=True), data=st.data())
def test_aliases_call_what_they_should(names: list[str], data: st.DataObject) -> None:
    natives = data.draw(
        st.lists(identifiers, min_size=len(names), max_size=len(names), unique=True)
    )
    aliases = dict(zip(names, natives, strict=True))
    # A library's own names are not the consumer's.
    aliases = {name: f"native_{native}" for name, native in aliases.items()}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "lib.c").write_text(
            "".join(
                f"int {native}(int n) {{ return n + {number}; }}\n"
                for number, native in enumerate(aliases.values())
            )
        )
        (folder / "main.c").write_text(
            "".join(f"int {name}(int);\n" for name in aliases)
            + "int main(void) {\n"
            + "".join(
                f"  if ({name}(100) != {100 + number}) return {number + 1};\n"
                for number, name in enumerate(aliases)
            )
            + "  return 0;\n}\n"
        )
        (folder / "liball.a").write_bytes(_alias.archive(aliases, "x86_64"))

        def run(*words: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                words, cwd=folder, capture_output=True, text=True, errors="replace", check=False
            )

        for words in (
            ("gcc", "-w", "-shared", "-fPIC", "-fno-builtin", "lib.c", "-o", "libown.so"),
            ("gcc", "-w", "-fno-builtin", "main.c", "-L.", "-lall", "-lown", "-Wl,-rpath,.", "-o",
             "main"),
        ):  # fmt: skip
            done = run(*words)
            assert done.returncode == 0, done.stderr
        assert run("./main").returncode == 0
        for reader in (("readelf", "-a", "-W"), ("llvm-readobj", "--all")):
            done = run(*reader, "liball.a")
            assert done.returncode == 0, done.stderr
            assert "arning" not in done.stderr, done.stderr
