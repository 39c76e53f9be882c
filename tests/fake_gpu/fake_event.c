/* SPDX-License-Identifier: MIT
 *
 * Events of the fake runtime. Each record makes a new mark; who waits keeps the one that was the latest when he asked. */
#include "fake.h"

#include <stdlib.h>

#define NO_TIMING CCL_GPU_EVENT_NO_TIMING

static struct listed {
    struct listed *next;
    struct fake_event event;
} *events;

static struct listed **find(const void *handle)
{
    struct listed **p = &events;
    while (*p != NULL && &(*p)->event != handle) {
        p = &(*p)->next;
    }
    return p;
}

bool fake_event_alive(const struct fake_event *event)
{
    return *find(event) != NULL;
}

int fake_event_create(void **event, unsigned flags)
{
    FAKE_ENTER(event_create);
    FAKE_CURRENT(device);
    struct listed *listed = calloc(1, sizeof(*listed));
    if (listed == NULL) {
        return CCL_GPU_E_OUT_OF_MEMORY;
    }
    pthread_mutex_lock(&fake_lock);
    listed->event.device = device;
    listed->event.flags = flags;
    listed->next = events;
    events = listed;
    fake_live.events++;
    pthread_mutex_unlock(&fake_lock);
    *event = &listed->event;
    return 0;
}

int fake_event_destroy(void *event)
{
    FAKE_ENTER(event_destroy);
    pthread_mutex_lock(&fake_lock);
    struct listed **p = find(event), *listed = *p;
    if (listed != NULL) {
        *p = listed->next;
        struct fake_mark *mark = listed->event.mark;
        if (mark != NULL && --mark->refs == 0) {
            free(mark);
        }
        free(listed->event.deps.list);
        free(listed);
        fake_live.events--;
    }
    pthread_mutex_unlock(&fake_lock);
    return listed != NULL ? 0 : CCL_GPU_E_INVALID_HANDLE;
}

int fake_event_record(void *handle, void *stream_handle)
{
    FAKE_ENTER(event_record);
    int code = 0;
    pthread_mutex_lock(&fake_lock);
    struct listed *listed = *find(handle);
    struct fake_stream *stream = fake_stream_of(stream_handle, &code);
    if (listed == NULL || (stream != NULL && fake_stream_device(stream) != listed->event.device)) {
        code = CCL_GPU_E_INVALID_HANDLE;
    } else if (stream != NULL && fake_stream_capture(stream)->graph != NULL) {
        code = fake_capture_record(fake_stream_capture(stream), &listed->event);
    } else if (stream != NULL) {
        struct fake_op *op = fake_op_new(OP_RECORD, 0);
        op->mark = fake_event_mark(&listed->event);
        listed->event.graph = NULL;
        fake_push(stream, op);
        code = 0;
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_stream_wait(void *stream_handle, void *handle, unsigned flags)
{
    FAKE_ENTER(stream_wait);
    int code = 0;
    pthread_mutex_lock(&fake_lock);
    struct listed *listed = *find(handle);
    struct fake_stream *stream = fake_stream_of(stream_handle, &code);
    if (listed == NULL || flags > 1) {
        code = CCL_GPU_E_INVALID_HANDLE;
    } else if (stream != NULL && (fake_stream_capture(stream)->graph != NULL || listed->event.graph != NULL)) {
        code = fake_capture_wait(fake_stream_capture(stream), &listed->event);
    } else if (stream != NULL) {
        code = 0;
        if (listed->event.mark != NULL) {
            struct fake_op *op = fake_op_new(OP_WAIT, 0);
            op->mark = listed->event.mark;
            op->mark->refs++;
            fake_push(stream, op);
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

static int finish(const void *handle, bool wait)
{
    int code = CCL_GPU_E_INVALID_HANDLE;
    pthread_mutex_lock(&fake_lock);
    struct listed *listed = *find(handle);
    if (listed != NULL && listed->event.graph != NULL) {
        code = CCL_GPU_E_CAPTURE_UNSUPPORTED;
    } else if (listed != NULL) {
        struct fake_mark *mark = listed->event.mark;
        code = 0;
        if (mark != NULL) {
            mark->refs++;
            while (wait && !mark->done) {
                pthread_cond_wait(&fake_changed, &fake_lock);
            }
            code = mark->done ? 0 : CCL_GPU_E_NOT_READY;
            if (--mark->refs == 0) {
                free(mark);
            }
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_event_sync(void *event)
{
    FAKE_SETUP(event_sync);
    return finish(event, true);
}

int fake_event_query(void *event)
{
    FAKE_SETUP(event_query);
    return finish(event, false);
}

int fake_event_elapsed(float *ms, void *start, void *end)
{
    FAKE_SETUP(event_elapsed);
    int code = 0;
    pthread_mutex_lock(&fake_lock);
    struct listed *a = *find(start), *b = *find(end);
    if (a == NULL || b == NULL || a->event.mark == NULL || b->event.mark == NULL ||
        ((a->event.flags | b->event.flags) & NO_TIMING)) {
        code = CCL_GPU_E_INVALID_HANDLE;
    } else if (!a->event.mark->done || !b->event.mark->done) {
        code = CCL_GPU_E_NOT_READY;
    } else {
        *ms = (float)((double)(int64_t)(b->event.mark->ns - a->event.mark->ns) / 1e6);
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}
