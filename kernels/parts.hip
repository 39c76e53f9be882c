/* SPDX-License-Identifier: MIT
 *
 * The copying collectives (all-to-all, broadcast, gather, scatter): what one rank has for another is cut into pieces, and block b moves pieces b,
 * b + grid, ... of every pair: straight into the peer's receive buffer where its advert names a window, else through a ring which the peer's block b
 * drains.
 * Bytes moved per rank: direct reads and writes what it sends; staged reads and writes it once more at the receiver (a broadcast through a shared ring is
 * written to the ring once, whatever the number of receivers). */
#include "parts_begin.h"

/* Does what goes to the rank d rotations on go piece by piece with the others: through a ring, and on a CPU directly too, so that a piece that several get is read
 * from the cache? Else parts_direct has stored all of it before the first piece. */
CCL_DEVICE uint32_t parts_by_piece(uint64_t base)
{
#if defined(CCL_ON_HOST)
    (void)base;
    return 1;
#else
    return base == 0;
#endif
}

CCL_DEVICE void parts_move(uint64_t dst, uint64_t src, uint64_t bytes, uint32_t stream)
{
    ccl_move_rows(dst, bytes, src, bytes, 1, bytes, stream);
}

CCL_DEVICE uint64_t parts_off(CCL_PARTS p, const struct parts_block *b, uint32_t c)
{
    return (b->job.first + (uint64_t)c * b->job.stride) * p->c.piece_bytes;
}

#if defined(CCL_ON_HOST)
CCL_DEVICE void parts_direct(CCL_PARTS p, struct parts_block *b) { (void)p, (void)b; }
#else
#include CCL_PARTS_DIRECT_BODY

/* All that is stored directly, and DONE for it. */
CCL_DEVICE void parts_direct(CCL_PARTS p, struct parts_block *b)
{
    uint32_t any = 0;
    for (uint32_t d = 1; d < p->c.n; d++) {
        any |= b->end[d].base != 0 && b->end[d].out != 0;
    }
    if (!ccl_uniform(any)) {
        return;
    }
    parts_store_direct(p, b);
    ccl_block_release_system();
    CCL_AFRESH(p);
    if (ccl_afresh(ccl_tid()) < CCL_WARP) {
        parts_flag_release();
        for (uint32_t d = 1 + ccl_tid(); d < p->c.n; d += CCL_WARP) {
            if (b->end[d].base != 0 && b->end[d].out != 0) {
                parts_post(p, b, ccl_rotate(&p->c, d), 0, CCL_STEP_DONE);
            }
        }
    }
}
#endif

/* First warp: wait for a free slot for chunk c at every staged destination that has one. */
CCL_DEVICE void parts_await_credits(CCL_PARTS p, struct parts_block *b, uint32_t c)
{
    CCL_ARGS a = &p->c;
    for (uint32_t d = 1 + ccl_tid(); d < a->n && c >= p->slots; d += CCL_WARP) {
        const uint32_t peer = ccl_rotate(a, d);
        uint32_t bad = CCL_BAD_NONE;
        if (b->end[d].base == 0 && c < b->end[d].out) {
            ccl_wait_word(a, ccl_credit_addr(a, ccl_peer_ctl(a, a->rank), b->job.block, peer), b->job.n, c - p->slots + 1, peer, 0, &bad);
        }
        if (bad) {
            push_set_bad(a, b->sh, bad, peer);
        }
        if (ccl_wave_any(bad)) {
            break;
        }
    }
}

/* Chunk c to every peer that has one. What goes directly is done with its last chunk. False: an error. */
CCL_DEVICE uint32_t parts_push(CCL_PARTS p, struct parts_block *b, uint32_t c)
{
    CCL_AFRESH(p);
    CCL_ARGS a = &p->c;
    const uint64_t off = parts_off(p, b, c);
    const uint32_t once = (p->parts & CCL_PARTS_SAME) && a->lay.shared_ring;
    uint32_t written = 0;
    if (ccl_afresh(ccl_tid()) < CCL_WARP) {
        parts_await_credits(p, b, c);
    }
    ccl_block_sync();
    if (parts_failed(b)) {
        return 0;
    }
    CCL_NO_UNROLL
    for (uint32_t d = 1; d < a->n; d++) {
        const uint64_t base = ccl_uniform_u64(b->end[d].base);
        if (c >= ccl_uniform(b->end[d].out) || !parts_by_piece(base)) {
            continue;
        }
        const uint32_t peer = ccl_rotate(a, d);
        CCL_CONST const struct ccl_k_pair *pair = parts_pair(p, peer);
        const uint64_t left = pair->send_bytes - off, bytes = left < a->piece_bytes ? left : a->piece_bytes;
        uint64_t to = base + off;
        if (base == 0) {
            if (once && written) {
                continue;
            }
            written = 1;
            to = parts_slot(p, ccl_peer_ctl(a, peer), a->rank, once ? 0 : a->lay.shared_ring ? peer : 0, b->job.block, c);
        }
        parts_move(to, a->src + pair->send_off + off, bytes, base != 0 ? a->flags & CCL_F_STREAM : 0);
    }
    ccl_block_release_system();
    CCL_AFRESH(p);
    if (ccl_afresh(ccl_tid()) < CCL_WARP) {
        parts_flag_release();
        for (uint32_t d = 1 + ccl_tid(); d < a->n; d += CCL_WARP) {
            const uint32_t chunks = b->end[d].out, ring = b->end[d].base == 0;
            if (c < chunks && parts_by_piece(b->end[d].base) && (ring || c + 1 == chunks)) {
                parts_post(p, b, ccl_rotate(a, d), 0, ring ? c + 1 : CCL_STEP_DONE);
            }
        }
        parts_notify(p);
    }
    return 1;
}

