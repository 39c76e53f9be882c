/* SPDX-License-Identifier: MIT
 *
 * When memory may be given back. */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "runtime/gpu_memory.h"

#define PAUSE_NS 20000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ccl_gpu_tenant *tenants;
static _Atomic(struct ccl_gpu_block *) deferred; /* changed with the lock held */
atomic_int ccl_gpu_freeing[CCL_GPU_MAX_DEVICES];

int ccl_gpu_outlast(int (*wait)(void *object), int (*query)(void *object), void *object)
{
    const struct timespec pause = {0, PAUSE_NS};
    int error = wait(object);
    while (CCL_UNLIKELY(error != 0) && query(object) == CCL_GPU_E_NOT_READY) {
        nanosleep(&pause, NULL);
    }
    return error;
}

/* ---- memory whose giving back waits for the whole device ---- */

void ccl_gpu_tenant_add(struct ccl_gpu_tenant *t)
{
    pthread_mutex_lock(&lock);
    t->next = tenants;
    tenants = t;
    pthread_mutex_unlock(&lock);
}

void ccl_gpu_tenant_remove(struct ccl_gpu_tenant *t)
{
    pthread_mutex_lock(&lock);
    struct ccl_gpu_tenant **link = &tenants;
    while (*link != t) {
        link = &(*link)->next;
    }
    *link = t->next;
    pthread_mutex_unlock(&lock);
}

void ccl_gpu_tenant_await(const struct ccl_gpu_tenant *t)
{
    const struct timespec pause = {0, PAUSE_NS};
    while (atomic_load(&ccl_gpu_freeing[t->device]) > 0) {
        nanosleep(&pause, NULL);
    }
}

/* With the device current, as setup. */
static cclResult_t try_free(const struct ccl_gpu_block *b, bool *busy)
{
    int count = 0;
    /* Either we see that an operation is being enqueued, or who enqueues it sees this (ccl_gpu_tenant_enter): both are sequentially consistent. */
    atomic_fetch_add(&ccl_gpu_freeing[b->device], 1);
    pthread_mutex_lock(&lock);
    for (struct ccl_gpu_tenant *t = tenants; t != NULL; t = t->next) {
        if (t->device == b->device) {
            count++;
            *busy = *busy || atomic_load(&t->enqueuing); /* first: when it is no longer set, event is behind the operation */
            int error = ccl_gpu.event_query(t->event);
            if (error != 0 && error != CCL_GPU_E_NOT_READY) {
                ccl_gpu_failed(error, "event_query");
            }
            *busy = *busy || error != 0;
        }
    }
    pthread_mutex_unlock(&lock);
    bool alone = *busy && count == 1; /* its kernel waits for no thread of ours, and may be waited for */
    *busy = *busy && !alone;
    if (alone) {
        atomic_fetch_sub(&ccl_gpu_freeing[b->device], 1);
    }
    int error = *busy ? 0 : ccl_gpu.mem_free(b->base);
    if (!alone) {
        atomic_fetch_sub(&ccl_gpu_freeing[b->device], 1);
    }
    return error == 0 ? cclSuccess : ccl_gpu_failed(error, "mem_free");
}

cclResult_t ccl_gpu_free_plain(struct ccl_gpu_block *b)
{
    bool busy = false;
    cclResult_t rc = try_free(b, &busy);
    if (!busy) {
        free(b);
        return rc;
    }
    pthread_mutex_lock(&lock);
    b->next = deferred;
    deferred = b;
    pthread_mutex_unlock(&lock);
    return cclSuccess;
}

void ccl_gpu_free_deferred(void)
{
    if (CCL_LIKELY(atomic_load_explicit(&deferred, memory_order_relaxed) == NULL)) {
        return;
    }
    pthread_mutex_lock(&lock);
    struct ccl_gpu_block *list = deferred;
    deferred = NULL;
    pthread_mutex_unlock(&lock);
    while (list != NULL) {
        struct ccl_gpu_block *b = list;
        list = b->next;
        struct ccl_gpu_guard guard;
        if (ccl_gpu_enter_setup_on(b->device, &guard) == cclSuccess) {
            ccl_gpu_free_plain(b); /* or deferred once more */
            ccl_gpu_leave(&guard);
        }
    }
}
