/* SPDX-License-Identifier: MIT
 *
 * Captures of the fake runtime: what a stream records into a graph, and which calls are forbidden meanwhile. */
#include "fake_graph.h"

#include <stdlib.h>

#define CAPTURE_OF_OTHERS 905 /* the event was not recorded by this capture */
#define CAPTURE_ENDED 907

static _Thread_local int thread_mode; /* what this thread's calls may disturb: 0 nothing, 1 others' captures, 2 all */
static unsigned long long next_id = 1;

/* Captures that have not ended. */
static struct running {
    struct running *next;
    struct fake_graph *graph;
} *running;

int fake_forbidden(void)
{
    int code = 0;
    if (thread_mode == CCL_GPU_CAPTURE_RELAXED) {
        return 0;
    }
    pthread_mutex_lock(&fake_lock);
    for (struct running *r = running; r != NULL; r = r->next) {
        bool mine = pthread_equal(r->graph->thread, pthread_self());
        if (r->graph->mode == CCL_GPU_CAPTURE_GLOBAL ? thread_mode == CCL_GPU_CAPTURE_GLOBAL || mine
                                                     : r->graph->mode == CCL_GPU_CAPTURE_THREAD_LOCAL && mine) {
            r->graph->broken = true;
            code = CCL_GPU_E_CAPTURE_UNSUPPORTED;
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

static void set_deps(struct fake_capture *capture, struct fake_node *node)
{
    capture->deps.count = 0;
    fake_add_dep(&capture->deps, node);
}

int fake_capture_op(struct fake_capture *capture, struct fake_op *op)
{
    set_deps(capture, fake_new_node(capture->graph, op, capture->deps.list, capture->deps.count));
    return capture->graph->broken ? CCL_GPU_E_CAPTURE_INVALIDATED : 0;
}

int fake_capture_record(struct fake_capture *capture, struct fake_event *event)
{
    event->graph = capture->graph;
    event->deps.count = 0;
    for (size_t i = 0; i < capture->deps.count; i++) {
        fake_add_dep(&event->deps, capture->deps.list[i]);
    }
    return 0;
}

int fake_capture_wait(struct fake_capture *capture, struct fake_event *event)
{
    if (event->graph == NULL) {
        return CAPTURE_OF_OTHERS;
    }
    bool alive = false;
    for (struct running *r = running; r != NULL; r = r->next) {
        alive = alive || r->graph == event->graph;
    }
    if (!alive || (capture->graph != NULL && capture->graph != event->graph)) {
        return alive ? CAPTURE_OF_OTHERS : CAPTURE_ENDED;
    }
    if (capture->graph == NULL) {
        *capture = (struct fake_capture){.graph = event->graph};
    }
    for (size_t i = 0; i < event->deps.count; i++) {
        fake_add_dep(&capture->deps, event->deps.list[i]);
    }
    return 0;
}

void fake_capture_drop(struct fake_capture *capture)
{
    struct fake_graph *graph = capture->graph;
    bool origin = capture->origin;
    free(capture->deps.list);
    *capture = (struct fake_capture){0};
    if (graph != NULL && origin) {
        for (struct running **p = &running; *p != NULL; p = &(*p)->next) {
            if ((*p)->graph == graph) {
                struct running *r = *p;
                *p = r->next;
                free(r);
                break;
            }
        }
    }
}

int fake_capture_begin(void *handle, int mode)
{
    FAKE_ENTER(capture_begin);
    int code = 0;
    pthread_mutex_lock(&fake_lock);
    struct fake_stream *stream = fake_stream_of(handle, &code);
    if (stream != NULL && (handle == NULL || mode < 0 || mode > 2 || fake_stream_capture(stream)->graph != NULL)) {
        code = handle == NULL ? CCL_GPU_E_CAPTURE_UNSUPPORTED : CCL_GPU_E_INVALID_VALUE;
    } else if (stream != NULL) {
        struct fake_graph *graph = calloc(1, sizeof(*graph));
        struct running *r = calloc(1, sizeof(*r));
        if (graph == NULL || r == NULL) {
            abort();
        }
        *graph = (struct fake_graph){.id = next_id++, .mode = mode, .thread = pthread_self()};
        *r = (struct running){running, graph};
        running = r;
        *fake_stream_capture(stream) = (struct fake_capture){.graph = graph, .origin = true};
        fake_live.graphs++;
        code = 0;
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_capture_end(void *handle, void **out)
{
    FAKE_ENTER(capture_end);
    int code = 0;
    pthread_mutex_lock(&fake_lock);
    struct fake_stream *stream = fake_stream_of(handle, &code);
    struct fake_capture *capture = stream != NULL ? fake_stream_capture(stream) : NULL;
    if (capture != NULL && (capture->graph == NULL || !capture->origin)) {
        code = CCL_GPU_E_INVALID_VALUE;
    } else if (capture != NULL) {
        struct fake_graph *graph = capture->graph;
        bool broken = capture->broken || graph->broken;
        fake_capture_drop(capture);
        fake_streams_end_capture(graph);
        code = broken ? CCL_GPU_E_CAPTURE_INVALIDATED : 0;
        *out = broken ? NULL : graph;
        if (broken) {
            fake_free_graph(graph);
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_capture_info(void *handle, int *status, unsigned long long *id, void **graph, void *const **deps, size_t *num_deps)
{
    FAKE_ENTER(capture_info);
    int code = 0;
    pthread_mutex_lock(&fake_lock);
    struct fake_stream *stream = fake_stream_of(handle, &code);
    if (stream != NULL) {
        const struct fake_capture *capture = fake_stream_capture(stream);
        code = 0;
        *status = capture->graph == NULL ? 0 : capture->broken || capture->graph->broken ? 2 : 1;
        if (capture->graph != NULL) {
            *id = capture->graph->id;
            *graph = capture->graph;
            *deps = (void *const *)capture->deps.list;
            *num_deps = capture->deps.count;
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_capture_set_deps(void *handle, void **deps, size_t num_deps, unsigned flags)
{
    FAKE_ENTER(capture_set_deps);
    int code = 0;
    pthread_mutex_lock(&fake_lock);
    struct fake_stream *stream = fake_stream_of(handle, &code);
    struct fake_capture *capture = stream != NULL ? fake_stream_capture(stream) : NULL;
    if (capture != NULL) {
        code = capture->graph == NULL || flags > 1 ? CCL_GPU_E_INVALID_VALUE : 0;
        for (size_t i = 0; i < num_deps && code == 0; i++) {
            code = fake_in_graph(capture->graph, deps[i]) ? 0 : CCL_GPU_E_INVALID_VALUE;
        }
        if (code == 0 && flags == CCL_GPU_DEPS_SET) {
            capture->deps.count = 0;
        }
        for (size_t i = 0; i < num_deps && code == 0; i++) {
            fake_add_dep(&capture->deps, deps[i]);
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_capture_mode(int *mode)
{
    FAKE_ENTER(capture_mode);
    int before = thread_mode;
    if (*mode < 0 || *mode > 2) {
        return CCL_GPU_E_INVALID_VALUE;
    }
    thread_mode = *mode;
    *mode = before;
    return 0;
}

