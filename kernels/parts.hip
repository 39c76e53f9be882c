/* SPDX-License-Identifier: MIT
 *
 * The copying collectives (all-to-all, broadcast, gather, scatter): what one rank has for another is cut into pieces, and block b moves pieces b,
 * b + grid, ... of every pair: straight into the peer's receive buffer where its advert names a window, else through a ring which the peer's block b
 * drains. And LL for all collectives but all-gather: one hop through the two-parity scratch, for parts that fit it.
 * Bytes moved per rank: direct reads and writes what it sends; staged reads and writes it once more at the receiver (a broadcast through a shared ring is
 * written to the ring once, whatever the number of receivers). */
#include "parts_begin.h"

#include CCL_PARTS_LL_BODY

/* First warp: wait for a free slot for chunk c at every staged destination that has one. */
CCL_DEVICE void parts_await_credits(CCL_PARTS p, struct parts_block *b, uint32_t c)
{
    CCL_ARGS a = &p->c;
    for (uint32_t d = 1 + ccl_tid(); d < a->n && c >= p->slots; d += CCL_WARP) {
        const uint32_t peer = ccl_rotate(a, d);
        uint32_t bad = CCL_BAD_NONE;
        if (b->base[d] == 0 && c < parts_chunks(p, b, parts_pair(p, peer)->send_bytes)) {
            ccl_wait_word(a, ccl_credit_addr(a, ccl_peer_ctl(a, a->rank), b->job.block, peer), b->job.n, c - p->slots + 1, peer, 0, &bad);
        }
        if (bad) {
            push_set_bad(a, b->sh, bad, peer);
            break;
        }
    }
}

CCL_DEVICE void parts_move(uint64_t dst, uint64_t src, uint64_t bytes, uint32_t stream)
{
    ccl_move_rows(dst, bytes, src, bytes, 1, bytes, stream);
}

/* Chunk c to every peer that has one. What goes directly is done with its last chunk. False: an error. */
CCL_DEVICE uint32_t parts_push(CCL_PARTS p, struct parts_block *b, uint32_t c)
{
    CCL_ARGS a = &p->c;
    const uint64_t off = (b->job.first + (uint64_t)c * b->job.stride) * a->piece_bytes;
    const uint32_t once = (p->parts & CCL_PARTS_SAME) && a->lay.shared_ring;
    uint32_t written = 0;
    if (ccl_tid() < CCL_WARP) {
        parts_await_credits(p, b, c);
    }
    ccl_block_sync();
    if (b->sh->bad != CCL_BAD_NONE) {
        return 0;
    }
    for (uint32_t d = 1; d < a->n; d++) {
        const uint32_t peer = ccl_rotate(a, d);
        CCL_CONST const struct ccl_k_pair *pair = parts_pair(p, peer);
        if (c >= parts_chunks(p, b, pair->send_bytes)) {
            continue;
        }
        const uint64_t left = pair->send_bytes - off, bytes = left < a->piece_bytes ? left : a->piece_bytes;
        const uint64_t from = a->src + pair->send_off + off;
        if (b->base[d] != 0) {
            parts_move(b->base[d] + off, from, bytes, a->flags & CCL_F_STREAM);
        } else if (!once || !written) {
            parts_move(parts_slot(p, ccl_peer_ctl(a, peer), a->rank, once ? 0 : a->lay.shared_ring ? peer : 0, b->job.block, c), from, bytes, 0);
            written = 1;
        }
    }
    ccl_block_release_system();
    if (ccl_tid() < CCL_WARP) {
        parts_flag_release();
        for (uint32_t d = 1 + ccl_tid(); d < a->n; d += CCL_WARP) {
            const uint32_t peer = ccl_rotate(a, d), chunks = parts_chunks(p, b, parts_pair(p, peer)->send_bytes);
            if (c < chunks && (b->base[d] == 0 || c + 1 == chunks)) {
                parts_post(p, b, peer, 0, b->base[d] == 0 ? c + 1 : CCL_STEP_DONE);
            }
        }
        parts_notify(p);
    }
    return 1;
}

/* Wait until every source that has a chunk c has sent it (or stores directly), then copy the ring chunks out and give the slots back. False: an error. */
CCL_DEVICE uint32_t parts_drain(CCL_PARTS p, struct parts_block *b, uint32_t c)
{
    CCL_ARGS a = &p->c;
    const uint64_t off = (b->job.first + (uint64_t)c * b->job.stride) * a->piece_bytes, me = ccl_peer_ctl(a, a->rank);
    if (ccl_tid() < CCL_WARP) {
        for (uint32_t d = 1 + ccl_tid(); d < a->n; d += CCL_WARP) {
            const uint32_t chunks = parts_chunks(p, b, parts_pair(p, ccl_rotate(a, d))->recv_bytes);
            if (c < chunks) {
                parts_hear(p, b, d, c + 1, c + 1 == chunks ? CCL_STEP_DONE : 0);
            }
        }
    }
    ccl_block_sync();
    if (b->sh->bad != CCL_BAD_NONE) {
        return 0;
    }
    uint32_t credits = 0;
    for (uint32_t d = 1; d < a->n; d++) {
        const uint32_t src = ccl_rotate(a, d);
        CCL_CONST const struct ccl_k_pair *pair = parts_pair(p, src);
        const uint32_t chunks = parts_chunks(p, b, pair->recv_bytes);
        if (c < chunks && b->at[d] < CCL_STEP_DIRECT) {
            const uint64_t left = pair->recv_bytes - off, bytes = left < a->piece_bytes ? left : a->piece_bytes;
            const uint32_t sub = a->lay.shared_ring && !(p->parts & CCL_PARTS_SAME) ? a->rank : 0;
            parts_move(a->dst + pair->recv_off + off, parts_slot(p, me, src, sub, b->job.block, c), bytes, a->flags & CCL_F_STREAM);
            credits |= c + p->slots < chunks;
        }
    }
    if (!credits) { /* credits nobody waits for are not sent (Q) */
        return 1;
    }
    ccl_block_release_system(); /* all loads of the slots have returned */
    if (ccl_tid() < CCL_WARP) {
        parts_flag_release();
        for (uint32_t d = 1 + ccl_tid(); d < a->n; d += CCL_WARP) {
            const uint32_t src = ccl_rotate(a, d);
            if (c + p->slots < parts_chunks(p, b, parts_pair(p, src)->recv_bytes) && b->at[d] < CCL_STEP_DIRECT) {
                parts_post(p, b, src, 1, c + 1);
            }
        }
        parts_notify(p);
    }
    return 1;
}

