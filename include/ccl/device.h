/* SPDX-License-Identifier: MIT
 *
 * Kernels that talk to other ranks: HIP on AMD (HIP's headers are not needed), CUDA on NVIDIA, and C or C++ on the CPU, one source for all. Include this
 * file in a kernel; docs/device.md is the guide. What is meant for users' own kernels:
 *   device_comm.h     translation to peers' memory, copies
 *   device_sync.h     signals, waits, barriers over all ranks
 *   device_atomic.h   loads, stores and atomics
 *   CCL_DEVICE        in front of a function that runs on the device
 * Every function that orders memory names its scope:
 *   system   other devices and the host see it      agent   only this device does
 * The accessors in this file, on plain 64-bit addresses, are those of libccl's own kernels; docs/kernels.md, section 2, argues for the forms
 * per architecture. */
#ifndef CCL_DEVICE_H
#define CCL_DEVICE_H

#include <stdint.h>

#if defined(__AMDGCN__) || (defined(__HIP__) && defined(__clang__)) /* also while HIP compiles the host's half of a file */
#define CCL_ON_AMD 1
#define CCL_DEVICE static __attribute__((device)) inline __attribute__((always_inline))
/* A call would need a stack (scratch memory), so error paths are inlined too. */
#define CCL_DEVICE_SLOW CCL_DEVICE
#define CCL_AS1 __attribute__((address_space(1)))
#if defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__)
#define CCL_ON_CDNA 1
#endif
#elif defined(__CUDACC__)
#define CCL_ON_NVIDIA 1
#define CCL_DEVICE static __device__ __forceinline__
#ifndef CCL_DEVICE_SLOW
#define CCL_DEVICE_SLOW static __device__ __noinline__
#endif
#define CCL_AS1
#else
#define CCL_ON_HOST 1
#define CCL_DEVICE static inline __attribute__((always_inline))
#define CCL_DEVICE_SLOW static __attribute__((noinline))
#define CCL_AS1
#endif

#define CCL_PTR(type, addr) ((CCL_AS1 type *)(addr))

/* 16 bytes that move as one; CCL_LANE(v, i) is its i-th 32-bit word. */
#if defined(CCL_ON_NVIDIA)
typedef struct __align__(16) {
    uint32_t lane[4];
} ccl_vec16;
#define CCL_LANE(v, i) ((v).lane[i])
#else
typedef uint32_t ccl_vec16 __attribute__((vector_size(16)));
#define CCL_LANE(v, i) ((v)[i])
#endif

#if defined(CCL_ON_NVIDIA)

CCL_DEVICE uint64_t ccl_load_relaxed_system_u64(uint64_t addr)
{
    uint64_t v;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(addr) : "memory");
    return v;
}

CCL_DEVICE uint64_t ccl_load_acquire_system_u64(uint64_t addr)
{
    uint64_t v;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(addr) : "memory");
    return v;
}

CCL_DEVICE void ccl_store_relaxed_system_u64(uint64_t addr, uint64_t v)
{
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(addr), "l"(v) : "memory");
}

CCL_DEVICE void ccl_store_release_system_u64(uint64_t addr, uint64_t v)
{
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(addr), "l"(v) : "memory");
}

CCL_DEVICE uint64_t ccl_load_relaxed_agent_u64(uint64_t addr)
{
    uint64_t v;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(addr) : "memory");
    return v;
}

CCL_DEVICE void ccl_store_relaxed_agent_u64(uint64_t addr, uint64_t v)
{
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(addr), "l"(v) : "memory");
}

CCL_DEVICE uint64_t ccl_add_relaxed_agent_u64(uint64_t addr, uint64_t v)
{
    uint64_t old;
    asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(addr), "l"(v) : "memory");
    return old;
}

CCL_DEVICE uint64_t ccl_or_relaxed_agent_u64(uint64_t addr, uint64_t v)
{
    uint64_t old;
    asm volatile("atom.relaxed.gpu.global.or.b64 %0, [%1], %2;" : "=l"(old) : "l"(addr), "l"(v) : "memory");
    return old;
}

