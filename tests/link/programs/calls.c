/* Calls CBLAS and LAPACKE as the headers declare them, and checks the results.
   INTEGER_BITS is the width expected; with NAMES_64 the names end in 64_. */
#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cblas.h"
#include "lapacke.h"

#ifdef NAMES_64
#define NAME(name) name##64_
#else
#define NAME(name) name
#endif

_Static_assert(sizeof(blasint) * 8 == INTEGER_BITS, "width of CBLAS integers");
_Static_assert(sizeof(lapack_int) * 8 == INTEGER_BITS, "width of LAPACKE integers");

enum { CANARIES = 16, CANARY = 0x5a };

static int wrong(const char *what) {
  printf("wrong: %s\n", what);
  return 1;
}

int main(void) {
  const double x[3] = {1, 2, 3}, y[3] = {4, 5, 6};
  if (NAME(cblas_ddot)(3, x, 1, y, 1) != 32) return wrong("cblas_ddot");
  if (NAME(cblas_ddot)(3, x, -1, y, 1) != 28) return wrong("cblas_ddot backwards");

  const double complex u[2] = {1 + 2 * I, 3 - I}, v[2] = {2 - I, 1 + I};
  double complex dot = 0;
  NAME(cblas_zdotc_sub)(2, u, 1, v, 1, &dot);
  if (dot != (1 - 2 * I) * (2 - I) + (3 + I) * (1 + I)) return wrong("cblas_zdotc_sub");

  /* A matrix whose rows change places, and canaries around the pivots. */
  double a[9] = {0, 2, 1, 1, 1, 3, 4, 1, 1}, b[3] = {7, 12, 9};
  struct {
    unsigned char before[CANARIES];
    lapack_int ipiv[3];
    unsigned char after[CANARIES];
  } pivots;
  memset(&pivots, CANARY, sizeof pivots);
  if (NAME(LAPACKE_dgesv)(LAPACK_ROW_MAJOR, 3, 1, a, 3, pivots.ipiv, b, 1) != 0)
    return wrong("LAPACKE_dgesv");
  for (int i = 0; i < 3; i++)
    if (fabs(b[i] - (i + 1)) > 1e-13) return wrong("LAPACKE_dgesv's solution");
  for (int i = 0; i < CANARIES; i++)
    if (pivots.before[i] != CANARY || pivots.after[i] != CANARY)
      return wrong("LAPACKE_dgesv wrote beside ipiv");
  if (pivots.ipiv[0] != 3 || pivots.ipiv[1] != 3 || pivots.ipiv[2] != 3)
    return wrong("LAPACKE_dgesv's ipiv");
  puts("right");
  return 0;
}
