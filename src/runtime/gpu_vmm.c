/* SPDX-License-Identifier: MIT
 *
 * The two kinds of memory that pass between processes as file descriptors and stay alive as long as anybody maps them: device memory of the
 * CUDA driver's virtual memory calls, and shared host memory that devices are allowed to use. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/gpu_memory.h"

static struct ccl_cuda_alloc_prop prop_of(const struct ccl_gpu_device *d)
{
    return (struct ccl_cuda_alloc_prop){CCL_GPU_MEM_PINNED, CCL_GPU_MEM_FD, {CCL_GPU_MEM_ON_DEVICE, d->handle}, NULL, 0, 0, 0, {0}};
}

static cclResult_t map(const struct ccl_gpu_device *d, struct ccl_gpu_block *b)
{
    void *base = NULL;
    int error = ccl_gpu.vmm_reserve(&base, b->bytes, 0, NULL, 0);
    CCL_CHECK(error != CCL_GPU_E_OUT_OF_MEMORY, cclSystemError, CCL_RT, "out of addresses for %zu bytes on device %d", b->bytes, b->device);
    if (error != 0) {
        return ccl_gpu_failed(error, "vmm_reserve");
    }
    b->base = base;
    error = ccl_gpu.vmm_map(base, b->bytes, 0, b->handle, 0);
    if (error != 0) {
        ccl_gpu.vmm_unreserve(base, b->bytes);
        return ccl_gpu_failed(error, "vmm_map");
    }
    cclResult_t rc = ccl_gpu_vmm_allow(d, b);
    if (rc != cclSuccess) {
        ccl_gpu.vmm_unmap(base, b->bytes);
        ccl_gpu.vmm_unreserve(base, b->bytes);
    }
    return rc;
}

cclResult_t ccl_gpu_vmm_allow(const struct ccl_gpu_device *d, const struct ccl_gpu_block *b)
{
    struct ccl_cuda_access desc = {{CCL_GPU_MEM_ON_DEVICE, d->handle}, CCL_GPU_MEM_READ_WRITE};
    CCL_GPU_TRY(vmm_access, b->base, b->bytes, &desc, 1);
    return cclSuccess;
}

cclResult_t ccl_gpu_vmm_alloc(const struct ccl_gpu_device *d, struct ccl_gpu_block *b)
{
    struct ccl_cuda_alloc_prop prop = prop_of(d);
    b->bytes = ccl_round_up(b->bytes, d->vmm_granule);
    int error = ccl_gpu.vmm_create(&b->handle, b->bytes, &prop, 0);
    CCL_CHECK(error != CCL_GPU_E_OUT_OF_MEMORY, cclSystemError, CCL_RT, "out of memory: %zu bytes on device %d", b->bytes, b->device);
    if (error != 0) {
        return ccl_gpu_failed(error, "vmm_create");
    }
    cclResult_t rc = map(d, b);
    if (rc != cclSuccess) {
        ccl_gpu.vmm_release(b->handle);
    }
    return rc;
}

cclResult_t ccl_gpu_vmm_export(const struct ccl_gpu_block *b, int *fd)
{
    int out = -1;
    CCL_GPU_TRY(vmm_export, &out, b->handle, CCL_GPU_MEM_FD, 0);
    *fd = out;
    return cclSuccess;
}

cclResult_t ccl_gpu_vmm_import(const struct ccl_gpu_device *d, int fd, struct ccl_gpu_block *b)
{
    CCL_GPU_TRY(vmm_import, &b->handle, (void *)(intptr_t)fd, CCL_GPU_MEM_FD);
    cclResult_t rc = map(d, b);
    if (rc != cclSuccess) {
        ccl_gpu.vmm_release(b->handle);
    }
    return rc;
}

cclResult_t ccl_gpu_vmm_free(const struct ccl_gpu_block *b)
{
    CCL_GPU_TRY(vmm_unmap, b->base, b->bytes);
    CCL_GPU_TRY(vmm_unreserve, b->base, b->bytes);
    CCL_GPU_TRY(vmm_release, b->handle);
    return cclSuccess;
}

static bool probe(struct ccl_gpu_device *d)
{
    int vmm = 0, fds = 0, fd = -1;
    struct ccl_cuda_alloc_prop prop = prop_of(d);
    void *handle = NULL;
    if (ccl_gpu.vmm_granularity == NULL || ccl_gpu.vmm_create == NULL || ccl_gpu.vmm_release == NULL ||
        ccl_gpu.vmm_export == NULL || ccl_gpu.vmm_import == NULL || ccl_gpu.vmm_reserve == NULL ||
        ccl_gpu.vmm_unreserve == NULL || ccl_gpu.vmm_map == NULL || ccl_gpu.vmm_unmap == NULL || ccl_gpu.vmm_access == NULL ||
        ccl_gpu.device_attribute(&vmm, CCL_CUDA_ATTR_VMM, d->handle) != 0 || vmm == 0 ||
        ccl_gpu.device_attribute(&fds, CCL_CUDA_ATTR_FD, d->handle) != 0 || fds == 0 ||
        ccl_gpu.vmm_granularity(&d->vmm_granule, &prop, CCL_GPU_MEM_GRANULE_BEST) != 0 || d->vmm_granule == 0 ||
        ccl_gpu.vmm_create(&handle, d->vmm_granule, &prop, 0) != 0) {
        return false;
    }
    bool can = ccl_gpu.vmm_export(&fd, handle, CCL_GPU_MEM_FD, 0) == 0;
    if (can) {
        close(fd);
    }
    ccl_gpu.vmm_release(handle);
    return can;
}

void ccl_gpu_vmm_probe(struct ccl_gpu_device *d)
{
    d->vmm = probe(d);
}

/* ---- shared host memory ---- */