/* Store v if the word still holds old; returns what it held. */
CCL_DEVICE uint64_t ccl_replace_relaxed_system_u64(uint64_t addr, uint64_t old, uint64_t v)
{
    uint64_t found;
    asm volatile("atom.relaxed.sys.global.cas.b64 %0, [%1], %2, %3;" : "=l"(found) : "l"(addr), "l"(old), "l"(v) : "memory");
    return found;
}

CCL_DEVICE void ccl_fence_release_system(void) { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
CCL_DEVICE void ccl_fence_acquire_system(void) { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
CCL_DEVICE void ccl_fence_sc_system(void) { asm volatile("fence.sc.sys;" ::: "memory"); }

CCL_DEVICE ccl_vec16 ccl_load_packet_system(uint64_t addr) /* two 8-byte packets, each whole */
{
    ccl_vec16 v;
    uint64_t a, b;
    asm volatile("ld.volatile.global.v2.u64 {%0,%1}, [%2];" : "=l"(a), "=l"(b) : "l"(addr) : "memory");
    v.lane[0] = (uint32_t)a;
    v.lane[1] = (uint32_t)(a >> 32);
    v.lane[2] = (uint32_t)b;
    v.lane[3] = (uint32_t)(b >> 32);
    return v;
}

CCL_DEVICE void ccl_store_packet_system(uint64_t addr, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    asm volatile("st.volatile.global.v2.u64 [%0], {%1,%2};" ::"l"(addr), "l"((uint64_t)b << 32 | a), "l"((uint64_t)d << 32 | c) : "memory");
}

CCL_DEVICE uint64_t ccl_clock_ns(void)
{
    uint64_t t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
}

#elif defined(CCL_ON_AMD)

CCL_DEVICE uint64_t ccl_load_relaxed_system_u64(uint64_t addr)
{
    return __hip_atomic_load(CCL_PTR(const uint64_t, addr), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

CCL_DEVICE uint64_t ccl_load_acquire_system_u64(uint64_t addr)
{
    return __hip_atomic_load(CCL_PTR(const uint64_t, addr), __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM);
}

CCL_DEVICE void ccl_store_relaxed_system_u64(uint64_t addr, uint64_t v)
{
    __hip_atomic_store(CCL_PTR(uint64_t, addr), v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

/* Every store of this wave and, on CDNA, every dirty line of this XCD's L2 is visible to the system afterwards. The explicit wait is not
 * redundant: compilers drop the one behind buffer_wbl2 when the wave has no access of its own outstanding. */
CCL_DEVICE void ccl_fence_release_system(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "");
#if defined(CCL_ON_CDNA)
    __builtin_amdgcn_s_waitcnt(0x0f70);
#endif
}

CCL_DEVICE void ccl_store_release_system_u64(uint64_t addr, uint64_t v)
{
    ccl_fence_release_system();
    ccl_store_relaxed_system_u64(addr, v);
}

CCL_DEVICE uint64_t ccl_load_relaxed_agent_u64(uint64_t addr)
{
    return __hip_atomic_load(CCL_PTR(const uint64_t, addr), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

CCL_DEVICE void ccl_store_relaxed_agent_u64(uint64_t addr, uint64_t v)
{
    __hip_atomic_store(CCL_PTR(uint64_t, addr), v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

CCL_DEVICE uint64_t ccl_add_relaxed_agent_u64(uint64_t addr, uint64_t v)
{
    return __hip_atomic_fetch_add(CCL_PTR(uint64_t, addr), v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

CCL_DEVICE uint64_t ccl_or_relaxed_agent_u64(uint64_t addr, uint64_t v)
{
    return __hip_atomic_fetch_or(CCL_PTR(uint64_t, addr), v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

CCL_DEVICE void ccl_fence_acquire_system(void) { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, ""); }

/* Store v if the word still holds old; returns what it held. */
CCL_DEVICE uint64_t ccl_replace_relaxed_system_u64(uint64_t addr, uint64_t old, uint64_t v)
{
    __hip_atomic_compare_exchange_strong(CCL_PTR(uint64_t, addr), &old, v, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                         __HIP_MEMORY_SCOPE_SYSTEM);
    return old;
}

/* On CDNA one half behind the other: in a fence of both the compiler may drop the wait between write-back and invalidate. The empty statement keeps
 * accesses from moving across both halves. */
CCL_DEVICE void ccl_fence_sc_system(void)
{
#if defined(CCL_ON_CDNA)
    ccl_fence_release_system();
    asm volatile("" ::: "memory");
    ccl_fence_acquire_system();
#else
    __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "");
#endif
}

CCL_DEVICE ccl_vec16 ccl_load_packet_system(uint64_t addr) /* two 8-byte packets, each whole */
{
    union {
        uint64_t q[2];
        ccl_vec16 v;
    } u;
    u.q[0] = ccl_load_relaxed_system_u64(addr);
    u.q[1] = ccl_load_relaxed_system_u64(addr + 8);
    return u.v;
}

CCL_DEVICE void ccl_store_packet_system(uint64_t addr, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    ccl_store_relaxed_system_u64(addr, (uint64_t)b << 32 | a);
    ccl_store_relaxed_system_u64(addr + 8, (uint64_t)d << 32 | c);
}

CCL_DEVICE uint64_t ccl_clock_ns(void)
{
#if defined(CCL_ON_CDNA) && !__has_builtin(__builtin_readsteadycounter) /* clang before 18 */
    return __builtin_amdgcn_s_memrealtime() * 10u;
#else
    return __builtin_readsteadycounter() * 10u; /* 100 MHz */
#endif
}

#else /* CPU */

#include <time.h>

CCL_DEVICE uint64_t ccl_load_relaxed_system_u64(uint64_t addr)
{
    return __atomic_load_n((const uint64_t *)addr, __ATOMIC_RELAXED);
}

CCL_DEVICE uint64_t ccl_load_acquire_system_u64(uint64_t addr)
{
    return __atomic_load_n((const uint64_t *)addr, __ATOMIC_ACQUIRE);
}

CCL_DEVICE void ccl_store_relaxed_system_u64(uint64_t addr, uint64_t v)
{
    __atomic_store_n((uint64_t *)addr, v, __ATOMIC_RELAXED);
}

CCL_DEVICE void ccl_store_release_system_u64(uint64_t addr, uint64_t v)
{
    __atomic_store_n((uint64_t *)addr, v, __ATOMIC_RELEASE);
}

/* Store v if the word still holds old; returns what it held. */
CCL_DEVICE uint64_t ccl_replace_relaxed_system_u64(uint64_t addr, uint64_t old, uint64_t v)
{
    __atomic_compare_exchange_n((uint64_t *)addr, &old, v, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return old;
}

CCL_DEVICE uint64_t ccl_load_relaxed_agent_u64(uint64_t addr)
{
    return __atomic_load_n((const uint64_t *)addr, __ATOMIC_RELAXED);
}

CCL_DEVICE void ccl_store_relaxed_agent_u64(uint64_t addr, uint64_t v)
{
    __atomic_store_n((uint64_t *)addr, v, __ATOMIC_RELAXED);
}

CCL_DEVICE uint64_t ccl_add_relaxed_agent_u64(uint64_t addr, uint64_t v)
{
    return __atomic_fetch_add((uint64_t *)addr, v, __ATOMIC_RELAXED);
}

CCL_DEVICE uint64_t ccl_or_relaxed_agent_u64(uint64_t addr, uint64_t v)
{
    return __atomic_fetch_or((uint64_t *)addr, v, __ATOMIC_RELAXED);
}

#if defined(__SANITIZE_THREAD__)
/* The thread sanitizer knows no fences; a read-modify-write of one word orders at least as much. */
CCL_DEVICE void ccl_fence_sc_system(void)
{
    static uint32_t word;
    __atomic_fetch_add(&word, 1, __ATOMIC_SEQ_CST);
}
CCL_DEVICE void ccl_fence_release_system(void) { ccl_fence_sc_system(); }
CCL_DEVICE void ccl_fence_acquire_system(void) { ccl_fence_sc_system(); }
#else
CCL_DEVICE void ccl_fence_release_system(void) { __atomic_thread_fence(__ATOMIC_RELEASE); }
CCL_DEVICE void ccl_fence_acquire_system(void) { __atomic_thread_fence(__ATOMIC_ACQUIRE); }
CCL_DEVICE void ccl_fence_sc_system(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
#endif

#if defined(CLOCK_MONOTONIC) /* not in strict C */
CCL_DEVICE uint64_t ccl_clock_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}
#endif

#endif

#include "device_atomic.h"
#include "device_comm.h"
#include "device_sync.h"

#endif
