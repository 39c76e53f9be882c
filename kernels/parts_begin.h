/* SPDX-License-Identifier: MIT
 *
 * What the kernels of parts.hip and reduce.hip share: adverts that name the bytes of each pair, the start of a block, ring slots, the way out. Written
 * once for all devices: the first warp waits and stores words, one lane a peer; all threads move data. */
#ifndef CCL_PARTS_BEGIN_H
#define CCL_PARTS_BEGIN_H

#include "push_common.h"

/* Words that need no order among them: each carries its tag. On a CPU each is released, which hands over what the user wrote before; on a GPU the start of
 * the kernel has done that. */
#if defined(CCL_ON_HOST)
#define parts_store_word ccl_store_release_system_u64
#define parts_publish ccl_publish_system
#define parts_flag_release()
#else
#define parts_store_word ccl_store_relaxed_system_u64
#define parts_publish ccl_store_relaxed_system_u64
#define parts_flag_release() ccl_flag_release_system()
#endif

/* Pairs of this rank by rank of the peer; on the host there may be more than the struct declares. */
CCL_DEVICE CCL_CONST const struct ccl_k_pair *parts_pair(CCL_PARTS p, uint32_t rank)
{
    CCL_CONST const struct ccl_k_pair *first = p->pair;
    return first + rank;
}

#if defined(CCL_ON_HOST)
#define PARTS_RANKS CCL_MAX_RANKS
#else
#define PARTS_RANKS CCL_GPU_PAIRS
#endif

/* Reductions: an advert also says where the input is, for owners that read it there (reduce_flat.h). */
#define PARTS_PULLS(p) ((p)->parts & CCL_PARTS_REDUCE)

/* Reductions: does this rank get results of others? */
CCL_DEVICE uint32_t parts_receives(CCL_PARTS p, uint32_t rank)
{
    return !(p->parts & CCL_PARTS_SCATTER) && (!(p->parts & CCL_PARTS_TO_ROOT) || rank == p->root);
}

/* What a block knows about the rank some rotations on. All threads go by these copies. */
struct parts_end {
    uint64_t base;    /* where what it gets from me starts there; 0: stage it */
    uint32_t at;      /* step last seen of it as a source */
    uint32_t out, in; /* parts: chunks for it and of it that go through this block */
};

#define PARTS_MEMORY(name)                  \
    CCL_SHARED struct {                     \
        struct push_shared sh;              \
        uint32_t words_out;                 \
        struct parts_end end[PARTS_RANKS];  \
    } name

struct parts_block {
    struct push_shared *sh;
    struct parts_end *end;
    uint32_t *words_out; /* first thread: the last word of every channel has been sent */
    struct push_job job; /* n, block, channels; first = block, stride = grid */
};

/* ---- adverts ---- */

CCL_DEVICE uint32_t parts_advert_value(CCL_PARTS p, uint32_t peer, uint32_t w)
{
    CCL_CONST const struct ccl_k_pair *pair = parts_pair(p, peer);
    uint64_t v;
    switch (w / 2) {
    case 0: return w == 0 ? p->c.sig : p->c.desc.word1;
    case 1: v = pair->send_bytes; break;
    case 2: v = PARTS_PULLS(p) ? p->from_where : pair->recv_bytes; break;
    default: v = p->c.where != 0 ? p->c.where + pair->recv_off : 0; break;
    }
    return (uint32_t)(w % 2 == 0 ? v : v >> 32);
}

CCL_DEVICE void parts_advert_send(CCL_PARTS p, uint32_t n, uint32_t lane, uint32_t lanes)
{
    CCL_ARGS a = &p->c;
    for (uint32_t i = lane; i < (a->n - 1) * 8; i += lanes) {
        const uint32_t peer = ccl_rotate(a, 1 + i / 8), w = i % 8;
        parts_store_word(ccl_advert_addr(a, ccl_peer_ctl(a, peer), n, a->rank) + 8 * w, CCL_TAGGED(n, parts_advert_value(p, peer, w)));
    }
}

/* ---- a block ---- */

