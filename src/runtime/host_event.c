/* SPDX-License-Identifier: MIT
 *
 * An event remembers where it was recorded last. Waiting means waiting for that position of that stream, so a wait
 * needs the event only while it is called, as streams can be asked for a position for ever. A record's task holds a
 * reference, because it writes the time. */
#include "runtime/host_event.h"

#include <stdlib.h>

#include "runtime/host_futex.h"
#include "runtime/host_stream.h"
#include "util/log.h"

struct cclEvent {
    uint32_t lock;       /* for all fields */
    uint32_t refs;       /* the user's and one a queued record */
    uint64_t generation; /* counts the records; an older one that runs late does not set the time */
    uint64_t position, time_ns;
    struct cclStream *stream; /* NULL: never recorded */
};

cclResult_t ccl_host_event_create(struct cclEvent **out)
{
    struct cclEvent *event = calloc(1, sizeof(*event));
    CCL_CHECK(event != NULL, cclSystemError, CCL_RT, "out of memory for an event, %zu bytes", sizeof(*event));
    event->refs = 1;
    *out = event;
    return cclSuccess;
}

static void unlock_and_drop(struct cclEvent *event)
{
    bool last = --event->refs == 0;
    ccl_host_spin_unlock(&event->lock);
    if (last) {
        free(event);
    }
}

cclResult_t ccl_host_event_destroy(struct cclEvent *event)
{
    if (event != NULL) {
        ccl_host_spin_lock(&event->lock);
        unlock_and_drop(event);
    }
    return cclSuccess;
}

void ccl_host_event_happened(struct cclEvent *event, uint64_t generation)
{
    uint64_t now_ns = ccl_now_ns();
    ccl_host_spin_lock(&event->lock);
    if (event->generation == generation) {
        event->time_ns = now_ns;
    }
    unlock_and_drop(event);
}

cclResult_t ccl_host_event_record(struct cclEvent *event, struct cclStream *stream)
{
    struct ccl_host_task *task;
    CCL_CHECK(event != NULL, cclInvalidArgument, CCL_RT, "event to record is NULL");
    CCL_TRY(ccl_host_stream_resolve(stream, &stream));
    ccl_host_spin_lock(&event->lock);
    cclResult_t rc = ccl_host_stream_begin(stream, CCL_HOST_TASK_RECORD, 0, &task);
    if (rc == cclSuccess) {
        task->u.record.event = event;
        task->u.record.generation = ++event->generation;
        event->refs++;
        event->stream = stream;
        event->position = ccl_host_stream_commit(stream, task);
    }
    ccl_host_spin_unlock(&event->lock);
    return rc;
}

struct last_record {
    struct cclStream *stream; /* NULL: never recorded */
    uint64_t position, time_ns;
    bool happened; /* and time_ns is its time */
};

static struct last_record last_record(struct cclEvent *event)
{
    ccl_host_spin_lock(&event->lock);
    struct last_record last = {event->stream, event->position, event->time_ns, false};
    /* The task writes the time under the lock before its position is reached, so a reached position comes with its
     * time. */
    last.happened = last.stream != NULL && ccl_host_stream_reached(last.stream, last.position);
    ccl_host_spin_unlock(&event->lock);
    return last;
}

cclResult_t ccl_host_event_wait(struct cclStream *stream, struct cclEvent *event)
{
    struct ccl_host_task *task;
    CCL_CHECK(event != NULL, cclInvalidArgument, CCL_RT, "event to wait for is NULL");
    CCL_TRY(ccl_host_stream_resolve(stream, &stream));
    struct last_record last = last_record(event);
    if (last.stream == NULL || last.stream == stream || last.happened) {
        return cclSuccess;
    }
    CCL_TRY(ccl_host_stream_begin(stream, CCL_HOST_TASK_WAIT, 0, &task));
    task->u.wait.stream = last.stream;
    task->u.wait.position = last.position;
    ccl_host_stream_commit(stream, task);
    return cclSuccess;
}

cclResult_t ccl_host_event_sync(struct cclEvent *event)
{
    CCL_CHECK(event != NULL, cclInvalidArgument, CCL_RT, "event to synchronise with is NULL");
    struct last_record last = last_record(event);
    if (last.stream != NULL) {
        ccl_host_stream_wait(last.stream, last.position);
    }
    return cclSuccess;
}

cclResult_t ccl_host_event_elapsed(float *ms, struct cclEvent *start, struct cclEvent *end)
{
    struct cclEvent *events[2] = {start, end};
    struct last_record last[2];
    CCL_CHECK(ms != NULL && start != NULL && end != NULL, cclInvalidArgument, CCL_RT,
              "ms, start or end of event_elapsed is NULL");
    for (int i = 0; i < 2; i++) {
        const char *which = i == 0 ? "start" : "end";
        last[i] = last_record(events[i]);
        CCL_CHECK(last[i].stream != NULL, cclInvalidUsage, CCL_RT, "%s event of event_elapsed was never recorded",
                  which);
        CCL_CHECK(last[i].happened, cclInvalidUsage, CCL_RT,
                  "%s event of event_elapsed has not happened yet, it waits at position %llu of its stream", which,
                  (unsigned long long)last[i].position);
    }
    *ms = (float)((double)(int64_t)(last[1].time_ns - last[0].time_ns) / 1e6);
    return cclSuccess;
}
