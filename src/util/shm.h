/* SPDX-License-Identifier: MIT
 *
 * Anonymous shared host memory (memfd): host pages of ranks. Nothing is left behind when the processes die. */
#ifndef CCL_UTIL_SHM_H
#define CCL_UTIL_SHM_H

#include "util/base.h"

/* Create and map; *fd (close-on-exec) and the mapping are the caller's. Zeroed. bytes is rounded up to pages. */
cclResult_t ccl_shm_create(const char *name, size_t bytes, int *fd, void **ptr);
/* Map a descriptor received from a peer; cclSystemError when it is smaller than bytes. fd stays the caller's. */
cclResult_t ccl_shm_map(int fd, size_t bytes, void **ptr);
void ccl_shm_unmap(void *ptr, size_t bytes); /* NULL is fine */

#endif
