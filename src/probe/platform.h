/* What the operating system gives, one declaration per need.
 *
 * Every difference between systems is decided in platform_posix.c or platform_windows.c, where
 * the function is defined, and nowhere else. "Unknown" is a value of its own: a number that a
 * system does not tell is PLATFORM_UNKNOWN.
 */
#ifndef BLASWHEEL_PROBE_PLATFORM_H
#define BLASWHEEL_PROBE_PLATFORM_H

#include <stddef.h>
#include <stdint.h>

#define PLATFORM_UNKNOWN (-1L)

/* An address that is only called after a cast to its true type. */
typedef void (*function)(void);

enum symbol_kind { SYMBOL_ABSENT, SYMBOL_FUNCTION, SYMBOL_DATA, SYMBOL_UNKNOWN };

/* The command line as UTF-8. Returns 0, or -1 when it does not fit in the buffers here. */
int platform_arguments(int *argc, char ***argv);

/* Keeps a private duplicate of standard output for platform_write and points standard output to
 * standard error, so that a library that prints cannot garble the report. 0, or -1. */
int platform_take_output(void);

/* Writes the bytes to the private duplicate, unbuffered, in one call where the system allows. */
void platform_write(const char *bytes, size_t size);

/* Limits the process: CPU seconds, wall seconds, no core file, no error dialogue, and an end
 * with its parent. What a system does not have is left out. */
void platform_bound(unsigned cpu_seconds, unsigned wall_seconds);

/* Sets a variable for the libraries that are opened later. */
void platform_set_environment(const char *name, const char *value);

/* Puts into the global scope what every program that calls a BLAS has there: the mathematical
 * library. MKL's kernels use it without saying that they need it. */
void platform_open_common(void);

/* Opens a library. NULL on failure, with the loader's text in error. */
void *platform_open(const char *path, int global, char *error, size_t error_size);

/* The address of a symbol of the library or of what it needs; NULL when there is none. */
function platform_symbol(void *library, const char *name);

/* Whether an address that platform_symbol gave is code. Calling data would crash. */
enum symbol_kind platform_symbol_kind(function address);

uint64_t platform_microseconds(void);
long platform_threads(void);
long platform_cpus(void);

/* The floating-point control word of this thread, and the bits in it that flush subnormal
 * results or operands to zero. Returns 0, or -1 when unknown on this machine. */
int platform_float_control(uint64_t *word, uint64_t *flush_bits);

/* The names of signals whose handler is no longer the default, separated by spaces. */
void platform_signal_handlers(char *text, size_t size);

/* Address space without memory behind it; NULL when the system refuses. */
unsigned char *platform_reserve(size_t size);

/* Puts zeroed memory behind a part of a reservation. Returns 0, or -1. */
int platform_commit(unsigned char *address, size_t size);

/* Runs work in a forked child for at most the given seconds. outcome receives "ok", "hang",
 * "signal N", "exit N", or "unknown" where there is no fork. */
void platform_run_forked(void (*work)(void *), void *argument, unsigned seconds, char *outcome,
                         size_t outcome_size);

/* Ends the process at once: no destructor of the library runs. */
_Noreturn void platform_exit(int status);

#endif
