/* SPDX-License-Identifier: MIT
 *
 * Argument checks the public functions share. Each names the function, the argument and its value. */
#ifndef CCL_SRC_API_H
#define CCL_SRC_API_H

#include "comm/comm.h"
#include "comm/group.h"
#include "util/log.h"

/* A failing call inside a group is remembered for cclGroupEnd. */
#define CCL_API_NOTE(call) return ccl_group_note(call)

static inline cclResult_t ccl_api_check_comm(cclComm_t comm, const char *func)
{
    CCL_CHECK(comm != NULL, cclInvalidArgument, CCL_INIT, "%s: comm is NULL", func);
    CCL_CHECK(comm->magic == CCL_COMM_MAGIC, cclInvalidArgument, CCL_INIT, "%s: comm %p is no communicator", func,
              (void *)comm);
    CCL_CHECK(comm->generation == ccl_comm_generation, cclInvalidUsage, CCL_INIT,
              "%s: the communicator belongs to the parent of this forked process", func);
    return cclSuccess;
}

static inline cclResult_t ccl_api_check_open(cclComm_t comm, const char *func)
{
    CCL_TRY(ccl_api_check_comm(comm, func));
    CCL_CHECK(!comm->finalized, cclInvalidUsage, CCL_INIT, "%s: the communicator is finalized", func);
    return cclSuccess;
}

static inline cclResult_t ccl_api_check_ptr(const void *ptr, const char *func, const char *name)
{
    CCL_CHECK(ptr != NULL, cclInvalidArgument, CCL_INIT, "%s: %s is NULL", func, name);
    return cclSuccess;
}

#endif
