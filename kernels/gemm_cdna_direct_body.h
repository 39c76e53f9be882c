/* SPDX-License-Identifier: MIT
 *
 * K loop with loads from memory straight into LDS (gfx950): 5 stages. Part of gemm_core in gemm_cdna_body.h.
 * Half step h (block h / 2, half h % 2) computes from stage h % 5. The barrier in half step 2 s frees the second of the two stages that block s + 2
 * needs, so its loads start there, one and a half blocks before their data are read, and both halves of a line of 128 bytes are
 * loaded together. 5 blocks are written out, so that all stages are constants. */
#define GEMM_LOADS (2 * GEMM_A_LOADS + 4) /* of a thread and block */
#define GEMM_SLOTS (GEMM_FRAGMENTS == 8 ? 6 : GEMM_FRAGMENTS) /* groups that issue them */
/* The n-th stage behind one. */
#define GEMM_BEHIND(at, n) ((at) + (n) * GEMM_STAGE < GEMM_STAGES * GEMM_STAGE ? (at) + (n) * GEMM_STAGE : (at) + (n) * GEMM_STAGE - GEMM_STAGES * GEMM_STAGE)
/* Fragments of the h-th stage behind `at`. */
#define GEMM_FAR_A(i, h) GEMM_GET_A_AT(t.a_get[0], i, GEMM_BEHIND(at, h))
#define GEMM_FAR_B(j, h) GEMM_GET_B_AT(t.b_get[0], j, GEMM_BEHIND(at, h))

#define GEMM_TO_LDS(addr, off, soff, at) \
    __builtin_amdgcn_raw_ptr_buffer_load_lds(GEMM_BUFFER(addr, bytes), (GEMM_LDS void *)(lds + (at)), 16, off, soff, 0, 0)
#if GEMM_KM
#define GEMM_LOAD_A(x, at) GEMM_TO_LDS(a, t.a_off[0], a_rows[x], at)
#else
#define GEMM_LOAD_A(x, at) GEMM_TO_LDS(a, t.a_off[(x) / 2], (x) % 2 * 64, at)
#endif
#if GEMM_KN
#define GEMM_LOAD_B(x, at) GEMM_TO_LDS(b, t.b_off[0], b_rows[x], at)
#else
#define GEMM_LOAD_B(x, at) GEMM_TO_LDS(b, t.b_off[(x) / 2], (x) % 2 * 64, at)
#endif
/* The x-th load of a block: the halves of a chunk's row in turn, into stages to0 and to1. */
#define GEMM_LOAD(x, to0, to1)                                                                              \
    if ((x) < 2 * GEMM_A_LOADS) {                                                                           \
        GEMM_LOAD_A(x, wave_put + ((x) % 2 ? (to1) : (to0)) + (x) / 2 * 8192);                              \
    } else {                                                                                                \
        GEMM_LOAD_B((x) - 2 * GEMM_A_LOADS,                                                                 \
                    wave_put + ((x) % 2 ? (to1) : (to0)) + GEMM_A_BYTES + ((x) - 2 * GEMM_A_LOADS) / 2 * 8192); \
    }
#define GEMM_LOAD_SLOT(slot, to0, to1)                \
    for (int x_ = 0; x_ < GEMM_LOADS; x_++) {         \
        if (x_ * GEMM_SLOTS / GEMM_LOADS == (slot)) { \
            GEMM_LOAD(x_, to0, to1);                  \
        }                                             \
    }

    uint32_t wave_put = ccl_uniform(ccl_tid() >> 6) * 1024;
#if GEMM_KM
    const uint32_t a_rows[4] = {0, 32 * in.lda * 2, 16 * in.lda * 2, 48 * in.lda * 2};
#endif
#if GEMM_KN
    const uint32_t b_rows[4] = {0, 32 * in.ldb * 2, 16 * in.ldb * 2, 48 * in.ldb * 2};
#endif
    int left = (int)blocks;
    uint32_t at = 3 * (blocks % GEMM_STAGES) % GEMM_STAGES * GEMM_STAGE; /* stage of the next block: 0 when a multiple of 5 is left */
    GEMM_F(gemm_put_a)(lds, &p0, &t, at);
    GEMM_F(gemm_put_b)(lds, &p0, &t, at);
    GEMM_F(gemm_put_a)(lds, &p1, &t, GEMM_BEHIND(at, 1));
    GEMM_F(gemm_put_b)(lds, &p1, &t, GEMM_BEHIND(at, 1));
    if (bytes != 0) {
        GEMM_AWAIT(kb);
    }
#pragma unroll
    for (int x = 0; x < GEMM_LOADS; x++) {
        GEMM_LOAD(x, GEMM_BEHIND(at, 2), GEMM_BEHIND(at, 3));
    }
    a += a_step;
    b += b_step;
    kb++;
    GEMM_BARRIER(lds);
    for (int j = 0; j < 4; j++) {
        b0[j] = GEMM_FAR_B(j, 0);
    }
    for (int i = 0; i < GEMM_AHEAD; i++) {
        ring[i] = GEMM_FAR_A(i, 0);
    }
    ccl_sched_fence();
    for (uint32_t turn = blocks % GEMM_STAGES; turn != 0; turn--) {
#include "gemm_cdna_direct_step.h"
    }
    for (uint32_t turn = blocks / GEMM_STAGES; turn != 0; turn--) {
#define GEMM_AT 0
#include "gemm_cdna_direct_step.h"
#define GEMM_AT 1
#include "gemm_cdna_direct_step.h"
#define GEMM_AT 2
#include "gemm_cdna_direct_step.h"
#define GEMM_AT 3
#include "gemm_cdna_direct_step.h"
#define GEMM_AT 4
#include "gemm_cdna_direct_step.h"
    }
    GEMM_WAIT_VM(0); /* loads of nothing write zeros to LDS: before it is used for anything else */

#undef GEMM_LOADS
#undef GEMM_SLOTS
#undef GEMM_BEHIND
#undef GEMM_FAR_A
#undef GEMM_FAR_B
#undef GEMM_TO_LDS
#undef GEMM_LOAD_A
#undef GEMM_LOAD_B
#undef GEMM_LOAD
#undef GEMM_LOAD_SLOT
