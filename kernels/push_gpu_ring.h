/* SPDX-License-Identifier: MIT
 *
 * Staging of flat parts to all peers, on NVIDIA (included by push_gpu_body.h): the common way of plain buffers. The first warp of a block stores and awaits words,
 * the others move data: what they have stored is released, and the next words are awaited, while they move the next chunk. Where all ranks share a device a
 * chunk is written once, to this rank's own ring, and read there by all peers; else it is written to the ring for this rank at each peer. */
#ifndef CCL_PUSH_GPU_RING_H
#define CCL_PUSH_GPU_RING_H

#if !defined(RING_UNITS)
#define RING_UNITS 5u /* vectors a thread has in flight: 480 threads move 32 KiB in one go */
#endif
#define PUSH_ONE_UNITS 4u /* a thread's vectors of the only piece of a block, loaded while the adverts travel */
#define RING_STOP 0x80000000u
#define RING_GO 1u   /* barriers of the block beside 0: go of even and odd steps, 1 and 2; done likewise, 3 and 4 */
#define RING_DONE 3u

/* Steps: push chunk s, drain chunk s - lag. With a lag of two or more, and slots that the peers have emptied two steps before, the words of step s + 1 are
 * awaited while the data of step s move. */
struct ring_plan {
    uint32_t n, first, stride, chunks;
    uint32_t lag, ahead;
};

CCL_DEVICE struct ring_plan ring_plan_of(CCL_ARGS a, uint32_t n, uint32_t chunks)
{
    const uint32_t slots = a->lay.slots;
    struct ring_plan p = {n, ccl_bid(), ccl_grid(), chunks, slots >= 8 ? 4u : slots >= 4 ? 2u : 1u, 0};
    p.lag = p.lag < p.chunks ? p.lag : p.chunks;
    p.ahead = p.lag >= 2 && slots >= p.lag + 2;
    return p;
}

/* Where the rings of src stand, in its control memory or, not shared, in that of their reader. */
CCL_DEVICE uint64_t ring_at(CCL_ARGS a, uint32_t src)
{
    const uint64_t channel = a->lay.shared_ring ? ccl_bid() : (uint64_t)src * a->lay.blocks + ccl_bid();
    return a->lay.ring + channel * a->lay.slots * a->lay.slot_bytes;
}

/* ---- the first warp ---- */

/* The words of one lane: lanes 1..world-1 wait for credits and post `full`, lanes 16 + 1.. wait for `full` and post credits. */
struct ring_lane {
    uint64_t await, post;
    uint32_t x, takes, peer;
    uint32_t seen; /* last value of await */
};

CCL_DEVICE struct ring_lane ring_lane_of(CCL_ARGS a, uint32_t world)
{
    struct ring_lane l;
    const uint32_t block = ccl_bid();
    l.takes = ccl_tid() >= 16;
    l.x = (ccl_tid() & 15) < world ? ccl_tid() & 15 : 0; /* 0: no words */
    l.peer = ccl_rotate_in(a, world, l.x);
    l.seen = 0;
    const uint64_t me = ccl_ctl_in(a, world, a->rank), its = ccl_ctl_in(a, world, l.peer);
    l.await = l.takes ? ccl_full_addr(a, me, block, l.peer) : ccl_credit_addr(a, me, block, l.peer);
    l.post = l.takes ? ccl_credit_addr(a, its, block, a->rank) : ccl_full_addr(a, its, block, a->rank);
    return l;
}

/* All words of step s; then the others may begin it. *go: place of what they are told. True: the launch has failed. */
CCL_DEVICE uint32_t ring_open(CCL_ARGS a, struct push_shared *sh, struct ring_plan p, uint32_t s, struct ring_lane *l, uint32_t *go)
{
    const uint32_t want = l->takes ? s - p.lag + 1 : s - a->lay.slots + 1;
    uint32_t bad = CCL_BAD_NONE;
    if (l->x != 0 && (l->takes ? s >= p.lag : s < p.chunks && s >= a->lay.slots) && l->seen < want) {
        l->seen = CCL_VALUE(ccl_wait_word(a, l->await, p.n, want, l->peer, 0, &bad));
        bad = bad == CCL_BAD_NONE && l->seen == CCL_STEP_LEFT ? (uint32_t)CCL_BAD_LEFT : bad;
        if (__builtin_expect(bad != CCL_BAD_NONE, 0)) {
            push_set_bad(a, sh, bad, l->peer);
        }
    }
    const uint32_t stop = ccl_warp_ballot(bad != CCL_BAD_NONE);
    const uint32_t drain = ccl_warp_ballot(l->x != 0 && l->takes && l->seen < CCL_STEP_DIRECT) >> 16;
    if (ccl_tid() == 0) {
        go[s & 1] = stop ? RING_STOP : drain;
    }
    ccl_warp_sync();
    ccl_barrier_arrive(RING_GO + (s & 1));
    return stop;
}

