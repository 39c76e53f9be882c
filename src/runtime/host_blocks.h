/* SPDX-License-Identifier: MIT
 *
 * Runs the blocks of one launch, in index order, on the calling thread and helper threads of the process. */
#ifndef CCL_HOST_BLOCKS_H
#define CCL_HOST_BLOCKS_H

#include "host.h"
#include "util/base.h"

/* Threads that may work on one launch, the caller counted; from then on. At least 1. */
void ccl_host_blocks_set_threads(uint32_t threads);
/* Returns when all blocks have run. idle goes into each block's info. */
void ccl_host_blocks_run(ccl_host_kernel_fn fn, const void *args, uint32_t grid, uint32_t limit,
                         void (*idle)(void));

#endif
