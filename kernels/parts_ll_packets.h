/* SPDX-License-Identifier: MIT
 *
 * parts_ll on a GPU (included by parts_ll.hip), packets as in ll_packets.h. A thread has one unit, the same 8 bytes of all parts (there are as many threads as
 * units): it sends its own to all that get them, then takes those of all others. So in place is safe: nobody else of this rank reads or writes these
 * bytes, and peers store into scratch only. Reductions (REDUCE_UNITS ranks at most): the inputs stand side by side in registers.
 * Bytes moved per rank and peer it sends to: 2 S out, and 2 S in for each it hears from. */
#include "ll_packets.h"
#include "reduce_units.h"

/* ---- who sends to whom ---- */

CCL_DEVICE uint32_t parts_ll_gives(CCL_PARTS p) { return !(p->parts & CCL_PARTS_FROM_ROOT) || p->c.rank == p->root; }
CCL_DEVICE uint32_t parts_ll_takes(CCL_PARTS p) { return !(p->parts & CCL_PARTS_TO_ROOT) || p->c.rank == p->root; }
CCL_DEVICE uint32_t parts_ll_gives_to(CCL_PARTS p, uint32_t peer) { return parts_ll_gives(p) && (!(p->parts & CCL_PARTS_TO_ROOT) || peer == p->root); }
CCL_DEVICE uint32_t parts_ll_takes_from(CCL_PARTS p, uint32_t peer) { return parts_ll_takes(p) && (!(p->parts & CCL_PARTS_FROM_ROOT) || peer == p->root); }

/* What the scrub must spare: lines of a source that sends nothing are not in use, and nobody else renews them. */
CCL_DEVICE uint32_t parts_ll_in_use(CCL_PARTS p, uint32_t n)
{
    const uint32_t lines = CCL_LL_SRC_BYTES / 64;
    uint32_t turn, src = 0;
    if (p->parts & CCL_PARTS_FROM_ROOT) {
        (void)ccl_scrub_turn(n, &turn);
        src = turn / 2 % (p->c.n * lines) / lines; /* as ccl_scrub_now */
    }
    return parts_ll_takes_from(p, src) ? ll_pairs(&p->c) * 16 : 0;
}

/* ---- units in memory ---- */

/* What all addresses and the bytes of a part are multiples of: 8, 4 or 1 bytes. */
CCL_DEVICE uint32_t parts_ll_align(CCL_PARTS p)
{
    CCL_ARGS a = &p->c;
    const uint32_t bits = (uint32_t)(a->src | a->dst | p->src_part | a->dst_part | a->part_bytes);
    return ccl_uniform((bits & 7) == 0 ? 8 : (bits & 3) == 0 ? 4 : 1);
}

/* Bytes of unit u that the part has. */
CCL_DEVICE uint32_t parts_ll_bytes(CCL_ARGS a, uint32_t u)
{
    const uint32_t left = (uint32_t)a->part_bytes - u * 8;
    return left < 8 ? left : 8;
}

/* off: 32 bits, beside an address that is the same for all lanes. align 8 or 4. */
CCL_DEVICE uint64_t parts_ll_get_words(uint64_t part, uint32_t off, uint32_t bytes, uint32_t align)
{
    if (align == 8) {
        return *CCL_PTR(const uint64_t, part + off);
    }
    const uint32_t low = *CCL_PTR(const uint32_t, part + off);
    return bytes == 8 ? (uint64_t)*CCL_PTR(const uint32_t, part + (off + 4)) << 32 | low : low;
}

/* All bytes in flight at once. */
CCL_DEVICE uint64_t parts_ll_get_bytes(uint64_t part, uint32_t off, uint32_t bytes)
{
    uint64_t v = 0;
    uint32_t byte[8];
#pragma unroll
    for (uint32_t i = 0; i < 8; i++) {
        byte[i] = *CCL_PTR(const uint8_t, part + (off + (i < bytes ? i : 0)));
    }
#pragma unroll
    for (uint32_t i = 0; i < 8; i++) {
        v |= i < bytes ? (uint64_t)byte[i] << (8 * i) : 0;
    }
    return v;
}

