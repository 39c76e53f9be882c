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

#define PARTS_NONE 0xffffffffu /* no chunk */
#if defined(CCL_ON_HOST)
#define PARTS_LAG(slots) 0u /* what has been sent is in the cache now */
#else
#define PARTS_LAG(slots) ((slots) >= 4 ? 2u : (slots) >= 2 ? 1u : 0u)
#endif

CCL_DEVICE uint64_t parts_off(CCL_PARTS p, const struct parts_block *b, uint32_t c)
{
    return (b->job.first + (uint64_t)c * b->job.stride) * p->c.piece_bytes;
}

#if defined(CCL_ON_HOST)
CCL_DEVICE uint32_t parts_direct(CCL_PARTS p, struct parts_block *b, uint32_t own) { return (void)p, (void)b, own; }
#else
#include CCL_PARTS_DIRECT_BODY

/* All that is stored directly, and DONE for it. own: the own part too, side by side with the others, whose links would be idle meanwhile. Returns what is left of own. */
CCL_DEVICE uint32_t parts_direct(CCL_PARTS p, struct parts_block *b, uint32_t own)
{
    uint32_t any = 0; /* alike in all blocks: the own part is cut into tiles here, else into pieces */
    for (uint32_t d = 1; d < p->c.n; d++) {
        any |= b->end[d].base != 0 && parts_pair(p, ccl_rotate(&p->c, d))->send_bytes != 0;
    }
    if (!ccl_uniform(any)) {
        return own;
    }
    parts_store_direct(p, b, own ? 0 : 1);
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
    return 0;
}
#endif

/* First warp, the lane of rotation d: wait for a free slot there for chunk c, if it is staged. Not 0: an error. */
CCL_DEVICE uint32_t parts_await_slot(CCL_PARTS p, struct parts_block *b, uint32_t d, uint32_t c)
{
    CCL_ARGS a = &p->c;
    uint32_t bad = CCL_BAD_NONE;
    if (c >= p->slots && b->end[d].base == 0 && c < b->end[d].out) {
        const uint32_t peer = ccl_rotate(a, d);
        ccl_wait_word(a, ccl_credit_addr(a, ccl_peer_ctl(a, a->rank), b->job.block, peer), b->job.n, c - p->slots + 1, peer, 0, &bad);
        if (bad) {
            push_set_bad(a, b->sh, bad, peer);
        }
    }
    return bad;
}

/* First warp, the lane of rotation d: until that source has sent chunk c, if it has one (or stores directly, and is done if it was its last one). Not 0: an error. */
CCL_DEVICE uint32_t parts_await_chunk(CCL_PARTS p, struct parts_block *b, uint32_t d, uint32_t c)
{
    const uint32_t chunks = b->end[d].in;
    return c < chunks ? parts_hear(p, b, d, c + 1, c + 1 == chunks ? CCL_STEP_DONE : 0) : CCL_BAD_NONE;
}

