/* SPDX-License-Identifier: MIT
 *
 * Proves that events order streams by the record that was enqueued last when the wait was called, that one thread alone
 * gets through any chain of them, and that times and misuse are reported truly. */
/* CTEST: labels quick tsan */
#include "runtime/host_event.h"
#include "runtime_test.h"

#define CHAIN 40

struct put {
    int *dst;
    const int *src; /* dst = src + 1 */
    pthread_t *runner;
};

static void put_kernel(const void *args, const struct ccl_host_block *block)
{
    const struct put *p = args;
    (void)block;
    *p->dst = *p->src + 1;
    if (p->runner != NULL) {
        *p->runner = pthread_self();
    }
}

static void sleep_kernel(const void *args, const struct ccl_host_block *block)
{
    (void)block;
    test_sleep_us(*(const unsigned *)args);
}

static void put(struct cclStream *stream, int *dst, const int *src, pthread_t *runner)
{
    struct put p = {dst, src, runner};
    TEST_OK(ccl_host_stream_launch(stream, put_kernel, 1, &p, sizeof(p), 0));
}

static void gate(struct cclStream *stream, struct test_gate *g)
{
    TEST_OK(ccl_host_stream_launch(stream, test_gate_kernel, 1, &g, sizeof(g), 0));
}

static void check_never_recorded(struct cclStream *stream)
{
    struct cclEvent *event;
    float ms = -1;
    TEST_OK(ccl_host_event_create(&event));
    TEST_OK(ccl_host_event_wait(stream, event));
    TEST_OK(ccl_host_event_sync(event));
    TEST_EQ(ccl_host_event_elapsed(&ms, event, event), cclInvalidUsage);
    TEST_EQ(ms, -1);
    test_sync(stream);
    TEST_OK(ccl_host_event_destroy(event));
}

/* One thread, two streams: synchronising the second runs the first in the same thread. */
static void check_help(struct cclStream *a, struct cclStream *b)
{
    struct cclEvent *event;
    int mine = 0;
    TEST_OK(ccl_host_event_create(&event));
    for (int i = 0; i < 200; i++) {
        int zero = 0, x = 0, y = 0;
        pthread_t runner = pthread_self();
        memset(&runner, 0, sizeof(runner));
        put(a, &x, &zero, &runner);
        TEST_OK(ccl_host_event_record(event, a));
        TEST_OK(ccl_host_event_wait(b, event));
        put(b, &y, &x, NULL);
        test_sync(b);
        TEST_EQ(y, 2);
        mine += pthread_equal(runner, pthread_self()) != 0;
    }
    printf("%d of 200 waits were helped by the waiting thread\n", mine);
    TEST_CHECK(mine > 100);
    TEST_OK(ccl_host_event_destroy(event));
}

/* Longer than one thread may nest; the event of each link is gone before it happens. */
static void check_chain(void)
{
    struct cclStream *streams[CHAIN];
    int values[CHAIN + 1] = {0};
    struct cclEvent *event = NULL;
    for (int i = 0; i < CHAIN; i++) {
        TEST_OK(ccl_host_stream_create(&streams[i]));
        if (event != NULL) {
            TEST_OK(ccl_host_event_wait(streams[i], event));
            TEST_OK(ccl_host_event_destroy(event));
        }
        put(streams[i], &values[i + 1], &values[i], NULL);
        TEST_OK(ccl_host_event_create(&event));
        TEST_OK(ccl_host_event_record(event, streams[i]));
    }
    TEST_OK(ccl_host_event_sync(event));
    TEST_EQ(values[CHAIN], CHAIN);
    TEST_OK(ccl_host_event_destroy(event));
    for (int i = 0; i < CHAIN; i++) {
        TEST_OK(ccl_host_stream_destroy(streams[i]));
    }
}

/* b waits for the record of a although the event is recorded again on c; c's record is the one that counts afterwards.
 */
static void check_record_again(struct cclStream *a, struct cclStream *b, struct cclStream *c)
{
    struct test_gate gates[2] = {{0, 0}, {0, 0}};
    struct cclEvent *event, *first;
    int zero = 0, y = 0;
    float ms = -1;
    TEST_OK(ccl_host_event_create(&event));
    TEST_OK(ccl_host_event_create(&first));
    TEST_OK(ccl_host_event_record(first, a));
    gate(a, &gates[0]);
    TEST_OK(ccl_host_event_record(event, a));
    TEST_OK(ccl_host_event_wait(b, event));
    put(b, &y, &zero, NULL);
    gate(c, &gates[1]);
    TEST_OK(ccl_host_event_record(event, c));
    ccl_host_stream_nudge(c);
    TEST_CHECK(test_await(&gates[1].entered, 1));
    ccl_host_stream_nudge(b);
    TEST_CHECK(test_await(&gates[0].entered, 1));
    TEST_CHECK(!ccl_host_stream_reached(b, ccl_host_stream_tail(b)));
    test_set(&gates[0].open, 1);
    test_sync(b);
    TEST_EQ(y, 1);
    test_sync(a);
    TEST_EQ(ccl_host_event_elapsed(&ms, first, event), cclInvalidUsage);
    test_set(&gates[1].open, 1);
    TEST_OK(ccl_host_event_sync(event));
    TEST_CHECK(ccl_host_stream_reached(c, ccl_host_stream_tail(c)));
    TEST_OK(ccl_host_event_elapsed(&ms, first, event));
    TEST_CHECK(ms > 0);
    TEST_OK(ccl_host_event_destroy(event));
    TEST_OK(ccl_host_event_destroy(first));
}

