/* A small BLAS, LAPACK, CBLAS and LAPACKE for the probe's tests, bent by macros.
 *
 * PREFIX, FORTRAN_SUFFIX, C_SUFFIX   decoration of the names (may be empty)
 * BLAS_INT, LAPACK_INT               bits of the integers: 32 (default) or 64
 * NO_BLAS, NO_LAPACK, NO_CBLAS, NO_LAPACKE   leave an interface out
 * COMPLEX_ARGUMENT                   complex results through a pointer before the arguments
 * COMPLEX_MIXED                      the same for double precision only
 * F2C_FLOATS                         float results as double
 * STUB                               every function returns at once
 * STOP_NEGATIVE                      a negative length ends the process, as Fortran's STOP does
 * WRONG_ROWS                         cblas_dgemm ignores row-major order
 * NO_NAN_CHECK                       LAPACKE does not look for NaNs
 * READS_RESULT                       dgemm multiplies what C holds by beta = 0
 * WRONG_EDGE                         one element of a large dgemm is off by 1e-10 of its value
 * OVERRUN                            dgemm writes one element below the last column
 * DATA_SYMBOL                        a variable that is called like a routine (dnrm2)
 * PRINT                              writes to standard output when loaded and when called
 * CRASH_LOAD, CRASH_CALL, ILLEGAL_CALL, LOOP_CALL, EXIT_LOAD, EXIT_CALL   what the name says
 * FLUSH_TO_ZERO, PIN, HANDLE_SIGNAL  what loading changes: control word, affinity, a handler
 * NEEDS_MISSING                      calls a function of another library
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifndef PREFIX
#define PREFIX
#endif
#ifndef FORTRAN_SUFFIX
#define FORTRAN_SUFFIX _
#endif
#ifndef C_SUFFIX
#define C_SUFFIX
#endif
#ifndef BLAS_INT
#define BLAS_INT 32
#endif
#ifndef LAPACK_INT
#define LAPACK_INT BLAS_INT
#endif

#define JOIN2(a, b, c) a##b##c
#define JOIN(a, b, c) JOIN2(a, b, c)
#define FORTRAN(stem) JOIN(PREFIX, stem, FORTRAN_SUFFIX)
#define C_NAME(stem) JOIN(PREFIX, stem, C_SUFFIX)
#define INT_OF2(bits) int##bits##_t
#define INT_OF(bits) INT_OF2(bits)
typedef INT_OF(BLAS_INT) blas_int;
typedef INT_OF(LAPACK_INT) lapack_int;

#ifdef NO_NAN_CHECK
#define NAN_INFO 0
#else
#define NAN_INFO (-4)
#endif

#ifdef F2C_FLOATS
typedef double float_result;
#else
typedef float float_result;
#endif

#ifdef STUB
#define BODY(...)
#else
#define BODY(...) __VA_ARGS__
#endif

#ifdef CRASH_LOAD
__attribute__((constructor)) static void crash(void)
{
    raise(SIGSEGV);
}
#endif
#ifdef EXIT_LOAD
__attribute__((constructor)) static void leave(void)
{
    exit(0);
}
#endif
#ifdef PRINT
__attribute__((constructor)) static void greet(void)
{
    puts("done=ok");
    fflush(stdout);
    if (write(1, "width=lp64\n", 11) != 11)
        abort();
}
#endif
#if defined(FLUSH_TO_ZERO) && defined(__x86_64__)
#include <xmmintrin.h>
__attribute__((constructor)) static void flush(void)
{
    _mm_setcsr(_mm_getcsr() | 0x8040);
}
#endif
#ifdef PIN
__attribute__((constructor)) static void pin(void)
{
    cpu_set_t set;
    int cpu = 0;
    sched_getaffinity(0, sizeof set, &set);
    while (!CPU_ISSET(cpu, &set))
        ++cpu;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}
#endif
#ifdef HANDLE_SIGNAL
static void handle(int number)
{
    (void)number;
    _exit(7);
}
__attribute__((constructor)) static void install(void)
{
    signal(SIGFPE, handle);
}
#endif
#ifdef NEEDS_MISSING
int function_of_another_library(void);
int C_NAME(call_another)(void);
int C_NAME(call_another)(void)
{
    return function_of_another_library();
}
#endif
#ifdef DATA_SYMBOL
double FORTRAN(dnrm2)[4] = {1, 2, 3, 4};
#endif

/* What every BLAS function with a length does first. */
static void enter(int64_t length)
{
    (void)length;
#ifdef PRINT
    puts("width=mixed");
    fflush(stdout);
#endif
#ifdef CRASH_CALL
    raise(SIGSEGV);
#endif
#ifdef ILLEGAL_CALL
    raise(SIGILL);
#endif
#ifdef LOOP_CALL
    for (volatile int i = 0;; ++i)
        ;
#endif
#ifdef EXIT_CALL
    exit(0);
#endif
#ifdef STOP_NEGATIVE
    if (length < 0) {
        fputs("STOP: negative length\n", stderr);
        exit(1);
    }
#endif
}

