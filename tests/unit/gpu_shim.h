/* SPDX-License-Identifier: MIT
 *
 * The GPU side of kernels/kernel.h and ccl/device.h as C on a CPU: every thread of every block of every rank is a coroutine, scheduled at random.
 * Included instead of both, so that kernels/ *.hip compile their GPU bodies. Shared memory lies in a section of its own, of which each block keeps a
 * copy. Memory is sequentially consistent here: this finds wrong paths, barriers and addresses, not missing fences. */
#ifndef CCL_GPU_SHIM_H
#define CCL_GPU_SHIM_H

#define CCL_KERNEL_H
#define CCL_DEVICE_H

#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#if defined(__clang__)
#pragma GCC diagnostic ignored "-Wpass-failed" /* a loop not unrolled */
#else
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" /* vectors a thread does not have stay unset, and are not stored either */
#endif

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "kernel_list.h"

#define CCL_DEVICE static inline
#define CCL_DEVICE_SLOW static
#define CCL_PTR(type, addr) ((type *)gpu_aligned(addr, _Alignof(type)))
typedef uint32_t ccl_vec16 __attribute__((vector_size(16), aligned(16)));

/* A GPU traps on these, most CPUs do not. */
CCL_DEVICE uint64_t gpu_aligned(uint64_t addr, uint64_t align)
{
    if (addr % align != 0) {
        printf("FAILED: an access of %u bytes at ...%03x\n", (unsigned)align, (unsigned)(addr & 0xfff));
        fflush(stdout);
        abort();
    }
    return addr;
}

#define CCL_LANE(v, i) ((v)[i])

#define CCL_CONST
#define CCL_AS1
#define CCL_UNROLL 2
#ifndef CCL_FLAT_UNITS
#define CCL_FLAT_UNITS 8
#endif
#define CCL_WARP 32u
#define CCL_MAX_THREADS 64 /* the blocks whose loops have their offsets compiled in */
#define CCL_SHARED static __attribute__((section("gpu_shared")))
#define CCL_KERNEL_BOUNDS(name, type, threads, blocks) __attribute__((unused)) static void ccl_k_##name(const type *a)
#define CCL_KERNEL(name, type) CCL_KERNEL_BOUNDS(name, type, 0, 0)
#define CCL_KERNEL_WORLD(name, world, threads, blocks) CCL_KERNEL_BOUNDS(name, struct ccl_k_coll_args, 0, 0)
#define CCL_KERNEL_WORDS(name, world, threads, blocks) CCL_KERNEL_BOUNDS(name, struct ccl_k_words_args, 0, 0)
#define CCL_KERNEL_PARTS_LL(name, threads) CCL_KERNEL_BOUNDS(name, struct ccl_k_parts_args, 0, 0)
#define CCL_NO_UNROLL
#define CCL_LL_WORDS
#define CCL_NEED_NOW(x) ((void)(x))
#define CCL_HOLD(x) ((void)(x))
#define CCL_DEAD_GRACE_NS 0u
#define CCL_ADVERT_BODY "advert_packets.h"
#define CCL_LL_BODY "ll_packet_body.h"
#define CCL_PARTS_LL_BODY "parts_ll_packets.h"
#if CCL_FLAT_UNITS
#define CCL_PUSH_DIRECT_BODY "push_direct_vectors.h"
#define CCL_MOVE_UNITS 4
#define CCL_ONE_EXIT 0
#else /* as on AMD */
#define CCL_PUSH_DIRECT_BODY "push_direct_tiles.h"
#define CCL_ONE_EXIT 1
#endif
#define CCL_PUSH_BODY "push_gpu_body.h"
#define ccl_note_failure()

/* The test's scheduler. */
uint32_t ccl_tid(void);
uint32_t ccl_bid(void);
uint32_t ccl_grid(void);
uint32_t ccl_threads(void);
void ccl_block_sync(void);
CCL_DEVICE uint32_t ccl_wave_any(uint32_t x) { return x; } /* each lane is a thread */
void ccl_warp_sync(void);
void ccl_pause(void);
void gpu_maybe_yield(void);
uint32_t ccl_of_lane(uint32_t v, uint32_t lane);
uint32_t ccl_warp_ballot(uint32_t x);
uint64_t ccl_warp_first_u64(uint64_t v);
void ccl_barrier_arrive(uint32_t barrier);
void ccl_barrier_sync(uint32_t barrier);
CCL_DEVICE uint32_t ccl_grid_anew(void) { return ccl_grid(); }
CCL_DEVICE uint32_t ccl_threads_anew(void) { return ccl_threads(); }

