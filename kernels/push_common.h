/* SPDX-License-Identifier: MIT
 *
 * What the push kernels of all devices share. Channel = (source, destination, block). A word `full` {n, step} at the destination says how far the
 * source is: 1.. = chunks in the ring, DIRECT = "I store directly, nothing to drain", DONE, LEFT. `credit` at the source says which ring
 * slots are free again. */
#ifndef CCL_PUSH_COMMON_H
#define CCL_PUSH_COMMON_H

#include "fail.h"
#include "move.h"
#include "protocol.h"
#include "trace.h"

struct push_shared {
    uint64_t entry;
    uint32_t bad, peer; /* first error of the block's control warp */
    uint32_t staged;    /* some destination must be staged */
    uint32_t odd;       /* GPU: some base is not aligned to vectors. Reductions: something is not mapped here */
    uint32_t drain, late; /* GPU: some source stages; some source has said DIRECT, but not DONE. Reductions: no rings; some rank is in no window */
};

/* What one block does. */
struct push_job {
    uint32_t n, block;
    struct ccl_channels ch;
    uint32_t first, stride, chunks; /* pieces first, first + stride, ... : chunks of them; the plan sees that 31 bits hold them */
};

/* Called by the lane that saw it, which then stops waiting. `stop` ends the waits of the other lanes and blocks, for peers that may never
 * come; what they then report must not hide the reason. */
CCL_DEVICE void push_set_bad(CCL_ARGS a, struct push_shared *sh, uint32_t bad, uint32_t peer)
{
    if (ccl_reports(bad, sh->bad)) {
        sh->peer = peer;
        sh->bad = bad;
    }
    ccl_or_relaxed_agent_u64((uint64_t) & ((struct ccl_k_priv *)a->priv)->stop, 1);
}

/* Peers may store into this rank's user memory by their blocks of this index. */
CCL_DEVICE uint32_t push_exposed(CCL_ARGS a, const struct push_job *job)
{
    return a->where != 0 && job->chunks != 0;
}

/* Base of window id of a peer; 0: not mapped here. */
CCL_DEVICE_SLOW uint64_t push_look_up(CCL_ARGS a, uint32_t peer, uint32_t id)
{
    /* acquire: pairs with the release of the monitor thread that mapped the window */
    uint64_t table = CCL_PTR(const struct ccl_k_comm, a->comm)->win;
    return ccl_load_acquire_system_u64(table + ((uint64_t)peer * CCL_WINDOWS + id) * 8);
}

#if defined(CCL_ON_HOST)
#define push_look_up_alike(a, n, peer, id) ((void)(n), push_look_up(a, peer, id))
#else
/* The same for all blocks of a launch. A window may be mapped while they run, so one could find it and another not; where what a block moves depends on the answer,
 * the launch would leave gaps. The first block to ask writes down {n, found} behind the table, and all go by that. */
CCL_DEVICE_SLOW uint64_t push_look_up_alike(CCL_ARGS a, uint32_t n, uint32_t peer, uint32_t id)
{
    const uint64_t at = ((uint64_t)peer * CCL_WINDOWS + id) * 8;
    const uint64_t said = CCL_PTR(const struct ccl_k_comm, a->comm)->win + ((uint64_t)a->n + 1) * CCL_WINDOWS * 8 + at;
    uint64_t base = push_look_up(a, peer, id), word = ccl_load_relaxed_system_u64(said);
    if (CCL_TAG(word) != n) {
        ccl_fence_release_system(); /* whoever goes by the word finds at least what this look has found */
        const uint64_t mine = CCL_TAGGED(n, base != 0), found = ccl_replace_relaxed_system_u64(said, word, mine);
        word = found == word ? mine : found;
    }
    if (CCL_VALUE(word) == 0) {
        return 0;
    }
    if (base == 0) { /* mapped since: behind the look of who found it */
        ccl_fence_acquire_system();
        base = push_look_up(a, peer, id);
    }
    return base;
}
#endif

/* The place at rank `peer` that its advert names, `off` bytes on, as mapped here; 0: stage it. Resolved before the first store and before any loop. alike, a constant: all
 * blocks of launch n must find the same. */
