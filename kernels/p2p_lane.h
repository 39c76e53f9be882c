/* SPDX-License-Identifier: MIT
 *
 * The messages of p2p.hip, one direction and peer: what they wait for, which bytes move next, what is said when these have moved. All by one thread. */
#ifndef CCL_P2P_LANE_H
#define CCL_P2P_LANE_H

#include "parts_begin.h"

#define CCL_P2P CCL_CONST const struct ccl_k_p2p_args *
#define P2P_LANES CCL_P2P_ITEMS
#define P2P_PIECE (256u << 10) /* of a direct store before the other messages are looked at again */
#define P2P_SIGNATURE 0x70327032u

#define P2P_EAGER_NOTHING 0xffffffffu /* in a header: no small message has this number */

enum p2p_phase { P2P_START, P2P_STAGED, P2P_DIRECT, P2P_EAGER, P2P_OVER };

/* The messages of one direction and peer, as far as they go through one stripe: of each the pieces stripe, stripe + stripes of the message, ... */
struct p2p_lane {
    uint64_t base;       /* direct: receive buffer */
    uint32_t item, last; /* the one under way; behind the last one */
    uint32_t phase, tag, stripe;
    uint32_t chunk, chunks; /* pieces moved; pieces of the message that go through this stripe */
};

/* What all threads do next, for which lane: runs of `bytes`, `pitch` apart, the last one shorter where the message ends. */
struct p2p_move {
    uint64_t dst, src, bytes, pitch;
    uint64_t left; /* bytes of the message from src on */
    uint64_t other; /* a mismatch: CCL_P2P_OTHER of the peer */
    uint32_t runs, lane, progress;
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

/* Both ends decide alike. */
CCL_DEVICE uint32_t p2p_small(CCL_P2P p, uint32_t item) { return p->item[item].bytes <= p->lay.eager_max; }

CCL_DEVICE uint32_t p2p_piece(CCL_P2P p, uint32_t item) { return p->item[item].cut >> 8; }
CCL_DEVICE uint32_t p2p_stripes(CCL_P2P p, uint32_t item) { return p->item[item].cut & 255; }

/* Of the words and rings in the control memory of a rank, those of a stripe and of the rank at its other end. */
CCL_DEVICE uint64_t p2p_channel(CCL_P2P p, const struct p2p_lane *l, uint32_t of) { return (uint64_t)l->stripe * p->c.n + of; }

CCL_DEVICE uint64_t p2p_word(CCL_P2P p, const struct p2p_lane *l, uint64_t array, uint32_t at, uint32_t of)
{
    return ccl_peer_ctl(&p->c, at) + array + p2p_channel(p, l, of) * p->c.lay.flag_stride;
}

CCL_DEVICE uint64_t p2p_line(CCL_P2P p, const struct p2p_lane *l, uint32_t at, uint32_t of)
{
    return ccl_peer_ctl(&p->c, at) + p->lay.adv + p2p_channel(p, l, of) * 64;
}

CCL_DEVICE uint64_t p2p_slot(CCL_P2P p, const struct p2p_lane *l, uint32_t at, uint32_t of)
{
    return ccl_peer_ctl(&p->c, at) + p->lay.ring + (p2p_channel(p, l, of) * p->lay.slots + l->chunk % p->lay.slots) * p->lay.slot_bytes;
}

/* Of small messages, which all are of stripe 0: at the receiver, by number. */
CCL_DEVICE uint64_t p2p_eager_slot(CCL_P2P p, const struct p2p_lane *l, uint32_t at, uint32_t of)
{
    const uint64_t slot = (uint64_t)of * p->lay.eager_slots + (l->tag & (p->lay.eager_slots - 1));
    return ccl_peer_ctl(&p->c, at) + p->lay.eager + slot * CCL_P2P_EAGER_PITCH(p->lay.eager_max);
}

CCL_DEVICE uint64_t p2p_eager_header(CCL_P2P p, const struct p2p_lane *l, uint32_t at, uint32_t of)
{
    return p2p_eager_slot(p, l, at, of) + CCL_P2P_EAGER_LINE;
}

CCL_DEVICE uint64_t p2p_seq_addr(CCL_P2P p, const struct p2p_lane *l)
{
    return p->seq + ((p2p_sends(p, l->item) ? 0 : (uint64_t)p->lay.stripes * p->c.n) + p2p_channel(p, l, p2p_peer(p, l->item))) * 8;
}

/* Pieces of its message that go through the lane's stripe. */
CCL_DEVICE uint32_t p2p_chunks(CCL_P2P p, const struct p2p_lane *l)
{
    const uint32_t piece = p2p_piece(p, l->item), stripes = p2p_stripes(p, l->item);
    const uint64_t pieces = p2p_small(p, l->item) ? 1 : (p->item[l->item].bytes + piece - 1) / piece;
    return pieces > l->stripe ? (uint32_t)((pieces - l->stripe + stripes - 1) / stripes) : 0;
}

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
    const uint64_t line = p2p_line(p, l, peer, p->c.rank), bytes = p->item[l->item].bytes, where = p->item[l->item].where;
    const uint32_t words[8] = {P2P_SIGNATURE, p->item[l->item].word1, (uint32_t)bytes, (uint32_t)(bytes >> 32), 0, 0, (uint32_t)where, (uint32_t)(where >> 32)};
    for (uint32_t w = 0; w < 8; w++) {
        parts_store_word(line + 8 * w, CCL_TAGGED(l->tag, words[w]));
    }
    ccl_notify_fence(&p->c);
    ccl_notify(&p->c, peer);
    l->phase = p2p_small(p, l->item) ? P2P_EAGER : P2P_STAGED;
}

