/* SPDX-License-Identifier: MIT
 *
 * For the tests of the GEMM kernels: buffers, random normal numbers, the product in double precision and the bound of its difference. Included once by a test. */
#ifndef EMU_GEMM_NUMBERS_H
#define EMU_GEMM_NUMBERS_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "emu.h"
#include "float16.h"
#include "gemm.h"
#include "rng.h"
#include "test.h"

#define GUARD 0xabcdu /* in C where nothing is to be stored */

static struct allocation {
    uint16_t *words;
    size_t bytes;
} buffers[8];
enum { A, B, BIAS, C, SECOND, SOURCE, READY, STOP };

static bool find(uint64_t addr, uint64_t *base, uint64_t *bytes, bool *host)
{
    *host = false;
    for (size_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); i++) {
        uint64_t start = (uint64_t)(uintptr_t)buffers[i].words;

        if (addr >= start && addr < start + buffers[i].bytes) {
            *base = start;
            *bytes = buffers[i].bytes;
            return true;
        }
    }
    return false;
}

/* What the kernels may reach is exactly rows * pitch elements. */
static uint16_t *allocate(int which, size_t elements)
{
    free(buffers[which].words);
    buffers[which].bytes = elements * 2;
    buffers[which].words = aligned_alloc(4096, (elements * 2 + 4095) / 4096 * 4096);
    return buffers[which].words;
}

/* The same, all of one value. */
static void pattern(int which, size_t elements, uint32_t value)
{
    uint16_t *to = allocate(which, elements);

    for (size_t i = 0; i < elements; i++) {
        to[i] = (uint16_t)value;
    }
}

/* ---- numbers ---- */

struct type {
    const char *name;
    uint32_t number, nan;
    double unit, smallest; /* half a unit in the last place of 1, half the smallest number */
    float (*value)(uint32_t);
    uint32_t (*bits)(float);
};

static float f16_value(uint32_t h) { return emu_f16_to_f32(h); }
static uint32_t f16_bits(float f) { return emu_f32_to_f16(f); }
static float bf16_value(uint32_t h) { return emu_bf16_to_f32(h); }
static uint32_t bf16_bits(float f) { return emu_f32_to_bf16(f); }

static const struct type types[] = {
    {"f16", CCL_GEMM_F16, 0x7e00, 1.0 / 2048, 1.0 / (1 << 25), f16_value, f16_bits},
    {"bf16", CCL_GEMM_BF16, 0x7fc0, 1.0 / 256, 0x1p-134, bf16_value, bf16_bits},
};

static double normal(struct emu_rng *rng)
{
    double u = (double)((emu_rand64(rng) >> 11) + 1) * 0x1p-53, v = (double)(emu_rand64(rng) >> 11) * 0x1p-53;

    return sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v);
}

/* rows x columns numbers, NaN up to the pitch. */
static void fill(const struct type *type, struct emu_rng *rng, uint16_t *to, uint32_t rows, uint32_t columns, uint32_t pitch)
{
    for (uint32_t row = 0; row < rows; row++) {
        for (uint32_t column = 0; column < pitch; column++) {
            *to++ = (uint16_t)(column < columns ? type->bits((float)normal(rng)) : type->nan);
        }
    }
}

static double bias_of(const struct type *type, const struct ccl_k_gemm *g, uint32_t row, uint32_t column)
{
    return g->bias_kind == CCL_GEMM_NO_BIAS ? 0 : (double)type->value(buffers[BIAS].words[g->bias_kind == CCL_GEMM_BIAS_BY_ROW ? row : column]);
}

/* Rows of A and of B transposed to [k][n], as doubles. */
static double *doubles(const struct type *type, const uint16_t *from, uint32_t rows, uint32_t columns, size_t row_step, size_t column_step)
{
    double *to = malloc((size_t)rows * columns * sizeof(*to));

    for (uint32_t row = 0; to != NULL && row < rows; row++) {
        for (uint32_t column = 0; column < columns; column++) {
            to[(size_t)row * columns + column] = (double)type->value(from[row * row_step + column * column_step]);
        }
    }
    return to;
}

