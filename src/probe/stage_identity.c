/* Stage identity: what does the library say about itself?
 *
 * Vendors export functions that name their version, configuration, kernel and threads. They take
 * no integer whose width matters, and are called before anything that computes, so that the core
 * is known when a kernel crashes later. Names carry the library's decoration or none, in every
 * form that the families show: a Fortran suffix holds the underscore, a C suffix does not. A key
 * is printed only for a function that exists.
 */
#include "probe.h"

#include <stdio.h>
#include <string.h>

#define MAX_DECORATIONS 64
#define TEXT_SIZE 512
#define QUERY_ONLY (-1) /* MKL_Set_Threading_Layer: tells the layer, sets nothing */

struct decoration {
    char prefix[MAX_DECORATION];
    char suffix[MAX_DECORATION];
};

struct decorations {
    struct decoration list[MAX_DECORATIONS];
    unsigned count;
};

static void add_decoration(struct decorations *all, const char *prefix, const char *suffix)
{
    if (all->count == MAX_DECORATIONS)
        return;
    for (unsigned i = 0; i < all->count; ++i)
        if (strcmp(all->list[i].prefix, prefix) == 0 && strcmp(all->list[i].suffix, suffix) == 0)
            return;
    snprintf(all->list[all->count].prefix, MAX_DECORATION, "%s", prefix);
    snprintf(all->list[all->count].suffix, MAX_DECORATION, "%s", suffix);
    ++all->count;
}

static void collect_decorations(const struct probe *probe, struct decorations *all)
{
    for (unsigned i = 0; i < probe->family_count; ++i) {
        const struct family *family = &probe->families[i];
        const size_t length = strlen(family->suffix);
        add_decoration(all, family->prefix, family->suffix);
        if (length > 0 && family->suffix[0] == '_')
            add_decoration(all, family->prefix, family->suffix + 1);
        if (length > 0 && family->suffix[length - 1] == '_') {
            char suffix[MAX_DECORATION];
            memcpy(suffix, family->suffix, length);
            suffix[length - 1] = '\0';
            add_decoration(all, family->prefix, suffix);
        }
        add_decoration(all, family->prefix, "");
    }
    add_decoration(all, "", "");
}

static function find(const struct probe *probe, const struct decorations *all, const char *stem)
{
    struct family family = {.api = API_CBLAS};
    for (unsigned i = 0; i < all->count; ++i) {
        memcpy(family.prefix, all->list[i].prefix, MAX_DECORATION);
        memcpy(family.suffix, all->list[i].suffix, MAX_DECORATION);
        function address = family_function(probe, &family, stem);
        if (address != NULL)
            return address;
    }
    return NULL;
}

enum shape { SHAPE_TEXT, SHAPE_INT, SHAPE_INT64 };

static const struct {
    const char *stem;
    const char *key;
    enum shape shape;
} queries[] = {
    {"openblas_get_config", "identity.openblas_config", SHAPE_TEXT},
    {"openblas_get_corename", "identity.openblas_core", SHAPE_TEXT},
    {"openblas_get_parallel", "identity.openblas_parallel", SHAPE_INT},
    {"openblas_get_num_threads", "identity.openblas_threads", SHAPE_INT},
    {"openblas_get_num_procs", "identity.openblas_processors", SHAPE_INT},
    {"bli_info_get_version_str", "identity.blis_version", SHAPE_TEXT},
    {"bli_info_get_blas_int_type_size", "identity.blis_blas_int_bits", SHAPE_INT64},
    {"bli_thread_get_num_threads", "identity.blis_threads", SHAPE_INT64},
    {"nvpl_blas_get_version", "identity.nvpl_version", SHAPE_INT},
    {"nvpl_blas_get_max_threads", "identity.nvpl_threads", SHAPE_INT},
    {"MKL_Get_Max_Threads", "identity.mkl_threads", SHAPE_INT},
};

