/* Stage returns: how do Fortran functions give complex and single-precision results?
 *
 * Compilers differ. A complex result comes in registers (gfortran), or through a pointer that is
 * passed before the other arguments (f2c, g77, ifort); on 64-bit Windows gfortran gives the 8-byte
 * complex in a register and the 16-byte one through a pointer ("mixed"). A float result comes as a
 * float, or, from f2c, as a double. A caller with the other convention reads garbage, so each is
 * told by the right value, never by zeros, for single and double precision separately.
 *
 * The order makes it safe. The call with a result pointer goes first: a library of the other kind
 * takes the pointer for n, and finds 0 there, since the buffer is zeroed and larger than any
 * integer; it returns at once. Only if the buffer is untouched, the call in registers follows.
 *
 * Where the C compiler's own complex functions use a pointer (returns.native_complex), a call with
 * a pointer and C's own convention are the same thing.
 */
#include "probe.h"

#include <stdio.h>
#include <string.h>

#define RESULT_BYTES 64 /* the largest result is 16 bytes; the rest shows an overrun */
#define TOLERANCE 1e-5
#define ABSENT CONVENTION_ABSENT

#if defined(__i386__) && !defined(_WIN32)
/* A C function with a result pointer pops it from the stack, an f2c one does not: no call that is
 * safe for both. */
#define POINTER_CALL_IS_UNSAFE 1
#else
#define POINTER_CALL_IS_UNSAFE 0
#endif

#if defined(_WIN32)
#define NATIVE_COMPLEX (sizeof(void *) == 8 && !IS_ARM ? CONVENTION_MIXED : CONVENTION_REGISTER)
#if defined(__aarch64__)
#define IS_ARM 1
#else
#define IS_ARM 0
#endif
#elif defined(__s390x__)
#define NATIVE_COMPLEX CONVENTION_ARGUMENT
#elif defined(__x86_64__) || defined(__aarch64__) || defined(__powerpc64__) || defined(__riscv)
#define NATIVE_COMPLEX CONVENTION_REGISTER
#else
#define NATIVE_COMPLEX CONVENTION_UNKNOWN
#endif

static int near(double value, double expected)
{
    const double difference = value - expected;
    return difference < TOLERANCE && difference > -TOLERANCE;
}

static int is_untouched(const unsigned char *buffer)
{
    for (int i = 0; i < RESULT_BYTES; ++i)
        if (buffer[i] != 0)
            return 0;
    return 1;
}

/* Whether the buffer holds the complex number, in single or double precision. */
static int holds(const void *buffer, int is_double, double real, double imaginary)
{
    float single[2];
    double twice[2];
    if (is_double) {
        memcpy(twice, buffer, sizeof twice);
        return near(twice[0], real) && near(twice[1], imaginary);
    }
    memcpy(single, buffer, sizeof single);
    return near((double)single[0], real) && near((double)single[1], imaginary);
}

/* conj(x) . y of two elements is 3 + 6i. */
static enum convention dot(function address, enum width width, int is_double)
{
    float x_single[] = {1, 2, 3, -1};
    float y_single[] = {2, -1, 2, 3};
    double x_double[] = {1, 2, 3, -1};
    double y_double[] = {2, -1, 2, 3};
    void *x = is_double ? (void *)x_double : (void *)x_single;
    void *y = is_double ? (void *)y_double : (void *)y_single;
    integer length = integer_of(width, 2);
    integer stride = integer_of(width, 1);
    union {
        unsigned char bytes[RESULT_BYTES];
        double alignment;
    } result = {{0}};
    if (POINTER_CALL_IS_UNSAFE)
        return CONVENTION_UNKNOWN;
    ((void (*)(void *, void *, void *, void *, void *, void *))address)(&result, &length, x,
                                                                        &stride, y, &stride);
    if (holds(&result, is_double, 3, 6))
        return CONVENTION_ARGUMENT;
    if (!is_untouched(result.bytes))
        return CONVENTION_UNKNOWN;
    if (is_double) {
        const double _Complex value =
            ((double _Complex(*)(void *, void *, void *, void *, void *))address)(
                &length, x, &stride, y, &stride);
        memcpy(&result, &value, sizeof value);
    } else {
        const float _Complex value =
            ((float _Complex(*)(void *, void *, void *, void *, void *))address)(
                &length, x, &stride, y, &stride);
        memcpy(&result, &value, sizeof value);
    }
    return holds(&result, is_double, 3, 6) ? CONVENTION_REGISTER : CONVENTION_UNKNOWN;
}

