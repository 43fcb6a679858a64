/* QR and singular values of a matrix by the names of one interface, checked; with MODULE a Python
   extension module of that name, with MAIN a program that does it by both interfaces.

   Both routines call names that scipy-openblas forgot to rename: LP64 and ILP64 libraries take
   them from each other where they can, and then misread the integers. */
#ifdef MODULE
#define Py_LIMITED_API 0x030A0000
#include <Python.h>
#endif
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 96 };

const char *factor_lp64(void), *factor_ilp64(void);

#ifdef MAIN

int main(void) {
  const char *lp64 = factor_lp64(), *ilp64 = factor_ilp64();
  printf("lp64 %s, ilp64 %s\n", lp64, ilp64);
  return 0;
}

#else

#ifdef NAMES_64
typedef int64_t integer;
#define NAME(name) name##_64_
#define factor factor_ilp64
#else
typedef int32_t integer;
#define NAME(name) name##_
#define factor factor_lp64
#endif

void NAME(dgeqrf)(const integer *, const integer *, double *, const integer *, double *, double *,
                  const integer *, integer *);
void NAME(dgesdd)(const char *, const integer *, const integer *, double *, const integer *,
                  double *, double *, const integer *, double *, const integer *, double *,
                  const integer *, integer *, integer *, size_t);

static double a[N * N], b[N * N], u[N * N], vt[N * N], s[N], tau[N], work[64 * N * N];
static integer iwork[8 * N];

static void fill(double *matrix) {
  uint32_t state = 1;
  for (int i = 0; i < N * N; i++) {
    state = state * 1103515245u + 12345u;
    matrix[i] = (double)(state >> 16 & 1023) / 1024 - 0.5;
  }
}

const char *factor(void) {
  const integer n = N, size = 64 * N * N, ask = -1;
  integer info = -1;
  double worst = 0;
  fill(a);
  fill(b);
  NAME(dgeqrf)(&n, &n, b, &n, tau, work, &size, &info);
  if (info != 0) return "dgeqrf's info";
  for (int i = 0; i < N; i++)
    for (int j = i; j < N; j++) { /* R'R = A'A */
      double left = 0, right = 0;
      for (int k = 0; k < N; k++) right += a[k + N * i] * a[k + N * j];
      for (int k = 0; k <= i; k++) left += b[k + N * i] * b[k + N * j];
      worst = fmax(worst, fabs(left - right));
    }
  if (!(worst < 1e-9)) return "dgeqrf's result";
  fill(b);
  NAME(dgesdd)("A", &n, &n, b, &n, s, u, &n, vt, &n, work, &ask, iwork, &info, 1);
  if (info != 0 || !(work[0] > N && work[0] < (double)size)) return "dgesdd's work size";
  NAME(dgesdd)("A", &n, &n, b, &n, s, u, &n, vt, &n, work, &size, iwork, &info, 1);
  if (info != 0) return "dgesdd's info";
  worst = 0;
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) { /* U S V' = A */
      double sum = 0;
      for (int k = 0; k < N; k++) sum += u[i + N * k] * s[k] * vt[k + N * j];
      worst = fmax(worst, fabs(sum - a[i + N * j]));
    }
  if (!(worst < 1e-10)) return "dgesdd's result";
  return "right";
}

#endif

#ifdef MODULE
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define QUOTE_(a) #a
#define QUOTE(a) QUOTE_(a)

static PyObject *call(PyObject *self, PyObject *unused) {
  (void)self, (void)unused;
  return PyUnicode_FromString(factor());
}

static PyMethodDef methods[] = {{"factor", call, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, QUOTE(MODULE), NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC JOIN(PyInit_, MODULE)(void) { return PyModule_Create(&module); }
#endif
