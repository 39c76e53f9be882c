/* SPDX-License-Identifier: MIT
 *
 * How a kernel is written once for AMD, NVIDIA and the CPU: its declaration, its indices, its block barrier. On the CPU a block is one
 * thread, a warp is one lane, shared memory is an ordinary variable and the barrier is nothing. Beside include/ccl/device.h (memory
 * accesses) this is the only platform mapping.
 *
 *     CCL_KERNEL(name, struct args) { ... a->field ... }
 *
 * a points to the arguments: in the constant address space on AMD (scalar loads), a grid constant on NVIDIA. */
#ifndef CCL_KERNEL_H
#define CCL_KERNEL_H

#include "ccl/device.h"

#include "args.h"
#include "kernel_list.h"

#if defined(CCL_ON_AMD)

#define CCL_CONST __attribute__((address_space(4)))
#define CCL_FLAT_UNITS 0 /* the loop over tiles serves flat parts too */
#define CCL_PUSH_DIRECT_BODY "push_direct_tiles.h"
#define CCL_PARTS_DIRECT_BODY "parts_direct_tiles.h"
#define CCL_ONE_EXIT 1 /* a block fails at the end of its kernel: all is inlined, and this way that code is there once */
#define CCL_SHARED static __attribute__((shared))
#define CCL_WARP 32u /* lanes that act together in control code: right for wave64 and wave32 */
#define CCL_KERNEL_BOUNDS(name, type, threads, blocks) CCL_KERNEL_VGPRS(name, type, threads, 64)
#define CCL_KERNEL_LARGE(name, type) CCL_KERNEL_VGPRS(name, type, CCL_MAX_THREADS, 128)
#define CCL_KERNEL_VGPRS(name, type, threads, vgprs)                                                              \
    CCL_DEVICE void ccl_body_##name(CCL_CONST const type *a);                                                     \
    extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, threads), amdgpu_num_vgpr(vgprs))) void      \
        ccl_k_##name(type by_value)                                                                               \
    {                                                                                                              \
        (void)by_value;                                                                                            \
        ccl_body_##name((CCL_CONST const type *)__builtin_amdgcn_kernarg_segment_ptr());                          \
    }                                                                                                              \
    CCL_DEVICE void ccl_body_##name(CCL_CONST const type *a)

