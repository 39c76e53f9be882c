/* SPDX-License-Identifier: MIT
 *
 * Proves that what NCCL refuses is refused with the same code: the table of argument checks, row by row, on live communicators of one process. Rows that
 * need peers which disagree, die or abort are in test_life.c and test_mpi_coll.c. */
/* CTEST: labels quick */
/* CTEST: args pointers; env NCCL_CHECK_POINTERS=1; labels quick */
/* CTEST: args mode; env NCCL_CHECK_MODE=DEBUG_LOCAL; labels quick */
/* CTEST: args lone; env NCCL_MULTI_RANK_GPU_ENABLE=0; labels quick */
#include "world.h"

#define REFUSED(call, code)                                                                             \
    do {                                                                                                \
        ncclResult_t refused_ = (call);                                                                 \
        if (refused_ != (code)) {                                                                       \
            TEST_FAIL("%s: %d, want %d (%s)", #call, (int)refused_, (int)(code), ncclGetLastError(NULL)); \
        }                                                                                               \
    } while (0)

static ncclComm_t one(void)
{
    ncclComm_t comm = NULL;
    ncclUniqueId id;
    TEST_EQ(ncclGetUniqueId(&id), ncclSuccess);
    TEST_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclSuccess);
    return comm;
}

/* Every collective with one argument wrong. */
static void test_collectives(ncclComm_t comm, void *buf, cudaStream_t s)
{
    const ncclDataType_t f = ncclFloat32;
    struct {
        char bytes[4096];
    } garbage;
    memset(&garbage, 0x5a, sizeof(garbage));
    ncclComm_t bad[] = {NULL, (ncclComm_t)(void *)&garbage};
    for (int i = 0; i < 2; i++) {
        REFUSED(ncclAllGather(buf, buf, 1, f, bad[i], s), ncclInvalidArgument);
        REFUSED(ncclAllReduce(buf, buf, 1, f, ncclSum, bad[i], s), ncclInvalidArgument);
        REFUSED(ncclReduce(buf, buf, 1, f, ncclSum, 0, bad[i], s), ncclInvalidArgument);
        REFUSED(ncclReduceScatter(buf, buf, 1, f, ncclSum, bad[i], s), ncclInvalidArgument);
        REFUSED(ncclBroadcast(buf, buf, 1, f, 0, bad[i], s), ncclInvalidArgument);
        REFUSED(ncclBcast(buf, 1, f, 0, bad[i], s), ncclInvalidArgument);
        REFUSED(ncclGather(buf, buf, 1, f, 0, bad[i], s), ncclInvalidArgument);
        REFUSED(ncclScatter(buf, buf, 1, f, 0, bad[i], s), ncclInvalidArgument);
        REFUSED(ncclAlltoAll(buf, buf, 1, f, bad[i], s), ncclInvalidArgument);
        REFUSED(ncclSend(buf, 1, f, 0, bad[i], s), ncclInvalidArgument);
        REFUSED(ncclRecv(buf, 1, f, 0, bad[i], s), ncclInvalidArgument);
    }
    for (int i = 0; i < 2; i++) {
        int root = i == 0 ? -1 : 1;
        REFUSED(ncclReduce(buf, buf, 1, f, ncclSum, root, comm, s), ncclInvalidArgument);
        REFUSED(ncclBroadcast(buf, buf, 1, f, root, comm, s), ncclInvalidArgument);
        REFUSED(ncclBcast(buf, 1, f, root, comm, s), ncclInvalidArgument);
        REFUSED(ncclGather(buf, buf, 1, f, root, comm, s), ncclInvalidArgument);
        REFUSED(ncclScatter(buf, buf, 1, f, root, comm, s), ncclInvalidArgument);
        REFUSED(ncclSend(buf, 1, f, root, comm, s), ncclInvalidArgument);
        REFUSED(ncclRecv(buf, 1, f, root, comm, s), ncclInvalidArgument);
        ncclDataType_t type = (ncclDataType_t)(i == 0 ? -1 : ncclNumTypes);
        REFUSED(ncclAllGather(buf, buf, 1, type, comm, s), ncclInvalidArgument);
        REFUSED(ncclAllReduce(buf, buf, 1, type, ncclSum, comm, s), ncclInvalidArgument);
        REFUSED(ncclBroadcast(buf, buf, 1, type, 0, comm, s), ncclInvalidArgument);
        REFUSED(ncclAlltoAll(buf, buf, 1, type, comm, s), ncclInvalidArgument);
        REFUSED(ncclSend(buf, 1, type, 0, comm, s), ncclInvalidArgument);
        ncclRedOp_t op = (ncclRedOp_t)(i == 0 ? -1 : 77);
        REFUSED(ncclAllReduce(buf, buf, 1, f, op, comm, s), ncclInvalidArgument);
        REFUSED(ncclReduce(buf, buf, 1, f, op, 0, comm, s), ncclInvalidArgument);
        REFUSED(ncclReduceScatter(buf, buf, 1, f, op, comm, s), ncclInvalidArgument);
    }
    /* Nothing to do, and nothing wrong. */
    REFUSED(ncclAllGather(NULL, NULL, 0, f, comm, s), ncclSuccess);
    REFUSED(ncclAllReduce(NULL, NULL, 0, f, ncclSum, comm, s), ncclSuccess);
    REFUSED(ncclBroadcast(NULL, NULL, 0, f, 0, comm, s), ncclSuccess);
}

