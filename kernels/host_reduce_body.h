/* SPDX-License-Identifier: MIT
 *
 * All types for one instruction set (included by host_reduce.c once a set). HR_NAME(x): its function names; HR_TARGET: its attribute. */

#define HR_SAME(x) (x)
#define HR_ADD(x, y) ((x) + (y))
#define HR_MUL(x, y) ((x) * (y))
#define HR_DIVIDE(x, n) ((x) / (n))
#define HR_DIVIDE_FLOAT(x, n) ((x) / (float)(n))
#define HR_NEVER(x) 0
#define HR_IS_NAN(x) ((x) != (x))

/* Small integers: in 32 bits, cut off when stored. */
#define NAME(x) HR_NAME(x##_i8)
#define T int8_t
#define A int32_t
#define LOAD HR_SAME
#define STORE(x) ((int8_t)(uint8_t)(uint32_t)(x))
#define ADD(x, y) ((int32_t)((uint32_t)(x) + (uint32_t)(y)))
#define MUL(x, y) ((int32_t)((uint32_t)(x) * (uint32_t)(y)))
#define DIVIDE(x, n) ((x) / (int32_t)(n))
#define NOT_NUMBER HR_NEVER
#include "host_reduce_type.h"

#define NAME(x) HR_NAME(x##_u8)
#define T uint8_t
#define A uint32_t
#define LOAD HR_SAME
#define STORE(x) ((uint8_t)(x))
#define ADD HR_ADD
#define MUL HR_MUL
#define DIVIDE HR_DIVIDE
#define NOT_NUMBER HR_NEVER
#include "host_reduce_type.h"

#define NAME(x) HR_NAME(x##_i32)
#define T int32_t
#define A int32_t
#define LOAD HR_SAME
#define STORE HR_SAME
#define ADD(x, y) ((int32_t)((uint32_t)(x) + (uint32_t)(y)))
#define MUL(x, y) ((int32_t)((uint32_t)(x) * (uint32_t)(y)))
#define DIVIDE(x, n) ((x) / (int32_t)(n))
#define NOT_NUMBER HR_NEVER
#include "host_reduce_type.h"

#define NAME(x) HR_NAME(x##_u32)
#define T uint32_t
#define A uint32_t
#define LOAD HR_SAME
#define STORE HR_SAME
#define ADD HR_ADD
#define MUL HR_MUL
#define DIVIDE HR_DIVIDE
#define NOT_NUMBER HR_NEVER
#include "host_reduce_type.h"

#define NAME(x) HR_NAME(x##_i64)
#define T int64_t
#define A int64_t
#define LOAD HR_SAME
#define STORE HR_SAME
#define ADD(x, y) ((int64_t)((uint64_t)(x) + (uint64_t)(y)))
#define MUL(x, y) ((int64_t)((uint64_t)(x) * (uint64_t)(y)))
#define DIVIDE(x, n) ((x) / (int64_t)(n))
#define NOT_NUMBER HR_NEVER
#include "host_reduce_type.h"

#define NAME(x) HR_NAME(x##_u64)
#define T uint64_t
#define A uint64_t
#define LOAD HR_SAME
#define STORE HR_SAME
#define ADD HR_ADD
#define MUL HR_MUL
#define DIVIDE HR_DIVIDE
#define NOT_NUMBER HR_NEVER
#include "host_reduce_type.h"

#define NAME(x) HR_NAME(x##_f16)
#define T uint16_t
#define A float
#define LOAD ccl_float_of_f16
#define STORE ccl_f16_of_float
#define ADD HR_ADD
#define MUL HR_MUL
#define DIVIDE HR_DIVIDE_FLOAT
#define NOT_NUMBER HR_IS_NAN
#include "host_reduce_type.h"

#define NAME(x) HR_NAME(x##_f32)
#define T float
#define A float
#define LOAD HR_SAME
#define STORE HR_SAME
#define ADD HR_ADD
#define MUL HR_MUL
#define DIVIDE HR_DIVIDE_FLOAT
#define NOT_NUMBER HR_IS_NAN
#include "host_reduce_type.h"

#define NAME(x) HR_NAME(x##_f64)
#define T double
#define A double
#define LOAD HR_SAME
#define STORE HR_SAME
#define ADD HR_ADD
#define MUL HR_MUL
#define DIVIDE HR_DIVIDE
#define NOT_NUMBER HR_IS_NAN
#include "host_reduce_type.h"

#define NAME(x) HR_NAME(x##_bf16)
#define T uint16_t
#define A float
#define LOAD ccl_float_of_bf16
#define STORE ccl_bf16_of_float
#define ADD HR_ADD
#define MUL HR_MUL
#define DIVIDE HR_DIVIDE_FLOAT
#define NOT_NUMBER HR_IS_NAN
#include "host_reduce_type.h"

#define NAME(x) HR_NAME(x##_e4m3)
#define T uint8_t
#define A float
#define LOAD ccl_float_of_e4m3
#define STORE ccl_e4m3_of_float
#define ADD HR_ADD
#define MUL HR_MUL
#define DIVIDE HR_DIVIDE_FLOAT
#define NOT_NUMBER HR_IS_NAN
#include "host_reduce_type.h"

#define NAME(x) HR_NAME(x##_e5m2)
#define T uint8_t
#define A float
#define LOAD ccl_float_of_e5m2
#define STORE ccl_e5m2_of_float
#define ADD HR_ADD
#define MUL HR_MUL
#define DIVIDE HR_DIVIDE_FLOAT
#define NOT_NUMBER HR_IS_NAN
#include "host_reduce_type.h"

/* In the order of cclDataType_t. */
static const struct ccl_host_reduce_ops HR_NAME(ops)[] = {
#define HR_ROW(type) {HR_NAME(join_##type), HR_NAME(scale_##type)}
    HR_ROW(i8),  HR_ROW(u8),  HR_ROW(i32), HR_ROW(u32),  HR_ROW(i64),  HR_ROW(u64),
    HR_ROW(f16), HR_ROW(f32), HR_ROW(f64), HR_ROW(bf16), HR_ROW(e4m3), HR_ROW(e5m2),
#undef HR_ROW
};

#undef HR_SAME
#undef HR_ADD
#undef HR_MUL
#undef HR_DIVIDE
#undef HR_DIVIDE_FLOAT
#undef HR_NEVER
#undef HR_IS_NAN
