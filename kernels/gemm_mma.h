/* SPDX-License-Identifier: MIT
 *
 * The GEMM core of NVIDIA from sm_80 on (gemm.h), warp-wide matrix instructions on operands that cp.async brings to shared memory: one output tile of 128 x 128, one
 * block of 8 warps as 2 x 4, each 64 x 32. Included once; before it are defined
 *   GEMM_HOOK   type of `hook`, which is for the macro below
 *   CCL_GEMM_WAIT_A(tile, kb)   asked by all threads alike, which may meet at barriers in it
 *
 * A K block of 64 of A and B is a stage in shared memory, 3 of them in flight. An operand with k inside has rows of 64 k, 8 chunks of 16 bytes, chunk c of row r at
 * c ^ r % 8; with k outside rows of 128 m or n, 16 chunks, chunk c of row k at c ^ k % 8. So 8 rows of a matrix that ldmatrix reads lie in different banks. What lies
 * behind the end of K, or of the tile, becomes zeros on the way. The sums of an element run over K 16 by 16 in order, whatever the tile. docs/kernels.md, section 13. */
#ifndef CCL_GEMM_MMA_H
#define CCL_GEMM_MMA_H

#include "gemm_nvidia.h"

#define MMA_THREADS 256
#define MMA_ROWS 128
#define MMA_COLUMNS 128
#define MMA_BLOCK_K 64
#define MMA_STAGES 3
#define MMA_OPERAND_BYTES (MMA_ROWS * MMA_BLOCK_K * 2) /* of A; B has as many */
#define MMA_STAGE_BYTES (2 * MMA_OPERAND_BYTES)
#define MMA_SHARED_BYTES (MMA_STAGES * MMA_STAGE_BYTES)

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

/* 16-byte chunks of K block kb of one operand, 4 a thread. first: address of its first row at k 0; ld in bytes; rows, k: that there are. */
CCL_DEVICE void mma_load(uint32_t to, uint64_t first, uint64_t ld, uint32_t rows, uint32_t k, uint32_t kb, bool outer)
{
    const uint32_t t = ccl_tid(), from = kb * MMA_BLOCK_K;
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        if (outer) {
            const uint32_t row = t / 16 + 16 * i, chunk = t % 16;
            const uint32_t left = from + row < k && chunk * 8 < rows ? rows - chunk * 8 : 0;
            const uint64_t src = left != 0 ? first + (uint64_t)(from + row) * ld + chunk * 16 : first;
            mma_load16(to + row * 256 + (chunk ^ row % 8) * 16, src, left < 8 ? left * 2 : 16);
        } else {
            const uint32_t row = t / 8 + 32 * i, chunk = t % 8;
            const uint32_t left = row < rows && from + chunk * 8 < k ? k - from - chunk * 8 : 0;
            const uint64_t src = left != 0 ? first + row * ld + (uint64_t)(from + chunk * 8) * 2 : first;
            mma_load16(to + row * 128 + (chunk ^ row % 8) * 16, src, left < 8 ? left * 2 : 16);
        }
    }
}

/* One stage: 4 steps of 16 k. */
CCL_DEVICE void mma_stage(uint32_t a, uint32_t b, float acc[4][4][4], bool bf16, bool kn, bool km)
{
    const uint32_t t = ccl_tid(), lane = t % 32, m0 = t / 128 * 64, n0 = t / 32 % 4 * 32;
#pragma unroll
    for (uint32_t k = 0; k < MMA_BLOCK_K; k += 16) {
        uint32_t fa[4][4], fb[2][4];
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) { /* rows 0-7, 8-15 of k 0-7, then the same of k 8-15 */
            if (km) {
                const uint32_t row = k + lane % 8 + lane / 16 * 8, chunk = (m0 + 16 * i) / 8 + lane / 8 % 2;
                mma_read4(fa[i], a + row * 256 + (chunk ^ row % 8) * 16, true);
            } else {
                const uint32_t row = m0 + 16 * i + lane % 16, chunk = k / 8 + lane / 16;
                mma_read4(fa[i], a + row * 128 + (chunk ^ row % 8) * 16, false);
            }
        }
#pragma unroll
        for (uint32_t j = 0; j < 2; j++) { /* k 0-7, 8-15 of columns 0-7, then the same of columns 8-15 */
            if (kn) {
                const uint32_t row = k + lane % 16, chunk = (n0 + 16 * j) / 8 + lane / 16;
                mma_read4(fb[j], b + row * 256 + (chunk ^ row % 8) * 16, true);
            } else {
                const uint32_t row = n0 + 16 * j + lane % 8 + lane / 16 * 8, chunk = k / 8 + lane / 8 % 2;
                mma_read4(fb[j], b + row * 128 + (chunk ^ row % 8) * 16, false);
            }
        }
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
#pragma unroll
            for (uint32_t j = 0; j < 4; j++) {
                mma_add(acc[i][j], fa[i], &fb[j / 2][j % 2 * 2], bf16);
            }
        }
    }
}

