/* SPDX-License-Identifier: MIT
 *
 * GPU push of flat parts (included by push_gpu_body.h): input and output of a part are runs of 16-byte vectors, and so is each piece
 * (args.flat_piece). Nothing but additions is left in the loops. A thread takes the vectors t, t + threads, ... of a piece, "units" of it. */

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

/* This thread's part of piece `index` starts here, counted from the start of the part. */
CCL_DEVICE uint64_t push_flat_at(CCL_ARGS a, struct push_flat f, uint64_t index)
{
    return index * a->flat_piece + f.mine;
}

/* How far the part reaches behind pos, at most what 32 bits hold with room for a step. */
CCL_DEVICE uint32_t push_flat_left(CCL_ARGS a, uint64_t pos)
{
    uint64_t left = pos < a->part_bytes ? a->part_bytes - pos : 0;
    return left < 1u << 30 ? (uint32_t)left : 1u << 30;
}

#if CCL_FLAT_UNITS

/* Bytes from the first to unit u of a step; ~0 where this thread has no vector in the piece. A step takes CCL_FLAT_UNITS units: of one piece, or
 * of several small ones. */
CCL_DEVICE uint32_t push_flat_unit(CCL_ARGS a, struct push_flat f, uint32_t u)
{
    uint32_t in = (u & ((1u << a->unit_shift) - 1)) * f.column;
    return in + f.mine < a->flat_piece ? (u >> a->unit_shift) * f.row + in : ~0u;
}

CCL_DEVICE void push_flat_load(CCL_ARGS a, struct push_flat f, uint64_t pos, ccl_vec16 *v)
{
    const uint32_t left = push_flat_left(a, pos);
#pragma unroll
    for (uint32_t u = 0; u < CCL_FLAT_UNITS; u++) {
        uint32_t o = push_flat_unit(a, f, u);
        if (o < left) {
            v[u] = ccl_load_stream_vec16(a->src + pos + o);
        }
    }
}

/* All pieces of this block to the rotations d_first..d_last-1. loaded: v holds the first step. */
CCL_DEVICE void push_flat_direct(CCL_ARGS a, const struct push_job *job, const struct push_end *end, uint32_t d_first,
                                 uint32_t d_last, ccl_vec16 *v, uint32_t loaded)
{
    const struct push_flat f = push_flat_of(a, job);
    const uint64_t step = (uint64_t)(CCL_FLAT_UNITS >> a->unit_shift) * f.row;
    for (uint64_t pos = push_flat_at(a, f, job->first); pos < a->part_bytes; pos += step) {
        if (!loaded) {
            push_flat_load(a, f, pos, v);
        }
        loaded = 0;
        const uint32_t left = push_flat_left(a, pos);
        for (uint32_t d = d_first; d < d_last; d++) {
            const uint64_t to = end[d].base;
            if (to == 0) {
                continue; /* own part in place */
            }
#pragma unroll
            for (uint32_t u = 0; u < CCL_FLAT_UNITS; u++) {
                uint32_t o = push_flat_unit(a, f, u);
                if (o < left) {
                    ccl_store_stream_vec16(to + pos + o, v[u]);
                }
            }
        }
    }
}

#endif

/* ---- one chunk of a staged block: at most CCL_CHUNK_UNITS units ---- */

#define CCL_CHUNK_UNITS 4u

CCL_DEVICE uint32_t push_chunk_in(CCL_ARGS a, struct push_flat f, uint32_t left, uint32_t u)
{
    return u * f.column + f.mine < a->flat_piece && u * f.column < left;
}

CCL_DEVICE void push_chunk_load(CCL_ARGS a, struct push_flat f, uint64_t pos, ccl_vec16 *v)
{
    const uint32_t left = push_flat_left(a, pos);
#pragma unroll
    for (uint32_t u = 0; u < CCL_CHUNK_UNITS; u++) {
        if (push_chunk_in(a, f, left, u)) {
            v[u] = ccl_load_stream_vec16(a->src + pos + u * f.column);
        }
    }
}

/* To user memory, around the caches; or to a ring slot, which shall stay there. */
CCL_DEVICE void push_chunk_store(CCL_ARGS a, struct push_flat f, uint64_t pos, uint64_t to, uint32_t ring, const ccl_vec16 *v)
{
    const uint32_t left = push_flat_left(a, pos);
#pragma unroll
    for (uint32_t u = 0; u < CCL_CHUNK_UNITS; u++) {
        if (push_chunk_in(a, f, left, u)) {
            if (ring) {
                *CCL_PTR(ccl_vec16, to + u * f.column) = v[u];
            } else {
                ccl_store_stream_vec16(to + u * f.column, v[u]);
            }
        }
    }
}

/* From slot to `to`, both at this thread's first vector. */
CCL_DEVICE void push_chunk_drain(CCL_ARGS a, struct push_flat f, uint64_t pos, uint64_t to, uint64_t slot)
{
    const uint32_t left = push_flat_left(a, pos);
    ccl_vec16 v[CCL_CHUNK_UNITS];
#pragma unroll
    for (uint32_t u = 0; u < CCL_CHUNK_UNITS; u++) {
        if (push_chunk_in(a, f, left, u)) {
            v[u] = ccl_load_ring_vec16(slot + u * f.column);
        }
    }
#pragma unroll
    for (uint32_t u = 0; u < CCL_CHUNK_UNITS; u++) {
        if (push_chunk_in(a, f, left, u)) {
            ccl_store_stream_vec16(to + u * f.column, v[u]);
        }
    }
}
