/* SPDX-License-Identifier: MIT
 *
 * Enqueue an all-gather or a barrier. The plan of the last shape is kept, so a repeated call only sets pointers and launches. */
#include "coll/coll.h"
#include "comm/group.h"

#include <string.h>

#include "util/config.h"
#include "util/log.h"

static bool plan_fits(const struct ccl_plan *p, const struct ccl_coll_call *call)
{
    return p->valid && p->op == call->op && p->type == (uint32_t)call->type && p->rows == call->rows &&
           p->count == call->count && p->ld_send == call->ld_send && p->ld_recv == call->ld_recv &&
           p->has_config == call->has_config &&
           (!call->has_config || memcmp(&p->config, &call->config, sizeof(p->config)) == 0);
}

/* Where peers may store, and where this rank may, if the window is the same everywhere. */
static cclResult_t set_window(cclComm_t comm, const void *recv)
{
    struct ccl_k_coll_args *a = &comm->args;
    struct ccl_window_hit hit;
    a->where = 0;
    a->expect_id = 0;
    if (!comm->plan.wants_window) {
        return cclSuccess;
    }
    if (!ccl_heap_find(comm->heap, recv, comm->plan.recv_bytes, &hit)) {
        if (comm->plan.needs_window) {
            /* The peers have called the same and would wait for this rank's part. */
            ccl_comm_raise(comm, cclInvalidUsage, CCL_REASON_NO_WINDOW, comm->rank);
            return ccl_error_set(cclInvalidUsage, CCL_COLL,
                                 "variant direct: receive buffer %p of %zu bytes on rank %d lies in no window (cclMemAlloc, "
                                 "cclCommRegister)",
                                 recv, comm->plan.recv_bytes, comm->rank);
        }
        return cclSuccess;
    }
    a->where = ccl_window_where(&hit);
    ccl_coll_expect(comm, &hit, a);
    return cclSuccess;
}

cclResult_t ccl_coll_launch(cclComm_t comm, enum ccl_kernel kernel, struct cclStream *stream)
{
    const bool words = kernel >= CCL_NUM_COMMON_KERNELS;
    const struct ccl_launch l = {.kernel = kernel,
                                 .device = comm->device,
                                 .traced = comm->trace != NULL,
                                 .grid = comm->plan.grid,
                                 .threads = comm->plan.threads,
                                 .shared_bytes = comm->plan.shared_bytes,
                                 .host_threads = (uint32_t)comm->agreed.host_blocks,
                                 .args = words ? (const void *)&comm->words : &comm->args,
                                 .args_bytes = words ? (uint32_t)sizeof(comm->words) : comm->args_bytes};
    return comm->rt->launch(stream, &l);
}

/* The plan's kernel, or the shorter one that does the same for these buffers. */
static enum ccl_kernel choose_kernel(cclComm_t comm)
{
    if (!comm->plan.words || ((comm->args.src | comm->args.dst) & 7) != 0) {
        return comm->plan.kernel;
    }
    comm->words.src = comm->args.src;
    comm->words.dst = comm->args.dst;
    return (enum ccl_kernel)(CCL_KERNEL_ll_words_2 + comm->plan.kernel - CCL_KERNEL_ll_2);
}

cclResult_t ccl_coll_begin_ahead(cclComm_t comm, struct cclStream *stream)
{
    if (CCL_UNLIKELY(!comm->used_stream || comm->last_stream != stream)) {
        CCL_TRY(ccl_comm_use_stream(comm, stream, ccl_group_running()));
    }
    return comm->rt->chain_before(comm->chain, stream);
}

cclResult_t ccl_coll_begin(cclComm_t comm, struct cclStream *stream)
{
    CCL_TRY(ccl_coll_begin_ahead(comm, stream));
    return ccl_coll_meet(comm, stream);
}

cclResult_t ccl_coll_end(cclComm_t comm, struct cclStream *stream, cclResult_t rc)
{
    rc = rc == cclSuccess ? comm->rt->chain_after(comm->chain, stream) : rc;
    if (CCL_UNLIKELY(rc != cclSuccess)) {
        __atomic_store_n(&comm->unchained, true, __ATOMIC_RELEASE); /* cclCommAbort may ask from another thread */
    }
    return rc;
}

/* bases: of variant copy, else NULL. */
static cclResult_t enqueue(cclComm_t comm, const uint64_t *bases, struct cclStream *stream)
{
    CCL_TRY(ccl_coll_begin(comm, stream));
    return ccl_coll_end(comm, stream,
                        bases != NULL ? ccl_coll_copy(comm, bases, stream) : ccl_coll_launch(comm, choose_kernel(comm), stream));
}

static cclResult_t all_gather(cclComm_t comm, const struct ccl_coll_call *call, struct cclStream *stream)
{
    struct ccl_k_coll_args *a = &comm->args;
    if (CCL_UNLIKELY(__atomic_load_n(&comm->page->abort, __ATOMIC_RELAXED) != 0)) {
        return ccl_comm_async_error(comm);
    }
    if (CCL_UNLIKELY(!plan_fits(&comm->plan, call))) {
        struct ccl_plan plan;
        CCL_TRY(ccl_coll_plan(comm, call, &plan, a));
        comm->plan = plan;
        comm->plan.words = ccl_words_gather(comm);
    }
    a->src = (uint64_t)call->send;
    a->dst = (uint64_t)call->recv;
    if (CCL_UNLIKELY(ccl_env_get()->check != 0)) {
        CCL_TRY(ccl_coll_check_buffers(comm, call));
    }
    comm->called = NULL;
    const uint64_t *bases = NULL;
    if (comm->plan.kernel == CCL_KERNEL_copy_open) {
        CCL_TRY(ccl_coll_copy_find(comm, call, &bases));
    } else {
        CCL_TRY(set_window(comm, call->recv));
    }
    comm->effective = &comm->plan.effective;
    if (comm->plan.effective.variant == cclVariantDirect || comm->plan.effective.variant == cclVariantStaged) {
        comm->plan.effective.variant = a->where != 0 && !(a->flags & CCL_F_FORCE_STAGED) ? cclVariantDirect : cclVariantStaged;
    }
    return enqueue(comm, bases, stream);
}

static cclResult_t barrier(cclComm_t comm, struct cclStream *stream)
{
    const struct ccl_coll_call call = {.op = CCL_OP_BARRIER, .type = cclInt8, .rows = 1};
    if (CCL_UNLIKELY(__atomic_load_n(&comm->page->abort, __ATOMIC_RELAXED) != 0)) {
        return ccl_comm_async_error(comm);
    }
    if (!plan_fits(&comm->plan, &call)) {
        struct ccl_plan plan;
        CCL_TRY(ccl_coll_plan(comm, &call, &plan, &comm->args));
        comm->plan = plan;
    }
    comm->args.where = 0;
    comm->called = NULL;
    return enqueue(comm, NULL, stream);
}

cclResult_t ccl_coll_all_gather(cclComm_t comm, const struct ccl_coll_call *call, struct cclStream *stream)
{
    int before;
    CCL_TRY(ccl_device_enter(comm->rt, comm->props.is_host, comm->device, &before));
    return ccl_device_leave(comm->rt, before, all_gather(comm, call, stream));
}

cclResult_t ccl_coll_barrier(cclComm_t comm, struct cclStream *stream)
{
    int before;
    CCL_TRY(ccl_device_enter(comm->rt, comm->props.is_host, comm->device, &before));
    return ccl_device_leave(comm->rt, before, barrier(comm, stream));
}
