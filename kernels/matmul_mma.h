/* SPDX-License-Identifier: MIT
 *
 * The kernels of matmul.hip on NVIDIA, over the core of gemm_mma_body.h. */
#include "gemm_mma.h"
#include "matrix_cores.h"

#define CCL_M(name, m, n, threads, shared, block, places, pitch) MATMUL_NUMBERS_##name(m, n, threads, shared, places)
#define MATMUL_NUMBERS_cdna(m, n, threads, shared, places)
#define MATMUL_NUMBERS_mma(m, n, threads, shared, places)                                                                          \
    static_assert((m) == MMA_ROWS && (n) == MMA_COLUMNS && (threads) == MMA_THREADS && (shared) == MMA_SHARED_BYTES &&            \
                      (places) <= MATMUL_RANKS && CCL_MATRIX_TILE_K == MMA_BLOCK_K,                                                \
                  "what matrix_cores.h says of this core");
CCL_MATRIX_CORE_LIST(CCL_M)
#undef CCL_M

#define MATMUL_KERNEL(name) CCL_KERNEL_BOUNDS(name, struct ccl_k_matmul_args, MMA_THREADS, 2)
#define MATMUL_SHARED(a, sh)                 \
    CCL_SHARED struct matmul_shared shared_; \
    struct matmul_shared *const sh = &shared_
#define MATMUL_OTHERS(a, sh, t, at, kind)      \
    if ((kind) == MATMUL_GATHERS_C) {            \
        matmul_set_others(a, sh, &(t), at);      \
    }

extern __shared__ __align__(1024) char matmul_memory[]; /* MMA_SHARED_BYTES, of the launch */

#define GEMM_HOOK struct matmul_feed *
#define MATMUL_WAIT_A(tile, kb) matmul_feed_wait(hook, (tile)->unit, (kb) * MMA_BLOCK_K, ((kb) + 1) * MMA_BLOCK_K)

#define GEMM_NAME nk_f16
#define GEMM_BF16 0
#define GEMM_KN 0
#define GEMM_KM 0
#define CCL_GEMM_WAIT_A MATMUL_WAIT_A
#include "gemm_mma_body.h"
#define MATMUL_FORM _nk_f16
#define MATMUL_KM 0
#define CCL_MATMUL_CORE(a, t, sh, feed) gemm_core_nk_f16(&(a)->gemm, t, mma_shared_addr(matmul_memory), feed)
#include "matmul_body.h"

#define GEMM_NAME kn_f16
#define GEMM_BF16 0
#define GEMM_KN 1
#define GEMM_KM 0
#define CCL_GEMM_WAIT_A MATMUL_WAIT_A
#include "gemm_mma_body.h"
#define MATMUL_FORM _kn_f16
#define MATMUL_KM 0
#define CCL_MATMUL_CORE(a, t, sh, feed) gemm_core_kn_f16(&(a)->gemm, t, mma_shared_addr(matmul_memory), feed)
#include "matmul_body.h"

#define GEMM_NAME nk_bf16
#define GEMM_BF16 1
#define GEMM_KN 0
#define GEMM_KM 0
#define CCL_GEMM_WAIT_A MATMUL_WAIT_A
#include "gemm_mma_body.h"
#define MATMUL_FORM _nk_bf16
#define MATMUL_KM 0
#define CCL_MATMUL_CORE(a, t, sh, feed) gemm_core_nk_bf16(&(a)->gemm, t, mma_shared_addr(matmul_memory), feed)
#include "matmul_body.h"

#define GEMM_NAME kn_bf16
#define GEMM_BF16 1
#define GEMM_KN 1
#define GEMM_KM 0
#define CCL_GEMM_WAIT_A MATMUL_WAIT_A
#include "gemm_mma_body.h"
#define MATMUL_FORM _kn_bf16
#define MATMUL_KM 0
#define CCL_MATMUL_CORE(a, t, sh, feed) gemm_core_kn_bf16(&(a)->gemm, t, mma_shared_addr(matmul_memory), feed)
#include "matmul_body.h"

#define GEMM_NAME km_nk_f16
#define GEMM_BF16 0
#define GEMM_KN 0
#define GEMM_KM 1
#define CCL_GEMM_WAIT_A MATMUL_WAIT_A
#include "gemm_mma_body.h"
#define MATMUL_FORM _km_nk_f16
#define MATMUL_KM 1
#define CCL_MATMUL_CORE(a, t, sh, feed) gemm_core_km_nk_f16(&(a)->gemm, t, mma_shared_addr(matmul_memory), feed)
#include "matmul_body.h"

#define GEMM_NAME km_kn_f16
#define GEMM_BF16 0
#define GEMM_KN 1
#define GEMM_KM 1
#define CCL_GEMM_WAIT_A MATMUL_WAIT_A
#include "gemm_mma_body.h"
#define MATMUL_FORM _km_kn_f16
#define MATMUL_KM 1
#define CCL_MATMUL_CORE(a, t, sh, feed) gemm_core_km_kn_f16(&(a)->gemm, t, mma_shared_addr(matmul_memory), feed)
#include "matmul_body.h"

#define GEMM_NAME km_nk_bf16
#define GEMM_BF16 1
#define GEMM_KN 0
#define GEMM_KM 1
#define CCL_GEMM_WAIT_A MATMUL_WAIT_A
#include "gemm_mma_body.h"
#define MATMUL_FORM _km_nk_bf16
#define MATMUL_KM 1
#define CCL_MATMUL_CORE(a, t, sh, feed) gemm_core_km_nk_bf16(&(a)->gemm, t, mma_shared_addr(matmul_memory), feed)
#include "matmul_body.h"

#define GEMM_NAME km_kn_bf16
#define GEMM_BF16 1
#define GEMM_KN 1
#define GEMM_KM 1
#define CCL_GEMM_WAIT_A MATMUL_WAIT_A
#include "gemm_mma_body.h"
#define MATMUL_FORM _km_kn_bf16
#define MATMUL_KM 1
#define CCL_MATMUL_CORE(a, t, sh, feed) gemm_core_km_kn_bf16(&(a)->gemm, t, mma_shared_addr(matmul_memory), feed)
#include "matmul_body.h"
