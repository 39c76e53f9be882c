/* SPDX-License-Identifier: MIT
 *
 * Allocation, the list of what is allocated and mapped here, and questions about pointers. No driver call is made under the list's lock: some wait
 * for running kernels, which may wait for a thread that needs the list. */
#include "runtime/gpu_memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "runtime/gpu_hsa.h"
#include "util/config.h"

enum heap_mem { HEAP_AUTO, HEAP_FINE, HEAP_COARSE, HEAP_UNCACHED, HEAP_HOST };
enum ipc { IPC_AUTO, IPC_DMABUF, IPC_VMM, IPC_LEGACY };

static enum heap_mem heap_mem;
static enum ipc ipc;
static uint64_t process_number;

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ccl_gpu_block *list;
static uint64_t last_id;

static bool is_cuda(void)
{
    return ccl_gpu.vendor == CCL_GPU_NVIDIA;
}

/* ---- configuration ---- */

static int find_word(const char *word, const char *const *words, int count)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(word, words[i]) == 0) {
            return i;
        }
    }
    return -1;
}

cclResult_t ccl_gpu_memory_config(void)
{
    static const char *const mem_words[] = {"auto", "fine", "coarse", "uncached", "host"};
    static const char *const ipc_words[] = {"auto", "dmabuf", "vmm", "hipipc"};
    const struct ccl_env *env = ccl_env_get();
    int mem = find_word(env->heap_mem, mem_words, (int)CCL_ARRAY_LEN(mem_words));
    int how = find_word(env->ipc, ipc_words, (int)CCL_ARRAY_LEN(ipc_words));
    CCL_CHECK(mem >= 0, cclInvalidArgument, CCL_RT, "CCL_HEAP_MEM is %s, not auto, fine, coarse, uncached or host",
              env->heap_mem);
    CCL_CHECK(how >= 0, cclInvalidArgument, CCL_RT, "CCL_IPC is %s, not auto, dmabuf, vmm or hipipc", env->ipc);
    CCL_CHECK(how != (is_cuda() ? IPC_DMABUF : IPC_VMM), cclInvalidUsage, CCL_RT, "CCL_IPC is %s, which is not used on %s devices",
              env->ipc, is_cuda() ? "NVIDIA" : "AMD");
    heap_mem = (enum heap_mem)mem;
    ipc = (enum ipc)how;
    CCL_CHECK(getrandom(&process_number, sizeof(process_number), 0) == (ssize_t)sizeof(process_number), cclSystemError, CCL_RT,
              "getrandom failed");
    return cclSuccess;
}

uint64_t ccl_gpu_process(void)
{
    return process_number ^ (uint64_t)getpid() << 32; /* a forked child has another number */
}

bool ccl_gpu_uses_dmabuf(void)
{
    return !is_cuda() && ipc != IPC_LEGACY && ccl_gpu.external_import != NULL && ccl_gpu.external_map != NULL &&
           ccl_gpu.external_destroy != NULL && ccl_gpu_hsa_can_export();
}

static bool uses_vmm(const struct ccl_gpu_device *d)
{
    return is_cuda() && d->vmm && ipc != IPC_LEGACY;
}

const char *ccl_gpu_share_name(const struct ccl_gpu_device *d)
{
    return uses_vmm(d) ? "descriptors (vmm)" : ccl_gpu_uses_dmabuf() ? "descriptors (dmabuf)" : "legacy IPC";
}

/* ---- the list ---- */

void ccl_gpu_block_add(struct ccl_gpu_block *b)
{
    pthread_mutex_lock(&list_lock);
    b->next = list;
    list = b;
    pthread_mutex_unlock(&list_lock);
}

bool ccl_gpu_block_find(const void *ptr, struct ccl_gpu_block *out)
{
    bool found = false;
    pthread_mutex_lock(&list_lock);
    for (const struct ccl_gpu_block *b = list; b != NULL && !found; b = b->next) {
        /* An alias is a note about memory that its user may have freed since. */
        found = b->kind != CCL_GPU_ALIAS && (uintptr_t)ptr - (uintptr_t)b->base < b->bytes;
        if (found) {
            *out = *b;
        }
    }
    pthread_mutex_unlock(&list_lock);
    return found;
}

bool ccl_gpu_block_reuse(uint64_t process, uint64_t id, int device, const void *base, void **mapped)
{
    bool found = false;
    pthread_mutex_lock(&list_lock);
    for (struct ccl_gpu_block *b = list; b != NULL && !found; b = b->next) {
        found = device >= 0 ? b->process == process && b->id == id && b->device == device : b->base == base;
        if (found) {
            b->imports++;
            *mapped = b->base;
        }
    }
    pthread_mutex_unlock(&list_lock);
    return found;
}

