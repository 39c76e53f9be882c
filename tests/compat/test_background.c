/* SPDX-License-Identifier: MIT
 *
 * Proves non-blocking communicators: calls come back at once, polling sees them end, nothing else is accepted meanwhile, an abort or a destroy ends
 * what still waits for other ranks, and errors of such calls are those of the communicator. */
/* CTEST: labels quick tsan; timeout 60 */
/* CTEST: args forced; env NCCL_COMM_BLOCKING=0; labels quick; name forced */
#include "world.h"

static ncclResult_t init(struct world_rank *w, ncclComm_t *comm)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclResult_t rc = ncclCommInitRankConfig(comm, w->n, w->id, w->rank, &config);
    TEST_CHECK(*comm != NULL);
    TEST_CHECK(rc == ncclInProgress || rc == ncclSuccess);
    return rc;
}

static void run_life(struct world_rank *w)
{
    ncclComm_t comm = NULL, child = (ncclComm_t)w, shrunk = NULL;
    double start = world_seconds();
    init(w, &comm);
    TEST_CHECK(world_seconds() - start < 0.5);
    TEST_EQ(world_poll(comm), ncclSuccess);
    world_check(comm, w->rank, w->n, w->stream, "init");

    ncclResult_t rc = ncclCommSplit(comm, w->rank == 0 ? NCCL_SPLIT_NOCOLOR : 3, 0, &child, NULL);
    TEST_CHECK(rc == ncclInProgress || rc == ncclSuccess);
    TEST_EQ(world_poll(comm), ncclSuccess);
    ncclComm_t seen = __atomic_load_n(&child, __ATOMIC_ACQUIRE);
    TEST_EQ(seen == NULL, w->rank == 0);
    if (w->rank != 0) {
        TEST_EQ(world_poll(seen), ncclSuccess);
        world_check(seen, w->rank - 1, w->n - 1, w->stream, "split");
        rc = ncclCommFinalize(seen);
        TEST_CHECK(rc == ncclInProgress || rc == ncclSuccess);
        TEST_EQ(world_poll(seen), ncclSuccess);
        TEST_EQ(ncclCommDestroy(seen), ncclSuccess);
    }
    int last = w->n - 1;
    if (w->rank != last) {
        rc = ncclCommShrink(comm, &last, 1, &shrunk, NULL, NCCL_SHRINK_DEFAULT);
        TEST_CHECK(rc == ncclInProgress || rc == ncclSuccess);
        TEST_EQ(world_poll(comm), ncclSuccess);
        world_check(__atomic_load_n(&shrunk, __ATOMIC_ACQUIRE), w->rank, w->n - 1, w->stream, "shrink");
        TEST_EQ(ncclCommDestroy(shrunk), ncclSuccess);
    }
    TEST_EQ(ncclCommDestroy(comm), ncclSuccess); /* blocks by itself */
}

/* Nobody else comes. A destroy in another thread waits until the abort. */
static void *destroy_it(void *comm)
{
    TEST_EQ(ncclCommDestroy(comm), ncclSuccess);
    return NULL;
}

static void test_alone(bool destroy)
{
    struct world_rank w = {.rank = 0, .n = 2};
    ncclComm_t comm = NULL, child = NULL;
    ncclResult_t state = ncclSuccess;
    int value;
    pthread_t thread;
    TEST_EQ(ncclGetUniqueId(&w.id), ncclSuccess);
    double start = world_seconds();
    TEST_EQ(init(&w, &comm), ncclInProgress);
    TEST_CHECK(world_seconds() - start < 0.1);
    usleep(50000);
    TEST_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
    TEST_EQ(state, ncclInProgress);
    TEST_EQ(ncclAllGather(comm, comm, 1, ncclInt8, comm, NULL), ncclInvalidArgument);
    TEST_CHECK(strstr(ncclGetLastError(comm), "before the previous operation returned ncclSuccess") != NULL);
    TEST_EQ(ncclCommCount(comm, &value), ncclInvalidArgument);
    TEST_EQ(ncclCommSplit(comm, 0, 0, &child, NULL), ncclInvalidArgument);
    TEST_EQ(ncclCommFinalize(comm), ncclInvalidArgument);
    TEST_EQ(ncclCommRevoke(comm, 0), ncclInvalidArgument);
    if (destroy) {
        pthread_create(&thread, NULL, destroy_it, comm);
        usleep(100000);
    }
    start = world_seconds();
    TEST_EQ(ncclCommAbort(comm), ncclSuccess);
    if (destroy) {
        pthread_join(thread, NULL);
    }
    double took = world_seconds() - start;
    if (took > 2) {
        TEST_FAIL("abort of a waiting init took %.2f s", took);
    }
}

