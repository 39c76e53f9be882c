/* SPDX-License-Identifier: MIT
 *
 * Proves that cclCommAbort returns in under 5 s from another thread while its rank and the peers wait or exchange
 * data, that waits on all ranks end with cclRemoteError, late starters included, that parents, streams and memory
 * survive it, and that a new communicator works afterwards. */
/* CTEST: ranks 1 2 3 8; labels mpi host quick; timeout 60; args small */
/* CTEST: ranks 2 4 5 7; labels mpi host; timeout 60; args full */
#include <dirent.h>
#include <pthread.h>
#include <string.h>

#include "common.h"

#define LIMIT_S 5.0
#define MOST ((size_t)1 << 20) /* bytes of a part */

static cclStream_t stream;
static uint8_t *send_part, *recv_all; /* plain device memory, outlives every communicator */

struct aborter {
    cclComm_t comm;
    unsigned delay_ms;
    double seconds;
    cclResult_t rc;
};

static void *abort_later(void *argument)
{
    struct aborter *a = argument;
    double start;

    tm_sleep_ms(a->delay_ms);
    start = tm_now();
    a->rc = cclCommAbort(a->comm);
    a->seconds = tm_now() - start;
    return NULL;
}

static void start_aborter(pthread_t *thread, struct aborter *a, cclComm_t comm, unsigned delay_ms)
{
    memset(a, 0, sizeof(*a));
    a->comm = comm;
    a->delay_ms = delay_ms;
    if (pthread_create(thread, NULL, abort_later, a) != 0) {
        tm_die();
    }
}

static void join_aborter(pthread_t thread, const struct aborter *a)
{
    tm_at("waiting for cclCommAbort in the other thread");
    pthread_join(thread, NULL);
    TM_RC(a->rc, cclSuccess);
    TM_WITHIN("cclCommAbort", a->seconds, LIMIT_S);
}

static void new_world_works(void)
{
    cclComm_t comm = tm_comm_create(MPI_COMM_WORLD, NULL);
    struct tm_gather g;

    memset(&g, 0, sizeof(g));
    g.comm = comm;
    g.stream = stream;
    g.rank = tm_rank;
    g.n = tm_size;
    g.send = send_part + TM_GUARD;
    g.recv = recv_all + TM_GUARD;
    g.count = 5001;
    g.type = tm_type_of_size(4, 1);
    g.seed = 3;
    g.what = "new communicator after an abort";
    tm_gather(&g);
    g.count = 3;
    g.seed = 4;
    tm_gather(&g);
    TM_OK(cclCommDestroy(comm));
}

/* One all-gather that cannot succeed: the abort ends it, or has come before. */
static void expect_aborted(cclComm_t comm, size_t count, const cclCallConfig_t *config, const char *needle)
{
    cclResult_t rc = cclAllGather2D(send_part, count, recv_all, count, 1, count, cclUint8, config, comm, stream);

    if (rc == cclSuccess) {
        rc = cclStreamSynchronize(stream);
    }
    if (TM_RC(rc, cclRemoteError) && needle != NULL) {
        TM_TEXT(needle);
    }
}

/* The communicator of a rank that did not abort: dead within the limit, every further call says so, and it can be
 * released. */
static void check_dead(cclComm_t comm, const char *what)
{
    cclResult_t async = cclSuccess;
    double start = tm_now();

    while (async == cclSuccess && tm_now() - start < tm_limit(2 * LIMIT_S)) {
        TM_OK(cclCommGetAsyncError(comm, &async));
        tm_sleep_ms(1);
    }
    tm_expect(__FILE__, __LINE__, what, async, cclRemoteError);
    TM_WITHIN("async error of a peer's abort", tm_now() - start, LIMIT_S);
    expect_aborted(comm, 100, NULL, NULL);
    TM_OK(cclCommDestroy(comm));
}

