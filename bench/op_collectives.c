/* SPDX-License-Identifier: MIT
 *
 * The collectives beside all_gather, and send and receive around a ring. S is the part of a rank or of a pair of ranks, as in NCCL's tests; root is rank 0. Elements
 * of reductions are small whole numbers, so that every type holds the sums. */
#include <math.h>
#include <string.h>

#include "bench.h"

#define ROOT 0

static bool reduces(const struct bench_config *c)
{
    return c->op == &bench_op_all_reduce || c->op == &bench_op_reduce_scatter || c->op == &bench_op_reduce;
}

/* ---- data ---- */

/* A whole number 0..4095 that the type holds, little endian. */
static void put_number(int dtype, unsigned number, unsigned char *to)
{
    uint64_t bits = number;
    float f = (float)number;
    double d = number;
    int e = 0;

    frexp(number, &e);
    switch (dtype) {
    case cclFloat32: memcpy(&bits, &f, 4); break;
    case cclFloat64: memcpy(&bits, &d, 8); break;
    case cclBfloat16: memcpy(&bits, &f, 4), bits >>= 16; break;
    case cclFloat16: bits = number == 0 ? 0 : (uint64_t)(e + 14) << 10 | ((number << (11 - e)) & 1023); break;
    case cclFloat8e4m3: bits = number == 0 ? 0 : (uint64_t)(e + 6) << 3 | ((number << (24 - e)) >> 20 & 7); break;
    case cclFloat8e5m2: bits = number == 0 ? 0 : (uint64_t)(e + 14) << 2 | ((number << (24 - e)) >> 21 & 3); break;
    default: break;
    }
    memcpy(to, &bits, bench_dtype_bytes(dtype));
}

/* Elements first.. of the sum over count ranks from rank on. */
static void numbers(const struct bench_buffers *b, unsigned char *dst, int rank, int count, size_t first, size_t elements)
{
    size_t size = bench_dtype_bytes(b->config->dtype);

    for (size_t done = 0; done < elements;) {
        unsigned char dice[1024];
        unsigned sums[1024] = {0};
        size_t k = elements - done < sizeof(dice) ? elements - done : sizeof(dice);

        for (int r = rank; r < rank + count; r++) {
            bench_pattern(dice, k, b->seed, r, first + done);
            for (size_t i = 0; i < k; i++) {
                sums[i] += (dice[i] & 1) + 1u; /* 8 ranks: at most 16, which e4m3 holds */
            }
        }
        for (size_t i = 0; i < k; i++) {
            put_number(b->config->dtype, sums[i], dst + (done + i) * size);
        }
        done += k;
    }
}

/* off and length may cut elements: a chunk is a multiple of every element's size, the end of a buffer too. */
static void input(const struct bench_buffers *b, unsigned char *dst, size_t off, size_t length)
{
    size_t size = bench_dtype_bytes(b->config->dtype);

    if (reduces(b->config)) {
        numbers(b, dst, b->session->rank, 1, off / size, length / size);
    } else {
        bench_pattern(dst, length, b->seed, b->session->rank, off);
    }
}

static void output(const struct bench_buffers *b, unsigned char *dst, size_t off, size_t length)
{
    const struct bench_config *c = b->config;
    const int rank = b->session->rank, n = b->session->ranks;
    size_t part = c->part_bytes, size = bench_dtype_bytes(c->dtype);

    if ((c->op == &bench_op_reduce || c->op == &bench_op_gather) && rank != ROOT) {
        memset(dst, 0, length); /* untouched */
        return;
    }
    if (reduces(c)) {
        size_t first = c->op == &bench_op_reduce_scatter ? (size_t)rank * c->n : 0;
        numbers(b, dst, 0, n, first + off / size, length / size);
        return;
    }
    while (length > 0) {
        size_t at = off % part, piece = part - at < length ? part - at : length;
        int from = (int)(off / part);

        if (c->op == &bench_op_broadcast) {
            bench_pattern(dst, piece, b->seed, ROOT, at);
        } else if (c->op == &bench_op_scatter) {
            bench_pattern(dst, piece, b->seed, ROOT, (size_t)rank * part + at);
        } else if (c->op == &bench_op_sendrecv) {
            bench_pattern(dst, piece, b->seed, (rank + n - 1) % n, at);
        } else if (c->op == &bench_op_all_to_all || c->op == &bench_op_all_to_all_v) {
            bench_pattern(dst, piece, b->seed, from, (size_t)rank * part + at);
        } else {
            bench_pattern(dst, piece, b->seed, from, at);
        }
        dst += piece;
        off += piece;
        length -= piece;
    }
}

