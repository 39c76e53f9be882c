/* SPDX-License-Identifier: MIT
 *
 * Pairs of blocks on sm_90a, clusters of two: both multiply by the same columns of B, of which each loads one half into the stages of both, so a tile takes a third less from
 * the cache. What one block has in shared memory the other has at the same place. Who uses them: matmul_wgmma.h. */
#ifndef CCL_WGMMA_PAIR_H
#define CCL_WGMMA_PAIR_H

#include "gemm_nvidia.h"

/* Until the phase of this parity is over. order: "", of this block, or what the instruction is to have. */
#define WGMMA_DEFINE_WAIT(name, order)                                                                                                            \
    CCL_DEVICE void name(uint32_t bar, uint32_t parity)                                                                                           \
    {                                                                                                                                             \
        uint32_t over = 0;                                                                                                                        \
        while (!over) {                                                                                                                           \
            asm volatile("{ .reg .pred p; mbarrier.try_wait.parity" order ".shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"                 \
                         : "=r"(over)                                                                                                             \
                         : "r"(bar), "r"(parity)                                                                                                  \
                         : "memory");                                                                                                             \
        }                                                                                                                                         \
    }

/* Which of the two this block is: 0, 1. Their indices are 2 p and 2 p + 1. */
CCL_DEVICE uint32_t wgmma_half(void)
{
    uint32_t half;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(half));
    return half;
}

/* Address, for the functions below, of what `half` has where this block has addr. */
CCL_DEVICE uint32_t wgmma_addr_of(uint32_t half, uint32_t addr)
{
    uint32_t there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(addr), "r"(half));
    return there;
}

/* One arrival at a barrier of the other block, behind what this thread has read. With cluster scope in the K loop that lost 30 %, and who waits for it there loads only. */
CCL_DEVICE void wgmma_pair_arrive(uint32_t bar) { asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(bar) : "memory"); }

/* A word to the other block, counted as 4 bytes at a barrier there; and the wait for it. */
CCL_DEVICE void wgmma_pair_send(uint32_t to, uint32_t value, uint32_t bar)
{
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(to), "r"(value), "r"(bar) : "memory");
}
WGMMA_DEFINE_WAIT(wgmma_pair_await, ".acquire.cluster")

/* As wgmma_load_box, to both blocks; the bytes are counted at the barrier of each. */
CCL_DEVICE void wgmma_load_box_both(uint32_t to, uint64_t map, uint32_t bar, uint32_t x, uint32_t y)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
                 "l"(map), "r"(bar), "r"(x), "r"(y), "h"((uint16_t)3)
                 : "memory");
}

/* All threads of both blocks, if it is a pair: behind the second all have done the first. */
CCL_DEVICE void wgmma_pair_here(bool pair)
{
    if (pair) {
        asm volatile("barrier.cluster.arrive.release;" ::: "memory");
    }
}
CCL_DEVICE void wgmma_pair_met(bool pair)
{
    if (pair) {
        asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
    }
}

#endif
