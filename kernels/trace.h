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
CCL_DEVICE void ccl_trace_span(CCL_ARGS a, uint32_t n, enum ccl_trace_task task, uint64_t from_ns, uint32_t unit, uint32_t part)
{
    const struct ccl_k_priv *priv = CCL_PTR(const struct ccl_k_priv, a->priv);
    const uint64_t events = priv->trace + (uint64_t)priv->trace_ops * sizeof(struct ccl_k_trace_op);
    const uint64_t rings = events + (uint64_t)priv->trace_ops * a->lay.blocks * sizeof(struct ccl_k_trace_event);
    struct ccl_k_trace_ring *ring = CCL_PTR(struct ccl_k_trace_ring, rings) + ccl_bid();
    struct ccl_k_trace_span *s = &ring->span[ccl_add_relaxed_agent_u64((uint64_t)&ring->count, 1) % CCL_TRACE_SPANS];
    s->from_ns = from_ns;
    s->to_ns = ccl_clock_ns();
    s->op = n;
    s->task = task;
    s->unit = unit;
    s->part = part;
}
/* The time now, for the other; by all threads of a block, of which the first one notes. In vector registers, of which there are more. */
CCL_DEVICE uint64_t ccl_trace_begin(void)
{
    const uint64_t now = ccl_clock_ns();
    return (uint64_t)ccl_afresh((uint32_t)(now >> 32)) << 32 | ccl_afresh((uint32_t)now);
}
#define CCL_TRACE_NOTE_BEGIN(from) const uint64_t from = ccl_trace_begin()
#define CCL_TRACE_NOTE_SPAN(a, n, task, from, unit, part) CCL_TRACE_NOTE_SPAN_BY(0, a, n, task, from, unit, part)
/* By some threads of a block: this one notes. */
#define CCL_TRACE_NOTE_SPAN_BY(thread, a, n, task, from, unit, part) \
    do {                                                             \
        if (ccl_afresh(ccl_tid()) == (thread)) {                     \
            ccl_trace_span(a, n, task, from, unit, part);            \
        }                                                            \
    } while (0)
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
#define CCL_TRACE_NOTE_BEGIN(from) ((void)0)
#define CCL_TRACE_NOTE_SPAN(a, n, task, from, unit, part) ((void)0)
#define CCL_TRACE_NOTE_SPAN_BY(thread, a, n, task, from, unit, part) ((void)0)

#endif

#endif
