/* SPDX-License-Identifier: MIT
 *
 * Proves that ranks that disagree about an operation get cclInvalidUsage on every rank within 5 s, with a text
 * that names both sides, before a byte is stored outside the smaller buffer, also on ranks that are not in
 * conflict or have not arrived, and that a new communicator works afterwards. */
/* CTEST: ranks 2 3 4 8; labels mpi host quick; timeout 60; args small */
/* CTEST: ranks 2 3 5; labels mpi host; timeout 120; args full */
#include <string.h>

#include "common.h"

#define LIMIT_S 5.0
#define ABSENT_MS 150 /* how late the absent rank comes */

enum what { GATHER, GATHER_2D, BARRIER, EMPTY_THEN_GATHER };

struct call {
    enum what what;
    size_t m, count; /* rows, elements a row; 1-D: m 1 */
    cclDataType_t type;
    int variant, blocks, tile_n;
    bool plain; /* receive buffer in no window; variant copy: send buffer */
    size_t skew; /* of the send buffer, bytes */
};

struct scenario {
    const char *name;
    struct call odd, others;
    const char *needles[4]; /* what the text must name, on every rank */
};

#define G(count, type)                                             \
    {                                                              \
        GATHER, 1, (count), (type), 0, CCL_UNSET, CCL_UNSET, false, 0 \
    }
#define G2(m, n, type)                                              \
    {                                                               \
        GATHER_2D, (m), (n), (type), 0, CCL_UNSET, CCL_UNSET, false, 0 \
    }
#define V(count, variant, blocks, tile_n, plain)                                \
    {                                                                           \
        GATHER_2D, 1, (count), cclInt32, (variant), (blocks), (tile_n), (plain), 0 \
    }
#define B                                                      \
    {                                                          \
        BARRIER, 1, 0, cclInt8, 0, CCL_UNSET, CCL_UNSET, false, 0 \
    }

#define C(count, plain, skew)                                                                    \
    {                                                                                            \
        GATHER_2D, 1, (count), cclInt32, cclVariantCopy, CCL_UNSET, CCL_UNSET, (plain), (skew)   \
    }

static const struct scenario scenarios[] = {
    {"copy, count", C(50000, false, 0), C(40000, false, 0), {"50000", "40000", "copy", "gather"}},
    {"copy, the others push", C(50000, false, 0), V(40000, cclVariantDirect, CCL_UNSET, CCL_UNSET, false), {"50000", "40000", "copy", "direct"}},
    {"copy, the others one packet", C(50000, false, 0), G(2, cclInt64), {"50000", "2", "copy", "int64"}},
    {"push, the others copy", V(50000, cclVariantStaged, CCL_UNSET, CCL_UNSET, false), C(40000, false, 0), {"50000", "40000", "copy", "staged"}},
    {"copy from no heap chunk", C(5000, true, 0), C(5000, false, 0), {"copy", "heap chunk", "rank", NULL}},
    {"copy from another place", C(5000, false, 8), C(5000, false, 0), {"copy", "offset 8|offset", "window", "rank"}},
    {"count, small", G(12, cclInt32), G(13, cclInt32), {"12", "13", "int32", "gather"}},
    {"count, large", G(50000, cclFloat16), G(40000, cclFloat16), {"50000", "40000", "float16", "gather"}},
    {"type of equal size", G(777, cclInt32), G(777, cclFloat32), {"777", "int32", "float32", NULL}},
    {"type of another size", G(60001, cclUint8), G(60001, cclFloat64), {"60001", "uint8", "float64", NULL}},
    {"operation", B, G(100, cclInt8), {"barrier", "gather", "100", "int8"}},
    {"operation, large", B, G(300000, cclBfloat16), {"barrier", "gather", "300000", "bfloat16"}},
    {"one packet, the others push", G(2, cclInt64), G(70000, cclInt64), {"2", "70000", "int64", NULL}},
    {"push, the others one packet", G(70000, cclInt64), G(2, cclInt64), {"70000", "2", "int64", NULL}},
    {"shape", G2(10, 20, cclInt32), G2(20, 10, cclInt32), {"10", "20", "int32", NULL}},
    {"shape, large", G2(100, 801, cclInt32), G2(801, 100, cclInt32), {"100", "801", "int32", NULL}},
    {"one dimension or two", G(4800, cclInt32), G2(48, 100, cclInt32), {"4800", "48", "int32", NULL}},
    {"nothing, the others something",
     {EMPTY_THEN_GATHER, 1, 64, cclInt8, 0, CCL_UNSET, CCL_UNSET, false, 0},
     G(32, cclInt8),
     {"64", "32", NULL, NULL}},
    {"variant",
     V(5000, cclVariantDirect, CCL_UNSET, CCL_UNSET, false),
     V(5000, cclVariantStaged, CCL_UNSET, CCL_UNSET, false),
     {"5000", NULL, NULL, NULL}},
    {"variant ll",
     V(5000, cclVariantLL, CCL_UNSET, CCL_UNSET, false),
     V(5000, cclVariantStaged, CCL_UNSET, CCL_UNSET, false),
     {"5000", NULL, NULL, NULL}},
    {"comm_sms",
     V(50000, cclVariantDirect, 1, 64, false),
     V(50000, cclVariantDirect, 16, 64, false),
     {"50000", NULL, NULL, NULL}},
    {"tile",
     V(5000, cclVariantStaged, 2, 64, false),
     V(5000, cclVariantStaged, 2, 256, false),
     {"5000", NULL, NULL, NULL}},
    {"direct without a window",
     V(5000, cclVariantDirect, CCL_UNSET, CCL_UNSET, true),
     V(5000, cclVariantDirect, CCL_UNSET, CCL_UNSET, false),
     {"direct|window", NULL, NULL, NULL}},
};

