/* SPDX-License-Identifier: MIT
 *
 * Sends and receives of a group: one kernel that serves all of them in turn and waits for none, since who must come first is decided by other ranks
 * (A {send B, receive C}, B {receive C}, {receive A}, C {send A}, {send B}). Block b serves the peers some rotations on: (destination - source) modulo grid is the
 * same at both ends. Of one direction and peer one message is under way at a time, numbered by the pair:
 *     receiver   stores an advert {number: bytes, where} at the sender
 *     sender     compares; direct: says DIRECT, makes sure that the advert still stands, stores into the receive buffer, DONE;
 *                else through a ring of the pair at the receiver, with credits
 * Bytes moved: direct S read, S written; staged twice that, at both ends. */
#include "parts_begin.h"

#define CCL_P2P CCL_CONST const struct ccl_k_p2p_args *
#define P2P_LANES (CCL_P2P_ITEMS + 1)
#define P2P_PIECE (256u << 10) /* of a direct store before the other messages are looked at again */
#define P2P_SIGNATURE 0x70327032u

enum p2p_phase { P2P_START, P2P_STAGED, P2P_DIRECT, P2P_OVER };

/* The messages of one direction and peer. */
struct p2p_lane {
    uint64_t base, done; /* direct: receive buffer, bytes stored */
    uint32_t item, last; /* the one under way; behind the last one */
    uint32_t phase, tag, chunk;
};

/* What all threads do next, for which lane. */
struct p2p_move {
    uint64_t dst, src, bytes;
    uint32_t lane, progress;
};

/* Shared memory of a block. The first thread alone looks at the lanes and words, and decides; the others read `move` and `bad` behind a barrier. */
struct p2p_block {
    struct p2p_lane lane[P2P_LANES];
    struct p2p_move move;
    uint32_t lanes, next; /* number of lanes; the one to look at first */
    uint32_t bad, bad_lane;
};

CCL_DEVICE uint32_t p2p_op(uint32_t word1) { return word1 & 63; }
CCL_DEVICE uint32_t p2p_peer(CCL_P2P p, uint32_t item) { return p->item[item].word1 >> 16; }
CCL_DEVICE uint32_t p2p_sends(CCL_P2P p, uint32_t item) { return p2p_op(p->item[item].word1) == CCL_OP_SEND; }

CCL_DEVICE uint64_t p2p_word(CCL_P2P p, uint64_t array, uint32_t at, uint32_t of)
{
    return ccl_peer_ctl(&p->c, at) + array + (uint64_t)of * p->c.lay.flag_stride;
}

CCL_DEVICE uint64_t p2p_line(CCL_P2P p, uint32_t at, uint32_t of) { return ccl_peer_ctl(&p->c, at) + p->lay.adv + (uint64_t)of * 64; }

CCL_DEVICE uint64_t p2p_slot(CCL_P2P p, uint32_t at, uint32_t of, uint32_t chunk)
{
    return ccl_peer_ctl(&p->c, at) + p->lay.ring + ((uint64_t)of * p->lay.slots + chunk % p->lay.slots) * p->lay.slot_bytes;
}

CCL_DEVICE uint64_t p2p_seq_addr(CCL_P2P p, uint32_t item)
{
    return p->seq + ((p2p_sends(p, item) ? 0 : p->c.n) + p2p_peer(p, item)) * 8;
}

CCL_DEVICE uint32_t p2p_chunks(CCL_P2P p, uint32_t item) { return (uint32_t)((p->item[item].bytes + p->lay.slot_bytes - 1) / p->lay.slot_bytes); }

/* First thread from here on, up to the kernel. */

CCL_DEVICE void p2p_post(CCL_P2P p, uint64_t addr, uint32_t peer, uint64_t word)
{
    parts_publish(addr, word);
    ccl_notify_fence(&p->c);
    ccl_notify(&p->c, peer);
}

CCL_DEVICE void p2p_advertise(CCL_P2P p, struct p2p_lane *l)
{
    const uint32_t peer = p2p_peer(p, l->item);
    const uint64_t line = p2p_line(p, peer, p->c.rank), bytes = p->item[l->item].bytes, where = p->item[l->item].where;
    const uint32_t words[8] = {P2P_SIGNATURE, p->item[l->item].word1, (uint32_t)bytes, (uint32_t)(bytes >> 32), 0, 0, (uint32_t)where, (uint32_t)(where >> 32)};
    for (uint32_t w = 0; w < 8; w++) {
        parts_store_word(line + 8 * w, CCL_TAGGED(l->tag, words[w]));
    }
    ccl_notify_fence(&p->c);
    ccl_notify(&p->c, peer);
    l->phase = P2P_STAGED;
}

