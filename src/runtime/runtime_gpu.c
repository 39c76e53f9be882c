/* SPDX-License-Identifier: MIT
 *
 * The gpu backend's table. Streams and events are the runtime's own handles; members that are one call of it are here, the rest is in gpu_*.c. */
#include <stdio.h>

#include "runtime/gpu_internal.h"
#include "runtime/gpu_memory.h"
#include "runtime/runtime_select.h"

const char *ccl_gpu_unusable(bool thorough)
{
    static char text[512]; /* the same for every caller */
    char arch[32] = "", archs[256];
    const char *why = ccl_gpu_api_try(thorough);
    if (why != NULL) {
        return why;
    }
    if (ccl_gpu_first_arch(arch, sizeof(arch)) != cclSuccess) {
        snprintf(text, sizeof(text), "the architecture of device 0 is unknown: %s", ccl_error_last());
        return text;
    }
    if (!ccl_gpu_has_code(ccl_gpu.vendor, arch)) {
        ccl_gpu_list_code(archs, sizeof(archs));
        snprintf(text, sizeof(text), "no code object for %s in this build of libccl, which has: %s", arch, archs);
        return text;
    }
    return NULL;
}

static cclResult_t gpu_device_count(int *count)
{
    *count = ccl_gpu_num_devices();
    return cclSuccess;
}

static cclResult_t gpu_device_props(int device, struct ccl_device_props *props)
{
    const struct ccl_gpu_device *d;
    CCL_TRY(ccl_gpu_device(device, &d));
    *props = d->props;
    return cclSuccess;
}

static void gpu_host_wake(void *page)
{
    (void)page; /* kernels poll */
}

static bool gpu_kernel_failed(void)
{
    return true; /* nothing here sees the kernels' reports; the communicators' pages are looked at instead */
}

