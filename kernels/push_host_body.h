/* SPDX-License-Identifier: MIT
 *
 * The body of the push kernels on a CPU (included by push.hip). In a block with staged destinations each step pushes one chunk to all, then
 * drains one chunk from all: it waits only for steps not later than its own, having signalled first. A block without staged destinations
 * waits for nothing while it pushes. */
#ifndef CCL_PUSH_HOST_BODY_H
#define CCL_PUSH_HOST_BODY_H

#include CCL_PUSH_DIRECT_BODY

/* Memory of a block for so many ranks; end[d]: where this rank's part starts at the rank d rotations on, 0 = stage it, or own part in place. */
#define PUSH_MEMORY(name, ranks) \
    struct {                     \
        struct push_shared sh;   \
        uint64_t end[ranks];     \
    } name

enum push_to { PUSH_TO_ALL, PUSH_TO_STAGED, PUSH_TO_DIRECT };

/* Enter, send adverts (first block in), wait for the peers' adverts, resolve where to store. All threads; false: leave the kernel. */
CCL_DEVICE uint32_t push_begin(CCL_ARGS a, struct push_shared *sh, struct push_job *job, uint64_t *base, uint32_t words,
                               uint32_t used_rows)
{
    const uint32_t t = ccl_tid(), block = ccl_bid();
    const uint64_t me = ccl_peer_ctl(a, a->rank);
    if (t == 0) {
        sh->entry = ccl_enter(a);
        sh->bad = CCL_BAD_NONE;
        sh->staged = 0;
    }
    ccl_block_sync();
    const uint64_t entry = sh->entry;
    const uint32_t n = CCL_TAG(entry);
    job->n = n;
    job->block = block;
    if (__builtin_expect((uint32_t)entry & CCL_OP_STOPPED, 0)) {
        /* A late block of the failing launch owes its peers an end; a replay has sent no advert and owes nothing. */
        if (t == 0 && CCL_TAG(ccl_load_relaxed_system_u64(ccl_advert_addr(a, me, n, a->rank))) == n) {
            ccl_fail(a, n, block, CCL_BAD_STOP, a->rank, job->ch, push_exposed(a, job), 0);
        }
        return 0;
    }
    if (t == 0) {
        CCL_TRACE_NOTE(a, n, CCL_TRACE_START);
    }
    if (t < CCL_WARP) {
        if ((uint32_t)entry == 0) {
            ccl_advert_send(a, 0, n, words, t, CCL_WARP);
            ccl_fence_advert_system(a);
            ccl_warp_sync(); /* the adverts of all lanes are out */
            if (t == 0) {
                /* The own advert says: mine are out. Release pairs with the acquire below, in the other blocks. */
                ccl_store_release_system_u64(ccl_advert_addr(a, me, n, a->rank), CCL_TAGGED(n, a->sig));
                ccl_scrub(a, n, 0, words, used_rows);
            }
            for (uint32_t d = 1 + t; d < a->n; d += CCL_WARP) {
                ccl_notify(a, ccl_rotate(a, d));
            }
        }
    }
    if (base != 0 && job->ch.to_first == 0) {
        uint64_t own = a->dst + a->rank * a->dst_part;
        base[0] = own == a->src ? 0 : own;
    }
    return 1;
}

/* The waiting half of begin, after work that needs no peer. */
CCL_DEVICE uint32_t push_meet(CCL_ARGS a, struct push_shared *sh, struct push_job *job, uint64_t *base, uint32_t words,
                              struct ccl_channels meet)
{
    const uint32_t t = ccl_tid(), n = job->n;
    const uint64_t me = ccl_peer_ctl(a, a->rank);
    if (t < CCL_WARP) {
        if (ccl_grid() > 1) {
            /* Without early exit: this rank's first block is already running and waits for nobody before it stores this word. */
            while (CCL_TAG(ccl_load_acquire_system_u64(ccl_advert_addr(a, me, n, a->rank))) != n) {
                ccl_spin(a->flags);
            }
        }
        uint32_t first = meet.to_first > 1 ? meet.to_first : 1;
        for (uint32_t d = first + t; d < meet.to_last; d += CCL_WARP) {
            uint32_t peer = ccl_rotate(a, d);
            uint64_t where = 0;
            /* A peer that runs LL in this operation shows it by the tag word of its line. */
            uint32_t bad = ccl_advert_wait(a, 0, n, peer, words, &where);
            if (bad) {
                push_set_bad(a, sh, bad, peer);
                break;
            }
            if (base != 0 && d >= job->ch.to_first && d < job->ch.to_last) {
                base[d] = push_resolve(a, 0, peer, where);
                if (base[d] == 0) {
                    sh->staged = 1;
                    /* A window we have not mapped yet is no fault of the caller's. */
                    if ((a->flags & CCL_F_FORCE_DIRECT) && where >> 48 == 0) {
                        push_set_bad(a, sh, CCL_BAD_NO_WINDOW, peer);
                        break;
                    }
                }
            }
        }
    }
    ccl_block_sync();
    if (__builtin_expect(sh->bad != 0, 0)) {
        if (t == 0) {
            ccl_fail(a, n, job->block, sh->bad, sh->peer, job->ch, push_exposed(a, job), 0);
        }
        return 0;
    }
    if (t == 0) {
        CCL_TRACE_NOTE(a, n, CCL_TRACE_MET);
    }
    return 1;
}