CCL_DEVICE void p2p_next(CCL_P2P p, struct p2p_lane *l)
{
    const uint64_t addr = p2p_seq_addr(p, l->item);
    l->tag = (uint32_t)(ccl_load_relaxed_agent_u64(addr) + 1) & CCL_TAG_MASK;
    l->phase = P2P_START;
    l->chunk = 0;
    l->done = 0;
    l->base = 0;
    if (!p2p_sends(p, l->item)) {
        p2p_advertise(p, l); /* before anything is moved: the peer need not wait for that */
    }
}

/* The message under way is over: the next one of the lane. */
CCL_DEVICE void p2p_over(CCL_P2P p, struct p2p_lane *l)
{
    const uint64_t addr = p2p_seq_addr(p, l->item);
    ccl_store_relaxed_agent_u64(addr, ccl_load_relaxed_agent_u64(addr) + 1);
    if (++l->item == l->last) {
        l->phase = P2P_OVER;
    } else {
        p2p_next(p, l);
    }
}

/* Is the receiver's advert there? Then begin. Returns enum ccl_bad. */
CCL_DEVICE uint32_t p2p_begin_send(CCL_P2P p, struct p2p_lane *l, struct p2p_move *m)
{
    CCL_ARGS a = &p->c;
    const uint32_t peer = p2p_peer(p, l->item);
    const uint64_t line = p2p_line(p, a->rank, peer), bytes = p->item[l->item].bytes;
    const uint64_t full = p2p_word(p, p->lay.full, peer, a->rank);
    uint64_t words[8];
    for (uint32_t w = 8; w-- > 0;) {
        words[w] = ccl_load_acquire_system_u64(line + 8 * w);
        if (CCL_TAG(words[w]) != l->tag) {
            return CCL_BAD_NONE;
        }
    }
    if (CCL_VALUE(words[0]) != P2P_SIGNATURE) {
        return CCL_BAD_LEFT; /* revoked */
    }
    if (((uint64_t)CCL_VALUE(words[3]) << 32 | CCL_VALUE(words[2])) != bytes) {
        return CCL_BAD_MISMATCH;
    }
    m->progress = 1;
    ccl_store_relaxed_system_u64(p2p_word(p, p->lay.credit, a->rank, peer), CCL_TAGGED(l->tag, 0)); /* no old credit */
    if (bytes == 0) {
        p2p_post(p, full, peer, CCL_TAGGED(l->tag, CCL_STEP_DONE));
        p2p_over(p, l);
        return CCL_BAD_NONE;
    }
    l->phase = P2P_STAGED;
    l->base = push_resolve_by(a, 0, 0, peer, (uint64_t)CCL_VALUE(words[7]) << 32 | CCL_VALUE(words[6]), 0);
    if (l->base != 0) {
        /* The receiver that fails revokes its advert, fences, and looks at this word: it waits for our end, or we see the revocation. */
        l->phase = P2P_DIRECT;
        p2p_post(p, full, peer, CCL_TAGGED(l->tag, CCL_STEP_DIRECT));
        ccl_fence_advert_system(a);
        return CCL_VALUE(ccl_load_acquire_system_u64(line)) == P2P_SIGNATURE ? CCL_BAD_NONE : CCL_BAD_LEFT;
    }
    return CCL_BAD_NONE;
}

/* What can be done for a lane now, before the data move. Returns enum ccl_bad. */
CCL_DEVICE uint32_t p2p_look(CCL_P2P p, struct p2p_lane *l, struct p2p_move *m)
{
    CCL_ARGS a = &p->c;
    const uint32_t peer = p2p_peer(p, l->item), sends = p2p_sends(p, l->item);
    const uint64_t addr = p->item[l->item].addr, bytes = p->item[l->item].bytes;
    m->bytes = 0;
    m->progress = 0;
    if (l->phase == P2P_START) {
        const uint32_t bad = p2p_begin_send(p, l, m);
        if (bad || l->phase == P2P_START || l->phase == P2P_OVER || m->progress == 0 || bytes == 0) {
            return bad;
        }
    }
    if (l->phase == P2P_DIRECT) {
        const uint64_t left = bytes - l->done;
        m->dst = l->base + l->done;
        m->src = addr + l->done;
        m->bytes = left < P2P_PIECE ? left : P2P_PIECE;
    } else {
        const uint64_t off = (uint64_t)l->chunk * p->lay.slot_bytes, left = bytes - off;
        const uint64_t word = ccl_load_acquire_system_u64(p2p_word(p, sends ? p->lay.credit : p->lay.full, a->rank, peer));
        const uint32_t step = CCL_TAG(word) == l->tag ? CCL_VALUE(word) : 0;
        if (sends) {
            if (l->chunk >= p->lay.slots && step < l->chunk - p->lay.slots + 1) {
                return CCL_BAD_NONE;
            }
            m->dst = p2p_slot(p, peer, a->rank, l->chunk);
            m->src = addr + off;
        } else {
            if (step == CCL_STEP_DONE) {
                p2p_over(p, l);
                m->progress = 1;
                return CCL_BAD_NONE;
            }
            if (step == CCL_STEP_LEFT) {
                return CCL_BAD_LEFT;
            }
            if (step <= l->chunk || step >= CCL_STEP_DIRECT) {
                return CCL_BAD_NONE;
            }
            m->dst = addr + off;
            m->src = p2p_slot(p, a->rank, peer, l->chunk);
        }
        m->bytes = left < p->lay.slot_bytes ? left : p->lay.slot_bytes;
    }
    m->progress = 1;
    return CCL_BAD_NONE;
}

