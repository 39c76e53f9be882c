/* SPDX-License-Identifier: MIT
 *
 * See product.h. Element (row, column) of A and B is a function of seed and place, so every rank can compute all of them. */
#include "product.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE 200
#define POISON_BYTE 0xff
#define POISON 0xffff /* not a number, in both types */
#define UNIFORM 65536
#define SUMS (4 * UNIFORM)

/* Approximately normal, of variance 1: the sum of four uniform numbers. */
static uint32_t sum_of(uint64_t seed, size_t index)
{
    const uint64_t h = bench_mix(seed ^ bench_mix((uint64_t)index + 1));
    return (uint32_t)((h & 0xffff) + (h >> 16 & 0xffff) + (h >> 32 & 0xffff) + (h >> 48));
}

static double normal_of(uint32_t sum) { return (sum / (double)UNIFORM - 2) * 1.7320508; }

double bench_product_normal(uint64_t seed, size_t i) { return normal_of(sum_of(seed, i)); }

/* Cut to the type. */
static uint16_t cut(cclDataType_t type, double x)
{
    const int fraction = type == cclFloat16 ? 10 : 7, bias = type == cclFloat16 ? 15 : 127;
    int exponent;
    double size = frexp(fabs(x), &exponent);
    if (x == 0 || exponent - 1 < 1 - bias) {
        return 0;
    }
    return (uint16_t)((x < 0 ? 0x8000 : 0) | (exponent - 1 + bias) << fraction | ((int)(size * (2 << fraction)) & ((1 << fraction) - 1)));
}

