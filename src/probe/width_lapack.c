/* Integer width by what LAPACK writes. No length is crafted here; every call is a valid one. */
#include "width.h"

#define ORDER 3
#define COLUMN_MAJOR 102
#define SLOTS (ORDER + 1)
#define LARGEST_VERSION 1000

/* ilaver(major, minor, patch) only writes. Preset to -1, all bits set, a 64-bit slot holds
 * - a small number after an ILP64 library wrote all of it;
 * - a small number in its first half, and -1 in its second, after an LP64 one wrote the first;
 * - -1 still, when the function does nothing: unknown. */
static enum width ilaver(function address, const struct far_vector *vector)
{
    integer versions[3] = {{-1}, {-1}, {-1}};
    int wide = 0;
    int narrow = 0;
    (void)vector;
    ((void (*)(void *, void *, void *))address)(&versions[0], &versions[1], &versions[2]);
    for (int i = 0; i < 3; ++i) {
        const integer *version = &versions[i];
        wide += version->wide >= 0 && version->wide < LARGEST_VERSION;
        narrow += version->narrow[0] >= 0 && version->narrow[0] < LARGEST_VERSION &&
                  version->narrow[1] == -1;
    }
    return wide == 3 ? WIDTH_ILP64 : narrow == 3 ? WIDTH_LP64 : WIDTH_UNKNOWN;
}

/* The pivots of a permutation matrix whose every pivot is row 3, in slots preset to -1: 32-bit
 * pivots fill one and a half slots, 64-bit ones three. */
static enum width pivots_width(const integer *pivots, int count)
{
    const int32_t *narrow = &pivots[0].narrow[0];
    int lp64 = 1;
    int ilp64 = 1;
    for (int i = 0; i < count; ++i) {
        ilp64 &= pivots[i].wide == ORDER;
        lp64 &= narrow[i] == ORDER;
    }
    lp64 &= narrow[count] == -1;
    return ilp64 ? WIDTH_ILP64 : lp64 ? WIDTH_LP64 : WIDTH_UNKNOWN;
}

static void set_problem(double *matrix, integer *pivots)
{
    static const double permutation[ORDER * ORDER] = {0, 0, 1, 1, 0, 0, 0, 1, 0};
    for (int i = 0; i < ORDER * ORDER; ++i)
        matrix[i] = permutation[i];
    for (int i = 0; i < SLOTS; ++i)
        pivots[i].wide = -1;
}

/* dgetrf(m, n, a, lda, pivots, info) with 64-bit m, n and lda.
 *
 * Little endian: a small 64-bit number is the same number to a 32-bit reader, so the call is valid
 * for both widths, and the width of the pivots tells.
 *
 * Big endian: a 32-bit reader sees the upper half. The first call is valid for ILP64, and empty
 * (m = n = 0) to LP64; it has one column, so that lda, whose halves must both be valid, is never
 * multiplied. Only if it leaves the pivots alone, a second call is made as LP64 has it. */
static enum width dgetrf(function address, const struct far_vector *vector)
{
    const int columns = is_big_endian() ? 1 : ORDER;
    double matrix[ORDER * ORDER];
    integer pivots[SLOTS];
    integer info = {-1};
    integer rows = {ORDER};
    integer order = {columns};
    integer leading = {ORDER};
    (void)vector;
    if (is_big_endian())
        leading.narrow[0] = leading.narrow[1] = ORDER;
    set_problem(matrix, pivots);
    void (*call)(void *, void *, void *, void *, void *, void *) =
        (void (*)(void *, void *, void *, void *, void *, void *))address;
    call(&rows, &order, matrix, &leading, pivots, &info);
    if (is_big_endian() && pivots[0].wide == -1) {
        rows = integer_of(WIDTH_LP64, ORDER);
        order = integer_of(WIDTH_LP64, columns);
        call(&rows, &order, matrix, &leading, pivots, &info);
    }
    return pivots_width(pivots, columns);
}

/* LAPACKE_dgetrf takes its integers by value: a small number in a register is the same to both
 * widths under every calling convention of 64-bit machines. The pivots tell, as above. */
static enum width lapacke_dgetrf(function address, const struct far_vector *vector)
{
    double matrix[ORDER * ORDER];
    integer pivots[SLOTS];
    (void)vector;
    if (sizeof(void *) < sizeof(int64_t))
        return WIDTH_UNKNOWN; /* a 64-bit argument takes the place of two */
    set_problem(matrix, pivots);
    ((int64_t(*)(int, int64_t, int64_t, double *, int64_t, void *))address)(
        COLUMN_MAJOR, ORDER, ORDER, matrix, ORDER, pivots);
    return pivots_width(pivots, ORDER);
}

const struct width_call width_calls_lapack[] = {
    {"ilaver", ilaver}, {"dgetrf", dgetrf}, {NULL, NULL}};
const struct width_call width_calls_lapacke[] = {
    {"LAPACKE_ilaver", ilaver}, {"LAPACKE_dgetrf", lapacke_dgetrf}, {NULL, NULL}};
