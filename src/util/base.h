/* SPDX-License-Identifier: MIT
 *
 * Small things every module needs: error propagation, branch hints, time, rounding. The only file with GNU extensions. */
#ifndef CCL_UTIL_BASE_H
#define CCL_UTIL_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "ccl/ccl.h"

#define CCL_LIKELY(x) __builtin_expect(!!(x), 1)
#define CCL_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define CCL_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define CCL_CACHE_LINE 64
#define CCL_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* Return the error of a call that has logged it already. */
#define CCL_TRY(call)                                   \
    do {                                                \
        cclResult_t try_rc_ = (call);                   \
        if (CCL_UNLIKELY(try_rc_ != cclSuccess)) {      \
            return try_rc_;                             \
        }                                               \
    } while (0)

/* The same where something must be undone: stores the code into the local rc. */
#define CCL_TRY_GOTO(call, label)                       \
    do {                                                \
        rc = (call);                                    \
        if (CCL_UNLIKELY(rc != cclSuccess)) {           \
            goto label;                                 \
        }                                               \
    } while (0)

/* First detector: log, store the last error, return. */
#define CCL_CHECK(cond, code, subsys, ...)              \
    do {                                                \
        if (CCL_UNLIKELY(!(cond))) {                    \
            return ccl_error_set(code, subsys, __VA_ARGS__); \
        }                                               \
    } while (0)

static inline uint64_t ccl_now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline size_t ccl_round_up(size_t value, size_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

static inline size_t ccl_min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t ccl_max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

#endif
