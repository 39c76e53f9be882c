/* SPDX-License-Identifier: MIT
 *
 * Sends and receives of a group: one kernel that serves all of them in turn and waits for none, since who must come first is decided by other ranks
 * (A {send B, receive C}, B {receive C}, {receive A}, C {send A}, {send B}). A large message is cut into pieces that go through several stripes; both ends cut alike. Of one direction, peer and
 * stripe one message is under way at a time, numbered by them:
 *     small      receiver stores an advert at the sender; sender, without waiting for it, the data into slot number % E of a ring at the receiver, then
 *                {number: bytes} into the slot's header. An advert of a later message than the one that had the slot before says that the slot is free
 *     receiver   stores an advert {number: bytes, where} at the sender
 *     sender     compares; direct: says DIRECT, makes sure that the advert still stands, stores into the receive buffer, DONE;
 *                else through a ring of the stripe at the receiver, with credits
 * Bytes moved: direct S read, S written; staged twice that, at both ends. */
#include "p2p_lane.h"

/* Why to stop waiting, if at all; *lane: for whose sake. A message that is over on a second look is no reason. */
CCL_DEVICE_SLOW uint32_t p2p_why(CCL_P2P p, struct p2p_block *b, uint32_t *lane)
{
    CCL_ARGS a = &p->c;
    const struct ccl_k_page *page = (const struct ccl_k_page *)a->page;
    if (ccl_load_acquire_system_u64((uint64_t)&page->abort) != 0) {
        const uint32_t origin = ccl_origin(a, a->n);
        for (uint32_t i = 0; i < b->lanes; i++) {
            if (b->lane[i].phase != P2P_OVER && (origin == a->n || p2p_peer(p, b->lane[i].item) == origin || b->lane[*lane].phase == P2P_OVER)) {
                *lane = i;
            }
        }
        return CCL_BAD_STOP;
    }
    for (uint32_t i = 0; i < b->lanes; i++) {
        if (b->lane[i].phase == P2P_OVER) {
            continue;
        }
        const uint32_t peer = p2p_peer(p, b->lane[i].item);
        const struct ccl_k_page *theirs = (const struct ccl_k_page *)ccl_peer_page(a, peer);
        *lane = i;
        if (p2p_came_small(p, &b->lane[i], &b->move)) {
            return CCL_BAD_MISMATCH;
        }
        if (ccl_load_acquire_system_u64((uint64_t)&page->dead[peer / 64]) >> (peer % 64) & 1) {
            return CCL_BAD_DEAD;
        }
        if ((uint32_t)ccl_load_acquire_system_u64((uint64_t)&theirs->state) == CCL_PAGE_CLOSED) {
            return CCL_BAD_LEFT;
        }
    }
    return CCL_BAD_NONE;
}

/* Tell everybody, revoke, LEFT, and wait until no peer can store into a receive buffer of this rank any more. */
CCL_DEVICE_SLOW void p2p_fail(CCL_P2P p, const struct p2p_block *b, uint32_t bad, uint32_t lane)
{
    CCL_ARGS a = &p->c;
    struct ccl_k_priv *priv = (struct ccl_k_priv *)a->priv;
    const struct p2p_lane *bad_lane = &b->lane[lane];
    const struct ccl_called called = {p->item[bad_lane->item].word1, bad == CCL_BAD_MISMATCH ? b->move.other : 0, p->item[bad_lane->item].bytes};
    ccl_raise(a, bad_lane->tag, bad, p2p_peer(p, bad_lane->item), called);
    ccl_fence_release_system();
    ccl_or_relaxed_agent_u64((uint64_t)&priv->stop, 1);
    ccl_or_relaxed_agent_u64((uint64_t)&priv->op, CCL_OP_STOPPED);
    for (uint32_t i = 0; i < b->lanes; i++) {
        const struct p2p_lane *l = &b->lane[i];
        const uint32_t peer = l->phase != P2P_OVER ? p2p_peer(p, l->item) : 0;
        if (l->phase != P2P_OVER && !p2p_sends(p, l->item) && l->phase != P2P_START) {
            ccl_store_release_system_u64(p2p_line(p, l, peer, a->rank), CCL_TAGGED(l->tag, CCL_SIG_REVOKED));
        } else if (l->phase != P2P_OVER && p2p_sends(p, l->item)) {
            ccl_store_release_system_u64(p2p_word(p, l, p->lay.full, peer, a->rank), CCL_TAGGED(l->tag, CCL_STEP_LEFT));
        }
    }
    ccl_fence_revoke_system(a);
    for (uint32_t d = 1; d < a->n; d++) {
        ccl_notify(a, ccl_rotate(a, d));
    }
    const uint64_t start = ccl_clock_ns();
    for (uint32_t i = 0; i < b->lanes; i++) {
        const struct p2p_lane *l = &b->lane[i];
        if (l->phase == P2P_OVER || p2p_sends(p, l->item) || l->phase == P2P_START || p->item[l->item].where == 0) {
            continue;
        }
        const uint32_t peer = p2p_peer(p, l->item);
        const uint64_t word = p2p_word(p, l, p->lay.full, a->rank, peer);
        struct ccl_k_page *page = (struct ccl_k_page *)a->page;
        while (ccl_load_acquire_system_u64(word) == CCL_TAGGED(l->tag, CCL_STEP_DIRECT)) {
            const uint64_t waited = ccl_clock_ns() - start;
            const uint32_t dead = ccl_load_acquire_system_u64((uint64_t)&page->dead[peer / 64]) >> (peer % 64) & 1;
            if (dead && waited + 1 > CCL_DEAD_GRACE_NS) {
                break;
            }
            if (waited > CCL_DRAIN_LIMIT_NS) {
                ccl_mark_unclean(a, peer);
                break;
            }
            ccl_spin(a->flags);
        }
    }
}

