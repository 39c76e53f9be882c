/* SPDX-License-Identifier: MIT
 *
 * GPU push of flat parts (included by push_gpu_body.h): input and output of a part are runs of 16-byte vectors, and so is each piece
 * (args.flat_piece). Nothing but additions is left in the loops. A thread takes the vectors t, t + threads, ... of a piece, "units" of it. */

#define CCL_CHUNK_UNITS (CCL_FLAT_UNITS ? CCL_FLAT_UNITS : 4u) /* most of a piece */

struct push_flat {
    uint32_t row;    /* bytes from a piece of this block to its next one */
    uint32_t column; /* bytes of one unit of all threads */
    uint32_t mine;   /* this thread's byte in a unit */
};

CCL_DEVICE struct push_flat push_flat_of(CCL_ARGS a, const struct push_job *job)
{
    struct push_flat f = {job->stride * a->flat_piece, ccl_threads() * 16, ccl_tid() * 16};
    return f;
}

/* How far the part reaches behind `at`, at most what 32 bits hold with room for a step. */
CCL_DEVICE uint32_t push_flat_left(CCL_ARGS a, uint64_t at)
{
    uint64_t left = at < a->part_bytes ? a->part_bytes - at : 0;
    return left < 1u << 30 ? (uint32_t)left : 1u << 30;
}

#if CCL_FLAT_UNITS

/* The first piece on its way to the cache while the adverts travel; one thread a line of 128 bytes. */
CCL_DEVICE void push_flat_prefetch(CCL_ARGS a, const struct push_job *job)
{
    const struct push_flat f = push_flat_of(a, job);
    const uint64_t at = (uint64_t)job->first * a->flat_piece;
    const uint32_t left = push_flat_left(a, at);
    for (uint32_t in = f.mine; (ccl_tid() & 7) == 0 && in < a->flat_piece && in < left; in += f.column) {
        ccl_prefetch(a->src + at + in);
    }
}

/* Byte of unit u of a step: of one piece, or of several small ones of 1 << shift units. */
CCL_DEVICE uint32_t push_flat_unit(uint32_t shift, uint32_t row, uint32_t column, uint32_t u)
{
    return (u >> shift) * row + (u & ((1u << shift) - 1)) * column;
}

/* Whole steps of blocks of the largest size: nothing to compare, most offsets compiled in. Returns where the rest starts. */
CCL_DEVICE uint64_t push_flat_whole(CCL_ARGS a, const uint32_t shift, struct push_flat f, const struct push_end *end,
                                    uint32_t d_first, uint32_t d_last, uint64_t at)
{
    const uint32_t column = CCL_MAX_THREADS * 16;
    const uint32_t reach = push_flat_unit(shift, f.row, column, CCL_FLAT_UNITS - 1) + column;
    for (; at + reach <= a->part_bytes; at += (CCL_FLAT_UNITS >> shift) * f.row) {
        ccl_vec16 v[CCL_FLAT_UNITS];
#pragma unroll
        for (uint32_t u = 0; u < CCL_FLAT_UNITS; u++) {
            v[u] = ccl_load_stream_vec16(a->src + at + f.mine + push_flat_unit(shift, f.row, column, u));
        }
#pragma unroll 1
        for (uint32_t d = d_first; d < d_last; d++) {
            const uint64_t to = push_base(a, end, d);
            if (to == 0) {
                continue; /* own part in place */
            }
#pragma unroll
            for (uint32_t u = 0; u < CCL_FLAT_UNITS; u++) {
                ccl_store_stream_vec16(to + at + f.mine + push_flat_unit(shift, f.row, column, u), v[u]);
            }
        }
    }
    return at;
}

/* All pieces of this block to the rotations d_first..d_last-1: whole steps, then what is left and smaller blocks. */
CCL_DEVICE void push_flat_direct(CCL_ARGS a, const struct push_job *job, const struct push_end *end, uint32_t d_first,
                                 uint32_t d_last)
{
    const struct push_flat f = push_flat_of(a, job);
    const uint32_t shift = a->unit_shift, none = ~0u;
    uint64_t at = (uint64_t)job->first * a->flat_piece;
    if (f.column == CCL_MAX_THREADS * 16 && a->flat_piece == f.column << shift) {
        at = shift == 3 ? push_flat_whole(a, 3, f, end, d_first, d_last, at)
             : shift == 2 ? push_flat_whole(a, 2, f, end, d_first, d_last, at)
             : shift == 1 ? push_flat_whole(a, 1, f, end, d_first, d_last, at) : at;
    }
    for (; at < a->part_bytes; at += (CCL_CHUNK_UNITS >> shift) * f.row) {
        const uint32_t left = push_flat_left(a, at);
        uint32_t o[CCL_CHUNK_UNITS];
        ccl_vec16 v[CCL_CHUNK_UNITS];
#pragma unroll
        for (uint32_t u = 0; u < CCL_CHUNK_UNITS; u++) {
            uint32_t in = push_flat_unit(shift, 0, f.column, u) + f.mine;
            o[u] = push_flat_unit(shift, f.row, f.column, u) + f.mine;
            o[u] = in < a->flat_piece && o[u] < left ? o[u] : none;
            if (o[u] != none) {
                v[u] = ccl_load_stream_vec16(a->src + at + o[u]);
            }
        }
#pragma unroll 1
        for (uint32_t d = d_first; d < d_last; d++) {
            const uint64_t to = push_base(a, end, d);
#pragma unroll
            for (uint32_t u = 0; u < CCL_CHUNK_UNITS; u++) {
                if (to != 0 && o[u] != none) {
                    ccl_store_stream_vec16(to + at + o[u], v[u]);
                }
            }
        }
    }
}