/* The next message from l->item on that goes through this stripe, too. */
CCL_DEVICE void p2p_next(CCL_P2P p, struct p2p_lane *l)
{
    while (l->item < l->last && p2p_stripes(p, l->item) <= l->stripe) {
        l->item++;
    }
    if (l->item == l->last) {
        l->phase = P2P_OVER;
        return;
    }
    l->tag = (uint32_t)(ccl_load_relaxed_agent_u64(p2p_seq_addr(p, l)) + 1) & CCL_TAG_MASK;
    l->phase = p2p_small(p, l->item) ? P2P_EAGER : P2P_START;
    l->chunk = 0;
    l->chunks = p2p_chunks(p, l);
    l->base = 0;
    if (!p2p_sends(p, l->item)) {
        p2p_advertise(p, l); /* before anything is moved: the peer need not wait for that */
    }
}

/* The receiver's words of stripe 0 that this message has not used get its tag now and then, so that none keeps one until it comes round: the header of its slot, or
 * `full`. Behind the message and before the advert of the next one nobody else stores there. */
CCL_DEVICE void p2p_scrub(CCL_P2P p, const struct p2p_lane *l)
{
#if defined(CCL_NO_SCRUB)
    (void)p;
    (void)l;
#else
    if (l->stripe != 0 || p2p_sends(p, l->item) || (l->tag & (p->lay.eager_slots * CCL_SCRUB_EVERY - 1)) >= p->lay.eager_slots) {
        return;
    }
    const uint32_t me = p->c.rank, peer = p2p_peer(p, l->item);
    if (p2p_small(p, l->item)) {
        ccl_store_relaxed_system_u64(p2p_word(p, l, p->lay.full, me, peer), CCL_TAGGED(l->tag, 0));
    } else {
        ccl_store_relaxed_system_u64(p2p_eager_header(p, l, me, peer), CCL_TAGGED(l->tag, P2P_EAGER_NOTHING));
    }
    ccl_fence_release_system();
#endif
}

/* The header of a small message is there: is it the one that is expected? */
CCL_DEVICE uint32_t p2p_head_differs(CCL_P2P p, const struct p2p_lane *l, uint32_t value, struct p2p_move *m)
{
    const uint32_t bytes = value & 0xffffff;
    m->other = CCL_P2P_OTHER(bytes, value >> 24);
    return bytes != p->item[l->item].bytes;
}

/* A large message is expected, and a small one has come. */
CCL_DEVICE uint32_t p2p_came_small(CCL_P2P p, const struct p2p_lane *l, struct p2p_move *m)
{
    if (l->stripe != 0 || l->phase != P2P_STAGED || p2p_sends(p, l->item)) {
        return 0;
    }
    const uint64_t word = ccl_load_relaxed_system_u64(p2p_eager_header(p, l, p->c.rank, p2p_peer(p, l->item)));
    return CCL_TAG(word) == l->tag && CCL_VALUE(word) != P2P_EAGER_NOTHING && p2p_head_differs(p, l, CCL_VALUE(word), m);
}

/* The message under way is over: the next one of the lane. */
CCL_DEVICE void p2p_over(CCL_P2P p, struct p2p_lane *l)
{
    p2p_scrub(p, l);
    const uint64_t addr = p2p_seq_addr(p, l);
    ccl_store_relaxed_agent_u64(addr, ccl_load_relaxed_agent_u64(addr) + 1);
    l->item++;
    p2p_next(p, l);
}

