/* SPDX-License-Identifier: MIT
 *
 * Proves, for every form of the host's GEMM core that this processor runs: all 65536 numbers of either type come through unchanged, rounding is to nearest even with overflow to
 * infinity, products of every layout, bias and tail are right within float32's rounding, cutting K or C changes no bit, and nothing behind the end of a row is used or written. */
/* CTEST: labels quick */
#include "host_gemm.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "test.h"

#define POISON 0xA5A5
#define NOT_A_NUMBER 0x7fff

static uint64_t state = 12345;
static void *scratch;

static uint32_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32);
}

static double value(uint32_t type, uint16_t bits)
{
    const int fraction = type == CCL_GEMM_F16 ? 10 : 7, bias = type == CCL_GEMM_F16 ? 15 : 127, most = 2 * bias + 1;
    int exponent = bits >> fraction & most, low = bits & ((1 << fraction) - 1);
    double sign = bits >> 15 ? -1.0 : 1.0;
    if (exponent == most) {
        return low != 0 ? (double)NAN : sign * (double)INFINITY;
    }
    return sign * (exponent == 0 ? ldexp(low, 1 - bias - fraction) : ldexp((1 << fraction) + low, exponent - bias - fraction));
}

/* The nearest number of the type, ties to the even one: found among neighbours, not computed. */
static uint16_t nearest(uint32_t type, double x)
{
    const uint16_t infinity = type == CCL_GEMM_F16 ? 0x7c00 : 0x7f80;
    uint16_t low = 0, high = infinity, sign = signbit(x) ? 0x8000 : 0;
    x = fabs(x);
    while (high - low > 1) {
        uint16_t mid = (uint16_t)((low + high) / 2);
        if (value(type, mid) <= x) {
            low = mid;
        } else {
            high = mid;
        }
    }
    /* Infinity counts as the next number would. */
    double below = value(type, low), above = high == infinity ? 2 * value(type, low) - value(type, (uint16_t)(low - 1)) : value(type, high);
    double to_low = x - below, to_high = above - x;
    return (uint16_t)(sign | (to_low < to_high || (to_low == to_high && low % 2 == 0) ? low : high));
}

/* [65536] x [1]: each number times one. */
static void all_numbers(ccl_host_gemm_fn fn, const char *name, uint32_t type)
{
    static uint16_t a[65536 * 8], c[65536 * 8], b[8];
    b[0] = type == CCL_GEMM_F16 ? 0x3c00 : 0x3f80;
    for (uint32_t i = 0; i < 65536; i++) {
        a[i * 8] = (uint16_t)i;
        a[i * 8 + 1] = NOT_A_NUMBER;
    }
    const struct ccl_k_gemm g = {.b = (uint64_t)b, .ldb = 8, .ldc = 8, .m = 65536, .n = 1, .k = 1, .type = type, .b_layout = CCL_GEMM_K_OUTER};
    for (uint32_t row = 0; row < 65536; row += 256) {
        const struct ccl_k_gemm_tile t = {.a = (uint64_t)(a + row * 8), .lda = 8, .c = (uint64_t)(c + row * 8), .row = row, .rows = 256, .cols = 1, .k1 = 1,
                                          .part = CCL_GEMM_FIRST | CCL_GEMM_LAST};
        fn(&g, &t, scratch);
    }
    for (uint32_t i = 0; i < 65536; i++) {
        double want = value(type, (uint16_t)i), got = value(type, c[i * 8]);
        if (isnan(want) ? !isnan(got) : got != want) { /* 0 x 1 + 0 has no sign */
            TEST_FAIL("%s type %u: %#06x becomes %#06x", name, type, i, c[i * 8]);
        }
    }
}

