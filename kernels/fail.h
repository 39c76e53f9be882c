/* SPDX-License-Identifier: MIT
 *
 * The way out after an error, run by one thread of a block (docs/kernels.md, section "Errors"): tell everybody, revoke, let nobody wait
 * for us, and leave only when no live peer can still store into this rank's user memory (invariant D). */
#ifndef CCL_FAIL_H
#define CCL_FAIL_H

#include "protocol.h"

#if !defined(CCL_DRAIN_LIMIT_NS) /* a test shortens it */
#define CCL_DRAIN_LIMIT_NS 2000000000u /* then the block leaves unclean, which the host reports */
#endif

/* Peers whose block of this index stores to us, and to whom this block stores: rotations first..last-1; for a partitioned block just one. */
struct ccl_channels {
    uint32_t to_first, to_last;     /* rotations sent to, 0 = self */
    uint32_t from_first, from_last; /* rotations received from (this rank + d) */
};

/* What was called, beyond the arguments' desc: calls of many messages differ in these. */
struct ccl_called {
    uint32_t word1;
    uint64_t rows, count;
};

/* What a call of one message is about: its arguments say it. */
CCL_DEVICE struct ccl_called ccl_called_of(CCL_ARGS a)
{
    const struct ccl_called called = {a->desc.word1, a->desc.rows, a->desc.count};
    return called;
}

CCL_DEVICE_SLOW void ccl_fill_record(CCL_ARGS a, CCL_AS1 struct ccl_k_err *e, uint32_t n, uint32_t reason, uint32_t peer, struct ccl_called called)
{
    e->op = n;
    e->rank = (int32_t)a->rank;
    e->peer = (int32_t)peer;
    e->reason = reason;
    e->mine.word1 = called.word1;
    e->mine.variant = a->desc.variant;
    e->mine.blocks = a->desc.blocks;
    e->mine.tile_m = a->desc.tile_m;
    e->mine.tile_n = a->desc.tile_n;
    e->mine.rows = called.rows;
    e->mine.count = called.count;
    e->mine.ld = a->desc.ld;
    e->mine.ld_send = a->desc.ld_send;
    e->where = a->where;
#if defined(CCL_ON_HOST)
    if (reason == CCL_REASON_MISMATCH && (a->flags & CCL_F_AHEAD)) {
        const struct ccl_k_ahead_line *theirs = ccl_ahead_line(a, ccl_peer_ctl(a, a->rank), n, peer);
        if (CCL_TAG(ccl_load_acquire_system_u64((uint64_t)&theirs->word)) == n) {
            e->theirs_word1 = theirs->word1;
            e->theirs_count = theirs->count;
        }
    }
#endif
}

/* The abort word of the own page; 0: the reason is this block's own, or another block of this rank is about to write it. `stop` is set by who has seen an
 * error and is on his way to ccl_raise, or has seen the abort word: he knows the reason, a block with CCL_BAD_STOP waits for it. */
CCL_DEVICE_SLOW uint64_t ccl_await_reason(CCL_ARGS a, uint32_t bad)
{
    const uint64_t claimed = (uint64_t)&((struct ccl_k_priv *)a->priv)->err_claimed, abort = (uint64_t)&((struct ccl_k_page *)a->page)->abort;
    uint64_t known = ccl_load_relaxed_system_u64(abort);
    while (bad == CCL_BAD_STOP && known == 0 && !(ccl_load_relaxed_agent_u64(claimed) & 1)) {
        ccl_spin(a->flags);
        known = ccl_load_relaxed_system_u64(abort);
    }
    ccl_fence_acquire_system(); /* what is read from here on comes behind that look */
    return known;
}

