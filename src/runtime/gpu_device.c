/* SPDX-License-Identifier: MIT
 *
 * Devices, and the calling thread's current one. On NVIDIA a device is its primary context, the one that the CUDA runtime of the program uses
 * too; a device is opened (context, kernels, properties) at its first use and kept. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "runtime/gpu_hsa.h"
#include "runtime/gpu_internal.h"
#include "runtime/gpu_memory.h"
#include "util/config.h"

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ccl_gpu_device devices[CCL_GPU_MAX_DEVICES];
static bool opened[CCL_GPU_MAX_DEVICES]; /* stored with release */
static int num_devices;
/* NVIDIA: this thread was seen without a context, and since then not with one of device 0. That means device 0, as for the CUDA runtime, and putting it back must
 * not open device 0 in a process that uses another one only. */
static _Thread_local bool had_no_context;

static bool is_cuda(void)
{
    return ccl_gpu.vendor == CCL_GPU_NVIDIA;
}

int ccl_gpu_num_devices(void)
{
    return num_devices;
}

cclResult_t ccl_gpu_init(void)
{
    CCL_TRY(ccl_gpu_api_load());
    CCL_TRY(ccl_gpu_memory_config());
    int count = 0;
    CCL_GPU_TRY(device_count, &count);
    count = count < CCL_GPU_MAX_DEVICES ? count : CCL_GPU_MAX_DEVICES;
    for (int i = 0; i < count; i++) {
        CCL_GPU_TRY(device_handle, &devices[i].handle, i);
    }
    num_devices = count;
    return cclSuccess;
}

/* ---- what a device is ---- */

/* On AMD it finds the device in HSA, so there it must be known. */
static cclResult_t read_pci(struct ccl_gpu_device *d, char *text, int bytes)
{
    unsigned domain = 0, bus = 0, slot = 0;
    memset(text, 0, (size_t)bytes);
    int error = ccl_gpu.device_pci(text, bytes - 1, d->handle);
    if (error != 0 && !is_cuda()) {
        return ccl_gpu_failed(error, "device_pci");
    }
    if (error == 0 && sscanf(text, "%x:%x:%x", &domain, &bus, &slot) == 3) {
        d->pci_domain = (int)domain;
        d->pci_bus = (int)bus;
        d->pci_slot = (int)slot;
    }
    return cclSuccess;
}

static uint64_t hash_bytes(const void *data, size_t bytes)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < bytes; i++) {
        h = (h ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
    }
    return h != 0 ? h : 1;
}

static uint64_t read_uid(struct ccl_gpu_device *d, const char *pci, size_t pci_bytes)
{
    static const unsigned char none[16];
    unsigned char uuid[16] = {0};
    if (ccl_gpu.device_uuid(uuid, d->handle) != 0 || memcmp(uuid, none, sizeof(uuid)) == 0) {
        return hash_bytes(pci, pci_bytes);
    }
    return hash_bytes(uuid, sizeof(uuid));
}

/* Needs no context. */
static cclResult_t read_arch(struct ccl_gpu_device *d)
{
    char pci[64];
    CCL_TRY(read_pci(d, pci, sizeof(pci)));
    d->props.uid = read_uid(d, pci, sizeof(pci));
    if (is_cuda()) {
        int major = 0, minor = 0;
        CCL_GPU_TRY(device_attribute, &major, CCL_CUDA_ATTR_MAJOR, d->handle);
        CCL_GPU_TRY(device_attribute, &minor, CCL_CUDA_ATTR_MINOR, d->handle);
        snprintf(d->props.arch, sizeof(d->props.arch), "sm_%d%d", major, minor);
        d->props.bulk_copy = major == 9; /* later ones run PTX for sm_80, which has none, and some have less shared memory */
        return cclSuccess;
    }
    return ccl_gpu_hsa_arch(d->pci_domain, d->pci_bus, d->pci_slot, d->props.arch, sizeof(d->props.arch));
}

cclResult_t ccl_gpu_first_arch(char *arch, size_t bytes)
{
    struct ccl_gpu_device d = {.handle = 0};
    CCL_GPU_TRY(device_handle, &d.handle, 0);
    CCL_TRY(read_arch(&d));
    snprintf(arch, bytes, "%s", d.props.arch);
    return cclSuccess;
}

static cclResult_t read_props(struct ccl_gpu_device *d)
{
    CCL_TRY(read_arch(d));
    CCL_GPU_TRY(device_name, d->props.name, (int)sizeof(d->props.name) - 1, d->handle);
    CCL_GPU_TRY(device_attribute, &d->props.units, is_cuda() ? CCL_CUDA_ATTR_UNITS : CCL_HIP_ATTR_UNITS, d->handle);
    d->props.flag_stride = is_cuda() ? 8 : 64; /* the words of a block, one a rank, share lines where nobody minds: one line is polled by one access */
    return cclSuccess;
}

/* ---- the current device ---- */

static cclResult_t make_current(const struct ccl_gpu_device *d, int device, struct ccl_gpu_guard *guard)
{
    *guard = (struct ccl_gpu_guard){.mode = -1};
    if (is_cuda()) {
        CCL_GPU_TRY(ctx_get, &guard->context);
        if (guard->context != d->context) {
            CCL_GPU_TRY(ctx_set, d->context);
            guard->changed = true;
        }
        return cclSuccess;
    }
    CCL_GPU_TRY(get_device, &guard->device);
    if (guard->device != device) {
        CCL_GPU_TRY(set_device, device);
        guard->changed = true;
    }
    return cclSuccess;
}

