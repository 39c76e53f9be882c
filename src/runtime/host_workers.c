/* SPDX-License-Identifier: MIT
 *
 * The worker of a stream naps. When it wakes up and finds the same pending task as at its last look, with nobody running
 * it, it runs all there is and naps shortly; while waiting threads drain the stream themselves its naps grow to some
 * milliseconds; without any enqueue for a while it sleeps until the next one. Two looks keep it from snatching work from a
 * thread that has just enqueued it and is about to wait for it: a hand-over costs fifty times a small operation. */
#include "runtime/host_workers.h"

#include <signal.h>
#include <string.h>

#include "runtime/host_futex.h"
#include "util/log.h"

#define NAP_MIN_NS 50000u
#define NAP_MAX_NS 1000000u
#define NAP_CALM_NS 4000000u /* when CALM_LOOKS in a row found others at work: looking costs 10 us of a shared core */
#define CALM_LOOKS 20
#define SLEEP_AFTER_NS 100000000u
#define STACK_BYTES ((size_t)1 << 20)

cclResult_t ccl_host_thread_start(pthread_t *thread, const char *name, bool detached, void *(*main)(void *), void *arg)
{
    pthread_attr_t attr;
    sigset_t all, before;
    int err = pthread_attr_init(&attr);
    CCL_CHECK(err == 0, cclSystemError, CCL_RT, "thread attributes for %s: %s", name, strerror(err));
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    pthread_attr_setdetachstate(&attr, detached ? PTHREAD_CREATE_DETACHED : PTHREAD_CREATE_JOINABLE);
    /* The new thread inherits the mask: the user's signal handlers never run on it. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t started;
    err = pthread_create(&started, &attr, main, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    CCL_CHECK(err == 0, cclSystemError, CCL_RT, "thread %s cannot be started: %s", name, strerror(err));
    *thread = started;
    return cclSuccess;
}

void ccl_host_worker_wake(struct cclStream *s, enum ccl_host_wake why)
{
    /* Release pairs with the exchange in nap: the worker sees what made the caller wake it. */
    if (__atomic_exchange_n(&s->wake, (uint32_t)why, __ATOMIC_ACQ_REL) != (uint32_t)why) {
        ccl_host_futex_wake(&s->wake, 1);
    }
}

static enum ccl_host_wake nap(struct cclStream *s, uint64_t ns)
{
    if (__atomic_load_n(&s->wake, __ATOMIC_RELAXED) == CCL_HOST_WAKE_NOT) {
        ccl_host_futex_wait(&s->wake, CCL_HOST_WAKE_NOT, ns);
    }
    return (enum ccl_host_wake)__atomic_exchange_n(&s->wake, CCL_HOST_WAKE_NOT, __ATOMIC_ACQ_REL);
}

/* Producers publish and look at worker_state under the same lock, so none can slip between the check and the sleep. */
static bool may_sleep(struct cclStream *s)
{
    ccl_host_spin_lock(&s->enq);
    bool empty = s->queued == __atomic_load_n(&s->done, __ATOMIC_RELAXED);
    if (empty) {
        s->worker_state = CCL_HOST_WORKER_SLEEPS;
    }
    ccl_host_spin_unlock(&s->enq);
    return empty;
}

static uint64_t longer_nap(uint64_t nap_ns, unsigned *calm_looks)
{
    uint64_t most_ns = ++*calm_looks > CALM_LOOKS ? NAP_CALM_NS : NAP_MAX_NS;
    return nap_ns < most_ns / 2 ? nap_ns * 2 : most_ns;
}

static void *worker_main(void *arg)
{
    struct cclStream *s = arg;
    unsigned calm_looks = 0;
    uint64_t nap_ns = NAP_MIN_NS, pending_at = UINT64_MAX, last_queued = 0, last_enqueue_ns = ccl_now_ns();
    pthread_setname_np(pthread_self(), "ccl-stream");
    for (;;) {
        enum ccl_host_wake why = nap(s, nap_ns);
        if (__atomic_load_n(&s->stop, __ATOMIC_ACQUIRE) != 0) { /* pairs with ccl_host_worker_stop */
            return NULL;
        }
        uint64_t done = __atomic_load_n(&s->done, __ATOMIC_RELAXED);
        uint64_t queued = ccl_host_stream_tail(s);
        if (queued != last_queued) {
            last_queued = queued;
            last_enqueue_ns = ccl_now_ns();
        }
        if (done == queued) {
            pending_at = UINT64_MAX;
            nap_ns = longer_nap(nap_ns, &calm_looks);
            if (ccl_now_ns() - last_enqueue_ns > SLEEP_AFTER_NS && may_sleep(s)) {
                nap_ns = UINT64_MAX;
            }
        } else if (__atomic_load_n(&s->run, __ATOMIC_RELAXED) != 0) {
            nap_ns = longer_nap(nap_ns, &calm_looks);
        } else {
            bool pending_before = why == CCL_HOST_WAKE_RUN || pending_at == done;
            if (pending_before && ccl_host_stream_try_run(s, UINT64_MAX)) {
                calm_looks = 0;
            }
            pending_at = done;
            nap_ns = NAP_MIN_NS;
        }
    }
}

cclResult_t ccl_host_worker_start(struct cclStream *s)
{
    CCL_TRY(ccl_host_thread_start(&s->worker, "ccl-stream", s->detached, worker_main, s));
    s->worker_state = CCL_HOST_WORKER_NAPS;
    s->owner = getpid();
    return cclSuccess;
}

void ccl_host_worker_stop(struct cclStream *s)
{
    if (s->owner == getpid()) {
        __atomic_store_n(&s->stop, 1, __ATOMIC_RELEASE); /* pairs with the acquire in worker_main */
        ccl_host_worker_wake(s, CCL_HOST_WAKE_RUN);
        pthread_join(s->worker, NULL);
    }
    s->owner = 0;
    s->worker_state = CCL_HOST_WORKER_NONE;
    __atomic_store_n(&s->stop, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&s->wake, CCL_HOST_WAKE_NOT, __ATOMIC_RELAXED);
}
