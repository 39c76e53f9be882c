/* SPDX-License-Identifier: MIT
 *
 * See product.h. */
#include "product.h"

#include <math.h>
#include <string.h>

enum { WHICH_A = 1, WHICH_B, WHICH_BIAS };
#define NOT_A_NUMBER 0x7fff /* in both types */

double tp_worst;

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

double tp_value(cclDataType_t type, uint16_t bits)
{
    const int fraction = type == cclFloat16 ? 10 : 7, bias = type == cclFloat16 ? 15 : 127, most = 2 * bias + 1;
    int exponent = bits >> fraction & most, low = bits & ((1 << fraction) - 1);
    double sign = bits >> 15 ? -1.0 : 1.0;
    if (exponent == most) {
        return low != 0 ? (double)NAN : sign * (double)INFINITY;
    }
    return sign * (exponent == 0 ? ldexp(low, 1 - bias - fraction) : ldexp((1 << fraction) + low, exponent - bias - fraction));
}

/* Sum of four uniform numbers, of variance 1, cut to the type. */
static uint16_t element(cclDataType_t type, uint64_t seed, int rank, int which, uint64_t index)
{
    uint64_t h = mix(mix(seed * 64 + (uint64_t)rank) + (uint64_t)which * 0x100000001b3u + mix(index));
    double x = 0;
    for (int i = 0; i < 4; i++) {
        x += (double)(h >> 16 * i & 0xffff) / 65536.0 - 0.5;
    }
    x *= 1.7320508;
    int exponent;
    const int fraction = type == cclFloat16 ? 10 : 7, bias = type == cclFloat16 ? 15 : 127;
    double m = frexp(fabs(x), &exponent); /* 0.5 .. 1 */
    if (x == 0 || exponent - 1 < 1 - bias) {
        return 0;
    }
    return (uint16_t)((x < 0 ? 0x8000 : 0) | (exponent - 1 + bias) << fraction | ((int)(m * (2 << fraction)) & ((1 << fraction) - 1)));
}

static size_t a_rows(const struct tp_case *t) { return t->desc.gather == cclGatherColumns ? t->desc.m : t->desc.shard; }
static size_t a_cols(const struct tp_case *t) { return t->desc.gather == cclGatherColumns ? t->desc.shard : t->desc.k; }
static size_t b_rows(const struct tp_case *t) { return t->desc.b_transposed ? t->desc.n : t->desc.k; }
static size_t b_cols(const struct tp_case *t) { return t->desc.b_transposed ? t->desc.k : t->desc.n; }
static int b_owner(const struct tp_case *t, int rank) { return t->b_differs ? rank : 0; }

size_t tp_a_elements(const struct tp_case *t) { return a_rows(t) * t->desc.lda; }
size_t tp_b_elements(const struct tp_case *t) { return b_rows(t) * t->desc.ldb; }
size_t tp_c_elements(const struct tp_case *t) { return t->desc.m * t->desc.ldc; }
size_t tp_bias_elements(const struct tp_case *t)
{
    const size_t rows = t->desc.gather == cclGatherOutput ? t->desc.shard : t->desc.m;
    return t->desc.bias == cclBiasNone ? 0 : t->desc.bias == cclBiasByRow ? rows : t->desc.n;
}

static void fill(const struct tp_case *t, int owner, int which, size_t rows, size_t cols, size_t ld, uint16_t *to)
{
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < ld; c++) {
            to[r * ld + c] = c < cols ? element(t->desc.type, t->seed, owner, which, r * cols + c) : NOT_A_NUMBER;
        }
    }
}

void tp_fill_a(const struct tp_case *t, int rank, uint16_t *a) { fill(t, rank, WHICH_A, a_rows(t), a_cols(t), t->desc.lda, a); }
void tp_fill_b(const struct tp_case *t, int rank, uint16_t *b) { fill(t, b_owner(t, rank), WHICH_B, b_rows(t), b_cols(t), t->desc.ldb, b); }
void tp_fill_bias(const struct tp_case *t, int rank, uint16_t *bias)
{
    if (t->desc.bias != cclBiasNone) {
        fill(t, b_owner(t, rank), WHICH_BIAS, 1, tp_bias_elements(t), tp_bias_elements(t), bias);
    }
}

/* A as [m][k] of doubles, B as [k][n]. */
struct whole {
    double *a, *b, *bias;
};

