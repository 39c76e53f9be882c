/* SPDX-License-Identifier: MIT
 *
 * The two kernels around the copies of the runtime (variant copy, no compute units in between). Rank i fetches: the copies of its stream read the
 * peers' send buffers and write its own receive buffer, nobody stores into memory of another user. copy_open draws the number, exchanges
 * adverts and compares; copy_close runs when the own copies are through, says DONE ("I have read yours") to every peer and leaves when it has heard it from all.
 * Bytes moved per rank: reads n S, writes n S, by the copy engines. Any alignment. Why it is safe whatever fails: docs/kernels.md, section 5. */
#include "fail.h"
#include "protocol.h"
#include "trace.h"

struct copy_shared {
    uint64_t op;
    uint32_t bad, peer; /* first error */
};

/* Called by the lane that saw it, which then stops waiting. Lanes that wait for a peer that may never come stop too; what they then report must
 * not hide the reason. */
#define COPY_SET_BAD(a, sh, why, whom)                                                      \
    do {                                                                                    \
        if (ccl_reports(why, (sh).bad)) {                                                   \
            (sh).peer = (whom);                                                             \
            (sh).bad = (why);                                                               \
        }                                                                                   \
        ccl_or_relaxed_agent_u64((uint64_t) & ((struct ccl_k_priv *)(a)->priv)->stop, 1);   \
    } while (0)

/* All threads. LEFT goes to every peer: who still reads this rank's send buffer must not take what it gets for data. */
CCL_DEVICE_SLOW void copy_fail(CCL_ARGS a, uint32_t n, uint32_t bad, uint32_t peer)
{
    const struct ccl_channels all = {1, a->n, 0, 0};
    if (ccl_tid() == 0) {
        ccl_fail(a, n, 0, bad, peer, all, 0, 0);
        /* LEFT comes before whatever the user does to the send buffer next; pairs with the acquire of the wait in copy_close. */
        ccl_fence_release_system();
    }
}

/* Where rank `peer` must have its input, given where mine is: the same place, or, when I gather in place, its own part of the same output. */
CCL_DEVICE uint64_t copy_expected(CCL_ARGS a, uint32_t peer)
{
    uint64_t step = a->src == a->dst + a->rank * a->dst_part ? a->dst_part : 0;
    return a->where + peer * step - a->rank * step;
}

/* ISA copy_*: vgpr 32, sgpr 100, lds 16, waves 8 */
CCL_KERNEL(copy_open, struct ccl_k_coll_args)
{
    CCL_SHARED struct copy_shared sh;
    const uint32_t t = ccl_tid();
    const uint64_t me = ccl_peer_ctl(a, a->rank);
    if (t == 0) {
        sh.op = ccl_enter(a);
        sh.bad = CCL_BAD_NONE;
    }
    ccl_block_sync();
    const uint32_t n = CCL_TAG(sh.op);
    if ((uint32_t)sh.op & CCL_OP_STOPPED) {
        return; /* a replay after an error: it has sent no advert and owes nothing */
    }
    CCL_TRACE_NOTE(a, n, CCL_TRACE_START);
    if (t < CCL_WARP) {
        /* The advert says that the input is complete. */
        ccl_fence_release_system();
        ccl_advert_send(a, 0, n, 8, t, CCL_WARP);
        ccl_notify_fence(a);
        if (t == 0) {
            ccl_store_release_system_u64(ccl_advert_addr(a, me, n, a->rank), CCL_TAGGED(n, a->sig));
            ccl_scrub(a, n, 0, 8, 1);
        }
        for (uint32_t d = 1 + t; d < a->n; d += CCL_WARP) {
            ccl_notify(a, ccl_rotate(a, d));
        }
        for (uint32_t d = 1 + t; d < a->n; d += CCL_WARP) {
            uint32_t peer = ccl_rotate(a, d);
            uint64_t where = 0;
            uint32_t bad = ccl_advert_wait(a, 0, n, peer, 8, &where);
            if (bad == CCL_BAD_NONE && where != copy_expected(a, peer)) {
                bad = CCL_BAD_PLACE;
            }
            if (bad) {
                COPY_SET_BAD(a, sh, bad, peer);
            }
            if (ccl_wave_any(bad)) {
                break;
            }
        }
    }
    ccl_block_sync();
    if (sh.bad) {
        copy_fail(a, n, sh.bad, sh.peer);
        return;
    }
    CCL_TRACE_NOTE(a, n, CCL_TRACE_MET);
}

/* Entered only behind the own copy_open and copies in stream order, so op still is one more than the operation (S). */
CCL_KERNEL(copy_close, struct ccl_k_coll_args)
{
    CCL_SHARED struct copy_shared sh;
    const uint32_t t = ccl_tid();
    const uint64_t me = ccl_peer_ctl(a, a->rank);
    if (t == 0) {
        sh.op = ccl_load_relaxed_agent_u64((uint64_t) & ((struct ccl_k_priv *)a->priv)->op);
        sh.bad = CCL_BAD_NONE;
    }
    ccl_block_sync();
    if ((uint32_t)sh.op & CCL_OP_STOPPED) {
        return; /* copy_open has failed, and has told everybody */
    }
    const uint32_t n = ((uint32_t)(sh.op >> 32) - 1) & CCL_TAG_MASK;
    CCL_TRACE_NOTE(a, n, CCL_TRACE_SENT);
    if (t < CCL_WARP) {
        for (uint32_t d = 1 + t; d < a->n; d += CCL_WARP) {
            ccl_store_release_system_u64(ccl_full_addr(a, ccl_peer_ctl(a, ccl_rotate(a, d)), 0, a->rank), CCL_TAGGED(n, CCL_STEP_DONE));
        }
        ccl_notify_fence(a);
        for (uint32_t d = 1 + t; d < a->n; d += CCL_WARP) {
            ccl_notify(a, ccl_rotate(a, d));
        }
        for (uint32_t d = 1 + t; d < a->n; d += CCL_WARP) {
            uint32_t src = ccl_rotate(a, d), bad = CCL_BAD_NONE;
            uint64_t w = ccl_wait_word(a, ccl_full_addr(a, me, 0, src), n, CCL_STEP_DONE, src, 0, &bad);
            bad = bad == CCL_BAD_NONE && CCL_VALUE(w) == CCL_STEP_LEFT ? (uint32_t)CCL_BAD_LEFT : bad;
            if (bad) {
                COPY_SET_BAD(a, sh, bad, src);
            }
            if (ccl_wave_any(bad)) {
                break;
            }
        }
    }
    ccl_block_sync();
    if (sh.bad) {
        copy_fail(a, n, sh.bad, sh.peer);
        return;
    }
    uint32_t turn;
    if (t == 0 && ccl_scrub_turn(n, &turn)) {
        /* Words of row 0 that this operation did not use. */
        ccl_store_relaxed_system_u64(ccl_credit_addr(a, me, 0, turn % a->n), CCL_TAGGED(n, 0));
        ccl_store_relaxed_system_u64(ccl_full_addr(a, me, 0, a->rank), CCL_TAGGED(n, 0));
    }
    CCL_TRACE_NOTE(a, n, CCL_TRACE_END);
}
