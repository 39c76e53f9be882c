/* SPDX-License-Identifier: MIT
 *
 * The running side of a stream, its life, and waiting for it. */
#include "runtime/host_stream.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/host_blocks.h"
#include "runtime/host_event.h"
#include "runtime/host_futex.h"
#include "runtime/host_workers.h"
#include "util/log.h"

#define WAIT_SPINS 200       /* some microseconds, before a waiting thread sleeps */
#define WAIT_MIN_NS 1000000u /* see ccl_host_stream_wait */
#define WAIT_MAX_NS 16000000u
#define MAX_HELP_DEPTH 16 /* streams run inside each other by one thread that waits for events */

/* Every stream record ever made; only grows, so it is walked without a lock. */
static struct cclStream *all_streams;
static pthread_mutex_t free_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cclStream *free_streams;   /* under free_lock */
static struct cclStream *default_stream; /* written once under free_lock, with release */
static uint32_t live_streams;

static _Thread_local unsigned help_depth;

static void wake_waiters(struct cclStream *s)
{
    if (__atomic_exchange_n(&s->wait_target, UINT64_MAX, __ATOMIC_SEQ_CST) != UINT64_MAX) {
        __atomic_fetch_add(&s->bell, 1, __ATOMIC_RELEASE); /* pairs with the load of bell in ccl_host_stream_wait */
        ccl_host_futex_wake(&s->bell, INT_MAX);
    }
}

/* Returns the record that follows. */
static struct ccl_host_task *execute(struct ccl_host_task *task)
{
    struct ccl_host_task *next = (struct ccl_host_task *)(void *)((char *)task + task->bytes);
    __builtin_prefetch(next);
    __builtin_prefetch((char *)next + CCL_CACHE_LINE);
    switch ((enum ccl_host_task_kind)task->kind) {
    case CCL_HOST_TASK_JUMP:
        return task->u.jump;
    case CCL_HOST_TASK_LAUNCH:
        ccl_host_blocks_run(task->u.launch.fn, task + 1, task->u.launch.grid, task->u.launch.threads,
                            ccl_host_streams_idle);
        break;
    case CCL_HOST_TASK_COPY:
        memcpy(task->u.copy.dst, task->u.copy.src, task->u.copy.size_bytes);
        break;
    case CCL_HOST_TASK_FILL:
        memset(task->u.copy.dst, task->byte, task->u.copy.size_bytes);
        break;
    case CCL_HOST_TASK_RECORD:
        ccl_host_event_happened(task->u.record.event, task->u.record.generation);
        break;
    case CCL_HOST_TASK_WAIT:
        ccl_host_stream_wait(task->u.wait.stream, task->u.wait.position);
        break;
    }
    return next;
}

/* The run lock is held. Stops at limit, or when nothing is queued. */
static void run_tasks(struct cclStream *s, uint64_t limit)
{
    struct ccl_host_task *task = s->next_task;
    uint64_t done = __atomic_load_n(&s->done, __ATOMIC_RELAXED), end = done;
    while (done < limit) {
        if (done == end) {
            /* Pairs with the release in commit: the record is complete. */
            end = __atomic_load_n(&s->queued, __ATOMIC_ACQUIRE);
            end = end < limit ? end : limit;
            if (done == end) {
                break;
            }
        }
        task = execute(task);
        done++;
        /* Pairs with the acquire of done by waiting threads (effects of the task) and producers (the record may be
         * written over). */
        __atomic_store_n(&s->done, done, __ATOMIC_RELEASE);
        if (CCL_UNLIKELY(done >= __atomic_load_n(&s->wait_target, __ATOMIC_RELAXED))) {
            wake_waiters(s);
        }
    }
    s->next_task = task;
}

