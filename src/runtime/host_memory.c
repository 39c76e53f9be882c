/* SPDX-License-Identifier: MIT
 *
 * The registry is an array of entries sorted by address under one lock: calls are rare and never on the path of an
 * operation.
 *
 * memfd pages are made at the first touch, and a touch that finds no memory is a SIGBUS or the out-of-memory killer,
 * long after the allocation. So every 16 MiB the free memory of the machine is compared with what was promised and not
 * yet touched. */
#include "runtime/host_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/host_machine.h"
#include "util/log.h"

#define HANDLE_MEMFD 0x6d656d66u /* ccl_mem_handle.kind */
#define CHECK_BYTES ((size_t)16 << 20)
#define HUGE_BYTES ((size_t)2 << 20)

struct entry {
    char *base;
    size_t map_bytes; /* whole pages */
    int fd;           /* -1: imported, or freed with imports left */
    bool owned;       /* allocated here and not yet freed */
    uint64_t imports;
    dev_t dev;
    ino_t ino;
};

static struct {
    pthread_mutex_t lock;
    struct entry *entries; /* by base, ascending */
    size_t count, room;
    size_t unchecked_bytes; /* allocated since free memory was last looked at */
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* All static functions below: under the lock. */

/* Index of the first entry whose base is above ptr. */
static size_t upper_bound(const void *ptr)
{
    size_t low = 0, high = registry.count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if ((uintptr_t)registry.entries[mid].base <= (uintptr_t)ptr) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

static struct entry *find_address(const void *ptr)
{
    size_t i = upper_bound(ptr);
    struct entry *e = i > 0 ? &registry.entries[i - 1] : NULL;
    return e != NULL && (uintptr_t)ptr - (uintptr_t)e->base < e->map_bytes ? e : NULL;
}

static struct entry *find_base(const void *base)
{
    struct entry *e = find_address(base);
    return e != NULL && e->base == base ? e : NULL;
}

static struct entry *find_inode(const struct stat *st)
{
    for (size_t i = 0; i < registry.count; i++) {
        struct entry *e = &registry.entries[i];
        if (e->ino == st->st_ino && e->dev == st->st_dev) {
            return e;
        }
    }
    return NULL;
}

static cclResult_t reserve_entry(void)
{
    if (registry.count == registry.room) {
        size_t room = registry.room > 0 ? registry.room * 2 : 64;
        struct entry *entries = realloc(registry.entries, room * sizeof(*entries));
        CCL_CHECK(entries != NULL, cclSystemError, CCL_RT, "out of memory for the record of allocation %zu",
                  registry.count);
        registry.entries = entries;
        registry.room = room;
    }
    return cclSuccess;
}

/* After reserve_entry. */
static void insert_entry(const struct entry *e)
{
    size_t i = upper_bound(e->base);
    memmove(&registry.entries[i + 1], &registry.entries[i], (registry.count - i) * sizeof(*e));
    registry.entries[i] = *e;
    registry.count++;
}

static void drop_unused(struct entry *e)
{
    if (e->owned || e->imports > 0) {
        return;
    }
    munmap(e->base, e->map_bytes);
    size_t i = (size_t)(e - registry.entries);
    registry.count--;
    memmove(e, e + 1, (registry.count - i) * sizeof(*e));
}

/* Bytes that this process allocated and nobody has touched yet. */
static uint64_t untouched_bytes(void)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < registry.count; i++) {
        const struct entry *e = &registry.entries[i];
        struct stat st;
        if (e->fd >= 0 && fstat(e->fd, &st) == 0 && (uint64_t)st.st_blocks * 512 < e->map_bytes) {
            sum += e->map_bytes - (uint64_t)st.st_blocks * 512;
        }
    }
    return sum;
}

