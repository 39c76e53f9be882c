/* SPDX-License-Identifier: MIT
 *
 * Streams of the fake runtime, one thread each. The default stream of a device and its blocking streams wait for each other's work,
 * as the legacy default stream does. */
#include "fake.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_DEVICES 16
#define NON_BLOCKING CCL_GPU_STREAM_NON_BLOCKING

struct item {
    struct item *next;
    struct fake_op *op;
};

struct fake_stream {
    struct fake_stream *next;
    struct item *head, **tail;
    uint64_t pushed, done;
    pthread_cond_t work;
    int device;
    unsigned flags;
    bool closing;
    struct fake_capture capture;
};

pthread_cond_t fake_changed = PTHREAD_COND_INITIALIZER;
static struct fake_stream *streams, *defaults[MAX_DEVICES];

struct fake_op *fake_op_new(int kind, uint32_t args_bytes)
{
    struct fake_op *op = calloc(1, sizeof(*op) + args_bytes);
    if (op == NULL) {
        abort(); /* a test has run out of memory */
    }
    op->kind = kind;
    op->args_bytes = args_bytes;
    return op;
}

struct fake_op *fake_op_copy(const struct fake_op *op)
{
    struct fake_op *copy = fake_op_new(op->kind, op->args_bytes);
    memcpy(copy, op, sizeof(*op) + op->args_bytes);
    return copy;
}

/* ---- marks ---- */

static void drop_mark(struct fake_mark *mark)
{
    if (--mark->refs == 0) {
        free(mark);
    }
}

static struct fake_mark *new_mark(void)
{
    struct fake_mark *mark = calloc(1, sizeof(*mark));
    if (mark == NULL) {
        abort();
    }
    mark->refs = 2;
    return mark;
}

struct fake_mark *fake_event_mark(struct fake_event *event)
{
    if (event->mark != NULL) {
        drop_mark(event->mark);
    }
    event->mark = new_mark();
    return event->mark;
}

static void set_mark(struct fake_mark *mark)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    mark->ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    mark->done = true;
    pthread_cond_broadcast(&fake_changed);
    drop_mark(mark);
}

static void wait_mark(struct fake_mark *mark)
{
    while (!mark->done) {
        pthread_cond_wait(&fake_changed, &fake_lock);
    }
    drop_mark(mark);
}

/* ---- the thread of a stream ---- */

/* Called with the lock held, which it gives up while it works. */
static void run(const struct fake_op *op)
{
    if (op->kind == OP_RECORD) {
        set_mark(op->mark);
        return;
    }
    if (op->kind == OP_WAIT) {
        wait_mark(op->mark);
        return;
    }
    pthread_mutex_unlock(&fake_lock);
    switch (op->kind) {
    case OP_COPY:
        for (size_t r = 0; r < op->rows; r++) {
            memmove((char *)op->dst + r * op->ld_dst, (const char *)op->src + r * op->ld_src, op->bytes);
        }
        break;
    case OP_FILL:
        memset(op->dst, op->byte, op->bytes);
        break;
    case OP_KERNEL:
        fake_run_kernel(op);
        break;
    default:
        break;
    }
    pthread_mutex_lock(&fake_lock);
}

static void *work(void *arg)
{
    struct fake_stream *stream = arg;
    pthread_mutex_lock(&fake_lock);
    while (stream->head != NULL || !stream->closing) {
        struct item *item = stream->head;
        if (item == NULL) {
            pthread_cond_wait(&stream->work, &fake_lock);
            continue;
        }
        run(item->op);
        stream->head = item->next;
        stream->tail = stream->head == NULL ? &stream->head : stream->tail;
        free(item->op);
        free(item);
        stream->done++;
        pthread_cond_broadcast(&fake_changed);
    }
    pthread_mutex_unlock(&fake_lock);
    pthread_cond_destroy(&stream->work);
    free(stream);
    return NULL;
}

static struct fake_stream *new_stream(int device, unsigned flags)
{
    pthread_t thread;
    pthread_attr_t attr;
    struct fake_stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL) {
        return NULL;
    }
    stream->tail = &stream->head;
    stream->device = device;
    stream->flags = flags;
    pthread_cond_init(&stream->work, NULL);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attr, work, stream) != 0) {
        free(stream);
        stream = NULL;
    }
    pthread_attr_destroy(&attr);
    return stream;
}

struct fake_stream *fake_stream_of(void *handle, int *code)
{
    int device = fake_current();
    *code = CCL_GPU_E_INVALID_HANDLE;
    if (handle == NULL || handle == (void *)1) {
        *code = CCL_GPU_E_INVALID_CONTEXT;
        if (device >= 0 && defaults[device] == NULL) {
            defaults[device] = new_stream(device, 0);
        }
        return device >= 0 ? defaults[device] : NULL;
    }
    for (struct fake_stream *s = streams; s != NULL; s = s->next) {
        if (s == handle) {
            return s;
        }
    }
    return NULL;
}

int fake_stream_device(const struct fake_stream *stream)
{
    return stream->device;
}

struct fake_capture *fake_stream_capture(struct fake_stream *stream)
{
    return &stream->capture;
}

