/* Checks of BLAS routines. */
#include "numerics.h"

#include <stdio.h>

#define MAX_OPTIONS 32
#define MAX_TERMS LARGEST_ORDER

/* The factors of every product: alpha, and beta where the result is used again. */
#define ALPHA_REAL 0.5
#define ALPHA_IMAGINARY (-0.25)

/* A scalar argument of any type. */
struct number {
    union {
        float single[2];
        double twice[2];
    } as;
};

static struct number number_of(const struct scalar *scalar, double real, double imaginary)
{
    struct number number = {{{0, 0}}};
    if (scalar->is_double) {
        number.as.twice[0] = real;
        number.as.twice[1] = imaginary;
    } else {
        number.as.single[0] = (float)real;
        number.as.single[1] = (float)imaginary;
    }
    return number;
}

static double alpha_imaginary(const struct scalar *scalar)
{
    return scalar->is_complex ? ALPHA_IMAGINARY : 0;
}

static struct number alpha_of(const struct scalar *scalar)
{
    return number_of(scalar, ALPHA_REAL, alpha_imaginary(scalar));
}

/* The operations that differ for a type: conjugation of real numbers is transposition. */
static const char *operations_of(const struct scalar *scalar)
{
    return scalar->is_complex ? "NTC" : "NT";
}

/* A second dimension beside the order, so that rows and columns cannot be confused. */
static int other_dimension(int order)
{
    return order - order / 4;
}

typedef void (*gemm_function)(REF, REF, REF, REF, REF, REF, REF, REF, REF, REF, REF, REF, REF,
                              size_t, size_t);

/* C = alpha op(A) op(B) into a C full of NaN, which beta = 0 must not read; then once more with
 * beta = 1, which doubles it. */
void check_gemm(struct routine *routine)
{
    const struct scalar *scalar = routine->scalar;
    const int m = routine->order;
    const int n = other_dimension(m);
    const int k = routine->order;
    const struct number alpha = alpha_of(scalar);
    const struct number zero = number_of(scalar, 0, 0);
    const struct number one = number_of(scalar, 1, 0);
    const integer rows = integer_of(routine->width, m);
    const integer columns = integer_of(routine->width, n);
    const integer inner = integer_of(routine->width, k);
    struct component r[MAX_TERMS];
    struct component b_r[MAX_TERMS];
    struct component expected[MAX_TERMS];
    struct component value[MAX_TERMS];
    vector_random(r, n, scalar);
    for (const char *of_a = operations_of(scalar); *of_a != '\0'; ++of_a) {
        matrix_start(&matrix_a, scalar, *of_a == 'N' ? m : k, *of_a == 'N' ? k : m);
        matrix_fill(&matrix_a, GENERAL, 1, 1);
        const integer lda = integer_of(routine->width, matrix_a.leading);
        for (const char *of_b = operations_of(scalar); *of_b != '\0'; ++of_b) {
            char options[MAX_OPTIONS];
            snprintf(options, sizeof options, "transa %c transb %c", *of_a, *of_b);
            matrix_start(&matrix_b, scalar, *of_b == 'N' ? k : n, *of_b == 'N' ? n : k);
            matrix_fill(&matrix_b, GENERAL, 1, 1);
            matrix_start(&matrix_c, scalar, m, n);
            const integer ldb = integer_of(routine->width, matrix_b.leading);
            const integer ldc = integer_of(routine->width, matrix_c.leading);
            gemm_function gemm = (gemm_function)routine->address;
            gemm(of_a, of_b, &rows, &columns, &inner, &alpha, matrix_a.elements, &lda,
                 matrix_b.elements, &ldb, &zero, matrix_c.elements, &ldc, 1, 1);
            matrix_apply(&matrix_b, GENERAL, *of_b, r, b_r);
            matrix_apply(&matrix_a, GENERAL, *of_a, b_r, expected);
            vector_scale(expected, m, ALPHA_REAL, alpha_imaginary(scalar));
            matrix_apply(&matrix_c, GENERAL, 'N', r, value);
            check_components(routine, value, expected, m, n + k, options);
            check_true(routine, matrix_is_guarded(&matrix_c, GENERAL), "wrote past the result",
                       options);
            if (*of_a != 'N' || *of_b != 'N')
                continue;
            gemm(of_a, of_b, &rows, &columns, &inner, &alpha, matrix_a.elements, &lda,
                 matrix_b.elements, &ldb, &one, matrix_c.elements, &ldc, 1, 1);
            vector_scale(expected, m, 2, 0);
            matrix_apply(&matrix_c, GENERAL, 'N', r, value);
            check_components(routine, value, expected, m, n + k, "beta 1");
        }
    }
}

