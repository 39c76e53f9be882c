/* SPDX-License-Identifier: MIT
 *
 * What the tests of the host backend share: threads, gates, and counts of what the process holds. */
#ifndef CCL_RUNTIME_TEST_H
#define CCL_RUNTIME_TEST_H

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/host_stream.h"
#include "test.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TEST_SANITIZED 1
#endif
#endif
#ifndef TEST_SANITIZED
#define TEST_SANITIZED 0
#endif

#define TEST_OK(call) TEST_EQ(call, cclSuccess)

static inline void test_sleep_us(unsigned us)
{
    nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000L}, NULL);
}

/* False when *word is still less than value after ten seconds. */
static inline bool test_await(const uint32_t *word, uint32_t value)
{
    uint64_t end_ns = ccl_now_ns() + 10000000000u;
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < value) {
        if (ccl_now_ns() > end_ns) {
            return false;
        }
        test_sleep_us(20);
    }
    return true;
}

static inline void test_set(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static inline void test_sync(struct cclStream *stream)
{
    ccl_host_stream_wait(stream, ccl_host_stream_tail(stream));
}

/* A kernel that says it has begun and ends when it may. */
struct test_gate {
    uint32_t entered, open;
};
static inline void test_gate_kernel(const void *args, const struct ccl_host_block *block)
{
    struct test_gate *gate = *(struct test_gate *const *)args;
    (void)block;
    test_set(&gate->entered, 1);
    TEST_CHECK(test_await(&gate->open, 1));
}

/* Entries of a directory of /proc/self: threads or descriptors. */
static inline int test_count_entries(const char *path)
{
    int count = 0;
    DIR *dir = opendir(path);
    while (dir != NULL && readdir(dir) != NULL) {
        count++;
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return count;
}

static inline long test_resident_kib(void)
{
    long pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f != NULL) {
        TEST_EQ(fscanf(f, "%ld %ld", &pages, &resident), 2);
        fclose(f);
    }
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

#endif
