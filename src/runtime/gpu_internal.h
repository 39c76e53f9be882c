/* SPDX-License-Identifier: MIT
 *
 * What the files of the gpu backend share. Streams, events and graphs of the public API are the runtime's own handles (hipStream_t, CUstream),
 * cast. Every function returns with the thread's current device (on NVIDIA: its current context) as it was; errors are logged where they are seen. */
#ifndef CCL_GPU_INTERNAL_H
#define CCL_GPU_INTERNAL_H

#include <stdatomic.h>

#include "runtime/gpu_api.h"
#include "runtime/gpu_constants.h"
#include "runtime/runtime.h"
#include "util/log.h"

#define CCL_GPU_MAX_DEVICES 64

/* ---- gpu_device.c: devices and the thread's current one ---- */

struct ccl_gpu_function {
    void *handle;        /* hipFunction_t, CUfunction */
    uint32_t max_shared; /* most dynamic shared memory of a launch, bytes; already allowed for the function */
};

struct ccl_gpu_device {
    int handle;    /* CUdevice, hipDevice_t */
    void *context; /* NVIDIA: the primary context, kept until the process ends */
    void *stream;  /* of this library's own short work (zeroing, uploads); never captured, does not wait for the default stream */
    struct ccl_device_props props;
    bool vmm; /* NVIDIA: memory of this library is shared by fd handles */
    size_t vmm_granule;
    int pci_domain, pci_bus, pci_slot;
    struct ccl_gpu_function kernels[CCL_NUM_KERNELS];
};

/* How to come back. */
struct ccl_gpu_guard {
    void *context; /* NVIDIA: what was current, NULL: none */
    int device;    /* AMD: what was current */
    int mode;      /* capture mode of the thread, -1: not changed */
    bool changed;
};

/* Make device current; cheap when it is already. On failure nothing has changed and leave must not be called. */
cclResult_t ccl_gpu_enter(int device, struct ccl_gpu_guard *guard);
/* The thread's current device, or device 0 where it has none yet (NVIDIA: no context); *device may be NULL. */
cclResult_t ccl_gpu_enter_current(struct ccl_gpu_guard *guard, int *device);
/* The same (*device asked for: the device's primary context, else any context), and calls that a capture somewhere in the process forbids are allowed until leave. */
cclResult_t ccl_gpu_enter_setup(struct ccl_gpu_guard *guard, int *device);
cclResult_t ccl_gpu_enter_setup_on(int device, struct ccl_gpu_guard *guard);
void ccl_gpu_leave(const struct ccl_gpu_guard *guard);

/* Opened at the first need: context, properties, all kernels. Kept until the process ends. cclInvalidArgument: no such device. */
cclResult_t ccl_gpu_device(int device, const struct ccl_gpu_device **out);
/* Devices of this process, without opening one. */
int ccl_gpu_num_devices(void);
/* Find the library and its devices, once; cclSystemError or cclInvalidUsage. */
cclResult_t ccl_gpu_init(void);
/* Architecture of device 0, without opening it. */
cclResult_t ccl_gpu_first_arch(char *arch, size_t bytes);
cclResult_t ccl_gpu_device_get(int *device);
cclResult_t ccl_gpu_device_set(int device);

/* ---- gpu_kernels.c ---- */

/* Load all modules of this device's architecture and find the kernels in them. cclInvalidUsage: no code object for it, or the driver is too
 * old for it (both named). The device is current. */
cclResult_t ccl_gpu_load_kernels(struct ccl_gpu_device *device);
/* The function of a kernel; traced ones are loaded at the first need. */
cclResult_t ccl_gpu_find_kernel(int device, enum ccl_kernel kernel, bool traced, struct ccl_gpu_function *out);
/* Is there a code object that this architecture ("sm_90", "gfx942") can run? */
bool ccl_gpu_has_code(enum ccl_gpu_vendor vendor, const char *arch);
/* "gfx90a gfx942 sm_90a ...": the architectures that this build has code objects for. */
void ccl_gpu_list_code(char *text, size_t bytes);
cclResult_t ccl_gpu_launch(struct cclStream *stream, const struct ccl_launch *launch);
cclResult_t ccl_gpu_max_resident(enum ccl_kernel kernel, uint32_t threads, uint32_t shared_bytes, int *blocks);

