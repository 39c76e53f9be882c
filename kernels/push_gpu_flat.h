/* SPDX-License-Identifier: MIT
 *
 * The common ways of an all-gather on NVIDIA (included by push_gpu_body.h): aligned runs of vectors, a number of ranks that is compiled in, all adverts
 * awaited at once. Behind the adverts all destinations are stored into directly, or all are staged (push_gpu_ring.h). The protocol is that of
 * push_gpu_begin.h and push_run; what is written anew is the straight path, which is kept short: it is fetched anew by every launch, 20 ns a line of code.
 * Whatever turns out otherwise goes on out of line. */
#ifndef CCL_PUSH_GPU_FLAT_H
#define CCL_PUSH_GPU_FLAT_H

/* The block as the functions that know every case see it. */
CCL_DEVICE struct push_block push_block_of(CCL_ARGS a, uint32_t n_ranks, struct push_shared *sh, struct push_end *end)
{
    const struct ccl_channels all = {0, n_ranks, 1, n_ranks};
    struct push_block b = {sh, end, {CCL_TAG(sh->entry), ccl_bid(), all, ccl_bid(), ccl_grid(), 0}, 0};
    b.job.chunks = push_count(a->pieces_down * a->pieces_across, b.job.first, ccl_grid());
    return b;
}

/* ccl_enter in two halves: what stands between them is done while the number is on its way. One thread. */
CCL_DEVICE uint64_t push_flat_draw(CCL_ARGS a) { return ccl_add_relaxed_agent_u64((uint64_t) & ((struct ccl_k_priv *)a->priv)->op, 1); }

CCL_DEVICE void push_flat_drawn(CCL_ARGS a, uint64_t entry)
{
    const uint32_t grid = ccl_grid();
    if (((uint32_t)entry & ~CCL_OP_STOPPED) == grid - 1) {
        ccl_add_relaxed_agent_u64((uint64_t) & ((struct ccl_k_priv *)a->priv)->op, (1ull << 32) - grid);
    }
}

/* A lane of the first warp sends packet w of the advert for the rank d rotations on, and awaits that of its advert: 0 is {signature, description}, 1 and 2 are the bytes
 * of a part, 3 is the place. So one access of the warp looks at all adverts. What is here is known before the number. */
struct push_flat_lane {
    uint64_t to, from; /* of even operations */
    uint64_t mine;     /* what is sent */
    uint64_t window;   /* where this rank's part lies in the window that is expected at the peer */
    uint64_t id;       /* of that window; none: no id */
    uint32_t w, d, hears, flags;
};

CCL_DEVICE struct push_flat_lane push_flat_lane_of(CCL_ARGS a, uint32_t world)
{
    struct push_flat_lane l;
    const uint32_t t = ccl_tid();
    l.flags = a->flags;
    l.hears = 1 + t / 4 < world;
    l.d = l.hears ? 1 + t / 4 : 0;
    l.w = l.hears ? t % 4 : 0;
    const uint32_t peer = ccl_rotate_in(a, world, l.d), use = l.flags & CCL_F_FORCE_STAGED ? 0 : a->expect_id;
    l.mine = l.w == 0 ? (uint64_t)a->desc.word1 << 32 | a->sig : l.w == 3 ? a->where : a->part_bytes;
    l.to = ccl_ctl_in(a, world, peer) + a->lay.adv + a->rank * 64 + 16 * l.w;
    l.from = ccl_ctl_in(a, world, a->rank) + a->lay.adv + peer * 64 + 16 * l.w;
    l.window = a->peer[peer].win;
    l.id = use != 0 && l.window != 0 ? use : ~0ull;
    l.window += a->rank * a->dst_part;
    CCL_HOLD(l.to);
    CCL_HOLD(l.from);
    CCL_HOLD(l.mine);
    CCL_HOLD(l.window);
    CCL_HOLD(l.id);
    return l;
}