static cclResult_t check_free_memory(size_t bytes)
{
    struct rlimit limit;
    /* Growing a file beyond this limit is a signal, not an error. */
    bool limited = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    CCL_CHECK(!limited || bytes <= limit.rlim_cur, cclSystemError, CCL_RT,
              "allocation of %zu bytes exceeds the file size limit of %llu bytes", bytes,
              (unsigned long long)limit.rlim_cur);
    if (bytes >= CHECK_BYTES || registry.unchecked_bytes + bytes >= CHECK_BYTES) {
        uint64_t left = ccl_host_machine_free_bytes(), promised = untouched_bytes();
        CCL_CHECK(promised < left && bytes <= left - promised, cclSystemError, CCL_RT,
                  "out of memory: allocation of %zu bytes, %llu are free and %llu of these promised to earlier ones",
                  bytes, (unsigned long long)left, (unsigned long long)promised);
        registry.unchecked_bytes = 0;
    } else {
        registry.unchecked_bytes += bytes;
    }
    return cclSuccess;
}

static cclResult_t map_memfd(int fd, size_t bytes, struct entry *e)
{
    struct stat st;
    CCL_CHECK(fstat(fd, &st) == 0, cclSystemError, CCL_RT, "fstat of device memory fd %d: %s", fd, strerror(errno));
    CCL_CHECK((uint64_t)st.st_size >= bytes, cclSystemError, CCL_RT, "device memory fd %d has %lld bytes, %zu expected",
              fd, (long long)st.st_size, bytes);
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CCL_CHECK(p != MAP_FAILED, cclSystemError, CCL_RT, "mmap of %zu bytes of device memory: %s", bytes,
              strerror(errno));
    if (bytes >= HUGE_BYTES) {
        madvise(p, bytes, MADV_HUGEPAGE); /* where shmem_enabled is "advise"; elsewhere it changes nothing */
    }
    *e = (struct entry){.base = p, .map_bytes = bytes, .fd = -1, .dev = st.st_dev, .ino = st.st_ino};
    return cclSuccess;
}

