"""Generated headers declare the consumer's names with the library's integers, in C and C++."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from blaswheel import _alias, _headers
from blaswheel._errors import FormatError
from blaswheel._names import Family
from blaswheel._naming import Names, Scheme

pytestmark = pytest.mark.tool("gcc", "nm")

HEADERS = ("cblas.h", "f77blas.h", "lapack.h", "lapacke.h", "lapacke_utils.h")


class Provider(NamedTuple):
    """A wheel and how its library decorates the standard names."""

    spec: str
    prefix: str
    suffix: str

    @property
    def ilp64(self) -> bool:
        return self.spec.startswith("scipy-openblas64")


NEWEST = (
    Provider("scipy-openblas32==0.3.34.481.3", "scipy_", ""),
    Provider("scipy-openblas64==0.3.34.481.3", "scipy_", "64_"),
)
# Headers with plain names beside a library with others; a cblas.h that is prefixed and a
# lapacke.h that is not; both prefixed.
OLDER = (
    Provider("scipy-openblas32==0.3.23.293.2", "", ""),
    Provider("scipy-openblas64==0.3.23.293.2", "", "64_"),
    Provider("scipy-openblas32==0.3.27.44.6", "scipy_", ""),
    Provider("scipy-openblas64==0.3.27.44.6", "scipy_", "64_"),
    Provider("scipy-openblas32==0.3.31.22.1", "scipy_", ""),
    Provider("scipy-openblas64==0.3.31.22.1", "scipy_", "64_"),
)
COMPILERS = {
    "gcc": ("gcc", "-std=c11"),
    "clang": ("clang", "-std=c11"),
    "g++": ("g++", "-x", "c++", "-std=c++17"),
    "clang++": ("clang++", "-x", "c++", "-std=c++17"),
}

# C(name) and F(name) spell a C and a Fortran routine as the consumer does, INTEGER is its integer.
# OpenBLAS's own f77blas.h and lapack.h declare LAPACK routines differently: not in one file.
LAPACKE_SOURCE = r"""
#include <cblas.h>
#include <lapacke.h>
#include <string.h>

#ifdef __cplusplus
extern "C"
#endif
int fortran(void);

int main(void) {
  double x[] = {1, 2, 3}, y[] = {4, 5, 6}, a[] = {2, 0, 0, 4}, b[] = {2, 8}, s[2], one = 1;
  lapack_int ipiv[3] = {0, 0, -7}, two = 2, count = 1, info = -1, work_size = 64;
  double work[64];
  char no = 'N', up = 'U';
  if (sizeof(blasint) != sizeof(INTEGER) || sizeof(lapack_int) != sizeof(INTEGER)) return 1;
  if (C(cblas_ddot)(3, x, 1, y, 1) != 32) return 2;
  if (C(LAPACKE_dgesv)(LAPACK_COL_MAJOR, 2, 1, a, 2, ipiv, b, 2) != 0) return 3;
  if (b[0] != 1 || b[1] != 2 || ipiv[0] != 1 || ipiv[1] != 2 || ipiv[2] != -7) return 4;
  LAPACK_dpotrf(&up, &two, a, &two, &info);
  if (info != 0) return 5;
  a[0] = 3; a[1] = a[2] = 0; a[3] = 5;
  LAPACK_dgesvd(&no, &no, &two, &two, a, &two, s, &one, &count, &one, &count, work, &work_size,
                &info);
  if (info != 0 || s[0] < 4.999 || s[0] > 5.001) return 6;
  a[0] = a[3] = 2; a[1] = a[2] = 0;
  F(dgesv)(&two, &count, a, &two, ipiv, b, &two, &info);
  if (info != 0 || b[0] != 0.5 || b[1] != 1) return 7;
  if (strncmp(C(openblas_get_config)(), "OpenBLAS", 8) != 0) return 8;
  C(openblas_set_num_threads)(1);
  return fortran();
}
"""
F77BLAS_SOURCE = r"""
#include <f77blas.h>

#ifdef __cplusplus
extern "C"
#endif
int fortran(void);

