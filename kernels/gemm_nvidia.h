/* SPDX-License-Identifier: MIT
 *
 * What the matrix-core GEMMs of NVIDIA share: addresses of shared memory, conversion, bias, stores to C. */
#ifndef CCL_GEMM_NVIDIA_H
#define CCL_GEMM_NVIDIA_H

#include "gemm.h"
#include "kernel.h"

#define CCL_GEMM_ARGS const struct ccl_k_gemm *

CCL_DEVICE uint32_t gemm_shared_addr(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

/* The tile's K blocks of one product that is one segment. */
CCL_DEVICE uint32_t gemm_blocks(const struct ccl_k_gemm_tile *tile, uint32_t block_k) { return (tile->k1 + block_k - 1) / block_k; }

/* Two elements of the type in a word, the first one low; rounded to nearest even. */
CCL_DEVICE uint32_t gemm_pack(float first, float second, bool bf16)
{
    uint32_t word;
    if (bf16) {
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
    } else {
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
    }
    return word;
}
CCL_DEVICE float gemm_unpack(uint16_t bits, bool bf16)
{
    float x;
    if (bf16) {
        return __uint_as_float((uint32_t)bits << 16);
    }
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}

/* Element `index` of the bias, 0 behind its `count`. */
CCL_DEVICE float gemm_bias(uint64_t bias, uint64_t first, uint32_t index, uint32_t count, bool bf16)
{
    return index < count ? gemm_unpack(*CCL_PTR(const uint16_t, bias + (first + index) * 2), bf16) : 0.0f;
}

/* 8 columns of a row to C. left: columns that there are. */
CCL_DEVICE void gemm_put(uint64_t to, ccl_vec16 v, uint32_t left)
{
    if (left >= 8) {
        *CCL_PTR(ccl_vec16, to) = v;
    } else {
#pragma unroll
        for (uint32_t i = 0; i < 7; i++) {
            if (i < left) {
                *CCL_PTR(uint16_t, to + 2 * i) = (uint16_t)(v.lane[i / 2] >> 16 * (i % 2));
            }
        }
    }
}

#endif
