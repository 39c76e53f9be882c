/* SPDX-License-Identifier: MIT
 *
 * Proves that missing, dead, duplicate and disagreeing ranks end in the right code on every rank, with a text that
 * names them, in time. */
#include "test_bootstrap.h"

#include <signal.h>

#include "bootstrap/wire.h"

static struct world w;

static void expect_text(const struct member *m, cclResult_t rc, const char *part)
{
    if (m->rc != rc || strstr(m->text, part) == NULL) {
        M_FAIL(m, "create: got %d \"%s\", want %d \"%s\"", m->rc, m->text, rc, part);
    }
}

static void no_body(struct member *m, struct ccl_bootstrap *boot)
{
    (void)boot;
    M_EQ(m, m->world->fn == no_body, 1); /* the caller looks at rc and text */
}

static void start(int n, member_fn *fn, void *ctx)
{
    world_init(&w, n, fn, ctx, NULL);
    world_new_id(&w);
}

/* ---- rendezvous ---- */

static void test_missing(void)
{
    start(8, no_body, NULL);
    w.members[2].skip = w.members[5].skip = 1;
    w.members[3].timeout_ns = 500 * MS; /* the others would wait longer and learn it from rank 3 */
    uint64_t t = ccl_now_ns();
    world_threads(&w);
    TEST_CHECK(ms_since(t) > 450 && ms_since(t) < 1500);
    for (int i = 0; i < 8; i++) {
        if (!w.members[i].skip) {
            expect_text(&w.members[i], cclSystemError, "ranks 2, 5 of 8 did not come before the deadline of rank 3");
        }
    }
    /* One that comes later gets the same. */
    w.members[2].skip = 0;
    threads_start(&w, 2, 3);
    threads_join(&w, 2, 3);
    expect_text(&w.members[2], cclSystemError, "ranks 2, 5 of 8 did not come");
}

static void test_missing_root(void)
{
    start(3, no_body, NULL);
    w.members[0].skip = 1;
    w.members[1].timeout_ns = w.members[2].timeout_ns = 300 * MS;
    world_threads(&w);
    expect_text(&w.members[1], cclSystemError, "rank 0 of 3 did not come");
    expect_text(&w.members[2], cclSystemError, "rank 0 of 3 did not come");
}

static void test_duplicate(void)
{
    int fds = count_fds();
    start(4, no_body, NULL);
    w.members[3].rank = 1;
    world_threads(&w);
    for (int i = 0; i < 4; i++) {
        expect_text(&w.members[i], cclInvalidUsage, "rank 1 of 4 came twice");
    }
    settle(fds, 1 << 20); /* all have their answer, so it ends at once */
    TEST_EQ(count_fds(), fds);
}

static void test_differing_nranks(void)
{
    start(4, no_body, NULL);
    w.members[2].nranks = 8;
    w.members[2].rank = 6;
    world_threads(&w);
    for (int i = 0; i < 4; i++) {
        /* Whoever came first. */
        expect_text(&w.members[i], cclInvalidUsage, "was given 8");
        TEST_CHECK(strstr(w.members[i].text, "was given 4") != NULL);
        TEST_CHECK(strstr(w.members[i].text, "rank 6") != NULL);
        TEST_CHECK(strcmp(w.members[i].text, w.members[0].text) == 0);
    }
}

/* Often, so that the ranks fall into every order and batch: all get the one verdict, and surplus ranks never spoil a
 * success. */