int fortran(void) {
  double x[] = {1, 2, 3}, y[] = {4, 5, 6};
  blasint n = 3, step = 1;
  if (sizeof(blasint) != sizeof(INTEGER)) return 20;
  if (BLASFUNC(ddot)(&n, x, &step, y, &step) != 32) return 21;
  if (F(ddot)(&n, x, &step, y, &step) != 32) return 22;
  return 0;
}
"""


def needing(*tools: str) -> list[Any]:
    """Return test parameters, each of which needs the tool that it names."""
    return [pytest.param(tool, marks=pytest.mark.tool(tool)) for tool in tools]


def run(*arguments: str | Path) -> str:
    """Run a tool that must succeed, and return its standard output."""
    done = subprocess.run(arguments, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


class Made:
    """The headers and the alias archive made for one provider and one scheme."""

    def __init__(self, wheels: Any, folder: Path, provider: Provider, scheme: Scheme) -> None:
        root = next(Path(wheels.unpacked(provider.spec)).glob("scipy_openblas*/lib")).parent
        self.scheme = scheme
        self.ilp64 = provider.ilp64
        self.include_dirs = [str(root / "include")]
        self.library = next((root / "lib").glob("lib*.so"))
        lines = run("nm", "-D", "--defined-only", self.library).splitlines()
        self.exports = {line.split()[-1].partition("@")[0] for line in lines}
        self.families = [
            Family(api=api, prefix=provider.prefix, suffix=suffix, found=1, known=1)
            for api, suffix in (("blas", f"_{provider.suffix}"), ("cblas", provider.suffix))
        ]
        offered = {}
        for native in self.exports:
            if native.startswith(provider.prefix) and native.endswith(provider.suffix):
                stem = native[len(provider.prefix) : len(native) - len(provider.suffix)]
                fortran = stem.endswith("_")
                offered[scheme.name(stem.removesuffix("_"), fortran=fortran)] = native
        self.names = Names(scheme=scheme, offered=offered, standard={})
        self.headers = self.generate()
        self.folder = folder / "with space, ünï"
        self.include = self.folder / "include"
        self.include.mkdir(parents=True)
        for name, content in self.headers.items():
            (self.include / name).write_bytes(content)
        self.sources = [self.folder / "lapacke.c", self.folder / "f77blas.c"]
        self.sources[0].write_text(LAPACKE_SOURCE)
        self.sources[1].write_text(F77BLAS_SOURCE)

    def generate(self) -> dict[str, bytes]:
        return _headers.generate(self.include_dirs, self.names, self.families, ilp64=self.ilp64)

    def macros(self) -> list[str]:
        scheme = self.scheme
        begin = f"{scheme.prefix}##" if scheme.prefix else ""
        end = f"##{scheme.suffix}" if scheme.suffix else ""
        return [
            f"-DC(name)={begin}name{end}",
            f"-DF(name)={begin}name##{scheme.fortran_suffix}",
            f"-DINTEGER={'long' if self.ilp64 else 'int'}",
        ]

    def libs(self) -> list[str]:
        """Write the archive, if the library needs one, and return the link arguments."""
        provider = [str(self.library), f"-Wl,-rpath,{self.library.parent}"]
        if not self.names.aliases:
            return provider
        name = _alias.name(self.names.aliases, "x86_64", stem="openblas")
        archive = _alias.archive(self.names.aliases, "x86_64")
        (self.folder / f"lib{name}.a").write_bytes(archive)
        return [f"-L{self.folder}", f"-l{name}", *provider]


def plain(provider: Provider) -> Scheme:
    return Scheme(suffix="64_" if provider.ilp64 else "")


def identity(provider: Provider) -> str:
    return provider.spec


@pytest.fixture(scope="module", params=NEWEST, ids=identity)
def newest(
    request: pytest.FixtureRequest, wheels: Any, tmp_path_factory: pytest.TempPathFactory
) -> Made:
    provider = request.param
    return Made(wheels, tmp_path_factory.mktemp("headers"), provider, plain(provider))


@pytest.mark.parametrize("compiler", needing("gcc", "clang++"))
def test_each_header_stands_alone(newest: Made, compiler: str) -> None:
    sources = []
    for header in HEADERS:
        source = newest.folder / f"{header}.c"
        source.write_text(f"#include <{header}>\n#include <{header}>\n")
        sources.append(source)
    run(*COMPILERS[compiler], "-Wall", "-Wextra", "-Werror", "-Wno-old-style-declaration"
        if compiler == "gcc" else "-Wno-unused", f"-I{newest.include}", "-fsyntax-only",
        *sources)  # fmt: skip


@pytest.mark.parametrize("compiler", needing(*COMPILERS))
def test_programs_use_all_interfaces(newest: Made, compiler: str) -> None:
    program = newest.folder / f"program-{compiler}"
    run(*COMPILERS[compiler], *newest.macros(), "-Werror", f"-I{newest.include}",
        f"-I{newest.include_dirs[0]}", *newest.sources, "-x", "none", *newest.libs(),
        "-o", program)  # fmt: skip
    run(program)


@pytest.mark.parametrize("provider", OLDER, ids=identity)
def test_older_providers_serve_the_same_program(
    wheels: Any, tmp_path: Path, provider: Provider
) -> None:
    made = Made(wheels, tmp_path, provider, plain(provider))
    run("gcc", *made.macros(), "-Werror", f"-I{made.include}", *made.sources, *made.libs(),
        "-o", tmp_path / "program")  # fmt: skip
    run(tmp_path / "program")


@pytest.mark.parametrize(
    "scheme",
    [
        Scheme(),
        Scheme(suffix="_64"),
        Scheme(prefix="my_", suffix="64_"),
        Scheme(prefix="scipy_", suffix="64_"),
    ],
    ids=lambda scheme: f"{scheme.prefix}name{scheme.suffix}",
)
def test_any_scheme_can_be_asked_for(wheels: Any, tmp_path: Path, scheme: Scheme) -> None:
    made = Made(wheels, tmp_path, NEWEST[1], scheme)
    run("gcc", *made.macros(), "-Werror", f"-I{made.include}", *made.sources, *made.libs(),
        "-o", tmp_path / "program")  # fmt: skip
    run(tmp_path / "program")


def test_the_folder_can_be_moved_and_needs_no_other(newest: Made, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    moved.mkdir()
    for name, content in newest.headers.items():
        (moved / name).write_bytes(content)
    # A provider of the other width comes first on the compiler's path, as in a mixed build.
    other = tmp_path / "other"
    other.mkdir()
    (other / "openblas_config.h").write_text("#error from another library\n")
    run("gcc", *newest.macros(), f"-I{other}", "-isystem", moved, "-fsyntax-only",
        *newest.sources)  # fmt: skip


def test_the_width_does_not_depend_on_the_command_line(newest: Made) -> None:
    run("gcc", *newest.macros(), "-Werror", f"-I{newest.include}", "-DLAPACK_ILP64",
        "-DOPENBLAS_USE64BITINT", "-DHAVE_LAPACK_CONFIG_H", "-fsyntax-only",
        *newest.sources)  # fmt: skip


def test_a_wrong_width_does_not_compile(newest: Made) -> None:
    wrong = "int" if newest.ilp64 else "long"
    done = subprocess.run(
        ("gcc", *newest.macros(), f"-I{newest.include}", f"-Dlapack_int={wrong}",
         "-fsyntax-only", *newest.sources),
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode != 0
    assert f"lapack_int_has_{64 if newest.ilp64 else 32}_bits" in done.stderr


def test_what_is_declared_and_missing_is_known(newest: Made) -> None:
    missing = {
        header: names - newest.names.offered.keys()
        for header, names in _headers.declared(newest.headers).items()
    }
    cblas = {name.removesuffix(newest.scheme.suffix) for name in missing["cblas.h"]}
    assert {name for name in cblas if not name.startswith("cblas_")} == {
        "openblas_cancel",
        "openblas_cancel_token",
        "openblas_getaffinity",
        "openblas_set_num_threads_local",
        "openblas_setaffinity",
    }
    assert len(cblas) == 5 + 15  # the bfloat16 and half-precision routines
    assert {"cblas_sbgemm", "cblas_shgemm"} < cblas
    assert len(missing["lapacke.h"]) == 72  # the extra-precision routines
    assert all("rfsx" in name or "svxx" in name for name in missing["lapack.h"])
    assert len(missing["lapacke_utils.h"]) == 0


def test_what_the_provider_itself_declares(wheels: Any, tmp_path: Path) -> None:
    made = Made(wheels, tmp_path, NEWEST[0], Scheme())
    declared = _headers.declared(_headers.read(made.include_dirs))
    assert "scipy_cblas_ddot" in declared["cblas.h"]
    assert "scipy_LAPACKE_dgesv" in declared["lapacke.h"]
    # Plain, though the library has none of them.
    assert {"dgesv_", "dgesvd_"} < declared["lapack.h"]
    assert not declared["lapack.h"] & made.exports
    assert "ddot_" in declared["f77blas.h"]


def test_the_same_input_gives_the_same_bytes(newest: Made) -> None:
    assert newest.generate() == newest.headers


def test_only_names_change(newest: Made) -> None:
    """Every line of the provider's is there, in its place."""
    source = Path(newest.include_dirs[0], "lapacke.h").read_bytes()
    made = newest.headers["lapacke.h"]
    added = made.count(b"\n") - source.count(b"\n")
    assert 0 < added < 12
    assert b"scipy_" not in made
    assert b"lapack_int LAPACKE_dgesv" in made