CCL_DEVICE uint64_t push_resolve_by(CCL_ARGS a, const uint32_t alike, uint32_t n, uint32_t peer, uint64_t where, uint64_t off)
{
    const uint32_t id = (uint32_t)(where >> 48);
    uint64_t base = 0;
    if (id == 0 || (a->flags & CCL_F_FORCE_STAGED)) {
        return 0;
    }
    if (id == a->expect_id) {
        base = a->peer[peer].win;
    } else if (id < CCL_WINDOWS) {
        base = alike ? push_look_up_alike(a, n, peer, id) : push_look_up(a, peer, id);
    }
    return base ? base + (where & 0xffffffffffffull) + off : 0;
}

/* NVIDIA's direct stores (paced parts, tiles of parts.hip) are cut otherwise than the pieces of rings; elsewhere a block moves the same bytes either way. */
#if defined(CCL_ON_NVIDIA)
#define PUSH_ALIKE 1u
#else
#define PUSH_ALIKE 0u
#endif

/* Base of my part there. */
CCL_DEVICE uint64_t push_resolve(CCL_ARGS a, uint32_t n, uint32_t peer, uint64_t where)
{
    return push_resolve_by(a, PUSH_ALIKE, n, peer, where, a->rank * a->dst_part);
}

/* Ring slot of chunk c, in src's own memory where the ring is shared, else in the destination's. A partitioned launch has several blocks for one
 * channel index, one a destination, and all write the shared ring: there the slots go by the block of the launch, equal at both ends. */
CCL_DEVICE uint64_t push_slot(CCL_ARGS a, uint64_t ctl, uint32_t src, uint32_t block, uint32_t c)
{
    uint64_t channel = a->lay.shared_ring ? ccl_bid() : (uint64_t)src * a->lay.blocks + block;
    return ctl + a->lay.ring + (channel * a->lay.slots + c % a->lay.slots) * a->lay.slot_bytes;
}

/* Rows of flag words in use in a partitioned launch of so many blocks: group 0 has the most blocks. */
CCL_DEVICE uint32_t push_group_rows(CCL_ARGS a, uint32_t grid) { return (grid + a->n - 1) / a->n; }

/* Does this block answer for the word of its row that belongs to the rank d rotations on? first..last: its own channels. In a partitioned launch
 * other blocks have channels in the same row, and group 0, which has a block in every row, answers for what no group uses. */
CCL_DEVICE uint32_t push_owns(CCL_ARGS a, const struct push_job *job, uint32_t d, uint32_t first, uint32_t last, uint32_t group)
{
    const uint32_t takes_rest = job->ch.to_first == 0;
    if (d == 0) {
        return takes_rest;
    }
    return (d >= first && d < last) || (takes_rest && job->block >= push_group_rows(a, ccl_grid() - group));
}

/* Flag words nobody wrote in this operation get a recent tag, one column of the block's rows now and then. */
CCL_DEVICE_SLOW void push_leave_now(CCL_ARGS a, struct push_job job, uint32_t turn)
{
    const uint64_t me = ccl_peer_ctl(a, a->rank);
    const uint32_t x = turn % a->n, d = x >= a->rank ? x - a->rank : x + a->n - a->rank, back = a->n - d;
    if (push_owns(a, &job, d, job.ch.to_first, job.ch.to_last, d)) {
        ccl_store_relaxed_system_u64(ccl_credit_addr(a, me, job.block, x), CCL_TAGGED(job.n, 0));
    }
    const uint32_t received = d >= job.ch.from_first && d < job.ch.from_last && job.chunks != 0;
    if (!received && push_owns(a, &job, d, job.ch.from_first, job.ch.from_last, back)) {
        ccl_scrub_flag(ccl_full_addr(a, me, job.block, x), job.n);
    }
}

CCL_DEVICE void push_leave(CCL_ARGS a, const struct push_job *job)
{
    uint32_t turn;
    if (ccl_tid() == 0 && __builtin_expect(ccl_scrub_turn(job->n, &turn), 0)) {
        push_leave_now(a, *job, turn);
    }
}

CCL_DEVICE uint32_t push_count(uint64_t pieces, uint64_t first, uint64_t stride)
{
    return first < pieces ? (uint32_t)((pieces - first + stride - 1) / stride) : 0;
}

#endif