/* The data have moved, and are released: tell the peer. */
CCL_DEVICE void p2p_moved(CCL_P2P p, struct p2p_lane *l, uint64_t bytes)
{
    CCL_ARGS a = &p->c;
    const uint32_t peer = p2p_peer(p, l->item), sends = p2p_sends(p, l->item), chunks = p2p_chunks(p, l->item);
    const uint64_t full = p2p_word(p, p->lay.full, peer, a->rank);
    parts_flag_release();
    if (l->phase == P2P_DIRECT) {
        l->done += bytes;
        if (l->done == p->item[l->item].bytes) {
            p2p_post(p, full, peer, CCL_TAGGED(l->tag, CCL_STEP_DONE));
            p2p_over(p, l);
        }
        return;
    }
    l->chunk++;
    if (sends) {
        p2p_post(p, full, peer, CCL_TAGGED(l->tag, l->chunk));
    } else if (l->chunk - 1 + p->lay.slots < chunks) { /* credits nobody waits for are not sent (Q) */
        p2p_post(p, p2p_word(p, p->lay.credit, peer, a->rank), peer, CCL_TAGGED(l->tag, l->chunk));
    }
    if (l->chunk == chunks) {
        p2p_over(p, l);
    }
}

/* Why to stop waiting, if at all; *lane: for whose sake. A message that is over on a second look is no reason. */
CCL_DEVICE_SLOW uint32_t p2p_why(CCL_P2P p, const struct p2p_block *b, uint32_t *lane)
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
    const struct ccl_called called = {p->item[bad_lane->item].word1, 1, p->item[bad_lane->item].bytes};
    ccl_raise(a, bad_lane->tag, bad, p2p_peer(p, bad_lane->item), called);
    ccl_fence_release_system();
    ccl_or_relaxed_agent_u64((uint64_t)&priv->stop, 1);
    ccl_or_relaxed_agent_u64((uint64_t)&priv->op, CCL_OP_STOPPED);
    for (uint32_t i = 0; i < b->lanes; i++) {
        const struct p2p_lane *l = &b->lane[i];
        const uint32_t peer = l->phase != P2P_OVER ? p2p_peer(p, l->item) : 0;
        if (l->phase != P2P_OVER && !p2p_sends(p, l->item) && l->phase != P2P_START) {
            ccl_store_release_system_u64(p2p_line(p, peer, a->rank), CCL_TAGGED(l->tag, CCL_SIG_REVOKED));
        } else if (l->phase != P2P_OVER && p2p_sends(p, l->item)) {
            ccl_store_release_system_u64(p2p_word(p, p->lay.full, peer, a->rank), CCL_TAGGED(l->tag, CCL_STEP_LEFT));
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
        const uint64_t word = p2p_word(p, p->lay.full, a->rank, peer);
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

/* The lanes of this block: runs of items of one peer and direction. Returns how many. */
CCL_DEVICE uint32_t p2p_open(CCL_P2P p, struct p2p_block *b)
{
    uint32_t lanes = 0;
    for (uint32_t i = 0; i < p->count;) {
        const uint32_t peer = p2p_peer(p, i), rank = p->c.rank, n = p->c.n, first = i;
        const uint32_t rotation = p2p_sends(p, i) ? (peer + n - rank) % n : (rank + n - peer) % n;
        while (i < p->count && p->item[i].word1 >> 16 == peer && p2p_op(p->item[i].word1) == p2p_op(p->item[first].word1)) {
            i++;
        }
        if (rotation % ccl_grid() == ccl_bid()) {
            struct p2p_lane *l = &b->lane[lanes++];
            l->item = first;
            l->last = i;
            p2p_next(p, l);
        }
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
        ccl_move_rows(b->move.dst, bytes, b->move.src, bytes, 1, bytes, 0);
        ccl_block_release_system();
        if (ccl_afresh(ccl_tid()) == 0) {
            p2p_moved(a, &b->lane[b->move.lane], bytes);
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
