#define PY_SSIZE_T_CLEAN
#include <Python.h>

double dot3(const double *x, const double *y);

static PyObject *dot(PyObject *self, PyObject *args)
{
    double x[3], y[3];
    (void)self;
    if (!PyArg_ParseTuple(args, "(ddd)(ddd)", &x[0], &x[1], &x[2], &y[0], &y[1], &y[2]))
        return NULL;
    return PyFloat_FromDouble(dot3(x, y));
}

static PyMethodDef methods[] = {
    {"dot", dot, METH_VARARGS, "Return the dot product of two vectors of three numbers."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_dot", NULL, -1, methods};

PyMODINIT_FUNC PyInit__dot(void)
{
    return PyModule_Create(&module);
}
