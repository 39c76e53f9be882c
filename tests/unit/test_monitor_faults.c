/* SPDX-License-Identifier: MIT
 *
 * Proves that the monitor stands what goes wrong around it: detach in a flood and from a callback, strangers on its socket, no
 * descriptors left, forks of its process; and that no callback comes after a detach. */
#include <sys/resource.h>

#include "bootstrap/monitor_internal.h"
#include "monitor_world.h"

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
    atomic_store(&box.sleep_us, 200000);
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

static int knock(struct box *box, int rank)
{
    struct sockaddr_un addr;
    socklen_t len = ccl_mon_address(box->port->peers[rank].card.name, &addr);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    TEST_EQ(connect(fd, (const struct sockaddr *)&addr, len), 0);
    return fd;
}

/* True when the other side closes within limit_s. */
static bool is_closed(int fd, int limit_s)
{
    char byte;
    struct timeval limit = {limit_s, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    ssize_t n = recv(fd, &byte, sizeof(byte), 0);
    return n == 0 || (n < 0 && errno == ECONNRESET);
}

/* A process of another user that somehow knows the token of rank 0. Takes root to try. */
static void other_user(struct box *box)
{
    const struct ccl_mon_card *card = &box->port->peers[0].card;
    struct ccl_mon_hello hello = {.magic = CCL_MON_HELLO_MAGIC, .rank = 1, .port_id = card->port_id};
    int status = 0;
    if (geteuid() != 0) {
        return;
    }
    memcpy(hello.token, card->token, sizeof(hello.token));
    pid_t child = fork();
    if (child == 0) {
        bool changed = setresuid(65534, 65534, 65534) == 0;
        int fd = knock(box, 0);
        send(fd, &hello, sizeof(hello), MSG_NOSIGNAL);
        _exit(changed && is_closed(fd, 5) ? 0 : 1);
    }
    TEST_EQ(waitpid(child, &status, 0), child);
    TEST_EQ(status, 0);
}

/* Rank 1 does to rank 0 what a stranger can do, then both talk as if nothing had been. */
static void strangers(struct world *w)
{
    enum { SILENT = 300, NOTES = 50 };
    struct box box = {0};
    int silent[SILENT];
    box_open(&box, w);
    int fds = count_entries("/proc/self/fd");
    TEST_EQ(ccl_bootstrap_barrier(w->boot), cclSuccess); /* before anybody connects */
    if (w->rank == 1) {
        const struct ccl_mon_card *card = &box.port->peers[0].card;
        struct ccl_mon_hello hello = {.magic = CCL_MON_HELLO_MAGIC, .rank = 1, .port_id = card->port_id};
        struct ccl_mon_packet packet = {.magic = CCL_MON_PACKET_MAGIC, .kind = CCL_MON_MESSAGE, .bytes = 8};
        char junk[4096];
        memset(junk, 'j', sizeof(junk));
        memcpy(hello.token, card->token, sizeof(hello.token));
        hello.token[15] ^= 1;
        for (size_t bytes = 1; bytes <= sizeof(junk); bytes *= 2) {
            int fd = knock(&box, 0);
            TEST_EQ(send(fd, junk, bytes, MSG_NOSIGNAL), bytes);
            TEST_CHECK(is_closed(fd, 5));
            close(fd);
        }
        int fd = knock(&box, 0);
        TEST_EQ(send(fd, &hello, sizeof(hello), MSG_NOSIGNAL), sizeof(hello));
        send(fd, &packet, sizeof(packet), MSG_NOSIGNAL);
        TEST_CHECK(is_closed(fd, 5));
        close(fd);
        fd = knock(&box, 0);
        TEST_EQ(send(fd, &packet, sizeof(packet), MSG_NOSIGNAL), sizeof(packet));
        TEST_CHECK(is_closed(fd, 5));
        close(fd);
        hello.token[15] ^= 1;
        hello.rank = (uint32_t)w->size;
        fd = knock(&box, 0);
        TEST_EQ(send(fd, &hello, sizeof(hello), MSG_NOSIGNAL), sizeof(hello));
        TEST_CHECK(is_closed(fd, 5));
        close(fd);
        close(knock(&box, 0));
        other_user(&box);
        for (int i = 0; i < SILENT; i++) {
            silent[i] = knock(&box, 0);
        }
    }
    for (uint32_t seq = 0; seq < NOTES; seq++) {
        TEST_EQ(send_note(&box, 1 - w->rank, seq, true), cclSuccess);
    }
    TEST_CHECK(wait_for(&box.got[1 - w->rank], NOTES, UINT64_C(4000000000)));
    TEST_EQ(atomic_load(&box.fds[1 - w->rank]), NOTES);
    TEST_EQ(ccl_bootstrap_barrier(w->boot), cclSuccess);
    if (w->rank == 1) {
        TEST_CHECK(is_closed(silent[0], 1)); /* too many: the oldest goes at once */
        TEST_CHECK(is_closed(silent[SILENT - 1], 10)); /* the others after 5 s */
        int closed = 0;
        for (int i = 0; i < SILENT; i++) {
            closed += is_closed(silent[i], 1);
            close(silent[i]);
        }
        TEST_EQ(closed, SILENT);
    }
    TEST_EQ(ccl_bootstrap_barrier(w->boot), cclSuccess);
    TEST_CHECK(entries_sink_to("/proc/self/fd", fds + 2)); /* one connection each way has come since */
    TEST_EQ(atomic_load(&box.wrong), 0);
    TEST_EQ(atomic_load(&box.died[1 - w->rank]), 0);
    TEST_EQ(ccl_bootstrap_barrier(w->boot), cclSuccess);
    box_close(&box);
}

/* Use up the descriptors of this process, or give them back. */
static void use_up_fds(bool on)
{
    enum { LIMIT = 128 };
    static int used[LIMIT], n;
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = LIMIT;
    setrlimit(RLIMIT_NOFILE, &limit);
    while (!on && n > 0) {
        close(used[--n]);
    }
    while (on && n < LIMIT && (used[n] = dup(STDERR_FILENO)) >= 0) {
        n++;
    }
}

static void no_descriptors(struct world *w)
{
    struct box box = {0};
    struct note note;
    int peer = 1 - w->rank;
    box_open(&box, w);
    if (w->rank == 0) {
        size_t bytes = note_make(&note, 0, false);
        use_up_fds(true);
        TEST_EQ(ccl_monitor_send(box.port, 1, &note, bytes, STDERR_FILENO), cclSystemError);
        TEST_EQ(ccl_monitor_send(box.port, 1, &note, bytes, -1), cclSystemError); /* no connection yet */
        TEST_EQ(ccl_bootstrap_barrier(w->boot), cclSuccess);
        usleep(50000);
        TEST_EQ(atomic_load(&box.got[1]), 0); /* cannot accept */
        use_up_fds(false);
        TEST_CHECK(wait_for(&box.got[1], 1, UINT64_C(2000000000)));
        use_up_fds(true);
        TEST_EQ(ccl_bootstrap_barrier(w->boot), cclSuccess);
        TEST_CHECK(wait_for(&box.got[1], 2, UINT64_C(2000000000)));
        TEST_EQ(atomic_load(&box.fds[1]), 0); /* the message counts without it */
        use_up_fds(false);
        TEST_EQ(send_note(&box, 1, 0, true), cclSuccess);
        TEST_EQ(ccl_bootstrap_barrier(w->boot), cclSuccess);
        TEST_CHECK(wait_for(&box.fds[1], 1, UINT64_C(2000000000)));
    } else {
        TEST_EQ(ccl_bootstrap_barrier(w->boot), cclSuccess);
        TEST_EQ(send_note(&box, 0, 0, false), cclSuccess);
        TEST_EQ(ccl_bootstrap_barrier(w->boot), cclSuccess);
        TEST_EQ(send_note(&box, 0, 1, true), cclSuccess);
        TEST_EQ(ccl_bootstrap_barrier(w->boot), cclSuccess);
        TEST_EQ(send_note(&box, 0, 2, true), cclSuccess);
        TEST_CHECK(wait_for(&box.fds[0], 1, UINT64_C(2000000000)));
    }
    TEST_EQ(atomic_load(&box.wrong), 0);
    TEST_EQ(atomic_load(&box.died[peer]), 0);
    TEST_EQ(ccl_bootstrap_barrier(w->boot), cclSuccess);
    box_close(&box);
}

/* In a child: the parent's port does nothing, own ones work. */
static void in_child(struct box *box)
{
    struct box own = {0};
    struct world alone = {.size = 1};
    cclUniqueId id;
    test_failures = 0;
    TEST_EQ(count_entries("/proc/self/task"), 3); /* ".", ".." and us */
    TEST_EQ(send_note(box, 1, 0, false), cclInvalidUsage);
    ccl_monitor_want_tick(box->port, true);
    TEST_EQ(ccl_bootstrap_get_id(&id), cclSuccess);
    TEST_EQ(ccl_bootstrap_create(&id, 0, 1, TIMEOUT_NS, &alone.boot), cclSuccess);
    box_open(&own, &alone);
    box_close(box);
    TEST_EQ(send_note(&own, 0, 0, true), cclSuccess);
    TEST_CHECK(wait_for(&own.got[0], 1, TIMEOUT_NS));
    box_close(&own);
    ccl_bootstrap_destroy(alone.boot);
    _exit(test_result());
}

/* Rank 0 forks while messages flow: one child detaches, one lives on when rank 0 is killed. Rank 1 sees the death all the same. */
static void forks(struct world *w)
{
    enum { NOTES = 2000 };
    struct box box = {0};
    int status = 0;
    uint32_t seq = 0;
    box_open(&box, w);
    if (w->rank == 0) {
        for (; seq < NOTES / 2; seq++) {
            TEST_EQ(send_note(&box, 1, seq, seq % 50 == 0), cclSuccess);
        }
        pid_t child = fork();
        if (child == 0) {
            in_child(&box);
        }
        for (; seq < NOTES; seq++) {
            TEST_EQ(send_note(&box, 1, seq, seq % 50 == 0), cclSuccess);
        }
        TEST_EQ(waitpid(child, &status, 0), child);
        TEST_EQ(status, 0);
        TEST_CHECK(wait_for(&w->shared->step, 1, TIMEOUT_NS));
        TEST_EQ(send_note(&box, 1, seq, false), cclSuccess);
        if (fork() == 0) {
            wait_for(&w->shared->step, 3, TIMEOUT_NS);
            _exit(0);
        }
        wait_for(&w->shared->step, 2, TIMEOUT_NS);
        if (test_result() != 0) {
            _exit(1);
        }
        kill(getpid(), SIGKILL);
    }
    TEST_CHECK(wait_for(&box.got[0], NOTES, TIMEOUT_NS));
    usleep(50000);
    TEST_EQ(atomic_load(&box.died[0]), 0);
    atomic_store(&w->shared->step, 1);
    TEST_CHECK(wait_for(&box.got[0], NOTES + 1, TIMEOUT_NS));
    usleep(50000);
    TEST_EQ(atomic_load(&box.died[0]), 0);
    atomic_store(&w->shared->step, 2);
    TEST_CHECK(wait_for(&box.died[0], 1, UINT64_C(2000000000)));
    atomic_store(&w->shared->step, 3);
    TEST_EQ(atomic_load(&box.wrong), 0);
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
    run_processes("strangers", 2, true, -1, strangers);
    run_processes("no_descriptors", 2, true, -1, no_descriptors);
    if (!UNDER_TSAN) { /* it refuses threads in the child of a process with threads */
        run_processes("forks", 2, true, 0, forks);
        run_processes("forks", 2, false, 0, forks);
    }
    return test_result();
}