void ccl_gpu_leave(const struct ccl_gpu_guard *guard)
{
    if (guard->mode >= 0) {
        int mode = guard->mode;
        ccl_gpu.capture_mode(&mode);
    }
    if (guard->changed && is_cuda()) {
        ccl_gpu.ctx_set(guard->context);
    } else if (guard->changed) {
        ccl_gpu.set_device(guard->device);
    }
}

cclResult_t ccl_gpu_enter(int device, struct ccl_gpu_guard *guard)
{
    const struct ccl_gpu_device *d;
    CCL_TRY(ccl_gpu_device(device, &d));
    return make_current(d, device, guard);
}

cclResult_t ccl_gpu_enter_current(struct ccl_gpu_guard *guard, int *device)
{
    int current = 0;
    if (is_cuda() && device == NULL) {
        /* Any context will do, and none is changed. */
        *guard = (struct ccl_gpu_guard){.mode = -1};
        CCL_GPU_TRY(ctx_get, &guard->context);
        if (guard->context != NULL) {
            return cclSuccess;
        }
    }
    CCL_TRY(ccl_gpu_device_get(&current));
    CCL_TRY(ccl_gpu_enter(current, guard));
    if (device != NULL) {
        *device = current;
    }
    return cclSuccess;
}

static cclResult_t relax(struct ccl_gpu_guard *guard)
{
    int mode = CCL_GPU_CAPTURE_RELAXED, error = ccl_gpu.capture_mode(&mode);
    if (error != 0) {
        ccl_gpu_leave(guard);
        return ccl_gpu_failed(error, "capture_mode");
    }
    guard->mode = mode;
    return cclSuccess;
}

cclResult_t ccl_gpu_enter_setup(struct ccl_gpu_guard *guard, int *device)
{
    CCL_TRY(ccl_gpu_enter_current(guard, device));
    return relax(guard);
}

cclResult_t ccl_gpu_enter_setup_on(int device, struct ccl_gpu_guard *guard)
{
    CCL_TRY(ccl_gpu_enter(device, guard));
    return relax(guard);
}

cclResult_t ccl_gpu_device_get(int *device)
{
    if (!is_cuda()) {
        CCL_GPU_TRY(get_device, device);
        return cclSuccess;
    }
    void *context = NULL;
    int handle = 0;
    CCL_GPU_TRY(ctx_get, &context);
    if (context == NULL) {
        had_no_context = true;
        *device = 0;
        return cclSuccess;
    }
    CCL_GPU_TRY(ctx_device, &handle);
    for (int i = 0; i < num_devices; i++) {
        if (devices[i].handle == handle) {
            had_no_context = had_no_context && i != 0;
            *device = i;
            return cclSuccess;
        }
    }
    return ccl_error_set(cclInvalidUsage, CCL_RT, "the current context belongs to device handle %d, not one of the %d devices",
                         handle, num_devices);
}

cclResult_t ccl_gpu_device_set(int device)
{
    const struct ccl_gpu_device *d;
    if (is_cuda() && device == 0 && had_no_context && !__atomic_load_n(&opened[0], __ATOMIC_ACQUIRE)) {
        CCL_GPU_TRY(ctx_set, NULL);
        return cclSuccess;
    }
    CCL_TRY(ccl_gpu_device(device, &d));
    if (is_cuda()) {
        CCL_GPU_TRY(ctx_set, d->context);
    } else {
        CCL_GPU_TRY(set_device, device);
    }
    return cclSuccess;
}

/* ---- opening ---- */

/* With the device current and captures elsewhere left alone. */
static cclResult_t open_current(struct ccl_gpu_device *d)
{
    CCL_TRY(read_props(d));
    CCL_TRY(ccl_gpu_load_kernels(d));
    CCL_GPU_TRY(stream_create, &d->stream, CCL_GPU_STREAM_NON_BLOCKING);
    if (is_cuda()) {
        ccl_gpu_vmm_probe(d);
    }
    return cclSuccess;
}

static cclResult_t open_device(int device)
{
    struct ccl_gpu_device *d = &devices[device];
    struct ccl_gpu_guard guard;
    if (is_cuda() && d->context == NULL) {
        void *context = NULL;
        CCL_GPU_TRY(primary_retain, &context, d->handle);
        d->context = context;
    }
    CCL_TRY(make_current(d, device, &guard));
    CCL_TRY(relax(&guard));
    cclResult_t rc = open_current(d);
    ccl_gpu_leave(&guard);
    CCL_TRY(rc);
    CCL_LOG(CCL_LOG_INFO, CCL_RT, "device %d: %s, %s, %d units, room for %d blocks, PCI %04x:%02x:%02x, memory shared by %s",
            device, d->props.name, d->props.arch, d->props.units, d->props.max_blocks, (unsigned)d->pci_domain,
            (unsigned)d->pci_bus, (unsigned)d->pci_slot, ccl_gpu_share_name(d));
    return cclSuccess;
}

cclResult_t ccl_gpu_device(int device, const struct ccl_gpu_device **out)
{
    CCL_CHECK(device >= 0 && device < num_devices, cclInvalidArgument, CCL_RT, "device %d, not 0 to %d", device,
              num_devices - 1);
    /* Pairs with the release below: whoever sees it open sees all of it. */
    if (CCL_UNLIKELY(!__atomic_load_n(&opened[device], __ATOMIC_ACQUIRE))) {
        cclResult_t rc = cclSuccess;
        pthread_mutex_lock(&open_lock);
        if (!opened[device]) {
            rc = open_device(device);
            __atomic_store_n(&opened[device], rc == cclSuccess, __ATOMIC_RELEASE);
        }
        pthread_mutex_unlock(&open_lock);
        CCL_TRY(rc);
    }
    *out = &devices[device];
    return cclSuccess;
}