/* All values of a type: matrices have a hundred million elements. */
static const uint16_t *values_of(cclDataType_t type)
{
    static uint16_t tables[2][SUMS];
    static bool filled[2];
    const int which = type == cclFloat16 ? 0 : 1;
    for (uint32_t i = 0; !filled[which] && i < SUMS; i++) {
        tables[which][i] = cut(type, normal_of(i));
    }
    filled[which] = true;
    return tables[which];
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

/* Part of a random matrix in memory: element (r, c) is number (first_row + r) * width + first_col + c of the whole one. */
struct part {
    void *to;
    size_t ld, rows, cols, first_row, first_col, width;
    uint64_t seed;
    const uint16_t *values;
};

static cclResult_t fill_chunk(void *ctx, struct bench_worker *w, size_t off, size_t length, long long *wrong)
{
    const struct part *p = ctx;
    uint16_t *stage = (uint16_t *)w->stage;
    size_t row = off / 2 / p->ld, col = off / 2 % p->ld;
    (void)wrong;
    for (size_t i = 0; i < length / 2; i++) {
        stage[i] = col < p->cols ? p->values[sum_of(p->seed, (p->first_row + row) * p->width + p->first_col + col)] : POISON;
        if (++col == p->ld) {
            col = 0;
            row++;
        }
    }
    cclResult_t rc = cclMemcpyAsync((char *)p->to + off, stage, length, w->stream);
    return rc == cclSuccess ? cclStreamSynchronize(w->stream) : rc;
}

static cclResult_t fill(struct bench_session *s, struct part p)
{
    return bench_chunks(s, 2 * p.rows * p.ld, fill_chunk, &p, NULL);
}

static cclResult_t allocate(struct bench_session *s, bool in_heap, void **memory, size_t bytes)
{
    return in_heap ? cclMemAlloc(s->comm, memory, bytes) : cclDeviceMalloc(memory, bytes);
}

static void release(struct bench_session *s, bool in_heap, void *memory)
{
    if (!in_heap) {
        cclDeviceFree(memory);
    } else if (s->comm != NULL) {
        cclMemFree(s->comm, memory);
    }
}

bool bench_product_create(struct bench_product *p, struct bench_session *s, int gather, bool b_transposed, bool in_heap, size_t m, size_t n, size_t k,
                          cclDataType_t type, uint64_t seed)
{
    const cclMatmulDesc_t fresh = CCL_MATMUL_DESC_INITIALIZER;
    const bool columns = gather == cclGatherColumns, output = gather == cclGatherOutput;
    const uint16_t *values = values_of(type);
    memset(p, 0, sizeof(*p));
    p->seed = seed * 2;
    p->in_heap = in_heap;
    p->desc = p->alone = fresh;
    cclMatmulDesc_t *d = &p->desc, *one = &p->alone;
    d->m = m, d->n = n, d->k = k, d->type = type, d->gather = gather;
    d->shard = (columns ? k : m) / (size_t)s->ranks;
    d->lda = round_pitch(columns ? d->shard : k), d->ldc = round_pitch(n);
    d->b_transposed = b_transposed;
    const size_t b_rows = b_transposed ? n : k, b_cols = b_transposed ? k : n;
    d->ldb = round_pitch(b_cols);
    one->m = one->shard = output ? d->shard : m;
    one->n = n, one->k = k, one->type = type, one->gather = cclGatherRows, one->b_transposed = b_transposed;
    one->lda = round_pitch(k), one->ldb = d->ldb, one->ldc = d->ldc;
    const size_t a_rows = columns ? m : d->shard, a_bytes = 2 * a_rows * d->lda, c_bytes = 2 * m * d->ldc;
    cclResult_t rc = cclMemAlloc(s->comm, &p->a, a_bytes);
    rc = rc == cclSuccess ? allocate(s, output, &p->c, c_bytes) : rc;
    rc = rc == cclSuccess ? allocate(s, in_heap, &p->landing, a_bytes * (size_t)s->ranks) : rc;
    rc = rc == cclSuccess ? cclDeviceMalloc(&p->b, 2 * b_rows * d->ldb) : rc;
    rc = rc == cclSuccess ? cclDeviceMalloc(&p->gathered, 2 * one->m * one->lda) : rc;
    if (!bench_agree(s, rc, "matrices")) {
        return false;
    }
    const size_t first = (size_t)s->rank * d->shard;
    rc = fill(s, (struct part){p->a, d->lda, a_rows, columns ? d->shard : k, columns ? 0 : first, columns ? first : 0, k, p->seed, values});
    rc = rc == cclSuccess ? fill(s, (struct part){p->gathered, one->lda, one->m, k, output ? first : 0, 0, k, p->seed, values}) : rc;
    rc = rc == cclSuccess ? fill(s, (struct part){p->b, d->ldb, b_rows, b_cols, 0, 0, b_cols, p->seed + 1, values}) : rc;
    if (!bench_agree(s, rc, "data of the matrices")) {
        return false;
    }
    p->vendor = bench_min(s, bench_vendor_create(p, s)) == 1;
    return true;
}

void bench_product_destroy(struct bench_product *p, struct bench_session *s)
{
    release(s, p->in_heap, p->landing);
    release(s, p->desc.gather == cclGatherOutput, p->c);
    release(s, true, p->a);
    cclDeviceFree(p->b);
    cclDeviceFree(p->gathered);
    bench_vendor_destroy(p);
    memset(p, 0, sizeof(*p));
}

cclResult_t bench_product_poison(struct bench_product *p, struct bench_session *s)
{
    cclResult_t rc = cclMemsetAsync(p->c, POISON_BYTE, 2 * p->desc.m * p->desc.ldc, s->stream);
    return rc == cclSuccess ? cclStreamSynchronize(s->stream) : rc;
}

/* Elements that were not written. */
static cclResult_t scan_chunk(void *ctx, struct bench_worker *w, size_t off, size_t length, long long *wrong)
{
    const struct bench_product *p = ctx;
    const uint16_t *stage = (const uint16_t *)w->stage;
    size_t col = off / 2 % p->desc.ldc;
    cclResult_t rc = cclMemcpyAsync(w->stage, (char *)p->c + off, length, w->stream);
    rc = rc == cclSuccess ? cclStreamSynchronize(w->stream) : rc;
    for (size_t i = 0; i < length / 2 && rc == cclSuccess; i++) {
        *wrong += stage[i] == POISON && col < p->desc.n;
        col = col + 1 == p->desc.ldc ? 0 : col + 1;
    }
    return rc;
}

static bool is_near(const struct bench_product *p, size_t row, size_t col, uint16_t got)
{
    const cclMatmulDesc_t *d = &p->desc;
    const uint16_t *values = values_of(d->type);
    const double unit = d->type == cclFloat16 ? 0x1p-11 : 0x1p-8;
    double sum = 0, size = 0;
    for (size_t k = 0; k < d->k; k++) {
        const size_t b = d->b_transposed ? col * d->k + k : k * d->n + col;
        double x = value(d->type, values[sum_of(p->seed, row * d->k + k)]) * value(d->type, values[sum_of(p->seed + 1, b)]);
        sum += x;
        size += fabs(x);
    }
    double error = fabs(value(d->type, got) - sum);
    return error <= 1.001 * unit * fabs(sum) + 0x1p-24 * (double)(d->k + 2) * size;
}

long long bench_product_check(struct bench_product *p, struct bench_session *s, bool corrupt)
{
    const cclMatmulDesc_t *d = &p->desc;
    const size_t count = d->m * d->n < SAMPLE ? d->m * d->n : SAMPLE;
    size_t rows[SAMPLE], cols[SAMPLE];
    uint16_t got[SAMPLE];
    long long wrong = 0;
    cclResult_t rc = bench_chunks(s, 2 * d->m * d->ldc, scan_chunk, p, &wrong);
    for (size_t i = 0; i < count && rc == cclSuccess; i++) {
        const uint64_t h = bench_mix(p->seed ^ bench_mix(i * 64 + (uint64_t)s->rank));
        rows[i] = i == 0 ? 0 : (size_t)(h >> 32) % d->m;
        cols[i] = i == 0 ? 0 : (size_t)(h & 0xffffffff) % d->n;
        rc = cclMemcpyAsync(&got[i], (char *)p->c + 2 * (rows[i] * d->ldc + cols[i]), sizeof(got[i]), s->stream);
    }
    rc = rc == cclSuccess ? cclStreamSynchronize(s->stream) : rc;
    if (rc != cclSuccess) {
        return -1;
    }
    got[0] ^= corrupt ? 0x4000 : 0;
    for (size_t i = 0; i < count; i++) {
        wrong += !is_near(p, rows[i], cols[i], got[i]);
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
    const char *arch = bench_on_host() ? "aarch64" : "any";
#else
    const char *arch = bench_on_host() ? "x86-64" : "any";
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
