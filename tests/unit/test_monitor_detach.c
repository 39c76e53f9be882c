/* SPDX-License-Identifier: MIT
 *
 * Proves that a detach in a flood, beside a running callback or inside one is safe, that no callback comes after it,
 * and that a peer which watches its connection gets a goodbye in every state that connection can be in. */
#include <sys/epoll.h>
#include <time.h>

#include "monitor_knock.h"

static void detach_in_flood(struct world *w)
{
    enum { CYCLES = 40 };
    struct box *boxes = calloc(CYCLES, sizeof(*boxes));
    unsigned random = 12345u + (unsigned)w->rank;
    for (int i = 0; i < CYCLES; i++) {
        struct box *box = &boxes[i];
        box->reply = i % 2 == 0;
        box_open(box, w);
        uint64_t end = ccl_now_ns() + (uint64_t)(rand_r(&random) % 4000) * 1000;
        for (uint32_t seq = 0; seq == 0 || ccl_now_ns() < end; seq++) {
            for (int peer = 0; peer < w->size; peer++) {
                TEST_EQ(send_note(box, peer, seq, seq % 16 == 0), cclSuccess);
            }
        }
        box_close(box);
    }
    usleep(20000);
    for (int i = 0; i < CYCLES; i++) {
        TEST_EQ(atomic_load(&boxes[i].late), 0);
        TEST_EQ(atomic_load(&boxes[i].wrong), 0);
        for (int peer = 0; peer < w->size; peer++) {
            TEST_EQ(atomic_load(&boxes[i].died[peer]), 0);
        }
    }
    TEST_EQ(ccl_bootstrap_barrier(w->boot), cclSuccess);
    free(boxes);
}

/* A detach returns only after the callback; one of another port does not wait for it. */
static void detach_waits(struct world *w)
{
    struct box box = {0}, other = {0};
    box_open(&box, w);
    box_open(&other, w);
    atomic_store(&box.sleep_us, 300000);
    TEST_EQ(send_note(&box, 0, 0, false), cclSuccess);
    TEST_CHECK(wait_for(&box.inside, 1, TIMEOUT_NS));
    box_close(&other);
    TEST_EQ(atomic_load(&box.inside), 1);
    box_close(&box);
    TEST_EQ(atomic_load(&box.inside), 0);
    TEST_EQ(atomic_load(&box.got[0]), 1);
}

struct quitter {
    struct ccl_monitor_port *port;
    atomic_int calls;
};

static void quitter_message(void *ctx, int peer, const void *msg, size_t bytes, int fd)
{
    struct quitter *quitter = ctx;
    (void)peer;
    (void)fd;
    ccl_monitor_detach(quitter->port);
    atomic_fetch_add(&quitter->calls, ((const char *)msg)[bytes - 1] == 'x');
}

static void quitter_died(void *ctx, int peer)
{
    (void)ctx;
    (void)peer;
}

/* The last port goes from inside its callback: the thread ends by itself. */
static void detach_in_callback(struct world *w)
{
    static const struct ccl_monitor_callbacks callbacks = {quitter_died, quitter_message, NULL};
    int tasks = count_entries("/proc/self/task");
    int fds = count_entries("/proc/self/fd");
    for (int i = 0; i < 20; i++) {
        struct quitter quitter = {0};
        TEST_EQ(ccl_monitor_attach(w->boot, &callbacks, &quitter, &quitter.port), cclSuccess);
        ccl_monitor_want_tick(quitter.port, true); /* no tick callback: must do nothing */
        TEST_EQ(ccl_monitor_send(quitter.port, 0, "x", 1, -1), cclSuccess);
        TEST_CHECK(wait_for(&quitter.calls, 1, TIMEOUT_NS));
    }
    TEST_CHECK(entries_sink_to("/proc/self/task", tasks));
    TEST_CHECK(entries_sink_to("/proc/self/fd", fds));
}

