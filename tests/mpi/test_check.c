/* SPDX-License-Identifier: MIT
 *
 * Proves that CCL_CHECK=1 refuses a buffer that cannot be what the call says, naming it, that the peers of the refused call end with the
 * refusal instead of waiting, and that calls pass whose buffers touch, end with their allocation or are in place. */

/* CTEST: ranks 1 2 3; labels mpi host quick; timeout 60; env CCL_CHECK=1 */
#include <stdlib.h>

#include "common.h"

#define COUNT ((size_t)3000)
#define LONG ((size_t)8 << 20) /* more than an allocation is rounded up to */

enum fault { OVERLAP, SAME_START, HOST_SEND, HOST_RECV, FREED, SHORT_SEND, SHORT_RECV, NUM_FAULTS };
static const struct {
    const char *name, *buffer, *text;
    bool gpu_only; /* kernels of the host backend run in any memory */
} faults[NUM_FAULTS] = {
    [OVERLAP] = {"send buffer one byte behind its part", "send buffer", "overlap", false},
    [SAME_START] = {"send buffer at another rank's part", "send buffer", "overlap", false},
    [HOST_SEND] = {"send buffer from malloc", "send buffer", "no device memory", true},
    [HOST_RECV] = {"receive buffer from malloc", "receive buffer", "no device memory", true},
    [FREED] = {"freed receive buffer", "receive buffer", "freed", true},
    [SHORT_SEND] = {"send buffer longer than its allocation", "send buffer", "beyond its allocation", true},
    [SHORT_RECV] = {"receive buffer longer than its allocation", "receive buffer", "beyond its allocation", true},
};

/* The last rank's call is wrong. */
static void refused(enum fault fault)
{
    const size_t n = (size_t)tm_size, before = (size_t)tm_rank * COUNT;
    const bool guilty = tm_rank == tm_size - 1;
    cclComm_t comm = tm_comm_create(MPI_COMM_WORLD, NULL);
    cclStream_t stream = tm_stream_create();
    void *host = malloc(COUNT * n);
    struct tm_buf send, recv;

    tm_at("%s", faults[fault].name);
    if (host == NULL) {
        tm_die();
    }
    tm_buf_create(&send, comm, TM_PLAIN, fault == SHORT_RECV ? LONG : COUNT);
    tm_buf_create(&recv, comm, TM_PLAIN, COUNT * n + 1);
    const void *from = send.base;
    void *to = recv.base;
    size_t count = COUNT;
    if (guilty) {
        switch (fault) {
        case OVERLAP:
            from = recv.base + before + 1;
            break;
        case SAME_START:
            from = recv.base + (n > 1 ? 0 : 1);
            break;
        case HOST_SEND:
            from = host;
            break;
        case HOST_RECV:
            to = host;
            break;
        case FREED:
            tm_buf_destroy(&recv);
            break;
        default:
            count = LONG;
        }
    }
    const double start = tm_now();
    cclResult_t rc = cclAllGather(from, to, count, cclUint8, comm, stream);
    if (guilty) {
        TM_RC(rc, cclInvalidArgument);
        TM_TEXT(faults[fault].buffer);
        TM_TEXT(faults[fault].text);
    } else {
        rc = rc != cclSuccess ? rc : cclStreamSynchronize(stream);
        TM_RC(rc, cclInvalidArgument);
        TM_TEXT("could not enqueue its call");
    }
    TM_WITHIN("the refusal", tm_now() - start, 5);
    TM_OK(cclCommDestroy(comm));
    TM_OK(cclStreamDestroy(stream));
    tm_buf_destroy(&send);
    if (!guilty || fault != FREED) {
        tm_buf_destroy(&recv);
    }
    free(host);
}

/* One allocation holds both buffers, the send buffer in front, or only the receive buffer. */
static void passes(cclComm_t comm, cclStream_t stream, enum tm_kind kind, bool in_place)
{
    const size_t n = (size_t)tm_size, all = COUNT * (n + !in_place);
    uint8_t *host = malloc(all);
    struct tm_buf buf;

    tm_at("%s memory, %s", tm_kind_names[kind], in_place ? "in place" : "touching");
    if (host == NULL) {
        tm_die();
    }
    tm_buf_create(&buf, comm, kind, all);
    uint8_t *recv = buf.base + (in_place ? 0 : COUNT), *send = in_place ? recv + COUNT * (size_t)tm_rank : buf.base;
    tm_gen(host, 0, COUNT, 11, tm_rank);
    tm_set(buf.base, TM_POISON, all);
    tm_put(send, host, COUNT);
    TM_MUST(cclAllGather(send, recv, COUNT, cclUint8, comm, stream));
    TM_MUST(cclStreamSynchronize(stream));
    tm_get(host, recv, COUNT * n);
    for (int r = 0; r < tm_size; r++) {
        tm_check_data(host + COUNT * (size_t)r, 0, COUNT, 1, 11, r, "with CCL_CHECK=1");
    }
    tm_gathers++;
    tm_buf_destroy(&buf);
    free(host);
}

int main(int argc, char **argv)
{
    TM_INIT(argc, argv);
    for (int fault = 0; fault < NUM_FAULTS; fault++) {
        if (!faults[fault].gpu_only || !tm_backend_is_host()) {
            refused((enum fault)fault);
        }
    }
    cclComm_t comm = tm_comm_create(MPI_COMM_WORLD, NULL);
    cclStream_t stream = tm_stream_create();
    for (int kind = 0; kind < TM_NUM_KINDS; kind++) {
        passes(comm, stream, (enum tm_kind)kind, false);
        passes(comm, stream, (enum tm_kind)kind, true);
    }
    TM_OK(cclCommDestroy(comm));
    TM_OK(cclStreamDestroy(stream));
    return tm_finish();
}
