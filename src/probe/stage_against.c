/* Stage against: does the library still compute right beside another in one scope?
 *
 * A library that calls its own exported functions through its procedure linkage table calls those
 * of whichever library came first in the global scope, if both export the name. Renamed builds
 * leave some names as they were, so that an LP64 and an ILP64 library meet in them: an integer is
 * then read at the wrong width, a work array of 34 thousand million elements is asked for, or the
 * process crashes. The load stage has opened both RTLD_GLOBAL, in the order asked for; the routines
 * here are such as call many others. Run it in both orders, and with the libraries exchanged.
 * ok: nothing seen with these routines, which is no proof. On Windows and macOS names are bound to
 * a library, so nothing can meet.
 */
#include "numerics.h"

void stage_against(struct probe *probe)
{
    static const int orders[] = {3, 17, 65};
    static const struct {
        const char *stem;
        const char *complex_stem;
        void (*check)(struct routine *routine);
    } routines[] = {
        {"geqr2", "geqr2", check_geqr2},
        {"geqrf", "geqrf", check_geqrf},
        {"getrf", "getrf", check_getrf},
        {"gesdd", "gesdd", check_gesdd},
        {"syevd", "heevd", check_syevd},
    };
    struct numerics run = {.probe = probe, .stage = "against"};
    for (size_t i = 0; i < sizeof routines / sizeof *routines; ++i)
        run_routine(&run, API_LAPACK, routines[i].stem, routines[i].complex_stem, orders,
                    (int)(sizeof orders / sizeof *orders), "sdcz", routines[i].check);
    report("against", run.wrong != 0 ? "wrong" : run.checks != 0 ? "ok" : "unknown");
    if (run.wrong != 0)
        probe->failed = 1;
}
