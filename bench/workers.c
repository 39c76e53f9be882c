/* SPDX-License-Identifier: MIT
 *
 * Threads that fill and check large buffers: a rank takes its share of the cores it may run on. Each has a stream and two chunks of host
 * memory, so that one copies while another compares. Small buffers are done by the calling thread alone. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench.h"

struct job {
    bench_chunk_fn body;
    void *ctx;
    size_t bytes, next; /* next: taken with fetch-add */
    int device;
    cclResult_t rc;
    pthread_mutex_t lock; /* of rc and wrong */
    long long wrong;
};

struct hand {
    struct job *job;
    struct bench_worker *worker;
};

static int worker_count(int ranks)
{
    cpu_set_t set;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    int mine = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    int share = (int)(online / ranks), count = share < mine ? share : mine;

    return count < 1 ? 1 : count > BENCH_MAX_WORKERS ? BENCH_MAX_WORKERS : count;
}

void bench_workers_destroy(struct bench_session *s)
{
    for (int i = 0; i < BENCH_MAX_WORKERS; i++) {
        struct bench_worker *w = &s->workers[i];
        if (w->stream != NULL) {
            cclStreamDestroy(w->stream);
        }
        free(w->stage);
        free(w->expect);
        *w = (struct bench_worker){0};
    }
    s->worker_count = 0;
}

cclResult_t bench_workers_create(struct bench_session *s)
{
    cclResult_t rc = cclGetDevice(&s->device);
    int count = worker_count(s->ranks);

    for (int i = 0; i < count && rc == cclSuccess; i++) {
        struct bench_worker *w = &s->workers[i];
        w->stage = malloc(BENCH_CHUNK);
        w->expect = malloc(BENCH_CHUNK);
        rc = w->stage == NULL || w->expect == NULL ? cclSystemError : cclStreamCreate(&w->stream);
    }
    s->worker_count = count;
    return rc;
}

static void *work(void *argument)
{
    struct hand *hand = argument;
    struct job *job = hand->job;
    cclResult_t rc = cclSetDevice(job->device);
    long long wrong = 0;

    while (rc == cclSuccess) {
        size_t off = __atomic_fetch_add(&job->next, BENCH_CHUNK, __ATOMIC_RELAXED);
        if (off >= job->bytes) {
            break;
        }
        size_t left = job->bytes - off;
        rc = job->body(job->ctx, hand->worker, off, left < BENCH_CHUNK ? left : BENCH_CHUNK, &wrong);
    }
    pthread_mutex_lock(&job->lock);
    job->rc = job->rc == cclSuccess ? rc : job->rc;
    job->wrong += wrong;
    pthread_mutex_unlock(&job->lock);
    return NULL;
}

cclResult_t bench_chunks(struct bench_session *s, size_t bytes, bench_chunk_fn body, void *ctx, long long *wrong)
{
    struct job job = {.body = body, .ctx = ctx, .bytes = bytes, .device = s->device, .rc = cclSuccess};
    struct hand hands[BENCH_MAX_WORKERS];
    pthread_t threads[BENCH_MAX_WORKERS];
    size_t chunks = (bytes + BENCH_CHUNK - 1) / BENCH_CHUNK;
    int wanted = chunks < (size_t)s->worker_count ? (int)chunks : s->worker_count, started = 1;

    pthread_mutex_init(&job.lock, NULL);
    for (int i = 0; i < wanted; i++) {
        hands[i] = (struct hand){&job, &s->workers[i]};
    }
    while (started < wanted && pthread_create(&threads[started], NULL, work, &hands[started]) == 0) {
        started++;
    }
    if (wanted > 0) {
        work(&hands[0]);
    }
    for (int i = 1; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
    pthread_mutex_destroy(&job.lock);
    if (wrong != NULL) {
        *wrong = job.wrong;
    }
    return job.rc;
}