static int64_t largest(int64_t n, const float *x, int64_t step)
{
    int64_t best = 0;
    enter(n);
    if (n < 1 || step < 1)
        return -1;
    for (int64_t i = 1; i < n; ++i) {
        const float a = x[i * step];
        const float b = x[best * step];
        if ((a < 0 ? -a : a) > (b < 0 ? -b : b))
            best = i;
    }
    return best;
}

static void copy(int64_t n, const float *x, int64_t step_x, float *y, int64_t step_y)
{
    enter(n);
    for (int64_t i = 0; i < n; ++i)
        y[i * step_y] = x[i * step_x];
}

static void conjugate_dot(int64_t n, const double *x, int64_t step_x, const double *y,
                          int64_t step_y, double *result)
{
    result[0] = result[1] = 0;
    for (int64_t i = 0; i < n; ++i) {
        const double *a = x + 2 * i * step_x;
        const double *b = y + 2 * i * step_y;
        result[0] += a[0] * b[0] + a[1] * b[1];
        result[1] += a[0] * b[1] - a[1] * b[0];
    }
}

static void conjugate_dot_single(int64_t n, const float *x, int64_t step_x, const float *y,
                                 int64_t step_y, float *result)
{
    double sum[2] = {0, 0};
    for (int64_t i = 0; i < n; ++i) {
        const float *a = x + 2 * i * step_x;
        const float *b = y + 2 * i * step_y;
        const double left[2] = {(double)a[0], (double)a[1]};
        const double right[2] = {(double)b[0], (double)b[1]};
        double one[2];
        conjugate_dot(1, left, 1, right, 1, one);
        sum[0] += one[0];
        sum[1] += one[1];
    }
    result[0] = (float)sum[0];
    result[1] = (float)sum[1];
}

static int is_transposed(char operation)
{
    return operation != 'N' && operation != 'n';
}

static void multiply(int ta, int tb, int64_t m, int64_t n, int64_t k, double alpha, const double *a,
                     int64_t lda, const double *b, int64_t ldb, double beta, double *c, int64_t ldc)
{
    for (int64_t j = 0; j < n; ++j)
        for (int64_t i = 0; i < m; ++i) {
            double sum = 0;
            for (int64_t p = 0; p < k; ++p)
                sum += (ta ? a[p + i * lda] : a[i + p * lda]) * (tb ? b[j + p * ldb] : b[p + j * ldb]);
#ifdef READS_RESULT
            c[i + j * ldc] = alpha * sum + beta * c[i + j * ldc];
#else
            c[i + j * ldc] = alpha * sum + (beta == 0 ? 0 : beta * c[i + j * ldc]);
#endif
#ifdef WRONG_EDGE
            if (m > 64 && i == 64 && j == 3)
                c[i + j * ldc] *= 1.0 + 1e-10;
#endif
        }
#ifdef OVERRUN
    if (n > 0)
        c[m + (n - 1) * ldc] = 0;
#endif
}

static int64_t factor(int64_t m, int64_t n, double *a, int64_t lda, lapack_int *pivots)
{
    int64_t info = 0;
    for (int64_t j = 0; j < m && j < n; ++j) {
        int64_t best = j;
        for (int64_t i = j + 1; i < m; ++i) {
            const double x = a[i + j * lda];
            const double y = a[best + j * lda];
            if ((x < 0 ? -x : x) > (y < 0 ? -y : y))
                best = i;
        }
        pivots[j] = (lapack_int)(best + 1);
        if (a[best + j * lda] == 0) {
            info = info ? info : j + 1;
            continue;
        }
        for (int64_t c = 0; c < n; ++c) {
            const double held = a[j + c * lda];
            a[j + c * lda] = a[best + c * lda];
            a[best + c * lda] = held;
        }
        for (int64_t i = j + 1; i < m; ++i) {
            a[i + j * lda] /= a[j + j * lda];
            for (int64_t c = j + 1; c < n; ++c)
                a[i + c * lda] -= a[i + j * lda] * a[j + c * lda];
        }
    }
    return info;
}