/* Pieces of what a pair moves that go through this block. */
CCL_DEVICE uint32_t parts_chunks(CCL_PARTS p, const struct parts_block *b, uint64_t bytes)
{
    const uint64_t piece = p->c.piece_bytes;
    return bytes <= piece ? (bytes != 0 && b->job.first == 0) : push_count((bytes + piece - 1) / piece, b->job.first, b->job.stride);
}

/* May the rank d rotations on store into user memory of this rank, or read it, by its block of this index? */
CCL_DEVICE uint32_t parts_exposed(CCL_PARTS p, const struct parts_block *b, uint32_t d)
{
    if (p->parts & CCL_PARTS_REDUCE) {
        return (p->c.where != 0 || (PARTS_PULLS(p) && p->from_where != 0)) && b->job.chunks != 0;
    }
    return p->c.where != 0 && parts_chunks(p, b, parts_pair(p, ccl_rotate(&p->c, d))->recv_bytes) != 0;
}

/* The rank that failed first, as far as this rank's host page knows; `otherwise` when it was none or this one. */
CCL_DEVICE_SLOW uint32_t ccl_origin(CCL_ARGS a, uint32_t otherwise)
{
    const uint64_t word = ccl_load_relaxed_system_u64((uint64_t) & ((struct ccl_k_page *)a->page)->abort);
    const uint32_t origin = (uint32_t)(word >> 8) & 0xffffff;
    return word != 0 && origin < a->n && origin != a->rank ? origin : otherwise;
}

/* First thread, out of the common way: tell all, revoke, LEFT; then wait until nobody can store into user memory of this rank any more. */
CCL_DEVICE_SLOW void parts_fail(CCL_PARTS p, const struct parts_block *b, uint32_t bad, uint32_t peer)
{
    CCL_ARGS a = &p->c;
    struct ccl_called called = ccl_called_of(a);
    if ((a->desc.word1 & 63) == CCL_OP_ALL_TO_ALL_V) { /* what differs is the counts of one pair, which pair the reason tells */
        ccl_await_reason(a, bad);
        CCL_CONST const struct ccl_k_pair *pair = parts_pair(p, bad == CCL_BAD_STOP ? ccl_origin(a, peer) : peer);
        called.rows = pair->send_bytes / p->esize;
        called.count = pair->recv_bytes / p->esize;
    }
    ccl_fail_called(a, b->job.n, b->job.block, bad, peer, b->job.ch, 0, *b->words_out, called);
    const uint64_t start = ccl_clock_ns(); /* one limit for all peers together */
    for (uint32_t d = 1; d < a->n; d++) {
        if (parts_exposed(p, b, d)) {
            ccl_drain(a, b->job.n, b->job.block, d, d + 1, start);
        }
    }
}

/* All threads, behind a barrier: the block's first warp has seen an error. The kernel is left by way of parts_exit. */
CCL_DEVICE uint32_t parts_failed(const struct parts_block *b) { return ccl_uniform(b->sh->bad) != CCL_BAD_NONE; }

/* All threads, last. A late block of a launch that has failed owes its peers an end too; a replay after an error has sent no advert and owes nothing. */
CCL_DEVICE void parts_exit(CCL_PARTS p, struct parts_block *b)
{
    CCL_ARGS a = &p->c;
    const uint32_t stopped = ccl_uniform((uint32_t)b->sh->entry & CCL_OP_STOPPED);
    if (__builtin_expect(!stopped && ccl_uniform(b->sh->bad) == CCL_BAD_NONE, 1)) {
        return;
    }
    CCL_AFRESH(p);
    ccl_fence_sc_system();      /* whoever stopped the communicator had seen the own advert */
    ccl_block_release_system(); /* what this block has stored so far comes before LEFT */
    if (ccl_tid() != 0) {
        return;
    }
    if (stopped) {
        if (CCL_TAG(ccl_load_relaxed_system_u64(ccl_advert_addr(a, ccl_peer_ctl(a, a->rank), b->job.n, a->rank))) != b->job.n) {
            return;
        }
        b->sh->bad = CCL_BAD_STOP;
        b->sh->peer = a->rank;
    }
    parts_fail(p, b, b->sh->bad, b->sh->peer);
}

