/* SPDX-License-Identifier: MIT
 *
 * Proves that a user's own kernel does not wait for ever: waits and barriers of ccl/device.h end with an error when a peer aborts, leaves or dies,
 * and when another thread of the own process aborts the communicator they run on. */
/* CTEST: ranks 1; labels mpi host quick; timeout 60; gpu 0 */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ccl/device.h>

#include "forked.h"

#define LIMIT_S 2.0

enum ending { ABORT, LEAVE, DIE, NUM_ENDINGS };
static const cclBlock_t block = {0, 1, 0, 1};

static int rank_main(int how)
{
    cclComm_t comm = tf_join(0, false);
    cclDeviceComm_t dev;
    double start;
    uint32_t victim = (uint32_t)tf_victim, why;

    TM_MUST(cclDeviceComm(comm, &dev));
    TEST_EQ(ccl_barrier_block_system(&dev, block, 0), 0);
    if (tf_me == tf_victim) {
        ccl_signal_set_release_system(ccl_signal(&dev, (victim + 1) % dev.n, 7), 1);
        tm_sleep_ms(50);
        switch (how) {
        case ABORT: TM_OK(cclCommAbort(comm)); return test_failures != 0;
        case LEAVE: TM_OK(cclCommDestroy(comm)); return test_failures != 0;
        default: kill(getpid(), SIGKILL);
        }
    }
    start = tm_now();
    switch (tf_me % 3) { /* three forms of waiting for what will not come */
    case 0: why = ccl_wait_eq_acquire_system(&dev, ccl_signal(&dev, dev.rank, 9), 1, victim); break;
    case 1: why = ccl_barrier_block_system(&dev, block, 1); break;
    default: why = ccl_barrier_grid_system(&dev, block, 2); break;
    }
    TEST_CHECK(why != 0);
    if (tf_n == 2) { /* else another survivor may have aborted before */
        TEST_EQ(why, how == ABORT ? CCL_WAIT_FAILED : CCL_WAIT_PEER_GONE);
    }
    TM_WITHIN("the end of a wait", tm_now() - start, LIMIT_S);
    if (how != LEAVE) {
        TEST_CHECK(ccl_wait_ge_block_system(&dev, block, ccl_signal(&dev, dev.rank, 9), 1, CCL_ANY_PEER) != 0);
    }
    if (dev.rank == (victim + 1) % dev.n) { /* what had come before counts */
        TEST_EQ(ccl_wait_ge_acquire_system(&dev, ccl_signal(&dev, dev.rank, 7), 1, victim), 0);
    }
    TM_OK(how == LEAVE ? cclCommDestroy(comm) : cclCommAbort(comm));
    return test_failures != 0;
}

static void endings(int ranks)
{
    for (int how = 0; how < NUM_ENDINGS; how++) {
        pid_t pids[TF_MOST_RANKS];

        tm_at("%d ranks, ending %d", ranks, how);
        tf_new_world(ranks, ranks - 1);
        for (int r = 0; r < ranks; r++) {
            pids[r] = tf_start(r, rank_main, how);
        }
        for (int r = 0; r < ranks; r++) {
            int status = -1;
            TEST_CHECK(waitpid(pids[r], &status, 0) == pids[r]);
            TEST_EQ(status, how == DIE && r == ranks - 1 ? SIGKILL : 0);
        }
    }
}

struct waiter {
    cclDeviceComm_t dev;
    uint32_t started, why;
};

static void *wait_long(void *argument)
{
    struct waiter *w = argument;

    ccl_atomic_store_release_agent_u32(&w->started, 1);
    w->why = ccl_wait_eq_acquire_system(&w->dev, ccl_signal(&w->dev, 0, 0), 1, CCL_ANY_PEER);
    return NULL;
}

/* The words that a waiting kernel reads outlive an abort of its own communicator. */
static int own_abort(int unused)
{
    struct waiter w = {.why = 99};
    cclComm_t comm = NULL;
    pthread_t thread;

    (void)unused;
    TM_MUST(cclCommInitAll(&comm, 1, NULL));
    TM_MUST(cclDeviceComm(comm, &w.dev));
    if (pthread_create(&thread, NULL, wait_long, &w) != 0) {
        tm_die();
    }
    while (ccl_atomic_load_acquire_agent_u32(&w.started) == 0) {
        tm_sleep_ms(1);
    }
    tm_sleep_ms(20);
    TM_OK(cclCommAbort(comm));
    pthread_join(thread, NULL);
    TEST_EQ(w.why, CCL_WAIT_FAILED);
    return test_failures != 0;
}

int main(int argc, char **argv)
{
    int status = -1;

    tm_init_plain(argc, argv, &test_failures, &test_rank);
    tm_watchdog(50);
    tf_init();
    endings(2);
    endings(4);
    tf_new_world(1, -1);
    pid_t pid = tf_start(0, own_abort, 0);
    TEST_CHECK(waitpid(pid, &status, 0) == pid);
    TEST_EQ(status, 0);
    return tm_finish();
}