#ifndef NO_BLAS
blas_int FORTRAN(isamax)(const blas_int *n, const float *x, const blas_int *step);
blas_int FORTRAN(isamax)(const blas_int *n, const float *x, const blas_int *step)
{
    BODY(return (blas_int)(largest(*n, x, *step) + 1);)
}

void FORTRAN(scopy)(const blas_int *n, const float *x, const blas_int *sx, float *y,
                    const blas_int *sy);
void FORTRAN(scopy)(const blas_int *n, const float *x, const blas_int *sx, float *y,
                    const blas_int *sy)
{
    BODY(copy(*n, x, *sx, y, *sy);)
}

double FORTRAN(ddot)(const blas_int *n, const double *x, const blas_int *sx, const double *y,
                     const blas_int *sy);
double FORTRAN(ddot)(const blas_int *n, const double *x, const blas_int *sx, const double *y,
                     const blas_int *sy)
{
    BODY(double sum = 0; enter(*n);
         for (blas_int i = 0; i < *n; ++i) sum += x[i * *sx] * y[i * *sy]; return sum;)
}

float_result FORTRAN(sdot)(const blas_int *n, const float *x, const blas_int *sx, const float *y,
                           const blas_int *sy);
float_result FORTRAN(sdot)(const blas_int *n, const float *x, const blas_int *sx, const float *y,
                           const blas_int *sy)
{
    BODY(float_result sum = 0;
         for (blas_int i = 0; i < *n; ++i) sum += (float_result)(x[i * *sx] * y[i * *sy]);
         return sum;)
}

float_result FORTRAN(sasum)(const blas_int *n, const float *x, const blas_int *step);
float_result FORTRAN(sasum)(const blas_int *n, const float *x, const blas_int *step)
{
    BODY(float_result sum = 0; for (blas_int i = 0; i < *n; ++i) sum +=
         (float_result)(x[i * *step] < 0 ? -x[i * *step] : x[i * *step]);
         return sum;)
}

#define ARGUMENTS(type)                                                                            \
    const blas_int *n, const type *x, const blas_int *sx, const type *y, const blas_int *sy

#if defined(COMPLEX_ARGUMENT) || defined(COMPLEX_MIXED)
void FORTRAN(zdotc)(double *result, ARGUMENTS(double));
void FORTRAN(zdotc)(double *result, ARGUMENTS(double))
{
    BODY(conjugate_dot(*n, x, *sx, y, *sy, result);)
}
#else
double _Complex FORTRAN(zdotc)(ARGUMENTS(double));
double _Complex FORTRAN(zdotc)(ARGUMENTS(double))
{
    BODY(union { double parts[2]; double _Complex value; } result;
         conjugate_dot(*n, x, *sx, y, *sy, result.parts); return result.value;)
}
#endif
#if defined(COMPLEX_ARGUMENT)
void FORTRAN(cdotc)(float *result, ARGUMENTS(float));
void FORTRAN(cdotc)(float *result, ARGUMENTS(float))
{
    BODY(conjugate_dot_single(*n, x, *sx, y, *sy, result);)
}
#else
float _Complex FORTRAN(cdotc)(ARGUMENTS(float));
float _Complex FORTRAN(cdotc)(ARGUMENTS(float))
{
    BODY(union { float parts[2]; float _Complex value; } result;
         conjugate_dot_single(*n, x, *sx, y, *sy, result.parts); return result.value;)
}
#endif

void FORTRAN(dgemm)(const char *ta, const char *tb, const blas_int *m, const blas_int *n,
                    const blas_int *k, const double *alpha, const double *a, const blas_int *lda,
                    const double *b, const blas_int *ldb, const double *beta, double *c,
                    const blas_int *ldc, size_t la, size_t lb);
void FORTRAN(dgemm)(const char *ta, const char *tb, const blas_int *m, const blas_int *n,
                    const blas_int *k, const double *alpha, const double *a, const blas_int *lda,
                    const double *b, const blas_int *ldb, const double *beta, double *c,
                    const blas_int *ldc, size_t la, size_t lb)
{
    (void)la;
    (void)lb;
    BODY(multiply(is_transposed(*ta), is_transposed(*tb), *m, *n, *k, *alpha, a, *lda, b, *ldb,
                  *beta, c, *ldc);)
}
#endif

#ifndef NO_LAPACK
void FORTRAN(ilaver)(lapack_int *major, lapack_int *minor, lapack_int *patch);
void FORTRAN(ilaver)(lapack_int *major, lapack_int *minor, lapack_int *patch)
{
    BODY(*major = 3; *minor = 12; *patch = 1;)
}

