/* Windows. */
#if defined(_WIN32)

#define WIN32_LEAN_AND_MEAN

#include "platform.h"

#include <windows.h>

#include <shellapi.h>
#include <tlhelp32.h>

#include <io.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


#define MAX_ARGUMENTS 512
#define MAX_COMMAND_LINE 65536
#define MAX_PATH_UNITS 32768 /* the longest path that Windows knows */
#define STATUS_ABANDONED 3u
#define UNITS_PER_SECOND 10000000u /* of 100 ns, in which a job counts */
#define MILLISECONDS 1000u

static HANDLE output;

int platform_arguments(int *argc, char ***argv)
{
    static char text[MAX_COMMAND_LINE];
    static char *pointers[MAX_ARGUMENTS + 1];
    int count;
    int used = 0;
    LPWSTR *wide = CommandLineToArgvW(GetCommandLineW(), &count);
    if (wide == NULL || count > MAX_ARGUMENTS)
        return -1;
    for (int i = 0; i < count; ++i) {
        int length = WideCharToMultiByte(CP_UTF8, 0, wide[i], -1, text + used,
                                         MAX_COMMAND_LINE - used, NULL, NULL);
        if (length <= 0)
            return -1;
        pointers[i] = text + used;
        used += length;
    }
    LocalFree(wide);
    *argc = count;
    *argv = pointers;
    return 0;
}

int platform_take_output(void)
{
    const HANDLE self = GetCurrentProcess();
    const HANDLE error = GetStdHandle(STD_ERROR_HANDLE);
    fflush(stdout);
    if (!DuplicateHandle(self, GetStdHandle(STD_OUTPUT_HANDLE), self, &output, 0, FALSE,
                         DUPLICATE_SAME_ACCESS))
        return -1;
    /* A library may bring its own C run-time, which asks the system, not this run-time. */
    if (_dup2(2, 1) != 0 || !SetStdHandle(STD_OUTPUT_HANDLE, error))
        return -1;
    return 0;
}

void platform_write(const char *bytes, size_t size)
{
    while (size > 0) {
        DWORD written = 0;
        if (!WriteFile(output, bytes, (DWORD)size, &written, NULL) || written == 0)
            return;
        bytes += written;
        size -= written;
    }
}

static HANDLE open_parent(void)
{
    const DWORD self = GetCurrentProcessId();
    HANDLE snapshot = CreateToolhelp32Snapshot(TH32CS_SNAPPROCESS, 0);
    HANDLE parent = NULL;
    PROCESSENTRY32W entry = {.dwSize = sizeof entry};
    if (snapshot == INVALID_HANDLE_VALUE)
        return NULL;
    for (BOOL more = Process32FirstW(snapshot, &entry); more;
         more = Process32NextW(snapshot, &entry))
        if (entry.th32ProcessID == self)
            parent = OpenProcess(SYNCHRONIZE, FALSE, entry.th32ParentProcessID);
    CloseHandle(snapshot);
    return parent;
}

struct watch {
    HANDLE parent;
    DWORD milliseconds;
};

static DWORD WINAPI watch_parent(LPVOID argument)
{
    const struct watch *watch = argument;
    if (watch->parent == NULL)
        Sleep(watch->milliseconds);
    else
        WaitForSingleObject(watch->parent, watch->milliseconds);
    TerminateProcess(GetCurrentProcess(), STATUS_ABANDONED);
    return 0;
}

void platform_bound(unsigned cpu_seconds, unsigned wall_seconds)
{
    static struct watch watch;
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = {0};
    HANDLE job = CreateJobObjectW(NULL, NULL);
    SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX | SEM_NOOPENFILEERRORBOX);
    limits.BasicLimitInformation.PerProcessUserTimeLimit.QuadPart =
        (LONGLONG)cpu_seconds * UNITS_PER_SECOND;
    limits.BasicLimitInformation.LimitFlags =
        JOB_OBJECT_LIMIT_PROCESS_TIME | JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION;
    if (job != NULL &&
        SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits))
        AssignProcessToJobObject(job, GetCurrentProcess());
    watch.parent = open_parent();
    watch.milliseconds = wall_seconds * MILLISECONDS;
    CreateThread(NULL, 0, watch_parent, &watch, 0, NULL);
}

