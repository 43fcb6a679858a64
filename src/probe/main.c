/* blaswheel-probe: opens one BLAS library and reports what calls to it show.
 *
 * It is run as a child, so that a library that crashes, hangs, exits or prints harms nobody. Each
 * risky call is announced by a line "stage=..." on standard output; the last line is "done=ok".
 */
#include "probe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_CPU_SECONDS 60u
#define MAX_CPU_SECONDS 86400u
#define WALL_PER_CPU 2u /* a process that waits is given this multiple of its CPU time */
#define MAX_THREADS 4096u

#define STATUS_OK 0
#define STATUS_WRONG 1
#define STATUS_USAGE 2

static const char help[] =
    "usage: blaswheel-probe [OPTIONS] LIBRARY\n"
    "\n"
    "Opens LIBRARY, calls it, and writes lines key=value to standard output. A line\n"
    "stage=NAME comes before each call that may crash; the last line is done=ok.\n"
    "What the library prints goes to standard error.\n"
    "\n"
    "  --family API:PREFIX:SUFFIX  names to call: API is blas, lapack, cblas or lapacke;\n"
    "                       a Fortran SUFFIX includes the underscore; repeatable,\n"
    "                       all for one use of the library\n"
    "  --stage NAME         run this stage; repeatable (default: load, symbols, identity,\n"
    "                       width, returns, agreement); further: numerics, fork\n"
    "  --names FILE         names to look up, one a line; - is standard input\n"
    "  --preload FILE       open FILE before LIBRARY, RTLD_GLOBAL; repeatable\n"
    "  --scope SCOPE        global: open LIBRARY as what a program is linked with is opened,\n"
    "                       RTLD_GLOBAL (default: local)\n"
    "  --against FILE       open FILE before LIBRARY in one scope (RTLD_GLOBAL) and show\n"
    "                       whether LIBRARY still computes right\n"
    "  --against-after FILE the same, with FILE opened after LIBRARY\n"
    "  --threads N          ask the library for N threads\n"
    "  --cpu-seconds N      CPU time limit (default 60); the wall clock limit is twice that\n"
    "  --help               print this and exit\n"
    "\n"
    "Exit status: 0, all right; 1, something is wrong or LIBRARY does not load; 2, usage.\n"
    "\n"
    "Example:\n"
    "  blaswheel-probe --family blas:scipy_:_64_ --family lapack:scipy_:_64_ \\\n"
    "      --family cblas:scipy_:64_ --family lapacke:scipy_:64_ libscipy_openblas64_.so\n";

struct stage {
    const char *name;
    void (*run)(struct probe *probe);
    int by_default;
    int needs_width;
};

/* In the order in which they run: what identifies the library comes before what may crash it. */
static const struct stage stages[] = {
    {"load", stage_load, 1, 0},
    {"symbols", stage_symbols, 1, 0},
    {"identity", stage_identity, 1, 0},
    {"width", stage_width, 1, 0},
    {"returns", stage_returns, 1, 1},
    {"agreement", stage_agreement, 1, 1},
    {"numerics", stage_numerics, 0, 1},
    {"against", stage_against, 0, 1},
    {"fork", stage_fork, 0, 1},
};
#define STAGE_COUNT (sizeof stages / sizeof *stages)
#define STAGE_LOAD 0
#define STAGE_WIDTH 3
#define STAGE_AGAINST 7

static _Noreturn void fail_usage(const char *what, const char *subject)
{
    fprintf(stderr, "blaswheel-probe: %s%s\n", what, subject);
    fprintf(stderr, "try: blaswheel-probe --help\n");
    exit(STATUS_USAGE);
}

static unsigned parse_number(const char *option, const char *text, unsigned largest)
{
    char *end;
    errno = 0;
    const unsigned long value = strtoul(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || text[0] == '-' || value == 0 ||
        value > largest)
        fail_usage("not a positive number in range: ", option);
    return (unsigned)value;
}

static void copy_decoration(char *to, const char *from, size_t length, const char *text)
{
    if (length >= MAX_DECORATION)
        fail_usage("too long: --family ", text);
    memcpy(to, from, length);
    to[length] = '\0';
}

static void parse_family(struct probe *probe, const char *text)
{
    const char *prefix = strchr(text, ':');
    const char *suffix = prefix == NULL ? NULL : strchr(prefix + 1, ':');
    if (suffix == NULL)
        fail_usage("not API:PREFIX:SUFFIX: --family ", text);
    if (probe->family_count == MAX_FAMILIES)
        fail_usage("too many: --family ", text);
    struct family *family = &probe->families[probe->family_count];
    const size_t length = (size_t)(prefix - text);
    int api = 0;
    while (api < API_COUNT &&
           (strlen(api_names[api]) != length || memcmp(api_names[api], text, length) != 0))
        ++api;
    if (api == API_COUNT)
        fail_usage("not blas, lapack, cblas or lapacke: --family ", text);
    family->api = (enum api)api;
    copy_decoration(family->prefix, prefix + 1, (size_t)(suffix - prefix - 1), text);
    copy_decoration(family->suffix, suffix + 1, strlen(suffix + 1), text);
    ++probe->family_count;
}

