/* SPDX-License-Identifier: MIT
 *
 * The body of the push kernels on a GPU (included by push.hip). The first warp waits and stores words, one lane a peer; what it read stands in
 * shared memory, so that all threads of the block take the same way. Barriers are passed by all threads of a block or by none. */
#ifndef CCL_PUSH_GPU_BODY_H
#define CCL_PUSH_GPU_BODY_H

/* What a block knows about the rank some rotations on. */
struct push_end {
    uint64_t base; /* where this rank's part starts there; 0 = stage it, or own part in place */
    uint32_t at;   /* step last seen of it as a source */
};

/* Shared memory of a kernel for so many ranks: one pointer leads to all of it. */
#define PUSH_MEMORY(name, ranks)       \
    CCL_SHARED struct {                \
        struct push_shared sh;         \
        struct push_end end[ranks];    \
    } name

/* A block, its shared memory, and what its launch looks like. */
struct push_block {
    struct push_shared *sh;
    struct push_end *end;
    struct push_job job;
    uint32_t flat;    /* the loops of push_flat.h serve this launch */
    uint32_t words;   /* words_out of ccl_fail */
};

#include "push_flat.h"
#include CCL_PUSH_DIRECT_BODY

/* All parts of the own output, the own one and those drained from rings, start at a vector; bases at peers are looked at one by one. */
CCL_DEVICE uint32_t push_is_flat(CCL_ARGS a) { return a->flat_piece != 0 && ((a->src | a->dst | a->dst_part) & 15) == 0; }

CCL_DEVICE void push_note(CCL_ARGS a, uint32_t n, enum ccl_trace_point point)
{
    (void)a, (void)point;
    if (ccl_tid() == 0) {
        CCL_TRACE_NOTE(a, n, point);
    }
}

/* First warp: draw the number, send the adverts if this is the first block in, wait until they are out. */
CCL_DEVICE void push_enter(CCL_ARGS a, struct push_block *b, uint32_t words, uint32_t used_rows)
{
    const uint32_t t = ccl_tid();
    const uint64_t me = ccl_peer_ctl(a, a->rank);
    if (t == 0) {
        b->sh->entry = ccl_enter(a);
        b->sh->bad = CCL_BAD_NONE;
        b->sh->staged = b->sh->odd = b->sh->drain = b->sh->late = 0;
    }
    ccl_warp_sync();
    const uint64_t entry = b->sh->entry;
    const uint32_t n = CCL_TAG(entry);
    if ((uint32_t)entry & CCL_OP_STOPPED) {
        return;
    }
    if ((uint32_t)entry == 0) {
        ccl_advert_send(a, n, words, t, CCL_WARP);
        ccl_warp_sync(); /* the adverts of all lanes are out: each lane's fence is behind its own, lane 0's behind all */
        ccl_fence_sc_system();
        if (t == 0) {
            /* The own advert says: mine are out. Together with the fence a release, pairs with the acquire below in the other blocks. */
            ccl_store_relaxed_system_u64(ccl_advert_addr(a, me, n, a->rank), CCL_TAGGED(n, a->sig));
            ccl_scrub(a, n, 0, words, used_rows);
        }
    } else {
        /* Without early exit: this rank's first block is already running and waits for nobody before it stores this word. */
        while (CCL_TAG(ccl_load_acquire_system_u64(ccl_advert_addr(a, me, n, a->rank))) != n) {
            ccl_pause();
        }
    }
}

/* First warp: wait for the adverts of the rotations first..last-1, compare, resolve where to store. */
CCL_DEVICE void push_hear(CCL_ARGS a, struct push_block *b, uint32_t words, uint32_t first, uint32_t last)
{
    const uint32_t n = CCL_TAG(b->sh->entry);
    for (uint32_t d = (first > 1 ? first : 1) + ccl_tid(); d < last; d += CCL_WARP) {
        uint32_t peer = ccl_rotate(a, d);
        uint64_t where = 0;
        uint32_t bad = ccl_advert_wait(a, n, peer, words, &where);
        if (bad) {
            push_set_bad(a, b->sh, bad, peer);
            break;
        }
        if (b->end != 0 && d >= b->job.ch.to_first && d < b->job.ch.to_last) {
            uint64_t to = push_resolve(a, peer, where);
            b->end[d].base = to;
            if (to & 15) {
                b->sh->odd = 1;
            }
            if (to == 0) {
                b->sh->staged = 1;
                /* A window we have not mapped yet is no fault of the caller's. */
                if ((a->flags & CCL_F_FORCE_DIRECT) && where >> 48 == 0) {
                    push_set_bad(a, b->sh, CCL_BAD_NO_WINDOW, peer);
                    break;
                }
            }
        }
    }
}

