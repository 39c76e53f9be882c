/* SPDX-License-Identifier: MIT
 *
 * Direct stores of parts.hip on AMD, as push_direct_tiles.h (which says why it has this form): up to PARTS_SIDE destinations side by side, how many
 * compiled in, bases in scalar registers, no condition in a step, the loads of the next step ahead of the stores of this one. Each destination has its own
 * source (all-to-all, scatter), or all have the same (broadcast). */

#define PARTS_SIDE 8u

/* Where a block stands in its pieces of whole vectors. All uniform. */
struct parts_walk {
    uint64_t off, step, body; /* of the piece; to the next one; bytes of all vectors */
    uint32_t piece, threads;
    uint32_t at, vectors; /* vectors in front of this step; in the piece */
    uint32_t left;        /* pieces behind this one */
};

CCL_DEVICE void parts_look(struct parts_walk *w)
{
    const uint64_t left = w->body - w->off;
    w->vectors = (uint32_t)(left < w->piece ? left : w->piece) / 16;
    w->at = 0;
}

CCL_DEVICE uint32_t parts_next(struct parts_walk *w)
{
    w->at += w->threads;
    if (w->at < w->vectors) {
        return 1;
    }
    if (w->left == 0) {
        return 0;
    }
    w->left--;
    w->off += w->step;
    parts_look(w);
    return 1;
}

/* Bytes in front of this thread's vector of a step. Threads that find none repeat the last one: the same bytes to the same place. */
CCL_DEVICE uint64_t parts_place(const struct parts_walk *w)
{
    const uint32_t mine = w->at + ccl_tid(), i = mine < w->vectors ? mine : w->vectors - 1;
    return w->off + i * 16ull;
}

#define PARTS_LOAD(v, place)                                                        \
    _Pragma("unroll") for (uint32_t i = 0; i < (same ? 1 : side); i++) {            \
        v[i] = ccl_load_stream_vec16(from[i] + (place));                            \
    }
/* CCL_TEST_BASES_INSIDE, which the gates must refuse: where a peer's window lies is looked up in the table of windows ahead of each store. */
#if defined(CCL_TEST_BASES_INSIDE)
#define PARTS_TABLE const uint64_t table = CCL_PTR(const struct ccl_k_comm, a->comm)->win;
#define PARTS_TO(i) (to[i] - a->peer[ccl_rotate(a, d + i)].win + parts_look_up(table, ccl_rotate(a, d + i), a->expect_id))
CCL_DEVICE uint64_t parts_look_up(uint64_t table, uint32_t peer, uint32_t id)
{
    return *CCL_PTR(const volatile uint64_t, table + ((uint64_t)peer * CCL_WINDOWS + id) * 8);
}
#else
#define PARTS_TABLE
#define PARTS_TO(i) to[i]
#endif
#define PARTS_STORE(v, place)                                                       \
    _Pragma("unroll") for (uint32_t i = 0; i < side; i++) {                         \
        ccl_store_stream_vec16(PARTS_TO(i) + (place), v[same ? 0 : i]);             \
    }

/* The vectors for the rotations d..d+side-1; side and same are constants. */
CCL_DEVICE void parts_tiles(CCL_PARTS p, const uint32_t side, const uint32_t same, const struct parts_block *b, uint32_t d, struct parts_walk w)
{
    CCL_ARGS a = &p->c;
    uint64_t from[PARTS_SIDE], to[PARTS_SIDE];
    ccl_vec16 v[PARTS_SIDE], next[PARTS_SIDE];
    PARTS_TABLE
#pragma unroll
    for (uint32_t i = 0; i < side; i++) {
        from[i] = a->src + parts_pair(p, ccl_rotate(a, d + i))->send_off;
        to[i] = ccl_uniform_u64(b->end[d + i].base);
    }
    uint64_t here = parts_place(&w);
    PARTS_LOAD(v, here)
    ccl_wait_loads();
    while (parts_next(&w)) {
        const uint64_t there = parts_place(&w);
        PARTS_LOAD(next, there)
        ccl_sched_fence();
        PARTS_STORE(v, here)
        ccl_sched_fence();
#pragma unroll
        for (uint32_t i = 0; i < (same ? 1 : side); i++) {
            v[i] = next[i];
        }
        here = there;
    }
    PARTS_STORE(v, here)
}