/* A blocking init in another thread, aborted. */
struct blocked {
    ncclUniqueId id;
    ncclComm_t comm;
    ncclResult_t rc;
};

static void *block(void *arg)
{
    struct blocked *b = arg;
    b->rc = ncclCommInitRank(&b->comm, 2, b->id, 1);
    return NULL;
}

static void test_blocked(void)
{
    struct blocked b = {.comm = NULL};
    ncclComm_t comm = NULL;
    pthread_t thread;
    TEST_EQ(ncclGetUniqueId(&b.id), ncclSuccess);
    pthread_create(&thread, NULL, block, &b);
    for (int ms = 0; ms < 5000 && comm == NULL; ms++) {
        usleep(1000);
        comm = __atomic_load_n(&b.comm, __ATOMIC_ACQUIRE);
    }
    usleep(20000);
    double start = world_seconds();
    TEST_EQ(ncclCommAbort(comm), ncclSuccess);
    pthread_join(thread, NULL);
    TEST_CHECK(world_seconds() - start < 2);
    TEST_CHECK(b.rc != ncclSuccess);
    TEST_CHECK(b.comm == NULL);
}

/* An error in the background is the communicator's, and its handle stays for the abort. */
static void run_failed(struct world_rank *w)
{
    ncclComm_t comm = NULL;
    w->n += w->rank == 0; /* the ranks do not agree how many they are */
    init(w, &comm);
    TEST_EQ(world_poll(comm), ncclInvalidUsage);
    TEST_EQ(ncclAllGather(comm, comm, 1, ncclInt8, comm, NULL), ncclInvalidUsage);
    TEST_EQ(ncclCommAbort(comm), ncclSuccess);
}

/* A split to which one rank does not come, and the abort of the others. */
static void run_split_abort(struct world_rank *w)
{
    ncclComm_t comm = NULL, child = NULL;
    init(w, &comm);
    TEST_EQ(world_poll(comm), ncclSuccess);
    world_wait(w);
    if (w->rank != 1) {
        TEST_EQ(ncclCommSplit(comm, 0, 0, &child, NULL), ncclInProgress);
        usleep(20000);
    }
    world_wait(w);
    double start = world_seconds();
    TEST_EQ(ncclCommAbort(comm), ncclSuccess);
    TEST_CHECK(world_seconds() - start < 5);
    TEST_CHECK(child == NULL);
}

