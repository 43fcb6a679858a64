/* Integer width by how the BLAS reads a stride or a length.
 *
 * The BLAS writes no integer, so what it reads must differ. A stride of 2^32 + 1 is 1 to a reader
 * of 32 bits, of either byte order, and steps 16 GiB to a reader of 64. Both are valid: the second
 * element lies either beside the first or far away, in a reservation of address space that costs
 * two pages. Nothing is negative, so nothing goes to an error handler that may stop the process.
 */
#include "width.h"

#define NEAR 1
#define LARGE 5.0f
#define SMALL 0.5f
#define PRESET (-7.0f)
#define SECOND 2 /* index of the second element, from one */

#if defined(__s390x__) || defined(__powerpc64__) || defined(__riscv) || defined(__mips64) ||      \
    defined(__loongarch64) || defined(__sparc__)
/* These machines' calling conventions have the caller sign-extend an int, so that the callee may
 * use all 64 bits of a 32-bit argument. */
#define CALLEE_TRUSTS_UPPER_HALF 1
#else
#define CALLEE_TRUSTS_UPPER_HALF 0
#endif

typedef int64_t (*isamax_function)(void *, void *, void *);
typedef void (*scopy_function)(void *, void *, void *, void *, void *);
typedef double (*ddot_function)(void *, void *, void *, void *, void *);
typedef int64_t (*cblas_isamax_function)(int64_t, void *, int64_t);
typedef void (*cblas_scopy_function)(int64_t, void *, int64_t, void *, int64_t);

static void set_elements(const struct far_vector *vector, float near, float far)
{
    vector->elements[0] = 1.0f;
    vector->elements[NEAR] = near;
    vector->elements[FAR_STRIDE] = far;
}

/* The answers of two calls, the second with near and far exchanged. A function that does nothing
 * leaves the same number behind twice. */
static enum width judge_indices(int32_t near_large, int32_t far_large, int32_t first)
{
    if (near_large == first + 1 && far_large == first)
        return WIDTH_LP64;
    if (near_large == first && far_large == first + 1)
        return WIDTH_ILP64;
    return WIDTH_UNKNOWN;
}

static enum width isamax_as(isamax_function call, const struct far_vector *vector, integer length)
{
    integer stride = {FAR_STRIDE};
    set_elements(vector, LARGE, SMALL);
    const int32_t near_large = (int32_t)call(&length, vector->elements, &stride);
    set_elements(vector, SMALL, LARGE);
    const int32_t far_large = (int32_t)call(&length, vector->elements, &stride);
    return judge_indices(near_large, far_large, 1);
}

/* On big-endian machines a 32-bit reader takes the 64-bit length 2 for 0, a valid length again;
 * only where that gave no answer, the call is repeated with the length as LP64 has it. */
static enum width isamax(function address, const struct far_vector *vector)
{
    isamax_function call = (isamax_function)address;
    const integer length = {SECOND};
    if (vector->elements == NULL)
        return WIDTH_UNKNOWN;
    enum width width = isamax_as(call, vector, length);
    if (is_big_endian() && width == WIDTH_UNKNOWN)
        width = isamax_as(call, vector, integer_of(WIDTH_LP64, SECOND));
    return width;
}

static enum width judge_copy(const float *copy)
{
    if (copy[0] != 1.0f)
        return WIDTH_UNKNOWN;
    return copy[1] == LARGE ? WIDTH_LP64 : copy[1] == SMALL ? WIDTH_ILP64 : WIDTH_UNKNOWN;
}

/* scopy has no result but memory, so no return convention can blur it. */
static enum width scopy(function address, const struct far_vector *vector)
{
    scopy_function call = (scopy_function)address;
    float copy[4] = {PRESET, PRESET, PRESET, PRESET};
    integer length = {SECOND};
    integer stride = {FAR_STRIDE};
    integer unit = {1};
    if (vector->elements == NULL)
        return WIDTH_UNKNOWN;
    set_elements(vector, LARGE, SMALL);
    call(&length, vector->elements, &stride, copy, &unit);
    enum width width = judge_copy(copy);
    if (is_big_endian() && width == WIDTH_UNKNOWN) {
        length = integer_of(WIDTH_LP64, SECOND);
        unit = integer_of(WIDTH_LP64, 1);
        call(&length, vector->elements, &stride, copy, &unit);
        width = judge_copy(copy);
    }
    return width;
}

/* By value the upper half of the stride lies in a register, which a 32-bit callee ignores where
 * the convention leaves it undefined. Where the convention has it sign-extended, a 32-bit callee
 * may step far as well, so that only "near" says something. */
static enum width judge_by_value(enum width width)
{
    return CALLEE_TRUSTS_UPPER_HALF && width == WIDTH_ILP64 ? WIDTH_UNKNOWN : width;
}

static enum width cblas_isamax(function address, const struct far_vector *vector)
{
    cblas_isamax_function call = (cblas_isamax_function)address;
    if (vector->elements == NULL)
        return WIDTH_UNKNOWN;
    set_elements(vector, LARGE, SMALL);
    const int32_t near_large = (int32_t)call(SECOND, vector->elements, FAR_STRIDE);
    set_elements(vector, SMALL, LARGE);
    const int32_t far_large = (int32_t)call(SECOND, vector->elements, FAR_STRIDE);
    return judge_by_value(judge_indices(near_large, far_large, 0));
}

