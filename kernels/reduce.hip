/* SPDX-License-Identifier: MIT
 *
 * The reducing collectives (all-reduce, reduce-scatter, reduce) in two phases. Chunk c has a piece for every rank, its owner:
 *     every rank   stores its elements of each piece into a ring for the owner             full: contribution c
 *     the owner    joins the contributions in the order of ranks, stores the result into the output of all (all-reduce), of root (reduce) or its own,
 *                  directly where it is in a window, else through a ring                    full: result c
 * The element of a piece is computed once, so all ranks get the same bits. In place works: an owner stores a result only after it holds the contributions, so
 * nobody reads the input of that piece any more.
 * One chunk ahead: contribution c + 1 leaves before c is joined (with more than one ring slot). Steps of `full`: contributions 1, 2, 4, 6, ..., results 3, 5,
 * 7, ...; without the look-ahead 1, 3, 5, ... and 2, 4, ... With DIRECT where the source stores results directly, DONE for its last result.
 * Slots: result c of an owner tells that it has read contribution c; a rank contributes c + 2 (K = 1: c + 1) only after it has drained the results of c, so
 * an owner that holds these may store the result over that of c. Who gets no result gets a credit instead.
 * Bytes moved per rank, input S, all-reduce: reads S and writes (n-1)/n S to rings; reads S, writes S results.
 * Without rings (reduce_flat.h), on GPUs where all inputs and outputs are in windows: reads S, writes S. */
#include "parts_begin.h"
#include "reduce_elements.h"

#define REDUCE_MEMORY(name)                 \
    CCL_SHARED struct {                     \
        struct push_shared sh;              \
        uint32_t words_out;                 \
        struct parts_end end[PARTS_RANKS];  \
        uint64_t in[PARTS_RANKS];           \
        uint64_t from[PARTS_RANKS];         \
        uint64_t to[PARTS_RANKS + 1];       \
        uint32_t num_to;                    \
    } name

struct reduce_block {
    struct parts_block b;
    uint64_t *in, *to; /* where the elements of a piece come from, by rank; where they go */
    uint32_t *num_to;
    uint64_t *from;     /* inputs in windows, by rotation */
};

struct reduce_piece {
    uint64_t start, out, count; /* elements: in the input, in the output */
};

CCL_DEVICE struct reduce_piece reduce_piece_of(CCL_PARTS p, const struct parts_block *b, uint32_t c, uint32_t owner)
{
#if !defined(__AMDGCN__) || __clang_major__ >= 16 /* clang 15: "illegal SGPR to VGPR copy" */
    c = ccl_uniform(c);
    CCL_AFRESH(c); /* no 64-bit counter of its own */
#endif
    const uint64_t chunk = b->job.first + (uint64_t)c * b->job.stride;
    const uint32_t scatter = p->parts & CCL_PARTS_SCATTER;
    const uint64_t first = owner * p->owner_stride, end = scatter ? first + p->count : p->count;
    struct reduce_piece r;
    r.start = first + chunk * p->chunk_stride;
    r.out = scatter ? r.start - first : r.start;
    r.count = r.start >= end ? 0 : end - r.start < p->piece ? end - r.start : p->piece;
    return r;
}

/* Chunks that contributions leave before the join. */
CCL_DEVICE uint32_t reduce_ahead(CCL_PARTS p) { return p->slots > 1; }
CCL_DEVICE uint32_t reduce_step_in(CCL_PARTS p, uint32_t c) { return reduce_ahead(p) ? (c == 0 ? 1 : 2 * c) : 2 * c + 1; }
CCL_DEVICE uint32_t reduce_step_out(CCL_PARTS p, uint32_t c) { return reduce_ahead(p) ? 2 * c + 3 : 2 * c + 2; }

/* Store `full` at all peers: those that I store results to directly see it by the bit. */
CCL_DEVICE void reduce_post(CCL_PARTS p, const struct reduce_block *r, uint32_t d, uint32_t step)
{
    const uint32_t peer = ccl_rotate(&p->c, d);
    const uint32_t direct = r->b.end[d].base != 0 && parts_receives(p, peer) ? CCL_STEP_DIRECT : 0;
    parts_post(p, &r->b, peer, 0, step | direct);
}

#include "reduce_flat.h"

