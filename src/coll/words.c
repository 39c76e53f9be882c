/* SPDX-License-Identifier: MIT
 *
 * The short kernels of NVIDIA for runs of 8-byte words: what they do is what ll_W and parts_ll do, so each rank chooses for itself. */
#include "coll/coll.h"

/* a: of this communicator and call, but for pointers. False: there is no such kernel for it. */
static bool fill(cclComm_t comm, const struct ccl_k_coll_args *a, struct ccl_k_words_args *w)
{
    if (!comm->props.ll_words || comm->trace != NULL || comm->n < 2 || comm->n > 8 || a->part_bytes == 0 || a->part_bytes % 8 != 0 ||
        a->lay.ll + 2 * a->n * ccl_comm_ll_src(comm) > UINT32_MAX) {
        return false;
    }
    w->full = comm->words.full;
    w->priv = a->priv;
    w->adv = (uint32_t)a->lay.adv;
    w->ll = (uint32_t)a->lay.ll;
    w->part_bytes = (uint32_t)a->part_bytes;
    w->rank = a->rank;
    w->sig = a->sig;
    w->div_mul = a->div_mul;
    w->word1 = a->desc.word1;
    w->variant = a->desc.variant;
    w->tile_m = a->desc.tile_m;
    w->tile_n = a->desc.tile_n;
    w->rows = (uint32_t)a->desc.rows;
    w->count = (uint32_t)a->desc.count;
    for (uint32_t d = 0; d < a->n; d++) {
        w->peer[d] = a->peer[(a->rank + d) % a->n].ctl;
    }
    return true;
}

bool ccl_words_gather(cclComm_t comm)
{
    const uint32_t flat = CCL_F_FLAT_SRC | CCL_F_FLAT_DST;
    const struct ccl_k_coll_args *a = &comm->args;
    return comm->plan.kernel <= CCL_KERNEL_ll_8 && (a->flags & flat) == flat && a->dst_part == a->part_bytes && fill(comm, a, &comm->words);
}

bool ccl_words_can_sum(const struct ccl_coll_call *call)
{
    const bool floats = call->type == cclFloat16 || call->type == cclFloat32 || call->type == cclBfloat16;
    return call->op == CCL_OP_ALL_REDUCE && call->redop == cclSum && floats && call->count * ccl_type_size(call->type) % 8 == 0;
}

bool ccl_words_sum(cclComm_t comm, const struct ccl_k_parts_args *p, struct ccl_k_words_args *w) { return fill(comm, &p->c, w); }
