/* SPDX-License-Identifier: MIT
 *
 * The epilogue: bias, round to nearest even, stores of 16 bytes. Part of gemm_cdna_body.h. Lane l, fragments (i, 2 q) and (i, 2 q + 1): row 16 i + l % 16,
 * columns 32 q + 8 (l / 16) to + 7; with a [k][n] operand on gfx950 the two fragments change places in odd groups of 16 lanes. A as [k][m] through
 * registers: rows as gemm_column_of says. Where the columns end within a
 * chunk of 8, its lanes store 8, 4 and 2 bytes. Nothing branches: lanes with nothing to store name a place outside the buffer. */
#if GEMM_BF16
#define GEMM_ELEMENT __bf16
#else
#define GEMM_ELEMENT _Float16
#endif

/* CCL_TEST_BASES_INSIDE, which the gates must refuse: each place is looked up in memory ahead of each store. */
#if defined(CCL_TEST_BASES_INSIDE)
#define GEMM_PLACE(d) ccl_uniform_u64(*(const volatile uint64_t *)&tile->others[d])
#elif defined(GEMM_LATE_PLACES)
#define GEMM_PLACE(d)                                                                   \
    ((uint64_t)(uint32_t)__builtin_amdgcn_readlane((int)(places >> 32), (int)(d)) << 32 | \
     (uint32_t)__builtin_amdgcn_readlane((int)places, (int)(d)))
#else
#define GEMM_PLACE(d) tile->others[d]
#endif

#define GEMM_PUT(addr, bits, x, offset) __builtin_amdgcn_raw_buffer_store_b##bits(x, GEMM_BUFFER(addr, GEMM_ALL), offset, 0, 0)
/* put(address, there), to C and to the tile's other places, whose addresses are in scalar registers. */
#define GEMM_PUT_ALL(put, there)                                     \
    do {                                                             \
        put(tile->c, there);                                         \
        _Pragma("unroll") for (uint32_t d = 0; d < GEMM_PLACES; d++) \
        {                                                            \
            if (d < tile->more) {                                    \
                const uint64_t place_ = GEMM_PLACE(d);               \
                put(place_, there);                                  \
            }                                                        \
        }                                                            \
    } while (0)
#define GEMM_PUT_CHUNK(addr, there) GEMM_PUT(addr, 128, w, there)
#define GEMM_PUT_PIECES(addr, there)         \
    do {                                     \
        GEMM_PUT(addr, 128, w, there[3]);    \
        GEMM_PUT(addr, 64, first, there[2]); \
        GEMM_PUT(addr, 32, pair, there[1]);  \
        GEMM_PUT(addr, 16, last, there[0]);  \
    } while (0)

/* Lanes behind the end, which store nothing, take the last one: nothing branches. */
CCL_DEVICE float GEMM_F(gemm_bias)(uint64_t bias, uint32_t index, uint32_t count)
{
    return (float)((CCL_AS1 const GEMM_ELEMENT *)bias)[index < count ? index : count - 1];
}

/* Row of a thread's elements in fragment i of its wave, first of 8 columns in pair q of fragments. */
CCL_DEVICE uint32_t GEMM_F(gemm_row)(uint32_t thread, int i)
{
    const uint32_t p = (thread & 15) + 16 * (uint32_t)i;
    return (thread >> 8) * (GEMM_ROWS / 2) + (GEMM_KM_PAIRS ? gemm_column_of(p) : p);
}
CCL_DEVICE uint32_t GEMM_F(gemm_column)(uint32_t thread, int q) { return (thread >> 6 & 3) * 64 + (thread >> 4 & 3) * 8 + 32 * (uint32_t)q; }

