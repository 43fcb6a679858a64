/* Families of names, and integers whose width is known only after the width stage. */
#include "probe.h"

#include <stdio.h>
#include <string.h>

const char *const api_names[API_COUNT] = {"blas", "lapack", "cblas", "lapacke"};

const char *width_text(enum width width)
{
    static const char *const texts[] = {"unknown", "lp64", "ilp64", "mixed"};
    return texts[width];
}

const char *convention_text(enum convention convention)
{
    static const char *const texts[] = {"unknown",  "absent", "register", "argument",
                                        "float",    "double", "mixed"};
    return texts[convention];
}

const struct family *first_family(const struct probe *probe, enum api api)
{
    for (unsigned i = 0; i < probe->family_count; ++i)
        if (probe->families[i].api == api)
            return &probe->families[i];
    return NULL;
}

function family_function(const struct probe *probe, const struct family *family, const char *stem)
{
    char name[MAX_NAME];
    int length = snprintf(name, sizeof name, "%s%s%s", family->prefix, stem, family->suffix);
    if (length < 0 || (size_t)length >= sizeof name)
        return NULL;
    function address = platform_symbol(probe->library, name);
    if (address == NULL || platform_symbol_kind(address) == SYMBOL_DATA)
        return NULL;
    return address;
}

integer integer_of(enum width width, int64_t value)
{
    integer result = {0};
    if (width == WIDTH_LP64)
        result.narrow[0] = (int32_t)value;
    else
        result.wide = value;
    return result;
}

int64_t integer_value(enum width width, const integer *argument)
{
    return width == WIDTH_LP64 ? argument->narrow[0] : argument->wide;
}

int is_big_endian(void)
{
    const integer one = {.wide = 1};
    return one.narrow[0] == 0;
}