typedef void (*gemv_function)(REF, REF, REF, REF, REF, REF, REF, REF, REF, REF, REF, size_t);

/* y = alpha op(A) x into every second element of a y full of NaN. y is a column of a matrix, whose
 * guards and whose elements between are looked at. */
void check_gemv(struct routine *routine)
{
    enum { STRIDE = 2 };
    const struct scalar *scalar = routine->scalar;
    const int m = routine->order;
    const int n = other_dimension(m);
    const struct number alpha = alpha_of(scalar);
    const struct number zero = number_of(scalar, 0, 0);
    const integer rows = integer_of(routine->width, m);
    const integer columns = integer_of(routine->width, n);
    const integer unit = integer_of(routine->width, 1);
    struct component x[MAX_TERMS];
    struct component expected[MAX_TERMS];
    struct component value[MAX_TERMS];
    for (const char *operation = operations_of(scalar); *operation != '\0'; ++operation) {
        const char options[] = {'t', 'r', 'a', 'n', 's', ' ', *operation, '\0'};
        const int size = *operation == 'N' ? m : n;
        const int terms = *operation == 'N' ? n : m;
        matrix_start(&matrix_a, scalar, m, n);
        matrix_fill(&matrix_a, GENERAL, 1, 1);
        matrix_start(&matrix_b, scalar, terms, 1);
        matrix_fill(&matrix_b, GENERAL, 1, 1);
        /* As many columns of one row as y has elements: the rest of each column stays guarded. */
        matrix_start(&matrix_c, scalar, 1, size);
        const integer lda = integer_of(routine->width, matrix_a.leading);
        const integer stride = integer_of(routine->width, matrix_c.leading);
        ((gemv_function)routine->address)(operation, &rows, &columns, &alpha, matrix_a.elements,
                                          &lda, matrix_b.elements, &unit, &zero,
                                          matrix_c.elements, &stride, 1);
        vector_load(x, matrix_b.elements, terms, 1, scalar);
        matrix_apply(&matrix_a, GENERAL, *operation, x, expected);
        vector_scale(expected, size, ALPHA_REAL, alpha_imaginary(scalar));
        vector_load(value, matrix_c.elements, size, matrix_c.leading, scalar);
        check_components(routine, value, expected, size, terms, options);
        check_true(routine, matrix_is_guarded(&matrix_c, GENERAL), "wrote past the result",
                   options);
    }
}

typedef void (*trsm_function)(REF, REF, REF, REF, REF, REF, REF, REF, REF, REF, REF, size_t,
                              size_t, size_t, size_t);

/* op(A) X = alpha B or X op(A) = alpha B, X in the place of B. The triangle that is not to be read
 * is NaN, and so is a diagonal that is said to be one. */