/* Draw the number; the first block in sends the adverts. False: leave the kernel. */
CCL_DEVICE uint32_t parts_enter(CCL_PARTS p, struct parts_block *b)
{
    CCL_ARGS a = &p->c;
    const uint32_t t = ccl_afresh(ccl_tid());
    const uint64_t me = ccl_peer_ctl(a, a->rank);
    const struct ccl_channels all = {0, a->n, 1, a->n};
    if (t == 0) {
        b->sh->entry = ccl_enter(a);
        b->sh->bad = CCL_BAD_NONE;
        b->sh->staged = b->sh->odd = b->sh->late = b->sh->drain = 0;
        *b->words_out = 0;
    }
    ccl_block_sync();
    const uint32_t low = ccl_uniform((uint32_t)b->sh->entry), n = ccl_uniform(CCL_TAG(b->sh->entry));
    b->job.n = n;
    b->job.block = b->job.first = ccl_bid();
    b->job.stride = ccl_uniform(ccl_grid());
    b->job.ch = all;
    if (__builtin_expect(low & CCL_OP_STOPPED, 0)) {
        return 0;
    }
    CCL_TRACE_NOTE_FIRST(a, n, CCL_TRACE_START);
    if (low == 0 && ccl_afresh(t) < CCL_WARP) {
        if (PARTS_PULLS(p) && p->from_where != 0) {
            ccl_fence_release_system(); /* what earlier kernels of the stream left in this device's cache: peers may read it where it is */
        }
        parts_advert_send(p, n, t, CCL_WARP);
        ccl_warp_sync(); /* the adverts of all lanes are out */
        ccl_fence_advert_system(a);
        if (t == 0) {
            /* The own advert says: mine are out. Pairs with the acquire in parts_meet, in the other blocks. */
            parts_store_word(ccl_advert_addr(a, me, n, a->rank), CCL_TAGGED(n, a->sig));
            ccl_scrub(a, n, 0, 8, ccl_grid());
        }
        for (uint32_t d = 1 + t; d < a->n; d += CCL_WARP) {
            ccl_notify(a, ccl_rotate(a, d));
        }
    }
    return 1;
}

/* Wait for the adverts of all peers (E, and R of the shared ring), compare, resolve where to store; sh->staged: something I send must be.
 * pulls, a constant, for reductions: from gets where the inputs are, by rotation. Then sh->late: some rank's input or output is not in a window; sh->odd: something is not mapped here. On a GPU
 * all blocks of the launch find the same: flat shares and the pieces of rings are cut otherwise there. */
CCL_DEVICE uint32_t parts_meet(CCL_PARTS p, struct parts_block *b, const uint32_t pulls, uint64_t *from)
{
    CCL_ARGS a = &p->c;
    const uint32_t t = ccl_afresh(ccl_tid()), n = b->job.n, copies = !(p->parts & CCL_PARTS_REDUCE);
    if (t < CCL_WARP) {
        /* Without early exit: this rank's first block is already running and waits for nobody before it stores this word. */
        while (ccl_grid() > 1 && CCL_TAG(ccl_load_acquire_system_u64(ccl_advert_addr(a, ccl_peer_ctl(a, a->rank), n, a->rank))) != n) {
            ccl_spin(a->flags);
        }
        for (uint32_t d = 1 + t; d < a->n; d += CCL_WARP) {
            const uint32_t peer = ccl_rotate(a, d);
            CCL_CONST const struct ccl_k_pair *pair = parts_pair(p, peer);
            uint64_t where = 0, input = 0;
            const uint32_t bad = ccl_advert_wait_for(a, 0, n, peer, 8, pair->recv_bytes, pair->send_bytes, pulls ? &input : 0, &where);
            if (bad) {
                push_set_bad(a, b->sh, bad, peer);
            } else {
                const uint64_t base = push_resolve_by(a, pulls || PUSH_ALIKE, n, peer, where, 0);
                b->end[d].base = base;
                b->end[d].out = copies ? parts_chunks(p, b, pair->send_bytes) : 0;
                b->end[d].in = copies ? parts_chunks(p, b, pair->recv_bytes) : 0;
                if (base == 0 && pair->send_bytes != 0) {
                    b->sh->staged = 1;
                }
                if (pulls) {
                    const uint32_t receives = parts_receives(p, peer);
                    from[d] = push_resolve_by(a, 1, n, peer, input, 0);
                    if (input == 0 || (receives && where == 0)) {
                        b->sh->late = 1;
                    }
                    if (from[d] == 0 || (receives && base == 0)) {
                        b->sh->odd = 1;
                    }
                }
            }
            if (ccl_wave_any(bad)) {
                break;
            }
        }
    }
    ccl_block_sync();
    if (parts_failed(b)) {
        return 0;
    }
    CCL_TRACE_NOTE_FIRST(a, n, CCL_TRACE_MET);
    return 1;
}

