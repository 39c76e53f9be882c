/* SPDX-License-Identifier: MIT
 *
 * One form of the host's GEMM core, included by host_gemm.c once a kind of processor with
 *   CORE(name)        the name of a function of this form
 *   TARGET            attribute of its functions
 *   LANES             floats of a vector
 *   MICRO_ROWS        rows of A that are kept in registers at a time, MICRO_VECTORS vectors of B each
 *   LOAD_F16(src)     LANES halves at src as a vector of floats, STORE_F16(dst, v) the way back, rounded to nearest even
 * A K_INNER stays row by row, K_OUTER column by column; either is read one element at a time and spread over a vector. B is cut into panels of
 * MICRO_ROWS x PANEL. */

#define PANEL (LANES * MICRO_VECTORS)

typedef float CORE(vec) __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef uint32_t CORE(ints) __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef uint16_t CORE(shorts) __attribute__((vector_size(LANES * 2), aligned(2), may_alias));

/* count elements to floats; what follows up to a whole vector becomes 0. */
TARGET static inline void CORE(widen)(float *dst, const uint16_t *src, size_t count, uint32_t type)
{
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        if (type == CCL_GEMM_F16) {
            *(CORE(vec) *)(dst + i) = LOAD_F16(src + i);
        } else {
            *(CORE(ints) *)(dst + i) = __builtin_convertvector(*(const CORE(shorts) *)(src + i), CORE(ints)) << 16;
        }
    }
    if (i < count) {
        uint16_t rest[LANES] = {0};
        memcpy(rest, src + i, (count - i) * sizeof(*rest));
        if (type == CCL_GEMM_F16) {
            *(CORE(vec) *)(dst + i) = LOAD_F16(rest);
        } else {
            *(CORE(ints) *)(dst + i) = __builtin_convertvector(*(const CORE(shorts) *)rest, CORE(ints)) << 16;
        }
    }
}

/* depth x cols of B, starting at b, to panels [cols / PANEL][depth][PANEL]. */
TARGET static void CORE(pack_b)(const struct ccl_k_gemm *g, float *dst, const uint16_t *b, size_t depth, size_t cols)
{
    if (g->b_layout == CCL_GEMM_K_OUTER) {
        for (size_t k = 0; k < depth; k++) {
            for (size_t c = 0; c < cols; c += PANEL) {
                float *to = dst + c * depth + k * PANEL;
                size_t count = cols - c < PANEL ? cols - c : PANEL;
                CORE(widen)(to, b + k * g->ldb + c, count, g->type);
                for (size_t i = (count + LANES - 1) / LANES * LANES; i < PANEL; i++) {
                    to[i] = 0;
                }
            }
        }
        return;
    }
    for (size_t c = 0; c < cols; c += PANEL) {
        float *panel = dst + c * depth, lines[PANEL][LANES];
        size_t count = cols - c < PANEL ? cols - c : PANEL;
        memset(lines, 0, sizeof(lines));
        for (size_t k = 0; k < depth; k += LANES) {
            size_t some = depth - k < LANES ? depth - k : LANES;
            for (size_t i = 0; i < count; i++) {
                CORE(widen)(lines[i], b + (c + i) * g->ldb + k, some, g->type);
            }
            for (size_t j = 0; j < some; j++) {
                for (size_t i = 0; i < PANEL; i++) {
                    panel[(k + j) * PANEL + i] = lines[i][j];
                }
            }
        }
    }
}

/* rows x depth of A as floats: *row and *step are the distances from one row, and from one K to the next. */
TARGET static void CORE(pack_a)(const struct ccl_k_gemm *g, float *dst, const uint16_t *a, uint64_t lda, size_t rows, size_t depth, size_t *row,
                                size_t *step)
{
    size_t padded = (rows + MICRO_ROWS - 1) / MICRO_ROWS * MICRO_ROWS;
    if (g->a_layout == CCL_GEMM_K_INNER) {
        *row = CCL_GEMM_HOST_DEPTH;
        *step = 1;
        for (size_t m = 0; m < rows; m++) {
            CORE(widen)(dst + m * *row, a + m * lda, depth, g->type);
        }
        for (size_t m = rows; m < padded; m++) {
            memset(dst + m * *row, 0, depth * sizeof(float));
        }
        return;
    }
    *row = 1;
    *step = CCL_GEMM_HOST_ROUND(rows);
    for (size_t k = 0; k < depth; k++) {
        CORE(widen)(dst + k * *step, a + k * lda, rows, g->type);
        for (size_t m = (rows + LANES - 1) / LANES * LANES; m < padded; m++) {
            dst[k * *step + m] = 0;
        }
    }
}

