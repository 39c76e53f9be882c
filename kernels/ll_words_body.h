/* SPDX-License-Identifier: MIT
 *
 * LL on an NVIDIA GPU for parts that are runs of 8-byte words (included by ll.hip): the protocol of ll_packet_body.h with few arguments and a short
 * straight path; at 8 bytes both cost as much as the data. What is rare is out of line and gets the communicator's full arguments in device
 * memory, in which the one thread that raises an error fills in its call. */

#define WORDS_NUMBER 1u /* barrier: sh.entry holds the number. The last warp arrives, the others wait */
#define LL_WORDS CCL_CONST const struct ccl_k_words_args *

CCL_DEVICE CCL_ARGS words_full(LL_WORDS a) { return (CCL_ARGS)a->full; }

CCL_DEVICE uint32_t words_rotate(LL_WORDS a, uint32_t world, uint32_t d)
{
    const uint32_t r = a->rank + d;
    return r >= world ? r - world : r;
}

/* Byte of a rank's control memory where the packets of src stand. */
CCL_DEVICE uint32_t words_place(LL_WORDS a, uint32_t world, uint32_t n, uint32_t src)
{
    return a->ll + ((n & 1) * world + src) * CCL_LL_SRC(world);
}

CCL_DEVICE uint32_t words_rotation(LL_WORDS a, uint32_t p) { return a->div_mul ? ccl_mul_hi(p, a->div_mul) : p; }

CCL_DEVICE uint32_t words_there(ccl_vec16 q, uint32_t n) { return CCL_LANE(q, 1) == n && CCL_LANE(q, 3) == n; }

CCL_DEVICE uint64_t words_load(LL_WORDS a, uint32_t i) { return ccl_load_global_u64(a->src + (uint64_t)i * 8); }

CCL_DEVICE void words_store(LL_WORDS a, uint32_t part, uint32_t i, uint64_t v)
{
    ccl_store_global_u64(a->dst + (uint64_t)part * a->part_bytes + (uint64_t)i * 8, v);
}

/* The advert or a packet of peer did not come (bad), or the advert says something else (value). Each lane that finds that comes here. No later operation of this communicator
 * gets so far, so what is written to its arguments disturbs nobody. */
CCL_DEVICE_SLOW void words_fail(LL_WORDS a, uint32_t n, uint32_t bad, uint32_t value, uint32_t peer)
{
    struct ccl_k_coll_args *full = (struct ccl_k_coll_args *)a->full;
    full->sig = a->sig;
    full->where = 0;
    full->desc.word1 = a->word1;
    full->desc.variant = a->variant;
    full->desc.blocks = ccl_grid();
    full->desc.tile_m = a->tile_m;
    full->desc.tile_n = a->tile_n;
    full->desc.rows = a->rows;
    full->desc.count = full->desc.ld = a->count;
    full->desc.ld_send = 0;
    bad = bad != CCL_BAD_NONE ? bad : value == CCL_SIG_REVOKED ? CCL_BAD_LEFT : CCL_BAD_MISMATCH;
    ll_fail(words_full(a), n, bad, peer);
}

/* As ll_slow. */
CCL_DEVICE uint32_t words_slow(LL_WORDS a, uint32_t n, uint64_t addr, uint32_t src, uint32_t *polls)
{
    uint32_t bad = CCL_BAD_NONE;
    if ((++*polls & 63) == 0) {
        bad = ll_look(words_full(a), n, addr, src, *polls);
        if (bad > CCL_BAD_STOP) {
            words_fail(a, n, bad, 0, src);
        }
    }
    return bad;
}

/* The same out of line with all that it needs, so that the loop around it is short. */
CCL_DEVICE_SLOW uint32_t words_look(LL_WORDS a, uint32_t n, uint64_t addr, uint32_t src, uint32_t polls)
{
    polls--;
    return words_slow(a, n, addr, src, &polls);
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

/* Threads of the launch that move data; with 4 ranks there is no register to keep it in. */
CCL_DEVICE uint32_t words_stride(void) { return ccl_grid_anew() * (ccl_threads_anew() - CCL_WARP); }

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
        const uint32_t now = words_stride();
        if (words_receive_some(a, world, n, i, now, pairs, &polls)) {
            return;
        }
        i += WORDS_FLIGHT(world) * words_stride();
    } while (i < pairs);
}

/* ---- the last warp ---- */

