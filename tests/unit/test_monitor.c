/* SPDX-License-Identifier: MIT
 *
 * Proves that monitor messages and their descriptors arrive complete and in order between processes and threads, that
 * floods both ways do not block, that every death is reported once, after the last message and quickly, and that cycles
 * do not grow. */
#include <malloc.h>

#include "monitor_world.h"

#define KILL_LIMIT_NS UINT64_C(200000000)

static void messages(struct world *w)
{
    enum { NOTES = 300, FD_EVERY = 10 };
    struct box box = {0};
    box_open(&box, w);
    for (uint32_t seq = 0; seq < NOTES; seq++) {
        for (int peer = 0; peer < w->size; peer++) {
            TEST_EQ(send_note(&box, peer, seq, seq % FD_EVERY == 0), cclSuccess);
        }
    }
    for (int peer = 0; peer < w->size; peer++) {
        wait_for(&box.got[peer], NOTES, TIMEOUT_NS);
        TEST_EQ(atomic_load(&box.got[peer]), NOTES);
        TEST_EQ(atomic_load(&box.fds[peer]), NOTES / FD_EVERY);
        TEST_EQ(atomic_load(&box.died[peer]), 0);
    }
    TEST_EQ(atomic_load(&box.wrong), 0);
    struct note note = {0};
    TEST_EQ(ccl_monitor_send(box.port, w->size, &note, 8, -1), cclInvalidArgument);
    TEST_EQ(ccl_monitor_send(box.port, -1, &note, 8, -1), cclInvalidArgument);
    TEST_EQ(ccl_monitor_send(box.port, 0, &note, CCL_MONITOR_MSG_BYTES + 1, -1), cclInvalidArgument);
    TEST_EQ(ccl_bootstrap_barrier(w->boot), cclSuccess);
    box_close(&box);
    TEST_EQ(atomic_load(&box.late), 0);
}

/* All ranks at once, each answered from the callback. */
static void flood(struct world *w)
{
    enum { NOTES = 10000 };
    struct box box = {.reply = true};
    box_open(&box, w);
    for (uint32_t seq = 0; seq < NOTES; seq++) {
        for (int peer = 0; peer < w->size; peer++) {
            if (peer != w->rank) {
                TEST_EQ(send_note(&box, peer, seq, false), cclSuccess);
            }
        }
    }
    for (int peer = 0; peer < w->size; peer++) {
        if (peer != w->rank) {
            wait_for(&box.got[peer], NOTES, TIMEOUT_NS);
            wait_for(&box.replies[peer], NOTES, TIMEOUT_NS);
            TEST_EQ(atomic_load(&box.got[peer]), NOTES);
            TEST_EQ(atomic_load(&box.replies[peer]), NOTES);
        }
    }
    TEST_EQ(atomic_load(&box.wrong), 0);
    TEST_EQ(ccl_bootstrap_barrier(w->boot), cclSuccess);
    box_close(&box);
}

/* The last rank sends and kills itself; two communicators, the survivors go on. */
static void killed(struct world *w)
{
    enum { NOTES = 5 };
    struct box box[2] = {0};
    int victim = w->size - 1;
    box_open(&box[0], w);
    box_open(&box[1], w);
    TEST_EQ(ccl_bootstrap_barrier(w->boot), cclSuccess);
    if (w->rank == victim) {
        usleep(20000);
        for (uint32_t seq = 0; seq < NOTES; seq++) {
            for (int peer = 0; peer < victim; peer++) {
                TEST_EQ(send_note(&box[0], peer, seq, seq == 0), cclSuccess);
            }
        }
        atomic_store(&w->shared->when_ns, ccl_now_ns());
        kill(getpid(), SIGKILL);
    }
    for (int i = 0; i < 2; i++) {
        TEST_CHECK(wait_for(&box[i].died[victim], 1, TIMEOUT_NS));
        uint64_t took = atomic_load(&box[i].died_ns[victim]) - atomic_load(&w->shared->when_ns);
        printf("  rank %d communicator %d: death seen after %.3f ms\n", w->rank, i, (double)took * 1e-6);
        TEST_CHECK(took < KILL_LIMIT_NS);
    }
    TEST_EQ(atomic_load(&box[0].got_at_death[victim]), NOTES);
    TEST_EQ(atomic_load(&box[0].fds[victim]), 1);
    TEST_EQ(send_note(&box[0], victim, 0, true), cclSuccess);
    for (int peer = 0; peer < victim; peer++) {
        TEST_EQ(send_note(&box[0], peer, 0, false), cclSuccess);
    }
    for (int peer = 0; peer < victim; peer++) {
        TEST_CHECK(wait_for(&box[0].got[peer], 1, TIMEOUT_NS));
    }
    usleep(50000);
    for (int i = 0; i < 2; i++) {
        for (int peer = 0; peer < w->size; peer++) {
            TEST_EQ(atomic_load(&box[i].died[peer]), peer == victim);
        }
    }
    atomic_fetch_add(&w->shared->step, 1);
    wait_for(&w->shared->step, victim, TIMEOUT_NS);
    box_close(&box[0]);
    box_close(&box[1]);
    TEST_EQ(atomic_load(&box[0].wrong), 0);
}

