/* SPDX-License-Identifier: MIT
 *
 * Proves that a stream runs its tasks once and in order whoever enqueues, waits or does neither; that a wait ends at
 * its position; and that streams leave nothing behind and hold up neither a fork nor the end of the process. */
/* CTEST: labels quick tsan */
#include <signal.h>
#include <sys/wait.h>

#include "runtime/host_futex.h"
#include "runtime_test.h"

#define THREADS 4

struct step {
    uint64_t *next;
    uint64_t number;
    unsigned char pattern[4000];
};

/* Counts up; a step out of order or with foreign bytes is reported. */
static void step_kernel(const void *args, const struct ccl_host_block *block)
{
    const struct step *s = args;
    TEST_EQ(*s->next, s->number);
    TEST_EQ(block->grid, 1);
    for (size_t i = 0; i < s->number % sizeof(s->pattern); i += 97) {
        if (s->pattern[i] != (unsigned char)(s->number + i)) {
            TEST_EQ(s->pattern[i], (unsigned char)(s->number + i));
        }
    }
    *s->next = s->number + 1;
}

/* Arguments of every size, so that segments end everywhere. */
static void enqueue_step(struct cclStream *stream, uint64_t *next, uint64_t number)
{
    struct step s;
    size_t bytes = number % sizeof(s.pattern);
    s.next = next;
    s.number = number;
    for (size_t i = 0; i < bytes; i++) {
        s.pattern[i] = (unsigned char)(number + i);
    }
    TEST_OK(ccl_host_stream_launch(stream, step_kernel, 1, &s, offsetof(struct step, pattern) + bytes, 0));
}

/* A queue that cannot drain grows, keeps the order, and is small again after some ordinary work. */
static void check_order_and_growth(void)
{
    struct cclStream *stream;
    struct test_gate gate = {0, 0}, *arg = &gate;
    uint64_t next = 0, number = 0;
    TEST_OK(ccl_host_stream_create(&stream));
    TEST_OK(ccl_host_stream_launch(stream, test_gate_kernel, 1, &arg, sizeof(arg), 0));
    for (; number < 5000; number++) {
        enqueue_step(stream, &next, number);
    }
    uint32_t grown = stream->num_segments;
    test_set(&gate.open, 1);
    test_sync(stream);
    TEST_EQ(next, number);
    for (int round = 0; round < 400; round++) {
        for (int i = 0; i < 25; i++) {
            enqueue_step(stream, &next, number++);
        }
        test_sync(stream);
        TEST_EQ(next, number);
    }
    printf("segments: %u after a burst, %u later\n", grown, stream->num_segments);
    TEST_CHECK(grown > 100 && stream->num_segments <= 4);
    TEST_OK(ccl_host_stream_destroy(stream));
}

struct shared {
    struct cclStream *stream;
    uint64_t next[THREADS];
    bool sync;
};
struct thread_arg {
    struct shared *shared;
    int index;
};

static void *enqueue_thread(void *p)
{
    struct thread_arg *a = p;
    for (uint64_t i = 0; i < 3000; i++) {
        enqueue_step(a->shared->stream, &a->shared->next[a->index], i);
        if (a->shared->sync) {
            test_sync(a->shared->stream);
            TEST_EQ(a->shared->next[a->index], i + 1);
        }
    }
    return NULL;
}

