/* SPDX-License-Identifier: MIT
 *
 * Units of 8 bytes of one type (included by reduce_units.h once a type; macros as in reduce_types.h). */
#include "reduce_lanes_type.h"

/* The units of n lanes, from lane `first` of the 32 on, joined in this order, in all lanes alike. unit: the own one; all lanes are here. */
CCL_DEVICE void NAME(join)(uint32_t redop, uint32_t n, uint32_t first, uint32_t *unit)
{
    uint32_t words[RT_WORDS];
    A a[LANES], x[LANES];
    words[0] = ccl_of_lane(unit[0], first);
    words[1] = ccl_of_lane(unit[1], first);
    NAME(unpack)(words, a);
#pragma unroll 1
    for (uint32_t r = 1; r < n; r++) {
        words[0] = ccl_of_lane(unit[0], first + r);
        words[1] = ccl_of_lane(unit[1], first + r);
        NAME(unpack)(words, x);
        NAME(lanes)(redop, a, x);
    }
    if (redop == 4) {
        NAME(average)(a, n);
    }
    NAME(pack)(unit, a);
}

/* The sum of the units of n ranks, a constant, in their order. */
CCL_DEVICE void NAME(sum)(uint32_t n, uint32_t unit[][RT_WORDS], uint32_t *sum)
{
    A a[LANES], x[LANES];
    NAME(unpack)(unit[0], a);
#pragma unroll
    for (uint32_t r = 1; r < n; r++) {
        NAME(unpack)(unit[r], x);
        NAME(lanes)(0, a, x);
    }
    NAME(pack)(sum, a);
}

/* The elements times scalar, rounded to the type. Word by word where elements are no larger: registers for half of them. */
CCL_DEVICE void NAME(scale)(uint32_t *unit, uint64_t scalar)
{
    union {
        uint64_t bits;
        T value;
    } u;
    u.bits = scalar;
    const A factor = LOAD(u.value);
    CCL_NO_UNROLL
    for (uint32_t w = 0; w < (sizeof(T) == 8 ? 1 : 2); w++) {
        uint32_t words[RT_WORDS] = {unit[0], sizeof(T) == 8 ? unit[1] : 0};
        A a[LANES];
        NAME(unpack)(words, a);
#pragma unroll
        for (uint32_t i = 0; i < LANES; i++) {
            a[i] = MUL(a[i], factor);
        }
        NAME(pack)(words, a);
        unit[0] = sizeof(T) == 8 ? words[0] : unit[1];
        unit[1] = words[sizeof(T) == 8];
    }
}

#include "reduce_lanes_end.h"
