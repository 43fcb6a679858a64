"""``blaswheel verify --emulator``: a foreign probe on a real library of another machine."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.build_wheel import ROOT
from tests.support import Venv, Wheels

TRIPLETS = {"aarch64": "aarch64-linux-gnu", "s390x": "s390x-linux-gnu"}


@pytest.mark.parametrize(
    "machine",
    [
        pytest.param(machine, marks=pytest.mark.tool(f"{triplet}-gcc", f"qemu-{machine}"))
        for machine, triplet in TRIPLETS.items()
    ],
)
@pytest.mark.parametrize(("bits", "interface"), [(32, "lp64"), (64, "ilp64")])
def test_a_foreign_library_is_verified_under_an_emulator(
    shared_venv: Callable[..., Venv],
    wheels: Wheels,
    tmp_path: Path,
    machine: str,
    bits: int,
    interface: str,
) -> None:
    triplet = TRIPLETS[machine]
    probe = tmp_path / "probe"
    sources = sorted((ROOT / "src" / "probe").glob("*.c"))
    libraries = ("-ldl", "-lm", "-lpthread")
    subprocess.run([f"{triplet}-gcc", "-std=c11", *sources, "-o", probe, *libraries], check=True)
    spec = f"scipy-openblas{bits}==0.3.34.481.3"
    root = wheels.unpacked(spec, f"manylinux_2_28_{machine}")
    command = ["blaswheel", "verify", "--root", root, "--json"]
    emulator = ["--emulator", f"qemu-{machine} -L /usr/{triplet}", "--probe", probe]
    venv = shared_venv()
    told = json.loads(venv.run(*command, *emulator, timeout=200).stdout)
    assert told["ok"] and told["verified"]
    assert told["interface"] == interface
    assert told["machine"] == machine
    # Without an emulator nothing of a foreign environment is loaded.
    refused = venv.run(*command, check=False)
    assert refused.returncode == 2
    assert "--emulator" in refused.stderr
