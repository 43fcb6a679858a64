/* Linux (glibc and musl), macOS and other POSIX systems. */
#if !defined(_WIN32)

#if defined(__linux__)
#define _GNU_SOURCE /* sched_getaffinity, dladdr1, MAP_NORESERVE, dl_iterate_phdr */
#endif
#if defined(__APPLE__)
#define _DARWIN_C_SOURCE
#endif

#include "platform.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__linux__)
#include <dirent.h>
#include <link.h>
#include <sched.h>
#include <sys/prctl.h>
#endif
#if defined(__APPLE__)
#include <mach/mach.h>
#endif

/* Exit status when the parent is gone or the time is up. */
#define STATUS_ABANDONED 3
#define POLL_NANOSECONDS 2000000L

static int output = STDOUT_FILENO;

int platform_arguments(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return 0;
}

int platform_take_output(void)
{
    fflush(stdout);
    /* Beyond the standard three, and closed in whatever the library may execute. */
    output = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (output < 0)
        return -1;
    return dup2(STDERR_FILENO, STDOUT_FILENO) < 0 ? -1 : 0;
}

void platform_write(const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t written = write(output, bytes, size);
        if (written < 0) {
            if (errno == EINTR)
                continue;
            return;
        }
        bytes += written;
        size -= (size_t)written;
    }
}

static void lower(struct rlimit *limit, rlim_t soft, rlim_t hard)
{
    if (hard < limit->rlim_max)
        limit->rlim_max = hard;
    limit->rlim_cur = soft < limit->rlim_max ? soft : limit->rlim_max;
}

#if !defined(__linux__)
static pid_t parent;
static volatile sig_atomic_t seconds_left;

static void each_second(int number)
{
    (void)number;
    if (getppid() != parent || --seconds_left <= 0)
        _exit(STATUS_ABANDONED);
}
#endif

void platform_bound(unsigned cpu_seconds, unsigned wall_seconds)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_CORE, &limit) == 0) {
        lower(&limit, 0, 0);
        setrlimit(RLIMIT_CORE, &limit);
    }
    if (getrlimit(RLIMIT_CPU, &limit) == 0) {
        /* SIGXCPU at the soft limit names the cause; SIGKILL one second later is certain. */
        lower(&limit, cpu_seconds, (rlim_t)cpu_seconds + 1);
        setrlimit(RLIMIT_CPU, &limit);
    }
#if defined(__linux__)
    pid_t parent = getppid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it ended before the request */
        _exit(STATUS_ABANDONED);
    alarm(wall_seconds);
#else
    struct itimerval every = {{1, 0}, {1, 0}};
    parent = getppid();
    seconds_left = (sig_atomic_t)wall_seconds;
    signal(SIGALRM, each_second);
    setitimer(ITIMER_REAL, &every, NULL);
#endif
}

void platform_set_environment(const char *name, const char *value)
{
    setenv(name, value, 1);
}

void platform_open_common(void)
{
#if defined(__GLIBC__)
    /* The names of glibc's libm; elsewhere its functions are in libc, which is there already. */
    static const char *const names[] = {"libm.so.6", "libm.so.6.1"};
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
        if (dlopen(names[i], RTLD_LAZY | RTLD_GLOBAL) != NULL)
            return;
#endif
}

void *platform_open(const char *path, int global, char *error, size_t error_size)
{
    void *library = dlopen(path, RTLD_LAZY | (global ? RTLD_GLOBAL : RTLD_LOCAL));
    if (library == NULL) {
        const char *text = dlerror();
        snprintf(error, error_size, "%s", text == NULL ? "no reason given" : text);
    }
    return library;
}

function platform_symbol(void *library, const char *name)
{
    /* ISO C has no conversion from an object pointer to a function pointer; POSIX promises that
     * their representations are alike. */
    void *address = dlsym(library, name);
    function result = NULL;
    memcpy(&result, &address, sizeof result);
    return result;
}

#if defined(__linux__)
struct segment_search {
    uintptr_t address;
    enum symbol_kind kind;
};

static int search_segments(struct dl_phdr_info *info, size_t size, void *argument)
{
    struct segment_search *search = argument;
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t start = (uintptr_t)info->dlpi_addr + (uintptr_t)segment->p_vaddr;
        if (segment->p_type != PT_LOAD || search->address < start ||
            search->address - start >= segment->p_memsz)
            continue;
        search->kind = (segment->p_flags & PF_X) != 0 ? SYMBOL_FUNCTION : SYMBOL_DATA;
        return 1;
    }
    return 0;
}

