/* SPDX-License-Identifier: MIT
 *
 * Joining what packet pairs of LL carry: 8 bytes of elements a thread and rank, in registers (parts_ll_packets.h). */
#ifndef CCL_REDUCE_UNITS_H
#define CCL_REDUCE_UNITS_H

#include "reduce_lanes.h"

#define REDUCE_UNITS ((uint32_t)CCL_PARTS_LL_JOINS)

CCL_DEVICE void reduce_words_of_unit(uint64_t v, uint32_t *words)
{
    words[0] = (uint32_t)v;
    words[1] = (uint32_t)(v >> 32);
}

/* An array in registers has no index that is not a constant: who goes through it looks at v[0]. */
CCL_DEVICE void reduce_next_unit(uint64_t *v)
{
#pragma unroll
    for (uint32_t i = 0; i + 1 < REDUCE_UNITS; i++) {
        v[i] = v[i + 1];
    }
}

#define RT_WORDS 2
#define RT_NAME(x) units_##x
#define RT_BODY "reduce_unit_type.h"
#include "reduce_types.h"
#undef RT_WORDS
#undef RT_NAME
#undef RT_BODY

#endif