static void report_query(const char *key, enum shape shape, function address)
{
    report_stage("%s", key);
    if (shape == SHAPE_TEXT) {
        const char *text = ((const char *(*)(void))address)();
        report(key, text == NULL ? "unknown" : text);
    } else if (shape == SHAPE_INT) {
        report_format(key, "%d", ((int (*)(void))address)());
    } else {
        report_format(key, "%lld", (long long)((int64_t(*)(void))address)());
    }
}

/* The kernel that BLIS has chosen: a number of its own, which it translates. */
static void report_blis_core(function query, function name)
{
    report_stage("identity.blis_core");
    const int core = ((int (*)(void))query)();
    const char *text = ((const char *(*)(int))name)(core);
    report("identity.blis_core", text == NULL ? "unknown" : text);
}

static void report_mkl(const struct probe *probe, const struct decorations *all)
{
    char text[TEXT_SIZE];
    function version = find(probe, all, "MKL_Get_Version_String");
    if (version == NULL)
        version = find(probe, all, "mkl_get_version_string");
    if (version == NULL)
        return;
    report_stage("identity.mkl_version");
    memset(text, 0, sizeof text);
    ((void (*)(char *, int))version)(text, (int)sizeof text - 1);
    for (size_t i = strlen(text); i > 0 && text[i - 1] == ' '; --i)
        text[i - 1] = '\0';
    report("identity.mkl_version", text);
    function layer = find(probe, all, "MKL_Set_Threading_Layer");
    if (layer != NULL) {
        static const char *const layers[] = {"intel", "sequential", "pgi", "gnu", "tbb"};
        report_stage("identity.mkl_threading");
        const int number = ((int (*)(int))layer)(QUERY_ONLY);
        report("identity.mkl_threading",
               number >= 0 && number < (int)(sizeof layers / sizeof *layers) ? layers[number]
                                                                            : "unknown");
    }
}

static void report_flexiblas(const struct probe *probe, const struct decorations *all)
{
    char text[TEXT_SIZE];
    function backend = find(probe, all, "flexiblas_current_backend");
    if (backend == NULL)
        return;
    report_stage("identity.flexiblas_backend");
    memset(text, 0, sizeof text);
    ((int (*)(char *, size_t))backend)(text, sizeof text - 1);
    report("identity.flexiblas_backend", text);
}

/* ilaver only writes; preset to zero, the lower 32 bits of a slot hold a 32-bit number and a small
 * 64-bit one alike, in the half that each byte order makes of them. */
static void report_lapack(const struct probe *probe)
{
    for (unsigned i = 0; i < probe->family_count; ++i) {
        const struct family *family = &probe->families[i];
        integer numbers[3] = {{0}, {0}, {0}};
        int value[3];
        if (family->api != API_LAPACK && family->api != API_LAPACKE)
            continue;
        function address = family_function(
            probe, family, family->api == API_LAPACK ? "ilaver" : "LAPACKE_ilaver");
        if (address == NULL)
            continue;
        report_stage("identity.lapack_version");
        ((void (*)(void *, void *, void *))address)(&numbers[0], &numbers[1], &numbers[2]);
        for (int part = 0; part < 3; ++part)
            value[part] = numbers[part].narrow[0] | numbers[part].narrow[1];
        if (value[0] != 0 || value[1] != 0 || value[2] != 0)
            report_format("identity.lapack_version", "%d.%d.%d", value[0], value[1], value[2]);
        return;
    }
}

void stage_identity(struct probe *probe)
{
    static struct decorations all;
    collect_decorations(probe, &all);
    for (size_t i = 0; i < sizeof queries / sizeof *queries; ++i) {
        function address = find(probe, &all, queries[i].stem);
        if (address != NULL)
            report_query(queries[i].key, queries[i].shape, address);
    }
    function blis_query = find(probe, &all, "bli_arch_query_id");
    function blis_name = find(probe, &all, "bli_arch_string");
    if (blis_query != NULL && blis_name != NULL)
        report_blis_core(blis_query, blis_name);
    report_mkl(probe, &all);
    report_flexiblas(probe, &all);
    if (find(probe, &all, "ATL_buildinfo") != NULL)
        report("identity.atlas", "yes");
    report_lapack(probe);
}
