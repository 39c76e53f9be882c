/* SPDX-License-Identifier: MIT
 *
 * The host backend's table: one device, whose kernels are C functions and whose memory is shared memory. Members that
 * only check arguments are here; the work is in host_*.c. */
#include <string.h>

#include "host.h"
#include "runtime/host_blocks.h"
#include "runtime/host_chain.h"
#include "runtime/host_event.h"
#include "runtime/host_machine.h"
#include "runtime/host_memory.h"
#include "runtime/host_stream.h"
#include "runtime/runtime.h"
#include "util/config.h"
#include "util/log.h"

/* Blocks run on threads or one after the other, so no number is too large; more than this only adds work. */
#define MAX_BLOCKS 16

#if defined(__x86_64__)
#define ARCH "x86-64"
#elif defined(__aarch64__)
#define ARCH "aarch64"
#else
#error "the host backend relies on the memory order and the futexes of x86-64 or aarch64 Linux"
#endif

static struct ccl_device_props host_props;

static cclResult_t host_init(void)
{
    int64_t threads = ccl_env_get()->host_threads;
    struct ccl_device_props p = {
        .arch = ARCH, .max_blocks = MAX_BLOCKS, .flag_stride = CCL_CACHE_LINE, .is_host = true};
    ccl_host_machine_cpu_name(p.name, sizeof(p.name));
    p.uid = ccl_host_machine_uid();
    p.units = ccl_host_machine_cores();
    p.forced_fence = ccl_host_membarrier_init() != 0;
    host_props = p;
    ccl_host_blocks_set_threads(threads > 0 ? (uint32_t)threads : (uint32_t)p.units);
    return cclSuccess;
}

static cclResult_t host_device_count(int *count)
{
    *count = 1;
    return cclSuccess;
}

static cclResult_t host_device_get(int *device)
{
    *device = 0;
    return cclSuccess;
}

static cclResult_t host_device_set(int device)
{
    CCL_CHECK(device == 0, cclInvalidArgument, CCL_RT, "device %d, the host backend has only device 0", device);
    return cclSuccess;
}

static cclResult_t host_device_props(int device, struct ccl_device_props *props)
{
    CCL_CHECK(device == 0, cclInvalidArgument, CCL_RT, "device %d, the host backend has only device 0", device);
    *props = host_props;
    return cclSuccess;
}

static cclResult_t host_host_register(void *ptr, size_t bytes, void **dev)
{
    CCL_CHECK(ptr != NULL, cclInvalidArgument, CCL_RT, "host memory of %zu bytes to register is NULL", bytes);
    *dev = ptr;
    return cclSuccess;
}

static cclResult_t host_host_unregister(void *ptr)
{
    (void)ptr;
    return cclSuccess;
}

static void host_host_wake(void *page)
{
    ccl_host_wake((uint64_t)page);
}

static bool host_kernel_failed(void)
{
    return __atomic_load_n(&ccl_host_failed, __ATOMIC_RELAXED) != 0;
}

static cclResult_t enqueue_bytes(enum ccl_host_task_kind kind, void *dst, const void *src, int byte, size_t bytes,
                                 struct cclStream *stream)
{
    struct ccl_host_task *task;
    if (bytes == 0) {
        return cclSuccess;
    }
    CCL_TRY(ccl_host_stream_resolve(stream, &stream));
    CCL_TRY(ccl_host_stream_begin(stream, kind, 0, &task));
    task->byte = (unsigned char)byte;
    task->u.copy.dst = dst;
    task->u.copy.src = src;
    task->u.copy.size_bytes = bytes;
    ccl_host_stream_commit(stream, task);
    return cclSuccess;
}

static cclResult_t host_copy(void *dst, const void *src, size_t bytes, struct cclStream *stream)
{
    CCL_CHECK(bytes == 0 || (dst != NULL && src != NULL), cclInvalidArgument, CCL_RT, "copy of %zu bytes from %p to %p",
              bytes, src, dst);
    return enqueue_bytes(CCL_HOST_TASK_COPY, dst, src, 0, bytes, stream);
}

static cclResult_t host_copy_2d(void *dst, size_t ld_dst, const void *src, size_t ld_src, size_t row_bytes, size_t rows,
                                struct cclStream *stream)
{
    CCL_CHECK(dst != NULL && src != NULL && ld_dst >= row_bytes && ld_src >= row_bytes, cclInvalidArgument, CCL_RT,
              "copy of %zu rows of %zu bytes from %p pitch %zu to %p pitch %zu", rows, row_bytes, src, ld_src, dst, ld_dst);
    for (size_t r = 0; r < rows; r++) {
        CCL_TRY(enqueue_bytes(CCL_HOST_TASK_COPY, (char *)dst + r * ld_dst, (const char *)src + r * ld_src, 0, row_bytes, stream));
    }
    return cclSuccess;
}

static cclResult_t host_fill(void *dst, int byte, size_t bytes, struct cclStream *stream)
{
    CCL_CHECK(bytes == 0 || dst != NULL, cclInvalidArgument, CCL_RT, "fill of %zu bytes at %p", bytes, dst);
    return enqueue_bytes(CCL_HOST_TASK_FILL, dst, NULL, byte, bytes, stream);
}

static cclResult_t host_tensor_map(void *map, const void *ptr, size_t rows, size_t cols, size_t ld, uint32_t box_rows, size_t matrices)
{
    (void)map, (void)ptr, (void)rows, (void)cols, (void)ld, (void)box_rows, (void)matrices;
    return ccl_error_set(cclInvalidUsage, CCL_RT, "tensor_map: backend host has no tensor maps");
}

