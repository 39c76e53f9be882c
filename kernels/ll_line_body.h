/* SPDX-License-Identifier: MIT
 *
 * LL on a CPU (included by ll.hip). The unit of coherence is the cache line, so the packet is one: the first 56 bytes of a part and the
 * word {n, signature} in its last 8, stored last with release; longer parts put the rest behind the line, which the same word
 * publishes. The word is the advert of the operation: it carries what the receiver compares, and all-gather hears from everyone, so the
 * exit rule (E) holds by the data. A peer that does not run LL in this operation shows it by its advert line, which every wait looks at. */

#include "ll_line.h"

CCL_DEVICE void ccl_ll_body(CCL_ARGS a, uint32_t world)
{
    const uint32_t n_ranks = world ? world : a->n;
    const uint64_t me = ccl_peer_ctl(a, a->rank), own = a->dst + a->rank * a->dst_part;
    const int flat_src = (a->flags & CCL_F_FLAT_SRC) != 0, flat_dst = (a->flags & CCL_F_FLAT_DST) != 0;
    const uint64_t entry = ccl_enter(a);
    const uint32_t n = CCL_TAG(entry);
    const struct ccl_channels none = {0, 0, 0, 0};
    if (__builtin_expect((uint32_t)entry & CCL_OP_STOPPED, 0)) {
        return; /* a replay after an error: no packet leaves, peers have seen abort */
    }
    CCL_TRACE_NOTE(a, n, CCL_TRACE_START);
    /* Block 0 sends everything, so that a block waits only for what a block of lower or equal index has sent; all share the receiving. */
    for (uint32_t d = 1; d < n_ranks && ccl_bid() == 0; d++) {
        uint64_t line = ccl_ll_addr(a, ccl_peer_ctl(a, ccl_rotate(a, d)), n, a->rank);
        if (flat_src) {
            ll_put(line, LL_HEAD, 0, a->src, a->part_bytes);
        } else {
            for (uint64_t r = 0; r < a->rows; r++) {
                ll_put(line, LL_HEAD, r * a->row_bytes, a->src + r * a->ld_src, a->row_bytes);
            }
        }
        ccl_publish_system(line + LL_HEAD, CCL_TAGGED(n, a->sig)); /* pairs with ccl_wait_word below */
    }
    if (ccl_bid() == 0) {
        ccl_notify_fence(a);
        for (uint32_t d = 1; d < n_ranks; d++) {
            ccl_notify(a, ccl_rotate(a, d));
        }
        if (own != a->src) {
            ccl_move_rows(own, a->ld_dst, a->src, a->ld_src, a->rows, a->row_bytes, 0);
        }
        ccl_scrub(a, n, CCL_LL_SRC_BYTES, 0, 0);
    }
    CCL_TRACE_NOTE(a, n, CCL_TRACE_MET);
    CCL_TRACE_NOTE(a, n, CCL_TRACE_SENT);
    for (uint32_t d = 1 + ccl_bid(); d < n_ranks; d += ccl_grid()) {
        uint32_t src = ccl_rotate(a, d), bad = CCL_BAD_NONE;
        uint64_t line = ccl_ll_addr(a, me, n, src), dst = a->dst + src * a->dst_part;
        uint64_t w = ccl_wait_word(a, line + LL_HEAD, n, 0, src, ccl_advert_addr(a, me, n, src), &bad);
        if (__builtin_expect(bad != 0 || CCL_VALUE(w) != a->sig, 0)) {
            /* Peers store into scratch only, so there is nothing to drain; the words are out. */
            ccl_fail(a, n, 0, bad != 0 ? bad : CCL_BAD_MISMATCH, src, none, 0, 1);
            return;
        }
        if (flat_dst) {
            ll_get(line, LL_HEAD, 0, dst, a->part_bytes);
        } else {
            for (uint64_t r = 0; r < a->rows; r++) {
                ll_get(line, LL_HEAD, r * a->row_bytes, dst + r * a->ld_dst, a->row_bytes);
            }
        }
    }
    CCL_TRACE_NOTE(a, n, CCL_TRACE_END);
}
