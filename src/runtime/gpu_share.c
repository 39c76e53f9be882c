/* SPDX-License-Identifier: MIT
 *
 * Memory from one process to another, or to another device of the same process. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/gpu_hsa.h"
#include "runtime/gpu_memory.h"

/* The blob of a handle. */
struct share {
    uint64_t process, id; /* as in struct ccl_gpu_block */
    uint64_t base;        /* where the exporting process has it */
    int32_t device;       /* the exporting process's number of it */
    uint32_t offset;      /* dmabuf: where the memory begins in it */
    struct ccl_gpu_ipc ipc;
};
_Static_assert(sizeof(struct share) <= CCL_HANDLE_BLOB_BYTES, "it fits the handle");

/* Imports are made one after the other, so that two threads do not map one allocation twice. */
static pthread_mutex_t import_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- export ---- */

/* A user's allocation; the driver's number of it tells it from an earlier one at the same address. */
static cclResult_t describe_foreign(void *base, struct ccl_gpu_block *b)
{
    struct ccl_pointer_attr attr;
    unsigned long long number = 0;
    CCL_TRY(ccl_gpu_pointer_query(base, &attr));
    CCL_CHECK(attr.exportable && attr.base == base, cclInvalidUsage, CCL_RT,
              "memory at %p cannot be exported: %s", base,
              attr.device < 0 ? "it is not device memory"
                              : "it was not made by cudaMalloc or hipMalloc (virtual memory and pools have no IPC handle)");
    if (ccl_gpu.pointer_attribute(&number, CCL_GPU_PTR_BUFFER_ID, base) != 0) {
        number = (uintptr_t)base >> 8;
    }
    *b = (struct ccl_gpu_block){.kind = CCL_GPU_PLAIN, .base = base, .bytes = attr.size_bytes, .device = attr.device,
                                .process = ccl_gpu_process(), .id = number << 1, .fd = -1};
    return cclSuccess;
}

/* With its device current. */
static cclResult_t export_block(const struct ccl_gpu_block *b, struct share *share, struct ccl_mem_handle *h)
{
    uint64_t offset = 0;
    h->kind = b->kind;
    h->counted = true;
    switch (b->kind) {
    case CCL_GPU_VMM: return ccl_gpu_vmm_export(b, &h->fd);
    case CCL_GPU_MEMFD:
        h->fd = fcntl(b->fd, F_DUPFD_CLOEXEC, 0);
        CCL_CHECK(h->fd >= 0, cclSystemError, CCL_RT, "dup of a descriptor of shared host memory failed");
        return cclSuccess;
    case CCL_GPU_PLAIN:
        if (ccl_gpu_uses_dmabuf()) {
            h->kind = CCL_GPU_DMABUF;
            CCL_TRY(ccl_gpu_hsa_export(b->base, b->bytes, &h->fd, &offset));
            share->offset = (uint32_t)offset;
            return cclSuccess;
        }
        h->kind = CCL_GPU_IPC;
        h->counted = false;
        CCL_GPU_TRY(ipc_export, &share->ipc, b->base);
        return cclSuccess;
    case CCL_GPU_IPC:
    case CCL_GPU_DMABUF:
    case CCL_GPU_ALIAS: break;
    }
    return ccl_error_set(cclInvalidUsage, CCL_RT, "memory at %p belongs to another process and cannot be exported again",
                         (void *)b->base);
}

cclResult_t ccl_gpu_mem_export(void *base, struct ccl_mem_handle *handle)
{
    struct ccl_mem_handle h = {.fd = -1};
    struct share share = {0};
    struct ccl_gpu_block b;
    struct ccl_gpu_guard guard;
    if (!ccl_gpu_block_find(base, &b)) {
        CCL_TRY(ccl_gpu_enter_setup(&guard, NULL));
        cclResult_t rc = describe_foreign(base, &b);
        ccl_gpu_leave(&guard);
        CCL_TRY(rc);
    }
    CCL_CHECK(b.base == base, cclInvalidArgument, CCL_RT, "pointer %p to export is not the start of its allocation", base);
    share.process = b.process;
    share.id = b.id;
    share.base = (uintptr_t)base;
    share.device = b.device;
    h.size_bytes = b.bytes;
    CCL_TRY(ccl_gpu_enter_setup_on(b.device, &guard));
    cclResult_t rc = export_block(&b, &share, &h);
    ccl_gpu_leave(&guard);
    CCL_TRY(rc);
    memcpy(h.blob, &share, sizeof(share));
    *handle = h;
    return cclSuccess;
}