/* A small message has been copied, and is released: the sender publishes it. */
CCL_DEVICE void p2p_moved_eager(CCL_P2P p, struct p2p_lane *l)
{
    const uint32_t peer = p2p_peer(p, l->item), type = p->item[l->item].word1 >> 6 & 31;
    if (p2p_sends(p, l->item)) {
        p2p_post(p, p2p_eager_header(p, l, peer, p->c.rank), peer, CCL_TAGGED(l->tag, CCL_P2P_EAGER_HEAD(p->item[l->item].bytes, type)));
    }
    p2p_over(p, l);
}

#if defined(CCL_ON_HOST)

/* A look at the advert would take its line from the receiver, which is about to write it: what was seen is remembered. */
CCL_DEVICE uint64_t p2p_seen_addr(CCL_P2P p, const struct p2p_lane *l)
{
    return p->seq + (2 * (uint64_t)p->lay.stripes * p->c.n + p2p_peer(p, l->item)) * 8;
}

CCL_DEVICE void p2p_seen(CCL_P2P p, const struct p2p_lane *l, uint32_t tag)
{
    if (l->stripe == 0) {
        ccl_store_relaxed_agent_u64(p2p_seen_addr(p, l), tag);
    }
}

#define P2P_LAST_SEEN(p, l) ((uint32_t)ccl_load_relaxed_agent_u64(p2p_seen_addr(p, l)))

#else

#define p2p_seen(p, l, tag)

#endif

/* May a small message be stored into its slot? The message that had the slot before is over when the receiver has begun a later one. Returns enum ccl_bad. */
CCL_DEVICE uint32_t p2p_credit(CCL_P2P p, const struct p2p_lane *l, uint32_t peer, uint32_t *may)
{
#if defined(P2P_LAST_SEEN)
    *may = ((l->tag - P2P_LAST_SEEN(p, l)) & CCL_TAG_MASK) < p->lay.eager_slots;
    if (__builtin_expect(*may, 1)) {
        return CCL_BAD_NONE;
    }
#endif
    const uint64_t word = ccl_load_acquire_system_u64(p2p_line(p, l, p->c.rank, peer));
    *may = ((l->tag - CCL_TAG(word)) & CCL_TAG_MASK) < p->lay.eager_slots;
    if (*may) {
        p2p_seen(p, l, CCL_TAG(word));
    }
    return CCL_VALUE(word) == CCL_SIG_REVOKED ? CCL_BAD_LEFT : CCL_BAD_NONE;
}

/* A small message: store it, or take it. Returns enum ccl_bad. */
CCL_DEVICE uint32_t p2p_look_eager(CCL_P2P p, struct p2p_lane *l, struct p2p_move *m)
{
    const uint32_t peer = p2p_peer(p, l->item), sends = p2p_sends(p, l->item), me = p->c.rank, bytes = (uint32_t)p->item[l->item].bytes;
    const uint64_t slot = p2p_eager_slot(p, l, sends ? peer : me, sends ? me : peer), data = slot + (bytes <= CCL_P2P_EAGER_LINE ? 0 : 64);
    if (sends) {
        uint32_t may;
        const uint32_t bad = p2p_credit(p, l, peer, &may);
        if (bad || !may) {
            return bad;
        }
    } else {
        const uint64_t word = ccl_load_acquire_system_u64(slot + CCL_P2P_EAGER_LINE);
        if (CCL_TAG(word) != l->tag) {
            return CCL_BAD_NONE;
        }
        if (p2p_head_differs(p, l, CCL_VALUE(word), m)) {
            return CCL_BAD_MISMATCH;
        }
    }
    m->progress = 1;
    if (bytes == 0) {
        p2p_moved_eager(p, l);
        return CCL_BAD_NONE;
    }
    m->dst = sends ? data : p->item[l->item].addr;
    m->src = sends ? p->item[l->item].addr : data;
    m->bytes = m->pitch = m->left = bytes;
    m->runs = 1;
    return CCL_BAD_NONE;
}

