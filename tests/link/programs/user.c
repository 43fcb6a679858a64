/* A shared object that calls BLAS and is linked to none: the program that uses it brings one. */
double cblas_ddot(int, const double *, int, const double *, int);
double ddot_(const int *, const double *, const int *, const double *, const int *);

double user(void);
double user(void) {
  const int three = 3, one = 1;
  const double x[3] = {1, 2, 3}, y[3] = {4, 5, 6};
  return cblas_ddot(3, x, 1, y, 1) + ddot_(&three, x, &one, y, &one);
}
