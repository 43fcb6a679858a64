/* The calls that tell the width of integers apart. Each answers for itself alone: WIDTH_UNKNOWN
 * when the result is none of those that a working library of either width would give. */
#ifndef BLASWHEEL_PROBE_WIDTH_H
#define BLASWHEEL_PROBE_WIDTH_H

#include "probe.h"

/* Two single-precision vectors of two elements in one reservation of address space, so that a
 * stride of 2^32 + 1 stays within mapped memory. elements is NULL when the system refuses. */
struct far_vector {
    float *elements;
};

#define FAR_STRIDE INT64_C(0x100000001)

struct width_call {
    const char *stem;
    enum width (*run)(function address, const struct far_vector *vector);
};

/* Valid calls for a library of either width. Each list ends with a NULL stem. */
extern const struct width_call width_calls_blas[];
extern const struct width_call width_calls_cblas[];
extern const struct width_call width_calls_lapack[];
extern const struct width_call width_calls_lapacke[];

/* Calls whose length is negative to one of the widths: only where no valid call has answered. */
extern const struct width_call width_calls_blas_crafted[];
extern const struct width_call width_calls_cblas_crafted[];

#endif
