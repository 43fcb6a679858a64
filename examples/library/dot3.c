#include <cblas.h>

double dot3(const double *x, const double *y);

double dot3(const double *x, const double *y)
{
    return cblas_ddot(3, x, 1, y, 1);
}