static int odd_rank, absent_rank; /* of the scenario being played */

static size_t part_bytes(const struct call *c)
{
    for (unsigned t = 0; t < TM_NUM_TYPES; t++) {
        if (tm_types[t].type == c->type) {
            return c->m * c->count * tm_types[t].size;
        }
    }
    return 0;
}

static cclResult_t enqueue(const struct call *c, const void *send, void *recv, cclComm_t comm, cclStream_t stream)
{
    cclCallConfig_t config = CCL_CALL_CONFIG_INITIALIZER;
    cclResult_t rc;

    switch (c->what) {
    case GATHER:
        return cclAllGather(send, recv, c->count, c->type, comm, stream);
    case BARRIER:
        return cclBarrier(comm, stream);
    case EMPTY_THEN_GATHER:
        rc = cclAllGather(send, recv, 0, c->type, comm,
                          stream); /* takes no part in anything; may find the communicator dead */
        return rc != cclSuccess ? rc : cclAllGather(send, recv, c->count, c->type, comm, stream);
    default:
        config.variant = c->variant;
        config.comm_sms = c->blocks;
        config.tile_n = c->tile_n;
        return cclAllGather2D(send, c->count, recv, c->count, c->m, c->count, c->type, &config, comm, stream);
    }
}

/* The call itself or the synchronisation must say so; the text is that of the failing call. */
static void expect_refusal(const struct scenario *s, const struct call *mine, const void *send, void *recv,
                           cclComm_t comm, cclStream_t stream, bool again)
{
    cclResult_t rc = enqueue(mine, send, recv, comm, stream);

    if (rc == cclSuccess) {
        tm_at("%s: synchronise, odd rank %d, absent %d", s->name, odd_rank, absent_rank);
        rc = cclStreamSynchronize(stream);
    } else if (!again && !mine->plain && mine->what != EMPTY_THEN_GATHER) {
        /* legal only when a faster rank's failure is known already */
        cclResult_t async = cclSuccess;

        TM_OK(cclCommGetAsyncError(comm, &async));
        TEST_EQ(async, rc);
    }
    tm_expect(__FILE__, __LINE__, s->name, rc, cclInvalidUsage);
    for (int i = 0; i < 4 && rc != cclSuccess && s->needles[i] != NULL; i++) {
        TM_TEXT(s->needles[i]);
    }
}

static void wait_for_async(cclComm_t comm)
{
    cclResult_t async = cclSuccess;
    double start = tm_now();

    while (async == cclSuccess && tm_now() - start < tm_limit(2 * LIMIT_S)) {
        TM_OK(cclCommGetAsyncError(comm, &async));
        tm_sleep_ms(1);
    }
    TEST_EQ(async, cclInvalidUsage);
}

