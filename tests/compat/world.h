/* SPDX-License-Identifier: MIT
 *
 * Ranks as threads of one process, with NCCL's names, for the tests of the drop-in libraries. Memory is device memory, filled and read by copies, so that
 * the tests run on every backend. */
#ifndef CCL_TESTS_COMPAT_WORLD_H
#define CCL_TESTS_COMPAT_WORLD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ccl/ccl.h"
#include "nccl.h"
#include "test.h"

#define WORLD_MAX 8

struct world_rank {
    int rank, n;
    ncclUniqueId id;
    cudaStream_t stream;
    void (*run)(struct world_rank *w);
    pthread_barrier_t *barrier;
    void *shared;
};

static inline void *world_thread(void *arg)
{
    struct world_rank *w = arg;
    cclStream_t stream;
    if (cclStreamCreate(&stream) != cclSuccess) {
        TEST_FAIL("no stream");
        return NULL;
    }
    w->stream = (cudaStream_t)stream;
    w->run(w);
    cclStreamDestroy(stream);
    return NULL;
}

/* run in n threads at once, with one id. */
static inline void world_run(int n, void (*run)(struct world_rank *), void *shared)
{
    struct world_rank ranks[WORLD_MAX];
    pthread_t threads[WORLD_MAX];
    pthread_barrier_t barrier;
    ncclUniqueId id;
    TEST_EQ(ncclGetUniqueId(&id), ncclSuccess);
    pthread_barrier_init(&barrier, NULL, (unsigned)n);
    for (int i = 0; i < n; i++) {
        ranks[i] = (struct world_rank){.rank = i, .n = n, .id = id, .run = run, .barrier = &barrier, .shared = shared};
        pthread_create(&threads[i], NULL, world_thread, &ranks[i]);
    }
    for (int i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
    }
    pthread_barrier_destroy(&barrier);
}

static inline void world_wait(struct world_rank *w)
{
    pthread_barrier_wait(w->barrier);
}

static inline void *world_alloc(size_t bytes)
{
    void *p = NULL;
    TEST_EQ(ncclMemAlloc(&p, bytes), ncclSuccess);
    return p;
}

static inline void world_put(void *dst, const void *src, size_t bytes, cudaStream_t stream)
{
    TEST_EQ(cclMemcpyAsync(dst, src, bytes, (cclStream_t)stream), cclSuccess);
    TEST_EQ(cclStreamSynchronize((cclStream_t)stream), cclSuccess);
}

/* An all-gather of 64 ints a rank, checked. The communicator works, and has this rank and size. */
static inline void world_check(ncclComm_t comm, int rank, int n, cudaStream_t stream, const char *what)
{
    enum { COUNT = 64 };
    int mine[COUNT], got[COUNT * WORLD_MAX], count = -1, its_rank = -1;
    int *send = world_alloc(sizeof(mine)), *recv = world_alloc(sizeof(got));
    for (int i = 0; i < COUNT; i++) {
        mine[i] = rank * 1000 + i;
    }
    TEST_EQ(ncclCommCount(comm, &count), ncclSuccess);
    TEST_EQ(ncclCommUserRank(comm, &its_rank), ncclSuccess);
    if (count != n || its_rank != rank) {
        TEST_FAIL("%s: rank %d of %d, want %d of %d", what, its_rank, count, rank, n);
    } else {
        world_put(send, mine, sizeof(mine), stream);
        ncclResult_t rc = ncclAllGather(send, recv, COUNT, ncclInt32, comm, stream);
        if (rc != ncclSuccess) {
            TEST_FAIL("%s: ncclAllGather %d: %s", what, (int)rc, ncclGetLastError(comm));
        }
        TEST_EQ(cclStreamSynchronize((cclStream_t)stream), cclSuccess);
        world_put(got, recv, sizeof(int) * COUNT * (size_t)n, stream);
        for (int i = 0; i < COUNT * n; i++) {
            if (got[i] != i / COUNT * 1000 + i % COUNT) {
                TEST_FAIL("%s: element %d is %d, want %d", what, i, got[i], i / COUNT * 1000 + i % COUNT);
                break;
            }
        }
    }
    ncclMemFree(send);
    ncclMemFree(recv);
}

/* Poll until comm is in progress no more; its state, or ncclInProgress after 20 s. */
static inline ncclResult_t world_poll(ncclComm_t comm)
{
    ncclResult_t state = ncclInProgress;
    for (int ms = 0; ms < 20000 && state == ncclInProgress; ms++) {
        TEST_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
        if (state == ncclInProgress) {
            usleep(1000);
        }
    }
    return state;
}

static inline double world_seconds(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

#endif