/* All of a step has been stored and read. */
CCL_DEVICE void ring_post(CCL_ARGS a, struct ring_plan p, uint32_t s, const struct ring_lane *l)
{
    const uint32_t posts = l->x != 0 && (l->takes ? s >= p.lag && s - p.lag + a->lay.slots < p.chunks && l->seen < CCL_STEP_DIRECT /* Q */
                                                  : s < p.chunks);
    if (posts) {
        ccl_flag_release_system();
        ccl_store_relaxed_system_u64(l->post, CCL_TAGGED(p.n, l->takes ? s - p.lag + 1 : s + 1));
    }
    if (s + 1 == p.chunks) {
        push_note(a, p.n, CCL_TRACE_SENT);
    }
}

/* Returns words_out. */
CCL_DEVICE uint32_t ring_control(CCL_ARGS a, uint32_t world, struct push_shared *sh, struct push_end *end, struct ring_plan p, uint32_t *go)
{
    struct ring_lane l = ring_lane_of(a, world);
    const uint32_t steps = p.chunks + p.lag;
    uint32_t s = 0, stop = ring_open(a, sh, p, 0, &l, go);
    while (!stop) {
        if (p.ahead && s + 1 < steps) {
            stop = ring_open(a, sh, p, s + 1, &l, go);
        }
        ccl_barrier_sync(RING_DONE + (s & 1));
        if (stop) {
            break; /* what step s has stored is released behind the last barrier of all */
        }
        ring_post(a, p, s, &l);
        if (++s == steps) {
            break;
        }
        stop = p.ahead ? 0 : ring_open(a, sh, p, s, &l, go);
    }
    if (l.takes && l.x != 0) {
        end[l.x].at = l.seen;
        if (l.seen >= CCL_STEP_DIRECT && l.seen != CCL_STEP_DONE) {
            sh->late = 1;
        }
    }
    return s >= p.chunks;
}

/* ---- the others: one go a chunk (push_takes_ring) ---- */

#define RING_EACH_UNIT(bytes, column, mine, statement)                \
    _Pragma("unroll") for (uint32_t u = 0; u < RING_UNITS; u++) {     \
        if ((mine) + u * (column) < (bytes)) {                        \
            statement;                                                \
        }                                                             \
    }

CCL_DEVICE uint32_t ring_bytes(CCL_ARGS a, uint64_t at)
{
    const uint64_t left = at < a->part_bytes ? a->part_bytes - at : 0;
    return left < a->flat_piece ? (uint32_t)left : a->flat_piece;
}

CCL_DEVICE void ring_take(CCL_ARGS a, uint64_t at, uint32_t bytes, uint32_t mine, uint32_t column, ccl_vec16 *v)
{
    RING_EACH_UNIT(bytes, column, mine, v[u] = ccl_load_stream_vec16(a->src + at + mine + u * column))
}

/* To the slot of the ring or of the rings, and to the own part of the output. */
CCL_DEVICE void ring_push(CCL_ARGS a, uint32_t world, const ccl_vec16 *v, uint32_t bytes, uint64_t slot, uint64_t own, uint32_t mine, uint32_t column)
{
    if (a->lay.shared_ring) {
        const uint64_t to = ccl_ctl_in(a, world, a->rank) + slot + mine;
        RING_EACH_UNIT(bytes, column, mine, ccl_store_ring_vec16(to + u * column, v[u]))
    } else {
#pragma unroll 1
        for (uint32_t d = 1; d < world; d++) {
            const uint64_t to = ccl_ctl_in(a, world, ccl_rotate_in(a, world, d)) + slot + mine;
            RING_EACH_UNIT(bytes, column, mine, ccl_store_ring_vec16(to + u * column, v[u]))
        }
    }
    if (own != 0) {
        RING_EACH_UNIT(bytes, column, mine, ccl_store_stream_vec16(own + mine + u * column, v[u]))
    }
}

