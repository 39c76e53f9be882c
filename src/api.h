/* SPDX-License-Identifier: MIT
 *
 * Argument checks the public functions share. Each names the function, the argument and its value. */
#ifndef CCL_SRC_API_H
#define CCL_SRC_API_H

#include <string.h>

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

/* Fields that the caller's header does not know are unset. */
static inline cclResult_t ccl_api_read_call_config(const cclCallConfig_t *user, cclCallConfig_t *out)
{
    const cclCallConfig_t dflt = CCL_CALL_CONFIG_INITIALIZER;
    CCL_CHECK(user->magic == CCL_STRUCT_MAGIC && user->size >= offsetof(cclCallConfig_t, comm_sms), cclInvalidArgument,
              CCL_COLL, "config: magic %#x size %zu, was it initialised with CCL_CALL_CONFIG_INITIALIZER?", user->magic,
              user->size);
    *out = dflt;
    memcpy(out, user, ccl_min_size(user->size, sizeof(*out)));
    out->size = sizeof(*out);
    out->version = CCL_VERSION;
    return cclSuccess;
}

static inline cclResult_t ccl_api_check_ptr(const void *ptr, const char *func, const char *name)
{
    CCL_CHECK(ptr != NULL, cclInvalidArgument, CCL_INIT, "%s: %s is NULL", func, name);
    return cclSuccess;
}

#endif
