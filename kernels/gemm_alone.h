/* SPDX-License-Identifier: MIT
 *
 * A kernel around the GEMM core that does nothing else: blocks walk the tiles in the order of gemm_order.h, as many blocks as are launched. */
#ifndef CCL_GEMM_ALONE_H
#define CCL_GEMM_ALONE_H

#include "gemm_cdna.h"
#include "gemm_order.h"

#define GEMM_HOOK int

CCL_DEVICE struct ccl_k_gemm_tile gemm_tile_of(CCL_GEMM_ARGS g, uint32_t number, uint32_t tile_rows)
{
    const struct gemm_place at = gemm_order(number, g->tiles_m, g->tiles_n, g->xcds, g->group_m);
    const uint32_t row = at.m * tile_rows, col = at.n * GEMM_COLUMNS;
    struct ccl_k_gemm_tile tile = {};

    tile.a = g->a + (g->a_layout == CCL_GEMM_K_OUTER ? row : row * g->lda) * 2;
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

/* name: of a core that was included before. */
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

#endif
