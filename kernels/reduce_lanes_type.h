/* SPDX-License-Identifier: MIT
 *
 * RT_WORDS words of elements of one type as a thread holds them: to and from what they are joined as, and the joining of two (included once a type, with
 * NAME(x), T, A, LOAD, STORE, ADD, MUL, DIVIDE, NOT_NUMBER as in reduce_types.h; reduce_lanes_end.h ends the type). The operator is looked at once for all
 * elements of an input. */

#define LANES ((uint32_t)(4 * RT_WORDS / sizeof(T)))

CCL_DEVICE void NAME(unpack)(const uint32_t *words, A *x)
{
    union {
        uint32_t word[RT_WORDS];
        T lane[LANES];
    } u;
#pragma unroll
    for (uint32_t i = 0; i < RT_WORDS; i++) {
        u.word[i] = words[i];
    }
#pragma unroll
    for (uint32_t i = 0; i < LANES; i++) {
        x[i] = LOAD(u.lane[i]);
    }
}

CCL_DEVICE void NAME(pack)(uint32_t *words, const A *x)
{
    union {
        uint32_t word[RT_WORDS];
        T lane[LANES];
    } u;
#pragma unroll
    for (uint32_t i = 0; i < LANES; i++) {
        u.lane[i] = STORE(x[i]);
    }
#pragma unroll
    for (uint32_t i = 0; i < RT_WORDS; i++) {
        words[i] = u.word[i];
    }
}

/* count, a constant: elements. */
CCL_DEVICE void NAME(lanes_of)(uint32_t redop, A *a, const A *x, const uint32_t count)
{
    switch (redop) {
    case 1:
#pragma unroll
        for (uint32_t i = 0; i < count; i++) {
            a[i] = MUL(a[i], x[i]);
        }
        break;
    case 2:
#pragma unroll
        for (uint32_t i = 0; i < count; i++) {
            a[i] = x[i] > a[i] || NOT_NUMBER(a[i]) ? x[i] : a[i];
        }
        break;
    case 3:
#pragma unroll
        for (uint32_t i = 0; i < count; i++) {
            a[i] = x[i] < a[i] || NOT_NUMBER(a[i]) ? x[i] : a[i];
        }
        break;
    default:
#pragma unroll
        for (uint32_t i = 0; i < count; i++) {
            a[i] = ADD(a[i], x[i]);
        }
        break;
    }
}

CCL_DEVICE void NAME(lanes)(uint32_t redop, A *a, const A *x) { NAME(lanes_of)(redop, a, x, LANES); }

/* What the average of n ranks is. */
CCL_DEVICE void NAME(average)(A *a, uint32_t n)
{
#pragma unroll
    for (uint32_t i = 0; i < LANES; i++) {
        a[i] = DIVIDE(a[i], n);
    }
}
