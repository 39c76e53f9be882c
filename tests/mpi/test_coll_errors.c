/* SPDX-License-Identifier: MIT
 *
 * Proves that ranks that disagree about a collective beside all-gather (its count, type, operator, root, kind, counts of a pair) get cclInvalidUsage on every rank
 * with a text that names both sides, that nothing is stored beside the smaller buffer, and that an abort and a death in the middle of each kind end the others'
 * waits with cclRemoteError. */
/* CTEST: ranks 2 3 4; labels mpi host quick; timeout 60 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "common.h"

#define LIMIT_S 5.0
#define MOST ((size_t)4 << 20)

enum kind { ALL_REDUCE, REDUCE_SCATTER, REDUCE, BROADCAST, ALL_TO_ALL, ALL_TO_ALL_V, GATHER, SCATTER, ALL_GATHER, BARRIER };

struct call {
    enum kind kind;
    size_t count;
    cclDataType_t type;
    cclRedOp_t op;
    int root;
};

struct scenario {
    const char *name;
    struct call odd, others;
    const char *needles[4];
};

static const struct scenario scenarios[] = {
    {"count, small", {ALL_REDUCE, 12, cclInt32, cclSum, 0}, {ALL_REDUCE, 13, cclInt32, cclSum, 0}, {"count 12", "count 13", "all_reduce", "int32"}},
    {"count, large", {ALL_REDUCE, 50000, cclInt32, cclSum, 0}, {ALL_REDUCE, 60000, cclInt32, cclSum, 0}, {"50000", "60000", "all_reduce", NULL}},
    {"one line, the others rings", {ALL_REDUCE, 2, cclInt32, cclSum, 0}, {ALL_REDUCE, 60000, cclInt32, cclSum, 0}, {"count 2", "60000", NULL, NULL}},
    {"operator, small", {ALL_REDUCE, 5, cclInt8, cclSum, 0}, {ALL_REDUCE, 5, cclInt8, cclMax, 0}, {"sum", "max", "all_reduce", NULL}},
    {"operator, large", {REDUCE_SCATTER, 50000, cclFloat32, cclProd, 0}, {REDUCE_SCATTER, 50000, cclFloat32, cclAvg, 0}, {"prod", "avg", "reduce_scatter", NULL}},
    {"type", {REDUCE, 900, cclInt32, cclSum, 0}, {REDUCE, 900, cclFloat32, cclSum, 0}, {"int32", "float32", "reduce", NULL}},
    {"root, small", {BROADCAST, 7, cclInt8, cclSum, 1}, {BROADCAST, 7, cclInt8, cclSum, 0}, {"root 1", "root 0", "broadcast", NULL}},
    {"root, large", {BROADCAST, 300000, cclInt8, cclSum, 0}, {BROADCAST, 300000, cclInt8, cclSum, 1}, {"root 1", "root 0", "broadcast", NULL}},
    {"root of a reduction", {REDUCE, 70000, cclInt64, cclMin, 1}, {REDUCE, 70000, cclInt64, cclMin, 0}, {"root 1", "root 0", "reduce", NULL}},
    {"kind, small", {GATHER, 10, cclInt8, cclSum, 0}, {SCATTER, 10, cclInt8, cclSum, 0}, {"gather", "scatter", "root 0", NULL}},
    {"kind, large", {ALL_TO_ALL, 90000, cclInt8, cclSum, 0}, {ALL_REDUCE, 90000, cclInt8, cclSum, 0}, {"all_to_all", "all_reduce", "sum", NULL}},
    {"with an all-gather", {ALL_GATHER, 90000, cclInt8, cclSum, 0}, {ALL_TO_ALL, 90000, cclInt8, cclSum, 0}, {"all_to_all", "all_gather", NULL, NULL}},
    {"with a small all-gather", {ALL_GATHER, 3, cclInt8, cclSum, 0}, {ALL_REDUCE, 3, cclInt8, cclSum, 0}, {"all_reduce", "all_gather", NULL, NULL}},
    {"with a barrier", {BARRIER, 3, cclInt8, cclSum, 0}, {GATHER, 3, cclInt8, cclSum, 0}, {"barrier", "gather", NULL, NULL}},
    {"pair", {ALL_TO_ALL_V, 1000, cclInt32, cclSum, 0}, {ALL_TO_ALL_V, 2000, cclInt32, cclSum, 0}, {"all_to_all_v", "1000 elements for", "2000 elements for", NULL}},
};

static cclResult_t issue(const struct call *c, const void *send, void *recv, cclComm_t comm, cclStream_t stream)
{
    size_t counts[64], places[64];

    switch (c->kind) {
    case ALL_REDUCE: return cclAllReduce(send, recv, c->count, c->type, c->op, comm, stream);
    case REDUCE_SCATTER: return cclReduceScatter(send, recv, c->count, c->type, c->op, comm, stream);
    case REDUCE: return cclReduce(send, recv, c->count, c->type, c->op, c->root, comm, stream);
    case BROADCAST: return cclBroadcast(send, recv, c->count, c->type, c->root, comm, stream);
    case ALL_TO_ALL: return cclAllToAll(send, recv, c->count, c->type, comm, stream);
    case GATHER: return cclGather(send, recv, c->count, c->type, c->root, comm, stream);
    case SCATTER: return cclScatter(send, recv, c->count, c->type, c->root, comm, stream);
    case ALL_GATHER: return cclAllGather(send, recv, c->count, c->type, comm, stream);
    case BARRIER: return cclBarrier(comm, stream);
    default:
        for (int r = 0; r < tm_size; r++) {
            counts[r] = c->count;
            places[r] = (size_t)r * c->count;
        }
        return cclAllToAllv(send, counts, places, recv, counts, places, c->type, comm, stream);
    }
}

/* On the host a tiny operation of one root may end well on a rank that waits for nobody in it; what all wait for next, or its communicator, then tells. */
static bool runs_ahead(const struct call *c)
{
    return (c->kind == REDUCE || c->kind == BROADCAST || c->kind == GATHER || c->kind == SCATTER) && c->count * 8 <= 480;
}

