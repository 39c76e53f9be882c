/* SPDX-License-Identifier: MIT
 *
 * The collectives, sends and receives: types, operators, streams and buffer rules are those of libccl, so a call is a check and the call below it. With
 * NCCL_CHECK_POINTERS a NULL buffer is refused even where there is nothing to move. */
#include "compat.h"

#include "util/config.h"

_Static_assert((int)ncclNumTypes == (int)cclNumTypes && (int)ncclFloat8e5m2 == (int)cclFloat8e5m2 && (int)ncclBfloat16 == (int)cclBfloat16,
               "types are passed on as numbers");
_Static_assert((int)ncclNumOps == (int)cclNumOps && (int)ncclAvg == (int)cclAvg && (int)ncclMin == (int)cclMin && (int)ncclMax == (int)cclMax,
               "operators are passed on as numbers");

#define TYPE ((cclDataType_t)datatype)
#define OP ((cclRedOp_t)op)
#define STREAM ((cclStream_t)stream)

static ncclResult_t check_pointer(const void *ptr, bool used, const char *func, const char *name)
{
    if (CCL_LIKELY(ptr != NULL || !used || ccl_env_get()->nccl_check_pointers == 0)) {
        return ncclSuccess;
    }
    return ccl_compat_note(ccl_error_set(ncclInvalidArgument, CCL_COLL, "%s: %s is NULL", func, name));
}

/* send, recv: does this rank use it? */
static ncclResult_t check(ncclComm_t comm, const void *sendbuff, bool send, const void *recvbuff, bool recv, const char *func)
{
    CCL_COMPAT_TRY(ccl_compat_check(comm, func));
    CCL_COMPAT_TRY(check_pointer(sendbuff, send, func, "sendbuff"));
    return check_pointer(recvbuff, recv, func, "recvbuff");
}

ncclResult_t ncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)
{
    CCL_COMPAT_TRY(check(comm, sendbuff, true, recvbuff, true, "ncclAllGather"));
    return ccl_compat_result(cclAllGather(sendbuff, recvbuff, sendcount, TYPE, comm->ccl, STREAM));
}
CCL_COMPAT_ALIAS(ncclAllGather);

ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream)
{
    CCL_COMPAT_TRY(check(comm, sendbuff, true, recvbuff, true, "ncclAllReduce"));
    return ccl_compat_result(cclAllReduce(sendbuff, recvbuff, count, TYPE, OP, comm->ccl, STREAM));
}
CCL_COMPAT_ALIAS(ncclAllReduce);

ncclResult_t ncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream)
{
    CCL_COMPAT_TRY(check(comm, sendbuff, true, recvbuff, true, "ncclReduceScatter"));
    return ccl_compat_result(cclReduceScatter(sendbuff, recvbuff, recvcount, TYPE, OP, comm->ccl, STREAM));
}
CCL_COMPAT_ALIAS(ncclReduceScatter);

ncclResult_t ncclReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
                        cudaStream_t stream)
{
    CCL_COMPAT_TRY(check(comm, sendbuff, true, recvbuff, comm != NULL && comm->rank == root, "ncclReduce"));
    return ccl_compat_result(cclReduce(sendbuff, recvbuff, count, TYPE, OP, root, comm->ccl, STREAM));
}
CCL_COMPAT_ALIAS(ncclReduce);

ncclResult_t ncclBroadcast(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                           cudaStream_t stream)
{
    CCL_COMPAT_TRY(check(comm, sendbuff, comm != NULL && comm->rank == root, recvbuff, true, "ncclBroadcast"));
    return ccl_compat_result(cclBroadcast(sendbuff, recvbuff, count, TYPE, root, comm->ccl, STREAM));
}
CCL_COMPAT_ALIAS(ncclBroadcast);

ncclResult_t ncclBcast(void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)
{
    CCL_COMPAT_TRY(check(comm, buff, true, buff, true, "ncclBcast"));
    return ccl_compat_result(cclBroadcast(buff, buff, count, TYPE, root, comm->ccl, STREAM));
}
CCL_COMPAT_ALIAS(ncclBcast);

ncclResult_t ncclGather(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)
{
    CCL_COMPAT_TRY(check(comm, sendbuff, true, recvbuff, comm != NULL && comm->rank == root, "ncclGather"));
    return ccl_compat_result(cclGather(sendbuff, recvbuff, count, TYPE, root, comm->ccl, STREAM));
}
CCL_COMPAT_ALIAS(ncclGather);

ncclResult_t ncclScatter(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)
{
    CCL_COMPAT_TRY(check(comm, sendbuff, comm != NULL && comm->rank == root, recvbuff, true, "ncclScatter"));
    return ccl_compat_result(cclScatter(sendbuff, recvbuff, count, TYPE, root, comm->ccl, STREAM));
}
CCL_COMPAT_ALIAS(ncclScatter);

ncclResult_t ncclAlltoAll(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)
{
    CCL_COMPAT_TRY(check(comm, sendbuff, true, recvbuff, true, "ncclAlltoAll"));
    return ccl_compat_result(cclAllToAll(sendbuff, recvbuff, count, TYPE, comm->ccl, STREAM));
}
CCL_COMPAT_ALIAS(ncclAlltoAll);

/* Without elements a message has no buffer to check. */
ncclResult_t ncclSend(const void *sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream)
{
    CCL_COMPAT_TRY(check(comm, sendbuff, count > 0, NULL, false, "ncclSend"));
    return ccl_compat_result(cclSend(sendbuff, count, TYPE, peer, comm->ccl, STREAM));
}
CCL_COMPAT_ALIAS(ncclSend);

ncclResult_t ncclRecv(void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream)
{
    CCL_COMPAT_TRY(check(comm, NULL, false, recvbuff, count > 0, "ncclRecv"));
    return ccl_compat_result(cclRecv(recvbuff, count, TYPE, peer, comm->ccl, STREAM));
}
CCL_COMPAT_ALIAS(ncclRecv);

/* ---- operators ---- */

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t datatype, ncclScalarResidence_t residence, ncclComm_t comm)
{
    cclRedOp_t made;
    CCL_COMPAT_TRY(ccl_compat_check(comm, "ncclRedOpCreatePreMulSum"));
    CCL_COMPAT_CHECK(op != NULL, ncclInvalidArgument, "ncclRedOpCreatePreMulSum: op is NULL");
    CCL_COMPAT_TRY(ccl_compat_result(cclRedOpCreatePreMulSum(&made, scalar, TYPE, (cclScalarResidence_t)residence, comm->ccl)));
    *op = (ncclRedOp_t)made;
    return ncclSuccess;
}
CCL_COMPAT_ALIAS(ncclRedOpCreatePreMulSum);

/* Also on a communicator that has failed: programs clean up. */
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
    CCL_COMPAT_TRY(ccl_compat_check_object(comm, "ncclRedOpDestroy"));
    CCL_COMPAT_CHECK(comm->ccl != NULL, ncclInvalidArgument, "ncclRedOpDestroy: the communicator is not ready yet");
    return ccl_compat_result(cclRedOpDestroy(OP, comm->ccl));
}
CCL_COMPAT_ALIAS(ncclRedOpDestroy);
