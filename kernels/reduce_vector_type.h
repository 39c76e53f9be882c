/* SPDX-License-Identifier: MIT
 *
 * The GPU loops over the elements of one type (included by reduce_vectors.h once a type; macros as in reduce_types.h). A thread joins 16 bytes at a time. */
#include "reduce_lanes_type.h"

CCL_DEVICE A NAME(one)(uint32_t redop, A a, A x)
{
    switch (redop) {
    case 1: return MUL(a, x);
    case 2: return x > a || NOT_NUMBER(a) ? x : a;
    case 3: return x < a || NOT_NUMBER(a) ? x : a;
    default: return ADD(a, x);
    }
}

/* What has been joined, as it is stored. */
CCL_DEVICE ccl_vec16 NAME(result)(uint32_t redop, uint32_t n, A *a)
{
    uint32_t words[RT_WORDS];
    if (redop == 4) {
        NAME(average)(a, n);
    }
    NAME(pack)(words, a);
    return reduce_vec16_of(words);
}

#if defined(CCL_BULK)
#include "reduce_bulk_type.h"
#endif

/* The vectors of share `part` of `parts`, a block's threads side by side. Loads are two ahead of the join. */
CCL_DEVICE void NAME(vectors)(uint32_t redop, uint32_t n, REDUCE_PLACES to, uint32_t num_to, REDUCE_PLACES in, uint64_t vectors, uint32_t part, uint32_t parts)
{
    const uint64_t step = (uint64_t)parts * ccl_threads();
    uint32_t words[RT_WORDS];
    A a[LANES], x[LANES];
    for (uint64_t i = (uint64_t)part * ccl_threads() + ccl_tid(); i < vectors; i += step) {
        ccl_vec16 next = ccl_load_ring_vec16(in[0] + i * 16), v;
        reduce_words_of(next, words);
        NAME(unpack)(words, a);
        next = n > 1 ? ccl_load_ring_vec16(in[1] + i * 16) : next;
#pragma unroll 1
        for (uint32_t r = 1; r < n; r++) {
            v = next;
            next = r + 1 < n ? ccl_load_ring_vec16(in[r + 1] + i * 16) : next;
            reduce_words_of(v, words);
            NAME(unpack)(words, x);
            NAME(lanes)(redop, a, x);
        }
        v = NAME(result)(redop, n, a);
#pragma unroll 1
        for (uint32_t d = 0; d < num_to; d++) {
            *CCL_PTR(ccl_vec16, to[d] + i * 16) = v;
        }
    }
}

/* whole: the address is a multiple of the size. */
CCL_DEVICE A NAME(get)(uint64_t addr, uint32_t whole)
{
    union {
        uint64_t bits;
        T value;
    } u;
    if (sizeof(T) > 1 && !whole) {
        u.bits = reduce_get_bytes(addr, sizeof(T));
    } else {
        u.value = *CCL_PTR(const T, addr);
    }
    return LOAD(u.value);
}

CCL_DEVICE void NAME(put)(uint64_t addr, uint32_t whole, A x)
{
    union {
        uint64_t bits;
        T value;
    } u;
    u.value = STORE(x);
    if (sizeof(T) > 1 && !whole) {
        reduce_put_bytes(addr, u.bits, sizeof(T));
    } else {
        *CCL_PTR(T, addr) = u.value;
    }
}

CCL_DEVICE void NAME(elements)(uint32_t redop, uint32_t n, REDUCE_PLACES to, uint32_t num_to, REDUCE_PLACES in, uint64_t first, uint64_t count, uint32_t whole,
                             uint32_t part, uint32_t parts)
{
    const uint64_t step = (uint64_t)parts * ccl_threads();
    for (uint64_t i = first + (uint64_t)part * ccl_threads() + ccl_tid(); i < count; i += step) {
        A a = NAME(get)(in[0] + i * sizeof(T), whole);
#pragma unroll 1
        for (uint32_t r = 1; r < n; r++) {
            a = NAME(one)(redop, a, NAME(get)(in[r] + i * sizeof(T), whole));
        }
        a = redop == 4 ? DIVIDE(a, n) : a;
#pragma unroll 1
        for (uint32_t d = 0; d < num_to; d++) {
            NAME(put)(to[d] + i * sizeof(T), whole, a);
        }
    }
}

CCL_DEVICE void NAME(join)(uint32_t redop, uint32_t n, REDUCE_PLACES to, uint32_t num_to, REDUCE_PLACES in, uint64_t count, uint32_t low,
                         uint32_t part, uint32_t parts, uint32_t bulk)
{
    const uint64_t vectors = low == 0 ? count / LANES : 0;
#if defined(CCL_BULK)
    if (bulk) {
        NAME(bulk_sum)(redop == 4 ? 1.0f / (float)n : 1.0f, n, to, num_to, in, vectors, part, parts);
    } else {
        NAME(vectors)(redop, n, to, num_to, in, vectors, part, parts);
    }
#else
    (void)bulk;
    NAME(vectors)(redop, n, to, num_to, in, vectors, part, parts);
#endif
    NAME(elements)(redop, n, to, num_to, in, vectors * LANES, count, (low & (sizeof(T) - 1)) == 0, part, parts);
}

CCL_DEVICE void NAME(scale)(uint64_t dst, uint64_t src, uint64_t count, uint64_t scalar)
{
    union {
        uint64_t bits;
        T value;
    } u;
    u.bits = scalar;
    const A factor = LOAD(u.value);
    const uint32_t whole = ccl_uniform((uint32_t)(src | dst) & (sizeof(T) - 1)) == 0;
    for (uint64_t i = ccl_tid(); i < count; i += ccl_threads()) {
        NAME(put)(dst + i * sizeof(T), whole, MUL(NAME(get)(src + i * sizeof(T), whole), factor));
    }
}

#include "reduce_lanes_end.h"