void check_trsm(struct routine *routine)
{
    const struct scalar *scalar = routine->scalar;
    const int m = routine->order;
    const int n = other_dimension(m);
    const struct number alpha = alpha_of(scalar);
    const integer rows = integer_of(routine->width, m);
    const integer columns = integer_of(routine->width, n);
    struct component r[MAX_TERMS];
    struct component step[MAX_TERMS];
    struct component expected[MAX_TERMS];
    struct component value[MAX_TERMS];
    matrix_start(&matrix_b, scalar, m, n);
    matrix_fill(&matrix_b, GENERAL, 1, 1);
    const integer ldb = integer_of(routine->width, matrix_b.leading);
    vector_random(r, n, scalar);
    matrix_apply(&matrix_b, GENERAL, 'N', r, expected);
    vector_scale(expected, m, ALPHA_REAL, alpha_imaginary(scalar));
    for (int variant = 0; variant < 8; ++variant) {
        const char side = (variant & 1) != 0 ? 'R' : 'L';
        const char triangle = (variant & 2) != 0 ? 'L' : 'U';
        const char diagonal = (variant & 4) != 0 ? 'U' : 'N';
        const enum structure structure =
            triangle == 'U' ? (diagonal == 'U' ? UPPER_UNIT : UPPER)
                            : (diagonal == 'U' ? LOWER_UNIT : LOWER);
        const int order = side == 'L' ? m : n;
        matrix_start(&matrix_a, scalar, order, order);
        matrix_fill(&matrix_a, structure, 1.0 / order, 1.5);
        const integer lda = integer_of(routine->width, matrix_a.leading);
        for (const char *operation = operations_of(scalar); *operation != '\0'; ++operation) {
            char options[MAX_OPTIONS * 2];
            snprintf(options, sizeof options, "side %c uplo %c transa %c diag %c", side, triangle,
                     *operation, diagonal);
            matrix_copy(&matrix_c, &matrix_b);
            ((trsm_function)routine->address)(&side, &triangle, operation, &diagonal, &rows,
                                              &columns, &alpha, matrix_a.elements, &lda,
                                              matrix_c.elements, &ldb, 1, 1, 1, 1);
            if (side == 'L') {
                matrix_apply(&matrix_c, GENERAL, 'N', r, step);
                matrix_apply(&matrix_a, structure, *operation, step, value);
            } else {
                matrix_apply(&matrix_a, structure, *operation, r, step);
                matrix_apply(&matrix_c, GENERAL, 'N', step, value);
            }
            /* The solution is exact for a perturbed A: what counts is |op(A)| |X|. */
            for (int i = 0; i < m; ++i)
                expected[i].bound = value[i].bound;
            check_components(routine, value, expected, m, m + n, options);
            check_true(routine, matrix_is_guarded(&matrix_c, GENERAL), "wrote past the result",
                       options);
        }
    }
}

typedef void (*syrk_function)(REF, REF, REF, REF, REF, REF, REF, REF, REF, REF, size_t, size_t);

/* C = alpha op(A) op(A)^T in one triangle of a C full of NaN; the other one stays as it is. */
void check_syrk(struct routine *routine)
{
    const struct scalar *scalar = routine->scalar;
    const int n = routine->order;
    const int k = other_dimension(n);
    const struct number alpha = alpha_of(scalar);
    const struct number zero = number_of(scalar, 0, 0);
    const integer order = integer_of(routine->width, n);
    const integer inner = integer_of(routine->width, k);
    struct component r[MAX_TERMS];
    struct component step[MAX_TERMS];
    struct component expected[MAX_TERMS];
    struct component value[MAX_TERMS];
    vector_random(r, n, scalar);
    for (int variant = 0; variant < 4; ++variant) {
        const char triangle = (variant & 1) != 0 ? 'L' : 'U';
        const char operation = (variant & 2) != 0 ? 'T' : 'N';
        const enum structure structure = triangle == 'U' ? UPPER_SYMMETRIC : LOWER_SYMMETRIC;
        char options[MAX_OPTIONS];
        snprintf(options, sizeof options, "uplo %c trans %c", triangle, operation);
        matrix_start(&matrix_a, scalar, operation == 'N' ? n : k, operation == 'N' ? k : n);
        matrix_fill(&matrix_a, GENERAL, 1, 1);
        matrix_start(&matrix_c, scalar, n, n);
        const integer lda = integer_of(routine->width, matrix_a.leading);
        const integer ldc = integer_of(routine->width, matrix_c.leading);
        ((syrk_function)routine->address)(&triangle, &operation, &order, &inner, &alpha,
                                          matrix_a.elements, &lda, &zero, matrix_c.elements, &ldc,
                                          1, 1);
        matrix_apply(&matrix_a, GENERAL, operation == 'N' ? 'T' : 'N', r, step);
        matrix_apply(&matrix_a, GENERAL, operation, step, expected);
        vector_scale(expected, n, ALPHA_REAL, alpha_imaginary(scalar));
        matrix_apply(&matrix_c, structure, 'N', r, value);
        check_components(routine, value, expected, n, n + k, options);
        check_true(routine, matrix_is_guarded(&matrix_c, structure), "wrote past the triangle",
                   options);
    }
}
