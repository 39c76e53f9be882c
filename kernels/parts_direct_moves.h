/* SPDX-License-Identifier: MIT
 *
 * Direct stores and the own part of parts.hip on NVIDIA: tiles, destination after destination and round after round, through registers or in bulk through shared memory
 * (parts_bulk.h). Tiles are a block's own affair; the pieces of rings are smaller. */

#define PARTS_UNITS CCL_FLAT_UNITS /* vectors a thread of a tile that goes through registers */

/* Where a block stands in its tiles for the rotations first..last-1; rotation 0 is the own part. */
struct parts_stream {
    uint32_t first, last, d, tile;
    uint64_t round;
    uint64_t from, to, left; /* of the tile; bytes of the pair that begin there */
};

/* Blocks that have pieces of so many bytes: they alone say DONE. */
CCL_DEVICE uint32_t parts_blocks(CCL_PARTS p, const struct parts_block *b, uint64_t bytes)
{
    const uint64_t piece = p->c.piece_bytes;
    return bytes <= piece ? 1 : bytes >= piece * b->job.stride ? b->job.stride : (uint32_t)((bytes + piece - 1) / piece);
}

/* Where what goes to the rank d rotations on starts there; 0: this block stores nothing there directly. */
CCL_DEVICE uint64_t parts_to(CCL_PARTS p, const struct parts_block *b, uint32_t d)
{
    return d == 0 ? p->c.dst + parts_pair(p, p->c.rank)->recv_off : b->end[d].out != 0 ? b->end[d].base : 0;
}

/* Bytes for the rank d rotations on. The own part: as many as the user said may be stored. */
CCL_DEVICE uint64_t parts_bytes_to(CCL_PARTS p, uint32_t d)
{
    const struct ccl_k_pair *pair = parts_pair(p, ccl_rotate(&p->c, d));
    return d == 0 ? pair->recv_bytes : pair->send_bytes;
}

/* The next tile. False: there is none. */
CCL_DEVICE uint32_t parts_stream_next(CCL_PARTS p, const struct parts_block *b, struct parts_stream *s)
{
    CCL_ARGS a = &p->c;
    for (uint32_t empty = s->first; empty < s->last; empty++) {
        if (s->d == s->last) {
            s->d = s->first;
            s->round++;
        }
        const uint32_t d = s->d++;
        const struct ccl_k_pair *pair = parts_pair(p, ccl_rotate(a, d));
        const uint64_t base = parts_to(p, b, d), bytes = parts_bytes_to(p, d);
        const uint64_t off = (ccl_bid() + s->round * (d == 0 ? ccl_grid() : parts_blocks(p, b, bytes))) * s->tile;
        if (base != 0 && off < bytes) {
            s->from = a->src + pair->send_off + off;
            s->to = base + off;
            s->left = bytes - off;
            return 1;
        }
    }
    s->left = 0;
    return 0;
}

/* Tiles that go through registers: so large that each block has one of the largest part, as far as PARTS_UNITS vectors a thread reach. The same in all blocks. */
CCL_DEVICE uint32_t parts_tile(CCL_PARTS p, uint32_t first, uint32_t last)
{
    const uint64_t column = ccl_threads() * 16, most = column * PARTS_UNITS;
    uint64_t bytes = 0;
    for (uint32_t d = first; d < last; d++) {
        const uint64_t its = parts_bytes_to(p, d);
        bytes = its > bytes ? its : bytes;
    }
    if (bytes >= most * ccl_grid()) {
        return (uint32_t)most;
    }
    const uint32_t share = (uint32_t)bytes / ccl_grid();
    return share == 0 ? (uint32_t)column : (share + (uint32_t)column - 1) / (uint32_t)column * (uint32_t)column;
}

CCL_DEVICE uint32_t parts_tile_bytes(const struct parts_stream *s) { return s->left < s->tile ? (uint32_t)s->left : s->tile; }

/* This thread's vectors of a tile. */
CCL_DEVICE void parts_tile_load(ccl_vec16 *v, const struct parts_stream *s)
{
    const uint32_t mine = ccl_tid() * 16, column = ccl_threads() * 16, bytes = parts_tile_bytes(s);
#pragma unroll
    for (uint32_t u = 0; u < PARTS_UNITS; u++) {
        if (mine + u * column + 16 <= bytes) {
            v[u] = ccl_load_stream_vec16(s->from + mine + u * column);
        }
    }
}

CCL_DEVICE void parts_tile_store(const ccl_vec16 *v, const struct parts_stream *s)
{
    const uint32_t mine = ccl_tid() * 16, column = ccl_threads() * 16, bytes = parts_tile_bytes(s);
#pragma unroll
    for (uint32_t u = 0; u < PARTS_UNITS; u++) {
        if (mine + u * column + 16 <= bytes) {
            ccl_store_stream_vec16(s->to + mine + u * column, v[u]);
        }
    }
}

CCL_DEVICE void parts_stream_registers(CCL_PARTS p, const struct parts_block *b, uint32_t first, uint32_t last)
{
    struct parts_stream s = {first, last, first, parts_tile(p, first, last), 0, 0, 0, 0};
    uint64_t loaded = 0, vectors = 0; /* v: from there, so much of it. A broadcast stores it several times, and so is faster here than in bulk */
    ccl_vec16 v[PARTS_UNITS];
#pragma unroll 1
    while (parts_stream_next(p, b, &s)) {
        if ((s.from | s.to) & 15) {
            ccl_move_run(s.to, s.from, parts_tile_bytes(&s), 0);
            continue;
        }
        if (s.from != loaded || s.left > vectors) { /* parts of an all-to-all-v may begin together and end apart */
            parts_tile_load(v, &s);
            loaded = s.from;
            vectors = s.left;
        }
        parts_tile_store(v, &s);
        if (s.left <= s.tile && (s.left & 15) != 0) {
            ccl_move_tail(s.to + (s.left & ~15ull), 0, s.from + (s.left & ~15ull), 0, 1, 0, (uint32_t)s.left & 15);
        }
    }
}

#if defined(CCL_BULK)
#include "parts_bulk.h"
#endif

/* All for the rotations first..last-1. */
CCL_DEVICE void parts_stream_all(CCL_PARTS p, const struct parts_block *b, uint32_t first, uint32_t last)
{
#if defined(CCL_BULK)
    if (parts_takes_bulk(p, b, first, last)) {
        parts_bulk(p, b, first, last);
        return;
    }
#endif
    parts_stream_registers(p, b, first, last);
}

/* For the rotations from `first` on. */
CCL_DEVICE void parts_store_direct(CCL_PARTS p, const struct parts_block *b, uint32_t first) { parts_stream_all(p, b, first, p->c.n); }
