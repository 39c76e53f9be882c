/* SPDX-License-Identifier: MIT
 *
 * The messages of p2p.hip, one direction and peer: what they wait for, which bytes move next, what is said when these have moved. All by one thread. */
#ifndef CCL_P2P_LANE_H
#define CCL_P2P_LANE_H

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

#endif
