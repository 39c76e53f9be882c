/* SPDX-License-Identifier: MIT
 *
 * The public collectives beside all-gather, and send and receive: argument checks, then on to coll, at once or with the group. */
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "coll/coll.h"

struct coll_job {
    cclComm_t comm;
    struct ccl_coll_call call;
};

static cclResult_t run_coll(void *arg, struct cclStream *stream)
{
    struct coll_job *j = arg;
    return ccl_coll_run(j->comm, &j->call, stream);
}

static cclResult_t check_type(cclDataType_t type, cclComm_t comm, const char *func)
{
    CCL_TRY(ccl_api_check_open(comm, func));
    CCL_CHECK((unsigned)type < cclNumTypes, cclInvalidArgument, CCL_COLL, "%s: type %d is unknown", func, (int)type);
    return cclSuccess;
}

static cclResult_t check_rank(int rank, const char *name, cclComm_t comm, const char *func)
{
    CCL_CHECK(rank >= 0 && rank < comm->n, cclInvalidArgument, CCL_COLL, "%s: %s is %d, not 0 to %d", func, name, rank, comm->n - 1);
    return cclSuccess;
}

static cclResult_t check_op(cclRedOp_t op, cclDataType_t type, cclComm_t comm, const char *func)
{
    const struct ccl_redop *user;
    if ((unsigned)op < cclNumOps) {
        return cclSuccess;
    }
    user = ccl_redop_find(comm, op);
    CCL_CHECK(user != NULL, cclInvalidArgument, CCL_COLL, "%s: operator %d is none of this communicator", func, (int)op);
    CCL_CHECK(user->type == type, cclInvalidArgument, CCL_COLL, "%s: operator %d was made for %s, the call has %s", func, (int)op,
              ccl_comm_type_name((uint32_t)user->type), ccl_comm_type_name((uint32_t)type));
    return cclSuccess;
}

/* Checked, and not empty. */
static cclResult_t submit(cclComm_t comm, const struct ccl_coll_call *call, cclStream_t stream)
{
    if (CCL_UNLIKELY(ccl_group_active())) {
        struct coll_job j = {.comm = comm, .call = *call};
        return ccl_group_submit(CCL_JOB_ENQUEUE, run_coll, &j, sizeof(j), comm, stream);
    }
    return ccl_coll_run(comm, call, stream);
}

/* The buffers that this rank uses are there. root -1: all ranks use both. */
static cclResult_t check_and_submit(cclComm_t comm, const struct ccl_coll_call *call, bool sends, bool receives, cclStream_t stream,
                                    const char *func)
{
    if (call->count == 0) {
        return cclSuccess;
    }
    if (sends) {
        CCL_TRY(ccl_api_check_ptr(call->send, func, "send buffer (sendbuff)"));
    }
    if (receives) {
        CCL_TRY(ccl_api_check_ptr(call->recv, func, "receive buffer (recvbuff)"));
    }
    return submit(comm, call, stream);
}

static cclResult_t reduction(uint32_t kind, const void *send, void *recv, size_t count, cclDataType_t type, cclRedOp_t op, int root,
                             cclComm_t comm, cclStream_t stream, const char *func)
{
    struct ccl_coll_call call = {.op = kind, .type = type, .send = send, .recv = recv, .rows = 1, .count = count, .redop = op, .root = root};
    CCL_TRY(check_type(type, comm, func));
    CCL_TRY(check_rank(root, "root", comm, func));
    CCL_TRY(check_op(op, type, comm, func));
    if (op >= cclNumOps) {
        const struct ccl_redop *user = ccl_redop_find(comm, op); /* as it is now: it may be destroyed before the group ends */
        call.redop = cclNumOps;
        call.scalar = user->scalar;
        call.scalar_on_device = user->on_device;
    }
    return check_and_submit(comm, &call, true, kind != CCL_OP_REDUCE || root == comm->rank, stream, func);
}

cclResult_t cclAllReduce(const void *sendbuff, void *recvbuff, size_t count, cclDataType_t type, cclRedOp_t op, cclComm_t comm,
                         cclStream_t stream)
{
    CCL_API_NOTE(reduction(CCL_OP_ALL_REDUCE, sendbuff, recvbuff, count, type, op, 0, comm, stream, "cclAllReduce"));
}

