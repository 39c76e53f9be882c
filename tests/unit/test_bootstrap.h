/* SPDX-License-Identifier: MIT
 *
 * Ranks for the bootstrap tests: threads of this process, forked processes, or a mixture, all running one function. */
#ifndef TEST_BOOTSTRAP_H
#define TEST_BOOTSTRAP_H

#include <dirent.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bootstrap/bootstrap.h"
#include "test.h"
#include "util/log.h"

#define MAX_RANKS 64
#define MS ((uint64_t)1000000)
#define LONG (24000 * MS) /* a deadline that is not meant to pass, with a sanitizer on a busy machine either */

struct world;

struct member {
    struct world *world;
    int rank, nranks;
    cclUniqueId id;
    uint64_t timeout_ns;
    pthread_t thread;
    pid_t pid;
    int skip; /* does not come */
    cclResult_t rc;
    char text[512];
};

/* Body of a rank. boot is NULL when create failed (rc and text say why); the caller destroys it. */
typedef void member_fn(struct member *m, struct ccl_bootstrap *boot);

struct world {
    int n;
    member_fn *fn;
    void *ctx;
    struct member members[MAX_RANKS + 8];
};

static pthread_mutex_t check_lock = PTHREAD_MUTEX_INITIALIZER;

#define M_FAIL(m, ...)                              \
    do {                                            \
        pthread_mutex_lock(&check_lock);            \
        test_rank = (m)->rank;                      \
        TEST_FAIL(__VA_ARGS__);                     \
        pthread_mutex_unlock(&check_lock);          \
    } while (0)

