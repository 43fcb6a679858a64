/* Stage load: does the loader accept the library, and what does it change by being loaded?
 *
 * A BLAS acts before its first call. Constructors start threads, may pin the process to one CPU,
 * install signal handlers, and code linked with -ffast-math sets the thread's floating-point
 * control word to flush subnormal numbers to zero, for the whole program. Each is read before and
 * after the library is opened: equal values mean that loading left it alone, unknown that the
 * system does not tell.
 *
 * The library is opened RTLD_LOCAL and lazily: its names are to meet nobody else's, and a missing
 * function that is never called is the symbols stage's business. Preloads are opened before and
 * globally, because layered libraries (MKL's) find each other that way only.
 */
#include "probe.h"

#define MAX_SIGNALS 128

static void report_number(const char *key, long number)
{
    if (number == PLATFORM_UNKNOWN)
        report(key, "unknown");
    else
        report_format(key, "%ld", number);
}

static int open_extra(struct probe *probe, const char *path, const char *key)
{
    char error[MAX_LINE / 2];
    report_stage("load.%s", key);
    if (platform_open(path, 1, error, sizeof error) != NULL)
        return 0;
    report("load", "failed");
    report("load.failed_path", path);
    report("load.error", error);
    probe->failed = 1;
    return -1;
}

void stage_load(struct probe *probe)
{
    char error[MAX_LINE / 2];
    char signals[MAX_SIGNALS];
    uint64_t control_before = 0;
    uint64_t control_after = 0;
    uint64_t flush = 0;
    const int control_unknown = platform_float_control(&control_before, &flush);
    const long threads_before = platform_threads();
    const long cpus_before = platform_cpus();

    platform_open_common();
    for (unsigned i = 0; i < probe->preload_count; ++i)
        if (open_extra(probe, probe->preloads[i], "preload") != 0)
            return;
    if (probe->against != NULL && !probe->against_after)
        if (open_extra(probe, probe->against, "against") != 0)
            return;

    report_stage("load.open");
    const uint64_t start = platform_microseconds();
    probe->library = platform_open(probe->path, probe->global, error, sizeof error);
    const uint64_t end = platform_microseconds();
    if (probe->library == NULL) {
        report("load", "failed");
        report("load.failed_path", probe->path);
        report("load.error", error);
        probe->failed = 1;
        return;
    }
    report("load", "ok");
    report_format("load.microseconds", "%llu", (unsigned long long)(end - start));

    if (probe->against != NULL && probe->against_after)
        if (open_extra(probe, probe->against, "against") != 0) {
            probe->library = NULL;
            return;
        }

    report_number("load.threads_before", threads_before);
    report_number("load.threads_after", platform_threads());
    report_number("load.cpus_before", cpus_before);
    report_number("load.cpus_after", platform_cpus());
    if (control_unknown || platform_float_control(&control_after, &flush) != 0) {
        report("load.flush_to_zero", "unknown");
    } else {
        report_format("load.float_control_before", "0x%llx", (unsigned long long)control_before);
        report_format("load.float_control_after", "0x%llx", (unsigned long long)control_after);
        report("load.flush_to_zero", (control_after & ~control_before & flush) != 0 ? "yes" : "no");
    }
    platform_signal_handlers(signals, sizeof signals);
    report("load.signal_handlers", signals);
}
