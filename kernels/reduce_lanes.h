/* SPDX-License-Identifier: MIT
 *
 * What the joining of elements on a GPU is made of, whatever the width: single elements byte by byte, the choice of the type, the scalar of the call. */
#ifndef CCL_REDUCE_LANES_H
#define CCL_REDUCE_LANES_H

#include "floats.h"
#include "kernel.h"

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

/* Calls the function of that type (cclDataType_t) with ARGS. */
#define REDUCE_BY_TYPE(type, call)    \
    switch (type) {                   \
    case 0: call##_i8 ARGS; break;    \
    case 1: call##_u8 ARGS; break;    \
    case 2: call##_i32 ARGS; break;   \
    case 3: call##_u32 ARGS; break;   \
    case 4: call##_i64 ARGS; break;   \
    case 5: call##_u64 ARGS; break;   \
    case 6: call##_f16 ARGS; break;   \
    case 7: call##_f32 ARGS; break;   \
    case 8: call##_f64 ARGS; break;   \
    case 9: call##_bf16 ARGS; break;  \
    case 10: call##_e4m3 ARGS; break; \
    default: call##_e5m2 ARGS; break; \
    }

CCL_DEVICE uint64_t reduce_scalar_bits(CCL_PARTS p)
{
    return p->parts & CCL_PARTS_SCALAR_AT ? reduce_get_bytes(p->scalar, p->esize) : p->scalar;
}

#endif
