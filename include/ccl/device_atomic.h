/* SPDX-License-Identifier: MIT
 *
 * Single accesses for users' own kernels (included by ccl/device.h). Each name says operation, order, scope and type:
 *
 *   ccl_atomic_load_{relaxed,acquire}_{system,agent}_{u32,u64}(const T *p)            -> value
 *   ccl_atomic_store_{relaxed,release}_{system,agent}_{u32,u64}(T *p, T v)
 *   ccl_atomic_{add,or,and,xor,exchange}_{relaxed,acquire,release,acq_rel}_{system,agent}_{u32,u64}(T *p, T v)  -> old value
 *   ccl_atomic_cas_{relaxed,acquire,release,acq_rel}_{system,agent}_{u32,u64}(T *p, T expected, T v)            -> old value
 *   ccl_load_weak_vec16(const void *p) -> ccl_vec16, ccl_store_weak_vec16(void *p, ccl_vec16 v): 16 aligned bytes, not atomic
 *
 * p is aligned to its size and lies in device memory of this rank, or of a peer as mapped here. Every word another rank touches needs scope
 * system, with each access to it; agent is for words that only this device touches. A release orders the accesses of the calling thread (on a GPU
 * nothing of other threads, unless a barrier of the block and ccl_release_block_system stand between). weak accesses are ordered by
 * releases and acquires around them only. */
#ifndef CCL_DEVICE_ATOMIC_H
#define CCL_DEVICE_ATOMIC_H

#include "device.h"

#if defined(CCL_ON_NVIDIA)

