/* SPDX-License-Identifier: MIT
 *
 * The reducing collectives (all-reduce, reduce-scatter, reduce) in two phases. Chunk c has a piece for every rank, its owner:
 *     every rank   stores its elements of each piece into a ring for the owner             full: contribution c
 *     the owner    joins the contributions in the order of ranks, stores the result into the output of all (all-reduce), of root (reduce) or its own,
 *                  directly where it is in a window, else through a ring                    full: result c
 * The element of a piece is computed once, so all ranks get the same bits. In place works: an owner stores a result only after it holds the contributions, so
 * nobody reads the input of that piece any more. How chunks follow each other: GPUs reduce_steps.h, CPU reduce_turns.h.
 * Bytes moved per rank, input S, all-reduce: reads S and writes (n-1)/n S to rings; reads S, writes S results.
 * Without rings (reduce_flat.h), where all inputs and outputs are in windows: reads S, writes S. */
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

/* Store `full` at all peers: those that I store results to directly see it by the bit. */
CCL_DEVICE void reduce_post(CCL_PARTS p, const struct reduce_block *r, uint32_t d, uint32_t step)
{
    const uint32_t peer = ccl_rotate(&p->c, d);
    const uint32_t direct = r->b.end[d].base != 0 && parts_receives(p, peer) ? CCL_STEP_DIRECT : 0;
    parts_post(p, &r->b, peer, 0, step | direct);
}

/* The own elements of chunk c to their owners' rings. */
CCL_DEVICE void reduce_contribute(CCL_PARTS p, const struct reduce_block *r, uint32_t c)
{
    CCL_ARGS a = &p->c;
    const struct parts_block *b = &r->b;
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

/* Join the own piece of a chunk, or with `flat` the own share of the shard, and store the result. All threads, behind a barrier: the places are known. */
CCL_DEVICE void reduce_join_piece(CCL_PARTS p, struct reduce_block *r, struct reduce_piece piece, uint32_t flat)
{
    if (piece.count == 0) {
        return;
    }
    if (p->parts & CCL_PARTS_SCALED) {
        reduce_scale(p, r->in[p->c.rank], p->c.src + piece.start * p->esize, piece.count);
        ccl_block_release_system(); /* other threads read it, */
        ccl_block_sync();           /* on RDNA through another first cache: every wave drops its own */
    }
    reduce_join_share(p, r->to, ccl_uniform(*r->num_to), r->in, piece.count, flat ? ccl_bid() : 0, flat ? ccl_uniform(ccl_grid()) : 1, flat);
}

/* The results of chunk c of all other owners that came by rings. */
CCL_DEVICE void reduce_drain(CCL_PARTS p, const struct reduce_block *r, uint32_t c)
{
    CCL_ARGS a = &p->c;
    const struct parts_block *b = &r->b;
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
}

/* First warp: all peers have reached step `want`. */
CCL_DEVICE void reduce_hear(CCL_PARTS p, struct reduce_block *r, uint32_t want)
{
    for (uint32_t d = 1 + ccl_tid(); d < p->c.n; d += CCL_WARP) {
        if (ccl_wave_any(parts_hear(p, &r->b, d, want, want | CCL_STEP_DIRECT))) {
            break;
        }
    }
}

#include "reduce_flat.h"

#if defined(CCL_ON_HOST)
#include "reduce_turns.h"
#else
#include "reduce_steps.h"
#endif

/* ISA reduce: vgpr 128, sgpr 106, lds 4096, waves 4 */
CCL_KERNEL_REDUCE(reduce, struct ccl_k_parts_args)
{
    REDUCE_MEMORY(memory);
    struct reduce_block r = {{&memory.sh, memory.end, &memory.words_out, {0, 0, {0, 0, 0, 0}, 0, 0, 0}}, memory.in, memory.to, &memory.num_to, memory.from};
    r.b.job.chunks = push_count(a->chunks, ccl_bid(), ccl_uniform(ccl_grid()));
    if (parts_enter(a, &r.b) && parts_meet(a, &r.b, 1, r.from) && reduce_run(a, &r)) {
        CCL_TRACE_NOTE_FIRST(&a->c, r.b.job.n, CCL_TRACE_SENT);
        CCL_TRACE_NOTE_FIRST(&a->c, r.b.job.n, CCL_TRACE_END);
        push_leave(&a->c, &r.b.job);
    }
    parts_exit(a, &r.b);
}
