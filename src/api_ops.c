/* SPDX-License-Identifier: MIT
 *
 * The public functions of memory and of collectives: argument checks, then on to heap or coll. */
#include <string.h>

#include "api.h"
#include "coll/coll.h"
#include "heap/heap.h"

/* ---- memory ---- */

struct heap_job {
    cclComm_t comm;
    void **out;
    void *ptr;
    size_t bytes;
};

static cclResult_t run_alloc(void *arg, struct cclStream *stream)
{
    struct heap_job *j = arg;
    cclComm_t comm = j->comm;
    int before;
    (void)stream;
    CCL_TRY(ccl_device_enter(comm->rt, comm->props.is_host, comm->device, &before));
    return ccl_device_leave(comm->rt, before, ccl_heap_alloc(comm->heap, j->bytes, j->out));
}

static cclResult_t run_free(void *arg, struct cclStream *stream)
{
    struct heap_job *j = arg;
    cclComm_t comm = j->comm;
    int before;
    (void)stream;
    CCL_TRY(ccl_comm_wait_idle(comm));
    CCL_TRY(ccl_device_enter(comm->rt, comm->props.is_host, comm->device, &before));
    return ccl_device_leave(comm->rt, before, ccl_heap_free(comm->heap, j->ptr));
}

static cclResult_t mem_alloc(cclComm_t comm, void **ptr, size_t bytes)
{
    struct heap_job j = {.comm = comm, .out = ptr, .bytes = bytes};
    CCL_TRY(ccl_api_check_open(comm, "cclMemAlloc"));
    CCL_TRY(ccl_api_check_ptr(ptr, "cclMemAlloc", "ptr"));
    CCL_CHECK(bytes > 0, cclInvalidArgument, CCL_HEAP, "cclMemAlloc: bytes is 0");
    return ccl_group_submit(CCL_JOB_SETUP, run_alloc, &j, sizeof(j), comm, NULL);
}

cclResult_t cclMemAlloc(cclComm_t comm, void **ptr, size_t bytes)
{
    CCL_API_NOTE(mem_alloc(comm, ptr, bytes));
}

static cclResult_t mem_free(cclComm_t comm, void *ptr)
{
    struct heap_job j = {.comm = comm, .ptr = ptr};
    CCL_TRY(ccl_api_check_comm(comm, "cclMemFree"));
    return ptr == NULL ? cclSuccess : ccl_group_submit(CCL_JOB_SETUP, run_free, &j, sizeof(j), comm, NULL);
}

cclResult_t cclMemFree(cclComm_t comm, void *ptr)
{
    CCL_API_NOTE(mem_free(comm, ptr));
}

cclResult_t cclCommRegister(cclComm_t comm, void *buff, size_t bytes, void **handle)
{
    CCL_TRY(ccl_api_check_open(comm, "cclCommRegister"));
    CCL_TRY(ccl_api_check_ptr(buff, "cclCommRegister", "buff"));
    CCL_TRY(ccl_api_check_ptr(handle, "cclCommRegister", "handle"));
    CCL_CHECK(bytes > 0, cclInvalidArgument, CCL_HEAP, "cclCommRegister: bytes is 0");
    int before;
    CCL_TRY(ccl_device_enter(comm->rt, comm->props.is_host, comm->device, &before));
    return ccl_device_leave(comm->rt, before, ccl_heap_register(comm->heap, buff, bytes, handle));
}

cclResult_t cclCommDeregister(cclComm_t comm, void *handle)
{
    CCL_TRY(ccl_api_check_comm(comm, "cclCommDeregister"));
    if (handle == NULL) {
        return cclSuccess;
    }
    int before;
    CCL_TRY(ccl_device_enter(comm->rt, comm->props.is_host, comm->device, &before));
    return ccl_device_leave(comm->rt, before, ccl_heap_deregister(comm->heap, handle));
}

cclResult_t cclPointerInfo(cclComm_t comm, const void *ptr, cclPointerInfo_t *info)
{
    CCL_TRY(ccl_api_check_comm(comm, "cclPointerInfo"));
    CCL_TRY(ccl_api_check_ptr(ptr, "cclPointerInfo", "ptr"));
    CCL_TRY(ccl_api_check_ptr(info, "cclPointerInfo", "info"));
    ccl_heap_pointer_info(comm->heap, ptr, info);
    return cclSuccess;
}

/* ---- collectives ---- */

struct coll_job {
    cclComm_t comm;
    struct ccl_coll_call call;
};

static cclResult_t run_all_gather(void *arg, struct cclStream *stream)
{
    struct coll_job *j = arg;
    return ccl_coll_all_gather(j->comm, &j->call, stream);
}

