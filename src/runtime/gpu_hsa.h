/* SPDX-License-Identifier: MIT
 *
 * The few calls of the HSA runtime under HIP that HIP itself does not offer in every version: a device's architecture, and DMA-BUF export. AMD only. */
#ifndef CCL_GPU_HSA_H
#define CCL_GPU_HSA_H

#include "runtime/runtime.h"

/* Architecture of the GPU at a PCI address, "gfx942", without features. cclSystemError: no HSA runtime, or it knows no such GPU. */
cclResult_t ccl_gpu_hsa_arch(int domain, int bus, int slot, char *arch, size_t bytes);
/* The HSA runtime can export memory. */
bool ccl_gpu_hsa_can_export(void);
/* *fd is the caller's; the memory begins *offset bytes into it. */
cclResult_t ccl_gpu_hsa_export(const void *ptr, size_t bytes, int *fd, uint64_t *offset);

#endif
