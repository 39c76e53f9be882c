/* SPDX-License-Identifier: MIT
 *
 * LL on a GPU (included by ll.hip), packets as in ll_packets.h. Threads are laid over (peer, packet pair). Bytes moved per rank: (n-1) * 2 S out, as much
 * in, S own. The straight path is kept short: at 8 bytes every miss of the instruction cache shows. */
#include "ll_packets.h"

#define LL_INFLIGHT 4u /* packet pairs a thread keeps in flight */

/* ---- any shape and alignment: bytes ---- */

/* 8 bytes of the packed part at offset off, as many as the part has. */
CCL_DEVICE uint64_t ll_load_bytes(CCL_ARGS a, uint64_t off)
{
    uint64_t v = 0;
    for (uint32_t i = 0; i < 8 && off + i < a->part_bytes; i++) {
        uint32_t o = (uint32_t)off + i, row = a->rows == 1 ? 0 : o / (uint32_t)a->row_bytes;
        uint64_t from = a->src + row * a->ld_src + (o - row * (uint32_t)a->row_bytes);
        v |= (uint64_t)*CCL_PTR(const uint8_t, from) << (8 * i);
    }
    return v;
}

CCL_DEVICE void ll_store_bytes(CCL_ARGS a, uint64_t part, uint64_t off, uint64_t v)
{
    for (uint32_t i = 0; i < 8 && off + i < a->part_bytes; i++) {
        uint32_t o = (uint32_t)off + i, row = a->rows == 1 ? 0 : o / (uint32_t)a->row_bytes;
        uint64_t to = part + row * a->ld_dst + (o - row * (uint32_t)a->row_bytes);
        *CCL_PTR(uint8_t, to) = (uint8_t)(v >> (8 * i));
    }
}

/* Which rotation pair p belongs to. The reciprocal is exact while p * pairs < 2^32, which holds for the compiled-in worlds whose parts have 128 KiB at most. */
CCL_DEVICE uint32_t ll_rotation(CCL_ARGS a, uint32_t world, uint32_t p, uint32_t pairs)
{
#if defined(CCL_ON_NVIDIA)
    if (world != 0 && world <= CCL_LL_FEW) {
        return (p >= pairs) + (world > 2 && p >= 2 * pairs) + (world > 3 && p >= 3 * pairs);
    }
#endif
    return world == 0 ? p / pairs : a->div_mul ? ccl_mul_hi(p, a->div_mul) : p;
}

CCL_DEVICE_SLOW void ll_bytes(CCL_ARGS a, uint32_t world, uint32_t n, uint32_t first, uint32_t stride, struct ll_report *r)
{
    const uint32_t pairs = ll_pairs(a), total = pairs * a->n;
    const uint64_t me = ccl_peer_ctl(a, a->rank);
    uint32_t polls = 0;
    for (uint32_t p = first; p < total; p += stride) {
        uint32_t d = ll_rotation(a, world, p, pairs), i = p - d * pairs;
        uint64_t v = ll_load_bytes(a, (uint64_t)i * 8);
        if (d == 0) {
            ll_store_bytes(a, a->dst + a->rank * a->dst_part, (uint64_t)i * 8, v);
        } else {
            ccl_store_packet_system(ccl_ll_addr(a, ccl_peer_ctl(a, ccl_rotate(a, d)), n, a->rank) + (uint64_t)i * 16,
                                    (uint32_t)v, n, (uint32_t)(v >> 32), n);
        }
    }
    for (uint32_t p = first + pairs; p < total; p += stride) {
        uint32_t d = ll_rotation(a, world, p, pairs), i = p - d * pairs, src = ccl_rotate(a, d);
        const uint64_t from = ccl_ll_addr(a, me, n, src) + (uint64_t)i * 16;
        ccl_vec16 q;
        while (q = ccl_load_packet_system(from), CCL_LANE(q, 1) != n || CCL_LANE(q, 3) != n) {
            if (ll_slow(a, n, from + ll_late(q, n), src, &polls, r)) {
                return;
            }
        }
        ll_store_bytes(a, a->dst + src * a->dst_part, (uint64_t)i * 8, (uint64_t)CCL_LANE(q, 2) << 32 | CCL_LANE(q, 0));
    }
}

/* ---- parts that are runs of 8-byte words ---- */

CCL_DEVICE void ll_load(CCL_ARGS a, uint32_t world, uint32_t p0, uint32_t stride, uint32_t pairs, uint32_t total, uint64_t *v)
{
#pragma unroll
    for (uint32_t u = 0; u < LL_INFLIGHT; u++) {
        uint32_t p = p0 + u * stride;
        if (p < total) {
            v[u] = *CCL_PTR(const uint64_t, a->src + (uint64_t)(p - ll_rotation(a, world, p, pairs) * pairs) * 8);
        }
    }
}

CCL_DEVICE void ll_send(CCL_ARGS a, uint32_t world, uint32_t n, uint32_t p0, uint32_t stride, uint32_t pairs, uint32_t total,
                        const uint64_t *v)
{
#pragma unroll
    for (uint32_t u = 0; u < LL_INFLIGHT; u++) {
        uint32_t p = p0 + u * stride;
        if (p < total) {
            uint32_t d = ll_rotation(a, world, p, pairs), i = p - d * pairs;
            if (d == 0) {
                *CCL_PTR(uint64_t, a->dst + a->rank * a->dst_part + (uint64_t)i * 8) = v[u];
            } else {
                ccl_store_packet_system(ccl_ll_addr(a, ccl_ctl_in(a, world, ccl_rotate_in(a, world, d)), n, a->rank) + (uint64_t)i * 16,
                                        (uint32_t)v[u], n, (uint32_t)(v[u] >> 32), n);
            }
        }
    }
}

