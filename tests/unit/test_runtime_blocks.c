/* SPDX-License-Identifier: MIT
 *
 * Proves that every block of a launch runs once, started in index order, on as many threads as allowed; that blocks of
 * two launches which wait for each other get through; and that a block that says it is idle gets the other streams of
 * its thread going. */
/* CTEST: labels quick tsan */
#include "runtime/host_blocks.h"
#include "runtime_test.h"

#define GRID 8
#define MAX_THREADS 3

struct launch_log {
    uint32_t runs[GRID], started, together;
    uint32_t threads;
};

/* Block i may start when at most threads - 1 lower blocks have a ticket but have not said so yet. */
static void log_kernel(const void *args, const struct ccl_host_block *block)
{
    struct launch_log *log = *(struct launch_log *const *)args;
    uint32_t before = __atomic_fetch_add(&log->started, 1, __ATOMIC_ACQ_REL);
    TEST_EQ(block->grid, GRID);
    TEST_CHECK(before + log->threads > block->index && before < block->index + log->threads);
    if (block->index > 0 && log->threads > 1) {
        test_sleep_us(100); /* so that a launch that does not wait for its helpers is seen */
    }
    __atomic_fetch_add(&log->runs[block->index], 1, __ATOMIC_RELEASE);
    /* A block waits for lower ones only: each is somebody's already. */
    for (uint32_t i = 0; i < block->index; i++) {
        TEST_CHECK(test_await(&log->runs[i], 1));
    }
    /* The first block stays a while, to see whether others start beside it. */
    uint64_t end_ns = ccl_now_ns() + 20000000;
    while (block->index == 0 && __atomic_load_n(&log->started, __ATOMIC_ACQUIRE) < log->threads &&
           ccl_now_ns() < end_ns) {
        test_sleep_us(10);
    }
    if (block->index == 0) {
        log->together = __atomic_load_n(&log->started, __ATOMIC_ACQUIRE);
    }
}

static void check_once_in_order(uint32_t threads)
{
    struct cclStream *stream;
    uint32_t side_by_side = 0;
    ccl_host_blocks_set_threads(threads);
    TEST_OK(ccl_host_stream_create(&stream));
    for (int round = 0; round < 100; round++) {
        struct launch_log log = {.threads = threads}, *arg = &log;
        TEST_OK(ccl_host_stream_launch(stream, log_kernel, GRID, &arg, sizeof(arg), 0));
        test_sync(stream);
        for (int i = 0; i < GRID; i++) {
            TEST_EQ(log.runs[i], 1);
        }
        side_by_side += log.together >= (threads == 1 ? 2 : threads);
    }
    printf("%u threads: blocks ran side by side in %u of 100 launches\n", threads, side_by_side);
    TEST_CHECK(threads == 1 ? side_by_side == 0 : side_by_side > 50);
    TEST_OK(ccl_host_stream_destroy(stream));
}

/* Block i of each side signals, then waits for block i of the other. */
struct pair {
    uint32_t flags[2][GRID];
};
struct pair_args {
    struct pair *pair;
    uint32_t side, round;
};

static void pair_kernel(const void *args, const struct ccl_host_block *block)
{
    const struct pair_args *a = args;
    uint32_t *other = &a->pair->flags[1 - a->side][block->index];
    test_set(&a->pair->flags[a->side][block->index], a->round);
    /* The other side may be one round ahead by the time we look. */
    TEST_CHECK(test_await(other, a->round));
}

struct side {
    struct pair *pair;
    uint32_t side;
};

static void *pair_thread(void *p)
{
    struct side *side = p;
    struct cclStream *stream;
    TEST_OK(ccl_host_stream_create(&stream));
    for (uint32_t round = 1; round <= 100; round++) {
        struct pair_args args = {side->pair, side->side, round};
        TEST_OK(ccl_host_stream_launch(stream, pair_kernel, GRID, &args, sizeof(args), 0));
        test_sync(stream);
    }
    TEST_OK(ccl_host_stream_destroy(stream));
    return NULL;
}

static void check_two_launches(uint32_t threads)
{
    struct pair pair = {{{0}, {0}}};
    struct side sides[2] = {{&pair, 0}, {&pair, 1}};
    pthread_t handles[2];
    ccl_host_blocks_set_threads(threads);
    for (int i = 0; i < 2; i++) {
        TEST_EQ(pthread_create(&handles[i], NULL, pair_thread, &sides[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(handles[i], NULL);
    }
}

#define RANKS 4
#define ROUNDS 41

/* A barrier of streams that all belong to one thread. */
static void meet_kernel(const void *args, const struct ccl_host_block *block)
{
    uint32_t *arrived = *(uint32_t *const *)args;
    __atomic_fetch_add(arrived, 1, __ATOMIC_ACQ_REL);
    block->idle();
    TEST_CHECK(test_await(arrived, RANKS));
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Without the call the other streams start when their workers' naps of a millisecond end. */
static void check_idle(void)
{
    struct cclStream *streams[RANKS];
    uint64_t ns[ROUNDS];
    for (int i = 0; i < RANKS; i++) {
        TEST_OK(ccl_host_stream_create(&streams[i]));
    }
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t arrived = 0, *arg = &arrived;
        test_sleep_us(10000);
        uint64_t start_ns = ccl_now_ns();
        for (int i = 0; i < RANKS; i++) {
            TEST_OK(ccl_host_stream_launch(streams[i], meet_kernel, 1, &arg, sizeof(arg), 0));
        }
        test_sync(streams[0]);
        ns[round] = ccl_now_ns() - start_ns;
        for (int i = 1; i < RANKS; i++) {
            test_sync(streams[i]);
        }
    }
    qsort(ns, ROUNDS, sizeof(ns[0]), compare_u64);
    printf("%d streams of one thread met within %.3f ms (median)\n", RANKS, (double)ns[ROUNDS / 2] / 1e6);
    TEST_CHECK(TEST_SANITIZED || ns[ROUNDS / 2] < 600000);
    for (int i = 0; i < RANKS; i++) {
        TEST_OK(ccl_host_stream_destroy(streams[i]));
    }
}

int main(void)
{
    check_once_in_order(1);
    check_once_in_order(MAX_THREADS);
    check_two_launches(1);
    check_two_launches(MAX_THREADS);
    check_idle();
    return test_result();
}
