/* SPDX-License-Identifier: MIT
 *
 * The test harness: checks that print both values, skip with 77, at most ten failure lines. A test file begins with one sentence of
 * what it proves. */
#ifndef CCL_TEST_H
#define CCL_TEST_H

#include <stdio.h>
#include <stdlib.h>

static int test_failures;
static int test_rank = -1; /* set by tests with several ranks, printed in front */

#define TEST_SKIP 77

#define TEST_FAIL(...)                                                                     \
    do {                                                                                   \
        if (test_failures++ < 10) {                                                        \
            char test_line_[4096];                                                         \
            int test_n_ = snprintf(test_line_, sizeof(test_line_), "%s:%d: [%d] ", __FILE__, __LINE__, test_rank); \
            snprintf(test_line_ + test_n_, sizeof(test_line_) - (size_t)test_n_, __VA_ARGS__); \
            fprintf(stderr, "%s\n", test_line_);                                           \
        }                                                                                  \
    } while (0)

#define TEST_CHECK(cond)                          \
    do {                                          \
        if (!(cond)) {                            \
            TEST_FAIL("failed: %s", #cond);       \
        }                                         \
    } while (0)

#define TEST_EQ(got, want)                                                                       \
    do {                                                                                         \
        long long test_got_ = (long long)(got), test_want_ = (long long)(want);                  \
        if (test_got_ != test_want_) {                                                           \
            TEST_FAIL("%s: got %lld, want %lld (%s)", #got, test_got_, test_want_, #want);       \
        }                                                                                        \
    } while (0)

/* Print the reason and leave with the code that CTest counts as skipped. */
#define TEST_SKIP_NOW(...)                \
    do {                                  \
        printf("SKIPPED: " __VA_ARGS__);  \
        printf("\n");                     \
        exit(TEST_SKIP);                  \
    } while (0)

static inline int test_result(void)
{
    if (test_failures > 0) {
        fprintf(stderr, "[%d] %d checks failed\n", test_rank, test_failures);
    }
    return test_failures > 0;
}

#endif
