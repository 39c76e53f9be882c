/* SPDX-License-Identifier: MIT
 *
 * The body of the push kernels on a GPU (included by push.hip). The first warp waits and stores words, one lane a peer; what it read stands in
 * shared memory, so that all threads of the block take the same way. Barriers are passed by all threads of a block or by none. */
#ifndef CCL_PUSH_GPU_BODY_H
#define CCL_PUSH_GPU_BODY_H

#include "push_gpu_begin.h"

#include "push_flat.h"
#include CCL_PUSH_DIRECT_BODY

#if defined(CCL_BULK)
#include "push_bulk.h"
#endif
#include "push_gpu_steps.h"
#if CCL_FLAT_UNITS
#include "push_gpu_ring.h"
#endif

/* ---- direct ---- */

#if CCL_FLAT_UNITS
CCL_DEVICE_SLOW void push_direct_any(CCL_ARGS a, const struct push_end *end, uint32_t d_first, uint32_t d_last, uint32_t first, uint32_t stride, uint32_t chunks)
{
    ccl_push_direct(a, end, d_first, d_last, first, stride, chunks);
}
#endif

CCL_DEVICE void push_direct(CCL_ARGS a, uint32_t sides, const struct push_block *b, uint32_t d_first, uint32_t d_last)
{
#if CCL_FLAT_UNITS
    if (push_is_flat(a) && !b->sh->odd) {
#if defined(CCL_BULK)
        const uint32_t stages = push_bulk_stages(a);
        if (stages >= 2) {
            if (ccl_tid() == 0) {
                push_bulk_direct(a, stages, b->end, d_first, d_last, b->job.first, b->job.stride);
            }
            return;
        }
#endif
        push_flat_direct(a, &b->job, b->end, d_first, d_last);
        return;
    }
    (void)sides;
    push_direct_any(a, b->end, d_first, d_last, b->job.first, b->job.stride, b->job.chunks);
#else
    ccl_push_direct(a, sides, b->end, d_first, d_last, &b->job);
#endif
}

/* What a block still owes and waits for when its own data are out: chunks of sources that stage, DONE of those that have said DIRECT only. */
CCL_DEVICE uint32_t push_finish(CCL_ARGS a, struct push_block *b, uint32_t done, uint32_t pushes)
{
    if (pushes || b->sh->drain) {
        ccl_block_sync(); /* what was read above is written below; so again further down */
        b->words = push_staged(a, b, done, pushes);
        if (push_failed(a, b)) {
            return 0;
        }
    }
    if (pushes || b->sh->late) {
        CCL_AFRESH(a);
        ccl_block_sync();
        if (ccl_afresh(ccl_tid()) < CCL_WARP) {
            push_await(a, b, CCL_STEP_DONE);
        }
        ccl_block_sync();
        if (push_failed(a, b)) {
            return 0;
        }
    }
    return 1;
}

/* Everything behind begin, which has heard from the destinations before rotation `heard`. sides: a block has at most so many, 0: any number. */
CCL_DEVICE void push_run(CCL_ARGS a, uint32_t world, const uint32_t sides, struct push_block *b, uint32_t heard)
{
    const uint32_t to_last = b->job.ch.to_last;
    uint32_t done = b->job.ch.to_first;
    CCL_AFRESH(a);
    push_note(a, b->job.n, CCL_TRACE_MET);
    /* Group by group while everything can be stored directly. */
    while (!b->sh->staged) {
        push_direct(a, sides, b, done, heard);
        CCL_AFRESH(a);
        done = heard;
        if (done == to_last) {
            break;
        }
        heard = to_last - done > a->group ? done + a->group : to_last;
        ccl_block_sync(); /* everybody has read what the first warp is going to write */
        if (ccl_afresh(ccl_tid()) < CCL_WARP) {
            push_hear(a, world, b, 8, done, heard);
        }
        ccl_block_sync();
        if (push_failed(a, b)) {
            return;
        }
    }
    const uint32_t pushes = done < to_last;
    if (pushes && heard < to_last) { /* the rest at once: who stages keeps step with all (and see R, shared ring) */
        ccl_block_sync();
        if (ccl_afresh(ccl_tid()) < CCL_WARP) {
            push_hear(a, world, b, 8, heard, to_last);
        }
        ccl_block_sync();
        if (push_failed(a, b)) {
            return;
        }
    }
    if (b->job.chunks != 0) {
        ccl_block_release_system();
        if (ccl_afresh(ccl_tid()) < CCL_WARP) {
            push_post(a, b, b->job.ch.to_first, done, CCL_STEP_DONE);
            if (pushes) {
                push_post(a, b, done, to_last, CCL_STEP_DIRECT); /* before the first chunk: nobody in lockstep waits for our DONE */
            }
        }
        b->words = !pushes;
        if (!pushes) {
            push_note(a, b->job.n, CCL_TRACE_SENT);
            if (ccl_afresh(ccl_tid()) < CCL_WARP) {
                push_await(a, b, 1);
            }
            ccl_block_sync();
            if (push_failed(a, b)) {
                return;
            }
        }
        if (!push_finish(a, b, done, pushes)) {
            return;
        }
    }
    CCL_AFRESH(a);
    push_note(a, b->job.n, CCL_TRACE_END);
    push_leave(a, &b->job);
}

