/* SPDX-License-Identifier: MIT
 *
 * Proves that every collective beside all-gather delivers exactly what it must: each type with each operator, counts around the edges of lines and pieces, in place
 * and not, kinds of memory mixed by rank, every root, misaligned buffers, ragged and empty counts of all-to-all-v, and touches nothing beside. */
/* CTEST: ranks 1 2 3 4 8; labels mpi host quick; timeout 60; args small */
/* CTEST: ranks 3 5; labels mpi host; timeout 120; args full */
/* CTEST: ranks 3; labels mpi host; timeout 60; args small; env CCL_VARIANT=staged; name staged */
/* CTEST: ranks 3; labels mpi host; timeout 60; args small; env CCL_LL_MAX=0; name push */
/* CTEST: ranks 3; labels mpi host; timeout 60; gpu 0; args small; env CCL_HOST_THREADS=1 CCL_VARIANT=ll; name ll */
#include <string.h>

#include "common.h"
#include "values.h"

enum op { ALL_REDUCE, REDUCE_SCATTER, REDUCE, BROADCAST, ALL_TO_ALL, ALL_TO_ALL_V, GATHER, SCATTER, NUM_OPS };
static const char *const op_names[NUM_OPS] = {"all_reduce", "reduce_scatter", "reduce", "broadcast", "all_to_all", "all_to_all_v", "gather", "scatter"};

struct test_case {
    enum op op;
    cclDataType_t type;
    int redop, root;
    size_t count;
    bool in_place;
    int buffers;         /* enum tm_kind, TM_NUM_KINDS: mixed by rank */
    size_t skew;         /* bytes, of both buffers, grows with the rank */
    uint64_t seed;
};

#define MOST_COUNT ((size_t)150000) /* elements a rank of the largest case, bytes of one element included: 8 */
static cclComm_t comm;
static cclStream_t stream;
static struct tm_buf send_buf[TM_NUM_KINDS], recv_buf[TM_NUM_KINDS];
static uint8_t *host;
static size_t buffer_bytes;
static uint64_t seed = 1;
static cclRedOp_t premul[cclNumTypes][2]; /* scalar on the host, in device memory */
static uint8_t *scalars;

