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
    uint32_t odd;       /* GPU: some base is not aligned to vectors */
    uint32_t drain, late; /* GPU: some source stages; some source has said DIRECT, but not DONE */
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
    if (bad != CCL_BAD_STOP || sh->bad == CCL_BAD_NONE) {
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

/* Base of my part at rank `peer`, from its advert; 0: stage it. Resolved before the first store and before any loop. */
CCL_DEVICE uint64_t push_resolve(CCL_ARGS a, uint32_t peer, uint64_t where)
{
    uint32_t id = (uint32_t)(where >> 48);
    uint64_t off = (where & 0xffffffffffffull) + a->rank * a->dst_part, base = 0;
    if (id == 0 || (a->flags & CCL_F_FORCE_STAGED)) {
        return 0;
    }
    if (id == a->expect_id && a->n <= CCL_VALUE_PEERS) {
        base = a->peer[peer].win;
    } else if (id < CCL_WINDOWS) {
        /* acquire: pairs with the release of the monitor thread that mapped the window */
        uint64_t table = CCL_PTR(const struct ccl_k_comm, a->comm)->win;
        base = ccl_load_acquire_system_u64(table + ((uint64_t)peer * CCL_WINDOWS + id) * 8);
    }
    return base ? base + off : 0;
}

/* Ring slot of chunk c, in src's own memory where the ring is shared, else in the destination's. A partitioned launch has several blocks for one
 * channel index, one a destination, and all write the shared ring: there the slots go by the block of the launch, equal at both ends. */
CCL_DEVICE uint64_t push_slot(CCL_ARGS a, uint64_t ctl, uint32_t src, uint32_t block, uint32_t c)
{
    uint64_t channel = a->lay.shared_ring ? ccl_bid() : (uint64_t)src * a->lay.blocks + block;
    return ctl + a->lay.ring + (channel * a->lay.slots + c % a->lay.slots) * a->lay.slot_bytes;
}

/* Now and then a block gives a recent tag to those words of one column of its row that nobody writes in this operation. Blocks of a partitioned launch
 * share rows, so each keeps to the channels it serves; the own column of `full` goes with the own part. */
CCL_DEVICE void push_leave(CCL_ARGS a, struct push_job *job)
{
    uint32_t turn;
    if (ccl_tid() == 0 && ccl_scrub_turn(job->n, &turn)) {
        uint64_t me = ccl_peer_ctl(a, a->rank);
        uint32_t x = turn % a->n, d = x >= a->rank ? x - a->rank : x + a->n - a->rank;
        if (d >= job->ch.to_first && d < job->ch.to_last) {
            ccl_store_relaxed_system_u64(ccl_credit_addr(a, me, job->block, x), CCL_TAGGED(job->n, 0));
        }
        if (d == 0 ? job->ch.to_first == 0 : job->chunks == 0 && d >= job->ch.from_first && d < job->ch.from_last) {
            ccl_store_relaxed_system_u64(ccl_full_addr(a, me, job->block, x), CCL_TAGGED(job->n, 0));
        }
    }
}

CCL_DEVICE uint32_t push_count(uint64_t pieces, uint64_t first, uint64_t stride)
{
    return first < pieces ? (uint32_t)((pieces - first + stride - 1) / stride) : 0;
}

#endif
