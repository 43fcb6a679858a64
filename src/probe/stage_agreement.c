/* Stage agreement: do the C interfaces compute what the Fortran routines compute?
 *
 * CBLAS and LAPACKE are layers of their own, compiled apart, and have been wrong on their own: a
 * row-major branch that swaps the wrong arguments, a complex result that the layer expects in
 * another convention than the library below it returns. The operands are small integers, so that
 * every right result is exact and "right" needs no tolerance (dgesv alone divides).
 * ok: the right value. wrong: another one. absent: no such function. unknown: integer width not
 * known, so nothing was called.
 */
#include "probe.h"

#include <stdio.h>
#include <string.h>

#define ROW_MAJOR 101
#define COLUMN_MAJOR 102
#define NO_TRANSPOSE 111
#define NAN_ARGUMENT 4 /* position of the matrix among LAPACKE_dgesv's arguments */
#define TOLERANCE 1e-12

enum { ROWS = 2, INNER = 3, COLUMNS = 2 };

/* A (2 by 3), B (3 by 2) and A B, by columns and by rows. */
static const double a_columns[] = {1, 4, 2, 5, 3, 6};
static const double a_rows[] = {1, 2, 3, 4, 5, 6};
static const double b_columns[] = {7, 9, 11, 8, 10, 12};
static const double b_rows[] = {7, 8, 9, 10, 11, 12};
static const double c_columns[] = {58, 139, 64, 154};
static const double c_rows[] = {58, 64, 139, 154};

typedef void (*gemm_lp64)(int, int, int, int32_t, int32_t, int32_t, double, const double *,
                          int32_t, const double *, int32_t, double, double *, int32_t);
typedef void (*gemm_ilp64)(int, int, int, int64_t, int64_t, int64_t, double, const double *,
                           int64_t, const double *, int64_t, double, double *, int64_t);
typedef void (*dotc_lp64)(int32_t, const void *, int32_t, const void *, int32_t, void *);
typedef void (*dotc_ilp64)(int64_t, const void *, int64_t, const void *, int64_t, void *);
typedef int32_t (*gesv_lp64)(int, int32_t, int32_t, double *, int32_t, void *, double *, int32_t);
typedef int64_t (*gesv_ilp64)(int, int64_t, int64_t, double *, int64_t, void *, double *, int64_t);

static int gemm_fortran(function address, enum width width)
{
    double result[] = {-1, -1, -1, -1};
    double one = 1;
    double zero = 0;
    integer m = integer_of(width, ROWS);
    integer n = integer_of(width, COLUMNS);
    integer k = integer_of(width, INNER);
    ((void (*)(const void *, const void *, void *, void *, void *, void *, const void *, void *,
               const void *, void *, void *, void *, void *, size_t, size_t))address)(
        "N", "N", &m, &n, &k, &one, a_columns, &m, b_columns, &k, &zero, result, &m, 1, 1);
    return memcmp(result, c_columns, sizeof result) == 0;
}

static int gemm_cblas(function address, enum width width, int layout)
{
    const int by_rows = layout == ROW_MAJOR;
    const double *a = by_rows ? a_rows : a_columns;
    const double *b = by_rows ? b_rows : b_columns;
    const int lda = by_rows ? INNER : ROWS;
    const int ldb = by_rows ? COLUMNS : INNER;
    const int ldc = by_rows ? COLUMNS : ROWS;
    double result[] = {-1, -1, -1, -1};
    if (width == WIDTH_ILP64)
        ((gemm_ilp64)address)(layout, NO_TRANSPOSE, NO_TRANSPOSE, ROWS, COLUMNS, INNER, 1, a, lda,
                              b, ldb, 0, result, ldc);
    else
        ((gemm_lp64)address)(layout, NO_TRANSPOSE, NO_TRANSPOSE, ROWS, COLUMNS, INNER, 1, a, lda,
                             b, ldb, 0, result, ldc);
    return memcmp(result, by_rows ? c_rows : c_columns, sizeof result) == 0;
}

static int gemm_cblas_columns(function address, enum width width)
{
    return gemm_cblas(address, width, COLUMN_MAJOR);
}

static int gemm_cblas_rows(function address, enum width width)
{
    return gemm_cblas(address, width, ROW_MAJOR);
}

/* conj(x) . y = 3 + 6i, as in the returns stage. */
static int dotc_single(function address, enum width width)
{
    static const float x[] = {1, 2, 3, -1};
    static const float y[] = {2, -1, 2, 3};
    float result[2] = {-1, -1};
    if (width == WIDTH_ILP64)
        ((dotc_ilp64)address)(2, x, 1, y, 1, result);
    else
        ((dotc_lp64)address)(2, x, 1, y, 1, result);
    return result[0] == 3.0f && result[1] == 6.0f;
}

static int dotc_double(function address, enum width width)
{
    static const double x[] = {1, 2, 3, -1};
    static const double y[] = {2, -1, 2, 3};
    double result[2] = {-1, -1};
    if (width == WIDTH_ILP64)
        ((dotc_ilp64)address)(2, x, 1, y, 1, result);
    else
        ((dotc_lp64)address)(2, x, 1, y, 1, result);
    return result[0] == 3.0 && result[1] == 6.0;
}