/* The chunk of the source d rotations on, from its slot; and to its part. */
CCL_DEVICE void ring_fetch(CCL_ARGS a, uint32_t world, uint32_t d, uint32_t slot_off, uint32_t bytes, uint32_t mine, uint32_t column, ccl_vec16 *v)
{
    const uint32_t src = ccl_rotate_in(a, world, d);
    const uint64_t slot = ccl_ctl_in(a, world, a->lay.shared_ring ? src : a->rank) + ring_at(a, src) + slot_off + mine;
    RING_EACH_UNIT(bytes, column, mine, v[u] = ccl_load_ring_vec16(slot + u * column))
}

CCL_DEVICE void ring_put(CCL_ARGS a, uint32_t world, uint32_t d, uint64_t at, uint32_t bytes, uint32_t mine, uint32_t column, const ccl_vec16 *v)
{
    const uint64_t to = a->dst + ccl_rotate_in(a, world, d) * a->dst_part + at + mine;
    RING_EACH_UNIT(bytes, column, mine, ccl_store_stream_vec16(to + u * column, v[u]))
}

/* The next chunk of the input comes to the cache while this one is drained, two sources at a time, and to registers when that has been done. */
CCL_DEVICE void ring_move(CCL_ARGS a, uint32_t world, const struct push_end *end, struct ring_plan p, const volatile uint32_t *go)
{
    const uint32_t mine = (ccl_tid() - CCL_WARP) * 16, column = (ccl_threads() - CCL_WARP) * 16, slots = a->lay.slots;
    const uint64_t step = (uint64_t)p.stride * a->flat_piece, to_slots = ring_at(a, a->rank);
    uint64_t at = (uint64_t)p.first * a->flat_piece;
    uint32_t push_at = 0, drain_at = 0, bytes = ring_bytes(a, at); /* slots */
    ccl_vec16 v[RING_UNITS], w[RING_UNITS];
    ring_take(a, at, bytes, mine, column, v);
#pragma unroll 1
    for (uint32_t s = 0; s < p.chunks + p.lag; s++) {
        ccl_barrier_sync(RING_GO + (s & 1));
        const uint32_t told = go[s & 1];
        if (__builtin_expect(told & RING_STOP, 0)) {
            return;
        }
        if (s < p.chunks) {
            ring_push(a, world, v, bytes, to_slots + push_at * a->lay.slot_bytes, end[0].base != 0 ? end[0].base + at : 0, mine, column);
            push_at = push_at + 1 == slots ? 0 : push_at + 1;
        }
        const uint32_t next = ring_bytes(a, at + step);
        if (mine * 8 < next) {
            ccl_prefetch(a->src + at + step + mine * 8);
        }
        if (s >= p.lag) {
            const uint64_t from = at - p.lag * step;
            const uint32_t old = ring_bytes(a, from), slot = drain_at * a->lay.slot_bytes;
#pragma unroll 1
            for (uint32_t d = 1; d < world; d += 2) {
                const uint32_t one = told >> d & 1, two = d + 1 < world && (told >> (d + 1) & 1);
                if (one) {
                    ring_fetch(a, world, d, slot, old, mine, column, w);
                }
                if (world > 2 && two) {
                    ring_fetch(a, world, d + 1, slot, old, mine, column, v);
                }
                if (one) {
                    ring_put(a, world, d, from, old, mine, column, w);
                }
                if (world > 2 && two) {
                    ring_put(a, world, d + 1, from, old, mine, column, v);
                }
            }
            drain_at = drain_at + 1 == slots ? 0 : drain_at + 1;
        }
        at += step;
        bytes = next;
        ring_take(a, at, bytes, mine, column, v);
        ccl_barrier_arrive(RING_DONE + (s & 1));
    }
}

/* ---- a block with one chunk: all threads move it; v holds it since before the adverts. One barrier behind the push, one behind the words ---- */

#define ONE_EACH_UNIT(statement)                                          \
    _Pragma("unroll") for (uint32_t u = 0; u < PUSH_ONE_UNITS; u++) {     \
        if (ccl_tid() * 16 + u * column < bytes) {                        \
            statement;                                                    \
        }                                                                 \
    }

/* The only chunk of the source d rotations on, from slot 0 of its ring; at: this thread's first byte of a part. */
CCL_DEVICE void ring_one_fetch(CCL_ARGS a, uint32_t world, uint32_t d, uint32_t bytes, uint32_t column, ccl_vec16 *v)
{
    const uint32_t src = ccl_rotate_in(a, world, d);
    const uint64_t slot = ccl_ctl_in(a, world, a->lay.shared_ring ? src : a->rank) + ring_at(a, src) + ccl_tid() * 16;
    ONE_EACH_UNIT(v[u] = ccl_load_ring_vec16(slot + u * column))
}

