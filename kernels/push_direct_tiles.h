/* SPDX-License-Identifier: MIT
 *
 * Direct push on AMD (included by push_gpu_body.h). On CDNA loads and stores retire through one in-order queue: a load behind stores drains them
 * when it is waited for, and a store the compiler cannot count on (behind a branch) makes every wait a full drain. Hence: up to PUSH_SIDE
 * destinations side by side, how many of them compiled in, their bases in scalar registers; no condition in a step; the load of the next step ahead of
 * the stores of this one, and one explicit wait before the loop. Each wait then leaves the stores of a whole step in flight (tests/isa checks
 * it). In the last step of a piece, threads that find no vector repeat the last one: the same bytes to the same place. */

#define PUSH_SIDE 8u

/* Where a block stands in its pieces. All uniform. */
struct push_walk {
    uint64_t row, col;  /* of the piece in the part: rows, bytes */
    uint64_t step_row, step_col;
    uint64_t from, off; /* of its first byte: in the input, in a part of an output */
    uint32_t rows, bytes;
    uint32_t per_row, vectors; /* vectors of 16 bytes: in a row, 0 where there is one row; in the piece */
    uint32_t at;   /* vectors in front of this step */
    uint32_t left; /* pieces of this block behind this one */
};

/* A piece that fits a ring slot has less than 4 GiB. */
CCL_DEVICE void push_look(CCL_ARGS a, struct push_walk *w)
{
    const uint32_t rows = (uint32_t)a->piece_rows, bytes = (uint32_t)a->piece_bytes;
    const uint64_t below = a->rows - w->row, right = a->row_bytes - w->col;
    w->rows = below < rows ? (uint32_t)below : rows;
    w->bytes = right < bytes ? (uint32_t)right : bytes;
    w->per_row = w->rows > 1 ? w->bytes / 16 : 0;
    w->vectors = w->rows * (w->bytes / 16);
    w->from = a->src + w->row * a->ld_src + w->col;
    w->off = w->row * a->ld_dst + w->col;
    w->at = 0;
}

/* Step to the next piece of this block; 0: there is none. */
CCL_DEVICE uint32_t push_turn(CCL_ARGS a, struct push_walk *w)
{
    if (w->left == 0) {
        return 0;
    }
    w->left--;
    w->row += w->step_row;
    w->col += w->step_col;
    if (w->col >= a->row_bytes) {
        w->row += (uint32_t)a->piece_rows;
        w->col -= a->pieces_across * (uint32_t)a->piece_bytes;
    }
    push_look(a, w);
    return 1;
}

CCL_DEVICE struct push_walk push_walk_of(CCL_ARGS a, const struct push_job *job)
{
    struct push_walk w;
    const uint64_t across = a->pieces_across;
    const uint32_t down = across > job->first ? 0 : job->first / (uint32_t)across;
    const uint32_t step_down = across > job->stride ? 0 : job->stride / (uint32_t)across;
    w.row = down * a->piece_rows;
    w.col = (job->first - down * across) * a->piece_bytes;
    w.step_row = step_down * a->piece_rows;
    w.step_col = (job->stride - step_down * across) * a->piece_bytes;
    w.left = job->chunks - 1;
    push_look(a, &w);
    return w;
}

CCL_DEVICE uint32_t push_next(CCL_ARGS a, struct push_walk *w)
{
    w->at += ccl_threads();
    return w->at < w->vectors || push_turn(a, w);
}

/* This thread's vector of a step: its place in the input, and from the start of a part in an output. */
struct push_place {
    uint64_t from, off;
};

CCL_DEVICE struct push_place push_place_of(CCL_ARGS a, const struct push_walk *w)
{
    const uint32_t mine = w->at + ccl_tid(), i = mine < w->vectors ? mine : w->vectors - 1;
    struct push_place p = {w->from + i * 16ull, w->off + i * 16ull};
    if (w->per_row != 0) {
        const uint32_t row = i / w->per_row, in_row = (i - row * w->per_row) * 16;
        p.from = w->from + row * a->ld_src + in_row;
        p.off = w->off + row * a->ld_dst + in_row;
    }
    return p;
}

/* CCL_TEST_BASES_INSIDE, which the gates must refuse: bases looked up in every step. */
#if defined(CCL_TEST_BASES_INSIDE)
#define PUSH_TO(a, end, d, base) push_base(a, end, d)
#else
#define PUSH_TO(a, end, d, base) (base)
#endif

#define PUSH_STORE(side, off, v)                                                        \
    _Pragma("unroll") for (uint32_t i = 0; i < side; i++) {                             \
        ccl_store_stream_vec16(PUSH_TO(a, end, d + i, to[i]) + off, v);                 \
    }

