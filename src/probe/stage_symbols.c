/* Stage symbols: are the expected names there, and are they code?
 *
 * The static reader has listed the export table; this asks the dynamic loader, whose answer is
 * what a program gets: versions, forwarders, indirect functions and libraries that this one needs
 * are all resolved. A name may exist and yet be a variable (a common block called like a routine);
 * calling it would jump into data, so such a name is listed as data and counts as missing. Where
 * the system does not tell code from data, the count of names of unknown kind says so.
 */
#include "probe.h"

#include <stdio.h>
#include <string.h>

void stage_symbols(struct probe *probe)
{
    char line[MAX_NAME];
    unsigned long expected = 0;
    unsigned long present = 0;
    unsigned long data = 0;
    unsigned long unknown = 0;
    if (probe->names == NULL)
        return;
    report_stage("symbols.lookup");
    const int is_input = strcmp(probe->names, "-") == 0;
    FILE *file = is_input ? stdin : fopen(probe->names, "r");
    if (file == NULL) {
        report("symbols", "unknown");
        report("symbols.error", "the file of names cannot be read");
        probe->failed = 1;
        return;
    }
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\r\n")] = '\0';
        if (line[0] == '\0')
            continue;
        ++expected;
        function address = platform_symbol(probe->library, line);
        if (address == NULL) {
            report("symbols.missing_name", line);
            continue;
        }
        switch (platform_symbol_kind(address)) {
        case SYMBOL_DATA:
            ++data;
            report("symbols.data_name", line);
            break;
        case SYMBOL_UNKNOWN:
            ++unknown;
            ++present;
            break;
        default:
            ++present;
            break;
        }
    }
    if (!is_input)
        fclose(file);
    report_format("symbols.expected", "%lu", expected);
    report_format("symbols.present", "%lu", present);
    report_format("symbols.missing", "%lu", expected - present - data);
    report_format("symbols.data", "%lu", data);
    report_format("symbols.kind_unknown", "%lu", unknown);
    report("symbols", present == expected ? "complete" : "incomplete");
}