static void test_crowds(void)
{
    for (int round = 0; round < 150; round++) {
        int surplus = round % 2;
        start(6, no_body, NULL);
        for (int i = 0; i < 6; i++) {
            w.members[i].nranks = !surplus && i == 3 ? 6 : 5;
            w.members[i].rank = i == 5 && surplus ? 2 : i;
            w.members[i].timeout_ns = 3000 * MS;
        }
        w.members[5].skip = !surplus;
        world_threads(&w);
        int good = 0, usage = 0;
        for (int i = 0; i < 6; i++) {
            good += !w.members[i].skip && w.members[i].rc == cclSuccess;
            usage += !w.members[i].skip && w.members[i].rc == cclInvalidUsage;
        }
        /* Rank 2 twice among five: seen in time (the sixth may find nobody any more), or the second is turned away. */
        if (surplus ? good != 5 && (good != 0 || usage < 5) : usage != 5) {
            TEST_FAIL("round %d: %d ranks succeeded, %d were refused", round, good, usage);
            for (int i = 0; i < 6; i++) {
                TEST_FAIL("  rank %d: %d %.512s", w.members[i].rank, w.members[i].rc, w.members[i].text);
            }
        }
    }
}

static void test_reuse_and_bad_ids(void)
{
    struct ccl_bootstrap *boot;
    cclUniqueId id;
    start(2, NULL, NULL);
    world_threads(&w);
    id = w.members[0].id;
    uint64_t t = ccl_now_ns();
    TEST_CHECK(ccl_bootstrap_create(&id, 0, 1, 5000 * MS, &boot) != cclSuccess);
    TEST_CHECK(ms_since(t) < 1000);

    memset(&id, 'x', sizeof(id));
    TEST_EQ(ccl_bootstrap_create(&id, 0, 1, 1000 * MS, &boot), cclInvalidArgument);
    start(1, NULL, NULL);
    for (int i = 0; i < (int)sizeof(struct ccl_wire_id); i += 7) {
        id = w.members[0].id;
        id.internal[i] ^= 4;
        TEST_CHECK(ccl_bootstrap_create(&id, 0, 1, 1000 * MS, &boot) != cclSuccess);
    }
    TEST_EQ(ccl_bootstrap_create(&w.members[0].id, 0, 0, 1000 * MS, &boot), cclInvalidArgument);
    TEST_EQ(ccl_bootstrap_create(&w.members[0].id, 1, 1, 1000 * MS, &boot), cclInvalidArgument);
    TEST_EQ(ccl_bootstrap_create(&w.members[0].id, -1, 1, 1000 * MS, &boot), cclInvalidArgument);
    TEST_EQ(ccl_bootstrap_create(NULL, 0, 1, 1000 * MS, &boot), cclInvalidArgument);
    TEST_EQ(ccl_bootstrap_get_id(NULL), cclInvalidArgument);
    world_threads(&w); /* the true one is still good */
}

/* A process that dies after it has told its rank. */
static void test_dead_at_rendezvous(void)
{
    start(3, no_body, NULL);
    procs_start(&w, 1, 2);
    usleep(100000);
    kill(w.members[1].pid, SIGKILL);
    int status;
    waitpid(w.members[1].pid, &status, 0);
    w.members[1].skip = 1;
    uint64_t t = ccl_now_ns();
    world_threads(&w);
    TEST_CHECK(ms_since(t) < 2000);
    expect_text(&w.members[0], cclRemoteError, "rank 1 of 3 is gone");
    expect_text(&w.members[2], cclRemoteError, "rank 1 of 3 is gone");
}

/* ---- exchanges ---- */

static void body_dies(struct member *m, struct ccl_bootstrap *boot)
{
    const int *victim = m->world->ctx;
    uint8_t data[8 * 16] = {0};
    M_EQ(m, m->rc, cclSuccess);
    if (boot == NULL) {
        return;
    }
    M_EQ(m, ccl_bootstrap_barrier(boot), cclSuccess);
    uint64_t t = ccl_now_ns();
    if (m->rank == *victim) {
        usleep(50000); /* the others are inside by then */
        _exit(77);
    }
    char text[32];
    snprintf(text, sizeof(text), "rank %d of %d is gone", *victim, m->nranks);
    M_EQ(m, ccl_bootstrap_allgather(boot, data, 16), cclRemoteError);
    M_TEXT(m, text);
    M_EQ(m, ccl_bootstrap_barrier(boot), cclRemoteError); /* and it stays broken */
    M_TEXT(m, text);
    int fds[1] = {-1}, out[8];
    M_EQ(m, ccl_bootstrap_exchange_fds(boot, fds, 1, out), cclRemoteError);
    M_EQ(m, ms_since(t) < 2000, 1);
}