/* ---- gpu_wait.c ---- */

/* Call wait and return its result, but not before query says that the work is over: what the caller then frees must not be in use. Only where query
 * fails as well does it return earlier; a device that cannot answer runs nothing any more. With the device current, as setup. */
int ccl_gpu_outlast(int (*wait)(void *object), int (*query)(void *object), void *object);

/* hipFree and cuMemFree wait until all that the process has enqueued on the device has ended: also a kernel of another rank of this process, which may
 * wait for the very thread that frees. So, where several communicators of the process use the device, they are called only when none of them has an
 * operation pending, and none enqueues one meanwhile; until then such memory is in a list. A tenant is one communicator. */
struct ccl_gpu_tenant {
    struct ccl_gpu_tenant *next;
    void *event; /* behind its latest operation */
    int device;
    atomic_bool enqueuing; /* an operation that event is not yet behind */
    bool lost;             /* one that event never came to be behind: pending for ever */
};
extern atomic_int ccl_gpu_freeing[CCL_GPU_MAX_DEVICES]; /* threads that are about to free, or do */
void ccl_gpu_tenant_add(struct ccl_gpu_tenant *tenant);
void ccl_gpu_tenant_remove(struct ccl_gpu_tenant *tenant);
void ccl_gpu_tenant_await(const struct ccl_gpu_tenant *tenant);

/* Before an operation is enqueued; ended by leave when event has been recorded behind it. */
static inline void ccl_gpu_tenant_enter(struct ccl_gpu_tenant *t)
{
    t->lost = t->lost || atomic_load_explicit(&t->enqueuing, memory_order_relaxed);
    atomic_store(&t->enqueuing, true);
    if (CCL_UNLIKELY(atomic_load(&ccl_gpu_freeing[t->device]) > 0)) {
        ccl_gpu_tenant_await(t);
    }
}

static inline void ccl_gpu_tenant_leave(struct ccl_gpu_tenant *t)
{
    atomic_store_explicit(&t->enqueuing, t->lost, memory_order_release);
}

/* Free what was deferred and need not be any longer. */
void ccl_gpu_free_deferred(void);

/* ---- gpu_chain.c: the order of a communicator's operations, over streams and captures ---- */

cclResult_t ccl_gpu_capture_query(struct cclStream *stream, uint64_t *id);
cclResult_t ccl_gpu_chain_create(struct ccl_chain **chain);
void ccl_gpu_chain_destroy(struct ccl_chain *chain);
cclResult_t ccl_gpu_chain_before(struct ccl_chain *chain, struct cclStream *stream);
cclResult_t ccl_gpu_chain_after(struct ccl_chain *chain, struct cclStream *stream);
cclResult_t ccl_gpu_chain_sync(struct ccl_chain *chain);
cclResult_t ccl_gpu_chain_query(struct ccl_chain *chain);
void ccl_gpu_chain_forget(struct ccl_chain *chain, struct cclStream *stream);
/* Destroy the events of dead chains that the last graph has let go. */
void ccl_gpu_chain_reap(void);

/* ---- gpu_graph.c ---- */

cclResult_t ccl_gpu_graph_begin(struct cclStream *stream, bool thread_local_mode);
cclResult_t ccl_gpu_graph_end(struct cclStream *stream, struct cclGraph **graph);
cclResult_t ccl_gpu_graph_launch(struct cclGraph *graph, struct cclStream *stream);
cclResult_t ccl_gpu_graph_destroy(struct cclGraph *graph);

#endif
