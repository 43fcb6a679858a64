"""Packages whose extension module is linked with a provider's library, without a run path."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

from tests.support import Venv

_SOURCE = """
#include <Python.h>
#include <cblas.h>
#include INTEGER_HEADER
static PyObject *dot(PyObject *self, PyObject *unused)
{
    double x[3] = {1, 2, 3};
    (void)self; (void)unused;
    return PyFloat_FromDouble(DDOT(3, x, 1, x, 1));
}
static PyMethodDef methods[] = {{"dot", dot, METH_NOARGS, 0}, {0, 0, 0, 0}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "MODULE", 0, -1, methods,
                                        0, 0, 0, 0};
PyMODINIT_FUNC JOINED(void) { return PyModule_Create(&definition); }
"""


def package(
    build: Venv, folder: Path, name: str, *, wide: bool = False, first: str = "", library: str = ""
) -> Path:
    """Compile a package with a module ``_dot`` into a folder; return the package.

    ``first`` is the beginning of its ``__init__.py``.
    """
    target = folder / name
    target.mkdir(parents=True)
    words = ["pc", "--runtime", "link", "--interface", "ilp64" if wide else "lp64"]
    output = folder / f"{name}.pc"
    build.run("blaswheel", *words, *([library] if library else []), "-o", output)
    environ = {"PKG_CONFIG_PATH": str(folder)}
    flags = build.run("pkg-config", "--cflags", "--libs", name, environ=environ).stdout.split()
    source = folder / f"{name}.c"
    text = _SOURCE.replace("#include INTEGER_HEADER\n", "")
    text = text.replace("DDOT", "cblas_ddot64_" if wide else "cblas_ddot")
    text = text.replace("JOINED", "PyInit__dot").replace("MODULE", "_dot")
    source.write_text(text)
    include = sysconfig.get_paths()["include"]
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    command = [
        "gcc",
        "-shared",
        "-fPIC",
        f"-I{include}",
        source,
        *flags,
        "-o",
        target / f"_dot{suffix}",
    ]
    subprocess.run(command, check=True)
    (target / "__init__.py").write_text(f"{first}\nfrom ._dot import dot\n")
    for path in (source, output):
        path.unlink()
    return target
