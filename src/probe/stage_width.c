/* Stage width: are the library's integers 32 bits (LP64) or 64 bits (ILP64)?
 *
 * Names and headers lie about it somewhere; only a call settles it. Each family of names is asked
 * by calls of its own, first by such as are valid for either width. A call that gives neither
 * width's answer says unknown and decides nothing. All answers must agree: a family, or families
 * for one use, that answer differently are a mixed build, which nothing can be linked to.
 */
#include "width.h"

#include <stdio.h>

#define PAGE_MARGIN ((size_t)4096)
#define FAR_BYTES ((size_t)FAR_STRIDE * sizeof(float))

static struct far_vector reserve_far_vector(void)
{
    struct far_vector vector = {NULL};
    if (sizeof(void *) < sizeof(int64_t))
        return vector;
    unsigned char *start = platform_reserve(FAR_BYTES + 2 * PAGE_MARGIN);
    if (start != NULL && platform_commit(start, PAGE_MARGIN) == 0 &&
        platform_commit(start + FAR_BYTES, PAGE_MARGIN) == 0)
        vector.elements = (float *)(void *)start;
    return vector;
}

static enum width combine(enum width left, enum width right)
{
    if (left == WIDTH_UNKNOWN)
        return right;
    if (right == WIDTH_UNKNOWN || left == right)
        return left;
    return WIDTH_MIXED;
}

/* Runs the calls of a list; returns how many gave an answer. */
static unsigned run_calls(const struct probe *probe, unsigned index,
                          const struct width_call *calls, const char *note,
                          const struct far_vector *vector, enum width *width)
{
    char key[MAX_NAME];
    unsigned answers = 0;
    for (; calls->stem != NULL; ++calls) {
        function address = family_function(probe, &probe->families[index], calls->stem);
        snprintf(key, sizeof key, "width.%u.%s%s", index, calls->stem, note);
        if (address == NULL) {
            report(key, "absent");
            continue;
        }
        report_stage("%s", key);
        const enum width answer = calls->run(address, vector);
        report(key, width_text(answer));
        answers += answer != WIDTH_UNKNOWN;
        *width = combine(*width, answer);
    }
    return answers;
}

void stage_width(struct probe *probe)
{
    static const struct width_call none = {NULL, NULL};
    static const struct width_call *const valid[API_COUNT] = {
        width_calls_blas, width_calls_lapack, width_calls_cblas, width_calls_lapacke};
    static const struct width_call *const crafted[API_COUNT] = {
        width_calls_blas_crafted, &none, width_calls_cblas_crafted, &none};
    const struct far_vector vector = reserve_far_vector();
    unsigned total = 0;
    for (unsigned i = 0; i < probe->family_count; ++i) {
        struct family *family = &probe->families[i];
        char key[MAX_NAME];
        unsigned answers = run_calls(probe, i, valid[family->api], "", &vector, &family->width);
        if (answers == 0)
            answers = run_calls(probe, i, crafted[family->api], ".crafted", &vector,
                                &family->width);
        snprintf(key, sizeof key, "width.%u", i);
        report(key, width_text(family->width));
        probe->width = combine(probe->width, family->width);
        total += answers;
    }
    report("width", width_text(probe->width));
    report_format("width.answers", "%u", total);
    if (probe->width == WIDTH_MIXED)
        probe->failed = 1;
}