/* One owner or importer of the block at base less; *gone: the record, when it was the last. False: base is no such block. */
static bool drop(const void *base, bool owner, struct ccl_gpu_block **gone)
{
    bool found = false;
    *gone = NULL;
    pthread_mutex_lock(&list_lock);
    for (struct ccl_gpu_block **link = &list; *link != NULL && !found; link = found ? link : &(*link)->next) {
        struct ccl_gpu_block *b = *link;
        found = b->base == base && (owner ? b->owned : b->imports > 0);
        if (found) {
            b->owned = b->owned && !owner;
            b->imports -= owner ? 0 : 1;
            if (!b->owned && b->imports == 0) {
                *link = b->next;
                *gone = b;
            }
        }
    }
    pthread_mutex_unlock(&list_lock);
    return found;
}

static cclResult_t release(const struct ccl_gpu_block *b)
{
    switch (b->kind) {
    case CCL_GPU_PLAIN: CCL_GPU_TRY(mem_free, b->base); break;
    case CCL_GPU_VMM: return ccl_gpu_vmm_free(b);
    case CCL_GPU_MEMFD: return ccl_gpu_memfd_unmap(b);
    case CCL_GPU_IPC: CCL_GPU_TRY(ipc_close, b->base); break;
    case CCL_GPU_DMABUF: CCL_GPU_TRY(external_destroy, b->handle); break;
    case CCL_GPU_ALIAS: break;
    }
    return cclSuccess;
}

cclResult_t ccl_gpu_block_destroy(struct ccl_gpu_block *b)
{
    struct ccl_gpu_guard guard;
    cclResult_t rc = ccl_gpu_enter_setup_on(b->device, &guard);
    if (rc == cclSuccess && b->kind == CCL_GPU_PLAIN) {
        rc = ccl_gpu_free_plain(b);
        ccl_gpu_leave(&guard);
        return rc;
    }
    if (rc == cclSuccess) {
        rc = release(b);
        ccl_gpu_leave(&guard);
    }
    free(b);
    return rc;
}

cclResult_t ccl_gpu_mem_free(void *ptr)
{
    struct ccl_gpu_block *gone;
    ccl_gpu_free_deferred();
    if (ptr == NULL) {
        return cclSuccess;
    }
    CCL_CHECK(drop(ptr, true, &gone), cclInvalidArgument, CCL_RT, "pointer %p to free is not an allocation of this library", ptr);
    return gone != NULL ? ccl_gpu_block_destroy(gone) : cclSuccess;
}

cclResult_t ccl_gpu_mem_close(void *base)
{
    struct ccl_gpu_block *gone;
    CCL_CHECK(drop(base, false, &gone), cclInvalidArgument, CCL_RT, "pointer %p to close was not imported", base);
    return gone != NULL ? ccl_gpu_block_destroy(gone) : cclSuccess;
}

/* ---- allocation ---- */

static cclResult_t alloc_plain(enum ccl_mem_type type, struct ccl_gpu_block *b)
{
    void *base = NULL;
    int error;
    bool before_hip6;
    CCL_TRY(ccl_gpu_before_hip6(&before_hip6));
    CCL_CHECK(!before_hip6 || type == CCL_MEM_FLAG || heap_mem != HEAP_UNCACHED, cclInvalidUsage, CCL_RT,
              "CCL_HEAP_MEM=uncached needs HIP 6 or later (fine is there in all)");
    if (is_cuda() || (type == CCL_MEM_DATA && heap_mem == HEAP_COARSE)) {
        error = ccl_gpu.mem_alloc(&base, b->bytes);
    } else {
        /* Flag words may be fine-grained too: every access to them has system scope. */
        bool uncached = !before_hip6 && (type == CCL_MEM_FLAG || heap_mem == HEAP_UNCACHED);
        error = ccl_gpu.mem_alloc_flags(&base, b->bytes, uncached ? CCL_HIP_MALLOC_UNCACHED : CCL_HIP_MALLOC_FINE);
    }
    CCL_CHECK(error != CCL_GPU_E_OUT_OF_MEMORY, cclSystemError, CCL_RT, "out of memory: %zu bytes on device %d", b->bytes, b->device);
    b->base = base;
    return error == 0 ? cclSuccess : ccl_gpu_failed(error, is_cuda() ? "mem_alloc" : "mem_alloc_flags");
}

static cclResult_t zero(const struct ccl_gpu_device *d, const struct ccl_gpu_block *b)
{
    CCL_GPU_TRY(fill, b->base, 0, b->bytes, d->stream);
    int error = ccl_gpu_outlast(ccl_gpu.stream_sync, ccl_gpu.stream_query, d->stream); /* on failure b is released */
    return error == 0 ? cclSuccess : ccl_gpu_failed(error, "stream_sync");
}

