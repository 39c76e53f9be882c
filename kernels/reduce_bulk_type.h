/* SPDX-License-Identifier: MIT
 *
 * The loop of reduce_bulk.h for one type (included by reduce_vector_type.h). */

/* As many as their accumulators stay in registers. */
#define COLUMNS (LANES <= 4 ? 8u : LANES <= 8 ? 4u : 2u)

/* The sum of the vectors of share `part` of `parts`, floating types: times factor. Out of line: it needs its registers for itself. */
CCL_DEVICE_SLOW void NAME(bulk_sum)(float factor, uint32_t n, REDUCE_PLACES to, uint32_t num_to, REDUCE_PLACES in, uint64_t vectors, uint32_t part, uint32_t parts)
{
    const struct reduce_stages b = reduce_bulk_begin(COLUMNS);
    const uint64_t bytes = vectors * 16;
    if (ccl_tid() == 0) {
        reduce_bulk_load(b, in, n, bytes, part, parts);
    } else if (ccl_tid() >= CCL_WARP) {
        const uint32_t mine = (ccl_tid() - CCL_WARP) * 16;
        uint32_t s = 0, phase = 0;
#pragma unroll 1
        for (uint64_t at = (uint64_t)part * b.tile; at < bytes; at += (uint64_t)parts * b.tile) {
            const uint32_t size = bytes - at < b.tile ? (uint32_t)(bytes - at) : b.tile;
            A a[COLUMNS * LANES];
#pragma unroll
            for (uint32_t i = 0; i < COLUMNS * LANES; i++) {
                a[i] = (A)-0.0f; /* to which anything adds to itself */
            }
#pragma unroll 1
            for (uint32_t r = 0; r < n; r++) {
                bulk_wait(b.full + 8 * s, phase);
#pragma unroll
                for (uint32_t c = 0; c < COLUMNS; c++) { /* behind the end of the last tile there is something, too */
                    uint32_t words[4];
                    A x[LANES];
                    reduce_bulk_take(b.memory + s * b.tile + mine + c * b.column, words);
                    NAME(unpack)(words, x);
                    NAME(lanes)(0, a + c * LANES, x);
                }
                reduce_bulk_taken(b, s);
                if (++s == b.stages) {
                    s = 0;
                    phase ^= 1;
                }
            }
            ccl_vec16 v[COLUMNS];
#pragma unroll
            for (uint32_t c = 0; c < COLUMNS; c++) {
                uint32_t words[4];
                if ((A)0.5f != (A)0 && factor != 1) {
#pragma unroll
                    for (uint32_t i = 0; i < LANES; i++) {
                        a[c * LANES + i] *= (A)factor;
                    }
                }
                NAME(pack)(words, a + c * LANES);
                v[c] = reduce_vec16_of(words);
            }
#pragma unroll 1
            for (uint32_t d = 0; d < num_to; d++) {
                const uint64_t there = to[d] + at + mine;
#pragma unroll
                for (uint32_t c = 0; c < COLUMNS; c++) {
                    if (mine + c * b.column < size) {
                        ccl_store_stream_vec16(there + c * b.column, v[c]);
                    }
                }
            }
        }
    }
    reduce_bulk_end(b);
}

#undef COLUMNS
