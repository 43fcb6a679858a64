"""A package that loads its BLAS first works wherever the provider is installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import pytest

from tests.cli.sites import ILP64, LP64, NUMPY
from tests.runtime.extensions import package
from tests.support import Venv, Wheels

pytestmark = pytest.mark.tool("gcc", "pkg-config")
# The last SciPy that has wheels for the running Python.
SCIPY = "scipy==1.17.1" if sys.version_info >= (3, 11) else "scipy==1.15.3"
WRITE = "import blaswheel, sys; print(blaswheel.write_distributor_init({0!r}, {1!r}))"


class Built:
    """Packages for LP64 and ILP64 that load their BLAS first; the environment they were built in
    is gone."""

    def __init__(self, folder: Path, build: Venv) -> None:
        self.narrow = package(build, folder, "narrow", first="from . import _distributor_init")
        self.wide = package(
            build, folder, "wide", wide=True, first="from . import _distributor_init"
        )
        self.plain = package(build, folder, "plain")
        for target, provider in (
            (self.narrow, "scipy-openblas32"),
            (self.wide, "scipy-openblas64"),
        ):
            code = WRITE.format(str(target), provider)
            said = build.run("python", "-c", code).stdout.strip()
            assert said == str(target / "_distributor_init.py")
        shutil.rmtree(build.path)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, wheels: Wheels, blaswheel_wheel: Path) -> Built:
    build = Venv(tmp_path_factory.mktemp("build") / "venv")
    files = map(wheels.fetch, (LP64, ILP64))
    build.pip_install("--no-index", "--no-deps", blaswheel_wheel, *files)
    return Built(tmp_path_factory.mktemp("packages"), build)


def install(package_folder: Path, site: Path) -> None:
    shutil.copytree(package_folder, site / package_folder.name)


@pytest.fixture
def clean(venv: Callable[..., Venv], wheels: Wheels) -> Callable[..., Venv]:
    """Make an environment with providers and without blaswheel."""

    def make(*specs: str, name: str = "clean") -> Venv:
        made = venv(name)
        made.pip_install("--no-index", "--no-deps", *map(wheels.fetch, specs))
        return made

    return make


USE = "import {0}; print({0}.dot())"


def test_one_environment(built: Built, clean: Callable[..., Venv]) -> None:
    made = clean(LP64, ILP64)
    for folder in (built.narrow, built.wide, built.plain):
        install(folder, made.site_packages)
    for name in ("narrow", "wide"):
        assert made.run("python", "-c", USE.format(name)).stdout == "14.0\n"
    for order in ("narrow, wide", "wide, narrow"):
        code = f"import {order}; print(narrow.dot(), wide.dot())"
        assert made.run("python", "-c", code).stdout == "14.0 14.0\n"
    # Without it, the module finds nothing.
    failed = made.run("python", "-c", USE.format("plain"), check=False)
    assert "libscipy_openblas.so: cannot open shared object file" in failed.stderr


def test_the_provider_in_the_base_environment(
    built: Built, clean: Callable[..., Venv], tmp_path: Path
) -> None:
    base = clean(LP64, name="base")
    base.run("python", "-m", "venv", "--without-pip", "--system-site-packages", tmp_path / "child")
    child = tmp_path / "child"
    # A child of the real Python: what the base environment has is added by a .pth file.
    (site,) = child.glob("lib/python*/site-packages")
    (site / "base.pth").write_text(f"{base.site_packages}\n")
    install(built.narrow, site)
    done = subprocess.run([child / "bin/python", "-c", USE.format("narrow")], capture_output=True,
                          text=True, check=True)  # fmt: skip
    assert done.stdout == "14.0\n"


def test_target_folder_and_user_site(
    built: Built, wheels: Wheels, venv: Callable[..., Venv], tmp_path: Path
) -> None:
    made = venv()
    target = tmp_path / "target"
    made.pip_install("--no-index", "--no-deps", "--target", target, wheels.fetch(LP64))
    install(built.narrow, made.site_packages)
    environ = {"PYTHONPATH": str(target)}
    assert made.run("python", "-c", USE.format("narrow"), environ=environ).stdout == "14.0\n"
    # A user's site-packages, for an interpreter that has one.
    base = tmp_path / "user"
    python = os.path.realpath(sys.executable)
    code = "import site; print(site.getusersitepackages())"
    environ = {**os.environ, "PYTHONUSERBASE": str(base)}
    for name in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"):
        environ.pop(name, None)
    site = subprocess.run([python, "-c", code], env=environ, capture_output=True, text=True,
                          check=True).stdout.strip()  # fmt: skip
    Path(site).parent.mkdir(parents=True)
    shutil.move(target, site)
    packages = tmp_path / "packages"
    install(built.narrow, packages)
    environ["PYTHONPATH"] = str(packages)
    done = subprocess.run([python, "-c", USE.format("narrow")], env=environ, capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert done.stdout == "14.0\n", done.stderr


def test_symbolic_links(built: Built, clean: Callable[..., Venv], tmp_path: Path) -> None:
    made = clean(LP64)
    (tmp_path / "elsewhere").mkdir()
    install(built.narrow, tmp_path / "elsewhere")
    (made.site_packages / "narrow").symlink_to(tmp_path / "elsewhere" / "narrow")
    provider = made.site_packages / "scipy_openblas32"
    shutil.move(provider, tmp_path / "elsewhere" / "scipy_openblas32")
    provider.symlink_to(tmp_path / "elsewhere" / "scipy_openblas32")
    assert made.run("python", "-c", USE.format("narrow")).stdout == "14.0\n"


def test_a_provider_that_is_missing_or_damaged(built: Built, clean: Callable[..., Venv]) -> None:
    made = clean(ILP64)
    install(built.narrow, made.site_packages)
    install(built.wide, made.site_packages)
    failed = made.run("python", "-c", USE.format("narrow"), check=False)
    assert failed.stderr.splitlines()[-1] == (
        "ImportError: scipy-openblas32 is not installed, whose BLAS is needed here: pip install "
        "'scipy-openblas32==0.3.34.481.3'"
    )
    (library,) = made.site_packages.rglob("libscipy_openblas64_.so")
    library.unlink()
    failed = made.run("python", "-c", USE.format("wide"), check=False)
    last = failed.stderr.splitlines()[-1]
    assert last.startswith("ImportError: libscipy_openblas64_.so is missing in scipy-openblas64")


def test_threads_forks_and_again(built: Built, clean: Callable[..., Venv]) -> None:
    made = clean(LP64)
    install(built.narrow, made.site_packages)
    code = """