/* With the device current. */
static cclResult_t alloc_block(enum ccl_mem_type type, const struct ccl_gpu_device *d, struct ccl_gpu_block *b)
{
    if (type == CCL_MEM_HOST) {
        b->kind = CCL_GPU_MEMFD; /* new pages are zero */
        return ccl_gpu_memfd_map(-1, b);
    }
    if (uses_vmm(d)) {
        b->kind = CCL_GPU_VMM;
        CCL_TRY(ccl_gpu_vmm_alloc(d, b));
    } else {
        b->kind = CCL_GPU_PLAIN;
        CCL_TRY(alloc_plain(type, b));
    }
    cclResult_t rc = zero(d, b);
    if (rc != cclSuccess) {
        release(b);
    }
    return rc;
}

cclResult_t ccl_gpu_mem_alloc(enum ccl_mem_type type, size_t bytes, void **ptr)
{
    const struct ccl_gpu_device *d;
    struct ccl_gpu_guard guard;
    int device;
    CCL_CHECK(bytes > 0 && bytes <= SIZE_MAX / 2, cclInvalidArgument, CCL_RT, "allocation of %zu bytes", bytes);
    struct ccl_gpu_block *b = calloc(1, sizeof(*b));
    CCL_CHECK(b != NULL, cclSystemError, CCL_RT, "out of memory for the record of an allocation of %zu bytes", bytes);
    cclResult_t rc;
    ccl_gpu_free_deferred();
    CCL_TRY_GOTO(ccl_gpu_enter_setup(&guard, &device), err_free);
    b->bytes = bytes;
    b->device = device;
    b->owned = true;
    b->fd = -1;
    b->process = ccl_gpu_process();
    b->id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED) << 1 | 1; /* odd: ours; even: what the driver calls it */
    rc = ccl_gpu_device(device, &d);
    rc = rc == cclSuccess ? alloc_block(type, d, b) : rc;
    ccl_gpu_leave(&guard);
    if (rc != cclSuccess) {
        goto err_free;
    }
    *ptr = b->base;
    ccl_gpu_block_add(b);
    return cclSuccess;
err_free:
    free(b);
    return rc;
}

/* ---- pointers ---- */

static int attribute(const void *ptr, int name, int fallback)
{
    int value = 0;
    void *p;
    memcpy(&p, &ptr, sizeof(p));
    return ccl_gpu.pointer_attribute(&value, name, p) == 0 ? value : fallback;
}

/* HIP's numbers of memory types differ between its versions; a pointer with a host address is host memory in all. */
static bool is_device_memory(const void *ptr)
{
    if (is_cuda()) {
        return attribute(ptr, CCL_GPU_PTR_MEMORY_TYPE, 0) == CCL_CUDA_MEMORY_DEVICE && attribute(ptr, CCL_GPU_PTR_MANAGED, 0) == 0;
    }
    void *host = NULL, *p;
    memcpy(&p, &ptr, sizeof(p));
    bool on_host = ccl_gpu.pointer_attribute(&host, CCL_GPU_PTR_HOST, p) == 0 && host != NULL;
    return !on_host && attribute(ptr, CCL_GPU_PTR_DEVICE, -1) >= 0;
}

static void query_driver(const void *ptr, struct ccl_pointer_attr *attr)
{
    void *base = NULL, *p;
    size_t bytes = 0;
    memcpy(&p, &ptr, sizeof(p));
    if (!is_device_memory(ptr)) {
        return;
    }
    attr->device = attribute(ptr, CCL_GPU_PTR_DEVICE, -1);
    if (ccl_gpu.address_range(&base, &bytes, p) == 0) {
        attr->base = base;
        attr->size_bytes = bytes;
        /* HIP before 6 does not know this attribute; there every hipMalloc can be exported. */
        attr->exportable = attribute(base, CCL_GPU_PTR_IPC_CAPABLE, is_cuda() ? 0 : 1) != 0;
    }
}

cclResult_t ccl_gpu_pointer_query(const void *ptr, struct ccl_pointer_attr *attr)
{
    struct ccl_pointer_attr found = {.device = -1};
    struct ccl_gpu_block b;
    struct ccl_gpu_guard guard;
    if (ccl_gpu_block_find(ptr, &b)) {
        found = (struct ccl_pointer_attr){b.base, b.bytes, b.device, b.owned};
    } else if (ccl_gpu_enter_setup(&guard, NULL) == cclSuccess) {
        query_driver(ptr, &found);
        ccl_gpu_leave(&guard);
    }
    *attr = found;
    return cclSuccess;
}
