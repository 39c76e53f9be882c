/* SPDX-License-Identifier: MIT
 *
 * Proves that the offset allocator places by best fit then lowest offset, rounds, merges, refuses, and hashes its
 * whole state. */
/* CTEST: labels quick */
#include "heap/alloc.h"

#include <string.h>

#include "test.h"
#include "util/log.h"

#define KIB 1024u

static struct ccl_alloc *make(size_t bytes)
{
    struct ccl_alloc *a = NULL;
    TEST_EQ(ccl_alloc_create(bytes, &a), cclSuccess);
    return a;
}

static size_t take(struct ccl_alloc *a, size_t bytes)
{
    size_t off = 12345;
    TEST_EQ(ccl_alloc_take(a, bytes, &off), cclSuccess);
    TEST_EQ(ccl_alloc_check(a), cclSuccess);
    return off;
}

static void drop(struct ccl_alloc *a, size_t off)
{
    TEST_EQ(ccl_alloc_release(a, off), cclSuccess);
    TEST_EQ(ccl_alloc_check(a), cclSuccess);
}

static void test_arguments(void)
{
    struct ccl_alloc *a = NULL;
    TEST_EQ(ccl_alloc_create(0, &a), cclInvalidArgument);
    TEST_EQ(ccl_alloc_create(1000, &a), cclInvalidArgument);
    TEST_CHECK(strstr(ccl_error_last(), "1000") != NULL);
    TEST_CHECK(a == NULL);
    ccl_alloc_destroy(NULL);

    a = make(4 * KIB);
    size_t off = 77;
    TEST_EQ(ccl_alloc_take(a, 0, &off), cclInvalidArgument);
    TEST_EQ(ccl_alloc_take(a, 4 * KIB + 1, &off), cclSystemError);
    TEST_EQ(ccl_alloc_take(a, SIZE_MAX, &off), cclSystemError);
    TEST_EQ(ccl_alloc_take(a, SIZE_MAX - 100, &off), cclSystemError);
    TEST_EQ(off, 77);
    TEST_EQ(ccl_alloc_release(a, 0), cclInvalidArgument);
    TEST_EQ(take(a, 300), 0);
    TEST_EQ(ccl_alloc_release(a, 256), cclInvalidArgument);
    TEST_EQ(ccl_alloc_release(a, 4 * KIB), cclInvalidArgument);
    drop(a, 0);
    TEST_EQ(ccl_alloc_release(a, 0), cclInvalidArgument);
    ccl_alloc_destroy(a);
}

static void test_best_fit(void)
{
    struct ccl_alloc *a = make(64 * KIB);
    size_t off[8];
    static const size_t sizes[8] = {4 * KIB, 256, 2 * KIB, 256, 1 * KIB, 256, 2 * KIB, 256};
    size_t end = 0;
    for (int i = 0; i < 8; i++) {
        off[i] = take(a, sizes[i]);
        TEST_EQ(off[i], end);
        end += sizes[i];
    }
    for (int i = 0; i < 8; i += 2) {
        drop(a, off[i]);
    }
    /* Holes of 4, 2, 1, 2 KiB, then the rest of the chunk. */
    TEST_EQ(take(a, 900), off[4]);     /* the smallest that is enough, though others are lower */
    TEST_EQ(take(a, 2 * KIB), off[2]); /* of two equal ones the lower */
    TEST_EQ(take(a, 2 * KIB), off[6]);
    TEST_EQ(take(a, 3 * KIB), off[0]);
    TEST_EQ(take(a, 1 * KIB), off[0] + 3 * KIB);
    TEST_EQ(take(a, 1), end);
    ccl_alloc_destroy(a);
}

static void test_merge_and_find(void)
{
    struct ccl_alloc *a = make(4 * KIB);
    TEST_CHECK(ccl_alloc_empty(a));
    TEST_EQ(ccl_alloc_largest(a), 4 * KIB);
    uint64_t fresh = ccl_alloc_hash(a);
    size_t x = take(a, 1 * KIB), y = take(a, 1 * KIB), z = take(a, 1 * KIB), w = take(a, 1 * KIB);
    TEST_CHECK(!ccl_alloc_empty(a));
    TEST_EQ(ccl_alloc_largest(a), 0);
    size_t start = 1, bytes = 1;
    TEST_CHECK(ccl_alloc_find(a, y + 1023, &start, &bytes));
    TEST_EQ(start, y);
    TEST_EQ(bytes, 1 * KIB);
    TEST_CHECK(!ccl_alloc_find(a, 4 * KIB, &start, &bytes));
    drop(a, x);
    TEST_CHECK(!ccl_alloc_find(a, x, &start, &bytes));
    drop(a, z);
    TEST_EQ(ccl_alloc_largest(a), 1 * KIB);
    uint64_t holes = ccl_alloc_hash(a);
    drop(a, y); /* joins both neighbours */
    TEST_EQ(ccl_alloc_largest(a), 3 * KIB);
    TEST_CHECK(ccl_alloc_hash(a) != holes);
    TEST_EQ(take(a, 2 * KIB + 1), 0);
    drop(a, 0);
    drop(a, w);
    TEST_CHECK(ccl_alloc_empty(a));
    TEST_EQ(ccl_alloc_largest(a), 4 * KIB);
    TEST_CHECK(ccl_alloc_hash(a) == fresh);
    ccl_alloc_destroy(a);
}

/* The hash sees where blocks begin and whether they are taken, and nothing of the way there. */
static void test_hash(void)
{
    struct ccl_alloc *a = make(8 * KIB), *b = make(8 * KIB), *c = make(8 * KIB);
    size_t a0 = take(a, 512);
    take(a, 512);
    drop(a, a0);
    size_t b0 = take(b, 512), b1 = take(b, 256), b2 = take(b, 256);
    drop(b, b1);
    drop(b, b2);
    take(b, 512);
    drop(b, b0);
    TEST_CHECK(ccl_alloc_hash(a) == ccl_alloc_hash(b));
    take(c, 512);
    take(c, 512);
    TEST_CHECK(ccl_alloc_hash(a) != ccl_alloc_hash(c));
    ccl_alloc_destroy(a);
    ccl_alloc_destroy(b);
    ccl_alloc_destroy(c);
}

/* Ten thousand live blocks: a list search in each call would take seconds. */
static void test_many(void)
{
    enum { N = 10000 };
    static size_t off[N];
    struct ccl_alloc *a = make((size_t)N * 256);
    uint64_t begin = ccl_now_ns();
    for (int i = 0; i < N; i++) {
        TEST_EQ(ccl_alloc_take(a, 256, &off[i]), cclSuccess);
    }
    for (int i = 0; i < N; i += 2) {
        TEST_EQ(ccl_alloc_release(a, off[i]), cclSuccess);
    }
    for (int i = 0; i < N; i += 2) {
        TEST_EQ(ccl_alloc_take(a, 256, &off[i]), cclSuccess);
        TEST_EQ(off[i], (size_t)i * 256);
    }
    double ms = (double)(ccl_now_ns() - begin) / 1e6;
    TEST_EQ(ccl_alloc_check(a), cclSuccess);
    TEST_CHECK(ms < 2000);
    printf("%d operations in %.2f ms\n", 2 * N, ms);
    ccl_alloc_destroy(a);
}

int main(void)
{
    test_arguments();
    test_best_fit();
    test_merge_and_find();
    test_hash();
    test_many();
    return test_result();
}
