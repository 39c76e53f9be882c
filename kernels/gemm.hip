/* SPDX-License-Identifier: MIT
 *
 * Matrix products alone: C = A x B (+ bias) on the matrix cores of gfx90a, gfx942 and gfx950, for any m, n, k. Not for other devices: gfx11, gfx12 and NVIDIA have
 * other matrix instructions. Blocks walk the tiles in the order of gemm_order.h, as many blocks as are launched. Bytes moved: each tile
 * reads its rows of A and its columns of B, and stores C once.
 *
 * Names: gemm_LAYOUT_TYPE_ROWS, B as [n][k] (nk) or [k][n] (kn), rows of a tile. */
#include "gemm_cdna.h"
#include "gemm_order.h"

#define GEMM_HOOK int

CCL_DEVICE struct ccl_k_gemm_tile gemm_tile_of(CCL_GEMM_ARGS g, uint32_t number, uint32_t tile_rows)
{
    const struct gemm_place at = gemm_order(number, g->tiles_m, g->tiles_n, g->xcds, g->group_m);
    const uint32_t row = at.m * tile_rows, col = at.n * GEMM_COLUMNS;
    struct ccl_k_gemm_tile tile = {};

    tile.a = g->a + row * g->lda * 2;
    tile.lda = g->lda;
    tile.c = g->c + (row * g->ldc + col) * 2;
    tile.row = row;
    tile.rows = g->m - row < tile_rows ? g->m - row : tile_rows;
    tile.col = col;
    tile.cols = g->n - col < GEMM_COLUMNS ? g->n - col : GEMM_COLUMNS;
    tile.k1 = g->k;
    tile.part = CCL_GEMM_FIRST | CCL_GEMM_LAST;
    return tile;
}

/* ISA gemm_*_256: vgpr 256, sgpr 106, lds 65536, waves 2, mfma 128, age 56, busy 95
 * ISA gemm_*_128: vgpr 256, sgpr 106, lds 49152, waves 2, mfma 64, age 32, busy 90
 * ISA gemm_*_256@gfx950: vgpr 256, sgpr 106, lds 163840, waves 2, mfma 64, blocks 5, age 72, flight 8, busy 94
 * ISA gemm_*_128@gfx950: vgpr 256, sgpr 106, lds 122880, waves 2, mfma 32, blocks 5, age 36, flight 6, busy 79 */

#define GEMM_NAME nk_f16_256
#define GEMM_ROWS 256
#define GEMM_BF16 0
#define GEMM_KN 0
#include "gemm_cdna_body.h"

#define GEMM_NAME nk_bf16_256
#define GEMM_ROWS 256
#define GEMM_BF16 1
#define GEMM_KN 0
#include "gemm_cdna_body.h"

#define GEMM_NAME kn_f16_256
#define GEMM_ROWS 256
#define GEMM_BF16 0
#define GEMM_KN 1
#include "gemm_cdna_body.h"

#define GEMM_NAME kn_bf16_256
#define GEMM_ROWS 256
#define GEMM_BF16 1
#define GEMM_KN 1
#include "gemm_cdna_body.h"

#define GEMM_NAME nk_f16_128
#define GEMM_ROWS 128
#define GEMM_BF16 0
#define GEMM_KN 0
#include "gemm_cdna_body.h"

#define GEMM_NAME nk_bf16_128
#define GEMM_ROWS 128
#define GEMM_BF16 1
#define GEMM_KN 0
#include "gemm_cdna_body.h"

#define GEMM_NAME kn_f16_128
#define GEMM_ROWS 128
#define GEMM_BF16 0
#define GEMM_KN 1
#include "gemm_cdna_body.h"

#define GEMM_NAME kn_bf16_128
#define GEMM_ROWS 128
#define GEMM_BF16 1
#define GEMM_KN 1
#include "gemm_cdna_body.h"

#define GEMM_KERNEL(name, tile_rows)                                                                                               \
    extern "C" __attribute__((global, amdgpu_flat_work_group_size(GEMM_THREADS, GEMM_THREADS), amdgpu_waves_per_eu(2, 2))) void     \
        ccl_k_gemm_##name(struct ccl_k_gemm by_value)                                                                               \
    {                                                                                                                              \
        CCL_GEMM_ARGS g = (CCL_GEMM_ARGS)__builtin_amdgcn_kernarg_segment_ptr();                                                    \
        CCL_SHARED char memory[GEMM_LDS_BYTES(tile_rows)] __attribute__((aligned(1024)));                                          \
        (void)by_value;                                                                                                            \
        for (uint32_t number = ccl_bid(); number < g->tiles_m * g->tiles_n; number += ccl_grid()) {                                 \
            const struct ccl_k_gemm_tile tile = gemm_tile_of(g, number, tile_rows);                                                \
            gemm_core_##name(g, &tile, (GEMM_LDS char *)memory, 0);                                                                 \
        }                                                                                                                          \
    }

GEMM_KERNEL(nk_f16_256, 256)
GEMM_KERNEL(nk_bf16_256, 256)
GEMM_KERNEL(kn_f16_256, 256)
GEMM_KERNEL(kn_bf16_256, 256)
GEMM_KERNEL(nk_f16_128, 128)
GEMM_KERNEL(nk_bf16_128, 128)
GEMM_KERNEL(kn_f16_128, 128)
GEMM_KERNEL(kn_bf16_128, 128)
