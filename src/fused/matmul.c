/* SPDX-License-Identifier: MIT
 *
 * Enqueue a fused matrix product. The plan of a workspace's last call is kept, so a repeated call only sets pointers and launches. */
#include "fused/matmul.h"

#include <string.h>

#include "coll/coll.h"
#include "util/config.h"
#include "util/log.h"

static const char *who_of(enum ccl_matmul_op op) { return op == CCL_ALL_GATHER_MATMUL ? "cclAllGatherMatmul" : "cclMatmulAllGather"; }

/* A trace has room for the blocks of a collective. */
static int gpu_blocks(cclComm_t comm)
{
    return comm->trace != NULL && comm->agreed.blocks < comm->agreed.matrix_blocks ? comm->agreed.blocks : comm->agreed.matrix_blocks;
}

struct ccl_matmul_world ccl_matmul_world(cclComm_t comm)
{
    return (struct ccl_matmul_world){.ranks = comm->n,
                                     .rank = comm->rank,
                                     .is_host = comm->props.is_host,
                                     .core = comm->agreed.matrix_core,
                                     .blocks = comm->props.is_host ? comm->agreed.blocks : gpu_blocks(comm),
                                     .auto_blocks = comm->props.is_host ? comm->agreed.host_blocks : gpu_blocks(comm),
                                     .one_device = comm->agreed.shared_ring,
                                     .shared_host = comm->agreed.shared_host,
                                     .pairs = ccl_env_get()->matmul_pairs};
}

/* The caller leaves everything open that a table can choose. */
static bool all_open(const cclCallConfig_t *c)
{
    return (c->algorithm == CCL_UNSET || c->algorithm == cclAlgoAuto) && c->layout == CCL_UNSET && c->fetch == CCL_UNSET && c->gemm_tile_m == CCL_UNSET &&
           c->gemm_tile_n == CCL_UNSET && c->gemm_tile_k == CCL_UNSET && c->group_m == CCL_UNSET && c->k_per_flag == CCL_UNSET &&
           c->num_fetch_sms == CCL_UNSET;
}

static cclResult_t plan_call(cclComm_t comm, const struct ccl_matmul_call *call, struct ccl_matmul_plan *plan)
{
    const cclCallConfig_t unset = CCL_CALL_CONFIG_INITIALIZER;
    const struct ccl_matmul_world world = ccl_matmul_world(comm);
    cclCallConfig_t tuned = call->has_config ? call->config : unset;
    CCL_TRY(ccl_matmul_check_desc(who_of(call->op), call->op, &call->desc, comm->n)); /* alike on all ranks, before they exchange anything */
    CCL_TRY(ccl_matmul_tune_load(comm));
    if (all_open(&tuned) && ccl_matmul_tune_find(comm->matmul_table, comm->props.arch, comm->n, call->op, &call->desc, &tuned)) {
        if (ccl_matmul_plan(who_of(call->op), call->op, &world, &call->desc, &tuned, plan) == cclSuccess) {
            return cclSuccess;
        }
        CCL_LOG(CCL_LOG_WARN, CCL_COLL, "the row of CCL_TUNE_FILE for %zu x %zu x %zu is not used", call->desc.m, call->desc.n, call->desc.k);
    }
    return ccl_matmul_plan(who_of(call->op), call->op, &world, &call->desc, call->has_config ? &call->config : &unset, plan);
}

cclResult_t ccl_matmul_needs(cclComm_t comm, const cclMatmulDesc_t *desc, const cclCallConfig_t *config, struct ccl_matmul_needs *needs)
{
    const char *who = "cclMatmulWorkspaceCreate";
    const enum ccl_matmul_op op = desc->gather == cclGatherOutput ? CCL_MATMUL_ALL_GATHER : CCL_ALL_GATHER_MATMUL;
    const struct ccl_matmul_world world = ccl_matmul_world(comm);
    struct ccl_matmul_plan plan;
    cclCallConfig_t tuned = *config;
    CCL_TRY(ccl_matmul_tune_load(comm));
    CCL_TRY(ccl_matmul_plan_needs(who, &world, desc, config, needs));
    if (all_open(&tuned) && ccl_matmul_tune_find(comm->matmul_table, comm->props.arch, comm->n, op, desc, &tuned) &&
        ccl_matmul_plan(who, op, &world, desc, &tuned, &plan) == cclSuccess) {
        ccl_matmul_add_needs(needs, &plan.needs);
    }
    return cclSuccess;
}

static bool plan_fits(const struct cclMatmulWorkspace *ws, const struct ccl_matmul_call *call)
{
    return ws->planned && ws->op == call->op && memcmp(&ws->desc, &call->desc, sizeof(ws->desc)) == 0 && ws->has_config == call->has_config &&
           (!call->has_config || memcmp(&ws->config, &call->config, sizeof(ws->config)) == 0);
}

