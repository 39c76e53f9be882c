/* SPDX-License-Identifier: MIT
 *
 * All-gather by LL of parts that are runs of 8-byte words (included by ll.hip; ll_words.h). */
#include "ll_words.h"

CCL_DEVICE uint32_t words_rotation(LL_WORDS a, uint32_t p) { return a->div_mul ? ccl_mul_hi(p, a->div_mul) : p; }

CCL_DEVICE void words_store(LL_WORDS a, uint32_t part, uint32_t i, uint64_t v)
{
    ccl_store_global_u64(a->dst + (uint64_t)part * a->part_bytes + (uint64_t)i * 8, v);
}

/* ---- a thread has one word at most: the same place to send and to receive ---- */

CCL_DEVICE void words_one(LL_WORDS a, uint32_t world, const struct ll_shared *sh, uint32_t p, uint32_t pairs)
{
    const uint32_t mine = p < pairs * world, d = mine ? words_rotation(a, p) : 0, i = p - d * pairs, peer = words_rotate(a, world, d);
    const uint64_t to = a->peer[d] + words_place(a, world, 0, a->rank) + i * 16, from = a->peer[0] + words_place(a, world, 0, peer) + i * 16;
    uint64_t v = 0, dst = a->dst + (uint64_t)peer * a->part_bytes + (uint64_t)i * 8;
    if (mine) {
        v = words_load(a, i);
    }
    CCL_NEED_NOW(to);
    CCL_NEED_NOW(from);
    CCL_HOLD(dst);
    ccl_barrier_sync(WORDS_NUMBER);
    const uint32_t n = CCL_TAG(sh->entry), parity = (n & 1) * world * CCL_LL_SRC(world);
    if (!mine || ((uint32_t)sh->entry & CCL_OP_STOPPED)) {
        return;
    }
    if (d != 0) { /* the own word goes with the others: a way of its own would be fetched first */
        ccl_store_packet_system(to + parity, (uint32_t)v, n, (uint32_t)(v >> 32), n);
        uint32_t polls = 0;
        ccl_vec16 q;
        while (q = ccl_load_packet_system(from + parity), __builtin_expect(!words_there(q, n), 0)) {
            if ((++polls & 63) == 0 && words_look(a, n, from + parity + ll_late(q, n), peer, polls)) {
                return;
            }
        }
        v = (uint64_t)CCL_LANE(q, 2) << 32 | CCL_LANE(q, 0);
    }
    ccl_store_global_u64(dst, v);
}

/* ---- more: a thread takes words of the part, each to and from all peers. No place is computed twice, so the way through is short ---- */

/* Words whose packets a thread has on their way at one time: i, i + stride, ... What is awaited one after the other costs a round trip each. */
#define WORDS_FLIGHT(world) ((world) == 2 ? 2u : 1u) /* more do not fit the registers of two blocks a unit */
#define WORDS_FLIGHT_MOST 2u

CCL_DEVICE void words_load_some(LL_WORDS a, uint32_t world, uint32_t i, uint32_t stride, uint32_t pairs, uint64_t *v)
{
#pragma unroll
    for (uint32_t u = 0; u < WORDS_FLIGHT(world); u++) {
        if (i + u * stride < pairs) {
            v[u] = words_load(a, i + u * stride);
        }
    }
}

CCL_DEVICE void words_send_some(LL_WORDS a, uint32_t world, uint32_t n, uint32_t i, uint32_t stride, uint32_t pairs, const uint64_t *v)
{
    const uint32_t at = words_place(a, world, n, a->rank) + i * 16;
#pragma unroll
    for (uint32_t u = 0; u < WORDS_FLIGHT(world); u++) {
        if (i + u * stride < pairs) {
#pragma unroll
            for (uint32_t d = 1; d < world; d++) {
                ccl_store_packet_system(a->peer[d] + (at + u * stride * 16), (uint32_t)v[u], n, (uint32_t)(v[u] >> 32), n);
            }
            words_store(a, a->rank, i + u * stride, v[u]);
        }
    }
}

