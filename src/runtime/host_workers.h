/* SPDX-License-Identifier: MIT
 *
 * The worker thread of a stream: runs what nobody else runs, without being told about it. */
#ifndef CCL_HOST_WORKERS_H
#define CCL_HOST_WORKERS_H

#include "runtime/host_stream.h"

/* Start a thread of the library: all signals blocked, a small stack, named. */
cclResult_t ccl_host_thread_start(pthread_t *thread, const char *name, bool detached, void *(*main)(void *), void *arg);
/* Under enq. */
cclResult_t ccl_host_worker_start(struct cclStream *stream);
/* The stream is drained and nobody enqueues. */
void ccl_host_worker_stop(struct cclStream *stream);
void ccl_host_worker_wake(struct cclStream *stream, enum ccl_host_wake why);

#endif