#if CCL_FLAT_UNITS

#include "push_gpu_flat.h"
#endif

#if CCL_FLAT_UNITS
#define PUSH_ALL_ANY CCL_DEVICE_SLOW /* so that the common way is short: at these times every miss of the instruction cache shows */
#else
#define PUSH_ALL_ANY CCL_DEVICE
#endif

PUSH_ALL_ANY void push_all_any(CCL_ARGS a, uint32_t world, struct push_shared *sh, struct push_end *end)
{
    const uint32_t n_ranks = world ? world : a->n, grid = ccl_grid();
    const struct ccl_channels all = {0, n_ranks, 1, n_ranks};
    struct push_block b = {sh, end, {0, ccl_bid(), all, ccl_bid(), grid, 0}, 0};
    b.job.chunks = push_count(a->pieces_down * a->pieces_across, b.job.first, grid);
    const uint32_t heard = a->group < n_ranks ? 1 + a->group : n_ranks;
    push_flat_prefetch(a, &b.job);
    if (push_begin(a, world, &b, 8, grid, 0, heard)) {
        push_run(a, world, world, &b, heard);
    }
    push_exit(a, &b);
}

CCL_DEVICE void push_all(CCL_ARGS a, uint32_t world, struct push_shared *sh, struct push_end *end)
{
#if CCL_FLAT_UNITS
    if (push_takes_flat(a, world)) {
        push_flat_all(a, world, sh, end);
        return;
    }
#endif
    push_all_any(a, world, sh, end);
}

/* Block group g serves rank + g and hears from rank - g; group 0 copies the own part and, in its first block, waits for all adverts (E). With a
 * shared ring every block waits for all adverts: any peer may still be reading the block's slots for the last operation (R). */
CCL_DEVICE void push_partitioned(CCL_ARGS a, struct push_shared *sh, struct push_end *end)
{
    const uint32_t g = ccl_bid() % a->n, k = ccl_bid() / a->n, back = g == 0 ? 0 : a->n - g;
    const uint32_t group_blocks = (ccl_grid() - g + a->n - 1) / a->n; /* equal at both ends of a channel: group g at either */
    const struct ccl_channels pair = {g, g + 1, back, ccl_uniform(back + (g != 0))};
    const uint32_t everyone = ccl_bid() == 0 || a->lay.shared_ring;
    struct push_block b = {sh, end, {0, k, pair, k, group_blocks, 0}, 0};
    b.job.chunks = push_count(a->pieces_down * a->pieces_across, k, group_blocks);
    push_flat_prefetch(a, &b.job);
    if (push_begin(a, 0, &b, 8, push_group_rows(a, ccl_grid()), everyone ? 0 : g, everyone ? a->n : g + 1)) {
        push_run(a, 0, 1, &b, g + 1);
    }
    push_exit(a, &b);
}

CCL_DEVICE void push_barrier(CCL_ARGS a, struct push_shared *sh)
{
    const struct ccl_channels none = {0, 0, 0, 0};
    struct push_block b = {sh, 0, {0, 0, none, 0, 1, 0}, 0};
    if (push_begin(a, 0, &b, 2, 0, 0, a->n)) {
        push_note(a, b.job.n, CCL_TRACE_MET);
        push_note(a, b.job.n, CCL_TRACE_SENT);
        push_note(a, b.job.n, CCL_TRACE_END);
    }
    push_exit(a, &b);
}

#endif