# Headers that nobody should ship


def generate(folder: Path) -> dict[str, bytes]:
    names = Names(scheme=Scheme(suffix="64_"), offered={"cblas_ddot64_": "x"}, standard={})
    families = [Family(api="cblas", prefix="p_", suffix="64_", found=1, known=1)]
    return _headers.generate([str(folder)], names, families, ilp64=True)


def test_no_header_is_made_up(tmp_path: Path) -> None:
    assert generate(tmp_path) == {}
    assert generate(tmp_path / "missing") == {}
    (tmp_path / "cblas.h").write_text("double cblas_ddot(void);\n")
    assert list(generate(tmp_path)) == ["cblas.h"]


def test_undecodable_bytes_and_line_ends_survive(tmp_path: Path) -> None:
    text = b"/* \xff\xfe\0 */\r\ndouble p_cblas_ddot64_(void); /* xp_cblas_ddot my_cblas_x */\r\n"
    (tmp_path / "cblas.h").write_bytes(text)
    expected = text.replace(b"p_cblas_ddot64_", b"cblas_ddot64_")
    assert expected in generate(tmp_path)["cblas.h"]


def test_includes_do_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    include = tmp_path / "include"
    include.mkdir()
    (tmp_path / "secret.h").write_text("secret")
    (include / "cblas.h").write_text('#include "../secret.h"\n#include "cblas.h"\n')
    assert list(generate(include)) == ["cblas.h"]


@pytest.mark.parametrize(
    "text",
    [
        b"/*" * 500_000,
        b"#define BLASFUNC(" + b"a" * 1_000_000,
        b"a" * 1_000_000,
        b"cblas_" * 200_000,
        b"#" + b" " * 1_000_000,
        b"\\\n#" * 300_000,
        b"f" + b" " * 1_000_000,
    ],
    ids=lambda text: repr(text[:12]),
)
@pytest.mark.timeout(20)
def test_hostile_text_takes_no_longer(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "cblas.h").write_bytes(text)
    _headers.declared(generate(tmp_path))


def test_endless_headers_are_refused(tmp_path: Path) -> None:
    with (tmp_path / "cblas.h").open("wb") as file:
        os.truncate(file.fileno(), 1 << 30)
    with pytest.raises(FormatError, match=r"cblas\.h"):
        generate(tmp_path)
    for number in range(100):
        (tmp_path / f"{number}.h").write_text(f'#include "{number + 1}.h"\n')
    (tmp_path / "cblas.h").write_text('#include "0.h"\n')
    with pytest.raises(FormatError, match="files"):
        generate(tmp_path)