/* Chunk c to every peer that gets it through this function; own: and of the own part. */
CCL_DEVICE void parts_push(CCL_PARTS p, const struct parts_block *b, uint32_t c, uint32_t own)
{
    CCL_ARGS a = &p->c;
    const uint64_t off = parts_off(p, b, c);
    const uint32_t once = (p->parts & CCL_PARTS_SAME) && a->lay.shared_ring;
    uint32_t written = 0;
    CCL_NO_UNROLL
    for (uint32_t k = 1; k < a->n + own; k++) {
        const uint32_t d = k == a->n ? 0 : k;
        const uint64_t base = ccl_uniform_u64(b->end[d].base);
        if (c >= ccl_uniform(b->end[d].out) || (d != 0 && !parts_by_piece(base))) {
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
        ccl_move_run(to, a->src + pair->send_off + off, bytes, base != 0 ? a->flags & CCL_F_STREAM : 0);
    }
}

/* First warp, the lane of rotation d, behind a release: chunk c is there. What goes directly is done with its last chunk. */
CCL_DEVICE void parts_post_chunk(CCL_PARTS p, const struct parts_block *b, uint32_t d, uint32_t c)
{
    const uint32_t chunks = b->end[d].out, ring = b->end[d].base == 0;
    if (c < chunks && parts_by_piece(b->end[d].base) && (ring || c + 1 == chunks)) {
        parts_post(p, b, ccl_rotate(&p->c, d), 0, ring ? c + 1 : CCL_STEP_DONE);
    }
}

enum { PARTS_WENT_WELL = 1, PARTS_CREDITS = 2, PARTS_RINGS = 4 };

/* Copy what came by rings of chunk c. Returns whether somebody waits for the slots, and whether something more comes by rings. */
CCL_DEVICE uint32_t parts_drain(CCL_PARTS p, const struct parts_block *b, uint32_t c)
{
    CCL_ARGS a = &p->c;
    const uint64_t off = parts_off(p, b, c), me = ccl_peer_ctl(a, a->rank);
    uint32_t then = 0;
    CCL_NO_UNROLL
    for (uint32_t d = 1; d < a->n; d++) {
        const uint32_t src = ccl_rotate(a, d), chunks = ccl_uniform(b->end[d].in);
        if (c < chunks && ccl_uniform(b->end[d].at) < CCL_STEP_DIRECT) {
            CCL_CONST const struct ccl_k_pair *pair = parts_pair(p, src);
            const uint64_t left = pair->recv_bytes - off, bytes = left < a->piece_bytes ? left : a->piece_bytes;
            const uint32_t sub = a->lay.shared_ring && !(p->parts & CCL_PARTS_SAME) ? a->rank : 0;
            ccl_move_run(a->dst + pair->recv_off + off, parts_slot(p, me, src, sub, b->job.block, c), bytes, a->flags & CCL_F_STREAM);
            then |= (chunks - c > p->slots ? PARTS_CREDITS : 0) | (c + 1 < chunks ? PARTS_RINGS : 0);
        }
    }
    return then;
}

/* First warp, the lane of rotation d, behind a release: the slot of chunk c has been read. Credits nobody waits for are not sent (Q). */
CCL_DEVICE void parts_post_credit(CCL_PARTS p, const struct parts_block *b, uint32_t d, uint32_t c)
{
    const uint32_t chunks = b->end[d].in;
    if (c < chunks && chunks - c > p->slots && b->end[d].at < CCL_STEP_DIRECT) {
        parts_post(p, b, ccl_rotate(&p->c, d), 1, c + 1);
    }
}

/* One step: chunk c to all, chunk old of all; both are published together. Either may be PARTS_NONE. Returns 0 for an error; else PARTS_WENT_WELL, and with PARTS_RINGS when more comes by rings. */
CCL_DEVICE uint32_t parts_step(CCL_PARTS p, struct parts_block *b, uint32_t c, uint32_t old, uint32_t pushes, uint32_t own)
{
    CCL_AFRESH(p);
    CCL_ARGS a = &p->c;
    if (ccl_afresh(ccl_tid()) < CCL_WARP) {
        for (uint32_t d = 1 + ccl_tid(); d < a->n; d += CCL_WARP) {
            if (ccl_wave_any(parts_await_slot(p, b, d, c)) || ccl_wave_any(parts_await_chunk(p, b, d, old))) {
                break;
            }
        }
    }
    ccl_block_sync();
    if (parts_failed(b)) {
        return 0;
    }
    parts_push(p, b, c, own);
    const uint32_t then = parts_drain(p, b, old) | PARTS_WENT_WELL;
    if (c == PARTS_NONE && !(then & PARTS_CREDITS)) {
        ccl_block_sync(); /* all threads have read what the next wait writes */
        return then;
    }
    ccl_block_release_system(); /* behind all loads of slots, too */
    CCL_AFRESH(p);
    if (ccl_afresh(ccl_tid()) < CCL_WARP) {
        parts_flag_release();
        for (uint32_t d = 1 + ccl_tid(); d < a->n; d += CCL_WARP) {
            parts_post_chunk(p, b, d, c);
            parts_post_credit(p, b, d, old);
        }
        parts_notify(p);
        if (ccl_afresh(ccl_tid()) == 0 && c + 1 == pushes) {
            *b->words_out = 1;
        }
    }
    return then;
}

/* First warp: all sources are done, which from chunk c on store directly. */
CCL_DEVICE uint32_t parts_hear_rest(CCL_PARTS p, struct parts_block *b, uint32_t c)
{
    CCL_AFRESH(p);
    if (ccl_afresh(ccl_tid()) < CCL_WARP) {
        for (uint32_t d = 1 + ccl_tid(); d < p->c.n; d += CCL_WARP) {
            if (ccl_wave_any(c < b->end[d].in ? parts_hear(p, b, d, CCL_STEP_DONE, 0) : CCL_BAD_NONE)) {
                break;
            }
        }
    }
    ccl_block_sync();
    return !parts_failed(b);
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

/* The own part, before the peers are heard of. */
CCL_DEVICE void parts_own(CCL_PARTS p, const struct parts_block *b, uint64_t from, uint64_t to)
{
    const uint64_t bytes = parts_pair(p, p->c.rank)->recv_bytes;
    const uint32_t chunks = parts_chunks(p, b, bytes);
    CCL_NO_UNROLL
    for (uint32_t c = 0; c < chunks; c++) {
        const uint64_t off = parts_off(p, b, c), left = bytes - off;
        ccl_move_run(to + off, from + off, left < p->c.piece_bytes ? left : p->c.piece_bytes, p->c.flags & CCL_F_STREAM);
    }
}

/* Chunks that this block pushes piece by piece, and drains. */
CCL_DEVICE void parts_count(CCL_PARTS p, const struct parts_block *b, uint32_t own, uint32_t *pushes, uint32_t *drains)
{
    *pushes = own ? ccl_uniform(b->end[0].out) : 0;
    *drains = 0;
    for (uint32_t d = 1; d < p->c.n; d++) {
        const uint32_t out = ccl_uniform(b->end[d].out), in = ccl_uniform(b->end[d].in);
        const uint64_t base = ccl_uniform_u64(b->end[d].base);
        *pushes = out > *pushes && parts_by_piece(base) ? out : *pushes;
        *drains = in > *drains ? in : *drains;
    }
}

/* Everything between the adverts and the exit; own: the own part too. A block that stages for somebody drains in the same steps, chunks that its sources have sent PARTS_LAG steps
 * before or, where that is 0, in this step; who stages nothing waits for nothing while it pushes, and drains behind it. False: an error. */
CCL_DEVICE uint32_t parts_run(CCL_PARTS p, struct parts_block *b, uint32_t own)
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
    own = parts_direct(p, b, own);
    parts_count(p, b, own, &pushes, &drains);
    ccl_block_sync(); /* all threads have read what the first wait writes */
    const uint32_t lag = lockstep ? PARTS_LAG(p->slots) : pushes, twice = lag == 0 && lockstep;
    const uint32_t most = drains != 0 && drains + lag > pushes ? drains + lag : pushes, steps = most << twice;
    if (pushes == 0) {
        if (ccl_afresh(ccl_tid()) == 0) {
            *b->words_out = 1;
        }
        CCL_TRACE_NOTE_FIRST(a, b->job.n, CCL_TRACE_SENT);
    }
    CCL_NO_UNROLL
    for (uint32_t s = 0; s < steps; s++) {
        const uint32_t at = s >> twice;
        const uint32_t c = at < pushes && !(s & twice) ? at : PARTS_NONE;
        const uint32_t old = at >= lag && at - lag < drains && (s & twice) == twice ? at - lag : PARTS_NONE;
        const uint32_t went = parts_step(p, b, c, old, pushes, own);
        if (!went) {
            return 0;
        }
        if (c != PARTS_NONE && c + 1 == pushes) {
            CCL_TRACE_NOTE_FIRST(a, b->job.n, CCL_TRACE_SENT);
        }
        if (!lockstep && old != PARTS_NONE && !(went & PARTS_RINGS)) {
            return parts_hear_rest(p, b, old + 1); /* one look for all, where chunk after chunk would cost a round trip each */
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
        CCL_CONST const struct ccl_k_pair *pair = parts_pair(a, a->c.rank);
        const uint64_t from = a->c.src + pair->send_off, to = a->c.dst + pair->recv_off;
        uint32_t own = from != to && pair->recv_bytes != 0;
        if (ccl_afresh(ccl_tid()) == 0) {
            memory.end[0].base = to;
            memory.end[0].out = own ? parts_chunks(a, &b, pair->recv_bytes) : 0;
        }
        if (own && pair->recv_bytes <= CCL_OWN_FIRST_BYTES) {
            parts_own(a, &b, from, to); /* while the adverts travel */
            own = 0;
        }
        if (parts_meet(a, &b, 0, 0) && parts_run(a, &b, own)) {
            CCL_TRACE_NOTE_FIRST(&a->c, b.job.n, CCL_TRACE_END);
            parts_leave(a, &b);
        }
    }
    parts_exit(a, &b);
}
