/* SPDX-License-Identifier: MIT
 *
 * Groups: calls of a thread that take effect together. Setup calls (init, split, heap) of different communicators run side by side, a
 * thread each; then operations are enqueued in issue order. */
#ifndef CCL_GROUP_H
#define CCL_GROUP_H

#include "comm/comm.h"

enum ccl_job_kind { CCL_JOB_SETUP, CCL_JOB_ENQUEUE, CCL_JOB_BATCH };

/* arg: copied, `bytes` long (at most 320). comm: NULL for init, whose jobs are all independent. stream: where an enqueue goes. run of an
 * enqueue is called with the stream to use, which may be another one than the user's. */
typedef cclResult_t (*ccl_job_fn)(void *arg, struct cclStream *stream);

bool ccl_group_active(void);
/* The calling thread is inside cclGroupEnd. */
bool ccl_group_running(void);
/* Run now, or keep for the end of the group when one is open. */
cclResult_t ccl_group_submit(enum ccl_job_kind kind, ccl_job_fn run, const void *arg, size_t bytes, cclComm_t comm,
                             struct cclStream *stream);
/* Calls that go together: run gets all those of a communicator in the group, in issue order, behind its other operations. */
typedef cclResult_t (*ccl_batch_fn)(cclComm_t comm, const void *const *args, size_t count, struct cclStream *stream);
cclResult_t ccl_group_submit_batch(ccl_batch_fn run, const void *arg, size_t bytes, cclComm_t comm, struct cclStream *stream);
/* memory from malloc that a submitted call refers to: freed when the group is over. A group is open. */
cclResult_t ccl_group_keep(void *memory);
/* Remember an error of a call inside a group, for cclGroupEnd; returns rc. */
cclResult_t ccl_group_note(cclResult_t rc);
cclResult_t ccl_group_start(void);
cclResult_t ccl_group_end(void);

#endif