/* Slow callbacks for a flood from rank 1 must not hide the death of rank 2 from rank 0. */
static void killed_under_load(struct world *w)
{
    enum { NOTES = 3000, LAST_NOTES = 100 }; /* more last notes than one look at the socket takes */
    struct box box = {0};
    box_open(&box, w);
    if (w->rank == 0) {
        atomic_store(&box.sleep_us, 1000);
    }
    if (w->rank == 1) {
        for (uint32_t seq = 0; seq < NOTES; seq++) {
            TEST_EQ(send_note(&box, 0, seq, false), cclSuccess);
        }
    }
    TEST_EQ(ccl_bootstrap_barrier(w->boot), cclSuccess);
    if (w->rank == 2) {
        for (uint32_t seq = 0; seq < LAST_NOTES; seq++) {
            TEST_EQ(send_note(&box, 0, seq, false), cclSuccess);
        }
        atomic_store(&w->shared->when_ns, ccl_now_ns());
        kill(getpid(), SIGKILL);
    }
    TEST_CHECK(wait_for(&box.died[2], 1, TIMEOUT_NS));
    uint64_t took = atomic_load(&box.died_ns[2]) - atomic_load(&w->shared->when_ns);
    printf("  rank %d: death seen after %.3f ms, %d messages waiting\n", w->rank, (double)took * 1e-6,
           w->rank == 0 ? NOTES - atomic_load(&box.got[1]) : 0);
    if (w->rank == 0) {
        /* Its own last notes, 1 ms each, come first. */
        TEST_CHECK(took < 2 * KILL_LIMIT_NS);
        TEST_EQ(atomic_load(&box.got_at_death[2]), LAST_NOTES);
        TEST_CHECK(atomic_load(&box.got[1]) < NOTES);
        atomic_store(&box.sleep_us, 0);
        TEST_CHECK(wait_for(&box.got[1], NOTES, TIMEOUT_NS));
        atomic_store(&w->shared->step, 1);
    }
    TEST_CHECK(wait_for(&w->shared->step, 1, TIMEOUT_NS));
    TEST_EQ(atomic_load(&box.wrong), 0);
    box_close(&box);
}

/* Rank 1 leaves in order, rank 2 exits without a word, rank 0 looks. */
static void exits(struct world *w)
{
    static struct box box;
    box_open(&box, w);
    TEST_EQ(ccl_bootstrap_barrier(w->boot), cclSuccess);
    if (w->rank == 2) {
        wait_for(&w->shared->step, 1, TIMEOUT_NS);
        _exit(0);
    }
    if (w->rank == 1) {
        TEST_EQ(send_note(&box, 0, 0, false), cclSuccess);
        box_close(&box);
        return;
    }
    TEST_CHECK(wait_for(&box.got[1], 1, TIMEOUT_NS));
    if (w->pidfd) {
        TEST_CHECK(wait_for(&box.died[1], 1, TIMEOUT_NS));
    } else {
        usleep(300000);
        TEST_EQ(atomic_load(&box.died[1]), 0); /* it has said goodbye */
    }
    TEST_EQ(atomic_load(&box.died[2]), 0);
    TEST_EQ(send_note(&box, 1, 0, true), cclSuccess);
    atomic_store(&w->shared->step, 1);
    TEST_CHECK(wait_for(&box.died[2], 1, TIMEOUT_NS));
    usleep(50000);
    TEST_EQ(atomic_load(&box.died[1]), w->pidfd);
    TEST_EQ(atomic_load(&box.died[2]), 1);
    box_close(&box);
}

