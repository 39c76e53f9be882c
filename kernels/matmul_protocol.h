/* SPDX-License-Identifier: MIT
 *
 * How the blocks of a fused matrix product meet the peers and leave (docs/kernels.md, section "Fused"). Tasks are handed out by tickets, so nothing depends on
 * the order in which blocks start or on how many run at once: the first block in sends the adverts and waits for nobody before that; fetches wait for
 * adverts only, tiles for fetches whose tickets are taken; the last block out waits for the peers' DONE, when all others have left. */
#ifndef CCL_MATMUL_PROTOCOL_H
#define CCL_MATMUL_PROTOCOL_H

#include "fail.h"
#include "matmul_args.h"
#include "protocol.h"
#include "push_common.h"
#include "trace.h"

#define MATMUL_ARGS CCL_CONST const struct ccl_k_matmul_args *
#if defined(CCL_ON_HOST)
#define MATMUL_RANKS CCL_MAX_RANKS
#else
#define MATMUL_RANKS CCL_GPU_PAIRS /* src/fused/matmul.c refuses more */
#endif

struct matmul_shared {
    uint64_t entry;
    uint32_t n;         /* number of the operation */
    uint32_t epoch;     /* tag of this call's ready words */
    uint32_t bad, peer; /* first error of the block; one aligned word */
    uint32_t late;      /* the communicator had failed before the block came */
    uint32_t own_out;   /* this rank's adverts are out */
    uint32_t ticket;
    uint64_t base[MATMUL_RANKS]; /* what a peer's advert has said: its A, C or workspace as mapped here; 0: not met; bit 0: A is the copy in its workspace */
    uint64_t others[MATMUL_RANKS]; /* cclMatmulAllGather: where a tile goes at the peers, in rotation */
};

/* Barrier of the block: behind it all threads see what one has written to struct matmul_shared. On CDNA that lies in memory, where a store is complete when it has been
 * waited for. */
CCL_DEVICE void matmul_sync(void)
{
#if defined(CCL_ON_AMD)
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    ccl_wait_loads();
#endif
    ccl_block_sync();
}

CCL_DEVICE struct ccl_k_matmul_state *matmul_state(MATMUL_ARGS a) { return (struct ccl_k_matmul_state *)a->state; }

/* One thread; the block then leaves. */
CCL_DEVICE void matmul_set_bad(MATMUL_ARGS a, struct matmul_shared *sh, uint32_t bad, uint32_t peer)
{
    if (sh->bad == CCL_BAD_NONE) {
        sh->peer = peer;
        sh->bad = ccl_afresh(bad); /* here and below: constants that stay in registers across the K loop would spill */
    }
    ccl_or_relaxed_agent_u64((uint64_t) & ((struct ccl_k_priv *)a->coll.priv)->stop, ccl_afresh(1));
}

/* All threads: draw the block's place, send the adverts if it is the first. */
CCL_DEVICE void matmul_enter(MATMUL_ARGS a, struct matmul_shared *sh)
{
    CCL_ARGS c = &a->coll;
    const uint32_t t = ccl_tid();
    if (t == 0) {
        sh->entry = ccl_enter(c);
        sh->n = CCL_TAG(sh->entry);
        sh->epoch = (uint32_t)ccl_load_relaxed_agent_u64((uint64_t)&matmul_state(a)->epoch) & CCL_TAG_MASK;
        sh->late = (sh->entry & CCL_OP_STOPPED) != 0;
        sh->bad = sh->late ? CCL_BAD_STOP : CCL_BAD_NONE;
        sh->peer = c->rank;
        sh->own_out = 0;
        for (uint32_t r = 0; r < c->n; r++) {
            sh->base[r] = 0;
        }
    }
    matmul_sync();
    if (sh->late) {
        return;
    }
    const uint32_t n = sh->n;
    CCL_TRACE_NOTE_FIRST(c, n, CCL_TRACE_START);
    if (t < CCL_WARP && (uint32_t)sh->entry == 0) {
        ccl_fence_release_system(); /* the advert says that the input is complete, and that the workspace is free */
        ccl_advert_send(c, 0, n, 8, t, CCL_WARP);
        ccl_fence_advert_system(c);
        ccl_warp_sync(); /* the adverts of all lanes are out */
        if (t == 0) {
            /* The own advert says: mine are out. Release pairs with the acquire in matmul_meet. */
            ccl_store_release_system_u64(ccl_advert_addr(c, ccl_peer_ctl(c, c->rank), n, c->rank), CCL_TAGGED(n, c->sig));
            ccl_scrub(c, n, 0, 8, 1);
        }
        for (uint32_t d = 1 + t; d < c->n; d += CCL_WARP) {
            ccl_notify(c, ccl_rotate(c, d));
        }
    }
}

/* The block is `position` of those of its launch that have come so far. */
CCL_DEVICE uint32_t matmul_position(const struct matmul_shared *sh) { return (uint32_t)sh->entry & ~CCL_OP_STOPPED; }

