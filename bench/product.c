/* SPDX-License-Identifier: MIT
 *
 * See product.h. Element (row, column) of A and B is a function of seed and place, so every rank can compute all of them. */
#include "product.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE 200
#define POISON 0x7fff /* not a number, in both types */

/* Approximately normal, of variance 1: the sum of four uniform numbers. */
static double normal(uint64_t seed, size_t index)
{
    uint64_t h = bench_mix(seed ^ bench_mix((uint64_t)index + 1));
    double x = 0;
    for (int i = 0; i < 4; i++) {
        x += (double)(h >> 16 * i & 0xffff) / 65536.0 - 0.5;
    }
    return x * 1.7320508;
}

/* Cut to the type. */
static uint16_t element(cclDataType_t type, uint64_t seed, size_t index)
{
    const int fraction = type == cclFloat16 ? 10 : 7, bias = type == cclFloat16 ? 15 : 127;
    int exponent;
    double x = normal(seed, index), size = frexp(fabs(x), &exponent);
    if (x == 0 || exponent - 1 < 1 - bias) {
        return 0;
    }
    return (uint16_t)((x < 0 ? 0x8000 : 0) | (exponent - 1 + bias) << fraction | ((int)(size * (2 << fraction)) & ((1 << fraction) - 1)));
}

static double value(cclDataType_t type, uint16_t bits)
{
    const int fraction = type == cclFloat16 ? 10 : 7, bias = type == cclFloat16 ? 15 : 127, most = 2 * bias + 1;
    int exponent = bits >> fraction & most, low = bits & ((1 << fraction) - 1);
    double sign = bits >> 15 ? -1.0 : 1.0;
    if (exponent == most) {
        return (double)NAN;
    }
    return sign * (exponent == 0 ? ldexp(low, 1 - bias - fraction) : ldexp((1 << fraction) + low, exponent - bias - fraction));
}

static size_t round_pitch(size_t elements) { return (elements + 7) / 8 * 8; }

/* Rows first_row.., columns first_col.. of a matrix of `width` columns. */
static void fill(void *to, size_t ld, size_t rows, size_t cols, size_t first_row, size_t first_col, size_t width, cclDataType_t type, uint64_t seed)
{
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < cols; c++) {
            ((uint16_t *)to)[r * ld + c] = element(type, seed, (first_row + r) * width + first_col + c);
        }
    }
}

typedef void (*sgemm_fn)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda, const float *b, int ldb, float beta,
                         float *c, int ldc);
static sgemm_fn sgemm;
static void (*set_threads)(int threads);

static bool find_vendor(void)
{
    static bool looked;
    if (!looked) {
        looked = true;
        void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
        if (library != NULL) {
            *(void **)&sgemm = dlsym(library, "cblas_sgemm");
            *(void **)&set_threads = dlsym(library, "openblas_set_num_threads");
        }
    }
    return sgemm != NULL && set_threads != NULL;
}

bool bench_product_vendor(const struct bench_product *p, int threads)
{
    const cclMatmulDesc_t *d = &p->alone;
    set_threads(threads);
    sgemm(101, 111, 111, (int)d->m, (int)d->n, (int)d->k, 1, p->fa, (int)d->k, p->fb, (int)d->n, 0, p->fc, (int)d->n);
    return true;
}

static bool create_vendor(struct bench_product *p)
{
    const cclMatmulDesc_t *d = &p->alone;
    if (!bench_on_host() || !find_vendor() || d->m > 1u << 30 || d->n > 1u << 30) {
        return false;
    }
    p->fa = malloc(d->m * d->k * sizeof(float));
    p->fb = malloc(d->k * d->n * sizeof(float));
    p->fc = malloc(d->m * d->n * sizeof(float));
    if (p->fa == NULL || p->fb == NULL || p->fc == NULL) {
        return false;
    }
    for (size_t i = 0; i < d->m * d->k; i++) {
        p->fa[i] = (float)normal(p->seed, i);
    }
    for (size_t i = 0; i < d->k * d->n; i++) {
        p->fb[i] = (float)normal(p->seed + 1, i);
    }
    return true;
}

