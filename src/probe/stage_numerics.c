/* Stage numerics: does the library compute right on this processor?
 *
 * A kernel that is wrong for one processor or one remainder of a dimension passes every test of
 * names and conventions. The orders lie around the edges of kernels (one more than a power of two,
 * and small ones). Results start as NaN and are asked for with beta = 0, triangles that must not be
 * read hold NaN, and guards stand around each result. numerics.h states how a product is checked
 * and with what error bound. ok: every result within its bound; wrong: one beyond, or a guard
 * overwritten, or an error code; the first is in the detail. Run with one thread, then with all;
 * per kernel set by the variable that the library selects it by.
 */
#include "numerics.h"

void stage_numerics(struct probe *probe)
{
    static const int orders[] = {1, 3, 8, 17, 33, 65, 129};
    static const struct {
        enum api api;
        const char *stem;
        const char *complex_stem;
        void (*check)(struct routine *routine);
    } routines[] = {
        {API_BLAS, "gemm", "gemm", check_gemm},       {API_BLAS, "gemv", "gemv", check_gemv},
        {API_BLAS, "trsm", "trsm", check_trsm},       {API_BLAS, "syrk", "syrk", check_syrk},
        {API_LAPACK, "potrf", "potrf", check_potrf},  {API_LAPACK, "getrf", "getrf", check_getrf},
        {API_LAPACK, "gesdd", "gesdd", check_gesdd},  {API_LAPACK, "syevd", "heevd", check_syevd},
    };
    struct numerics run = {.probe = probe, .stage = "numerics"};
    const uint64_t start = platform_microseconds();
    for (size_t i = 0; i < sizeof routines / sizeof *routines; ++i)
        run_routine(&run, routines[i].api, routines[i].stem, routines[i].complex_stem, orders,
                    (int)(sizeof orders / sizeof *orders), "sdcz", routines[i].check);
    report_format("numerics.checks", "%u", run.checks);
    report_format("numerics.microseconds", "%llu",
                  (unsigned long long)(platform_microseconds() - start));
    report("numerics", run.wrong != 0 ? "wrong" : run.checks != 0 ? "ok" : "unknown");
    if (run.wrong != 0)
        probe->failed = 1;
}