CCL_DEVICE uint32_t ccl_tid(void) { return __builtin_amdgcn_workitem_id_x(); }
CCL_DEVICE uint32_t ccl_bid(void) { return __builtin_amdgcn_workgroup_id_x(); }
#if defined(CCL_CODE_OBJECT_V4)
/* The dispatch packet: halfword 2 is the threads of a block, dword 3 those of the grid, of which there are whole blocks. */
CCL_DEVICE uint32_t ccl_threads(void) { return ((CCL_CONST const uint16_t *)__builtin_amdgcn_dispatch_ptr())[2]; }
CCL_DEVICE uint32_t ccl_grid(void) { return ((CCL_CONST const uint32_t *)__builtin_amdgcn_dispatch_ptr())[3] / ccl_threads(); }
#else
/* Code object v5, implicit arguments: dword 0 is the number of blocks, halfword 6 (byte 12) the threads of a block. */
CCL_DEVICE uint32_t ccl_grid(void) { return *(CCL_CONST const uint32_t *)__builtin_amdgcn_implicitarg_ptr(); }
CCL_DEVICE uint32_t ccl_threads(void)
{
    return *(CCL_CONST const uint16_t *)((CCL_CONST const char *)__builtin_amdgcn_implicitarg_ptr() + 12);
}
#endif
/* Barrier of the block, with the order a barrier is expected to give to shared and global memory of this block. */
CCL_DEVICE void ccl_block_sync(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
/* Publish = all threads ccl_block_release_system(), then the lanes that store flags ccl_flag_release_system() and relaxed stores.
 * Every wave must write back: a fence reaches only the L2 of the XCD its wave runs on. */
CCL_DEVICE void ccl_block_release_system(void)
{
    ccl_fence_release_system();
    __builtin_amdgcn_s_barrier();
}
CCL_DEVICE void ccl_flag_release_system(void) {}
/* Lanes run in step, but a compiler may move an access of one branch ahead of another. */
CCL_DEVICE void ccl_warp_sync(void)
{
    __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
    __builtin_amdgcn_wave_barrier();
}
/* True when it is so for some lane of the wave that is here. Lanes that have left a loop wait behind it for those still inside, and what stands in front of
 * their `break` may be done only then. So the wait of all ends with the first that has seen an error, and so does a loop over several waits. */
#if defined(CCL_ON_CDNA)
#if __has_builtin(__builtin_amdgcn_ballot_w64)
CCL_DEVICE uint32_t ccl_wave_any(uint32_t x) { return __builtin_amdgcn_ballot_w64(x != 0) != 0; }
#else /* clang 15; 33: not equal */
CCL_DEVICE uint32_t ccl_wave_any(uint32_t x) { return __builtin_amdgcn_uicmp(x, 0, 33) != 0; }
#endif
#else
CCL_DEVICE uint32_t ccl_wave_any(uint32_t x) { return __builtin_amdgcn_ballot_w32(x != 0) != 0; }
#endif
/* The v of another lane of the same 32; all lanes of the wave are here. */
CCL_DEVICE uint32_t ccl_of_lane(uint32_t v, uint32_t lane)
{
#if defined(CCL_ON_CDNA)
    lane |= ccl_tid() & 32;
#endif
    return (uint32_t)__builtin_amdgcn_ds_bpermute((int)(lane * 4), (int)v);
}
CCL_DEVICE void ccl_pause(void) { __builtin_amdgcn_s_sleep(1); }
CCL_DEVICE uint32_t ccl_mul_hi(uint32_t x, uint32_t y) { return (uint32_t)(((uint64_t)x * y) >> 32); }
/* All outstanding loads of this wave have arrived, so that the first wait inside a loop need not drain stores too. */
CCL_DEVICE void ccl_wait_loads(void)
{
#if defined(CCL_ON_CDNA)
    __builtin_amdgcn_s_waitcnt(0x0f70);
#endif
}
CCL_DEVICE void ccl_sched_fence(void) { __builtin_amdgcn_sched_barrier(0); }
/* A value that all lanes of the wave hold alike, in a scalar register. */
CCL_DEVICE uint32_t ccl_uniform(uint32_t v) { return (uint32_t)__builtin_amdgcn_readfirstlane((int)v); }
CCL_DEVICE uint64_t ccl_uniform_u64(uint64_t v) { return (uint64_t)ccl_uniform((uint32_t)(v >> 32)) << 32 | ccl_uniform((uint32_t)v); }
/* The arguments, read anew from here on: what was read before does not stay in scalar registers across this point. */
#define CCL_AFRESH(a) asm volatile("" : "+s"(a))
/* For the same reason: what is computed from it is computed behind here, and masks of lanes do not stay. */
CCL_DEVICE uint32_t ccl_afresh(uint32_t v)
{
    asm volatile("" : "+v"(v));
    return v;
}
CCL_DEVICE void ccl_store_stream_vec16(uint64_t addr, ccl_vec16 v) { *CCL_PTR(ccl_vec16, addr) = v; }
CCL_DEVICE ccl_vec16 ccl_load_stream_vec16(uint64_t addr) { return *CCL_PTR(const ccl_vec16, addr); }
CCL_DEVICE void ccl_prefetch(uint64_t addr) { (void)addr; }
/* From a ring slot: no earlier content of a cache near the core may be served. */
CCL_DEVICE ccl_vec16 ccl_load_ring_vec16(uint64_t addr) { return *CCL_PTR(const ccl_vec16, addr); }

#elif defined(CCL_ON_NVIDIA)

#define CCL_CONST
#define CCL_FLAT_UNITS 8 /* vectors a thread and step of the push loop for flat parts: 1 to 3 % faster than 4 at 256 MiB */
#define REDUCE_WIDE      /* registers of reduce are enough for several vectors a thread */
#define CCL_MOVE_UNITS 4 /* vectors a thread of ccl_move_run has in flight */
#if __CUDA_ARCH__ >= 900
#define CCL_BULK /* copies through shared memory in bulk */
#endif
#define CCL_PUSH_DIRECT_BODY "push_direct_vectors.h"
#define CCL_PARTS_DIRECT_BODY "parts_direct_moves.h"
#define CCL_ONE_EXIT 0
#define CCL_UNROLL 2
#define CCL_SHARED __shared__
#define CCL_WARP 32u
#define CCL_KERNEL_BOUNDS(name, type, threads, blocks)                                                     \
    CCL_DEVICE void ccl_body_##name(const type *a);                                                        \
    extern "C" __global__ void __launch_bounds__(threads, blocks) ccl_k_##name(const __grid_constant__ type args) \
    {                                                                                                      \
        ccl_body_##name(&args);                                                                            \
    }                                                                                                      \
    CCL_DEVICE void ccl_body_##name(const type *a)

/* The arguments up to the last peer that there is: each byte of arguments costs time at the start (0.2 us for 500 on an H200). */
template <uint32_t world> struct ccl_args_of {
    alignas(8) unsigned char bytes[offsetof(struct ccl_k_coll_args, peer) + world * sizeof(struct ccl_k_peer)];
};
template <> struct ccl_args_of<0> {
    struct ccl_k_coll_args all;
};
template <uint32_t world> struct ccl_words_args_of {
    alignas(8) unsigned char bytes[offsetof(struct ccl_k_words_args, peer) + world * sizeof(uint64_t)];
};
#define CCL_KERNEL_CUT(name, passed, type, threads, blocks)                                                          \
    CCL_DEVICE void ccl_body_##name(const type *a);                                                                 \
    extern "C" __global__ void __launch_bounds__(threads, blocks) ccl_k_##name(const __grid_constant__ passed args) \
    {                                                                                                               \
        ccl_body_##name((const type *)&args);                                                                       \
    }                                                                                                               \
    CCL_DEVICE void ccl_body_##name(const type *a)
#define CCL_KERNEL_WORLD(name, world, threads, blocks) \
    CCL_KERNEL_CUT(name, ccl_args_of<world>, struct ccl_k_coll_args, threads, blocks)
#define CCL_KERNEL_WORDS(name, world, threads, blocks) \
    CCL_KERNEL_CUT(name, ccl_words_args_of<world>, struct ccl_k_words_args, threads, blocks)
#define CCL_KERNEL_REDUCE(name, type) CCL_KERNEL_BOUNDS(name, type, CCL_REDUCE_THREADS, 2)
struct ccl_parts_ll_args {
    alignas(8) unsigned char bytes[offsetof(struct ccl_k_parts_args, ring_bytes)];
};
#define CCL_KERNEL_PARTS_LL(name, threads) CCL_KERNEL_CUT(name, ccl_parts_ll_args, struct ccl_k_parts_args, threads, 2)
#define CCL_NEED_NOW(x) asm volatile("" ::"l"(x)) /* computed here, not where it is used */
#define CCL_HOLD(x) asm volatile("" : "+l"(x)) /* and not computed again where it is used */
#if !defined(CCL_TRACED)
#define CCL_LL_WORDS /* has the kernels ll_words_W */
#endif

CCL_DEVICE uint32_t ccl_tid(void) { return threadIdx.x; }
CCL_DEVICE uint32_t ccl_bid(void) { return blockIdx.x; }
CCL_DEVICE uint32_t ccl_grid(void) { return gridDim.x; }
CCL_DEVICE uint32_t ccl_threads(void) { return blockDim.x; }
/* The same, asked for where they stand and not kept in a register. */
CCL_DEVICE uint32_t ccl_grid_anew(void)
{
    uint32_t v;
    asm volatile("mov.u32 %0, %%nctaid.x;" : "=r"(v));
    return v;
}
CCL_DEVICE uint32_t ccl_threads_anew(void)
{
    uint32_t v;
    asm volatile("mov.u32 %0, %%ntid.x;" : "=r"(v));
    return v;
}
CCL_DEVICE uint32_t ccl_count_bits(uint32_t x) { return (uint32_t)__popc(x); }
CCL_DEVICE void ccl_block_sync(void) { __syncthreads(); }
/* The end of the kernel for this thread; the compiler believes that one may go on. */
CCL_DEVICE void ccl_exit(void) { asm volatile("{.reg .pred p; setp.ne.u32 p, %0, 0; @p exit;}" ::"r"(blockDim.x) : "memory"); }
/* Publish = all threads ccl_block_release_system(), then the lanes that store flags ccl_flag_release_system() and relaxed stores. One
 * fence by the flag's lane is enough: it is cumulative over the barrier. */
CCL_DEVICE void ccl_block_release_system(void) { __syncthreads(); }
CCL_DEVICE void ccl_flag_release_system(void) { ccl_fence_release_system(); }
CCL_DEVICE void ccl_warp_sync(void) { __syncwarp(); }
CCL_DEVICE uint32_t ccl_wave_any(uint32_t x) { return x; } /* lanes go their own ways */
CCL_DEVICE uint32_t ccl_of_lane(uint32_t v, uint32_t lane) { return __shfl_sync(~0u, v, (int)lane); }
CCL_DEVICE void ccl_pause(void) {}
CCL_DEVICE uint32_t ccl_mul_hi(uint32_t x, uint32_t y) { return __umulhi(x, y); }
#define CCL_AFRESH(a) ((void)(a))
CCL_DEVICE uint32_t ccl_afresh(uint32_t v) { return v; }
CCL_DEVICE uint32_t ccl_uniform(uint32_t v) { return v; }
CCL_DEVICE uint64_t ccl_uniform_u64(uint64_t v) { return v; }
CCL_DEVICE void ccl_store_stream_vec16(uint64_t addr, ccl_vec16 v)
{
    asm volatile("st.global.cs.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(addr), "r"(v.lane[0]), "r"(v.lane[1]),
                 "r"(v.lane[2]), "r"(v.lane[3])
                 : "memory");
}
#define CCL_LOAD_VEC16(name, how)                                                \
    CCL_DEVICE ccl_vec16 name(uint64_t addr)                                     \
    {                                                                            \
        ccl_vec16 v;                                                             \
        asm volatile("ld.global." how ".v4.u32 {%0,%1,%2,%3}, [%4];"             \
                     : "=r"(v.lane[0]), "=r"(v.lane[1]), "=r"(v.lane[2]), "=r"(v.lane[3]) \
                     : "l"(addr));                                               \
        return v;                                                                \
    }
CCL_LOAD_VEC16(ccl_load_stream_vec16, "cs")
/* As ccl_load_packet_system; each half acquires. */
CCL_DEVICE ccl_vec16 ccl_acquire_packet_system(uint64_t addr)
{
    ccl_vec16 v;
    uint64_t a, b;
    asm volatile("ld.acquire.sys.global.v2.u64 {%0,%1}, [%2];" : "=l"(a), "=l"(b) : "l"(addr) : "memory");
    v.lane[0] = (uint32_t)a;
    v.lane[1] = (uint32_t)(a >> 32);
    v.lane[2] = (uint32_t)b;
    v.lane[3] = (uint32_t)(b >> 32);
    return v;
}
/* Not kept in the first cache, fetched a line of 128 bytes at a time. */
CCL_LOAD_VEC16(ccl_load_once_vec16, "L1::no_allocate.L2::128B")

/* Memory of the user, in the global address space: a generic access finds that out first. */
CCL_DEVICE uint64_t ccl_load_global_u64(uint64_t addr)
{
    uint64_t v;
    asm volatile("ld.global.u64 %0, [%1];" : "=l"(v) : "l"(addr));
    return v;
}
CCL_DEVICE void ccl_store_global_u64(uint64_t addr, uint64_t v) { asm volatile("st.global.u64 [%0], %1;" ::"l"(addr), "l"(v) : "memory"); }
/* All lanes of a warp: which of them say so; what lane 0 has. */
CCL_DEVICE uint32_t ccl_warp_ballot(uint32_t x) { return __ballot_sync(~0u, x != 0); }
CCL_DEVICE uint64_t ccl_warp_first_u64(uint64_t v) { return __shfl_sync(~0u, (unsigned long long)v, 0); }
/* Barriers 1 to 15 of all threads of a block, of which those that only arrive do not wait. They order memory as ccl_block_sync, from who arrives to who waits. */
CCL_DEVICE void ccl_barrier_arrive(uint32_t barrier) { asm volatile("barrier.cta.arrive %0, %1;" ::"r"(barrier), "r"(ccl_threads()) : "memory"); }
CCL_DEVICE void ccl_barrier_sync(uint32_t barrier) { asm volatile("barrier.cta.sync %0, %1;" ::"r"(barrier), "r"(ccl_threads()) : "memory"); }
/* The line of 128 bytes there to the device's cache. */
CCL_DEVICE void ccl_prefetch(uint64_t addr) { asm volatile("prefetch.global.L2 [%0];" ::"l"(addr)); }
CCL_DEVICE ccl_vec16 ccl_load_ring_vec16(uint64_t addr)
{
    ccl_vec16 v;
    asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.lane[0]), "=r"(v.lane[1]), "=r"(v.lane[2]), "=r"(v.lane[3])
                 : "l"(addr)
                 : "memory");
    return v;
}
CCL_DEVICE void ccl_store_ring_vec16(uint64_t addr, ccl_vec16 v)
{
    asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(addr), "r"(v.lane[0]), "r"(v.lane[1]), "r"(v.lane[2]), "r"(v.lane[3]) : "memory");
}

