/* Checks of LAPACK routines. Each asks for its work space by a call with lwork = -1, as users do. */
#include "numerics.h"

#include <stdio.h>

#define MAX_OPTIONS 32
#define RIGHT_SIDES 2
#define QUERY (-1)

static union {
    unsigned char bytes[WORK_BYTES];
    double alignment;
} work, real_work;

static integer integer_work[INTEGER_WORK];

/* Singular or eigenvalues: real for every type. */
static union {
    float single[LARGEST_ORDER + 1];
    double twice[LARGEST_ORDER + 1];
} values;

static double value_at(const struct scalar *scalar, int index)
{
    return scalar->is_double ? values.twice[index] : (double)values.single[index];
}

static int other_dimension(int order)
{
    return order - order / 4;
}

/* The size that a query wrote in the first element of work, or 0 when it does not fit here: no
 * algorithm asks that much, so the library has read a wrong number somewhere. */
static int64_t queried_size(struct routine *routine, const char *options)
{
    struct component size;
    char what[MAX_DETAIL / 2];
    const double largest = WORK_BYTES / LARGEST_ELEMENT;
    vector_load(&size, work.bytes, 1, 1, routine->scalar);
    snprintf(what, sizeof what, "a work array of %.0f elements is asked for", size.real);
    const int fits = size.real >= 1 && size.real <= largest;
    check_true(routine, fits, what, options);
    return fits ? (int64_t)size.real : 0;
}

static int is_done(struct routine *routine, const integer *info, const char *options)
{
    char what[MAX_DETAIL / 2];
    const int64_t value = integer_value(routine->width, info);
    snprintf(what, sizeof what, "info %lld", (long long)value);
    check_true(routine, value == 0, what, options);
    return value == 0;
}

/* M^H M r = r, M having orthonormal columns; by_rows: M M^H r = r. */
static void check_orthonormal(struct routine *routine, const struct matrix *matrix, int by_rows,
                              const char *options)
{
    const int size = by_rows ? matrix->rows : matrix->columns;
    struct component r[LARGEST_ORDER];
    struct component step[LARGEST_ORDER];
    struct component value[LARGEST_ORDER];
    vector_random(r, size, routine->scalar);
    matrix_apply(matrix, GENERAL, by_rows ? 'C' : 'N', r, step);
    matrix_apply(matrix, GENERAL, by_rows ? 'N' : 'C', step, value);
    check_norm(routine, value, r, size, routine->order, size, options);
}

typedef void (*potrf_function)(REF, REF, REF, REF, REF, size_t);

/* A = U^H U or L L^H of a diagonally dominant A; the triangle that is not named stays NaN. */
void check_potrf(struct routine *routine)
{
    const struct scalar *scalar = routine->scalar;
    const int n = routine->order;
    const integer order = integer_of(routine->width, n);
    struct component r[LARGEST_ORDER];
    struct component step[LARGEST_ORDER];
    struct component expected[LARGEST_ORDER];
    struct component value[LARGEST_ORDER];
    vector_random(r, n, scalar);
    for (int lower = 0; lower < 2; ++lower) {
        const char *options = lower ? "uplo L" : "uplo U";
        const char triangle = lower ? 'L' : 'U';
        const enum structure factor = lower ? LOWER : UPPER;
        const enum structure structure = lower ? LOWER_HERMITIAN : UPPER_HERMITIAN;
        integer info = integer_of(routine->width, 0);
        matrix_start(&matrix_a, scalar, n, n);
        matrix_fill(&matrix_a, structure, 1.0 / n, 3);
        matrix_copy(&matrix_b, &matrix_a);
        const integer lda = integer_of(routine->width, matrix_a.leading);
        ((potrf_function)routine->address)(&triangle, &order, matrix_b.elements, &lda, &info, 1);
        if (!is_done(routine, &info, options))
            return;
        matrix_apply(&matrix_b, factor, lower ? 'C' : 'N', r, step);
        matrix_apply(&matrix_b, factor, lower ? 'N' : 'C', step, value);
        matrix_apply(&matrix_a, structure, 'N', r, expected);
        for (int i = 0; i < n; ++i)
            expected[i].bound = value[i].bound;
        check_components(routine, value, expected, n, 2 * n, options);
        check_true(routine, matrix_is_guarded(&matrix_b, factor), "wrote past the triangle",
                   options);
    }
}

typedef void (*getrf_function)(REF, REF, REF, REF, REF, REF);
typedef void (*getrs_function)(REF, REF, REF, REF, REF, REF, REF, REF, REF, size_t);

static double largest_bound(const struct component *vector, int size)
{
    double largest = 0;
    for (int i = 0; i < size; ++i)
        if (vector[i].bound > largest)
            largest = vector[i].bound;
    return largest;
}