/* ---- calls ---- */

#define MOST_RANKS 1024

static cclResult_t issue(void *ctx)
{
    const struct bench_call *call = ctx;
    const struct bench_config *c = call->config;
    const struct bench_buffers *b = call->buffers;
    const cclDataType_t type = (cclDataType_t)c->dtype;
    cclComm_t comm = call->session->comm;
    cclStream_t stream = call->session->stream;
    const int rank = call->session->rank, n = call->session->ranks;
    cclResult_t rc;

    if (c->op == &bench_op_all_reduce) {
        return cclAllReduce(b->send, b->recv, c->n, type, cclSum, comm, stream);
    } else if (c->op == &bench_op_reduce_scatter) {
        return cclReduceScatter(b->send, b->recv, c->n, type, cclSum, comm, stream);
    } else if (c->op == &bench_op_reduce) {
        return cclReduce(b->send, b->recv, c->n, type, cclSum, ROOT, comm, stream);
    } else if (c->op == &bench_op_broadcast) {
        return cclBroadcast(b->send, b->recv, c->n, type, ROOT, comm, stream);
    } else if (c->op == &bench_op_all_to_all) {
        return cclAllToAll(b->send, b->recv, c->n, type, comm, stream);
    } else if (c->op == &bench_op_all_to_all_v) {
        size_t counts[MOST_RANKS], places[MOST_RANKS];
        for (int r = 0; r < n && r < MOST_RANKS; r++) {
            counts[r] = c->n;
            places[r] = (size_t)r * c->n;
        }
        return cclAllToAllv(b->send, counts, places, b->recv, counts, places, type, comm, stream);
    } else if (c->op == &bench_op_gather) {
        return cclGather(b->send, b->recv, c->n, type, ROOT, comm, stream);
    } else if (c->op == &bench_op_scatter) {
        return cclScatter(b->send, b->recv, c->n, type, ROOT, comm, stream);
    }
    cclGroupStart();
    rc = cclSend(b->send, c->n, type, (rank + 1) % n, comm, stream);
    rc = rc == cclSuccess ? cclRecv(b->recv, c->n, type, (rank + n - 1) % n, comm, stream) : rc;
    cclResult_t end = cclGroupEnd();
    return rc != cclSuccess ? rc : end;
}

/* MPI_DATATYPE_NULL: none; Open MPI has no 8- and 16-bit floating types. */
static MPI_Datatype mpi_type(int dtype)
{
    switch (dtype) {
    case cclInt8: return MPI_INT8_T;
    case cclUint8: return MPI_UINT8_T;
    case cclInt32: return MPI_INT32_T;
    case cclUint32: return MPI_UINT32_T;
    case cclInt64: return MPI_INT64_T;
    case cclUint64: return MPI_UINT64_T;
    case cclFloat32: return MPI_FLOAT;
    case cclFloat64: return MPI_DOUBLE;
    default: return MPI_DATATYPE_NULL;
    }
}

static bool has_baseline(const struct bench_config *c)
{
    return !reduces(c) || mpi_type(c->dtype) != MPI_DATATYPE_NULL;
}

