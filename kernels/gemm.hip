/* SPDX-License-Identifier: MIT
 *
 * Matrix products alone: C = A x B (+ bias) on the matrix cores of gfx90a, gfx942 and gfx950, for any m, n, k. Not for other devices: gfx11, gfx12 and
 * NVIDIA have other matrix instructions. Blocks walk the tiles in the order of gemm_order.h, as many blocks as are launched. Bytes moved: each tile
 * reads its rows of A and its columns of B, and stores C once.
 *
 * Names: gemm_LAYOUT_TYPE_ROWS, B as [n][k] (nk) or [k][n] (kn), rows of a tile.
 *
 * Compilers older than clang 17 cannot make buffers: NEEDS __builtin_amdgcn_make_buffer_rsrc */
#include "gemm_alone.h"

/* ISA gemm_*_256: vgpr 256, sgpr 106, lds 65536, waves 2, mfma 128, age 64, epilogue 16, busy 95
 * ISA gemm_*_128: vgpr 256, sgpr 106, lds 49152, waves 2, mfma 64, age 34, epilogue 8, busy 95
 * ISA gemm_*_256@gfx950: vgpr 256, sgpr 106, lds 163840, waves 2, mfma 64, age 72, flight 8, epilogue 16, busy 94
 * ISA gemm_*_128@gfx950: vgpr 256, sgpr 106, lds 122880, waves 2, mfma 32, age 36, flight 6, epilogue 8, busy 80 */

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

GEMM_KERNEL(nk_f16_256, 256)
GEMM_KERNEL(nk_bf16_256, 256)
GEMM_KERNEL(kn_f16_256, 256)
GEMM_KERNEL(kn_bf16_256, 256)
GEMM_KERNEL(nk_f16_128, 128)
GEMM_KERNEL(nk_bf16_128, 128)
GEMM_KERNEL(kn_f16_128, 128)
GEMM_KERNEL(kn_bf16_128, 128)
