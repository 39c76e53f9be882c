/* SPDX-License-Identifier: MIT
 *
 * The public functions of fused matrix products: argument checks, then on to fused. */
#include <string.h>

#include "api.h"
#include "fused/matmul.h"

static cclResult_t read_desc(const char *who, const cclMatmulDesc_t *user, cclMatmulDesc_t *out)
{
    const cclMatmulDesc_t dflt = CCL_MATMUL_DESC_INITIALIZER;
    CCL_TRY(ccl_api_check_ptr(user, who, "desc"));
    CCL_CHECK(user->magic == CCL_STRUCT_MAGIC && user->size >= offsetof(cclMatmulDesc_t, m), cclInvalidArgument, CCL_COLL,
              "%s: desc: magic %#x size %zu, was it initialised with CCL_MATMUL_DESC_INITIALIZER?", who, user->magic, user->size);
    *out = dflt;
    memcpy(out, user, ccl_min_size(user->size, sizeof(*out)));
    out->size = sizeof(*out);
    out->version = CCL_VERSION;
    return cclSuccess;
}

static cclResult_t check_backend(const char *who, cclComm_t comm)
{
    CCL_CHECK(comm->props.is_host || comm->agreed.matrix_core != CCL_MATRIX_CORE_NONE, cclInvalidUsage, CCL_COLL,
              "%s: backend %s has no fused matrix products for %s in this build, or not the same for all ranks", who, comm->rt->name, comm->props.arch);
    CCL_CHECK(comm->props.is_host || comm->n <= CCL_GPU_PAIRS, cclInvalidUsage, CCL_COLL, "%s on backend %s: %d ranks, at most %d", who, comm->rt->name,
              comm->n, CCL_GPU_PAIRS);
    return cclSuccess;
}

/* ---- workspaces ---- */

struct workspace_job {
    cclComm_t comm;
    cclMatmulWorkspace_t *out, ws;
    cclMatmulDesc_t desc;
    cclCallConfig_t config;
};

static cclResult_t create(struct workspace_job *j)
{
    struct ccl_matmul_needs needs;
    CCL_TRY(ccl_matmul_needs(j->comm, &j->desc, &j->config, &needs));
    return ccl_matmul_workspace_create(j->comm, &needs, j->out);
}

static cclResult_t run_create(void *arg, struct cclStream *stream)
{
    struct workspace_job *j = arg;
    int before;
    (void)stream;
    CCL_TRY(ccl_device_enter(j->comm->rt, j->comm->props.is_host, j->comm->device, &before));
    return ccl_device_leave(j->comm->rt, before, create(j));
}

static cclResult_t run_destroy(void *arg, struct cclStream *stream)
{
    struct workspace_job *j = arg;
    int before;
    (void)stream;
    CCL_TRY(ccl_comm_wait_idle(j->comm));
    CCL_TRY(ccl_device_enter(j->comm->rt, j->comm->props.is_host, j->comm->device, &before));
    return ccl_device_leave(j->comm->rt, before, ccl_matmul_workspace_destroy(j->ws));
}

static cclResult_t workspace_create(cclComm_t comm, const cclMatmulDesc_t *user_desc, const cclCallConfig_t *user_config, cclMatmulWorkspace_t *ws)
{
    const char *who = "cclMatmulWorkspaceCreate";
    struct workspace_job j = {.comm = comm, .out = ws, .config = CCL_CALL_CONFIG_INITIALIZER};
    struct ccl_matmul_needs needs;
    CCL_TRY(ccl_api_check_open(comm, who));
    CCL_TRY(ccl_api_check_ptr(ws, who, "ws"));
    CCL_TRY(read_desc(who, user_desc, &j.desc));
    CCL_TRY(check_backend(who, comm));
    if (user_config != NULL) {
        CCL_TRY(ccl_api_read_call_config(user_config, &j.config));
    }
    const struct ccl_matmul_world world = ccl_matmul_world(comm);
    CCL_TRY(ccl_matmul_plan_needs(who, &world, &j.desc, &j.config, &needs)); /* what is wrong alike on all ranks is said before they exchange anything */
    return ccl_group_submit(CCL_JOB_SETUP, run_create, &j, sizeof(j), comm, NULL);
}

cclResult_t cclMatmulWorkspaceCreate(cclComm_t comm, const cclMatmulDesc_t *desc, const cclCallConfig_t *config, cclMatmulWorkspace_t *ws)
{
    CCL_API_NOTE(workspace_create(comm, desc, config, ws));
}

