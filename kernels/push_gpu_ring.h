/* SPDX-License-Identifier: MIT
 *
 * Staging of flat parts where all ranks share a device and every destination is staged (included by push_gpu_body.h): the common way of plain
 * buffers. Each chunk is written once, to this rank's own ring, and read there by all peers. What does not change from step to step is worked out
 * before the first one. */
#ifndef CCL_PUSH_GPU_RING_H
#define CCL_PUSH_GPU_RING_H

/* One chunk, this thread's vectors: CCL_FLAT_UNITS of them at most, all loads ahead of all stores. */
#define RING_EACH_UNIT(reach, column, statement)                            \
    _Pragma("unroll") for (uint32_t u = 0; u < CCL_FLAT_UNITS; u++) {       \
        if (u * (column) < (reach)) {                                       \
            statement;                                                      \
        }                                                                   \
    }

/* How far the chunk at `at` reaches behind this thread's first vector. */
CCL_DEVICE uint32_t ring_reach(CCL_ARGS a, uint64_t at, uint32_t mine)
{
    const uint64_t left = at < a->part_bytes ? a->part_bytes - at : 0;
    const uint32_t bytes = left < a->flat_piece ? (uint32_t)left : a->flat_piece;
    return bytes > mine ? bytes - mine : 0;
}

CCL_DEVICE void ring_push(CCL_ARGS a, uint64_t slot, uint64_t own, uint64_t at, uint32_t reach, uint32_t column)
{
    ccl_vec16 v[CCL_FLAT_UNITS];
    RING_EACH_UNIT(reach, column, v[u] = ccl_load_stream_vec16(a->src + at + u * column))
    RING_EACH_UNIT(reach, column, *CCL_PTR(ccl_vec16, slot + u * column) = v[u])
    if (own != 0) {
        RING_EACH_UNIT(reach, column, ccl_store_stream_vec16(own + at + u * column, v[u]))
    }
}

CCL_DEVICE void ring_drain(uint64_t slot, uint64_t to, uint32_t reach, uint32_t column)
{
    ccl_vec16 v[CCL_FLAT_UNITS];
    RING_EACH_UNIT(reach, column, v[u] = ccl_load_ring_vec16(slot + u * column))
    RING_EACH_UNIT(reach, column, ccl_store_stream_vec16(to + u * column, v[u]))
}

/* The words of one lane of the first warp: lanes 1..world-1 wait for credits and post `full`, lanes 16 + 1.. wait for `full` and post credits. */
struct ring_lane {
    uint64_t await, post;
    uint32_t x, takes, peer;
};

CCL_DEVICE struct ring_lane ring_lane_of(CCL_ARGS a, uint32_t world, uint32_t block)
{
    struct ring_lane l;
    l.takes = ccl_tid() >= 16;
    l.x = ccl_tid() < CCL_WARP && (ccl_tid() & 15) < world ? ccl_tid() & 15 : 0; /* 0: no words */
    l.peer = ccl_rotate_in(a, world, l.x);
    const uint64_t me = ccl_ctl_in(a, world, a->rank), its = ccl_ctl_in(a, world, l.peer);
    l.await = l.takes ? ccl_full_addr(a, me, block, l.peer) : ccl_credit_addr(a, me, block, l.peer);
    l.post = l.takes ? ccl_credit_addr(a, its, block, a->rank) : ccl_full_addr(a, its, block, a->rank);
    return l;
}

CCL_DEVICE void ring_wait(CCL_ARGS a, struct ring_lane l, struct push_shared *sh, struct push_end *end, uint32_t n, uint32_t want)
{
    uint32_t bad = CCL_BAD_NONE;
    const uint32_t value = CCL_VALUE(ccl_wait_word(a, l.await, n, want, l.peer, 0, &bad));
    if (l.takes) {
        end[l.x].at = value;
    }
    if (__builtin_expect(bad || value == CCL_STEP_LEFT, 0)) {
        push_set_bad(a, sh, bad ? bad : CCL_BAD_LEFT, l.peer);
    }
}

/* Steps as in push_steps: push chunk s, drain chunk s - lag, publish both. Returns words_out. */
CCL_DEVICE_SLOW uint32_t push_ring(CCL_ARGS a, uint32_t world, struct push_shared *sh, struct push_end *end, uint32_t n, uint32_t first,
                                   uint32_t stride, uint32_t chunks)
{
    const uint32_t column = ccl_threads() * 16, mine = ccl_tid() * 16, slots = a->lay.slots, lag = slots >= 4 ? 2 : 1;
    const struct ring_lane l = ring_lane_of(a, world, ccl_bid());
    const uint64_t ring = a->lay.ring + (uint64_t)ccl_bid() * slots * a->lay.slot_bytes + mine;
    const uint64_t step = (uint64_t)stride * a->flat_piece;
    uint64_t at = (uint64_t)first * a->flat_piece;
    uint32_t push_at = 0, drain_at = 0; /* slots */
    for (uint32_t s = 0; s < chunks + lag; s++) {
        const uint32_t pushes = s < chunks;
        if (l.x != 0 && (l.takes ? s >= lag && end[l.x].at < s - lag + 1 : pushes && s >= slots)) {
            ring_wait(a, l, sh, end, n, l.takes ? s - lag + 1 : s - slots + 1);
        }
        ccl_block_sync();
        if (__builtin_expect(sh->bad != CCL_BAD_NONE, 0)) {
            return !pushes;
        }
        if (pushes) {
            const uint32_t reach = ring_reach(a, at, mine);
            ring_push(a, ccl_ctl_in(a, world, a->rank) + ring + push_at * a->lay.slot_bytes, end[0].base, at + mine, reach, column);
            push_at = push_at + 1 == slots ? 0 : push_at + 1;
        }
        if (s >= lag) {
            const uint64_t from = at - lag * step;
            const uint32_t reach = ring_reach(a, from, mine);
#pragma unroll 1
            for (uint32_t d = 1; d < world; d++) {
                const uint32_t src = ccl_rotate_in(a, world, d);
                if (end[d].at < CCL_STEP_DIRECT) {
                    ring_drain(ccl_ctl_in(a, world, src) + ring + drain_at * a->lay.slot_bytes,
                               a->dst + src * a->dst_part + from + mine, reach, column);
                }
            }
            drain_at = drain_at + 1 == slots ? 0 : drain_at + 1;
        }
        at += step;
        if (s + 1 < chunks) { /* the next chunk towards the L2 */
            for (uint32_t o = ccl_tid() * 128; o < a->flat_piece && at + o < a->part_bytes; o += ccl_threads() * 128) {
                ccl_prefetch(a->src + at + o);
            }
        }
        ccl_block_release_system();
        if (ccl_tid() < CCL_WARP) {
            ccl_flag_release_system();
            if (l.x != 0 && !l.takes && pushes) {
                ccl_store_relaxed_system_u64(l.post, CCL_TAGGED(n, s + 1));
            } else if (l.x != 0 && l.takes && s >= lag && s - lag + slots < chunks && end[l.x].at < CCL_STEP_DIRECT) {
                ccl_store_relaxed_system_u64(l.post, CCL_TAGGED(n, s - lag + 1)); /* credits nobody waits for are not sent (Q) */
            }
        }
        if (s + 1 == chunks) {
            push_note(a, n, CCL_TRACE_SENT);
        }
    }
    return 1;
}

#endif
