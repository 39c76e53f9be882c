/* SPDX-License-Identifier: MIT
 *
 * Proves that the monitor stands what goes wrong around it: strangers on its socket, no descriptors left or too many
 * under way, forks of its process. */
#include <sys/resource.h>

#include "monitor_knock.h"

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
        hello.rank = 1;
        hello.port_id += 1000;
        fd = knock(&box, 0);
        TEST_EQ(send(fd, &hello, sizeof(hello), MSG_NOSIGNAL), sizeof(hello));
        TEST_CHECK(gets_goodbye(fd, 0)); /* perhaps a peer whose port has gone */
        TEST_CHECK(is_closed(fd, 5));
        close(fd);
        close(knock(&box, 0));
        other_user(&box);
        for (int i = 0; i < SILENT; i++) {
            silent[i] = knock(&box, 0);
        }
        TEST_CHECK(is_closed(silent[0], 4)); /* too many: the oldest goes before its 5 s are over */
    }
    for (uint32_t seq = 0; seq < NOTES; seq++) {
        TEST_EQ(send_note(&box, 1 - w->rank, seq, true), cclSuccess);
    }
    TEST_CHECK(wait_for(&box.got[1 - w->rank], NOTES, TIMEOUT_NS));
    TEST_EQ(atomic_load(&box.fds[1 - w->rank]), NOTES);
    TEST_EQ(ccl_bootstrap_barrier(w->boot), cclSuccess);
    if (w->rank == 1) {
        TEST_CHECK(is_closed(silent[SILENT - 1], TIMEOUT_S)); /* the others after 5 s */
        int closed = 0;
        for (int i = 0; i < SILENT; i++) {
            closed += is_closed(silent[i], TIMEOUT_S);
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
    /* Twice: another thread may have been about to close one. */
    for (int round = 0; on && round < 2; round++) {
        while (n < LIMIT && (used[n] = dup(STDERR_FILENO)) >= 0) {
            n++;
        }
        usleep(20000);
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
        TEST_CHECK(wait_for(&box.got[1], 1, TIMEOUT_NS));
        use_up_fds(true);
        TEST_EQ(ccl_bootstrap_barrier(w->boot), cclSuccess);
        TEST_CHECK(wait_for(&box.got[1], 2, TIMEOUT_NS));
        TEST_EQ(atomic_load(&box.fds[1]), 0); /* the message counts without it */
        use_up_fds(false);
        TEST_EQ(send_note(&box, 1, 0, true), cclSuccess);
        TEST_EQ(ccl_bootstrap_barrier(w->boot), cclSuccess);
        TEST_CHECK(wait_for(&box.fds[1], 1, TIMEOUT_NS));
    } else {
        TEST_EQ(ccl_bootstrap_barrier(w->boot), cclSuccess);
        TEST_EQ(send_note(&box, 0, 0, false), cclSuccess);
        TEST_EQ(ccl_bootstrap_barrier(w->boot), cclSuccess);
        TEST_EQ(send_note(&box, 0, 1, true), cclSuccess);
        TEST_EQ(ccl_bootstrap_barrier(w->boot), cclSuccess);
        TEST_EQ(send_note(&box, 0, 2, true), cclSuccess);
        TEST_CHECK(wait_for(&box.fds[0], 1, TIMEOUT_NS));
    }
    TEST_EQ(atomic_load(&box.wrong), 0);
    TEST_EQ(atomic_load(&box.died[peer]), 0);
    TEST_EQ(ccl_bootstrap_barrier(w->boot), cclSuccess);
    box_close(&box);
}

/* More descriptors under way than an ordinary user may have: the rest goes when some have arrived. */
static void too_many_under_way(struct world *w)
{
    enum { NOTES = 100, LIMIT = 64 };
    struct box box = {0};
    struct rlimit limit;
    if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) {
        TEST_FAIL("setresuid: %s", strerror(errno));
    }
    atomic_store(&box.hold, w->rank == 1);
    box_open(&box, w);
    if (w->rank == 0) {
        for (uint32_t seq = 0; seq < NOTES; seq++) {
            if (seq == 1) {
                TEST_CHECK(wait_for(&w->shared->step, 1, TIMEOUT_NS)); /* rank 1 reads nothing more now */
            }
            TEST_EQ(send_note(&box, 1, seq, true), cclSuccess);
        }
        getrlimit(RLIMIT_NOFILE, &limit);
        limit.rlim_cur = LIMIT;
        setrlimit(RLIMIT_NOFILE, &limit);
        TEST_EQ(send_note(&box, 1, NOTES, true), cclSuccess);
        TEST_EQ(send_note(&box, 1, NOTES + 1, true), cclSuccess);
        pthread_mutex_lock(&ccl_mon_lock);
        TEST_EQ(box.port->peers[1].unsent.count, 2);
        pthread_mutex_unlock(&ccl_mon_lock);
        atomic_store(&w->shared->step, 2);
    } else {
        TEST_CHECK(wait_for(&box.inside, 1, TIMEOUT_NS));
        atomic_store(&w->shared->step, 1);
        TEST_CHECK(wait_for(&w->shared->step, 2, TIMEOUT_NS));
        atomic_store(&box.hold, false);
        TEST_CHECK(wait_for(&box.fds[0], NOTES + 2, TIMEOUT_NS));
    }
    TEST_EQ(ccl_bootstrap_barrier(w->boot), cclSuccess);
    TEST_EQ(atomic_load(&box.wrong), 0);
    box_close(&box);
}

