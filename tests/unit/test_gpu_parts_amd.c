/* SPDX-License-Identifier: MIT
 *
 * unit.gpu_parts with the body as it is on AMD: one exit for all failures. */
/* CTEST: labels quick; timeout 120 */
#define CCL_FLAT_UNITS 0
#include "test_gpu_parts.c"
