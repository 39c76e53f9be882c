/* SPDX-License-Identifier: MIT
 *
 * Reductions on a GPU (included by reduce.hip). Flat, where that is possible (reduce_flat.h); else by rings, in steps that all ranks make alike. With K slots and L <= K / 2, step s of a block
 *     waits until all peers have published step s - L
 *     stores its contributions to chunk s, joins its piece of chunk s - L and stores the result, copies the results of chunk s - 2 L out of its rings
 *     publishes s + 1, once for all of it
 * What step s uses was published in step s - L or before: contributions to chunk s - L; results of chunk s - 2 L (joined in step s - L); the slot of contribution s (s - K was joined in step
 * s - K + L <= s - L); the slot of result s - L (s - L - K was drained in step s - L - K + 2 L <= s - L). So there is one wait and one release a step, and stores that are on their way across a link
 * are released behind the join and the copies, not ahead of them.
 * Words that nobody waits for are not sent (Q): step s goes to who has a step s + L. A rank that gets no results has none behind its last join. */

#define REDUCE_FEW_CHUNKS 4u

/* L: the same at all ranks, whose blocks of one index have equally many chunks. With few of them a step more costs more than a wait. */
CCL_DEVICE uint32_t reduce_lag(CCL_PARTS p, const struct reduce_block *r) { return ccl_uniform(r->b.job.chunks) > REDUCE_FEW_CHUNKS ? p->slots / 2 : 1; }

/* Steps of a rank. */
CCL_DEVICE uint32_t reduce_steps(CCL_PARTS p, const struct reduce_block *r, uint32_t rank)
{
    return ccl_uniform(r->b.job.chunks) + (parts_receives(p, rank) ? 2 : 1) * reduce_lag(p, r);
}

/* First warp, behind a release: step s to all that wait for it. Who stores results directly ends with DONE; flat: all do, and all are told. */
CCL_DEVICE void reduce_tell(CCL_PARTS p, const struct reduce_block *r, uint32_t s, uint32_t flat)
{
    CCL_ARGS a = &p->c;
    const uint32_t lag = reduce_lag(p, r), out = p->parts & CCL_PARTS_SCATTER ? lag : 2 * lag;
    parts_flag_release();
    for (uint32_t d = 1 + ccl_tid(); d < a->n; d += CCL_WARP) {
        const uint32_t peer = ccl_rotate(a, d), steps = reduce_steps(p, r, peer);
        if (flat || (s + lag + 1 == steps && r->b.end[d].base != 0 && parts_receives(p, peer))) {
            parts_post(p, &r->b, peer, 0, CCL_STEP_DONE);
        } else if (s + lag < steps) {
            reduce_post(p, r, d, s + 1);
        }
    }
    parts_notify(p);
    if (ccl_afresh(ccl_tid()) == 0 && (flat || s + 1 + lag == ccl_uniform(r->b.job.chunks) + out)) {
        *r->b.words_out = 1;
    }
}

/* Flat: the one step there is, the own share of the own shard. What it is made of is looked up again behind each part: kept in scalar registers across the join it spilled. False: an error. */
CCL_DEVICE uint32_t reduce_step(CCL_PARTS p, struct reduce_block *r, uint32_t s)
{
    CCL_AFRESH(p);
    CCL_ARGS a = &p->c;
    struct parts_block *b = &r->b;
    const uint32_t flat = REDUCE_FLAT(r), chunks = flat ? 0 : ccl_uniform(b->job.chunks), lag = reduce_lag(p, r), joins = flat || (s >= lag && s - lag < chunks);
    if (ccl_afresh(ccl_tid()) < CCL_WARP) {
        if (s >= lag) {
            reduce_hear(p, r, s - lag + 1);
        }
        if (ccl_afresh(ccl_tid()) == 0 && joins) {
            if (flat) {
                reduce_flat_places(p, r, reduce_shard(p));
            } else {
                reduce_places(p, r, s - lag, reduce_piece_of(p, b, s - lag, a->rank));
            }
        }
    }
    ccl_block_sync();
    if (parts_failed(b)) {
        return 0;
    }
    if (s < chunks) {
        reduce_contribute(p, r, s);
    }
    CCL_AFRESH(p);
    if (joins) {
        reduce_join_piece(p, r, REDUCE_FLAT(r) ? reduce_shard(p) : reduce_piece_of(p, b, s - reduce_lag(p, r), p->c.rank), REDUCE_FLAT(r));
    }
    CCL_AFRESH(p);
    if (s >= 2 * reduce_lag(p, r) && parts_receives(p, p->c.rank)) {
        reduce_drain(p, r, s - 2 * reduce_lag(p, r));
    }
    ccl_block_release_system(); /* behind all loads of slots, too; and all threads have read what the next wait writes */
    CCL_AFRESH(p);
    if (ccl_afresh(ccl_tid()) < CCL_WARP) {
        reduce_tell(p, r, s, REDUCE_FLAT(r));
    }
    return 1;
}

CCL_DEVICE uint32_t reduce_run(CCL_PARTS p, struct reduce_block *r)
{
    if (REDUCE_MAY_BE_FLAT(p, r) && !reduce_agree(p, r)) {
        return 0;
    }
    const uint32_t chunks = ccl_uniform(r->b.job.chunks), steps = REDUCE_FLAT(r) ? 1 : chunks != 0 ? reduce_steps(p, r, p->c.rank) : 0;
    CCL_NO_UNROLL
    for (uint32_t s = 0; s < steps; s++) {
        if (!reduce_step(p, r, s)) {
            return 0;
        }
    }
    CCL_AFRESH(p);
    if (REDUCE_FLAT(r)) { /* all have read this rank's input, and stored their results */
        if (ccl_afresh(ccl_tid()) < CCL_WARP) {
            reduce_hear(p, r, CCL_STEP_DONE);
        }
        ccl_block_sync();
    }
    return !parts_failed(&r->b);
}
