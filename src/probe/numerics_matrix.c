/* Matrices with guards, products with a vector, and the comparison against an error bound. */
#include "numerics.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

#define GUARD_BYTE 0xFF
#define RANDOM_STEPS 1024 /* random values are multiples of 1/1024: exact in every type */

const struct scalar scalars[4] = {
    {'s', 0, 0, FLT_EPSILON / 2},
    {'d', 0, 1, DBL_EPSILON / 2},
    {'c', 1, 0, FLT_EPSILON / 2},
    {'z', 1, 1, DBL_EPSILON / 2},
};

struct matrix matrix_a, matrix_b, matrix_c, matrix_d;

static size_t element_size(const struct scalar *scalar)
{
    return (scalar->is_double ? sizeof(double) : sizeof(float)) * (scalar->is_complex ? 2 : 1);
}

static double absolute(double value)
{
    return value < 0 ? -value : value;
}

static size_t offset(const struct matrix *matrix, int row, int column)
{
    return ((size_t)column * (size_t)matrix->leading + (size_t)row) * element_size(matrix->scalar);
}

void matrix_start(struct matrix *matrix, const struct scalar *scalar, int rows, int columns)
{
    matrix->scalar = scalar;
    matrix->rows = rows;
    matrix->columns = columns;
    matrix->leading = rows + PADDING;
    matrix->elements = matrix->storage.bytes + GUARD * element_size(scalar);
    memset(matrix->storage.bytes, GUARD_BYTE,
           offset(matrix, 0, columns) + 2 * GUARD * element_size(scalar));
}

void matrix_set(struct matrix *matrix, int row, int column, double real, double imaginary)
{
    unsigned char *element = matrix->elements + offset(matrix, row, column);
    const float single[2] = {(float)real, (float)imaginary};
    const double twice[2] = {real, imaginary};
    if (matrix->scalar->is_double)
        memcpy(element, twice, element_size(matrix->scalar));
    else
        memcpy(element, single, element_size(matrix->scalar));
}

void matrix_copy(struct matrix *to, const struct matrix *from)
{
    matrix_start(to, from->scalar, from->rows, from->columns);
    memcpy(to->elements, from->elements, offset(from, 0, from->columns));
}

static void load(const void *elements, size_t index, const struct scalar *scalar, double *real,
                 double *imaginary)
{
    float single[2] = {0, 0};
    double twice[2] = {0, 0};
    const size_t size = element_size(scalar);
    const unsigned char *element = (const unsigned char *)elements + index * size;
    if (!scalar->is_double) {
        memcpy(single, element, size);
        twice[0] = (double)single[0];
        twice[1] = (double)single[1];
    } else {
        memcpy(twice, element, size);
    }
    *real = twice[0];
    *imaginary = twice[1];
}

/* The stored rows of a column: first to last, the last not included. */
static void stored_rows(const struct matrix *matrix, enum structure structure, int column,
                        int *first, int *last)
{
    *first = 0;
    *last = matrix->rows;
    switch (structure) {
    case GENERAL:
        return;
    case UPPER:
    case UPPER_SYMMETRIC:
    case UPPER_HERMITIAN:
        if (column + 1 < *last)
            *last = column + 1;
        return;
    case UPPER_UNIT:
        if (column < *last)
            *last = column;
        return;
    case LOWER:
    case LOWER_SYMMETRIC:
    case LOWER_HERMITIAN:
        *first = column;
        return;
    case LOWER_UNIT:
        *first = column + 1;
        return;
    }
}

static uint32_t random_bits(void)
{
    /* xorshift32 (Marsaglia 2003), always from the same start: a failure can be repeated. */
    static uint32_t state = UINT32_C(2463534242);
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

static double random_value(void)
{
    const uint32_t bits = random_bits();
    const double size = (double)(bits % RANDOM_STEPS + 1) / RANDOM_STEPS;
    return (bits >> 31) != 0 ? -size : size;
}

void matrix_fill(struct matrix *matrix, enum structure structure, double scale, double diagonal)
{
    for (int column = 0; column < matrix->columns; ++column) {
        int first;
        int last;
        stored_rows(matrix, structure, column, &first, &last);
        for (int row = first; row < last; ++row) {
            if (structure != GENERAL && row == column)
                matrix_set(matrix, row, column, diagonal, 0);
            else
                matrix_set(matrix, row, column, scale * random_value(), scale * random_value());
        }
    }
}

static int is_guard(const unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; ++i)
        if (bytes[i] != GUARD_BYTE)
            return 0;
    return 1;
}