#else /* CPU */

#include <sched.h>

#include "host.h"
#include "host_copy.h"

#define CCL_CONST
#define CCL_ONE_EXIT 0
#define CCL_NO_UNROLL
#define CCL_SHARED
#define CCL_WARP 1u
#define CCL_KERNEL_BOUNDS(name, type, threads, blocks)                                            \
    CCL_DEVICE void ccl_body_##name(const type *a);                                               \
    static void ccl_k_##name(const void *args, const struct ccl_host_block *block)                \
    {                                                                                             \
        ccl_block = block;                                                                        \
        ccl_body_##name((const type *)args);                                                      \
    }                                                                                             \
    CCL_DEVICE void ccl_body_##name(const type *a)

extern _Thread_local const struct ccl_host_block *ccl_block __attribute__((tls_model("initial-exec")));

CCL_DEVICE uint32_t ccl_tid(void) { return 0; }
CCL_DEVICE uint32_t ccl_bid(void) { return ccl_block->index; }
CCL_DEVICE uint32_t ccl_grid(void) { return ccl_block->grid; }
CCL_DEVICE uint32_t ccl_threads(void) { return 1; }
CCL_DEVICE void ccl_block_sync(void) {}
/* Streaming copies end with their own store fence (host_copy.c); all other payload stores are ordered by the release of the flag's fence,
 * which is nothing on x86. CCL_LITMUS_NO_RELEASE, for tests only, leaves it out: the thread sanitizer must then report a race. */