void fake_streams_end_capture(const struct fake_graph *graph)
{
    for (struct fake_stream *s = streams; s != NULL; s = s->next) {
        if (s->capture.graph == graph) {
            fake_capture_drop(&s->capture);
        }
    }
}

static void append(struct fake_stream *stream, struct fake_op *op)
{
    struct item *item = calloc(1, sizeof(*item));
    if (item == NULL) {
        abort();
    }
    item->op = op;
    *stream->tail = item;
    stream->tail = &item->next;
    stream->pushed++;
    pthread_cond_signal(&stream->work);
}

static void order_behind(struct fake_stream *stream, struct fake_stream *other)
{
    if (other == NULL || other == stream || other->pushed == other->done) {
        return;
    }
    struct fake_op *record = fake_op_new(OP_RECORD, 0), *wait = fake_op_new(OP_WAIT, 0);
    record->mark = wait->mark = new_mark();
    append(other, record);
    append(stream, wait);
}

void fake_push(struct fake_stream *stream, struct fake_op *op)
{
    if (stream == defaults[stream->device]) {
        for (struct fake_stream *s = streams; s != NULL; s = s->next) {
            if (s->device == stream->device && !(s->flags & NON_BLOCKING)) {
                order_behind(stream, s);
            }
        }
    } else if (!(stream->flags & NON_BLOCKING)) {
        order_behind(stream, defaults[stream->device]);
    }
    append(stream, op);
}

int fake_enqueue(void *handle, struct fake_op *op)
{
    int code = 0;
    pthread_mutex_lock(&fake_lock);
    struct fake_stream *stream = fake_stream_of(handle, &code);
    if (stream != NULL && stream->capture.graph != NULL) {
        code = fake_capture_op(&stream->capture, op);
    } else if (stream != NULL) {
        fake_push(stream, op);
        code = 0;
    } else {
        free(op);
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

void fake_settle(int device)
{
    pthread_mutex_lock(&fake_lock);
    for (bool busy = true; busy;) {
        busy = device < 0 && fake_reaping > 0;
        for (struct fake_stream *s = streams; s != NULL && !busy; s = s->next) {
            busy = (device < 0 || s->device == device) && s->pushed != s->done;
        }
        for (int i = 0; i < MAX_DEVICES && !busy; i++) {
            busy = (device < 0 || i == device) && defaults[i] != NULL && defaults[i]->pushed != defaults[i]->done;
        }
        if (busy) {
            pthread_cond_wait(&fake_changed, &fake_lock);
        }
    }
    pthread_mutex_unlock(&fake_lock);
}

/* ---- calls ---- */

int fake_stream_create(void **out, unsigned flags)
{
    FAKE_ENTER(stream_create);
    FAKE_CURRENT(device);
    struct fake_stream *stream = flags <= 1 ? new_stream(device, flags) : NULL;
    if (stream == NULL) {
        return flags <= 1 ? CCL_GPU_E_OUT_OF_MEMORY : CCL_GPU_E_INVALID_VALUE;
    }
    pthread_mutex_lock(&fake_lock);
    stream->next = streams;
    streams = stream;
    fake_live.streams++;
    pthread_mutex_unlock(&fake_lock);
    *out = stream;
    return 0;
}

/* Its work goes on, and its thread ends with it. */
int fake_stream_destroy(void *handle)
{
    FAKE_ENTER(stream_destroy);
    int code = CCL_GPU_E_INVALID_HANDLE;
    pthread_mutex_lock(&fake_lock);
    for (struct fake_stream **p = &streams; *p != NULL; p = &(*p)->next) {
        struct fake_stream *stream = *p;
        if (stream == handle) {
            *p = stream->next;
            fake_capture_drop(&stream->capture);
            stream->closing = true;
            pthread_cond_signal(&stream->work);
            fake_live.streams--;
            code = 0;
            break;
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

/* Wait for, or ask about, what has been enqueued so far. */
static int finish(void *handle, bool wait)
{
    int code = 0;
    pthread_mutex_lock(&fake_lock);
    struct fake_stream *stream = fake_stream_of(handle, &code);
    if (stream != NULL && stream->capture.graph != NULL) {
        stream->capture.broken = true;
        code = CCL_GPU_E_CAPTURE_UNSUPPORTED;
    } else if (stream != NULL) {
        uint64_t upto = stream->pushed;
        while (wait && stream->done < upto) {
            pthread_cond_wait(&fake_changed, &fake_lock);
        }
        code = stream->done < upto ? CCL_GPU_E_NOT_READY : 0;
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_stream_sync(void *stream)
{
    FAKE_SETUP(stream_sync);
    return finish(stream, true);
}

int fake_stream_query(void *stream)
{
    FAKE_SETUP(stream_query);
    return finish(stream, false);
}

#ifdef FAKE_CUDA
int fake_stream_id(void *handle, unsigned long long *id)
{
    FAKE_ENTER(stream_id);
    int code = 0;
    pthread_mutex_lock(&fake_lock);
    struct fake_stream *stream = fake_stream_of(handle, &code);
    pthread_mutex_unlock(&fake_lock);
    *id = (unsigned long long)(uintptr_t)stream;
    return stream != NULL ? 0 : code;
}
#endif
