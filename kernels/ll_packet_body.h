/* SPDX-License-Identifier: MIT
 *
 * LL on a GPU (included by ll.hip). Packets of 8 bytes {data:32, n:32} validate themselves: no fence, no handshake. Two packets travel in one
 * 16-byte access. Threads are laid over (peer, packet) pairs; the block's last warp sends and awaits the adverts (exit rule E) and scrubs
 * beside the data, so that nothing follows the data. Bytes moved per rank: (n-1) * 2 S out, as much in, S own. */

#define LL_INFLIGHT 4 /* packet pairs a thread keeps in flight */

/* 8 bytes of the packed part at offset off, as many as the part has. */
CCL_DEVICE uint64_t ll_load8(CCL_ARGS a, uint64_t off)
{
    uint64_t v = 0;
    if ((a->flags & CCL_F_FLAT_SRC) && off + 8 <= a->part_bytes && (a->src & 7) == 0) {
        return *CCL_PTR(const uint64_t, a->src + off);
    }
    for (uint32_t i = 0; i < 8 && off + i < a->part_bytes; i++) {
        uint64_t o = off + i;
        o = (a->flags & CCL_F_FLAT_SRC) ? o : o / a->row_bytes * a->ld_src + o % a->row_bytes;
        v |= (uint64_t)*CCL_PTR(const uint8_t, a->src + o) << (8 * i);
    }
    return v;
}

CCL_DEVICE void ll_store8(CCL_ARGS a, uint64_t part, uint64_t off, uint64_t v)
{
    if ((a->flags & CCL_F_FLAT_DST) && off + 8 <= a->part_bytes && ((part + off) & 7) == 0) {
        *CCL_PTR(uint64_t, part + off) = v;
        return;
    }
    for (uint32_t i = 0; i < 8 && off + i < a->part_bytes; i++) {
        uint64_t o = off + i;
        o = (a->flags & CCL_F_FLAT_DST) ? o : o / a->row_bytes * a->ld_dst + o % a->row_bytes;
        *CCL_PTR(uint8_t, part + o) = (uint8_t)(v >> (8 * i));
    }
}

/* Which rotation pair p belongs to. The reciprocal is exact while p < 2^32 / pairs, which holds for the compiled-in worlds. */
CCL_DEVICE uint32_t ll_rotation(CCL_ARGS a, uint32_t world, uint32_t p, uint32_t pairs)
{
    return world == 0 ? p / pairs : a->div_mul ? ccl_mul_hi(p, a->div_mul) : p;
}

/* The last warp: adverts out, scrub, adverts in. Words 0 and 1 only: parts are equal and nobody stores into user memory. */
CCL_DEVICE void ll_helper(CCL_ARGS a, uint32_t n, uint32_t lane)
{
    const struct ccl_channels none = {0, 0, 0, 0};
    ccl_advert_send(a, n, 2, lane, CCL_WARP);
    if (lane == 0) {
        ccl_scrub(a, n, 1, 2, 0);
    }
    for (uint32_t d = 1 + lane; d < a->n; d += CCL_WARP) {
        uint64_t where;
        uint32_t bad = ccl_advert_wait(a, n, ccl_rotate(a, d), 2, 0, &where);
        if (bad) {
            ccl_fail(a, n, 0, bad, ccl_rotate(a, d), none, 0, 1);
        }
    }
}

CCL_DEVICE void ccl_ll_body(CCL_ARGS a, uint32_t world)
{
    CCL_SHARED uint64_t sh_entry;
    const uint32_t n_ranks = world ? world : a->n, t = ccl_tid(), data_threads = ccl_threads() - CCL_WARP;
    const uint32_t stride = ccl_grid() * data_threads, first = ccl_bid() * data_threads + t;
    const uint32_t pairs = (uint32_t)((a->part_bytes + 7) / 8), total = pairs * n_ranks;
    const uint64_t me = ccl_peer_ctl(a, a->rank);
    if (t == data_threads) {
        sh_entry = ccl_enter(a);
    }
    ccl_block_sync();
    const uint64_t entry = sh_entry;
    const uint32_t n = CCL_TAG(entry);
    if ((uint32_t)entry & CCL_OP_STOPPED) {
        return;
    }
    if (t >= data_threads) {
        if ((uint32_t)entry == 0) {
            ll_helper(a, n, t - data_threads);
        }
        return;
    }
    for (uint32_t p = first; p < total; p += stride) {
        uint32_t d = ll_rotation(a, world, p, pairs), i = p - d * pairs, rank = ccl_rotate(a, d);
        uint64_t v = ll_load8(a, (uint64_t)i * 8);
        if (d == 0) {
            ll_store8(a, a->dst + a->rank * a->dst_part, (uint64_t)i * 8, v);
        } else {
            ccl_store_packet_system(ccl_ll_addr(a, ccl_peer_ctl(a, rank), n, a->rank) + (uint64_t)i * 16, (uint32_t)v, n,
                                    (uint32_t)(v >> 32), n);
        }
    }
    uint32_t polls = 0;
    for (uint32_t p0 = first + pairs; p0 < total; p0 += LL_INFLIGHT * stride) {
        ccl_vec16 v[LL_INFLIGHT];
        uint64_t from[LL_INFLIGHT];
        uint32_t all;
#pragma unroll
        for (uint32_t u = 0; u < LL_INFLIGHT; u++) {
            uint32_t p = p0 + u * stride, d = ll_rotation(a, world, p, pairs), i = p - d * pairs;
            from[u] = p < total ? ccl_ll_addr(a, me, n, ccl_rotate(a, d)) + (uint64_t)i * 16 : 0;
        }
        do {
            all = 1;
#pragma unroll
            for (uint32_t u = 0; u < LL_INFLIGHT; u++) {
                if (from[u]) {
                    v[u] = ccl_load_packet_system(from[u]);
                }
            }
#pragma unroll
            for (uint32_t u = 0; u < LL_INFLIGHT; u++) {
                if (from[u]) {
                    all &= CCL_LANE(v[u], 1) == n && CCL_LANE(v[u], 3) == n;
                }
            }
            if (!all && (++polls & 63) == 0 &&
                ccl_slow_poll(a->priv, a->page, ccl_advert_addr(a, me, n, a->rank), n, 0, a->rank, t < CCL_WARP ? polls : 1)) {
                return; /* the helper or another block raised the error */
            }
        } while (!all);
#pragma unroll
        for (uint32_t u = 0; u < LL_INFLIGHT; u++) {
            uint32_t p = p0 + u * stride, d = ll_rotation(a, world, p, pairs), i = p - d * pairs;
            if (from[u]) {
                ll_store8(a, a->dst + ccl_rotate(a, d) * a->dst_part, (uint64_t)i * 8, (uint64_t)CCL_LANE(v[u], 2) << 32 | CCL_LANE(v[u], 0));
            }
        }
    }
}