static void new_world_works(cclStream_t stream, uint8_t *send, uint8_t *recv)
{
    cclComm_t comm = tm_comm_create(MPI_COMM_WORLD, NULL);
    struct tm_gather g;

    for (int round = 0; round < 2; round++) {
        memset(&g, 0, sizeof(g));
        g.comm = comm;
        g.stream = stream;
        g.rank = tm_rank;
        g.n = tm_size;
        g.send = send;
        g.recv = recv;
        g.count = round == 0 ? 17 : 9000;
        g.type = tm_type_of_size(4, 0);
        g.seed = 5 + (uint64_t)round;
        g.what = "new communicator after a mismatch";
        tm_gather(&g);
    }
    TM_OK(cclCommDestroy(comm));
}

/* odd: the rank that calls something else; absent: the one that comes late (-1: none). */
static void play(const struct scenario *s, int odd, int absent)
{
    const struct call *mine = tm_rank == odd ? &s->odd : &s->others;
    size_t own = part_bytes(mine) * (size_t)tm_size, most = part_bytes(&s->odd) * (size_t)tm_size;
    cclComm_t comm = tm_comm_create(MPI_COMM_WORLD, NULL);
    cclStream_t stream = tm_stream_create();
    uint8_t *send, *heap, *heap_send, *plain, *recv, *from, *host;
    cclResult_t async = cclSuccess;
    double start;

    odd_rank = odd;
    absent_rank = absent;
    most = part_bytes(&s->others) * (size_t)tm_size > most ? part_bytes(&s->others) * (size_t)tm_size : most;
    most += 65536; /* room for an overrun, and for the gather afterwards */
    most = most < 40000 * (size_t)tm_size ? 40000 * (size_t)tm_size : most;
    TM_MUST(cclMemAlloc(comm, (void **)&heap, most));
    TM_MUST(cclMemAlloc(comm, (void **)&heap_send, most));
    TM_MUST(cclDeviceMalloc((void **)&plain, most));
    TM_MUST(cclDeviceMalloc((void **)&send, most));
    recv = mine->plain && mine->variant != cclVariantCopy ? plain : heap;
    from = mine->variant == cclVariantCopy && !mine->plain ? heap_send : send;
    from += mine->skew;
    host = malloc(most);
    tm_set(recv, TM_POISON, most);
    MPI_Barrier(MPI_COMM_WORLD);
    start = tm_now();
    if (tm_rank == absent) {
        tm_at("%s: absent", s->name);
        tm_sleep_ms(ABSENT_MS);
        wait_for_async(comm);
        expect_refusal(s, mine, from, recv, comm, stream, true);
    } else {
        tm_at("%s: call, odd rank %d, absent %d", s->name, odd, absent);
        expect_refusal(s, mine, from, recv, comm, stream, false);
    }
    TM_WITHIN(s->name, tm_now() - start, LIMIT_S);
    TM_OK(cclCommGetAsyncError(comm, &async));
    TEST_EQ(async, cclInvalidUsage);
    expect_refusal(s, mine, from, recv, comm, stream, true); /* the communicator stays dead */
    tm_get(host, recv, most);
    tm_check_bytes(host + own, most - own, TM_POISON, "memory behind the receive buffer of a mismatched call");
    MPI_Barrier(MPI_COMM_WORLD); /* who has not called yet would see the abort first */
    TM_OK(tm_rank % 2 == 0 ? cclCommDestroy(comm) : cclCommAbort(comm)); /* either way */
    TM_OK(cclStreamSynchronize(stream));                                 /* its error was reported once */
    new_world_works(stream, send + TM_GUARD, plain + TM_GUARD);
    TM_OK(cclDeviceFree(send));
    TM_OK(cclDeviceFree(plain));
    TM_OK(cclStreamDestroy(stream));
    free(host);
}

int main(int argc, char **argv)
{
    bool full;

    TM_INIT(argc, argv);
    full = tm_has_arg("full");
    tm_watchdog(full ? 110 : 50);
    if (tm_size < 2) {
        if (tm_rank == 0) {
            printf("SKIPPED: one rank cannot disagree with itself\n");
        }
        MPI_Finalize();
        return TEST_SKIP;
    }
    for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
        int last = tm_size - 1;

        if (full || i % 2 == (size_t)tm_size % 2) {
            play(&scenarios[i], 0, -1); /* from three ranks on there is one that agrees with the majority */
        }
        if (full || i % 2 != (size_t)tm_size % 2) {
            play(&scenarios[i], tm_size > 2 ? 1 : 0, -1);
        }
        if (tm_size > 2 && (full || i % 4 == (size_t)tm_size % 4)) {
            play(&scenarios[i], 0, last);
            play(&scenarios[i], last, 1 % last);
        }
    }
    return tm_finish();
}
