/* SPDX-License-Identifier: MIT
 *
 * The GEMM core of CDNA (gemm.h): one output tile of GEMM_ROWS x 256, one block of 8 waves as 2 x 4. Included once for each form, with
 *   GEMM_NAME   suffix of the functions: gemm_core_NAME(g, tile, lds, hook)
 *   GEMM_ROWS   128 or 256
 *   GEMM_BF16   0 fp16, 1 bf16
 *   GEMM_KN     0: B is [n][k], 1: B is [k][n]
 *   GEMM_KM     optional. 1: A is [k][m]; on gfx90a and gfx942 with 256 rows only
 *   GEMM_HOOK   type of `hook`, which is for the macros below
 *   CCL_GEMM_WAIT_A(tile, kb)   optional. Every wave asks for itself, before its first load of the K block (64 elements); the last block first if it is
 *               partial, then 0, 1, 2, .. When the answer is not 0 the wave goes on to the end of the tile, since all waves must pass the same
 *               barriers, stores nothing and returns that. Waves that ask for themselves may get different answers
 *   GEMM_PLACES  optional: most of tile->more; tile->others is then an array in registers (local, its indices constants)
 *   GEMM_LATE_PLACES(hook, tile, d)  optional, in place of tile->others: address of place d (0 from tile->more on), which lane d asks for behind the K loop and keeps,
 *               since scalar registers are few
 * which are undefined again at the end.
 *
 * A step of the loop is a K block of 64 in two halves of 32; a half of A and B together is a stage in LDS. A half step has GEMM_ROWS / 32 groups of 4
 * output fragments (16 x 16); a group's matrix instructions work from registers that were read from LDS GEMM_AHEAD groups before, so that the barrier
 * stands behind the last read of a stage and before the last GEMM_AHEAD groups. A partial K block is the first one, masked on its way through
 * registers, so the loop never masks. */
#define GEMM_CAT2(a, b) a##b
#define GEMM_CAT(a, b) GEMM_CAT2(a, b)
#define GEMM_F(x) GEMM_CAT(x##_, GEMM_NAME)

#ifndef GEMM_KM
#define GEMM_KM 0
#endif
#define GEMM_FRAGMENTS (GEMM_ROWS / 32) /* of 16 rows of A, a wave */
#define GEMM_A_LOADS (GEMM_ROWS / 128)  /* 16-byte loads a thread of half a K block of A */
#define GEMM_A_BYTES (GEMM_ROWS * 64)
#define GEMM_STAGE GEMM_STAGE_BYTES(GEMM_ROWS)
#define GEMM_AHEAD (GEMM_DIRECT && GEMM_ROWS == 256 ? 3 : 2) /* by the model */
#define GEMM_EDGE (GEMM_FRAGMENTS - GEMM_AHEAD) /* the group with the barrier in front */

/* B first: then D has rows of B, 4 of them in a lane, which are 4 columns of C. 32 of k; on gfx90a and gfx942 two instructions that take elements 0 to 3
 * and 4 to 7 of each lane's 8: k may be permuted when A and B agree. */
#if GEMM_DIRECT && GEMM_BF16
#define GEMM_MMA(b, a, c) \
    __builtin_amdgcn_mfma_f32_16x16x32_bf16(__builtin_bit_cast(gemm_bf16x8, b), __builtin_bit_cast(gemm_bf16x8, a), c, 0, 0, 0)
#elif GEMM_DIRECT
#define GEMM_MMA(b, a, c) \
    __builtin_amdgcn_mfma_f32_16x16x32_f16(__builtin_bit_cast(gemm_f16x8, b), __builtin_bit_cast(gemm_f16x8, a), c, 0, 0, 0)
#else
#if GEMM_BF16
#define GEMM_MMA16(b, a, c) \
    __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(__builtin_bit_cast(gemm_s16x4, b), __builtin_bit_cast(gemm_s16x4, a), c, 0, 0, 0)
#else
#define GEMM_MMA16(b, a, c) \
    __builtin_amdgcn_mfma_f32_16x16x16f16(__builtin_bit_cast(gemm_f16x4, b), __builtin_bit_cast(gemm_f16x4, a), c, 0, 0, 0)
#endif
#define GEMM_MMA(b, a, c) GEMM_MMA16(GEMM_HIGH(b), GEMM_HIGH(a), GEMM_MMA16(GEMM_LOW(b), GEMM_LOW(a), c))
#endif

#ifdef CCL_GEMM_WAIT_A
#define GEMM_AWAIT(kb) (failed |= CCL_GEMM_WAIT_A(tile, tile->k0 / GEMM_BLOCK_K + (kb)))
#else
#define GEMM_AWAIT(kb)
#endif

#ifndef GEMM_PLACES
#define GEMM_PLACES 0
#endif

/* Instructions between two scheduling fences are mixed: after each matrix instruction some scalar ones and at most one memory instruction of each kind.
 * Loads in one burst would hold the waves up in front of the address unit. */
#define GEMM_MIX_ONE()                                                             \
    __builtin_amdgcn_sched_group_barrier(0x008, GEMM_DIRECT ? 1 : 2, 0); /* matrix */ \
    __builtin_amdgcn_sched_group_barrier(0x004, GEMM_DIRECT ? 3 : 0, 0); /* scalar */ \
    __builtin_amdgcn_sched_group_barrier(0x100, 2, 0);                   /* LDS read */ \
    __builtin_amdgcn_sched_group_barrier(0x200, 1, 0);                   /* LDS write */ \
    __builtin_amdgcn_sched_group_barrier(0x020, 1, 0)                    /* load */