static cclResult_t run_barrier(void *arg, struct cclStream *stream)
{
    struct coll_job *j = arg;
    return ccl_coll_barrier(j->comm, stream);
}

cclResult_t cclBarrier(cclComm_t comm, cclStream_t stream)
{
    cclResult_t rc = ccl_api_check_open(comm, "cclBarrier");
    if (rc == cclSuccess && ccl_group_active()) {
        struct coll_job j = {.comm = comm};
        rc = ccl_group_submit(CCL_JOB_ENQUEUE, run_barrier, &j, sizeof(j), comm, stream);
    } else if (rc == cclSuccess) {
        rc = ccl_coll_barrier(comm, stream);
    }
    CCL_API_NOTE(rc);
}

static cclResult_t check_buffers(const void *send, const void *recv, cclDataType_t type, cclComm_t comm, const char *func)
{
    CCL_TRY(ccl_api_check_open(comm, func));
    CCL_CHECK((unsigned)type < cclNumTypes, cclInvalidArgument, CCL_COLL, "%s: type %d is unknown", func, (int)type);
    CCL_TRY(ccl_api_check_ptr(send, func, "send buffer (sendbuff)"));
    return ccl_api_check_ptr(recv, func, "receive buffer (recvbuff)");
}

static cclResult_t submit_all_gather(cclComm_t comm, const struct ccl_coll_call *call, cclStream_t stream)
{
    if (CCL_UNLIKELY(ccl_group_active())) {
        struct coll_job j = {.comm = comm, .call = *call};
        return ccl_group_submit(CCL_JOB_ENQUEUE, run_all_gather, &j, sizeof(j), comm, stream);
    }
    return ccl_coll_all_gather(comm, call, stream);
}

cclResult_t cclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount, cclDataType_t type, cclComm_t comm,
                         cclStream_t stream)
{
    cclResult_t rc = cclSuccess;
    if (sendcount != 0 || comm == NULL || (unsigned)type >= cclNumTypes) {
        rc = check_buffers(sendbuff, recvbuff, type, comm, "cclAllGather");
    } else {
        rc = ccl_api_check_open(comm, "cclAllGather");
    }
    if (rc == cclSuccess && sendcount != 0) {
        struct ccl_coll_call call;
        call.op = CCL_OP_ALL_GATHER;
        call.type = type;
        call.send = sendbuff;
        call.recv = recvbuff;
        call.rows = 1;
        call.count = call.ld_send = call.ld_recv = sendcount;
        call.has_config = false;
        rc = submit_all_gather(comm, &call, stream);
    }
    CCL_API_NOTE(rc);
}

cclResult_t cclAllGather2D(const void *send, size_t ld_send, void *recv, size_t ld_recv, size_t m, size_t n,
                           cclDataType_t type, const cclCallConfig_t *config, cclComm_t comm, cclStream_t stream)
{
    struct ccl_coll_call call = {.op = CCL_OP_ALL_GATHER_2D,
                                 .type = type,
                                 .send = send,
                                 .recv = recv,
                                 .rows = m,
                                 .count = n,
                                 .ld_send = ld_send,
                                 .ld_recv = ld_recv,
                                 .has_config = config != NULL};
    cclResult_t rc = check_buffers(send, recv, type, comm, "cclAllGather2D");
    if (rc == cclSuccess && (ld_send < n || ld_recv < n)) {
        rc = ccl_error_set(cclInvalidArgument, CCL_COLL, "cclAllGather2D: %s is %zu, less than n, %zu",
                           ld_send < n ? "ld_send" : "ld_recv", ld_send < n ? ld_send : ld_recv, n);
    }
    if (rc == cclSuccess && config != NULL) {
        rc = ccl_api_read_call_config(config, &call.config);
    }
    if (rc == cclSuccess && m != 0 && n != 0) {
        rc = submit_all_gather(comm, &call, stream);
    }
    CCL_API_NOTE(rc);
}

cclResult_t cclGetEffectiveConfig(cclComm_t comm, cclCallConfig_t *config)
{
    CCL_TRY(ccl_api_check_comm(comm, "cclGetEffectiveConfig"));
    CCL_TRY(ccl_api_check_ptr(config, "cclGetEffectiveConfig", "config"));
    cclCallConfig_t checked;
    CCL_TRY(ccl_api_read_call_config(config, &checked));
    CCL_CHECK(comm->effective != NULL, cclInvalidUsage, CCL_COLL, "cclGetEffectiveConfig: nothing was enqueued yet");
    size_t size = ccl_min_size(config->size, sizeof(*config));
    cclCallConfig_t out = *comm->effective;
    out.size = size;
    memcpy(config, &out, size);
    return cclSuccess;
}