static void test_dies(int victim)
{
    start(5, body_dies, &victim);
    world_procs(&w);
}

static void body_missing(struct member *m, struct ccl_bootstrap *boot)
{
    const int *absent = m->world->ctx;
    M_EQ(m, m->rc, cclSuccess);
    if (boot == NULL) {
        return;
    }
    M_EQ(m, ccl_bootstrap_barrier(boot), cclSuccess);
    uint64_t t = ccl_now_ns();
    if (absent[m->rank]) {
        usleep(1800000); /* longer than the others wait, grace included */
        M_EQ(m, ccl_bootstrap_barrier(boot) != cclSuccess, 1);
        return;
    }
    M_EQ(m, ccl_bootstrap_barrier(boot), cclSystemError);
    M_TEXT(m, absent[0] ? "rank 0 of 5" : "ranks 2, 4 of 5 did not come to barrier");
    M_EQ(m, ms_since(t) < 1750, 1);
}

/* Rank 1 has given up before rank 0 comes: rank 0 may still see its contribution, but no more than that. */
static void body_late_root(struct member *m, struct ccl_bootstrap *boot)
{
    if (boot == NULL) {
        M_FAIL(m, "create: %d %s", m->rc, m->text);
        return;
    }
    if (m->rank == 1) {
        M_EQ(m, ccl_bootstrap_barrier(boot), cclSystemError);
        M_TEXT(m, "rank 0 of 2 did not answer in barrier before the deadline of rank 1");
        usleep(700000); /* still there, but broken */
        return;
    }
    usleep(1500000);
    if (ccl_bootstrap_barrier(boot) == cclSuccess) {
        M_EQ(m, ccl_bootstrap_barrier(boot), cclRemoteError);
    }
    M_TEXT(m, "rank 1 of 2 is gone in barrier");
}

/* All at once, for they mostly sleep. */
static void test_missing_in_exchange(void)
{
    static struct world worlds[3];
    static int absent[2][8] = {{[2] = 1, [4] = 1}, {[0] = 1, [2] = 1, [4] = 1}};
    for (int k = 0; k < 3; k++) {
        world_init(&worlds[k], k < 2 ? 5 : 2, k < 2 ? body_missing : body_late_root, k < 2 ? absent[k] : NULL, NULL);
        world_new_id(&worlds[k]);
        for (int i = 0; i < worlds[k].n; i++) {
            worlds[k].members[i].timeout_ns = i == 1 || k > 0 ? 400 * MS : LONG;
        }
        threads_start(&worlds[k], 0, worlds[k].n);
    }
    for (int k = 0; k < 3; k++) {
        threads_join(&worlds[k], 0, worlds[k].n);
    }
}

static void body_agree(struct member *m, struct ccl_bootstrap *boot)
{
    M_EQ(m, m->rc, cclSuccess);
    if (boot == NULL) {
        return;
    }
    char own[32];
    snprintf(own, sizeof(own), "trouble %d", m->rank);
    for (int round = 0; round < 20; round++) {
        int low = round % m->nranks;
        bool fails = m->rank == low || (m->rank > low && m->rank % 2 == 0);
        cclResult_t mine = fails
                               ? ccl_error_set(m->rank == low ? cclInvalidUsage : cclInternalError, CCL_BOOT, "%s", own)
                               : cclSuccess;
        M_EQ(m, ccl_bootstrap_agree(boot, mine), cclInvalidUsage);
        char text[64];
        snprintf(text, sizeof(text), m->rank == low ? "trouble %d" : "rank %d: trouble %d", low, low);
        M_EQ(m, strcmp(ccl_error_last(), text), 0);
        M_EQ(m, ccl_bootstrap_agree(boot, cclSuccess), cclSuccess); /* not broken by that */
    }
}

