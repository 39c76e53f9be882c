/* SPDX-License-Identifier: MIT
 *
 * Enqueue the collectives beside all-gather. */
#include "coll/coll.h"

#include "util/log.h"

cclResult_t ccl_coll_run(cclComm_t comm, const struct ccl_coll_call *call, struct cclStream *stream)
{
    (void)stream;
    return ccl_error_set(cclInvalidUsage, CCL_COLL, "backend %s has no %s", comm->rt->name, ccl_comm_op_name(call->op));
}

cclResult_t ccl_coll_p2p(cclComm_t comm, const void *const *calls, size_t count, struct cclStream *stream)
{
    (void)calls, (void)count, (void)stream;
    return ccl_error_set(cclInvalidUsage, CCL_COLL, "backend %s has no send and receive", comm->rt->name);
}
