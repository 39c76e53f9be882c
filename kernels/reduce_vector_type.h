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

/* So many vectors of a thread are joined side by side. */
#if defined(REDUCE_WIDE)
#define COLUMNS (LANES <= 8 ? 4u : 2u)
#define VECTORS_FUNCTION CCL_DEVICE_SLOW /* out of line: it needs its registers for itself */
#else
#define COLUMNS 1u
#define VECTORS_FUNCTION CCL_DEVICE
#endif

/* One column or all, a block's threads apart, the first one `at` bytes on. Loads are two ahead of the join. */
CCL_DEVICE void NAME(join_columns)(const uint32_t columns, uint32_t redop, uint32_t n, REDUCE_PLACES to, uint32_t num_to, REDUCE_PLACES in, uint64_t at)
{
    const uint32_t column = ccl_threads() * 16;
    uint32_t words[RT_WORDS];
    A a[COLUMNS * LANES], x[COLUMNS * LANES];
    ccl_vec16 v[COLUMNS], next[COLUMNS];
#define EACH(statement) _Pragma("unroll") for (uint32_t c = 0; c < columns; c++) { statement; }
    EACH(next[c] = ccl_load_ring_vec16(in[0] + at + c * column))
    EACH(v[c] = next[c])
    if (n > 1) {
        EACH(next[c] = ccl_load_ring_vec16(in[1] + at + c * column))
    }
    EACH(reduce_words_of(v[c], words); NAME(unpack)(words, a + c * LANES))
#pragma unroll 1
    for (uint32_t r = 1; r < n; r++) {
        EACH(v[c] = next[c])
        if (r + 1 < n) {
            EACH(next[c] = ccl_load_ring_vec16(in[r + 1] + at + c * column))
        }
        EACH(reduce_words_of(v[c], words); NAME(unpack)(words, x + c * LANES))
        NAME(lanes_of)(redop, a, x, columns * LANES);
    }
    EACH(v[c] = NAME(result)(redop, n, a + c * LANES))
#pragma unroll 1
    for (uint32_t d = 0; d < num_to; d++) {
        EACH(*CCL_PTR(ccl_vec16, to[d] + at + c * column) = v[c])
    }
#undef EACH
}

/* The vectors of share `part` of `parts`, a block's threads side by side. */
VECTORS_FUNCTION void NAME(vectors)(uint32_t redop, uint32_t n, REDUCE_PLACES to, uint32_t num_to, REDUCE_PLACES in, uint64_t vectors, uint32_t part, uint32_t parts)
{
    const uint64_t step = (uint64_t)parts * ccl_threads();
    uint64_t wide = 0;
    if (COLUMNS > 1) {
        wide = vectors / (step * COLUMNS) * step * COLUMNS;
#pragma unroll 1
        for (uint64_t i = (uint64_t)part * ccl_threads() * COLUMNS + ccl_tid(); i < wide; i += step * COLUMNS) {
            NAME(join_columns)(COLUMNS, redop, n, to, num_to, in, i * 16);
        }
    }
    for (uint64_t i = wide + (uint64_t)part * ccl_threads() + ccl_tid(); i < vectors; i += step) {
        NAME(join_columns)(1, redop, n, to, num_to, in, i * 16);
    }
}

#undef COLUMNS
#undef VECTORS_FUNCTION

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