import importlib, os, sys, threading
results = []
def work():
    import narrow
    results.append(narrow.dot())
threads = [threading.Thread(target=work) for _ in range(8)]
for each in threads: each.start()
for each in threads: each.join()
import narrow
importlib.reload(narrow._distributor_init)
child = os.fork()
if child == 0:
    os._exit(0 if narrow.dot() == 14 else 1)
assert os.waitpid(child, 0)[1] == 0
print(results, len([x for x in open("/proc/self/maps") if "openblas" in x and "r-xp" in x]))
"""
    assert made.run("python", "-c", code).stdout == f"{[14.0] * 8} 1\n"


def test_an_editable_package(built: Built, clean: Callable[..., Venv], tmp_path: Path) -> None:
    """One that stays where its sources are."""
    made = clean(LP64)
    install(built.narrow, tmp_path / "sources")
    (made.site_packages / "editable.pth").write_text(f"{tmp_path / 'sources'}\n")
    assert made.run("python", "-c", USE.format("narrow")).stdout == "14.0\n"


#: All orders; those of which each module is the first in one are run always.
MODULES = ("numpy.linalg", "scipy.linalg", "narrow", "wide")
ROTATIONS = [MODULES[number:] + MODULES[:number] for number in range(len(MODULES))]
ORDERS = [
    pytest.param(order, marks=() if order in ROTATIONS else pytest.mark.full)
    for order in permutations(MODULES)
]


@pytest.fixture(scope="module")
def crowded(
    built: Built,
    tmp_path_factory: pytest.TempPathFactory,
    wheels: Wheels,
    blaswheel_wheel: Path,
) -> Venv:
    """An environment with four copies of OpenBLAS."""
    made = Venv(tmp_path_factory.mktemp("crowded") / "venv")
    files = map(wheels.fetch, (LP64, ILP64, NUMPY, SCIPY))
    made.pip_install("--no-index", "--no-deps", blaswheel_wheel, *files)
    for folder in (built.narrow, built.wide):
        install(folder, made.site_packages)
    return made


@pytest.mark.parametrize("order", ORDERS)
def test_nothing_else_is_bound_to_it(crowded: Venv, order: tuple[str, ...]) -> None:
    """numpy and scipy keep to their own copies, in every order of imports."""
    code = """
