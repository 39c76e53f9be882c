/* SPDX-License-Identifier: MIT
 *
 * Proves that an enqueue costs less than the promised 100 ns and that a stream adds little to the tasks it runs, by the
 * best of many repeats; prints the times. The limits are wide, because other work shares the cores. */
/* CTEST: labels quick */
#include "runtime/host_blocks.h"
#include "runtime/host_event.h"
#include "runtime_test.h"

#define BATCH 100
#define REPEATS (TEST_SANITIZED ? 50 : 2000)

struct args {
    unsigned char bytes[900];
};

static unsigned calls;

static void count_call(const void *args, const struct ccl_host_block *block)
{
    (void)args;
    (void)block;
    calls++;
}

static void empty_kernel(const void *args, const struct ccl_host_block *block)
{
    (void)args;
    (void)block;
}

/* Best times over the repeats, in ns: of an enqueue, of running a task in a batch, of an enqueue and a synchronisation.
 */
static void measure(struct cclStream *stream, size_t args_bytes, double best[3])
{
    static const struct args args;
    best[0] = best[1] = best[2] = 1e9;
    for (int r = 0; r < REPEATS; r++) {
        uint64_t t0 = ccl_now_ns();
        for (int i = 0; i < BATCH; i++) {
            TEST_EQ(ccl_host_stream_launch(stream, count_call, 1, &args, args_bytes, 0), cclSuccess);
        }
        uint64_t t1 = ccl_now_ns();
        ccl_host_stream_wait(stream, ccl_host_stream_tail(stream));
        uint64_t t2 = ccl_now_ns();
        for (int i = 0; i < BATCH; i++) {
            TEST_EQ(ccl_host_stream_launch(stream, count_call, 1, &args, args_bytes, 0), cclSuccess);
            ccl_host_stream_wait(stream, ccl_host_stream_tail(stream));
        }
        uint64_t t3 = ccl_now_ns();
        double times[3] = {(double)(t1 - t0) / BATCH, (double)(t2 - t1) / BATCH, (double)(t3 - t2) / BATCH};
        for (int k = 0; k < 3; k++) {
            best[k] = times[k] < best[k] ? times[k] : best[k];
        }
    }
}

/* A launch of several empty blocks in a batch, and an event recorded and waited for on another stream: printed, without a limit. */
static void measure_others(struct cclStream *stream)
{
    struct cclStream *other;
    struct cclEvent *event;
    for (uint32_t threads = 1; threads <= 2; threads++) {
        double best = 1e9;
        ccl_host_blocks_set_threads(threads);
        for (int r = 0; r < REPEATS / 10; r++) {
            for (int i = 0; i < BATCH; i++) {
                TEST_OK(ccl_host_stream_launch(stream, empty_kernel, 8, NULL, 0, 0));
            }
            uint64_t start_ns = ccl_now_ns();
            test_sync(stream);
            double ns = (double)(ccl_now_ns() - start_ns) / BATCH;
            best = ns < best ? ns : best;
        }
        printf("launch of 8 empty blocks, %u threads: %.1f ns\n", threads, best);
    }
    TEST_OK(ccl_host_stream_create(&other));
    TEST_OK(ccl_host_event_create(&event));
    double best = 1e9;
    for (int r = 0; r < REPEATS; r++) {
        uint64_t start_ns = ccl_now_ns();
        for (int i = 0; i < BATCH; i++) {
            TEST_OK(ccl_host_event_record(event, stream));
            TEST_OK(ccl_host_event_wait(other, event));
        }
        test_sync(other);
        double ns = (double)(ccl_now_ns() - start_ns) / BATCH;
        best = ns < best ? ns : best;
    }
    printf("event record and wait on another stream, all costs: %.1f ns\n", best);
    test_sync(stream);
    TEST_OK(ccl_host_event_destroy(event));
    TEST_OK(ccl_host_stream_destroy(other));
}

int main(void)
{
    static const size_t sizes[] = {0, 300, 512, 900};
    struct cclStream *stream;
    TEST_OK(ccl_host_stream_create(&stream));
    printf("args bytes   enqueue ns   run ns   enqueue and sync ns\n");
    for (size_t i = 0; i < CCL_ARRAY_LEN(sizes); i++) {
        double best[3];
        calls = 0;
        measure(stream, sizes[i], best);
        printf("%10zu   %10.1f   %6.1f   %19.1f\n", sizes[i], best[0], best[1], best[2]);
        TEST_EQ(calls, 2 * BATCH * REPEATS);
        if (!TEST_SANITIZED) {
            TEST_CHECK(best[0] < 100);
            TEST_CHECK(best[1] < 100);
            TEST_CHECK(best[2] < 200);
        }
    }
    measure_others(stream);
    TEST_OK(ccl_host_stream_destroy(stream));
    return test_result();
}
