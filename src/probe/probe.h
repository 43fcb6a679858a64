/* What the stages share: the library under test, its families of names, and the report. */
#ifndef BLASWHEEL_PROBE_H
#define BLASWHEEL_PROBE_H

#include <stddef.h>
#include <stdint.h>

#include "platform.h"

#define MAX_FAMILIES 32   /* --family options */
#define MAX_PRELOADS 16   /* --preload options */
#define MAX_DECORATION 64 /* bytes of a prefix or a suffix, with the final zero */
#define MAX_NAME 256      /* bytes of a symbol name, with the final zero */
#define MAX_LINE 4000     /* bytes of a line of the report: below PIPE_BUF, so never interleaved */

enum api { API_BLAS, API_LAPACK, API_CBLAS, API_LAPACKE, API_COUNT };

/* MIXED: calls that were answered, but not alike. */
enum width { WIDTH_UNKNOWN, WIDTH_LP64, WIDTH_ILP64, WIDTH_MIXED };

/* How a function gives its complex or single-precision result. */
enum convention {
    CONVENTION_UNKNOWN,
    CONVENTION_ABSENT,
    CONVENTION_REGISTER,
    CONVENTION_ARGUMENT,
    CONVENTION_FLOAT,
    CONVENTION_DOUBLE,
    CONVENTION_MIXED
};

/* Names of one API that share a decoration: prefix + stem + suffix. */
struct family {
    enum api api;
    char prefix[MAX_DECORATION];
    char suffix[MAX_DECORATION];
    enum width width;
};

struct probe {
    const char *path;
    void *library;
    struct family families[MAX_FAMILIES];
    unsigned family_count;
    const char *preloads[MAX_PRELOADS];
    unsigned preload_count;
    const char *names;         /* file of names to look up, "-" for standard input, or NULL */
    const char *against;       /* library to open with this one in one scope, or NULL */
    int against_after;         /* open it after, not before */
    int global;                /* open the library RTLD_GLOBAL */
    enum width width;          /* what the families agree on */
    int failed;                /* something was found wrong */
};

extern const char *const api_names[API_COUNT];
const char *width_text(enum width width);
const char *convention_text(enum convention convention);

/* The first family of an API, in the order of the command line; NULL when there is none. */
const struct family *first_family(const struct probe *probe, enum api api);

/* The address of prefix + stem + suffix; NULL when absent, too long, or known to be data. */
function family_function(const struct probe *probe, const struct family *family, const char *stem);

/* An integer argument that is passed by reference. Both parts are zero beyond the value. */
typedef union {
    int64_t wide;
    int32_t narrow[2];
} integer;

integer integer_of(enum width width, int64_t value);
int64_t integer_value(enum width width, const integer *argument);
int is_big_endian(void);

/* The report: lines "key=value" on the private output. Control bytes, backslashes and bytes
 * above 126 in a value are written as \xHH. report_stage precedes each risky call. */
void report(const char *key, const char *value);
void report_format(const char *key, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;
void report_stage(const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 1, 2)))
#endif
    ;

void stage_load(struct probe *probe);
void stage_symbols(struct probe *probe);
void stage_identity(struct probe *probe);
void stage_width(struct probe *probe);
void stage_returns(struct probe *probe);
void stage_agreement(struct probe *probe);
void stage_numerics(struct probe *probe);
void stage_fork(struct probe *probe);
void stage_against(struct probe *probe);

#endif