/* The lanes of this block: runs of items of one peer and direction, each with its stripes, in turn over the blocks. Which block serves a lane is this rank's own affair: no block
 * waits for one lane only. Returns how many. */
CCL_DEVICE uint32_t p2p_open(CCL_P2P p, struct p2p_block *b)
{
    uint32_t lanes = 0, turn = ccl_bid(); /* lanes of other blocks ahead of the next one of this block */
    for (uint32_t i = 0; i < p->count;) {
        const uint32_t peer = p2p_peer(p, i), first = i;
        uint32_t stripes = 1;
        while (i < p->count && p->item[i].word1 >> 16 == peer && p2p_op(p->item[i].word1) == p2p_op(p->item[first].word1)) {
            stripes = p2p_stripes(p, i) > stripes ? p2p_stripes(p, i) : stripes;
            i++;
        }
        for (; turn < stripes; turn += ccl_grid()) {
            struct p2p_lane *l = &b->lane[lanes++];
            l->stripe = turn;
            l->item = first;
            l->last = i;
            p2p_next(p, l);
        }
        turn -= stripes;
    }
    return lanes;
}

/* What a look at all lanes has led to. */
enum p2p_found { P2P_NOTHING, P2P_PROGRESS, P2P_MOVE, P2P_END };

/* Look at the lanes in turn, until one has something to move. */
CCL_DEVICE uint32_t p2p_scan(CCL_P2P p, struct p2p_block *b)
{
    uint32_t found = P2P_NOTHING, left = 0;
    for (uint32_t k = 0, i = b->next; k < b->lanes; k++, i = i + 1 == b->lanes ? 0 : i + 1) {
        struct p2p_lane *l = &b->lane[i];
        if (l->phase == P2P_OVER) {
            continue;
        }
        const uint32_t bad = p2p_look(p, l, &b->move);
        if (bad) {
            b->bad = bad;
            b->bad_lane = i;
            return P2P_END;
        }
        if (b->move.bytes != 0) {
            b->move.lane = i;
            b->next = i + 1 == b->lanes ? 0 : i + 1;
            return P2P_MOVE;
        }
        found = b->move.progress ? (uint32_t)P2P_PROGRESS : found;
        left |= l->phase != P2P_OVER;
    }
    b->move.bytes = 0;
    return left ? found : (uint32_t)P2P_END;
}

/* Nothing could be done for a while. A message that has come meanwhile counts more than a peer's death. */
CCL_DEVICE uint32_t p2p_look_around(CCL_P2P p, struct p2p_block *b)
{
    uint32_t whose = 0;
    const uint32_t why = p2p_why(p, b, &whose), found = why > CCL_BAD_STOP ? p2p_scan(p, b) : (uint32_t)P2P_NOTHING;
    if (why == CCL_BAD_NONE || found != P2P_NOTHING) {
        return found;
    }
    b->bad = why;
    b->bad_lane = whose;
    return P2P_END;
}

#if defined(CCL_ON_HOST)

#define P2P_LOOK_EVERY 8u

/* A second of sleeps without a ring: the host is told whom this kernel waits for. */
static uint64_t p2p_stalled(CCL_P2P p, const struct p2p_block *b)
{
    for (uint32_t i = 0; i < b->lanes; i++) {
        if (b->lane[i].phase != P2P_OVER) {
            return (uint64_t)b->lane[i].tag << 32 | (p2p_peer(p, b->lane[i].item) + 1);
        }
    }
    return 0;
}