static void test_operators(ncclComm_t comm, void *buf, cudaStream_t s)
{
    float scalar = 2;
    ncclRedOp_t op;
    ncclComm_t other = one();
    REFUSED(ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat32, ncclScalarHostImmediate, NULL), ncclInvalidArgument);
    REFUSED(ncclRedOpCreatePreMulSum(NULL, &scalar, ncclFloat32, ncclScalarHostImmediate, comm), ncclInvalidArgument);
    REFUSED(ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat32, ncclScalarHostImmediate, comm), ncclSuccess);
    TEST_CHECK((int)op >= ncclNumOps);
    REFUSED(ncclAllReduce(buf, buf, 1, ncclFloat64, op, comm, s), ncclInvalidArgument); /* made for another type */
    REFUSED(ncclAllReduce(buf, buf, 1, ncclFloat32, op, other, s), ncclInvalidArgument);
    REFUSED(ncclRedOpDestroy(op, NULL), ncclInvalidArgument);
    REFUSED(ncclRedOpDestroy(op, other), ncclInvalidArgument);
    REFUSED(ncclRedOpDestroy(ncclSum, comm), ncclInvalidArgument);
    REFUSED(ncclRedOpDestroy((ncclRedOp_t)12345, comm), ncclInvalidArgument);
    REFUSED(ncclRedOpDestroy(op, comm), ncclSuccess);
    REFUSED(ncclRedOpDestroy(op, comm), ncclInvalidArgument);
    TEST_EQ(ncclCommDestroy(other), ncclSuccess);
}