void platform_set_environment(const char *name, const char *value)
{
    _putenv_s(name, value);
}

void platform_open_common(void)
{
    /* There is no global scope: a library names the one that each function comes from. */
}

void *platform_open(const char *path, int global, char *error, size_t error_size)
{
    static wchar_t given[MAX_PATH_UNITS];
    static wchar_t full[MAX_PATH_UNITS];
    HMODULE library = NULL;
    DWORD code = 0;
    (void)global; /* names on Windows always belong to one library */
    if (MultiByteToWideChar(CP_UTF8, 0, path, -1, given, MAX_PATH_UNITS) > 0 &&
        GetFullPathNameW(given, MAX_PATH_UNITS, full, NULL) > 0)
        /* What the library needs is looked for beside it first. */
        library = LoadLibraryExW(full, NULL, LOAD_WITH_ALTERED_SEARCH_PATH);
    if (library != NULL)
        return (void *)library;
    code = GetLastError();
    int used = snprintf(error, error_size, "error %lu: ", (unsigned long)code);
    if (used > 0 && (size_t)used < error_size)
        FormatMessageA(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL, code, 0,
                       error + used, (DWORD)(error_size - (size_t)used), NULL);
    return NULL;
}

function platform_symbol(void *library, const char *name)
{
    return (function)GetProcAddress((HMODULE)library, name);
}

enum symbol_kind platform_symbol_kind(function address)
{
    /* An export table has no types; an address outside of executable pages is data. */
    const DWORD executable = PAGE_EXECUTE | PAGE_EXECUTE_READ | PAGE_EXECUTE_READWRITE |
                             PAGE_EXECUTE_WRITECOPY;
    MEMORY_BASIC_INFORMATION page;
    if (VirtualQuery((LPCVOID)(uintptr_t)address, &page, sizeof page) == 0)
        return SYMBOL_UNKNOWN;
    return (page.Protect & executable) != 0 ? SYMBOL_FUNCTION : SYMBOL_DATA;
}

uint64_t platform_microseconds(void)
{
    LARGE_INTEGER now;
    LARGE_INTEGER frequency;
    QueryPerformanceCounter(&now);
    QueryPerformanceFrequency(&frequency);
    return (uint64_t)((double)now.QuadPart * 1e6 / (double)frequency.QuadPart);
}

long platform_threads(void)
{
    const DWORD self = GetCurrentProcessId();
    HANDLE snapshot = CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0);
    THREADENTRY32 entry = {.dwSize = sizeof entry};
    long count = 0;
    if (snapshot == INVALID_HANDLE_VALUE)
        return PLATFORM_UNKNOWN;
    for (BOOL more = Thread32First(snapshot, &entry); more; more = Thread32Next(snapshot, &entry))
        count += entry.th32OwnerProcessID == self;
    CloseHandle(snapshot);
    return count;
}

long platform_cpus(void)
{
    DWORD_PTR process;
    DWORD_PTR system;
    long count = 0;
    if (!GetProcessAffinityMask(GetCurrentProcess(), &process, &system) || process == 0)
        return PLATFORM_UNKNOWN;
    for (; process != 0; process &= process - 1)
        ++count;
    return count;
}

void platform_signal_handlers(char *text, size_t size)
{
    if (size > 0)
        text[0] = '\0';
}

unsigned char *platform_reserve(size_t size)
{
    return VirtualAlloc(NULL, size, MEM_RESERVE, PAGE_NOACCESS);
}

int platform_commit(unsigned char *address, size_t size)
{
    return VirtualAlloc(address, size, MEM_COMMIT, PAGE_READWRITE) == NULL ? -1 : 0;
}

void platform_run_forked(void (*work)(void *), void *argument, unsigned seconds, char *outcome,
                         size_t outcome_size)
{
    (void)work;
    (void)argument;
    (void)seconds;
    snprintf(outcome, outcome_size, "unknown");
}

_Noreturn void platform_exit(int status)
{
    TerminateProcess(GetCurrentProcess(), (UINT)status);
    abort();
}

#else
typedef int platform_windows_is_empty_here;
#endif