/* All lanes, some have found something else than the common advert: an error (bad), another window than the expected one, none, no vectors. got: the lane's packet. */
CCL_DEVICE_SLOW void push_flat_note(CCL_ARGS a, struct push_shared *sh, struct push_end *end, uint32_t n, uint32_t bad, struct push_flat_lane l, uint64_t got)
{
    uint32_t none = 0;
    if (l.w == 0 && bad == CCL_BAD_MISMATCH && (uint32_t)got == CCL_SIG_REVOKED) {
        bad = CCL_BAD_LEFT;
    }
    if (l.w == 3) {
        const uint32_t id = (uint32_t)(got >> 48);
        uint64_t base = 0;
        if (bad == CCL_BAD_NONE && id != 0 && !(l.flags & CCL_F_FORCE_STAGED)) {
            base = push_resolve(a, n, ccl_rotate(a, l.d), got);
        }
        end[l.d].base = base;
        if (base & 15) { /* lanes store alike or nothing */
            sh->odd = 1;
        }
        if (base == 0) {
            none = 1;
            /* A window that is not mapped here yet is no fault of the caller's. */
            bad = bad == CCL_BAD_NONE && id == 0 && (l.flags & CCL_F_FORCE_DIRECT) ? (uint32_t)CCL_BAD_NO_WINDOW : bad;
        }
    }
    none = ccl_warp_ballot(none);
    if (ccl_tid() == 0) {
        sh->staged = ccl_count_bits(none);
    }
    const uint32_t told = ccl_warp_ballot(bad > CCL_BAD_STOP); /* CCL_BAD_STOP must not hide it */
    if (told != 0 ? bad > CCL_BAD_STOP : bad != CCL_BAD_NONE) {
        push_set_bad(a, sh, bad, ccl_rotate(a, l.d));
    }
}

/* Wait for the packets of all lanes, and look at what they say. Lanes leave together: all have theirs, or one has an error and those that still wait get CCL_BAD_STOP. Each
 * look is at all packets, so all that the last one has found is behind the own advert (D). Packet 0 is judged first, and by its first half alone: an LL advert has no other
 * packets, a revoked one another description. */
CCL_DEVICE void push_flat_hear(CCL_ARGS a, struct push_shared *sh, struct push_end *end, uint32_t n, const struct push_flat_lane *l, uint64_t from)
{
    const uint32_t want_low = l->w == 3 ? 0 : ~0u, want_high = l->w == 1 || l->w == 2 ? ~0u : 0; /* bits to compare */
    uint32_t bad = CCL_BAD_NONE, absent = 0, differs = 0;
    uint64_t got = 0;
    for (uint32_t polls = 1;; polls++) {
        if (l->hears) {
            const ccl_vec16 q = ccl_acquire_packet_system(from);
            got = (uint64_t)CCL_LANE(q, 2) << 32 | CCL_LANE(q, 0);
            absent = (CCL_LANE(q, 1) ^ n) | (CCL_LANE(q, 3) ^ n);
            differs = ((CCL_LANE(q, 0) ^ (uint32_t)l->mine) & want_low) | ((CCL_LANE(q, 2) ^ (uint32_t)(l->mine >> 32)) & want_high);
        }
        if (__builtin_expect(ccl_warp_ballot(absent) == 0, 1) || ccl_warp_ballot(absent ? bad : l->w == 0 && differs) != 0) {
            break;
        }
        bad = absent && (polls & 63) == 0 ? ccl_slow_poll(a, from - 16 * l->w, n, CCL_SIG_REVOKED, ccl_rotate(a, l->d), polls) : (uint32_t)CCL_BAD_NONE;
    }
    const uint64_t base = l->window + (got & 0xffffffffffffull);
    if (l->w == 3) {
        end[l->d].base = base;
        end[l->d].at = 0;
    }
    const uint32_t other = absent | differs | (l->w == 3 && (got >> 48 != l->id || (base & 15) != 0));
    if (__builtin_expect(ccl_warp_ballot(other) != 0, 0)) {
        push_flat_note(a, sh, end, n, absent ? (bad != CCL_BAD_NONE ? bad : (uint32_t)CCL_BAD_STOP) : differs ? CCL_BAD_MISMATCH : CCL_BAD_NONE, *l, got);
    }
}