/* getrf, then getrs with each operation: op(A) X = B. The backward error is bounded by |L| |U| |x|
 * (Higham, Accuracy and Stability of Numerical Algorithms, theorem 9.4); the row interchanges are
 * taken out of it by using the largest component on both sides. */
void check_getrf(struct routine *routine)
{
    const struct scalar *scalar = routine->scalar;
    const int n = routine->order;
    const integer order = integer_of(routine->width, n);
    const integer sides = integer_of(routine->width, RIGHT_SIDES);
    char name[MAX_NAME];
    struct component x[LARGEST_ORDER];
    struct component step[LARGEST_ORDER];
    struct component bound[LARGEST_ORDER];
    struct component expected[LARGEST_ORDER];
    struct component value[LARGEST_ORDER];
    integer info = integer_of(routine->width, 0);
    snprintf(name, sizeof name, "%cgetrs", scalar->letter);
    const struct family *family = first_family(routine->run->probe, API_LAPACK);
    getrs_function getrs = (getrs_function)family_function(routine->run->probe, family, name);

    matrix_start(&matrix_a, scalar, n, n);
    matrix_fill(&matrix_a, GENERAL, 1, 1);
    matrix_copy(&matrix_b, &matrix_a);
    const integer lda = integer_of(routine->width, matrix_a.leading);
    ((getrf_function)routine->address)(&order, &order, matrix_b.elements, &lda, integer_work,
                                       &info);
    if (!is_done(routine, &info, ""))
        return;
    check_true(routine, matrix_is_guarded(&matrix_b, GENERAL), "wrote past the factors", "");
    if (getrs == NULL)
        return;
    for (const char *operation = scalar->is_complex ? "NTC" : "NT"; *operation; ++operation) {
        const char options[] = {'t', 'r', 'a', 'n', 's', ' ', *operation, '\0'};
        matrix_start(&matrix_c, scalar, n, RIGHT_SIDES);
        matrix_fill(&matrix_c, GENERAL, 1, 1);
        matrix_copy(&matrix_d, &matrix_c);
        const integer ldb = integer_of(routine->width, matrix_d.leading);
        getrs(operation, &order, &sides, matrix_b.elements, &lda, integer_work, matrix_d.elements,
              &ldb, &info, 1);
        if (!is_done(routine, &info, options))
            return;
        const size_t column = (size_t)matrix_d.leading * (scalar->is_double ? 8u : 4u) *
                              (scalar->is_complex ? 2u : 1u);
        for (size_t side = 0; side < RIGHT_SIDES; ++side) {
            vector_load(x, matrix_d.elements + side * column, n, 1, scalar);
            vector_load(expected, matrix_c.elements + side * column, n, 1, scalar);
            matrix_apply(&matrix_a, GENERAL, *operation, x, value);
            const double largest = largest_bound(x, n);
            for (int i = 0; i < n; ++i)
                x[i].bound = largest;
            const int plain = *operation == 'N';
            matrix_apply(&matrix_b, plain ? UPPER : LOWER_UNIT, *operation, x, step);
            matrix_apply(&matrix_b, plain ? LOWER_UNIT : UPPER, *operation, step, bound);
            const double allowed = largest_bound(bound, n);
            for (int i = 0; i < n; ++i)
                expected[i].bound = allowed;
            check_components(routine, value, expected, n, 3 * n, options);
        }
        check_true(routine, matrix_is_guarded(&matrix_d, GENERAL), "wrote past the solution",
                   options);
    }
}

typedef void (*real_gesdd_function)(REF, REF, REF, REF, REF, REF, REF, REF, REF, REF, REF, REF,
                                    REF, REF, size_t);
typedef void (*complex_gesdd_function)(REF, REF, REF, REF, REF, REF, REF, REF, REF, REF, REF, REF,
                                       REF, REF, REF, size_t);

static void call_gesdd(struct routine *routine, const integer *rows, const integer *columns,
                       const integer *lda, const integer *ldu, const integer *ldv,
                       const integer *size, const integer *info)
{
    if (routine->scalar->is_complex)
        ((complex_gesdd_function)routine->address)(
            "S", rows, columns, matrix_b.elements, lda, &values, matrix_c.elements, ldu,
            matrix_d.elements, ldv, &work, size, &real_work, integer_work, info, 1);
    else
        ((real_gesdd_function)routine->address)("S", rows, columns, matrix_b.elements, lda,
                                                &values, matrix_c.elements, ldu,
                                                matrix_d.elements, ldv, &work, size, integer_work,
                                                info, 1);
}

