/* SPDX-License-Identifier: MIT
 *
 * All types for one instruction set (included by host_reduce.c once a set). HR_NAME(x): its function names; HR_TARGET: its attribute. */

#define RT_NAME HR_NAME
#define RT_BODY "host_reduce_type.h"
#include "reduce_types.h"
#undef RT_NAME
#undef RT_BODY

/* In the order of cclDataType_t. */
static const struct ccl_host_reduce_ops HR_NAME(ops)[] = {
#define HR_ROW(type) {HR_NAME(join_##type), HR_NAME(scale_##type)}
    HR_ROW(i8),  HR_ROW(u8),  HR_ROW(i32), HR_ROW(u32),  HR_ROW(i64),  HR_ROW(u64),
    HR_ROW(f16), HR_ROW(f32), HR_ROW(f64), HR_ROW(bf16), HR_ROW(e4m3), HR_ROW(e5m2),
#undef HR_ROW
};
