/* SPDX-License-Identifier: MIT
 *
 * All-reduce by LL, sums of floats in runs of 8-byte words (included by parts_ll.hip; ll_words.h). A thread has the same word of all ranks: sends its own to every peer, takes theirs
 * and adds in the order of ranks, as parts_ll does through lanes, which is what a peer may run. In place is safe: a word is read and written by one thread, and peers store
 * into scratch only. */
#include "ll_words.h"
#include "reduce_units.h"

/* The sum of a unit of each rank. */
CCL_DEVICE void sum_words_add(LL_WORDS a, uint32_t world, uint32_t unit[][2], uint32_t *sum)
{
    const uint32_t type = a->word1 >> 6 & 31; /* CCL_WORD1 */
    if (type == CCL_SUM_F32) {
        units_sum_f32(world, unit, sum);
    } else if (type == CCL_SUM_F16) {
        units_sum_f16(world, unit, sum);
    } else {
        units_sum_bf16(world, unit, sum);
    }
}

CCL_DEVICE void sum_words_send(LL_WORDS a, uint32_t world, uint32_t n, uint32_t i, uint64_t v)
{
    const uint32_t at = words_place(a, world, n, a->rank) + i * 16;
#pragma unroll
    for (uint32_t d = 1; d < world; d++) {
        ccl_store_packet_system(a->peer[d] + at, (uint32_t)v, n, (uint32_t)(v >> 32), n);
    }
}

/* Word i of all peers, and its sum with the own one, v; true: leave. */
CCL_DEVICE uint32_t sum_words_receive(LL_WORDS a, uint32_t world, uint32_t n, uint32_t i, uint64_t v, uint32_t *polls)
{
    const uint64_t in = a->peer[0] + words_place(a, world, n, 0) + i * 16;
    uint32_t unit[8][2], sum[2], late;
    do {
        ccl_vec16 q[8];
        late = 0;
#pragma unroll
        for (uint32_t r = 0; r < world; r++) {
            if (r != a->rank) {
                q[r] = ccl_load_packet_system(in + r * CCL_LL_SRC(world));
            }
        }
#pragma unroll
        for (uint32_t r = 0; r < world; r++) {
            const uint32_t own = r == a->rank;
            if (!own && !words_there(q[r], n)) {
                late = r * CCL_LL_SRC(world) + 1 + ll_late(q[r], n); /* not 0 */
            }
            unit[r][0] = own ? (uint32_t)v : CCL_LANE(q[r], 0);
            unit[r][1] = own ? (uint32_t)(v >> 32) : CCL_LANE(q[r], 2);
        }
        if (__builtin_expect(late != 0, 0) && words_slow(a, n, in + late - 1, late / CCL_LL_SRC(world), polls)) {
            return 1;
        }
    } while (late != 0);
    sum_words_add(a, world, unit, sum);
    ccl_store_global_u64(a->dst + (uint64_t)i * 8, (uint64_t)sum[1] << 32 | sum[0]);
    return 0;
}

CCL_DEVICE void sum_words_data(LL_WORDS a, uint32_t world, const struct ll_shared *sh, uint32_t first)
{
    const uint32_t pairs = a->part_bytes / 8;
    uint64_t v = first < pairs ? words_load(a, first) : 0;
    uint32_t polls = 0, i = first;
    ccl_barrier_sync(WORDS_NUMBER);
    const uint32_t n = CCL_TAG(sh->entry);
    if (first >= pairs || ((uint32_t)sh->entry & CCL_OP_STOPPED)) {
        return;
    }
    sum_words_send(a, world, n, first, v);
    while (i += words_stride(), i < pairs) {
        sum_words_send(a, world, n, i, words_load(a, i));
    }
    for (i = first; !sum_words_receive(a, world, n, i, v, &polls);) {
        i += words_stride();
        if (i >= pairs) {
            return;
        }
        v = words_load(a, i);
    }
}

CCL_DEVICE void sum_words_body(LL_WORDS a, uint32_t world)
{
    CCL_SHARED struct ll_shared sh;
    const uint32_t t = ccl_tid(), data_threads = ccl_threads() - CCL_WARP;
    if (t >= data_threads) {
        words_helper(a, world, t - data_threads, &sh);
    } else {
        sum_words_data(a, world, &sh, ccl_bid() * data_threads + t);
    }
}