/* ---- import ---- */

/* The current device may use plain memory of another device of this process. */
static cclResult_t enable_peer(int device, int peer)
{
    const struct ccl_gpu_device *own, *other;
    int can = 0;
    if (device == peer) {
        return cclSuccess;
    }
    CCL_TRY(ccl_gpu_device(device, &own));
    CCL_TRY(ccl_gpu_device(peer, &other));
    CCL_GPU_TRY(can_access_peer, &can, own->handle, other->handle);
    CCL_CHECK(can != 0, cclSystemError, CCL_RT, "device %d has no peer access to device %d", device, peer);
    bool cuda = ccl_gpu.vendor == CCL_GPU_NVIDIA;
    int error = cuda ? ccl_gpu.ctx_enable_peer(other->context, 0) : ccl_gpu.enable_peer(peer, 0);
    if (error != 0 && error != CCL_GPU_E_PEER_ENABLED) {
        return ccl_gpu_failed(error, cuda ? "ctx_enable_peer" : "enable_peer");
    }
    uint32_t type = 0, hops = 0;
    if (error == 0 && ccl_gpu.link_type != NULL && ccl_gpu.link_type(device, peer, &type, &hops) == 0) {
        CCL_LOG(CCL_LOG_INFO, CCL_RT, "device %d reaches device %d over link type %u (4: xGMI, 2: PCIe), %u hops", device, peer, type,
                hops);
    }
    return cclSuccess;
}

/* Memory of this very process: its own address, allowed for one more device. */
static cclResult_t import_own(const struct share *s, uint64_t bytes, const struct ccl_gpu_device *d, int device, void **base)
{
    struct ccl_gpu_block found;
    void *ptr = (void *)(uintptr_t)s->base;
    bool ours = ccl_gpu_block_find(ptr, &found) && found.id == s->id && found.base == ptr;
    if (ours && found.kind == CCL_GPU_VMM && found.device != device) {
        CCL_TRY(ccl_gpu_vmm_allow(d, &found));
    } else if (!ours || found.kind == CCL_GPU_PLAIN) {
        CCL_TRY(enable_peer(device, s->device));
    }
    if (ccl_gpu_block_reuse(0, 0, -1, ptr, base)) {
        return cclSuccess;
    }
    CCL_CHECK(!ours && (s->id & 1) == 0, cclSystemError, CCL_RT, "memory at %p was freed before it could be imported", ptr);
    struct ccl_gpu_block *b = calloc(1, sizeof(*b));
    CCL_CHECK(b != NULL, cclSystemError, CCL_RT, "out of memory for the record of a mapping of %llu bytes",
              (unsigned long long)bytes);
    *b = (struct ccl_gpu_block){.kind = CCL_GPU_ALIAS, .base = ptr, .bytes = bytes, .device = device, .imports = 1,
                                .process = s->process, .id = s->id, .fd = -1};
    ccl_gpu_block_add(b);
    *base = ptr;
    return cclSuccess;
}

static cclResult_t import_dmabuf(const struct share *s, int fd, struct ccl_gpu_block *b)
{
    struct ccl_hip_external desc = {.type = CCL_HIP_EXTERNAL_FD, .fd = fd, .bytes = s->offset + b->bytes};
    struct ccl_hip_external_range range = {.offset = s->offset, .bytes = b->bytes};
    void *base = NULL;
    CCL_GPU_TRY(external_import, &b->handle, &desc);
    int error = ccl_gpu.external_map(&base, b->handle, &range);
    if (error != 0) {
        ccl_gpu.external_destroy(b->handle);
        return ccl_gpu_failed(error, "external_map");
    }
    b->base = base;
    return cclSuccess;
}

