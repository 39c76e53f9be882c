/* SPDX-License-Identifier: MIT
 *
 * Matrices of the fused products under test: memory, data, check, and a vendor's product of the same size where there is one. */
#ifndef CCL_BENCH_PRODUCT_H
#define CCL_BENCH_PRODUCT_H

#include "bench.h"

struct bench_product {
    cclMatmulDesc_t desc, alone; /* alone: the product of one rank without the others */
    uint64_t seed;
    void *a, *b, *c;        /* a and c from the heap */
    void *gathered;         /* A as the product alone takes it */
    void *landing;          /* where an all-gather of A goes */
    bool vendor;            /* there is a vendor's product */
    float *fa, *fb, *fc;    /* its matrices */
};

/* Collective. False: printed. */
bool bench_product_create(struct bench_product *p, struct bench_session *s, int gather, size_t m, size_t n, size_t k, cclDataType_t type, uint64_t seed);
void bench_product_destroy(struct bench_product *p, struct bench_session *s);
void bench_product_poison(struct bench_product *p);
/* Elements of C, of a random sample, that are not within the bound of a float64 reference. */
long long bench_product_check(struct bench_product *p, int rank, bool corrupt);
/* OpenBLAS' sgemm with so many threads, on 32-bit copies. */
bool bench_product_vendor(const struct bench_product *p, int threads);
/* A line of CCL_TUNE_FILE. */
void bench_product_tune_row(const struct bench_product *p, int ranks, const cclCallConfig_t *best, double us);

#endif