/* All of the bias that a thread needs, ahead of the first store: loads and stores retire in order, so a wait for a load behind stores would be one for these. */
CCL_DEVICE void GEMM_F(gemm_biases)(CCL_GEMM_ARGS g, const struct ccl_k_gemm_tile *tile, float by_column[2][8], float by_row[GEMM_FRAGMENTS])
{
    const uint32_t thread = ccl_afresh(ccl_tid());
    uint32_t row = (uint32_t)tile->row, rows = tile->rows, col = tile->col, cols = tile->cols;
    CCL_AFRESH(g); /* addresses are worked out here: kept across the K loop they would spill */
    CCL_AFRESH(row);
    CCL_AFRESH(rows);
    CCL_AFRESH(col);
    CCL_AFRESH(cols);

    for (int i = 0; i < GEMM_FRAGMENTS; i++) {
        by_row[i] = 0;
    }
    if (g->bias_kind == CCL_GEMM_BIAS_BY_ROW) {
#pragma unroll
        for (int i = 0; i < GEMM_FRAGMENTS; i++) {
            by_row[i] = GEMM_F(gemm_bias)(g->bias + row * 2ull, GEMM_F(gemm_row)(thread, i), rows);
        }
    }
    for (uint32_t r = 0; r < 16; r++) {
        by_column[r / 8][r % 8] = 0;
    }
    if (g->bias_kind == CCL_GEMM_BIAS_BY_COLUMN) {
#pragma unroll
        for (uint32_t r = 0; r < 16; r++) {
            by_column[r / 8][r % 8] = GEMM_F(gemm_bias)(g->bias + col * 2ull, GEMM_F(gemm_column)(thread, (int)(r / 8)) + r % 8, cols);
        }
    }
    ccl_wait_loads();
}

CCL_DEVICE void GEMM_F(gemm_store)(CCL_GEMM_ARGS g, const struct ccl_k_gemm_tile *tile, gemm_f32x4 acc[GEMM_FRAGMENTS][4],
                                  uint64_t lanes_places)
{
    typedef GEMM_ELEMENT vector __attribute__((ext_vector_type(8)));
    const bool whole = tile->cols >= GEMM_COLUMNS || tile->cols % 8 == 0; /* each chunk of 8 columns is inside or outside */
    float by_column[2][8], by_row[GEMM_FRAGMENTS];

    GEMM_F(gemm_biases)(g, tile, by_column, by_row);
#pragma unroll
    for (int q = 0; q < 2; q++) {
#pragma unroll
        for (int i = 0; i < GEMM_FRAGMENTS; i++) {
            /* Computed afresh for each fragment: addresses and masks of lanes kept across the K loop, or for all of them, would spill. */
            const uint32_t thread = ccl_afresh(ccl_tid());
            const uint32_t row = GEMM_F(gemm_row)(thread, i), column = GEMM_F(gemm_column)(thread, q);
            const bool swapped = GEMM_KN_DIRECT && (thread >> 4 & 1) != 0, there = row < tile->rows && column < tile->cols;
            const uint32_t offset = (row * (uint32_t)g->ldc + column) * 2;
            uint64_t places = lanes_places;
            if (tile->more != 0) {
                asm volatile("" : "+v"(places)); /* read from lanes for each fragment: not kept in scalar registers */
            }
            vector v;

            for (int r = 0; r < 8; r++) {
                float x = acc[i][2 * q + r / 4][r % 4], y = acc[i][2 * q + 1 - r / 4][r % 4];
                v[r] = (GEMM_ELEMENT)((swapped ? y : x) + by_column[q][r] + by_row[i]);
            }
            const gemm_u32x4 w = __builtin_bit_cast(gemm_u32x4, v);
            if (whole) {
                const uint32_t at = there ? offset : GEMM_NOWHERE;
                GEMM_PUT_ALL(GEMM_PUT_CHUNK, at);
            } else {
                const uint32_t left = there ? tile->cols - column : 0, part = left < 8 ? left : 0;
                const gemm_u32x2 first = GEMM_LOW(w);
                const uint32_t pair = part & 4 ? w[2] : w[0];
                const short last = (short)(part & 2 ? (part & 4 ? w[3] : w[1]) : pair);
                const uint32_t at[4] = {part & 1 ? offset + (part & 6) * 2 : GEMM_NOWHERE, part & 2 ? offset + (part & 4) * 2 : GEMM_NOWHERE,
                                        part & 4 ? offset : GEMM_NOWHERE, left >= 8 ? offset : GEMM_NOWHERE};
                GEMM_PUT_ALL(GEMM_PUT_PIECES, at);
            }
        }
    }
}

#undef GEMM_ELEMENT
#undef GEMM_PUT
#undef GEMM_PUT_ALL
#undef GEMM_PUT_CHUNK
#undef GEMM_PUT_PIECES
#undef GEMM_PLACE