/* A row of the product with bias, and of the sums of magnitudes. */
static void reference_row(const double *a, const double *b, uint32_t n, uint32_t k, double *exact, double *magnitude)
{
    for (uint32_t i = 0; i < k; i++) {
        for (uint32_t column = 0; column < n; column++) {
            double product = a[i] * b[(size_t)i * n + column];

            exact[column] += product;
            magnitude[column] += fabs(product);
        }
    }
}

/* |got - exact| <= one rounding of the sum to the type + (k + 1) roundings of partial sums to 32 bits, each at most 2^-24 of the sum of magnitudes. */
static void check_row(const char *what, const struct type *type, const struct ccl_k_gemm *g, const uint16_t *c, uint32_t row, const double *exact,
                      const double *magnitude, double *worst)
{
    for (uint32_t column = 0; column < g->ldc; column++) {
        double bound, got, ratio;

        if (column >= g->n) {
            if (c[column] != GUARD) {
                TEST_FAIL("%s: row %u column %u is behind the row and was stored", what, row, column);
                return;
            }
            continue;
        }
        bound = magnitude[column] * 0x1p-24 * (g->k + 1);
        bound += (fabs(exact[column]) + bound) * type->unit + type->smallest;
        got = (double)type->value(c[column]);
        ratio = fabs(got - exact[column]) / bound;
        *worst = ratio > *worst ? ratio : *worst;
        if (!(ratio <= 1)) {
            TEST_FAIL("%s: row %u column %u: got %.9g, want %.9g within %.3g", what, row, column, got, exact[column], bound);
            return;
        }
    }
}

/* C in buffer `to` is the product of A in buffer `from` and B. */
static void check(const char *what, const struct type *type, const struct ccl_k_gemm *g, int from, int to, double *worst)
{
    bool inner = g->b_layout == CCL_GEMM_K_INNER;
    bool a_inner = g->a_layout == CCL_GEMM_K_INNER;
    double *a = doubles(type, buffers[from].words, g->m, g->k, a_inner ? g->lda : 1, a_inner ? 1 : g->lda);
    double *b = doubles(type, buffers[B].words, g->k, g->n, inner ? 1 : g->ldb, inner ? g->ldb : 1);
    double *exact = malloc(g->n * sizeof(*exact)), *magnitude = malloc(g->n * sizeof(*magnitude));
    int before = test_failures;

    TEST_CHECK(a != NULL && b != NULL && exact != NULL && magnitude != NULL);
    for (uint32_t row = 0; row < g->m && test_failures == before; row++) {
        for (uint32_t column = 0; column < g->n; column++) {
            exact[column] = bias_of(type, g, row, column);
            magnitude[column] = fabs(exact[column]);
        }
        reference_row(a + (size_t)row * g->k, b, g->n, g->k, exact, magnitude);
        check_row(what, type, g, buffers[to].words + row * g->ldc, row, exact, magnitude, worst);
    }
    free(a);
    free(b);
    free(exact);
    free(magnitude);
}

/* ---- programs ---- */

static void *load_file(const char *path, long *size)
{
    FILE *f = fopen(path, "rb");
    void *image = NULL;

    if (f != NULL) {
        fseek(f, 0, SEEK_END);
        *size = ftell(f);
        rewind(f);
        image = malloc((size_t)*size);
        if (image != NULL && fread(image, 1, (size_t)*size, f) != (size_t)*size) {
            free(image);
            image = NULL;
        }
        fclose(f);
    }
    return image;
}

static struct emu_program *load(const char *path, const char *arch)
{
    char why[EMU_TEXT];
    long size = 0;
    void *image = load_file(path, &size);
    struct emu_program *program = image == NULL ? NULL : emu_program_load(image, (size_t)size, arch, NULL, why);

    if (program == NULL) {
        TEST_FAIL("%s: %s", path, image == NULL ? "not there" : why);
    }
    free(image);
    return program;
}

#endif