/* Each thread's tasks run in its order; with sync each finds its own done. */
static void check_threads(bool sync)
{
    struct shared shared = {.sync = sync};
    struct thread_arg args[THREADS];
    pthread_t threads[THREADS];
    TEST_OK(ccl_host_stream_create(&shared.stream));
    for (int i = 0; i < THREADS; i++) {
        args[i] = (struct thread_arg){&shared, i};
        TEST_EQ(pthread_create(&threads[i], NULL, enqueue_thread, &args[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    test_sync(shared.stream);
    for (int i = 0; i < THREADS; i++) {
        TEST_EQ(shared.next[i], 3000);
    }
    TEST_OK(ccl_host_stream_destroy(shared.stream));
}

static void flag_kernel(const void *args, const struct ccl_host_block *block)
{
    (void)block;
    test_set(*(uint32_t *const *)args, 1);
}

/* Nobody waits for the stream. pause_us before: the worker naps, or (after 100 ms) sleeps without limit. */
static void check_worker(unsigned pause_us, int rounds)
{
    struct cclStream *stream;
    uint64_t best_ns = UINT64_MAX;
    TEST_OK(ccl_host_stream_create(&stream));
    for (int i = 0; i < rounds; i++) {
        uint32_t flag = 0, *arg = &flag;
        uint64_t start_ns = ccl_now_ns();
        TEST_OK(ccl_host_stream_launch(stream, flag_kernel, 1, &arg, sizeof(arg), 0));
        TEST_CHECK(test_await(&flag, 1));
        uint64_t ns = ccl_now_ns() - start_ns;
        best_ns = ns < best_ns ? ns : best_ns;
        test_sleep_us(pause_us);
        if (pause_us > 200000) {
            ccl_host_spin_lock(&stream->enq);
            TEST_EQ(stream->worker_state, CCL_HOST_WORKER_SLEEPS);
            ccl_host_spin_unlock(&stream->enq);
        }
    }
    printf("worker stepped in after %.3f ms at best, %u us pause\n", (double)best_ns / 1e6, pause_us);
    TEST_CHECK(best_ns < 5000000);
    TEST_OK(ccl_host_stream_destroy(stream));
}

/* A wait for a position ends there although the runner goes on behind it; query tells the truth and starts the worker.
 */
static void check_wait_position(void)
{
    for (int round = 0; round < 50; round++) {
        struct cclStream *stream;
        struct test_gate gates[2] = {{0, 0}, {0, 0}};
        TEST_OK(ccl_host_stream_create(&stream));
        uint64_t middle = 0;
        for (int i = 0; i < 2; i++) {
            struct test_gate *arg = &gates[i];
            TEST_OK(ccl_host_stream_launch(stream, test_gate_kernel, 1, &arg, sizeof(arg), 0));
            middle = i == 0 ? ccl_host_stream_tail(stream) : middle;
        }
        ccl_host_stream_nudge(stream);
        TEST_CHECK(test_await(&gates[0].entered, 1));
        TEST_CHECK(!ccl_host_stream_reached(stream, middle));
        TEST_CHECK(!ccl_host_stream_try_run(stream, UINT64_MAX));
        test_set(&gates[0].open, 1);
        ccl_host_stream_wait(stream, middle);
        TEST_CHECK(ccl_host_stream_reached(stream, middle));
        TEST_CHECK(!ccl_host_stream_reached(stream, ccl_host_stream_tail(stream)));
        test_set(&gates[1].open, 1);
        test_sync(stream);
        TEST_EQ(gates[1].entered, 1);
        TEST_OK(ccl_host_stream_destroy(stream));
    }
}

static void *open_later(void *p)
{
    struct test_gate *gate = p;
    test_await(&gate->entered, 1);
    test_sleep_us(5000);
    test_set(&gate->open, 1);
    return NULL;
}

static void check_destroy_waits(void)
{
    struct cclStream *stream;
    struct test_gate gate = {0, 0}, *arg = &gate;
    uint32_t flag = 0, *flag_arg = &flag;
    pthread_t thread;
    TEST_OK(ccl_host_stream_create(&stream));
    TEST_OK(ccl_host_stream_launch(stream, test_gate_kernel, 1, &arg, sizeof(arg), 0));
    TEST_OK(ccl_host_stream_launch(stream, flag_kernel, 1, &flag_arg, sizeof(flag_arg), 0));
    TEST_EQ(pthread_create(&thread, NULL, open_later, &gate), 0);
    TEST_OK(ccl_host_stream_destroy(stream));
    TEST_EQ(flag, 1);
    pthread_join(thread, NULL);
}

static void check_cycles(void)
{
    int threads = 0, fds = 0;
    long kib = 0;
    for (int i = 0; i < 600; i++) {
        struct cclStream *streams[2];
        uint32_t flag = 0, *arg = &flag;
        for (int k = 0; k < 2; k++) {
            TEST_OK(ccl_host_stream_create(&streams[k]));
            TEST_OK(ccl_host_stream_launch(streams[k], flag_kernel, 1, &arg, sizeof(arg), 0));
        }
        for (int k = 0; k < 2; k++) {
            TEST_OK(ccl_host_stream_destroy(streams[k]));
        }
        if (i == 99) {
            threads = test_count_entries("/proc/self/task");
            fds = test_count_entries("/proc/self/fd");
            kib = test_resident_kib();
        }
    }
    TEST_EQ(test_count_entries("/proc/self/task"), threads);
    TEST_EQ(test_count_entries("/proc/self/fd"), fds);
    if (!TEST_SANITIZED) {
        printf("resident KiB: %ld after 100 cycles, %ld after 600\n", kib, test_resident_kib());
        TEST_CHECK(test_resident_kib() - kib < 256);
    }
}

/* Exit code of the child, or -1 when it has not ended after ten seconds. */
static int wait_child(pid_t pid)
{
    int status = 0;
    for (int i = 0; i < 1000; i++) {
        if (waitpid(pid, &status, WNOHANG) == pid) {
            return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
        }
        test_sleep_us(10000);
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return -1;
}

/* A process whose stream never finishes ends all the same. Before this process has threads: the child starts some. */
static void check_exit_with_pending_work(void)
{
    static struct test_gate gate;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        struct test_gate *arg = &gate;
        struct cclStream *stream;
        bool ok = ccl_host_stream_resolve(NULL, &stream) == cclSuccess;
        for (int i = 0; i < 3; i++) {
            ok = ok && ccl_host_stream_launch(stream, test_gate_kernel, 1, &arg, sizeof(arg), 0) == cclSuccess;
        }
        exit(ok && test_await(&gate.entered, 1) ? 3 : 4);
    }
    TEST_EQ(wait_child(pid), 3);
}

/* A child forked while a worker runs can end, and even destroy what it inherited. */
static void check_fork(void)
{
    struct cclStream *stream;
    uint32_t flag = 0, *arg = &flag;
    TEST_OK(ccl_host_stream_create(&stream));
    TEST_OK(ccl_host_stream_launch(stream, flag_kernel, 1, &arg, sizeof(arg), 0));
    TEST_CHECK(test_await(&flag, 1)); /* by the worker: a fork while it starts would copy the address sanitizer's half-done work */
    test_sync(stream);
    while (__atomic_load_n(&stream->run, __ATOMIC_ACQUIRE) != 0) { /* the worker has still to let go: the child would wait for a thread it does not have */
        test_sleep_us(20);
    }
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        exit(ccl_host_stream_destroy(stream) == cclSuccess ? 5 : 6);
    }
    TEST_EQ(wait_child(pid), 5);
    TEST_OK(ccl_host_stream_destroy(stream));
}

int main(void)
{
    check_exit_with_pending_work();
    check_order_and_growth();
    check_threads(false);
    check_threads(true);
    check_worker(1000, 50);
    check_worker(250000, 3);
    check_wait_position();
    check_destroy_waits();
    check_cycles();
    check_fork();
    return test_result();
}