/* One product of two numbers is exact in float32, so the result is the rounded product. */
static void rounding(ccl_host_gemm_fn fn, const char *name, uint32_t type)
{
    uint16_t a[256], b[8], c[256 * 8];
    for (int turn = 0; turn < 40; turn++) {
        for (int i = 0; i < 256; i++) {
            a[i] = (uint16_t)draw();
        }
        b[0] = (uint16_t)draw();
        const struct ccl_k_gemm g = {.b = (uint64_t)b, .ldb = 8, .ldc = 8, .m = 256, .n = 1, .k = 1, .type = type, .a_layout = CCL_GEMM_K_OUTER,
                                     .b_layout = CCL_GEMM_K_INNER};
        const struct ccl_k_gemm_tile t = {.a = (uint64_t)a, .lda = 256, .c = (uint64_t)c, .rows = 256, .cols = 1, .k1 = 1, .part = CCL_GEMM_FIRST | CCL_GEMM_LAST};
        fn(&g, &t, scratch);
        for (int i = 0; i < 256; i++) {
            double exact = value(type, a[i]) * value(type, b[0]);
            float in_float = (float)exact; /* exact but for bfloat16's extremes */
            if (isnan(exact) || in_float == 0) {
                continue;
            }
            uint16_t want = isinf(in_float) ? (uint16_t)((exact < 0 ? 0x8000 : 0) | (type == CCL_GEMM_F16 ? 0x7c00 : 0x7f80)) : nearest(type, in_float);
            if (c[i * 8] != want && fabs(exact) > 0x1p-125) {
                TEST_FAIL("%s type %u: %.9g rounds to %#06x, want %#06x", name, type, exact, c[i * 8], want);
            }
        }
    }
}

struct product {
    struct ccl_k_gemm g;
    uint16_t *a, *b, *bias, *c;
    uint64_t lda;
};

static uint16_t *filled(size_t lines, size_t length, size_t pitch, uint32_t type)
{
    uint16_t *p = malloc(2 * lines * pitch);
    for (size_t i = 0; i < lines * pitch; i++) {
        uint32_t r = draw();
        uint16_t number = (uint16_t)((r & 0x8000) | (type == CCL_GEMM_F16 ? 0x3000 + (r & 0xfff) : 0x3e00 + (r & 0x1ff)));
        p[i] = i % pitch < length ? number : NOT_A_NUMBER;
    }
    return p;
}

static struct product make(uint32_t type)
{
    struct product p = {.g = {.m = 1 + draw() % 90, .n = 1 + draw() % 150, .k = 1 + draw() % 700, .type = type, .a_layout = draw() % 2,
                              .b_layout = draw() % 2, .bias_kind = draw() % 3}};
    struct ccl_k_gemm *g = &p.g;
    const bool ai = g->a_layout == CCL_GEMM_K_INNER, bi = g->b_layout == CCL_GEMM_K_INNER;
    p.lda = ((ai ? g->k : g->m) + 7 + draw() % 9) / 8 * 8;
    g->ldb = ((bi ? g->k : g->n) + 7 + draw() % 9) / 8 * 8;
    g->ldc = (g->n + 7 + draw() % 9) / 8 * 8;
    p.a = filled(ai ? g->m : g->k, ai ? g->k : g->m, p.lda, type);
    p.b = filled(bi ? g->n : g->k, bi ? g->k : g->n, g->ldb, type);
    p.bias = filled(1, g->m + g->n, g->m + g->n, type);
    p.c = malloc(2 * g->m * g->ldc);
    g->b = (uint64_t)p.b;
    g->bias = (uint64_t)p.bias;
    return p;
}

static void multiply(ccl_host_gemm_fn fn, const struct product *p, uint32_t tile_m, uint32_t tile_n, uint32_t cut, uint16_t *c, uint16_t *second)
{
    const struct ccl_k_gemm *g = &p->g;
    for (uint32_t m = 0; m < g->m; m += tile_m) {
        for (uint32_t n = 0; n < g->n; n += tile_n) {
            struct ccl_k_gemm_tile t = {.lda = p->lda, .c = (uint64_t)(c + m * g->ldc + n), .row = m, .rows = g->m - m < tile_m ? g->m - m : tile_m, .col = n,
                                        .cols = g->n - n < tile_n ? g->n - n : tile_n};
            uint64_t other = (uint64_t)(second + m * g->ldc + n);
            t.more = second != NULL;
            t.others = &other;
            for (t.k0 = 0; t.k0 < g->k; t.k0 = t.k1) {
                t.k1 = g->k - t.k0 < cut ? g->k : t.k0 + cut;
                t.a = (uint64_t)(p->a + (g->a_layout == CCL_GEMM_K_INNER ? m * p->lda + t.k0 : t.k0 * p->lda + m));
                t.part = (t.k0 == 0 ? (uint32_t)CCL_GEMM_FIRST : 0u) | (t.k1 == g->k ? (uint32_t)CCL_GEMM_LAST : 0u);
                fn(g, &t, scratch);
            }
        }
    }
}