int matrix_is_guarded(const struct matrix *matrix, enum structure structure)
{
    const size_t guard = GUARD * element_size(matrix->scalar);
    int guarded = is_guard(matrix->storage.bytes, guard) &&
                  is_guard(matrix->elements + offset(matrix, 0, matrix->columns), guard);
    for (int column = 0; column < matrix->columns && guarded; ++column) {
        int first;
        int last;
        stored_rows(matrix, structure, column, &first, &last);
        const size_t start = offset(matrix, 0, column);
        guarded = is_guard(matrix->elements + start, offset(matrix, first, column) - start) &&
                  is_guard(matrix->elements + offset(matrix, last, column),
                           offset(matrix, 0, column + 1) - offset(matrix, last, column));
    }
    return guarded;
}

double matrix_square_norm(const struct matrix *matrix, enum structure structure)
{
    double sum = 0;
    for (int column = 0; column < matrix->columns; ++column) {
        int first;
        int last;
        stored_rows(matrix, structure, column, &first, &last);
        for (int row = first; row < last; ++row) {
            double real;
            double imaginary;
            load(matrix->elements + offset(matrix, row, column), 0, matrix->scalar, &real,
                 &imaginary);
            const double square = real * real + imaginary * imaginary;
            sum += structure >= UPPER_SYMMETRIC && row != column ? 2 * square : square;
        }
    }
    return sum;
}

void vector_random(struct component *vector, int size, const struct scalar *scalar)
{
    /* 1 or -1, so that no component can hide an error; with a turn for complex types. */
    for (int i = 0; i < size; ++i) {
        const uint32_t bits = random_bits();
        const double value = (bits >> 31) != 0 ? -1 : 1;
        const int turned = scalar->is_complex && ((bits >> 30) & 1) != 0;
        vector[i].real = turned ? 0 : value;
        vector[i].imaginary = turned ? value : 0;
        vector[i].bound = 1;
    }
}

void vector_load(struct component *vector, const void *elements, int size, int stride,
                 const struct scalar *scalar)
{
    for (int i = 0; i < size; ++i) {
        load(elements, (size_t)i * (size_t)stride, scalar, &vector[i].real, &vector[i].imaginary);
        vector[i].bound = absolute(vector[i].real) + absolute(vector[i].imaginary);
    }
}

void vector_scale(struct component *vector, int size, double real, double imaginary)
{
    for (int i = 0; i < size; ++i) {
        const struct component old = vector[i];
        vector[i].real = old.real * real - old.imaginary * imaginary;
        vector[i].imaginary = old.real * imaginary + old.imaginary * real;
        vector[i].bound = old.bound * (absolute(real) + absolute(imaginary));
    }
}

static void accumulate(struct component *to, double real, double imaginary,
                       const struct component *factor)
{
    to->real += real * factor->real - imaginary * factor->imaginary;
    to->imaginary += real * factor->imaginary + imaginary * factor->real;
    to->bound += (absolute(real) + absolute(imaginary)) * factor->bound;
}

