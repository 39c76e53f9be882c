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

/* What a block stores directly need not be pieces, since only the end of all of it is told: a run of vectors, cut into steps of CCL_FLAT_UNITS
 * vectors a thread. Short parts go in one range a block, long ones strided by the grid, so that all blocks are in the same DRAM pages. */
struct push_run_of_block {
    uint64_t at, end; /* bytes of the part: this block's first step, behind its last one */
    uint64_t stride;  /* from a step to the next one */
    uint32_t step;    /* bytes of a step of all threads */
};

#define PUSH_RANGE_STEPS 4u /* up to so many steps a block are a range */

CCL_DEVICE struct push_run_of_block push_run_of(CCL_ARGS a, const struct push_job *job)
{
    struct push_run_of_block r;
    const uint64_t pieces = a->pieces_down * a->pieces_across;
    const uint32_t blocks = pieces < job->stride ? (uint32_t)pieces : (uint32_t)job->stride;
    r.step = ccl_threads() * 16 * CCL_FLAT_UNITS;
    r.end = a->part_bytes;
    if (a->part_bytes <= (uint64_t)r.step * PUSH_RANGE_STEPS * blocks) {
        const uint32_t range = ((uint32_t)(a->part_bytes / 16) + blocks - 1) / blocks * 16;
        r.at = job->first * range;
        r.stride = r.step;
        r.end = r.end < r.at + range ? r.end : r.at + range;
    } else {
        r.at = job->first * r.step;
        r.stride = (uint64_t)blocks * r.step;
    }
    if (job->chunks == 0) {
        r.end = 0;
    }
    return r;
}

/* The first step towards the L2, while the adverts travel. */
CCL_DEVICE void push_flat_prefetch(CCL_ARGS a, const struct push_job *job)
{
    const struct push_run_of_block r = push_run_of(a, job);
    for (uint32_t o = ccl_tid() * 128; o < r.step && r.at + o < r.end; o += ccl_threads() * 128) {
        ccl_prefetch(a->src + r.at + o);
    }
}

#define PUSH_EACH_UNIT(whole, statement)                                        \
    if (whole) {                                                                \
        _Pragma("unroll") for (uint32_t u = 0; u < CCL_FLAT_UNITS; u++) {       \
            statement;                                                          \
        }                                                                       \
    } else {                                                                    \
        _Pragma("unroll") for (uint32_t u = 0; u < CCL_FLAT_UNITS; u++) {       \
            if (at + u * column < r.end) {                                      \
                statement;                                                      \
            }                                                                   \
        }                                                                       \
    }

/* This block's run to the rotations d_first..d_last-1. Out of line, so that the registers are the loop's alone. */
CCL_DEVICE_SLOW void push_flat_direct(CCL_ARGS a, struct push_job job, const struct push_end *end, uint32_t d_first, uint32_t d_last)
{
    const struct push_run_of_block r = push_run_of(a, &job);
    const uint32_t column = ccl_threads() * 16;
    const uint64_t src = a->src;
    ccl_vec16 v[CCL_FLAT_UNITS];
    for (uint64_t at = r.at + ccl_tid() * 16; at < r.end; at += r.stride) {
        const uint32_t whole = at + (CCL_FLAT_UNITS - 1) * column < r.end;
        PUSH_EACH_UNIT(whole, v[u] = ccl_load_stream_vec16(src + at + u * column))
#pragma unroll 1
        for (uint32_t d = d_first; d < d_last; d++) {
            const uint64_t to = end[d].base;
            if (to != 0) { /* 0: own part in place */
                PUSH_EACH_UNIT(whole, ccl_store_stream_vec16(to + at + u * column, v[u]))
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