cclResult_t cclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount, cclDataType_t type, cclRedOp_t op, cclComm_t comm,
                             cclStream_t stream)
{
    CCL_API_NOTE(reduction(CCL_OP_REDUCE_SCATTER, sendbuff, recvbuff, recvcount, type, op, 0, comm, stream, "cclReduceScatter"));
}

cclResult_t cclReduce(const void *sendbuff, void *recvbuff, size_t count, cclDataType_t type, cclRedOp_t op, int root, cclComm_t comm,
                      cclStream_t stream)
{
    CCL_API_NOTE(reduction(CCL_OP_REDUCE, sendbuff, recvbuff, count, type, op, root, comm, stream, "cclReduce"));
}

static cclResult_t copying(uint32_t kind, const void *send, void *recv, size_t count, cclDataType_t type, int root, cclComm_t comm,
                           cclStream_t stream, const char *func)
{
    struct ccl_coll_call call = {.op = kind, .type = type, .send = send, .recv = recv, .rows = 1, .count = count, .root = root};
    CCL_TRY(check_type(type, comm, func));
    CCL_TRY(check_rank(root, "root", comm, func));
    bool is_root = root == comm->rank, all_send = kind == CCL_OP_ALL_TO_ALL || kind == CCL_OP_GATHER;
    return check_and_submit(comm, &call, all_send || is_root, kind != CCL_OP_GATHER || is_root, stream, func);
}

cclResult_t cclBroadcast(const void *sendbuff, void *recvbuff, size_t count, cclDataType_t type, int root, cclComm_t comm,
                         cclStream_t stream)
{
    CCL_API_NOTE(copying(CCL_OP_BROADCAST, sendbuff, recvbuff, count, type, root, comm, stream, "cclBroadcast"));
}

cclResult_t cclAllToAll(const void *sendbuff, void *recvbuff, size_t count, cclDataType_t type, cclComm_t comm, cclStream_t stream)
{
    CCL_API_NOTE(copying(CCL_OP_ALL_TO_ALL, sendbuff, recvbuff, count, type, 0, comm, stream, "cclAllToAll"));
}

cclResult_t cclGather(const void *sendbuff, void *recvbuff, size_t count, cclDataType_t type, int root, cclComm_t comm,
                      cclStream_t stream)
{
    CCL_API_NOTE(copying(CCL_OP_GATHER, sendbuff, recvbuff, count, type, root, comm, stream, "cclGather"));
}

cclResult_t cclScatter(const void *sendbuff, void *recvbuff, size_t count, cclDataType_t type, int root, cclComm_t comm,
                       cclStream_t stream)
{
    CCL_API_NOTE(copying(CCL_OP_SCATTER, sendbuff, recvbuff, count, type, root, comm, stream, "cclScatter"));
}

static bool any_count(const size_t *counts, int n)
{
    for (int r = 0; r < n; r++) {
        if (counts[r] != 0) {
            return true;
        }
    }
    return false;
}

/* The call is made at the end of the group, its arrays are read now. */
static cclResult_t copy_counts(struct ccl_coll_call *call, int n)
{
    const size_t bytes = (size_t)n * sizeof(size_t), *from[] = {call->v.sendcounts, call->v.sdispls, call->v.recvcounts, call->v.rdispls};
    size_t *copy = malloc(4 * bytes);
    CCL_CHECK(copy != NULL, cclSystemError, CCL_COLL, "out of memory for the counts of %d ranks", n);
    for (int i = 0; i < 4; i++) {
        memcpy(copy + i * n, from[i], bytes);
    }
    call->v.sendcounts = copy;
    call->v.sdispls = copy + n;
    call->v.recvcounts = copy + 2 * n;
    call->v.rdispls = copy + 3 * n;
    cclResult_t rc = ccl_group_keep(copy);
    if (rc != cclSuccess) {
        free(copy);
    }
    return rc;
}

