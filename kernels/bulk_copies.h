/* SPDX-License-Identifier: MIT
 *
 * NVIDIA sm_90: bulk copies through stages of shared memory, by one thread. A stage is loaded, its barrier `full` flips, it is stored to one or several places, and is free again
 * when these stores have read it. */
#ifndef CCL_BULK_COPIES_H
#define CCL_BULK_COPIES_H

#define BULK_STAGES_MOST 8u

/* Barriers of 8 bytes each, one a stage, that flip with so many arrivals. */
CCL_DEVICE void bulk_begin(uint32_t full, uint32_t stages, uint32_t arrivals)
{
    for (uint32_t s = 0; s < stages; s++) {
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(full + 8 * s), "r"(arrivals) : "memory");
    }
    /* The copies see the barriers. */
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
}

/* bytes: a multiple of 16, as both addresses are. */
CCL_DEVICE void bulk_load(uint32_t full, uint32_t to, uint64_t from, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(full), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from), "r"(bytes), "r"(full) : "memory");
}

/* Until the load of this phase is there. */
CCL_DEVICE void bulk_wait(uint32_t full, uint32_t phase)
{
    uint32_t ready = 0;
    while (!ready) {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(ready) : "r"(full), "r"(phase) : "memory");
    }
}

CCL_DEVICE void bulk_store(uint64_t to, uint32_t from, uint32_t bytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes) : "memory");
}

/* Behind the stores of a stage. */
CCL_DEVICE void bulk_commit(void) { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

/* The stage before the last one committed is free: its stores have read it. */
CCL_DEVICE void bulk_await_previous(void) { asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory"); }

/* The barriers' memory may be used otherwise. */
CCL_DEVICE void bulk_forget(uint32_t full, uint32_t stages)
{
    for (uint32_t s = 0; s < stages; s++) {
        asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(full + 8 * s) : "memory");
    }
}

/* All stores have been made. */
CCL_DEVICE void bulk_end(uint32_t full, uint32_t stages)
{
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); /* not .read: what the flags are going to announce has been stored */
    bulk_forget(full, stages);
}

#endif