CCL_DEVICE void ccl_block_release_system(void) { ccl_block_sync(); }
CCL_DEVICE void ccl_flag_release_system(void) { gpu_maybe_yield(); }
CCL_DEVICE uint32_t ccl_mul_hi(uint32_t x, uint32_t y) { return (uint32_t)(((uint64_t)x * y) >> 32); }
CCL_DEVICE void ccl_wait_loads(void) {}
CCL_DEVICE void ccl_sched_fence(void) {}
CCL_DEVICE uint32_t ccl_uniform(uint32_t v) { return v; }
CCL_DEVICE uint64_t ccl_uniform_u64(uint64_t v) { return v; }
CCL_DEVICE uint32_t ccl_afresh(uint32_t v) { return v; }
#define CCL_AFRESH(a) ((void)(a))
CCL_DEVICE void ccl_spin(uint32_t flags) { (void)flags, ccl_pause(); }
CCL_DEVICE void ccl_fence_release_system(void) {}
CCL_DEVICE void ccl_fence_acquire_system(void) {}
CCL_DEVICE void ccl_fence_sc_system(void) { gpu_maybe_yield(); }

CCL_DEVICE void ccl_store_stream_vec16(uint64_t addr, ccl_vec16 v) { *CCL_PTR(ccl_vec16, addr) = v; }
CCL_DEVICE ccl_vec16 ccl_load_stream_vec16(uint64_t addr) { return *CCL_PTR(const ccl_vec16, addr); }
CCL_DEVICE ccl_vec16 ccl_load_once_vec16(uint64_t addr) { return *CCL_PTR(const ccl_vec16, addr); }
CCL_DEVICE void ccl_prefetch(uint64_t addr) { (void)*(volatile const char *)addr; }
CCL_DEVICE ccl_vec16 ccl_load_ring_vec16(uint64_t addr) { return *CCL_PTR(const ccl_vec16, addr); }

CCL_DEVICE uint64_t gpu_load(uint64_t addr)
{
    gpu_maybe_yield();
    return *CCL_PTR(volatile const uint64_t, addr);
}

CCL_DEVICE void gpu_store(uint64_t addr, uint64_t v)
{
    gpu_maybe_yield();
    *CCL_PTR(volatile uint64_t, addr) = v;
}

#define ccl_load_relaxed_system_u64 gpu_load
#define ccl_load_acquire_system_u64 gpu_load
#define ccl_load_relaxed_agent_u64 gpu_load
#define ccl_store_relaxed_system_u64 gpu_store
#define ccl_store_release_system_u64 gpu_store
#define ccl_store_relaxed_agent_u64 gpu_store

CCL_DEVICE uint64_t ccl_add_relaxed_agent_u64(uint64_t addr, uint64_t v)
{
    uint64_t old = gpu_load(addr);
    *CCL_PTR(uint64_t, addr) = old + v;
    return old;
}

CCL_DEVICE uint64_t ccl_or_relaxed_agent_u64(uint64_t addr, uint64_t v)
{
    uint64_t old = gpu_load(addr);
    *CCL_PTR(uint64_t, addr) = old | v;
    return old;
}

CCL_DEVICE uint64_t ccl_replace_relaxed_system_u64(uint64_t addr, uint64_t old, uint64_t v)
{
    uint64_t found = gpu_load(addr);
    if (found == old) {
        *CCL_PTR(uint64_t, addr) = v;
    }
    return found;
}

CCL_DEVICE ccl_vec16 ccl_load_packet_system(uint64_t addr)
{
    gpu_maybe_yield();
    return *CCL_PTR(const ccl_vec16, addr);
}

#define ccl_acquire_packet_system ccl_load_packet_system

CCL_DEVICE void ccl_store_packet_system(uint64_t addr, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    gpu_maybe_yield();
    *CCL_PTR(ccl_vec16, addr) = (ccl_vec16){a, b, c, d};
}

#define ccl_load_global_u64(addr) (*CCL_PTR(const uint64_t, addr))
#define ccl_store_global_u64(addr, v) (*CCL_PTR(uint64_t, addr) = (v))

uint64_t ccl_clock_ns(void);

#define CCL_ARGS CCL_CONST const struct ccl_k_coll_args *
#define CCL_PARTS CCL_CONST const struct ccl_k_parts_args *

#endif