/* Step 1: record and abort word in every host page, own first. Only one block of a rank writes the record. */
CCL_DEVICE_SLOW void ccl_raise(CCL_ARGS a, uint32_t n, uint32_t bad, uint32_t peer, struct ccl_called called)
{
    struct ccl_k_priv *priv = (struct ccl_k_priv *)a->priv;
    const uint64_t known = ccl_await_reason(a, bad);
    uint32_t code, reason;
    ccl_note_failure();
    if (ccl_or_relaxed_agent_u64((uint64_t)&priv->err_claimed, 1) & 1) {
        /* Nobody may see us revoke before he can see why. The block that writes the record waits for nobody. */
        while (!(ccl_load_relaxed_agent_u64((uint64_t)&priv->err_claimed) & 2)) {
            ccl_spin(a->flags);
        }
        ccl_fence_acquire_system();
        return;
    }
    switch (bad) {
    case CCL_BAD_MISMATCH: code = 5, reason = CCL_REASON_MISMATCH; break;
    case CCL_BAD_NO_WINDOW: code = 5, reason = CCL_REASON_NO_WINDOW; break;
    case CCL_BAD_PLACE: code = 5, reason = CCL_REASON_PLACE; break;
    case CCL_BAD_DEAD: code = 6, reason = CCL_REASON_DEAD; break;
    default: code = 6, reason = CCL_REASON_LEFT; break;
    }
    if (known != 0) {
        code = (uint32_t)(known & 0xff);
        reason = CCL_REASON_LEFT;
    }
    for (uint32_t d = 0; d < a->n; d++) {
        CCL_AS1 struct ccl_k_page *page = CCL_PTR(struct ccl_k_page, ccl_peer_page(a, ccl_rotate(a, d)));
        CCL_AS1 struct ccl_k_err *e = &page->err[a->rank];
        ccl_fill_record(a, e, n, reason, peer, called);
        /* code and op are one 8-byte word; released last, pairs with the acquire of the host that reads the record */
        ccl_fence_release_system();
        ccl_store_relaxed_system_u64((uint64_t)e, (uint64_t)n << 32 | code);
        /* The first reason stays. What we only heard of is passed on, since who raised it may have died on the way. */
        ccl_fence_release_system();
        ccl_replace_relaxed_system_u64((uint64_t)&page->abort, 0, known != 0 ? known : CCL_ABORT_WORD(code, a->rank, n));
    }
    ccl_fence_release_system();
    ccl_or_relaxed_agent_u64((uint64_t)&priv->err_claimed, 2);
    ccl_notify_fence(a);
    for (uint32_t d = 0; d < a->n; d++) {
        ccl_notify(a, ccl_rotate(a, d));
    }
}

/* Step 2: nobody may start to store into our memory for operation n, and no later launch may take part. */
CCL_DEVICE_SLOW void ccl_revoke(CCL_ARGS a, uint32_t n)
{
    struct ccl_k_priv *priv = (struct ccl_k_priv *)a->priv;
    ccl_fence_release_system(); /* the record, whoever wrote it, comes before the revocation */
    ccl_or_relaxed_agent_u64((uint64_t)&priv->stop, 1);
    ccl_or_relaxed_agent_u64((uint64_t)&priv->op, CCL_OP_STOPPED);
    for (uint32_t d = 1; d < a->n; d++) {
        uint64_t line = ccl_advert_addr(a, ccl_peer_ctl(a, ccl_rotate(a, d)), n, a->rank);
        /* Word 1 keeps the signature, for ccl_drained of a peer: written first, released by word 0. */
        ccl_store_relaxed_system_u64(line + 8, CCL_TAGGED(n, a->sig));
        ccl_store_release_system_u64(line, CCL_TAGGED(n, CCL_SIG_REVOKED));
    }
    ccl_fence_revoke_system(a);
}