/* First warp: number (entry: lane 0 has drawn it), adverts, comparison, bases; as push_enter and push_hear. */
CCL_DEVICE void push_flat_begin(CCL_ARGS a, uint32_t world, struct push_shared *sh, struct push_end *end, uint64_t entry)
{
    const uint32_t t = ccl_tid();
    const struct push_flat_lane l = push_flat_lane_of(a, world);
    if (t == 0) {
        const uint64_t own = a->dst + a->rank * a->dst_part;
        sh->bad = CCL_BAD_NONE; /* before any lane can have something to say */
        sh->staged = sh->odd = sh->drain = sh->late = 0;
        end[0].base = own == a->src ? 0 : own;
    }
    entry = ccl_warp_first_u64(entry) & ((uint64_t)CCL_TAG_MASK << 32 | 0xffffffffu);
    const uint32_t n = CCL_TAG(entry), parity = (n & 1) * world * 64;
    const uint64_t own_advert = ccl_ctl_in(a, world, a->rank) + a->lay.adv + a->rank * 64 + parity;
    push_note(a, n, CCL_TRACE_START);
    if ((uint32_t)entry == 0 && l.hears) {
        ccl_store_packet_system(l.to + parity, (uint32_t)l.mine, n, (uint32_t)(l.mine >> 32), n);
    }
    if (t == 0) {
        push_flat_drawn(a, entry);
        sh->entry = entry;
    }
    if ((uint32_t)entry & CCL_OP_STOPPED) {
        return;
    }
    if ((uint32_t)entry == 0) {
        ccl_warp_sync(); /* each lane's fence is behind its own adverts, lane 0's behind all */
        ccl_fence_sc_system();
        if (t == 0) {
            ccl_store_relaxed_system_u64(own_advert, CCL_TAGGED(n, a->sig));
        }
    } else {
        while (CCL_TAG(ccl_load_acquire_system_u64(own_advert)) != n) {
            ccl_pause();
        }
    }
    ccl_warp_sync(); /* no lane looks before the own advert is out */
    push_flat_hear(a, sh, end, n, &l, l.from + parity);
}

/* Behind the adverts: some destinations are staged and others not, or the launch has failed. */
CCL_DEVICE_SLOW void push_flat_rest(CCL_ARGS a, uint32_t world, struct push_shared *sh, struct push_end *end)
{
    struct push_block b = push_block_of(a, world, sh, end);
    if ((uint32_t)sh->entry & CCL_OP_STOPPED) {
        push_stopped(a, b);
    } else if (!push_failed(a, &b)) {
        if (ccl_tid() == 0 && (uint32_t)sh->entry == 0) {
            ccl_scrub(a, b.job.n, 0, 8, ccl_grid());
        }
        push_run(a, world, world, &b, world);
    }
}

/* One thread, once it has the number: the first block in scrubs, each block sees to its row. */
CCL_DEVICE_SLOW void push_flat_renew(CCL_ARGS a, uint32_t world, struct push_shared *sh, struct push_end *end, uint32_t turn)
{
    if ((uint32_t)sh->entry == 0) {
        ccl_scrub_now(a, CCL_TAG(sh->entry), turn, 0, 8, ccl_grid());
    }
    push_leave_now(a, push_block_of(a, world, sh, end).job, turn);
}

/* The last thread. */
CCL_DEVICE void push_flat_scrub(CCL_ARGS a, uint32_t world, struct push_shared *sh, struct push_end *end, uint32_t n)
{
    uint32_t turn;
    if (__builtin_expect(ccl_scrub_turn(n, &turn), 0) && ccl_tid() + 1 == ccl_threads()) {
        push_flat_renew(a, world, sh, end, turn);
    }
}

/* All destinations are staged, a chunk is one go of all warps but the first, or the only one, and sources that store directly say so by words of their own. */
CCL_DEVICE uint32_t push_takes_ring(CCL_ARGS a, uint32_t world, const struct push_shared *sh, uint32_t one)
{
    return sh->bad == CCL_BAD_NONE && !((uint32_t)sh->entry & CCL_OP_STOPPED) && sh->staged == world - 1 && ccl_threads() % CCL_WARP == 0 &&
           (one || (ccl_threads() > CCL_WARP && a->flat_piece <= RING_UNITS * 16 * (ccl_threads() - CCL_WARP)));
}

/* A source has not stored directly, or is not done, or the launch has failed. */
CCL_DEVICE_SLOW void push_flat_end(CCL_ARGS a, uint32_t world, struct push_shared *sh, struct push_end *end)
{
    struct push_block b = push_block_of(a, world, sh, end);
    b.words = 1;
    if (push_failed(a, &b) || !push_finish(a, &b, world, 0)) {
        return;
    }
    push_note(a, b.job.n, CCL_TRACE_END);
}