/* Bias and rounding; through shared memory, so that stores have 16 bytes and rows of 256. */
CCL_DEVICE void mma_store(CCL_GEMM_ARGS g, const struct ccl_k_gemm_tile *tile, uint32_t shared, float acc[4][4][4], bool bf16)
{
    const uint32_t t = ccl_tid(), lane = t % 32, row0 = t / 128 * 64 + lane / 4, column0 = t / 32 % 4 * 32 + lane % 4 * 2;
    const uint32_t bias = g->bias_kind;
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        const uint32_t column = column0 + 8 * j;
        const bool by_column = bias == CCL_GEMM_BIAS_BY_COLUMN;
        const float c0 = by_column ? gemm_bias(g->bias, tile->col, column, tile->cols, bf16) : 0.0f;
        const float c1 = by_column ? gemm_bias(g->bias, tile->col, column + 1, tile->cols, bf16) : 0.0f;
#pragma unroll
        for (uint32_t i = 0; i < 8; i++) { /* rows 8 i and on */
            const uint32_t row = row0 + 8 * i;
            const float r = bias == CCL_GEMM_BIAS_BY_ROW ? gemm_bias(g->bias, tile->row, row, tile->rows, bf16) : 0.0f;
            const float *d = &acc[i / 2][j][i % 2 * 2];
            const uint32_t word = gemm_pack(d[0] + c0 + r, d[1] + c1 + r, bf16);
            asm volatile("st.shared.u32 [%0], %1;" ::"r"(shared + row * 256 + ((column / 8) ^ row % 8) * 16 + column % 8 * 2),
                         "r"(word)
                         : "memory");
        }
    }
    __syncthreads();
    for (uint32_t i = t; i < MMA_ROWS * MMA_COLUMNS / 8; i += MMA_THREADS) {
        const uint32_t row = i / 16, chunk = i % 16;
        if (row < tile->rows && chunk * 8 < tile->cols) {
            ccl_vec16 v;
            asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                         : "=r"(v.lane[0]), "=r"(v.lane[1]), "=r"(v.lane[2]), "=r"(v.lane[3])
                         : "r"(shared + row * 256 + (chunk ^ row % 8) * 16)
                         : "memory");
            const uint64_t at = (row * g->ldc + chunk * 8) * 2;
            for (uint32_t d = 0; d <= tile->more; d++) {
                gemm_put((d == 0 ? tile->c : tile->others[d - 1]) + at, v, tile->cols - chunk * 8);
            }
        }
    }
}

/* The K loop; bf16, kn, km are constants. Not 0: leave. */
CCL_DEVICE uint32_t mma_loop(CCL_GEMM_ARGS g, const struct ccl_k_gemm_tile *tile, uint32_t shared, GEMM_HOOK hook, float acc[4][4][4], bool bf16, bool kn,
                             bool km)
{
    const uint32_t k = tile->k1, blocks = gemm_blocks(tile, MMA_BLOCK_K);
    const uint64_t b = g->b + (kn ? tile->col : tile->col * g->ldb) * 2, lda = tile->lda * 2, ldb = g->ldb * 2;
    uint32_t stage = 0, failed = 0;
    for (uint32_t kb = 0; kb < MMA_STAGES - 1 && failed == 0; kb++) {
        if (kb < blocks) {
            failed = CCL_GEMM_WAIT_A(tile, kb);
            mma_load(shared + kb * MMA_STAGE_BYTES, tile->a, lda, tile->rows, k, kb, km);
            mma_load(shared + kb * MMA_STAGE_BYTES + MMA_OPERAND_BYTES, b, ldb, tile->cols, k, kb, kn);
        }
        mma_commit();
    }
    for (uint32_t kb = 0; kb < blocks && failed == 0; kb++) {
        const uint32_t next = kb + MMA_STAGES - 1, at = shared + (stage == 0 ? MMA_STAGES - 1 : stage - 1) * MMA_STAGE_BYTES;
        MMA_WAIT_GROUPS(MMA_STAGES - 2);
        __syncthreads(); /* this stage is there for all, and nobody reads the one before it any more */
        if (next < blocks) {
            failed = CCL_GEMM_WAIT_A(tile, next);
            mma_load(at, tile->a, lda, tile->rows, k, next, km);
            mma_load(at + MMA_OPERAND_BYTES, b, ldb, tile->cols, k, next, kn);
        }
        mma_commit();
        mma_stage(shared + stage * MMA_STAGE_BYTES, shared + stage * MMA_STAGE_BYTES + MMA_OPERAND_BYTES, acc, bf16, kn, km);
        stage = stage + 1 == MMA_STAGES ? 0 : stage + 1;
    }
    MMA_WAIT_GROUPS(0);
    __syncthreads();
    return failed;
}

/* All threads, with equal arguments; shared has MMA_SHARED_BYTES, aligned to 16. */
CCL_DEVICE uint32_t gemm_core_mma(CCL_GEMM_ARGS g, const struct ccl_k_gemm_tile *tile, uint32_t shared, GEMM_HOOK hook)
{
    const bool bf16 = g->type == CCL_GEMM_BF16;
    const uint32_t form = (g->a_layout == CCL_GEMM_K_OUTER ? 4 : 0) + (bf16 ? 2 : 0) + (g->b_layout == CCL_GEMM_K_OUTER ? 1 : 0);
    uint32_t failed = 0;
    float acc[4][4][4] = {};
    switch (form) { /* a loop each, all else is shared */
    case 0: failed = mma_loop(g, tile, shared, hook, acc, false, false, false); break;
    case 1: failed = mma_loop(g, tile, shared, hook, acc, false, true, false); break;
    case 2: failed = mma_loop(g, tile, shared, hook, acc, true, false, false); break;
    case 3: failed = mma_loop(g, tile, shared, hook, acc, true, true, false); break;
    case 4: failed = mma_loop(g, tile, shared, hook, acc, false, false, true); break;
    case 5: failed = mma_loop(g, tile, shared, hook, acc, false, true, true); break;
    case 6: failed = mma_loop(g, tile, shared, hook, acc, true, false, true); break;
    default: failed = mma_loop(g, tile, shared, hook, acc, true, true, true); break;
    }
    if (failed == 0) {
        mma_store(g, tile, shared, acc, bf16);
        __syncthreads();
    }
    return failed;
}

#endif
