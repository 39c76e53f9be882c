/* SPDX-License-Identifier: MIT
 *
 * Enqueue sends and receives. */
#include "coll/coll.h"

#include "util/log.h"

cclResult_t ccl_coll_p2p(cclComm_t comm, const void *const *calls, size_t count, struct cclStream *stream)
{
    (void)calls, (void)count, (void)stream;
    return ccl_error_set(cclInvalidUsage, CCL_COLL, "backend %s has no send and receive", comm->rt->name);
}