CCL_DEVICE void ll_receive(CCL_ARGS a, uint32_t world, uint32_t n, uint32_t first, uint32_t stride, uint32_t pairs, uint32_t total,
                           struct ll_report *r)
{
    const uint64_t in = ccl_ll_addr(a, ccl_ctl_in(a, world, a->rank), n, 0);
    const uint32_t src_bytes = CCL_LL_SRC(world ? world : a->n);
    uint32_t polls = 0;
    for (uint32_t p0 = first + pairs; p0 < total; p0 += LL_INFLIGHT * stride) {
        ccl_vec16 q[LL_INFLIGHT];
        uint32_t from[LL_INFLIGHT], all, missing = 0;
#pragma unroll
        for (uint32_t u = 0; u < LL_INFLIGHT; u++) {
            uint32_t p = p0 + u * stride, d = ll_rotation(a, world, p, pairs);
            from[u] = ccl_rotate_in(a, world, d) * src_bytes + (p - d * pairs) * 16;
        }
        do {
            all = 1;
#pragma unroll
            for (uint32_t u = 0; u < LL_INFLIGHT; u++) {
                if (p0 + u * stride < total) {
                    q[u] = ccl_load_packet_system(in + from[u]);
                }
            }
#pragma unroll
            for (uint32_t u = 0; u < LL_INFLIGHT; u++) {
                if (p0 + u * stride < total && !(CCL_LANE(q[u], 1) == n && CCL_LANE(q[u], 3) == n)) {
                    all = 0;
                    missing = from[u] + ll_late(q[u], n);
                }
            }
            if (!all && ll_slow(a, n, in + missing, missing / src_bytes, &polls, r)) {
                return;
            }
        } while (!all);
#pragma unroll
        for (uint32_t u = 0; u < LL_INFLIGHT; u++) {
            if (p0 + u * stride < total) {
                uint64_t to = a->dst + (uint64_t)(from[u] / src_bytes) * a->dst_part + from[u] % src_bytes / 2;
                *CCL_PTR(uint64_t, to) = (uint64_t)CCL_LANE(q[u], 2) << 32 | CCL_LANE(q[u], 0);
            }
        }
    }
}

/* The threads that move data. The input is loaded before the number is known: that takes a round trip of its own. Returns the number. */
CCL_DEVICE uint32_t ll_data(CCL_ARGS a, uint32_t world, uint32_t data_threads, const struct ll_shared *sh, struct ll_report *r)
{
    const uint32_t stride = ccl_grid() * data_threads, first = ccl_bid() * data_threads + ccl_tid();
    const uint32_t pairs = ll_pairs(a), total = pairs * (world ? world : a->n);
    const uint32_t words = (a->flags & (CCL_F_FLAT_SRC | CCL_F_FLAT_DST)) == (CCL_F_FLAT_SRC | CCL_F_FLAT_DST) &&
                           ((a->src | a->dst | a->dst_part | a->part_bytes) & 7) == 0;
    uint64_t v[LL_INFLIGHT];
    if (words) {
        ll_load(a, world, first, stride, pairs, total, v);
    }
    ccl_block_sync();
    const uint32_t n = CCL_TAG(sh->entry);
    if ((uint32_t)sh->entry & CCL_OP_STOPPED) {
        return n;
    }
    ll_note(a, n, CCL_TRACE_START);
    if (!words) {
        ll_bytes(a, world, n, first, stride, r);
        ll_note(a, n, CCL_TRACE_MET);
        ll_note(a, n, CCL_TRACE_SENT);
        return n;
    }
    ll_send(a, world, n, first, stride, pairs, total, v);
    for (uint32_t p0 = first + LL_INFLIGHT * stride; p0 < total; p0 += LL_INFLIGHT * stride) {
        ll_load(a, world, p0, stride, pairs, total, v);
        ll_send(a, world, n, p0, stride, pairs, total, v);
    }
    ll_note(a, n, CCL_TRACE_MET);
    ll_note(a, n, CCL_TRACE_SENT);
    ll_receive(a, world, n, first, stride, pairs, total, r);
    return n;
}

CCL_DEVICE void ccl_ll_body(CCL_ARGS a, uint32_t world)
{
    CCL_SHARED struct ll_shared sh;
    const uint32_t t = ccl_tid(), data_threads = ccl_threads() - CCL_WARP;
    struct ll_report report = {CCL_BAD_NONE, 0};
    uint32_t n;
    if (t >= data_threads) {
        if (t == data_threads) {
            sh.entry = ccl_enter(a);
            sh.bad = CCL_BAD_NONE;
        }
        ccl_block_sync();
        n = CCL_TAG(sh.entry);
        /* A replay after an error: no packet leaves, peers have seen the abort. */
        if ((uint32_t)sh.entry == 0) {
            ll_helper(a, world, n, ll_pairs(a) * 16, t - data_threads, &sh, &report);
        }
    } else {
        n = ll_data(a, world, data_threads, &sh, &report);
    }
    ll_note_end(a, n, &sh);
    ll_exit(a, n, &report);
}
