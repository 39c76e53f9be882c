/* SPDX-License-Identifier: MIT
 *
 * Log lines and the last error. A line is formatted into one buffer and written with one call, so lines of several processes do not
 * mix. The destination is opened once; CCL_DEBUG_FILE may carry %h (host name) and %p (process id). */
#include "util/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "util/config.h"

#define LINE_BYTES 1536
#define ERROR_BYTES 1024

/* Until the environment has been read every level asks ccl_log_enabled(), which reads it. */
int ccl_log_level = CCL_LOG_TRACE;

static const char *const level_names[] = {"error", "warn", "info", "debug", "trace"};
static const char *const subsys_names[] = {"init", "boot", "heap", "coll", "rt", "kern"};

static pthread_once_t log_once = PTHREAD_ONCE_INIT;
static unsigned subsys_mask;
static int log_fd = STDERR_FILENO;
static char host_name[64];

static _Thread_local int thread_rank = -1;
static _Thread_local char thread_error[ERROR_BYTES];
static pthread_mutex_t process_error_lock = PTHREAD_MUTEX_INITIALIZER;
static char process_error[ERROR_BYTES];
static _Thread_local char process_error_copy[ERROR_BYTES];
static pthread_once_t error_once = PTHREAD_ONCE_INIT;

static void parse_subsystems(const char *list)
{
    bool invert = list[0] == '^';
    unsigned mask = 0;
    for (size_t i = 0; i < CCL_NUM_SUBSYS; i++) {
        size_t len = strlen(subsys_names[i]);
        for (const char *p = list + invert; p != NULL && *p != '\0';) {
            const char *end = strchr(p, ',');
            size_t n = end != NULL ? (size_t)(end - p) : strlen(p);
            if ((n == len && strncasecmp(p, subsys_names[i], n) == 0) || (n == 3 && strncasecmp(p, "all", 3) == 0)) {
                mask |= 1u << i;
            }
            p = end != NULL ? end + 1 : NULL;
        }
    }
    subsys_mask = invert ? ~mask : mask;
    if (mask == 0) {
        dprintf(STDERR_FILENO, "ccl: CCL_DEBUG_SUBSYS %s names no subsystem, using all\n", list);
        subsys_mask = ~0u;
    }
}

static void open_file(const char *pattern)
{
    char path[512];
    size_t n = 0;
    for (const char *p = pattern; *p != '\0' && n + 80 < sizeof(path); p++) {
        if (*p != '%') {
            path[n++] = *p;
        } else if (p[1] == 'h') {
            n += (size_t)snprintf(path + n, sizeof(path) - n, "%s", host_name);
            p++;
        } else if (p[1] == 'p') {
            n += (size_t)snprintf(path + n, sizeof(path) - n, "%d", (int)getpid());
            p++;
        } else {
            path[n++] = '%';
            p += p[1] == '%';
        }
    }
    path[n] = '\0';
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd >= 0) {
        log_fd = fd;
    } else {
        dprintf(STDERR_FILENO, "ccl: log file %s: %s, logging to stderr\n", path, strerror(errno));
    }
}

static void log_init(void)
{
    const struct ccl_env *env = ccl_env_get();
    int level = -2;
    for (int i = 0; i < (int)CCL_ARRAY_LEN(level_names); i++) {
        if (strcasecmp(env->debug, level_names[i]) == 0) {
            level = i;
        }
    }
    if (level == -2) {
        level = strcasecmp(env->debug, "none") == 0 ? -1 : CCL_LOG_ERROR;
        if (level == CCL_LOG_ERROR) {
            dprintf(STDERR_FILENO, "ccl: CCL_DEBUG %s is no level, using error\n", env->debug);
        }
    }
    if (gethostname(host_name, sizeof(host_name) - 1) != 0) {
        host_name[0] = '\0';
    }
    parse_subsystems(env->debug_subsys);
    if (env->debug_file != NULL) {
        open_file(env->debug_file);
    }
    __atomic_store_n(&ccl_log_level, level, __ATOMIC_RELAXED);
}

bool ccl_log_enabled(enum ccl_log_level level, enum ccl_subsys subsys)
{
    pthread_once(&log_once, log_init);
    return (int)level <= __atomic_load_n(&ccl_log_level, __ATOMIC_RELAXED) && (subsys_mask >> subsys & 1) != 0;
}

static void write_line(enum ccl_log_level level, enum ccl_subsys subsys, const char *text)
{
    char line[LINE_BYTES];
    char rank[16] = "-";
    if (thread_rank >= 0) {
        snprintf(rank, sizeof(rank), "%d", thread_rank);
    }
    int n = snprintf(line, sizeof(line), "ccl [%s %s:%d] %s %s: %s\n", rank, host_name, (int)getpid(), level_names[level],
                     subsys_names[subsys], text);
    if (n >= (int)sizeof(line)) {
        n = sizeof(line) - 1;
        line[n - 1] = '\n';
    }
    /* A log that cannot be written is lost; there is nobody to tell. */
    ssize_t ignored = write(log_fd, line, (size_t)n);
    (void)ignored;
}

void ccl_log_write(enum ccl_log_level level, enum ccl_subsys subsys, const char *fmt, ...)
{
    char text[ERROR_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    write_line(level, subsys, text);
}

void ccl_log_set_rank(int rank)
{
    thread_rank = rank;
}

/* The holder of the lock may not exist in a forked child. A text it had half copied still ends with a zero byte. */
static void error_fork_child(void)
{
    pthread_mutex_init(&process_error_lock, NULL);
}

static void error_init(void)
{
    pthread_atfork(NULL, NULL, error_fork_child);
}

void ccl_error_write(enum ccl_subsys subsys, const char *fmt, ...)
{
    char text[ERROR_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    memcpy(thread_error, text, sizeof(text));
    pthread_once(&error_once, error_init);
    pthread_mutex_lock(&process_error_lock);
    memcpy(process_error, text, sizeof(text));
    pthread_mutex_unlock(&process_error_lock);
    if (ccl_log_enabled(CCL_LOG_WARN, subsys)) {
        write_line(CCL_LOG_WARN, subsys, text);
    }
}

const char *ccl_error_last(void)
{
    if (thread_error[0] != '\0') {
        return thread_error;
    }
    pthread_mutex_lock(&process_error_lock);
    memcpy(process_error_copy, process_error, sizeof(process_error));
    pthread_mutex_unlock(&process_error_lock);
    return process_error_copy;
}