/* The last rank is late. The aborting rank sits in cclStreamSynchronize while its other thread aborts. */
static void waiting(size_t count, int variant, int aborting)
{
    cclComm_t comm = tm_comm_create(MPI_COMM_WORLD, NULL);
    cclCallConfig_t config = CCL_CALL_CONFIG_INITIALIZER;
    int late = tm_size - 1;
    struct aborter a;
    pthread_t thread;
    double start = tm_now();
    char needle[32];

    config.variant = variant;
    snprintf(needle, sizeof(needle), "rank %d", aborting);
    MPI_Barrier(MPI_COMM_WORLD);
    if (tm_rank == aborting) {
        start_aborter(&thread, &a, comm, 100);
    }
    if (tm_rank == late) {
        tm_at("abort with a late starter: the late one");
        tm_sleep_ms(300);
    } else {
        tm_at("abort while waiting: count %zu, variant %d", count, variant);
        expect_aborted(comm, count, &config, needle);
        TM_WITHIN("wait ended by an abort", tm_now() - start, LIMIT_S);
    }
    if (tm_rank == aborting) {
        join_aborter(thread, &a);
    } else {
        check_dead(comm, "rank that did not abort");
    }
    new_world_works();
}

/* Every rank streams gathers of all kinds as fast as it can when the abort comes. */
/* Operations in the stream at the abort. cclCommAbort waits 4 s for all of them to be found out of date, which takes milliseconds for an interpreted one. */
static unsigned queued = 10000;

static void busy(int aborting, unsigned delay_ms, int variant)
{
    cclComm_t comm = tm_comm_create(MPI_COMM_WORLD, NULL);
    cclCallConfig_t config = CCL_CALL_CONFIG_INITIALIZER;
    cclResult_t rc = cclSuccess;
    struct aborter a;
    pthread_t thread;
    double end = tm_now() + tm_limit(2 * LIMIT_S);
    uint8_t *recv = recv_all, *send = send_part;

    config.variant = variant;
    if (variant == cclVariantDirect) {
        TM_MUST(cclMemAlloc(comm, (void **)&recv, MOST * (size_t)tm_size));
    } else if (variant == cclVariantCopy) {
        TM_MUST(cclMemAlloc(comm, (void **)&send, MOST));
    }
    tm_at("abort of rank %d under load, variant %d", aborting, variant);
    MPI_Barrier(MPI_COMM_WORLD);
    if (tm_rank == aborting) { /* a bounded number, enqueued before the abort: comm is gone when it returns */
        for (unsigned i = 0; i < queued && rc == cclSuccess; i++) {
            size_t count = i % 3 == 0 ? 100 : 20000;

            rc = cclAllGather2D(send, count, recv, count, 1, count, cclUint8, &config, comm, stream);
        }
        TM_RC(rc, cclSuccess);
        start_aborter(&thread, &a, comm, delay_ms);
        rc = cclStreamSynchronize(stream);
        join_aborter(thread, &a);
        if (rc != cclSuccess) { /* success only if all of them were through before */
            TM_RC(rc, cclRemoteError);
        }
    } else {
        for (unsigned i = 0; rc == cclSuccess && tm_now() < end; i++) {
            size_t count = i % 3 == 0 ? 100 : 20000;

            rc = cclAllGather2D(send, count, recv, count, 1, count, cclUint8, &config, comm, stream);
            if (rc == cclSuccess && i % 16 == 15) {
                rc = cclStreamSynchronize(stream);
            }
        }
        TM_RC(rc, cclRemoteError);
        (void)cclStreamSynchronize(stream); /* may report the same once more */
        check_dead(comm, "rank under load");
    }
    TM_OK(cclStreamSynchronize(stream));
    new_world_works();
}