static cclComm_t comm;
static cclStream_t stream;
static uint8_t *send_buf, *heap, *plain, *host;

static cclResult_t issue_and_wait(const struct call *c, void *recv)
{
    cclResult_t rc = issue(c, send_buf, recv, comm, stream);

    rc = rc == cclSuccess ? cclStreamSynchronize(stream) : rc;
    if (rc == cclSuccess && runs_ahead(c)) {
        rc = cclBarrier(comm, stream);
        rc = rc == cclSuccess ? cclStreamSynchronize(stream) : rc;
    }
    return rc;
}

static void open_world(void)
{
    comm = tm_comm_create(MPI_COMM_WORLD, NULL);
    stream = tm_stream_create();
    TM_MUST(cclMemAlloc(comm, (void **)&heap, MOST));
    tm_set(heap, TM_POISON, MOST);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void close_world(void)
{
    TM_OK(tm_rank % 2 == 0 ? cclCommDestroy(comm) : cclCommAbort(comm)); /* either way */
    (void)cclStreamSynchronize(stream);
    TM_OK(cclStreamDestroy(stream));
}

/* Bytes that the larger of the two calls may write. */
static size_t bytes_of(const struct call *c)
{
    size_t size = c->type == cclInt8 ? 1 : c->type == cclInt64 ? 8 : 4;

    return c->count * size * (c->kind >= ALL_TO_ALL ? (size_t)tm_size : 1);
}

static void play(const struct scenario *s, int odd)
{
    const struct call *mine = tm_rank == odd ? &s->odd : &s->others;
    cclResult_t rc, async = cclSuccess;
    size_t largest = bytes_of(&s->odd) > bytes_of(&s->others) ? bytes_of(&s->odd) : bytes_of(&s->others);
    double start;

    open_world();
    tm_at("%s, odd rank %d", s->name, odd);
    start = tm_now();
    rc = issue_and_wait(mine, heap);
    tm_expect(__FILE__, __LINE__, s->name, rc, cclInvalidUsage);
    for (int i = 0; i < 4 && rc != cclSuccess && s->needles[i] != NULL; i++) {
        TM_TEXT(s->needles[i]);
    }
    TM_WITHIN(s->name, tm_now() - start, LIMIT_S);
    TM_OK(cclCommGetAsyncError(comm, &async));
    TEST_EQ(async, cclInvalidUsage);
    TM_RC(issue(mine, send_buf, heap, comm, stream), cclInvalidUsage); /* the communicator stays dead */
    tm_get(host, heap, MOST);
    tm_check_bytes(host + largest, MOST - largest, TM_POISON, "memory behind the receive buffer of a mismatched call");
    close_world();
}

/* The last rank never comes: it aborts while the others are inside. */
static void absent(const struct call *c)
{
    cclResult_t rc;
    double start;

    open_world();
    tm_at("kind %d, the last rank aborts", (int)c->kind);
    start = tm_now();
    if (tm_rank == tm_size - 1) {
        tm_sleep_ms(30);
        TM_OK(cclCommAbort(comm));
    } else {
        rc = issue_and_wait(c, tm_rank % 2 == 0 ? heap : plain);
        TEST_EQ(rc, cclRemoteError);
        TM_OK(cclCommAbort(comm));
    }
    TM_WITHIN("an absent rank", tm_now() - start, LIMIT_S);
    (void)cclStreamSynchronize(stream);
    TM_OK(cclStreamDestroy(stream));
}

int main(int argc, char **argv)
{
    TM_INIT(argc, argv);
    host = malloc(MOST);
    TM_MUST(cclDeviceMalloc((void **)&send_buf, MOST));
    TM_MUST(cclDeviceMalloc((void **)&plain, MOST));
    for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
        play(&scenarios[i], (int)i % tm_size);
    }
    for (int kind = ALL_REDUCE; kind <= SCATTER; kind++) {
        const struct call small = {(enum kind)kind, 5, cclInt32, cclSum, 0}, large = {(enum kind)kind, 100000 / (size_t)tm_size, cclInt64, cclSum, 0};

        absent(&small);
        absent(&large);
    }
    TM_OK(cclDeviceFree(send_buf));
    TM_OK(cclDeviceFree(plain));
    free(host);
    return tm_finish();
}