CCL_DEVICE void ring_one_put(uint64_t to, uint32_t bytes, uint32_t column, const ccl_vec16 *v) { ONE_EACH_UNIT(ccl_store_stream_vec16(to + u * column, v[u])) }

/* First warp, behind a release of the block. */
CCL_DEVICE void ring_one_words(CCL_ARGS a, uint32_t world, struct push_shared *sh, struct push_end *end, uint32_t n)
{
    const uint32_t t = ccl_tid(), peer = ccl_rotate_in(a, world, t < world ? t : 0);
    const uint64_t word = ccl_full_addr(a, ccl_ctl_in(a, world, a->rank), ccl_bid(), peer);
    const uint64_t its = ccl_full_addr(a, ccl_ctl_in(a, world, peer), ccl_bid(), a->rank);
    CCL_NEED_NOW(word);
    CCL_NEED_NOW(its);
    ccl_flag_release_system();
    push_note(a, n, CCL_TRACE_SENT);
    if (t > 0 && t < world) {
        uint32_t bad = CCL_BAD_NONE;
        ccl_store_relaxed_system_u64(its, CCL_TAGGED(n, 1));
        const uint32_t value = CCL_VALUE(ccl_wait_word(a, word, n, 1, peer, 0, &bad));
        end[t].at = value;
        if (__builtin_expect(bad != CCL_BAD_NONE || value >= CCL_STEP_DIRECT, 0)) {
            push_see(a, sh, bad, value, peer);
        }
    }
}

/* All threads. Slot 0 is free: all adverts are here (R), and chunk 0 waits for no credit; nobody waits for one of ours (Q). */
CCL_DEVICE void push_ring_one(CCL_ARGS a, uint32_t world, struct push_shared *sh, struct push_end *end, uint32_t n, uint64_t at, uint32_t bytes, uint32_t column, const ccl_vec16 *v)
{
    const uint64_t slot = ring_at(a, a->rank) + ccl_tid() * 16, own = end[0].base;
    if (a->lay.shared_ring) {
        const uint64_t to = ccl_ctl_in(a, world, a->rank) + slot;
        ONE_EACH_UNIT(ccl_store_ring_vec16(to + u * column, v[u]))
    } else {
#pragma unroll 1
        for (uint32_t d = 1; d < world; d++) {
            const uint64_t to = ccl_ctl_in(a, world, ccl_rotate_in(a, world, d)) + slot;
            ONE_EACH_UNIT(ccl_store_ring_vec16(to + u * column, v[u]))
        }
    }
    if (own != 0 && ccl_tid() < CCL_WARP) {
        ring_one_put(own + at, bytes, column, v);
    }
    ccl_block_release_system();
    if (ccl_tid() < CCL_WARP) {
        ring_one_words(a, world, sh, end, n);
    } else if (own != 0) { /* nobody else waits for it */
        ring_one_put(own + at, bytes, column, v);
    }
    ccl_block_sync();
    if (sh->bad != CCL_BAD_NONE) {
        return;
    }
#pragma unroll 1
    for (uint32_t d = 1; d < world; d += 2) {
        ccl_vec16 w[PUSH_ONE_UNITS], x[PUSH_ONE_UNITS];
        const uint32_t one = end[d].at < CCL_STEP_DIRECT, two = world > 2 && d + 1 < world && end[d + 1].at < CCL_STEP_DIRECT;
        if (one) {
            ring_one_fetch(a, world, d, bytes, column, w);
        }
        if (two) {
            ring_one_fetch(a, world, d + 1, bytes, column, x);
        }
        if (one) {
            ring_one_put(a->dst + ccl_rotate_in(a, world, d) * a->dst_part + at, bytes, column, w);
        }
        if (two) {
            ring_one_put(a->dst + ccl_rotate_in(a, world, d + 1) * a->dst_part + at, bytes, column, x);
        }
    }
}

/* All threads. Returns words_out. */
CCL_DEVICE uint32_t push_ring(CCL_ARGS a, uint32_t world, struct push_shared *sh, struct push_end *end, uint32_t n, uint32_t chunks)
{
    CCL_SHARED uint32_t go[2];
    const struct ring_plan p = ring_plan_of(a, n, chunks);
    uint32_t words = 1;
    if (ccl_tid() < CCL_WARP) {
        words = ring_control(a, world, sh, end, p, go);
    } else {
        ring_move(a, world, end, p, go);
    }
    ccl_block_sync();
    return words;
}

#endif