static void idle(void)
{
    cclComm_t comm = tm_comm_create(MPI_COMM_WORLD, NULL), child = NULL;
    double start;

    tm_at("abort of a healthy idle communicator by all");
    TM_OK(cclAllGather(send_part, recv_all, 64, cclUint8, comm, stream));
    TM_OK(cclStreamSynchronize(stream));
    MPI_Barrier(MPI_COMM_WORLD); /* complete on every rank */
    start = tm_now();
    TM_OK(cclCommAbort(comm));
    TM_WITHIN("abort of an idle communicator", tm_now() - start, LIMIT_S);

    tm_at("abort of an idle communicator by one rank");
    comm = tm_comm_create(MPI_COMM_WORLD, NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    if (tm_rank == 0) {
        TM_OK(cclCommAbort(comm));
    } else {
        check_dead(comm, "idle peer");
    }

    tm_at("abort of a child, the parent lives");
    comm = tm_comm_create(MPI_COMM_WORLD, NULL);
    TM_MUST(cclCommSplit(comm, 0, -tm_rank, &child, NULL));
    MPI_Barrier(MPI_COMM_WORLD);
    if (tm_rank == tm_size / 2) {
        TM_OK(cclCommAbort(child));
    } else {
        check_dead(child, "peer of a child");
    }
    tm_at("gather on the parent of an aborted child");
    TM_OK(cclAllGather(send_part, recv_all, 6400, cclUint8, comm, stream));
    TM_OK(cclStreamSynchronize(stream));
    TM_OK(cclCommDestroy(comm));
    new_world_works();
}

/* All abort at once, half of them with an operation that can never finish. */
static void all_at_once(void)
{
    cclComm_t comm = tm_comm_create(MPI_COMM_WORLD, NULL);
    double start;

    tm_at("all abort at once");
    if (tm_rank % 2 == 1) {
        TM_OK(cclAllGather(send_part, recv_all, 9999, cclUint8, comm, stream));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    start = tm_now();
    TM_OK(cclCommAbort(comm));
    TM_WITHIN("abort by all", tm_now() - start, LIMIT_S);
    (void)cclStreamSynchronize(stream);
    TM_OK(cclStreamSynchronize(stream));
    new_world_works();
}

static int open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int number = 0;

    while (dir != NULL && readdir(dir) != NULL) {
        number++;
    }
    closedir(dir);
    return number;
}

/* Aborted communicators do not pile up. */
static void cycles(unsigned number)
{
    int before = 0, after;
    double end;

    for (unsigned i = 0; i < number; i++) {
        cclComm_t comm = tm_comm_create(MPI_COMM_WORLD, NULL);

        tm_at("abort cycle %u", i);
        if (tm_rank != tm_size - 1) {
            (void)cclAllGather(send_part, recv_all, 777, cclUint8, comm,
                               stream); /* the last rank may have aborted already */
        }
        TM_OK(cclCommAbort(comm));
        (void)cclStreamSynchronize(stream);
        before = i == 3 ? open_descriptors() : before;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    end = tm_now() + tm_limit(5.0);
    for (after = open_descriptors(); after > before && tm_now() < end; after = open_descriptors()) {
        cclComm_t comm = tm_comm_create(MPI_COMM_SELF, NULL); /* leftovers are collected at later calls */

        TM_OK(cclCommDestroy(comm));
        tm_sleep_ms(20);
    }
    if (after > before) {
        TEST_FAIL("%d descriptors open after %u aborts, %d after 4", after, number, before);
    }
}

int main(int argc, char **argv)
{
    bool full;

    TM_INIT(argc, argv);
    full = tm_has_arg("full");
    queued = tm_is_interpreted() ? 100 : queued;
    stream = tm_stream_create();
    TM_MUST(cclDeviceMalloc((void **)&send_part, MOST + 2 * TM_GUARD));
    TM_MUST(cclDeviceMalloc((void **)&recv_all, MOST * (size_t)tm_size + 2 * TM_GUARD));
    idle();
    all_at_once();
    if (tm_size > 1) {
        static const int variants[] = {cclVariantLL,          cclVariantStaged, cclVariantCopy, CCL_UNSET,
                                       cclVariantPartitioned, cclVariantDirect};

        waiting(64, cclVariantLL, 0);
        waiting(50000, CCL_UNSET, tm_size - 1); /* the late one aborts */
        if (full) {
            waiting(MOST, cclVariantStaged, 0);
            waiting(8, CCL_UNSET, tm_size / 2);
        }
        for (unsigned v = 0; v < (full ? 6 : 2); v++) {
            busy((int)v % tm_size, 3 + 7 * v, variants[(v + (full ? 0 : (unsigned)tm_size)) % 6]);
        }
    }
    cycles(full ? 30 : 10);
    TM_OK(cclDeviceFree(send_part));
    TM_OK(cclDeviceFree(recv_all));
    TM_OK(cclStreamDestroy(stream));
    return tm_finish();
}
