/* SPDX-License-Identifier: MIT
 *
 * What a GEMM core is told: the interface between the tile scheduler (matmul_*.h, one for all devices) and the cores (one a device). Plain data,
 * equal on host, AMD and NVIDIA. C = A x B (+ bias): A is [m][k], B [k][n], C [m][n]; type in, bias and out alike, sums in 32-bit floats, rounded
 * once to nearest even.
 *
 * What callers promise: addresses of matrices are multiples of 16 and pitches multiples of 8 elements, rows (of a transposed matrix: columns) are
 * readable up to their pitch; what lies behind the last element of a row may be anything, NaN included, and is not written in C.
 *
 * A core is one function for a block:  CCL_DEVICE uint32_t core(GEMM g, TILE t, memory of the block, HOOK)  with GEMM a pointer to
 * struct ccl_k_gemm in the memory where kernel arguments lie and TILE one to struct ccl_k_gemm_tile in registers. It adds one segment of K of one
 * tile to the sums, which stay with the core between the first and the last segment of the tile, and stores C with the last one. Before it loads elements of A
 * in K block kb (tile_k columns of the whole product, counted from 0) for the first time it asks CCL_GEMM_WAIT_A(t, kb): not 0 = leave at once and return
 * that. A core that is used alone has a hook that is 0. */
#ifndef CCL_GEMM_H
#define CCL_GEMM_H

#ifndef __HIP__
#include <stddef.h>
#include <stdint.h>
#endif

#define CCL_GEMM_ALIGN 16u /* bytes, of addresses */
#define CCL_GEMM_PITCH 8u  /* elements, pitches are multiples */

/* Types: the numbers of cclFloat16 and cclBfloat16. */
enum ccl_gemm_type { CCL_GEMM_F16 = 6, CCL_GEMM_BF16 = 9 };
/* Which index of A and B runs through memory. */
enum ccl_gemm_layout {
    CCL_GEMM_K_INNER, /* A [m][k], B [n][k] (transposed) */
    CCL_GEMM_K_OUTER  /* A [k][m] (staged m_contiguous), B [k][n] */
};
enum ccl_gemm_bias { CCL_GEMM_NO_BIAS, CCL_GEMM_BIAS_BY_COLUMN, CCL_GEMM_BIAS_BY_ROW }; /* n or m elements */

/* The whole product, as one rank computes it. */
struct ccl_k_gemm {
    uint64_t a, b, bias, c; /* addresses; bias 0 with CCL_GEMM_NO_BIAS */
    uint64_t lda, ldb, ldc; /* elements between rows (K_OUTER: between columns) */
    uint32_t m, n, k;       /* 1..2^31-1 */
    uint32_t type;          /* enum ccl_gemm_type */
    uint32_t a_layout, b_layout; /* enum ccl_gemm_layout */
    uint32_t bias_kind;          /* enum ccl_gemm_bias */
    uint32_t tile_m, tile_n, tile_k;
    uint32_t tiles_m, tiles_n; /* m and n divided by the tile, rounded up; fused: see struct ccl_k_matmul */
    uint32_t blocks_k;         /* k divided by tile_k, rounded up: the last one may be short */
    uint32_t group_m;          /* rows of tiles that are walked down before one step to the right, 1..tiles_m */
    uint32_t xcds;             /* blocks b, b + xcds, .. share an L2; 1: one L2 */
};

enum ccl_gemm_part {
    CCL_GEMM_FIRST = 1, /* first segment: sums start at 0 */
    CCL_GEMM_LAST = 2   /* last segment: bias, rounding, store */
};

/* One segment of K of one output tile. Where A lies comes with the tile: the rows of one product may lie in several places. */
struct ccl_k_gemm_tile {
    uint64_t a;      /* address of A at the tile's first row and column k0 */
    uint64_t lda;    /* elements */
    uint64_t c;      /* address of C at the tile's first row and column */
    uint64_t row;    /* the tile's first row in the whole product: for the bias */
    uint32_t rows;   /* that there are, 1..tile_m */
    uint32_t col;    /* first column, of B, C and bias */
    uint32_t cols;   /* that there are, 1..tile_n */
    uint32_t k0, k1; /* columns of A, rows of B: k0..k1-1. On GPUs k0 is a multiple of tile_k, and there is one segment */
    uint32_t part;   /* enum ccl_gemm_part, or'ed */
    uint32_t unit;   /* fused: row of ready words that says whether A is there */
    uint32_t more;   /* further places that the tile is stored to, each vector to all of them */
    const uint64_t *others; /* their addresses, as c; in memory of the block or in registers */
};

/* Scratch of a block of the host's core: sums, and 256 columns of A and rows of B as floats. A tile has so many elements at most. */
#define CCL_GEMM_HOST_DEPTH 256u
#define CCL_GEMM_HOST_PAD 96u /* rows and columns are padded to a multiple of this */
#define CCL_GEMM_HOST_TILE_MAX 1024u
#define CCL_GEMM_HOST_ROUND(x) (((uint64_t)(x) + CCL_GEMM_HOST_PAD - 1) / CCL_GEMM_HOST_PAD * CCL_GEMM_HOST_PAD)
#define CCL_GEMM_HOST_SCRATCH(tile_m, tile_n)                                                                       \
    (4 * (CCL_GEMM_HOST_ROUND(tile_m) * CCL_GEMM_HOST_ROUND(tile_n) +                                                \
          CCL_GEMM_HOST_DEPTH * (CCL_GEMM_HOST_ROUND(tile_m) + CCL_GEMM_HOST_ROUND(tile_n))))

#endif
