/* SPDX-License-Identifier: MIT
 *
 * Direct push of flat parts by bulk copies through shared memory, NVIDIA sm_90 and later (included by push_gpu_body.h): one thread keeps several
 * pieces in flight, so that a few blocks move what otherwise takes many. The plan asks for it (CCL_F_BULK) with shared memory for the pieces. */

#define PUSH_BULK_STAGES 8u /* most pieces in flight */

/* Pieces that fit the shared memory of this launch; fewer than 2: not this way. */
CCL_DEVICE uint32_t push_bulk_stages(CCL_ARGS a)
{
    uint32_t bytes;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
    const uint32_t stages = (a->flags & CCL_F_BULK) && a->flat_piece != 0 ? bytes / a->flat_piece : 0;
    return stages < PUSH_BULK_STAGES ? stages : PUSH_BULK_STAGES;
}

CCL_DEVICE uint32_t push_bulk_bytes(CCL_ARGS a, uint64_t at)
{
    const uint64_t left = a->part_bytes - at;
    return left < a->flat_piece ? (uint32_t)left : a->flat_piece;
}

/* Piece at `at` into shared memory; `full` flips when all of it is there. */
CCL_DEVICE void push_bulk_load(CCL_ARGS a, uint32_t full, uint32_t to, uint64_t at)
{
    const uint32_t bytes = push_bulk_bytes(a, at);
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(full), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(a->src + at), "r"(bytes), "r"(full)
                 : "memory");
}

/* All pieces of this block to the rotations d_first..d_last-1. One thread; when it returns, all stores have been made. */
CCL_DEVICE_SLOW void push_bulk_direct(CCL_ARGS a, uint32_t stages, const struct push_end *end, uint32_t d_first, uint32_t d_last,
                                      uint32_t first, uint32_t stride)
{
    extern __shared__ __align__(128) char push_bulk_memory[];
    __shared__ __align__(8) uint64_t full[PUSH_BULK_STAGES];
    const uint32_t memory = (uint32_t)__cvta_generic_to_shared(push_bulk_memory), bar = (uint32_t)__cvta_generic_to_shared(full);
    const uint64_t start = (uint64_t)first * a->flat_piece, step = (uint64_t)stride * a->flat_piece;
    for (uint32_t s = 0; s < stages; s++) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(bar + 8 * s) : "memory");
    }
    /* The copies see the barriers. */
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
    for (uint32_t s = 0; s + 1 < stages && start + s * step < a->part_bytes; s++) {
        push_bulk_load(a, bar + 8 * s, memory + s * a->flat_piece, start + s * step);
    }
    uint32_t s = 0, phase = 0;
    for (uint64_t at = start; at < a->part_bytes; at += step) {
        uint32_t ready = 0;
        while (!ready) {
            asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                         : "=r"(ready)
                         : "r"(bar + 8 * s), "r"(phase)
                         : "memory");
        }
        for (uint32_t d = d_first; d < d_last; d++) {
            if (end[d].base != 0) {
                asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(end[d].base + at),
                             "r"(memory + s * a->flat_piece), "r"(push_bulk_bytes(a, at))
                             : "memory");
            }
        }
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        /* The stage of the piece before this one is free as soon as that has been read. */
        const uint64_t next = at + (stages - 1) * step;
        if (next < a->part_bytes) {
            const uint32_t to = s == 0 ? stages - 1 : s - 1;
            asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
            push_bulk_load(a, bar + 8 * to, memory + to * a->flat_piece, next);
        }
        if (++s == stages) {
            s = 0;
            phase ^= 1;
        }
    }
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); /* not .read: what the flags are going to announce has been stored */
    for (s = 0; s < stages; s++) {
        asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(bar + 8 * s) : "memory");
    }
}