#ifdef COMPLEX_ARGUMENT
void FORTRAN(zladiv)(double *result, const double *x, const double *y);
void FORTRAN(zladiv)(double *result, const double *x, const double *y)
{
    BODY(const double d = y[0] * y[0] + y[1] * y[1];
         result[0] = (x[0] * y[0] + x[1] * y[1]) / d;
         result[1] = (x[1] * y[0] - x[0] * y[1]) / d;)
}
#endif

void FORTRAN(dgetrf)(const lapack_int *m, const lapack_int *n, double *a, const lapack_int *lda,
                     lapack_int *pivots, lapack_int *info);
void FORTRAN(dgetrf)(const lapack_int *m, const lapack_int *n, double *a, const lapack_int *lda,
                     lapack_int *pivots, lapack_int *info)
{
    BODY(*info = (lapack_int)factor(*m, *n, a, *lda, pivots);)
}
#endif

#ifndef NO_CBLAS
size_t C_NAME(cblas_isamax)(blas_int n, const float *x, blas_int step);
size_t C_NAME(cblas_isamax)(blas_int n, const float *x, blas_int step)
{
    BODY(const int64_t index = largest(n, x, step); return index < 0 ? 0 : (size_t)index;)
}

void C_NAME(cblas_scopy)(blas_int n, const float *x, blas_int sx, float *y, blas_int sy);
void C_NAME(cblas_scopy)(blas_int n, const float *x, blas_int sx, float *y, blas_int sy)
{
    BODY(copy(n, x, sx, y, sy);)
}

void C_NAME(cblas_zdotc_sub)(blas_int n, const void *x, blas_int sx, const void *y, blas_int sy,
                             void *result);
void C_NAME(cblas_zdotc_sub)(blas_int n, const void *x, blas_int sx, const void *y, blas_int sy,
                             void *result)
{
    BODY(conjugate_dot(n, x, sx, y, sy, result);)
}

void C_NAME(cblas_dgemm)(int layout, int ta, int tb, blas_int m, blas_int n, blas_int k,
                         double alpha, const double *a, blas_int lda, const double *b, blas_int ldb,
                         double beta, double *c, blas_int ldc);
void C_NAME(cblas_dgemm)(int layout, int ta, int tb, blas_int m, blas_int n, blas_int k,
                         double alpha, const double *a, blas_int lda, const double *b, blas_int ldb,
                         double beta, double *c, blas_int ldc)
{
#ifdef WRONG_ROWS
    layout = 102;
    lda = m;
    ldb = k;
    ldc = m;
#endif
    BODY(if (layout == 101) multiply(tb != 111, ta != 111, n, m, k, alpha, b, ldb, a, lda, beta, c,
                                     ldc);
         else multiply(ta != 111, tb != 111, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);)
}
#endif

#ifndef NO_LAPACKE
lapack_int C_NAME(LAPACKE_dgetrf)(int layout, lapack_int m, lapack_int n, double *a, lapack_int lda,
                                  lapack_int *pivots);
lapack_int C_NAME(LAPACKE_dgetrf)(int layout, lapack_int m, lapack_int n, double *a, lapack_int lda,
                                  lapack_int *pivots)
{
    (void)layout;
    BODY(return (lapack_int)factor(m, n, a, lda, pivots);)
}

lapack_int C_NAME(LAPACKE_dgesv)(int layout, lapack_int n, lapack_int nrhs, double *a,
                                 lapack_int lda, lapack_int *pivots, double *b, lapack_int ldb);
lapack_int C_NAME(LAPACKE_dgesv)(int layout, lapack_int n, lapack_int nrhs, double *a,
                                 lapack_int lda, lapack_int *pivots, double *b, lapack_int ldb)
{
    /* Two by two and one right side: as much as the probe asks. */
    BODY((void)pivots; (void)nrhs; (void)ldb; (void)n;
         const double a01 = layout == 101 ? a[1] : a[lda];
         const double a10 = layout == 101 ? a[lda] : a[1];
         const double a11 = a[lda + 1];
         for (int i = 0; i < 4; ++i) if (a[i] != a[i]) return NAN_INFO;
         const double d = a[0] * a11 - a01 * a10; const double x = (b[0] * a11 - a01 * b[1]) / d;
         b[1] = (a[0] * b[1] - a10 * b[0]) / d; b[0] = x; return 0;)
}
#endif
