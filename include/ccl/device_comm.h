/* SPDX-License-Identifier: MIT
 *
 * Peers' memory in a user's own kernel (included by ccl/device.h): where the same heap offset lies at another rank, and copies by a whole block. dev
 * is what cclDeviceComm filled. A function with `block` in its name is called by all threads of a block, with equal arguments; others by any thread. */
#ifndef CCL_DEVICE_COMM_H
#define CCL_DEVICE_COMM_H

#include "device.h"
#include "device_types.h"

#if defined(CCL_ON_HOST)
#include <string.h>
#endif

/* ---- blocks ---- */

/* Where a thread stands: its place in its block, its block's place in the grid (both of one dimension). */
typedef struct {
    uint32_t thread, threads, block, blocks;
} cclBlock_t;

#if defined(CCL_ON_NVIDIA)

CCL_DEVICE cclBlock_t ccl_this_block(void)
{
    cclBlock_t b = {threadIdx.x, blockDim.x, blockIdx.x, gridDim.x};
    return b;
}
CCL_DEVICE void ccl_wait_block(void) { __syncthreads(); }
/* Not 0 in all threads of the block when it is in one. */
CCL_DEVICE uint32_t ccl_any_block(uint32_t value) { return (uint32_t)__syncthreads_or((int)value); }
/* What all threads of the block have stored before can be seen by who sees what any of them stores after, at any scope. */
CCL_DEVICE void ccl_release_block_system(void)
{
    __syncthreads();
    ccl_fence_release_system();
}
/* One lane has seen a word with acquire: now the whole block has. */
CCL_DEVICE void ccl_acquire_block_system(void) { __syncthreads(); }
/* Before lanes of the block tell a peer: ccl_settle_block_system by all, then ccl_tell_system by the lane. Here the lane's release is
 * cumulative over the barrier. */
CCL_DEVICE void ccl_settle_block_system(void) { __syncthreads(); }
CCL_DEVICE void ccl_tell_system(uint64_t *word, uint64_t value) { ccl_atomic_store_release_system_u64(word, value); }
#define CCL_UNROLLED _Pragma("unroll")

#elif defined(CCL_ON_AMD)