#define GEMM_GROUP(i, b)                              \
    for (int j_ = 0; j_ < 4; j_++) {                  \
        acc[i][j_] = GEMM_MMA((b)[j_], ring[i], acc[i][j_]); \
    }                                                 \
    GEMM_MIX_ONE();                                   \
    GEMM_MIX_ONE();                                   \
    GEMM_MIX_ONE();                                   \
    GEMM_MIX_ONE();                                   \
    ccl_sched_fence()

#include "gemm_cdna_loads_body.h"
#include "gemm_cdna_store_body.h"

/* All 512 threads call it, with equal arguments; lds has GEMM_LDS_BYTES(GEMM_ROWS), of which nothing is in use afterwards. */
CCL_DEVICE uint32_t GEMM_F(gemm_core)(CCL_GEMM_ARGS g, const struct ccl_k_gemm_tile *tile, GEMM_LDS char *lds, GEMM_HOOK hook)
{
    uint32_t k = tile->k1 - tile->k0;
    CCL_AFRESH(k); /* else what depends on it only is kept in registers for all tiles of a block */
    const struct gemm_in in = {tile->a, g->b + (GEMM_KN ? tile->col + tile->k0 * g->ldb : tile->k0 + tile->col * g->ldb) * 2, (uint32_t)tile->lda,
                               (uint32_t)g->ldb, tile->rows, tile->cols, k};
    const uint32_t blocks = (in.k + GEMM_BLOCK_K - 1) / GEMM_BLOCK_K, partial = in.k % GEMM_BLOCK_K != 0;
    const uint64_t a_step = GEMM_KM ? (uint64_t)in.lda * GEMM_BLOCK_K * 2 : GEMM_BLOCK_K * 2;
    const uint64_t b_step = GEMM_KN ? (uint64_t)in.ldb * GEMM_BLOCK_K * 2 : GEMM_BLOCK_K * 2;
    const uint32_t first = partial ? blocks - 1 : 0;
    const int k_left = (int)(in.k - first * GEMM_BLOCK_K); /* of the first block */
    uint32_t kb = partial ? 0 : 1;                         /* the next block to load */
    uint32_t bytes = blocks > 1 ? GEMM_ALL : 0;            /* of the buffers: 0 when there is no such block, so that loads fetch nothing */
    uint32_t failed = 0;
    uint64_t a = in.a + first * a_step, b = in.b + first * b_step;
    struct GEMM_F(gemm_lane) t;
    struct GEMM_F(gemm_half) p0, p1;
    gemm_f32x4 acc[GEMM_FRAGMENTS][4];
    gemm_u32x4 ring[GEMM_FRAGMENTS], b0[4], b1[4];

    (void)hook;
    GEMM_F(gemm_lane_init)(&t, &in);
    for (int i = 0; i < GEMM_FRAGMENTS; i++) {
        for (int j = 0; j < 4; j++) {
            acc[i][j] = (gemm_f32x4){0, 0, 0, 0};
        }
    }
    GEMM_AWAIT(first);
    GEMM_F(gemm_load_masked)(&p0, &t, a, b, 0, &in, k_left);
    GEMM_F(gemm_load_masked)(&p1, &t, a, b, 1, &in, k_left);
    a = in.a + kb * a_step;
    b = in.b + kb * b_step;
#if GEMM_DIRECT
#include "gemm_cdna_direct_body.h"
#else
#include "gemm_cdna_registers_body.h"
#endif
    GEMM_BARRIER(lds);
    if (failed == 0) {
#ifdef GEMM_LATE_PLACES
        GEMM_F(gemm_store)(g, tile, acc, tile->more != 0 ? GEMM_LATE_PLACES(hook, tile, ccl_afresh(ccl_tid()) % 64) : 0);
#else
        GEMM_F(gemm_store)(g, tile, acc, 0);
#endif
    }
    return failed;
}

#undef GEMM_AWAIT
#undef CCL_GEMM_WAIT_A
#undef GEMM_PLACES
#undef GEMM_LATE_PLACES
#undef GEMM_MIX_ONE
#undef GEMM_GROUP
#undef GEMM_GET
#undef GEMM_GET_A
#undef GEMM_GET_B
#undef GEMM_KM_DIRECT
#undef GEMM_KM_PAIRS
#undef GEMM_LOAD_PAIR
#undef GEMM_GET_A_AT
#undef GEMM_GET_B_AT
#undef GEMM_KN_DIRECT
#undef GEMM_KN_PAIRS
#undef GEMM_LOAD16
#undef GEMM_LOAD4
#undef GEMM_MMA
#undef GEMM_MMA16
#undef GEMM_EDGE
#undef GEMM_AHEAD
#undef GEMM_STAGE
#undef GEMM_A_BYTES
#undef GEMM_A_LOADS
#undef GEMM_FRAGMENTS
#undef GEMM_F
#undef GEMM_CAT
#undef GEMM_CAT2
#undef GEMM_NAME
#undef GEMM_ROWS
#undef GEMM_BF16
#undef GEMM_KN
#undef GEMM_KM