static int64_t gesv(function address, enum width width, int layout, double *matrix, double *right)
{
    integer pivots[3] = {{0}, {0}, {0}};
    const int leading = layout == ROW_MAJOR ? 1 : 2;
    if (width == WIDTH_ILP64)
        return (int32_t)((gesv_ilp64)address)(layout, 2, 1, matrix, 2, pivots, right, leading);
    return ((gesv_lp64)address)(layout, 2, 1, matrix, 2, pivots, right, leading);
}

/* (1 2; 3 4) x = (5, 11) has the solution (1, 2); by the transpose it would be another. */
static int gesv_layout(function address, enum width width, int layout)
{
    double by_rows[] = {1, 2, 3, 4};
    double by_columns[] = {1, 3, 2, 4};
    double right[] = {5, 11};
    if (gesv(address, width, layout, layout == ROW_MAJOR ? by_rows : by_columns, right) != 0)
        return 0;
    const double first = right[0] - 1;
    const double second = right[1] - 2;
    return first < TOLERANCE && first > -TOLERANCE && second < TOLERANCE && second > -TOLERANCE;
}

static int gesv_columns(function address, enum width width)
{
    return gesv_layout(address, width, COLUMN_MAJOR);
}

static int gesv_rows(function address, enum width width)
{
    return gesv_layout(address, width, ROW_MAJOR);
}

/* LAPACKE looks for NaNs in its input unless it was built without or told not to, and says which
 * argument holds one. */
static const char *nan_check(function address, enum width width)
{
    const double infinity = 1e308 * 10;
    double matrix[] = {1, infinity - infinity, 3, 4};
    double right[] = {5, 11};
    const int64_t info = gesv(address, width, COLUMN_MAJOR, matrix, right);
    return info == -NAN_ARGUMENT ? "on" : "off";
}

struct agreement_call {
    const char *key;
    enum api api;
    const char *stem;
    int (*run)(function address, enum width width);
};

static const struct agreement_call calls[] = {
    {"agreement.dgemm", API_BLAS, "dgemm", gemm_fortran},
    {"agreement.cblas_dgemm_columns", API_CBLAS, "cblas_dgemm", gemm_cblas_columns},
    {"agreement.cblas_dgemm_rows", API_CBLAS, "cblas_dgemm", gemm_cblas_rows},
    {"agreement.cblas_cdotc_sub", API_CBLAS, "cblas_cdotc_sub", dotc_single},
    {"agreement.cblas_zdotc_sub", API_CBLAS, "cblas_zdotc_sub", dotc_double},
    {"agreement.LAPACKE_dgesv_columns", API_LAPACKE, "LAPACKE_dgesv", gesv_columns},
    {"agreement.LAPACKE_dgesv_rows", API_LAPACKE, "LAPACKE_dgesv", gesv_rows},
};

#if defined(__APPLE__) && defined(__aarch64__)
#define ARGUMENTS_ARE_PACKED 1 /* on the stack an int takes 4 bytes */
#else
#define ARGUMENTS_ARE_PACKED 0
#endif

/* The width to call a family with; WIDTH_UNKNOWN: do not. Where the family's own calls did not
 * tell, but the others' did, the C interfaces may be called with 64-bit arguments: a small number
 * is then the same to both widths, in a register and in a slot of the stack. */
static enum width calling_width(const struct probe *probe, const struct family *family)
{
    if (family->width == WIDTH_LP64 || family->width == WIDTH_ILP64)
        return family->width;
    const int takes_both = sizeof(void *) == sizeof(int64_t) && !ARGUMENTS_ARE_PACKED &&
                           (family->api == API_CBLAS || family->api == API_LAPACKE);
    const int others_told = probe->width == WIDTH_LP64 || probe->width == WIDTH_ILP64;
    return family->width == WIDTH_UNKNOWN && takes_both && others_told ? WIDTH_ILP64
                                                                       : WIDTH_UNKNOWN;
}

void stage_agreement(struct probe *probe)
{
    unsigned right = 0;
    unsigned wrong = 0;
    for (size_t c = 0; c < sizeof calls / sizeof *calls; ++c) {
        const struct family *family = first_family(probe, calls[c].api);
        function address = family == NULL ? NULL : family_function(probe, family, calls[c].stem);
        if (address == NULL) {
            report(calls[c].key, "absent");
        } else if (calling_width(probe, family) == WIDTH_UNKNOWN) {
            report(calls[c].key, "unknown");
        } else {
            report_stage("%s", calls[c].key);
            const int is_right = calls[c].run(address, calling_width(probe, family));
            report(calls[c].key, is_right ? "ok" : "wrong");
            right += is_right != 0;
            wrong += is_right == 0;
        }
    }
    const struct family *family = first_family(probe, API_LAPACKE);
    function address = family == NULL ? NULL : family_function(probe, family, "LAPACKE_dgesv");
    if (address == NULL) {
        report("agreement.nan_check", "absent");
    } else if (calling_width(probe, family) == WIDTH_UNKNOWN) {
        report("agreement.nan_check", "unknown");
    } else {
        report_stage("agreement.nan_check");
        report("agreement.nan_check", nan_check(address, calling_width(probe, family)));
    }
    report("agreement", wrong != 0 ? "wrong" : right != 0 ? "ok" : "unknown");
    if (wrong != 0)
        probe->failed = 1;
}
