/* SPDX-License-Identifier: MIT
 *
 * Workspaces: a block of the symmetric heap for what peers touch, private memory for the rest. Ready words begin at 0 and carry tags from then on, so a
 * workspace is used call after call without a reset. */
#include "fused/matmul.h"

#include <stdlib.h>
#include <string.h>

#include "util/log.h"

#define ALIGN 256u

/* Set words and state, before any peer can use them. */
static cclResult_t clear(cclComm_t comm, struct cclMatmulWorkspace *ws)
{
    const struct ccl_k_matmul_state start = {.epoch = 1};
    struct cclStream *stream;
    CCL_TRY(comm->rt->stream_create(&stream));
    cclResult_t rc = ws->has.words != 0 ? comm->rt->fill(ws->space, 0, ws->has.words * 8, stream) : cclSuccess;
    rc = rc == cclSuccess && ws->local != NULL && ws->has.words != 0 ? comm->rt->fill(ws->local, 0, ws->has.words * 8, stream) : rc;
    rc = rc == cclSuccess ? comm->rt->copy(ws->state, &start, sizeof(start), stream) : rc;
    rc = rc == cclSuccess ? comm->rt->stream_sync(stream) : rc;
    comm->rt->stream_destroy(stream);
    return rc;
}

static cclResult_t alloc_private(cclComm_t comm, struct cclMatmulWorkspace *ws)
{
    struct ccl_window_hit hit;
    void *state;
    ws->scratch_off = ccl_round_up(sizeof(struct ccl_k_matmul_state), ALIGN);
    CCL_TRY(comm->rt->mem_alloc(CCL_MEM_DATA, ws->scratch_off + ws->has.blocks * ws->has.block_bytes, &state));
    ws->state = state;
    if (ws->has.local_bytes != 0) {
        void *local;
        CCL_TRY(comm->rt->mem_alloc(CCL_MEM_DATA, ws->stage_off + ws->has.local_bytes, &local));
        ws->local = local;
    }
    CCL_CHECK(ccl_heap_find(comm->heap, ws->space, ws->copy_off + ws->has.copy_bytes, &hit), cclInternalError, CCL_COLL,
              "workspace %p lies in no window", (void *)ws->space);
    ws->window = hit.id;
    ws->window_off = hit.off;
    return clear(comm, ws);
}

static void unlink_workspace(cclComm_t comm, const struct cclMatmulWorkspace *ws)
{
    for (struct cclMatmulWorkspace **link = &comm->workspaces; *link != NULL; link = &(*link)->next) {
        if (*link == ws) {
            *link = ws->next;
            return;
        }
    }
}

/* The communicator goes, and its heap with it. */
static void free_all(cclComm_t comm)
{
    while (comm->workspaces != NULL) {
        struct cclMatmulWorkspace *ws = comm->workspaces;
        comm->workspaces = ws->next;
        if (!comm->keep_words) {
            comm->rt->mem_free(ws->local);
            comm->rt->mem_free(ws->state);
        }
        ws->magic = 0;
        free(ws);
    }
    comm->auto_workspace = NULL;
}

cclResult_t ccl_matmul_workspace_create(cclComm_t comm, const struct ccl_matmul_needs *needs, cclMatmulWorkspace_t *out)
{
    struct cclMatmulWorkspace *ws = calloc(1, sizeof(*ws));
    void *space = NULL;
    cclResult_t rc = ws != NULL ? cclSuccess : ccl_error_set(cclSystemError, CCL_COLL, "out of memory for a workspace");
    CCL_TRY_GOTO(ccl_bootstrap_agree(comm->boot, rc), err_free);
    ws->magic = CCL_WORKSPACE_MAGIC;
    ws->comm = comm;
    ws->has = *needs;
    ws->stage_off = ccl_round_up(needs->words * 8, ALIGN);
    ws->copy_off = ws->stage_off + ccl_round_up(needs->stage_bytes, ALIGN);
    CCL_TRY_GOTO(ccl_heap_alloc(comm->heap, ws->copy_off + needs->copy_bytes + ALIGN, &space), err_free);
    ws->space = space;
    rc = alloc_private(comm, ws);
    rc = ccl_bootstrap_agree(comm->boot, rc); /* and nobody uses it before all have cleared theirs */
    if (rc != cclSuccess) {
        comm->rt->mem_free(ws->local);
        comm->rt->mem_free(ws->state);
        ccl_heap_free(comm->heap, space);
        goto err_free;
    }
    ws->next = comm->workspaces;
    comm->workspaces = ws;
    comm->free_workspaces = free_all;
    *out = ws;
    return cclSuccess;
err_free:
    free(ws);
    return rc;
}

cclResult_t ccl_matmul_workspace_destroy(cclMatmulWorkspace_t ws)
{
    cclComm_t comm = ws->comm;
    CCL_TRY(ccl_heap_free(comm->heap, ws->space));
    unlink_workspace(comm, ws);
    comm->auto_workspace = comm->auto_workspace == ws ? NULL : comm->auto_workspace;
    cclResult_t rc = comm->rt->mem_free(ws->local), second = comm->rt->mem_free(ws->state);
    ws->magic = 0;
    free(ws);
    return rc != cclSuccess ? rc : second;
}

static bool serves(const struct ccl_matmul_needs *has, const struct ccl_matmul_needs *n)
{
    return n->words <= has->words && n->stage_bytes <= has->stage_bytes && n->local_bytes <= has->local_bytes && n->copy_bytes <= has->copy_bytes && n->block_bytes <= has->block_bytes &&
           n->blocks <= has->blocks;
}

cclResult_t ccl_matmul_workspace_ensure(cclComm_t comm, const struct ccl_matmul_needs *needs, cclMatmulWorkspace_t *ws)
{
    struct ccl_matmul_needs all = *needs;
    if (comm->auto_workspace != NULL && serves(&comm->auto_workspace->has, needs)) {
        *ws = comm->auto_workspace;
        return cclSuccess;
    }
    if (comm->auto_workspace != NULL) {
        ccl_matmul_add_needs(&all, &comm->auto_workspace->has);
        CCL_TRY(ccl_comm_wait_idle(comm));
        CCL_TRY(ccl_matmul_workspace_destroy(comm->auto_workspace));
    }
    CCL_TRY(ccl_matmul_workspace_create(comm, &all, &comm->auto_workspace));
    *ws = comm->auto_workspace;
    return cclSuccess;
}

cclResult_t ccl_matmul_workspace_check(const char *who, const struct cclMatmulWorkspace *ws, const struct ccl_matmul_needs *n)
{
    const struct {
        const char *what;
        uint64_t needed, there;
    } kinds[] = {{"ready words", n->words, ws->has.words},
                 {"bytes of staged A", n->stage_bytes, ws->has.stage_bytes},
                 {"bytes of staged A of its own", n->local_bytes, ws->has.local_bytes},
                 {"bytes for a copy of A or C", n->copy_bytes, ws->has.copy_bytes},
                 {"bytes of scratch a block", n->block_bytes, ws->has.block_bytes},
                 {"blocks", n->blocks, ws->has.blocks}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(kinds); i++) {
        CCL_CHECK(kinds[i].needed <= kinds[i].there, cclInvalidArgument, CCL_COLL,
                  "%s: the workspace was made for another shape or config: this call needs %llu %s, it has %llu", who,
                  (unsigned long long)kinds[i].needed, kinds[i].what, (unsigned long long)kinds[i].there);
    }
    return cclSuccess;
}
