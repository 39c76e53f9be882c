/* SPDX-License-Identifier: MIT
 *
 * The epilogue: bias, round to nearest even, stores of 16 bytes. Part of gemm_cdna_body.h. Lane l, fragments (i, 2 q) and (i, 2 q + 1): row 16 i + l % 16,
 * columns 32 q + 8 (l / 16) to + 7; with a [k][n] operand on gfx950 the two fragments change places in odd groups of 16 lanes.
 *
 *   GEMM_STORE(hook, tile, offset, vector)   16 bytes to byte `offset` of the tile in C, GEMM_NOWHERE: outside the matrix, nothing
 *   GEMM_STORE_ONE(hook, tile, offset, element)   an element in columns that are no whole chunk; lanes outside do not get here
 * The default stores to tile->c. A hook that stores to peers has their bases before the K loop, in scalar registers: GEMM_BUFFER(base, GEMM_ALL). */
#if GEMM_BF16
#define GEMM_ELEMENT __bf16
#else
#define GEMM_ELEMENT _Float16
#endif
#ifndef GEMM_STORE
#define GEMM_STORE(hook, tile, offset, vector) \
    __builtin_amdgcn_raw_buffer_store_b128(vector, GEMM_BUFFER((tile)->c, GEMM_ALL), offset, 0, 0)
#define GEMM_STORE_ONE(hook, tile, offset, element) \
    __builtin_amdgcn_raw_buffer_store_b16(__builtin_bit_cast(short, element), GEMM_BUFFER((tile)->c, GEMM_ALL), offset, 0, 0)
#endif

CCL_DEVICE float GEMM_F(gemm_bias)(uint64_t bias, uint32_t index, uint32_t count)
{
    return index < count ? (float)((CCL_AS1 const GEMM_ELEMENT *)bias)[index] : 0.0f;
}

CCL_DEVICE void GEMM_F(gemm_store)(CCL_GEMM_ARGS g, const struct ccl_k_gemm_tile *tile, GEMM_HOOK hook,
                                    gemm_f32x4 acc[GEMM_FRAGMENTS][4])
{
    typedef GEMM_ELEMENT vector __attribute__((ext_vector_type(8)));
    const bool whole = tile->cols >= GEMM_COLUMNS || tile->cols % 8 == 0; /* each chunk of 8 columns is inside or outside */

    const uint32_t bias = g->bias_kind;

    (void)hook;
#pragma unroll
    for (int q = 0; q < 2; q++) {
        float by_column[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        if (bias == CCL_GEMM_BIAS_BY_COLUMN) {
            const uint32_t thread = ccl_afresh(ccl_tid()), column = (thread >> 6 & 3) * 64 + (thread >> 4 & 3) * 8 + 32 * (uint32_t)q;
            for (uint32_t r = 0; r < 8; r++) {
                by_column[r] = GEMM_F(gemm_bias)(g->bias + tile->col * (uint64_t)2, column + r, tile->cols);
            }
        }
#pragma unroll
        for (int i = 0; i < GEMM_FRAGMENTS; i++) {
            /* Computed afresh for each fragment: addresses and masks of lanes kept across the K loop, or for all of them, would spill. */
            const uint32_t thread = ccl_afresh(ccl_tid());
            const uint32_t row = (thread >> 8) * (GEMM_ROWS / 2) + (thread & 15) + 16 * (uint32_t)i;
            const uint32_t column = (thread >> 6 & 3) * 64 + (thread >> 4 & 3) * 8 + 32 * (uint32_t)q;
            const bool swapped = GEMM_KN_DIRECT && (thread >> 4 & 1) != 0;
            const float by_row = bias == CCL_GEMM_BIAS_BY_ROW ? GEMM_F(gemm_bias)(g->bias + tile->row * 2, row, tile->rows) : 0.0f;
            const uint32_t offset = (row * (uint32_t)g->ldc + column) * 2;
            vector v;

            for (int r = 0; r < 8; r++) {
                float x = acc[i][2 * q + r / 4][r % 4], y = acc[i][2 * q + 1 - r / 4][r % 4];
                v[r] = (GEMM_ELEMENT)((swapped ? y : x) + by_column[r] + by_row);
            }
            if (whole) {
                GEMM_STORE(hook, tile, row < tile->rows && column < tile->cols ? offset : GEMM_NOWHERE, __builtin_bit_cast(gemm_u32x4, v));
            } else {
                for (uint32_t r = 0; r < 8; r++) {
                    const GEMM_ELEMENT x = v[r]; /* clang 22 takes a bit cast of v[r] from the vector's start */
                    if (row < tile->rows && column + r < tile->cols) {
                        GEMM_STORE_ONE(hook, tile, offset + 2 * r, x);
                    }
                }
            }
        }
    }
}

#undef GEMM_ELEMENT