#define PARTS_CASE(side)                            \
    case side:                                      \
        if (same) {                                 \
            parts_tiles(p, side, 1, b, d, w);       \
        } else {                                    \
            parts_tiles(p, side, 0, b, d, w);       \
        }                                           \
        break;

/* All of the chunks for the rotations d..last-1, which get equally much. */
CCL_DEVICE void parts_run_of(CCL_PARTS p, const struct parts_block *b, uint32_t d, uint32_t last)
{
    CCL_ARGS a = &p->c;
    const uint32_t same = p->parts & CCL_PARTS_SAME, chunks = ccl_uniform(b->end[d].out);
    const uint64_t bytes = parts_pair(p, ccl_rotate(a, d))->send_bytes, end = parts_off(p, b, chunks - 1);
    struct parts_walk w = {parts_off(p, b, 0), b->job.stride * a->piece_bytes, bytes & ~15ull, (uint32_t)a->piece_bytes, ccl_uniform(ccl_threads()), 0, 0, chunks - 1};
    if (end < w.body || w.left-- != 0) { /* the last piece may have no vector */
        parts_look(&w);
        switch (last - d) {
            PARTS_CASE(1)
            PARTS_CASE(2)
            PARTS_CASE(3)
            PARTS_CASE(4)
            PARTS_CASE(5)
            PARTS_CASE(6)
            PARTS_CASE(7)
            PARTS_CASE(8)
        }
    }
    CCL_AFRESH(p);
    if (bytes != (bytes & ~15ull) && end + a->piece_bytes >= bytes) {
        const uint64_t body = bytes & ~15ull;
#pragma unroll 1
        for (; d < last; d++) {
            ccl_move_tail(ccl_uniform_u64(b->end[d].base) + body, 0, a->src + parts_pair(p, ccl_rotate(a, d))->send_off + body, 0, 1, 0, (uint32_t)bytes & 15);
        }
    }
}

/* Destination by destination, piece by piece: some address is no multiple of 16. */
CCL_DEVICE void parts_odd(CCL_PARTS p, const struct parts_block *b, uint32_t d)
{
    CCL_ARGS a = &p->c;
    CCL_CONST const struct ccl_k_pair *pair = parts_pair(p, ccl_rotate(a, d));
    const uint32_t chunks = ccl_uniform(b->end[d].out);
#pragma unroll 1
    for (uint32_t c = 0; c < chunks; c++) {
        const uint64_t off = parts_off(p, b, c), left = pair->send_bytes - off;
        ccl_move_run(ccl_uniform_u64(b->end[d].base) + off, a->src + pair->send_off + off, left < a->piece_bytes ? left : a->piece_bytes, 0);
    }
}

/* May the rank d rotations on be served by tiles? */
CCL_DEVICE uint32_t parts_is_flat(CCL_PARTS p, const struct parts_block *b, uint32_t d)
{
    CCL_ARGS a = &p->c;
    const uint32_t bits = (uint32_t)(a->src + parts_pair(p, ccl_rotate(a, d))->send_off) | (uint32_t)b->end[d].base;
    return ccl_uniform(b->end[d].base != 0 && b->end[d].out != 0 && (bits & 15) == 0);
}

/* Everything that is stored directly for the rotations from `first` on, in runs of neighbours that get equally much. */
CCL_DEVICE void parts_store_direct(CCL_PARTS p, const struct parts_block *b, uint32_t first)
{
    CCL_ARGS a = &p->c;
    uint32_t d = ccl_uniform(first);
    while (d < a->n) {
        CCL_AFRESH(p);
        uint32_t last = d;
        const uint64_t bytes = parts_pair(p, ccl_rotate(a, d))->send_bytes;
        while (last < a->n && last - d < PARTS_SIDE && parts_is_flat(p, b, last) && parts_pair(p, ccl_rotate(a, last))->send_bytes == bytes) {
            last++;
        }
        if (last != d) {
            parts_run_of(p, b, d, last);
            d = last;
            continue;
        }
        if (ccl_uniform(b->end[d].base != 0 && b->end[d].out != 0)) {
            parts_odd(p, b, d);
        }
        d++;
    }
}