enum symbol_kind platform_symbol_kind(function address)
{
    /* What lies outside of executable segments is data. glibc's dladdr1 would give the symbol's
       type, but walks the whole table for each name: half a minute for MKL. */
    struct segment_search search = {(uintptr_t)address, SYMBOL_UNKNOWN};
    dl_iterate_phdr(search_segments, &search);
    return search.kind;
}
#else
enum symbol_kind platform_symbol_kind(function address)
{
    (void)address;
    return SYMBOL_UNKNOWN;
}
#endif

uint64_t platform_microseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

long platform_threads(void)
{
#if defined(__linux__)
    DIR *tasks = opendir("/proc/self/task");
    long count = 0;
    if (tasks == NULL)
        return PLATFORM_UNKNOWN;
    for (struct dirent *task; (task = readdir(tasks)) != NULL;)
        count += task->d_name[0] != '.';
    closedir(tasks);
    return count;
#elif defined(__APPLE__)
    thread_act_array_t threads;
    mach_msg_type_number_t count;
    if (task_threads(mach_task_self(), &threads, &count) != KERN_SUCCESS)
        return PLATFORM_UNKNOWN;
    for (mach_msg_type_number_t i = 0; i < count; ++i)
        mach_port_deallocate(mach_task_self(), threads[i]);
    vm_deallocate(mach_task_self(), (vm_address_t)threads, count * sizeof *threads);
    return (long)count;
#else
    return PLATFORM_UNKNOWN;
#endif
}

long platform_cpus(void)
{
#if defined(__linux__)
    /* Larger than cpu_set_t: the call fails on a machine with more CPUs than the set holds. */
    static cpu_set_t sets[16];
    if (sched_getaffinity(0, sizeof sets, sets) != 0)
        return PLATFORM_UNKNOWN;
    return CPU_COUNT_S(sizeof sets, sets);
#else
    return PLATFORM_UNKNOWN;
#endif
}

void platform_signal_handlers(char *text, size_t size)
{
    static const struct {
        int number;
        const char *name;
    } watched[] = {{SIGINT, "SIGINT"}, {SIGSEGV, "SIGSEGV"}, {SIGILL, "SIGILL"},
                   {SIGFPE, "SIGFPE"}, {SIGBUS, "SIGBUS"},   {SIGABRT, "SIGABRT"},
                   {SIGTERM, "SIGTERM"}};
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof watched / sizeof *watched; ++i) {
        struct sigaction action;
        if (sigaction(watched[i].number, NULL, &action) != 0 || action.sa_handler == SIG_DFL ||
            action.sa_handler == SIG_IGN)
            continue;
        int length = snprintf(text + used, size - used, "%s%s", used ? " " : "", watched[i].name);
        if (length < 0 || (size_t)length >= size - used)
            return;
        used += (size_t)length;
    }
}

unsigned char *platform_reserve(size_t size)
{
    int flags = MAP_PRIVATE | MAP_ANON;
#if defined(MAP_NORESERVE)
    flags |= MAP_NORESERVE;
#endif
    void *address = mmap(NULL, size, PROT_NONE, flags, -1, 0);
    return address == MAP_FAILED ? NULL : address;
}

int platform_commit(unsigned char *address, size_t size)
{
    long page = sysconf(_SC_PAGESIZE);
    if (page <= 0)
        return -1;
    uintptr_t start = (uintptr_t)address & ~((uintptr_t)page - 1);
    return mprotect((void *)start, size + (size_t)((uintptr_t)address - start),
                    PROT_READ | PROT_WRITE);
}

void platform_run_forked(void (*work)(void *), void *argument, unsigned seconds, char *outcome,
                         size_t outcome_size)
{
    pid_t child = fork();
    if (child < 0) {
        snprintf(outcome, outcome_size, "unknown");
        return;
    }
    if (child == 0) {
        alarm(seconds); /* in case that this process ends first */
        work(argument);
        _exit(0);
    }
    const uint64_t deadline = platform_microseconds() + (uint64_t)seconds * 1000000u;
    for (;;) {
        int status;
        pid_t ended = waitpid(child, &status, WNOHANG);
        if (ended == child) {
            if (WIFSIGNALED(status))
                snprintf(outcome, outcome_size, "signal %d", WTERMSIG(status));
            else if (WEXITSTATUS(status) != 0)
                snprintf(outcome, outcome_size, "exit %d", WEXITSTATUS(status));
            else
                snprintf(outcome, outcome_size, "ok");
            return;
        }
        if (platform_microseconds() > deadline) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            snprintf(outcome, outcome_size, "hang");
            return;
        }
        struct timespec pause = {0, POLL_NANOSECONDS};
        nanosleep(&pause, NULL);
    }
}

_Noreturn void platform_exit(int status)
{
    _exit(status);
}

#else
typedef int platform_posix_is_empty_here;
#endif
