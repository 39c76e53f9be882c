/* SPDX-License-Identifier: MIT
 *
 * LL on an NVIDIA GPU for parts that are runs of 8-byte words (included by ll.hip): the protocol of ll_packet_body.h with few arguments and a short
 * straight path; at 8 bytes both cost as much as the data. What is rare is out of line and gets the communicator's full arguments in device
 * memory, in which the one thread that raises an error fills in its call. */

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
    return a->ll + ((n & 1) * world + src) * CCL_LL_SRC_BYTES;
}

CCL_DEVICE uint32_t words_rotation(LL_WORDS a, uint32_t p) { return a->div_mul ? ccl_mul_hi(p, a->div_mul) : p; }

CCL_DEVICE uint32_t words_there(ccl_vec16 q, uint32_t n) { return CCL_LANE(q, 1) == n && CCL_LANE(q, 3) == n; }

CCL_DEVICE void words_store(LL_WORDS a, uint32_t part, uint32_t i, uint64_t v)
{
    *CCL_PTR(uint64_t, a->dst + part * a->part_bytes + i * 8) = v;
}

CCL_DEVICE void words_send(LL_WORDS a, uint32_t world, uint32_t n, uint32_t d, uint32_t i, uint64_t v)
{
    ccl_store_packet_system(a->peer[d] + words_place(a, world, n, a->rank) + i * 16, (uint32_t)v, n, (uint32_t)(v >> 32), n);
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

/* ---- a thread has one word at most: the same place to send and to receive ---- */

CCL_DEVICE void words_one(LL_WORDS a, uint32_t world, const struct ll_shared *sh, uint32_t p, uint32_t pairs)
{
    const uint32_t mine = p < pairs * world, d = mine ? words_rotation(a, p) : 0, i = p - d * pairs, peer = words_rotate(a, world, d);
    const uint64_t to = a->peer[d] + words_place(a, world, 0, a->rank) + i * 16, from = a->peer[0] + words_place(a, world, 0, peer) + i * 16;
    uint64_t v = 0;
    if (mine) {
        v = *CCL_PTR(const uint64_t, a->src + i * 8);
    }
    CCL_NEED_NOW(to);
    CCL_NEED_NOW(from);
    ccl_block_sync();
    const uint32_t n = CCL_TAG(sh->entry), parity = (n & 1) * world * CCL_LL_SRC_BYTES;
    if (!mine || ((uint32_t)sh->entry & CCL_OP_STOPPED)) {
        return;
    }
    if (d == 0) {
        words_store(a, peer, i, v);
        return;
    }
    ccl_store_packet_system(to + parity, (uint32_t)v, n, (uint32_t)(v >> 32), n);
    uint32_t polls = 0;
    ccl_vec16 q;
    while (q = ccl_load_packet_system(from + parity), __builtin_expect(!words_there(q, n), 0)) {
        if (words_slow(a, n, from + parity + ll_late(q, n), peer, &polls)) {
            return;
        }
    }
    words_store(a, peer, i, (uint64_t)CCL_LANE(q, 2) << 32 | CCL_LANE(q, 0));
}

/* ---- more: LL_INFLIGHT words at a time ---- */

CCL_DEVICE void words_load_some(LL_WORDS a, uint32_t p0, uint32_t stride, uint32_t pairs, uint32_t total, uint64_t *v)
{
#pragma unroll
    for (uint32_t u = 0; u < LL_INFLIGHT; u++) {
        const uint32_t p = p0 + u * stride;
        if (p < total) {
            v[u] = *CCL_PTR(const uint64_t, a->src + (p - words_rotation(a, p) * pairs) * 8);
        }
    }
}

CCL_DEVICE void words_send_some(LL_WORDS a, uint32_t world, uint32_t n, uint32_t p0, uint32_t stride, uint32_t pairs, uint32_t total,
                                const uint64_t *v)
{
#pragma unroll
    for (uint32_t u = 0; u < LL_INFLIGHT; u++) {
        const uint32_t p = p0 + u * stride, d = words_rotation(a, p), i = p - d * pairs;
        if (p < total && d == 0) {
            words_store(a, a->rank, i, v[u]);
        } else if (p < total) {
            words_send(a, world, n, d, i, v[u]);
        }
    }
}

CCL_DEVICE void words_receive(LL_WORDS a, uint32_t world, uint32_t n, uint32_t first, uint32_t stride, uint32_t pairs, uint32_t total)
{
    const uint64_t in = a->peer[0] + words_place(a, world, n, 0);
    uint32_t polls = 0;
    for (uint32_t p0 = first + pairs; p0 < total; p0 += LL_INFLIGHT * stride) {
        ccl_vec16 q[LL_INFLIGHT];
        uint32_t src[LL_INFLIGHT], i[LL_INFLIGHT], all, late_src = 0, late_at = 0;
#pragma unroll
        for (uint32_t u = 0; u < LL_INFLIGHT; u++) {
            const uint32_t p = p0 + u * stride, d = words_rotation(a, p);
            src[u] = words_rotate(a, world, d);
            i[u] = p - d * pairs;
        }
        do {
            all = 1;
#pragma unroll
            for (uint32_t u = 0; u < LL_INFLIGHT; u++) {
                if (p0 + u * stride < total) {
                    q[u] = ccl_load_packet_system(in + src[u] * CCL_LL_SRC_BYTES + i[u] * 16);
                }
            }
#pragma unroll
            for (uint32_t u = 0; u < LL_INFLIGHT; u++) {
                if (p0 + u * stride < total && !words_there(q[u], n)) {
                    all = 0;
                    late_src = src[u];
                    late_at = i[u] * 16 + ll_late(q[u], n);
                }
            }
            if (!all && words_slow(a, n, in + late_src * CCL_LL_SRC_BYTES + late_at, late_src, &polls)) {
                return;
            }
        } while (!all);
#pragma unroll
        for (uint32_t u = 0; u < LL_INFLIGHT; u++) {
            if (p0 + u * stride < total) {
                words_store(a, src[u], i[u], (uint64_t)CCL_LANE(q[u], 2) << 32 | CCL_LANE(q[u], 0));
            }
        }
    }
}

CCL_DEVICE void words_many(LL_WORDS a, uint32_t world, const struct ll_shared *sh, uint32_t first, uint32_t stride, uint32_t pairs)
{
    const uint32_t total = pairs * world;
    uint64_t v[LL_INFLIGHT];
    words_load_some(a, first, stride, pairs, total, v);
    ccl_block_sync();
    const uint32_t n = CCL_TAG(sh->entry);
    if ((uint32_t)sh->entry & CCL_OP_STOPPED) {
        return;
    }
    words_send_some(a, world, n, first, stride, pairs, total, v);
    for (uint32_t p0 = first + LL_INFLIGHT * stride; p0 < total; p0 += LL_INFLIGHT * stride) {
        words_load_some(a, p0, stride, pairs, total, v);
        words_send_some(a, world, n, p0, stride, pairs, total, v);
    }
    words_receive(a, world, n, first, stride, pairs, total);
}

/* ---- the last warp ---- */

CCL_DEVICE_SLOW uint64_t words_enter_many(uint64_t priv) { return ccl_enter_at(priv); }

/* Draws the number; in the first block in it also sends and awaits the adverts, one lane a peer. No acquire: nothing that a peer wrote before its
 * advert is read behind it, and E asks only that the advert was seen. */
CCL_DEVICE void words_helper(LL_WORDS a, uint32_t world, uint32_t lane, struct ll_shared *sh)
{
    const uint64_t op = (uint64_t) & ((struct ccl_k_priv *)a->priv)->op;
    const uint32_t alone = ccl_grid() == 1;
    uint64_t entry = 0;
    if (alone) {
        entry = ccl_load_relaxed_agent_u64(op); /* all lanes, so that none reads it from shared memory; addresses while it travels */
    }
    const uint32_t meets = lane - 1 < world - 1, d = meets ? lane : 0, peer = words_rotate(a, world, d);
    const uint64_t to = a->peer[d] + a->adv + a->rank * 64, from = a->peer[0] + a->adv + peer * 64;
    CCL_NEED_NOW(to);
    CCL_NEED_NOW(from);
    if (__builtin_expect(alone, 1)) {
        ccl_warp_sync(); /* all have read what lane 0 changes */
        if (lane == 0) {
            sh->entry = entry & ((uint64_t)CCL_TAG_MASK << 32 | 0xffffffffu);
            if (!(entry & CCL_OP_STOPPED)) {
                ccl_store_relaxed_agent_u64(op, entry + (1ull << 32));
            }
        }
        ccl_block_sync();
    } else {
        if (lane == 0) {
            sh->entry = words_enter_many(a->priv);
        }
        ccl_block_sync();
        entry = sh->entry;
    }
    if ((uint32_t)entry != 0) {
        return; /* a later block; or a replay after an error, of which no packet leaves */
    }
    const uint32_t n = CCL_TAG(entry) & CCL_TAG_MASK, parity = (n & 1) * world * 64;
    if (!meets) {
        if (lane == 0) {
            ccl_scrub(words_full(a), n, a->part_bytes * 2, 2, 0);
        }
        return;
    }
    ccl_store_packet_system(to + parity, a->sig, n, a->word1, n);
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
    const uint32_t pairs = a->part_bytes / 8, stride = ccl_grid() * data_threads, first = ccl_bid() * data_threads + t;
    if (__builtin_expect(pairs * world <= stride, 1)) {
        words_one(a, world, &sh, first, pairs);
    } else {
        words_many(a, world, &sh, first, stride, pairs);
    }
}