/* The own elements of chunk c to their owners' rings. False: an error. */
CCL_DEVICE uint32_t reduce_contribute(CCL_PARTS p, struct reduce_block *r, uint32_t c)
{
    CCL_AFRESH(p);
    CCL_ARGS a = &p->c;
    struct parts_block *b = &r->b;
    if (ccl_afresh(ccl_tid()) < CCL_WARP && c >= p->slots && !parts_receives(p, a->rank)) {
        for (uint32_t d = 1 + ccl_tid(); d < a->n; d += CCL_WARP) {
            const uint32_t owner = ccl_rotate(a, d);
            uint32_t bad = CCL_BAD_NONE;
            ccl_wait_word(a, ccl_credit_addr(a, ccl_peer_ctl(a, a->rank), b->job.block, owner), b->job.n, REDUCE_SAID + c - p->slots + 1, owner, 0, &bad);
            if (bad) {
                push_set_bad(a, b->sh, bad, owner);
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
    CCL_NO_UNROLL
    for (uint32_t d = 1; d < a->n; d++) {
        const uint32_t owner = ccl_rotate(a, d);
        const struct reduce_piece piece = reduce_piece_of(p, b, c, owner);
        const uint64_t slot = parts_slot(p, ccl_peer_ctl(a, owner), a->rank, a->lay.shared_ring ? owner : 0, b->job.block, c);
        const uint64_t from = a->src + piece.start * p->esize, bytes = piece.count * p->esize;
        if (bytes == 0) {
            continue;
        }
        if (p->parts & CCL_PARTS_SCALED) {
            reduce_scale(p, slot, from, piece.count);
        } else {
            ccl_move_run(slot, from, bytes, 0);
        }
    }
    ccl_block_release_system();
    CCL_AFRESH(p);
    if (ccl_afresh(ccl_tid()) < CCL_WARP) {
        parts_flag_release();
        for (uint32_t d = 1 + ccl_tid(); d < a->n; d += CCL_WARP) {
            reduce_post(p, r, d, reduce_step_in(p, c));
        }
        parts_notify(p);
    }
    return 1;
}

/* First thread: the sources of the own piece of chunk c, by rank, and its destinations: own output or a ring first, then the peers in rotated order. */
CCL_DEVICE void reduce_places(CCL_PARTS p, struct reduce_block *r, uint32_t c, struct reduce_piece piece)
{
    CCL_ARGS a = &p->c;
    const struct parts_block *b = &r->b;
    const uint32_t shared = a->lay.shared_ring;
    const uint64_t me = ccl_peer_ctl(a, a->rank), own_slot = parts_slot(p, me, a->rank, shared ? a->rank : 1, b->job.block, c);
    const uint64_t out = piece.out * p->esize;
    uint32_t num = 0, in_ring = 0;
    for (uint32_t src = 0; src < a->n; src++) {
        r->in[src] = parts_slot(p, me, src, shared ? a->rank : 0, b->job.block, c);
    }
    r->in[a->rank] = p->parts & CCL_PARTS_SCALED ? own_slot : a->src + piece.start * p->esize;
#if defined(CCL_ON_HOST)
    if (a->flags & CCL_F_STREAM) { /* computed in the cache, then stored around it */
        r->to[num++] = own_slot;
        in_ring = 1;
    }
#endif
    if (parts_receives(p, a->rank) || (p->parts & CCL_PARTS_SCATTER)) {
        r->to[num++] = a->dst + out;
    }
    for (uint32_t d = 1; d < a->n; d++) {
        const uint32_t peer = ccl_rotate(a, d);
        if (!parts_receives(p, peer)) {
            continue;
        }
        if (b->end[d].base != 0) {
            r->to[num++] = b->end[d].base + out;
        } else if (!shared) {
            r->to[num++] = parts_slot(p, ccl_peer_ctl(a, peer), a->rank, 1, b->job.block, c);
        } else if (!in_ring) {
            r->to[num++] = own_slot;
            in_ring = 1;
        }
    }
    *r->num_to = num;
}

/* Own piece of chunk c: hear from all, join, store the result, tell. False: an error. */
CCL_DEVICE uint32_t reduce_own(CCL_PARTS p, struct reduce_block *r, uint32_t c)
{
    CCL_AFRESH(p);
    CCL_ARGS a = &p->c;
    struct parts_block *b = &r->b;
    const uint32_t flat = REDUCE_FLAT(r);
    const struct reduce_piece piece = flat ? reduce_shard(p) : reduce_piece_of(p, b, c, a->rank);
    if (ccl_afresh(ccl_tid()) < CCL_WARP) {
        const uint32_t step = reduce_step_in(p, c);
        for (uint32_t d = 1 + ccl_tid(); d < a->n && !flat; d += CCL_WARP) {
            if (ccl_wave_any(parts_hear(p, b, d, step, step | CCL_STEP_DIRECT))) {
                break;
            }
        }
        if (ccl_afresh(ccl_tid()) == 0) {
            if (flat) {
                reduce_flat_places(p, r, piece);
            } else {
                reduce_places(p, r, c, piece);
            }
        }
    }
    ccl_block_sync();
    if (parts_failed(b)) {
        return 0;
    }
    if (piece.count != 0) {
        if (p->parts & CCL_PARTS_SCALED) {
            reduce_scale(p, r->in[a->rank], a->src + piece.start * p->esize, piece.count);
            ccl_block_release_system(); /* other threads read it, */
            ccl_block_sync();           /* on RDNA through another first cache: every wave drops its own */
        }
        reduce_join_share(p, r->to, ccl_uniform(*r->num_to), r->in, piece.count, flat ? ccl_bid() : 0, flat ? ccl_uniform(ccl_grid()) : 1, flat);
    }
    ccl_block_release_system();
    CCL_AFRESH(p);
    if (ccl_afresh(ccl_tid()) < CCL_WARP) {
        const uint32_t last = c + 1 == b->job.chunks;
        parts_flag_release();
        for (uint32_t d = 1 + ccl_tid(); d < a->n; d += CCL_WARP) {
            const uint32_t peer = ccl_rotate(a, d);
            if (flat || (parts_receives(p, peer) && last && b->end[d].base != 0)) {
                parts_post(p, b, peer, 0, CCL_STEP_DONE);
            } else if (parts_receives(p, peer)) {
                reduce_post(p, r, d, reduce_step_out(p, c));
            } else if (c + p->slots < b->job.chunks) { /* credits nobody waits for are not sent (Q) */
                parts_post(p, b, peer, 1, REDUCE_SAID + c + 1);
            }
        }
        parts_notify(p);
    }
    if (ccl_afresh(ccl_tid()) == 0) {
        *b->words_out = c + 1 == b->job.chunks;
    }
    return 1;
}

/* The results of chunk c of all other owners; flat: they have read this rank's input, too. False: an error. */
CCL_DEVICE uint32_t reduce_drain(CCL_PARTS p, struct reduce_block *r, uint32_t c)
{
    CCL_AFRESH(p);
    CCL_ARGS a = &p->c;
    struct parts_block *b = &r->b;
    if (ccl_afresh(ccl_tid()) < CCL_WARP) {
        const uint32_t step = REDUCE_FLAT(r) ? CCL_STEP_DONE : reduce_step_out(p, c);
        for (uint32_t d = 1 + ccl_tid(); d < a->n; d += CCL_WARP) {
            if (ccl_wave_any(parts_hear(p, b, d, step, step | CCL_STEP_DIRECT))) {
                break;
            }
        }
    }
    ccl_block_sync();
    if (parts_failed(b)) {
        return 0;
    }
    CCL_NO_UNROLL
    for (uint32_t d = 1; d < a->n; d++) {
        const uint32_t owner = ccl_rotate(a, d);
        const struct reduce_piece piece = reduce_piece_of(p, b, c, owner);
        if (ccl_uniform(b->end[d].at) < CCL_STEP_DIRECT && piece.count != 0) {
            const uint64_t slot = parts_slot(p, ccl_peer_ctl(a, a->rank), owner, a->lay.shared_ring ? owner : 1, b->job.block, c);
            const uint64_t bytes = piece.count * p->esize;
            ccl_move_run(a->dst + piece.out * p->esize, slot, bytes, a->flags & CCL_F_STREAM);
        }
    }
    ccl_block_sync(); /* all threads have read what the next wait writes */
    return 1;
}

CCL_DEVICE uint32_t reduce_run(CCL_PARTS p, struct reduce_block *r)
{
    uint32_t contributed = 0;
    if (REDUCE_MAY_BE_FLAT(p, r) && !reduce_agree(p, r)) {
        return 0;
    }
    if (REDUCE_FLAT(r)) {
        contributed = r->b.job.chunks = 1;
    }
    const uint32_t chunks = ccl_uniform(r->b.job.chunks);
    CCL_NO_UNROLL
    for (uint32_t c = 0; c < chunks; c++) {
        CCL_NO_UNROLL
        for (; contributed < chunks && contributed <= c + reduce_ahead(p); contributed++) {
            if (!reduce_contribute(p, r, contributed)) {
                return 0;
            }
        }
        if (!reduce_own(p, r, c)) {
            return 0;
        }
        CCL_AFRESH(p);
        if ((REDUCE_FLAT(r) || parts_receives(p, p->c.rank)) && !reduce_drain(p, r, c)) {
            return 0;
        }
    }
    return 1;
}

/* ISA reduce: vgpr 128, sgpr 106, lds 4096, waves 4 */
CCL_KERNEL_REDUCE(reduce, struct ccl_k_parts_args)
{
    REDUCE_MEMORY(memory);
    struct reduce_block r = {{&memory.sh, memory.end, &memory.words_out, {0, 0, {0, 0, 0, 0}, 0, 0, 0}}, memory.in, memory.to, &memory.num_to, memory.from};
    r.b.job.chunks = push_count(a->chunks, ccl_bid(), ccl_uniform(ccl_grid()));
    if (parts_enter(a, &r.b) && parts_meet(a, &r.b, REDUCE_PULLS, r.from) && reduce_run(a, &r)) {
        CCL_TRACE_NOTE_FIRST(&a->c, r.b.job.n, CCL_TRACE_SENT);
        CCL_TRACE_NOTE_FIRST(&a->c, r.b.job.n, CCL_TRACE_END);
        push_leave(&a->c, &r.b.job);
    }
    parts_exit(a, &r.b);
}