static void test_communicators(ncclComm_t comm)
{
    int value;
    ncclResult_t state;
    ncclUniqueId id, no_id;
    ncclComm_t made = comm;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    TEST_EQ(ncclGetUniqueId(&id), ncclSuccess);
    REFUSED(ncclCommDestroy(NULL), ncclSuccess);
    REFUSED(ncclCommAbort(NULL), ncclSuccess);
    REFUSED(ncclCommFinalize(NULL), ncclSuccess);
    REFUSED(ncclCommRevoke(NULL, 0), ncclSuccess);
    REFUSED(ncclCommCount(comm, NULL), ncclInvalidArgument);
    REFUSED(ncclCommUserRank(comm, NULL), ncclInvalidArgument);
    REFUSED(ncclCommCuDevice(comm, NULL), ncclInvalidArgument);
    REFUSED(ncclCommCount(NULL, &value), ncclInvalidArgument);
    REFUSED(ncclCommGetAsyncError(comm, NULL), ncclInvalidArgument);
    REFUSED(ncclCommGetAsyncError(NULL, &state), ncclInvalidArgument);
    REFUSED(ncclGetUniqueId(NULL), ncclInvalidArgument);
    REFUSED(ncclCommInitRank(NULL, 1, id, 0), ncclInvalidArgument);
    REFUSED(ncclCommInitRank(&made, 0, id, 0), ncclInvalidArgument);
    TEST_CHECK(made == NULL);
    REFUSED(ncclCommInitRank(&made, 2, id, -1), ncclInvalidArgument);
    REFUSED(ncclCommInitRank(&made, 2, id, 2), ncclInvalidArgument);
    memset(&no_id, 0x11, sizeof(no_id));
    REFUSED(ncclCommInitRank(&made, 1, no_id, 0), ncclInvalidArgument);
    TEST_CHECK(made == NULL);
    REFUSED(ncclCommInitRankScalable(&made, 1, 0, 0, &id, NULL), ncclInvalidArgument);
    REFUSED(ncclCommInitRankScalable(&made, 1, 0, 2, &id, NULL), ncclInvalidArgument);
    REFUSED(ncclCommInitRankScalable(&made, 1, 0, 1, NULL, NULL), ncclInvalidArgument);
    config.magic = 0;
    REFUSED(ncclCommInitRankConfig(&made, 1, id, 0, &config), ncclInvalidArgument);
    config.magic = 0xcafebeef;
    config.blocking = 5;
    REFUSED(ncclCommInitRankConfig(&made, 1, id, 0, &config), ncclInvalidArgument);
    TEST_CHECK(strstr(ncclGetLastError(NULL), "blocking is 5") != NULL);
    REFUSED(ncclCommInitAll(NULL, 1, NULL), ncclInvalidArgument);
    REFUSED(ncclCommInitAll(&made, -1, NULL), ncclInvalidArgument);
    REFUSED(ncclCommInitAll(&made, 1, (int[]){9999}), ncclInvalidArgument);
    REFUSED(ncclCommInitAll(&made, 1, (int[]){-1}), ncclInvalidArgument);
    REFUSED(ncclCommSplit(comm, 0, 0, NULL, NULL), ncclInvalidArgument);
    REFUSED(ncclCommSplit(comm, -2, 0, &made, NULL), ncclInvalidArgument);
    REFUSED(ncclCommSplit(NULL, 0, 0, &made, NULL), ncclInvalidArgument);
    REFUSED(ncclCommShrink(comm, NULL, 0, &made, NULL, NCCL_SHRINK_DEFAULT), ncclInvalidArgument);
    REFUSED(ncclCommShrink(comm, (int[]){0}, 0, &made, NULL, NCCL_SHRINK_DEFAULT), ncclInvalidArgument);
    REFUSED(ncclCommShrink(comm, (int[]){0}, 1, &made, NULL, NCCL_SHRINK_DEFAULT), ncclInvalidArgument); /* itself */
    REFUSED(ncclCommShrink(comm, (int[]){7}, 1, &made, NULL, NCCL_SHRINK_DEFAULT), ncclInvalidArgument);
}

static void test_ends(void)
{
    ncclComm_t comm = one(), kept = comm;
    TEST_EQ(ncclCommFinalize(comm), ncclSuccess);
    REFUSED(ncclCommFinalize(comm), ncclInvalidArgument);
    TEST_EQ(ncclCommDestroy(comm), ncclSuccess);
    REFUSED(ncclCommDestroy(kept), ncclInvalidArgument); /* nothing is read through it */
    REFUSED(ncclCommAbort(kept), ncclInvalidArgument);
    ncclComm_t revoked = one();
    TEST_EQ(ncclCommRevoke(revoked, NCCL_REVOKE_DEFAULT), ncclSuccess);
    REFUSED(ncclAllGather(revoked, revoked, 1, ncclInt8, revoked, NULL), ncclInvalidUsage);
    REFUSED(ncclCommFinalize(revoked), ncclInvalidUsage);
    TEST_EQ(ncclCommDestroy(revoked), ncclSuccess);
}

