/* SPDX-License-Identifier: MIT
 *
 * Where a kernel notes the time. Only the traced form of the kernels (compiled a second time with CCL_TRACED) has any code for it
 * (tests/check_trace_off.py). Records lie in device memory of the rank alone, one a block and operation, so nobody waits for anybody. */
#ifndef CCL_TRACE_KERNEL_H
#define CCL_TRACE_KERNEL_H

#include "kernel.h"

#if defined(CCL_TRACED)

/* The record of block 0's start also says what was called, so that replays of a graph are named right. */
CCL_DEVICE void ccl_trace_note(CCL_ARGS a, uint32_t n, enum ccl_trace_point point)
{
    const uint64_t now = ccl_clock_ns();
    const struct ccl_k_priv *priv = CCL_PTR(const struct ccl_k_priv, a->priv);
    const uint32_t slot = n & (priv->trace_ops - 1);
    const uint64_t events = priv->trace + (uint64_t)priv->trace_ops * sizeof(struct ccl_k_trace_op);
    struct ccl_k_trace_event *e = CCL_PTR(struct ccl_k_trace_event, events) + (uint64_t)slot * a->lay.blocks + ccl_bid();
    e->at_ns[point] = now;
    e->op[point] = n;
    if (point == CCL_TRACE_START && ccl_bid() == 0) {
        struct ccl_k_trace_op *op = CCL_PTR(struct ccl_k_trace_op, priv->trace) + slot;
        op->op = n;
        op->windowed = a->where != 0;
        op->word1 = a->desc.word1;
        op->variant = a->desc.variant;
        op->blocks = a->desc.blocks;
        op->tile_m = a->desc.tile_m;
        op->tile_n = a->desc.tile_n;
        op->rows = a->desc.rows;
        op->count = a->desc.count;
    }
}
#define CCL_TRACE_NOTE(a, n, point) ccl_trace_note(a, n, point)
/* By all threads of a block: the first one notes. */
#define CCL_TRACE_NOTE_FIRST(a, n, point) \
    do {                                  \
        if (ccl_afresh(ccl_tid()) == 0) { \
            ccl_trace_note(a, n, point);  \
        }                                 \
    } while (0)

#else

#define CCL_TRACE_NOTE(a, n, point) ((void)(n))
#define CCL_TRACE_NOTE_FIRST(a, n, point) ((void)(a), (void)(n), (void)(point))

#endif

#endif