import {0}
import blaswheel
assert narrow.dot() == wide.dot() == 14
assert (numpy.linalg.solve([[2, 0], [0, 4]], [2, 8]) == [1, 2]).all()
assert abs(scipy.linalg.det([[2, 1], [1, 3]]) - 5) < 1e-12
report = blaswheel.loaded()
assert len(report.libraries) == 4 and not any(one.is_global for one in report.libraries)
for module, paths in report.bindings.items():
    for package in ("numpy", "scipy"):
        if f"/site-packages/{{package}}/" in module:
            assert all(f"{{package}}.libs" in path for path in paths), (module, paths)
print(report.threads > 0)
"""
    assert crowded.run("python", "-c", code.format(", ".join(order))).stdout == "True\n"


def test_preload_by_blaswheel(
    built: Built, provider_venv: Callable[..., Venv], wheels: Wheels
) -> None:
    made = provider_venv(LP64, ILP64)
    install(built.plain, made.site_packages)
    code = """
import sys, blaswheel
paths = blaswheel.preload("scipy-openblas32")
assert paths == blaswheel.preload("scipy-openblas32")
assert "scipy_openblas32" not in sys.modules
import ctypes
assert not hasattr(ctypes.CDLL(None), "scipy_ddot_")
import plain
print(plain.dot(), *paths)
"""
    (library,) = made.site_packages.rglob("libscipy_openblas.so")
    assert made.run("python", "-c", code).stdout == f"14.0 {library}\n"
    failed = made.run("python", "-c", "import blaswheel; blaswheel.preload('mkl')", check=False)
    assert failed.stderr.splitlines()[-1].startswith("ImportError: ")


def test_musl_is_refused(blaswheel_wheel: Path, wheels: Wheels, tmp_path: Path,
                         shared_venv: Callable[..., Venv]) -> None:  # fmt: skip
    folder = wheels.unpacked(LP64, "musllinux_1_2_x86_64")
    code = (
        "import blaswheel; from blaswheel import _distributor; "
        f"_distributor.text(blaswheel.find(root={str(folder)!r}))"
    )
    failed = shared_venv().run("python", "-c", code, check=False)
    assert "built for musl" in failed.stderr


@pytest.mark.tool("musl-gcc", "gcc")
def test_musl_does_not_take_what_was_loaded_by_path(tmp_path: Path) -> None:
    """Why it is refused there: the same program, with glibc and with Debian's musl."""
    (tmp_path / "blas.c").write_text("int blas(void) { return 14; }\n")
    (tmp_path / "module.c").write_text("int blas(void);\nint dot(void) { return blas(); }\n")
    (tmp_path / "program.c").write_text(
        "#include <dlfcn.h>\n"
        "int main(int count, char **words)\n"
        "{\n"
        "    if (count != 3 || !dlopen(words[1], RTLD_NOW | RTLD_LOCAL)) return 2;\n"
        "    void *module = dlopen(words[2], RTLD_NOW);\n"
        '    int (*dot)(void) = module ? (int (*)(void))dlsym(module, "dot") : 0;\n'
        "    return !(dot && dot() == 14);\n"
        "}\n"
    )
    (tmp_path / "hidden").mkdir()
    for compiler, status in (("gcc", 0), ("musl-gcc", 1)):
        library, module = tmp_path / "hidden" / "libblas.so", tmp_path / "module.so"
        shared = [compiler, "-shared", "-fPIC"]
        soname = "-Wl,-soname,libblas.so"
        for words in (
            [*shared, tmp_path / "blas.c", soname, "-o", library],
            [*shared, tmp_path / "module.c", f"-L{library.parent}", "-lblas", "-o", module],
            [compiler, tmp_path / "program.c", "-ldl", "-o", tmp_path / "program"],
        ):
            subprocess.run(words, check=True)
        done = subprocess.run([tmp_path / "program", library, module], check=False)
        assert done.returncode == status, compiler


