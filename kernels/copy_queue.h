/* SPDX-License-Identifier: MIT
 *
 * NVIDIA: vectors on their way from device memory into shared memory, CCL_QUEUE_VECTORS a thread, without a register for each. A thread fetches for itself alone, so it waits
 * for its own copies and for nobody. Needs CCL_QUEUE_VECTORS * 16 bytes of dynamic shared memory a thread. What is fetched comes from the device's cache or from behind it. */
#ifndef CCL_COPY_QUEUE_H
#define CCL_COPY_QUEUE_H

/* Vector i of this thread, counted from the first fetch on. */
CCL_DEVICE uint32_t queue_place(uint32_t i)
{
    extern __shared__ __align__(16) char queue_memory[];
    return (uint32_t)__cvta_generic_to_shared(queue_memory) + (i % CCL_QUEUE_VECTORS * ccl_threads() + ccl_tid()) * 16;
}

CCL_DEVICE void queue_fetch(uint32_t i, uint64_t from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(queue_place(i)), "l"(from) : "memory");
}

/* Ends a group of fetches, which may be empty. */
CCL_DEVICE void queue_commit(void) { asm volatile("cp.async.commit_group;" ::: "memory"); }

/* Until no more than so many groups (a constant) are on their way. */
#define QUEUE_AWAIT(groups) asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory")

/* A vector that has arrived. Its place may be fetched to again once the value has been used. */
CCL_DEVICE ccl_vec16 queue_take(uint32_t i)
{
    ccl_vec16 v;
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.lane[0]), "=r"(v.lane[1]), "=r"(v.lane[2]), "=r"(v.lane[3]) : "r"(queue_place(i)) : "memory");
    return v;
}

#endif