/* Is the receiver's advert there? Then begin. Returns enum ccl_bad. */
CCL_DEVICE uint32_t p2p_begin_send(CCL_P2P p, struct p2p_lane *l, struct p2p_move *m)
{
    CCL_ARGS a = &p->c;
    const uint32_t peer = p2p_peer(p, l->item);
    const uint64_t line = p2p_line(p, l, a->rank, peer), bytes = p->item[l->item].bytes;
    const uint64_t full = p2p_word(p, l, p->lay.full, peer, a->rank);
    uint64_t words[8];
    uint32_t all = 1;
    for (uint32_t w = 7; w > 0; w--) {
        words[w] = ccl_load_relaxed_system_u64(line + 8 * w);
    }
    words[0] = ccl_load_acquire_system_u64(line); /* last: it covers all of them, which are in flight together */
    for (uint32_t w = 0; w < 8; w++) {
        all &= CCL_TAG(words[w]) == l->tag;
    }
    if (!all) {
        return CCL_BAD_NONE;
    }
    if (CCL_VALUE(words[0]) != P2P_SIGNATURE) {
        return CCL_BAD_LEFT; /* revoked */
    }
    const uint64_t expected = (uint64_t)CCL_VALUE(words[3]) << 32 | CCL_VALUE(words[2]);
    if (expected != bytes) {
        m->other = CCL_P2P_OTHER(expected, CCL_VALUE(words[1]) >> 6 & 31);
        return l->stripe == 0 ? CCL_BAD_MISMATCH : CCL_BAD_NONE; /* stripe 0 has all messages, and finds the first that differs; this may be another one */
    }
    m->progress = 1;
    p2p_seen(p, l, l->tag);
    ccl_store_relaxed_system_u64(p2p_word(p, l, p->lay.credit, a->rank, peer), CCL_TAGGED(l->tag, 0)); /* no old credit */
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
    if (l->phase == P2P_EAGER) {
        return p2p_look_eager(p, l, m);
    }
    if (l->phase == P2P_START) {
        const uint32_t bad = p2p_begin_send(p, l, m);
        if (bad || m->progress == 0) {
            return bad;
        }
    }
    const uint32_t piece = p2p_piece(p, l->item), stripes = p2p_stripes(p, l->item);
    const uint64_t off = ((uint64_t)l->chunk * stripes + l->stripe) * piece;
    m->pitch = (uint64_t)stripes * piece;
    m->runs = 1;
    if (l->phase == P2P_DIRECT) {
        const uint32_t left = l->chunks - l->chunk, most = P2P_PIECE / piece;
        m->dst = l->base + off;
        m->src = addr + off;
        m->runs = left < most ? left : most;
    } else {
        const uint64_t word = ccl_load_acquire_system_u64(p2p_word(p, l, sends ? p->lay.credit : p->lay.full, a->rank, peer));
        const uint32_t step = CCL_TAG(word) == l->tag ? CCL_VALUE(word) : 0;
        if (sends) {
            if (l->chunk >= p->lay.slots && step < l->chunk - p->lay.slots + 1) {
                return CCL_BAD_NONE;
            }
            m->dst = p2p_slot(p, l, peer, a->rank);
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
            m->src = p2p_slot(p, l, a->rank, peer);
        }
    }
    m->left = bytes - off;
    m->bytes = piece;
    m->progress = 1;
    return CCL_BAD_NONE;
}

/* The data have moved, and are released: tell the peer. */
CCL_DEVICE void p2p_moved(CCL_P2P p, struct p2p_lane *l, uint32_t runs)
{
    CCL_ARGS a = &p->c;
    const uint32_t peer = p2p_peer(p, l->item), sends = p2p_sends(p, l->item), chunks = l->chunks, direct = l->phase == P2P_DIRECT;
    const uint64_t full = p2p_word(p, l, p->lay.full, peer, a->rank);
    l->chunk += runs;
    if (direct && l->chunk != chunks) {
        return; /* the release of the last one is one for all */
    }
    parts_flag_release();
    if (l->phase == P2P_EAGER) {
        p2p_moved_eager(p, l);
        return;
    }
    if (direct) {
        p2p_post(p, full, peer, CCL_TAGGED(l->tag, CCL_STEP_DONE));
        p2p_over(p, l);
        return;
    }
    if (sends) {
        p2p_post(p, full, peer, CCL_TAGGED(l->tag, l->chunk));
    } else if (l->chunk - 1 + p->lay.slots < chunks) { /* credits nobody waits for are not sent (Q) */
        p2p_post(p, p2p_word(p, l, p->lay.credit, peer, a->rank), peer, CCL_TAGGED(l->tag, l->chunk));
    }
    if (l->chunk == chunks) {
        p2p_over(p, l);
    }
}

#endif