static enum width cblas_scopy(function address, const struct far_vector *vector)
{
    float copy[4] = {PRESET, PRESET, PRESET, PRESET};
    if (vector->elements == NULL)
        return WIDTH_UNKNOWN;
    set_elements(vector, LARGE, SMALL);
    ((cblas_scopy_function)address)(SECOND, vector->elements, FAR_STRIDE, copy, 1);
    return judge_by_value(judge_copy(copy));
}

/* Crafted lengths, where there is no address space for a far stride (32-bit machines, limits).
 *
 * Little endian: 0xFFFFFFFF00000003 is 3 to a 32-bit reader and negative to a 64-bit one, which
 * by the standard returns zero at once. Big endian: 3 as 64 bits is 3 to a 64-bit reader and 0 to
 * a 32-bit one. Zero alone proves nothing (a stub gives it too): it is believed only when the same
 * call with a length that is plain to the other width gives the right value. */
static integer crafted_length(int64_t length)
{
    integer result = {length};
    if (!is_big_endian())
        result.narrow[1] = -1;
    return result;
}

static integer plain_length(int64_t length)
{
    const integer result = {length};
    return is_big_endian() ? integer_of(WIDTH_LP64, length) : result;
}

static enum width judge_crafted(int crafted_right, int crafted_zero, int plain_right)
{
    const enum width reads_crafted = is_big_endian() ? WIDTH_ILP64 : WIDTH_LP64;
    const enum width reads_plain = is_big_endian() ? WIDTH_LP64 : WIDTH_ILP64;
    if (crafted_right)
        return reads_crafted;
    return crafted_zero && plain_right ? reads_plain : WIDTH_UNKNOWN;
}

/* Both halves are 1 on big-endian machines, where a length of 1 or 0 follows. */
static integer unit_stride(const integer *length)
{
    integer result = {1};
    if (is_big_endian() && length->narrow[0] != 0)
        result = integer_of(WIDTH_LP64, 1);
    return result;
}

static int32_t isamax_of(isamax_function call, integer length, float second, float third)
{
    float vector[4] = {1.0f, second, third, 0.0f};
    integer stride = unit_stride(&length);
    return (int32_t)call(&length, vector, &stride);
}

static enum width isamax_crafted(function address, const struct far_vector *vector)
{
    isamax_function call = (isamax_function)address;
    (void)vector;
    const int32_t third = isamax_of(call, crafted_length(3), SMALL, LARGE);
    const int32_t second = isamax_of(call, crafted_length(3), LARGE, SMALL);
    if (third != 0 || second != 0)
        return judge_crafted(third == 3 && second == 2, 0, 0);
    return judge_crafted(0, 1,
                         isamax_of(call, plain_length(3), SMALL, LARGE) == 3 &&
                             isamax_of(call, plain_length(3), LARGE, SMALL) == 2);
}

static double ddot_of(ddot_function call, integer length)
{
    double left[4] = {1.0, 2.0, 0.0, 0.0};
    double right[4] = {3.0, 4.0, 0.0, 0.0};
    integer stride = unit_stride(&length);
    return call(&length, left, &stride, right, &stride);
}

static enum width ddot_crafted(function address, const struct far_vector *vector)
{
    static const double product = 11.0;
    ddot_function call = (ddot_function)address;
    (void)vector;
    const double crafted = ddot_of(call, crafted_length(2));
    if (crafted != 0.0)
        return judge_crafted(crafted == product, 0, 0);
    return judge_crafted(0, 1, ddot_of(call, plain_length(2)) == product);
}

/* The same by value; the length is sign-extended as an int where it is plain. */
static enum width cblas_isamax_crafted(function address, const struct far_vector *vector)
{
    static const int64_t crafted = -INT64_C(0x100000000) + 3;
    float elements[4] = {1.0f, SMALL, LARGE, 0.0f};
    cblas_isamax_function call = (cblas_isamax_function)address;
    (void)vector;
    if (sizeof(void *) < sizeof(int64_t))
        return WIDTH_UNKNOWN; /* a 64-bit argument takes the place of two */
    const int32_t index = (int32_t)call(crafted, elements, 1);
    if (index == 2)
        return WIDTH_LP64;
    if (index != 0 || (int32_t)call(3, elements, 1) != 2)
        return WIDTH_UNKNOWN;
    return judge_by_value(WIDTH_ILP64);
}

const struct width_call width_calls_blas[] = {
    {"isamax", isamax}, {"scopy", scopy}, {NULL, NULL}};
const struct width_call width_calls_cblas[] = {
    {"cblas_isamax", cblas_isamax}, {"cblas_scopy", cblas_scopy}, {NULL, NULL}};
const struct width_call width_calls_blas_crafted[] = {
    {"isamax", isamax_crafted}, {"ddot", ddot_crafted}, {NULL, NULL}};
const struct width_call width_calls_cblas_crafted[] = {
    {"cblas_isamax", cblas_isamax_crafted}, {NULL, NULL}};