/* The monitor thread is held in a callback, so the connection still waits to be accepted when its port goes. */
static void goodbye_from_backlog(struct world *w)
{
    struct box box = {.hold = true}, other = {0};
    box_open(&box, w);
    box_open(&other, w);
    TEST_EQ(send_note(&box, 0, 0, false), cclSuccess);
    TEST_CHECK(wait_for(&box.inside, 1, TIMEOUT_NS));
    const struct ccl_mon_card *card = &other.port->peers[0].card;
    struct ccl_mon_hello hello = {.magic = CCL_MON_HELLO_MAGIC, .rank = 0, .port_id = card->port_id};
    memcpy(hello.token, card->token, sizeof(hello.token));
    int fd = knock(&other, 0), silent = knock(&other, 0);
    TEST_EQ(send(fd, &hello, sizeof(hello), MSG_NOSIGNAL), sizeof(hello));
    box_close(&other);
    TEST_CHECK(gets_goodbye(fd, MSG_DONTWAIT));
    TEST_CHECK(is_closed(fd, 1));
    atomic_store(&box.hold, false);
    box_close(&box);
    TEST_CHECK(gets_goodbye(silent, MSG_DONTWAIT));
    TEST_CHECK(is_closed(silent, 1));
    close(fd);
    close(silent);
}

static void goodbye_from_listener(struct world *w)
{
    struct ccl_monitor mon = {.owner = getpid(), .name = "listener test", .listen_fd = -1, .wake_fd = -1};
    struct sockaddr_un addr;
    mon.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    memcpy(mon.name, &mon.owner, sizeof(mon.owner));
    (void)w;
    TEST_EQ(ccl_mon_listen(&mon), cclSuccess);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    socklen_t len = ccl_mon_address(mon.name, &addr);
    TEST_EQ(connect(fd, (const struct sockaddr *)&addr, len), 0);
    ccl_mon_unlisten(&mon);
    TEST_CHECK(gets_goodbye(fd, MSG_DONTWAIT));
    close(fd);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    TEST_CHECK(connect(fd, (const struct sockaddr *)&addr, len) != 0);
    close(fd);
    close(mon.epoll_fd);
}

static uint64_t cpu_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* A child that holds copies of all descriptors (made without fork handlers) must not keep closed connections in our
 * epoll. */
static void copies(struct world *w)
{
    struct box box = {0};
    box_open(&box, w);
    if (w->rank == 1) {
        TEST_EQ(send_note(&box, 0, 0, false), cclSuccess);
        TEST_CHECK(wait_for(&w->shared->step, 1, TIMEOUT_NS));
        box_close(&box);
        atomic_store(&w->shared->step, 2);
        TEST_CHECK(wait_for(&w->shared->step, 3, TIMEOUT_NS));
        return;
    }
    TEST_CHECK(wait_for(&box.got[1], 1, TIMEOUT_NS));
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        for (;;) {
            syscall(SYS_pselect6, 0, 0, 0, 0, 0, 0);
        }
    }
    atomic_store(&w->shared->step, 1);
    TEST_CHECK(wait_for(&w->shared->step, 2, TIMEOUT_NS));
    usleep(50000);
    uint64_t before = cpu_ns();
    usleep(300000);
    uint64_t used = cpu_ns() - before;
    if (used > 60000000) {
        TEST_FAIL("an idle monitor used %llu us of 300000", (unsigned long long)used / 1000);
    }
    atomic_store(&w->shared->step, 3);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    box_close(&box);
}

int main(void)
{
    setbuf(stdout, NULL);
    run_processes("detach_in_flood", 3, true, -1, detach_in_flood);
    run_processes("detach_in_flood", 3, false, -1, detach_in_flood);
    run_threads("detach_in_flood", 3, detach_in_flood);
    run_threads("detach_waits", 1, detach_waits);
    run_threads("detach_in_callback", 1, detach_in_callback);
    run_threads("goodbye_from_backlog", 1, goodbye_from_backlog);
    run_threads("goodbye_from_listener", 1, goodbye_from_listener);
    run_processes("copies", 2, true, -1, copies);
    return test_result();
}