/* Store `full` {n, step} at the block's destinations of one kind, and wake those that sleep. */
CCL_DEVICE void push_post(CCL_ARGS a, struct push_job *job, const uint64_t *base, uint32_t step, enum push_to to)
{
    if (ccl_tid() < CCL_WARP) {
        uint32_t first = job->ch.to_first > 1 ? job->ch.to_first : 1;
        for (uint32_t d = first + ccl_tid(); d < job->ch.to_last; d += CCL_WARP) {
            if (to == PUSH_TO_ALL || (to == PUSH_TO_DIRECT) == (base[d] != 0)) {
                ccl_publish_system(ccl_full_addr(a, ccl_peer_ctl(a, ccl_rotate(a, d)), job->block, a->rank),
                                   CCL_TAGGED(job->n, step));
            }
        }
        ccl_notify_fence(a);
        for (uint32_t d = first + ccl_tid(); d < job->ch.to_last; d += CCL_WARP) {
            ccl_notify(a, ccl_rotate(a, d));
        }
    }
}

enum push_drained { PUSH_FAILED, PUSH_DRAINED, PUSH_ALL_DIRECT };

/* Wait until every source is at chunk c (or stores directly), then copy the ring chunks out and give the slots back. */
CCL_DEVICE enum push_drained push_drain(CCL_ARGS a, struct push_shared *sh, struct push_job *job, uint64_t c)
{
    const uint32_t t = ccl_tid(), first = job->ch.from_first > 1 ? job->ch.from_first : 1;
    const uint64_t me = ccl_peer_ctl(a, a->rank);
    if (t < CCL_WARP) {
        for (uint32_t d = first + t; d < job->ch.from_last; d += CCL_WARP) {
            uint32_t src = ccl_rotate(a, d), bad = CCL_BAD_NONE;
            uint64_t w = ccl_wait_word(a, ccl_full_addr(a, me, job->block, src), job->n, (uint32_t)c + 1, src, 0, &bad);
            if (bad || CCL_VALUE(w) == CCL_STEP_LEFT) {
                push_set_bad(a, sh, bad ? bad : CCL_BAD_LEFT, src);
                break;
            }
        }
    }
    ccl_block_sync();
    if (__builtin_expect(sh->bad != 0, 0)) {
        return PUSH_FAILED;
    }
    struct ccl_piece p = ccl_piece_at(a, job->first + c * job->stride);
    uint32_t copied = 0;
    for (uint32_t d = first; d < job->ch.from_last; d++) {
        uint32_t src = ccl_rotate(a, d);
        uint64_t w = ccl_load_relaxed_system_u64(ccl_full_addr(a, me, job->block, src));
        if (CCL_VALUE(w) < CCL_STEP_DIRECT) {
            uint64_t ring = push_slot(a, a->lay.shared_ring ? ccl_peer_ctl(a, src) : me, src, job->block, c);
            ccl_move_rows(a->dst + src * a->dst_part + ccl_piece_dst(a, p), a->ld_dst, ring, p.bytes, p.rows, p.bytes,
                          a->flags & CCL_F_STREAM);
            copied = 1;
        }
    }
    if (!copied) {
        return PUSH_ALL_DIRECT;
    }
    if (c + a->lay.slots >= job->chunks) {
        return PUSH_DRAINED; /* credits nobody waits for are not sent (Q) */
    }
    ccl_block_release_system(); /* all loads of the slots have returned */
    if (t < CCL_WARP) {
        for (uint32_t d = first + t; d < job->ch.from_last; d += CCL_WARP) {
            uint32_t src = ccl_rotate(a, d);
            uint64_t w = ccl_load_relaxed_system_u64(ccl_full_addr(a, me, job->block, src));
            if (CCL_VALUE(w) < CCL_STEP_DIRECT) {
                ccl_publish_system(ccl_credit_addr(a, ccl_peer_ctl(a, src), job->block, a->rank),
                                   CCL_TAGGED(job->n, c + 1));
            }
        }
        ccl_notify_fence(a);
        for (uint32_t d = first + t; d < job->ch.from_last; d += CCL_WARP) {
            ccl_notify(a, ccl_rotate(a, d));
        }
    }
    return PUSH_DRAINED;
}