/* Slot of chunk c. Shared ring: in src's own memory, with a place for each destination (`sub`); else in the destination's, whose control memory
 * starts at dst_ctl. */
CCL_DEVICE uint64_t parts_slot(CCL_PARTS p, uint64_t dst_ctl, uint32_t src, uint32_t sub, uint32_t block, uint32_t c)
{
    const uint64_t in_ring = ((uint64_t)block * p->slots + c % p->slots) * p->slot_bytes + sub * p->sub_bytes;
    return p->c.lay.shared_ring ? ccl_peer_ctl(&p->c, src) + p->c.lay.ring + in_ring
                                : dst_ctl + p->c.lay.ring + src * p->ring_bytes + in_ring;
}

/* First warp: store `full` or `credit` of this block at a peer. The caller has released. */
CCL_DEVICE void parts_post(CCL_PARTS p, const struct parts_block *b, uint32_t peer, uint32_t credit, uint32_t step)
{
    CCL_ARGS a = &p->c;
    const uint64_t ctl = ccl_peer_ctl(a, peer);
    parts_publish(credit ? ccl_credit_addr(a, ctl, b->job.block, a->rank) : ccl_full_addr(a, ctl, b->job.block, a->rank),
                  CCL_TAGGED(b->job.n, step));
}

/* First warp, the lane of rotation d: wait for step want of that source, with DIRECT if it stores directly; note it. Lanes of a wave leave together: who has
 * more to wait for does not begin when another one has seen an error. What it returns is not 0 for an error; then no lane of the wave may wait on. */
CCL_DEVICE uint32_t parts_hear(CCL_PARTS p, struct parts_block *b, uint32_t d, uint32_t want, uint32_t want_direct)
{
    CCL_ARGS a = &p->c;
    const uint32_t src = ccl_rotate(a, d);
    const uint64_t word = ccl_full_addr(a, ccl_peer_ctl(a, a->rank), b->job.block, src);
    uint32_t bad = CCL_BAD_NONE;
    uint32_t step = CCL_VALUE(ccl_wait_word(a, word, b->job.n, want, src, 0, &bad));
    bad = bad == CCL_BAD_NONE && step == CCL_STEP_LEFT ? (uint32_t)CCL_BAD_LEFT : bad;
    const uint32_t more = bad == CCL_BAD_NONE && step >= CCL_STEP_DIRECT && step < want_direct;
    if (ccl_wave_any(bad)) {
        bad = more ? (uint32_t)CCL_BAD_STOP : bad;
    } else if (more) {
        step = CCL_VALUE(ccl_wait_word(a, word, b->job.n, want_direct, src, 0, &bad));
        bad = bad == CCL_BAD_NONE && step == CCL_STEP_LEFT ? (uint32_t)CCL_BAD_LEFT : bad;
    }
    b->end[d].at = step;
    if (bad) {
        push_set_bad(a, b->sh, bad, src);
    }
    return bad;
}

/* First warp, one lane a peer, behind its words: wake those that sleep. */
CCL_DEVICE void parts_notify(CCL_PARTS p)
{
    ccl_notify_fence(&p->c);
    for (uint32_t d = 1 + ccl_tid(); d < p->c.n; d += CCL_WARP) {
        ccl_notify(&p->c, ccl_rotate(&p->c, d));
    }
}

#endif
