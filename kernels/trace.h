/* SPDX-License-Identifier: MIT
 *
 * Where a kernel notes the time. Only the traced form of the kernels (compiled a second time with CCL_TRACED) has any code for it. */
#ifndef CCL_TRACE_KERNEL_H
#define CCL_TRACE_KERNEL_H

#include "kernel.h"

/* One thread of a block notes these, in this order, once an operation each. */
enum ccl_trace_point {
    CCL_TRACE_START, /* the block has its operation number */
    CCL_TRACE_MET,   /* it has heard from the peers it waits for before its first store (LL: its packets are out) */
    CCL_TRACE_SENT,  /* its data are out */
    CCL_TRACE_END    /* everything it waits for is in */
};

#define CCL_TRACE_NOTE(a, n, point) ((void)(n))

#endif