/* What went wrong may concern this rank alone: the peers, who have called the same and would wait, are told. */
static cclResult_t tell_peers(cclComm_t comm, const struct ccl_k_desc *desc, cclResult_t rc)
{
    comm->plan.valid = false;
    comm->args.desc = *desc;
    comm->called = NULL; /* the record is of args, not of a collective before */
    ccl_comm_raise(comm, rc, CCL_REASON_REFUSED, comm->rank);
    return rc;
}

static struct ccl_k_desc describe(const struct ccl_matmul_call *call, const cclCallConfig_t *used)
{
    const cclMatmulDesc_t *d = &call->desc;
    const uint32_t op = call->op == CCL_ALL_GATHER_MATMUL ? CCL_OP_ALL_GATHER_MATMUL : CCL_OP_MATMUL_ALL_GATHER;
    return (struct ccl_k_desc){.word1 = CCL_WORD1(op, d->type, 0, 0),
                               .variant = (uint32_t)used->algorithm,
                               .blocks = (uint32_t)used->comm_sms,
                               .tile_m = (uint32_t)used->gemm_tile_m,
                               .tile_n = (uint32_t)used->gemm_tile_n,
                               .rows = d->m,
                               .count = d->n,
                               .ld = d->k,
                               .ld_send = call->op == CCL_ALL_GATHER_MATMUL ? d->lda : d->ldc};
}

static cclResult_t check_pointers(cclComm_t comm, const struct ccl_matmul_call *call, const struct ccl_k_desc *desc)
{
    const struct {
        const char *name;
        const void *ptr;
    } all[] = {{"a", call->a}, {"b", call->b}, {"bias", call->bias}, {"c", call->c}};
    const char *who = who_of(call->op);
    for (size_t i = 0; i < CCL_ARRAY_LEN(all); i++) {
        if ((uintptr_t)all[i].ptr % CCL_GEMM_ALIGN != 0) {
            return tell_peers(comm, desc,
                              ccl_error_set(cclInvalidArgument, CCL_COLL, "%s: %s is %p on rank %d, not aligned to %u bytes", who, all[i].name,
                                            all[i].ptr, comm->rank, CCL_GEMM_ALIGN));
        }
    }
    return cclSuccess;
}

static uint32_t sign(const struct ccl_matmul_call *call, const struct cclMatmulWorkspace *ws, const struct ccl_k_desc *desc)
{
    const cclMatmulDesc_t *d = &call->desc;
    const cclCallConfig_t *c = &ws->plan.effective;
    const uint64_t words[] = {desc->word1, d->m,     d->n,     d->k,     d->shard,  (uint64_t)d->gather, desc->ld_send,
                              (uint64_t)c->algorithm, (uint64_t)c->layout, (uint64_t)c->fetch, (uint64_t)c->gemm_tile_m, (uint64_t)c->gemm_tile_n,
                              (uint64_t)c->gemm_tile_k, (uint64_t)c->k_per_flag, (uint64_t)c->fixed_order, ws->window, ws->window_off,
                              ws->stage_off, ws->copy_off};
    return ccl_coll_signature(words, CCL_ARRAY_LEN(words));
}

/* Can all peers reach [ptr, ptr + bytes) where it is? */
static bool find_window(cclComm_t comm, const void *ptr, size_t bytes, struct ccl_window_hit *hit)
{
    cclPointerInfo_t info;
    if (!ccl_heap_find(comm->heap, ptr, bytes, hit)) {
        return false;
    }
    if (hit->bases != NULL) {
        return true; /* heap: mapped by all */
    }
    ccl_heap_pointer_info(comm->heap, ptr, &info);
    return info.peers_mapped == comm->n - 1;
}

/* What the peers get to see: A (or C) of the user, the copy of it in the workspace, or the workspace. */
static void set_window(cclComm_t comm, const struct cclMatmulWorkspace *ws, const struct ccl_matmul_call *call, struct ccl_k_matmul_args *a,
                       bool *copied)
{
    const cclMatmulDesc_t *d = &call->desc;
    const bool gathers_a = call->op == CCL_ALL_GATHER_MATMUL;
    const void *ptr = gathers_a ? call->a : call->c;
    const size_t rows = !gathers_a ? d->m : d->gather == cclGatherColumns ? d->m : d->shard;
    const size_t cols = !gathers_a ? d->n : d->gather == cclGatherColumns ? d->shard : d->k;
    const size_t bytes = 2 * ((rows - 1) * (gathers_a ? d->lda : d->ldc) + cols);
    struct ccl_window_hit hit;
    *copied = false;
    a->copy_where = (uint64_t)ws->window << 48 | (ws->window_off + ws->copy_off);
    a->coll.expect_id = 0;
    if (comm->n == 1) {
        a->coll.where = 0;
        return;
    }
    if (a->map.pushes) {
        ptr = ws->space;
    }
    if (a->map.pushes ? ccl_heap_find(comm->heap, ptr, ws->copy_off, &hit) : find_window(comm, ptr, bytes, &hit)) {
        a->coll.where = ccl_window_where(&hit);
    } else {
        *copied = true;
        a->coll.where = a->copy_where;
        CCL_LOG(CCL_LOG_INFO, CCL_COLL, "%s: rank %d: %s %p of %zu bytes is in no window that all peers have mapped, it is copied through the workspace",
                who_of(call->op), comm->rank, gathers_a ? "a" : "c", ptr, bytes);
        ccl_heap_find(comm->heap, ws->space, 1, &hit);
    }
    ccl_coll_expect(comm, &hit, &a->coll);
}

