/* SPDX-License-Identifier: MIT
 *
 * CCL_CHECK: what a call says about its memory is true. Off the fast path: a question to the runtime a buffer. */
#include "coll/coll.h"

#include "util/log.h"

/* A rectangle of bytes of the caller. */
struct extent {
    const char *name;
    uintptr_t start;
    size_t bytes; /* from the first to behind the last byte */
};

static cclResult_t check_memory(cclComm_t comm, const struct extent *e)
{
    struct ccl_pointer_attr attr;
    const void *ptr = (const void *)e->start;
    CCL_TRY(comm->rt->pointer_query(ptr, &attr));
    CCL_CHECK(attr.base != NULL || attr.device >= 0, cclInvalidArgument, CCL_COLL,
              "%s buffer %p of %zu bytes on rank %d is no device memory: host memory, never allocated or freed; device %d needs its own", e->name,
              ptr, e->bytes, comm->rank, comm->device);
    CCL_CHECK(attr.device >= 0, cclInvalidArgument, CCL_COLL,
              "%s buffer %p of %zu bytes on rank %d is host memory, device %d needs its own", e->name, ptr, e->bytes, comm->rank,
              comm->device);
    CCL_CHECK(attr.device == comm->device, cclInvalidArgument, CCL_COLL,
              "%s buffer %p of %zu bytes on rank %d is memory of device %d, the communicator's device is %d", e->name, ptr, e->bytes,
              comm->rank, attr.device, comm->device);
    CCL_CHECK(attr.base != NULL, cclInvalidArgument, CCL_COLL,
              "%s buffer %p of %zu bytes on rank %d lies in no allocation of device %d, was it freed?", e->name, ptr, e->bytes, comm->rank,
              comm->device);
    size_t off = e->start - (uintptr_t)attr.base;
    CCL_CHECK(off <= attr.size_bytes && e->bytes <= attr.size_bytes - off, cclInvalidArgument, CCL_COLL,
              "%s buffer %p of %zu bytes on rank %d ends beyond its allocation %p of %zu bytes on device %d", e->name, ptr, e->bytes,
              comm->rank, attr.base, attr.size_bytes, comm->device);
    return cclSuccess;
}

static cclResult_t check_overlap(cclComm_t comm, const struct ccl_coll_call *call, const struct extent *send,
                                 const struct extent *recv)
{
    const struct ccl_k_coll_args *a = &comm->args;
    bool in_place = a->src == a->dst + a->rank * a->dst_part && (a->ld_src == a->ld_dst || call->rows == 1);
    bool apart = send->start + send->bytes <= recv->start || recv->start + recv->bytes <= send->start;
    CCL_CHECK(in_place || apart, cclInvalidArgument, CCL_COLL,
              "send buffer %p of %zu bytes and receive buffer %p of %zu bytes overlap on rank %d (device %d), and the send buffer is not part %d of it",
              (void *)send->start, send->bytes, (void *)recv->start, recv->bytes, comm->rank, comm->device, comm->rank);
    return cclSuccess;
}

static cclResult_t check_all(cclComm_t comm, const struct ccl_coll_call *call)
{
    const struct ccl_k_coll_args *a = &comm->args;
    const struct extent send = {"send", a->src, (size_t)((a->rows - 1) * a->ld_src + a->row_bytes)};
    const struct extent recv = {"receive", a->dst, comm->plan.recv_bytes};
    if (!comm->props.is_host) { /* there any memory will do */
        CCL_TRY(check_memory(comm, &send));
        CCL_TRY(check_memory(comm, &recv));
    }
    return check_overlap(comm, call, &send, &recv);
}

cclResult_t ccl_coll_check_buffers(cclComm_t comm, const struct ccl_coll_call *call)
{
    cclResult_t rc = check_all(comm, call);
    if (rc != cclSuccess) {
        /* The peers have called the same and would wait for this rank. */
        ccl_comm_raise(comm, rc, CCL_REASON_REFUSED, comm->rank);
    }
    return rc;
}
