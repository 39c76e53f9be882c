/* SPDX-License-Identifier: MIT
 *
 * The kernel of matmul.hip on NVIDIA from sm_80 on, over the core of gemm_mma.h. */
#include "matrix_cores.h"

#define GEMM_HOOK struct matmul_feed *
#define CCL_GEMM_WAIT_A(tile, kb) matmul_feed_wait(hook, (tile)->unit, (kb) * MMA_BLOCK_K, ((kb) + 1) * MMA_BLOCK_K)
#include "gemm_mma.h"

#define CCL_M(name, m, n, threads, shared, block, places, pitch) MATMUL_NUMBERS_##name(m, n, threads, shared, places)
#define MATMUL_NUMBERS_cdna(m, n, threads, shared, places)
#define MATMUL_NUMBERS_wgmma(m, n, threads, shared, places)
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
#define MATMUL_OTHERS(a, sh, t) matmul_set_others(a, sh, &(t))

extern __shared__ __align__(1024) char matmul_memory[]; /* MMA_SHARED_BYTES, of the launch */

#define MATMUL_FORM _mma
#define MATMUL_KM 0
#define CCL_MATMUL_CORE(a, t, sh, feed) gemm_core_mma(&(a)->gemm, t, gemm_shared_addr(matmul_memory), feed)
#include "matmul_body.h"