/* What a peer's advert points at, as mapped here; 0: nothing that this rank can reach. */
CCL_DEVICE uint64_t matmul_resolve(MATMUL_ARGS a, uint32_t peer, uint64_t where)
{
    CCL_ARGS c = &a->coll;
    const uint32_t id = ccl_afresh((uint32_t)(where >> 48)); /* else it is compared as 64 bits, with a constant that spills */
    uint64_t base = 0;
    if (id != 0) {
        base = id == c->expect_id ? c->peer[peer].win : id < CCL_WINDOWS ? push_look_up(c, peer, id) : 0;
    }
    return base != 0 ? base + (where & 0xffffffffffffull) : 0;
}

/* One thread: wait for the advert of a peer and compare, once a block. Nothing of a peer is read or written before. False: leave. */
CCL_DEVICE uint32_t matmul_meet_one(MATMUL_ARGS a, struct matmul_shared *sh, uint32_t peer)
{
    CCL_ARGS c = &a->coll;
    uint64_t where = 0;
    if (sh->base[peer] != 0 || sh->bad != CCL_BAD_NONE) {
        return sh->bad == CCL_BAD_NONE;
    }
    if (!sh->own_out) {
        /* Without early exit: the first block in is running and waits for nobody before it stores this word. */
        while (CCL_TAG(ccl_load_acquire_system_u64(ccl_advert_addr(c, ccl_peer_ctl(c, c->rank), sh->n, c->rank))) != sh->n) {
            ccl_spin(c->flags);
        }
        sh->own_out = 1;
    }
    uint32_t bad = ccl_advert_wait(c, 0, sh->n, peer, 8, &where);
    uint64_t base = bad == CCL_BAD_NONE ? matmul_resolve(a, peer, where) : 0;
    if (bad == CCL_BAD_NONE && base == 0) {
        bad = CCL_BAD_NO_WINDOW;
    }
    if (bad != CCL_BAD_NONE) {
        matmul_set_bad(a, sh, bad, peer);
        return 0;
    }
    sh->base[peer] = base | (where == a->copy_where);
    return 1;
}

/* All threads, for the same peer. */
CCL_DEVICE uint32_t matmul_meet(MATMUL_ARGS a, struct matmul_shared *sh, uint32_t peer)
{
    if (ccl_tid() == 0) {
        matmul_meet_one(a, sh, peer);
    }
    matmul_sync();
    return sh->bad == CCL_BAD_NONE;
}

/* One thread. Another block, or another rank, has failed: take no more tasks. */
CCL_DEVICE uint32_t matmul_stopped_one(MATMUL_ARGS a, struct matmul_shared *sh)
{
    if (sh->bad == CCL_BAD_NONE && ccl_told_to_stop(&a->coll)) {
        matmul_set_bad(a, sh, CCL_BAD_STOP, a->coll.rank);
    }
    return sh->bad != CCL_BAD_NONE;
}

/* The same by all threads. */
CCL_DEVICE uint32_t matmul_stopped(MATMUL_ARGS a, struct matmul_shared *sh)
{
    if (ccl_tid() == 0) {
        matmul_stopped_one(a, sh);
    }
    matmul_sync();
    return sh->bad != CCL_BAD_NONE;
}

/* All threads: the next number of a counter. */
CCL_DEVICE uint32_t matmul_ticket(struct matmul_shared *sh, uint64_t *counter)
{
    if (ccl_tid() == 0) {
        sh->ticket = (uint32_t)ccl_add_relaxed_agent_u64((uint64_t)counter, 1);
    }
    matmul_sync();
    const uint32_t ticket = ccl_uniform(sh->ticket);
    matmul_sync(); /* nobody draws the next one before all have read this one */
    return ticket;
}

/* One thread. This rank reads, or stores, nothing of its peers any more; what came before is released by the caller. */
CCL_DEVICE void matmul_done(MATMUL_ARGS a, uint32_t n)
{
    CCL_ARGS c = &a->coll;
    ccl_flag_release_system();
    for (uint32_t d = 1; d < c->n; d++) {
        ccl_publish_system(ccl_full_addr(c, ccl_peer_ctl(c, ccl_rotate(c, d)), 0, c->rank), CCL_TAGGED(n, CCL_STEP_DONE));
    }
    ccl_notify_fence(c);
    for (uint32_t d = 1; d < c->n; d++) {
        ccl_notify(c, ccl_rotate(c, d));
    }
    ccl_store_relaxed_agent_u64((uint64_t)&matmul_state(a)->done, 1);
}

/* One thread of the last block out: all peers have called the same and need nothing of this rank any more (E, Q). */
CCL_DEVICE void matmul_hear_all(MATMUL_ARGS a, struct matmul_shared *sh)
{
    CCL_ARGS c = &a->coll;
    for (uint32_t d = 1; d < c->n; d++) {
        uint32_t peer = ccl_rotate(c, d), bad = CCL_BAD_NONE;
        if (!matmul_meet_one(a, sh, peer)) {
            return;
        }
        uint64_t w = ccl_wait_word(c, ccl_full_addr(c, ccl_peer_ctl(c, c->rank), 0, peer), sh->n, CCL_STEP_DONE, peer, 0, &bad);
        if (bad || CCL_VALUE(w) == CCL_STEP_LEFT) {
            matmul_set_bad(a, sh, bad ? bad : CCL_BAD_LEFT, peer);
            return;
        }
    }
}