CCL_DEVICE void ccl_block_release_system(void) {}
CCL_DEVICE void ccl_flag_release_system(void) {}
CCL_DEVICE void ccl_warp_sync(void) {}
CCL_DEVICE uint32_t ccl_wave_any(uint32_t x) { return x; }
#define CCL_AFRESH(a) ((void)(a))
CCL_DEVICE uint32_t ccl_afresh(uint32_t v) { return v; }
CCL_DEVICE uint32_t ccl_uniform(uint32_t v) { return v; }
CCL_DEVICE uint64_t ccl_uniform_u64(uint64_t v) { return v; }
#if defined(CCL_LITMUS_NO_RELEASE)
#define ccl_publish_system ccl_store_relaxed_system_u64
#else
#define ccl_publish_system ccl_store_release_system_u64
#endif
#define CCL_DEAD_GRACE_NS 0u /* a dead process stores nothing */
#define CCL_OWN_FIRST_BYTES (256u << 10) /* own parts up to this size are copied while the adverts travel: they stay in the cache */
/* Lets the host skip its search for failed operations while there was none in this process. */
#define ccl_note_failure() __atomic_store_n(&ccl_host_failed, 1, __ATOMIC_RELAXED)
#define CCL_ADVERT_BODY "advert_words.h"
#define CCL_LL_BODY "ll_line_body.h"
#define CCL_PARTS_LL_BODY "parts_ll_lines.h"
#define CCL_PUSH_DIRECT_BODY "push_direct_rows.h"
#define CCL_PUSH_BODY "push_host_body.h"
CCL_DEVICE void ccl_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}
/* Between two polls that do not end in a sleep. */
CCL_DEVICE void ccl_spin(uint32_t flags)
{
    if (flags & CCL_F_YIELD) {
        sched_yield();
    } else {
        ccl_pause();
    }
}