static void read_all(const struct tp_case *t, int ranks, int b_rank, struct whole *w)
{
    const cclMatmulDesc_t *d = &t->desc;
    uint16_t *some = malloc(2 * (tp_a_elements(t) + tp_b_elements(t) + tp_bias_elements(t) + 1));
    w->a = malloc(d->m * d->k * sizeof(double));
    w->b = malloc(d->k * d->n * sizeof(double));
    w->bias = malloc((tp_bias_elements(t) + 1) * sizeof(double));
    for (int r = 0; r < ranks; r++) {
        const size_t row0 = d->gather == cclGatherColumns ? 0 : (size_t)r * d->shard, col0 = d->gather == cclGatherColumns ? (size_t)r * d->shard : 0;
        tp_fill_a(t, r, some);
        for (size_t i = 0; i < a_rows(t); i++) {
            for (size_t j = 0; j < a_cols(t); j++) {
                w->a[(row0 + i) * d->k + col0 + j] = tp_value(d->type, some[i * d->lda + j]);
            }
        }
    }
    tp_fill_b(t, b_rank, some);
    for (size_t i = 0; i < d->k; i++) {
        for (size_t j = 0; j < d->n; j++) {
            w->b[i * d->n + j] = tp_value(d->type, d->b_transposed ? some[j * d->ldb + i] : some[i * d->ldb + j]);
        }
    }
    tp_fill_bias(t, b_rank, some);
    for (size_t i = 0; i < tp_bias_elements(t); i++) {
        w->bias[i] = tp_value(d->type, some[i]);
    }
    free(some);
}

static bool verify_row(const struct tp_case *t, const struct whole *w, size_t row, size_t bias_row, const uint16_t *c, double *sums, double *sizes,
                       const char *what)
{
    const cclMatmulDesc_t *d = &t->desc;
    const double ulp = d->type == cclFloat16 ? 0x1p-11 : 0x1p-8, least = d->type == cclFloat16 ? 0x1p-25 : 0x1p-134;
    memset(sums, 0, d->n * sizeof(double));
    memset(sizes, 0, d->n * sizeof(double));
    for (size_t k = 0; k < d->k; k++) {
        const double a = w->a[row * d->k + k];
        for (size_t j = 0; j < d->n; j++) {
            sums[j] += a * w->b[k * d->n + j];
            sizes[j] += fabs(a * w->b[k * d->n + j]);
        }
    }
    for (size_t j = 0; j < d->n; j++) {
        const double bias = d->bias == cclBiasByColumn ? w->bias[j] : d->bias == cclBiasByRow ? w->bias[bias_row] : 0.0;
        const double want = sums[j] + bias, got = tp_value(d->type, c[row * d->ldc + j]);
        const double bound = 1.001 * ulp * fabs(want) + 0x1p-24 * (double)(d->k + 2) * (sizes[j] + fabs(bias)) + least;
        const double error = fabs(got - want);
        if (!(error <= bound)) {
            tm_fail(__FILE__, __LINE__, "%s: c[%zu][%zu] is %.9g (%#06x), want %.9g, error %.3g, bound %.3g", what, row, j, got, c[row * d->ldc + j], want,
                    error, bound);
            return false;
        }
        tp_worst = error / bound > tp_worst ? error / bound : tp_worst;
    }
    return true;
}

bool tp_verify(const struct tp_case *t, int ranks, int rank, const uint16_t *c, const char *what)
{
    const cclMatmulDesc_t *d = &t->desc;
    struct whole w = {NULL, NULL, NULL};
    double *sums = malloc(2 * d->n * sizeof(double));
    bool good = true;
    int read = -1;
    for (size_t row = 0; row < d->m && good; row++) {
        /* cclMatmulAllGather: rows come from the rank that multiplied them, with its B and bias. */
        const int from = d->gather == cclGatherOutput ? (int)(row / d->shard) : rank;
        if (from != read) {
            free(w.a), free(w.b), free(w.bias);
            read_all(t, ranks, from, &w);
            read = from;
        }
        good = verify_row(t, &w, row, d->gather == cclGatherOutput ? row % d->shard : row, c, sums, sums + d->n, what) &&
               tm_check_bytes(c + row * d->ldc + d->n, 2 * (d->ldc - d->n), TM_POISON, "elements of c behind the end of a row");
    }
    free(w.a), free(w.b), free(w.bias);
    free(sums);
    return good;
}