/* The vectors of all pieces of this block to the destinations d..d+side-1; side is a constant. */
CCL_DEVICE void push_tiles(CCL_ARGS a, const uint32_t side, const struct push_end *end, uint32_t d, struct push_walk w)
{
    uint64_t to[PUSH_SIDE];
#pragma unroll
    for (uint32_t i = 0; i < side; i++) {
        to[i] = ccl_uniform_u64(end[d + i].base);
    }
    struct push_place here = push_place_of(a, &w);
    ccl_vec16 v = ccl_load_stream_vec16(here.from);
    ccl_wait_loads();
    while (push_next(a, &w)) {
        const struct push_place there = push_place_of(a, &w);
        const ccl_vec16 next = ccl_load_stream_vec16(there.from);
        ccl_sched_fence();
        PUSH_STORE(side, here.off, v)
        ccl_sched_fence();
        v = next;
        here = there;
    }
    PUSH_STORE(side, here.off, v)
}

/* The bytes behind the last vector of each row. */
CCL_DEVICE void push_tails(CCL_ARGS a, const struct push_end *end, uint32_t d_first, uint32_t d_last, struct push_walk w)
{
    do {
#pragma unroll 1
        for (uint32_t d = d_first; (w.bytes & 15) != 0 && d < d_last; d++) {
            ccl_move_tail(ccl_uniform_u64(end[d].base) + w.off, a->ld_dst, w.from, a->ld_src, w.rows, w.bytes & ~15u, w.bytes);
        }
    } while (push_turn(a, &w));
}

/* Piece by piece and destination by destination. */
CCL_DEVICE void push_odd(CCL_ARGS a, const struct push_end *end, uint32_t d_first, uint32_t d_last, struct push_walk w)
{
    do {
#pragma unroll 1
        for (uint32_t d = d_first; d < d_last; d++) {
            ccl_move_rows(ccl_uniform_u64(end[d].base) + w.off, a->ld_dst, w.from, a->ld_src, w.rows, w.bytes, 0);
        }
    } while (push_turn(a, &w));
}

/* Some address or pitch is no multiple of 16, or some piece has no vector. */
CCL_DEVICE uint32_t push_is_odd(CCL_ARGS a, const struct push_end *end, uint32_t d_first, uint32_t d_last)
{
    uint64_t bits = a->src | a->dst | (a->rows > 1 ? a->ld_src | a->ld_dst : 0) | (a->pieces_across > 1 ? a->piece_bytes : 0);
    for (uint32_t d = d_first; d < d_last; d++) {
        bits |= (uint32_t)end[d].base;
    }
    return ccl_uniform((uint32_t)bits & 15) != 0 || a->row_bytes - (a->pieces_across - 1) * a->piece_bytes < 16;
}

#define PUSH_CASE(side)                          \
    case side:                                   \
        if (sides == 0 || side <= sides) {       \
            push_tiles(a, side, end, d, w);      \
        }                                        \
        break;

/* The pieces of a block to the rotations d_first..d_last-1, which all have a base, the own one except in place. sides: at most so many, a constant; 0:
 * any number. */
CCL_DEVICE void ccl_push_direct(CCL_ARGS a, const uint32_t sides, const struct push_end *end, uint32_t d_first, uint32_t d_last,
                                const struct push_job *job)
{
    d_first += d_first == 0 && ccl_uniform_u64(end[0].base) == 0;
    if (job->chunks == 0 || d_first >= d_last) {
        return;
    }
    if (push_is_odd(a, end, d_first, d_last)) {
        push_odd(a, end, d_first, d_last, push_walk_of(a, job));
        return;
    }
    uint32_t d = d_first;
    do {
        if (sides == 0) {
            CCL_AFRESH(a);
        }
        const struct push_walk w = push_walk_of(a, job);
        switch (d_last - d) {
            PUSH_CASE(1)
            PUSH_CASE(2)
            PUSH_CASE(3)
            PUSH_CASE(4)
            PUSH_CASE(5)
            PUSH_CASE(6)
            PUSH_CASE(7)
        default:
            if (sides == 0 || sides >= PUSH_SIDE) {
                push_tiles(a, PUSH_SIDE, end, d, w);
            }
        }
        d += PUSH_SIDE;
    } while (sides == 0 && d < d_last);
    CCL_AFRESH(a);
    if (((a->piece_bytes | a->row_bytes) & 15) != 0) {
        push_tails(a, end, d_first, d_last, push_walk_of(a, job));
    }
}