/* All ranks in one thread. */
static void test_group(int n)
{
    ncclComm_t comms[WORLD_MAX] = {NULL}, children[WORLD_MAX];
    ncclUniqueId id;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    cclStream_t streams[WORLD_MAX];
    int *buf[WORLD_MAX], got[WORLD_MAX];
    config.blocking = 0;
    TEST_EQ(ncclGetUniqueId(&id), ncclSuccess);
    TEST_EQ(ncclGroupStart(), ncclSuccess);
    for (int i = 0; i < n; i++) {
        ncclResult_t rc = ncclCommInitRankConfig(&comms[i], n, id, i, &config);
        TEST_CHECK(rc == ncclInProgress || rc == ncclSuccess);
    }
    TEST_EQ(ncclGroupEnd(), ncclInProgress);
    for (int i = 0; i < n; i++) {
        TEST_EQ(world_poll(comms[i]), ncclSuccess);
        TEST_EQ(cclStreamCreate(&streams[i]), cclSuccess);
        buf[i] = world_alloc(sizeof(int) * WORLD_MAX);
        int value = 7 * i;
        world_put(buf[i] + i, &value, sizeof(value), (cudaStream_t)streams[i]);
    }
    TEST_EQ(ncclGroupStart(), ncclSuccess);
    for (int i = 0; i < n; i++) {
        TEST_EQ(ncclAllGather(buf[i] + i, buf[i], 1, ncclInt32, comms[i], (cudaStream_t)streams[i]), ncclSuccess);
    }
    ncclResult_t rc = ncclGroupEnd();
    TEST_CHECK(rc == ncclSuccess || rc == ncclInProgress);
    for (int i = 0; i < n; i++) {
        TEST_EQ(world_poll(comms[i]), ncclSuccess);
        TEST_EQ(cclStreamSynchronize(streams[i]), cclSuccess);
        world_put(got, buf[i], sizeof(int) * (size_t)n, (cudaStream_t)streams[i]);
        for (int r = 0; r < n; r++) {
            TEST_EQ(got[r], 7 * r);
        }
    }
    TEST_EQ(ncclGroupStart(), ncclSuccess);
    for (int i = 0; i < n; i++) {
        rc = ncclCommSplit(comms[i], 0, -i, &children[i], NULL);
        TEST_CHECK(rc == ncclInProgress || rc == ncclSuccess);
    }
    TEST_EQ(ncclGroupEnd(), ncclInProgress);
    for (int i = 0; i < n; i++) {
        int rank = -1;
        TEST_EQ(world_poll(comms[i]), ncclSuccess);
        TEST_EQ(ncclCommUserRank(__atomic_load_n(&children[i], __ATOMIC_ACQUIRE), &rank), ncclSuccess);
        TEST_EQ(rank, n - 1 - i);
    }
    TEST_EQ(ncclGroupStart(), ncclSuccess);
    for (int i = 0; i < n; i++) {
        rc = ncclCommFinalize(comms[i]);
        TEST_CHECK(rc == ncclInProgress || rc == ncclSuccess);
        TEST_EQ(ncclCommDestroy(comms[i]), ncclSuccess);
        TEST_EQ(ncclCommDestroy(children[i]), ncclSuccess);
    }
    rc = ncclGroupEnd();
    TEST_CHECK(rc == ncclSuccess || rc == ncclInProgress);
    for (int i = 0; i < n; i++) {
        TEST_EQ(cclStreamDestroy(streams[i]), cclSuccess);
        ncclMemFree(buf[i]);
    }
    /* A group that fails starts nothing; the handles are there to be aborted. */
    TEST_EQ(ncclGetUniqueId(&id), ncclSuccess);
    TEST_EQ(ncclGroupStart(), ncclSuccess);
    rc = ncclCommInitRankConfig(&comms[0], 2, id, 0, &config);
    TEST_CHECK(rc == ncclInProgress || rc == ncclSuccess);
    TEST_EQ(ncclCommInitRankConfig(&comms[1], 2, id, 2, &config), ncclInvalidArgument);
    TEST_EQ(ncclGroupEnd(), ncclInvalidArgument);
    TEST_EQ(world_poll(comms[0]), ncclInvalidArgument);
    TEST_EQ(ncclCommAbort(comms[0]), ncclSuccess);
}

/* NCCL_COMM_BLOCKING=0 makes every communicator one of these. */
static void run_forced(struct world_rank *w)
{
    ncclComm_t comm = NULL;
    ncclResult_t rc = ncclCommInitRank(&comm, w->n, w->id, w->rank);
    TEST_CHECK(rc == ncclInProgress || rc == ncclSuccess);
    TEST_EQ(world_poll(comm), ncclSuccess);
    world_check(comm, w->rank, w->n, w->stream, "forced");
    TEST_EQ(ncclCommDestroy(comm), ncclSuccess);
}

static void test_forced_alone(void)
{
    ncclUniqueId id;
    ncclComm_t comm = NULL;
    TEST_EQ(ncclGetUniqueId(&id), ncclSuccess);
    TEST_EQ(ncclCommInitRank(&comm, 2, id, 0), ncclInProgress);
    TEST_EQ(ncclCommAbort(comm), ncclSuccess);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "forced") == 0) {
        world_run(3, run_forced, NULL);
        test_forced_alone();
        return test_result();
    }
    world_run(3, run_life, NULL);
    test_alone(false);
    test_alone(true);
    test_blocked();
    world_run(2, run_failed, NULL);
    world_run(3, run_split_abort, NULL);
    test_group(3);
    return test_result();
}
