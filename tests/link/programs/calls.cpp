// The same from C++, where the headers must give the functions C linkage.
#include <cmath>
#include <complex>
#include <cstdio>
#include <vector>

#include "cblas.h"
#include "lapacke.h"

#ifdef NAMES_64
#define NAME(name) name##64_
#else
#define NAME(name) name
#endif

static_assert(sizeof(blasint) * 8 == INTEGER_BITS, "width of CBLAS integers");
static_assert(sizeof(lapack_int) * 8 == INTEGER_BITS, "width of LAPACKE integers");

static int wrong(const char *what) {
  std::printf("wrong: %s\n", what);
  return 1;
}

int main() {
  const std::vector<double> x{1, 2, 3}, y{4, 5, 6};
  if (NAME(cblas_ddot)(3, x.data(), 1, y.data(), 1) != 32) return wrong("cblas_ddot");

  using complex = std::complex<double>;
  const std::vector<complex> u{{1, 2}, {3, -1}}, v{{2, -1}, {1, 1}};
  complex dot;
  NAME(cblas_zdotc_sub)(2, u.data(), 1, v.data(), 1, &dot);
  if (dot != std::conj(u[0]) * v[0] + std::conj(u[1]) * v[1]) return wrong("cblas_zdotc_sub");

  std::vector<double> a{0, 2, 1, 1, 1, 3, 4, 1, 1}, b{7, 12, 9};
  std::vector<lapack_int> ipiv(3);
  if (NAME(LAPACKE_dgesv)(LAPACK_ROW_MAJOR, 3, 1, a.data(), 3, ipiv.data(), b.data(), 1) != 0)
    return wrong("LAPACKE_dgesv");
  for (int i = 0; i < 3; i++)
    if (std::fabs(b[i] - (i + 1)) > 1e-13) return wrong("LAPACKE_dgesv's solution");
  if (ipiv != std::vector<lapack_int>{3, 3, 3}) return wrong("LAPACKE_dgesv's ipiv");
  std::puts("right");
}
