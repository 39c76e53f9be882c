/* SPDX-License-Identifier: MIT
 *
 * For schedules.c: collectives beside all-gather, and groups of sends and receives; what they send, and what must come out. Sums of float32 depend on the
 * order of the ranks, and must be those of ranks 0, 1, ... one after another. */
#include <string.h>

#include "schedules.h"

/* What one rank gets: bytes of another's input. */
struct slice {
    int from;
    size_t from_off, off, bytes;
};
#define MOST_SLICES (MAX_RANKS * 2)

static size_t below(uint64_t *state, size_t n)
{
    return (size_t)(next_random(state) % n);
}

static size_t size_of(cclDataType_t type)
{
    return type == cclUint8 ? 1 : 4;
}

void draw_coll(uint64_t *state, unsigned kinds, int n, struct shape *s)
{
    static const cclDataType_t types[] = {cclFloat32, cclFloat32, cclUint32, cclUint8};
    static const enum coll reducing[] = {COLL_ALL_REDUCE, COLL_ALL_REDUCE, COLL_REDUCE_SCATTER, COLL_REDUCE};
    static const enum coll copying[] = {COLL_ALL_TO_ALL, COLL_ALL_TO_ALL, COLL_BROADCAST, COLL_GATHER, COLL_SCATTER};
    memset(s, 0, sizeof(*s));
    s->key = next_random(state);
    do {
        s->kind = DO_PARTS << below(state, 3);
    } while (!(kinds & (unsigned)s->kind));
    s->coll = s->kind == DO_P2P ? COLL_P2P : s->kind == DO_REDUCE ? reducing[below(state, 4)] : copying[below(state, 5)];
    s->type = s->kind == DO_REDUCE ? types[below(state, 4)] : cclUint8;
    s->root = (int)below(state, (size_t)n);
    const size_t parts = s->coll == COLL_ALL_REDUCE || s->coll == COLL_REDUCE || s->coll == COLL_BROADCAST ? 1 : (size_t)n;
    size_t most = (RECV_BYTES - 2 * SLACK) / parts;
    most = below(state, 3) == 0 && most > 300 ? 300 : most; /* few chunks or one */
    s->count = 1 + below(state, most / size_of(s->type));
    s->count = below(state, 2) == 0 && s->count >= 16 ? s->count / 16 * 16 : s->count;
    s->in_place = s->coll == COLL_ALL_REDUCE && below(state, 3) == 0;
    s->peers = 1 + (unsigned)below(state, (1u << (n - 1)) - 1); /* bit k: everybody sends to the rank k + 1 on */
    s->twice = below(state, 2) == 0;
    const bool any_memory = below(state, 2) == 0, all_plain = below(state, 3) == 0, aligned = below(state, 2) == 0;
    for (int r = 0; r < n; r++) {
        s->of[r].plain = all_plain || (any_memory && below(state, 2) == 0);
        s->of[r].send = (SLACK / 2 + 15) / 16 * 16 + (aligned ? 0 : below(state, 16));
        s->of[r].recv = (SLACK / 2 + 15) / 16 * 16 + (aligned ? 0 : below(state, 16));
    }
}

/* Bytes of the first and of the second message for the rank k + 1 on. */
static size_t message(const struct shape *s, int k, int number)
{
    uint64_t state = s->key + (uint64_t)(k * 2 + number);
    size_t most = (RECV_BYTES - 2 * SLACK) / (size_t)(__builtin_popcount(s->peers) * (s->twice ? 2 : 1));
    return number == 1 && !s->twice ? 0 : (s->peers >> k & 1) == 0 ? 0 : below(&state, 5) == 0 ? 0 : 1 + below(&state, most);
}

static size_t place_of(const struct shape *s, int k, int number)
{
    size_t at = 0;
    for (int i = 0; i < k * 2 + number; i++) {
        at += message(s, i / 2, i % 2);
    }
    return at;
}

static size_t input_bytes(const struct shape *s, int n, int rank)
{
    const size_t part = s->count * size_of(s->type), all = part * (size_t)n;
    switch (s->coll) {
    case COLL_ALL_TO_ALL:
    case COLL_REDUCE_SCATTER: return all;
    case COLL_SCATTER: return rank == s->root ? all : 0;
    case COLL_BROADCAST: return rank == s->root ? part : 0;
    case COLL_P2P: return place_of(s, n - 1, 0);
    default: return part;
    }
}

