/* SPDX-License-Identifier: MIT
 *
 * One K block of the loop in gemm_cdna_direct_body.h. GEMM_AT: its place among the blocks that are written out. */
{
#ifdef GEMM_AT
#define GEMM_STEP_A(i, h) GEMM_GET_A(i, (2 * GEMM_AT + (h)) % GEMM_STAGES)
#define GEMM_STEP_B(j, h) GEMM_GET_B(j, (2 * GEMM_AT + (h)) % GEMM_STAGES)
    const uint32_t free0 = (2 * GEMM_AT + 4) % GEMM_STAGES * GEMM_STAGE, free1 = 2 * GEMM_AT % GEMM_STAGES * GEMM_STAGE;
#else
#define GEMM_STEP_A(i, h) GEMM_FAR_A(i, h)
#define GEMM_STEP_B(j, h) GEMM_FAR_B(j, h)
    const uint32_t free0 = GEMM_BEHIND(at, 4), free1 = at;
#endif

    bytes = left > 2 ? GEMM_ALL : 0;
    if (bytes != 0) {
        GEMM_AWAIT(kb);
    }
    asm("" : "+s"(wave_put)); /* else its sums with 20 constants are kept in scalar registers across the loop */
#pragma unroll
    for (int i = 0; i < GEMM_FRAGMENTS; i++) {
        if (i < GEMM_EDGE) {
            ring[i + GEMM_AHEAD] = GEMM_STEP_A(i + GEMM_AHEAD, 0);
        } else {
            if (i == GEMM_EDGE) {
                GEMM_WAIT_VM(GEMM_LOADS); /* the second half of this block has landed */
                GEMM_BARRIER(lds);
                ccl_sched_fence();
                for (int j = 0; j < 4; j++) {
                    b1[j] = GEMM_STEP_B(j, 1);
                }
            }
            ring[i - GEMM_EDGE] = GEMM_STEP_A(i - GEMM_EDGE, 1);
            GEMM_LOAD_SLOT(i - GEMM_EDGE, free0, free1);
        }
        GEMM_GROUP(i, b0);
    }
#pragma unroll
    for (int i = 0; i < GEMM_FRAGMENTS; i++) {
        if (i < GEMM_EDGE) {
            ring[i + GEMM_AHEAD] = GEMM_STEP_A(i + GEMM_AHEAD, 1);
            GEMM_LOAD_SLOT(i + GEMM_AHEAD, free0, free1);
        } else {
            if (i == GEMM_EDGE) {
                GEMM_WAIT_VM(GEMM_LOADS + 1); /* all but the last load of the next block, hence its first half, has landed */
                GEMM_BARRIER(lds);
                ccl_sched_fence();
                for (int j = 0; j < 4; j++) {
                    b0[j] = GEMM_STEP_B(j, 2);
                }
            }
            ring[i - GEMM_EDGE] = GEMM_STEP_A(i - GEMM_EDGE, 2);
        }
        GEMM_GROUP(i, b1);
    }
    a += a_step;
    b += b_step;
    kb++;
    left--;
#ifndef GEMM_AT
    at = GEMM_BEHIND(at, 2);
#endif
}
#undef GEMM_AT
#undef GEMM_STEP_A
#undef GEMM_STEP_B
