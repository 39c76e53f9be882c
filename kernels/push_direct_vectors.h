/* SPDX-License-Identifier: MIT
 *
 * Direct push on NVIDIA for what push_flat.h does not serve (included by push_gpu_body.h): rectangles. The vectors of all pieces of a block are counted
 * through, and a thread takes every ccl_threads()-th of them, so that small tiles leave no thread idle. One load of each input vector, stores to all peers in
 * rotated order. */

#define PUSH_UNITS 4u /* vectors of 16 bytes of a thread in flight */

/* A way through the grid of pieces: rows, bytes. */
struct push_hop {
    uint32_t down, right;
};

/* Where a thread stands. Digits of a mixed radix: vector in the row of a piece, row, piece of the block; the place of the piece goes along. */
struct push_walk {
    uint32_t col, row, piece;
    struct push_hop at;
};

/* How far ccl_threads() vectors are in these digits, and what a carry into the pieces adds. All uniform. */
struct push_stride {
    uint32_t per_row, col, row, piece;
    struct push_hop pieces, one;
};

CCL_DEVICE struct push_hop push_hop_of(CCL_ARGS a, uint64_t pieces)
{
    const uint64_t down = pieces / a->pieces_across;
    const struct push_hop h = {(uint32_t)(down * a->piece_rows), (uint32_t)((pieces - down * a->pieces_across) * a->piece_bytes)};
    return h;
}

CCL_DEVICE void push_hop(CCL_ARGS a, struct push_walk *w, const struct push_hop *h)
{
    const uint32_t across = (uint32_t)a->pieces_across * (uint32_t)a->piece_bytes;
    w->at.down += h->down;
    w->at.right += h->right;
    if (w->at.right >= across) {
        w->at.right -= across;
        w->at.down += (uint32_t)a->piece_rows;
    }
}

CCL_DEVICE void push_advance(CCL_ARGS a, struct push_walk *w, const struct push_stride *s)
{
    w->col += s->col;
    w->row += s->row;
    w->piece += s->piece;
    if (w->col >= s->per_row) {
        w->col -= s->per_row;
        w->row++;
    }
    if (s->piece != 0) {
        push_hop(a, w, &s->pieces);
    }
    if (w->row >= (uint32_t)a->piece_rows) {
        w->row -= (uint32_t)a->piece_rows;
        w->piece++;
        push_hop(a, w, &s->one);
    }
}

/* `vectors` further in the digits of s; the first piece of the block is `first` of the grid. */
CCL_DEVICE struct push_walk push_walk_at(CCL_ARGS a, uint32_t per_row, uint32_t first, uint32_t stride, uint32_t vectors)
{
    const uint32_t row = vectors / per_row, piece = row / (uint32_t)a->piece_rows;
    const struct push_hop h = push_hop_of(a, first + (uint64_t)piece * stride);
    struct push_walk w = {vectors - row * per_row, row - piece * (uint32_t)a->piece_rows, piece, h};
    return w;
}

CCL_DEVICE void push_vectors(CCL_ARGS a, const struct push_end *end, uint32_t d_first, uint32_t d_last, uint32_t first, uint32_t stride, uint32_t chunks)
{
    const uint32_t per_row = (uint32_t)(a->piece_bytes / 16);
    const struct push_walk step = push_walk_at(a, per_row, 0, stride, ccl_threads());
    const struct push_stride s = {per_row, step.col, step.row, step.piece, step.at, push_hop_of(a, stride)};
    struct push_walk w = push_walk_at(a, per_row, first, stride, ccl_tid());
    while (w.piece < chunks) {
        ccl_vec16 v[PUSH_UNITS];
        uint64_t off[PUSH_UNITS];
        uint32_t valid = 0;
#pragma unroll
        for (uint32_t u = 0; u < PUSH_UNITS; u++) {
            const uint32_t row = w.at.down + w.row, col = w.at.right + w.col * 16;
            if (w.piece < chunks && row < (uint32_t)a->rows && col + 16 <= (uint32_t)a->row_bytes) {
                v[u] = ccl_load_stream_vec16(a->src + row * a->ld_src + col);
                off[u] = row * a->ld_dst + col;
                valid |= 1u << u;
            }
            push_advance(a, &w, &s);
        }
        for (uint32_t d = d_first; d < d_last; d++) {
            const uint64_t to = end[d].base;
#pragma unroll
            for (uint32_t u = 0; u < PUSH_UNITS; u++) {
                if (to != 0 && valid >> u & 1) {
                    ccl_store_stream_vec16(to + off[u], v[u]);
                }
            }
        }
    }
}

CCL_DEVICE void ccl_push_direct(CCL_ARGS a, const struct push_end *end, uint32_t d_first, uint32_t d_last, uint32_t first, uint32_t stride, uint32_t chunks)
{
    uint64_t bits = a->src;
    for (uint32_t d = d_first; d < d_last; d++) {
        bits |= end[d].base;
    }
    if (a->rows > 1) {
        bits |= a->ld_src | a->ld_dst;
    }
    if (a->pieces_across > 1) {
        bits |= a->piece_bytes;
    }
    /* Vectors, and what is behind the last one of each row; else piece by piece. 31 bits hold every row and byte of a row that a walk comes to. */
    const uint32_t whole = ccl_unit(bits) == 16 && a->piece_bytes >= 16 && (a->rows | (a->row_bytes + a->piece_bytes)) >> 30 == 0;
    if (whole) {
        push_vectors(a, end, d_first, d_last, first, stride, chunks);
        if ((a->row_bytes & 15) == 0) {
            return;
        }
    }
    for (uint32_t k = 0; k < chunks; k++) {
        const struct ccl_piece p = ccl_piece_at(a, first + (uint64_t)k * stride);
        for (uint32_t d = d_first; d < d_last; d++) {
            const uint64_t to = end[d].base == 0 ? 0 : end[d].base + ccl_piece_dst(a, p);
            if (to != 0 && whole) {
                ccl_move_tail(to, a->ld_dst, ccl_piece_src(a, p), a->ld_src, p.rows, (uint32_t)p.bytes & ~15u, (uint32_t)p.bytes);
            } else if (to != 0) {
                ccl_move_rows(to, a->ld_dst, ccl_piece_src(a, p), a->ld_src, p.rows, p.bytes, 0);
            }
        }
    }
}