static void test_groups(ncclComm_t comm, void *buf, cudaStream_t s)
{
    REFUSED(ncclGroupEnd(), ncclInvalidUsage);
    TEST_EQ(ncclGroupStart(), ncclSuccess);
    TEST_EQ(ncclGroupStart(), ncclSuccess);
    REFUSED(ncclAllGather(buf, buf, 1, (ncclDataType_t)99, comm, s), ncclInvalidArgument);
    REFUSED(ncclGroupEnd(), ncclSuccess);
    REFUSED(ncclGroupEnd(), ncclInvalidArgument);
    REFUSED(ncclGroupEnd(), ncclInvalidUsage); /* balanced again */
    /* An argument that is wrong for the shim alone drops the group as well. */
    ncclComm_t made = comm;
    TEST_EQ(ncclGroupStart(), ncclSuccess);
    REFUSED(ncclCommSplit(comm, 0, 0, &made, NULL), ncclSuccess);
    REFUSED(ncclCommSplit(comm, 0, 0, NULL, NULL), ncclInvalidArgument);
    REFUSED(ncclGroupEnd(), ncclInvalidArgument);
    TEST_CHECK(made == NULL);
    /* The thread and the communicator are usable. */
    TEST_EQ(ncclGroupStart(), ncclSuccess);
    REFUSED(ncclAllGather(buf, buf, 1, ncclInt8, comm, s), ncclSuccess);
    REFUSED(ncclGroupEnd(), ncclSuccess);
    TEST_EQ(ncclGroupStart(), ncclSuccess);
    REFUSED(ncclAllGather(buf, buf, 1, ncclInt8, comm, s), ncclSuccess);
    ncclSimInfo_t sim = NCCL_SIM_INFO_INITIALIZER;
    REFUSED(ncclGroupSimulateEnd(&sim), ncclInvalidUsage);
    REFUSED(ncclGroupEnd(), ncclInvalidUsage);

    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    ncclComm_t other;
    config.blocking = 0;
    TEST_EQ(ncclGetUniqueId(&id), ncclSuccess);
    ncclResult_t rc = ncclCommInitRankConfig(&other, 1, id, 0, &config);
    TEST_CHECK(rc == ncclSuccess || rc == ncclInProgress);
    TEST_EQ(world_poll(other), ncclSuccess);
    TEST_EQ(ncclGroupStart(), ncclSuccess);
    REFUSED(ncclAllGather(buf, buf, 1, ncclInt8, comm, s), ncclSuccess);
    REFUSED(ncclAllGather(buf, buf, 1, ncclInt8, other, s), ncclInvalidArgument); /* blocking and not */
    REFUSED(ncclGroupEnd(), ncclInvalidArgument);
    TEST_EQ(ncclCommDestroy(other), ncclSuccess);
}

static void test_memory(ncclComm_t comm, char *buf)
{
    void *handle = NULL, *ptr = NULL;
    ncclWindow_t win = NULL;
    REFUSED(ncclMemAlloc(NULL, 8), ncclInvalidArgument);
    TEST_CHECK(ncclMemAlloc(&ptr, 0) != ncclSuccess);
    REFUSED(ncclMemFree(NULL), ncclSuccess);
    TEST_CHECK(ncclMemFree(buf + 16) != ncclSuccess);
    REFUSED(ncclCommRegister(comm, NULL, 8, &handle), ncclInvalidArgument);
    REFUSED(ncclCommRegister(comm, buf, 0, &handle), ncclInvalidArgument);
    REFUSED(ncclCommRegister(comm, buf, 8, NULL), ncclInvalidArgument);
    REFUSED(ncclCommRegister(NULL, buf, 8, &handle), ncclInvalidArgument);
    REFUSED(ncclCommRegister(comm, buf, 4096, &handle), ncclSuccess);
    TEST_CHECK(handle != NULL);
    REFUSED(ncclCommDeregister(comm, handle), ncclSuccess);
    REFUSED(ncclCommDeregister(comm, handle), ncclInvalidUsage);
    REFUSED(ncclCommDeregister(comm, (void *)0x1234567), ncclInvalidUsage);
    REFUSED(ncclCommDeregister(comm, NULL), ncclSuccess);
    REFUSED(ncclCommDeregister(NULL, handle), ncclInvalidArgument);
    REFUSED(ncclCommWindowRegister(comm, NULL, 4096, &win, NCCL_WIN_DEFAULT), ncclInvalidArgument);
    REFUSED(ncclCommWindowRegister(comm, buf, 0, &win, NCCL_WIN_DEFAULT), ncclInvalidArgument);
    REFUSED(ncclCommWindowRegister(comm, buf + 8, 4096, &win, NCCL_WIN_COLL_SYMMETRIC), ncclInvalidArgument);
    REFUSED(ncclCommWindowRegister(comm, buf, 4096, NULL, NCCL_WIN_DEFAULT), ncclInvalidArgument);
    REFUSED(ncclCommWindowRegister(comm, buf, 4096, &win, NCCL_WIN_COLL_SYMMETRIC), ncclSuccess);
    REFUSED(ncclCommWindowDeregister(comm, win), ncclSuccess);
    REFUSED(ncclCommWindowDeregister(comm, NULL), ncclSuccess);
    REFUSED(ncclCommWindowRegister(comm, buf, 4096, &win, NCCL_WIN_COLL_SYMMETRIC), ncclSuccess);
    REFUSED(ncclCommDeregister(comm, win), ncclSuccess); /* as PyTorch 2.11 does */
    if (win != NULL) {
        REFUSED(ncclCommWindowDeregister(comm, win), ncclInvalidUsage);
    }
}

