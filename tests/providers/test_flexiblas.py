"""FlexiBLAS is in no wheel and no package here: a compiled stand-in has the names of one."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.sites import LP64, Blaswheel, copy, distribution, fields
from tests.link.compiling import run, with_flags
from tests.support import Wheels

DATA = Path(__file__).parents[2] / "src/blaswheel/data"
#: Its own, and those named as OpenBLAS's that it has for programs that call them.
OWN = (
    *("flexiblas_list", "flexiblas_get_version", "flexiblas_current_backend", "flexiblas_switch"),
    *("openblas_set_num_threads", "openblas_get_num_threads", "mkl_set_num_threads"),
    *(f"flexiblas_real_{kind}gemm_" for kind in "sdcz"),
)


def stand_in(folder: Path) -> Path:
    lines = ["int counter;"]
    for api, end in (("blas", "_"), ("lapack", "_"), ("cblas", ""), ("lapacke", "")):
        for name in (DATA / f"{api}.txt").read_text().split():
            lines.append(f"int {name}{end}(void) {{ return ++counter; }}")
    lines += [f"int {name}(void) {{ return ++counter; }}" for name in OWN]
    source = folder / "flexiblas.c"
    source.write_text("\n".join(lines) + "\n", encoding="ascii")
    library = folder / "libflexiblas.so.3"
    run(["cc", "-shared", "-fPIC", "-Wl,-soname,libflexiblas.so.3", "-o", library, source])
    return library


def test_stand_in(blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path) -> None:
    library = stand_in(tmp_path)
    site = distribution(
        tmp_path / "site", "my-flexiblas", "3.4", {"flexi/lib/libflexiblas.so.3": library}
    )
    (one,) = json.loads(blaswheel("list", "--json", "--root", site).stdout)["libraries"]
    assert (one["implementation"], one["interface"]) == ("flexiblas", "unknown")
    assert one["linkable"] is True
    assert [each["prefix"] for each in one["names"]["blas"]] == [""]
    text = blaswheel("pc", "flexiblas", "--root", site, "--runtime", "absolute").stdout
    (tmp_path / "openblas.pc").write_text(text, encoding="utf-8")
    (tmp_path / "use.c").write_text(
        "int dgemm_(void); int cblas_dgemm(void);\n"
        "int main(void) { return dgemm_() + cblas_dgemm() != 3; }\n",
        encoding="ascii",
    )
    with_flags(tmp_path, "--libs", "cc", "-o", tmp_path / "use", tmp_path / "use.c")
    run([tmp_path / "use"])
    # Others come first.
    copy(wheels.unpacked(LP64), site)
    done = blaswheel("pc", "--root", site)
    assert fields(done.stdout)["provider"] == "scipy-openblas32==0.3.34.481.3"
    assert "also here: my-flexiblas 3.4" in done.stderr