/* The same behind a ring, whose words are out up to `words`. */
CCL_DEVICE_SLOW void push_ring_end(CCL_ARGS a, uint32_t world, struct push_shared *sh, struct push_end *end, uint32_t words)
{
    struct push_block b = push_block_of(a, world, sh, end);
    b.words = words;
    if (push_failed(a, &b)) {
        return;
    }
    ccl_block_sync();
    if (ccl_tid() < CCL_WARP) {
        push_await(a, &b, CCL_STEP_DONE);
    }
    ccl_block_sync();
    if (push_failed(a, &b)) {
        return;
    }
    push_note(a, b.job.n, CCL_TRACE_END);
    push_flat_scrub(a, world, sh, end, b.job.n);
}

/* Many pieces. */
CCL_DEVICE void push_flat_many(CCL_ARGS a, uint32_t world, const struct push_end *end, uint32_t n)
{
    const struct push_job job = {n, ccl_bid(), {0, world, 1, world}, ccl_bid(), ccl_grid(), 0};
#if defined(CCL_BULK)
    const uint32_t stages = push_bulk_stages(a);
    if (stages >= 2) {
        if (ccl_tid() == 0) {
            push_bulk_direct(a, stages, end, 0, world, job.first, job.stride);
        }
        return;
    }
#endif
    if (world == 2 && a->flags >> CCL_F_PACE_AT) {
        push_flat_paced(a, end);
    } else {
        push_flat_direct(a, &job, end, 0, world);
    }
}

/* The only piece of a block, which v holds, to all. */
CCL_DEVICE void push_flat_one(uint32_t world, const struct push_end *end, const ccl_vec16 *v, uint64_t at, uint32_t bytes, uint32_t column)
{
#if defined(CCL_TRY_ROLLED) /* to be measured: a sixth of the code for 8 ranks */
#pragma unroll 1
#else
#pragma unroll
#endif
    for (uint32_t d = 1; d <= world; d++) {
        const uint64_t to = end[d == world ? 0 : d].base; /* the own part last: it has the shortest way */
#pragma unroll
        for (uint32_t u = 0; u < PUSH_ONE_UNITS; u++) {
            if (ccl_tid() * 16 + u * column < bytes && (d < world || to != 0)) {
                ccl_store_stream_vec16(to + at + u * column, v[u]);
            }
        }
    }
}

/* DONE to all, DONE of all. */
CCL_DEVICE void push_flat_finish(CCL_ARGS a, uint32_t world, struct push_shared *sh, struct push_end *end, uint32_t n)
{
    const uint32_t t = ccl_tid();
    const uint32_t peer = ccl_rotate_in(a, world, t < world ? t : 0);
    const uint64_t word = ccl_full_addr(a, ccl_ctl_in(a, world, a->rank), ccl_bid(), peer);
    const uint64_t its = ccl_full_addr(a, ccl_ctl_in(a, world, peer), ccl_bid(), a->rank);
    ccl_block_release_system();
    if (t < CCL_WARP) {
        ccl_flag_release_system();
        push_note(a, n, CCL_TRACE_SENT);
        if (t > 0 && t < world) {
            ccl_store_relaxed_system_u64(its, CCL_TAGGED(n, CCL_STEP_DONE));
            uint32_t bad = CCL_BAD_NONE;
            const uint32_t value = CCL_VALUE(ccl_wait_word(a, word, n, 1, peer, 0, &bad));
            end[t].at = value;
            if (__builtin_expect(bad || value != CCL_STEP_DONE, 0)) {
                push_see(a, sh, bad, value, peer);
            }
        }
    }
    push_flat_scrub(a, world, sh, end, n); /* beside the wait */
    ccl_block_sync();
    if (__builtin_expect(sh->bad | sh->drain | sh->late, 0)) {
        push_flat_end(a, world, sh, end);
        return;
    }
    push_note(a, n, CCL_TRACE_END);
}

