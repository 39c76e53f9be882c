// SPDX-License-Identifier: MIT
//
// The kernels of probe.cu: packets, push and barrier, and the data they are checked with.
#ifndef CCL_BENCH_PROBE_KERNELS_H
#define CCL_BENCH_PROBE_KERNELS_H

#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

enum { MOST_RANKS = 8, MOST_BLOCKS = 64, THREADS = 512 };
static const size_t LL_MOST = 64 << 10, PUSH_MOST = (size_t)256 << 20, SLOT = MOST_RANKS * 2 * LL_MOST;
static const size_t FLAGS = 4096, SCRATCH = FLAGS + 2 * SLOT; // flags of the barrier, then two parities of slots

// What a kernel gets by value; state is this rank's own: epochs of the packet kernel's blocks, then the barrier's.
struct World {
    char *scratch[MOST_RANKS], *out[MOST_RANKS];
    const char *in;
    uint32_t *state;
    int rank;
};

static __device__ __forceinline__ void store16(void *at, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

static __device__ __forceinline__ uint4 load16(const void *at)
{
    uint4 v;
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(at) : "memory");
    return v;
}

template <int N> __global__ void packets(const __grid_constant__ World w, uint32_t count)
{
    __shared__ uint32_t shared_epoch;
    if (threadIdx.x == 0) {
        shared_epoch = w.state[blockIdx.x] + 1;
    }
    __syncthreads();
    const uint32_t epoch = shared_epoch, step = gridDim.x * blockDim.x, first = blockIdx.x * blockDim.x + threadIdx.x;
    const size_t parity = FLAGS + (epoch & 1) * SLOT;
    const uint2 *in = (const uint2 *)w.in;
    uint2 *out = (uint2 *)w.out[w.rank];

    for (uint32_t i = first; i < count; i += step) {
        uint2 v = in[i];
        for (int d = 1; d < N; d++) {
            int peer = w.rank + d < N ? w.rank + d : w.rank + d - N;
            store16(w.scratch[peer] + parity + ((size_t)w.rank * count + i) * 16, v.x, epoch, v.y, epoch);
        }
        out[(size_t)w.rank * count + i] = v;
    }
    for (uint32_t i = first; i < count * (N - 1); i += step) {
        int d = i / count + 1, peer = w.rank + d < N ? w.rank + d : w.rank + d - N;
        uint32_t at = i % count;
        const char *slot = w.scratch[w.rank] + parity + ((size_t)peer * count + at) * 16;
        uint4 v;
        do {
            v = load16(slot);
        } while (v.y != epoch || v.w != epoch);
        out[(size_t)peer * count + at] = make_uint2(v.x, v.z);
    }
    if (threadIdx.x == 0) {
        w.state[blockIdx.x] = epoch;
    }
}

template <int N, int VECTORS, bool STREAM>
__global__ void __launch_bounds__(THREADS) push(const __grid_constant__ World w, uint32_t count)
{
    const uint4 *in = (const uint4 *)w.in;
    const size_t step = (size_t)gridDim.x * blockDim.x;

    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step * VECTORS) {
        uint4 v[VECTORS];
#pragma unroll
        for (int u = 0; u < VECTORS; u++) {
            if (i + u * step < count) {
                v[u] = STREAM ? __ldcs(in + i + u * step) : in[i + u * step];
            }
        }
        for (int d = 0; d < N; d++) {
            int peer = w.rank + d < N ? w.rank + d : w.rank + d - N;
            uint4 *out = (uint4 *)w.out[peer] + (size_t)w.rank * count;
#pragma unroll
            for (int u = 0; u < VECTORS; u++) {
                if (i + u * step < count && STREAM) {
                    __stcs(out + i + u * step, v[u]);
                } else if (i + u * step < count) {
                    out[i + u * step] = v[u];
                }
            }
        }
    }
}

template <int N> __global__ void barrier(const __grid_constant__ World w)
{
    uint32_t *own = w.state + MOST_BLOCKS, epoch = *own + 1, seen;

    __syncwarp();
    if (threadIdx.x < N) {
        char *to = w.scratch[threadIdx.x] + 128 * w.rank, *from = w.scratch[w.rank] + 128 * threadIdx.x;
        asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(to), "r"(epoch) : "memory");
        do {
            asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(from) : "memory");
        } while ((int32_t)(seen - epoch) < 0);
    }
    __syncwarp();
    if (threadIdx.x == 0) {
        *own = epoch;
    }
}

// ---- data: a hash of (call, rank, index), the call counted on the device so that a graph's replays differ ----

static __device__ uint32_t hash(uint32_t call, uint32_t rank, uint32_t index)
{
    uint32_t x = index * 0x9E3779B1u ^ (call * 0x85EBCA77u + rank * 0xC2B2AE3Du);
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

__global__ void fill(uint32_t *in, uint32_t words, int rank, const uint32_t *call)
{
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x) {
        in[i] = hash(*call, rank, i);
    }
}

__global__ void compare(const uint32_t *out, uint32_t words, int ranks, uint32_t *call_and_wrong)
{
    uint32_t wrong = 0;
    for (int r = 0; r < ranks; r++) {
        for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x) {
            wrong += out[(size_t)r * words + i] != hash(*call_and_wrong, r, i);
        }
    }
    if (wrong != 0) {
        atomicAdd(call_and_wrong + 1, wrong);
    }
}

__global__ void next_call(uint32_t *call)
{
    ++*call;
}

#endif