/* CCL_F_PACE_AT, two ranks: what is on its way at one time is what the grid and the pace say, no more. What a link cannot take at once stands in the way of the
 * stores to the own memory, so a larger window is slower, not faster (src/coll/tune.c). */
CCL_DEVICE void push_flat_paced_by(CCL_ARGS a, uint32_t threads, const uint32_t shift, uint64_t peer, uint64_t own)
{
    const uint32_t column = threads * 16, piece = column << shift, mine = ccl_tid() * 16;
    for (uint64_t at = (uint64_t)ccl_bid() * piece; at < a->part_bytes; at += (uint64_t)ccl_grid() * piece) {
        const uint32_t left = push_flat_left(a, at);
        ccl_vec16 v[4];
#pragma unroll
        for (uint32_t u = 0; u < 1u << shift; u++) {
            if (mine + u * column < left) {
                v[u] = ccl_load_once_vec16(a->src + at + mine + u * column);
            }
        }
#pragma unroll
        for (uint32_t u = 0; u < 1u << shift; u++) {
            if (mine + u * column < left) {
                ccl_store_stream_vec16(peer + at + mine + u * column, v[u]);
            }
        }
#pragma unroll
        for (uint32_t u = 0; u < 1u << shift; u++) {
            if (own != 0 && mine + u * column < left) {
                ccl_store_stream_vec16(own + at + mine + u * column, v[u]);
            }
        }
    }
}

CCL_DEVICE_SLOW void push_flat_paced(CCL_ARGS a, const struct push_end *end)
{
    const uint32_t pace = a->flags >> CCL_F_PACE_AT, threads = (pace & 255) * CCL_WARP, shift = pace >> 8;
    const uint64_t peer = end[1].base, own = end[0].base;
    if (ccl_tid() >= threads) {
        return;
    }
    if (shift == 0) {
        push_flat_paced_by(a, threads, 0, peer, own);
    } else if (shift == 1) {
        push_flat_paced_by(a, threads, 1, peer, own);
    } else {
        push_flat_paced_by(a, threads, 2, peer, own);
    }
}

#else

CCL_DEVICE void push_flat_prefetch(CCL_ARGS a, const struct push_job *job) { (void)a, (void)job; }

#endif

/* ---- one chunk of a staged block: at most CCL_CHUNK_UNITS units ---- */

/* How far the chunk at `at` reaches behind this thread's first vector. */
CCL_DEVICE uint32_t push_chunk_reach(CCL_ARGS a, struct push_flat f, uint64_t at)
{
    const uint32_t left = push_flat_left(a, at), bytes = left < a->flat_piece ? left : a->flat_piece;
    return bytes > f.mine ? bytes - f.mine : 0;
}

CCL_DEVICE void push_chunk_load(CCL_ARGS a, struct push_flat f, uint64_t at, ccl_vec16 *v)
{
    const uint32_t reach = push_chunk_reach(a, f, at);
#pragma unroll
    for (uint32_t u = 0; u < CCL_CHUNK_UNITS; u++) {
        if (u * f.column < reach) {
            v[u] = ccl_load_stream_vec16(a->src + at + f.mine + u * f.column);
        }
    }
}

/* To user memory, around the caches; or to a ring slot, which shall stay there. */
CCL_DEVICE void push_chunk_store(struct push_flat f, uint32_t reach, uint64_t to, uint32_t ring, const ccl_vec16 *v)
{
#pragma unroll
    for (uint32_t u = 0; u < CCL_CHUNK_UNITS; u++) {
        if (u * f.column < reach) {
            if (ring) {
                *CCL_PTR(ccl_vec16, to + f.mine + u * f.column) = v[u];
            } else {
                ccl_store_stream_vec16(to + f.mine + u * f.column, v[u]);
            }
        }
    }
}

CCL_DEVICE void push_chunk_drain(struct push_flat f, uint32_t reach, uint64_t to, uint64_t slot)
{
    ccl_vec16 v[CCL_CHUNK_UNITS];
#pragma unroll
    for (uint32_t u = 0; u < CCL_CHUNK_UNITS; u++) {
        if (u * f.column < reach) {
            v[u] = ccl_load_ring_vec16(slot + f.mine + u * f.column);
        }
    }
#pragma unroll
    for (uint32_t u = 0; u < CCL_CHUNK_UNITS; u++) {
        if (u * f.column < reach) {
            ccl_store_stream_vec16(to + f.mine + u * f.column, v[u]);
        }
    }
}