static cclResult_t check_workspace(const char *who, const struct cclMatmulWorkspace *ws)
{
    CCL_CHECK(ws->magic == CCL_WORKSPACE_MAGIC, cclInvalidArgument, CCL_COLL, "%s: %p is no live workspace", who, (const void *)ws);
    return cclSuccess;
}

static cclResult_t workspace_destroy(cclMatmulWorkspace_t ws)
{
    struct workspace_job j = {.ws = ws};
    CCL_TRY(check_workspace("cclMatmulWorkspaceDestroy", ws));
    j.comm = ws->comm;
    CCL_TRY(ccl_api_check_comm(j.comm, "cclMatmulWorkspaceDestroy"));
    return ccl_group_submit(CCL_JOB_SETUP, run_destroy, &j, sizeof(j), j.comm, NULL);
}

cclResult_t cclMatmulWorkspaceDestroy(cclMatmulWorkspace_t ws)
{
    if (ws == NULL) {
        return cclSuccess;
    }
    CCL_API_NOTE(workspace_destroy(ws));
}

/* ---- products ---- */

struct matmul_job {
    cclComm_t comm;
    struct ccl_matmul_call call;
};

static cclResult_t run_prepare(void *arg, struct cclStream *stream)
{
    struct matmul_job *j = arg;
    (void)stream;
    return ccl_matmul_prepare(j->comm, &j->call);
}

static cclResult_t run_matmul(void *arg, struct cclStream *stream)
{
    struct matmul_job *j = arg;
    return ccl_matmul_enqueue(j->comm, &j->call, stream);
}

static cclResult_t read_call(const char *who, struct matmul_job *j, const cclMatmulDesc_t *desc, const cclCallConfig_t *config)
{
    struct ccl_matmul_call *call = &j->call;
    CCL_TRY(ccl_api_check_open(j->comm, who));
    CCL_TRY(read_desc(who, desc, &call->desc));
    CCL_TRY(check_backend(who, j->comm));
    CCL_TRY(ccl_api_check_ptr(call->a, who, "a"));
    CCL_TRY(ccl_api_check_ptr(call->b, who, "b"));
    CCL_TRY(ccl_api_check_ptr(call->c, who, "c"));
    CCL_CHECK((call->bias != NULL) == (call->desc.bias != cclBiasNone), cclInvalidArgument, CCL_COLL, "%s: bias is %p, but desc.bias is %d (%s)", who,
              call->bias, call->desc.bias, call->desc.bias == cclBiasNone ? "none" : "by column or row");
    if (call->ws != NULL) {
        CCL_TRY(check_workspace(who, call->ws));
    }
    if (config != NULL) {
        call->has_config = true;
        CCL_TRY(ccl_api_read_call_config(config, &call->config));
    }
    return cclSuccess;
}

static cclResult_t submit(const char *who, struct matmul_job *j, const cclMatmulDesc_t *desc, const cclCallConfig_t *config, cclStream_t stream)
{
    CCL_TRY(read_call(who, j, desc, config));
    if (CCL_LIKELY(!ccl_group_active())) {
        return ccl_matmul_enqueue(j->comm, &j->call, stream);
    }
    if (j->call.ws == NULL) { /* collective, so before the enqueues of the group and beside those of other ranks */
        CCL_TRY(ccl_group_submit(CCL_JOB_SETUP, run_prepare, j, sizeof(*j), j->comm, NULL));
    }
    return ccl_group_submit(CCL_JOB_ENQUEUE, run_matmul, j, sizeof(*j), j->comm, stream);
}

cclResult_t cclAllGatherMatmul(const cclMatmulDesc_t *desc, const void *a, const void *b, const void *bias, void *c, cclMatmulWorkspace_t ws,
                               const cclCallConfig_t *config, cclComm_t comm, cclStream_t stream)
{
    struct matmul_job j = {.comm = comm, .call = {.op = CCL_ALL_GATHER_MATMUL, .a = a, .b = b, .bias = bias, .c = c, .ws = ws}};
    CCL_API_NOTE(submit("cclAllGatherMatmul", &j, desc, config, stream));
}

cclResult_t cclMatmulAllGather(const cclMatmulDesc_t *desc, const void *a, const void *b, const void *bias, void *c, cclMatmulWorkspace_t ws,
                               const cclCallConfig_t *config, cclComm_t comm, cclStream_t stream)
{
    struct matmul_job j = {.comm = comm, .call = {.op = CCL_MATMUL_ALL_GATHER, .a = a, .b = b, .bias = bias, .c = c, .ws = ws}};
    CCL_API_NOTE(submit("cclMatmulAllGather", &j, desc, config, stream));
}