/* op: the instruction's operation; C: constraint letter of the register. */
#define CCL_NV_LOAD(order, scope, nv_scope, bits, C)                                                                        \
    CCL_DEVICE uint##bits##_t ccl_atomic_load_##order##_##scope##_u##bits(const uint##bits##_t *p)                          \
    {                                                                                                                       \
        uint##bits##_t v;                                                                                                   \
        asm volatile("ld." #order "." #nv_scope ".u" #bits " %0, [%1];" : "=" C(v) : "l"((uint64_t)p) : "memory");          \
        return v;                                                                                                           \
    }
#define CCL_NV_STORE(order, scope, nv_scope, bits, C)                                                                       \
    CCL_DEVICE void ccl_atomic_store_##order##_##scope##_u##bits(uint##bits##_t *p, uint##bits##_t v)                       \
    {                                                                                                                       \
        asm volatile("st." #order "." #nv_scope ".u" #bits " [%0], %1;" ::"l"((uint64_t)p), C(v) : "memory");               \
    }
#define CCL_NV_RMW(name, op, order, scope, nv_scope, bits, C)                                                               \
    CCL_DEVICE uint##bits##_t ccl_atomic_##name##_##order##_##scope##_u##bits(uint##bits##_t *p, uint##bits##_t v)          \
    {                                                                                                                       \
        uint##bits##_t old;                                                                                                 \
        asm volatile("atom." #order "." #nv_scope "." op #bits " %0, [%1], %2;"                                             \
                     : "=" C(old)                                                                                           \
                     : "l"((uint64_t)p), C(v)                                                                               \
                     : "memory");                                                                                           \
        return old;                                                                                                         \
    }
#define CCL_NV_CAS(order, scope, nv_scope, bits, C)                                                                         \
    CCL_DEVICE uint##bits##_t ccl_atomic_cas_##order##_##scope##_u##bits(uint##bits##_t *p, uint##bits##_t expected,        \
                                                                         uint##bits##_t v)                                  \
    {                                                                                                                       \
        uint##bits##_t old;                                                                                                 \
        asm volatile("atom." #order "." #nv_scope ".cas.b" #bits " %0, [%1], %2, %3;"                                       \
                     : "=" C(old)                                                                                           \
                     : "l"((uint64_t)p), C(expected), C(v)                                                                  \
                     : "memory");                                                                                           \
        return old;                                                                                                         \
    }
#define CCL_NV_ORDERED(order, scope, nv_scope, bits, C)         \
    CCL_NV_RMW(add, "add.u", order, scope, nv_scope, bits, C)   \
    CCL_NV_RMW(or, "or.b", order, scope, nv_scope, bits, C)     \
    CCL_NV_RMW(and, "and.b", order, scope, nv_scope, bits, C)   \
    CCL_NV_RMW(xor, "xor.b", order, scope, nv_scope, bits, C)   \
    CCL_NV_RMW(exchange, "exch.b", order, scope, nv_scope, bits, C) \
    CCL_NV_CAS(order, scope, nv_scope, bits, C)
#define CCL_ATOMICS(scope, nv_scope, bits, C)              \
    CCL_NV_LOAD(relaxed, scope, nv_scope, bits, C)         \
    CCL_NV_LOAD(acquire, scope, nv_scope, bits, C)         \
    CCL_NV_STORE(relaxed, scope, nv_scope, bits, C)        \
    CCL_NV_STORE(release, scope, nv_scope, bits, C)        \
    CCL_NV_ORDERED(relaxed, scope, nv_scope, bits, C)      \
    CCL_NV_ORDERED(acquire, scope, nv_scope, bits, C)      \
    CCL_NV_ORDERED(release, scope, nv_scope, bits, C)      \
    CCL_NV_ORDERED(acq_rel, scope, nv_scope, bits, C)
CCL_ATOMICS(system, sys, 32, "r")
CCL_ATOMICS(system, sys, 64, "l")
CCL_ATOMICS(agent, gpu, 32, "r")
CCL_ATOMICS(agent, gpu, 64, "l")
#undef CCL_NV_LOAD
#undef CCL_NV_STORE
#undef CCL_NV_RMW
#undef CCL_NV_CAS
#undef CCL_NV_ORDERED

#else /* AMD, CPU: builtins of one shape */

#if defined(CCL_ON_AMD)
#define CCL_RAW_LOAD(p, order, scope) __hip_atomic_load(p, order, CCL_SCOPE_##scope)
#define CCL_RAW_STORE(p, v, order, scope) __hip_atomic_store(p, v, order, CCL_SCOPE_##scope)
#define CCL_RAW_RMW(op, p, v, order, scope) __hip_atomic_##op(p, v, order, CCL_SCOPE_##scope)
#define CCL_RAW_CAS(p, expected, v, order, scope) \
    __hip_atomic_compare_exchange_strong(p, expected, v, CCL_ORDER_##order, CCL_ELSE_##order, CCL_SCOPE_##scope)
#define CCL_SCOPE_system __HIP_MEMORY_SCOPE_SYSTEM
#define CCL_SCOPE_agent __HIP_MEMORY_SCOPE_AGENT
#define CCL_RMW_exchange exchange
/* A release is a fence with its own wait and a relaxed access (ccl_fence_release_system says why). */
#define CCL_BEFORE_release(scope) ccl_fence_release_##scope()
#define CCL_BEFORE_acq_rel(scope) ccl_fence_release_##scope()
#define CCL_ORDER_release __ATOMIC_RELAXED
#define CCL_ORDER_acq_rel __ATOMIC_ACQUIRE

CCL_DEVICE void ccl_fence_release_agent(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
#if defined(CCL_ON_CDNA)
    __builtin_amdgcn_s_waitcnt(0x0f70);
#endif
}
#else
#define CCL_RAW_LOAD(p, order, scope) __atomic_load_n(p, order)
#define CCL_RAW_STORE(p, v, order, scope) __atomic_store_n(p, v, order)
#define CCL_RAW_RMW(op, p, v, order, scope) __atomic_##op(p, v, order)
#define CCL_RAW_CAS(p, expected, v, order, scope) \
    __atomic_compare_exchange_n(p, expected, v, 0, CCL_ORDER_##order, CCL_ELSE_##order)
#define CCL_RMW_exchange exchange_n
#define CCL_BEFORE_release(scope) (void)0
#define CCL_BEFORE_acq_rel(scope) (void)0
#define CCL_ORDER_release __ATOMIC_RELEASE
#define CCL_ORDER_acq_rel __ATOMIC_ACQ_REL
#endif

#define CCL_BEFORE_relaxed(scope) (void)0
#define CCL_BEFORE_acquire(scope) (void)0
#define CCL_ORDER_relaxed __ATOMIC_RELAXED
#define CCL_ORDER_acquire __ATOMIC_ACQUIRE
#define CCL_ELSE_relaxed __ATOMIC_RELAXED /* of a compare-and-swap that does not swap */
#define CCL_ELSE_acquire __ATOMIC_ACQUIRE
#define CCL_ELSE_release __ATOMIC_RELAXED
#define CCL_ELSE_acq_rel __ATOMIC_ACQUIRE
#define CCL_RMW_add fetch_add
#define CCL_RMW_or fetch_or
#define CCL_RMW_and fetch_and
#define CCL_RMW_xor fetch_xor
#define CCL_RAW_RMW_(op, p, v, order, scope) CCL_RAW_RMW(op, p, v, order, scope)

#define CCL_ANY_LOAD(order, scope, bits)                                                                                \
    CCL_DEVICE uint##bits##_t ccl_atomic_load_##order##_##scope##_u##bits(const uint##bits##_t *p)                      \
    {                                                                                                                   \
        return CCL_RAW_LOAD(CCL_PTR(const uint##bits##_t, (uint64_t)p), CCL_ORDER_##order, scope);                      \
    }
#define CCL_ANY_STORE(order, scope, bits)                                                                               \
    CCL_DEVICE void ccl_atomic_store_##order##_##scope##_u##bits(uint##bits##_t *p, uint##bits##_t v)                   \
    {                                                                                                                   \
        CCL_BEFORE_##order(scope);                                                                                      \
        CCL_RAW_STORE(CCL_PTR(uint##bits##_t, (uint64_t)p), v, CCL_ORDER_##order, scope);                               \
    }
#define CCL_ANY_RMW(name, order, scope, bits)                                                                           \
    CCL_DEVICE uint##bits##_t ccl_atomic_##name##_##order##_##scope##_u##bits(uint##bits##_t *p, uint##bits##_t v)      \
    {                                                                                                                   \
        CCL_BEFORE_##order(scope);                                                                                      \
        return CCL_RAW_RMW_(CCL_RMW_##name, CCL_PTR(uint##bits##_t, (uint64_t)p), v, CCL_ORDER_##order, scope);         \
    }
#define CCL_ANY_ORDERED(order, scope, bits)      \
    CCL_ANY_RMW(add, order, scope, bits)         \
    CCL_ANY_RMW(or, order, scope, bits)          \
    CCL_ANY_RMW(and, order, scope, bits)         \
    CCL_ANY_RMW(xor, order, scope, bits)         \
    CCL_ANY_RMW(exchange, order, scope, bits)    \
    CCL_DEVICE uint##bits##_t ccl_atomic_cas_##order##_##scope##_u##bits(uint##bits##_t *p, uint##bits##_t expected, \
                                                                         uint##bits##_t v)                           \
    {                                                                                                                \
        CCL_BEFORE_##order(scope);                                                                                   \
        CCL_RAW_CAS(CCL_PTR(uint##bits##_t, (uint64_t)p), &expected, v, order, scope);                   \
        return expected;                                                                                             \
    }
#define CCL_ATOMICS(scope, bits)           \
    CCL_ANY_LOAD(relaxed, scope, bits)     \
    CCL_ANY_LOAD(acquire, scope, bits)     \
    CCL_ANY_STORE(relaxed, scope, bits)    \
    CCL_ANY_STORE(release, scope, bits)    \
    CCL_ANY_ORDERED(relaxed, scope, bits)  \
    CCL_ANY_ORDERED(acquire, scope, bits)  \
    CCL_ANY_ORDERED(release, scope, bits)  \
    CCL_ANY_ORDERED(acq_rel, scope, bits)
CCL_ATOMICS(system, 32)
CCL_ATOMICS(system, 64)
CCL_ATOMICS(agent, 32)
CCL_ATOMICS(agent, 64)
#undef CCL_ANY_LOAD
#undef CCL_ANY_STORE
#undef CCL_ANY_RMW
#undef CCL_ANY_ORDERED

#endif
#undef CCL_ATOMICS

/* Data of any type, moved as these. */
#if defined(CCL_ON_NVIDIA)
typedef ccl_vec16 ccl_any16;
typedef uint64_t ccl_any8;
typedef uint32_t ccl_any4;
#else
typedef ccl_vec16 ccl_any16 __attribute__((may_alias));
typedef uint64_t ccl_any8 __attribute__((may_alias));
typedef uint32_t ccl_any4 __attribute__((may_alias));
#endif

CCL_DEVICE ccl_vec16 ccl_load_weak_vec16(const void *p) { return *CCL_PTR(const ccl_any16, (uint64_t)p); }
CCL_DEVICE void ccl_store_weak_vec16(void *p, ccl_vec16 v) { *CCL_PTR(ccl_any16, (uint64_t)p) = v; }

#endif