static void fill_args(cclComm_t comm, const struct cclMatmulWorkspace *ws, const struct ccl_matmul_call *call, struct ccl_k_matmul_args *a)
{
    const struct ccl_matmul_plan *plan = &ws->plan;
    a->gemm = plan->gemm;
    a->gemm.a = (uint64_t)call->a;
    a->gemm.b = (uint64_t)call->b;
    a->gemm.bias = (uint64_t)call->bias;
    a->gemm.c = (uint64_t)call->c;
    a->map = plan->map;
    a->source = plan->source;
    a->fetchers = plan->fetchers;
    a->state = (uint64_t)ws->state;
    a->scratch = (uint64_t)ws->state + ws->scratch_off;
    a->scratch_bytes = plan->needs.block_bytes;
    a->space = (uint64_t)ccl_matmul_space(ws);
    a->idle = ws->local == NULL ? 0 : (uint64_t)(plan->local ? ws->space : ws->local);
    a->words = ws->has.words;
    a->stage_off = ws->stage_off;
    a->stage_ld = plan->stage_ld;
    a->peer_ld = call->desc.lda;
    a->copy_ld = plan->copy_ld;
    a->coll = comm->args;
    a->coll.desc = describe(call, &plan->effective);
    a->coll.sig = sign(call, ws, &a->coll.desc);
    a->coll.part_bytes = 0;
    a->coll.flags = comm->agreed.host_flags;
    a->coll.rows = a->coll.row_bytes = 0;
}

static cclResult_t copy_rows(cclComm_t comm, void *dst, size_t ld_dst, const void *src, size_t ld_src, size_t cols, size_t rows,
                             struct cclStream *stream)
{
    return comm->rt->copy_2d(dst, 2 * ld_dst, src, 2 * ld_src, 2 * cols, rows, stream);
}

/* Between the two halves of the communicator's chain. */
static cclResult_t enqueue_links(cclComm_t comm, const struct cclMatmulWorkspace *ws, const struct ccl_matmul_call *call, bool copied,
                                 struct ccl_k_matmul_args *a, struct cclStream *stream)
{
    const cclMatmulDesc_t *d = &call->desc;
    char *copy = ws->space + ws->copy_off;
    if (ws->plan.sequential) {
        for (uint32_t r = 0; ws->plan.packs && r < a->map.ranks; r++) {
            char *stage = ccl_matmul_space(ws) + ws->stage_off, *land = stage + ws->plan.land_off + 2 * r * (size_t)a->map.m * ws->plan.land_ld;
            CCL_TRY(copy_rows(comm, stage + 2 * r * (size_t)d->shard, ws->plan.stage_ld, land, ws->plan.land_ld, d->shard, d->m, stream));
        }
        return ccl_matmul_launch(comm, ws, CCL_MATMUL_IS_LOCAL, a, stream);
    }
    if (call->op == CCL_ALL_GATHER_MATMUL) {
        if (copied) {
            const bool columns = d->gather == cclGatherColumns;
            CCL_TRY(copy_rows(comm, copy, a->copy_ld, call->a, d->lda, columns ? d->shard : d->k, columns ? d->m : d->shard, stream));
        }
        /* Nobody to meet: then the kernel need not ask. A trace has it, though. */
        const bool alone = comm->n == 1 && a->source == CCL_A_REMOTE && comm->trace == NULL && !comm->props.is_host;
        return ccl_matmul_launch(comm, ws, alone ? CCL_MATMUL_IS_LOCAL : CCL_MATMUL_GATHERS_A, a, stream);
    }
    if (copied) {
        a->gemm.c = (uint64_t)copy;
    }
    CCL_TRY(ccl_matmul_launch(comm, ws, CCL_MATMUL_GATHERS_C, a, stream));
    return copied ? copy_rows(comm, call->c, d->ldc, copy, d->ldc, d->n, d->m, stream) : cclSuccess;
}