/* cladiv and zladiv: (-5 + 10i) / (1 + 2i) = 3 + 4i. With a result pointer, a library that returns
 * in registers divides the zeroed buffer by the numerator. No integer is involved. */
static enum convention divide(function address, enum width width, int is_double)
{
    float x_single[] = {-5, 10};
    float y_single[] = {1, 2};
    double x_double[] = {-5, 10};
    double y_double[] = {1, 2};
    void *x = is_double ? (void *)x_double : (void *)x_single;
    void *y = is_double ? (void *)y_double : (void *)y_single;
    union {
        unsigned char bytes[RESULT_BYTES];
        double alignment;
    } result = {{0}};
    (void)width;
    if (POINTER_CALL_IS_UNSAFE)
        return CONVENTION_UNKNOWN;
    ((void (*)(void *, void *, void *))address)(&result, x, y);
    if (holds(&result, is_double, 3, 4))
        return CONVENTION_ARGUMENT;
    if (!is_untouched(result.bytes))
        return CONVENTION_UNKNOWN;
    if (is_double) {
        const double _Complex value =
            ((double _Complex(*)(void *, void *))address)(x, y);
        memcpy(&result, &value, sizeof value);
    } else {
        const float _Complex value = ((float _Complex(*)(void *, void *))address)(x, y);
        memcpy(&result, &value, sizeof value);
    }
    return holds(&result, is_double, 3, 4) ? CONVENTION_REGISTER : CONVENTION_UNKNOWN;
}

/* A float and a double come in the same register; both calls are safe. Where registers hold floats
 * as doubles (x87, POWER) both read right, and "float" is true for every caller. */
static enum convention judge_float(double as_float, double as_double, double expected)
{
    if (near(as_float, expected))
        return CONVENTION_FLOAT;
    return near(as_double, expected) ? CONVENTION_DOUBLE : CONVENTION_UNKNOWN;
}

static enum convention sdot(function address, enum width width, int is_double)
{
    float x[] = {1.5f, 2};
    float y[] = {2, 4};
    integer length = integer_of(width, 2);
    integer stride = integer_of(width, 1);
    (void)is_double;
    const float as_float = ((float (*)(void *, void *, void *, void *, void *))address)(
        &length, x, &stride, y, &stride);
    const double as_double = ((double (*)(void *, void *, void *, void *, void *))address)(
        &length, x, &stride, y, &stride);
    return judge_float((double)as_float, as_double, 11);
}

/* snrm2 and scnrm2 of (3, 4): 5, as two real elements or one complex one. */
static enum convention norm(function address, enum width width, int is_complex)
{
    float x[] = {3, 4};
    integer length = integer_of(width, is_complex ? 1 : 2);
    integer stride = integer_of(width, 1);
    const float as_float = ((float (*)(void *, void *, void *))address)(&length, x, &stride);
    const double as_double = ((double (*)(void *, void *, void *))address)(&length, x, &stride);
    return judge_float((double)as_float, as_double, 5);
}

static enum convention sasum(function address, enum width width, int is_double)
{
    float x[] = {3, -4};
    integer length = integer_of(width, 2);
    integer stride = integer_of(width, 1);
    (void)is_double;
    const float as_float = ((float (*)(void *, void *, void *))address)(&length, x, &stride);
    const double as_double = ((double (*)(void *, void *, void *))address)(&length, x, &stride);
    return judge_float((double)as_float, as_double, 7);
}

