/* SPDX-License-Identifier: MIT
 *
 * What the NCCL shim (src/compat) needs of the library beyond its public functions, and all it may use: groups, and what NCCL can do to a
 * communicator that libccl's own API has no call for (ccl_comm_shrink is in comm.h). */
#ifndef CCL_COMM_BRIDGE_H
#define CCL_COMM_BRIDGE_H

#include "comm/group.h"

/* The id of the rendezvous at where, "host:port", the same for all who ask; serve: open it in this process. Joining waits, up to the deadline of
 * init, until somebody serves. cclInvalidArgument: where is no address. */
cclResult_t ccl_comm_id_at(const char *where, bool serve, cclUniqueId *id);
/* End the waits of all ranks' operations with cclRemoteError, as cclCommAbort does, and keep comm, for split, shrink, abort and destroy. From any
 * thread. */
cclResult_t ccl_comm_revoke(cclComm_t comm);
/* While *flag is true, waits for other ranks in setup calls of this thread end as if the deadline had passed. NULL: no such flag. */
void ccl_comm_set_cancel(const bool *flag);

#endif
