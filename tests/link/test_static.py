"""A static link can't work with a provider's shared library, and each linker says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.link.compiling import CASES, LINKERS, Workshop, marked, run

pytestmark = pytest.mark.tool("gcc", "pkg-config")


@pytest.mark.parametrize("linker", marked(LINKERS))
@pytest.mark.parametrize("options", [(), ("--native",)], ids=["plain", "native"])
def test_static_says_why_it_cannot_work(
    workshop: Workshop, tmp_path: Path, linker: str, options: tuple[str, ...]
) -> None:
    program = tmp_path / "program.c"
    program.write_text("int main(void) { return 0; }\n")
    folder = workshop.blaswheel(CASES["lp64"].spec()).pc(*options)
    flags = run(["pkg-config", "--libs", "openblas"], PKG_CONFIG_PATH=str(folder)).stdout.split()
    command = ["gcc", f"-fuse-ld={linker}", program, *flags, "-o", tmp_path / "program"]
    run(command)
    done = run([*command, "-static"], check=False)
    assert done.returncode != 0
    assert "scipy_openblas-is-a-shared-library-only--link-without-static" in done.stderr