#endif

#if !defined(CCL_ON_HOST)
#define CCL_NO_UNROLL _Pragma("unroll 1")
#define ccl_publish_system ccl_store_relaxed_system_u64 /* behind ccl_flag_release_system */
#define CCL_DEAD_GRACE_NS 1000000000u /* kernels of a dead process may run on for a moment (MPS) */
#define ccl_note_failure()
#define CCL_ADVERT_BODY "advert_packets.h"
#define CCL_LL_BODY "ll_packet_body.h"
#define CCL_PARTS_LL_BODY "parts_ll_packets.h"
#define CCL_OWN_FIRST_BYTES (256u << 10)
#define CCL_PUSH_BODY "push_gpu_body.h"
CCL_DEVICE void ccl_spin(uint32_t flags)
{
    (void)flags;
    ccl_pause();
}
#endif

/* Largest block of a kernel that says nothing else; two of them share a compute unit (GPU). */
#define CCL_MAX_THREADS 512
#define CCL_LL_MAX_THREADS 544 /* and a warp beside the data */
#define CCL_KERNEL(name, type) CCL_KERNEL_BOUNDS(name, type, CCL_MAX_THREADS, 2)
/* One that needs more registers, where a compute unit holds two blocks all the same. */
#if !defined(CCL_KERNEL_LARGE)
#define CCL_KERNEL_LARGE(name, type) CCL_KERNEL(name, type)
#endif
#if !defined(CCL_KERNEL_REDUCE)
#define CCL_KERNEL_REDUCE(name, type) CCL_KERNEL_LARGE(name, type)
#endif
/* A collective with its number of ranks compiled in, 0: any. */
#if !defined(CCL_KERNEL_WORLD)
#define CCL_KERNEL_WORLD(name, world, threads, blocks) CCL_KERNEL_BOUNDS(name, struct ccl_k_coll_args, threads, blocks)
#endif

#if !defined(CCL_KERNEL_PARTS_LL)
#define CCL_KERNEL_PARTS_LL(name, threads) CCL_KERNEL_BOUNDS(name, struct ccl_k_parts_args, threads, 2)
#endif

/* The arguments of a collective, wherever they lie. */
#define CCL_ARGS CCL_CONST const struct ccl_k_coll_args *
#define CCL_PARTS CCL_CONST const struct ccl_k_parts_args *

#endif