/* By value: what a function out of line gets the address of would live in memory on the fast path too. */
CCL_DEVICE_SLOW void push_fail(CCL_ARGS a, struct push_block b)
{
    ccl_fail(a, b.job.n, b.job.block, b.sh->bad, b.sh->peer, b.job.ch, push_exposed(a, &b.job), b.words);
}

/* All threads, after a barrier: true when the launch has failed; the block has then done what it owes. */
CCL_DEVICE uint32_t push_failed(CCL_ARGS a, struct push_block *b)
{
    if (__builtin_expect(b->sh->bad == CCL_BAD_NONE, 1)) {
        return 0;
    }
    if (ccl_tid() == 0) {
        push_fail(a, *b);
    }
    return 1;
}

/* From the start to the first adverts: those of the rotations first..last-1. All threads; false: leave the kernel. */
CCL_DEVICE uint32_t push_begin(CCL_ARGS a, struct push_block *b, uint32_t words, uint32_t used_rows, uint32_t first,
                               uint32_t last)
{
    if (ccl_tid() < CCL_WARP) {
        push_enter(a, b, words, used_rows);
        push_note(a, CCL_TAG(b->sh->entry), CCL_TRACE_START);
        if (b->end != 0) {
            for (uint32_t d = b->job.ch.from_first + ccl_tid(); d < b->job.ch.from_last; d += CCL_WARP) {
                b->end[d].at = 0;
            }
            if (ccl_tid() == 0 && b->job.ch.to_first == 0) {
                uint64_t own = a->dst + a->rank * a->dst_part;
                b->end[0].base = own == a->src ? 0 : own;
            }
        }
        if (!((uint32_t)b->sh->entry & CCL_OP_STOPPED)) {
            push_hear(a, b, words, first, last);
        }
    }
    ccl_block_sync();
    const uint32_t n = b->job.n = CCL_TAG(b->sh->entry);
    if (__builtin_expect((uint32_t)b->sh->entry & CCL_OP_STOPPED, 0)) {
        /* A late block of the failing launch owes its peers an end; a replay has sent no advert and owes nothing. */
        const uint64_t own = ccl_advert_addr(a, ccl_peer_ctl(a, a->rank), n, a->rank);
        if (ccl_tid() == 0 && CCL_TAG(ccl_load_relaxed_system_u64(own)) == n) {
            b->sh->bad = CCL_BAD_STOP;
            b->sh->peer = a->rank;
            push_fail(a, *b);
        }
        return 0;
    }
    return !push_failed(a, b);
}

/* ---- channels: rotation of item i of a block; destinations first, then sources ---- */

struct push_ends {
    uint32_t to, from, num_to, num; /* first rotations; destinations; both together */
};

CCL_DEVICE struct push_ends push_ends_of(const struct push_job *job, uint32_t to_first)
{
    struct push_ends e;
    e.to = to_first > 1 ? to_first : 1;
    e.from = job->ch.from_first > 1 ? job->ch.from_first : 1;
    e.num_to = job->ch.to_last > e.to ? job->ch.to_last - e.to : 0;
    e.num = e.num_to + (job->ch.from_last > e.from ? job->ch.from_last - e.from : 0);
    return e;
}

/* First warp, behind a release of the block: `full` {n, step} to the direct destinations from to_first on. */
CCL_DEVICE void push_post(CCL_ARGS a, const struct push_block *b, uint32_t to_first, uint32_t to_last, uint32_t step)
{
    ccl_flag_release_system();
    for (uint32_t d = (to_first > 1 ? to_first : 1) + ccl_tid(); d < to_last; d += CCL_WARP) {
        if (b->end[d].base) {
            ccl_store_relaxed_system_u64(ccl_full_addr(a, ccl_peer_ctl(a, ccl_rotate(a, d)), b->job.block, a->rank),
                                         CCL_TAGGED(b->job.n, step));
        }
    }
}

