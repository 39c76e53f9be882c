/* SPDX-License-Identifier: MIT
 *
 * Variant copy: a kernel that meets the peers, copies of the runtime, a kernel that tells them so. Each rank fetches the peers' inputs, so whatever fails,
 * nothing is written but the own receive buffer (docs/kernels.md, section 5). Addresses must be known here, therefore the inputs lie at the same
 * place of a heap chunk on all ranks, or, in place, in their own part of an output that does. The first kernel proves it. */
#include "coll/coll.h"

#include "util/log.h"

static bool in_place(const struct ccl_k_coll_args *a)
{
    return a->src == a->dst + a->rank * a->dst_part;
}

cclResult_t ccl_coll_copy_find(cclComm_t comm, const struct ccl_coll_call *call, const uint64_t **bases)
{
    struct ccl_k_coll_args *a = &comm->args;
    struct ccl_window_hit hit;
    bool whole = in_place(a); /* then the peers' inputs are parts of their outputs */
    const void *start = whole ? call->recv : call->send;
    size_t bytes = whole ? comm->plan.recv_bytes : (size_t)((a->rows - 1) * a->ld_src + a->row_bytes);
    a->expect_id = 0;
    a->where = 0;
    if (!ccl_heap_find(comm->heap, start, bytes, &hit) || hit.bases == NULL) {
        /* The peers have called the same and would wait for this rank's part. */
        ccl_comm_raise(comm, cclInvalidUsage, CCL_REASON_NO_WINDOW, comm->rank);
        return ccl_error_set(cclInvalidUsage, CCL_COLL,
                             "variant copy: %s buffer %p of %zu bytes on rank %d lies in no heap chunk, use cclMemAlloc",
                             whole ? "receive" : "send", start, bytes, comm->rank);
    }
    a->where = (uint64_t)hit.id << 48 | (hit.off + (whole ? a->rank * a->dst_part : 0));
    *bases = hit.bases;
    return cclSuccess;
}

static cclResult_t copy_part(cclComm_t comm, uint64_t dst, uint64_t src, struct cclStream *stream)
{
    const struct ccl_k_coll_args *a = &comm->args;
    if ((a->flags & CCL_F_FLAT_SRC) && (a->flags & CCL_F_FLAT_DST)) {
        return comm->rt->copy((void *)dst, (const void *)src, a->part_bytes, stream);
    }
    return comm->rt->copy_2d((void *)dst, a->ld_dst, (const void *)src, a->ld_src, a->row_bytes, a->rows, stream);
}

static cclResult_t enqueue_copies(cclComm_t comm, const uint64_t *bases, struct cclStream *stream)
{
    const struct ccl_k_coll_args *a = &comm->args;
    uint64_t off = a->where & 0xffffffffffffu, step = in_place(a) ? a->dst_part : 0;
    if (!in_place(a)) {
        CCL_TRY(copy_part(comm, a->dst + a->rank * a->dst_part, a->src, stream));
    }
    for (uint32_t d = 1; d < a->n; d++) {
        uint32_t peer = (a->rank + d) % a->n; /* all ranks begin with another one */
        CCL_TRY(copy_part(comm, a->dst + peer * a->dst_part, bases[peer] + off + peer * step - a->rank * step, stream));
    }
    return cclSuccess;
}

cclResult_t ccl_coll_copy(cclComm_t comm, const uint64_t *bases, struct cclStream *stream)
{
    CCL_TRY(ccl_coll_launch(comm, CCL_KERNEL_copy_open, stream));
    cclResult_t rc = enqueue_copies(comm, bases, stream);
    rc = rc != cclSuccess ? rc : ccl_coll_launch(comm, CCL_KERNEL_copy_close, stream);
    if (rc != cclSuccess) {
        /* copy_open is on its way and will tell the peers that this rank takes part. */
        ccl_comm_raise(comm, rc, CCL_REASON_REFUSED, comm->rank);
    }
    return rc;
}
