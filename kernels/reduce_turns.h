/* SPDX-License-Identifier: MIT
 *
 * Reductions on the CPU (included by reduce.hip): a block contributes, joins and drains chunk after chunk, each published by itself, so that what is read has just been written and is still in
 * the cache. One chunk ahead: contribution c + 1 leaves before c is joined (with more than one ring slot). Steps of `full`: contributions 1, 2, 4, 6, ..., results 3, 5, 7, ...; without the
 * look-ahead 1, 3, 5, ... and 2, 4, ... With DIRECT where the source stores results directly, DONE for its last result.
 * Slots: result c of an owner tells that it has read contribution c; a rank contributes c + 2 (K = 1: c + 1) only after it has drained the results of c, so
 * an owner that holds these may store the result over that of c. Who gets no result gets a credit instead. */

#define REDUCE_CREDITS REDUCE_SAYS_YES /* credits go on from there: reduce_agree may have used the word in this operation */

/* Chunks that contributions leave before the join. */
CCL_DEVICE uint32_t reduce_ahead(CCL_PARTS p) { return p->slots > 1; }
CCL_DEVICE uint32_t reduce_step_in(CCL_PARTS p, uint32_t c) { return reduce_ahead(p) ? (c == 0 ? 1 : 2 * c) : 2 * c + 1; }
CCL_DEVICE uint32_t reduce_step_out(CCL_PARTS p, uint32_t c) { return reduce_ahead(p) ? 2 * c + 3 : 2 * c + 2; }

/* Contribution c, when its slots are free. False: an error. */
CCL_DEVICE uint32_t reduce_turn_in(CCL_PARTS p, struct reduce_block *r, uint32_t c)
{
    CCL_ARGS a = &p->c;
    struct parts_block *b = &r->b;
    for (uint32_t d = 1; d < a->n && c >= p->slots && !parts_receives(p, a->rank); d++) {
        const uint32_t owner = ccl_rotate(a, d);
        uint32_t bad = CCL_BAD_NONE;
        ccl_wait_word(a, ccl_credit_addr(a, ccl_peer_ctl(a, a->rank), b->job.block, owner), b->job.n, REDUCE_CREDITS + c - p->slots + 1, owner, 0, &bad);
        if (bad) {
            push_set_bad(a, b->sh, bad, owner);
            return 0;
        }
    }
    reduce_contribute(p, r, c);
    for (uint32_t d = 1; d < a->n; d++) {
        reduce_post(p, r, d, reduce_step_in(p, c));
    }
    parts_notify(p);
    return 1;
}

/* Own piece of chunk c: hear from all, join, store the result, tell. False: an error. */
CCL_DEVICE uint32_t reduce_turn_own(CCL_PARTS p, struct reduce_block *r, uint32_t c)
{
    CCL_ARGS a = &p->c;
    struct parts_block *b = &r->b;
    const struct reduce_piece piece = reduce_piece_of(p, b, c, a->rank);
    const uint32_t last = c + 1 == b->job.chunks;
    reduce_hear(p, r, reduce_step_in(p, c));
    if (parts_failed(b)) {
        return 0;
    }
    reduce_places(p, r, c, piece);
    reduce_join_piece(p, r, piece, 0);
    for (uint32_t d = 1; d < a->n; d++) {
        const uint32_t peer = ccl_rotate(a, d);
        if (parts_receives(p, peer) && last && b->end[d].base != 0) {
            parts_post(p, b, peer, 0, CCL_STEP_DONE);
        } else if (parts_receives(p, peer)) {
            reduce_post(p, r, d, reduce_step_out(p, c));
        } else if (c + p->slots < b->job.chunks) { /* credits nobody waits for are not sent (Q) */
            parts_post(p, b, peer, 1, REDUCE_CREDITS + c + 1);
        }
    }
    parts_notify(p);
    *b->words_out = last;
    return 1;
}

/* Without rings: the own piece of each chunk, from where the inputs are. The pieces are those of rings, so the blocks of a rank may go different ways (a window may be mapped
 * while they run, and a CPU has no note of what the first one found). False: an error. */
CCL_DEVICE uint32_t reduce_at_once(CCL_PARTS p, struct reduce_block *r)
{
    CCL_ARGS a = &p->c;
    for (uint32_t c = 0; c < r->b.job.chunks; c++) {
        const struct reduce_piece piece = reduce_piece_of(p, &r->b, c, a->rank);
        if (ccl_told_to_stop(a)) { /* nothing is waited for here, and who has failed waits for this rank's end */
            push_set_bad(a, r->b.sh, CCL_BAD_STOP, a->rank);
            return 0;
        }
        if (piece.count != 0) {
            reduce_flat_places(p, r, piece);
            reduce_join_piece(p, r, piece, 0);
        }
    }
    for (uint32_t d = 1; d < a->n; d++) {
        parts_post(p, &r->b, ccl_rotate(a, d), 0, CCL_STEP_DONE);
    }
    parts_notify(p);
    *r->b.words_out = 1;
    reduce_hear(p, r, CCL_STEP_DONE); /* all have read this rank's input, and stored their results */
    return !parts_failed(&r->b);
}

CCL_DEVICE uint32_t reduce_run(CCL_PARTS p, struct reduce_block *r)
{
    const uint32_t chunks = r->b.job.chunks;
    uint32_t contributed = 0;
    if (REDUCE_MAY_BE_FLAT(p, r)) {
        if (!reduce_agree(p, r)) {
            return 0;
        }
        if (REDUCE_FLAT(r)) {
            return reduce_at_once(p, r);
        }
    }
    for (uint32_t c = 0; c < chunks; c++) {
        for (; contributed < chunks && contributed <= c + reduce_ahead(p); contributed++) {
            if (!reduce_turn_in(p, r, contributed)) {
                return 0;
            }
        }
        if (!reduce_turn_own(p, r, c)) {
            return 0;
        }
        if (parts_receives(p, p->c.rank)) {
            reduce_hear(p, r, reduce_step_out(p, c));
            if (parts_failed(&r->b)) {
                return 0;
            }
            reduce_drain(p, r, c);
        }
    }
    return 1;
}
