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
#include <stdlib.h>
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
static pthread_mutex_t process_error_lock = PTHREAD_MUTEX_INITIALIZER;
static char process_error[ERROR_BYTES];
static pthread_once_t error_once = PTHREAD_ONCE_INIT;

/* Not thread-local themselves: all thread-local memory of the library must fit into what the loader has spare for libraries opened later, some
 * hundred bytes, because the kernels' own variable is reached without a call. */
struct texts {
    char error[ERROR_BYTES], process_copy[ERROR_BYTES];
};
static _Thread_local struct texts *thread_texts;
static pthread_once_t texts_once = PTHREAD_ONCE_INIT;
static pthread_key_t texts_key;
static bool has_texts_key;

static void free_texts(void *texts)
{
    thread_texts = NULL;
    free(texts);
}

static void make_texts_key(void)
{
    has_texts_key = pthread_key_create(&texts_key, free_texts) == 0;
}

/* NULL: out of memory. */
static struct texts *own_texts(void)
{
    if (thread_texts == NULL) {
        pthread_once(&texts_once, make_texts_key);
        struct texts *texts = has_texts_key ? calloc(1, sizeof(*texts)) : NULL;
        if (texts != NULL && pthread_setspecific(texts_key, texts) != 0) {
            free(texts);
            texts = NULL;
        }
        thread_texts = texts;
    }
    return thread_texts;
}

/* What NCCL's subsystems are about here. */
static const struct {
    const char *name;
    unsigned mask;
} nccl_subsystems[] = {
    {"INIT", 1u << CCL_INIT},       {"ENV", 1u << CCL_INIT},    {"BOOTSTRAP", 1u << CCL_BOOT}, {"NET", 1u << CCL_BOOT}, {"RAS", 1u << CCL_BOOT},
    {"COLL", 1u << CCL_COLL},       {"CALL", 1u << CCL_COLL},   {"TUNING", 1u << CCL_COLL},    {"P2P", 1u << CCL_HEAP | 1u << CCL_COLL},
    {"SHM", 1u << CCL_HEAP},        {"ALLOC", 1u << CCL_HEAP},  {"REG", 1u << CCL_HEAP},       {"NVLS", 1u << CCL_HEAP},
    {"GRAPH", 1u << CCL_RT},        {"PROXY", 1u << CCL_RT},    {"PROFILE", 1u << CCL_KERN},   {"ALL", ~0u},
};

static unsigned subsystem_of(const char *name, size_t len, bool nccl)
{
    for (size_t i = 0; nccl && i < CCL_ARRAY_LEN(nccl_subsystems); i++) {
        if (strlen(nccl_subsystems[i].name) == len && strncasecmp(name, nccl_subsystems[i].name, len) == 0) {
            return nccl_subsystems[i].mask;
        }
    }
    for (size_t i = 0; !nccl && i < CCL_NUM_SUBSYS; i++) {
        if (strlen(subsys_names[i]) == len && strncasecmp(name, subsys_names[i], len) == 0) {
            return 1u << i;
        }
    }
    return !nccl && len == 3 && strncasecmp(name, "all", 3) == 0 ? ~0u : 0;
}

static void parse_subsystems(const char *list, bool nccl)
{
    bool invert = list[0] == '^';
    unsigned mask = 0;
    for (const char *p = list + invert; *p != '\0';) {
        size_t len = strcspn(p, ",");
        mask |= subsystem_of(p, len, nccl);
        p += len;
        p += *p == ',';
    }
    subsys_mask = invert ? ~mask : mask;
    if (mask == 0) {
        if (!nccl) {
            dprintf(STDERR_FILENO, "ccl: CCL_DEBUG_SUBSYS %s names no subsystem, using all\n", list);
        }
        subsys_mask = ~0u;
    }
}

static int level_of(const char *text)
{
    for (int i = 0; i < (int)CCL_ARRAY_LEN(level_names); i++) {
        if (strcasecmp(text, level_names[i]) == 0) {
            return i;
        }
    }
    if (strcasecmp(text, "none") == 0) {
        return -1;
    }
    dprintf(STDERR_FILENO, "ccl: CCL_DEBUG %s is no level, using error\n", text);
    return CCL_LOG_ERROR;
}

/* NCCL's levels; whatever else scripts write counts as unset. */
static int nccl_level_of(const char *text)
{
    static const struct {
        const char *name;
        int level;
    } levels[] = {{"NONE", -1},           {"VERSION", CCL_LOG_ERROR}, {"WARN", CCL_LOG_WARN},
                  {"INFO", CCL_LOG_INFO}, {"ABORT", CCL_LOG_INFO},    {"TRACE", CCL_LOG_TRACE}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(levels); i++) {
        if (strcasecmp(text, levels[i].name) == 0) {
            return levels[i].level;
        }
    }
    return CCL_LOG_ERROR;
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
    int level = env->debug != NULL        ? level_of(env->debug)
                : env->nccl_debug != NULL ? nccl_level_of(env->nccl_debug)
                                          : CCL_LOG_ERROR;
    const char *file = env->debug_file != NULL ? env->debug_file : env->nccl_debug_file;
    if (gethostname(host_name, sizeof(host_name) - 1) != 0) {
        host_name[0] = '\0';
    }
    if (env->debug_subsys != NULL) {
        parse_subsystems(env->debug_subsys, false);
    } else if (env->nccl_debug_subsys != NULL) {
        parse_subsystems(env->nccl_debug_subsys, true);
    } else {
        subsys_mask = ~0u;
    }
    if (file != NULL) {
        open_file(file);
    }
    __atomic_store_n(&ccl_log_level, level, __ATOMIC_RELAXED);
}

bool ccl_log_enabled(enum ccl_log_level level, enum ccl_subsys subsys)
{
    pthread_once(&log_once, log_init);
    return (int)level <= __atomic_load_n(&ccl_log_level, __ATOMIC_RELAXED) && (subsys_mask >> subsys & 1) != 0;
}

bool ccl_log_prints_version(void)
{
    const struct ccl_env *env = ccl_env_get();
    pthread_once(&log_once, log_init);
    return env->debug == NULL && env->nccl_debug != NULL &&
           (strcasecmp(env->nccl_debug, "VERSION") == 0 || __atomic_load_n(&ccl_log_level, __ATOMIC_RELAXED) >= CCL_LOG_WARN);
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
    struct texts *own = own_texts();
    if (own != NULL) {
        memcpy(own->error, text, sizeof(text));
    }
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
    if (thread_texts != NULL && thread_texts->error[0] != '\0') {
        return thread_texts->error;
    }
    return ccl_error_last_of_process();
}

const char *ccl_error_last_of_process(void)
{
    struct texts *own = own_texts();
    if (own == NULL) {
        return "out of memory for an error text";
    }
    pthread_mutex_lock(&process_error_lock);
    memcpy(own->process_copy, process_error, sizeof(process_error));
    pthread_mutex_unlock(&process_error_lock);
    return own->process_copy;
}