#: One ends the docstring, and the line after it would be run.
HOSTILE = ["it's", 'a"b', "line\nbreak", "{0}", "$HOME", "back\\slash", "\\N{", '"""\nexit(3)\n"""']


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_text_and_nothing_else(
    shared_venv: Callable[..., Venv], tmp_path: Path, name: str
) -> None:
    """The generated file compiles, and has the name as it is."""
    code = f"""
import ast
from blaswheel import _distributor, _discovery
from blaswheel._library import Library
import blaswheel
library = blaswheel.find(provider="scipy-openblas32")
provider = library.provider.replace(name={name!r})
text = _distributor.text(library.replace(provider=provider))
tree = ast.parse(text)
values = {{n.targets[0].id: ast.literal_eval(n.value) for n in tree.body
          if isinstance(n, ast.Assign) and n.targets[0].id.isupper()}}
assert values["PROVIDER"] == {name!r}, values
plain = ast.parse(_distributor.text(library))
assert [type(n) for n in tree.body] == [type(n) for n in plain.body]
"""
    shared_venv(LP64).run("python", "-c", code)


@pytest.mark.parametrize("provider", [LP64, ILP64])
def test_counterparts_of_the_wheels_own_functions(
    shared_venv: Callable[..., Venv], tmp_path: Path, provider: str
) -> None:
    """The table in docs/runtime.md: what the wheel's module says, and what is said here."""
    venv = shared_venv(LP64, ILP64)
    name = provider.partition("==")[0]
    module = name.replace("-", "_")
    theirs = json.loads(
        venv.run(
            "python",
            "-c",
            f"import json, {module} as m; print(json.dumps([m.get_include_dir(), m.get_lib_dir(), "
            "m.get_library(), m.get_library(fullname=True), m.get_openblas_config(), "
            "m.get_pkg_config()]))",
        ).stdout
    )
    ours = json.loads(
        venv.run(
            "python",
            "-c",
            f"import json, blaswheel; f = blaswheel.find({name!r}); print(json.dumps(["
            "f.include_dirs, f.library_dir, f.link_name, f.path, f.configuration, "
            "f.pkg_config(native=True)]))",
        ).stdout
    )
    assert ours[0] == [theirs[0]]
    assert ours[1] == theirs[1]
    assert ours[2] == theirs[2]
    assert Path(ours[3]) == Path(theirs[1], theirs[3])
    # Theirs adds what only a running library knows: its kernels and threads.
    assert ours[4] and set(ours[4].split()) <= set(theirs[4].split())
    assert "-DBLAS_SYMBOL_PREFIX=scipy_" in theirs[5]
    assert "-DBLAS_SYMBOL_PREFIX=scipy_" in ours[5]
    assert f"/lib{theirs[2]}.so" in theirs[5]
    assert f" -l{theirs[2]}" in ours[5]
    assert theirs[4].split()[1] in venv.run("blaswheel", "show", name).stdout
    for number, call in enumerate(
        (
            f"import {module} as m; m.write__distributor_init(sys.argv[1])",
            f"import blaswheel; blaswheel.write_distributor_init(sys.argv[1], {name!r})",
        )
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        venv.run("python", "-c", f"import sys; {call}", folder)
        assert [path.name for path in folder.iterdir()] == ["_distributor_init.py"]