/* Wait for all sources that have a chunk c: until each has sent it (or stores directly, and is done if it was its last one); rest, a constant: until each is done, which
 * all must store directly for. False: an error. */
CCL_DEVICE uint32_t parts_hear_all(CCL_PARTS p, struct parts_block *b, uint32_t c, const uint32_t rest)
{
    CCL_AFRESH(p);
    if (ccl_afresh(ccl_tid()) < CCL_WARP) {
        for (uint32_t d = 1 + ccl_tid(); d < p->c.n; d += CCL_WARP) {
            const uint32_t chunks = b->end[d].in;
            uint32_t bad = CCL_BAD_NONE;
            if (c < chunks) {
                bad = parts_hear(p, b, d, rest ? CCL_STEP_DONE : c + 1, !rest && c + 1 == chunks ? CCL_STEP_DONE : 0);
            }
            if (ccl_wave_any(bad)) {
                break;
            }
        }
    }
    ccl_block_sync();
    return !parts_failed(b);
}

enum parts_drained { PARTS_FAILED, PARTS_DRAINED, PARTS_REST_DIRECT /* what comes behind this chunk is stored directly */ };

/* Wait for chunk c of all, copy what came by rings and give the slots back. */
CCL_DEVICE enum parts_drained parts_drain(CCL_PARTS p, struct parts_block *b, uint32_t c)
{
    CCL_AFRESH(p);
    CCL_ARGS a = &p->c;
    const uint64_t off = parts_off(p, b, c), me = ccl_peer_ctl(a, a->rank);
    if (!parts_hear_all(p, b, c, 0)) {
        return PARTS_FAILED;
    }
    uint32_t credits = 0, rings = 0;
    CCL_NO_UNROLL
    for (uint32_t d = 1; d < a->n; d++) {
        const uint32_t src = ccl_rotate(a, d), chunks = ccl_uniform(b->end[d].in);
        if (c < chunks && ccl_uniform(b->end[d].at) < CCL_STEP_DIRECT) {
            CCL_CONST const struct ccl_k_pair *pair = parts_pair(p, src);
            const uint64_t left = pair->recv_bytes - off, bytes = left < a->piece_bytes ? left : a->piece_bytes;
            const uint32_t sub = a->lay.shared_ring && !(p->parts & CCL_PARTS_SAME) ? a->rank : 0;
            parts_move(a->dst + pair->recv_off + off, parts_slot(p, me, src, sub, b->job.block, c), bytes, a->flags & CCL_F_STREAM);
            credits |= c + p->slots < chunks;
            rings |= c + 1 < chunks;
        }
    }
    if (!credits) { /* credits nobody waits for are not sent (Q) */
        ccl_block_sync(); /* all threads have read what the next wait writes */
        return rings ? PARTS_DRAINED : PARTS_REST_DIRECT;
    }
    ccl_block_release_system(); /* all loads of the slots have returned */
    CCL_AFRESH(p);
    if (ccl_afresh(ccl_tid()) < CCL_WARP) {
        parts_flag_release();
        for (uint32_t d = 1 + ccl_tid(); d < a->n; d += CCL_WARP) {
            if (c + p->slots < b->end[d].in && b->end[d].at < CCL_STEP_DIRECT) {
                parts_post(p, b, ccl_rotate(a, d), 1, c + 1);
            }
        }
        parts_notify(p);
    }
    return PARTS_DRAINED;
}

/* Flag words of this block's row that nobody wrote in this operation get a recent tag, one column now and then. */
CCL_DEVICE void parts_leave(CCL_PARTS p, const struct parts_block *b)
{
    CCL_AFRESH(p);
    CCL_ARGS a = &p->c;
    uint32_t turn;
    if (ccl_afresh(ccl_tid()) == 0 && __builtin_expect(ccl_scrub_turn(b->job.n, &turn), 0)) {
        const uint32_t x = turn % a->n, d = x >= a->rank ? x - a->rank : x + a->n - a->rank;
        const uint64_t me = ccl_peer_ctl(a, a->rank);
        ccl_store_relaxed_system_u64(ccl_credit_addr(a, me, b->job.block, x), CCL_TAGGED(b->job.n, 0));
        if (d == 0 || b->end[d].in == 0) {
            ccl_scrub_flag(ccl_full_addr(a, me, b->job.block, x), b->job.n);
        }
    }
}

