/* SPDX-License-Identifier: MIT
 *
 * Stands for kernels/host.c until it exists. */
#include "host.h"

const ccl_host_kernel_fn ccl_host_kernels[CCL_NUM_KERNELS];