static void body_mismatch(struct member *m, struct ccl_bootstrap *boot)
{
    const int *variant = m->world->ctx;
    uint8_t data[4 * 64] = {0};
    if (boot == NULL) {
        M_FAIL(m, "create: %d %s", m->rc, m->text);
        return;
    }
    cclResult_t rc = m->rank != 2    ? ccl_bootstrap_allgather(boot, data, 32)
                     : *variant == 0 ? ccl_bootstrap_barrier(boot)
                                     : ccl_bootstrap_allgather(boot, data, 64);
    M_EQ(m, rc, cclInvalidUsage);
    M_TEXT(m, *variant == 0 ? "rank 2 is in barrier" : "rank 2 is in allgather of 64 bytes");
}

/* A stopped process does not read: rank 0 gives it up at the deadline, the others have their data. */
static void body_stopped(struct member *m, struct ccl_bootstrap *boot)
{
    size_t bytes = (size_t)1 << 20;
    if (boot == NULL) {
        M_FAIL(m, "create: %d %s", m->rc, m->text);
        return;
    }
    uint8_t *data = calloc((size_t)m->nranks, bytes);
    cclResult_t rc = ccl_bootstrap_barrier(boot);
    if (m->rank == 1) {
        raise(SIGSTOP);
    }
    if (rc == cclSuccess) {
        rc = ccl_bootstrap_allgather(boot, data, bytes);
    }
    if (m->rank != 1) {
        M_EQ(m, rc, cclSystemError);
        M_TEXT(m, "rank 1 of 3 did not come to allgather");
    } else {
        M_EQ(m, rc != cclSuccess, 1);
    }
    free(data);
}

static void test_stopped(void)
{
    start(3, body_stopped, NULL);
    for (int i = 0; i < 3; i++) {
        w.members[i].timeout_ns = 400 * MS;
    }
    procs_start(&w, 0, 3);
    usleep(900000);
    kill(w.members[1].pid, SIGCONT);
    procs_join(&w, 0, 3);
}

static void body_fork(struct member *m, struct ccl_bootstrap *boot)
{
    if (boot == NULL) {
        M_FAIL(m, "create: %d %s", m->rc, m->text);
        return;
    }
    /* The child neither uses the object nor, by its copies of the sockets, hides the death of its parent. */
    pid_t child = fork();
    if (child == 0) {
        int bad = ccl_bootstrap_barrier(boot) != cclInvalidUsage;
        ccl_bootstrap_destroy(boot);
        if (m->rank == 1) {
            usleep(700000);
        }
        _exit(bad);
    }
    M_EQ(m, ccl_bootstrap_barrier(boot), cclSuccess);
    if (m->rank == 1) {
        _exit(77);
    }
    int status = -1;
    uint64_t t = ccl_now_ns();
    M_EQ(m, ccl_bootstrap_barrier(boot), cclRemoteError);
    M_EQ(m, ms_since(t) < 500, 1);
    M_TEXT(m, "rank 1 of 3 is gone");
    waitpid(child, &status, 0);
    M_EQ(m, status, 0);
}

static void timed(const char *name, uint64_t *t)
{
    printf("%s: %.0f ms\n", name, ms_since(*t));
    *t = ccl_now_ns();
}

int main(void)
{
    uint64_t t = ccl_now_ns();
    test_duplicate(); /* first, for the others leave listeners to late ranks for a while */
    test_missing();
    test_missing_root();
    test_differing_nranks();
    test_crowds();
    test_reuse_and_bad_ids();
    test_dead_at_rendezvous();
    timed("rendezvous", &t);
    test_dies(3);
    test_dies(0);
    timed("deaths", &t);
    test_missing_in_exchange();
    timed("missing", &t);
    start(5, body_agree, NULL);
    world_threads(&w);
    for (int variant = 0; variant < 2; variant++) {
        start(4, body_mismatch, &variant);
        world_threads(&w);
    }
    timed("agree, mismatch", &t);
    test_stopped();
    start(3, body_fork, NULL);
    world_procs(&w);
    timed("stopped, fork", &t);
    return test_result();
}
