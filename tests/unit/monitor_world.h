/* SPDX-License-Identifier: MIT
 *
 * Ranks for the monitor's tests, as processes or as threads of one process, and a recorder of what their callbacks get.
 * The test's own process stays without threads, so it can fork under every sanitizer. */
#ifndef CCL_TEST_MONITOR_WORLD_H
#define CCL_TEST_MONITOR_WORLD_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bootstrap/monitor.h"
#include "test.h"

#define MAX_RANKS 8
/* Of what must come: long, for loaded machines. */
#define TIMEOUT_S 50
#define TIMEOUT_NS (TIMEOUT_S * UINT64_C(1000000000))

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#endif
#ifndef UNDER_TSAN
#define UNDER_TSAN 0
#endif

struct shared {
    cclUniqueId id;
    atomic_int id_ready;
    atomic_int step;
    _Atomic uint64_t when_ns;
};

struct world {
    struct shared *shared;
    struct ccl_bootstrap *boot;
    void (*fn)(struct world *world);
    int rank, size;
    bool processes; /* else threads of one process */
    bool pidfd;     /* else pidfd_open is not there */
    int victim;     /* rank that ends by SIGKILL, -1: none */
};

/* What the callbacks of one port saw. Messages carry a sequence number; each sender's must come in order. */
struct box {
    struct ccl_monitor_port *port;
    atomic_int got[MAX_RANKS], replies[MAX_RANKS], fds[MAX_RANKS], died[MAX_RANKS];
    atomic_int got_at_death[MAX_RANKS];
    _Atomic uint64_t died_ns[MAX_RANKS];
    atomic_int wrong; /* out of order or damaged */
    atomic_int ticks;
    atomic_int late; /* callbacks after detach */
    atomic_bool closed;
    bool reply;
    atomic_int sleep_us;
    atomic_bool hold; /* message callbacks do not return */
    atomic_int inside;
};

struct note {
    uint32_t seq, is_reply;
    uint8_t fill[CCL_MONITOR_MSG_BYTES - 8];
};

static inline size_t note_make(struct note *note, uint32_t seq, bool is_reply)
{
    size_t extra = seq * 7 % (sizeof(note->fill) + 1);
    note->seq = seq;
    note->is_reply = is_reply;
    memset(note->fill, (int)(seq & 255), extra);
    return 8 + extra;
}

