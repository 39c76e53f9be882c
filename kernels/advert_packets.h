/* SPDX-License-Identifier: MIT
 *
 * Adverts on a GPU (included by protocol.h): two words travel in one 16-byte access, each half with its tag, and a waiting lane has the whole
 * line in flight at once, so an advert costs one round trip however many words it has. */

/* Lanes lane, lane + lanes, ... store `words` words, an even number, of the advert at every peer. The start of the kernel has ordered what the
 * user wrote before, and what the last kernel read. */
CCL_DEVICE void ccl_advert_send(CCL_ARGS a, uint32_t world, uint32_t n, uint32_t words, uint32_t lane, uint32_t lanes)
{
    const uint32_t pairs = words / 2, all = (ccl_ranks(a, world) - 1) * pairs;
    for (uint32_t i = lane; i < all; i += lanes) {
        const uint32_t d = 1 + i / pairs, w = i % pairs;
        const uint64_t line = ccl_advert_addr(a, ccl_ctl_in(a, world, ccl_rotate_in(a, world, d)), n, a->rank);
        const uint64_t bytes_or_where = w == 3 ? a->where : a->part_bytes;
        ccl_store_packet_system(line + 16 * w, w == 0 ? a->sig : (uint32_t)bytes_or_where, n,
                                w == 0 ? a->desc.word1 : (uint32_t)(bytes_or_where >> 32), n);
        if (world != 0 && world <= 8) {
            break; /* a lane has one packet at most */
        }
    }
}

#define CCL_ADVERT_ABSENT 0xffffffffu

/* One look at peer's advert n: ABSENT, or what ccl_advert_wait_for returns. Word 0 is judged first: an LL advert has no words 2 to 7. The acquire load of word 0
 * comes last, so what it acquires covers all of it. */
CCL_DEVICE uint32_t ccl_advert_look(CCL_ARGS a, uint64_t line, uint32_t n, uint32_t words, uint64_t first, uint64_t second,
                                    uint64_t *also, uint64_t *where)
{
    ccl_vec16 q[3];
    uint32_t all = 1;
#pragma unroll
    for (uint32_t i = 0; i < 3; i++) {
        if (words == 8) {
            q[i] = ccl_load_packet_system(line + 16 + 16 * i);
            all &= CCL_LANE(q[i], 1) == n && CCL_LANE(q[i], 3) == n;
        }
    }
    const uint64_t w = ccl_load_acquire_system_u64(line);
    if (CCL_TAG(w) == n && CCL_VALUE(w) != a->sig) {
        return CCL_VALUE(w) == CCL_SIG_REVOKED ? CCL_BAD_LEFT : CCL_BAD_MISMATCH;
    }
    if (CCL_TAG(w) != n || words != 8) {
        return CCL_TAG(w) == n ? (uint32_t)CCL_BAD_NONE : CCL_ADVERT_ABSENT;
    }
    if (!all) {
        return CCL_ADVERT_ABSENT;
    }
    *where = (uint64_t)CCL_LANE(q[2], 2) << 32 | CCL_LANE(q[2], 0);
    if (also) {
        *also = second = (uint64_t)CCL_LANE(q[1], 2) << 32 | CCL_LANE(q[1], 0);
    }
    const uint32_t same = CCL_LANE(q[0], 0) == (uint32_t)first && CCL_LANE(q[0], 2) == (uint32_t)(first >> 32) &&
                          CCL_LANE(q[1], 0) == (uint32_t)second && CCL_LANE(q[1], 2) == (uint32_t)(second >> 32);
    return same ? CCL_BAD_NONE : CCL_BAD_MISMATCH;
}

/* Wait for peer's advert n and compare it: the signature with mine, words 2 and 3 with first, 4 and 5 with second, or with `also` they go there; *where gets
 * its words 6 and 7. Lanes of a wave leave together, those whose peers have not come with CCL_BAD_STOP when another one has seen an error. */
CCL_DEVICE uint32_t ccl_advert_wait_for(CCL_ARGS a, uint32_t world, uint32_t n, uint32_t peer, uint32_t words, uint64_t first, uint64_t second,
                                        uint64_t *also, uint64_t *where)
{
    const uint64_t line = ccl_advert_addr(a, ccl_ctl_in(a, world, a->rank), n, peer);
    uint32_t found = CCL_ADVERT_ABSENT, bad = CCL_BAD_NONE;
    for (uint32_t polls = 1; ccl_wave_any(found == CCL_ADVERT_ABSENT); polls++) {
        if (found == CCL_ADVERT_ABSENT) {
            found = ccl_advert_look(a, line, n, words, first, second, also, where);
        }
        if (found == CCL_ADVERT_ABSENT) {
            /* The second look of ccl_slow_poll is the next one of this loop, at all words: a peer that died may have stored only some of them. */
            found = bad != CCL_BAD_NONE ? bad : found;
            ccl_pause();
            bad = (polls & 63) == 0 ? ccl_slow_poll(a, line, n, CCL_SIG_REVOKED, peer, polls) : (uint32_t)CCL_BAD_NONE;
        }
        if (ccl_wave_any(found != CCL_ADVERT_ABSENT && found != CCL_BAD_NONE)) {
            break;
        }
    }
    return found == CCL_ADVERT_ABSENT ? (uint32_t)CCL_BAD_STOP : found;
}