/* A = U S V^H, U and V with orthonormal columns, S descending and not negative. */
void check_gesdd(struct routine *routine)
{
    const struct scalar *scalar = routine->scalar;
    const int m = routine->order;
    const int n = other_dimension(m);
    const char *options = "jobz S";
    const integer rows = integer_of(routine->width, m);
    const integer columns = integer_of(routine->width, n);
    struct component r[LARGEST_ORDER];
    struct component step[LARGEST_ORDER];
    struct component expected[LARGEST_ORDER];
    struct component value[LARGEST_ORDER];
    integer info = integer_of(routine->width, 0);
    integer size = integer_of(routine->width, QUERY);
    matrix_start(&matrix_a, scalar, m, n);
    matrix_fill(&matrix_a, GENERAL, 1, 1);
    matrix_copy(&matrix_b, &matrix_a);
    matrix_start(&matrix_c, scalar, m, n);
    matrix_start(&matrix_d, scalar, n, n);
    const integer lda = integer_of(routine->width, matrix_b.leading);
    const integer ldu = integer_of(routine->width, matrix_c.leading);
    const integer ldv = integer_of(routine->width, matrix_d.leading);
    call_gesdd(routine, &rows, &columns, &lda, &ldu, &ldv, &size, &info);
    const int64_t asked = queried_size(routine, options);
    if (asked == 0)
        return;
    size = integer_of(routine->width, asked);
    call_gesdd(routine, &rows, &columns, &lda, &ldu, &ldv, &size, &info);
    if (!is_done(routine, &info, options))
        return;
    int is_sorted = value_at(scalar, n - 1) >= 0;
    for (int i = 1; i < n; ++i)
        is_sorted = is_sorted && value_at(scalar, i - 1) >= value_at(scalar, i);
    check_true(routine, is_sorted, "singular values not descending", options);
    vector_random(r, n, scalar);
    matrix_apply(&matrix_d, GENERAL, 'N', r, step);
    for (int i = 0; i < n; ++i) {
        step[i].real *= value_at(scalar, i);
        step[i].imaginary *= value_at(scalar, i);
    }
    matrix_apply(&matrix_c, GENERAL, 'N', step, value);
    matrix_apply(&matrix_a, GENERAL, 'N', r, expected);
    check_norm(routine, value, expected, m, m, n * matrix_square_norm(&matrix_a, GENERAL),
               options);
    check_orthonormal(routine, &matrix_c, 0, "columns of U");
    check_orthonormal(routine, &matrix_d, 1, "rows of V^H");
    check_true(routine,
               matrix_is_guarded(&matrix_c, GENERAL) && matrix_is_guarded(&matrix_d, GENERAL),
               "wrote past the result", options);
}

typedef void (*syevd_function)(REF, REF, REF, REF, REF, REF, REF, REF, REF, REF, REF, size_t,
                               size_t);
typedef void (*heevd_function)(REF, REF, REF, REF, REF, REF, REF, REF, REF, REF, REF, REF, REF,
                               size_t, size_t);

static void call_syevd(struct routine *routine, const char *triangle, const integer *order,
                       const integer *lda, const integer *size, const integer *real_size,
                       const integer *integer_size, const integer *info)
{
    if (routine->scalar->is_complex)
        ((heevd_function)routine->address)("V", triangle, order, matrix_b.elements, lda, &values,
                                           &work, size, &real_work, real_size, integer_work,
                                           integer_size, info, 1, 1);
    else
        ((syevd_function)routine->address)("V", triangle, order, matrix_b.elements, lda, &values,
                                           &work, size, integer_work, integer_size, info, 1, 1);
}

/* A = Z W Z^H, Z unitary, W ascending. At the largest order from one triangle only: both have been
 * reduced by blocks at the order before, and this is the dearest of all checks. */