/* Ready words keep the tag of the call that set them. Each gets a recent one now and then, long before its own comes round again: no word is waited for
 * here any more, and peers that push wait for this rank's next advert. */
CCL_DEVICE void matmul_scrub(MATMUL_ARGS a, uint32_t epoch)
{
    const uint64_t some = a->words / (CCL_TAG_MASK / 4) + 1;
#if defined(CCL_NO_READY_SCRUB)
    return; /* a test that must fail */
#endif
    for (uint64_t i = 0; i < some && a->words != 0; i++) {
        uint64_t word = ((uint64_t)epoch * some + i) % a->words;
        ccl_store_relaxed_system_u64(a->space + 8 * word, CCL_TAGGED(epoch, 0));
        if (a->idle != 0) {
            ccl_store_relaxed_system_u64(a->idle + 8 * word, CCL_TAGGED(epoch, 0));
        }
    }
}

/* One thread of the last block out, on its own now. */
CCL_DEVICE void matmul_last_out(MATMUL_ARGS a, struct matmul_shared *sh, uint32_t exposed)
{
    CCL_ARGS c = &a->coll;
    struct ccl_k_matmul_state *state = matmul_state(a);
    const struct ccl_channels all = {1, c->n, 1, c->n};
    const uint64_t own = ccl_advert_addr(c, ccl_peer_ctl(c, c->rank), sh->n, c->rank);
    uint32_t failed = ccl_load_relaxed_agent_u64((uint64_t)&state->bad) != 0;
    if (!failed) {
        if (ccl_load_relaxed_agent_u64((uint64_t)&state->done) == 0) {
            matmul_done(a, sh->n);
        }
        matmul_hear_all(a, sh);
        failed = sh->bad != CCL_BAD_NONE;
    }
    /* LEFT says that no block of this rank will touch a peer's memory, so it waits until here. A replay after an error has sent no advert and owes nothing. */
    if (failed && CCL_TAG(ccl_load_relaxed_system_u64(own)) == sh->n) {
        ccl_fail(c, sh->n, 0, sh->bad != CCL_BAD_NONE ? sh->bad : (uint32_t)CCL_BAD_STOP, sh->peer, all, exposed,
                 ccl_load_relaxed_agent_u64((uint64_t)&state->done) != 0);
    } else if (!failed) {
        const struct push_job job = {sh->n, 0, {0, c->n, 1, c->n}, 0, 1, 1};
        matmul_scrub(a, sh->epoch);
        push_leave(c, &job);
        CCL_TRACE_NOTE(c, sh->n, CCL_TRACE_END);
        ccl_store_relaxed_agent_u64((uint64_t)&state->epoch, ccl_load_relaxed_agent_u64((uint64_t)&state->epoch) + 1);
    }
    ccl_store_relaxed_agent_u64((uint64_t)&state->fetch, 0);
    ccl_store_relaxed_agent_u64((uint64_t)&state->tile, 0);
    ccl_store_relaxed_agent_u64((uint64_t)&state->fetched, 0);
    ccl_store_relaxed_agent_u64((uint64_t)&state->done, 0);
    ccl_store_relaxed_agent_u64((uint64_t)&state->bad, 0);
    ccl_store_relaxed_agent_u64((uint64_t)&state->outs, 0); /* the next launch starts behind this one's end (S) */
}

/* One thread, when the block has no more tasks or has failed, behind a barrier of the block. */
CCL_DEVICE void matmul_leave_one(MATMUL_ARGS a, struct matmul_shared *sh)
{
    CCL_ARGS c = &a->coll;
    struct ccl_k_matmul_state *state = matmul_state(a);
    if (__builtin_expect(sh->bad != CCL_BAD_NONE, 0)) {
        if (!sh->late) {
            ccl_raise(c, sh->n, sh->bad, sh->peer, ccl_called_of(c)); /* now, so that nobody waits for this block */
            ccl_revoke(c, sh->n);
        }
        ccl_store_relaxed_agent_u64((uint64_t)&state->bad, 1);
    } else {
        CCL_TRACE_NOTE(c, sh->n, CCL_TRACE_SENT);
    }
    /* Release: what this block has done; acquire: what all others have. */
    if (ccl_atomic_add_acq_rel_agent_u64(&state->outs, 1) == ccl_grid() - 1) {
        matmul_last_out(a, sh, a->kind == CCL_MATMUL_GATHERS_C || a->map.pushes); /* peers store into memory of this rank's user */
    } else if (sh->bad == CCL_BAD_NONE) {
        CCL_TRACE_NOTE(c, sh->n, CCL_TRACE_END);
    }
}

/* The same by all threads. */
CCL_DEVICE void matmul_leave(MATMUL_ARGS a, struct matmul_shared *sh)
{
    ccl_block_release_system();
    if (ccl_tid() == 0) {
        matmul_leave_one(a, sh);
    }
}

#endif
