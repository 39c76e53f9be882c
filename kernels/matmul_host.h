/* SPDX-License-Identifier: MIT
 *
 * The kernels of fused matrix products on the host: one core for all types and layouts. */
#include "host_gemm.h"
#include "matmul_tasks.h"

#define MATMUL_KERNEL(name) CCL_KERNEL(name, struct ccl_k_matmul_args)
#define MATMUL_SHARED(a, sh) struct matmul_shared shared_, *const sh = &shared_
#define MATMUL_OTHERS(a, sh, t) matmul_set_others(a, sh, &(t))

/* The scratch of a block is its own. */
#define CCL_MATMUL_CORE(a, t, sh, feed) ccl_host_gemm(&(a)->gemm, t, (void *)((a)->scratch + ccl_bid() * (a)->scratch_bytes))
#define MATMUL_FORM
#define MATMUL_KM 0
#include "matmul_body.h"
