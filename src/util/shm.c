/* SPDX-License-Identifier: MIT
 *
 * memfd-backed memory shared between processes. */
#include "util/shm.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/log.h"

static size_t page_round(size_t bytes)
{
    return ccl_round_up(bytes, (size_t)sysconf(_SC_PAGESIZE));
}

cclResult_t ccl_shm_map(int fd, size_t bytes, void **ptr)
{
    struct stat st;
    bytes = page_round(bytes);
    CCL_CHECK(fstat(fd, &st) == 0, cclSystemError, CCL_INIT, "fstat of shared memory fd %d: %s", fd, strerror(errno));
    CCL_CHECK((uint64_t)st.st_size >= bytes, cclSystemError, CCL_INIT, "shared memory has %lld bytes, %zu expected",
              (long long)st.st_size, bytes);
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CCL_CHECK(p != MAP_FAILED, cclSystemError, CCL_INIT, "mmap of %zu bytes of shared memory: %s", bytes, strerror(errno));
    *ptr = p;
    return cclSuccess;
}

cclResult_t ccl_shm_create(const char *name, size_t bytes, int *fd, void **ptr)
{
    int f = memfd_create(name, MFD_CLOEXEC);
    CCL_CHECK(f >= 0, cclSystemError, CCL_INIT, "memfd_create %s: %s", name, strerror(errno));
    cclResult_t rc = cclSuccess;
    if (ftruncate(f, (off_t)page_round(bytes)) != 0) {
        rc = ccl_error_set(cclSystemError, CCL_INIT, "ftruncate %s to %zu bytes: %s", name, bytes, strerror(errno));
        goto err_close_fd;
    }
    CCL_TRY_GOTO(ccl_shm_map(f, bytes, ptr), err_close_fd);
    *fd = f;
    return cclSuccess;
err_close_fd:
    close(f);
    return rc;
}

void ccl_shm_unmap(void *ptr, size_t bytes)
{
    if (ptr != NULL) {
        munmap(ptr, page_round(bytes));
    }
}
