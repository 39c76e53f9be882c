/* SPDX-License-Identifier: MIT
 *
 * Direct push on NVIDIA for what push_flat.h does not serve (included by push_gpu_body.h): rectangles. One load of each input vector, stores to all
 * peers in rotated order, the next step's loads issued before this step's stores. */

/* One step of a thread: CCL_UNROLL vectors of 16 bytes of piece `index`, from vector `at` on. */
struct ccl_step {
    uint64_t index;
    uint32_t at;
};

CCL_DEVICE void push_load(CCL_ARGS a, struct ccl_piece p, uint32_t at, uint32_t per_row, ccl_vec16 *v, uint64_t *off,
                          uint32_t *valid)
{
    *valid = 0;
#pragma unroll
    for (uint32_t u = 0; u < CCL_UNROLL; u++) {
        uint32_t i = at + u * ccl_threads() + ccl_tid();
        uint32_t row = p.rows == 1 ? 0 : i / per_row, col = (i - row * per_row) * 16;
        if (row < p.rows && col + 16 <= p.bytes) {
            v[u] = ccl_load_stream_vec16(ccl_piece_src(a, p) + row * a->ld_src + col);
            off[u] = ccl_piece_dst(a, p) + row * a->ld_dst + col;
            *valid |= 1u << u;
        }
    }
}

CCL_DEVICE void push_store(uint64_t to, const ccl_vec16 *v, const uint64_t *off, uint32_t valid)
{
#pragma unroll
    for (uint32_t u = 0; u < CCL_UNROLL; u++) {
        if (valid >> u & 1) {
            ccl_store_stream_vec16(to + off[u], v[u]);
        }
    }
}

/* The next step of this block; index >= pieces at the end. */
CCL_DEVICE struct ccl_step push_next(struct ccl_step s, struct ccl_piece p, uint32_t per_row, uint64_t stride)
{
    s.at += CCL_UNROLL * ccl_threads();
    if (s.at >= p.rows * per_row) {
        s.at = 0;
        s.index += stride;
    }
    return s;
}

CCL_DEVICE void ccl_push_direct(CCL_ARGS a, const struct push_end *end, uint32_t d_first, uint32_t d_last, uint64_t first, uint64_t stride,
                                uint64_t pieces)
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
    if (first >= pieces) {
        return;
    }
    if (ccl_unit(bits) != 16 || a->piece_bytes < 16) {
        for (uint64_t i = first; i < pieces; i += stride) {
            struct ccl_piece p = ccl_piece_at(a, i);
            for (uint32_t d = d_first; d < d_last; d++) {
                if (end[d].base) {
                    ccl_move_rows(end[d].base + ccl_piece_dst(a, p), a->ld_dst, ccl_piece_src(a, p), a->ld_src, p.rows,
                                  p.bytes, 0);
                }
            }
        }
        return;
    }
    const uint32_t per_row = (uint32_t)(a->piece_bytes / 16);
    struct ccl_step s = {first, 0};
    struct ccl_piece p = ccl_piece_at(a, s.index);
    ccl_vec16 v[CCL_UNROLL], next_v[CCL_UNROLL];
    uint64_t off[CCL_UNROLL], next_off[CCL_UNROLL];
    uint32_t valid, next_valid;
    push_load(a, p, s.at, per_row, v, off, &valid);
    for (;;) {
        struct ccl_step s_next = push_next(s, p, per_row, stride);
        struct ccl_piece p_next = p;
        next_valid = 0;
        if (s_next.index < pieces) {
            p_next = ccl_piece_at(a, s_next.index);
            push_load(a, p_next, s_next.at, per_row, next_v, next_off, &next_valid);
        }
        for (uint32_t d = d_first; d < d_last; d++) {
            if (end[d].base) {
                push_store(end[d].base, v, off, valid);
            }
        }
        /* The bytes behind the last vector of each row, once per piece that ends a row. */
        if (s.at == 0 && (p.bytes & 15)) {
            for (uint32_t d = d_first; d < d_last; d++) {
                if (end[d].base) {
                    ccl_move_tail(end[d].base + ccl_piece_dst(a, p), a->ld_dst, ccl_piece_src(a, p), a->ld_src, p.rows,
                                  (uint32_t)p.bytes & ~15u, (uint32_t)p.bytes);
                }
            }
        }
        if (s_next.index >= pieces) {
            break;
        }
        s = s_next;
        p = p_next;
        valid = next_valid;
#pragma unroll
        for (uint32_t u = 0; u < CCL_UNROLL; u++) {
            v[u] = next_v[u];
            off[u] = next_off[u];
        }
    }
}
