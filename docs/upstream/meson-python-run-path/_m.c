#include <Python.h>
int one(void);
static struct PyModuleDef def = {PyModuleDef_HEAD_INIT, "_m", NULL, -1, NULL};
PyMODINIT_FUNC PyInit__m(void) { return one() == 1 ? PyModule_Create(&def) : NULL; }
