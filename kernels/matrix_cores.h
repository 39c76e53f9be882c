/* SPDX-License-Identifier: MIT
 *
 * The GEMM cores of GPUs that fused matrix products run on, as host code sees them: plain numbers, equal to those of the kernels (matmul_*.h assert it). */
#ifndef CCL_MATRIX_CORES_H
#define CCL_MATRIX_CORES_H

#define CCL_MATMUL_BLOCK_BYTES 1280u /* of a block that keeps its state in memory: struct matmul_shared */
#define CCL_MATMUL_MAP_BYTES 8192u   /* of a block that makes tensor maps: one for A of each of 64 ranks */

/* name, rows and columns of its largest tile, threads of a block, dynamic shared memory, private memory of a block, most ranks of cclMatmulAllGather, largest pitch in
 * elements (0: any). cdna: gfx90a, gfx942, gfx950. mma: NVIDIA from sm_80 on. wgmma: sm_90a. */
#define CCL_MATRIX_CORE_LIST(X)                                             \
    X(cdna, 256, 256, 512, 0, CCL_MATMUL_BLOCK_BYTES, 8, 0x3fffff)          \
    X(mma, 128, 128, 256, 98304, 0, 64, 0)                                  \
    X(wgmma, 128, 256, 384, 230400, CCL_MATMUL_MAP_BYTES, 64, 0)

#define CCL_TENSOR_MAP_BYTES 128u /* of NVIDIA's driver */

enum ccl_matrix_core {
    CCL_MATRIX_CORE_NONE,
#define CCL_M(name, m, n, threads, shared, block, places, pitch) CCL_MATRIX_CORE_##name,
    CCL_MATRIX_CORE_LIST(CCL_M)
#undef CCL_M
        CCL_NUM_MATRIX_CORES
};

#define CCL_WGMMA_ROWS 128u   /* of a tile of core wgmma */
#define CCL_WGMMA_NARROW 224u /* it has instructions for so many columns, too */
#define CCL_MATRIX_TILE 8u /* sides of tiles are multiples */
#define CCL_MATRIX_TILE_K 64u /* K block of all cores */

#endif
