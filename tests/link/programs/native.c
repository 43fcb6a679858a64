/* Calls a library by its own names, which the flags tell by macros, with the provider's headers.
   Some providers' headers declare plain names that their library lacks: the functions called are
   declared here too, with the headers' types, and must agree with the headers where both do. */
#include <stdio.h>
#include <string.h>

#include "cblas.h"
#include "lapacke.h"

#ifndef BLAS_SYMBOL_PREFIX
#define BLAS_SYMBOL_PREFIX
#endif
#ifndef BLAS_SYMBOL_SUFFIX
#define BLAS_SYMBOL_SUFFIX
#endif
#define JOIN_(prefix, name, suffix) prefix##name##suffix
#define JOIN(prefix, name, suffix) JOIN_(prefix, name, suffix)
#define NAME(name) JOIN(BLAS_SYMBOL_PREFIX, name, BLAS_SYMBOL_SUFFIX)
#ifdef HAVE_BLAS_ILP64
enum { BITS = 64 };
#else
enum { BITS = 32 };
#endif

_Static_assert(BITS == INTEGER_BITS, "HAVE_BLAS_ILP64");
_Static_assert(sizeof(blasint) * 8 == INTEGER_BITS, "width of CBLAS integers");
_Static_assert(sizeof(lapack_int) * 8 == INTEGER_BITS, "width of LAPACKE integers");

double NAME(cblas_ddot)(const blasint, const double *, const blasint, const double *,
                        const blasint);
lapack_int NAME(LAPACKE_dgesv)(int, lapack_int, lapack_int, double *, lapack_int, lapack_int *,
                               double *, lapack_int);

int main(void) {
  const double x[3] = {1, 2, 3}, y[3] = {4, 5, 6};
  double a[4] = {0, 1, 1, 0}, b[2] = {2, 1};
  struct {
    lapack_int before, ipiv[2], after;
  } pivots;
  memset(&pivots, 0x5a, sizeof pivots);
  if (NAME(cblas_ddot)(3, x, 1, y, 1) != 32) return 1;
  if (NAME(LAPACKE_dgesv)(LAPACK_ROW_MAJOR, 2, 1, a, 2, pivots.ipiv, b, 1) != 0) return 2;
  if (b[0] != 1 || b[1] != 2) return 3;
  if (pivots.ipiv[0] != 2 || pivots.ipiv[1] != 2 || pivots.before != pivots.after) return 4;
  puts("right");
  return 0;
}