/* Push chunk c to all destinations; staged ones need a free slot first. */
CCL_DEVICE uint32_t push_chunk(CCL_ARGS a, struct push_shared *sh, struct push_job *job, const uint64_t *base, uint64_t c)
{
    const uint32_t t = ccl_tid(), first = job->ch.to_first > 1 ? job->ch.to_first : 1;
    const uint64_t me = ccl_peer_ctl(a, a->rank);
    if (t < CCL_WARP && c >= a->lay.slots) {
        for (uint32_t d = first + t; d < job->ch.to_last; d += CCL_WARP) {
            if (base[d] == 0) {
                uint32_t peer = ccl_rotate(a, d), bad = CCL_BAD_NONE;
                ccl_wait_word(a, ccl_credit_addr(a, me, job->block, peer), job->n, (uint32_t)(c - a->lay.slots + 1), peer, 0,
                              &bad);
                if (bad) {
                    push_set_bad(a, sh, bad, peer);
                    break;
                }
            }
        }
    }
    ccl_block_sync();
    if (__builtin_expect(sh->bad != 0, 0)) {
        return 0;
    }
    struct ccl_piece p = ccl_piece_at(a, job->first + c * job->stride);
    uint64_t src = ccl_piece_src(a, p), off = ccl_piece_dst(a, p);
    uint32_t shared_written = 0;
    for (uint32_t d = job->ch.to_first; d < job->ch.to_last; d++) {
        if (base[d]) {
            ccl_move_rows(base[d] + off, a->ld_dst, src, a->ld_src, p.rows, p.bytes, a->flags & CCL_F_STREAM);
        } else if (d != 0 && !shared_written) {
            uint64_t ctl = a->lay.shared_ring ? me : ccl_peer_ctl(a, ccl_rotate(a, d));
            ccl_move_rows(push_slot(a, ctl, a->rank, job->block, c), p.bytes, src, a->ld_src, p.rows, p.bytes, 0);
            shared_written = a->lay.shared_ring;
        }
    }
    ccl_block_release_system();
    push_post(a, job, base, (uint32_t)c + 1, PUSH_TO_STAGED);
    return 1;
}

/* Everything between the adverts and the exit. */
CCL_DEVICE void push_run(CCL_ARGS a, uint32_t world, struct push_shared *sh, struct push_job *job, const uint64_t *base,
                         uint32_t d_first)
{
    const uint64_t pieces = a->pieces_down * a->pieces_across;
    uint32_t words_out = 0;
    if (!sh->staged) {
        if (!ccl_push_direct(a, world, base, d_first, job->ch.to_last, job->first, job->stride, pieces)) {
            push_set_bad(a, sh, CCL_BAD_STOP, a->rank); /* aborted: do not store on for seconds */
        }
        ccl_block_release_system();
        if (job->chunks != 0 && sh->bad == 0) {
            push_post(a, job, base, CCL_STEP_DONE, PUSH_TO_ALL);
            words_out = 1;
        }
    } else if (job->chunks != 0) {
        push_post(a, job, base, CCL_STEP_DIRECT, PUSH_TO_DIRECT); /* nothing is published yet, so no release is needed */
    }
    const uint32_t pushed = words_out; /* all of it, directly */
    if (ccl_tid() == 0 && (pushed || job->chunks == 0)) {
        CCL_TRACE_NOTE(a, job->n, CCL_TRACE_SENT);
    }
    for (uint64_t c = 0; c < job->chunks && sh->bad == 0; c++) {
        if (!pushed && !push_chunk(a, sh, job, base, c)) {
            break;
        }
        if (!pushed && c + 1 == job->chunks) {
            push_post(a, job, base, CCL_STEP_DONE, PUSH_TO_DIRECT);
            words_out = 1;
            if (ccl_tid() == 0) {
                CCL_TRACE_NOTE(a, job->n, CCL_TRACE_SENT);
            }
        }
        enum push_drained drained = push_drain(a, sh, job, c);
        if (drained == PUSH_FAILED || (drained == PUSH_ALL_DIRECT && pushed)) {
            break;
        }
    }
    if (job->chunks != 0 && sh->bad == 0 && ccl_tid() < CCL_WARP) {
        uint32_t first = job->ch.from_first > 1 ? job->ch.from_first : 1;
        for (uint32_t d = first + ccl_tid(); d < job->ch.from_last; d += CCL_WARP) {
            uint32_t src = ccl_rotate(a, d), bad = CCL_BAD_NONE;
            uint64_t addr = ccl_full_addr(a, ccl_peer_ctl(a, a->rank), job->block, src);
            uint64_t w = ccl_load_relaxed_system_u64(addr);
            if (CCL_VALUE(w) >= CCL_STEP_DIRECT) {
                w = ccl_wait_word(a, addr, job->n, CCL_STEP_DONE, src, 0, &bad);
                if (bad || CCL_VALUE(w) == CCL_STEP_LEFT) {
                    push_set_bad(a, sh, bad ? bad : CCL_BAD_LEFT, src);
                    break;
                }
            }
        }
    }
    ccl_block_sync();
    if (__builtin_expect(sh->bad != 0, 0)) {
        if (ccl_tid() == 0) {
            ccl_fail(a, job->n, job->block, sh->bad, sh->peer, job->ch, push_exposed(a, job), words_out);
        }
        return;
    }
    if (ccl_tid() == 0) {
        CCL_TRACE_NOTE(a, job->n, CCL_TRACE_END);
    }
    push_leave(a, job);
}

