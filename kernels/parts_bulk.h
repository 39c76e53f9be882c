/* SPDX-License-Identifier: MIT
 *
 * Tiles of parts.hip by bulk copies through shared memory (included by parts_direct_moves.h; sm_90 on): one thread keeps loads and stores on their way, the others wait for it. */

#include "bulk_copies.h"

/* All direct ends of the launch are aligned to vectors, also those that this block has no piece of, and it has the shared memory. The same in all threads and blocks: tiles
 * that go through registers are larger, so blocks that chose otherwise would leave gaps. */
CCL_DEVICE uint32_t parts_takes_bulk(CCL_PARTS p, const struct parts_block *b, uint32_t first, uint32_t last)
{
    CCL_ARGS a = &p->c;
    uint64_t bits = 0;
    if (!(a->flags & CCL_F_BULK)) {
        return 0;
    }
    for (uint32_t d = first; d < last; d++) {
        const uint64_t base = d == 0 ? parts_to(p, b, 0) : b->end[d].base;
        bits |= base != 0 && parts_bytes_to(p, d) != 0 ? base | (a->src + parts_pair(p, ccl_rotate(a, d))->send_off) : 0;
    }
    return (bits & 15) == 0;
}

CCL_DEVICE uint32_t parts_bulk_bytes(const struct parts_stream *s) { return (uint32_t)(s->left < s->tile ? s->left : s->tile) & ~15u; }

/* The next tile that has a vector. */
CCL_DEVICE uint32_t parts_bulk_next(CCL_PARTS p, const struct parts_block *b, struct parts_stream *s)
{
    while (parts_stream_next(p, b, s)) {
        if (s->left >= 16) {
            return 1;
        }
    }
    return 0;
}

/* A tile into shared memory. */
CCL_DEVICE void parts_bulk_load(uint32_t full, uint32_t to, const struct parts_stream *s) { bulk_load(full, to, s->from, parts_bulk_bytes(s)); }

/* One thread; when it returns, all stores have been made. */
CCL_DEVICE_SLOW void parts_bulk_run(CCL_PARTS p, const struct parts_block *b, uint32_t first, uint32_t last)
{
    extern __shared__ __align__(128) char parts_bulk_memory[];
    __shared__ __align__(8) uint64_t full[BULK_STAGES_MOST];
    const uint32_t memory = (uint32_t)__cvta_generic_to_shared(parts_bulk_memory), bar = (uint32_t)__cvta_generic_to_shared(full);
    const uint32_t stages = CCL_PARTS_BULK_STAGES;
    struct parts_stream put = {first, last, first, CCL_PARTS_BULK_BYTES, 0, 0, 0, 0}, get = put;
    bulk_begin(bar, stages, 1);
    uint32_t more = 1, s = 0, phase = 0;
    for (uint32_t k = 0; k + 1 < stages && more; k++) {
        more = parts_bulk_next(p, b, &get);
        if (more) {
            parts_bulk_load(bar + 8 * k, memory + k * CCL_PARTS_BULK_BYTES, &get);
        }
    }
    while (parts_bulk_next(p, b, &put)) {
        bulk_wait(bar + 8 * s, phase);
        bulk_store(put.to, memory + s * CCL_PARTS_BULK_BYTES, parts_bulk_bytes(&put));
        bulk_commit();
        more = more && parts_bulk_next(p, b, &get);
        if (more) { /* the stage of the tile before this one, as soon as that has been read */
            const uint32_t to = s == 0 ? stages - 1 : s - 1;
            bulk_await_previous();
            parts_bulk_load(bar + 8 * to, memory + to * CCL_PARTS_BULK_BYTES, &get);
        }
        if (++s == stages) {
            s = 0;
            phase ^= 1;
        }
    }
    bulk_end(bar, stages);
}

CCL_DEVICE void parts_bulk(CCL_PARTS p, const struct parts_block *b, uint32_t first, uint32_t last)
{
    CCL_ARGS a = &p->c;
    if (ccl_tid() == 0) {
        parts_bulk_run(p, b, first, last);
    }
    for (uint32_t d = first; d < last; d++) { /* what is no vector */
        const struct ccl_k_pair *pair = parts_pair(p, ccl_rotate(a, d));
        const uint64_t base = parts_to(p, b, d), bytes = parts_bytes_to(p, d), body = bytes & ~15ull;
        if (base != 0 && body != bytes && body / CCL_PARTS_BULK_BYTES % (d == 0 ? ccl_grid() : parts_blocks(p, b, bytes)) == ccl_bid()) {
            ccl_move_tail(base + body, 0, a->src + pair->send_off + body, 0, 1, 0, (uint32_t)bytes & 15);
        }
    }
}