/* First warp: wait until every source has reached `want`. */
CCL_DEVICE void push_await(CCL_ARGS a, struct push_block *b, uint32_t want)
{
    const uint32_t first = b->job.ch.from_first > 1 ? b->job.ch.from_first : 1;
    for (uint32_t d = first + ccl_tid(); d < b->job.ch.from_last; d += CCL_WARP) {
        uint32_t src = ccl_rotate(a, d), bad = CCL_BAD_NONE;
        if ((b->end[d].at != 0 && b->end[d].at < CCL_STEP_DIRECT) || b->end[d].at == CCL_STEP_DONE) {
            continue; /* it stages, and all its chunks are in; or it is done */
        }
        uint64_t addr = ccl_full_addr(a, ccl_peer_ctl(a, a->rank), b->job.block, src);
        uint32_t value = CCL_VALUE(ccl_wait_word(a, addr, b->job.n, want, src, 0, &bad));
        b->end[d].at = value;
        if (bad || value == CCL_STEP_LEFT) {
            push_set_bad(a, b->sh, bad ? bad : CCL_BAD_LEFT, src);
            break;
        }
        if (value < CCL_STEP_DIRECT) {
            b->sh->drain = 1;
        } else if (value != CCL_STEP_DONE) {
            b->sh->late = 1;
        }
    }
}

/* ---- staged ---- */

/* First warp: all waits of step s at once. Free slots for chunk s, if it is pushed; chunk s - lag of every source, if it stages. */
CCL_DEVICE void push_step_wait(CCL_ARGS a, struct push_block *b, struct push_ends e, uint32_t pushes, uint32_t s, uint32_t lag)
{
    const uint32_t slots = a->lay.slots;
    const uint64_t me = ccl_peer_ctl(a, a->rank);
    for (uint32_t i = ccl_tid(); i < e.num; i += CCL_WARP) {
        const uint32_t to = i < e.num_to, d = to ? e.to + i : e.from + i - e.num_to, peer = ccl_rotate(a, d);
        const uint32_t want = to ? s - slots + 1 : s - lag + 1;
        if (to ? pushes && s >= slots && b->end[d].base == 0 : s >= lag && b->end[d].at < want) {
            uint32_t bad = CCL_BAD_NONE;
            uint64_t addr = to ? ccl_credit_addr(a, me, b->job.block, peer) : ccl_full_addr(a, me, b->job.block, peer);
            uint32_t value = CCL_VALUE(ccl_wait_word(a, addr, b->job.n, want, peer, 0, &bad));
            if (!to) {
                b->end[d].at = value;
            }
            if (bad || value == CCL_STEP_LEFT) {
                push_set_bad(a, b->sh, bad ? bad : CCL_BAD_LEFT, peer);
                break;
            }
        }
    }
}

/* First warp, behind a release of the block: the words of step s. The last chunk is also the end of what was stored directly. Credits nobody
 * waits for are not sent (Q). */
CCL_DEVICE void push_step_post(CCL_ARGS a, const struct push_block *b, struct push_ends e, uint32_t pushes, uint32_t s,
                               uint32_t lag)
{
    const uint32_t chunks = b->job.chunks;
    ccl_flag_release_system();
    for (uint32_t i = ccl_tid(); i < e.num; i += CCL_WARP) {
        const uint32_t to = i < e.num_to, d = to ? e.to + i : e.from + i - e.num_to;
        const uint64_t ctl = ccl_peer_ctl(a, ccl_rotate(a, d));
        if (to && pushes && (b->end[d].base == 0 || s + 1 == chunks)) {
            ccl_store_relaxed_system_u64(ccl_full_addr(a, ctl, b->job.block, a->rank),
                                         CCL_TAGGED(b->job.n, b->end[d].base == 0 ? s + 1 : CCL_STEP_DONE));
        } else if (!to && s >= lag && s - lag + a->lay.slots < chunks && b->end[d].at < CCL_STEP_DIRECT) {
            ccl_store_relaxed_system_u64(ccl_credit_addr(a, ctl, b->job.block, a->rank), CCL_TAGGED(b->job.n, s - lag + 1));
        }
    }
}

