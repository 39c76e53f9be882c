/* SPDX-License-Identifier: MIT
 *
 * The start of a push kernel on a GPU (included by push_gpu_body.h): number, adverts, comparison, where to store; and the way out after an error. */
#ifndef CCL_PUSH_GPU_BEGIN_H
#define CCL_PUSH_GPU_BEGIN_H

/* What a block knows about the rank some rotations on. */
struct push_end {
    uint64_t base; /* where this rank's part starts there; 0 = stage it, or own part in place */
    uint32_t at;   /* step last seen of it as a source */
#if defined(CCL_TEST_BASES_INSIDE)
    uint64_t where;
#endif
};

/* Where this rank's part starts at the rank d rotations on. CCL_TEST_BASES_INSIDE, for measurements only: looked up again in every step, as if it were not
 * known before the loop. */
CCL_DEVICE uint64_t push_base(CCL_ARGS a, const struct push_end *end, uint32_t d)
{
#if defined(CCL_TEST_BASES_INSIDE)
    if (d != 0 && end[d].base != 0) {
        return push_resolve_by(a, 0, 0, ccl_rotate(a, d), *(const volatile uint64_t *)&end[d].where, a->rank * a->dst_part);
    }
#endif
    (void)a;
    return end[d].base;
}

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
    uint32_t words; /* words_out of ccl_fail */
};

/* All parts of the own output, the own one and those drained from rings, start at a vector; bases at peers are looked at one by one. */
CCL_DEVICE uint32_t push_is_flat(CCL_ARGS a) { return a->flat_piece != 0 && ((a->src | a->dst | a->dst_part) & 15) == 0; }

CCL_DEVICE void push_note(CCL_ARGS a, uint32_t n, enum ccl_trace_point point)
{
    CCL_TRACE_NOTE_FIRST(a, n, point);
}

/* First warp: draw the number, send the adverts if this is the first block in, wait until they are out. */
CCL_DEVICE void push_enter(CCL_ARGS a, uint32_t world, struct push_block *b, uint32_t words, uint32_t used_rows)
{
    const uint32_t t = ccl_tid();
    const uint64_t me = ccl_ctl_in(a, world, a->rank);
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
        ccl_advert_send(a, world, n, words, t, CCL_WARP);
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
CCL_DEVICE void push_hear(CCL_ARGS a, uint32_t world, struct push_block *b, uint32_t words, uint32_t first, uint32_t last)
{
    const uint32_t n = CCL_TAG(b->sh->entry);
    for (uint32_t d = (first > 1 ? first : 1) + ccl_tid(); d < last; d += CCL_WARP) {
        uint32_t peer = ccl_rotate_in(a, world, d);
        uint64_t where = 0;
        uint32_t bad = ccl_advert_wait(a, world, n, peer, words, &where);
        if (bad == CCL_BAD_NONE && b->end != 0 && d >= b->job.ch.to_first && d < b->job.ch.to_last) {
            uint64_t to = push_resolve(a, n, peer, where);
            b->end[d].base = to;
#if defined(CCL_TEST_BASES_INSIDE)
            b->end[d].where = where;
#endif
            if (to & 15) {
                b->sh->odd = 1;
            }
            if (to == 0) {
                b->sh->staged = 1;
                /* A window we have not mapped yet is no fault of the caller's. */
                if ((a->flags & CCL_F_FORCE_DIRECT) && where >> 48 == 0) {
                    bad = CCL_BAD_NO_WINDOW;
                }
            }
        }
        if (bad) {
            push_set_bad(a, b->sh, bad, peer);
        }
        if (ccl_wave_any(bad)) {
            break;
        }
    }
}

/* By value: what a function out of line gets the address of would live in memory on the fast path too. */
CCL_DEVICE_SLOW void push_fail(CCL_ARGS a, struct push_block b)
{
    ccl_fail(a, b.job.n, b.job.block, b.sh->bad, b.sh->peer, b.job.ch, push_exposed(a, &b.job), b.words);
}

/* All threads, after a barrier: true when the launch has failed. The block has then done what it owes, or does it in push_exit. */
CCL_DEVICE uint32_t push_failed(CCL_ARGS a, struct push_block *b)
{
#if CCL_ONE_EXIT
    (void)a;
    return ccl_uniform(b->sh->bad) != CCL_BAD_NONE;
#else
    if (__builtin_expect(b->sh->bad == CCL_BAD_NONE, 1)) {
        return 0;
    }
    ccl_block_release_system(); /* what this block has stored so far comes before LEFT */
    if (ccl_tid() == 0) {
        push_fail(a, *b);
    }
    return 1;
#endif
}

#if CCL_ONE_EXIT

/* All threads, last: after push_failed or an operation number that says stopped. The communicator may have failed before: a late block of the failing
 * launch owes its peers an end; a replay has sent no advert and owes nothing. */
CCL_DEVICE void push_exit(CCL_ARGS a, const struct push_block *b)
{
    const uint32_t stopped = ccl_uniform((uint32_t)b->sh->entry & CCL_OP_STOPPED);
    if (!stopped && ccl_uniform(b->sh->bad) == CCL_BAD_NONE) {
        return;
    }
    CCL_AFRESH(a);
    ccl_fence_sc_system();      /* whoever stopped the communicator had seen the own advert */
    ccl_block_release_system(); /* what this block has stored so far comes before LEFT */
    if (ccl_tid() != 0) {
        return;
    }
    if (stopped) {
        const uint64_t own = ccl_advert_addr(a, ccl_peer_ctl(a, a->rank), b->job.n, a->rank);
        if (CCL_TAG(ccl_load_relaxed_system_u64(own)) != b->job.n) {
            return;
        }
        b->sh->bad = CCL_BAD_STOP;
        b->sh->peer = a->rank;
    }
    push_fail(a, *b);
}

#else

CCL_DEVICE void push_exit(CCL_ARGS a, const struct push_block *b) { (void)a, (void)b; }

/* The communicator has failed before. A late block of the failing launch owes its peers an end; a replay has sent no advert and owes nothing. */
CCL_DEVICE_SLOW void push_stopped(CCL_ARGS a, struct push_block b)
{
    const uint64_t own = ccl_advert_addr(a, ccl_peer_ctl(a, a->rank), b.job.n, a->rank);
    ccl_fence_sc_system(); /* whoever stopped the communicator had seen the own advert */
    if (ccl_tid() == 0 && CCL_TAG(ccl_load_relaxed_system_u64(own)) == b.job.n) {
        b.sh->bad = CCL_BAD_STOP;
        b.sh->peer = a->rank;
        push_fail(a, b);
    }
}

#endif

/* From the start to the first adverts: those of the rotations first..last-1. All threads; false: leave the kernel. */
CCL_DEVICE uint32_t push_begin(CCL_ARGS a, uint32_t world, struct push_block *b, uint32_t words, uint32_t used_rows, uint32_t first,
                               uint32_t last)
{
    if (ccl_afresh(ccl_tid()) < CCL_WARP) {
        push_enter(a, world, b, words, used_rows);
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
            push_hear(a, world, b, words, first, last);
        }
    }
    ccl_block_sync();
#if CCL_ONE_EXIT
    b->job.n = ccl_uniform(CCL_TAG(b->sh->entry));
    if (ccl_uniform((uint32_t)b->sh->entry & CCL_OP_STOPPED)) {
        return 0;
    }
#else
    b->job.n = CCL_TAG(b->sh->entry);
    if (__builtin_expect((uint32_t)b->sh->entry & CCL_OP_STOPPED, 0)) {
        push_stopped(a, *b);
        return 0;
    }
#endif
    return !push_failed(a, b);
}

#endif
