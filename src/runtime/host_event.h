/* SPDX-License-Identifier: MIT
 *
 * Events of the host backend: the stream position of the record that was enqueued last, and the time at which it ran.
 */
#ifndef CCL_HOST_EVENT_H
#define CCL_HOST_EVENT_H

#include "runtime/runtime.h"

cclResult_t ccl_host_event_create(struct cclEvent **out);
/* NULL is fine. Also while a record of it is still queued. */
cclResult_t ccl_host_event_destroy(struct cclEvent *event);
cclResult_t ccl_host_event_record(struct cclEvent *event, struct cclStream *stream);
cclResult_t ccl_host_event_wait(struct cclStream *stream, struct cclEvent *event);
cclResult_t ccl_host_event_sync(struct cclEvent *event);
cclResult_t ccl_host_event_elapsed(float *ms, struct cclEvent *start, struct cclEvent *end);

/* The record task ran; gives its reference back. */
void ccl_host_event_happened(struct cclEvent *event, uint64_t generation);

#endif
