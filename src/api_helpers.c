/* SPDX-License-Identifier: MIT
 *
 * The portable helpers: devices, streams, events, memory and copies of the backend in use, behind argument checks. */
#include "comm/comm.h"
#include "runtime/runtime.h"
#include "util/log.h"

static const struct ccl_runtime_ops *rt_or_null(cclResult_t *rc)
{
    const struct ccl_runtime_ops *rt = NULL;
    *rc = ccl_runtime_get(&rt);
    return rt;
}

/* Call a member of the backend, or return why there is none. */
#define RT_CALL(member, ...)                                     \
    do {                                                         \
        cclResult_t rt_rc_;                                      \
        const struct ccl_runtime_ops *rt_ = rt_or_null(&rt_rc_); \
        return rt_ != NULL ? rt_->member(__VA_ARGS__) : rt_rc_;  \
    } while (0)

#define NOT_NULL(ptr, func) \
    CCL_CHECK((ptr) != NULL, cclInvalidArgument, CCL_RT, func ": " #ptr " is NULL")

const char *cclBackendName(void)
{
    cclResult_t rc;
    const struct ccl_runtime_ops *rt = rt_or_null(&rc);
    return rt != NULL ? rt->name : "none";
}

cclResult_t cclDeviceCount(int *count)
{
    NOT_NULL(count, "cclDeviceCount");
    RT_CALL(device_count, count);
}

cclResult_t cclSetDevice(int device)
{
    RT_CALL(device_set, device);
}

cclResult_t cclGetDevice(int *device)
{
    NOT_NULL(device, "cclGetDevice");
    RT_CALL(device_get, device);
}

cclResult_t cclStreamCreate(cclStream_t *stream)
{
    NOT_NULL(stream, "cclStreamCreate");
    RT_CALL(stream_create, stream);
}

cclResult_t cclStreamDestroy(cclStream_t stream)
{
    NOT_NULL(stream, "cclStreamDestroy");
    cclResult_t rc;
    const struct ccl_runtime_ops *rt = rt_or_null(&rc);
    if (rt == NULL) {
        return rc;
    }
    CCL_TRY(rt->stream_sync(stream));
    ccl_comm_forget_stream(stream);
    return rt->stream_destroy(stream);
}

cclResult_t cclStreamSynchronize(cclStream_t stream)
{
    cclResult_t rc;
    const struct ccl_runtime_ops *rt = rt_or_null(&rc);
    if (rt == NULL) {
        return rc;
    }
    CCL_TRY(rt->stream_sync(stream));
    return CCL_UNLIKELY(rt->kernel_failed()) ? ccl_comm_stream_error(stream) : cclSuccess;
}

cclResult_t cclStreamQuery(cclStream_t stream)
{
    RT_CALL(stream_query, stream);
}

cclResult_t cclStreamWaitEvent(cclStream_t stream, cclEvent_t event)
{
    NOT_NULL(event, "cclStreamWaitEvent");
    RT_CALL(event_wait, stream, event);
}

cclResult_t cclEventCreate(cclEvent_t *event)
{
    NOT_NULL(event, "cclEventCreate");
    RT_CALL(event_create, event);
}

cclResult_t cclEventDestroy(cclEvent_t event)
{
    NOT_NULL(event, "cclEventDestroy");
    RT_CALL(event_destroy, event);
}

cclResult_t cclEventRecord(cclEvent_t event, cclStream_t stream)
{
    NOT_NULL(event, "cclEventRecord");
    RT_CALL(event_record, event, stream);
}

cclResult_t cclEventSynchronize(cclEvent_t event)
{
    NOT_NULL(event, "cclEventSynchronize");
    RT_CALL(event_sync, event);
}

cclResult_t cclEventElapsed(float *ms, cclEvent_t start, cclEvent_t end)
{
    NOT_NULL(ms, "cclEventElapsed");
    NOT_NULL(start, "cclEventElapsed");
    NOT_NULL(end, "cclEventElapsed");
    RT_CALL(event_elapsed, ms, start, end);
}

cclResult_t cclGraphBegin(cclStream_t stream, int thread_local_mode)
{
    RT_CALL(graph_begin, stream, thread_local_mode != 0);
}

cclResult_t cclGraphEnd(cclStream_t stream, cclGraph_t *graph)
{
    NOT_NULL(graph, "cclGraphEnd");
    RT_CALL(graph_end, stream, graph);
}

cclResult_t cclGraphLaunch(cclGraph_t graph, cclStream_t stream)
{
    NOT_NULL(graph, "cclGraphLaunch");
    RT_CALL(graph_launch, graph, stream);
}

cclResult_t cclGraphDestroy(cclGraph_t graph)
{
    RT_CALL(graph_destroy, graph);
}

cclResult_t cclDeviceMalloc(void **ptr, size_t bytes)
{
    NOT_NULL(ptr, "cclDeviceMalloc");
    CCL_CHECK(bytes > 0, cclInvalidArgument, CCL_RT, "cclDeviceMalloc: bytes is 0");
    RT_CALL(mem_alloc, CCL_MEM_DATA, bytes, ptr);
}

cclResult_t cclDeviceFree(void *ptr)
{
    RT_CALL(mem_free, ptr);
}

cclResult_t cclMemcpyAsync(void *dst, const void *src, size_t bytes, cclStream_t stream)
{
    if (bytes == 0) {
        return cclSuccess;
    }
    NOT_NULL(dst, "cclMemcpyAsync");
    NOT_NULL(src, "cclMemcpyAsync");
    RT_CALL(copy, dst, src, bytes, stream);
}

cclResult_t cclMemsetAsync(void *dst, int byte, size_t bytes, cclStream_t stream)
{
    if (bytes == 0) {
        return cclSuccess;
    }
    NOT_NULL(dst, "cclMemsetAsync");
    RT_CALL(fill, dst, byte, bytes, stream);
}
