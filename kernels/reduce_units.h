/* SPDX-License-Identifier: MIT
 *
 * Joining what packet pairs of LL carry: 8 bytes of elements of each rank, a lane a rank (parts_ll_packets.h). */
#ifndef CCL_REDUCE_UNITS_H
#define CCL_REDUCE_UNITS_H

#include "reduce_lanes.h"

#define RT_WORDS 2
#define RT_NAME(x) units_##x
#define RT_BODY "reduce_unit_type.h"
#include "reduce_types.h"
#undef RT_WORDS
#undef RT_NAME
#undef RT_BODY

#endif