bool ccl_host_stream_try_run(struct cclStream *s, uint64_t position)
{
    uint32_t unlocked = 0;
    /* Acquire pairs with the exchange below: next_task. */
    if (__atomic_load_n(&s->run, __ATOMIC_RELAXED) != 0 ||
        !__atomic_compare_exchange_n(&s->run, &unlocked, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        return false;
    }
    run_tasks(s, position);
    /* Sequentially consistent with wait_target: either a waiting thread sees the lock free, or we see that it waits. */
    __atomic_exchange_n(&s->run, 0, __ATOMIC_SEQ_CST);
    if (CCL_UNLIKELY(__atomic_load_n(&s->wait_target, __ATOMIC_SEQ_CST) != UINT64_MAX)) {
        wake_waiters(s);
    }
    return true;
}

/* Always a write, so that it has its place in the single order of run and wait_target. */
static void lower_wait_target(struct cclStream *s, uint64_t position)
{
    uint64_t target = __atomic_load_n(&s->wait_target, __ATOMIC_SEQ_CST), least;
    do {
        least = target < position ? target : position;
    } while (!__atomic_compare_exchange_n(&s->wait_target, &target, least, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
}

/* While others run the stream: spin, then sleep until the runner passes position or leaves. The runner's look at
 * wait_target behind each task is not fenced against our write (a fence a task would cost more than the task), so it
 * may miss us once; the time limit bounds that. When it leaves it cannot miss us. */
static void sleep_for(struct cclStream *s, uint64_t position, uint64_t limit_ns)
{
    for (unsigned i = 0; i < WAIT_SPINS; i++) {
        if (ccl_host_stream_reached(s, position) || __atomic_load_n(&s->run, __ATOMIC_RELAXED) == 0) {
            return;
        }
        ccl_host_pause();
    }
    uint32_t bell = __atomic_load_n(&s->bell, __ATOMIC_ACQUIRE); /* pairs with the bump in wake_waiters */
    lower_wait_target(s, position);
    if (!ccl_host_stream_reached(s, position) && __atomic_load_n(&s->run, __ATOMIC_SEQ_CST) != 0) {
        ccl_host_futex_wait(&s->bell, bell, limit_ns);
    }
}

void ccl_host_stream_wait(struct cclStream *s, uint64_t position)
{
    uint64_t limit_ns = WAIT_MIN_NS;
    while (!ccl_host_stream_reached(s, position)) {
        bool ran = false;
        if (help_depth < MAX_HELP_DEPTH) {
            help_depth++;
            ran = ccl_host_stream_try_run(s, position);
            help_depth--;
        } else {
            ccl_host_stream_nudge(s);
        }
        if (!ran && !ccl_host_stream_reached(s, position)) {
            sleep_for(s, position, limit_ns);
            limit_ns = limit_ns < WAIT_MAX_NS ? limit_ns * 2 : WAIT_MAX_NS;
        }
    }
}

uint64_t ccl_host_stream_tail(const struct cclStream *s)
{
    return __atomic_load_n(&s->queued, __ATOMIC_ACQUIRE); /* pairs with the release in commit */
}

bool ccl_host_stream_reached(const struct cclStream *s, uint64_t position)
{
    return __atomic_load_n(&s->done, __ATOMIC_ACQUIRE) >= position; /* pairs with the release in run_tasks */
}

void ccl_host_stream_nudge(struct cclStream *s)
{
    uint64_t done = __atomic_load_n(&s->done, __ATOMIC_RELAXED);
    if (done < ccl_host_stream_tail(s) && __atomic_load_n(&s->run, __ATOMIC_RELAXED) == 0) {
        ccl_host_worker_wake(s, CCL_HOST_WAKE_RUN);
    }
}

void ccl_host_streams_idle(void)
{
    if (__atomic_load_n(&live_streams, __ATOMIC_RELAXED) < 2) {
        return;
    }
    /* Pairs with the release in stream_new. */
    for (struct cclStream *s = __atomic_load_n(&all_streams, __ATOMIC_ACQUIRE); s != NULL; s = s->next_all) {
        if (__atomic_load_n(&s->live, __ATOMIC_RELAXED) != 0) {
            ccl_host_stream_nudge(s);
        }
    }
}

static struct cclStream *stream_new(void)
{
    struct cclStream *s = aligned_alloc(CCL_CACHE_LINE, sizeof(*s));
    if (s != NULL) {
        memset(s, 0, sizeof(*s));
        s->wait_target = UINT64_MAX;
        s->next_all = __atomic_load_n(&all_streams, __ATOMIC_RELAXED);
        /* Release pairs with the walk in ccl_host_streams_idle. */
        while (!__atomic_compare_exchange_n(&all_streams, &s->next_all, s, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
        }
    }
    return s;
}

/* Under free_lock. */
static cclResult_t stream_open(bool detached, struct cclStream **out)
{
    struct cclStream *s = free_streams != NULL ? free_streams : stream_new();
    CCL_CHECK(s != NULL, cclSystemError, CCL_RT, "out of memory for a stream, %zu bytes", sizeof(*s));
    if (s == free_streams) {
        free_streams = s->next_free;
    }
    cclResult_t rc = ccl_host_queue_init(s);
    if (rc != cclSuccess) {
        s->next_free = free_streams;
        free_streams = s;
        return rc;
    }
    s->detached = detached;
    __atomic_store_n(&s->live, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&live_streams, 1, __ATOMIC_RELAXED);
    *out = s;
    return cclSuccess;
}

cclResult_t ccl_host_stream_create(struct cclStream **out)
{
    pthread_mutex_lock(&free_lock);
    cclResult_t rc = stream_open(false, out);
    pthread_mutex_unlock(&free_lock);
    return rc;
}

cclResult_t ccl_host_stream_destroy(struct cclStream *s)
{
    if (s == NULL) {
        return cclSuccess;
    }
    ccl_host_stream_wait(s, ccl_host_stream_tail(s));
    ccl_host_worker_stop(s);
    __atomic_store_n(&s->live, 0, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&live_streams, 1, __ATOMIC_RELAXED);
    /* The last runner may have published its last task and not yet left run_tasks: take the run lock from it, so that it does not write into
     * a record that is reused. Acquire pairs with its exchange. */
    for (uint32_t unlocked = 0; !__atomic_compare_exchange_n(&s->run, &unlocked, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
         unlocked = 0) {
        sched_yield();
    }
    ccl_host_queue_finish(s);
    __atomic_store_n(&s->run, 0, __ATOMIC_RELEASE);
    pthread_mutex_lock(&free_lock);
    s->next_free = free_streams;
    free_streams = s;
    pthread_mutex_unlock(&free_lock);
    return cclSuccess;
}

cclResult_t ccl_host_stream_resolve(struct cclStream *stream, struct cclStream **out)
{
    if (stream == NULL) {
        stream = __atomic_load_n(&default_stream, __ATOMIC_ACQUIRE); /* pairs with the release below */
    }
    if (CCL_UNLIKELY(stream == NULL)) {
        cclResult_t rc = cclSuccess;
        pthread_mutex_lock(&free_lock);
        stream = default_stream;
        if (stream == NULL) {
            rc = stream_open(true, &stream);
            if (rc == cclSuccess) {
                __atomic_store_n(&default_stream, stream, __ATOMIC_RELEASE);
            }
        }
        pthread_mutex_unlock(&free_lock);
        CCL_TRY(rc);
    }
    *out = stream;
    return cclSuccess;
}
