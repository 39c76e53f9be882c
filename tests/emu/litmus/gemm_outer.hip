/* SPDX-License-Identifier: MIT
 *
 * The GEMM core with A as [k][m], which no kernel of gemm.hip has: gemm_LAYOUT_TYPE_ROWS with an m in front of the layout of B. */
#include "gemm_alone.h"

/* ISA gemm_*_256: vgpr 256, sgpr 106, lds 65536, waves 2, mfma 128, age 64, busy 95
 * ISA gemm_*_256@gfx950: vgpr 256, sgpr 106, lds 163840, waves 2, mfma 64, age 72, flight 8, busy 93
 * ISA gemm_*_128@gfx950: vgpr 256, sgpr 106, lds 122880, waves 2, mfma 32, age 36, flight 6, busy 79 */
#define GEMM_NAME mnk_bf16_256
#define GEMM_ROWS 256
#define GEMM_BF16 1
#define GEMM_KN 0
#define GEMM_KM 1
#include "gemm_cdna_body.h"
GEMM_KERNEL(mnk_bf16_256, 256)

#define GEMM_NAME mkn_f16_256
#define GEMM_ROWS 256
#define GEMM_BF16 0
#define GEMM_KN 1
#define GEMM_KM 1
#include "gemm_cdna_body.h"
GEMM_KERNEL(mkn_f16_256, 256)

#if GEMM_DIRECT
#define GEMM_NAME mkn_bf16_128
#define GEMM_ROWS 128
#define GEMM_BF16 1
#define GEMM_KN 1
#define GEMM_KM 1
#include "gemm_cdna_body.h"
GEMM_KERNEL(mkn_bf16_128, 128)
#endif