CCL_DEVICE void parts_ll_put(uint64_t part, uint32_t off, uint64_t v, uint32_t bytes, uint32_t align)
{
    if (align == 8) {
        *CCL_PTR(uint64_t, part + off) = v;
    } else if (align == 4) {
        *CCL_PTR(uint32_t, part + off) = (uint32_t)v;
        if (bytes == 8) {
            *CCL_PTR(uint32_t, part + (off + 4)) = (uint32_t)(v >> 32);
        }
    } else {
        reduce_put_bytes(part + off, v, bytes);
    }
}

/* ---- out ---- */

/* The straight way: at most REDUCE_UNITS ranks, inputs of words that go as they are. */
CCL_DEVICE uint32_t parts_ll_straight(CCL_PARTS p, uint32_t align)
{
    return p->c.n <= REDUCE_UNITS && align >= 4 && !(p->parts & CCL_PARTS_SCALED);
}

/* Unit u of what the rank so many rotations on gets, [0] is the own one. All in flight at once. Inputs that all get alike are loaded once. */
CCL_DEVICE void parts_ll_load(CCL_PARTS p, uint32_t u, uint32_t align, uint64_t *v)
{
    CCL_ARGS a = &p->c;
    if (!parts_ll_gives(p)) {
        return; /* may have no input */
    }
#pragma unroll
    for (uint32_t d = 0; d < REDUCE_UNITS; d++) {
        if (d == 0 || (p->src_part != 0 && d < a->n)) {
            v[d] = parts_ll_get_words(a->src + ccl_rotate(a, d) * p->src_part, u * 8, parts_ll_bytes(a, u), align);
        }
    }
}

CCL_DEVICE void parts_ll_store(CCL_PARTS p, uint32_t n, uint64_t ctl, uint32_t u, uint64_t v)
{
    ccl_store_packet_system(ccl_ll_addr(&p->c, ctl, n, p->c.rank) + u * 16, (uint32_t)v, n, (uint32_t)(v >> 32), n);
}

CCL_DEVICE void parts_ll_send(CCL_PARTS p, uint32_t n, uint32_t u, const uint64_t *v)
{
    CCL_AFRESH(p);
    CCL_ARGS a = &p->c;
    uint64_t ctl[REDUCE_UNITS];
#pragma unroll
    for (uint32_t d = 1; d < REDUCE_UNITS; d++) {
        ctl[d] = a->peer[ccl_rotate(a, d)].ctl; /* there are CCL_VALUE_PEERS entries, so no look at n holds up the loads */
    }
#pragma unroll
    for (uint32_t d = 1; d < REDUCE_UNITS; d++) {
        if (d < a->n && parts_ll_gives_to(p, ccl_rotate(a, d))) {
            parts_ll_store(p, n, ctl[d], u, p->src_part != 0 ? v[d] : v[0]);
        }
    }
}

/* Any number of ranks, inputs that lie anywhere or are multiplied first. One rank after the other: that code is long, so it is there once. Returns the own
 * unit. */