CCL_DEVICE uint64_t push_slot_for(CCL_ARGS a, const struct push_block *b, uint32_t d, uint32_t c)
{
    uint64_t ctl = ccl_peer_ctl(a, a->lay.shared_ring ? a->rank : ccl_rotate(a, d));
    return push_slot(a, ctl, a->rank, b->job.block, c);
}

/* Chunk c to every destination from to_first on; a shared ring is written once. */
CCL_DEVICE void push_chunk(CCL_ARGS a, const struct push_block *b, uint32_t flat, struct push_flat f, uint32_t to_first,
                           uint32_t c, const ccl_vec16 *v)
{
    const uint64_t index = b->job.first + (uint64_t)c * b->job.stride;
    const struct ccl_piece p = ccl_piece_at(a, index);
    const uint64_t pos = flat ? push_flat_at(a, f, index) : 0, off = ccl_piece_dst(a, p);
    uint32_t shared_written = 0;
#pragma unroll 1
    for (uint32_t d = to_first; d < b->job.ch.to_last; d++) {
        const uint64_t to = b->end[d].base;
        const uint32_t ring = to == 0;
        if (ring && (d == 0 || shared_written)) {
            continue;
        }
        const uint64_t slot = ring ? push_slot_for(a, b, d, c) : 0;
        if (flat && (ring || !b->sh->odd)) {
            push_chunk_store(a, f, pos, ring ? slot + f.mine : to + pos, ring, v);
        } else {
            ccl_move_rows(ring ? slot : to + off, ring ? p.bytes : a->ld_dst, ccl_piece_src(a, p), a->ld_src, p.rows, p.bytes, 0);
        }
        shared_written = ring && a->lay.shared_ring;
    }
}

CCL_DEVICE void push_drain(CCL_ARGS a, const struct push_block *b, uint32_t flat, struct push_flat f, struct push_ends e,
                           uint32_t c)
{
    const uint64_t index = b->job.first + (uint64_t)c * b->job.stride;
    const struct ccl_piece p = ccl_piece_at(a, index);
    const uint64_t pos = flat ? push_flat_at(a, f, index) : 0, off = ccl_piece_dst(a, p);
#pragma unroll 1
    for (uint32_t d = e.from; d < b->job.ch.from_last; d++) {
        if (b->end[d].at >= CCL_STEP_DIRECT) {
            continue;
        }
        const uint32_t src = ccl_rotate(a, d);
        const uint64_t part = a->dst + src * a->dst_part;
        const uint64_t slot = push_slot(a, ccl_peer_ctl(a, a->lay.shared_ring ? src : a->rank), src, b->job.block, c);
        if (flat) {
            push_chunk_drain(a, f, pos, part + pos, slot + f.mine);
        } else {
            ccl_move_rows(part + off, a->ld_dst, slot, p.bytes, p.rows, p.bytes, 0);
        }
    }
}

/* Steps of push and drain in lockstep with the peers' blocks: push chunk s, drain chunk s - lag, publish both. A step waits for words of
 * earlier steps only (lag < slots, lag >= 1). pushes: this block has destinations left, from rotation to_first on. flat: by push_flat.h.
 * Returns words_out. */