static void setup(void)
{
    buffer_bytes = MOST_COUNT * 8 + 4 * TM_GUARD + 1024;
    comm = tm_comm_create(MPI_COMM_WORLD, NULL);
    stream = tm_stream_create();
    host = malloc(buffer_bytes);
    for (int k = 0; k < TM_NUM_KINDS; k++) {
        tm_buf_create(&send_buf[k], comm, (enum tm_kind)k, buffer_bytes);
        tm_buf_create(&recv_buf[k], comm, (enum tm_kind)k, buffer_bytes);
    }
    TM_MUST(cclDeviceMalloc((void **)&scalars, 16 * cclNumTypes));
    for (int t = 0; t < cclNumTypes; t++) {
        uint8_t value[8] = {0};

        tv_put((cclDataType_t)t, value, tv_scalar(tm_rank));
        tm_put(scalars + 16 * t, value, 8);
        TM_MUST(cclRedOpCreatePreMulSum(&premul[t][0], value, (cclDataType_t)t, cclScalarHostImmediate, comm));
        TM_MUST(cclRedOpCreatePreMulSum(&premul[t][1], scalars + 16 * t, (cclDataType_t)t, cclScalarDevice, comm));
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void teardown(void)
{
    for (int t = 0; t < cclNumTypes; t++) {
        TM_OK(cclRedOpDestroy(premul[t][0], comm));
        TM_OK(cclRedOpDestroy(premul[t][1], comm));
        TM_RC(cclRedOpDestroy(premul[t][1], comm), cclInvalidArgument);
    }
    for (int k = 0; k < TM_NUM_KINDS; k++) {
        tm_buf_destroy(&send_buf[k]);
        tm_buf_destroy(&recv_buf[k]);
    }
    TM_OK(cclDeviceFree(scalars));
    TM_OK(cclStreamDestroy(stream));
    TM_OK(cclCommDestroy(comm));
    free(host);
}

/* All-to-all-v: what from sends to to; now and then nothing. */
static size_t pair_count(const struct test_case *c, int from, int to)
{
    uint64_t state = c->seed * 77 + (uint64_t)(from * 64 + to), dice = tm_random(&state);

    return dice % 4 == 0 ? 0 : dice / 4 % (c->count / (size_t)tm_size + 1);
}

static size_t pair_place(const struct test_case *c, int rank, int peer, bool sends)
{
    size_t at = 0;

    for (int r = 0; r < peer; r++) {
        at += (sends ? pair_count(c, rank, r) : pair_count(c, r, rank)) + (size_t)(r % 3); /* gaps */
    }
    return at;
}

/* Elements of the own buffers. */
static size_t sends(const struct test_case *c)
{
    size_t n = (size_t)tm_size;

    switch (c->op) {
    case REDUCE_SCATTER:
    case ALL_TO_ALL: return n * c->count;
    case ALL_TO_ALL_V: return pair_place(c, tm_rank, tm_size, true);
    case SCATTER: return tm_rank == c->root ? n * c->count : 0;
    case BROADCAST: return tm_rank == c->root ? c->count : 0;
    default: return c->count;
    }
}

static size_t receives(const struct test_case *c)
{
    size_t n = (size_t)tm_size;

    switch (c->op) {
    case ALL_TO_ALL: return n * c->count;
    case ALL_TO_ALL_V: return pair_place(c, tm_rank, tm_size, false);
    case GATHER: return tm_rank == c->root ? n * c->count : 0;
    case REDUCE: return tm_rank == c->root ? c->count : 0;
    default: return c->count;
    }
}

static bool reduces(enum op op)
{
    return op <= REDUCE;
}

/* Element i of rank's input, for the copying ones; never the poison. */
static void element(const struct test_case *c, int rank, size_t i, uint8_t *to)
{
    uint64_t state = c->seed + (uint64_t)rank * 1000003u + i * 31, dice = tm_random(&state) & 0x7f7f7f7f7f7f7f7fu;

    memcpy(to, &dice, tv_types[c->type].size);
}

static void fill_send(const struct test_case *c, uint8_t *to, size_t elements)
{
    size_t size = tv_types[c->type].size;

    for (size_t i = 0; i < elements; i++) {
        if (reduces(c->op)) {
            tv_put(c->type, to + i * size, tv_value(c->type, c->redop, c->seed, tm_rank, i));
        } else {
            element(c, tm_rank, i, to + i * size);
        }
    }
}

/* What element i of the own output must be. False: nobody writes it. */
static bool expected(const struct test_case *c, size_t i, uint8_t *to)
{
    size_t me = (size_t)tm_rank;

    switch (c->op) {
    case ALL_REDUCE:
    case REDUCE: tv_put(c->type, to, tv_result(c->type, c->redop, c->seed, tm_size, i)); return true;
    case REDUCE_SCATTER: tv_put(c->type, to, tv_result(c->type, c->redop, c->seed, tm_size, me * c->count + i)); return true;
    case BROADCAST: element(c, c->root, i, to); return true;
    case ALL_TO_ALL: element(c, (int)(i / c->count), me * c->count + i % c->count, to); return true;
    case GATHER: element(c, (int)(i / c->count), i % c->count, to); return true;
    case SCATTER: element(c, c->root, me * c->count + i, to); return true;
    default:
        for (int r = 0; r < tm_size; r++) {
            size_t at = pair_place(c, tm_rank, r, false);

            if (i >= at && i < at + pair_count(c, r, tm_rank)) {
                element(c, r, pair_place(c, r, tm_rank, true) + i - at, to);
                return true;
            }
        }
        return false;
    }
}

static cclRedOp_t operator_of(const struct test_case *c)
{
    return c->redop == TV_PREMUL ? premul[c->type][c->seed % 2] : (cclRedOp_t)c->redop;
}

static cclResult_t call_v(const struct test_case *c, const void *send, void *recv)
{
    size_t counts[4][64];

    for (int r = 0; r < tm_size; r++) {
        counts[0][r] = pair_count(c, tm_rank, r);
        counts[1][r] = pair_place(c, tm_rank, r, true);
        counts[2][r] = pair_count(c, r, tm_rank);
        counts[3][r] = pair_place(c, tm_rank, r, false);
    }
    return cclAllToAllv(send, counts[0], counts[1], recv, counts[2], counts[3], c->type, comm, stream);
}

static cclResult_t call(const struct test_case *c, const void *send, void *recv)
{
    switch (c->op) {
    case ALL_REDUCE: return cclAllReduce(send, recv, c->count, c->type, operator_of(c), comm, stream);
    case REDUCE_SCATTER: return cclReduceScatter(send, recv, c->count, c->type, operator_of(c), comm, stream);
    case REDUCE: return cclReduce(send, recv, c->count, c->type, operator_of(c), c->root, comm, stream);
    case BROADCAST: return cclBroadcast(send, recv, c->count, c->type, c->root, comm, stream);
    case ALL_TO_ALL: return cclAllToAll(send, recv, c->count, c->type, comm, stream);
    case ALL_TO_ALL_V: return call_v(c, send, recv);
    case GATHER: return cclGather(send, recv, c->count, c->type, c->root, comm, stream);
    default: return cclScatter(send, recv, c->count, c->type, c->root, comm, stream);
    }
}

static void verify(const struct test_case *c, const uint8_t *recv, const uint8_t *send)
{
    size_t size = tv_types[c->type].size, out = receives(c), in = sends(c);
    bool good;

    tm_gathers++;
    tm_get(host, recv - TM_GUARD, out * size + 2 * TM_GUARD);
    good = tm_check_bytes(host, TM_GUARD, TM_GUARD_BYTE, "guard before recv") &&
           tm_check_bytes(host + TM_GUARD + out * size, TM_GUARD, TM_GUARD_BYTE, "guard behind recv");
    for (size_t i = 0; i < out && good; i++) {
        uint8_t want[8];
        const uint8_t *got = host + TM_GUARD + i * size;

        if (!expected(c, i, want)) {
            memset(want, TM_POISON, sizeof(want));
        }
        if (memcmp(got, want, size) != 0 && !(reduces(c->op) && tv_get(c->type, got) == 0 && tv_get(c->type, want) == 0)) {
            tm_fail(__FILE__, __LINE__, "index %zu of %zu: want %.17g, got %.17g", i, out, tv_get(c->type, want), tv_get(c->type, got));
            good = false;
        }
    }
    if (send != NULL && in != 0) {
        tm_get(host, send - TM_GUARD, in * size + 2 * TM_GUARD);
        good = tm_check_bytes(host, TM_GUARD, TM_GUARD_BYTE, "guard before send") && good;
        good = tm_check_bytes(host + TM_GUARD + in * size, TM_GUARD, TM_GUARD_BYTE, "guard behind send") && good;
        fill_send(c, host, in);
        uint8_t *was = malloc(in * size);
        tm_get(was, send, in * size);
        if (memcmp(was, host, in * size) != 0) {
            tm_fail(__FILE__, __LINE__, "the send buffer changed");
            good = false;
        }
        free(was);
    }
    if (!good) {
        tm_fail(__FILE__, __LINE__, "  in: %s %s %s, root %d, count %zu, buffers %d, skew %zu%s", op_names[c->op], tv_types[c->type].name,
                reduces(c->op) ? tv_op_names[c->redop] : "", c->root, c->count, c->buffers, c->skew, c->in_place ? ", in place" : "");
    }
}

/* Where this rank's input lies when the call is in place. */
static size_t place_of_input(const struct test_case *c)
{
    return c->op == GATHER ? (size_t)c->root * c->count : 0;
}

static size_t place_of_output(const struct test_case *c)
{
    return c->op == REDUCE_SCATTER ? (size_t)tm_rank * c->count : c->op == SCATTER ? (size_t)c->root * c->count : 0;
}

static void run(struct test_case c)
{
    size_t size = tv_types[c.type].size, in, out;
    int shift = c.buffers == TM_NUM_KINDS ? (tm_rank + (int)(c.seed % 4)) % TM_NUM_KINDS : c.buffers;
    uint8_t *send, *recv;

    c.seed = seed++;
    in = sends(&c);
    out = receives(&c);
    bool in_place = c.in_place && c.op != ALL_TO_ALL && c.op != ALL_TO_ALL_V &&
                    (c.op == ALL_REDUCE || c.op == REDUCE_SCATTER || tm_rank == c.root);
    send = send_buf[shift].base + 2 * TM_GUARD + c.skew * (size_t)(tm_rank + 1) % 16;
    recv = recv_buf[(shift + (int)(c.seed / 4)) % TM_NUM_KINDS].base + 2 * TM_GUARD + c.skew * (size_t)(2 * tm_rank + 1) % 16;
    memset(host, TM_GUARD_BYTE, TM_GUARD);
    if (in_place) { /* one buffer; guards around the larger of the two, the output's are the input around it */
        uint8_t *whole = recv, *mine = whole + place_of_input(&c) * size;
        size_t most = in > out ? in : out;

        memset(host + TM_GUARD, TM_GUARD_BYTE, most * size + TM_GUARD);
        tm_put(whole - TM_GUARD, host, most * size + 2 * TM_GUARD);
        fill_send(&c, host, in);
        tm_put(mine, host, in * size);
        send = mine;
        recv = whole + place_of_output(&c) * size;
    } else {
        memset(host + TM_GUARD, TM_POISON, out * size);
        memset(host + TM_GUARD + out * size, TM_GUARD_BYTE, TM_GUARD);
        tm_put(recv - TM_GUARD, host, out * size + 2 * TM_GUARD);
        fill_send(&c, host + TM_GUARD, in);
        memset(host + TM_GUARD + in * size, TM_GUARD_BYTE, TM_GUARD);
        tm_put(send - TM_GUARD, host, in * size + 2 * TM_GUARD);
    }
    tm_at("%s %s %s, root %d, count %zu%s", op_names[c.op], tv_types[c.type].name, tv_op_names[c.redop], c.root, c.count, in_place ? ", in place" : "");
    bool unused_send = in == 0 && c.op != ALL_TO_ALL_V, unused_recv = out == 0 && c.op != ALL_TO_ALL_V;
    if (!TM_OK(call(&c, unused_send ? NULL : send, unused_recv ? NULL : recv)) || !TM_OK(cclStreamSynchronize(stream))) {
        tm_die(); /* the others would wait */
    }
    if (in_place && c.op != ALL_REDUCE && c.op != REDUCE && c.op != BROADCAST && c.op != GATHER) { /* the guards of recv are input */
        uint8_t want[8], *got = malloc(out * size + 1);

        tm_get(got, recv, out * size);
        tm_gathers++;
        for (size_t i = 0; i < out; i++) {
            if (expected(&c, i, want) && memcmp(got + i * size, want, size) != 0 && !(reduces(c.op) && tv_get(c.type, got + i * size) == 0 && tv_get(c.type, want) == 0)) {
                tm_fail(__FILE__, __LINE__, "%s in place, index %zu: want %g, got %g", op_names[c.op], i, tv_get(c.type, want), tv_get(c.type, got + i * size));
                break;
            }
        }
        free(got);
    } else {
        verify(&c, recv, in_place ? NULL : send);
    }
}

static const size_t counts[] = {1, 3, 14, 17, 255, 1000, 4099, 20011, 150000};
#define NUM_COUNTS (sizeof(counts) / sizeof(counts[0]))

/* Every step-th case of the table; all ranks choose alike, and other ones for every number of ranks. */
static void table(unsigned step)
{
    unsigned number = (unsigned)tm_size;

    for (int op = 0; op < NUM_OPS; op++) {
        for (int type = 0; type < cclNumTypes; type++) {
            for (int redop = 0; redop < (reduces((enum op)op) ? TV_NUM_OPS : 1); redop++) {
                for (size_t k = 0; k < NUM_COUNTS; k++) {
                    bool large = counts[k] > 5000, wide = op != ALL_REDUCE && op != REDUCE && op != BROADCAST;
                    size_t count = wide && op != ALL_TO_ALL_V ? counts[k] / (counts[k] > 255 ? (size_t)tm_size : 1) : counts[k];

                    if (number++ % (large ? 5 * step : step) != 0 && !(step == 1 && counts[k] == 17)) {
                        continue;
                    }
                    struct test_case c = {(enum op)op, (cclDataType_t)type, redop, (int)(number / 3) % tm_size, count, number % 2 != 0,
                                          (int)(number / 2 % (TM_NUM_KINDS + 1)), number % 7 == 0 ? 3 : number % 7 == 1 ? 8 : 0, 0};
                    if (count * 8 * (size_t)(wide ? tm_size : 1) <= MOST_COUNT * 8) {
                        run(c);
                    }
                }
            }
        }
    }
}

/* Small sums of floats in whole 8-byte words, which may have a kernel of their own; misaligned (skew 4) on some ranks only, these take another one. */
static void sums_of_words(void)
{
    static const cclDataType_t types[] = {cclFloat16, cclFloat32, cclBfloat16};
    static const size_t words[] = {1, 5, 64, 512, 520, 5000, 20000};

    for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
        for (size_t w = 0; w < sizeof(words) / sizeof(words[0]); w++) {
            for (int form = 0; form < 3; form++) {
                run((struct test_case){ALL_REDUCE, types[t], TV_SUM, 0, words[w] * 8 / tv_types[types[t]].size, form == 1, TM_HEAP, form == 2 ? 4 : 0, 0});
            }
        }
    }
}

/* Roots, one after another, with a root that runs ahead of slow ranks; all calls before the first synchronisation. */
static void roots_run_ahead(void)
{
    enum { CALLS = 60, COUNT = 700 };
    size_t stride = COUNT * sizeof(int32_t);
    int32_t *values = malloc(CALLS * stride);
    uint8_t *base = recv_buf[TM_HEAP].base;

    for (int i = 0; i < CALLS * COUNT; i++) {
        values[i] = i * 7 + 1;
    }
    for (int root = 0; root < tm_size; root++) {
        tm_set(base, TM_POISON, CALLS * stride);
        tm_put(send_buf[TM_PLAIN].base, values, CALLS * stride);
        for (int i = 0; i < CALLS; i++) {
            size_t count = i % 3 == 0 ? COUNT : i % 3 == 1 ? 5 : 100;

            if (tm_rank != root && i % 20 == 7) {
                tm_sleep_ms(1);
            }
            tm_at("broadcast %d of root %d", i, root);
            TM_MUST(cclBroadcast(send_buf[TM_PLAIN].base + (size_t)i * stride, base + (size_t)i * stride, count, cclInt32, root, comm, stream));
        }
        TM_MUST(cclStreamSynchronize(stream));
        int32_t *got = malloc(CALLS * stride);
        tm_get(got, base, CALLS * stride);
        for (int i = 0; i < CALLS; i++) {
            size_t count = i % 3 == 0 ? COUNT : i % 3 == 1 ? 5 : 100;

            tm_gathers++;
            if (memcmp(got + i * COUNT, values + i * COUNT, count * sizeof(int32_t)) != 0) {
                tm_fail(__FILE__, __LINE__, "broadcast %d of root %d is wrong", i, root);
            }
        }
        free(got);
    }
    free(values);
}

/* Different operations one after another on the same words and rings, all enqueued before the first synchronisation. */
static void mixed_back_to_back(unsigned rounds)
{
    const size_t part = 3001, n = (size_t)tm_size;
    int32_t *in = malloc(part * n * 4), *got = malloc(part * n * 4);
    uint8_t *send = send_buf[TM_HEAP].base, *out[6];
    size_t bytes = ((part * n * 4 + 255) & ~(size_t)255);

    if (6 * bytes > buffer_bytes) {
        return;
    }
    for (size_t i = 0; i < part * n; i++) {
        in[i] = (int32_t)(i * 3 + (size_t)tm_rank);
    }
    tm_put(send, in, part * n * 4);
    for (unsigned round = 0; round < rounds; round++) {
        size_t count = round % 3 == 0 ? part : round % 3 == 1 ? 9 : 801;
        int root = (int)(round % n);
        uint8_t *base = recv_buf[round % 2 == 0 ? TM_HEAP : TM_PLAIN].base;

        for (int i = 0; i < 6; i++) {
            out[i] = base + (size_t)i * bytes;
        }
        tm_set(base, TM_POISON, 6 * bytes);
        tm_at("mixed, round %u", round);
        TM_MUST(cclAllReduce(send, out[0], count, cclInt32, cclSum, comm, stream));
        TM_MUST(cclAllToAll(send, out[1], count, cclInt32, comm, stream));
        TM_MUST(cclAllGather(send, out[2], count, cclInt32, comm, stream));
        TM_MUST(cclReduceScatter(send, out[3], count, cclInt32, cclMax, comm, stream));
        TM_MUST(cclBroadcast(send, out[4], count, cclInt32, root, comm, stream));
        TM_MUST(cclGather(send, out[5], count, cclInt32, root, comm, stream));
        TM_MUST(cclStreamSynchronize(stream));
        int sum = tm_size * (tm_size - 1) / 2;
        for (int k = 0; k < 6; k++) {
            size_t elements = k == 1 || k == 2 || (k == 5 && root == tm_rank) ? count * n : k == 5 ? 0 : count;

            tm_get(got, out[k], elements * 4);
            tm_gathers++;
            for (size_t i = 0; i < elements; i++) {
                size_t r = i / count, at = i % count;
                int32_t want = k == 0   ? (int32_t)(i * 3 * n) + sum
                               : k == 1 ? (int32_t)((count * (size_t)tm_rank + at) * 3 + r)
                               : k == 3 ? (int32_t)((count * (size_t)tm_rank + i) * 3 + n - 1)
                               : k == 4 ? (int32_t)(i * 3 + (size_t)root)
                                        : (int32_t)(at * 3 + r);

                if (got[i] != want) {
                    tm_fail(__FILE__, __LINE__, "mixed round %u, call %d, count %zu, index %zu: want %d, got %d", round, k, count, i, want, got[i]);
                    break;
                }
            }
        }
    }
    free(in);
    free(got);
}

static void arguments(void)
{
    uint8_t *p = send_buf[TM_PLAIN].base;
    const size_t one[64] = {1}, none[64] = {0};
    size_t to_self[64] = {0};
    cclRedOp_t op;

    TM_RC(cclAllReduce(p, p, 4, (cclDataType_t)12, cclSum, comm, stream), cclInvalidArgument);
    TM_RC(cclAllReduce(p, p, 4, cclInt8, (cclRedOp_t)-1, comm, stream), cclInvalidArgument);
    TM_RC(cclAllReduce(p, p, 4, cclInt8, (cclRedOp_t)4000, comm, stream), cclInvalidArgument);
    TM_RC(cclAllReduce(p, p, 4, cclInt8, premul[cclFloat32][0], comm, stream), cclInvalidArgument);
    TM_TEXT("float32");
    TM_RC(cclAllReduce(NULL, p, 4, cclInt8, cclSum, comm, stream), cclInvalidArgument);
    TM_RC(cclAllReduce(p, NULL, 4, cclInt8, cclSum, comm, stream), cclInvalidArgument);
    TM_RC(cclAllReduce(p, p, 4, cclInt8, cclSum, NULL, stream), cclInvalidArgument);
    TM_RC(cclReduce(p, p, 4, cclInt8, cclSum, tm_size, comm, stream), cclInvalidArgument);
    TM_TEXT("root");
    TM_RC(cclBroadcast(p, p, 4, cclInt8, -1, comm, stream), cclInvalidArgument);
    TM_RC(cclGather(p, p, 4, cclInt8, tm_size, comm, stream), cclInvalidArgument);
    TM_RC(cclScatter(p, p, 4, cclInt8, -3, comm, stream), cclInvalidArgument);
    TM_RC(cclAllToAllv(p, NULL, none, p, one, none, cclInt8, comm, stream), cclInvalidArgument);
    TM_RC(cclAllToAllv(NULL, one, none, p, one, none, cclInt8, comm, stream), cclInvalidArgument);
    to_self[tm_rank] = 2;
    TM_RC(cclAllToAllv(p, to_self, none, p, none, none, cclInt8, comm, stream), cclInvalidArgument);
    TM_TEXT("2 elements for itself");
    TM_RC(cclRedOpCreatePreMulSum(&op, p, (cclDataType_t)99, cclScalarDevice, comm), cclInvalidArgument);
    TM_RC(cclRedOpCreatePreMulSum(&op, p, cclInt8, (cclScalarResidence_t)2, comm), cclInvalidArgument);
    TM_RC(cclRedOpCreatePreMulSum(&op, NULL, cclInt8, cclScalarDevice, comm), cclInvalidArgument);
    TM_RC(cclRedOpDestroy(cclSum, comm), cclInvalidArgument);
    TM_RC(cclRedOpDestroy((cclRedOp_t)123456, comm), cclInvalidArgument);
    TM_RC(cclSend(p, 1, cclInt8, tm_size, comm, stream), cclInvalidArgument);
    TM_RC(cclRecv(p, 1, cclInt8, -1, comm, stream), cclInvalidArgument);
    TM_RC(cclSend(NULL, 1, cclInt8, 0, comm, stream), cclInvalidArgument);
    /* nothing to do */
    TM_OK(cclAllReduce(NULL, NULL, 0, cclInt8, cclSum, comm, stream));
    TM_OK(cclBroadcast(NULL, NULL, 0, cclInt8, 0, comm, stream));
    TM_OK(cclAllToAllv(NULL, none, none, NULL, none, none, cclInt8, comm, stream));
    TM_OK(cclStreamSynchronize(stream));
}

int main(int argc, char **argv)
{
    bool full;

    TM_INIT(argc, argv);
    full = tm_has_arg("full");
    bool smoke = tm_has_arg("smoke"); /* where kernels are interpreted */
    tm_watchdog(full ? 110 : 50);
    setup();
    arguments();
    table(full ? 1 : smoke ? 23 : 9);
    if (!smoke) {
        sums_of_words();
        roots_run_ahead();
    }
    mixed_back_to_back(full ? 40 : smoke ? 3 : 12);
    teardown();
    return tm_finish();
}