/* Nothing was found so many times: after a while, sleep until a peer rings, unless one more look at everything finds something. */
CCL_DEVICE uint32_t p2p_idle(CCL_P2P p, struct p2p_block *b, uint32_t polls, uint64_t *shown)
{
    CCL_ARGS a = &p->c;
    uint32_t whose = 0;
    if (polls <= a->spin) {
        ccl_spin(a->flags);
        return P2P_NOTHING;
    }
    if (ccl_block->idle != 0) {
        ccl_block->idle();
    }
    if (polls - a->spin > 10) {
        *shown = p2p_stalled(p, b);
        __atomic_store_n(&((struct ccl_k_page *)a->page)->stalled, *shown, __ATOMIC_RELAXED);
    }
    const uint32_t bell = ccl_host_sleep_begin(a), found = p2p_scan(p, b);
    ccl_host_sleep_end(a, bell, found == P2P_NOTHING && p2p_why(p, b, &whose) == CCL_BAD_NONE);
    return found;
}

#else

#define P2P_LOOK_EVERY 256u
#define p2p_idle(p, b, polls, shown) (ccl_pause(), (uint32_t)P2P_NOTHING)

#endif

/* Wait until a lane has something to move, all are over, or something is wrong. */
CCL_DEVICE void p2p_pick(CCL_P2P p, struct p2p_block *b, uint64_t *shown)
{
    (void)shown;
    for (uint32_t polls = 1;; polls++) {
        uint32_t found = p2p_scan(p, b);
        if (found == P2P_NOTHING && polls % P2P_LOOK_EVERY == 0) {
            found = p2p_look_around(p, b);
        }
        if (found == P2P_NOTHING) {
            found = p2p_idle(p, b, polls, shown);
        }
        if (found == P2P_PROGRESS) {
            polls = 0;
        } else if (found != P2P_NOTHING) {
            return;
        }
    }
}

/* All threads. */
CCL_DEVICE void p2p_run(const struct p2p_move *m)
{
    const uint64_t dst = ccl_uniform_u64(m->dst), src = ccl_uniform_u64(m->src), bytes = ccl_uniform_u64(m->bytes), pitch = ccl_uniform_u64(m->pitch);
    const uint32_t runs = ccl_uniform(m->runs);
    uint64_t left = ccl_uniform_u64(m->left);
    if (pitch == bytes) { /* one stripe: one run */
        ccl_move_run(dst, src, left < runs * bytes ? left : runs * bytes, 0);
        return;
    }
    CCL_NO_UNROLL
    for (uint32_t i = 0; i < runs; i++) {
        ccl_move_run(dst + i * pitch, src + i * pitch, left < bytes ? left : bytes, 0);
        left -= pitch;
    }
}

/* ISA p2p: vgpr 64, sgpr 106, lds 4096, waves 8 */
CCL_KERNEL(p2p, struct ccl_k_p2p_args)
{
    CCL_SHARED struct p2p_block memory;
    struct p2p_block *b = &memory;
    CCL_ARGS c = &a->c;
    const uint32_t t = ccl_tid();
    uint64_t shown = 0;
    if (t == 0) {
        b->bad = ccl_load_relaxed_agent_u64((uint64_t) & ((struct ccl_k_priv *)c->priv)->op) & CCL_OP_STOPPED ? CCL_BAD_STOP : CCL_BAD_NONE;
        b->bad_lane = b->next = 0;
        b->lanes = b->bad == CCL_BAD_NONE ? p2p_open(a, b) : 0; /* a launch after an error: no advert leaves, peers have seen abort */
    }
    ccl_block_sync();
    if (ccl_uniform(b->lanes) == 0) {
        return;
    }
    for (;;) {
        CCL_AFRESH(a);
        if (ccl_afresh(ccl_tid()) == 0) {
            p2p_pick(a, b, &shown);
        }
        ccl_block_sync();
        const uint64_t bytes = ccl_uniform_u64(b->move.bytes);
        if (ccl_uniform(b->bad) != CCL_BAD_NONE || bytes == 0) {
            break;
        }
        p2p_run(&b->move);
        ccl_block_release_system();
        if (ccl_afresh(ccl_tid()) == 0) {
            p2p_moved(a, &b->lane[b->move.lane], b->move.runs);
        }
    }
    CCL_AFRESH(a);
    if (b->bad != CCL_BAD_NONE) {
        ccl_block_release_system(); /* what this block has stored so far comes before LEFT */
        if (ccl_afresh(ccl_tid()) == 0) {
            p2p_fail(a, b, b->bad, b->bad_lane);
        }
    }
    if (shown != 0) {
        ccl_replace_relaxed_system_u64((uint64_t) & ((struct ccl_k_page *)c->page)->stalled, shown, 0);
    }
}
