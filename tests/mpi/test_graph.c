/* SPDX-License-Identifier: MIT
 *
 * Proves that all-gathers captured into graphs give the right data at every launch: the first call of a communicator, replays between eager
 * calls on several streams, several graphs of one communicator in any order, two streams and two communicators in a graph, both modes of capture,
 * groups, and graphs destroyed before or after the communicator. Skipped where the backend has no graphs. */
/* CTEST: ranks 2 3 4 8; labels gpu quick; timeout 120 */
#include <string.h>

#include "common.h"

#define MAX_BYTES ((size_t)3 << 20)

struct place {
    uint8_t *send, *recv; /* device memory */
    struct tm_buf buf;
    size_t bytes; /* a rank */
};

static cclStream_t stream, second;
static uint8_t *host_send, *host_recv;

static void place_open(struct place *p, cclComm_t comm, enum tm_kind kind, size_t bytes)
{
    p->bytes = bytes;
    tm_buf_create(&p->buf, comm, kind, bytes * (size_t)(tm_size + 1));
    p->recv = p->buf.base;
    p->send = p->recv + bytes * (size_t)tm_size;
}

/* New data and a poisoned output, in stream order; the call may come at once. */
static void refill(const struct place *p, uint64_t seed, cclStream_t on)
{
    tm_gen(host_send, 0, p->bytes, seed, tm_rank);
    TM_MUST(cclMemcpyAsync(p->send, host_send, p->bytes, on));
    TM_MUST(cclMemsetAsync(p->recv, TM_POISON, p->bytes * (size_t)tm_size, on));
}

static void verify(const struct place *p, uint64_t seed, cclStream_t on, const char *what)
{
    TM_MUST(cclMemcpyAsync(host_recv, p->recv, p->bytes * (size_t)tm_size, on));
    TM_MUST(cclStreamSynchronize(on));
    tm_gathers++;
    for (int r = 0; r < tm_size; r++) {
        tm_check_data(host_recv + (size_t)r * p->bytes, 0, p->bytes, 1, seed, r, what);
    }
}

static void enqueue(const struct place *p, cclComm_t comm, cclStream_t on)
{
    TM_MUST(cclAllGather(p->send, p->recv, p->bytes, cclUint8, comm, on));
}

static cclGraph_t capture(const struct place *p, cclComm_t comm, int thread_local_mode)
{
    cclGraph_t graph = NULL;
    TM_MUST(cclGraphBegin(stream, thread_local_mode));
    enqueue(p, comm, stream);
    TM_MUST(cclGraphEnd(stream, &graph));
    return graph;
}

/* The first all-gather of a communicator is captured; 1000 replays, eager calls in between on this stream and another. */
static void first_and_replays(int thread_local_mode)
{
    cclComm_t comm = tm_comm_create(MPI_COMM_WORLD, NULL);
    struct place p, q;
    place_open(&p, comm, TM_HEAP, 3000);
    place_open(&q, comm, TM_PLAIN, 70001);
    tm_at("first capture, mode %d", thread_local_mode);
    cclGraph_t graph = capture(&p, comm, thread_local_mode);
    for (int i = 0; i < 1000; i++) {
        bool check = i % 50 == 49 || i < 3;
        tm_at("replay %d, mode %d", i, thread_local_mode);
        cclStream_t on = i % 7 == 6 ? second : stream, eager_on = i % 5 == 4 ? second : stream;
        if (check) {
            TM_MUST(cclStreamSynchronize(stream));
            TM_MUST(cclStreamSynchronize(second));
            refill(&p, (uint64_t)i, on);
        }
        TM_MUST(cclGraphLaunch(graph, on));
        if (i % 3 == 0) {
            if (check) {
                verify(&p, (uint64_t)i, on, "replay");
                refill(&q, (uint64_t)i + 5000, eager_on);
            }
            enqueue(&q, comm, eager_on);
            if (check) {
                verify(&q, (uint64_t)i + 5000, eager_on, "eager between replays");
            }
        } else if (check) {
            verify(&p, (uint64_t)i, on, "replay");
        }
    }
    TM_MUST(cclStreamSynchronize(stream));
    TM_MUST(cclStreamSynchronize(second));
    TM_OK(cclGraphDestroy(graph));
    /* eager goes on without the graph */
    refill(&q, 9999, stream);
    enqueue(&q, comm, stream);
    verify(&q, 9999, stream, "eager after the graph");
    tm_buf_destroy(&p.buf);
    tm_buf_destroy(&q.buf);
    TM_OK(cclCommDestroy(comm));
}