/* Plain buffers. False: not this way. */
CCL_DEVICE uint32_t push_flat_staged(CCL_ARGS a, uint32_t world, struct push_shared *sh, struct push_end *end, uint32_t n, uint32_t one, uint64_t at,
                                     uint32_t bytes, uint32_t column, const ccl_vec16 *v)
{
    const uint64_t pieces = a->pieces_down * a->pieces_across;
    uint32_t words = 1;
    if (!push_takes_ring(a, world, sh, one) || pieces >> 31 != 0) {
        return 0;
    }
    push_note(a, n, CCL_TRACE_MET);
    if (one) {
        push_ring_one(a, world, sh, end, n, at, bytes, column, v);
    } else {
        words = push_ring(a, world, sh, end, n, ((uint32_t)pieces - ccl_bid() + ccl_grid() - 1) / ccl_grid());
    }
    if (__builtin_expect(sh->bad | sh->late, 0)) {
        push_ring_end(a, world, sh, end, words);
    } else {
        push_note(a, n, CCL_TRACE_END);
        push_flat_scrub(a, world, sh, end, n);
    }
    return 1;
}

/* Which launches and blocks come here; the same in all threads. */
CCL_DEVICE uint32_t push_takes_flat(CCL_ARGS a, uint32_t world)
{
    return world != 0 && a->group + 1 >= world && push_is_flat(a) && (uint64_t)ccl_bid() * a->flat_piece < a->part_bytes;
}

#if defined(CCL_TRY_PLAIN_ORDER) /* to be measured: the compiler's order of the ways */
#define ccl_exit() return
#endif

/* Behind the adverts: all destinations are stored into directly. */
CCL_DEVICE uint32_t push_is_direct(const volatile struct push_shared *sh)
{
    return (((uint32_t)sh->entry & CCL_OP_STOPPED) | sh->bad | sh->staged | sh->odd) == 0;
}

CCL_DEVICE void push_flat_all(CCL_ARGS a, uint32_t world, struct push_shared *sh, struct push_end *end)
{
    const uint32_t t = ccl_tid(), column = ccl_threads() * 16, row = ccl_grid() * a->flat_piece;
    const uint64_t first = (uint64_t)ccl_bid() * a->flat_piece, at = first + t * 16;
    const uint32_t one = a->unit_shift <= 2 && !(a->flags & CCL_F_BULK) && first + row >= a->part_bytes;
    const uint64_t left = a->part_bytes - first;
    const uint32_t bytes = left < a->flat_piece ? (uint32_t)left : a->flat_piece;
    ccl_vec16 v[PUSH_ONE_UNITS];
    uint64_t entry = 0;
    if (t == 0) {
        entry = push_flat_draw(a);
    }
    if (one) {
#pragma unroll
        for (uint32_t u = 0; u < PUSH_ONE_UNITS; u++) {
            if (t * 16 + u * column < bytes) {
                v[u] = ccl_load_stream_vec16(a->src + at + u * column);
            }
        }
    } else {
        for (uint32_t o = t * 128; o < bytes; o += ccl_threads() * 128) {
            ccl_prefetch(a->src + first + o);
        }
    }
    if (t < CCL_WARP) {
        push_flat_begin(a, world, sh, end, entry);
    }
    ccl_block_sync();
    const uint32_t n = CCL_TAG(sh->entry);
    if (push_is_direct(sh)) {
        push_note(a, n, CCL_TRACE_MET);
        if (one) {
            push_flat_one(world, end, v, at, bytes, column);
            push_flat_finish(a, world, sh, end, n);
            ccl_exit();
        } else {
            push_flat_many(a, world, end, n);
            push_flat_finish(a, world, sh, end, n);
            ccl_exit();
        }
#if !defined(CCL_TRY_PLAIN_ORDER)
        /* Not reached, which the compiler does not know: so it puts the long way, for which v is kept in registers, behind this one, and this one is one run of code. */
#pragma unroll
        for (uint32_t u = 0; u < PUSH_ONE_UNITS; u++) {
            CCL_LANE(v[u], 0) = CCL_LANE(v[u], 1) = CCL_LANE(v[u], 2) = CCL_LANE(v[u], 3) = 0;
        }
#endif
    }
    if (!push_is_direct(sh) && !push_flat_staged(a, world, sh, end, n, one, at, bytes, column, v)) {
        push_flat_rest(a, world, sh, end);
    }
}

#endif
