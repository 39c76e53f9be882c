/* SPDX-License-Identifier: MIT
 *
 * Joining elements on NVIDIA's sm_90 where they come from far and in large numbers (included by reduce_vectors.h): the first warp of a block loads tiles into shared memory in bulk, rank
 * after rank, the others join them. Loads need no registers and few instructions, of which the threads have none to spare, and a tile is long: memory that is read and
 * written at once keeps its rate only if both come in long pieces. */
#ifndef CCL_REDUCE_BULK_H
#define CCL_REDUCE_BULK_H

#include "bulk_copies.h"

#define REDUCE_STAGES_MOST 12u

/* A tile has `columns` vectors of each joining thread, a stage is one rank's. */
struct reduce_stages {
    uint32_t memory, full, empty; /* in shared memory */
    uint32_t stages, column, tile; /* bytes of a vector of all joining threads; of a tile */
};

/* All threads. A stage is empty when each joining warp has read it. */
CCL_DEVICE struct reduce_stages reduce_bulk_begin(uint32_t columns)
{
    extern __shared__ __align__(128) char reduce_memory[];
    __shared__ __align__(8) uint64_t barriers[2 * REDUCE_STAGES_MOST];
    struct reduce_stages b;
    b.memory = (uint32_t)__cvta_generic_to_shared(reduce_memory);
    b.full = (uint32_t)__cvta_generic_to_shared(barriers);
    b.empty = b.full + 8 * REDUCE_STAGES_MOST;
    b.column = (ccl_threads() - CCL_WARP) * 16;
    b.tile = columns * b.column;
    b.stages = CCL_REDUCE_BULK_SHARED / b.tile < REDUCE_STAGES_MOST ? CCL_REDUCE_BULK_SHARED / b.tile : REDUCE_STAGES_MOST;
    if (ccl_tid() == 0) {
        bulk_begin(b.full, b.stages, 1);
        bulk_begin(b.empty, b.stages, ccl_threads() / CCL_WARP - 1);
    }
    ccl_block_sync();
    return b;
}

/* One thread: all tiles of share `part` of `parts`, of each rank. */
CCL_DEVICE void reduce_bulk_load(struct reduce_stages b, REDUCE_PLACES in, uint32_t n, uint64_t bytes, uint32_t part, uint32_t parts)
{
    uint32_t s = 0, phase = 0;
#pragma unroll 1
    for (uint64_t at = (uint64_t)part * b.tile; at < bytes; at += (uint64_t)parts * b.tile) {
        const uint32_t size = bytes - at < b.tile ? (uint32_t)(bytes - at) : b.tile;
#pragma unroll 1
        for (uint32_t r = 0; r < n; r++) {
            bulk_wait(b.empty + 8 * s, phase ^ 1); /* at once in the first round */
            bulk_load(b.full + 8 * s, b.memory + s * b.tile, in[r] + at, size);
            if (++s == b.stages) {
                s = 0;
                phase ^= 1;
            }
        }
    }
}

CCL_DEVICE void reduce_bulk_take(uint32_t from, uint32_t *words)
{
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]) : "r"(from) : "memory");
}

/* A joining warp has read a stage. */
CCL_DEVICE void reduce_bulk_taken(struct reduce_stages b, uint32_t s)
{
    ccl_warp_sync();
    if (ccl_tid() % CCL_WARP == 0) {
        asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(b.empty + 8 * s) : "memory");
    }
}

/* All threads. */
CCL_DEVICE void reduce_bulk_end(struct reduce_stages b)
{
    ccl_block_sync();
    if (ccl_tid() == 0) {
        bulk_forget(b.full, b.stages);
        bulk_forget(b.empty, b.stages);
    }
}

#endif
