/* SPDX-License-Identifier: MIT
 *
 * Direct push of flat parts by bulk copies through shared memory, NVIDIA sm_90 and later (included by push_gpu_body.h): one thread keeps several
 * pieces in flight, so that a few blocks move what otherwise takes many. The plan asks for it (CCL_F_BULK) with shared memory for the pieces. */
#include "bulk_copies.h"

/* Pieces that fit the shared memory of this launch; fewer than 2: not this way. */
CCL_DEVICE uint32_t push_bulk_stages(CCL_ARGS a)
{
    uint32_t bytes;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
    const uint32_t stages = (a->flags & CCL_F_BULK) && a->flat_piece != 0 ? bytes / a->flat_piece : 0;
    return stages < BULK_STAGES_MOST ? stages : BULK_STAGES_MOST;
}

CCL_DEVICE uint32_t push_bulk_bytes(CCL_ARGS a, uint64_t at)
{
    const uint64_t left = a->part_bytes - at;
    return left < a->flat_piece ? (uint32_t)left : a->flat_piece;
}

/* Piece at `at` into shared memory. */
CCL_DEVICE void push_bulk_load(CCL_ARGS a, uint32_t full, uint32_t to, uint64_t at) { bulk_load(full, to, a->src + at, push_bulk_bytes(a, at)); }

/* All pieces of this block to the rotations d_first..d_last-1. One thread; when it returns, all stores have been made. */
CCL_DEVICE_SLOW void push_bulk_direct(CCL_ARGS a, uint32_t stages, const struct push_end *end, uint32_t d_first, uint32_t d_last,
                                      uint32_t first, uint32_t stride)
{
    extern __shared__ __align__(128) char push_bulk_memory[];
    __shared__ __align__(8) uint64_t full[BULK_STAGES_MOST];
    const uint32_t memory = (uint32_t)__cvta_generic_to_shared(push_bulk_memory), bar = (uint32_t)__cvta_generic_to_shared(full);
    const uint64_t start = (uint64_t)first * a->flat_piece, step = (uint64_t)stride * a->flat_piece;
    bulk_begin(bar, stages, 1);
    for (uint32_t s = 0; s + 1 < stages && start + s * step < a->part_bytes; s++) {
        push_bulk_load(a, bar + 8 * s, memory + s * a->flat_piece, start + s * step);
    }
    uint32_t s = 0, phase = 0;
    for (uint64_t at = start; at < a->part_bytes; at += step) {
        bulk_wait(bar + 8 * s, phase);
        for (uint32_t d = d_first; d < d_last; d++) {
            if (end[d].base != 0) {
                bulk_store(end[d].base + at, memory + s * a->flat_piece, push_bulk_bytes(a, at));
            }
        }
        bulk_commit();
        /* The stage of the piece before this one is free as soon as that has been read. */
        const uint64_t next = at + (stages - 1) * step;
        if (next < a->part_bytes) {
            const uint32_t to = s == 0 ? stages - 1 : s - 1;
            bulk_await_previous();
            push_bulk_load(a, bar + 8 * to, memory + to * a->flat_piece, next);
        }
        if (++s == stages) {
            s = 0;
            phase ^= 1;
        }
    }
    bulk_end(bar, stages);
}