CCL_DEVICE void push_all(CCL_ARGS a, uint32_t world, struct push_shared *sh, uint64_t *base)
{
    const uint32_t n_ranks = world ? world : a->n, grid = ccl_grid();
    const uint64_t pieces = a->pieces_down * a->pieces_across;
    const struct ccl_channels all = {0, n_ranks, 1, n_ranks};
    struct push_job job = {0, 0, all, ccl_bid(), grid, push_count(pieces, ccl_bid(), grid)};
    if (!push_begin(a, sh, &job, base, 8, grid)) {
        return;
    }
    uint32_t d_first = 0;
    if (a->part_bytes <= CCL_OWN_FIRST_BYTES) {
        ccl_push_direct(a, 0, base, 0, 1, job.first, job.stride, pieces); /* while the adverts travel */
        d_first = 1;
        base[0] = 0;
    }
    if (push_meet(a, sh, &job, base, 8, all)) {
        push_run(a, world, sh, &job, base, d_first);
    }
}

/* Block group g serves rank + g and hears from rank - g; group 0 copies the own part and, in its first block, waits for all adverts (E). With a
 * shared ring every block waits for all adverts: any peer may still be reading the block's slots for the last operation (R). */
CCL_DEVICE void push_partitioned(CCL_ARGS a, struct push_shared *sh, uint64_t *base)
{
    const uint32_t g = ccl_bid() % a->n, k = ccl_bid() / a->n, back = g == 0 ? 0 : a->n - g;
    const uint32_t group_blocks = (ccl_grid() - g + a->n - 1) / a->n; /* equal at both ends of a channel: group g at either */
    const uint64_t pieces = a->pieces_down * a->pieces_across;
    const struct ccl_channels pair = {g, g + 1, back, back + (g != 0)}, everyone = {0, a->n, 0, 0};
    struct push_job job = {0, 0, pair, k, group_blocks, push_count(pieces, k, group_blocks)};
    if (push_begin(a, sh, &job, base, 8, push_group_rows(a, ccl_grid())) &&
        push_meet(a, sh, &job, base, 8, ccl_bid() == 0 || a->lay.shared_ring ? everyone : pair)) {
        push_run(a, 0, sh, &job, base, g);
    }
}

CCL_DEVICE void push_barrier(CCL_ARGS a, struct push_shared *sh)
{
    const struct ccl_channels none = {0, 0, 0, 0}, everyone = {0, a->n, 0, 0};
    struct push_job job = {0, 0, none, 0, 1, 0};
    if (push_begin(a, sh, &job, 0, 2, 0) && push_meet(a, sh, &job, 0, 2, everyone) && ccl_tid() == 0) {
        CCL_TRACE_NOTE(a, job.n, CCL_TRACE_SENT);
        CCL_TRACE_NOTE(a, job.n, CCL_TRACE_END);
    }
}

#endif