static cclResult_t host_stream_sync(struct cclStream *stream)
{
    CCL_TRY(ccl_host_stream_resolve(stream, &stream));
    ccl_host_stream_wait(stream, ccl_host_stream_tail(stream));
    return cclSuccess;
}

static cclResult_t host_stream_query(struct cclStream *stream)
{
    CCL_TRY(ccl_host_stream_resolve(stream, &stream));
    if (ccl_host_stream_reached(stream, ccl_host_stream_tail(stream))) {
        return cclSuccess;
    }
    /* Somebody is waiting by asking, so the work should not wait for the worker's nap to end. */
    ccl_host_stream_nudge(stream);
    return cclInProgress;
}

static cclResult_t host_chain_sync(struct ccl_chain *chain)
{
    struct cclStream *last;
    return ccl_host_chain_last(chain, &last) ? host_stream_sync(last) : cclSuccess;
}

static cclResult_t host_chain_query(struct ccl_chain *chain)
{
    struct cclStream *last;
    return ccl_host_chain_last(chain, &last) ? host_stream_query(last) : cclSuccess;
}

static cclResult_t host_capture_query(struct cclStream *stream, uint64_t *id)
{
    (void)stream; /* the host backend has no graphs */
    *id = 0;
    return cclSuccess;
}

static cclResult_t no_graphs(void)
{
    return ccl_error_set(cclInvalidUsage, CCL_RT, "backend host has no graphs");
}

static cclResult_t host_graph_begin(struct cclStream *stream, bool thread_local_mode)
{
    (void)stream, (void)thread_local_mode;
    return no_graphs();
}

static cclResult_t host_graph_end(struct cclStream *stream, struct cclGraph **graph)
{
    (void)stream, (void)graph;
    return no_graphs();
}

static cclResult_t host_graph_launch(struct cclGraph *graph, struct cclStream *stream)
{
    (void)graph, (void)stream;
    return no_graphs();
}

static cclResult_t host_graph_destroy(struct cclGraph *graph)
{
    return graph == NULL ? cclSuccess : no_graphs();
}

static cclResult_t host_max_resident(enum ccl_kernel kernel, uint32_t threads, uint32_t shared_bytes, int *blocks)
{
    (void)shared_bytes;
    CCL_CHECK((unsigned)kernel < CCL_NUM_HOST_KERNELS && ccl_host_kernels[kernel] != NULL, cclInvalidArgument, CCL_RT,
              "kernel %d is none of the host's", (int)kernel);
    CCL_CHECK(threads == 1, cclInvalidArgument, CCL_RT, "%u threads a block, the host backend has 1", threads);
    *blocks = host_props.max_blocks;
    return cclSuccess;
}

static cclResult_t host_launch(struct cclStream *stream, const struct ccl_launch *l)
{
    CCL_CHECK((unsigned)l->kernel < CCL_NUM_HOST_KERNELS && ccl_host_kernels[l->kernel] != NULL, cclInvalidArgument, CCL_RT,
              "launch of kernel %d, none of the host's", (int)l->kernel);
    CCL_CHECK(l->grid > 0 && l->threads == 1, cclInvalidArgument, CCL_RT,
              "launch of %u blocks of %u threads, the host backend has 1 thread a block", l->grid, l->threads);
    const ccl_host_kernel_fn *kernels = CCL_UNLIKELY(l->traced) ? ccl_host_kernels_traced : ccl_host_kernels;
    CCL_TRY(ccl_host_stream_resolve(stream, &stream));
    return ccl_host_stream_launch(stream, kernels[l->kernel], l->grid, l->args, l->args_bytes, l->host_threads);
}

const struct ccl_runtime_ops ccl_runtime_host = {
    .name = "host",
    .init = host_init,
    .device_count = host_device_count,
    .device_get = host_device_get,
    .device_set = host_device_set,
    .device_props = host_device_props,
    .mem_alloc = ccl_host_memory_alloc,
    .mem_free = ccl_host_memory_free,
    .host_register = host_host_register,
    .host_unregister = host_host_unregister,
    .host_wake = host_host_wake,
    .pointer_query = ccl_host_memory_query,
    .mem_export = ccl_host_memory_export,
    .mem_import = ccl_host_memory_import,
    .mem_close = ccl_host_memory_close,
    .copy = host_copy,
    .copy_2d = host_copy_2d,
    .tensor_map = host_tensor_map,
    .fill = host_fill,
    .stream_create = ccl_host_stream_create,
    .stream_destroy = ccl_host_stream_destroy,
    .stream_sync = host_stream_sync,
    .stream_query = host_stream_query,
    .capture_query = host_capture_query,
    .event_create = ccl_host_event_create,
    .event_destroy = ccl_host_event_destroy,
    .event_record = ccl_host_event_record,
    .event_wait = ccl_host_event_wait,
    .event_sync = ccl_host_event_sync,
    .event_elapsed = ccl_host_event_elapsed,
    .chain_create = ccl_host_chain_create,
    .chain_destroy = ccl_host_chain_destroy,
    .chain_before = ccl_host_chain_before,
    .chain_after = ccl_host_chain_after,
    .chain_sync = host_chain_sync,
    .chain_query = host_chain_query,
    .chain_forget = ccl_host_chain_forget,
    .graph_begin = host_graph_begin,
    .graph_end = host_graph_end,
    .graph_launch = host_graph_launch,
    .graph_destroy = host_graph_destroy,
    .max_resident = host_max_resident,
    .kernel_failed = host_kernel_failed,
    .launch = host_launch,
};