/* Graphs of every size in an order of chance, one never launched, the launches without waiting between the streams. Then the communicator
 * goes first and its graphs after it. */
static void several(void)
{
    static const size_t bytes[] = {8, 1000, 65536, 1 << 20, MAX_BYTES - 5};
    enum { N = sizeof(bytes) / sizeof(bytes[0]) };
    cclComm_t comm = tm_comm_create(MPI_COMM_WORLD, NULL);
    struct place p[2 * N];
    cclGraph_t graph[2 * N], never;
    uint64_t random = 12345, seed[2 * N]; /* the same on all ranks */
    for (int i = 0; i < 2 * N; i++) {
        place_open(&p[i], comm, i < N ? TM_HEAP : TM_PLAIN, bytes[i % N]);
        refill(&p[i], seed[i] = 100 + (uint64_t)i, stream);
        TM_MUST(cclStreamSynchronize(stream)); /* host_send is used again */
        graph[i] = capture(&p[i], comm, i % 2);
    }
    never = capture(&p[0], comm, 0);
    for (int round = 0; round < 300; round++) {
        int i = (int)(tm_random(&random) % (2 * N));
        cclStream_t on = tm_random(&random) % 2 == 0 ? stream : second;
        tm_at("round %d, graph %d", round, i);
        TM_MUST(cclGraphLaunch(graph[i], on));
        if (round % 20 == 19) {
            verify(&p[i], seed[i], on, "several graphs");
            TM_MUST(cclStreamSynchronize(on == stream ? second : stream));
            refill(&p[i], seed[i] += 1000, on);
            TM_MUST(cclStreamSynchronize(on));
        }
    }
    TM_MUST(cclStreamSynchronize(stream));
    TM_MUST(cclStreamSynchronize(second));
    for (int i = 0; i < 2 * N; i++) {
        tm_buf_destroy(&p[i].buf);
    }
    TM_OK(cclCommDestroy(comm));
    for (int i = 0; i < 2 * N; i++) {
        TM_OK(cclGraphDestroy(graph[i]));
    }
    TM_OK(cclGraphDestroy(never));
}

/* One graph: operations of two communicators, each on two streams, forked and joined by events. */
static void two_streams(void)
{
    cclComm_t comm[2] = {tm_comm_create(MPI_COMM_WORLD, NULL), tm_comm_create(MPI_COMM_WORLD, NULL)};
    struct place p[4];
    cclGraph_t graph = NULL;
    cclEvent_t fork, join;
    TM_MUST(cclEventCreate(&fork));
    TM_MUST(cclEventCreate(&join));
    for (int i = 0; i < 4; i++) {
        place_open(&p[i], comm[i / 2], i % 2 == 0 ? TM_HEAP : TM_PLAIN, 5000 * (size_t)(i + 1));
    }
    tm_at("capture of two streams");
    TM_MUST(cclGraphBegin(stream, 0));
    TM_MUST(cclEventRecord(fork, stream));
    TM_MUST(cclStreamWaitEvent(second, fork));
    enqueue(&p[0], comm[0], stream);
    enqueue(&p[1], comm[0], second);
    enqueue(&p[2], comm[1], second);
    enqueue(&p[3], comm[1], stream);
    TM_MUST(cclGroupStart());
    enqueue(&p[0], comm[0], stream);
    enqueue(&p[2], comm[1], stream);
    TM_MUST(cclGroupEnd());
    TM_MUST(cclEventRecord(join, second));
    TM_MUST(cclStreamWaitEvent(stream, join));
    TM_MUST(cclGraphEnd(stream, &graph));
    for (uint64_t round = 0; round < 20; round++) {
        tm_at("two streams in a graph, round %d", (int)round);
        for (int i = 0; i < 4; i++) {
            refill(&p[i], round * 10 + (uint64_t)i, stream);
            TM_MUST(cclStreamSynchronize(stream));
        }
        TM_MUST(cclGraphLaunch(graph, stream));
        for (int i = 0; i < 4; i++) {
            verify(&p[i], round * 10 + (uint64_t)i, stream, "two streams in a graph");
        }
    }
    /* waiting for a communicator does not touch a capture under way */
    tm_buf_destroy(&p[2].buf);
    tm_buf_destroy(&p[3].buf);
    cclGraph_t empty = NULL;
    TM_MUST(cclGraphBegin(stream, 1));
    enqueue(&p[0], comm[0], stream);
    TM_OK(cclCommFinalize(comm[1]));
    TM_MUST(cclGraphEnd(stream, &empty));
    TM_OK(cclGraphDestroy(empty));
    tm_buf_destroy(&p[0].buf);
    tm_buf_destroy(&p[1].buf);
    TM_OK(cclCommDestroy(comm[0]));
    TM_OK(cclGraphDestroy(graph));
    TM_OK(cclCommDestroy(comm[1]));
    TM_OK(cclEventDestroy(fork));
    TM_OK(cclEventDestroy(join));
}

