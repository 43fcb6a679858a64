/* The report: one line per fact, written at once, so that the last line before a crash is true. */
#include "probe.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Longest text of one byte of a value: \xHH. */
#define ESCAPE_SIZE 4

static void write_line(const char *key, const char *value)
{
    static const char digits[] = "0123456789abcdef";
    char line[MAX_LINE];
    size_t used = strlen(key);
    if (used > MAX_LINE / 2)
        used = MAX_LINE / 2;
    memcpy(line, key, used);
    line[used++] = '=';
    for (; *value != '\0' && used + ESCAPE_SIZE + 1 <= MAX_LINE; ++value) {
        unsigned char byte = (unsigned char)*value;
        if (byte >= ' ' && byte <= '~' && byte != '\\') {
            line[used++] = (char)byte;
        } else {
            line[used++] = '\\';
            line[used++] = 'x';
            line[used++] = digits[byte >> 4];
            line[used++] = digits[byte & 15];
        }
    }
    line[used++] = '\n';
    platform_write(line, used);
}

void report(const char *key, const char *value)
{
    write_line(key, value);
}

void report_format(const char *key, const char *format, ...)
{
    char value[MAX_LINE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    write_line(key, value);
}

void report_stage(const char *format, ...)
{
    char value[MAX_NAME];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    write_line("stage", value);
}
