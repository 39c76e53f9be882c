/* SPDX-License-Identifier: MIT
 *
 * The kernels of matmul.hip on gfx90a, gfx942 and gfx950, over the core of gemm_cdna_body.h. The core takes all of LDS, so a block keeps its state in private memory of the
 * workspace. Each wave waits for A by itself. */
#include "gemm_cdna.h"
#include "matrix_cores.h"

#define MATMUL_PLACES 7
#define MATMUL_KERNEL(name) MATMUL_KERNEL_NAMED(name)
#define MATMUL_KERNEL_NAMED(name)                                                                                                            \
    CCL_DEVICE void ccl_body_##name(MATMUL_ARGS a);                                                                                         \
    extern "C" __attribute__((global, amdgpu_flat_work_group_size(GEMM_THREADS, GEMM_THREADS), amdgpu_waves_per_eu(2, 2))) void ccl_k_##name( \
        struct ccl_k_matmul_args by_value)                                                                                                  \
    {                                                                                                                                       \
        (void)by_value;                                                                                                                     \
        ccl_body_##name((MATMUL_ARGS)__builtin_amdgcn_kernarg_segment_ptr());                                                                \
    }                                                                                                                                       \
    CCL_DEVICE void ccl_body_##name(MATMUL_ARGS a)
#define MATMUL_SHARED(a, sh) \
    struct matmul_shared *const sh = (struct matmul_shared *)CCL_PTR(struct matmul_shared, (a)->scratch + (uint64_t)ccl_bid() * CCL_MATMUL_BLOCK_BYTES)

static_assert(sizeof(struct matmul_shared) <= CCL_MATMUL_BLOCK_BYTES, "");

/* Found when the K loop is over: in it scalar registers are few. */
#if defined(CCL_TEST_BASES_INSIDE)
#define MATMUL_OTHERS(a, sh, t) matmul_set_others(a, sh, &(t))
#else
#define MATMUL_OTHERS(a, sh, t)
#endif
CCL_DEVICE uint64_t matmul_place(const struct matmul_feed *f, const struct ccl_k_gemm_tile *t, uint32_t d)
{
    return d < t->more ? matmul_other(f->a, f->sh, t, d) : 0;
}

#define GEMM_HOOK struct matmul_feed *
#define MATMUL_WAIT_A(tile, kb) matmul_feed_wait(hook, (tile)->unit, (kb) * GEMM_BLOCK_K, ((kb) + 1) * GEMM_BLOCK_K)

#define GEMM_NAME nk_f16
#define GEMM_BF16 0
#define GEMM_KN 0
#define MATMUL_KM 0
#define MATMUL_FORM _nk_f16
#include "matmul_cdna_form.h"

#if !defined(CCL_TEST_BASES_INSIDE) /* the gate looks at one of them */
#define GEMM_NAME kn_f16
#define GEMM_BF16 0
#define GEMM_KN 1
#define MATMUL_KM 0
#define MATMUL_FORM _kn_f16
#include "matmul_cdna_form.h"

#define GEMM_NAME nk_bf16
#define GEMM_BF16 1
#define GEMM_KN 0
#define MATMUL_KM 0
#define MATMUL_FORM _nk_bf16
#include "matmul_cdna_form.h"

#define GEMM_NAME kn_bf16
#define GEMM_BF16 1
#define GEMM_KN 1
#define MATMUL_KM 0
#define MATMUL_FORM _kn_bf16
#include "matmul_cdna_form.h"

#define GEMM_NAME km_nk_f16
#define GEMM_BF16 0
#define GEMM_KN 0
#define MATMUL_KM 1
#define MATMUL_FORM _km_nk_f16
#include "matmul_cdna_form.h"

#define GEMM_NAME km_kn_f16
#define GEMM_BF16 0
#define GEMM_KN 1
#define MATMUL_KM 1
#define MATMUL_FORM _km_kn_f16
#include "matmul_cdna_form.h"

#define GEMM_NAME km_nk_bf16
#define GEMM_BF16 1
#define GEMM_KN 0
#define MATMUL_KM 1
#define MATMUL_FORM _km_nk_bf16
#include "matmul_cdna_form.h"

#define GEMM_NAME km_kn_bf16
#define GEMM_BF16 1
#define GEMM_KN 1
#define MATMUL_KM 1
#define MATMUL_FORM _km_kn_bf16
#include "matmul_cdna_form.h"
#endif
