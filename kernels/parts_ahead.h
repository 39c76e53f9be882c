/* SPDX-License-Identifier: MIT
 *
 * parts_ll on a CPU for tiny operations of one root (included by parts_ll_lines.h): a rank waits only for those that have something for it, so who only sends
 * runs ahead, CCL_AHEAD_RUN operations at most. Everybody still stores a line to everybody, which says what it called. Those nobody waits for are compared
 * where all wait for all (CCL_PARTS_MEET), and before by whoever waits there for something else. The invariants of all other operations hold again behind
 * such a meeting, so their host enqueues one before them (docs/kernels.md, section 3). */

/* Keep what I call in my own line; returns the word for the others. The history is equal where all called the same since they last met. */
CCL_DEVICE uint64_t parts_ahead_note(CCL_PARTS p, uint32_t n)
{
    CCL_ARGS a = &p->c;
    const uint64_t me = ccl_peer_ctl(a, a->rank);
    const uint32_t last = (n - 1) & CCL_TAG_MASK;
    struct ccl_k_ahead_line *own = ccl_ahead_line(a, me, n, a->rank);
    const struct ccl_k_ahead_line *before = ccl_ahead_line(a, me, last, a->rank);
    const uint32_t goes_on = CCL_TAG(before->word) == last && !before->meets;
    own->meets = p->parts & CCL_PARTS_MEET;
    own->word1 = a->desc.word1;
    own->count = a->desc.count;
    own->first = goes_on ? before->first : n;
    own->history = (goes_on ? before->history * 0x9e3779b1u : 0) + a->sig;
    own->word = CCL_TAGGED(n, own->meets ? own->history : a->sig);
    return own->word;
}

/* What differs may be an operation some way back. */
CCL_DEVICE_SLOW void parts_ahead_fail(CCL_PARTS p, uint32_t n, uint32_t bad, uint32_t src)
{
    CCL_ARGS a = &p->c;
    const uint64_t me = ccl_peer_ctl(a, a->rank);
    const struct ccl_k_ahead_line *own = ccl_ahead_line(a, me, n, a->rank);
    struct ccl_called called = ccl_called_of(a);
    uint32_t at = n;
    if (bad == CCL_BAD_MISMATCH && own->meets) {
        for (uint32_t k = own->first; k != n; k = (k + 1) & CCL_TAG_MASK) {
            const struct ccl_k_ahead_line *mine = ccl_ahead_line(a, me, k, a->rank);
            if (ccl_load_acquire_system_u64((uint64_t)&ccl_ahead_line(a, me, k, src)->word) != mine->word) {
                called.word1 = mine->word1;
                called.count = mine->count;
                at = k;
                break;
            }
        }
    }
    ccl_raise(a, at, bad, src, called); /* peers store into scratch only, so there is nothing to drain; the words are out */
    ccl_revoke(a, n);
}

CCL_DEVICE void parts_ahead_run(CCL_PARTS p, uint32_t n)
{
    CCL_ARGS a = &p->c;
    const uint64_t me = ccl_peer_ctl(a, a->rank), word = parts_ahead_note(p, n);
    const uint32_t join = p->parts & CCL_PARTS_REDUCE, meets = p->parts & CCL_PARTS_MEET;
    CCL_TRACE_NOTE(a, n, CCL_TRACE_START);
    for (uint32_t d = 1; d < a->n; d++) {
        const uint32_t peer = ccl_rotate(a, d);
        struct ccl_k_ahead_line *line = ccl_ahead_line(a, ccl_peer_ctl(a, peer), n, a->rank);
        parts_ll_send(p, (uint64_t)line, CCL_AHEAD_HEAD, parts_pair(p, peer));
        line->word1 = a->desc.word1;
        line->count = a->desc.count;
        ccl_publish_system((uint64_t)&line->word, word); /* pairs with ccl_wait_word below */
    }
    ccl_notify_fence(a);
    for (uint32_t d = 1; d < a->n; d++) {
        ccl_notify(a, ccl_rotate(a, d));
    }
    parts_ll_own(p, (uint64_t)ccl_ahead_line(a, me, n, a->rank), CCL_AHEAD_HEAD);
    ccl_scrub(a, n, 0, 0, 0);
    CCL_TRACE_NOTE(a, n, CCL_TRACE_MET);
    CCL_TRACE_NOTE(a, n, CCL_TRACE_SENT);
    for (uint32_t d = 1; d < a->n; d++) {
        const uint32_t src = ccl_rotate(a, d);
        const uint64_t bytes = parts_pair(p, src)->recv_bytes;
        if (bytes == 0 && !meets) {
            continue;
        }
        const struct ccl_k_ahead_line *line = ccl_ahead_line(a, me, n, src);
        uint32_t bad = CCL_BAD_NONE;
        const uint64_t w = ccl_wait_word(a, (uint64_t)&line->word, n, 0, src, ccl_advert_addr(a, me, n, src), &bad);
        if (__builtin_expect(bad != 0 || w != word, 0)) {
            parts_ahead_fail(p, n, bad != 0 ? bad : CCL_BAD_MISMATCH, src);
            return;
        }
        if (!join && bytes != 0) {
            ll_get((uint64_t)line, CCL_AHEAD_HEAD, 0, a->dst + parts_pair(p, src)->recv_off, bytes);
        }
    }
    if (join && parts_pair(p, a->rank)->recv_bytes != 0) {
        parts_ll_join(p, (uint64_t)ccl_ahead_line(a, me, n, 0), sizeof(struct ccl_k_ahead_line), CCL_AHEAD_HEAD);
    }
    CCL_TRACE_NOTE(a, n, CCL_TRACE_END);
}