/* NCCL_CHECK_POINTERS, NCCL_CHECK_MODE: NULL buffers are refused where they would be used, with nothing to move too. */
static void test_pointers(ncclComm_t comm, void *buf, cudaStream_t s)
{
    REFUSED(ncclAllGather(NULL, buf, 0, ncclInt8, comm, s), ncclInvalidArgument);
    REFUSED(ncclAllReduce(buf, NULL, 0, ncclInt8, ncclSum, comm, s), ncclInvalidArgument);
    REFUSED(ncclBroadcast(NULL, buf, 0, ncclInt8, 0, comm, s), ncclInvalidArgument);
    REFUSED(ncclReduce(buf, NULL, 0, ncclInt8, ncclSum, 0, comm, s), ncclInvalidArgument);
    REFUSED(ncclAllGather(buf, buf, 0, ncclInt8, comm, s), ncclSuccess);
    if (strcmp(cclBackendName(), "host") != 0) { /* where not all memory is device memory */
        char host[64];
        REFUSED(ncclAllGather(host, buf, 8, ncclInt8, comm, s), ncclInvalidArgument);
        TEST_CHECK(strstr(ncclGetLastError(comm), "device memory") != NULL);
    }
}

/* The GPU runtime fails, by the plan of the fake one. */
static void test_unhandled(ncclComm_t comm, void *buf, cudaStream_t s)
{
    ncclResult_t state = ncclSuccess;
    REFUSED(ncclAllGather(buf, (char *)buf + 64, 8, ncclInt8, comm, s), ncclUnhandledCudaError);
    TEST_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
    TEST_EQ(state, ncclSuccess); /* the call has told it */
}

/* NCCL_MULTI_RANK_GPU_ENABLE=0: two ranks of a device. */
static void test_lone(void)
{
    ncclComm_t comms[2];
    ncclUniqueId id;
    REFUSED(ncclCommInitAll(comms, 2, (int[]){0, 0}), ncclInvalidUsage);
    TEST_CHECK(comms[0] == NULL && comms[1] == NULL);
    TEST_EQ(ncclGetUniqueId(&id), ncclSuccess);
    TEST_EQ(ncclGroupStart(), ncclSuccess);
    TEST_EQ(ncclCommInitRank(&comms[0], 2, id, 0), ncclSuccess);
    TEST_EQ(ncclCommInitRank(&comms[1], 2, id, 1), ncclSuccess);
    REFUSED(ncclGroupEnd(), ncclInvalidUsage);
    TEST_CHECK(comms[0] == NULL && comms[1] == NULL);
    TEST_CHECK(strstr(ncclGetLastError(NULL), "one device") != NULL);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "all";
    if (strcmp(what, "lone") == 0) {
        test_lone();
        return test_result();
    }
    ncclComm_t comm = one();
    char *buf = world_alloc(65536);
    if (comm == NULL || buf == NULL) {
        return 1;
    }
    if (strcmp(what, "all") == 0) {
        test_collectives(comm, buf, NULL);
        test_operators(comm, buf, NULL);
        test_communicators(comm);
        test_groups(comm, buf, NULL);
        test_memory(comm, buf);
        test_ends();
    } else if (strcmp(what, "unhandled") == 0) {
        test_unhandled(comm, buf, NULL);
    } else {
        test_pointers(comm, buf, NULL);
    }
    TEST_EQ(cclStreamSynchronize(NULL), cclSuccess);
    TEST_EQ(ncclCommDestroy(comm), ncclSuccess);
    TEST_EQ(ncclMemFree(buf), ncclSuccess);
    return test_result();
}
