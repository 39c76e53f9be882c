/* SPDX-License-Identifier: MIT
 *
 * What the matrix-core GEMM of NVIDIA from sm_80 on is made of: warp-wide matrix instructions on operands that cp.async brings to shared memory. Included once,
 * before any gemm_mma_body.h. docs/kernels.md, section 12. */
#ifndef CCL_GEMM_MMA_H
#define CCL_GEMM_MMA_H

#include "gemm.h"
#include "kernel.h"

#define CCL_GEMM_ARGS const struct ccl_k_gemm *
#define MMA_THREADS 256
#define MMA_ROWS 128
#define MMA_COLUMNS 128
#define MMA_BLOCK_K 64
#define MMA_STAGES 3
#define MMA_OPERAND_BYTES (MMA_ROWS * MMA_BLOCK_K * 2) /* of A; B has as many */
#define MMA_STAGE_BYTES (2 * MMA_OPERAND_BYTES)
#define MMA_SHARED_BYTES (MMA_STAGES * MMA_STAGE_BYTES)

CCL_DEVICE uint32_t mma_shared_addr(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

/* The first `bytes` (0 to 16) of 16 at src to shared memory, zeros behind them. */
CCL_DEVICE void mma_load16(uint32_t dst, uint64_t src, uint32_t bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(bytes) : "memory");
}
CCL_DEVICE void mma_commit(void) { asm volatile("cp.async.commit_group;" ::: "memory"); }
#define MMA_WAIT_GROUPS(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")

/* Four matrices of 8 x 8; lane 8 i + r names row r of matrix i. turned: each lane gets column elements. */
CCL_DEVICE void mma_read4(uint32_t out[4], uint32_t addr, bool turned)
{
    if (turned) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                     : "r"(addr)
                     : "memory");
    } else {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                     : "r"(addr)
                     : "memory");
    }
}

/* d[16][8] += a[16][16] x b[16][8]; lane l has d[l / 4 + 8 i][2 (l % 4) + j] in element 2 i + j. */
CCL_DEVICE void mma_add(float d[4], const uint32_t a[4], const uint32_t b[2], bool bf16)
{
    if (bf16) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    } else {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
}

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

/* 8 columns of a row of a tile, which start `at` bytes behind its first element, to C and to the tile's other places. left: columns that there are. */
CCL_DEVICE void gemm_put(const struct ccl_k_gemm_tile *tile, uint64_t at, ccl_vec16 v, uint32_t left)
{
    for (uint32_t d = 0; d <= tile->more; d++) {
        const uint64_t to = (d == 0 ? tile->c : tile->others[d - 1]) + at;
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
}

#endif
