/* SPDX-License-Identifier: MIT
 *
 * The types of reductions, one after the other: how each is stored, joined and rounded. Includes RT_BODY once a type, which takes RT_NAME(x) as the names of its
 * functions. Types of 8 and 16 bits are joined in 32 bits. */

#define RT_SAME(x) (x)
#define RT_ADD(x, y) ((x) + (y))
#define RT_MUL(x, y) ((x) * (y))
#define RT_DIVIDE(x, n) ((x) / (n))
#define RT_DIVIDE_FLOAT(x, n) ((x) / (float)(n))
#define RT_NEVER(x) 0
#define RT_IS_NAN(x) ((x) != (x))

/* Small integers: in 32 bits, cut off when stored, and before an average is taken: the sum wraps like that of any other integer type. */
#define NAME(x) RT_NAME(x##_i8)
#define T int8_t
#define A int32_t
#define LOAD RT_SAME
#define STORE(x) ((int8_t)(uint8_t)(uint32_t)(x))
#define ADD(x, y) ((int32_t)((uint32_t)(x) + (uint32_t)(y)))
#define MUL(x, y) ((int32_t)((uint32_t)(x) * (uint32_t)(y)))
#define DIVIDE(x, n) ((int8_t)(uint8_t)(uint32_t)(x) / (int32_t)(n))
#define NOT_NUMBER RT_NEVER
#include RT_BODY

#define NAME(x) RT_NAME(x##_u8)
#define T uint8_t
#define A uint32_t
#define LOAD RT_SAME
#define STORE(x) ((uint8_t)(x))
#define ADD RT_ADD
#define MUL RT_MUL
#define DIVIDE(x, n) ((uint8_t)(x) / (n))
#define NOT_NUMBER RT_NEVER
#include RT_BODY

#define NAME(x) RT_NAME(x##_i32)
#define T int32_t
#define A int32_t
#define LOAD RT_SAME
#define STORE RT_SAME
#define ADD(x, y) ((int32_t)((uint32_t)(x) + (uint32_t)(y)))
#define MUL(x, y) ((int32_t)((uint32_t)(x) * (uint32_t)(y)))
#define DIVIDE(x, n) ((x) / (int32_t)(n))
#define NOT_NUMBER RT_NEVER
#include RT_BODY

#define NAME(x) RT_NAME(x##_u32)
#define T uint32_t
#define A uint32_t
#define LOAD RT_SAME
#define STORE RT_SAME
#define ADD RT_ADD
#define MUL RT_MUL
#define DIVIDE RT_DIVIDE
#define NOT_NUMBER RT_NEVER
#include RT_BODY

#define NAME(x) RT_NAME(x##_i64)
#define T int64_t
#define A int64_t
#define LOAD RT_SAME
#define STORE RT_SAME
#define ADD(x, y) ((int64_t)((uint64_t)(x) + (uint64_t)(y)))
#define MUL(x, y) ((int64_t)((uint64_t)(x) * (uint64_t)(y)))
#define DIVIDE(x, n) ((x) / (int64_t)(n))
#define NOT_NUMBER RT_NEVER
#include RT_BODY

#define NAME(x) RT_NAME(x##_u64)
#define T uint64_t
#define A uint64_t
#define LOAD RT_SAME
#define STORE RT_SAME
#define ADD RT_ADD
#define MUL RT_MUL
#define DIVIDE RT_DIVIDE
#define NOT_NUMBER RT_NEVER
#include RT_BODY

#define NAME(x) RT_NAME(x##_f16)
#define T uint16_t
#define A float
#define LOAD ccl_float_of_f16
#define STORE ccl_f16_of_float
#define ADD RT_ADD
#define MUL RT_MUL
#define DIVIDE RT_DIVIDE_FLOAT
#define NOT_NUMBER RT_IS_NAN
#include RT_BODY

#define NAME(x) RT_NAME(x##_f32)
#define T float
#define A float
#define LOAD RT_SAME
#define STORE RT_SAME
#define ADD RT_ADD
#define MUL RT_MUL
#define DIVIDE RT_DIVIDE_FLOAT
#define NOT_NUMBER RT_IS_NAN
#include RT_BODY

#define NAME(x) RT_NAME(x##_f64)
#define T double
#define A double
#define LOAD RT_SAME
#define STORE RT_SAME
#define ADD RT_ADD
#define MUL RT_MUL
#define DIVIDE RT_DIVIDE
#define NOT_NUMBER RT_IS_NAN
#include RT_BODY

#define NAME(x) RT_NAME(x##_bf16)
#define T uint16_t
#define A float
#define LOAD ccl_float_of_bf16
#define STORE ccl_bf16_of_float
#define ADD RT_ADD
#define MUL RT_MUL
#define DIVIDE RT_DIVIDE_FLOAT
#define NOT_NUMBER RT_IS_NAN
#include RT_BODY

#define NAME(x) RT_NAME(x##_e4m3)
#define T uint8_t
#define A float
#define LOAD ccl_float_of_e4m3
#define STORE ccl_e4m3_of_float
#define ADD RT_ADD
#define MUL RT_MUL
#define DIVIDE RT_DIVIDE_FLOAT
#define NOT_NUMBER RT_IS_NAN
#include RT_BODY

#define NAME(x) RT_NAME(x##_e5m2)
#define T uint8_t
#define A float
#define LOAD ccl_float_of_e5m2
#define STORE ccl_e5m2_of_float
#define ADD RT_ADD
#define MUL RT_MUL
#define DIVIDE RT_DIVIDE_FLOAT
#define NOT_NUMBER RT_IS_NAN
#include RT_BODY

#undef RT_SAME
#undef RT_ADD
#undef RT_MUL
#undef RT_DIVIDE
#undef RT_DIVIDE_FLOAT
#undef RT_NEVER
#undef RT_IS_NAN