void check_syevd(struct routine *routine)
{
    const struct scalar *scalar = routine->scalar;
    const int n = routine->order;
    const integer order = integer_of(routine->width, n);
    struct component r[LARGEST_ORDER];
    struct component step[LARGEST_ORDER];
    struct component expected[LARGEST_ORDER];
    struct component value[LARGEST_ORDER];
    vector_random(r, n, scalar);
    for (int lower = n == LARGEST_ORDER; lower < 2; ++lower) {
        const char *options = lower ? "uplo L" : "uplo U";
        const char triangle = lower ? 'L' : 'U';
        const enum structure structure = lower ? LOWER_HERMITIAN : UPPER_HERMITIAN;
        integer info = integer_of(routine->width, 0);
        integer size = integer_of(routine->width, QUERY);
        matrix_start(&matrix_a, scalar, n, n);
        matrix_fill(&matrix_a, structure, 1, 1);
        matrix_copy(&matrix_b, &matrix_a);
        const integer lda = integer_of(routine->width, matrix_b.leading);
        call_syevd(routine, &triangle, &order, &lda, &size, &size, &size, &info);
        const int64_t asked = queried_size(routine, options);
        if (asked == 0)
            return;
        size = integer_of(routine->width, asked);
        const integer real_size = integer_of(routine->width, 1 + 5 * n + 2 * n * n);
        const integer integer_size = integer_of(routine->width, 3 + 5 * n);
        call_syevd(routine, &triangle, &order, &lda, &size, &real_size, &integer_size, &info);
        if (!is_done(routine, &info, options))
            return;
        int is_sorted = 1;
        for (int i = 1; i < n; ++i)
            is_sorted = is_sorted && value_at(scalar, i - 1) <= value_at(scalar, i);
        check_true(routine, is_sorted, "eigenvalues not ascending", options);
        matrix_apply(&matrix_b, GENERAL, 'C', r, step);
        for (int i = 0; i < n; ++i) {
            step[i].real *= value_at(scalar, i);
            step[i].imaginary *= value_at(scalar, i);
        }
        matrix_apply(&matrix_b, GENERAL, 'N', step, value);
        matrix_apply(&matrix_a, structure, 'N', r, expected);
        check_norm(routine, value, expected, n, n, n * matrix_square_norm(&matrix_a, structure),
                   options);
        check_orthonormal(routine, &matrix_b, 0, options);
        check_true(routine, matrix_is_guarded(&matrix_b, GENERAL), "wrote past the result",
                   options);
    }
}

/* A = Q R implies A^H A = R^H R: no product with Q is needed. */
static void check_triangular_factor(struct routine *routine, int m, int n)
{
    struct component r[LARGEST_ORDER];
    struct component step[LARGEST_ORDER];
    struct component expected[LARGEST_ORDER];
    struct component value[LARGEST_ORDER];
    const double square = matrix_square_norm(&matrix_a, GENERAL);
    vector_random(r, n, routine->scalar);
    matrix_apply(&matrix_a, GENERAL, 'N', r, step);
    matrix_apply(&matrix_a, GENERAL, 'C', step, expected);
    matrix_b.rows = n; /* the leading rows: R */
    matrix_apply(&matrix_b, UPPER, 'N', r, step);
    matrix_apply(&matrix_b, UPPER, 'C', step, value);
    matrix_b.rows = m;
    check_norm(routine, value, expected, n, m, n * square * square, "");
    check_true(routine, matrix_is_guarded(&matrix_b, GENERAL), "wrote past the result", "");
}

typedef void (*geqr2_function)(REF, REF, REF, REF, REF, REF, REF);

void check_geqr2(struct routine *routine)
{
    const int m = routine->order;
    const int n = other_dimension(m);
    const integer rows = integer_of(routine->width, m);
    const integer columns = integer_of(routine->width, n);
    integer info = integer_of(routine->width, 0);
    matrix_start(&matrix_a, routine->scalar, m, n);
    matrix_fill(&matrix_a, GENERAL, 1, 1);
    matrix_copy(&matrix_b, &matrix_a);
    matrix_start(&matrix_c, routine->scalar, n, 1);
    const integer lda = integer_of(routine->width, matrix_b.leading);
    ((geqr2_function)routine->address)(&rows, &columns, matrix_b.elements, &lda,
                                       matrix_c.elements, &work, &info);
    if (is_done(routine, &info, ""))
        check_triangular_factor(routine, m, n);
}

typedef void (*geqrf_function)(REF, REF, REF, REF, REF, REF, REF, REF);

void check_geqrf(struct routine *routine)
{
    const int m = routine->order;
    const int n = other_dimension(m);
    const integer rows = integer_of(routine->width, m);
    const integer columns = integer_of(routine->width, n);
    integer info = integer_of(routine->width, 0);
    integer size = integer_of(routine->width, QUERY);
    matrix_start(&matrix_a, routine->scalar, m, n);
    matrix_fill(&matrix_a, GENERAL, 1, 1);
    matrix_copy(&matrix_b, &matrix_a);
    matrix_start(&matrix_c, routine->scalar, n, 1);
    const integer lda = integer_of(routine->width, matrix_b.leading);
    geqrf_function geqrf = (geqrf_function)routine->address;
    geqrf(&rows, &columns, matrix_b.elements, &lda, matrix_c.elements, &work, &size, &info);
    const int64_t asked = queried_size(routine, "");
    if (asked == 0)
        return;
    size = integer_of(routine->width, asked);
    geqrf(&rows, &columns, matrix_b.elements, &lda, matrix_c.elements, &work, &size, &info);
    if (is_done(routine, &info, ""))
        check_triangular_factor(routine, m, n);
}
