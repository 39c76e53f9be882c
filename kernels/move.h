/* SPDX-License-Identifier: MIT
 *
 * A block copies a rectangle of bytes: own part, ring slots, partial tiles. Vectors where both sides are aligned alike, narrower units
 * where they are not, and the bytes left over at the end of a row: the one helper for heads and tails. */
#ifndef CCL_MOVE_H
#define CCL_MOVE_H

#include "kernel.h"

#if defined(CCL_ON_HOST)

CCL_DEVICE void ccl_move_rows(uint64_t dst, uint64_t ld_dst, uint64_t src, uint64_t ld_src, uint64_t rows,
                              uint64_t bytes, uint32_t stream)
{
    if (ld_dst == bytes && ld_src == bytes) {
        bytes *= rows;
        rows = 1;
    }
    for (uint64_t r = 0; r < rows; r++) {
        ccl_host_copy(dst + r * ld_dst, src + r * ld_src, bytes, stream);
    }
}

#else

/* Widest unit, a power of two up to 16, that divides every address and pitch in `bits`. */
CCL_DEVICE uint32_t ccl_unit(uint64_t bits)
{
    uint32_t low = (uint32_t)(bits | 16);
    return low & (0u - low);
}

/* Bytes first..bytes-1 of each row, one at a time: what the vectors left over. */
CCL_DEVICE void ccl_move_tail(uint64_t dst, uint64_t ld_dst, uint64_t src, uint64_t ld_src, uint64_t rows, uint32_t first,
                              uint32_t bytes)
{
    uint32_t left = bytes - first;
    for (uint32_t i = ccl_tid(); left != 0 && i < (uint32_t)rows * left; i += ccl_threads()) {
        uint32_t r = i / left, c = first + i % left;
        *CCL_PTR(uint8_t, dst + r * ld_dst + c) = *CCL_PTR(const uint8_t, src + r * ld_src + c);
    }
}

#define CCL_MOVE_UNIT(unit, type)                                                                         \
    for (uint32_t i = ccl_tid(); i < (uint32_t)rows * (body / unit); i += ccl_threads()) {                \
        uint32_t r = rows == 1 ? 0 : i / (body / unit), c = (i - r * (body / unit)) * unit;               \
        *CCL_PTR(type, dst + r * ld_dst + c) = *CCL_PTR(const type, src + r * ld_src + c);                \
    }

/* rows x bytes fit a ring slot, so 32 bits hold an index. All threads of the block have the same arguments. */
CCL_DEVICE void ccl_move_rows(uint64_t dst, uint64_t ld_dst, uint64_t src, uint64_t ld_src, uint64_t rows,
                              uint64_t bytes, uint32_t stream)
{
    dst = ccl_uniform_u64(dst);
    src = ccl_uniform_u64(src);
    rows = ccl_uniform_u64(rows);
    bytes = ccl_uniform_u64(bytes);
    uint32_t unit = ccl_unit(rows > 1 ? dst | src | ld_dst | ld_src : dst | src), body = (uint32_t)bytes & ~(unit - 1);
    (void)stream;
    if (unit == 16) {
        CCL_MOVE_UNIT(16, ccl_vec16)
    } else if (unit >= 4) {
        body = (uint32_t)bytes & ~3u;
        CCL_MOVE_UNIT(4, uint32_t)
    } else {
        body = 0;
    }
    ccl_move_tail(dst, ld_dst, src, ld_src, rows, body, (uint32_t)bytes);
}

#endif

/* One run of bytes, which may come from a ring slot. */
CCL_DEVICE void ccl_move_run(uint64_t dst, uint64_t src, uint64_t bytes, uint32_t stream)
{
#if defined(CCL_MOVE_UNITS)
    if (((dst | src) & 15) == 0) {
        const uint32_t column = ccl_threads() * 16, body = (uint32_t)bytes & ~15u;
#pragma unroll 1
        for (uint32_t at = ccl_tid() * 16; at < body; at += CCL_MOVE_UNITS * column) {
            ccl_vec16 v[CCL_MOVE_UNITS];
#pragma unroll
            for (uint32_t u = 0; u < CCL_MOVE_UNITS; u++) {
                if (at + u * column < body) {
                    v[u] = ccl_load_ring_vec16(src + at + u * column);
                }
            }
#pragma unroll
            for (uint32_t u = 0; u < CCL_MOVE_UNITS; u++) {
                if (at + u * column < body) {
                    *CCL_PTR(ccl_vec16, dst + at + u * column) = v[u];
                }
            }
        }
        ccl_move_tail(dst, 0, src, 0, 1, body, (uint32_t)bytes);
        return;
    }
#endif
    ccl_move_rows(dst, bytes, src, bytes, 1, bytes, stream);
}

/* A piece of the part: where it lies and how much of it there is. */
struct ccl_piece {
    uint64_t row, col, rows, bytes;
};

CCL_DEVICE struct ccl_piece ccl_piece_at(CCL_ARGS a, uint64_t index)
{
    struct ccl_piece p;
    uint64_t down = a->pieces_across == 1 ? index : index / a->pieces_across;
    p.row = down * a->piece_rows;
    p.col = (index - down * a->pieces_across) * a->piece_bytes;
    p.rows = a->rows - p.row < a->piece_rows ? a->rows - p.row : a->piece_rows;
    p.bytes = a->row_bytes - p.col < a->piece_bytes ? a->row_bytes - p.col : a->piece_bytes;
    return p;
}

CCL_DEVICE uint64_t ccl_piece_src(CCL_ARGS a, struct ccl_piece p) { return a->src + p.row * a->ld_src + p.col; }
/* Offset from the start of a part in an output. */
CCL_DEVICE uint64_t ccl_piece_dst(CCL_ARGS a, struct ccl_piece p) { return p.row * a->ld_dst + p.col; }

#endif