/* The first half of the sequential form. */
static cclResult_t gather(cclComm_t comm, const struct cclMatmulWorkspace *ws, const struct ccl_matmul_call *call, struct cclStream *stream)
{
    const cclMatmulDesc_t *d = &call->desc;
    const bool columns = d->gather == cclGatherColumns;
    const struct ccl_coll_call all = {.op = CCL_OP_ALL_GATHER_2D,
                                      .type = d->type,
                                      .send = call->a,
                                      .recv = ccl_matmul_space(ws) + ws->stage_off + ws->plan.land_off,
                                      .rows = columns ? d->m : d->shard,
                                      .count = columns ? d->shard : d->k,
                                      .ld_send = d->lda,
                                      .ld_recv = ws->plan.land_ld};
    return ccl_coll_all_gather(comm, &all, stream);
}

static cclResult_t enqueue(cclComm_t comm, struct cclMatmulWorkspace *ws, const struct ccl_matmul_call *call, struct cclStream *stream)
{
    struct ccl_k_matmul_args a;
    bool copied = false;
    fill_args(comm, ws, call, &a);
    CCL_TRY(check_pointers(comm, call, &a.coll.desc));
    if (ws->plan.sequential) {
        CCL_TRY(gather(comm, ws, call, stream));
    } else {
        set_window(comm, ws, call, &a, &copied);
    }
    comm->matmul_effective = ws->plan.effective;
    comm->effective = &comm->matmul_effective;
    CCL_TRY(ccl_coll_begin(comm, stream));
    cclResult_t rc = ccl_coll_end(comm, stream, enqueue_links(comm, ws, call, copied, &a, stream));
    return CCL_UNLIKELY(rc != cclSuccess) ? tell_peers(comm, &a.coll.desc, rc) : cclSuccess;
}

static cclResult_t matmul(cclComm_t comm, const struct ccl_matmul_call *call, struct cclStream *stream)
{
    struct cclMatmulWorkspace *ws = call->ws;
    struct ccl_matmul_plan plan;
    if (CCL_UNLIKELY(__atomic_load_n(&comm->page->abort, __ATOMIC_RELAXED) != 0)) {
        return ccl_comm_async_error(comm);
    }
    if (ws == NULL) {
        ws = comm->auto_workspace;
    }
    if (ws != NULL && ws->comm == comm && plan_fits(ws, call)) {
        return enqueue(comm, ws, call, stream);
    }
    CCL_TRY(plan_call(comm, call, &plan));
    if (call->ws == NULL) {
        uint64_t capture;
        CCL_TRY(comm->rt->capture_query(stream, &capture));
        CCL_CHECK(capture == 0 || (ws != NULL && ccl_matmul_workspace_check(who_of(call->op), ws, &plan.needs) == cclSuccess), cclInvalidUsage,
                  CCL_COLL, "%s: no workspace was given, and none can be made while the stream is captured (cclMatmulWorkspaceCreate)",
                  who_of(call->op));
        CCL_TRY(ccl_matmul_workspace_ensure(comm, &plan.needs, &ws));
    } else if (ws->comm != comm) {
        const struct ccl_k_desc desc = describe(call, &plan.effective);
        return tell_peers(comm, &desc, ccl_error_set(cclInvalidArgument, CCL_COLL, "%s: the workspace on rank %d belongs to another communicator",
                                                     who_of(call->op), comm->rank));
    }
    CCL_TRY(ccl_matmul_workspace_check(who_of(call->op), ws, &plan.needs));
    ws->op = call->op;
    ws->desc = call->desc;
    ws->has_config = call->has_config;
    ws->config = call->config;
    ws->plan = plan;
    ws->planned = true;
    return enqueue(comm, ws, call, stream);
}

cclResult_t ccl_matmul_enqueue(cclComm_t comm, const struct ccl_matmul_call *call, struct cclStream *stream)
{
    int before;
    CCL_TRY(ccl_device_enter(comm->rt, comm->props.is_host, comm->device, &before));
    return ccl_device_leave(comm->rt, before, matmul(comm, call, stream));
}

static cclResult_t prepare(cclComm_t comm, const struct ccl_matmul_call *call)
{
    struct cclMatmulWorkspace *ws;
    struct ccl_matmul_plan plan;
    CCL_TRY(plan_call(comm, call, &plan));
    return ccl_matmul_workspace_ensure(comm, &plan.needs, &ws);
}

cclResult_t ccl_matmul_prepare(cclComm_t comm, const struct ccl_matmul_call *call)
{
    int before;
    if (call->ws != NULL) {
        return cclSuccess;
    }
    CCL_TRY(ccl_device_enter(comm->rt, comm->props.is_host, comm->device, &before));
    return ccl_device_leave(comm->rt, before, prepare(comm, call));
}
