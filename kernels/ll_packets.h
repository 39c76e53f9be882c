/* SPDX-License-Identifier: MIT
 *
 * What the LL kernels of a GPU share (ll_packet_body.h, parts_ll_packets.h). Packets of 8 bytes {data:32, n:32} validate themselves: no fence, no
 * handshake. Two packets travel in one 16-byte access. The block's last warp sends and awaits the adverts (exit rule E) and scrubs beside the data, so
 * that nothing follows the data. */
#ifndef CCL_LL_PACKETS_H
#define CCL_LL_PACKETS_H

#include "fail.h"
#include "protocol.h"
#include "trace.h"

struct ll_shared {
    uint64_t entry;
    uint32_t bad, peer; /* seen by the last warp */
};

/* Packet pairs of a part. */
CCL_DEVICE uint32_t ll_pairs(CCL_ARGS a) { return (uint32_t)((a->part_bytes + 7) / 8); }

/* Which half of a pair has not come: a peer that died may have stored only the other one. */
CCL_DEVICE uint32_t ll_late(ccl_vec16 q, uint32_t n) { return CCL_LANE(q, 1) == n ? 8 : 0; }

/* The packet of src at addr has not come: why to stop waiting, if at all. The first warp looks at the host page often, the others seldom, since the
 * helper and the first warp may be through. */
CCL_DEVICE_SLOW uint32_t ll_look(CCL_ARGS a, uint32_t n, uint64_t addr, uint32_t src, uint32_t polls)
{
    const uint32_t page = ccl_tid() < CCL_WARP || (polls & ((1u << 18) - 1)) == 0;
    return ccl_slow_poll(a, addr, n, 0, src, page ? polls : 1);
}

CCL_DEVICE_SLOW void ll_fail(CCL_ARGS a, uint32_t n, uint32_t bad, uint32_t peer)
{
    const struct ccl_channels none = {0, 0, 0, 0};
    ccl_fail(a, n, 0, bad, peer, none, 0, 1);
}

/* What a thread has to report, at the end of the kernel where CCL_ONE_EXIT says so. */
struct ll_report {
    uint32_t bad, peer;
};

CCL_DEVICE void ll_tell(CCL_ARGS a, uint32_t n, uint32_t bad, uint32_t peer, struct ll_report *r)
{
#if CCL_ONE_EXIT
    (void)n;
    /* Now: this lane's wave gets to the end only when its other lanes, which may wait for other peers, do. */
    ccl_or_relaxed_agent_u64((uint64_t) & ((struct ccl_k_priv *)a->priv)->stop, 1);
    r->bad = bad;
    r->peer = peer;
#else
    (void)r;
    ll_fail(a, n, bad, peer);
#endif
}

/* One lane of a wave speaks for all: ccl_raise waits for whoever came first, and lanes of a wave cannot wait for each other. */
CCL_DEVICE void ll_exit(CCL_ARGS a, uint32_t n, const struct ll_report *r)
{
    if (CCL_ONE_EXIT && r->bad != CCL_BAD_NONE && ccl_tid() == ccl_uniform(ccl_tid())) {
        CCL_AFRESH(a);
        ll_fail(a, n, r->bad, r->peer);
    }
}

/* True: stop waiting. What another thread has reported is not reported again. */
CCL_DEVICE uint32_t ll_slow(CCL_ARGS a, uint32_t n, uint64_t addr, uint32_t src, uint32_t *polls, struct ll_report *r)
{
    uint32_t bad = CCL_BAD_NONE;
    if ((++*polls & 63) == 0) {
        bad = ll_look(a, n, addr, src, *polls);
        if (bad > CCL_BAD_STOP) {
            ll_tell(a, n, bad, src, r);
        }
    }
    return ccl_afresh(bad); /* not known to the compiler, which would move what an error does behind the loop of all lanes */
}

CCL_DEVICE void ll_note(CCL_ARGS a, uint32_t n, enum ccl_trace_point point)
{
    CCL_TRACE_NOTE_FIRST(a, n, point);
}

/* All threads. Each waits for what it has to store, the first one perhaps for nothing: the block is at its end when all are. */
CCL_DEVICE void ll_note_end(CCL_ARGS a, uint32_t n, const struct ll_shared *sh)
{
#if defined(CCL_TRACED)
    ccl_block_sync();
    if (!((uint32_t)sh->entry & CCL_OP_STOPPED)) {
        ll_note(a, n, CCL_TRACE_END);
    }
#else
    (void)a, (void)n, (void)sh;
#endif
}

/* ---- adverts ---- */

/* The last warp of the first block in: adverts out, scrub, adverts in. Words 0 and 1 only: parts are equal and nobody stores into user memory.
 * ll_bytes: in use of the LL lines of each source. One lane raises the error for all: on AMD lanes of a wave cannot wait for each other. */
CCL_DEVICE void ll_helper(CCL_ARGS a, uint32_t world, uint32_t n, uint32_t ll_bytes, uint32_t lane, struct ll_shared *sh, struct ll_report *r)
{
    ccl_advert_send(a, world, n, 2, lane, CCL_WARP);
    if (lane == 0) {
        ccl_scrub(a, n, ll_bytes, 2, 0);
    }
    for (uint32_t d = 1 + lane; d < ccl_ranks(a, world); d += CCL_WARP) {
        uint64_t where;
        uint32_t peer = ccl_rotate_in(a, world, d), bad = ccl_advert_wait(a, world, n, peer, 2, &where);
        if (bad) {
            if (ccl_reports(bad, sh->bad)) {
                sh->peer = peer;
                sh->bad = bad;
            }
            ccl_or_relaxed_agent_u64((uint64_t) & ((struct ccl_k_priv *)a->priv)->stop, 1); /* ends the waits of all others */
        }
        if (ccl_wave_any(bad)) {
            break;
        }
    }
    ccl_warp_sync();
    if (lane == 0 && sh->bad != CCL_BAD_NONE) {
        ll_tell(a, n, sh->bad, sh->peer, r);
    }
}

#endif
