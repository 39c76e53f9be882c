/* SPDX-License-Identifier: MIT
 *
 * Proves how communicators come and go under NCCL's names, ranks being threads: every form of init, splits by color and key, shrinking without the
 * excluded ranks, revocation, aborts, groups of one thread. */
/* CTEST: labels quick tsan */
/* CTEST: args comm_id; env NCCL_COMM_ID=127.0.0.1:17934; labels quick; name comm_id */
#include "world.h"

static void init(struct world_rank *w, ncclComm_t *comm)
{
    *comm = NULL;
    TEST_EQ(ncclCommInitRank(comm, w->n, w->id, w->rank), ncclSuccess);
    TEST_CHECK(*comm != NULL);
}

static void run_init(struct world_rank *w)
{
    ncclComm_t comm;
    int device = -1;
    init(w, &comm);
    world_check(comm, w->rank, w->n, w->stream, "init");
    TEST_EQ(ncclCommCuDevice(comm, &device), ncclSuccess);
    TEST_CHECK(device >= 0);
    TEST_EQ(ncclCommFinalize(comm), ncclSuccess);
    TEST_EQ(ncclCommDestroy(comm), ncclSuccess);
}

static void run_scalable(struct world_rank *w)
{
    ncclComm_t comm = NULL;
    ncclUniqueId ids[2] = {w->id, w->id};
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    TEST_EQ(ncclCommInitRankScalable(&comm, w->n, w->rank, 2, ids, &config), ncclSuccess);
    world_check(comm, w->rank, w->n, w->stream, "scalable");
    TEST_EQ(ncclCommDestroy(comm), ncclSuccess);
}

/* Colors by parity, in descending order; only even ranks; the same again for all; alone. */
static void run_split(struct world_rank *w)
{
    ncclComm_t comm, child = NULL, none = (ncclComm_t)w;
    init(w, &comm);
    int half = w->rank % 2 == 0 ? (w->n + 1) / 2 : w->n / 2;
    TEST_EQ(ncclCommSplit(comm, w->rank % 2, -w->rank, &child, NULL), ncclSuccess);
    world_check(child, half - 1 - w->rank / 2, half, w->stream, "parity, key descends");
    /* The parent lives on beside it. */
    world_check(comm, w->rank, w->n, w->stream, "parent");
    ncclComm_t grandchild = NULL;
    TEST_EQ(ncclCommSplit(child, 0x7fffffff, 0, &grandchild, NULL), ncclSuccess);
    world_check(grandchild, half - 1 - w->rank / 2, half, w->stream, "duplicate of a child");
    TEST_EQ(ncclCommDestroy(child), ncclSuccess);
    world_check(grandchild, half - 1 - w->rank / 2, half, w->stream, "after its parent");
    TEST_EQ(ncclCommDestroy(grandchild), ncclSuccess);
    TEST_EQ(ncclCommSplit(comm, w->rank % 2 == 0 ? 5 : NCCL_SPLIT_NOCOLOR, 0, &none, NULL), ncclSuccess);
    if (w->rank % 2 != 0) {
        TEST_CHECK(none == NULL);
    } else {
        world_check(none, w->rank / 2, half, w->stream, "one color");
        TEST_EQ(ncclCommDestroy(none), ncclSuccess);
    }
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.splitShare = 1;
    TEST_EQ(ncclCommSplit(comm, w->rank, 0, &child, &config), ncclSuccess);
    world_check(child, 0, 1, w->stream, "alone");
    TEST_EQ(ncclCommDestroy(child), ncclSuccess);
    TEST_EQ(ncclCommDestroy(comm), ncclSuccess);
}

/* Without rank 0, which does not call; then, from the whole, without the last one. */
static void run_shrink(struct world_rank *w)
{
    ncclComm_t comm, child = NULL;
    int first = 0, last = w->n - 1;
    init(w, &comm);
    if (w->rank != first) {
        TEST_EQ(ncclCommShrink(comm, &first, 1, &child, NULL, NCCL_SHRINK_DEFAULT), ncclSuccess);
        world_check(child, w->rank - 1, w->n - 1, w->stream, "without rank 0");
        TEST_EQ(ncclCommDestroy(child), ncclSuccess);
    }
    world_wait(w);
    if (w->rank != last) {
        TEST_EQ(ncclCommShrink(comm, &last, 1, &child, NULL, NCCL_SHRINK_DEFAULT), ncclSuccess);
        world_check(child, w->rank, w->n - 1, w->stream, "without the last");
        TEST_EQ(ncclCommDestroy(child), ncclSuccess);
    }
    world_wait(w);
    TEST_EQ(ncclCommDestroy(comm), ncclSuccess);
}