CCL_DEVICE uint64_t parts_ll_send_slowly(CCL_PARTS p, uint32_t n, uint32_t u, uint32_t align)
{
    CCL_AFRESH(p);
    CCL_ARGS a = &p->c;
    const uint64_t scalar = p->parts & CCL_PARTS_SCALED ? reduce_scalar_bits(p) : 0;
    const uint32_t bytes = parts_ll_bytes(a, u);
    uint64_t v = 0, own = 0;
    CCL_NO_UNROLL
    for (uint32_t d = 0; d < a->n && parts_ll_gives(p); d++) {
        const uint32_t peer = ccl_rotate(a, d);
        if (d == 0 || p->src_part != 0) {
            const uint64_t part = a->src + peer * p->src_part;
            v = align >= 4 ? parts_ll_get_words(part, u * 8, bytes, align) : parts_ll_get_bytes(part, u * 8, bytes);
            if (p->parts & CCL_PARTS_SCALED) {
#define ARGS (&v, scalar)
                REDUCE_BY_TYPE(p->type, units_scale)
#undef ARGS
            }
        }
        if (d == 0) {
            own = v;
        } else if (parts_ll_gives_to(p, peer)) {
            parts_ll_store(p, n, ccl_peer_ctl(a, peer), u, v);
        }
    }
    return own;
}

/* ---- in ---- */

/* Bit i: this rank gets something of rank r0 + i, which may be itself. */
CCL_DEVICE uint32_t parts_ll_expected(CCL_PARTS p, uint32_t r0)
{
    uint32_t mask = 0;
#pragma unroll
    for (uint32_t i = 0; i < CCL_PARTS_LL_INFLIGHT; i++) {
        mask |= r0 + i < p->c.n && parts_ll_takes_from(p, r0 + i) ? 1u << i : 0;
    }
    return mask;
}

/* Unit u of the ranks r0, r0 + 1, ... that are expected, all in flight at once. False: stop. */
CCL_DEVICE uint32_t parts_ll_receive(CCL_PARTS p, uint32_t n, uint32_t r0, uint32_t u, uint32_t expected, uint64_t own, uint64_t *v, uint32_t *polls,
                                     struct ll_report *r)
{
    CCL_AFRESH(p);
    CCL_ARGS a = &p->c;
    const uint64_t in = ccl_ll_addr(a, ccl_peer_ctl(a, a->rank), n, r0);
    const uint32_t me = a->rank - r0, awaited = me < CCL_PARTS_LL_INFLIGHT ? expected & ~(1u << me) : expected;
    uint32_t all = awaited == 0;
    ccl_vec16 q[CCL_PARTS_LL_INFLIGHT];
    while (!all) {
        uint32_t late = 0;
        all = 1;
#pragma unroll
        for (uint32_t i = 0; i < CCL_PARTS_LL_INFLIGHT; i++) {
            if (awaited >> i & 1) {
                q[i] = ccl_load_packet_system(in + (u * 16 + i * CCL_LL_SRC_BYTES));
            }
        }
#pragma unroll
        for (uint32_t i = 0; i < CCL_PARTS_LL_INFLIGHT; i++) {
            if ((awaited >> i & 1) && !(CCL_LANE(q[i], 1) == n && CCL_LANE(q[i], 3) == n)) {
                all = 0;
                late = i * CCL_LL_SRC_BYTES + u * 16 + ll_late(q[i], n);
            }
        }
        if (!all && ll_slow(a, n, in + late, r0 + late / CCL_LL_SRC_BYTES, polls, r)) {
            return 0;
        }
    }
#pragma unroll
    for (uint32_t i = 0; i < CCL_PARTS_LL_INFLIGHT; i++) {
        v[i] = i == me ? own : (uint64_t)CCL_LANE(q[i], 2) << 32 | CCL_LANE(q[i], 0);
    }
    return 1;
}

/* Copying collectives: what comes, to its part of the output. False: stop. */
CCL_DEVICE uint32_t parts_ll_copy(CCL_PARTS p, uint32_t n, uint32_t u, uint32_t align, uint64_t own, uint32_t *polls, struct ll_report *r)
{
    CCL_ARGS a = &p->c;
    const uint32_t bytes = parts_ll_bytes(a, u);
    CCL_NO_UNROLL
    for (uint32_t r0 = 0; r0 < a->n; r0 += CCL_PARTS_LL_INFLIGHT) {
        uint64_t v[CCL_PARTS_LL_INFLIGHT];
        const uint32_t expected = parts_ll_expected(p, r0);
        if (!parts_ll_receive(p, n, r0, u, expected, own, v, polls, r)) {
            return 0;
        }
#pragma unroll
        for (uint32_t i = 0; i < CCL_PARTS_LL_INFLIGHT; i++) {
            if (expected >> i & 1) {
                parts_ll_put(a->dst + (r0 + i) * a->dst_part, u * 8, v[i], bytes, align);
            }
        }
    }
    return 1;
}

