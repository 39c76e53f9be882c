/* SPDX-License-Identifier: MIT
 *
 * The traced form of the kernels of host.c: the same files once more, with their notes of the time (trace.h). */
#define CCL_TRACED 1

#include "host.h"

#include "ll.hip"
#include "push.hip"

#include "parts.hip"
#include "parts_ll.hip"
#include "reduce.hip"

#include "p2p.hip"

#include "copy.hip"

#include "matmul_host.h"

const ccl_host_kernel_fn ccl_host_kernels_traced[CCL_NUM_HOST_KERNELS] = {
#define CCL_K(name, args) [CCL_KERNEL_##name] = ccl_k_##name,
    CCL_KERNEL_LIST(CCL_K)
    CCL_HOST_KERNEL_LIST(CCL_K)
#undef CCL_K
};
