/* SPDX-License-Identifier: MIT
 *
 * Lines of LL on a CPU: the first 56 bytes of a part and a word, then the rest of the part (ll_line_body.h). */
#ifndef CCL_LL_LINE_H
#define CCL_LL_LINE_H

#include "kernel.h"

#define LL_HEAD 56u

/* Bytes [pos, pos + bytes) of a packed part to or from their place in the line, which has the first `most` of the part, and behind it. */
CCL_DEVICE void ll_put(uint64_t line, uint32_t most, uint64_t pos, uint64_t src, uint64_t bytes)
{
    if (pos < most) {
        uint64_t k = bytes < most - pos ? bytes : most - pos;
        memcpy((char *)line + pos, (const char *)src, k);
        pos += k, src += k, bytes -= k;
    }
    if (bytes != 0) {
        memcpy((char *)line + 64 + (pos - most), (const char *)src, bytes);
    }
}

CCL_DEVICE void ll_get(uint64_t line, uint32_t most, uint64_t pos, uint64_t dst, uint64_t bytes)
{
    if (pos < most) {
        uint64_t k = bytes < most - pos ? bytes : most - pos;
        memcpy((char *)dst, (const char *)line + pos, k);
        pos += k, dst += k, bytes -= k;
    }
    if (bytes != 0) {
        memcpy((char *)dst, (const char *)line + 64 + (pos - most), bytes);
    }
}

#endif
