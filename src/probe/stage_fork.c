/* Stage fork: does a threaded call still work in a forked child?
 *
 * A fork copies one thread. A library whose worker threads existed before waits for them in the
 * child for ever, or crashes on a lock that a vanished thread held, unless it registers a handler
 * that starts them again. Programs that use multiprocessing by fork meet this. The library is used
 * first, at a size that wakes its threads; then a child repeats the call under a time limit.
 * ok: the child computed right; hang, "signal N", "exit N": what became of it; unknown: no fork on
 * this system, or no routine to call.
 */
#include "numerics.h"

#include <string.h>

#define SECONDS 10
#define STATUS_WRONG_RESULT 9
#define MAX_OUTCOME 32

static void compute(void *argument)
{
    static const int orders[] = {LARGEST_ORDER};
    struct numerics *run = argument;
    run_routine(run, API_BLAS, "gemm", "gemm", orders, 1, "d", check_gemm);
    run_routine(run, API_LAPACK, "getrf", "getrf", orders, 1, "d", check_getrf);
}

static void compute_in_child(void *argument)
{
    struct numerics *run = argument;
    run->stage = "fork.child";
    compute(run);
    if (run->wrong != 0)
        platform_exit(STATUS_WRONG_RESULT);
}

void stage_fork(struct probe *probe)
{
    char outcome[MAX_OUTCOME];
    struct numerics run = {.probe = probe, .stage = "fork.parent"};
    compute(&run);
    if (run.checks == 0) {
        report("fork", "unknown");
        return;
    }
    report_stage("fork.child");
    platform_run_forked(compute_in_child, &run, SECONDS, outcome, sizeof outcome);
    report("fork", outcome);
    if (strcmp(outcome, "ok") != 0 && strcmp(outcome, "unknown") != 0)
        probe->failed = 1;
}