CCL_DEVICE uint32_t push_steps(CCL_ARGS a, struct push_block *b, uint32_t flat, uint32_t to_first, uint32_t pushes)
{
    ccl_vec16 v[CCL_CHUNK_UNITS];
    const uint32_t chunks = b->job.chunks, lag = a->lay.slots >= 4 ? 2 : 1;
    const struct push_flat f = push_flat_of(a, &b->job);
    struct push_ends e = push_ends_of(&b->job, to_first);
    if (!pushes) {
        e.num -= e.num_to;
        e.num_to = 0;
    } else if (flat) {
        push_chunk_load(a, f, push_flat_at(a, f, b->job.first), v);
    }
    for (uint32_t s = pushes ? 0 : lag; s < chunks + lag; s++) {
        const uint32_t push_now = pushes && s < chunks;
        if (ccl_tid() < CCL_WARP) {
            push_step_wait(a, b, e, push_now, s, lag);
        }
        ccl_block_sync();
        if (b->sh->bad != CCL_BAD_NONE) {
            return !pushes || s >= chunks;
        }
        if (push_now) {
            push_chunk(a, b, flat, f, to_first, s, v);
        }
        if (s >= lag) {
            push_drain(a, b, flat, f, e, s - lag);
        }
        if (flat && pushes && s + 1 < chunks) {
            push_chunk_load(a, f, push_flat_at(a, f, b->job.first + (s + 1ull) * b->job.stride), v);
        }
        ccl_block_release_system();
        if (ccl_tid() < CCL_WARP) {
            push_step_post(a, b, e, push_now, s, lag);
        }
        if (push_now && s + 1 == chunks) {
            push_note(a, b->job.n, CCL_TRACE_SENT);
        }
    }
    return 1;
}

/* Out of line: each needs registers of its own. */
CCL_DEVICE_SLOW uint32_t push_steps_flat(CCL_ARGS a, struct push_block b, uint32_t to_first, uint32_t pushes)
{
    return push_steps(a, &b, 1, to_first, pushes);
}

CCL_DEVICE_SLOW uint32_t push_steps_any(CCL_ARGS a, struct push_block b, uint32_t to_first, uint32_t pushes)
{
    return push_steps(a, &b, 0, to_first, pushes);
}

CCL_DEVICE uint32_t push_staged(CCL_ARGS a, const struct push_block *b, uint32_t to_first, uint32_t pushes)
{
    return b->flat ? push_steps_flat(a, *b, to_first, pushes) : push_steps_any(a, *b, to_first, pushes);
}

/* ---- direct ---- */

CCL_DEVICE_SLOW void push_direct_any(CCL_ARGS a, uint32_t world, const struct push_end *end, uint32_t d_first, uint32_t d_last,
                                     uint32_t first, uint32_t stride)
{
    ccl_push_direct(a, world, end, d_first, d_last, first, stride, a->pieces_down * a->pieces_across);
}

CCL_DEVICE void push_direct(CCL_ARGS a, uint32_t world, const struct push_block *b, uint32_t d_first, uint32_t d_last)
{
#if CCL_FLAT_UNITS
    if (b->flat && !b->sh->odd) {
        push_flat_direct(a, b->job, b->end, d_first, d_last);
        return;
    }
#endif
    (void)world;
    push_direct_any(a, CCL_FLAT_UNITS ? 0 : world, b->end, d_first, d_last, b->job.first, b->job.stride);
}

/* Everything behind begin, which has heard from the destinations before rotation `heard`. */
CCL_DEVICE void push_run(CCL_ARGS a, uint32_t world, struct push_block *b, uint32_t heard)
{
    const uint32_t to_last = b->job.ch.to_last;
    uint32_t done = b->job.ch.to_first;
    push_note(a, b->job.n, CCL_TRACE_MET);
    /* Group by group while everything can be stored directly. */
    while (!b->sh->staged) {
        push_direct(a, world, b, done, heard);
        done = heard;
        if (done == to_last) {
            break;
        }
        heard = to_last - done > a->group ? done + a->group : to_last;
        ccl_block_sync(); /* everybody has read what the first warp is going to write */
        if (ccl_tid() < CCL_WARP) {
            push_hear(a, b, 8, done, heard);
        }
        ccl_block_sync();
        if (push_failed(a, b)) {
            return;
        }
    }
    const uint32_t pushes = done < to_last;
    if (pushes && heard < to_last) { /* the rest at once: who stages keeps step with all (and see R, shared ring) */
        ccl_block_sync();
        if (ccl_tid() < CCL_WARP) {
            push_hear(a, b, 8, heard, to_last);
        }
        ccl_block_sync();
        if (push_failed(a, b)) {
            return;
        }
    }
    if (b->job.chunks != 0) {
        ccl_block_release_system();
        if (ccl_tid() < CCL_WARP) {
            push_post(a, b, b->job.ch.to_first, done, CCL_STEP_DONE);
            if (pushes) {
                push_post(a, b, done, to_last, CCL_STEP_DIRECT); /* before the first chunk: nobody in lockstep waits for our DONE */
            }
        }
        b->words = !pushes;
        if (!pushes) {
            push_note(a, b->job.n, CCL_TRACE_SENT);
            if (ccl_tid() < CCL_WARP) {
                push_await(a, b, 1);
            }
            ccl_block_sync();
            if (push_failed(a, b)) {
                return;
            }
        }
        if (pushes || b->sh->drain) {
            ccl_block_sync(); /* what was read above is written below; so again further down */
            b->words = push_staged(a, b, done, pushes);
            if (push_failed(a, b)) {
                return;
            }
        }
        if (pushes || b->sh->late) {
            ccl_block_sync();
            if (ccl_tid() < CCL_WARP) {
                push_await(a, b, CCL_STEP_DONE);
            }
            ccl_block_sync();
            if (push_failed(a, b)) {
                return;
            }
        }
    }
    push_note(a, b->job.n, CCL_TRACE_END);
    push_leave(a, &b->job);
}