/* Reductions: the inputs side by side, then joined. False: stop. */
CCL_DEVICE uint32_t parts_ll_join(CCL_PARTS p, uint32_t n, uint32_t u, uint32_t align, uint64_t own, uint32_t *polls, struct ll_report *r)
{
    uint64_t v[REDUCE_UNITS];
    CCL_NO_UNROLL
    for (uint32_t r0 = 0; r0 < REDUCE_UNITS; r0 += CCL_PARTS_LL_INFLIGHT) {
#pragma unroll
        for (uint32_t i = 0; i + CCL_PARTS_LL_INFLIGHT < REDUCE_UNITS; i++) {
            v[i] = v[i + CCL_PARTS_LL_INFLIGHT];
        }
        if (!parts_ll_receive(p, n, r0, u, parts_ll_expected(p, r0), own, v + REDUCE_UNITS - CCL_PARTS_LL_INFLIGHT, polls, r)) {
            return 0;
        }
    }
    CCL_AFRESH(p);
#define ARGS (p->redop, p->c.n, v)
    REDUCE_BY_TYPE(p->type, units_join)
#undef ARGS
    CCL_AFRESH(p);
    parts_ll_put(p->c.dst, u * 8, v[0], parts_ll_bytes(&p->c, u), align);
    return 1;
}

/* ---- the kernel ---- */

/* The threads that move data. Returns the number. The input is loaded before the number is known: that takes a round trip of its own. */
CCL_DEVICE uint32_t parts_ll_data(CCL_PARTS p, uint32_t data_threads, const struct ll_shared *sh, struct ll_report *r)
{
    CCL_ARGS a = &p->c;
    const uint32_t u = ccl_bid() * data_threads + ccl_tid(), align = parts_ll_align(p), mine = u < ll_pairs(a);
    uint64_t v[REDUCE_UNITS] = {0}, own;
    uint32_t polls = 0, done = 1;
    if (mine && parts_ll_straight(p, align)) {
        parts_ll_load(p, u, align, v);
    }
    ccl_block_sync();
    const uint32_t n = CCL_TAG(sh->entry);
    if ((uint32_t)sh->entry & CCL_OP_STOPPED) {
        return n;
    }
    ll_note(a, n, CCL_TRACE_START);
    if (mine) {
        if (parts_ll_straight(p, align)) {
            own = v[0];
            parts_ll_send(p, n, u, v);
        } else {
            own = parts_ll_send_slowly(p, n, u, align);
        }
    }
    ll_note(a, n, CCL_TRACE_MET);
    ll_note(a, n, CCL_TRACE_SENT);
    if (mine && parts_ll_takes(p)) {
        done = p->parts & CCL_PARTS_REDUCE ? parts_ll_join(p, n, u, align, own, &polls, r) : parts_ll_copy(p, n, u, align, own, &polls, r);
    }
    if (done) {
        ll_note(a, n, CCL_TRACE_END);
    }
    return n;
}

CCL_DEVICE void parts_ll_run(CCL_PARTS p)
{
    CCL_ARGS a = &p->c;
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
        if ((uint32_t)sh.entry == 0) { /* not for a replay after an error: no packet leaves, peers have seen the abort */
            ll_helper(a, 0, n, parts_ll_in_use(p, n), t - data_threads, &sh, &report);
        }
    } else {
        n = parts_ll_data(p, data_threads, &sh, &report);
    }
    ll_exit(a, n, &report);
}
