/* SPDX-License-Identifier: MIT
 *
 * What is measured against each other in the operations on matrix products, shared by their files. */
#ifndef CCL_BENCH_MATMUL_RUN_H
#define CCL_BENCH_MATMUL_RUN_H

#include "product.h"

enum bench_matmul_side { FUSED, GEMM, COMM, SEQUENTIAL, WITH_MPI, VENDOR, SIDES };

struct bench_choice {
    int algorithm, layout, fetch, tile_m, tile_n, num_fetch_sms, k_per_flag;
};

struct bench_run {
    const struct bench_options *options;
    struct bench_session s;
    struct bench_session alone; /* a world of this rank only: the product without anybody else */
    struct bench_product p;
    struct bench_choice choice;
    cclCallConfig_t used;
    double *us[SIDES];
    int count, capacity;
    int calls; /* of an iteration */
};

/* matmul_sides.c. Enqueue, or do, one call of a side. */
cclResult_t bench_matmul_issue(struct bench_run *r, enum bench_matmul_side side);

#endif
