/* SPDX-License-Identifier: MIT
 *
 * The GEMM core of the host backend (kernels/gemm.h): one thread, vectors of the processor it runs on. Sums of an element run over K in order, one multiply-add after
 * the other, however K is cut into segments and C into tiles; so results depend on nothing but the processor's kind and the order of the segments. */
#ifndef CCL_HOST_GEMM_H
#define CCL_HOST_GEMM_H

#include "gemm.h"

/* scratch: CCL_GEMM_HOST_SCRATCH bytes of the calling block, 64-byte aligned, kept by the caller between the first and the last segment of a tile. */
typedef void (*ccl_host_gemm_fn)(const struct ccl_k_gemm *g, const struct ccl_k_gemm_tile *t, void *scratch);

/* Chosen by the processor's features at the first call. */
extern ccl_host_gemm_fn ccl_host_gemm_chosen;
static inline void ccl_host_gemm(const struct ccl_k_gemm *g, const struct ccl_k_gemm_tile *t, void *scratch)
{
    __atomic_load_n(&ccl_host_gemm_chosen, __ATOMIC_RELAXED)(g, t, scratch);
}
/* Name of what was chosen, and all there are, for tests: NULL behind the last one, and fn NULL where the processor cannot run it. */
const char *ccl_host_gemm_variant(unsigned index, ccl_host_gemm_fn *fn);

#endif