static cclResult_t create_memfd(size_t bytes, int *out)
{
    int fd = memfd_create("ccl-device", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CCL_CHECK(fd >= 0, cclSystemError, CCL_RT, "memfd_create for %zu bytes of device memory: %s", bytes,
              strerror(errno));
    /* Sealed: nobody who gets the descriptor can pull the pages away from under the others. */
    if (ftruncate(fd, (off_t)bytes) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        int err = errno;
        close(fd);
        return ccl_error_set(cclSystemError, CCL_RT, "memfd of %zu bytes of device memory: %s", bytes, strerror(err));
    }
    *out = fd;
    return cclSuccess;
}

static cclResult_t alloc_locked(size_t bytes, void **ptr)
{
    struct entry e;
    int fd = -1;
    cclResult_t rc;
    CCL_TRY(check_free_memory(bytes));
    CCL_TRY(reserve_entry());
    CCL_TRY(create_memfd(bytes, &fd));
    CCL_TRY_GOTO(map_memfd(fd, bytes, &e), err_close_fd);
    e.fd = fd;
    e.owned = true;
    insert_entry(&e);
    *ptr = e.base;
    return cclSuccess;
err_close_fd:
    close(fd);
    return rc;
}

cclResult_t ccl_host_memory_alloc(enum ccl_mem_type type, size_t bytes, void **ptr)
{
    (void)type; /* one kind of memory serves both */
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    CCL_CHECK(bytes > 0, cclInvalidArgument, CCL_RT, "allocation of 0 bytes");
    CCL_CHECK(bytes <= PTRDIFF_MAX - page, cclSystemError, CCL_RT, "out of memory: allocation of %zu bytes", bytes);
    pthread_mutex_lock(&registry.lock);
    cclResult_t rc = alloc_locked(ccl_round_up(bytes, page), ptr);
    pthread_mutex_unlock(&registry.lock);
    return rc;
}

cclResult_t ccl_host_memory_free(void *ptr)
{
    if (ptr == NULL) {
        return cclSuccess;
    }
    pthread_mutex_lock(&registry.lock);
    struct entry *e = find_base(ptr);
    bool known = e != NULL && e->owned;
    if (known) {
        close(e->fd);
        e->fd = -1;
        e->owned = false;
        drop_unused(e);
    }
    pthread_mutex_unlock(&registry.lock);
    CCL_CHECK(known, cclInvalidArgument, CCL_RT, "free of %p, which is not the start of a device allocation", ptr);
    return cclSuccess;
}

cclResult_t ccl_host_memory_query(const void *ptr, struct ccl_pointer_attr *attr)
{
    struct ccl_pointer_attr found = {.device = -1};
    pthread_mutex_lock(&registry.lock);
    const struct entry *e = find_address(ptr);
    if (e != NULL) {
        found = (struct ccl_pointer_attr){e->base, e->map_bytes, .device = 0, .exportable = e->fd >= 0};
    }
    pthread_mutex_unlock(&registry.lock);
    *attr = found;
    return cclSuccess;
}

cclResult_t ccl_host_memory_export(void *base, struct ccl_mem_handle *handle)
{
    int fd = -1, err = 0;
    size_t bytes = 0;
    pthread_mutex_lock(&registry.lock);
    struct entry *e = find_base(base);
    bool exportable = e != NULL && e->fd >= 0;
    if (exportable) {
        bytes = e->map_bytes;
        fd = fcntl(e->fd, F_DUPFD_CLOEXEC, 0);
        err = errno;
    }
    pthread_mutex_unlock(&registry.lock);
    CCL_CHECK(exportable, cclInvalidUsage, CCL_RT,
              "export of %p, which is not the start of a device allocation of this process", base);
    CCL_CHECK(fd >= 0, cclSystemError, CCL_RT, "dup for the export of %zu bytes at %p: %s", bytes, base, strerror(err));
    *handle = (struct ccl_mem_handle){.size_bytes = bytes, .fd = fd, .kind = HANDLE_MEMFD, .counted = true};
    return cclSuccess;
}

static cclResult_t import_locked(const struct ccl_mem_handle *handle, void **base)
{
    struct stat st;
    struct entry fresh;
    CCL_CHECK(fstat(handle->fd, &st) == 0, cclSystemError, CCL_RT, "fstat of imported memory fd %d: %s", handle->fd,
              strerror(errno));
    struct entry *e = find_inode(&st);
    if (e != NULL) {
        CCL_CHECK(handle->size_bytes == e->map_bytes, cclSystemError, CCL_RT,
                  "import of %llu bytes of an allocation that has %zu", (unsigned long long)handle->size_bytes,
                  e->map_bytes);
        e->imports++;
        *base = e->base;
        return cclSuccess;
    }
    CCL_TRY(reserve_entry());
    CCL_TRY(map_memfd(handle->fd, handle->size_bytes, &fresh));
    fresh.imports = 1;
    insert_entry(&fresh);
    *base = fresh.base;
    return cclSuccess;
}

cclResult_t ccl_host_memory_import(const struct ccl_mem_handle *handle, void **base)
{
    CCL_CHECK(handle->kind == HANDLE_MEMFD && handle->size_bytes > 0, cclSystemError, CCL_RT,
              "import of memory of kind %#x with %llu bytes, not from a host backend", handle->kind,
              (unsigned long long)handle->size_bytes);
    pthread_mutex_lock(&registry.lock);
    cclResult_t rc = import_locked(handle, base);
    pthread_mutex_unlock(&registry.lock);
    return rc;
}

cclResult_t ccl_host_memory_close(void *base)
{
    if (base == NULL) {
        return cclSuccess;
    }
    pthread_mutex_lock(&registry.lock);
    struct entry *e = find_base(base);
    bool known = e != NULL && e->imports > 0;
    if (known) {
        e->imports--;
        drop_unused(e);
    }
    pthread_mutex_unlock(&registry.lock);
    CCL_CHECK(known, cclInvalidArgument, CCL_RT, "close of %p, which is not an imported allocation", base);
    return cclSuccess;
}

size_t ccl_host_memory_count(void)
{
    pthread_mutex_lock(&registry.lock);
    size_t count = registry.count;
    pthread_mutex_unlock(&registry.lock);
    return count;
}