static int inbox_count(struct box *box)
{
    pthread_mutex_lock(&ccl_mon_lock);
    int n = box->port->inbox.count;
    pthread_mutex_unlock(&ccl_mon_lock);
    return n;
}

/* What slow callbacks cannot keep up with waits at the sender, not here. */
static void slow_receiver(struct world *w)
{
    enum { NOTES = 5000, LIMIT = 1024, ONE_READ = 16 };
    struct box box = {0};
    atomic_store(&box.sleep_us, w->rank == 0 ? 5000 : 0);
    box_open(&box, w);
    TEST_EQ(ccl_bootstrap_barrier(w->boot), cclSuccess); /* the limit holds from then on that the receiver's attach is through */
    if (w->rank == 1) {
        for (uint32_t seq = 0; seq < NOTES; seq++) {
            TEST_EQ(send_note(&box, 0, seq, false), cclSuccess);
        }
        TEST_CHECK(wait_for(&w->shared->step, 1, TIMEOUT_NS));
    } else {
        uint64_t end = ccl_now_ns() + UINT64_C(20000000000);
        int most = 0;
        while (inbox_count(&box) < LIMIT && ccl_now_ns() < end) {
            usleep(1000);
        }
        for (int i = 0; i < 300; i++) {
            int n = inbox_count(&box);
            most = n > most ? n : most;
            usleep(1000);
        }
        if (most < LIMIT || most > LIMIT + ONE_READ) {
            TEST_FAIL("most messages in the inbox: got %d, want %d to %d", most, LIMIT, LIMIT + ONE_READ);
        }
        atomic_store(&box.sleep_us, 0);
        TEST_CHECK(wait_for(&box.got[1], NOTES, TIMEOUT_NS));
        atomic_store(&w->shared->step, 1);
    }
    box_close(&box);
    TEST_EQ(atomic_load(&box.wrong), 0);
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

/* Rank 0 forks while messages flow: one child detaches, one lives on when rank 0 is killed. Rank 1 sees the death all
 * the same. */
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
    TEST_CHECK(wait_for(&box.died[0], 1, TIMEOUT_NS));
    atomic_store(&w->shared->step, 3);
    TEST_EQ(atomic_load(&box.wrong), 0);
    box_close(&box);
}

int main(void)
{
    setbuf(stdout, NULL);
    run_processes("strangers", 2, true, -1, strangers);
    run_processes("no_descriptors", 2, true, -1, no_descriptors);
    run_processes("too_many_under_way", 2, true, -1, too_many_under_way);
    run_processes("slow_receiver", 2, true, -1, slow_receiver);
    if (!UNDER_TSAN) { /* it refuses threads in the child of a process with threads */
        run_processes("forks", 2, true, 0, forks);
        run_processes("forks", 2, false, 0, forks);
    }
    return test_result();
}
