/* SPDX-License-Identifier: MIT
 *
 * parts_ll on a GPU (included by parts_ll.hip), packets as in ll_packets.h. A unit is the same 8 bytes of all parts; it has a lane for each rank, which sends
 * that rank its packet pair and takes the one of it. A reduction is joined through the lanes, in the order of ranks. In place is safe: a unit's
 * input is read before its output is written, by lanes of one warp, and peers store into scratch only.
 * The straight path is kept short: ranks that share a device also share its instruction caches, each with a copy of this code.
 * Bytes moved per rank and peer it sends to: 2 S out, and 2 S in for each it hears from. */
#include "ll_packets.h"
#include "reduce_units.h"

/* What the scrub must spare: lines of a source that sends nothing are not in use, and nobody else renews them. */
CCL_DEVICE uint32_t parts_ll_in_use(CCL_PARTS p, uint32_t n)
{
    const uint32_t lines = CCL_LL_SRC(p->c.n) / 64, silent = p->from_ranks != (2ull << (p->c.n - 1)) - 1;
    uint32_t turn, src = 0;
    if (__builtin_expect(silent && ccl_scrub_turn(n, &turn), 0)) {
        src = turn / 2 % (p->c.n * lines) / lines; /* as ccl_scrub_now */
    }
    return p->from_ranks >> src & 1 ? ll_pairs(&p->c) * 16 : 0;
}

/* ---- units in memory ---- */

/* What all addresses and the bytes of a part are multiples of: 8, 4 or 1 bytes. */
CCL_DEVICE uint32_t parts_ll_align(CCL_PARTS p)
{
    CCL_ARGS a = &p->c;
    const uint32_t bits = (uint32_t)(a->src | a->dst | p->src_part | a->dst_part | a->part_bytes);
    return ccl_uniform((bits & 7) == 0 ? 8 : (bits & 3) == 0 ? 4 : 1);
}

/* All bytes in flight at once. */
CCL_DEVICE_SLOW uint64_t parts_ll_get_bytes(uint64_t from, uint32_t bytes)
{
    uint64_t v = 0;
    uint32_t byte[8];
#pragma unroll
    for (uint32_t i = 0; i < 8; i++) {
        byte[i] = *CCL_PTR(const uint8_t, from + (i < bytes ? i : 0));
    }
#pragma unroll
    for (uint32_t i = 0; i < 8; i++) {
        v |= i < bytes ? (uint64_t)byte[i] << (8 * i) : 0;
    }
    return v;
}

CCL_DEVICE uint64_t parts_ll_get(uint64_t from, uint32_t bytes, uint32_t align)
{
    if (align == 8) {
        return *CCL_PTR(const uint64_t, from);
    }
    if (align == 1) {
        return parts_ll_get_bytes(from, bytes);
    }
    const uint32_t low = *CCL_PTR(const uint32_t, from);
    return bytes == 8 ? (uint64_t)*CCL_PTR(const uint32_t, from + 4) << 32 | low : low;
}

CCL_DEVICE void parts_ll_put(uint64_t to, const uint32_t *unit, uint32_t bytes, uint32_t align)
{
    const uint64_t v = (uint64_t)unit[1] << 32 | unit[0];
    if (align == 8) {
        *CCL_PTR(uint64_t, to) = v;
    } else if (align == 4) {
        *CCL_PTR(uint32_t, to) = unit[0];
        if (bytes == 8) {
            *CCL_PTR(uint32_t, to + 4) = unit[1];
        }
    } else {
        reduce_put_bytes(to, v, bytes);
    }
}

CCL_DEVICE_SLOW uint64_t parts_ll_scale(CCL_PARTS p, uint64_t v)
{
    const uint64_t scalar = reduce_scalar_bits(p);
    uint32_t unit[2] = {(uint32_t)v, (uint32_t)(v >> 32)};
#define ARGS (unit, scalar)
    REDUCE_BY_TYPE(p->type, units_scale)
#undef ARGS
    return (uint64_t)unit[1] << 32 | unit[0];
}

/* ---- the threads that move data ---- */

/* A lane's part in a round of its block. */
struct parts_ll_lane {
    uint32_t u, bytes; /* the unit, its bytes; 0: there is no such unit */
    uint32_t peer;     /* a rank, or none */
    uint32_t to, from; /* this rank sends it something, gets something of it; both are true or not for this rank itself */
};

