/* SPDX-License-Identifier: MIT
 *
 * Device memory of the host backend: one memfd an allocation, mapped shared, so that its descriptor is all a peer
 * needs. A registry knows every allocation and every import of the process by address and by inode; ranks that are
 * threads of one process thus share one mapping. */
#ifndef CCL_HOST_MEMORY_H
#define CCL_HOST_MEMORY_H

#include "runtime/runtime.h"

cclResult_t ccl_host_memory_alloc(enum ccl_mem_type type, size_t bytes, void **ptr);
/* The mapping stays while imports of this process use it. */
cclResult_t ccl_host_memory_free(void *ptr);
cclResult_t ccl_host_memory_query(const void *ptr, struct ccl_pointer_attr *attr);
cclResult_t ccl_host_memory_export(void *base, struct ccl_mem_handle *handle);
cclResult_t ccl_host_memory_import(const struct ccl_mem_handle *handle, void **base);
cclResult_t ccl_host_memory_close(void *base);
/* Entries of the registry, for tests. */
size_t ccl_host_memory_count(void);

#endif
