/* SPDX-License-Identifier: MIT
 *
 * Ranks made with fork() instead of mpirun, for tests in which ranks die: mpirun ends the whole job then. */
#ifndef CCL_TESTS_MPI_FORKED_H
#define CCL_TESTS_MPI_FORKED_H

#include <sys/types.h>

#include "common.h"

#define TF_MOST_RANKS 8

/* Memory of the parent and all ranks. A rank bumps its step when it has passed a place; others poll. */
struct tf_shared {
    cclUniqueId ids[4];
    int id_ready[4];
    int step[TF_MOST_RANKS];
    double died; /* when the parent saw the victim dead, 0 before */
};

extern struct tf_shared *tf_shared;
extern int tf_n, tf_me, tf_victim;

/* Once in the parent, which must not call libccl: its ranks are copies of it. */
void tf_init(void);
/* Forget the last world; the next one has this many ranks, and victim (-1: none) will die. */
void tf_new_world(int ranks, int victim);
/* Fork rank; it runs body(argument), leaves with its result, and dies with the parent. */
pid_t tf_start(int rank, int (*body)(int), int argument);

void tf_reach(int step);
void tf_wait_step(int rank, int step);
/* In a rank: join world number which (0..3). without_victim: the victim is dead, the others are renumbered. */
cclComm_t tf_join(int which, bool without_victim);

#endif