static cclResult_t import_block(const struct share *s, const struct ccl_mem_handle *h, const struct ccl_gpu_device *d,
                                struct ccl_gpu_block *b)
{
    void *base = NULL;
    bool cuda = ccl_gpu.vendor == CCL_GPU_NVIDIA, before_hip6;
    CCL_CHECK(b->kind == CCL_GPU_IPC || h->fd >= 0, cclSystemError, CCL_RT, "a memory handle came without its descriptor");
    switch (b->kind) {
    case CCL_GPU_VMM:
        CCL_CHECK(d->vmm, cclSystemError, CCL_RT, "a peer shares memory by descriptors (vmm), this device cannot map it");
        return ccl_gpu_vmm_import(d, h->fd, b);
    case CCL_GPU_MEMFD: return ccl_gpu_memfd_map(h->fd, b);
    case CCL_GPU_DMABUF:
        CCL_CHECK(!cuda && ccl_gpu_uses_dmabuf(), cclSystemError, CCL_RT,
                  "a peer shares memory by DMA-BUF, this process cannot map it (CCL_IPC)");
        return import_dmabuf(s, h->fd, b);
    case CCL_GPU_IPC:
        CCL_TRY(ccl_gpu_before_hip6(&before_hip6));
        CCL_GPU_TRY(ipc_import, &base, s->ipc, cuda ? CCL_CUDA_IPC_LAZY_PEER : before_hip6 ? 0 : CCL_HIP_IPC_LAZY_PEER);
        b->base = base;
        return cclSuccess;
    case CCL_GPU_PLAIN:
    case CCL_GPU_ALIAS: break;
    }
    return ccl_error_set(cclInvalidUsage, CCL_RT, "memory handle of unknown kind %u", h->kind);
}

static cclResult_t import_foreign(const struct share *s, const struct ccl_mem_handle *h, const struct ccl_gpu_device *d, int device,
                                  void **base)
{
    if (ccl_gpu_block_reuse(s->process, s->id, device, NULL, base)) {
        return cclSuccess;
    }
    CCL_CHECK(h->kind >= CCL_GPU_VMM && h->kind <= CCL_GPU_DMABUF, cclInvalidUsage, CCL_RT, "memory handle of unknown kind %u",
              h->kind);
    struct ccl_gpu_block *b = calloc(1, sizeof(*b));
    CCL_CHECK(b != NULL, cclSystemError, CCL_RT, "out of memory for the record of a mapping of %llu bytes",
              (unsigned long long)h->size_bytes);
    *b = (struct ccl_gpu_block){.kind = (enum ccl_gpu_kind)h->kind, .bytes = h->size_bytes, .device = device, .imports = 1,
                                .process = s->process, .id = s->id, .fd = -1};
    cclResult_t rc = import_block(s, h, d, b);
    if (rc != cclSuccess) {
        free(b);
        return rc;
    }
    *base = b->base;
    ccl_gpu_block_add(b);
    return cclSuccess;
}

cclResult_t ccl_gpu_mem_import(const struct ccl_mem_handle *handle, void **base)
{
    const struct ccl_gpu_device *d;
    struct ccl_gpu_guard guard;
    struct share s;
    int device;
    memcpy(&s, handle->blob, sizeof(s));
    CCL_TRY(ccl_gpu_enter_setup(&guard, &device));
    pthread_mutex_lock(&import_lock);
    cclResult_t rc = ccl_gpu_device(device, &d);
    if (rc == cclSuccess && s.process == ccl_gpu_process()) {
        rc = import_own(&s, handle->size_bytes, d, device, base);
    } else if (rc == cclSuccess) {
        rc = import_foreign(&s, handle, d, device, base);
    }
    pthread_mutex_unlock(&import_lock);
    ccl_gpu_leave(&guard);
    return rc;
}