#define M_EQ(m, got, want)                                                            \
    do {                                                                              \
        long long m_got_ = (long long)(got), m_want_ = (long long)(want);             \
        if (m_got_ != m_want_) {                                                      \
            M_FAIL(m, "%s: got %lld, want %lld; last error: %.512s", #got, m_got_, m_want_, ccl_error_last()); \
        }                                                                             \
    } while (0)

#define M_TEXT(m, part)                                                   \
    do {                                                                  \
        if (strstr(ccl_error_last(), part) == NULL) {                     \
            M_FAIL(m, "text has no \"%s\": %.512s", part, ccl_error_last()); \
        }                                                                 \
    } while (0)

static inline void member_run(struct member *m)
{
    struct ccl_bootstrap *boot = NULL;
    m->rc = ccl_bootstrap_create(&m->id, m->rank, m->nranks, m->timeout_ns, &boot);
    snprintf(m->text, sizeof(m->text), "%s", m->rc != cclSuccess ? ccl_error_last() : "");
    if (m->world->fn != NULL) {
        m->world->fn(m, boot);
    } else if (m->rc != cclSuccess) {
        M_FAIL(m, "create: %d %s", m->rc, m->text);
    }
    ccl_bootstrap_destroy(boot);
}

static inline void *member_thread(void *arg)
{
    member_run(arg);
    return NULL;
}

static inline void world_init(struct world *w, int n, member_fn *fn, void *ctx, const cclUniqueId *id)
{
    memset(w, 0, sizeof(*w));
    w->n = n;
    w->fn = fn;
    w->ctx = ctx;
    for (int i = 0; i < n; i++) {
        w->members[i] = (struct member){.world = w, .rank = i, .nranks = n, .timeout_ns = LONG};
        if (id != NULL) {
            w->members[i].id = *id;
        }
    }
}

static inline void world_new_id(struct world *w)
{
    cclUniqueId id;
    TEST_EQ(ccl_bootstrap_get_id(&id), cclSuccess);
    for (int i = 0; i < w->n; i++) {
        w->members[i].id = id;
    }
}

static inline void threads_start(struct world *w, int from, int to)
{
    for (int i = from; i < to; i++) {
        if (!w->members[i].skip) {
            TEST_EQ(pthread_create(&w->members[i].thread, NULL, member_thread, &w->members[i]), 0);
        }
    }
}

static inline void threads_join(struct world *w, int from, int to)
{
    for (int i = from; i < to; i++) {
        if (!w->members[i].skip) {
            pthread_join(w->members[i].thread, NULL);
        }
    }
    pthread_mutex_lock(&check_lock);
    test_rank = -1;
    pthread_mutex_unlock(&check_lock);
}

static inline void world_threads(struct world *w)
{
    threads_start(w, 0, w->n);
    threads_join(w, 0, w->n);
}

/* Number of threads of this process that run, not counting the caller. */
static inline int running_threads(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/task");
    struct dirent *e;
    while (d != NULL && (e = readdir(d)) != NULL) {
        char path[300], stat[128] = "", *end;
        snprintf(path, sizeof(path), "/proc/self/task/%s/stat", e->d_name);
        FILE *f = e->d_name[0] != '.' ? fopen(path, "r") : NULL;
        if (f != NULL) {
            end = fgets(stat, sizeof(stat), f) != NULL ? strrchr(stat, ')') : NULL;
            n += end != NULL && end[1] == ' ' && end[2] != 'S';
            fclose(f);
        }
    }
    if (d != NULL) {
        closedir(d);
    }
    return n - 1;
}

/* The address sanitizer allocates when a thread begins and ends, and older ones do not look after their locks in fork: a child
 * forked in such a moment hangs in its first allocation. So the root thread must sleep, and those of earlier worlds too. What it
 * does later it does under a lock that fork takes. */
static inline void threads_sleep(void)
{
    for (int i = 0, asleep = 0; i < 2000 && asleep < 3; i++) {
        asleep = running_threads() == 0 ? asleep + 1 : 0;
        usleep(1000);
    }
}

static inline void procs_start(struct world *w, int from, int to)
{
    fflush(NULL);
    threads_sleep();
    for (int i = from; i < to; i++) {
        if (!w->members[i].skip && (w->members[i].pid = fork()) == 0) {
            test_rank = i;
            test_failures = 0;
            member_run(&w->members[i]);
            fflush(NULL);
            _exit(test_failures > 0);
        }
    }
}

/* A rank that is meant to die gives 77. */
static inline void procs_join(struct world *w, int from, int to)
{
    for (int i = from; i < to; i++) {
        int status = -1;
        if (!w->members[i].skip && waitpid(w->members[i].pid, &status, 0) == w->members[i].pid && status != 0 &&
            !(WIFEXITED(status) && WEXITSTATUS(status) == 77)) {
            TEST_FAIL("process of rank %d: status %x", i, status);
        }
    }
}

static inline void world_procs(struct world *w)
{
    procs_start(w, 0, w->n);
    procs_join(w, 0, w->n);
}

static inline int count_dir(const char *path)
{
    int n = 0;
    DIR *d = opendir(path);
    for (; d != NULL && readdir(d) != NULL; n++) {
    }
    if (d != NULL) {
        closedir(d);
    }
    return n - 3; /* ".", ".." and, for fd, the directory itself */
}

static inline int count_fds(void)
{
    return count_dir("/proc/self/fd");
}

static inline int count_threads(void)
{
    return count_dir("/proc/self/task") + 1;
}

/* Number of threads of this process at rest. A sanitizer may keep one of its own from the first that is started. */
static inline void *nothing(void *arg)
{
    return arg;
}

static inline int base_threads(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, nothing, NULL) == 0) {
        pthread_join(thread, NULL);
    }
    /* A joined thread, or that of a rendezvous just done, may be listed a little longer. */
    int least = count_threads();
    for (int i = 0; i < 20; i++) {
        usleep(5000);
        least = count_threads() < least ? count_threads() : least;
    }
    return least;
}

/* Wait until the root threads have gone, which end a little after the last rank has its answer. */
static inline void settle(int fds, int threads)
{
    for (int i = 0; i < 300 && (count_fds() > fds || count_threads() > threads); i++) {
        usleep(10000);
    }
}

static inline double ms_since(uint64_t start_ns)
{
    return (double)(ccl_now_ns() - start_ns) / 1e6;
}

#endif