static void ticks(struct world *w)
{
    struct box box[2] = {0};
    box_open(&box[0], w);
    box_open(&box[1], w);
    usleep(250000);
    TEST_EQ(atomic_load(&box[0].ticks), 0);
    ccl_monitor_want_tick(box[0].port, true);
    ccl_monitor_want_tick(box[0].port, true);
    uint64_t start = ccl_now_ns();
    TEST_CHECK(wait_for(&box[0].ticks, 5, TIMEOUT_NS));
    uint64_t took = ccl_now_ns() - start;
    if (took < UINT64_C(390000000)) {
        TEST_FAIL("5 ticks in %llu us, want 500000", (unsigned long long)took / 1000);
    }
    ccl_monitor_want_tick(box[0].port, false);
    usleep(100000); /* one may be running */
    int n = atomic_load(&box[0].ticks);
    usleep(250000);
    TEST_EQ(atomic_load(&box[0].ticks), n);
    TEST_EQ(atomic_load(&box[1].ticks), 0);
    ccl_monitor_want_tick(box[1].port, true);
    TEST_CHECK(wait_for(&box[1].ticks, 1, TIMEOUT_NS));
    TEST_EQ(atomic_load(&box[0].ticks), n);
    box_close(&box[1]);
    usleep(150000);
    TEST_EQ(atomic_load(&box[1].late), 0);
    box_close(&box[0]);
}

struct spinner {
    struct ccl_monitor_port *port;
    atomic_bool stop;
    atomic_int ticks, turns;
};

static void spinner_message(void *ctx, int peer, const void *msg, size_t bytes, int fd)
{
    struct spinner *spinner = ctx;
    (void)fd;
    if (!atomic_load(&spinner->stop)) {
        TEST_EQ(ccl_monitor_send(spinner->port, peer, msg, bytes, -1), cclSuccess);
    }
    atomic_fetch_add(&spinner->turns, 1);
}

static void spinner_tick(void *ctx)
{
    atomic_fetch_add(&((struct spinner *)ctx)->ticks, 1);
}

/* A port that always has something to deliver does not keep the thread from the rest of its work. */
static void ticks_under_load(struct world *w)
{
    static const struct ccl_monitor_callbacks callbacks = {box_died, spinner_message, spinner_tick};
    struct spinner spinner = {0};
    TEST_EQ(ccl_monitor_attach(w->boot, &callbacks, &spinner, &spinner.port), cclSuccess);
    TEST_EQ(ccl_monitor_send(spinner.port, 0, "again", 5, -1), cclSuccess);
    ccl_monitor_want_tick(spinner.port, true);
    TEST_CHECK(wait_for(&spinner.ticks, 3, TIMEOUT_NS));
    TEST_CHECK(atomic_load(&spinner.turns) > 1000);
    atomic_store(&spinner.stop, true);
    ccl_monitor_detach(spinner.port);
}

/* Look for a thread named ccl-monitor; *blocked is its set of blocked signals. */
static bool find_thread(unsigned long long *blocked)
{
    char path[300], line[256];
    bool found = false;
    DIR *dir = opendir("/proc/self/task");
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        bool ours = false;
        snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
        FILE *file = fopen(path, "r");
        while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
            ours = ours || strcmp(line, "Name:\tccl-monitor\n") == 0;
            if (ours && sscanf(line, "SigBlk: %llx", blocked) == 1) {
                found = true;
            }
        }
        if (file != NULL) {
            fclose(file);
        }
    }
    closedir(dir);
    return found;
}