CCL_DEVICE struct parts_ll_lane parts_ll_lane_of(CCL_PARTS p, uint32_t first, uint32_t data_threads)
{
    const uint32_t thread = ccl_bid() * data_threads + ccl_afresh(ccl_tid()); /* worked out twice rather than kept */
    struct parts_ll_lane l;
    l.u = first + (thread >> p->unit_lanes);
    const uint32_t mine = l.u < ll_pairs(&p->c), left = (uint32_t)p->c.part_bytes - l.u * 8;
    l.bytes = !mine ? 0 : left < 8 ? left : 8;
    l.peer = thread & ((1u << p->unit_lanes) - 1);
    l.to = mine ? (uint32_t)(p->to_ranks >> l.peer) & 1 : 0;
    l.from = mine ? (uint32_t)(p->from_ranks >> l.peer) & 1 : 0;
    return l;
}

/* The packet pair of unit u from the lane's peer. Who is told to stop goes on with what is there: the other lanes wait for it, and the operation has failed. */
CCL_DEVICE void parts_ll_receive(CCL_PARTS p, uint32_t n, uint32_t peer, uint32_t u, uint32_t *unit, uint32_t *polls, struct ll_report *r)
{
    CCL_ARGS a = &p->c;
    const uint64_t in = ccl_ll_addr(a, ccl_peer_ctl(a, a->rank), n, 0);
    const uint32_t off = peer * CCL_LL_SRC(p->c.n) + u * 16;
    ccl_vec16 q;
    while (q = ccl_load_packet_system(in + off), __builtin_expect(CCL_LANE(q, 1) != n || CCL_LANE(q, 3) != n, 0)) {
        if (ll_slow(a, n, in + off + ll_late(q, n), peer, polls, r)) {
            break;
        }
    }
    unit[0] = CCL_LANE(q, 0);
    unit[1] = CCL_LANE(q, 2);
}

/* To where it belongs: the output of a reduction is the own lane's. */
CCL_DEVICE void parts_ll_finish(CCL_PARTS p, uint32_t first, uint32_t data_threads, uint32_t *unit)
{
    CCL_AFRESH(p);
    CCL_ARGS a = &p->c;
    const uint32_t join = p->parts & CCL_PARTS_REDUCE;
    if (join && p->from_ranks != 0) {
#define ARGS (p->redop, a->n, ccl_tid() & 31 & ~((1u << p->unit_lanes) - 1), unit)
        REDUCE_BY_TYPE(p->type, units_join)
#undef ARGS
    }
    CCL_AFRESH(p);
    const struct parts_ll_lane l = parts_ll_lane_of(p, first, data_threads);
    if (l.from && (!join || l.peer == a->rank)) {
        parts_ll_put(a->dst + (l.peer * a->dst_part + l.u * 8), unit, l.bytes, parts_ll_align(p));
    }
}

/* Returns the number. The first input is loaded before the number is known: that takes a round trip of its own. */
CCL_DEVICE uint32_t parts_ll_data(CCL_PARTS p, uint32_t data_threads, const struct ll_shared *sh, struct ll_report *r)
{
    CCL_ARGS a = &p->c;
    uint32_t n = 0, polls = 0, first = 0;
    do { /* as often for all threads: the lanes of a join go together, and none misses the barrier */
        const struct parts_ll_lane l = parts_ll_lane_of(p, first, data_threads);
        const uint64_t ctl = l.to ? ccl_peer_ctl(a, l.peer) : 0;
        uint64_t v = l.to ? parts_ll_get(a->src + (l.peer * p->src_part + l.u * 8), l.bytes, parts_ll_align(p)) : 0;
        if (__builtin_expect(p->parts & CCL_PARTS_SCALED, 0)) {
            v = parts_ll_scale(p, v);
        }
        if (first == 0) {
            ccl_block_sync();
            n = CCL_TAG(sh->entry);
            if ((uint32_t)sh->entry & CCL_OP_STOPPED) {
                return n;
            }
            ll_note(a, n, CCL_TRACE_START);
        }
        uint32_t unit[2] = {(uint32_t)v, (uint32_t)(v >> 32)};
        if (l.to && l.peer != a->rank) {
            ccl_store_packet_system(ccl_ll_addr(a, ctl, n, a->rank) + l.u * 16, unit[0], n, unit[1], n);
        }
        if (first == 0) {
            ll_note(a, n, CCL_TRACE_MET);
            ll_note(a, n, CCL_TRACE_SENT);
        }
        if (l.from && l.peer != a->rank) {
            parts_ll_receive(p, n, l.peer, l.u, unit, &polls, r);
        }
        parts_ll_finish(p, first, data_threads, unit);
        first += ccl_uniform(ccl_grid() * data_threads >> p->unit_lanes);
    } while (first < ll_pairs(a));
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
    ll_note_end(a, n, &sh);
    ll_exit(a, n, &report);
}
