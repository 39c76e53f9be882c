/* SPDX-License-Identifier: MIT
 *
 * The kernels as C functions of the host backend: the same files that the GPU compilers read, and the table the runtime calls through. */
#include "host.h"

#include "ll.hip"
#include "push.hip"

#include "parts.hip"
#include "parts_ll.hip"
#include "reduce.hip"

#include "p2p.hip"

#include "copy.hip"

#include "matmul_host.h"

_Thread_local const struct ccl_host_block *ccl_block __attribute__((tls_model("initial-exec")));

uint32_t ccl_host_failed;

const ccl_host_kernel_fn ccl_host_kernels[CCL_NUM_HOST_KERNELS] = {
#define CCL_K(name, args) [CCL_KERNEL_##name] = ccl_k_##name,
    CCL_KERNEL_LIST(CCL_K)
    CCL_HOST_KERNEL_LIST(CCL_K)
#undef CCL_K
};