CCL_DEVICE void parts_own(CCL_PARTS p, const struct parts_block *b)
{
    CCL_AFRESH(p);
    CCL_ARGS a = &p->c;
    CCL_CONST const struct ccl_k_pair *pair = parts_pair(p, a->rank);
    const uint64_t from = a->src + pair->send_off, to = a->dst + pair->recv_off;
#if defined(CCL_ON_NVIDIA)
    if (from != to) {
        parts_stream_all(p, b, 0, 1);
    }
#else
    const uint32_t chunks = from != to ? parts_chunks(p, b, pair->recv_bytes) : 0;
    CCL_NO_UNROLL
    for (uint32_t c = 0; c < chunks; c++) {
        const uint64_t off = parts_off(p, b, c), left = pair->recv_bytes - off;
        parts_move(to + off, from + off, left < a->piece_bytes ? left : a->piece_bytes, a->flags & CCL_F_STREAM);
    }
#endif
}

/* Chunks that this block pushes piece by piece, and drains. Who does both says DIRECT to those it stores to directly: nobody in lockstep waits for its DONE. */
CCL_DEVICE void parts_count(CCL_PARTS p, const struct parts_block *b, uint32_t *pushes, uint32_t *drains)
{
    *pushes = *drains = 0;
    for (uint32_t d = 1; d < p->c.n; d++) {
        const uint32_t out = ccl_uniform(b->end[d].out), in = ccl_uniform(b->end[d].in);
        const uint64_t base = ccl_uniform_u64(b->end[d].base);
        *pushes = out > *pushes && parts_by_piece(base) ? out : *pushes;
        *drains = in > *drains ? in : *drains;
    }
}

/* Everything between the adverts and the exit. False: an error. */
CCL_DEVICE uint32_t parts_run(CCL_PARTS p, struct parts_block *b)
{
    CCL_AFRESH(p);
    CCL_ARGS a = &p->c;
    const uint32_t lockstep = ccl_uniform(b->sh->staged);
    uint32_t pushes, drains;
    if (ccl_afresh(ccl_tid()) < CCL_WARP && lockstep) {
        for (uint32_t d = 1 + ccl_tid(); d < a->n; d += CCL_WARP) {
            if (b->end[d].out != 0 && b->end[d].base != 0) {
                parts_post(p, b, ccl_rotate(a, d), 0, CCL_STEP_DIRECT); /* nobody in lockstep waits for our DONE; nothing is published yet */
            }
        }
    }
    parts_direct(p, b);
    parts_count(p, b, &pushes, &drains);
    ccl_block_sync(); /* all threads have read what the first wait writes */
    const uint32_t steps = lockstep && drains > pushes ? drains : pushes;
    CCL_NO_UNROLL
    for (uint32_t c = 0; c < steps; c++) {
        if (c < pushes && !parts_push(p, b, c)) {
            return 0;
        }
        if (lockstep && c < drains && parts_drain(p, b, c) == PARTS_FAILED) {
            return 0;
        }
    }
    if (ccl_afresh(ccl_tid()) == 0) {
        *b->words_out = 1;
    }
    CCL_TRACE_NOTE_FIRST(a, b->job.n, CCL_TRACE_SENT);
    CCL_NO_UNROLL
    for (uint32_t c = lockstep ? steps : 0; c < drains; c++) { /* a block that stores directly waits for nothing while it pushes */
        const enum parts_drained drained = parts_drain(p, b, c);
        if (drained == PARTS_FAILED) {
            return 0;
        }
        if (drained == PARTS_REST_DIRECT) {
            return parts_hear_all(p, b, c + 1, 1); /* one look for all, where chunk after chunk would cost a round trip each */
        }
    }
    return 1;
}

/* ISA parts: vgpr 128, sgpr 106, lds 2048, waves 4, tile 8, pairs 8, live 104 */
CCL_KERNEL_LARGE(parts, struct ccl_k_parts_args)
{
    PARTS_MEMORY(memory);
    struct parts_block b = {&memory.sh, memory.end, &memory.words_out, {0, 0, {0, 0, 0, 0}, 0, 0, 0}};
    if (parts_enter(a, &b)) {
        const uint32_t own_first = parts_pair(a, a->c.rank)->recv_bytes <= CCL_OWN_FIRST_BYTES;
        if (own_first) {
            parts_own(a, &b); /* while the adverts travel */
        }
        if (parts_meet(a, &b, 0, 0)) {
            if (!own_first) {
                parts_own(a, &b);
            }
            if (parts_run(a, &b)) {
                CCL_TRACE_NOTE_FIRST(&a->c, b.job.n, CCL_TRACE_END);
                parts_leave(a, &b);
            }
        }
    }
    parts_exit(a, &b);
}
