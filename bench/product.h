/* SPDX-License-Identifier: MIT
 *
 * Matrices of the fused products under test: memory, data, check, and a vendor's product of the same size where there is one. */
#ifndef CCL_BENCH_PRODUCT_H
#define CCL_BENCH_PRODUCT_H

#include "bench.h"

struct bench_product {
    cclMatmulDesc_t desc, alone; /* alone: the product of one rank without the others */
    uint64_t seed;
    void *a, *b, *c;        /* a, and what peers write (c of matmul_all_gather), from the heap; the others plain device memory */
    void *gathered;         /* A as the product alone takes it */
    void *landing;          /* where an all-gather of A goes */
    bool in_heap;           /* landing is */
    bool vendor;            /* there is a vendor's product */
    bool vendor_writes_c;   /* it has the same result in the same place; else 32-bit floats of its own */
    float *fa, *fb, *fc;    /* these */
};

/* Device memory is touched by copies only. */

/* product.c. Collective. False: printed. */
bool bench_product_create(struct bench_product *p, struct bench_session *s, int gather, bool b_transposed, bool in_heap, size_t m, size_t n, size_t k,
                          cclDataType_t type, uint64_t seed);
void bench_product_destroy(struct bench_product *p, struct bench_session *s);
cclResult_t bench_product_poison(struct bench_product *p, struct bench_session *s);
/* Elements of C, of a random sample, that are not within the bound of a float64 reference, and those that were not written; -1: C could not be read. */
long long bench_product_check(struct bench_product *p, struct bench_session *s, bool corrupt);
/* Element i of a matrix, as a float before it is rounded to the type. */
double bench_product_normal(uint64_t seed, size_t i);
/* A line of CCL_TUNE_FILE. */
void bench_product_tune_row(const struct bench_product *p, int ranks, const cclCallConfig_t *best, double us);

/* product_vendor.c: host: OpenBLAS' sgemm on 32-bit copies; NVIDIA: cuBLAS, types as ours, sums in 32-bit floats. Found when they are needed, by dlopen. */
bool bench_vendor_create(struct bench_product *p, struct bench_session *s);
void bench_vendor_destroy(struct bench_product *p);
/* Of p->alone. NVIDIA: enqueued to the session's stream, C to `out`. threads: of the host. */
bool bench_vendor_run(const struct bench_product *p, struct bench_session *s, int threads, void *out);

#endif
