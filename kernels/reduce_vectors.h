/* SPDX-License-Identifier: MIT
 *
 * Joining elements on a GPU (included by reduce_elements.h). Places stand in shared memory, so that all threads read the same ones. */
#ifndef CCL_REDUCE_VECTORS_H
#define CCL_REDUCE_VECTORS_H

#include "reduce_lanes.h"

#define REDUCE_PLACES const uint64_t *
#define REDUCE_FIRST_FLOAT 6 /* of the types' numbers (ccl.h); integers come before it */

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

#if defined(CCL_BULK)
#include "reduce_bulk.h"
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

/* What one of `parts` blocks does of it. bulk: with CCL_F_BULK, and what is read was there when the launch began. */
CCL_DEVICE void reduce_join_share(CCL_PARTS p, REDUCE_PLACES to, uint32_t num_to, REDUCE_PLACES in, uint64_t count, uint32_t part, uint32_t parts, uint32_t bulk)
{
    const uint32_t n = p->c.n, redop = p->redop;
    /* An average is a sum times 1 / n where that is exact. */
    bulk = bulk && (p->c.flags & CCL_F_BULK) && (redop == 0 || (redop == 4 && p->type >= REDUCE_FIRST_FLOAT && (n & (n - 1)) == 0));
    uint64_t bits = 0;
    for (uint32_t r = 0; r < n; r++) {
        bits |= in[r];
    }
    for (uint32_t d = 0; d < num_to; d++) {
        bits |= to[d];
    }
    const uint32_t low = ccl_uniform((uint32_t)bits & 15);
#define ARGS (redop, n, to, num_to, in, count, low, part, parts, bulk)
    REDUCE_BY_TYPE(p->type, reduce_join)
#undef ARGS
}

#endif
