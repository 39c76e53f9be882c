/* SPDX-License-Identifier: MIT
 *
 * Joining elements on a GPU (included by reduce_elements.h). Places stand in shared memory, so that all threads read the same ones. */
#ifndef CCL_REDUCE_VECTORS_H
#define CCL_REDUCE_VECTORS_H

#include "reduce_lanes.h"

#define REDUCE_PLACES const uint64_t *

CCL_DEVICE void reduce_words_of(ccl_vec16 v, uint32_t *words)
{
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        words[i] = CCL_LANE(v, i);
    }
}

CCL_DEVICE ccl_vec16 reduce_vec16_of(const uint32_t *words)
{
    ccl_vec16 v;
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        CCL_LANE(v, i) = words[i];
    }
    return v;
}

#if defined(CCL_ON_NVIDIA)

#include "copy_queue.h"

/* A thread's vectors in the order in which they are joined: place after place, in each rank after rank. */
struct reduce_stream {
    uint64_t i;
    uint32_t r, fetched; /* rank; vectors before this one */
};

/* Fetch the next one, if there is one. */
CCL_DEVICE void reduce_fetch(struct reduce_stream *s, REDUCE_PLACES in, uint32_t n, uint64_t step, uint64_t vectors)
{
    if (s->i < vectors) {
        queue_fetch(s->fetched++, in[s->r] + s->i * 16);
        if (++s->r == n) {
            s->r = 0;
            s->i += step;
        }
    }
    queue_commit();
}

#endif

#define RT_WORDS 4
#define RT_NAME(x) reduce_##x
#define RT_BODY "reduce_vector_type.h"
#include "reduce_types.h"
#undef RT_WORDS
#undef RT_NAME
#undef RT_BODY

CCL_DEVICE void reduce_scale(CCL_PARTS p, uint64_t dst, uint64_t src, uint64_t count)
{
    const uint64_t scalar = reduce_scalar_bits(p);
#define ARGS (dst, src, count, scalar)
    REDUCE_BY_TYPE(p->type, reduce_scale)
#undef ARGS
}

/* What one of `parts` blocks does of it. */
CCL_DEVICE void reduce_join_share(CCL_PARTS p, REDUCE_PLACES to, uint32_t num_to, REDUCE_PLACES in, uint64_t count, uint32_t part, uint32_t parts)
{
    const uint32_t n = p->c.n, redop = p->redop;
    uint64_t bits = 0;
    for (uint32_t r = 0; r < n; r++) {
        bits |= in[r];
    }
    for (uint32_t d = 0; d < num_to; d++) {
        bits |= to[d];
    }
    const uint32_t low = ccl_uniform((uint32_t)bits & 15);
#define ARGS (redop, n, to, num_to, in, count, low, part, parts)
    REDUCE_BY_TYPE(p->type, reduce_join)
#undef ARGS
}

#endif
