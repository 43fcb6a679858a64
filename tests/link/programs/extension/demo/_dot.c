/* The smallest extension module that needs a BLAS. */
#define Py_LIMITED_API 0x030A0000
#include <Python.h>

#include "cblas.h"

static PyObject *dot(PyObject *self, PyObject *unused) {
  const double x[3] = {1, 2, 3}, y[3] = {4, 5, 6};
  (void)self, (void)unused;
  return PyFloat_FromDouble(cblas_ddot(3, x, 1, y, 1));
}

static PyMethodDef methods[] = {{"dot", dot, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_dot", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__dot(void) { return PyModule_Create(&module); }
