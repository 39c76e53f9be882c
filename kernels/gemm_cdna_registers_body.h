/* SPDX-License-Identifier: MIT
 *
 * K loop with prefetch into registers (gfx90a, gfx942): two stages, the halves of one K block. Part of gemm_core in gemm_cdna_body.h.
 *   half 0 computes from stage 0, writes half 1 of this block (p1) to stage 1 and starts loads of the next block
 *   half 1 computes from stage 1, writes half 0 of the next block (p0) to stage 0
 * 256 rows: both halves of the next block are loaded together, whole lines of 128 bytes. 128 rows: there is less time between two barriers, so
 * each half is loaded as soon as its registers are free, p0 a block further ahead. */
#define GEMM_APART (GEMM_ROWS == 128)
#define GEMM_LOADS (GEMM_A_LOADS + 2)

/* The x-th part of the loads of the next block. halves: bit 0 into p0, bit 1 into p1. */
#define GEMM_LOAD_PAIRS(p, h, x, addr, off, first, pitch)                             \
    for (int j_ = 4 * (x); j_ < 4 * (x) + 4; j_++) {                                  \
        (p)[j_] = GEMM_LOAD_PAIR(addr, bytes, off, first, h, j_, pitch);              \
    }
#if GEMM_KM
#define GEMM_LOAD_A(p, h, x) GEMM_LOAD_PAIRS((p).a, h, x, a, t.a_off[0], t.a_k, in.lda)
#else
#define GEMM_LOAD_A(p, h, x) (p).a[x] = GEMM_LOAD16(a, bytes, t.a_off[x] + (h) * 64, 0)
#endif
#if GEMM_KN
#define GEMM_LOAD_B(p, h, x) GEMM_LOAD_PAIRS((p).b, h, x, b, t.b_off[0], t.b_k, in.ldb)
#else
#define GEMM_LOAD_B(p, h, x) (p).b[x] = GEMM_LOAD16(b, bytes, t.b_off[x] + (h) * 64, 0)
#endif
#define GEMM_LOAD_HALF(p, h, x)                                               \
    if ((x) < GEMM_A_LOADS) {                                                 \
        GEMM_LOAD_A(p, h, x);                                                 \
    } else {                                                                  \
        GEMM_LOAD_B(p, h, (x) - GEMM_A_LOADS);                                \
    }
#define GEMM_LOAD(x, halves)                 \
    if ((halves) & 1) {                      \
        GEMM_LOAD_HALF(p0, 0u, x);           \
    }                                        \
    if ((halves) & 2) {                      \
        GEMM_LOAD_HALF(p1, 1u, x);           \
    }

/* Reads GEMM_AHEAD groups ahead; from the edge on from the next stage. */
#define GEMM_READ_AHEAD(i, stage, next, b_next)                          \
    if ((i) < GEMM_EDGE) {                                               \
        ring[(i) + GEMM_AHEAD] = GEMM_GET_A((i) + GEMM_AHEAD, stage);    \
    } else {                                                             \
        if ((i) == GEMM_EDGE) {                                          \
            GEMM_BARRIER(lds);                                           \
            ccl_sched_fence();                                           \
            for (int j_ = 0; j_ < 4; j_++) {                             \
                b_next[j_] = GEMM_GET_B(j_, next);                       \
            }                                                            \
        }                                                                \
        ring[(i) - GEMM_EDGE] = GEMM_GET_A((i) - GEMM_EDGE, next);       \
    }

    GEMM_F(gemm_put_a)(lds, &p0, &t, 0);
    GEMM_F(gemm_put_b)(lds, &p0, &t, 0);
    GEMM_BARRIER(lds);
    for (int j = 0; j < 4; j++) {
        b0[j] = GEMM_GET_B(j, 0);
    }
    for (int i = 0; i < GEMM_AHEAD; i++) {
        ring[i] = GEMM_GET_A(i, 0);
    }
    ccl_sched_fence();
#if GEMM_APART
    if (bytes != 0) {
        GEMM_AWAIT(kb);
    }
    for (int x = 0; x < GEMM_LOADS; x++) {
        GEMM_LOAD(x, 1);
    }
#endif
#pragma clang loop unroll(disable)
    for (uint32_t s = 0; s < blocks; s++) {
#pragma unroll
        for (int i = 0; i < GEMM_FRAGMENTS; i++) {
            GEMM_READ_AHEAD(i, 0, 1, b1);
            if (i == 0) {
                GEMM_F(gemm_put_a)(lds, &p1, &t, GEMM_STAGE);
                GEMM_F(gemm_put_b)(lds, &p1, &t, GEMM_STAGE);
            }
            if (i == 1 && bytes != 0 && !GEMM_APART) {
                GEMM_AWAIT(kb);
            }
            if (i >= 1 && i <= GEMM_LOADS) {
                GEMM_LOAD(i - 1, GEMM_APART ? 2 : 3);
            }
            GEMM_GROUP(i, b0);
        }
        a += a_step;
        b += b_step;
        kb++;
        bytes = s + 2 < blocks ? GEMM_ALL : 0;
#pragma unroll
        for (int i = 0; i < GEMM_FRAGMENTS; i++) {
            GEMM_READ_AHEAD(i, 1, 0, b0);
            if (i == (GEMM_EDGE >= 2 ? GEMM_EDGE - 2 : 0)) {
                GEMM_F(gemm_put_a)(lds, &p0, &t, 0);
            }
            if (i == (GEMM_EDGE >= 2 ? GEMM_EDGE - 1 : 0)) {
                GEMM_F(gemm_put_b)(lds, &p0, &t, 0);
            }
#if GEMM_APART
            if (i == GEMM_EDGE && bytes != 0) {
                GEMM_AWAIT(kb);
            }
            for (int x = 0; x < GEMM_LOADS; x++) {
                if (x * GEMM_AHEAD / GEMM_LOADS == i - GEMM_EDGE) {
                    GEMM_LOAD(x, 1);
                }
            }
#endif
            GEMM_GROUP(i, b1);
        }
    }

#undef GEMM_APART
#undef GEMM_LOADS
#undef GEMM_LOAD_PAIRS
#undef GEMM_LOAD_A
#undef GEMM_LOAD_B
#undef GEMM_LOAD_HALF
#undef GEMM_LOAD
#undef GEMM_READ_AHEAD