/* slamch('B') is the base, 2. */
static enum convention slamch(function address, enum width width, int is_double)
{
    (void)width;
    (void)is_double;
    const float as_float = ((float (*)(const void *, size_t))address)("B", 1);
    const double as_double = ((double (*)(const void *, size_t))address)("B", 1);
    return judge_float((double)as_float, as_double, 2);
}

/* slange('M') of (3, -4): 4. */
static enum convention slange(function address, enum width width, int is_double)
{
    float matrix[] = {3, -4};
    float work[2] = {0};
    integer rows = integer_of(width, 1);
    integer columns = integer_of(width, 2);
    (void)is_double;
    const float as_float =
        ((float (*)(const void *, void *, void *, void *, void *, void *, size_t))address)(
            "M", &rows, &columns, matrix, &rows, work, 1);
    const double as_double =
        ((double (*)(const void *, void *, void *, void *, void *, void *, size_t))address)(
            "M", &rows, &columns, matrix, &rows, work, 1);
    return judge_float((double)as_float, as_double, 4);
}

struct return_call {
    const char *stem;
    enum api api;
    int is_complex_result;
    int variant; /* double precision, or complex operands */
    enum convention (*run)(function address, enum width width, int variant);
};

static const struct return_call calls[] = {
    {"cdotc", API_BLAS, 1, 0, dot},      {"zdotc", API_BLAS, 1, 1, dot},
    {"cladiv", API_LAPACK, 1, 0, divide}, {"zladiv", API_LAPACK, 1, 1, divide},
    {"sdot", API_BLAS, 0, 0, sdot},      {"snrm2", API_BLAS, 0, 0, norm},
    {"scnrm2", API_BLAS, 0, 1, norm},    {"sasum", API_BLAS, 0, 0, sasum},
    {"slamch", API_LAPACK, 0, 0, slamch}, {"slange", API_LAPACK, 0, 0, slange},
};

/* absent is the neutral element; unknown prevails over known, so that nothing is claimed that one
 * of the calls did not show. */
static enum convention combine(enum convention left, enum convention right)
{
    if (left == ABSENT)
        return right;
    if (right == ABSENT || left == right)
        return left;
    if (left == CONVENTION_UNKNOWN || right == CONVENTION_UNKNOWN)
        return CONVENTION_UNKNOWN;
    return CONVENTION_MIXED;
}

void stage_returns(struct probe *probe)
{
    char key[MAX_NAME];
    enum convention complex_result = ABSENT;
    enum convention float_result = ABSENT;
    for (unsigned i = 0; i < probe->family_count; ++i) {
        const struct family *family = &probe->families[i];
        if (family->api != API_BLAS && family->api != API_LAPACK)
            continue;
        for (size_t c = 0; c < sizeof calls / sizeof *calls; ++c) {
            if (calls[c].api != family->api)
                continue;
            enum convention answer = ABSENT;
            function address = family_function(probe, family, calls[c].stem);
            snprintf(key, sizeof key, "returns.%u.%s", i, calls[c].stem);
            if (address != NULL && family->width != WIDTH_LP64 && family->width != WIDTH_ILP64) {
                answer = CONVENTION_UNKNOWN;
            } else if (address != NULL) {
                report_stage("%s", key);
                answer = calls[c].run(address, family->width, calls[c].variant);
            }
            report(key, convention_text(answer));
            if (calls[c].is_complex_result)
                complex_result = combine(complex_result, answer);
            else
                float_result = combine(float_result, answer);
        }
    }
    report("returns.native_complex", convention_text(NATIVE_COMPLEX));
    report("returns.complex", convention_text(complex_result));
    report("returns.float", convention_text(float_result));
}
