/* SPDX-License-Identifier: MIT
 *
 * Proves that groups take effect at the outermost end and as a whole or not at all, for operations, splits and
 * inits of several communicators, and that a finalized communicator has finished its work and takes no more. */
/* CTEST: ranks 1 2 3 8; labels mpi host quick; timeout 60 */
#include <string.h>

#include "common.h"

#define COUNT 1000
#define UNTOUCHED ((void *)(uintptr_t)0x1234)
#define BAD(call) TM_RC(call, cclInvalidArgument)

static cclComm_t comm;
static cclStream_t stream;
static uint8_t *send_part, *recv_all, *host; /* device memory, device memory, host memory */

static void groups(void)
{
    cclResult_t rc;

    tm_at("groups");
    TM_RC(cclGroupEnd(), cclInvalidUsage);
    TM_OK(cclGroupStart());
    TM_OK(cclGroupEnd());
    TM_RC(cclGroupEnd(), cclInvalidUsage);
    /* nothing happens before the outermost End */
    tm_gen(host, 0, COUNT, 40, tm_rank);
    tm_put(send_part, host, COUNT);
    tm_set(recv_all, TM_POISON, (size_t)COUNT * (size_t)tm_size);
    TM_OK(cclGroupStart());
    TM_OK(cclGroupStart());
    TM_OK(cclAllGather(send_part, recv_all, COUNT, cclUint8, comm, stream));
    TM_OK(cclGroupEnd());
    tm_sleep_ms(20);
    tm_get(host, recv_all, COUNT);
    tm_check_bytes(host, COUNT, TM_POISON, "output before the outermost GroupEnd");
    TM_OK(cclAllGather(send_part, recv_all, COUNT, cclUint8, comm,
                       stream)); /* two calls of one communicator in a group */
    TM_OK(cclGroupEnd());
    TM_OK(cclStreamSynchronize(stream));
    tm_get(host, recv_all, (size_t)COUNT * (size_t)tm_size);
    tm_gathers++;
    for (int r = 0; r < tm_size; r++) {
        tm_check_data(host + (size_t)r * COUNT, 0, COUNT, 1, 40, r, "group");
    }
    /* an error inside: End returns it and drops everything */
    tm_set(recv_all, TM_POISON, (size_t)COUNT * (size_t)tm_size);
    TM_OK(cclGroupStart());
    TM_OK(cclAllGather(send_part, recv_all, COUNT, cclUint8, comm, stream));
    rc = cclAllGather(send_part, recv_all, COUNT, (cclDataType_t)99, comm, stream);
    TM_RC(rc, cclInvalidArgument);
    TM_OK(cclAllGather(send_part, recv_all, COUNT, cclUint8, comm, stream));
    TM_RC(cclGroupEnd(), cclInvalidArgument);
    TM_TEXT("99");
    TM_OK(cclStreamSynchronize(stream));
    tm_get(host, recv_all, (size_t)COUNT * (size_t)tm_size);
    tm_check_bytes(host, (size_t)COUNT * (size_t)tm_size, TM_POISON, "output of a dropped group");
    TM_RC(cclGroupEnd(), cclInvalidUsage); /* the depth is right again */
    tm_gather_once(comm, stream, tm_rank, tm_size, COUNT, "after a failed group");
}