static int slices_of(const struct shape *s, int n, int rank, struct slice *out)
{
    const size_t part = s->count, me = (size_t)rank;
    int num = 0;
    switch (s->coll) {
    case COLL_BROADCAST: out[num++] = (struct slice){s->root, 0, 0, part}; break;
    case COLL_SCATTER: out[num++] = (struct slice){s->root, me * part, 0, part}; break;
    case COLL_P2P:
        for (int k = 0; k < n - 1; k++) {
            for (int number = 0; number < 2; number++) {
                const size_t at = place_of(s, k, number);
                out[num++] = (struct slice){(rank + n - k - 1) % n, at, at, message(s, k, number)};
            }
        }
        break;
    default:
        for (int r = 0; r < n && (s->coll == COLL_ALL_TO_ALL || rank == s->root); r++) {
            out[num++] = (struct slice){r, s->coll == COLL_ALL_TO_ALL ? me * part : 0, (size_t)r * part, part};
        }
        break;
    }
    return num;
}

size_t coll_put_input(uint8_t *to, const struct shape *s, int n, int rank, int op)
{
    const size_t bytes = input_bytes(s, n, rank);
    make_data(to, bytes, s, rank, op);
    for (size_t i = 0; s->type == cclFloat32 && i < bytes / 4; i++) { /* finite, of very different sizes */
        uint32_t u;
        memcpy(&u, to + 4 * i, 4);
        u = (u & 0x807fffffu) | (110 + (u >> 23 & 31)) << 23;
        memcpy(to + 4 * i, &u, 4);
    }
    return bytes;
}

static void add(uint8_t *sum, const uint8_t *x, cclDataType_t type)
{
    float f, g;
    uint32_t u, v;
    switch (type) {
    case cclFloat32:
        memcpy(&f, sum, 4), memcpy(&g, x, 4);
        f += g;
        memcpy(sum, &f, 4);
        break;
    case cclUint32:
        memcpy(&u, sum, 4), memcpy(&v, x, 4);
        u += v;
        memcpy(sum, &u, 4);
        break;
    default: *sum = (uint8_t)(*sum + *x); break;
    }
}

void coll_put_output(uint8_t *to, const struct shape *s, int n, int rank, int op)
{
    static uint8_t in[RECV_BYTES];
    struct slice slices[MOST_SLICES];
    const size_t size = size_of(s->type), off = s->coll == COLL_REDUCE_SCATTER ? (size_t)rank * s->count * size : 0;
    if (s->kind != DO_REDUCE) {
        const int num = slices_of(s, n, rank, slices);
        for (int i = 0; i < num; i++) {
            coll_put_input(in, s, n, slices[i].from, op);
            memcpy(to + slices[i].off, in + slices[i].from_off, slices[i].bytes);
        }
        return;
    }
    for (int r = 0; r < n && (s->coll != COLL_REDUCE || rank == s->root); r++) {
        coll_put_input(in, s, n, r, op);
        if (r == 0) {
            memcpy(to, in + off, s->count * size);
        }
        for (size_t i = 0; r > 0 && i < s->count; i++) {
            add(to + i * size, in + off + i * size, s->type);
        }
    }
}

static cclResult_t enqueue_messages(uint8_t *send, uint8_t *recv, const struct shape *s, int n, int rank, cclComm_t comm, cclStream_t stream)
{
    for (int k = 0; k < n - 1; k++) {
        for (int number = 0; number < (s->twice ? 2 : 1) && (s->peers >> k & 1); number++) {
            const size_t at = place_of(s, k, number), bytes = message(s, k, number);
            cclResult_t rc = cclSend(send + at, bytes, cclUint8, (rank + k + 1) % n, comm, stream);
            rc = rc == cclSuccess ? cclRecv(recv + at, bytes, cclUint8, (rank + n - k - 1) % n, comm, stream) : rc;
            if (rc != cclSuccess) {
                return rc;
            }
        }
    }
    return cclSuccess;
}

cclResult_t coll_enqueue(uint8_t *send, uint8_t *recv, const struct shape *s, int n, int rank, cclComm_t comm, cclStream_t stream)
{
    switch (s->coll) {
    case COLL_ALL_REDUCE: return cclAllReduce(send, recv, s->count, s->type, cclSum, comm, stream);
    case COLL_REDUCE_SCATTER: return cclReduceScatter(send, recv, s->count, s->type, cclSum, comm, stream);
    case COLL_REDUCE: return cclReduce(send, recv, s->count, s->type, cclSum, s->root, comm, stream);
    case COLL_ALL_TO_ALL: return cclAllToAll(send, recv, s->count, s->type, comm, stream);
    case COLL_BROADCAST: return cclBroadcast(send, recv, s->count, s->type, s->root, comm, stream);
    case COLL_GATHER: return cclGather(send, recv, s->count, s->type, s->root, comm, stream);
    case COLL_SCATTER: return cclScatter(send, recv, s->count, s->type, s->root, comm, stream);
    default: return enqueue_messages(send, recv, s, n, rank, comm, stream);
    }
}