static inline void box_message(void *ctx, int peer, const void *msg, size_t bytes, int fd)
{
    struct box *box = ctx;
    struct note note, want;
    uint32_t in_file;
    atomic_fetch_add(&box->inside, 1);
    atomic_fetch_add(&box->late, atomic_load(&box->closed));
    memset(&note, 0, sizeof(note));
    memcpy(&note, msg, bytes);
    atomic_int *count = note.is_reply ? &box->replies[peer] : &box->got[peer];
    size_t want_bytes = note_make(&want, note.seq, note.is_reply != 0);
    if (bytes != want_bytes || memcmp(&note, &want, bytes) != 0 || note.seq != (uint32_t)atomic_load(count)) {
        atomic_fetch_add(&box->wrong, 1);
    }
    if (fd >= 0) {
        if ((fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0 || pread(fd, &in_file, sizeof(in_file), 0) != sizeof(in_file) ||
            in_file != note.seq) {
            atomic_fetch_add(&box->wrong, 1);
        }
        close(fd);
        atomic_fetch_add(&box->fds[peer], 1);
    }
    if (atomic_load(&box->sleep_us) > 0) {
        usleep((useconds_t)atomic_load(&box->sleep_us));
    }
    while (atomic_load(&box->hold)) {
        usleep(500);
    }
    if (box->reply && !note.is_reply) {
        want_bytes = note_make(&want, note.seq, true);
        TEST_EQ(ccl_monitor_send(box->port, peer, &want, want_bytes, -1), cclSuccess);
    }
    atomic_fetch_add(count, 1);
    atomic_fetch_sub(&box->inside, 1);
}

static inline void box_died(void *ctx, int peer)
{
    struct box *box = ctx;
    atomic_fetch_add(&box->late, atomic_load(&box->closed));
    atomic_store(&box->died_ns[peer], ccl_now_ns());
    atomic_store(&box->got_at_death[peer], atomic_load(&box->got[peer]));
    atomic_fetch_add(&box->died[peer], 1);
}

static inline void box_tick(void *ctx)
{
    struct box *box = ctx;
    atomic_fetch_add(&box->late, atomic_load(&box->closed));
    atomic_fetch_add(&box->ticks, 1);
}

static const struct ccl_monitor_callbacks box_callbacks = {box_died, box_message, box_tick};

static inline void box_open(struct box *box, struct world *world)
{
    TEST_EQ(ccl_monitor_attach(world->boot, &box_callbacks, box, &box->port), cclSuccess);
    if (test_failures > 0) {
        _exit(1);
    }
}

static inline void box_close(struct box *box)
{
    ccl_monitor_detach(box->port);
    atomic_store(&box->closed, true);
}

/* Send note seq; with_fd: along with a file that holds seq. */
static inline cclResult_t send_note(struct box *box, int peer, uint32_t seq, bool with_fd)
{
    struct note note;
    size_t bytes = note_make(&note, seq, false);
    int fd = -1;
    if (with_fd) {
        fd = memfd_create("note", MFD_CLOEXEC);
        TEST_EQ(write(fd, &seq, sizeof(seq)), sizeof(seq));
    }
    cclResult_t rc = ccl_monitor_send(box->port, peer, &note, bytes, fd);
    if (fd >= 0) {
        close(fd);
    }
    return rc;
}

/* False after the time is over. */
static inline bool wait_for(atomic_int *value, int want, uint64_t timeout_ns)
{
    uint64_t end = ccl_now_ns() + timeout_ns;
    while (atomic_load(value) < want) {
        if (ccl_now_ns() > end) {
            return false;
        }
        usleep(500);
    }
    return true;
}

static inline int count_entries(const char *path)
{
    int n = 0;
    DIR *dir = opendir(path);
    while (dir != NULL && readdir(dir) != NULL) {
        n++;
    }
    closedir(dir);
    return n;
}

/* True once path has at most want entries; a joined thread leaves /proc a moment after the join. */
static inline bool entries_sink_to(const char *path, int want)
{
    uint64_t end = ccl_now_ns() + TIMEOUT_NS;
    while (count_entries(path) > want && ccl_now_ns() < end) {
        usleep(1000);
    }
    return count_entries(path) <= want;
}

static inline bool hide_pidfd_open(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog prog = {sizeof(code) / sizeof(code[0]), code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) == 0;
}

static inline void *rank_main(void *arg)
{
    struct world *world = arg;
    if (world->rank == 0) {
        TEST_EQ(ccl_bootstrap_get_id(&world->shared->id), cclSuccess);
        atomic_store(&world->shared->id_ready, 1);
    }
    wait_for(&world->shared->id_ready, 1, TIMEOUT_NS);
    TEST_EQ(ccl_bootstrap_create(&world->shared->id, world->rank, world->size, TIMEOUT_NS, &world->boot), cclSuccess);
    if (world->boot != NULL) {
        world->fn(world);
        ccl_bootstrap_destroy(world->boot);
    }
    return NULL;
}

static inline void child_main(struct world *world)
{
    pthread_t threads[MAX_RANKS];
    struct world ranks[MAX_RANKS];
    test_failures = 0; /* those of earlier tests are the parent's */
    alarm(120);
    if (!world->pidfd && !hide_pidfd_open()) {
        printf("no seccomp filter: the test without pidfd is skipped\n");
        fflush(stdout);
        _exit(TEST_SKIP);
    }
    if (world->processes) {
        test_rank = world->rank;
        rank_main(world);
    } else {
        for (int i = 0; i < world->size; i++) {
            ranks[i] = *world;
            ranks[i].rank = i;
            pthread_create(&threads[i], NULL, rank_main, &ranks[i]);
        }
        for (int i = 0; i < world->size; i++) {
            pthread_join(threads[i], NULL);
        }
    }
    fflush(stdout);
    exit(test_result()); /* not _exit: the leak checker runs at exit */
}

static inline void run_world(const char *name, struct world model)
{
    pid_t pids[MAX_RANKS];
    uint64_t start = ccl_now_ns();
    int children = model.processes ? model.size : 1;
    model.shared = mmap(NULL, sizeof(*model.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fflush(stdout);
    for (int i = 0; i < children; i++) {
        model.rank = i;
        pids[i] = fork();
        if (pids[i] == 0) {
            child_main(&model); /* does not return */
        }
    }
    for (int i = 0; i < children; i++) {
        int status = 0;
        while (waitpid(pids[i], &status, 0) < 0 && errno == EINTR) {
        }
        bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        bool fine = WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == TEST_SKIP);
        if (i == model.victim ? !killed : !fine) {
            TEST_FAIL("%s: rank %d of %d ended with status 0x%x", name, i, model.size, status);
        }
    }
    munmap(model.shared, sizeof(*model.shared));
    printf("%-28s %d %s%s: %.2f s\n", name, model.size, model.processes ? "processes" : "threads",
           model.pidfd ? "" : " without pidfd", (double)(ccl_now_ns() - start) * 1e-9);
    fflush(stdout);
}

static inline void run_processes(const char *name, int size, bool pidfd, int victim, void (*fn)(struct world *world))
{
    run_world(name, (struct world){.fn = fn, .size = size, .processes = true, .pidfd = pidfd, .victim = victim});
}

static inline void run_threads(const char *name, int size, void (*fn)(struct world *world))
{
    run_world(name, (struct world){.fn = fn, .size = size, .pidfd = true, .victim = -1});
}

#endif
