/* SPDX-License-Identifier: MIT
 *
 * Proves that the death of a rank (SIGKILL) is cclRemoteError on the survivors within 2 s when they need it, does
 * no harm to an operation that the dead rank had completed, and leaves the process able to make a new
 * communicator. Makes its ranks with fork(), because mpirun ends the job when a rank dies. */
/* CTEST: ranks 1; labels mpi host quick; timeout 60; args small */
/* CTEST: ranks 1; labels mpi host; timeout 120; args full */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "forked.h"

#define LIMIT_S 2.0
#define COUNT 200000

static void die(void)
{
    tf_reach(10);
    kill(getpid(), SIGKILL);
}

/* How the victim dies; the survivors' gathers are the same in all cases. */
enum manner { IDLE, INSIDE, STREAMING, HOLDING_LL, COPYING, NUM_MANNERS };
static const char *const manner_names[NUM_MANNERS] = {"idle", "inside an operation", "while streaming", "small ones", "while copying"};

static cclResult_t gather(enum manner manner, cclComm_t comm, cclStream_t stream, void *send, void *recv)
{
    cclCallConfig_t config = CCL_CALL_CONFIG_INITIALIZER;
    size_t count = manner == HOLDING_LL ? 16 : COUNT;

    config.variant = manner == COPYING ? cclVariantCopy : cclVariantAuto;
    return cclAllGather2D(send, count, recv, count, 1, count, cclUint8, &config, comm, stream);
}

static void victim_part(enum manner manner, cclComm_t comm, cclStream_t stream, void *send, void *recv)
{
    switch (manner) {
    case INSIDE: /* its kernel waits for the others, who come later */
        TM_OK(gather(manner, comm, stream, send, recv));
        tm_sleep_ms(30);
        break;
    case STREAMING:
    case COPYING:
        for (int i = 0; i < 100000; i++) {
            TM_OK(gather(manner, comm, stream, send, recv));
            if (i == 20) {
                tf_reach(9);
            }
            if (i % 8 == 7) {
                TM_OK(cclStreamSynchronize(stream));
            }
        } /* the parent kills it in here */
        break;
    default:
        tm_sleep_ms(20);
        break;
    }
    die();
}

static void survivor_part(enum manner manner, cclComm_t comm, cclStream_t stream, void *send, void *recv)
{
    cclResult_t rc = cclSuccess, async = cclSuccess;
    double died = 0, noticed, end = tm_now() + 20.0;
    char needle[32];

    snprintf(needle, sizeof(needle), "rank %d", tf_victim);
    if (manner == INSIDE) {
        tf_wait_step(tf_victim, 10);
    }
    tm_at("death of rank %d %s: survivor", tf_victim, manner_names[manner]);
    while (rc == cclSuccess && tm_now() < end) {
        rc = gather(manner, comm, stream, send, recv);
        if (rc == cclSuccess) {
            rc = cclStreamSynchronize(stream);
        }
    }
    noticed = tm_now();
    if (TM_RC(rc, cclRemoteError)) {
        TM_TEXT(needle);
    }
    do { /* the parent may be a little behind */
        tm_sleep_ms(1);
        __atomic_load(&tf_shared->died, &died, __ATOMIC_ACQUIRE);
    } while (died <= 0 && tm_now() < noticed + 3.0);
    TM_WITHIN("cclRemoteError after the death of a peer", noticed - died, LIMIT_S);
    TM_OK(cclCommGetAsyncError(comm, &async));
    TEST_EQ(async, cclRemoteError);
    (void)cclStreamSynchronize(stream);
}

/* One rank: a world that works, a death, a new world of the survivors. */
static int rank_main(enum manner manner)
{
    cclComm_t comm = tf_join(0, false);
    cclStream_t stream = tm_stream_create();
    void *send = NULL, *recv = NULL;

    TM_MUST(cclMemAlloc(comm, &send, COUNT));
    TM_MUST(cclMemAlloc(comm, &recv, (size_t)COUNT * (size_t)tf_n));
    tm_gather_once(comm, stream, tf_me, tf_n, 1000, "before the death");
    tf_reach(1);
    for (int r = 0; r < tf_n; r++) {
        tf_wait_step(r, 1);
    }
    if (tf_me == tf_victim) {
        victim_part(manner, comm, stream, send, recv);
    }
    survivor_part(manner, comm, stream, send, recv);
    TM_OK(tf_me % 2 == 0 ? cclCommDestroy(comm) : cclCommAbort(comm));
    comm = tf_join(1, true);
    tm_gather_once(comm, stream, tf_me > tf_victim ? tf_me - 1 : tf_me, tf_n - 1, 5000, "survivors' new world");
    tm_gather_once(comm, stream, tf_me > tf_victim ? tf_me - 1 : tf_me, tf_n - 1, 7, "survivors' new world");
    TM_OK(cclCommDestroy(comm));
    TM_OK(cclStreamDestroy(stream));
    return test_failures != 0;
}

