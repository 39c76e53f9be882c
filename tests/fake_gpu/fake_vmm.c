/* SPDX-License-Identifier: MIT
 *
 * Memory that is shared by descriptors: virtual memory management (both vendors), external memory (HIP; what imports a DMA-BUF). Every physical
 * allocation is a memfd. */
#include "fake.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define GRANULE (2u << 20)

struct physical {
    int fd, refs; /* refs: the handle and each mapping */
    size_t bytes;
    int device;
};

struct mapping {
    struct mapping *next;
    char *base;
    size_t bytes;
    struct physical *physical;
};

static struct mapping *mappings;

/* CUmemAllocationProp, hipMemAllocationProp, as far as they are read here. */
struct prop {
    int type, handle_types, location_type, location_id;
};

static void drop_physical(struct physical *physical)
{
    if (--physical->refs == 0) {
        close(physical->fd);
        free(physical);
    }
}

static int bad_prop(const struct prop *prop)
{
    return prop->type != CCL_GPU_MEM_PINNED || prop->handle_types != CCL_GPU_MEM_FD ||
           prop->location_type != CCL_GPU_MEM_ON_DEVICE || prop->location_id < 0 || prop->location_id >= fake_num_devices();
}

int fake_vmm_granularity(size_t *bytes, const void *prop, int option)
{
    FAKE_ENTER(vmm_granularity);
    if (bad_prop(prop) || option < 0 || option > 1) {
        return CCL_GPU_E_INVALID_VALUE;
    }
    *bytes = GRANULE;
    return 0;
}

static int new_physical(void **handle, int fd, size_t bytes, int device)
{
    struct physical *physical = calloc(1, sizeof(*physical));
    if (physical == NULL || fd < 0) {
        free(physical);
        return CCL_GPU_E_OUT_OF_MEMORY;
    }
    *physical = (struct physical){.fd = fd, .refs = 1, .bytes = bytes, .device = device};
    pthread_mutex_lock(&fake_lock);
    fake_live.handles++;
    pthread_mutex_unlock(&fake_lock);
    *handle = physical;
    return 0;
}

int fake_vmm_create(void **handle, size_t bytes, const void *prop, unsigned long long flags)
{
    FAKE_SETUP(vmm_create);
    if (bad_prop(prop) || bytes == 0 || bytes % GRANULE != 0 || flags != 0) {
        return CCL_GPU_E_INVALID_VALUE;
    }
    int fd = memfd_create("fake-vmm", MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)bytes) != 0) {
        close(fd);
        fd = -1;
    }
    return new_physical(handle, fd, bytes, ((const struct prop *)prop)->location_id);
}

int fake_vmm_release(void *handle)
{
    FAKE_SETUP(vmm_release);
    pthread_mutex_lock(&fake_lock);
    fake_live.handles--;
    drop_physical(handle);
    pthread_mutex_unlock(&fake_lock);
    return 0;
}

int fake_vmm_export(void *fd, void *handle, int type, unsigned long long flags)
{
    FAKE_ENTER(vmm_export);
    int copy = type == CCL_GPU_MEM_FD && flags == 0 ? dup(((struct physical *)handle)->fd) : -1;
    if (copy < 0) {
        return CCL_GPU_E_INVALID_VALUE;
    }
    *(int *)fd = copy;
    return 0;
}

int fake_vmm_import(void **handle, void *fd, int type)
{
    FAKE_SETUP(vmm_import);
    struct stat st;
    int copy = type == CCL_GPU_MEM_FD ? dup((int)(intptr_t)fd) : -1;
    if (copy < 0 || fstat(copy, &st) != 0 || st.st_size % GRANULE != 0) {
        return CCL_GPU_E_INVALID_HANDLE;
    }
    return new_physical(handle, copy, (size_t)st.st_size, 0);
}

int fake_vmm_reserve(void **ptr, size_t bytes, size_t alignment, void *addr, unsigned long long flags)
{
    FAKE_SETUP(vmm_reserve);
    if (bytes == 0 || bytes % GRANULE != 0 || alignment > GRANULE || addr != NULL || flags != 0) {
        return CCL_GPU_E_INVALID_VALUE;
    }
    void *base = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
        return CCL_GPU_E_OUT_OF_MEMORY;
    }
    pthread_mutex_lock(&fake_lock);
    fake_live.reservations++;
    pthread_mutex_unlock(&fake_lock);
    *ptr = base;
    return 0;
}

int fake_vmm_unreserve(void *ptr, size_t bytes)
{
    FAKE_SETUP(vmm_unreserve);
    pthread_mutex_lock(&fake_lock);
    fake_live.reservations--;
    pthread_mutex_unlock(&fake_lock);
    return munmap(ptr, bytes) == 0 ? 0 : CCL_GPU_E_INVALID_VALUE;
}