/* What cannot be is refused by name, and a refused call leaves the capture it stands in as it was. */
static void refusals(void)
{
    cclComm_t comm = tm_comm_create(MPI_COMM_WORLD, NULL);
    struct place p;
    cclGraph_t graph = NULL;
    place_open(&p, comm, TM_HEAP, 100);
    tm_at("refusals");
    TM_RC(cclGraphBegin(NULL, 0), cclInvalidUsage);
    TM_TEXT("default stream");
    TM_RC(cclGraphEnd(stream, NULL), cclInvalidArgument);
    TM_RC(cclGraphLaunch(NULL, stream), cclInvalidArgument);
    TM_OK(cclGraphDestroy(NULL));
    TM_MUST(cclGraphBegin(stream, 0));
    TM_RC(cclAllGather(p.send, p.recv, 10, (cclDataType_t)77, comm, stream), cclInvalidArgument);
    TM_MUST(cclGroupStart());
    enqueue(&p, comm, stream);
    enqueue(&p, comm, second);
    TM_RC(cclGroupEnd(), cclInvalidUsage);
    TM_TEXT("captured into one graph, or none");
    enqueue(&p, comm, stream);
    TM_MUST(cclGraphEnd(stream, &graph));
    refill(&p, 77, stream);
    TM_MUST(cclGraphLaunch(graph, stream));
    verify(&p, 77, stream, "capture with a refused call in it");
    TM_OK(cclGraphDestroy(graph));
    tm_buf_destroy(&p.buf);
    TM_OK(cclCommDestroy(comm));
}

int main(int argc, char **argv)
{
    TM_INIT(argc, argv);
    tm_watchdog(110);
    stream = tm_stream_create();
    second = tm_stream_create();
    cclResult_t rc = cclGraphBegin(stream, 0);
    if (rc == cclInvalidUsage && tm_backend_is_host()) {
        cclGraph_t graph = NULL;
        TM_TEXT("host");
        TM_RC(cclGraphEnd(stream, &graph), cclInvalidUsage);
        TM_OK(cclGraphDestroy(NULL));
        return tm_finish() != 0 ? 1 : TEST_SKIP;
    }
    TM_MUST(rc);
    cclGraph_t empty = NULL;
    TM_MUST(cclGraphEnd(stream, &empty));
    TM_OK(cclGraphLaunch(empty, stream));
    TM_OK(cclGraphDestroy(empty));
    host_send = malloc(MAX_BYTES);
    host_recv = malloc(MAX_BYTES * (size_t)tm_size);
    first_and_replays(0);
    first_and_replays(1);
    several();
    two_streams();
    refusals();
    free(host_send);
    free(host_recv);
    TM_OK(cclStreamDestroy(stream));
    TM_OK(cclStreamDestroy(second));
    return tm_finish();
}
