/* Matrices of every type, and checks of products by a random vector.
 *
 * A claim "C = A B" is checked as "C r = A (B r)" for a random r (Freivalds): O(n^2) work instead
 * of O(n^3), and an error in any one element of C appears in a component of the left side. All
 * sums are in double precision.
 *
 * Error bounds. With u the unit roundoff of the type, a sum of k products has an error of at most
 * about k u times the sum of absolute products, component by component, for every order of
 * summation and with or without fused operations; complex arithmetic costs a factor below 3. A
 * vector here carries with each component the sum of absolute products behind it, so the bound is
 * 8 (k + 10) u times that sum: nothing is assumed of the data. Decompositions are bounded by norms
 * instead, as their backward error is: 32 (k + 10) u times the Frobenius norm.
 */
#ifndef BLASWHEEL_PROBE_NUMERICS_H
#define BLASWHEEL_PROBE_NUMERICS_H

#include "probe.h"

#define LARGEST_ORDER 129
#define PADDING 3 /* rows beyond the matrix in each column */
#define GUARD 16  /* elements before and after the matrix */
#define LARGEST_ELEMENT 16
#define MATRIX_BYTES                                                                               \
    (((LARGEST_ORDER + PADDING) * LARGEST_ORDER + 2 * GUARD) * LARGEST_ELEMENT)
#define WORK_BYTES (16 * LARGEST_ORDER * LARGEST_ORDER * LARGEST_ELEMENT)
#define INTEGER_WORK (8 * (LARGEST_ORDER + 1))
#define MAX_DETAIL 200

/* Fortran takes everything by reference, and the length of each character argument at the end. */
#define REF const void *

struct scalar {
    char letter; /* s, d, c, z */
    int is_complex;
    int is_double;
    double roundoff;
};

enum structure {
    GENERAL,
    UPPER,
    LOWER,
    UPPER_UNIT,
    LOWER_UNIT,
    UPPER_SYMMETRIC,
    LOWER_SYMMETRIC,
    UPPER_HERMITIAN,
    LOWER_HERMITIAN
};

/* Column-major. Bytes that are not elements hold 0xFF, and so do elements at first: NaN. */
struct matrix {
    const struct scalar *scalar;
    int rows;
    int columns;
    int leading;
    unsigned char *elements;
    union {
        unsigned char bytes[MATRIX_BYTES];
        double alignment;
    } storage;
};

/* A component, and the sum of absolute values of the products that it is made of. */
struct component {
    double real;
    double imaginary;
    double bound;
};

/* One run of the checks. */
struct numerics {
    const struct probe *probe;
    const char *stage; /* first part of each key */
    unsigned checks;
    unsigned wrong;
};

/* One routine for one type. */
struct routine {
    struct numerics *run;
    const struct scalar *scalar;
    enum width width;
    function address;
    int order;
    int is_wrong;
    char detail[MAX_DETAIL];
};

extern const struct scalar scalars[4];
extern struct matrix matrix_a, matrix_b, matrix_c, matrix_d;

void matrix_start(struct matrix *matrix, const struct scalar *scalar, int rows, int columns);
void matrix_set(struct matrix *matrix, int row, int column, double real, double imaginary);
void matrix_copy(struct matrix *to, const struct matrix *from);
/* Random elements of absolute value in (0, 1] times scale, with the given value on the diagonal of
 * triangles and symmetric matrices (their other half stays NaN). */
void matrix_fill(struct matrix *matrix, enum structure structure, double scale, double diagonal);
/* Whether everything beside the elements of this structure still holds 0xFF. */
int matrix_is_guarded(const struct matrix *matrix, enum structure structure);
double matrix_square_norm(const struct matrix *matrix, enum structure structure);

void vector_random(struct component *vector, int size, const struct scalar *scalar);
void vector_load(struct component *vector, const void *elements, int size, int stride,
                 const struct scalar *scalar);
void vector_scale(struct component *vector, int size, double real, double imaginary);
/* result = op(matrix) vector, op by 'N', 'T' or 'C'; symmetric and Hermitian ones by 'N' only. */
void matrix_apply(const struct matrix *matrix, enum structure structure, char operation,
                  const struct component *vector, struct component *result);

/* Records whether value is expected within 8 (terms + 10) u times expected's bounds. */
void check_components(struct routine *routine, const struct component *value,
                      const struct component *expected, int size, int terms, const char *options);
/* The same within 32 (terms + 10) u times the norm of which the square is given. */
void check_norm(struct routine *routine, const struct component *value,
                const struct component *expected, int size, int terms, double square,
                const char *options);
/* Records that a statement is true. */
void check_true(struct routine *routine, int is_true, const char *what, const char *options);

/* Calls check for each type and each order; reports STAGE.ROUTINE=ok, wrong or absent. */
void run_routine(struct numerics *run, enum api api, const char *stem, const char *complex_stem,
                 const int *orders, int order_count, const char *types,
                 void (*check)(struct routine *routine));

void check_gemm(struct routine *routine);
void check_gemv(struct routine *routine);
void check_trsm(struct routine *routine);
void check_syrk(struct routine *routine);
void check_potrf(struct routine *routine);
void check_getrf(struct routine *routine);
void check_gesdd(struct routine *routine);
void check_syevd(struct routine *routine);
void check_geqrf(struct routine *routine);
void check_geqr2(struct routine *routine);

#endif