/* Make one call and yield its error. current: with some device current. setup: also where a capture elsewhere in the process forbids such calls. */
#define CALL(enter, error, field, ...)                \
    do {                                              \
        struct ccl_gpu_guard guard_;                  \
        CCL_TRY(ccl_gpu_enter_##enter(&guard_, NULL)); \
        (error) = ccl_gpu.field(__VA_ARGS__);         \
        ccl_gpu_leave(&guard_);                       \
    } while (0)

#define RETURN_CALL(enter, field, ...)                                                 \
    do {                                                                              \
        int error_;                                                                   \
        CALL(enter, error_, field, __VA_ARGS__);                                      \
        return CCL_LIKELY(error_ == 0) ? cclSuccess : ccl_gpu_failed(error_, #field); \
    } while (0)

static cclResult_t gpu_copy(void *dst, const void *src, size_t bytes, struct cclStream *stream)
{
    CCL_CHECK(bytes == 0 || (dst != NULL && src != NULL), cclInvalidArgument, CCL_RT, "copy of %zu bytes from %p to %p", bytes,
              src, dst);
    if (bytes == 0) {
        return cclSuccess;
    }
    if (ccl_gpu.vendor == CCL_GPU_AMD) {
        RETURN_CALL(setup, copy_kind, dst, src, bytes, CCL_HIP_COPY_DEFAULT, stream);
    }
    RETURN_CALL(setup, copy, dst, src, bytes, stream);
}

#define MAX_PITCH ((size_t)INT32_MAX) /* of every device of both vendors */

static cclResult_t gpu_copy_2d(void *dst, size_t ld_dst, const void *src, size_t ld_src, size_t row_bytes, size_t rows,
                               struct cclStream *stream)
{
    CCL_CHECK(dst != NULL && src != NULL && row_bytes > 0 && rows > 0 && ld_dst >= row_bytes && ld_src >= row_bytes,
              cclInvalidArgument, CCL_RT, "copy of %zu rows of %zu bytes from %p, %zu bytes apart, to %p, %zu bytes apart", rows,
              row_bytes, src, ld_src, dst, ld_dst);
    if (ld_dst > MAX_PITCH || ld_src > MAX_PITCH) {
        for (size_t r = 0; r < rows; r++) {
            CCL_TRY(gpu_copy((char *)dst + r * ld_dst, (const char *)src + r * ld_src, row_bytes, stream));
        }
        return cclSuccess;
    }
    if (ccl_gpu.vendor == CCL_GPU_AMD) {
        RETURN_CALL(setup, copy_2d_kind, dst, ld_dst, src, ld_src, row_bytes, rows, CCL_HIP_COPY_DEFAULT, stream);
    }
    struct ccl_cuda_copy_2d desc = {.src = {.type = CCL_CUDA_MEMORY_UNIFIED, .device = (uintptr_t)src, .pitch = ld_src},
                           .dst = {.type = CCL_CUDA_MEMORY_UNIFIED, .device = (uintptr_t)dst, .pitch = ld_dst},
                           .row_bytes = row_bytes, .rows = rows};
    RETURN_CALL(setup, copy_2d, &desc, stream);
}

static cclResult_t gpu_tensor_map(void *map, const void *ptr, size_t rows, size_t cols, size_t ld, uint32_t box_rows, size_t matrices)
{
    const uint64_t dims[3] = {cols, rows, matrices}, strides[2] = {2 * ld, 2 * ld * rows};
    const uint32_t box[3] = {64, box_rows, 1}, steps[3] = {1, 1, 1};
    CCL_CHECK(ccl_gpu.tensor_map != NULL, cclInvalidUsage, CCL_RT, "tensor_map: this driver has no tensor maps");
    RETURN_CALL(current, tensor_map, map, CCL_CUDA_MAP_UINT16, matrices != 0 ? 3 : 2, (void *)(uintptr_t)ptr, dims, strides, box, steps, CCL_CUDA_MAP_NOT_INTERLEAVED,
                CCL_CUDA_MAP_SWIZZLE_128, CCL_CUDA_MAP_PROMOTE_256, CCL_CUDA_MAP_FILL_ZEROS);
}

static cclResult_t gpu_fill(void *dst, int byte, size_t bytes, struct cclStream *stream)
{
    CCL_CHECK(bytes == 0 || dst != NULL, cclInvalidArgument, CCL_RT, "fill of %zu bytes at %p", bytes, dst);
    if (bytes == 0) {
        return cclSuccess;
    }
    RETURN_CALL(setup, fill, dst, byte & 0xff, bytes, stream);
}

/* On the current device. Does not wait for the default stream nor the default stream for it: another rank's kernel may spin there. */
static cclResult_t gpu_stream_create(struct cclStream **stream)
{
    struct ccl_gpu_guard guard;
    void *out = NULL;
    int device;
    CCL_TRY(ccl_gpu_enter_setup(&guard, &device));
    int error = ccl_gpu.stream_create(&out, CCL_GPU_STREAM_NON_BLOCKING);
    ccl_gpu_leave(&guard);
    if (error != 0) {
        return ccl_gpu_failed(error, "stream_create");
    }
    *stream = out;
    return cclSuccess;
}

static cclResult_t gpu_stream_sync(struct cclStream *stream)
{
    struct ccl_gpu_guard guard;
    CCL_TRY(ccl_gpu_enter_setup(&guard, NULL));
    int error = ccl_gpu_outlast(ccl_gpu.stream_sync, ccl_gpu.stream_query, stream);
    ccl_gpu_leave(&guard);
    return CCL_LIKELY(error == 0) ? cclSuccess : ccl_gpu_failed(error, "stream_sync");
}

static cclResult_t gpu_stream_destroy(struct cclStream *stream)
{
    if (stream == NULL) {
        return cclSuccess;
    }
    cclResult_t rc = gpu_stream_sync(stream);
    int error;
    CALL(setup, error, stream_destroy, stream);
    CCL_TRY(rc);
    return error == 0 ? cclSuccess : ccl_gpu_failed(error, "stream_destroy");
}

static cclResult_t gpu_stream_query(struct cclStream *stream)
{
    int error;
    CALL(setup, error, stream_query, stream);
    if (error == CCL_GPU_E_NOT_READY) {
        return cclInProgress;
    }
    return error == 0 ? cclSuccess : ccl_gpu_failed(error, "stream_query");
}

static cclResult_t gpu_event_create(struct cclEvent **event)
{
    struct ccl_gpu_guard guard;
    void *out = NULL;
    int device;
    CCL_TRY(ccl_gpu_enter_setup(&guard, &device));
    int error = ccl_gpu.event_create(&out, 0);
    ccl_gpu_leave(&guard);
    if (error != 0) {
        return ccl_gpu_failed(error, "event_create");
    }
    *event = out;
    return cclSuccess;
}

static cclResult_t gpu_event_destroy(struct cclEvent *event)
{
    if (event == NULL) {
        return cclSuccess;
    }
    RETURN_CALL(setup, event_destroy, event);
}

static cclResult_t gpu_event_record(struct cclEvent *event, struct cclStream *stream)
{
    CCL_CHECK(event != NULL, cclInvalidArgument, CCL_RT, "event to record is NULL");
    RETURN_CALL(current, event_record, event, stream);
}

static cclResult_t gpu_event_wait(struct cclStream *stream, struct cclEvent *event)
{
    CCL_CHECK(event != NULL, cclInvalidArgument, CCL_RT, "event to wait for is NULL");
    RETURN_CALL(current, stream_wait, stream, event, 0);
}

static cclResult_t gpu_event_sync(struct cclEvent *event)
{
    CCL_CHECK(event != NULL, cclInvalidArgument, CCL_RT, "event to synchronise with is NULL");
    struct ccl_gpu_guard guard;
    CCL_TRY(ccl_gpu_enter_setup(&guard, NULL));
    int error = ccl_gpu_outlast(ccl_gpu.event_sync, ccl_gpu.event_query, event);
    ccl_gpu_leave(&guard);
    return CCL_LIKELY(error == 0) ? cclSuccess : ccl_gpu_failed(error, "event_sync");
}

static cclResult_t gpu_event_elapsed(float *ms, struct cclEvent *start, struct cclEvent *end)
{
    float out = 0;
    int error;
    CCL_CHECK(ms != NULL && start != NULL && end != NULL, cclInvalidArgument, CCL_RT,
              "ms, start or end of event_elapsed is NULL");
    CALL(setup, error, event_elapsed, &out, start, end);
    CCL_CHECK(error != CCL_GPU_E_INVALID_HANDLE, cclInvalidUsage, CCL_RT, "an event of event_elapsed was never recorded");
    CCL_CHECK(error != CCL_GPU_E_NOT_READY, cclInvalidUsage, CCL_RT, "an event of event_elapsed has not happened yet");
    if (error != 0) {
        return ccl_gpu_failed(error, "event_elapsed");
    }
    *ms = out;
    return cclSuccess;
}

const struct ccl_runtime_ops ccl_runtime_gpu = {
    .name = "gpu",
    .init = ccl_gpu_init,
    .device_count = gpu_device_count,
    .device_get = ccl_gpu_device_get,
    .device_set = ccl_gpu_device_set,
    .device_props = gpu_device_props,
    .mem_alloc = ccl_gpu_mem_alloc,
    .mem_free = ccl_gpu_mem_free,
    .host_register = ccl_gpu_host_register,
    .host_unregister = ccl_gpu_host_unregister,
    .host_wake = gpu_host_wake,
    .pointer_query = ccl_gpu_pointer_query,
    .mem_export = ccl_gpu_mem_export,
    .mem_import = ccl_gpu_mem_import,
    .mem_close = ccl_gpu_mem_close,
    .copy = gpu_copy,
    .copy_2d = gpu_copy_2d,
    .tensor_map = gpu_tensor_map,
    .fill = gpu_fill,
    .stream_create = gpu_stream_create,
    .stream_destroy = gpu_stream_destroy,
    .stream_sync = gpu_stream_sync,
    .stream_query = gpu_stream_query,
    .capture_query = ccl_gpu_capture_query,
    .event_create = gpu_event_create,
    .event_destroy = gpu_event_destroy,
    .event_record = gpu_event_record,
    .event_wait = gpu_event_wait,
    .event_sync = gpu_event_sync,
    .event_elapsed = gpu_event_elapsed,
    .chain_create = ccl_gpu_chain_create,
    .chain_destroy = ccl_gpu_chain_destroy,
    .chain_before = ccl_gpu_chain_before,
    .chain_after = ccl_gpu_chain_after,
    .chain_sync = ccl_gpu_chain_sync,
    .chain_query = ccl_gpu_chain_query,
    .chain_forget = ccl_gpu_chain_forget,
    .graph_begin = ccl_gpu_graph_begin,
    .graph_end = ccl_gpu_graph_end,
    .graph_launch = ccl_gpu_graph_launch,
    .graph_destroy = ccl_gpu_graph_destroy,
    .max_resident = ccl_gpu_max_resident,
    .kernel_failed = gpu_kernel_failed,
    .launch = ccl_gpu_launch,
};