static void request_threads(unsigned count)
{
    static const char *const variables[] = {"OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
                                            "BLIS_NUM_THREADS", "NVPL_BLAS_NUM_THREADS",
                                            "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"};
    char text[16];
    snprintf(text, sizeof text, "%u", count);
    for (size_t i = 0; i < sizeof variables / sizeof *variables; ++i)
        platform_set_environment(variables[i], text);
}

int main(int argc, char **argv)
{
    static struct probe probe;
    int wanted[STAGE_COUNT] = {0};
    int any_stage = 0;
    unsigned cpu_seconds = DEFAULT_CPU_SECONDS;
    unsigned threads = 0;

    if (platform_arguments(&argc, &argv) != 0)
        fail_usage("the command line is too long", "");
    for (int i = 1; i < argc; ++i) {
        const char *option = argv[i];
        if (strcmp(option, "--help") == 0) {
            fputs(help, stdout);
            return STATUS_OK;
        }
        if (strncmp(option, "--", 2) != 0) {
            if (probe.path != NULL)
                fail_usage("more than one library: ", option);
            probe.path = option;
            continue;
        }
        if (i + 1 == argc)
            fail_usage("unknown option, or its value is missing: ", option);
        const char *value = argv[++i];
        if (strcmp(option, "--family") == 0) {
            parse_family(&probe, value);
        } else if (strcmp(option, "--stage") == 0) {
            size_t stage = 0;
            while (stage < STAGE_COUNT && strcmp(stages[stage].name, value) != 0)
                ++stage;
            if (stage == STAGE_COUNT)
                fail_usage("unknown stage: ", value);
            wanted[stage] = 1;
            any_stage = 1;
        } else if (strcmp(option, "--names") == 0) {
            probe.names = value;
        } else if (strcmp(option, "--preload") == 0) {
            if (probe.preload_count == MAX_PRELOADS)
                fail_usage("too many: --preload ", value);
            probe.preloads[probe.preload_count++] = value;
        } else if (strcmp(option, "--scope") == 0) {
            if (strcmp(value, "global") != 0 && strcmp(value, "local") != 0)
                fail_usage("neither global nor local: --scope ", value);
            probe.global = strcmp(value, "global") == 0;
        } else if (strcmp(option, "--against") == 0 || strcmp(option, "--against-after") == 0) {
            if (probe.against != NULL)
                fail_usage("more than one: ", option);
            probe.against = value;
            probe.against_after = strcmp(option, "--against-after") == 0;
            probe.global = 1;
        } else if (strcmp(option, "--threads") == 0) {
            threads = parse_number(option, value, MAX_THREADS);
        } else if (strcmp(option, "--cpu-seconds") == 0) {
            cpu_seconds = parse_number(option, value, MAX_CPU_SECONDS);
        } else {
            fail_usage("unknown option: ", option);
        }
    }
    if (probe.path == NULL)
        fail_usage("no library given", "");
    for (size_t i = 0; i < STAGE_COUNT; ++i)
        if (!any_stage)
            wanted[i] = stages[i].by_default;
    wanted[STAGE_LOAD] = 1;
    wanted[STAGE_AGAINST] = probe.against != NULL;
    for (size_t i = 0; i < STAGE_COUNT; ++i)
        if (wanted[i] && stages[i].needs_width)
            wanted[STAGE_WIDTH] = 1;

    if (platform_take_output() != 0) {
        fprintf(stderr, "blaswheel-probe: standard output or standard error is closed\n");
        return STATUS_USAGE;
    }
    platform_bound(cpu_seconds, cpu_seconds * WALL_PER_CPU);
    if (threads != 0)
        request_threads(threads);
    for (unsigned i = 0; i < probe.family_count; ++i) {
        char key[MAX_NAME];
        const struct family *family = &probe.families[i];
        snprintf(key, sizeof key, "family.%u", i);
        report_format(key, "%s:%s:%s", api_names[family->api], family->prefix, family->suffix);
    }
    for (size_t i = 0; i < STAGE_COUNT; ++i)
        if (wanted[i] && (i == STAGE_LOAD || probe.library != NULL))
            stages[i].run(&probe);
    report("done", "ok");
    platform_exit(probe.failed ? STATUS_WRONG : STATUS_OK);
}