bool bench_product_create(struct bench_product *p, struct bench_session *s, int gather, size_t m, size_t n, size_t k, cclDataType_t type, uint64_t seed)
{
    const cclMatmulDesc_t fresh = CCL_MATMUL_DESC_INITIALIZER;
    const bool columns = gather == cclGatherColumns, output = gather == cclGatherOutput;
    memset(p, 0, sizeof(*p));
    p->seed = seed * 2;
    p->desc = p->alone = fresh;
    cclMatmulDesc_t *d = &p->desc, *one = &p->alone;
    d->m = m, d->n = n, d->k = k, d->type = type, d->gather = gather;
    d->shard = (columns ? k : m) / (size_t)s->ranks;
    d->lda = round_pitch(columns ? d->shard : k), d->ldb = d->ldc = round_pitch(n);
    one->m = one->shard = output ? d->shard : m;
    one->n = n, one->k = k, one->type = type, one->gather = cclGatherRows;
    one->lda = round_pitch(k), one->ldb = one->ldc = d->ldc;
    const size_t a_rows = columns ? m : d->shard, a_bytes = 2 * a_rows * d->lda, c_bytes = 2 * m * d->ldc;
    cclResult_t rc = cclMemAlloc(s->comm, &p->a, a_bytes);
    rc = rc == cclSuccess ? cclMemAlloc(s->comm, &p->c, c_bytes) : rc;
    rc = rc == cclSuccess ? cclMemAlloc(s->comm, &p->landing, a_bytes * (size_t)s->ranks) : rc;
    rc = rc == cclSuccess ? cclDeviceMalloc(&p->b, 2 * k * d->ldb) : rc;
    rc = rc == cclSuccess ? cclDeviceMalloc(&p->gathered, 2 * one->m * one->lda) : rc;
    if (!bench_agree(s, rc, "matrices")) {
        return false;
    }
    const size_t first = (size_t)s->rank * d->shard;
    fill(p->a, d->lda, a_rows, columns ? d->shard : k, columns ? 0 : first, columns ? first : 0, k, type, p->seed);
    fill(p->gathered, one->lda, one->m, k, output ? first : 0, 0, k, type, p->seed);
    fill(p->b, d->ldb, k, n, 0, 0, n, type, p->seed + 1);
    p->vendor = bench_min(s, create_vendor(p)) == 1;
    return true;
}

void bench_product_destroy(struct bench_product *p, struct bench_session *s)
{
    if (s->comm != NULL) {
        cclMemFree(s->comm, p->landing);
        cclMemFree(s->comm, p->c);
        cclMemFree(s->comm, p->a);
    }
    cclDeviceFree(p->b);
    cclDeviceFree(p->gathered);
    free(p->fa), free(p->fb), free(p->fc);
    memset(p, 0, sizeof(*p));
}

void bench_product_poison(struct bench_product *p)
{
    for (size_t i = 0; i < p->desc.m * p->desc.ldc; i++) {
        ((uint16_t *)p->c)[i] = POISON;
    }
}

long long bench_product_check(struct bench_product *p, int rank, bool corrupt)
{
    const cclMatmulDesc_t *d = &p->desc;
    const double unit = d->type == cclFloat16 ? 0x1p-11 : 0x1p-8;
    uint16_t *c = p->c;
    long long wrong = 0;
    if (corrupt) {
        c[0] ^= 0x4000;
    }
    for (size_t i = 0; i < d->m * d->n && i < SAMPLE; i++) {
        const uint64_t h = bench_mix(p->seed ^ bench_mix(i * 64 + (uint64_t)rank));
        const size_t row = i == 0 ? 0 : (size_t)(h >> 32) % d->m, col = i == 0 ? 0 : (size_t)(h & 0xffffffff) % d->n;
        double sum = 0, size = 0;
        for (size_t k = 0; k < d->k; k++) {
            double x = value(d->type, element(d->type, p->seed, row * d->k + k)) * value(d->type, element(d->type, p->seed + 1, k * d->n + col));
            sum += x;
            size += fabs(x);
        }
        double error = fabs(value(d->type, c[row * d->ldc + col]) - sum);
        wrong += !(error <= 1.001 * unit * fabs(sum) + 0x1p-24 * (double)(d->k + 2) * size);
    }
    for (size_t i = 0; i < d->m; i++) { /* and none was left out */
        for (size_t j = 0; j < d->n; j++) {
            wrong += c[i * d->ldc + j] == POISON;
        }
    }
    return wrong;
}

void bench_product_tune_row(const struct bench_product *p, int ranks, const cclCallConfig_t *b, double us)
{
    static const char *const gathers[] = {"rows", "columns", "output"}, *const layouts[] = {"k_contiguous", "m_contiguous"}, *const fetches[] = {"pull", "push"};
    const cclMatmulDesc_t *d = &p->desc;
    const int numbers[6] = {b->gemm_tile_m, b->gemm_tile_n, b->gemm_tile_k, b->group_m, b->k_per_flag, b->num_fetch_sms};
    char text[6][16], line[512];
#if defined(__aarch64__)
    const char *arch = "aarch64";
#else
    const char *arch = "x86-64";
#endif
    for (int i = 0; i < 6; i++) {
        snprintf(text[i], sizeof(text[i]), "%d", numbers[i]);
        if (numbers[i] == CCL_UNSET) {
            strcpy(text[i], "-");
        }
    }
    snprintf(line, sizeof(line), "all_gather_matmul %s %d %s %s %zu %zu %zu  %s %s %s %s %s %s %s %s %s # %.1f us\n", arch, ranks, gathers[d->gather],
             d->type == cclFloat16 ? "float16" : "bfloat16", d->m, d->n, d->k, bench_name_of(bench_algorithms, b->algorithm),
             b->layout == CCL_UNSET ? "-" : layouts[b->layout], b->fetch == CCL_UNSET ? "-" : fetches[b->fetch], text[0], text[1], text[2], text[3], text[4],
             text[5], us);
    bench_report_raw(line);
}
