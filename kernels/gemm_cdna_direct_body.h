/* SPDX-License-Identifier: MIT
 *
 * K loop with loads from memory straight into LDS (gfx950): 5 stages. Part of gemm_core in gemm_cdna_body.h.
 * Half step h (block h / 2, half h % 2) computes from stage h % 5. The barrier in half step 2 s frees the second of the two stages that block s + 2
 * needs, so its loads start there, one and a half blocks before their data are read, and both halves of a line of 128 bytes are
 * loaded together. The loop is one block: addresses in LDS are worked out a half step before they are used, scalar ones where matrix instructions hide it. */
#define GEMM_LOADS (2 * GEMM_A_LOADS + 4) /* of a thread and block */
#define GEMM_SLOTS (GEMM_FRAGMENTS == 8 ? 6 : GEMM_FRAGMENTS) /* groups that issue them */

#define GEMM_TO_LDS(addr, off, soff, at) \
    __builtin_amdgcn_raw_ptr_buffer_load_lds(GEMM_BUFFER(addr, bytes), (GEMM_LDS void *)(lds + (at)), 16, off, soff, 0, 0)
#if GEMM_KM
#define GEMM_LOAD_A(x, at) GEMM_TO_LDS(a, a_rows[x], 0, at)
#else
#define GEMM_LOAD_A(x, at) GEMM_TO_LDS(a, t.a_off[(x) / 2], (x) % 2 * 64, at)
#endif
#if GEMM_KN
#define GEMM_LOAD_B(x, at) GEMM_TO_LDS(b, b_rows[x], 0, at)
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

/* The x-th address that fragments of half h, of the stage at LDS byte `from`, are read from. */
#define GEMM_B_BASES (GEMM_KN ? 4 : 2)
#define GEMM_BASES (2 + GEMM_B_BASES)
#define GEMM_BASE(x, h, from)                      \
    if ((x) < 2) {                                 \
        a_at[h][x] = t.a_get[x] + (from);          \
        asm("" : "+v"(a_at[h][x]));                \
    } else {                                       \
        b_at[(x) - 2] = t.b_get[(x) - 2] + (from); \
        asm("" : "+v"(b_at[(x) - 2]));             \
    }
#define GEMM_BASE_SLOT(slot, h, from)                \
    for (int x_ = 0; x_ < GEMM_BASES; x_++) {        \
        if (x_ * GEMM_EDGE / GEMM_BASES == (slot)) { \
            GEMM_BASE(x_, h, from);                  \
        }                                            \
    }
/* B of the next half. Transposing reads are twice as many: in two groups, where there is time for the later ones. */
#define GEMM_GET_B_SLOT(to, slot)                                              \
    for (int j_ = 0; j_ < 4; j_++) {                                           \
        if (j_ / ((GEMM_KN || GEMM_KM) && GEMM_AHEAD > 2 ? 2 : 4) == (slot)) { \
            (to)[j_] = GEMM_GET_B_AT(b_at, j_, 0);                             \
        }                                                                      \
    }

    uint32_t wave_put = ccl_uniform(ccl_tid() >> 6) * 1024;
#if GEMM_KM /* in vector registers, of which there are more */
    const uint32_t a_rows[4] = {t.a_off[0], t.a_off[0] + 32 * in.lda * 2, t.a_off[0] + 16 * in.lda * 2, t.a_off[0] + 48 * in.lda * 2};
#endif
#if GEMM_KN
    const uint32_t b_rows[4] = {t.b_off[0], t.b_off[0] + 32 * in.ldb * 2, t.b_off[0] + 16 * in.ldb * 2, t.b_off[0] + 48 * in.ldb * 2};
#endif
    int left = (int)blocks;
    uint32_t at = 0, behind = GEMM_STAGE, free0 = 4 * GEMM_STAGE; /* stages of this block's halves; free0 and `at` are those of the block after the next */
    uint32_t a_at[2][2], b_at[GEMM_B_BASES];
    GEMM_F(gemm_put_a)(lds, &p0, &t, at);
    GEMM_F(gemm_put_b)(lds, &p0, &t, at);
    GEMM_F(gemm_put_a)(lds, &p1, &t, behind);
    GEMM_F(gemm_put_b)(lds, &p1, &t, behind);
    if (bytes != 0) {
        GEMM_AWAIT(kb);
    }
