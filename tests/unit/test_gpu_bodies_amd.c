/* SPDX-License-Identifier: MIT
 *
 * unit.gpu_bodies with the bodies as they are on AMD: direct stores by push_direct_tiles.h, one exit for all failures. */
/* CTEST: labels quick; timeout 120 */
#define CCL_FLAT_UNITS 0
#include "test_gpu_bodies.c"