static cclResult_t all_to_all_v(struct ccl_coll_call *call, cclComm_t comm, cclStream_t stream)
{
    const char *func = "cclAllToAllv";
    CCL_TRY(check_type(call->type, comm, func));
    CCL_TRY(ccl_api_check_ptr(call->v.sendcounts, func, "sendcounts"));
    CCL_TRY(ccl_api_check_ptr(call->v.sdispls, func, "sdispls"));
    CCL_TRY(ccl_api_check_ptr(call->v.recvcounts, func, "recvcounts"));
    CCL_TRY(ccl_api_check_ptr(call->v.rdispls, func, "rdispls"));
    if (any_count(call->v.sendcounts, comm->n)) {
        CCL_TRY(ccl_api_check_ptr(call->send, func, "send buffer (sendbuff)"));
    }
    if (any_count(call->v.recvcounts, comm->n)) {
        CCL_TRY(ccl_api_check_ptr(call->recv, func, "receive buffer (recvbuff)"));
    }
    CCL_CHECK(call->v.sendcounts[comm->rank] == call->v.recvcounts[comm->rank], cclInvalidArgument, CCL_COLL,
              "%s: rank %d has %zu elements for itself (sendcounts), but expects %zu (recvcounts)", func, comm->rank, call->v.sendcounts[comm->rank],
              call->v.recvcounts[comm->rank]);
    if (ccl_group_active()) {
        CCL_TRY(copy_counts(call, comm->n));
    }
    return submit(comm, call, stream);
}

cclResult_t cclAllToAllv(const void *sendbuff, const size_t sendcounts[], const size_t sdispls[], void *recvbuff,
                         const size_t recvcounts[], const size_t rdispls[], cclDataType_t type, cclComm_t comm, cclStream_t stream)
{
    struct ccl_coll_call call = {.op = CCL_OP_ALL_TO_ALL_V,
                                 .type = type,
                                 .send = sendbuff,
                                 .recv = recvbuff,
                                 .rows = 1,
                                 .v = {sendcounts, sdispls, recvcounts, rdispls}};
    CCL_API_NOTE(all_to_all_v(&call, comm, stream));
}

/* ---- operators ---- */

static cclResult_t create_premulsum(cclRedOp_t *op, void *scalar, cclDataType_t type, cclScalarResidence_t residence, cclComm_t comm)
{
    const char *func = "cclRedOpCreatePreMulSum";
    CCL_TRY(check_type(type, comm, func));
    CCL_TRY(ccl_api_check_ptr(op, func, "op"));
    CCL_TRY(ccl_api_check_ptr(scalar, func, "scalar"));
    CCL_CHECK(residence == cclScalarDevice || residence == cclScalarHostImmediate, cclInvalidArgument, CCL_COLL,
              "%s: residence %d is unknown", func, (int)residence);
    return ccl_redop_create(comm, scalar, type, residence, op);
}

cclResult_t cclRedOpCreatePreMulSum(cclRedOp_t *op, void *scalar, cclDataType_t type, cclScalarResidence_t residence, cclComm_t comm)
{
    CCL_API_NOTE(create_premulsum(op, scalar, type, residence, comm));
}

static cclResult_t destroy_op(cclRedOp_t op, cclComm_t comm)
{
    CCL_TRY(ccl_api_check_comm(comm, "cclRedOpDestroy"));
    CCL_CHECK(ccl_redop_destroy(comm, op), cclInvalidArgument, CCL_COLL, "cclRedOpDestroy: operator %d is none of this communicator",
              (int)op);
    return cclSuccess;
}

cclResult_t cclRedOpDestroy(cclRedOp_t op, cclComm_t comm)
{
    CCL_API_NOTE(destroy_op(op, comm));
}

/* ---- send and receive ---- */

static cclResult_t message(uint32_t kind, const void *buff, size_t count, cclDataType_t type, int peer, cclComm_t comm,
                           cclStream_t stream, const char *func)
{
    CCL_TRY(check_type(type, comm, func));
    CCL_TRY(check_rank(peer, "peer", comm, func));
    if (count != 0) {
        CCL_TRY(ccl_api_check_ptr(buff, func, "buff"));
    }
    const struct ccl_p2p_call call = {.op = kind, .type = type, .peer = peer, .buff = (uint64_t)buff, .count = count};
    return ccl_group_submit_batch(ccl_coll_p2p, &call, sizeof(call), comm, stream);
}

cclResult_t cclSend(const void *buff, size_t count, cclDataType_t type, int peer, cclComm_t comm, cclStream_t stream)
{
    CCL_API_NOTE(message(CCL_OP_SEND, buff, count, type, peer, comm, stream, "cclSend"));
}

cclResult_t cclRecv(void *buff, size_t count, cclDataType_t type, int peer, cclComm_t comm, cclStream_t stream)
{
    CCL_API_NOTE(message(CCL_OP_RECV, buff, count, type, peer, comm, stream, "cclRecv"));
}
