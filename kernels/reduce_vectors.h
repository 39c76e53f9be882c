/* SPDX-License-Identifier: MIT
 *
 * Joining elements on a GPU (included by reduce_elements.h). Places stand in shared memory, so that all threads read the same ones. */
#ifndef CCL_REDUCE_VECTORS_H
#define CCL_REDUCE_VECTORS_H

#include "floats.h"

#define REDUCE_PLACES const uint64_t *

/* Elements of buffers that are not aligned to them. */
CCL_DEVICE uint64_t reduce_get_bytes(uint64_t addr, uint32_t bytes)
{
    uint64_t bits = 0;
#pragma unroll 1
    for (uint32_t i = 0; i < bytes; i++) {
        bits |= (uint64_t)*CCL_PTR(const uint8_t, addr + i) << (8 * i);
    }
    return bits;
}

CCL_DEVICE void reduce_put_bytes(uint64_t addr, uint64_t bits, uint32_t bytes)
{
#pragma unroll 1
    for (uint32_t i = 0; i < bytes; i++) {
        *CCL_PTR(uint8_t, addr + i) = (uint8_t)(bits >> (8 * i));
    }
}

#define RT_NAME(x) reduce_##x
#define RT_BODY "reduce_vector_type.h"
#include "reduce_types.h"
#undef RT_NAME
#undef RT_BODY

#define REDUCE_BY_TYPE(type, call)             \
    switch (type) {                            \
    case 0: reduce_##call##_i8 ARGS; break;    \
    case 1: reduce_##call##_u8 ARGS; break;    \
    case 2: reduce_##call##_i32 ARGS; break;   \
    case 3: reduce_##call##_u32 ARGS; break;   \
    case 4: reduce_##call##_i64 ARGS; break;   \
    case 5: reduce_##call##_u64 ARGS; break;   \
    case 6: reduce_##call##_f16 ARGS; break;   \
    case 7: reduce_##call##_f32 ARGS; break;   \
    case 8: reduce_##call##_f64 ARGS; break;   \
    case 9: reduce_##call##_bf16 ARGS; break;  \
    case 10: reduce_##call##_e4m3 ARGS; break; \
    default: reduce_##call##_e5m2 ARGS; break; \
    }

CCL_DEVICE uint64_t reduce_scalar_bits(CCL_PARTS p)
{
    return p->parts & CCL_PARTS_SCALAR_AT ? reduce_get_bytes(p->scalar, p->esize) : p->scalar;
}

CCL_DEVICE void reduce_scale(CCL_PARTS p, uint64_t dst, uint64_t src, uint64_t count)
{
    const uint64_t scalar = reduce_scalar_bits(p);
#define ARGS (dst, src, count, scalar)
    REDUCE_BY_TYPE(p->type, scale)
#undef ARGS
}

CCL_DEVICE void reduce_join(CCL_PARTS p, REDUCE_PLACES to, uint32_t num_to, REDUCE_PLACES in, uint64_t count)
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
#define ARGS (redop, n, to, num_to, in, count, low)
    REDUCE_BY_TYPE(p->type, join)
#undef ARGS
}

#endif
