/* SPDX-License-Identifier: MIT
 *
 * Joining elements on a CPU. Pointers need no alignment. */
#ifndef CCL_HOST_REDUCE_H
#define CCL_HOST_REDUCE_H

#include <stdint.h>

/* dst[i] = in[0][i] op in[1][i] op ... in[n-1][i], in this order; dst may be one of the inputs. type: cclDataType_t; redop: a built-in cclRedOp_t.
 * Floating types of 8 and 16 bits are joined in float32 and rounded once, to nearest even, those of 8 bits to the largest finite value at most. */
void ccl_host_reduce_join(uint32_t type, uint32_t redop, uint64_t dst, const uint64_t *in, uint32_t n, uint64_t count);
/* dst[i] = *scalar * src[i]; scalar has the type of the elements. */
void ccl_host_reduce_scale(uint32_t type, uint64_t dst, uint64_t src, uint64_t count, const void *scalar);

#endif