cclResult_t ccl_gpu_memfd_map(int fd, struct ccl_gpu_block *b)
{
    cclResult_t rc;
    struct stat st;
    void *dev = NULL;
    b->host = MAP_FAILED;
    b->bytes = ccl_round_up(b->bytes, (size_t)sysconf(_SC_PAGESIZE));
    size_t most = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    /* Filling the machine's memory would kill processes before it failed. */
    CCL_CHECK(b->bytes <= most, cclSystemError, CCL_RT, "out of memory: %zu bytes of shared host memory, the machine has %zu",
              b->bytes, most);
    b->fd = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : memfd_create("ccl-device", MFD_CLOEXEC);
    CCL_CHECK(b->fd >= 0, cclSystemError, CCL_RT, "descriptor for %zu bytes of shared host memory: %s", b->bytes,
              strerror(errno));
    /* posix_fallocate: a page that cannot be had is an error here and not a signal later. */
    int error = fd >= 0 ? 0 : posix_fallocate(b->fd, 0, (off_t)b->bytes);
    if (error != 0) {
        rc = ccl_error_set(cclSystemError, CCL_RT, "out of memory: %zu bytes of shared host memory: %s", b->bytes,
                           strerror(error));
        goto err_close;
    }
    if (fstat(b->fd, &st) != 0 || (uint64_t)st.st_size < b->bytes) {
        rc = ccl_error_set(cclSystemError, CCL_RT, "shared host memory has less than %zu bytes", b->bytes);
        goto err_close;
    }
    b->host = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, 0);
    if (b->host == MAP_FAILED) {
        rc = ccl_error_set(cclSystemError, CCL_RT, "mmap of %zu bytes of shared host memory: %s", b->bytes, strerror(errno));
        goto err_close;
    }
    CCL_TRY_GOTO(ccl_gpu_host_register(b->host, b->bytes, &dev), err_unmap);
    b->base = dev;
    return cclSuccess;
err_unmap:
    munmap(b->host, b->bytes);
err_close:
    close(b->fd);
    return rc;
}

cclResult_t ccl_gpu_memfd_unmap(const struct ccl_gpu_block *b)
{
    cclResult_t rc = ccl_gpu_host_unregister(b->host);
    munmap(b->host, b->bytes);
    close(b->fd);
    return rc;
}

cclResult_t ccl_gpu_host_register(void *ptr, size_t bytes, void **dev)
{
    struct ccl_gpu_guard guard;
    CCL_CHECK(ptr != NULL && bytes > 0, cclInvalidArgument, CCL_RT, "host memory %p of %zu bytes to register", ptr, bytes);
    CCL_TRY(ccl_gpu_enter_setup(&guard, NULL));
    void *out = NULL;
    const char *call = "host_register";
    int error = ccl_gpu.host_register(ptr, ccl_round_up(bytes, (size_t)sysconf(_SC_PAGESIZE)), CCL_GPU_HOST_PORTABLE | CCL_GPU_HOST_MAPPED);
    if (error == 0) {
        call = "host_device_pointer";
        error = ccl_gpu.host_device_pointer(&out, ptr, 0);
        if (error != 0) {
            ccl_gpu.host_unregister(ptr);
        }
    }
    ccl_gpu_leave(&guard);
    if (error != 0) {
        return ccl_gpu_failed(error, call);
    }
    *dev = out;
    return cclSuccess;
}

cclResult_t ccl_gpu_host_unregister(void *ptr)
{
    struct ccl_gpu_guard guard;
    CCL_TRY(ccl_gpu_enter_setup(&guard, NULL));
    int error = ccl_gpu.host_unregister(ptr);
    ccl_gpu_leave(&guard);
    return error == 0 ? cclSuccess : ccl_gpu_failed(error, "host_unregister");
}
