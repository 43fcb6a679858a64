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

/* Elements from one address on, to separate real and imaginary parts. The branch on the type is
 * outside of the loop: these are most of the work of a check. */
static void load(const void *elements, int count, int stride, const struct scalar *scalar,
                 double *real, double *imaginary)
{
    const int step = stride * (scalar->is_complex ? 2 : 1);
    const float *single = elements;
    const double *twice = elements;
    if (scalar->is_double) {
        for (int i = 0; i < count; ++i)
            real[i] = twice[i * step];
        for (int i = 0; i < count; ++i)
            imaginary[i] = scalar->is_complex ? twice[i * step + 1] : 0;
    } else {
        for (int i = 0; i < count; ++i)
            real[i] = (double)single[i * step];
        for (int i = 0; i < count; ++i)
            imaginary[i] = scalar->is_complex ? (double)single[i * step + 1] : 0;
    }
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

/* A run of random values of absolute value in (0, 1], from a pool that is made once and read from
 * a random place: the numbers need only be irregular. */
static const float *random_run(int count)
{
    enum { POOL = 8192 };
    static float pool[POOL];
    if (pool[0] == 0.0f)
        for (int i = 0; i < POOL; ++i) {
            const uint32_t bits = random_bits();
            const float size = (float)(bits % RANDOM_STEPS + 1) / RANDOM_STEPS;
            pool[i] = (bits >> 31) != 0 ? -size : size;
        }
    return pool + random_bits() % (uint32_t)(POOL - count);
}

void matrix_fill(struct matrix *matrix, enum structure structure, double scale, double diagonal)
{
    const struct scalar *scalar = matrix->scalar;
    const int parts = scalar->is_complex ? 2 : 1;
    for (int column = 0; column < matrix->columns; ++column) {
        int first;
        int last;
        stored_rows(matrix, structure, column, &first, &last);
        const int count = (last - first) * parts;
        void *elements = matrix->elements + offset(matrix, first, column);
        const float *values = random_run(2 * LARGEST_ORDER);
        if (scalar->is_double)
            for (int i = 0; i < count; ++i)
                ((double *)elements)[i] = scale * (double)values[i];
        else
            for (int i = 0; i < count; ++i)
                ((float *)elements)[i] = (float)scale * values[i];
        if (structure != GENERAL && first <= column && column < last)
            matrix_set(matrix, column, column, diagonal, 0);
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
    double real[LARGEST_ORDER];
    double imaginary[LARGEST_ORDER];
    double sum = 0;
    for (int column = 0; column < matrix->columns; ++column) {
        int first;
        int last;
        stored_rows(matrix, structure, column, &first, &last);
        load(matrix->elements + offset(matrix, first, column), last - first, 1, matrix->scalar,
             real, imaginary);
        for (int row = first; row < last; ++row) {
            const double square = real[row - first] * real[row - first] +
                                  imaginary[row - first] * imaginary[row - first];
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
    double real[LARGEST_ORDER];
    double imaginary[LARGEST_ORDER];
    load(elements, size, stride, scalar, real, imaginary);
    for (int i = 0; i < size; ++i) {
        vector[i].real = real[i];
        vector[i].imaginary = imaginary[i];
        vector[i].bound = absolute(real[i]) + absolute(imaginary[i]);
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

/* Vectors by parts, so that the loops below are simple ones. */
struct parts {
    double real[LARGEST_ORDER];
    double imaginary[LARGEST_ORDER];
    double bound[LARGEST_ORDER];
};

/* to += column * factor. Real elements meet real factors only. */
static void add_multiple(struct parts *to, const struct parts *column, int first, int last,
                         struct component factor, int is_complex)
{
    if (!is_complex) {
        for (int i = first; i < last; ++i) {
            to->real[i] += column->real[i] * factor.real;
            to->bound[i] += column->bound[i] * factor.bound;
        }
        return;
    }
    for (int i = first; i < last; ++i) {
        to->real[i] += column->real[i] * factor.real - column->imaginary[i] * factor.imaginary;
        to->imaginary[i] += column->real[i] * factor.imaginary + column->imaginary[i] * factor.real;
        to->bound[i] += column->bound[i] * factor.bound;
    }
}

/* The sum of column * vector, with the imaginary part of the column multiplied by sign. */
static struct component product(const struct parts *column, const struct parts *vector, int first,
                                int last, double sign, int is_complex)
{
    double same = 0;
    double turned = 0;
    double mixed = 0;
    double crossed = 0;
    double bound = 0;
    if (!is_complex) {
        for (int i = first; i < last; ++i) {
            same += column->real[i] * vector->real[i];
            bound += column->bound[i] * vector->bound[i];
        }
        const struct component result = {same, 0, bound};
        return result;
    }
    for (int i = first; i < last; ++i) {
        same += column->real[i] * vector->real[i];
        turned += column->imaginary[i] * vector->imaginary[i];
        mixed += column->real[i] * vector->imaginary[i];
        crossed += column->imaginary[i] * vector->real[i];
        bound += column->bound[i] * vector->bound[i];
    }
    const struct component result = {same - sign * turned, mixed + sign * crossed, bound};
    return result;
}

static void add_component(struct parts *to, int index, struct component value)
{
    to->real[index] += value.real;
    to->imaginary[index] += value.imaginary;
    to->bound[index] += value.bound;
}

void matrix_apply(const struct matrix *matrix, enum structure structure, char operation,
                  const struct component *vector, struct component *result)
{
    const int size = operation == 'N' ? matrix->rows : matrix->columns;
    const int vector_size = operation == 'N' ? matrix->columns : matrix->rows;
    const double sign = operation == 'C' ? -1 : 1;
    const double mirror_sign = structure >= UPPER_HERMITIAN ? -1 : 1;
    const int is_unit = structure == UPPER_UNIT || structure == LOWER_UNIT;
    const int is_complex = matrix->scalar->is_complex;
    struct parts from;
    struct parts to;
    struct parts elements;
    for (int i = 0; i < vector_size; ++i) {
        from.real[i] = vector[i].real;
        from.imaginary[i] = vector[i].imaginary;
        from.bound[i] = vector[i].bound;
    }
    for (int i = 0; i < size; ++i) {
        to.real[i] = is_unit ? vector[i].real : 0;
        to.imaginary[i] = is_unit ? vector[i].imaginary : 0;
        to.bound[i] = is_unit ? vector[i].bound : 0;
    }
    for (int column = 0; column < matrix->columns; ++column) {
        int first;
        int last;
        stored_rows(matrix, structure, column, &first, &last);
        load(matrix->elements + offset(matrix, first, column), last - first, 1, matrix->scalar,
             elements.real + first, elements.imaginary + first);
        for (int row = first; row < last; ++row)
            elements.bound[row] = absolute(elements.real[row]) + absolute(elements.imaginary[row]);
        if (operation == 'N')
            add_multiple(&to, &elements, first, last, vector[column], is_complex);
        else
            add_component(&to, column, product(&elements, &from, first, last, sign, is_complex));
        if (structure >= UPPER_SYMMETRIC) {
            /* The triangle that is not stored: rows for columns, without the diagonal. */
            const int after = structure == LOWER_SYMMETRIC || structure == LOWER_HERMITIAN;
            add_component(&to, column,
                          product(&elements, &from, first + after, last - 1 + after, mirror_sign,
                                  is_complex));
        }
    }
    for (int i = 0; i < size; ++i) {
        result[i].real = to.real[i];
        result[i].imaginary = to.imaginary[i];
        result[i].bound = to.bound[i];
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