/* Step 4, one source: true when its block of this index can no longer store into our memory for operation n. */
CCL_DEVICE_SLOW uint32_t ccl_drained(CCL_ARGS a, uint32_t n, uint32_t block, uint32_t src, uint64_t waited_ns)
{
    uint64_t me = ccl_peer_ctl(a, a->rank);
    const struct ccl_k_page *page = (const struct ccl_k_page *)a->page;
    uint64_t w = ccl_load_acquire_system_u64(ccl_full_addr(a, me, block, src));
    if (CCL_TAG(w) == n && (CCL_VALUE(w) >= CCL_STEP_DONE || (CCL_VALUE(w) > 0 && CCL_VALUE(w) < CCL_STEP_DIRECT))) {
        return 1; /* done, gone, or known to stage: a block decides that before its first store */
    }
    if (CCL_TAG(w) == ((n + 1) & CCL_TAG_MASK)) {
        return 1; /* it had finished n and failed in n+1, where LEFT took the place of a DONE we had not read */
    }
    if (ccl_load_acquire_system_u64((uint64_t)&page->dead[src / 64]) >> (src % 64) & 1) {
        return waited_ns + 1 > CCL_DEAD_GRACE_NS;
    }
    /* Absent: it will see the revocation. Another signature: it compares with ours before its first store and leaves; its grid may not even have a
     * block of this index that could send LEFT. */
    uint64_t line = ccl_advert_addr(a, me, n, src);
    w = ccl_load_acquire_system_u64(line);
    if (CCL_TAG(w) == n && CCL_VALUE(w) == CCL_SIG_REVOKED) {
        w = ccl_load_relaxed_system_u64(line + 8);
    }
    return CCL_TAG(w) != n || CCL_VALUE(w) != a->sig;
}

/* Tell the own host that rank src may still store. Host memory: the atomics that every link carries are add, exchange and compare-and-exchange. */
CCL_DEVICE_SLOW void ccl_mark_unclean(CCL_ARGS a, uint32_t src)
{
    const uint64_t word = (uint64_t) & ((struct ccl_k_page *)a->page)->unclean, bit = 1ull << (src % 64);
    uint64_t seen = ccl_load_relaxed_system_u64(word), found;
    while (!(seen & bit) && (found = ccl_replace_relaxed_system_u64(word, seen, seen | bit)) != seen) {
        seen = found;
    }
}

/* Step 4 for the rotations first..last-1. start: when this block began to drain, whatever it has drained before. */
CCL_DEVICE_SLOW void ccl_drain(CCL_ARGS a, uint32_t n, uint32_t block, uint32_t first, uint32_t last, uint64_t start)
{
    for (uint32_t d = first; d < last; d++) {
        uint32_t src = ccl_rotate(a, d);
        uint64_t waited = ccl_clock_ns() - start;
        while (d != 0 && !ccl_drained(a, n, block, src, waited)) {
            waited = ccl_clock_ns() - start;
            if (waited > CCL_DRAIN_LIMIT_NS) {
                ccl_mark_unclean(a, src);
                break;
            }
            ccl_spin(a->flags);
        }
    }
}

/* All of it. advert_out: this rank's adverts of n are at the peers. may_write: peers may store into user memory of this rank directly.
 * words_out: this block has sent the last word of every channel, so nobody waits for it. */
CCL_DEVICE_SLOW void ccl_fail_called(CCL_ARGS a, uint32_t n, uint32_t block, uint32_t bad, uint32_t peer, struct ccl_channels ch,
                                     uint32_t may_write, uint32_t words_out, struct ccl_called called)
{
    ccl_raise(a, n, bad, peer, called);
    ccl_revoke(a, n);
    if (!words_out) {
        ccl_fence_release_system();
        for (uint32_t d = ch.to_first; d < ch.to_last; d++) {
            if (d != 0) {
                ccl_store_relaxed_system_u64(ccl_full_addr(a, ccl_peer_ctl(a, ccl_rotate(a, d)), block, a->rank),
                                             CCL_TAGGED(n, CCL_STEP_LEFT));
            }
        }
        ccl_notify_fence(a);
        for (uint32_t d = ch.to_first; d < ch.to_last; d++) {
            ccl_notify(a, ccl_rotate(a, d));
        }
    }
    if (may_write) {
        ccl_drain(a, n, block, ch.from_first, ch.from_last, ccl_clock_ns());
    }
}

CCL_DEVICE_SLOW void ccl_fail(CCL_ARGS a, uint32_t n, uint32_t block, uint32_t bad, uint32_t peer,
                              struct ccl_channels ch, uint32_t may_write, uint32_t words_out)
{
    ccl_fail_called(a, n, block, bad, peer, ch, may_write, words_out, ccl_called_of(a));
}

#endif