/* Those words of all peers; true: leave. */
CCL_DEVICE uint32_t words_receive_some(LL_WORDS a, uint32_t world, uint32_t n, uint32_t i, uint32_t stride, uint32_t pairs, uint32_t *polls)
{
    const uint64_t in = a->peer[0] + words_place(a, world, n, 0) + i * 16;
    ccl_vec16 q[WORDS_FLIGHT_MOST][8];
    uint32_t late;
    do {
        late = 0;
#pragma unroll
        for (uint32_t u = 0; u < WORDS_FLIGHT(world); u++) {
#pragma unroll
            for (uint32_t d = 1; d < world; d++) {
                if (i + u * stride < pairs) {
                    q[u][d] = ccl_load_packet_system(in + (words_rotate(a, world, d) * CCL_LL_SRC(world) + u * stride * 16));
                }
            }
        }
#pragma unroll
        for (uint32_t u = 0; u < WORDS_FLIGHT(world); u++) {
#pragma unroll
            for (uint32_t d = 1; d < world; d++) {
                if (i + u * stride < pairs && !words_there(q[u][d], n)) {
                    late = words_rotate(a, world, d) * CCL_LL_SRC(world) + u * stride * 16 + 1 + ll_late(q[u][d], n); /* not 0 */
                }
            }
        }
        if (__builtin_expect(late != 0, 0) && words_slow(a, n, in + late - 1, late / CCL_LL_SRC(world), polls)) {
            return 1;
        }
    } while (late != 0);
#pragma unroll
    for (uint32_t u = 0; u < WORDS_FLIGHT(world); u++) {
#pragma unroll
        for (uint32_t d = 1; d < world; d++) {
            if (i + u * stride < pairs) {
                words_store(a, words_rotate(a, world, d), i + u * stride, (uint64_t)CCL_LANE(q[u][d], 2) << 32 | CCL_LANE(q[u][d], 0));
            }
        }
    }
    return 0;
}

CCL_DEVICE void words_all(LL_WORDS a, uint32_t world, const struct ll_shared *sh, uint32_t first, uint32_t stride, uint32_t pairs)
{
    const uint32_t step = WORDS_FLIGHT(world) * stride;
    uint64_t v[WORDS_FLIGHT_MOST];
    uint32_t polls = 0;
    words_load_some(a, world, first, stride, pairs, v);
    ccl_barrier_sync(WORDS_NUMBER);
    const uint32_t n = CCL_TAG(sh->entry);
    if (first >= pairs || ((uint32_t)sh->entry & CCL_OP_STOPPED)) {
        return;
    }
    words_send_some(a, world, n, first, stride, pairs, v);
    CCL_NO_UNROLL
    for (uint32_t i = first + step; i < pairs; i += step) {
        words_load_some(a, world, i, stride, pairs, v);
        words_send_some(a, world, n, i, stride, pairs, v);
    }
    uint32_t i = first;
    do {
        if (words_receive_some(a, world, n, i, words_stride(), pairs, &polls)) {
            return;
        }
        i += WORDS_FLIGHT(world) * words_stride();
    } while (i < pairs);
}

CCL_DEVICE void ll_words_body(LL_WORDS a, uint32_t world)
{
    CCL_SHARED struct ll_shared sh;
    const uint32_t t = ccl_tid(), data_threads = ccl_threads() - CCL_WARP;
    if (t >= data_threads) {
        words_helper(a, world, t - data_threads, &sh);
        return;
    }
    const uint32_t pairs = a->part_bytes / 8, first = ccl_bid() * data_threads + t;
    if (__builtin_expect(pairs * world <= ccl_grid() * data_threads, 1)) {
        words_one(a, world, &sh, first, pairs);
    } else {
        words_all(a, world, &sh, first, ccl_grid() * (ccl_threads() - CCL_WARP), pairs);
    }
}
