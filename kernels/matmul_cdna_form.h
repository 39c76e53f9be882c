/* SPDX-License-Identifier: MIT
 *
 * One kernel of matmul_cdna.h: core, tiles and kernel, with GEMM_NAME, GEMM_BF16, GEMM_KN (gemm_cdna_body.h), MATMUL_FORM and MATMUL_KM (matmul_body.h),
 * which are undefined again at the end. LDS is that of all kernels: one of them runs in a block. */
#define GEMM_ROWS 256
#define GEMM_KM MATMUL_KM
#define CCL_GEMM_WAIT_A MATMUL_WAIT_A
#define GEMM_PLACES MATMUL_PLACES
#define GEMM_LATE_PLACES matmul_place
#include "gemm_cdna_body.h"

#define CCL_MATMUL_CORE(a, t, sh, feed)                                              \
    ({                                                                               \
        CCL_SHARED char memory_[GEMM_LDS_BYTES(256)] __attribute__((aligned(1024))); \
        MATMUL_F(gemm_core)(&(a)->gemm, t, (GEMM_LDS char *)memory_, feed);          \
    })
#include "matmul_body.h"
