/* SPDX-License-Identifier: MIT
 *
 * Copies of the host backend: through the caches for data that fit them, around them (nontemporal stores, which skip the read of the
 * destination line) for data that do not. ccl_host_copy_stream ends with the store fence that must stand between nontemporal
 * stores and the flag that publishes them. */
#ifndef CCL_HOST_COPY_H
#define CCL_HOST_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef void (*ccl_host_copy_fn)(char *dst, const char *src, size_t bytes);
/* Chosen by the processor's features when the library is loaded the first time; memcpy where there is no nontemporal form. */
extern ccl_host_copy_fn ccl_host_copy_stream;

static inline void ccl_host_copy(uint64_t dst, uint64_t src, uint64_t bytes, uint32_t stream)
{
    if (stream) {
        ccl_host_copy_stream((char *)dst, (const char *)src, bytes);
    } else {
        memcpy((char *)dst, (const char *)src, bytes);
    }
}

#endif