/* sums[MICRO_ROWS][PANEL], rows `pitch` apart, += a x panel. */
TARGET static void CORE(micro)(float *sums, size_t pitch, const float *a, size_t row, size_t step, const float *panel, size_t depth)
{
    CORE(vec) acc[MICRO_ROWS][MICRO_VECTORS];
#pragma GCC unroll 16
    for (int i = 0; i < MICRO_ROWS; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < MICRO_VECTORS; j++) {
            acc[i][j] = *(const CORE(vec) *)(sums + i * pitch + j * LANES);
        }
    }
    for (size_t k = 0; k < depth; k++) {
        CORE(vec) b[MICRO_VECTORS];
#pragma GCC unroll 4
        for (int j = 0; j < MICRO_VECTORS; j++) {
            b[j] = *(const CORE(vec) *)(panel + k * PANEL + j * LANES);
        }
#pragma GCC unroll 16
        for (int i = 0; i < MICRO_ROWS; i++) {
#pragma GCC unroll 4
            for (int j = 0; j < MICRO_VECTORS; j++) {
                acc[i][j] += a[i * row + k * step] * b[j];
            }
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < MICRO_ROWS; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < MICRO_VECTORS; j++) {
            *(CORE(vec) *)(sums + i * pitch + j * LANES) = acc[i][j];
        }
    }
}

/* One row of sums to C: bias, rounding. line, bias: room for whole vectors. */
TARGET static void CORE(narrow)(uint16_t *line, const float *sums, const float *bias, float by_row, size_t cols, uint32_t type)
{
    for (size_t i = 0; i < cols; i += LANES) {
        CORE(vec) v = *(const CORE(vec) *)(sums + i) + *(const CORE(vec) *)(bias + i) + by_row;
        if (type == CCL_GEMM_F16) {
            STORE_F16(line + i, v);
        } else {
            CORE(ints) x;
            memcpy(&x, &v, sizeof(x));
            CORE(ints) up = (x + 0x7fffu + (x >> 16 & 1u)) >> 16, nan = x >> 16 | 0x40u;
            CORE(ints) is_nan = (CORE(ints))((x & 0x7fffffffu) > 0x7f800000u);
            *(CORE(shorts) *)(line + i) = __builtin_convertvector((up & ~is_nan) | (nan & is_nan), CORE(shorts));
        }
    }
}

TARGET static void CORE(store)(const struct ccl_k_gemm *g, const struct ccl_k_gemm_tile *t, const float *sums, size_t pitch)
{
    uint16_t line[CCL_GEMM_HOST_ROUND(CCL_GEMM_HOST_TILE_MAX)];
    float bias[CCL_GEMM_HOST_ROUND(CCL_GEMM_HOST_TILE_MAX)], row_bias[LANES] = {0};
    const uint16_t *given = (const uint16_t *)g->bias;
    memset(bias, 0, CCL_GEMM_HOST_ROUND(t->cols) * sizeof(*bias));
    if (g->bias_kind == CCL_GEMM_BIAS_BY_COLUMN) {
        CORE(widen)(bias, given + t->col, t->cols, g->type);
    }
    for (size_t m = 0; m < t->rows; m++) {
        if (g->bias_kind == CCL_GEMM_BIAS_BY_ROW) {
            CORE(widen)(row_bias, given + t->row + m, 1, g->type);
        }
        CORE(narrow)(line, sums + m * pitch, bias, row_bias[0], t->cols, g->type);
        memcpy((uint16_t *)t->c + m * g->ldc, line, t->cols * sizeof(*line));
        for (uint32_t i = 0; i < t->more; i++) {
            memcpy((uint16_t *)t->others[i] + m * g->ldc, line, t->cols * sizeof(*line));
        }
    }
}

TARGET static void CORE(segment)(const struct ccl_k_gemm *g, const struct ccl_k_gemm_tile *t, void *scratch)
{
    const size_t pitch = CCL_GEMM_HOST_ROUND(t->cols), rows = CCL_GEMM_HOST_ROUND(t->rows);
    float *sums = scratch, *a = sums + pitch * rows, *b = a + rows * CCL_GEMM_HOST_DEPTH;
    if (t->part & CCL_GEMM_FIRST) {
        memset(sums, 0, pitch * rows * sizeof(*sums));
    }
    for (size_t k = t->k0; k < t->k1; k += CCL_GEMM_HOST_DEPTH) {
        size_t depth = t->k1 - k < CCL_GEMM_HOST_DEPTH ? t->k1 - k : CCL_GEMM_HOST_DEPTH, row, step;
        const bool inner_b = g->b_layout == CCL_GEMM_K_INNER, inner_a = g->a_layout == CCL_GEMM_K_INNER;
        const uint16_t *from_b = (const uint16_t *)g->b + (inner_b ? t->col * g->ldb + k : k * g->ldb + t->col);
        const uint16_t *from_a = (const uint16_t *)t->a + (inner_a ? k - t->k0 : (k - t->k0) * t->lda);
        CORE(pack_b)(g, b, from_b, depth, t->cols);
        CORE(pack_a)(g, a, from_a, t->lda, t->rows, depth, &row, &step);
        for (size_t n = 0; n < t->cols; n += PANEL) {
            for (size_t m = 0; m < t->rows; m += MICRO_ROWS) {
                CORE(micro)(sums + m * pitch + n, pitch, a + m * row, row, step, b + n * depth, depth);
            }
        }
    }
    if (t->part & CCL_GEMM_LAST) {
        CORE(store)(g, t, sums, pitch);
    }
}

#undef PANEL
#undef CORE
#undef TARGET
#undef LANES
#undef MICRO_ROWS
#undef MICRO_VECTORS
#undef LOAD_F16
#undef STORE_F16
