/* SPDX-License-Identifier: MIT
 *
 * Ranks made with fork(): shared memory of the test, start, and joining a communicator. */
#include "forked.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

struct tf_shared *tf_shared;
int tf_n, tf_me, tf_victim;

void tf_init(void)
{
    tf_shared = mmap(NULL, sizeof(*tf_shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (tf_shared == MAP_FAILED) {
        tm_die();
    }
}

void tf_new_world(int ranks, int victim)
{
    memset(tf_shared, 0, sizeof(*tf_shared));
    tf_n = ranks;
    tf_victim = victim;
}

pid_t tf_start(int rank, int (*body)(int), int argument)
{
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        tf_me = rank;
        tm_rank = rank;
        tm_watchdog(30);
        _exit(body(argument));
    }
    return pid;
}

void tf_reach(int step)
{
    __atomic_store_n(&tf_shared->step[tf_me], step, __ATOMIC_RELEASE);
}

void tf_wait_step(int rank, int step)
{
    while (__atomic_load_n(&tf_shared->step[rank], __ATOMIC_ACQUIRE) < step) {
        tm_sleep_ms(1);
    }
}

cclComm_t tf_join(int which, bool without_victim)
{
    int size = without_victim ? tf_n - 1 : tf_n, rank = without_victim && tf_me > tf_victim ? tf_me - 1 : tf_me;
    cclComm_t comm = NULL;

    tm_at("joining world %d", which);
    if (rank == 0) {
        TM_MUST(cclGetUniqueId(&tf_shared->ids[which]));
        __atomic_store_n(&tf_shared->id_ready[which], 1, __ATOMIC_RELEASE);
    }
    while (__atomic_load_n(&tf_shared->id_ready[which], __ATOMIC_ACQUIRE) == 0) {
        tm_sleep_ms(1);
    }
    TM_MUST(cclCommInitRank(&comm, size, tf_shared->ids[which], rank));
    return comm;
}
