"""The honest tag: what auditwheel says where it is right, and the truth where it is not."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.sites import Blaswheel
from tests.support import Venv, Wheels
from tests.wheels.making import library, wheel

MANYLINUX = "manylinux_2_28_x86_64"
#: What auditwheel's own analysis says, with what is in the wheel and nothing excluded.
AUDITWHEEL = """
import sys
from pathlib import Path
from auditwheel.wheel_abi import analyze_wheel_abi
from auditwheel.libc import Libc
from auditwheel.architecture import Architecture
for path in sys.argv[1:]:
    info = analyze_wheel_abi(
        Libc.GLIBC, Architecture.x86_64, Path(path), frozenset(), disable_isa_ext_check=True,
        allow_graft=False,
    )
    print(info.sym_policy.name)
"""


@pytest.fixture(scope="module")
def blaswheel(shared_venv: Callable[..., Venv]) -> Blaswheel:
    return Blaswheel(shared_venv())


@pytest.fixture(scope="module")
def auditwheel(
    tmp_path_factory: pytest.TempPathFactory, wheels: Wheels
) -> Callable[..., list[str]]:
    venv = Venv(tmp_path_factory.mktemp("auditwheel") / "venv")
    specs = ("auditwheel==6.8.2", "pyelftools==0.33", "packaging==26.4")
    venv.pip_install("--no-index", "--no-deps", *map(wheels.fetch, specs))

    def policies(*paths: Path) -> list[str]:
        return venv.run("python", "-c", AUDITWHEEL, *paths).stdout.split()

    return policies


def judged(blaswheel: Blaswheel, path: Path, *words: str | Path) -> dict[str, object]:
    found = json.loads(blaswheel("tag", "--json", path, *words).stdout)
    assert isinstance(found, dict)
    return found


# Real wheels.

REAL = {
    ("numpy==2.4.6", MANYLINUX): ("manylinux_2_27_x86_64", "GLIBC_2.27"),
    ("scipy-openblas32==0.3.34.481.3", MANYLINUX): ("manylinux_2_27_x86_64", "GLIBC_2.27"),
    ("scipy-openblas32==0.3.34.481.3", "manylinux_2_28_aarch64"): (
        "manylinux_2_27_aarch64",
        "GLIBC_2.27",
    ),
    ("scipy-openblas32==0.3.34.481.3", "macosx_11_0_arm64"): ("macosx_11_0_arm64", "macOS 11.0"),
    ("scipy-openblas32==0.3.34.481.3", "win_amd64"): ("win_amd64", "x86_64"),
    ("scipy-openblas32==0.3.34.481.3", "musllinux_1_2_x86_64"): ("musllinux_1_2_x86_64", "x86_64"),
    ("scipy-openblas32==0.3.27.44.6", "manylinux2014_x86_64"): (
        "manylinux2014_x86_64.manylinux_2_17_x86_64",
        "GCC_4.8.0",
    ),
}


@pytest.mark.parametrize(("spec", "platform"), REAL)
def test_real_wheels(blaswheel: Blaswheel, wheels: Wheels, spec: str, platform: str) -> None:
    computed, version = REAL[spec, platform]
    found = judged(blaswheel, wheels.fetch(spec, platform))
    assert found["computed"] == computed
    assert found["honest"] is True
    deciding = found["deciding"]
    assert isinstance(deciding, dict) and deciding["version"] == version


LARGE = {
    "jaxlib==0.4.31": ("manylinux2014_x86_64.manylinux_2_17_x86_64", "xla_extension.so"),
    "jaxlib==0.12.0": ("manylinux_2_27_x86_64", "libjax_common.so"),
    "scipy==1.17.1": ("manylinux_2_27_x86_64", ""),
}


@pytest.mark.full
@pytest.mark.parametrize("spec", LARGE)
def test_large_wheels(blaswheel: Blaswheel, wheels: Wheels, spec: str) -> None:
    path = wheels.fetch(spec, "manylinux_2_27_x86_64" if "0.12" in spec else MANYLINUX, "3.12")
    found = judged(blaswheel, path)
    computed, file = LARGE[spec]
    assert found["computed"] == computed
    deciding = found["deciding"]
    assert isinstance(deciding, dict) and deciding["file"].endswith(file)


def test_auditwheel_agrees(
    blaswheel: Blaswheel, wheels: Wheels, auditwheel: Callable[..., list[str]]
) -> None:
    paths = [wheels.fetch(spec, tag) for spec, tag in REAL if tag.endswith("x86_64")
             and tag.startswith("manylinux")]  # fmt: skip
    ours = [str(judged(blaswheel, path)["computed"]).split(".")[-1] for path in paths]
    assert ours == auditwheel(*paths)


def test_text(blaswheel: Blaswheel, wheels: Wheels) -> None:
    said = blaswheel("tag", wheels.fetch("numpy==2.4.6", MANYLINUX)).stdout.splitlines()
    assert said[0].startswith("numpy-2.4.6-")
    assert said[1].split() == ["declared", "manylinux_2_27_x86_64.manylinux_2_28_x86_64"]
    assert said[2].split() == ["honest", "manylinux_2_27_x86_64"]
    assert " needs " in said[3] and said[3].endswith(" in GLIBC_2.27")


# Where auditwheel is wrong.


@pytest.mark.tool("gcc")
def test_without_section_headers(
    blaswheel: Blaswheel, tmp_path: Path, auditwheel: Callable[..., list[str]]
) -> None:
    """The loader reads segments; a file without sections loads and needs what it needed."""
    path = library(tmp_path, "#include <math.h>\nfloat f(float x) { return expf(x); }\n", "-lm")
    data = bytearray(path.read_bytes())
    data[40:48] = bytes(8)  # e_shoff
    data[60:64] = bytes(4)  # e_shnum, e_shstrndx
    path.write_bytes(data)
    subprocess.run([sys.executable, "-c", f"import ctypes; ctypes.CDLL({str(path)!r})"], check=True)
    made = wheel(tmp_path / "w", {"demo/libdemo.so": path}, f"py3-none-{MANYLINUX}")
    found = judged(blaswheel, made)
    assert found["computed"] == "manylinux_2_27_x86_64"
    assert found["deciding"] == {
        "file": "demo/libdemo.so",
        "symbol": "expf",
        "version": "GLIBC_2.27",
    }
    assert auditwheel(made) == ["manylinux_2_5_x86_64"]


@pytest.mark.tool("gcc")
def test_a_library_that_is_in_the_wheel(
    blaswheel: Blaswheel, tmp_path: Path, auditwheel: Callable[..., list[str]]
) -> None:
    """A vendored libstdc++ has what is asked of it; what it asks of the system counts."""
    script = tmp_path / "versions"
    script.write_text("GLIBCXX_3.4.33 { global: vendored; local: *; };\n")
    own = library(
        tmp_path,
        "int vendored(void) { return 1; }\n",
        *("-Wl,-soname,libstdc++.so.6", f"-Wl,--version-script={script}", "-nostdlib"),
        name="libstdc++.so.6",
    )
    user = library(
        tmp_path,
        "int vendored(void);\nint f(void) { return vendored(); }\n",
        *("-nostdlib", str(own), "-Wl,-rpath,$ORIGIN/../demo.libs"),
    )
    members = {"demo/libdemo.so": user, "demo.libs/libstdc++.so.6": own}
    made = wheel(tmp_path / "w", members)
    assert judged(blaswheel, made)["computed"] == "manylinux1_x86_64.manylinux_2_5_x86_64"
    assert auditwheel(made) == ["manylinux_2_39_x86_64"]
    # Where no run path leads to it, the system's is taken, and must have it.
    stray = library(tmp_path / "stray", "int vendored(void);\nint f(void) { return vendored(); }\n",
                    "-nostdlib", str(own))  # fmt: skip
    made = wheel(tmp_path / "s", {"demo/libdemo.so": stray, "demo.libs/libstdc++.so.6": own})
    assert judged(blaswheel, made)["computed"] == "manylinux_2_39_x86_64"


def versioned(folder: Path, version: str, name: str = "libm.so.6", options: str = "") -> Path:
    """Compile a library that wants one symbol of a version from a library of the system."""
    script = folder / "script"
    folder.mkdir(parents=True, exist_ok=True)
    script.write_text(f"{version} {{ global: wanted; local: *; }};\n")
    system = library(folder / "system", "int wanted(void) { return 1; }\n",
                     f"-Wl,-soname,{name}", f"-Wl,--version-script={script}", "-nostdlib",
                     name=name)  # fmt: skip
    return library(
        folder,
        f"extern int wanted(void) {options};\nint f(void) {{ return wanted ? wanted() : 0; }}\n",
        *("-nostdlib", str(system)),
    )


@pytest.mark.tool("gcc")
@pytest.mark.parametrize(
    ("version", "name", "computed", "theirs"),
    [
        # PEP 600 has every minor; auditwheel only those with a policy.
        ("GLIBC_2.18", "libc.so.6", "manylinux_2_18_x86_64", "manylinux_2_24_x86_64"),
        ("GLIBC_2.25", "libc.so.6", "manylinux_2_25_x86_64", "manylinux_2_26_x86_64"),
        ("GLIBC_2.5", "libc.so.6", "manylinux1_x86_64.manylinux_2_5_x86_64", None),
        ("GLIBC_2.39", "libc.so.6", "manylinux_2_39_x86_64", None),
        ("GLIBCXX_3.4.20", "libstdc++.so.6", "manylinux_2_24_x86_64", None),
        ("CXXABI_1.3.5", "libstdc++.so.6", "manylinux2014_x86_64.manylinux_2_17_x86_64", None),
        ("GCC_7.0.0", "libgcc_s.so.1", "manylinux_2_27_x86_64", None),
        ("ZLIB_1.2.9", "libz.so.1", "manylinux_2_27_x86_64", None),
        ("GLIBC_PRIVATE", "libc.so.6", "linux_x86_64", None),
        ("GLIBCXX_3.4.99", "libstdc++.so.6", "linux_x86_64", None),
    ],
)
def test_versions(
    blaswheel: Blaswheel,
    tmp_path: Path,
    auditwheel: Callable[..., list[str]],
    version: str,
    name: str,
    computed: str,
    theirs: str | None,
) -> None:
    path = versioned(tmp_path, version, name)
    made = wheel(tmp_path / "w", {"demo/libdemo.so": path})
    found = judged(blaswheel, made)
    assert found["computed"] == computed
    assert found["deciding"] == {
        "file": "demo/libdemo.so",
        "symbol": "wanted",
        "version": version,
    }
    if theirs:
        assert auditwheel(made) == [theirs]


@pytest.mark.tool("gcc")
def test_weak_needs_promise_nothing(blaswheel: Blaswheel, tmp_path: Path) -> None:
    """A symbol that may be missing: the linker marks its version as one to do without."""
    path = versioned(tmp_path, "GLIBC_2.34", "libc.so.6", "__attribute__((weak))")
    made = wheel(tmp_path / "w", {"demo/libdemo.so": path})
    assert judged(blaswheel, made)["computed"] == "manylinux1_x86_64.manylinux_2_5_x86_64"


@pytest.mark.tool("gcc")
def test_nothing_of_the_host_counts(
    blaswheel: Blaswheel, tmp_path: Path, auditwheel: Callable[..., list[str]]
) -> None:
    """A library of another wheel, which this machine has by chance, and which needs much itself."""
    source = "#include <math.h>\nfloat f(float x) { return expf(x); }\n"
    other = library(tmp_path / "host", source, "-lm", "-Wl,-soname,libother.so", name="libother.so")
    user = library(tmp_path, "float f(float);\nfloat g(float x) { return f(x); }\n", str(other),
                   "-nostdlib")  # fmt: skip
    made = wheel(tmp_path / "w", {"demo/libdemo.so": user})
    found = judged(blaswheel, made)
    assert found["computed"] == "linux_x86_64"
    assert "libother.so" in str(found["notes"])
    environ = {"LD_LIBRARY_PATH": str(tmp_path / "host")}
    assert json.loads(blaswheel("tag", "--json", made, environ=environ).stdout) == found
    provider = wheel(tmp_path / "p", {"other/libother.so": other}, name="other-1.0")
    for place in (provider, tmp_path / "host"):
        found = judged(blaswheel, made, "--external", place)
        assert found["computed"] == "manylinux1_x86_64.manylinux_2_5_x86_64"


@pytest.mark.tool("gcc")
def test_an_external_distribution_by_name(shared_venv: Callable[..., Venv], tmp_path: Path) -> None:
    venv = shared_venv("scipy-openblas32==0.3.34.481.3")
    (blas,) = venv.site_packages.rglob("libscipy_openblas.so")
    user = library(tmp_path, "int scipy_openblas_get_num_threads(void);\n"
                   "int f(void) { return scipy_openblas_get_num_threads(); }\n", str(blas),
                   "-nostdlib")  # fmt: skip
    made = wheel(tmp_path / "w", {"demo/libdemo.so": user}, f"py3-none-{MANYLINUX}")
    done = venv.run("blaswheel", "tag", "--check", made, check=False)
    assert done.returncode == 1 and "libscipy_openblas.so" in done.stdout
    venv.run("blaswheel", "tag", "--check", "--external", "scipy-openblas32", made)
    missing = venv.run("blaswheel", "tag", "--external", "no-such-thing", made, check=False)
    assert missing.returncode == 1 and "no-such-thing" in missing.stderr


# Kinds of wheels.


def test_data_folders_and_programs_are_looked_at(blaswheel: Blaswheel, wheels: Wheels) -> None:
    """mkl's libraries and ninja's program are not where modules are."""
    ninja = wheels.fetch("ninja==1.13.2", "manylinux2014_x86_64")
    found = judged(blaswheel, ninja)
    assert ".data/scripts/ninja" in str(found["deciding"])


def test_no_binaries(blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path) -> None:
    path = wheels.fetch("packaging==26.4")
    assert judged(blaswheel, path)["computed"] == "any"
    made = wheel(tmp_path, {"demo/__init__.py": b""}, "py3-none-manylinux_2_5_x86_64")
    found = judged(blaswheel, made)
    assert (found["computed"], found["deciding"], found["honest"]) == ("any", None, True)


def test_any_with_binaries_promises_too_much(
    blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path
) -> None:
    with zipfile.ZipFile(wheels.fetch("numpy==2.4.6", MANYLINUX)) as archive:
        name = next(each for each in archive.namelist() if each.endswith(".so"))
        made = wheel(tmp_path, {"demo/x.so": archive.read(name)}, "py3-none-any")
    done = blaswheel("tag", "--check", made, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("blaswheel: demo-1.0-py3-none-any.whl: any promises too much")


@pytest.mark.parametrize(
    ("tags", "is_honest"),
    [
        ("linux_x86_64", True),
        ("manylinux_2_27_x86_64", True),
        ("manylinux_2_35_x86_64", True),
        ("manylinux2014_x86_64.manylinux_2_28_x86_64", False),
        ("manylinux_2_28_aarch64", False),
        ("musllinux_1_2_x86_64", False),
        ("win_amd64", False),
        ("macosx_11_0_x86_64", False),
    ],
)
def test_declared_tags(
    blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path, tags: str, is_honest: bool
) -> None:
    (library_file,) = wheels.unpacked("scipy-openblas32==0.3.34.481.3", MANYLINUX).rglob("lib*.so")
    made = wheel(tmp_path, {"demo/libdemo.so": library_file}, f"py3-none-{tags}")
    done = blaswheel("tag", "--check", "--json", made, check=False)
    assert json.loads(done.stdout)["honest"] is is_honest
    assert done.returncode == (not is_honest)


@pytest.mark.tool("musl-gcc", "ld.lld")
def test_musl(blaswheel: Blaswheel, tmp_path: Path) -> None:
    (tmp_path / "x.c").write_text(
        "int printf(const char *, ...);\nint g(void);\nint (*p)(void) = g;\n"
        'int g(void) { return printf(""); }\n'
    )
    for name, options in (("plain", []), ("packed", ["-Wl,--pack-dyn-relocs=relr"])):
        output = tmp_path / f"{name}.so"
        words = ["musl-gcc", "-shared", "-fPIC", "-fuse-ld=lld", *options, "x.c", "-o", output]
        subprocess.run(words, cwd=tmp_path, check=True)
        made = wheel(tmp_path / name, {"demo/x.so": output}, "py3-none-musllinux_1_2_x86_64")
        found = judged(blaswheel, made)
        assert (found["computed"], found["honest"]) == ("musllinux_1_2_x86_64", True)
        notes = str(found["notes"])
        assert "can't be verified" in notes
        assert ("1.2.4" in notes) is (name == "packed")


def declaring(data: bytes, oldest: str) -> bytes:
    """Return a library for macOS that declares another oldest system."""
    major, minor = map(int, oldest.split("."))
    at = -1
    # LC_BUILD_VERSION for macOS 11.0.
    while data[at + 8 : at + 12] != b"\1\0\0\0" or data[at + 12 : at + 16] != b"\0\0\x0b\0":
        at = data.index(b"\x32\0\0\0", at + 1)
    return data[: at + 12] + bytes((0, minor, major, 0)) + data[at + 16 :]


def test_macos_later_than_the_tag(blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path) -> None:
    """12.3 is not 12.0, and tags from 11 on have the first number only."""
    folder = wheels.unpacked("scipy-openblas32==0.3.34.481.3", "macosx_11_0_arm64")
    (path,) = folder.rglob("libscipy_openblas.dylib")
    later = declaring(path.read_bytes(), "12.3")
    made = wheel(tmp_path, {"demo/x.dylib": later}, "py3-none-macosx_12_0_arm64")
    found = judged(blaswheel, made)
    assert found["computed"] == "macosx_13_0_arm64"
    assert found["honest"] is False
    assert "12.3" in str(found["deciding"])


@pytest.mark.parametrize(
    ("oldest", "computed", "kept", "broken"),
    [
        ("12.3", "macosx_13_0_arm64", ["13_0", "14_0"], ["11_0", "12_0"]),
        ("11.0", "macosx_11_0_arm64", ["11_0", "12_0"], ["10_15"]),
        # There is no macOS 10 for arm64, whatever a file says.
        ("10.9", "macosx_11_0_arm64", ["11_0"], ["10_6"]),
    ],
)
def test_macos_tags_that_keep_their_promise(
    blaswheel: Blaswheel,
    wheels: Wheels,
    tmp_path: Path,
    oldest: str,
    computed: str,
    kept: list[str],
    broken: list[str],
) -> None:
    """The honest tag is no promise too much, nor is any later one; every earlier one is."""
    folder = wheels.unpacked("scipy-openblas32==0.3.34.481.3", "macosx_11_0_arm64")
    (path,) = folder.rglob("libscipy_openblas.dylib")
    content = declaring(path.read_bytes(), oldest)
    for tag in (*kept, *broken):
        tags = f"py3-none-macosx_{tag}_arm64"
        found = judged(blaswheel, wheel(tmp_path / tag, {"demo/x.dylib": content}, tags))
        assert (found["computed"], found["honest"]) == (computed, tag in kept), tag


def test_launchers_for_several_machines_are_data(
    blaswheel: Blaswheel, wheels: Wheels, tmp_path: Path
) -> None:
    """setuptools copies one of its programs for Windows; it runs anywhere itself."""
    for spec in ("setuptools==80.9.0", "distlib==0.4.0"):
        found = judged(blaswheel, wheels.fetch(spec))
        assert (found["computed"], found["honest"]) == ("any", True)
        assert "programs for Windows" in str(found["notes"])
    # One that pip installs as a program is not data, nor is a library.
    with zipfile.ZipFile(wheels.fetch("setuptools==80.9.0")) as archive:
        program = archive.read("setuptools/cli-64.exe")
    name = "demo-1.0.data/scripts/demo.exe"
    made = wheel(tmp_path, {name: program}, "py3-none-any")
    found = judged(blaswheel, made)
    assert (found["computed"], found["honest"]) == ("win_amd64", False)


# Wheels made to do harm, and what is no wheel.


def test_a_damaged_binary_is_said_to_be_not_verified(blaswheel: Blaswheel, tmp_path: Path) -> None:
    made = wheel(tmp_path, {"demo/x.so": b"\x7fELF\2\1\1" + bytes(93)}, "py3-none-linux_x86_64")
    found = judged(blaswheel, made)
    assert "demo/x.so: not verified" in str(found["notes"])
    assert (found["computed"], found["deciding"]) == ("linux_x86_64", None)


@pytest.mark.parametrize("content", [b"", b"text", b"PK\3\4" + bytes(100)])
def test_what_is_no_zip_file(blaswheel: Blaswheel, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "demo-1.0-py3-none-any.whl"
    path.write_bytes(content)
    error, _ = blaswheel.error("tag", path)
    assert str(path) in error


def test_what_is_not_named_as_a_wheel(blaswheel: Blaswheel, tmp_path: Path) -> None:
    path = tmp_path / "demo.zip"
    path.write_bytes(b"")
    assert "not the name of a wheel" in blaswheel.error("tag", path)[0]
    assert "No such file" in blaswheel.error("tag", tmp_path / "a-1-py3-none-any.whl")[0]


def test_a_member_larger_than_it_says(blaswheel: Blaswheel, tmp_path: Path) -> None:
    made = wheel(tmp_path, {"demo/x.so": b"\x7fELF" + bytes(9_999_996)})
    data = made.read_bytes()
    made.write_bytes(data.replace((10_000_000).to_bytes(4, "little"), (1000).to_bytes(4, "little")))
    assert "can't be read as a wheel" in blaswheel.error("tag", made)[0]


def test_options_that_need_others(blaswheel: Blaswheel, tmp_path: Path) -> None:
    path = tmp_path / "a-1-py3-none-any.whl"
    assert "--write" in blaswheel.error("tag", "--as", "any", path, status=2)[1]
    assert "one wheel" in blaswheel.error("tag", "--json", path, path, status=2)[0]