/* The victim completes its last operation and dies at once; the others, slow to start, must get that operation's
 * data. */
static int last_operation_main(size_t count)
{
    cclComm_t comm = tf_join(0, false);
    cclStream_t stream = tm_stream_create();
    uint8_t *recv = NULL, *send = NULL, *host = malloc(count * (size_t)tf_n);

    TM_MUST(cclMemAlloc(comm, (void **)&send, count));
    TM_MUST(cclMemAlloc(comm, (void **)&recv, count * (size_t)tf_n));
    for (unsigned round = 0; round < 20; round++) {
        tm_gen(host, 0, count, round, tf_me);
        tm_put(send, host, count);
        tm_at("last operation: round %u", round);
        TM_MUST(cclAllGather(send, recv, count, cclUint8, comm, stream));
        if (tf_me != tf_victim && round == 19) {
            tm_sleep_ms(50); /* not waiting yet: the stream works by itself, and the victim may be dead before I look */
        }
        TM_MUST(cclStreamSynchronize(stream));
        if (tf_me == tf_victim && round == 19) {
            die();
        }
        tm_get(host, recv, count * (size_t)tf_n);
        for (int r = 0; r < tf_n; r++) {
            tm_check_data(host + (size_t)r * count, 0, count, 1, round, r, "operation completed before the death");
        }
    }
    TM_OK(cclCommDestroy(comm));
    TM_OK(cclStreamDestroy(stream));
    free(host);
    return test_failures != 0;
}

/* Exits without destroying anything, in the order of the ranks: no survivor may notice in the operation that all
 * completed. */
static int leave_main(void)
{
    cclComm_t comm = tf_join(0, false);
    cclStream_t stream = tm_stream_create();

    for (int i = 0; i < 30; i++) {
        tm_gather_once(comm, stream, tf_me, tf_n, i % 2 == 0 ? 64 : 30000, "then everybody leaves");
    }
    return test_failures != 0;
}

/* ---- the parent ---- */

static int body_manner(int manner)
{
    return rank_main((enum manner)manner);
}
static int body_last(int count)
{
    return last_operation_main((size_t)count);
}
static int body_leave(int unused)
{
    (void)unused;
    return leave_main();
}

/* Start the ranks, wait for all; the victim must have died by SIGKILL, the others must have succeeded. */
static void play(const char *name, int (*body)(int), int argument, bool kill_it)
{
    pid_t pids[TF_MOST_RANKS];
    double end = tm_now() + 40.0;

    tm_at("%s: %d ranks, victim %d", name, tf_n, tf_victim);
    for (int r = 0; r < tf_n; r++) {
        pids[r] = tf_start(r, body, argument);
    }
    if (kill_it) {
        while (__atomic_load_n(&tf_shared->step[tf_victim], __ATOMIC_ACQUIRE) < 9 && tm_now() < end) {
            tm_sleep_ms(1);
        }
        kill(pids[tf_victim], SIGKILL);
    }
    for (int left = tf_n; left > 0;) {
        int status, rank = -1;
        pid_t pid = waitpid(-1, &status, 0);
        double now = tm_now();

        if (pid < 0) {
            break;
        }
        for (int r = 0; r < tf_n; r++) {
            rank = pids[r] == pid ? r : rank;
        }
        if (rank < 0) {
            continue;
        }
        left--;
        if (rank == tf_victim) {
            __atomic_store(&tf_shared->died, &now, __ATOMIC_RELEASE);
            TEST_CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            TEST_FAIL("%s: %d ranks, victim %d: rank %d ended with status 0x%x", name, tf_n, tf_victim, rank, status);
        }
    }
}

int main(int argc, char **argv)
{
    bool full;

    tm_init_plain(argc, argv, &test_failures, &test_rank);
    tf_init();
    full = tm_has_arg("full");
    tm_watchdog(full ? 110 : 55);
    for (int manner = 0; manner < NUM_MANNERS; manner++) {
        for (int ranks = 2; ranks <= (full ? TF_MOST_RANKS : 4); ranks += full ? 3 : 2) {
            tf_new_world(ranks, manner == IDLE ? ranks - 1 : (ranks - 1) / 2); /* IDLE: not the root of the bootstrap */
            play(manner_names[manner], body_manner, manner, manner == STREAMING || manner == COPYING);
            if (full) {
                tf_new_world(ranks, 0); /* the root */
                play(manner_names[manner], body_manner, manner, manner == STREAMING || manner == COPYING);
            }
        }
    }
    for (int rounds = 0; rounds < (full ? 10 : 2); rounds++) {
        tf_new_world(2 + rounds % 3, rounds % 2);
        play("last operation, small", body_last, 64, false);
        tf_new_world(2 + rounds % 3, rounds % 2);
        play("last operation, large", body_last, 300000, false);
        tf_new_world(3, -1);
        play("leave without destroy", body_leave, 0, false);
    }
    return tm_finish();
}