/* The words that ccl_scrub_now rewrites, those of one turn beside each other: lane 0 to 7 a word of an LL line, 8 to 13 one of an advert, 14 a flag. */
CCL_DEVICE_SLOW void words_scrub(LL_WORDS a, uint32_t world, uint32_t n, uint32_t turn, uint32_t lane)
{
    const uint32_t lines = CCL_LL_SRC(world) / 64, at = turn / 2 % (world * lines), parity = n & 1;
    const uint64_t me = a->peer[0];
    if (lane < 8) {
        if (at % lines * 64 >= a->part_bytes * 2) {
            ccl_store_relaxed_system_u64(me + a->ll + parity * world * CCL_LL_SRC(world) + at * 64 + 8 * lane, CCL_TAGGED(n, 0));
        }
    } else if (lane < 14) {
        ccl_scrub_word(me + a->adv + (parity * world + turn / 2 % world) * 64 + 8 * (lane - 6), n);
    } else if (lane == 14) {
        CCL_ARGS full = words_full(a);
        const uint32_t words = full->lay.blocks * world, x = turn % (2 * words), block = x % words / world;
        ccl_scrub_flag(x < words ? ccl_full_addr(full, me, block, x % world) : ccl_credit_addr(full, me, block, x % world), n);
    }
}

/* Draws the number; in the first block in it also sends and awaits the adverts, one lane a peer. No acquire: nothing that a peer wrote before its
 * advert is read behind it, and E asks only that the advert was seen. The number is asked for before all else: what comes first waits for it. */
CCL_DEVICE void words_helper(LL_WORDS a, uint32_t world, uint32_t lane, struct ll_shared *sh)
{
    const uint64_t op = (uint64_t) & ((struct ccl_k_priv *)a->priv)->op;
    const uint32_t grid = ccl_grid(), alone = grid == 1;
    uint64_t entry = 0;
    if (alone) {
        entry = ccl_load_relaxed_agent_u64(op); /* all lanes, so that none reads it from shared memory; addresses while it travels */
    } else if (lane == 0) {
        entry = ccl_add_relaxed_agent_u64(op, 1);
    }
    const uint32_t meets = lane - 1 < world - 1, d = meets ? lane : 0, peer = words_rotate(a, world, d);
    const uint64_t to = a->peer[d] + a->adv + a->rank * 64, from = a->peer[0] + a->adv + peer * 64;
    CCL_NEED_NOW(to);
    CCL_NEED_NOW(from);
    ccl_warp_sync(); /* all have read what lane 0 changes */
    if (lane == 0) {
        sh->entry = entry & ((uint64_t)CCL_TAG_MASK << 32 | 0xffffffffu);
        if (alone && !(entry & CCL_OP_STOPPED)) { /* before anybody can go on, fail and set that bit */
            ccl_store_relaxed_agent_u64(op, entry + (1ull << 32));
        }
    }
    ccl_warp_sync();
    ccl_barrier_arrive(WORDS_NUMBER); /* and does not wait: the adverts are what is late */
    entry = alone ? entry : ccl_warp_first_u64(entry);
    if ((uint32_t)entry != 0) { /* a later block; or a replay after an error, of which no packet leaves */
        if (lane == 0 && !alone && ((uint32_t)entry & ~CCL_OP_STOPPED) == grid - 1) { /* as ccl_enter_at: the last block in bumps the number */
            ccl_add_relaxed_agent_u64(op, (1ull << 32) - grid);
        }
        return;
    }
    const uint32_t n = CCL_TAG(entry) & CCL_TAG_MASK, parity = (n & 1) * world * 64;
    uint32_t turn;
    if (meets) {
        ccl_store_packet_system(to + parity, a->sig, n, a->word1, n);
    }
    if (__builtin_expect(ccl_scrub_turn(n, &turn), 0)) {
        ccl_warp_sync(); /* the adverts are out: their readers wait longer than for a scrub */
        words_scrub(a, world, n, turn, lane - 16);
    }
    if (!meets) {
        return;
    }
    uint32_t polls = 0, bad = CCL_BAD_NONE;
    ccl_vec16 q;
    while (q = ccl_load_packet_system(from + parity), __builtin_expect(CCL_LANE(q, 1) != n, 0)) {
        ccl_pause();
        if ((++polls & 63) == 0 && (bad = ccl_slow_poll(words_full(a), from + parity, n, 0, peer, polls)) != 0) {
            break;
        }
    }
    if (__builtin_expect(bad != CCL_BAD_NONE || CCL_LANE(q, 0) != a->sig, 0)) {
        words_fail(a, n, bad, CCL_LANE(q, 0), peer);
    }
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