static void check_close_on_exec(void)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    char target[256], path[300];
    int ours = 0;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
        ssize_t n = readlink(path, target, sizeof(target) - 1);
        target[n > 0 ? n : 0] = '\0';
        if (strncmp(target, "socket:", 7) == 0 || strncmp(target, "anon_inode:", 11) == 0) {
            ours++;
            if ((fcntl(atoi(entry->d_name), F_GETFD) & FD_CLOEXEC) == 0) {
                TEST_FAIL("descriptor %s, %s, would survive exec", entry->d_name, target);
            }
        }
    }
    closedir(dir);
    TEST_CHECK(ours >= 3); /* epoll, eventfd, listener */
}

static void thread_properties(struct world *w)
{
    struct box box = {0};
    unsigned long long blocked = 0;
    TEST_CHECK(!find_thread(&blocked));
    box_open(&box, w);
    TEST_EQ(send_note(&box, 0, 0, false), cclSuccess);
    TEST_CHECK(wait_for(&box.got[0], 1, TIMEOUT_NS)); /* it has its name now */
    TEST_CHECK(find_thread(&blocked));
    for (int sig = 1; sig < 32; sig++) {
        if (sig != SIGKILL && sig != SIGSTOP && (blocked >> (sig - 1) & 1) == 0) {
            TEST_FAIL("signal %d is not blocked on the monitor thread", sig);
        }
    }
    check_close_on_exec();
    int tasks = count_entries("/proc/self/task");
    box_close(&box);
    TEST_CHECK(entries_sink_to("/proc/self/task", tasks - 1));
    TEST_CHECK(!find_thread(&blocked));
}

static void cycles(struct world *w)
{
    enum { CYCLES = 500, WARM = 50 };
    int fds = 0, tasks = 0;
    size_t heap = 0;
    for (int i = 0; i < CYCLES; i++) {
        struct box box = {0};
        if (i == WARM) {
            fds = count_entries("/proc/self/fd");
            tasks = count_entries("/proc/self/task");
            heap = mallinfo2().uordblks;
        }
        box_open(&box, w);
        for (int peer = 0; peer < w->size; peer++) {
            TEST_EQ(send_note(&box, peer, 0, i % 2 == 0), cclSuccess);
        }
        if (i % 3 == 0) {
            wait_for(&box.got[(w->rank + 1) % w->size], 1, TIMEOUT_NS);
        }
        TEST_EQ(ccl_bootstrap_barrier(w->boot), cclSuccess);
        box_close(&box);
        TEST_EQ(atomic_load(&box.late), 0);
        TEST_EQ(atomic_load(&box.wrong), 0);
    }
    TEST_CHECK(entries_sink_to("/proc/self/fd", fds));
    TEST_CHECK(entries_sink_to("/proc/self/task", tasks));
    size_t end = mallinfo2().uordblks;
    if (end > heap + 16384) {
        TEST_FAIL("heap grew from %zu to %zu bytes in %d cycles", heap, end, CYCLES - WARM);
    }
}

int main(void)
{
    setbuf(stdout, NULL);
    run_processes("messages", 3, true, -1, messages);
    run_processes("messages", 3, false, -1, messages);
    run_threads("messages", 3, messages);
    run_threads("messages", 1, messages);
    run_processes("flood", 2, true, -1, flood);
    run_processes("flood", 3, false, -1, flood);
    run_threads("flood", 3, flood);
    run_processes("killed", 3, true, 2, killed);
    run_processes("killed", 3, false, 2, killed);
    run_processes("killed", 5, true, 4, killed);
    run_processes("killed_under_load", 3, true, 2, killed_under_load);
    run_processes("exits", 3, true, -1, exits);
    run_processes("exits", 3, false, -1, exits);
    run_threads("ticks", 1, ticks);
    run_threads("ticks_under_load", 1, ticks_under_load);
    run_threads("thread_properties", 1, thread_properties);
    run_processes("cycles", 2, true, -1, cycles);
    run_processes("cycles", 2, false, -1, cycles);
    run_processes("cycles", 1, true, -1, cycles);
    return test_result();
}