/* Flag words of this block's row that nobody wrote in this operation get a recent tag, one column now and then. */
CCL_DEVICE void parts_leave(CCL_PARTS p, const struct parts_block *b)
{
    CCL_ARGS a = &p->c;
    uint32_t turn;
    if (ccl_tid() == 0 && __builtin_expect(ccl_scrub_turn(b->job.n, &turn), 0)) {
        const uint32_t x = turn % a->n;
        const uint64_t me = ccl_peer_ctl(a, a->rank);
        ccl_store_relaxed_system_u64(ccl_credit_addr(a, me, b->job.block, x), CCL_TAGGED(b->job.n, 0));
        if (x == a->rank || parts_chunks(p, b, parts_pair(p, x)->recv_bytes) == 0) {
            ccl_scrub_flag(ccl_full_addr(a, me, b->job.block, x), b->job.n);
        }
    }
}

CCL_DEVICE void parts_own(CCL_PARTS p, const struct parts_block *b)
{
    CCL_ARGS a = &p->c;
    CCL_CONST const struct ccl_k_pair *pair = parts_pair(p, a->rank);
    const uint64_t from = a->src + pair->send_off, to = a->dst + pair->recv_off;
    const uint32_t chunks = from != to ? parts_chunks(p, b, pair->recv_bytes) : 0;
    for (uint32_t c = 0; c < chunks; c++) {
        const uint64_t off = (b->job.first + (uint64_t)c * b->job.stride) * a->piece_bytes, left = pair->recv_bytes - off;
        parts_move(to + off, from + off, left < a->piece_bytes ? left : a->piece_bytes, a->flags & CCL_F_STREAM);
    }
}

/* Everything between the adverts and the exit. False: an error. */
CCL_DEVICE uint32_t parts_run(CCL_PARTS p, struct parts_block *b)
{
    CCL_ARGS a = &p->c;
    uint32_t pushes = 0, drains = 0;
    for (uint32_t d = 1; d < a->n; d++) {
        CCL_CONST const struct ccl_k_pair *pair = parts_pair(p, ccl_rotate(a, d));
        const uint32_t out = parts_chunks(p, b, pair->send_bytes), in = parts_chunks(p, b, pair->recv_bytes);
        pushes = out > pushes ? out : pushes;
        drains = in > drains ? in : drains;
        if (ccl_tid() == 0 && b->sh->staged && out != 0 && b->base[d] != 0) {
            parts_post(p, b, ccl_rotate(a, d), 0, CCL_STEP_DIRECT); /* nobody in lockstep waits for our DONE; nothing is published yet */
        }
    }
    const uint32_t lockstep = b->sh->staged, steps = lockstep && drains > pushes ? drains : pushes;
    for (uint32_t c = 0; c < steps; c++) {
        if (c < pushes && !parts_push(p, b, c)) {
            return 0;
        }
        if (lockstep && c < drains && !parts_drain(p, b, c)) {
            return 0;
        }
    }
    b->words_out = 1;
    if (ccl_tid() == 0) {
        CCL_TRACE_NOTE(a, b->job.n, CCL_TRACE_SENT);
    }
    for (uint32_t c = lockstep ? steps : 0; c < drains; c++) { /* a block that stores directly waits for nothing while it pushes */
        if (!parts_drain(p, b, c)) {
            return 0;
        }
    }
    return 1;
}

CCL_KERNEL(parts, struct ccl_k_parts_args)
{
    PARTS_MEMORY(memory);
    struct parts_block b = {&memory.sh, memory.base, memory.at, {0, 0, {0, 0, 0, 0}, 0, 0, 0}, 0};
    if (!parts_enter(a, &b)) {
        return;
    }
    const uint32_t own_first = parts_pair(a, a->c.rank)->recv_bytes <= CCL_OWN_FIRST_BYTES;
    if (own_first) {
        parts_own(a, &b); /* while the adverts travel */
    }
    if (!parts_meet(a, &b)) {
        return;
    }
    if (!own_first) {
        parts_own(a, &b);
    }
    const uint32_t good = parts_run(a, &b);
    ccl_block_sync();
    if (!good) {
        parts_failed(a, &b);
        return;
    }
    if (ccl_tid() == 0) {
        CCL_TRACE_NOTE(&a->c, b.job.n, CCL_TRACE_END);
    }
    parts_leave(a, &b);
}

CCL_KERNEL(parts_ll, struct ccl_k_parts_args)
{
    parts_ll_body(a);
}