CCL_DEVICE cclBlock_t ccl_this_block(void)
{
    uint32_t threads = __builtin_amdgcn_workgroup_size_x();
    cclBlock_t b = {__builtin_amdgcn_workitem_id_x(), threads, __builtin_amdgcn_workgroup_id_x(),
                    __builtin_amdgcn_grid_size_x() / threads};
    return b;
}
CCL_DEVICE void ccl_wait_block(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
/* Not 0 in all threads of the block when it is in one. */
CCL_DEVICE uint32_t ccl_any_block(uint32_t value)
{
    static __attribute__((shared)) uint32_t any;
    if (__builtin_amdgcn_workitem_id_x() == 0) {
        any = 0;
    }
    ccl_wait_block();
    if (value) {
        any = 1;
    }
    ccl_wait_block();
    value = any;
    ccl_wait_block();
    return value;
}
/* What all threads of the block have stored before can be seen by who sees what any of them stores after, at any scope. Every wave writes back. */
CCL_DEVICE void ccl_release_block_system(void)
{
    ccl_fence_release_system();
    ccl_wait_block();
}
/* One lane has seen a word with acquire: now every wave drops what it has cached. */
CCL_DEVICE void ccl_acquire_block_system(void)
{
    ccl_wait_block();
    ccl_fence_acquire_system();
}
/* Before lanes of the block tell a peer: every wave has to write back itself, so nothing is left to the lane. */
CCL_DEVICE void ccl_settle_block_system(void) { ccl_release_block_system(); }
CCL_DEVICE void ccl_tell_system(uint64_t *word, uint64_t value) { ccl_atomic_store_relaxed_system_u64(word, value); }
#define CCL_UNROLLED _Pragma("unroll")

#else

/* On the CPU a block is one thread, and whoever calls the kernel says which. */
CCL_DEVICE cclBlock_t ccl_host_block(uint32_t block, uint32_t blocks)
{
    cclBlock_t b = {0, 1, 0, 0};
    b.block = block;
    b.blocks = blocks;
    return b;
}
CCL_DEVICE void ccl_wait_block(void) {}
CCL_DEVICE uint32_t ccl_any_block(uint32_t value) { return value; }
CCL_DEVICE void ccl_release_block_system(void) { ccl_fence_release_system(); }
CCL_DEVICE void ccl_acquire_block_system(void) {}
CCL_DEVICE void ccl_settle_block_system(void) {}
CCL_DEVICE void ccl_tell_system(uint64_t *word, uint64_t value) { ccl_atomic_store_release_system_u64(word, value); }
#define CCL_UNROLLED

#endif

/* ---- peers' memory ---- */

/* A heap chunk, found once before a loop. */
typedef struct {
    uint64_t bases; /* address of the base at rank 0; 0: not found */
    uint64_t own;   /* base at this rank */
    uint64_t pitch; /* bytes from the base at a rank to the base at the next */
} cclWindow_t;

/* The chunk of the symmetric heap that ptr lies in; bases is 0 when it lies in none (registered buffers do not count: their offsets differ
 * from rank to rank). Costs two reads of device memory for each chunk looked at. */
CCL_DEVICE cclWindow_t ccl_window(const cclDeviceComm_t *dev, const void *ptr)
{
    const uint64_t pitch = (uint64_t)dev->window_pitch * 8, sizes = dev->windows + dev->n * pitch;
    const uint64_t own = dev->windows + dev->rank * pitch, end = ccl_load_relaxed_system_u64(sizes);
    cclWindow_t w = {0, 0, 0};
    for (uint64_t id = 1; id < end; id++) {
        uint64_t bytes = ccl_load_acquire_system_u64(sizes + id * 8);
        uint64_t base = ccl_load_relaxed_system_u64(own + id * 8);
        if ((uint64_t)ptr - base < bytes) {
            w.bases = dev->windows + id * 8;
            w.own = base;
            w.pitch = pitch;
            break;
        }
    }
    return w;
}

/* Bytes to add to an own address in the window to have the same place at peer, as mapped here. One read; do it before the loop. */
CCL_DEVICE int64_t ccl_window_distance(cclWindow_t w, uint32_t peer)
{
    return (int64_t)(ccl_load_relaxed_system_u64(w.bases + peer * w.pitch) - w.own);
}

CCL_DEVICE void *ccl_window_translate(cclWindow_t w, const void *ptr, uint32_t peer)
{
    return (void *)((uint64_t)ptr + (uint64_t)ccl_window_distance(w, peer));
}

/* The same in one step; 0 when ptr lies in no heap chunk. */
CCL_DEVICE void *ccl_translate(const cclDeviceComm_t *dev, const void *ptr, uint32_t peer)
{
    cclWindow_t w = ccl_window(dev, ptr);
    return w.bases != 0 ? ccl_window_translate(w, ptr, peer) : (void *)0;
}

/* units of `type` from dst and src on, by all threads of the block; the loads of four steps stand before their stores. */
#define CCL_COPY_UNITS(type)                                                                        \
    CCL_DEVICE void ccl_copy_block_##type(cclBlock_t b, uint64_t dst, uint64_t src, uint64_t units) \
    {                                                                                               \
        uint64_t i = b.thread;                                                                      \
        for (; i + 3 * (uint64_t)b.threads < units; i += 4 * (uint64_t)b.threads) {                 \
            type v[4];                                                                              \
            CCL_UNROLLED for (uint32_t u = 0; u < 4; u++)                                           \
            {                                                                                       \
                v[u] = CCL_PTR(const type, src)[i + (uint64_t)u * b.threads];                       \
            }                                                                                       \
            CCL_UNROLLED for (uint32_t u = 0; u < 4; u++)                                           \
            {                                                                                       \
                CCL_PTR(type, dst)[i + (uint64_t)u * b.threads] = v[u];                             \
            }                                                                                       \
        }                                                                                           \
        for (; i < units; i += b.threads) {                                                         \
            CCL_PTR(type, dst)[i] = CCL_PTR(const type, src)[i];                                    \
        }                                                                                           \
    }
CCL_COPY_UNITS(ccl_any16)
CCL_COPY_UNITS(ccl_any8)
CCL_COPY_UNITS(ccl_any4)
CCL_COPY_UNITS(uint8_t)
#undef CCL_COPY_UNITS

/* In units of 16 bytes where both sides have the same alignment, 8, 4 or 1 else, single bytes at the ends. */
CCL_DEVICE void ccl_copy_block_units(cclBlock_t b, uint64_t dst, uint64_t src, uint64_t bytes)
{
    const uint64_t apart = (dst ^ src) & 15, unit = apart == 0 ? 16 : apart == 8 ? 8 : (apart & 3) == 0 ? 4 : 1;
    uint64_t head = (0 - dst) & (unit - 1);
    head = head < bytes ? head : bytes;
    const uint64_t body = (bytes - head) / unit * unit, tail = head + body;
    ccl_copy_block_uint8_t(b, dst, src, head);
    ccl_copy_block_uint8_t(b, dst + tail, src + tail, bytes - tail);
    if (unit == 16) {
        ccl_copy_block_ccl_any16(b, dst + head, src + head, body / 16);
    } else if (unit == 8) {
        ccl_copy_block_ccl_any8(b, dst + head, src + head, body / 8);
    } else if (unit == 4) {
        ccl_copy_block_ccl_any4(b, dst + head, src + head, body / 4);
    } else {
        ccl_copy_block_uint8_t(b, dst + head, src + head, body);
    }
}

/* Copy bytes from src to dst, which do not overlap, by all threads of the block, at any alignment. Plain accesses: a release must follow before
 * anybody is told, an acquire must have gone before when src was written by a peer. */
CCL_DEVICE void ccl_copy_block(cclBlock_t b, void *dst, const void *src, uint64_t bytes)
{
#if defined(CCL_ON_HOST)
    (void)b;
    memcpy(dst, src, bytes);
#else
    ccl_copy_block_units(b, (uint64_t)dst, (uint64_t)src, bytes);
#endif
}

/* Into a peer's memory (peer_dst from a translation). Not yet published: see ccl_signal_set_block_system, ccl_release_block_system. */
CCL_DEVICE void ccl_put_block(cclBlock_t b, void *peer_dst, const void *src, uint64_t bytes)
{
    ccl_copy_block(b, peer_dst, src, bytes);
}

/* The same, released: a relaxed store of any thread of the block to a word of the peer, at scope system, may follow at once. */
CCL_DEVICE void ccl_put_release_block_system(cclBlock_t b, void *peer_dst, const void *src, uint64_t bytes)
{
    ccl_copy_block(b, peer_dst, src, bytes);
    ccl_release_block_system();
}

/* From a peer's memory, after a wait or barrier that says it is ready. The block may use dst when this returns. */
CCL_DEVICE void ccl_get_block(cclBlock_t b, void *dst, const void *peer_src, uint64_t bytes)
{
    ccl_copy_block(b, dst, peer_src, bytes);
    ccl_wait_block();
}

#endif
