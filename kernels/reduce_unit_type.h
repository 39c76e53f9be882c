/* SPDX-License-Identifier: MIT
 *
 * Units of 8 bytes of one type (included by reduce_units.h once a type; macros as in reduce_types.h). */
#include "reduce_lanes_type.h"

/* v[0] = the n units there, joined in this order. */
CCL_DEVICE void NAME(join)(uint32_t redop, uint32_t n, uint64_t *v)
{
    uint32_t words[RT_WORDS];
    A a[LANES], x[LANES];
    reduce_words_of_unit(v[0], words);
    NAME(unpack)(words, a);
#pragma unroll 1
    for (uint32_t r = 1; r < n; r++) {
        reduce_next_unit(v);
        reduce_words_of_unit(v[0], words);
        NAME(unpack)(words, x);
        NAME(lanes)(redop, a, x);
    }
    if (redop == 4) {
        NAME(average)(a, n);
    }
    NAME(pack)(words, a);
    v[0] = (uint64_t)words[1] << 32 | words[0];
}

/* The elements times scalar, rounded to the type. Word by word where elements are no larger: registers for half of them. */
CCL_DEVICE void NAME(scale)(uint64_t *v, uint64_t scalar)
{
    union {
        uint64_t bits;
        T value;
    } u;
    u.bits = scalar;
    const A factor = LOAD(u.value);
    CCL_NO_UNROLL
    for (uint32_t w = 0; w < (sizeof(T) == 8 ? 1 : 2); w++) {
        uint32_t words[RT_WORDS];
        A a[LANES];
        reduce_words_of_unit(sizeof(T) == 8 ? *v : (uint32_t)*v, words);
        NAME(unpack)(words, a);
#pragma unroll
        for (uint32_t i = 0; i < LANES; i++) {
            a[i] = MUL(a[i], factor);
        }
        NAME(pack)(words, a);
        *v = (uint64_t)words[sizeof(T) == 8] << 32 | (sizeof(T) == 8 ? words[0] : *v >> 32);
    }
}

#include "reduce_lanes_end.h"
