/* SPDX-License-Identifier: MIT
 *
 * Proves that descriptors of every rank reach every other rank in order, also many of them under a small limit of a
 * plain user, that holes stay holes, and that a failure leaks none. */
#include "test_bootstrap.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define MAX_NFDS 8

/* Descriptor i of rank r is a hole when this says so. */
static bool hole(int rank, int i)
{
    return (rank * 3 + i) % 5 == 4;
}

static void make_fds(struct member *m, int nfds, int *fds)
{
    for (int i = 0; i < nfds; i++) {
        int32_t value = m->rank * 100 + i;
        fds[i] = -1;
        if (!hole(m->rank, i)) {
            fds[i] = memfd_create("test", MFD_CLOEXEC);
            M_EQ(m, write(fds[i], &value, sizeof(value)), (long)sizeof(value));
        }
    }
}

static void close_all(const int *fds, int n)
{
    for (int i = 0; i < n; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
}

static void check_exchange(struct member *m, struct ccl_bootstrap *boot, int nfds)
{
    int fds[MAX_NFDS], out[MAX_RANKS * MAX_NFDS];
    memset(out, 0x55, sizeof(out));
    make_fds(m, nfds, fds);
    cclResult_t rc = ccl_bootstrap_exchange_fds(boot, fds, nfds, out);
    M_EQ(m, rc, cclSuccess);
    if (rc != cclSuccess) {
        return;
    }
    for (int r = 0; r < m->nranks; r++) {
        for (int i = 0; i < nfds; i++) {
            int fd = out[r * nfds + i];
            int32_t value = -1;
            if (r == m->rank || hole(r, i)) {
                M_EQ(m, fd, -1);
                continue;
            }
            M_EQ(m, pread(fd, &value, sizeof(value), 0), (long)sizeof(value));
            M_EQ(m, value, r * 100 + i);
            M_EQ(m, fcntl(fd, F_GETFD), FD_CLOEXEC);
        }
    }
    M_EQ(m, out[m->nranks * nfds - 1] == 0x55555555, 0);
    close_all(out, m->nranks * nfds);
    close_all(fds, nfds);
    M_EQ(m, ccl_bootstrap_barrier(boot), cclSuccess);
}

static void body(struct member *m, struct ccl_bootstrap *boot)
{
    const int *nfds = m->world->ctx;
    if (boot == NULL) {
        M_FAIL(m, "create: %d %s", m->rc, m->text);
        return;
    }
    for (int i = 0; nfds[i] > 0; i++) {
        check_exchange(m, boot, nfds[i]);
        check_exchange(m, boot, nfds[i]);
    }
}

static void test_worlds(int procs, int n, const int *nfds)
{
    static struct world w;
    int before = count_fds();
    world_init(&w, n, body, (void *)nfds, NULL);
    world_new_id(&w);
    uint64_t start = ccl_now_ns();
    procs ? world_procs(&w) : world_threads(&w);
    printf("descriptors of %d %s: %.0f ms\n", n, procs ? "processes" : "threads", ms_since(start));
    settle(before, 1 << 20);
    TEST_EQ(count_fds(), before);
}

/* Few descriptors and none of root's exemptions: what is on the way must be bounded. */
static void test_small_limit(void)
{
    if (geteuid() != 0) {
        printf("small limit: not root, the other tests ran as a plain user already\n");
    }
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        static struct world w;
        static const int nfds[] = {4, 0};
        struct rlimit limit = {.rlim_cur = 200, .rlim_max = 200};
        test_failures = 0;
        if (geteuid() == 0) {
            TEST_EQ(setresgid(65534, 65534, 65534), 0);
            TEST_EQ(setresuid(65534, 65534, 65534), 0);
        }
        TEST_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
        world_init(&w, 40, body, (void *)nfds, NULL);
        world_new_id(&w);
        world_procs(&w);
        fflush(NULL);
        _exit(test_failures > 0);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    TEST_EQ(status, 0);
}

static void body_bad(struct member *m, struct ccl_bootstrap *boot)
{
    const int *bad_rank = m->world->ctx;
    int fds[2], out[2 * MAX_RANKS];
    if (boot == NULL) {
        M_FAIL(m, "create: %d %s", m->rc, m->text);
        return;
    }
    make_fds(m, 2, fds);
    int keep = fds[1];
    fds[1] = m->rank == *bad_rank ? 987654 : fds[1];
    char text[64];
    snprintf(text, sizeof(text), "rank %d: descriptor 1 to pass is 987654", *bad_rank);
    memset(out, 0x55, sizeof(out));
    M_EQ(m, ccl_bootstrap_exchange_fds(boot, fds, 2, out), cclInvalidArgument);
    M_TEXT(m, text);
    M_EQ(m, out[0], 0x55555555);
    M_EQ(m, ccl_bootstrap_barrier(boot), cclInvalidArgument);
    fds[1] = keep;
    close_all(fds, 2);
}

/* Rank 2 (a process of its own) has no free descriptor numbers when the others' come. */
static void body_full(struct member *m, struct ccl_bootstrap *boot)
{
    int fds[4], out[4 * MAX_RANKS];
    if (boot == NULL) {
        M_FAIL(m, "create: %d %s", m->rc, m->text);
        return;
    }
    make_fds(m, 4, fds);
    int before = count_fds();
    if (m->rank == 2) {
        struct rlimit limit = {.rlim_cur = (rlim_t)dup(0) + 3, .rlim_max = 20000};
        close((int)limit.rlim_cur - 3);
        M_EQ(m, setrlimit(RLIMIT_NOFILE, &limit), 0);
    }
    M_EQ(m, ccl_bootstrap_exchange_fds(boot, fds, 4, out), cclSystemError);
    M_TEXT(m, "rank 2: out of descriptors");
    struct rlimit wide = {.rlim_cur = 1000, .rlim_max = 20000};
    setrlimit(RLIMIT_NOFILE, &wide);
    M_EQ(m, count_fds(), before);
    close_all(fds, 4);
}

/* Rank 3 dies after it has put its descriptors: whoever notices, nobody keeps any. */
static void body_dies(struct member *m, struct ccl_bootstrap *boot)
{
    int fds[4], out[4 * MAX_RANKS];
    if (boot == NULL) {
        M_FAIL(m, "create: %d %s", m->rc, m->text);
        return;
    }
    M_EQ(m, ccl_bootstrap_barrier(boot), cclSuccess);
    if (m->rank == 3) {
        usleep(50000);
        _exit(77);
    }
    make_fds(m, 4, fds);
    int before = count_fds();
    M_EQ(m, ccl_bootstrap_exchange_fds(boot, fds, 4, out), cclRemoteError);
    M_TEXT(m, "rank 3 of 5 is gone");
    M_EQ(m, count_fds(), before);
    close_all(fds, 4);
}

int main(void)
{
    static const int few[] = {1, 2, 3, 8, 0}, eight[] = {8, 0}, two[] = {2, 0};
    static struct world w;
    test_small_limit();
    test_worlds(1, 1, few);
    test_worlds(1, 5, few);
    test_worlds(1, 64, eight); /* 500 descriptors for everyone: several messages */
    test_worlds(0, 7, few);
    test_worlds(0, 40, two);
    for (int bad = 0; bad < 3; bad += 2) {
        int before = count_fds();
        world_init(&w, 4, body_bad, &bad, NULL);
        world_new_id(&w);
        world_threads(&w);
        settle(before, 1 << 20);
        TEST_EQ(count_fds(), before);
    }
    world_init(&w, 5, body_full, NULL, NULL);
    world_new_id(&w);
    world_procs(&w);
    world_init(&w, 5, body_dies, NULL, NULL);
    world_new_id(&w);
    world_procs(&w);
    return test_result();
}