/* A record that runs late does not overwrite the time of a newer one. */
static void check_late_record(struct cclStream *a, struct cclStream *b)
{
    struct test_gate g = {0, 0};
    struct cclEvent *event, *after;
    float ms = -1;
    TEST_OK(ccl_host_event_create(&event));
    TEST_OK(ccl_host_event_create(&after));
    gate(a, &g);
    TEST_OK(ccl_host_event_record(event, a));
    TEST_OK(ccl_host_event_record(event, b));
    TEST_OK(ccl_host_event_record(after, b));
    test_sync(b);
    test_sleep_us(2000);
    test_set(&g.open, 1);
    test_sync(a);
    TEST_OK(ccl_host_event_elapsed(&ms, event, after));
    TEST_CHECK(ms >= 0);
    TEST_OK(ccl_host_event_destroy(event));
    TEST_OK(ccl_host_event_destroy(after));
}

static void check_elapsed(struct cclStream *stream)
{
    struct cclEvent *start, *end;
    unsigned us = 20000;
    float ms = -1, back = 1;
    TEST_OK(ccl_host_event_create(&start));
    TEST_OK(ccl_host_event_create(&end));
    TEST_OK(ccl_host_event_record(start, stream));
    TEST_OK(ccl_host_stream_launch(stream, sleep_kernel, 1, &us, sizeof(us), 0));
    TEST_OK(ccl_host_event_record(end, stream));
    TEST_EQ(ccl_host_event_elapsed(&ms, start, end), cclInvalidUsage);
    TEST_OK(ccl_host_event_sync(end));
    TEST_OK(ccl_host_event_elapsed(&ms, start, end));
    TEST_OK(ccl_host_event_elapsed(&back, end, start));
    printf("20 ms measured as %.3f ms\n", (double)ms);
    TEST_CHECK(ms >= 20 && ms < 2000 && (double)back == -(double)ms);
    TEST_OK(ccl_host_event_destroy(start));
    TEST_OK(ccl_host_event_destroy(end));
}

/* A queued record outlives its event's destruction, and a wait the destruction of the stream it waits for. */
static void check_destroyed(struct cclStream *b)
{
    struct cclStream *a;
    struct test_gate g = {0, 0};
    struct cclEvent *event;
    int zero = 0, y = 0;
    TEST_OK(ccl_host_stream_create(&a));
    TEST_OK(ccl_host_event_create(&event));
    gate(b, &g);
    TEST_OK(ccl_host_stream_launch(a, sleep_kernel, 1, &(unsigned){1000}, sizeof(unsigned), 0));
    TEST_OK(ccl_host_event_record(event, a));
    TEST_OK(ccl_host_event_wait(b, event));
    put(b, &y, &zero, NULL);
    TEST_OK(ccl_host_event_destroy(event));
    TEST_OK(ccl_host_stream_destroy(a));
    TEST_OK(ccl_host_stream_create(&a)); /* may get the same record */
    test_set(&g.open, 1);
    test_sync(b);
    TEST_EQ(y, 1);
    TEST_OK(ccl_host_stream_destroy(a));
}

/* Two threads, each waiting in its stream for what the other enqueued before: no order of running locks them up. */
struct crossing {
    struct cclStream *streams[2];
    struct cclEvent *events[2];
    pthread_mutex_t lock;
    int counter;
};
struct crossing_arg {
    struct crossing *crossing;
    int side;
};

static void *cross_thread(void *p)
{
    struct crossing_arg *a = p;
    struct crossing *c = a->crossing;
    for (int i = 0; i < 1000; i++) {
        pthread_mutex_lock(&c->lock);
        TEST_OK(ccl_host_event_wait(c->streams[a->side], c->events[1 - a->side]));
        put(c->streams[a->side], &c->counter, &c->counter, NULL);
        TEST_OK(ccl_host_event_record(c->events[a->side], c->streams[a->side]));
        pthread_mutex_unlock(&c->lock);
        if (i % 3 == a->side) {
            test_sync(c->streams[a->side]);
        }
    }
    test_sync(c->streams[a->side]);
    return NULL;
}

static void check_crossing(struct cclStream *a, struct cclStream *b)
{
    struct crossing c = {.streams = {a, b}, .lock = PTHREAD_MUTEX_INITIALIZER};
    struct crossing_arg args[2] = {{&c, 0}, {&c, 1}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        TEST_OK(ccl_host_event_create(&c.events[i]));
    }
    for (int i = 0; i < 2; i++) {
        TEST_EQ(pthread_create(&threads[i], NULL, cross_thread, &args[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    /* The kernels of both streams wrote the counter without a lock: the events alone keep them apart. */
    TEST_EQ(c.counter, 2000);
    for (int i = 0; i < 2; i++) {
        TEST_OK(ccl_host_event_destroy(c.events[i]));
    }
}

int main(void)
{
    struct cclStream *s[3];
    for (int i = 0; i < 3; i++) {
        TEST_OK(ccl_host_stream_create(&s[i]));
    }
    check_never_recorded(s[0]);
    check_help(s[0], s[1]);
    check_chain();
    for (int i = 0; i < 20; i++) {
        check_record_again(s[0], s[1], s[2]);
    }
    check_late_record(s[0], s[1]);
    check_elapsed(s[0]);
    check_destroyed(s[0]);
    check_crossing(s[0], s[1]);
    for (int i = 0; i < 3; i++) {
        TEST_OK(ccl_host_stream_destroy(s[i]));
    }
    return test_result();
}
