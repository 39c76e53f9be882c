/* SPDX-License-Identifier: MIT
 *
 * Memory of the gpu backend: what was allocated or mapped here, and how it is shared.
 *   plain   cuMemAlloc, hipMalloc, hipExtMallocWithFlags
 *   vmm     NVIDIA: physical memory with a file descriptor; a peer's mapping is a reference of its own
 *   memfd   host memory of shared pages, registered with the device
 *   ipc     mapped from a peer by a legacy IPC handle: no reference, the owner must not free it before we close
 *   dmabuf  AMD: mapped from a peer by a DMA-BUF descriptor, a reference of its own
 *   alias   a user's allocation of this very process: its own address */
#ifndef CCL_GPU_MEMORY_H
#define CCL_GPU_MEMORY_H

#include "runtime/gpu_internal.h"

enum ccl_gpu_kind { CCL_GPU_PLAIN = 1, CCL_GPU_VMM, CCL_GPU_MEMFD, CCL_GPU_IPC, CCL_GPU_DMABUF, CCL_GPU_ALIAS };

struct ccl_gpu_block {
    struct ccl_gpu_block *next;
    enum ccl_gpu_kind kind;
    char *base; /* kernel-side address */
    size_t bytes;
    int device;       /* mapped for it */
    bool owned;       /* allocated here, not yet freed */
    uint64_t imports; /* mem_import calls without mem_close */
    uint64_t process, id; /* which allocation, in which process: equal for equal ones only */
    void *handle;     /* vmm: allocation; dmabuf: external memory */
    void *host;       /* memfd: where the host has mapped it */
    int fd;           /* memfd */
};

/* CCL_HEAP_MEM and CCL_IPC. cclInvalidArgument: no such value. cclInvalidUsage: not on this vendor's devices. */
cclResult_t ccl_gpu_memory_config(void);
/* Does the device share memory by descriptors? Sets d->vmm and d->vmm_granule. The device is current. */
void ccl_gpu_vmm_probe(struct ccl_gpu_device *d);
const char *ccl_gpu_share_name(const struct ccl_gpu_device *d);
bool ccl_gpu_uses_dmabuf(void);
/* Number of this process, unlike that of any other, its parent's too. */
uint64_t ccl_gpu_process(void);

cclResult_t ccl_gpu_mem_alloc(enum ccl_mem_type type, size_t bytes, void **ptr);
cclResult_t ccl_gpu_mem_free(void *ptr);
cclResult_t ccl_gpu_mem_close(void *base);
cclResult_t ccl_gpu_host_register(void *ptr, size_t bytes, void **dev);
cclResult_t ccl_gpu_host_unregister(void *ptr);
cclResult_t ccl_gpu_pointer_query(const void *ptr, struct ccl_pointer_attr *attr);

/* ---- the list of blocks ---- */

/* Copy of the block around ptr; false: none. */
bool ccl_gpu_block_find(const void *ptr, struct ccl_gpu_block *out);
/* Count one more import of what is mapped here already: the same allocation for the same device, or (device -1) the one that begins at base. */
bool ccl_gpu_block_reuse(uint64_t process, uint64_t id, int device, const void *base, void **mapped);
/* Takes b over. */
void ccl_gpu_block_add(struct ccl_gpu_block *b);
/* Unmap or free what is in no list, and the record. */
cclResult_t ccl_gpu_block_destroy(struct ccl_gpu_block *b);

/* gpu_wait.c: mem_free of b, now or later, and free the record. With its device current, as setup. */
cclResult_t ccl_gpu_free_plain(struct ccl_gpu_block *b);

/* ---- gpu_vmm.c, with the block's device current: fill base and handle of a block whose kind, bytes and device are set ---- */

cclResult_t ccl_gpu_vmm_alloc(const struct ccl_gpu_device *d, struct ccl_gpu_block *b);
cclResult_t ccl_gpu_vmm_export(const struct ccl_gpu_block *b, int *fd);
cclResult_t ccl_gpu_vmm_import(const struct ccl_gpu_device *d, int fd, struct ccl_gpu_block *b);
/* Let one more device of this process use it. */
cclResult_t ccl_gpu_vmm_allow(const struct ccl_gpu_device *d, const struct ccl_gpu_block *b);
cclResult_t ccl_gpu_vmm_free(const struct ccl_gpu_block *b);
/* memfd blocks; fd: to map, duplicated, or -1 for a new one. */
cclResult_t ccl_gpu_memfd_map(int fd, struct ccl_gpu_block *b);
cclResult_t ccl_gpu_memfd_unmap(const struct ccl_gpu_block *b);

/* ---- gpu_share.c ---- */

cclResult_t ccl_gpu_mem_export(void *base, struct ccl_mem_handle *handle);
cclResult_t ccl_gpu_mem_import(const struct ccl_mem_handle *handle, void **base);

#endif
