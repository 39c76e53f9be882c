/* SPDX-License-Identifier: MIT
 *
 * Blocks are handed out by a ticket, so they start in index order; a block waits only for blocks of lower index (or its
 * own on another rank), which somebody has already started. The caller takes tickets like a helper and never depends on
 * one: a launch whose helpers are all busy elsewhere, or do not exist in a forked child, runs on its caller alone. */
#include "runtime/host_blocks.h"

#include <pthread.h>

#include "runtime/host_futex.h"
#include "runtime/host_workers.h"

#define MAX_HELPERS 255
#define END_SPINS 200 /* until the caller sleeps for helpers that are still in their last block */

/* Lives on the caller's stack; a helper touches it only between entering (under the pool's lock) and leaving. */
struct job {
    ccl_host_kernel_fn fn;
    const void *args;
    void (*idle)(void);
    uint32_t grid;
    uint32_t ticket;  /* next block; may run beyond grid */
    uint32_t helpers; /* inside */
    struct job *next;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work; /* helpers wait here */
    pthread_cond_t left; /* callers whose helpers are still inside */
    struct job *jobs;
    uint32_t helpers; /* started */
    uint32_t waiting; /* callers about to sleep or asleep */
    uint32_t threads;
} pool = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, 0, 0, 1};

void ccl_host_blocks_set_threads(uint32_t threads)
{
    uint32_t n = threads < 1 ? 1 : threads > MAX_HELPERS + 1 ? MAX_HELPERS + 1 : threads;
    __atomic_store_n(&pool.threads, n, __ATOMIC_RELAXED);
}

static void take_tickets(struct job *job, uint32_t ticket)
{
    struct ccl_host_block block = {.grid = job->grid, .idle = job->idle};
    while (ticket < job->grid) {
        block.index = ticket;
        job->fn(job->args, &block);
        ticket = __atomic_fetch_add(&job->ticket, 1, __ATOMIC_RELAXED);
    }
}

static struct job *find_job(void)
{
    struct job *job = pool.jobs;
    while (job != NULL && __atomic_load_n(&job->ticket, __ATOMIC_RELAXED) >= job->grid) {
        job = job->next;
    }
    return job;
}

static void help_once(void)
{
    struct job *job;
    pthread_mutex_lock(&pool.lock);
    while ((job = find_job()) == NULL) {
        pthread_cond_wait(&pool.work, &pool.lock);
    }
    __atomic_fetch_add(&job->helpers, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&pool.lock);
    take_tickets(job, __atomic_fetch_add(&job->ticket, 1, __ATOMIC_RELAXED));
    /* The last touch of the job; pairs with the loads in wait_helpers. Sequentially consistent with waiting below:
     * either the caller sees that we left, or we see that it waits. */
    __atomic_fetch_sub(&job->helpers, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&pool.waiting, __ATOMIC_SEQ_CST) != 0) {
        pthread_mutex_lock(&pool.lock);
        pthread_cond_broadcast(&pool.left);
        pthread_mutex_unlock(&pool.lock);
    }
}

/* Lives as long as the process, so that a launch never has to start threads twice. */
static void *helper_main(void *arg)
{
    pthread_setname_np(pthread_self(), "ccl-block");
    for (;;) {
        help_once();
    }
    return arg;
}

/* Under the pool's lock. When a thread cannot be started the process goes on with those it has. */
static void start_helpers(uint32_t wanted)
{
    pthread_t thread;
    while (pool.helpers < wanted) {
        if (ccl_host_thread_start(&thread, "ccl-block", true, helper_main, NULL) != cclSuccess) {
            ccl_host_blocks_set_threads(pool.helpers + 1);
            return;
        }
        pool.helpers++;
    }
}

static void wait_helpers(struct job *job)
{
    for (unsigned i = 0; i < END_SPINS; i++) {
        if (__atomic_load_n(&job->helpers, __ATOMIC_ACQUIRE) == 0) {
            return;
        }
        ccl_host_pause();
    }
    __atomic_fetch_add(&pool.waiting, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_lock(&pool.lock);
    while (__atomic_load_n(&job->helpers, __ATOMIC_SEQ_CST) != 0) {
        pthread_cond_wait(&pool.left, &pool.lock);
    }
    pthread_mutex_unlock(&pool.lock);
    __atomic_fetch_sub(&pool.waiting, 1, __ATOMIC_RELAXED);
}

void ccl_host_blocks_run(ccl_host_kernel_fn fn, const void *args, uint32_t grid, uint32_t limit,
                         void (*idle)(void))
{
    uint32_t threads = __atomic_load_n(&pool.threads, __ATOMIC_RELAXED);
    threads = limit != 0 && limit < threads ? limit : threads;
    threads = threads < grid ? threads : grid;
    if (threads <= 1) {
        struct ccl_host_block block = {.grid = grid, .idle = idle};
        for (; block.index < grid; block.index++) {
            fn(args, &block);
        }
        return;
    }
    /* Ticket 0 is the caller's, before any helper knows of the job. */
    struct job job = {.fn = fn, .args = args, .idle = idle, .grid = grid, .ticket = 1};
    pthread_mutex_lock(&pool.lock);
    start_helpers(threads - 1);
    job.next = pool.jobs;
    pool.jobs = &job;
    for (uint32_t i = 1; i < threads; i++) {
        pthread_cond_signal(&pool.work);
    }
    pthread_mutex_unlock(&pool.lock);

    take_tickets(&job, 0);

    pthread_mutex_lock(&pool.lock);
    struct job **link = &pool.jobs;
    while (*link != &job) {
        link = &(*link)->next;
    }
    *link = job.next;
    pthread_mutex_unlock(&pool.lock);
    wait_helpers(&job);
}