static int call_mpi(const struct bench_call *call)
{
    const struct bench_config *c = call->config;
    const struct bench_buffers *b = call->buffers;
    MPI_Comm mpi = call->session->mpi;
    MPI_Datatype type = reduces(c) ? mpi_type(c->dtype) : MPI_BYTE;
    const int count = (int)(reduces(c) ? c->n : c->part_bytes), rank = call->session->rank, n = call->session->ranks;

    if (c->op == &bench_op_all_reduce) {
        return MPI_Allreduce(b->base_send, b->base_recv, count, type, MPI_SUM, mpi);
    } else if (c->op == &bench_op_reduce_scatter) {
        return MPI_Reduce_scatter_block(b->base_send, b->base_recv, count, type, MPI_SUM, mpi);
    } else if (c->op == &bench_op_reduce) {
        return MPI_Reduce(b->base_send, b->base_recv, count, type, MPI_SUM, ROOT, mpi);
    } else if (c->op == &bench_op_broadcast) {
        /* as ours: from one buffer to another */
        if (rank == ROOT) {
            memcpy(b->base_recv, b->base_send, (size_t)count);
        }
        return MPI_Bcast(b->base_recv, count, type, ROOT, mpi);
    } else if (c->op == &bench_op_all_to_all) {
        return MPI_Alltoall(b->base_send, count, type, b->base_recv, count, type, mpi);
    } else if (c->op == &bench_op_all_to_all_v) {
        int counts[MOST_RANKS], places[MOST_RANKS];
        for (int r = 0; r < n && r < MOST_RANKS; r++) {
            counts[r] = count;
            places[r] = r * count;
        }
        return MPI_Alltoallv(b->base_send, counts, places, type, b->base_recv, counts, places, type, mpi);
    } else if (c->op == &bench_op_gather) {
        return MPI_Gather(b->base_send, count, type, b->base_recv, count, type, ROOT, mpi);
    } else if (c->op == &bench_op_scatter) {
        return MPI_Scatter(b->base_send, count, type, b->base_recv, count, type, ROOT, mpi);
    }
    return MPI_Sendrecv(b->base_send, count, type, (rank + 1) % n, 0, b->base_recv, count, type, (rank + n - 1) % n, 0, mpi, MPI_STATUS_IGNORE);
}

static cclResult_t baseline(void *ctx)
{
    return call_mpi(ctx) == MPI_SUCCESS ? cclSuccess : cclSystemError;
}

/* ---- shapes and rates ---- */

static double one(int ranks)
{
    (void)ranks;
    return 1;
}

static double all(int ranks)
{
    return ranks;
}

static double others(int ranks)
{
    return ranks - 1;
}

static double two_phases(int ranks)
{
    return 2.0 * (ranks - 1) / ranks;
}

/* Read and written by all ranks together at the least: each input once, each output once. */
static double once(int ranks, double part)
{
    return 2.0 * ranks * part;
}

static double pairs(int ranks, double part)
{
    return 2.0 * ranks * ranks * part;
}

static double in_pairs_out_once(int ranks, double part)
{
    return ((double)ranks * ranks + ranks) * part;
}

static double rooted(int ranks, double part)
{
    return 2.0 * ranks * part;
}

static double from_one(int ranks, double part)
{
    return (1.0 + ranks) * part;
}

#define OPERATION(symbol, title, text, in, out, alg, bus, traffic)                                                                       \
    const struct bench_op bench_op_##symbol = {.name = title, .summary = text, .issue = issue, .baseline = baseline,                      \
                                               .has_baseline = has_baseline, .parts_in = in, .parts_out = out, .input = input,           \
                                               .output = output, .alg_factor = alg, .bus_factor = bus, .traffic_bytes = traffic}

OPERATION(all_reduce, "all_reduce", "cclAllReduce, sum", one, one, one, two_phases, once);
OPERATION(reduce_scatter, "reduce_scatter", "cclReduceScatter, sum; S bytes of the result", all, one, all, others, in_pairs_out_once);
OPERATION(reduce, "reduce", "cclReduce to rank 0, sum", one, one, one, one, from_one);
OPERATION(broadcast, "broadcast", "cclBroadcast of rank 0", one, one, one, one, from_one);
OPERATION(all_to_all, "all_to_all", "cclAllToAll; S bytes a pair", all, all, all, others, pairs);
OPERATION(all_to_all_v, "all_to_all_v", "cclAllToAllv with equal counts; S bytes a pair", all, all, all, others, pairs);
OPERATION(gather, "gather", "cclGather to rank 0", one, all, all, others, rooted);
OPERATION(scatter, "scatter", "cclScatter of rank 0", all, one, all, others, rooted);
OPERATION(sendrecv, "sendrecv", "cclSend to the next rank and cclRecv of the one before, in a group", one, one, one, one, once);
