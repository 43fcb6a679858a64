#include <lapacke.h>
#include <stdio.h>

/* Solves 2 x = 4. */
int main(void)
{
    double a[1] = {2}, b[1] = {4};
    lapack_int pivot[1];
    if (LAPACKE_dgesv(LAPACK_COL_MAJOR, 1, 1, a, 1, pivot, b, 1) != 0)
        return 1;
    printf("%g\n", b[0]);
    return b[0] == 2 ? 0 : 1;
}