#pragma unroll
    for (int x = 0; x < GEMM_LOADS; x++) {
        GEMM_LOAD(x, 2 * GEMM_STAGE, 3 * GEMM_STAGE);
    }
    a += a_step;
    b += b_step;
    kb++;
    GEMM_BARRIER(lds);
#pragma unroll
    for (int x = 0; x < GEMM_BASES; x++) {
        GEMM_BASE(x, 0, at);
    }
    for (int j = 0; j < 4; j++) {
        b0[j] = GEMM_GET_B_AT(b_at, j, 0);
    }
    for (int i = 0; i < GEMM_AHEAD; i++) {
        ring[i] = GEMM_GET_A_AT(a_at[0], i, 0);
    }
    ccl_sched_fence();
#pragma clang loop unroll(disable)
    do {
        bytes = left > 2 ? GEMM_ALL : 0;
        if (bytes != 0) {
            GEMM_AWAIT(kb);
        }
        asm("" : "+s"(wave_put)); /* else its sums with 8 constants are kept in scalar registers across the loop */
#pragma unroll
        for (int i = 0; i < GEMM_FRAGMENTS; i++) {
            GEMM_BASE_SLOT(i, 1, behind);
            if (i < GEMM_EDGE) {
                ring[i + GEMM_AHEAD] = GEMM_GET_A_AT(a_at[0], i + GEMM_AHEAD, 0);
            } else {
                if (i == GEMM_EDGE) {
                    GEMM_WAIT_VM(GEMM_LOADS); /* the second half of this block has landed */
                    GEMM_BARRIER(lds);
                    ccl_sched_fence();
                }
                ring[i - GEMM_EDGE] = GEMM_GET_A_AT(a_at[1], i - GEMM_EDGE, 0);
                GEMM_GET_B_SLOT(b1, i - GEMM_EDGE);
                GEMM_LOAD_SLOT(i - GEMM_EDGE, free0, at);
            }
            GEMM_GROUP(i, b0);
        }
#pragma unroll
        for (int i = 0; i < GEMM_FRAGMENTS; i++) {
            if (i == 0) {
                behind = gemm_stage_behind(at, 2 * GEMM_STAGE, GEMM_STAGES * GEMM_STAGE);
            }
            GEMM_BASE_SLOT(i, 0, behind);
            if (i < GEMM_EDGE) {
                ring[i + GEMM_AHEAD] = GEMM_GET_A_AT(a_at[1], i + GEMM_AHEAD, 0);
                GEMM_LOAD_SLOT(i + GEMM_AHEAD, free0, at);
            } else {
                if (i == GEMM_EDGE) {
                    GEMM_WAIT_VM(GEMM_LOADS + 1); /* all but the last load of the next block, hence its first half, has landed */
                    GEMM_BARRIER(lds);
                    ccl_sched_fence();
                    a += a_step; /* the next block's: here, else it all stands behind the last matrix instruction */
                    b += b_step;
                    kb++;
                    left--;
                    asm("" : "+s"(a), "+s"(b), "+s"(left));
                }
                if (i == GEMM_EDGE + 1) {
                    at = behind;
                    behind = gemm_stage_behind(at, GEMM_STAGE, GEMM_STAGES * GEMM_STAGE);
                    free0 = gemm_stage_behind(at, 4 * GEMM_STAGE, GEMM_STAGES * GEMM_STAGE);
                    asm("" : "+s"(at), "+s"(behind), "+s"(free0));
                }
                ring[i - GEMM_EDGE] = GEMM_GET_A_AT(a_at[0], i - GEMM_EDGE, 0);
                GEMM_GET_B_SLOT(b0, i - GEMM_EDGE);
            }
            GEMM_GROUP(i, b1);
        }
    } while (left != 0);
    GEMM_WAIT_VM(0); /* loads of nothing write zeros to LDS: before it is used for anything else */

#undef GEMM_LOADS
#undef GEMM_SLOTS
#undef GEMM_TO_LDS
#undef GEMM_LOAD_A
#undef GEMM_LOAD_B
#undef GEMM_LOAD
#undef GEMM_LOAD_SLOT
#undef GEMM_B_BASES
#undef GEMM_BASES
#undef GEMM_BASE
#undef GEMM_BASE_SLOT
#undef GEMM_GET_B_SLOT
