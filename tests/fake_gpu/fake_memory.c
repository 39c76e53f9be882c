/* SPDX-License-Identifier: MIT
 *
 * Memory of the fake runtime: every allocation is a memfd mapping, so that another process can open it through /proc/PID/fd/N, which is all an
 * IPC handle says. */
#include "fake.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x66616b65u
#define PAGE ((size_t)4096)
#define POISON 0xa5
#define POISON_BYTES (4u << 20) /* at the start of an allocation; all of it would cost more than the tests */

enum kind { KIND_OWN, KIND_PEER, KIND_VMM, KIND_HOST };

struct block {
    struct block *next;
    char *base;
    size_t bytes; /* as asked for */
    int fd, device, refs;
    enum kind kind;
    uint64_t inode; /* KIND_PEER: same allocation */
};

struct ipc { /* in 64 bytes */
    uint32_t magic;
    int32_t pid, fd;
    uint32_t pad;
    uint64_t bytes, inode;
};

static struct block *blocks;

static uint64_t inode_of(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

static struct block *find(const void *ptr)
{
    for (struct block *b = blocks; b != NULL; b = b->next) {
        if ((const char *)ptr >= b->base && (const char *)ptr < b->base + b->bytes) {
            return b;
        }
    }
    return NULL;
}

static struct block *add(enum kind kind, void *base, size_t bytes, int fd, int device)
{
    struct block *b = calloc(1, sizeof(*b));
    if (b != NULL) {
        *b = (struct block){.next = blocks, .base = base, .bytes = bytes, .fd = fd, .device = device, .refs = 1, .kind = kind};
        b->inode = fd >= 0 ? inode_of(fd) : 0;
        blocks = b;
    }
    return b;
}

/* Pages without access on both sides, so that what overruns an allocation finds no other one. */
static size_t guarded_bytes(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE + 2 * PAGE;
}

static void *map_guarded(int fd, size_t bytes)
{
    char *all = mmap(NULL, guarded_bytes(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void *base = all != MAP_FAILED ? mmap(all + PAGE, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) : MAP_FAILED;
    if (base == MAP_FAILED && all != MAP_FAILED) {
        munmap(all, guarded_bytes(bytes));
    }
    return base;
}

static void drop(struct block *b)
{
    struct block **p = &blocks;
    while (*p != b) {
        p = &(*p)->next;
    }
    *p = b->next;
    fake_memory_gone();
    if (b->kind == KIND_OWN || b->kind == KIND_PEER) {
        munmap(b->base - PAGE, guarded_bytes(b->bytes));
    }
    if (b->fd >= 0) {
        close(b->fd);
    }
    free(b);
}

bool ccl_fake_find_memory(const void *ptr, void **base, size_t *bytes, int *device, int *fd)
{
    pthread_mutex_lock(&fake_lock);
    struct block *b = find(ptr);
    bool found = b != NULL && b->kind == KIND_OWN;
    if (found) {
        *base = b->base, *bytes = b->bytes, *device = b->device, *fd = b->fd;
    }
    pthread_mutex_unlock(&fake_lock);
    return found;
}

bool fake_find_region(uint64_t addr, uint64_t *base, uint64_t *bytes, bool *host)
{
    pthread_mutex_lock(&fake_lock);
    struct block *b = find((const void *)(uintptr_t)addr);
    if (b != NULL) {
        *base = (uintptr_t)b->base;
        *bytes = b->bytes;
        *host = b->kind == KIND_HOST;
    }
    pthread_mutex_unlock(&fake_lock);
    return b != NULL;
}

static int allocate(void **ptr, size_t bytes)
{
    FAKE_CURRENT(device);
    if (bytes == 0) {
        return CCL_GPU_E_INVALID_VALUE;
    }
    int fd = memfd_create("fake-gpu", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) {
        close(fd);
        return CCL_GPU_E_OUT_OF_MEMORY;
    }
    void *base = map_guarded(fd, bytes);
    if (base == MAP_FAILED) {
        close(fd);
        return CCL_GPU_E_OUT_OF_MEMORY;
    }
    memset(base, POISON, bytes < POISON_BYTES ? bytes : POISON_BYTES);
    pthread_mutex_lock(&fake_lock);
    fake_live.allocations++;
    add(KIND_OWN, base, bytes, fd, device);
    pthread_mutex_unlock(&fake_lock);
    *ptr = base;
    return 0;
}

int fake_mem_alloc(void **ptr, size_t bytes)
{
    FAKE_SETUP(mem_alloc);
    return allocate(ptr, bytes);
}

#ifndef FAKE_CUDA
int fake_mem_alloc_flags(void **ptr, size_t bytes, unsigned flags)
{
    FAKE_SETUP(mem_alloc_flags);
    return flags > (fake_before_hip6() ? 1 : 4) ? CCL_GPU_E_INVALID_VALUE : allocate(ptr, bytes);
}
#endif

int fake_mem_free(void *ptr)
{
    FAKE_SETUP(mem_free);
    if (ptr == NULL) {
        return 0;
    }
    pthread_mutex_lock(&fake_lock);
    struct block *b = find(ptr);
    int device = b != NULL ? b->device : 0;
    pthread_mutex_unlock(&fake_lock);
    if (strcmp(fake_setting("FAKE_GPU_FREE_WAITS", "1"), "0") != 0) {
        fake_settle(device); /* as the real one: what was enqueued on the device ends first */
    }
    pthread_mutex_lock(&fake_lock);
    b = find(ptr);
    bool ours = b != NULL && b->kind == KIND_OWN && b->base == ptr;
    if (ours) {
        drop(b);
        fake_live.allocations--;
    }
    pthread_mutex_unlock(&fake_lock);
    return ours ? 0 : CCL_GPU_E_INVALID_VALUE;
}

int fake_host_register(void *ptr, size_t bytes, unsigned flags)
{
    FAKE_SETUP(host_register);
    FAKE_CURRENT(device);
    if (ptr == NULL || bytes == 0 || flags > 0xf) {
        return CCL_GPU_E_INVALID_VALUE;
    }
    pthread_mutex_lock(&fake_lock);
    struct block *b = find(ptr);
    if (b == NULL) {
        add(KIND_HOST, ptr, bytes, -1, device);
        fake_live.registrations++;
    }
    pthread_mutex_unlock(&fake_lock);
    return b != NULL ? CCL_GPU_E_HOST_REGISTERED : 0;
}

int fake_host_unregister(void *ptr)
{
    FAKE_SETUP(host_unregister);
    pthread_mutex_lock(&fake_lock);
    struct block *b = find(ptr);
    bool ours = b != NULL && b->kind == KIND_HOST && b->base == ptr;
    if (ours) {
        drop(b);
        fake_live.registrations--;
    }
    pthread_mutex_unlock(&fake_lock);
    return ours ? 0 : CCL_GPU_E_HOST_NOT_REGISTERED;
}

int fake_host_device_pointer(void **dev, void *ptr, unsigned flags)
{
    FAKE_ENTER(host_device_pointer);
    pthread_mutex_lock(&fake_lock);
    struct block *b = find(ptr);
    pthread_mutex_unlock(&fake_lock);
    if (b == NULL || b->kind != KIND_HOST || flags != 0) {
        return CCL_GPU_E_INVALID_VALUE;
    }
    *dev = ptr;
    return 0;
}

int fake_address_range(void **base, size_t *bytes, void *ptr)
{
    FAKE_ENTER(address_range);
    pthread_mutex_lock(&fake_lock);
    struct block *b = find(ptr);
    bool device = b != NULL && b->kind != KIND_HOST;
    if (device) {
        *base = b->base;
        *bytes = b->bytes;
    }
    pthread_mutex_unlock(&fake_lock);
    return device ? 0 : CCL_GPU_E_NOT_FOUND;
}

int fake_pointer_attribute(void *value, int attribute, void *ptr)
{
    FAKE_ENTER(pointer_attribute);
    pthread_mutex_lock(&fake_lock);
    struct block found = {0}, *b = find(ptr);
    if (b != NULL) {
        found = *b;
    }
    pthread_mutex_unlock(&fake_lock);
    if (b == NULL) {
        return CCL_GPU_E_INVALID_VALUE;
    }
    switch (attribute) {
    case CCL_GPU_PTR_MEMORY_TYPE:
        *(unsigned *)value = found.kind == KIND_HOST ? 1 : 2;
        return 0;
    case CCL_GPU_PTR_DEVICE:
        *(int *)value = found.device;
        return 0;
    case CCL_GPU_PTR_IPC_CAPABLE:
        *(int *)value = found.kind == KIND_OWN;
        return 0;
    case CCL_GPU_PTR_HOST:
        *(void **)value = ptr;
        return found.kind == KIND_HOST ? 0 : CCL_GPU_E_INVALID_VALUE;
    case 8: /* managed */
        *(int *)value = 0;
        return 0;
    case 6: /* synchronous copies, set only */
        return 0;
    case 7: /* buffer id */
        *(uint64_t *)value = found.inode;
        return 0;
    case 11: /* start */
        *(void **)value = found.base;
        return 0;
    case 12: /* size */
        *(size_t *)value = found.bytes;
        return 0;
    case 14: /* handle types that may be exported */
        *(uint64_t *)value = found.kind == KIND_VMM;
        return 0;
    default:
        return CCL_GPU_E_INVALID_VALUE;
    }
}

/* ---- other processes ---- */

int fake_ipc_export(void *handle64, void *ptr)
{
    FAKE_ENTER(ipc_export);
    struct ipc ipc = {.magic = MAGIC, .pid = getpid()};
    pthread_mutex_lock(&fake_lock);
    struct block *b = find(ptr);
    bool ours = b != NULL && b->kind == KIND_OWN;
    if (ours) {
        ipc.fd = b->fd, ipc.bytes = b->bytes, ipc.inode = b->inode;
    }
    pthread_mutex_unlock(&fake_lock);
    if (!ours) {
        return CCL_GPU_E_INVALID_VALUE;
    }
    memset(handle64, 0, 64);
    memcpy(handle64, &ipc, sizeof(ipc));
    return 0;
}

/* Takes fd over. The same allocation mapped again gives the same address. */
int fake_map_peer(int fd, size_t bytes, int device, void **ptr)
{
    uint64_t inode = inode_of(fd);
    pthread_mutex_lock(&fake_lock);
    for (struct block *b = blocks; b != NULL; b = b->next) {
        if (b->kind == KIND_PEER && b->inode == inode) {
            b->refs++;
            *ptr = b->base;
            fake_live.mappings++;
            pthread_mutex_unlock(&fake_lock);
            close(fd);
            return 0;
        }
    }
    void *base = map_guarded(fd, bytes);
    if (base != MAP_FAILED) {
        add(KIND_PEER, base, bytes, fd, device);
        fake_live.mappings++;
        *ptr = base;
    }
    pthread_mutex_unlock(&fake_lock);
    if (base == MAP_FAILED) {
        close(fd);
    }
    return base != MAP_FAILED ? 0 : CCL_GPU_E_MAP_FAILED;
}

int fake_unmap_peer(const void *ptr)
{
    pthread_mutex_lock(&fake_lock);
    struct block *b = find(ptr);
    bool ours = b != NULL && b->kind == KIND_PEER && b->base == ptr;
    if (ours) {
        fake_live.mappings--;
        if (--b->refs == 0) {
            drop(b);
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return ours ? 0 : CCL_GPU_E_INVALID_VALUE;
}

int fake_ipc_import(void **ptr, struct ccl_gpu_ipc handle, unsigned flags)
{
    FAKE_SETUP(ipc_import);
    FAKE_CURRENT(device);
    struct ipc ipc;
    char path[64];
    memcpy(&ipc, &handle, sizeof(ipc));
    if (ipc.magic != MAGIC || flags != !fake_before_hip6()) {
        return CCL_GPU_E_INVALID_VALUE;
    }
    if (ipc.pid == getpid()) {
        return CCL_GPU_E_INVALID_CONTEXT; /* not in the process that owns it */
    }
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", ipc.pid, ipc.fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || inode_of(fd) != ipc.inode) {
        close(fd);
        return CCL_GPU_E_MAP_FAILED; /* it has been freed */
    }
    return fake_map_peer(fd, ipc.bytes, device, ptr);
}

int fake_ipc_close(void *ptr)
{
    FAKE_SETUP(ipc_close);
    return fake_unmap_peer(ptr);
}

/* ---- mappings made by fake_vmm.c ---- */

void fake_note_mapping(void *base, size_t bytes, int device)
{
    add(KIND_VMM, base, bytes, -1, device);
}

bool fake_forget_mapping(const void *base)
{
    struct block *b = find(base);
    bool ours = b != NULL && b->kind == KIND_VMM && b->base == base;
    if (ours) {
        drop(b);
    }
    return ours;
}