/* A group of operations on two communicators, splits in a group, and an init in a group. */
static void groups_of_comms(void)
{
    cclComm_t dup = NULL, other = NULL, alone = NULL;
    cclStream_t second = tm_stream_create();
    uint8_t *place = NULL;
    cclUniqueId id;

    tm_at("groups over communicators");
    other = tm_comm_create(MPI_COMM_WORLD, NULL);
    TM_OK(cclGroupStart());
    TM_OK(cclCommSplit(comm, 0, tm_rank, &dup, NULL));
    TM_OK(cclCommSplit(other, tm_rank, 0, &alone, NULL));
    TM_MUST(cclGroupEnd());
    TEST_CHECK(dup != NULL && alone != NULL);
    TM_MUST(cclDeviceMalloc((void **)&place, (size_t)COUNT * (size_t)tm_size));
    tm_gen(host, 0, COUNT, 50, tm_rank);
    tm_put(send_part, host, COUNT);
    TM_OK(cclGroupStart());
    TM_OK(cclAllGather(send_part, recv_all, COUNT, cclUint8, dup, stream));
    TM_OK(cclAllGather(send_part, place, COUNT, cclUint8, other, second));
    TM_MUST(cclGroupEnd());
    TM_OK(cclStreamSynchronize(stream));
    TM_OK(cclStreamSynchronize(second));
    for (int k = 0; k < 2; k++) {
        tm_get(host, k == 0 ? recv_all : place, (size_t)COUNT * (size_t)tm_size);
        tm_gathers++;
        for (int r = 0; r < tm_size; r++) {
            tm_check_data(host + (size_t)r * COUNT, 0, COUNT, 1, 50, r, "group of two communicators");
        }
    }
    TM_OK(cclCommDestroy(alone));
    alone = NULL;
    TM_OK(cclGetUniqueId(&id));
    TM_OK(cclGroupStart());
    TM_OK(cclCommInitRank(&alone, 1, id, 0));
    TM_MUST(cclGroupEnd());
    TEST_CHECK(alone != NULL);
    TM_OK(cclCommDestroy(alone));
    TM_OK(cclCommDestroy(dup));
    TM_OK(cclCommDestroy(other));
    TM_OK(cclDeviceFree(place));
    TM_OK(cclStreamDestroy(second));
}

static void refused(const char *call, cclResult_t rc)
{
    if (rc != cclInvalidUsage && rc != cclInvalidArgument) {
        TEST_FAIL("%s after Finalize: %s", call, tm_code(rc));
    }
}

static void finalize(void)
{
    cclComm_t other = tm_comm_create(MPI_COMM_WORLD, NULL), child = NULL;
    cclResult_t async = cclInProgress;
    void *ptr = UNTOUCHED;
    int value = -1;

    tm_at("finalize");
    tm_gen(host, 0, COUNT, 60, tm_rank);
    tm_put(send_part, host, COUNT);
    TM_OK(cclAllGather(send_part, recv_all, COUNT, cclUint8, other, stream));
    TM_OK(cclCommFinalize(other)); /* waits for it */
    tm_get(host, recv_all, COUNT);
    tm_check_data(host, 0, COUNT, 1, 60, 0, "result after finalize");
    BAD(cclCommFinalize(other));
    refused("cclAllGather", cclAllGather(send_part, recv_all, COUNT, cclUint8, other, stream));
    refused("cclBarrier", cclBarrier(other, stream));
    refused("cclMemAlloc", cclMemAlloc(other, &ptr, 64));
    refused("cclCommSplit", cclCommSplit(other, 0, 0, &child, NULL));
    TEST_CHECK(ptr == UNTOUCHED);
    TM_OK(cclCommCount(other, &value));
    TEST_EQ(value, tm_size);
    TM_OK(cclCommGetAsyncError(other, &async));
    TEST_EQ(async, cclSuccess);
    TM_OK(cclCommDestroy(other));
    tm_gather_once(comm, stream, tm_rank, tm_size, COUNT, "after finalize of another communicator");
}

int main(int argc, char **argv)
{
    TM_INIT(argc, argv);
    comm = tm_comm_create(MPI_COMM_WORLD, NULL);
    stream = tm_stream_create();
    host = malloc((size_t)COUNT * (size_t)tm_size);
    TM_MUST(cclDeviceMalloc((void **)&send_part, COUNT));
    TM_MUST(cclDeviceMalloc((void **)&recv_all, (size_t)COUNT * (size_t)tm_size));
    groups();
    groups_of_comms();
    finalize();
    TM_OK(cclDeviceFree(send_part));
    TM_OK(cclDeviceFree(recv_all));
    free(host);
    TM_OK(cclStreamDestroy(stream));
    TM_OK(cclCommDestroy(comm));
    return tm_finish();
}
