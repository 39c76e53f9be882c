/* SPDX-License-Identifier: MIT
 *
 * Proves that a rank which destroys its communicator instead of calling ends the waits of the others with cclRemoteError, that each rank's
 * stream reports its own error when ranks are threads of one process, and that a forked child is refused and does its parent no harm. */

/* CTEST: ranks 1 2 3 4; labels mpi host quick; timeout 60 */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

#define MOST 70000

static uint8_t *send_part, *recv_all; /* device memory */

static void leaver(size_t count)
{
    cclComm_t comm = tm_comm_create(MPI_COMM_WORLD, NULL);
    cclStream_t stream = tm_stream_create();
    double start = tm_now();

    tm_at("a rank leaves instead of calling, count %zu", count);
    if (tm_rank == tm_size - 1) {
        tm_sleep_ms(20);
    } else {
        cclResult_t rc = cclAllGather(send_part, recv_all, count, cclUint8, comm, stream);
        rc = rc != cclSuccess ? rc : cclStreamSynchronize(stream);
        TEST_EQ(rc, tm_size > 1 ? cclRemoteError : cclSuccess);
        TM_WITHIN("the end of a wait for a rank that left", tm_now() - start, 2.0);
    }
    TM_OK(cclCommDestroy(comm));
    TM_OK(cclStreamDestroy(stream));
}

/* Two ranks of this process, each on two streams, end in a mismatch; each synchronisation reports what ran on its stream. */
static void each_stream_reports(void)
{
    cclComm_t comms[2];
    enum { SEND = 128, RECV = 256 };
    cclStream_t first[2], second[2];
    uint8_t *memory[2]; /* input, output */

    tm_at("each stream reports its own rank's error");
    TM_MUST(cclCommInitAll(comms, 2, NULL));
    for (int r = 0; r < 2; r++) {
        tm_use_device_of(comms[r]); /* another one for each rank where there are several */
        TM_MUST(cclDeviceMalloc((void **)&memory[r], SEND + RECV));
        first[r] = tm_stream_create();
        second[r] = tm_stream_create();
        TM_OK(cclBarrier(comms[r], first[r]));
    }
    for (int r = 0; r < 2; r++) {
        TM_OK(cclStreamSynchronize(first[r]));
    }
    for (int r = 0; r < 2; r++) {
        TM_OK(cclAllGather(memory[r], memory[r] + SEND, (size_t)(100 + r), cclUint8, comms[r], second[r]));
    }
    for (int r = 0; r < 2; r++) {
        char mine[64];
        TM_RC(cclStreamSynchronize(second[r]), cclInvalidUsage);
        snprintf(mine, sizeof(mine), "I called all_gather count %d", 100 + r);
        TM_TEXT(mine);
        TM_OK(cclStreamSynchronize(second[r])); /* once */
    }
    for (int r = 0; r < 2; r++) {
        TM_OK(cclCommDestroy(comms[r]));
        TM_OK(cclStreamDestroy(first[r]));
        TM_OK(cclStreamDestroy(second[r]));
        TM_OK(cclDeviceFree(memory[r]));
    }
    TM_MUST(cclSetDevice(0));
}

#if !defined(__SANITIZE_THREAD__) /* which forbids what a forked child of a threaded process does */
static void forked_child(void)
{
    cclComm_t comm = tm_comm_create(MPI_COMM_WORLD, NULL);
    cclStream_t stream = tm_stream_create();
    int status = -1;

    tm_at("a forked child");
    usleep(50000); /* the sanitizers do not like forks while threads are starting */
    pid_t child = fork();
    if (child == 0) {
        bool refused = cclAllGather(send_part, recv_all, 8, cclUint8, comm, stream) == cclInvalidUsage &&
                       cclCommDestroy(comm) != cclSuccess;
        _exit(refused ? 0 : 1);
    }
    TEST_CHECK(child > 0 && waitpid(child, &status, 0) == child);
    TEST_EQ(status, 0);
    tm_gather_once(comm, stream, tm_rank, tm_size, 5000, "after the child");
    TM_OK(cclCommDestroy(comm));
    TM_OK(cclStreamDestroy(stream));
}
#endif

int main(int argc, char **argv)
{
    TM_INIT(argc, argv);
    tm_watchdog(50);
    TM_MUST(cclDeviceMalloc((void **)&send_part, MOST));
    TM_MUST(cclDeviceMalloc((void **)&recv_all, (size_t)8 * MOST));
    leaver(16);
    leaver(MOST);
    each_stream_reports();
#if !defined(__SANITIZE_THREAD__)
    forked_child();
#endif
    TM_OK(cclDeviceFree(send_part));
    TM_OK(cclDeviceFree(recv_all));
    return tm_finish();
}