static void check_product(const struct product *p, const char *name)
{
    const struct ccl_k_gemm *g = &p->g;
    for (uint32_t m = 0; m < g->m; m++) {
        for (uint32_t n = 0; n < g->ldc; n++) {
            if (n >= g->n) {
                if (p->c[m * g->ldc + n] != POISON) {
                    TEST_FAIL("%s: c[%u][%u], behind the row's end, was written", name, m, n);
                }
                continue;
            }
            double sum = 0, size = 0;
            for (uint32_t k = 0; k < g->k; k++) {
                double x = value(g->type, p->a[g->a_layout == CCL_GEMM_K_INNER ? m * p->lda + k : k * p->lda + m]) *
                           value(g->type, p->b[g->b_layout == CCL_GEMM_K_INNER ? n * g->ldb + k : k * g->ldb + n]);
                sum += x;
                size += fabs(x);
            }
            sum += g->bias_kind == CCL_GEMM_NO_BIAS ? 0 : value(g->type, p->bias[g->bias_kind == CCL_GEMM_BIAS_BY_ROW ? m : n]);
            double got = value(g->type, p->c[m * g->ldc + n]), unit = g->type == CCL_GEMM_F16 ? 0x1p-11 : 0x1p-8;
            if (!(fabs(got - sum) <= 1.001 * unit * fabs(sum) + 0x1p-24 * (g->k + 2) * (size + 1))) {
                TEST_FAIL("%s %ux%ux%u type %u layouts %u %u bias %u: c[%u][%u] is %.9g, want %.9g", name, g->m, g->n, g->k, g->type, g->a_layout,
                          g->b_layout, g->bias_kind, m, n, got, sum);
                return;
            }
        }
    }
}

static void products(ccl_host_gemm_fn fn, const char *name)
{
    for (int i = 0; i < 30; i++) {
        struct product p = make(i % 2 ? CCL_GEMM_F16 : CCL_GEMM_BF16);
        const size_t elements = p.g.m * p.g.ldc;
        uint16_t *other = malloc(4 * elements);
        for (size_t e = 0; e < 2 * elements; e++) {
            other[e] = p.c[e % elements] = POISON;
        }
        multiply(fn, &p, p.g.m, p.g.n, p.g.k, p.c, NULL);
        check_product(&p, name);
        multiply(fn, &p, 1 + draw() % 40, 1 + draw() % 60, 1 + draw() % 300, other, other + elements);
        TEST_CHECK(memcmp(other, p.c, 2 * elements) == 0);
        TEST_CHECK(memcmp(other + elements, p.c, 2 * elements) == 0);
        free(p.a), free(p.b), free(p.bias), free(p.c), free(other);
    }
}

int main(void)
{
    const char *name;
    ccl_host_gemm_fn fn;
    unsigned ran = 0;
    scratch = aligned_alloc(64, CCL_GEMM_HOST_SCRATCH(256, 256));
    for (unsigned i = 0; (name = ccl_host_gemm_variant(i, &fn)) != NULL; i++) {
        if (fn == NULL) {
            printf("%s: not on this processor\n", name);
            continue;
        }
        ran++;
        for (int type = 0; type < 2; type++) {
            all_numbers(fn, name, type ? CCL_GEMM_F16 : CCL_GEMM_BF16);
            rounding(fn, name, type ? CCL_GEMM_F16 : CCL_GEMM_BF16);
        }
        products(fn, name);
        printf("%s: %s\n", name, test_failures ? "failed" : "right");
    }
    TEST_CHECK(ran > 0);
    free(scratch);
    return test_result();
}