void matrix_apply(const struct matrix *matrix, enum structure structure, char operation,
                  const struct component *vector, struct component *result)
{
    const int size = operation == 'N' ? matrix->rows : matrix->columns;
    const double sign = operation == 'C' ? -1 : 1;
    const int is_symmetric = structure >= UPPER_SYMMETRIC;
    const double mirror_sign = structure >= UPPER_HERMITIAN ? -1 : 1;
    const int is_unit = structure == UPPER_UNIT || structure == LOWER_UNIT;
    for (int i = 0; i < size; ++i) {
        const struct component zero = {0, 0, 0};
        result[i] = is_unit ? vector[i] : zero;
    }
    for (int column = 0; column < matrix->columns; ++column) {
        int first;
        int last;
        const unsigned char *elements = matrix->elements + offset(matrix, 0, column);
        stored_rows(matrix, structure, column, &first, &last);
        for (int row = first; row < last; ++row) {
            double real;
            double imaginary;
            load(elements, (size_t)row, matrix->scalar, &real, &imaginary);
            const int to = operation == 'N' ? row : column;
            const int from = operation == 'N' ? column : row;
            accumulate(&result[to], real, sign * imaginary, &vector[from]);
            if (is_symmetric && row != column)
                accumulate(&result[from], real, mirror_sign * sign * imaginary, &vector[to]);
        }
    }
}

void check_true(struct routine *routine, int is_true, const char *what, const char *options)
{
    ++routine->run->checks;
    if (is_true || routine->is_wrong)
        return;
    routine->is_wrong = 1;
    snprintf(routine->detail, sizeof routine->detail, "order %d %s: %s", routine->order, options,
             what);
}

void check_components(struct routine *routine, const struct component *value,
                      const struct component *expected, int size, int terms, const char *options)
{
    char what[MAX_DETAIL / 2];
    const double factor = 8.0 * (terms + 10) * routine->scalar->roundoff;
    for (int i = 0; i < size; ++i) {
        const double error = absolute(value[i].real - expected[i].real) +
                             absolute(value[i].imaginary - expected[i].imaginary);
        const double bound = factor * expected[i].bound;
        if (error <= bound)
            continue;
        snprintf(what, sizeof what, "error %.3g in row %d, bound %.3g", error, i + 1, bound);
        check_true(routine, 0, what, options);
        return;
    }
    check_true(routine, 1, "", options);
}

void check_norm(struct routine *routine, const struct component *value,
                const struct component *expected, int size, int terms, double square,
                const char *options)
{
    char what[MAX_DETAIL / 2];
    const double factor = 32.0 * (terms + 10) * routine->scalar->roundoff;
    const double bound = factor * factor * square;
    double error = 0;
    for (int i = 0; i < size; ++i) {
        const double real = value[i].real - expected[i].real;
        const double imaginary = value[i].imaginary - expected[i].imaginary;
        error += real * real + imaginary * imaginary;
    }
    snprintf(what, sizeof what, "squared error %.3g, bound %.3g", error, bound);
    check_true(routine, error <= bound, what, options);
}

void run_routine(struct numerics *run, enum api api, const char *stem, const char *complex_stem,
                 const int *orders, int order_count, const char *types,
                 void (*check)(struct routine *routine))
{
    const struct family *family = first_family(run->probe, api);
    for (size_t t = 0; t < sizeof scalars / sizeof *scalars; ++t) {
        struct routine routine = {.run = run, .scalar = &scalars[t]};
        char name[MAX_NAME / 4];
        char key[MAX_NAME / 2];
        if (strchr(types, scalars[t].letter) == NULL)
            continue;
        snprintf(name, sizeof name, "%c%s", scalars[t].letter,
                 scalars[t].is_complex ? complex_stem : stem);
        snprintf(key, sizeof key, "%s.%s", run->stage, name);
        if (family != NULL)
            routine.address = family_function(run->probe, family, name);
        if (routine.address == NULL) {
            report(key, "absent");
            continue;
        }
        if (family->width != WIDTH_LP64 && family->width != WIDTH_ILP64) {
            report(key, "unknown");
            continue;
        }
        routine.width = family->width;
        for (int i = 0; i < order_count && !routine.is_wrong; ++i) {
            routine.order = orders[i];
            report_stage("%s.%d", key, routine.order);
            check(&routine);
        }
        report(key, routine.is_wrong ? "wrong" : "ok");
        if (routine.is_wrong) {
            ++run->wrong;
            snprintf(key, sizeof key, "%s.%s.detail", run->stage, name);
            report(key, routine.detail);
        }
    }
}
