/* SPDX-License-Identifier: MIT
 *
 * Reductions without rings (included by reduce.hip): all inputs are in windows, and so are the outputs of all that get results of others. An owner reads its shard of
 * every input where it is, joins it in the order of ranks and stores the result where it belongs; one handshake before, one after, none between.
 * In place works: a shard of any input is read by its owner only, and what is stored over it by that owner is its own result, in each thread behind the loads it needs. */

#define REDUCE_SAYS_NO 1u
#define REDUCE_SAYS_YES 2u

#define REDUCE_FLAT(r) ccl_uniform((r)->b.sh->drain)
/* Known from the adverts, so to all ranks alike. A window may not be mapped here yet; reduce_agree finds out. */
#define REDUCE_MAY_BE_FLAT(p, r) ((p)->from_where != 0 && ((p)->c.where != 0 || !parts_receives((p), (p)->c.rank)) && !ccl_uniform((r)->b.sh->late))

/* Every rank tells all whether it has mapped what it would read and store to; flat if all have. The word is that of credits, which rings of a GPU's reductions do not use, and those of a CPU's from REDUCE_CREDITS on: `full`
 * stays silent, so a failing rank waits for DONE or LEFT of a peer that may read and store here. False: an error. */
CCL_DEVICE uint32_t reduce_agree(CCL_PARTS p, struct reduce_block *r)
{
    CCL_AFRESH(p);
    CCL_ARGS a = &p->c;
    struct parts_block *b = &r->b;
    uint32_t all = !ccl_uniform(b->sh->odd);
    if (ccl_afresh(ccl_tid()) < CCL_WARP) {
        for (uint32_t d = 1 + ccl_tid(); d < a->n; d += CCL_WARP) {
            parts_post(p, b, ccl_rotate(a, d), 1, all ? REDUCE_SAYS_YES : REDUCE_SAYS_NO);
        }
        parts_notify(p);
        for (uint32_t d = 1 + ccl_tid(); d < a->n; d += CCL_WARP) {
            const uint32_t peer = ccl_rotate(a, d);
            uint32_t bad = CCL_BAD_NONE;
            b->end[d].at = CCL_VALUE(ccl_wait_word(a, ccl_credit_addr(a, ccl_peer_ctl(a, a->rank), b->job.block, peer), b->job.n, REDUCE_SAYS_NO, peer, 0, &bad));
            if (bad) {
                push_set_bad(a, b->sh, bad, peer);
            }
            if (ccl_wave_any(bad)) {
                break;
            }
        }
    }
    ccl_block_sync();
    if (parts_failed(b)) {
        return 0;
    }
    CCL_NO_UNROLL
    for (uint32_t d = 1; d < a->n; d++) {
        all &= ccl_uniform(b->end[d].at) == REDUCE_SAYS_YES;
    }
    if (ccl_tid() == 0) {
        b->sh->drain = all;
    }
    ccl_block_sync(); /* and all threads have read what the next wait writes */
    return 1;
}

/* The elements this rank owns. */
CCL_DEVICE struct reduce_piece reduce_shard(CCL_PARTS p)
{
    const uint32_t scatter = p->parts & CCL_PARTS_SCATTER;
    struct reduce_piece s;
    s.start = p->c.rank * p->shard;
    s.out = scatter ? 0 : s.start;
    s.count = scatter ? p->shard : s.start >= p->count ? 0 : p->count - s.start < p->shard ? p->count - s.start : p->shard;
    return s;
}

/* First thread: the own shard of all inputs, by rank, and its destinations, the own output first, then the peers' in rotated order. */
CCL_DEVICE void reduce_flat_places(CCL_PARTS p, struct reduce_block *r, struct reduce_piece shard)
{
    CCL_ARGS a = &p->c;
    const uint64_t start = shard.start * p->esize, out = shard.out * p->esize;
    uint32_t num = 0;
    r->in[a->rank] = a->src + start;
    if (parts_receives(p, a->rank) || (p->parts & CCL_PARTS_SCATTER)) {
        r->to[num++] = a->dst + out;
    }
    CCL_NO_UNROLL
    for (uint32_t d = 1; d < a->n; d++) {
        const uint32_t peer = ccl_rotate(a, d);
        r->in[peer] = r->from[d] + start;
        if (parts_receives(p, peer)) {
            r->to[num++] = r->b.end[d].base + out;
        }
    }
    *r->num_to = num;
}
