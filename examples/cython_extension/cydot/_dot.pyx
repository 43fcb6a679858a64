# cython: language_level=3
cdef extern from "cblas.h":
    double cblas_ddot(int n, const double *x, int incx, const double *y, int incy)


def dot(x, y):
    """Return the dot product of two vectors of three numbers."""
    cdef double[3] a
    cdef double[3] b
    for i in range(3):
        a[i] = x[i]
        b[i] = y[i]
    return cblas_ddot(3, a, 1, b, 1)