/* Unusable until access is given. */
int fake_vmm_map(void *ptr, size_t bytes, size_t offset, void *handle, unsigned long long flags)
{
    FAKE_SETUP(vmm_map);
    struct physical *physical = handle;
    struct mapping *mapping = calloc(1, sizeof(*mapping));
    if (mapping == NULL || offset != 0 || flags != 0 || bytes > physical->bytes ||
        mmap(ptr, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, physical->fd, 0) == MAP_FAILED) {
        free(mapping);
        return CCL_GPU_E_INVALID_VALUE;
    }
    pthread_mutex_lock(&fake_lock);
    *mapping = (struct mapping){mappings, ptr, bytes, physical};
    mappings = mapping;
    physical->refs++;
    fake_live.mappings++;
    fake_note_mapping(ptr, bytes, physical->device);
    pthread_mutex_unlock(&fake_lock);
    return 0;
}

int fake_vmm_unmap(void *ptr, size_t bytes)
{
    FAKE_SETUP(vmm_unmap);
    int code = CCL_GPU_E_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    for (struct mapping **p = &mappings; *p != NULL; p = &(*p)->next) {
        struct mapping *m = *p;
        if (m->base == ptr && m->bytes == bytes) {
            *p = m->next;
            fake_forget_mapping(ptr);
            mmap(ptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
            drop_physical(m->physical);
            free(m);
            fake_live.mappings--;
            code = 0;
            break;
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_vmm_access(void *ptr, size_t bytes, const void *desc, size_t count)
{
    FAKE_SETUP(vmm_access);
    const int *access = desc; /* location type, location id, flags */
    if (count != 1 || access[0] != CCL_GPU_MEM_ON_DEVICE || access[1] >= fake_num_devices() ||
        access[2] != CCL_GPU_MEM_READ_WRITE) {
        return CCL_GPU_E_INVALID_VALUE;
    }
    return mprotect(ptr, bytes, PROT_READ | PROT_WRITE) == 0 ? 0 : CCL_GPU_E_INVALID_VALUE;
}

#ifndef FAKE_CUDA

/* hipExternalMemoryHandleDesc and hipExternalMemoryBufferDesc, as far as they are read here. */
struct handle_desc {
    int type, pad;
    union {
        int fd;
        char bytes[16];
    } handle;
    unsigned long long size;
    unsigned flags;
};
struct buffer_desc {
    unsigned long long offset, size;
    unsigned flags;
};
struct external {
    int fd, device;
    size_t bytes;
    void *mapped;
};

int fake_external_import(void **memory, const void *desc)
{
    FAKE_SETUP(external_import);
    FAKE_CURRENT(device);
    const struct handle_desc *d = desc;
    struct stat st;
    if (d->type != 1 || fstat(d->handle.fd, &st) != 0 || (unsigned long long)st.st_size > (d->size + 4095) / 4096 * 4096) {
        return CCL_GPU_E_INVALID_VALUE;
    }
    struct external *external = calloc(1, sizeof(*external));
    if (external == NULL) {
        return CCL_GPU_E_OUT_OF_MEMORY;
    }
    /* The descriptor stays the caller's: unlike CUDA, HIP maps it and keeps no copy. */
    *external = (struct external){.fd = dup(d->handle.fd), .device = device, .bytes = (size_t)d->size};
    pthread_mutex_lock(&fake_lock);
    fake_live.handles++;
    pthread_mutex_unlock(&fake_lock);
    *memory = external;
    return 0;
}

int fake_external_map(void **ptr, void *memory, const void *desc)
{
    FAKE_SETUP(external_map);
    const struct buffer_desc *d = desc;
    struct external *external = memory;
    if (external->mapped != NULL || d->flags != 0 || d->offset + d->size > external->bytes) {
        return CCL_GPU_E_INVALID_VALUE;
    }
    int rc = fake_map_peer(dup(external->fd), external->bytes, external->device, &external->mapped);
    if (rc == 0) {
        *ptr = (char *)external->mapped + d->offset;
    }
    return rc;
}

int fake_external_destroy(void *memory)
{
    FAKE_SETUP(external_destroy);
    struct external *external = memory;
    if (external->mapped != NULL) {
        fake_unmap_peer(external->mapped);
    }
    close(external->fd);
    free(external);
    pthread_mutex_lock(&fake_lock);
    fake_live.handles--;
    pthread_mutex_unlock(&fake_lock);
    return 0;
}

#endif