/* One rank does not come to an operation. The others shrink it away: their operations end, the new communicator works. */
static void run_shrink_abort(struct world_rank *w)
{
    ncclComm_t comm, child = NULL;
    int lost = w->n - 1;
    void *buf = world_alloc((size_t)w->n * 64);
    init(w, &comm);
    if (w->rank != lost) {
        TEST_EQ(ncclAllGather(buf, buf, 64, ncclInt8, comm, w->stream), ncclSuccess);
    }
    world_wait(w);
    if (w->rank != lost) {
        TEST_EQ(ncclCommShrink(comm, &lost, 1, &child, NULL, NCCL_SHRINK_ABORT), ncclSuccess);
        TEST_EQ(cclStreamSynchronize((cclStream_t)w->stream), cclRemoteError);
        world_check(child, w->rank, w->n - 1, w->stream, "after an abort");
        ncclResult_t rc = ncclAllGather(buf, buf, 64, ncclInt8, comm, w->stream);
        TEST_EQ(rc, ncclRemoteError); /* what is left of the parent keeps its error */
        TEST_EQ(ncclCommDestroy(child), ncclSuccess);
    }
    world_wait(w);
    TEST_EQ(ncclCommAbort(comm), ncclSuccess);
    ncclMemFree(buf);
}

/* All ranks revoke while the operation of some waits; a split of the revoked communicator works. */
static void run_revoke(struct world_rank *w)
{
    ncclComm_t comm, child = NULL;
    void *buf = world_alloc((size_t)w->n * 64);
    init(w, &comm);
    if (w->rank != 0) {
        TEST_EQ(ncclAllGather(buf, buf, 64, ncclInt8, comm, w->stream), ncclSuccess);
    }
    world_wait(w);
    TEST_EQ(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT), ncclSuccess);
    cclStreamSynchronize((cclStream_t)w->stream);
    TEST_EQ(ncclAllGather(buf, buf, 64, ncclInt8, comm, w->stream), ncclInvalidUsage);
    TEST_EQ(ncclCommSplit(comm, 0, w->rank, &child, NULL), ncclSuccess);
    world_check(child, w->rank, w->n, w->stream, "split of a revoked one");
    TEST_EQ(ncclCommDestroy(child), ncclSuccess);
    TEST_EQ(ncclCommDestroy(comm), ncclSuccess);
    ncclMemFree(buf);
}

/* Rank 0 aborts instead of joining: the others' operation ends, the error is theirs, and their abort returns at once. */
static void run_abort(struct world_rank *w)
{
    ncclComm_t comm;
    ncclResult_t state = ncclSuccess;
    void *buf = world_alloc((size_t)w->n * 64), *handle = NULL;
    ncclWindow_t win = NULL;
    init(w, &comm);
    TEST_EQ(ncclCommRegister(comm, buf, (size_t)w->n * 64, &handle), ncclSuccess);
    TEST_EQ(ncclCommWindowRegister(comm, buf, (size_t)w->n * 64, &win, NCCL_WIN_COLL_SYMMETRIC), ncclSuccess);
    if (w->rank != 0) {
        TEST_EQ(ncclAllGather(buf, buf, 64, ncclInt8, comm, w->stream), ncclSuccess);
    }
    world_wait(w);
    if (w->rank != 0) {
        TEST_EQ(cclStreamSynchronize((cclStream_t)w->stream), cclRemoteError);
        TEST_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
        TEST_EQ(state, ncclRemoteError);
        TEST_EQ(ncclAllGather(buf, buf, 64, ncclInt8, comm, w->stream), ncclRemoteError); /* the next call returns it */
        TEST_EQ(ncclCommDeregister(comm, handle), ncclSuccess);
        TEST_EQ(ncclCommDeregister(comm, win), ncclSuccess);
    }
    double start = world_seconds();
    TEST_EQ(ncclCommAbort(comm), ncclSuccess);
    TEST_CHECK(world_seconds() - start < 5);
    world_wait(w);
    ncclMemFree(buf);
}

/* Ranks that disagree: both sides are named, nothing hangs. */
static void run_mismatch(struct world_rank *w)
{
    ncclComm_t comm;
    ncclResult_t state = ncclSuccess;
    void *buf = world_alloc(4096);
    init(w, &comm);
    TEST_EQ(ncclAllGather(buf, buf, w->rank == 0 ? 8 : 16, ncclInt8, comm, w->stream), ncclSuccess);
    TEST_EQ(cclStreamSynchronize((cclStream_t)w->stream), cclInvalidUsage);
    TEST_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
    TEST_EQ(state, ncclInvalidUsage);
    const char *text = ncclGetLastError(comm);
    if (strstr(text, "count 8 ") == NULL || strstr(text, "count 16 ") == NULL) {
        TEST_FAIL("\"%s\" does not name both calls", text);
    }
    world_wait(w);
    TEST_EQ(ncclCommAbort(comm), ncclSuccess);
    ncclMemFree(buf);
}

