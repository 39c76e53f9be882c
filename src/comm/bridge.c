/* SPDX-License-Identifier: MIT
 *
 * What only the NCCL shim asks for; see bridge.h. Shrinking is in comm.c, beside splitting. */
#include "comm/bridge.h"

#include "util/log.h"

cclResult_t ccl_comm_id_at(const char *where, bool serve, cclUniqueId *id)
{
    return ccl_bootstrap_id_at(where, serve, id);
}

void ccl_comm_set_cancel(const bool *flag)
{
    ccl_bootstrap_set_cancel(flag);
}

cclResult_t ccl_comm_revoke(cclComm_t comm)
{
    CCL_CHECK(ccl_comm_raise_live(comm), cclInvalidArgument, CCL_INIT, "comm %p is no live communicator", (void *)comm);
    return cclSuccess;
}
