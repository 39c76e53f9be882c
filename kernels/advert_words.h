/* SPDX-License-Identifier: MIT
 *
 * Adverts on a CPU (included by protocol.h): word by word, each one released. */

/* Lanes lane, lane + lanes, ... store `words` words of the advert at every peer. Each word carries the tag, so no order among them is needed.
 * The advert also says that this rank's user has left the receive buffer to the peers: each word is released (free on x86), which pairs with the
 * acquire in ccl_advert_wait. */
CCL_DEVICE void ccl_advert_send(CCL_ARGS a, uint32_t world, uint32_t n, uint32_t words, uint32_t lane, uint32_t lanes)
{
    (void)world;
    for (uint32_t i = lane; i < (a->n - 1) * words; i += lanes) {
        uint32_t d = 1 + i / words, w = i % words;
        uint64_t line = ccl_advert_addr(a, ccl_peer_ctl(a, ccl_rotate(a, d)), n, a->rank);
        ccl_store_release_system_u64(line + 8 * w, CCL_TAGGED(n, ccl_advert_value(a, w)));
    }
}

/* Wait for peer's advert n and compare it: the signature with mine, words 2 and 3 with first, 4 and 5 with second, or with `also` they go there; *where gets its words 6 and 7. Word 0 is
 * judged first: a peer that runs LL in n shows it by the tag of its LL line only. */
CCL_DEVICE uint32_t ccl_advert_wait_for(CCL_ARGS a, uint32_t world, uint32_t n, uint32_t peer, uint32_t words, uint64_t first, uint64_t second,
                                        uint64_t *also, uint64_t *where)
{
    (void)world;
    uint32_t bad = CCL_BAD_NONE;
    uint64_t line = ccl_advert_addr(a, ccl_peer_ctl(a, a->rank), n, peer);
    uint64_t w = ccl_wait_word(a, line, n, 0, peer, ccl_ll_addr(a, ccl_peer_ctl(a, a->rank), n, peer) + 56, &bad);
    if (bad) {
        return bad;
    }
    if (CCL_VALUE(w) != a->sig) {
        return CCL_VALUE(w) == CCL_SIG_REVOKED ? CCL_BAD_LEFT : CCL_BAD_MISMATCH;
    }
    uint64_t got = 0;
    for (uint32_t i = 2; i < words; i++) {
        w = ccl_wait_word(a, line + 8 * i, n, 0, peer, 0, &bad);
        if (bad) {
            return bad;
        }
        if (i < (also ? 4u : 6u) && CCL_VALUE(w) != (uint32_t)((i < 4 ? first : second) >> 32 * (i % 2))) {
            return CCL_BAD_MISMATCH;
        }
        got = got >> 32 | (uint64_t)CCL_VALUE(w) << 32;
        if (i == 5 && also) {
            *also = got;
        }
    }
    *where = got;
    return CCL_BAD_NONE;
}