/* One rank never comes: it returns at once with an error, the others by their deadline, comm is NULL. Here: another number of ranks. */
static void run_disagree(struct world_rank *w)
{
    ncclComm_t comm = (ncclComm_t)w;
    TEST_EQ(ncclCommInitRank(&comm, w->n + (w->rank == 0), w->id, w->rank), ncclInvalidUsage);
    TEST_CHECK(comm == NULL);
}

/* All ranks in one thread: init, operations, split, end, all in groups. */
static void test_one_thread(int n)
{
    ncclComm_t comms[WORLD_MAX], children[WORLD_MAX];
    int *send[WORLD_MAX], *recv[WORLD_MAX], got[WORLD_MAX];
    cclStream_t streams[WORLD_MAX];
    TEST_EQ(ncclCommInitAll(comms, n, NULL), ncclSuccess);
    for (int i = 0; i < n; i++) {
        TEST_EQ(cclStreamCreate(&streams[i]), cclSuccess);
        send[i] = world_alloc(sizeof(int));
        recv[i] = world_alloc(sizeof(int) * WORLD_MAX);
    }
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < n; i++) {
            int value = 100 * round + i;
            world_put(send[i], &value, sizeof(value), (cudaStream_t)streams[i]);
        }
        TEST_EQ(ncclGroupStart(), ncclSuccess);
        for (int i = 0; i < n; i++) {
            TEST_EQ(ncclGroupStart(), ncclSuccess); /* as every NCCL call is one */
            TEST_EQ(ncclAllGather(send[i], recv[i], 1, ncclInt32, comms[i], round == 0 ? NULL : (cudaStream_t)streams[i]), ncclSuccess);
            TEST_EQ(ncclGroupEnd(), ncclSuccess);
        }
        TEST_EQ(ncclGroupEnd(), ncclSuccess);
        TEST_EQ(cclStreamSynchronize(NULL), cclSuccess);
        for (int i = 0; i < n; i++) {
            TEST_EQ(cclStreamSynchronize(streams[i]), cclSuccess);
            world_put(got, recv[i], sizeof(int) * (size_t)n, (cudaStream_t)streams[i]);
            for (int r = 0; r < n; r++) {
                TEST_EQ(got[r], 100 * round + r);
            }
        }
    }
    TEST_EQ(ncclGroupStart(), ncclSuccess);
    for (int i = 0; i < n; i++) {
        TEST_EQ(ncclCommSplit(comms[i], i == 0 ? NCCL_SPLIT_NOCOLOR : 1, n - i, &children[i], NULL), ncclSuccess);
    }
    TEST_EQ(ncclGroupEnd(), ncclSuccess);
    for (int i = 0; i < n; i++) {
        int rank = -1;
        TEST_EQ(children[i] == NULL, i == 0);
        if (i > 0) {
            TEST_EQ(ncclCommUserRank(children[i], &rank), ncclSuccess);
            TEST_EQ(rank, n - 1 - i);
        }
    }
    TEST_EQ(ncclGroupStart(), ncclSuccess);
    for (int i = 0; i < n; i++) {
        TEST_EQ(ncclAllGather(send[i], recv[i], 1, ncclInt32, comms[i], (cudaStream_t)streams[i]), ncclSuccess);
        TEST_EQ(ncclCommFinalize(comms[i]), ncclSuccess);
        TEST_EQ(ncclCommDestroy(comms[i]), ncclSuccess);
        TEST_EQ(ncclCommDestroy(children[i]), ncclSuccess);
    }
    TEST_EQ(ncclGroupEnd(), ncclSuccess);
    for (int i = 0; i < n; i++) {
        TEST_EQ(cclStreamDestroy(streams[i]), cclSuccess);
        ncclMemFree(send[i]);
        ncclMemFree(recv[i]);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "comm_id") == 0) {
        for (int i = 0; i < 3; i++) { /* one address, again and again */
            world_run(3, run_init, NULL);
        }
        return test_result();
    }
    world_run(1, run_init, NULL);
    world_run(3, run_init, NULL);
    world_run(3, run_scalable, NULL);
    world_run(5, run_split, NULL);
    world_run(4, run_shrink, NULL);
    world_run(3, run_shrink_abort, NULL);
    world_run(3, run_revoke, NULL);
    world_run(3, run_abort, NULL);
    world_run(2, run_mismatch, NULL);
    world_run(2, run_disagree, NULL);
    test_one_thread(1);
    test_one_thread(4);
    return test_result();
}
