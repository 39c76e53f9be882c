/* SPDX-License-Identifier: MIT
 *
 * What the host backend knows about the kernels: a table of C functions, one call a block. Blocks of a launch are started in index
 * order; a block waits only for blocks of equal or lower index, so one thread can run them one after the other. */
#ifndef CCL_KERNELS_HOST_H
#define CCL_KERNELS_HOST_H

#include <stdint.h>

#include "kernel_list.h"

/* Set by the runtime around each block it runs (thread-local in kernels/host.c). */
struct ccl_host_block {
    uint32_t index, grid;
    void (*idle)(void); /* called before the block sleeps: lets the runtime start other streams of this process; may be NULL */
};

typedef void (*ccl_host_kernel_fn)(const void *args, const struct ccl_host_block *block);
/* NULL: a kernel of GPUs only. */
extern const ccl_host_kernel_fn ccl_host_kernels[CCL_NUM_HOST_KERNELS];
extern const ccl_host_kernel_fn ccl_host_kernels_traced[CCL_NUM_HOST_KERNELS]; /* the form that writes trace records */

/* Nonzero once a kernel of this process has reported an error. */
extern uint32_t ccl_host_failed;
/* Once per process, before any kernel: nonzero when membarrier can stand in for the fences of the fast path. */
int ccl_host_membarrier_init(void);
/* Wake every sleeper of a rank, given the address of its host page: publishers that saw `waiting`, and host code that changes what kernels wait for (abort,
 * death, a closed communicator). */
void ccl_host_wake(uint64_t page);

#endif
