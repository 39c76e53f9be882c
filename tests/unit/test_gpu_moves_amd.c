/* SPDX-License-Identifier: MIT
 *
 * unit.gpu_moves with the body as it is on AMD: destinations side by side, one exit for all failures. */
/* CTEST: labels quick; timeout 120 */
#define CCL_FLAT_UNITS 0
#include "test_gpu_moves.c"
