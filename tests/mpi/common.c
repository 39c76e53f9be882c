/* SPDX-License-Identifier: MIT
 *
 * Start and end of a test under MPI, watchdog, checks of result codes and texts, communicators. Data and buffers:
 * data.c. */
#include "common.h"

#include <ctype.h>
#include <execinfo.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int tm_rank, tm_size = 1;
unsigned long tm_gathers;

static int *failures_of_test, own_failures;
static int arg_count;
static char **arg_words;
static bool with_mpi;
static char place[256] = "start";
static double started;

static void on_alarm(int sig)
{
    void *frames[32];
    char line[512];
    int length = snprintf(line, sizeof(line), "[%d] WATCHDOG: pid %d hangs at: %s; %.80s\n", tm_rank, (int)getpid(),
                          place, sig == SIGALRM ? "backtrace of the interrupted thread:" : "");

    if (write(STDERR_FILENO, line, (size_t)length) > 0) {
        backtrace_symbols_fd(frames, backtrace(frames, 32), STDERR_FILENO);
    }
    sleep(2); /* the other ranks print theirs before mpirun kills them */
    _exit(1);
}

void tm_watchdog(unsigned seconds)
{
    const char *text = getenv("CCL_TEST_WATCHDOG");
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, NULL);
    alarm(text != NULL ? (unsigned)atoi(text) : seconds * (TM_SANITIZED ? 3 : 1));
}

void tm_at(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    vsnprintf(place, sizeof(place), format, list);
    va_end(list);
}

double tm_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void tm_sleep_ms(unsigned ms)
{
    struct timespec left = {ms / 1000, (long)(ms % 1000) * 1000000L};

    while (nanosleep(&left, &left) != 0) {
    }
}

void tm_init_plain(int argc, char **argv, int *failures, int *rank)
{
    void *warm[2];

    failures_of_test = failures;
    arg_count = argc;
    arg_words = argv;
    started = tm_now();
    *rank = tm_rank;
    backtrace(warm, 2); /* loads libgcc now, not inside the signal handler */
    tm_watchdog(50);
}

void tm_init(int argc, char **argv, int *failures, int *rank)
{
    int provided = 0;

    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &tm_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &tm_size);
    with_mpi = true;
    tm_init_plain(argc, argv, failures, rank);
}

int tm_finish(void)
{
    int mine = (failures_of_test != NULL ? *failures_of_test : 0) + own_failures, all = mine;

    tm_at("tm_finish");
    if (with_mpi) {
        MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
    if (mine > 0) {
        fprintf(stderr, "[%d] %d checks failed\n", tm_rank, mine);
    }
    if (tm_rank == 0) {
        const char *name = strrchr(arg_words[0], '/');

        printf("%s %s: %d ranks, %lu all-gathers checked, %.2f s", all == 0 ? "ok" : "FAILED",
               name != NULL ? name + 1 : arg_words[0], tm_size, tm_gathers, tm_now() - started);
        for (int i = 1; i < arg_count; i++) {
            printf(" %s", arg_words[i]);
        }
        printf("\n");
        fflush(stdout);
    }
    if (with_mpi) {
        MPI_Finalize();
    }
    alarm(0);
    return all == 0 ? 0 : 1;
}

bool tm_has_arg(const char *word)
{
    for (int i = 1; i < arg_count; i++) {
        if (strcmp(arg_words[i], word) == 0) {
            return true;
        }
    }
    return false;
}

void tm_fail(const char *file, int line, const char *format, ...)
{
    int *count = failures_of_test != NULL ? failures_of_test : &own_failures;
    const char *name = strrchr(file, '/');

    if (__atomic_fetch_add(count, 1, __ATOMIC_RELAXED) < 10) {
        char text[1024];
        va_list list;
        int used = snprintf(text, sizeof(text), "%s:%d: [%d] ", name != NULL ? name + 1 : file, line, tm_rank);

        va_start(list, format);
        vsnprintf(text + used, sizeof(text) - (size_t)used, format, list);
        va_end(list);
        fprintf(stderr, "%s\n", text);
    }
}

void tm_die(void)
{
    fprintf(stderr, "[%d] cannot go on at: %s\n", tm_rank, place);
    if (with_mpi) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    _exit(1);
}

const char *tm_code(cclResult_t rc)
{
    static const char *const names[cclNumResults] = {
        "cclSuccess",         "cclUnhandledDeviceError", "cclSystemError", "cclInternalError",
        "cclInvalidArgument", "cclInvalidUsage",         "cclRemoteError", "cclInProgress",
    };

    return (int)rc >= 0 && rc < cclNumResults ? names[rc] : "unknown code";
}

bool tm_expect(const char *file, int line, const char *call, cclResult_t got, cclResult_t want)
{
    if (got != want) {
        tm_fail(file, line, "%.200s: got %s (%d), want %s; last error \"%.300s\"; at: %s", call, tm_code(got), (int)got,
                tm_code(want), cclGetLastError(NULL), place);
        return false;
    }
    return true;
}

static bool contains(const char *text, const char *needle, size_t length)
{
    for (; *text != '\0'; text++) {
        size_t i = 0;

        while (i < length && tolower((unsigned char)text[i]) == tolower((unsigned char)needle[i])) {
            i++;
        }
        if (i == length) {
            return true;
        }
    }
    return false;
}

bool tm_text_names(const char *file, int line, const char *needle)
{
    const char *text = cclGetLastError(NULL);
    const char *from = needle;

    while (from != NULL) {
        const char *bar = strchr(from, '|');

        if (contains(text, from, bar != NULL ? (size_t)(bar - from) : strlen(from))) {
            return true;
        }
        from = bar != NULL ? bar + 1 : NULL;
    }
    tm_fail(file, line, "error text \"%.400s\" does not name \"%s\"; at: %s", text, needle, place);
    return false;
}

bool tm_is_interpreted(void)
{
    const char *backend = getenv("CCL_BACKEND");

    return backend != NULL && strncmp(backend, "emu", 3) == 0;
}

double tm_limit(double seconds)
{
    return seconds * (TM_SANITIZED ? 4.0 : 1.0) * (tm_is_interpreted() ? 8.0 : 1.0);
}

void tm_within(const char *file, int line, const char *what, double seconds, double limit)
{
    if (seconds > tm_limit(limit)) {
        tm_fail(file, line, "%s took %.3f s, limit %.3f s; at: %s", what, seconds, tm_limit(limit), place);
    }
}

cclComm_t tm_comm_create(MPI_Comm mpi, cclConfig_t *config)
{
    cclUniqueId id;
    cclComm_t comm = NULL;
    int rank, n;

    MPI_Comm_rank(mpi, &rank);
    MPI_Comm_size(mpi, &n);
    memset(&id, 0, sizeof(id));
    if (rank == 0) {
        TM_MUST(cclGetUniqueId(&id));
    }
    MPI_Bcast(&id, (int)sizeof(id), MPI_BYTE, 0, mpi);
    if (config == NULL) {
        TM_MUST(cclCommInitRank(&comm, n, id, rank));
    } else {
        TM_MUST(cclCommInitRankConfig(&comm, n, id, rank, config));
    }
    return comm;
}

cclStream_t tm_stream_create(void)
{
    cclStream_t stream = NULL;

    TM_MUST(cclStreamCreate(&stream));
    return stream;
}

void tm_use_device_of(cclComm_t comm)
{
    int device = 0;

    TM_OK(cclCommDevice(comm, &device));
    TM_MUST(cclSetDevice(device));
}

bool tm_backend_is_host(void)
{
    return strcmp(cclBackendName(), "host") == 0;
}