/* What needs no peer. */
CCL_DEVICE void push_prepare(CCL_ARGS a, struct push_block *b)
{
    b->flat = push_is_flat(a);
#if CCL_FLAT_UNITS
    if (b->flat && !(a->flags & CCL_F_FORCE_STAGED)) {
        push_flat_prefetch(a, &b->job);
    }
#endif
}

CCL_DEVICE void push_all(CCL_ARGS a, uint32_t world, struct push_shared *sh, struct push_end *end)
{
    const uint32_t n_ranks = world ? world : a->n, grid = ccl_grid();
    const struct ccl_channels all = {0, n_ranks, 1, n_ranks};
    struct push_block b = {sh, end, {0, ccl_bid(), all, ccl_bid(), grid, 0}, 0, 0};
    b.job.chunks = push_count(a->pieces_down * a->pieces_across, b.job.first, grid);
    const uint32_t heard = a->group < n_ranks ? 1 + a->group : n_ranks;
    push_prepare(a, &b);
    if (push_begin(a, &b, 8, grid, 0, heard)) {
        push_run(a, world, &b, heard);
    }
}

/* Block group g serves rank + g and hears from rank - g; group 0 copies the own part and, in its first block, waits for all adverts (E). With a
 * shared ring every block waits for all adverts: any peer may still be reading the block's slots for the last operation (R). */
CCL_DEVICE void push_partitioned(CCL_ARGS a, struct push_shared *sh, struct push_end *end)
{
    const uint32_t g = ccl_bid() % a->n, k = ccl_bid() / a->n, back = g == 0 ? 0 : a->n - g;
    const uint32_t group_blocks = (ccl_grid() - g + a->n - 1) / a->n; /* equal at both ends of a channel: group g at either */
    const struct ccl_channels pair = {g, g + 1, back, back + (g != 0)};
    const uint32_t everyone = ccl_bid() == 0 || a->lay.shared_ring;
    struct push_block b = {sh, end, {0, k, pair, k, group_blocks, 0}, 0, 0};
    b.job.chunks = push_count(a->pieces_down * a->pieces_across, k, group_blocks);
    push_prepare(a, &b);
    if (push_begin(a, &b, 8, push_group_rows(a, ccl_grid()), everyone ? 0 : g, everyone ? a->n : g + 1)) {
        push_run(a, 0, &b, g + 1);
    }
}

CCL_DEVICE void push_barrier(CCL_ARGS a, struct push_shared *sh)
{
    const struct ccl_channels none = {0, 0, 0, 0};
    struct push_block b = {sh, 0, {0, 0, none, 0, 1, 0}, 0, 0};
    if (push_begin(a, &b, 2, 0, 0, a->n)) {
        push_note(a, b.job.n, CCL_TRACE_MET);
        push_note(a, b.job.n, CCL_TRACE_SENT);
        push_note(a, b.job.n, CCL_TRACE_END);
    }
}

#endif
