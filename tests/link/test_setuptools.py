"""setuptools links an extension module with the BLAS of a wheel."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import Venv, Wheels

LP64, ILP64 = "scipy-openblas32==0.3.34.481.3", "scipy-openblas64==0.3.34.481.3"
TOOLS = ("setuptools==80.9.0", "pkgconfig==1.6.0")
MODULE = r"""
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <cblas.h>

#ifdef BLAS_SYMBOL_SUFFIX
#define ddot cblas_ddot64_
#else
#define ddot cblas_ddot
#endif

static PyObject *dot(PyObject *self, PyObject *unused)
{
    double x[3] = {1, 2, 3};
    return PyFloat_FromDouble(ddot(3, x, 1, x, 1));
}

static PyMethodDef methods[] = {{"dot", dot, METH_NOARGS, ""}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_dot", "", -1, methods};
PyMODINIT_FUNC PyInit__dot(void) { return PyModule_Create(&definition); }
"""
SETUP = """
from setuptools import Extension, setup

module = Extension("demo._dot", ["dot.c"])
{how}
setup(name="demo", version="1.0", packages=["demo"], ext_modules=[module])
"""
API = """
import blaswheel
blas = blaswheel.find(interface={interface!r})
module.extra_compile_args = blas.compile_args()
module.extra_link_args = blas.link_args(runtime="origin", depth=1)
"""
CONFIGURE = "import pkgconfig\npkgconfig.configure_extension(module, {name!r})\n"
PARSE = """
import pkgconfig
for key, value in pkgconfig.parse({name!r}).items():
    setattr(module, key, value)
"""

pytestmark = pytest.mark.tool("cc", "pkg-config", "readelf")


def build(venv: Venv, wheels: Wheels, folder: Path, how: str, **environ: str) -> None:
    """Build the project with setuptools and put it into the environment."""
    venv.pip_install("--no-index", "--no-deps", *map(wheels.fetch, TOOLS))
    (folder / "demo").mkdir(parents=True)
    (folder / "demo" / "__init__.py").write_text("")
    (folder / "dot.c").write_text(MODULE)
    (folder / "setup.py").write_text(SETUP.format(how=how))
    venv.run(
        *("python", "setup.py", "-q", "build", "--build-lib", venv.site_packages),
        cwd=folder,
        environ=environ,
    )


def dot(venv: Venv, *before: str) -> str:
    return venv.run(*before, "python", "-c", "import demo._dot as m; print(m.dot())").stdout


@pytest.mark.parametrize("interface", ["lp64", "ilp64"])
def test_python_gives_the_arguments(
    provider_venv: Callable[..., Venv], wheels: Wheels, tmp_path: Path, interface: str
) -> None:
    venv = provider_venv(LP64, ILP64, name="an ünusual name")
    build(venv, wheels, tmp_path / "demo", API.format(interface=interface))
    assert dot(venv) == "14.0\n"


@pytest.mark.parametrize("how", [CONFIGURE, PARSE], ids=["configure_extension", "parse"])
@pytest.mark.parametrize("name", ["openblas", "openblas64"])
def test_pkgconfig_of_pypi(
    provider_venv: Callable[..., Venv], wheels: Wheels, tmp_path: Path, how: str, name: str
) -> None:
    venv = provider_venv(LP64, ILP64)
    folder = tmp_path / "pc"
    venv.run("blaswheel", "pc", "--dir", folder)
    text = how.format(name=name)
    build(venv, wheels, tmp_path / "demo", text, PKG_CONFIG_PATH=str(folder))
    assert dot(venv, "blaswheel", "exec", "--") == "14.0\n"


@pytest.mark.parametrize("how", [CONFIGURE, PARSE], ids=["configure_extension", "parse"])
def test_pkgconfig_of_pypi_and_spaces(
    provider_venv: Callable[..., Venv], wheels: Wheels, tmp_path: Path, how: str
) -> None:
    venv = provider_venv(LP64, name="a name")
    folder = tmp_path / "some files"
    venv.run("blaswheel", "pc", "--dir", folder)
    text = how.format(name="openblas")
    build(venv, wheels, tmp_path / "demo", text, PKG_CONFIG_PATH=str(folder))
    assert dot(venv, "blaswheel", "exec", "--") == "14.0\n"


def test_what_pkgconfig_of_pypi_drops(
    provider_venv: Callable[..., Venv], wheels: Wheels, tmp_path: Path
) -> None:
    """It takes flags apart at spaces and keeps the backslash; it knows four kinds of flags."""
    venv = provider_venv(LP64)
    venv.pip_install("--no-index", "--no-deps", *map(wheels.fetch, TOOLS))
    folder = tmp_path / "pc"
    venv.run("blaswheel", "pc", "--dir", folder, "--runtime", "origin")
    (folder / "spaces.pc").write_text(
        "Name: x\nDescription: x\nVersion: 1\nCflags: -I/a\\ name\nLibs: -Wl,-s -lx\n"
    )
    program = (
        "import json, pkgconfig;"
        "print(json.dumps([pkgconfig.parse(name) for name in ('openblas', 'spaces')]))"
    )
    environ = {"PKG_CONFIG_PATH": str(folder)}
    ours, spaces = json.loads(venv.run("python", "-c", program, environ=environ).stdout)
    assert "libraries" not in ours
    assert spaces == {"include_dirs": ["/a\\ name"], "libraries": ["x"]}
