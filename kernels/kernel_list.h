/* SPDX-License-Identifier: MIT
 *
 * Every kernel of the library, one row each: CCL_K(name, args struct). The rows make the enum, the host's function table and the
 * names that the gpu backend looks up in its code objects (ccl_k_<name>). */
#ifndef CCL_KERNEL_LIST_H
#define CCL_KERNEL_LIST_H

#define CCL_WORLDS_2_8(X, family, args) \
    X(family##_2, args)                 \
    X(family##_3, args)                 \
    X(family##_4, args)                 \
    X(family##_5, args)                 \
    X(family##_6, args)                 \
    X(family##_7, args)                 \
    X(family##_8, args)
#define CCL_WORLDS(X, family, args)   \
    CCL_WORLDS_2_8(X, family, args)   \
    X(family##_n, args)

/* ll_W, push_W: worlds 2..8 with the world size compiled in; _n: any world. push_part: one peer a block (partitioned).
 * parts_ll, parts, reduce: LL for all other collectives, push for the copying and for the reducing ones. p2p: sends and receives. barrier: adverts only. copy_open, copy_close: before and behind the copies of variant copy. All backends have these. */
#define CCL_KERNEL_LIST(X)                        \
    CCL_WORLDS(X, ll, struct ccl_k_coll_args)     \
    X(parts_ll, struct ccl_k_parts_args)          \
    CCL_WORLDS(X, push, struct ccl_k_coll_args)   \
    X(push_part, struct ccl_k_coll_args)          \
    X(parts, struct ccl_k_parts_args)             \
    X(reduce, struct ccl_k_parts_args)            \
    X(p2p, struct ccl_k_p2p_args)                 \
    X(barrier, struct ccl_k_coll_args)            \
    X(copy_open, struct ccl_k_coll_args)          \
    X(copy_close, struct ccl_k_coll_args)

/* On the host backend only: fused matrix products, of all types and layouts. */
#define CCL_HOST_KERNEL_LIST(X) X(matmul, struct ccl_k_matmul_args)

/* In NVIDIA's untraced images only (device property ll_words). ll_words_W: ll_W for parts that are runs of 8-byte words; sum_words_W: parts_ll for
 * all-reduces of such, sums of floats. Ranks of one operation may run either. */
#define CCL_CUDA_KERNEL_LIST(X)                             \
    CCL_WORLDS_2_8(X, ll_words, struct ccl_k_words_args)   \
    CCL_WORLDS_2_8(X, sum_words, struct ccl_k_words_args)

/* Types of sum_words_W, as cclDataType_t. */
#define CCL_SUM_F16 6
#define CCL_SUM_F32 7
#define CCL_SUM_BF16 9
#define CCL_SUM_FEW_THREADS 256 /* data threads of a block in worlds beyond CCL_LL_FEW, which need more registers */

/* Fused matrix products on GPUs with matrix cores. AMD: a kernel for each type and layout, B as [n][k] (nk) or [k][n] (kn), A staged as [k][m] (km). */
#define CCL_MATMUL_FORMS(X, family)                  \
    X(family##_nk_f16, struct ccl_k_matmul_args)     \
    X(family##_kn_f16, struct ccl_k_matmul_args)     \
    X(family##_nk_bf16, struct ccl_k_matmul_args)    \
    X(family##_kn_bf16, struct ccl_k_matmul_args)
#define CCL_MATMUL_CDNA_KERNEL_LIST(X) \
    CCL_MATMUL_FORMS(X, matmul)        \
    CCL_MATMUL_FORMS(X, matmul_km)
/* NVIDIA: one for all; on sm_90a a second one, for large products. */
#define CCL_MATMUL_CUDA_KERNEL_LIST(X)            \
    X(matmul_mma, struct ccl_k_matmul_args)       \
    X(matmul_wgmma, struct ccl_k_matmul_tma_args) \
    X(matmul_wgmma_pairs, struct ccl_k_matmul_tma_args)
#define CCL_MATMUL_KERNEL_LIST(X)  \
    CCL_MATMUL_CDNA_KERNEL_LIST(X) \
    CCL_MATMUL_CUDA_KERNEL_LIST(X)

/* Matrix products alone, in the images of gfx90a, gfx942 and gfx950 (gemm.hip): the GEMM core for benches and tests, which look them up by name. */
#define CCL_MATRIX_LAYOUTS(X, type, rows)                 \
    X(gemm_nk_##type##_##rows, struct ccl_k_gemm)         \
    X(gemm_kn_##type##_##rows, struct ccl_k_gemm)
#define CCL_MATRIX_KERNEL_LIST(X)   \
    CCL_MATRIX_LAYOUTS(X, f16, 256) \
    CCL_MATRIX_LAYOUTS(X, bf16, 256) \
    CCL_MATRIX_LAYOUTS(X, f16, 128) \
    CCL_MATRIX_LAYOUTS(X, bf16, 128)

#define CCL_REDUCE_THREADS 256 /* NVIDIA: most of a block of reduce, which so has 128 registers a thread */

/* Dynamic shared memory, which the number of blocks that a device runs at once depends on (gpu_kernels.c). */
#define CCL_PARTS_BULK_BYTES 32768 /* NVIDIA: tile of a bulk copy of parts; */
#define CCL_PARTS_BULK_STAGES 3    /* so many: two blocks a unit have room */
#define CCL_PARTS_BULK_SHARED (CCL_PARTS_BULK_STAGES * CCL_PARTS_BULK_BYTES)
#define CCL_REDUCE_BULK_SHARED CCL_PARTS_BULK_SHARED /* the same for reductions */

enum ccl_kernel {
#define CCL_K(name, args) CCL_KERNEL_##name,
    CCL_KERNEL_LIST(CCL_K)
    CCL_CUDA_KERNEL_LIST(CCL_K)
    CCL_MATMUL_KERNEL_LIST(CCL_K)
        CCL_NUM_KERNELS, /* of GPUs */
    CCL_LAST_GPU_KERNEL = CCL_NUM_KERNELS - 1,
    CCL_HOST_KERNEL_LIST(CCL_K)
#undef CCL_K
        CCL_NUM_HOST_KERNELS,
    CCL_NUM_COMMON_KERNELS = CCL_KERNEL_ll_words_2, /* kernels of all backends come first */
    CCL_FIRST_MATMUL_KERNEL = CCL_KERNEL_matmul_nk_f16,
    CCL_NUM_MATMUL_KERNELS = CCL_NUM_KERNELS - CCL_FIRST_MATMUL_KERNEL
};

#endif
