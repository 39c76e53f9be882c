/* SPDX-License-Identifier: MIT
 *
 * The order of one communicator's operations on a GPU. Each chain has one event; its latest record stands for everything before it.
 *
 * Eager operations record the event, all of them. Recording later, at the first change of stream, would save it but is not possible: by then
 * the stream may have been destroyed with its work pending (its handle even be another stream's), or have begun a capture; and a graph
 * launched by the user, which nobody tells us, must find the record. An operation waits for the event unless the last one ran on the
 * same stream: same by the driver's id, since handles are given again and the per-thread stream is another one in every thread.
 *
 * Captured operations of one graph follow each other by edges. One wait node in front of the first and one record node behind the last connect
 * the graph to the outside: each launch of a graph waits for the record that was the latest when it was launched, and records the event
 * anew (cuGraphAddEventWaitNode, cuGraphAddEventRecordNode), in the order of the launches. The record node moves by its edges, since nodes
 * of a graph being captured cannot be removed (cuStreamGetCaptureInfo). It is in no stream's set of dependencies, so nothing of the user's
 * waits for it. Once there is a graph, eager operations always wait: it may have been launched on any stream.
 *
 * Graphs hold the event, so it lives until the chain and all graphs are gone; a graph lets go in a callback that must not call the runtime, so
 * events are put on a list and destroyed by the next call that may. */
#include <stdatomic.h>
#include <stdlib.h>

#include "runtime/gpu_internal.h"

#define DEFAULT_STREAM_ID (1ull << 63)

struct anchor {
    struct anchor *next; /* in the list of those to destroy */
    void *event;
    int device;
    atomic_int refs; /* the chain's and one of each graph */
};

/* What a chain has put into one graph. */
struct capture {
    struct capture *next;
    struct anchor *anchor;
    unsigned long long id;
    void *wait, *record; /* nodes; NULL: not there yet */
    void *tail;          /* node of the last operation; NULL: none yet */
    void *recorded;      /* node that record is behind */
    atomic_bool ended;   /* the graph is gone */
    atomic_int refs;     /* the chain's and the graph's */
};

struct ccl_chain {
    struct anchor *anchor;
    struct ccl_gpu_tenant tenant;
    struct capture *captures; /* the newest first */
    bool used;                /* the event has been recorded by an eager operation */
    bool captured;            /* once: a graph has been captured */
    unsigned long long last;  /* id of the stream of the last eager operation; 0: not known */
    /* between before and after */
    struct capture *now;       /* NULL: eager */
    unsigned long long stream; /* id */
};

struct capture_info {
    int status;
    unsigned long long id;
    void *graph;
    void *const *deps; /* valid until the next call on the stream */
    size_t num_deps;
};

static _Atomic(struct anchor *) dead_anchors;

static void drop_anchor(struct anchor *anchor)
{
    /* acq_rel: whoever destroys it has seen what all the others did */
    if (atomic_fetch_sub_explicit(&anchor->refs, 1, memory_order_acq_rel) == 1) {
        anchor->next = atomic_load_explicit(&dead_anchors, memory_order_relaxed);
        while (!atomic_compare_exchange_weak_explicit(&dead_anchors, &anchor->next, anchor, memory_order_release,
                                                      memory_order_relaxed)) {
        }
    }
}

static void drop_capture(struct capture *capture)
{
    if (atomic_fetch_sub_explicit(&capture->refs, 1, memory_order_acq_rel) == 1) {
        drop_anchor(capture->anchor);
        free(capture);
    }
}

/* Called by the runtime, on a thread of its own, when the last graph that was made of this capture is gone. */
static void on_graph_gone(void *arg)
{
    struct capture *capture = arg;
    atomic_store_explicit(&capture->ended, true, memory_order_relaxed);
    drop_capture(capture);
}

void ccl_gpu_chain_reap(void)
{
    if (atomic_load_explicit(&dead_anchors, memory_order_relaxed) == NULL) {
        return;
    }
    struct anchor *list = atomic_exchange_explicit(&dead_anchors, NULL, memory_order_acquire);
    while (list != NULL) {
        struct anchor *anchor = list;
        struct ccl_gpu_guard guard;
        list = anchor->next;
        if (ccl_gpu_enter(anchor->device, &guard) == cclSuccess) {
            int error = ccl_gpu.event_destroy(anchor->event);
            if (error != 0) {
                ccl_gpu_failed(error, "event_destroy");
            }
            ccl_gpu_leave(&guard);
        }
        free(anchor);
    }
}

static cclResult_t query_capture(void *stream, struct capture_info *info)
{
    *info = (struct capture_info){0};
    int error = ccl_gpu.capture_info(stream, &info->status, &info->id, &info->graph, &info->deps, &info->num_deps);
    CCL_CHECK(error != CCL_GPU_E_CAPTURE_IMPLICIT, cclInvalidUsage, CCL_RT,
              "the default stream %p cannot be used while another stream of its device is being captured", stream);
    if (CCL_UNLIKELY(error != 0)) {
        return ccl_gpu_failed(error, "capture_info");
    }
    CCL_CHECK(info->status == CCL_GPU_CAPTURE_NONE || info->status == CCL_GPU_CAPTURE_ACTIVE, cclInvalidUsage, CCL_RT,
              "the capture of stream %p was made invalid by an earlier error", stream);
    return cclSuccess;
}

cclResult_t ccl_gpu_capture_query(struct cclStream *stream, uint64_t *id)
{
    struct capture_info info;
    CCL_TRY(query_capture(stream, &info));
    *id = info.status == CCL_GPU_CAPTURE_ACTIVE ? info.id : 0;
    return cclSuccess;
}

cclResult_t ccl_gpu_chain_create(struct ccl_chain **out)
{
    struct ccl_gpu_guard guard;
    struct ccl_chain *chain = calloc(1, sizeof(*chain));
    struct anchor *anchor = calloc(1, sizeof(*anchor));
    cclResult_t rc = chain != NULL && anchor != NULL
                         ? cclSuccess
                         : ccl_error_set(cclSystemError, CCL_RT, "out of memory for a chain, %zu bytes", sizeof(*chain));
    ccl_gpu_chain_reap();
    CCL_TRY_GOTO(rc, err_free);
    CCL_TRY_GOTO(ccl_gpu_enter_current(&guard, &anchor->device), err_free);
    int error = ccl_gpu.event_create(&anchor->event, CCL_GPU_EVENT_NO_TIMING);
    rc = error != 0 ? ccl_gpu_failed(error, "event_create") : cclSuccess;
    ccl_gpu_leave(&guard);
    CCL_TRY_GOTO(rc, err_free);
    atomic_init(&anchor->refs, 1);
    chain->anchor = anchor;
    chain->tenant = (struct ccl_gpu_tenant){.event = anchor->event, .device = anchor->device};
    ccl_gpu_tenant_add(&chain->tenant);
    *out = chain;
    return cclSuccess;
err_free:
    free(anchor);
    free(chain);
    return rc;
}

void ccl_gpu_chain_destroy(struct ccl_chain *chain)
{
    if (chain == NULL) {
        return;
    }
    while (chain->captures != NULL) {
        struct capture *capture = chain->captures;
        chain->captures = capture->next;
        drop_capture(capture);
    }
    ccl_gpu_tenant_remove(&chain->tenant);
    drop_anchor(chain->anchor);
    free(chain);
    ccl_gpu_chain_reap();
    ccl_gpu_free_deferred();
}

/* Destroying a stream changes nothing: its id is never given again. */
void ccl_gpu_chain_forget(struct ccl_chain *chain, struct cclStream *stream)
{
    (void)chain, (void)stream;
}

static void forget_ended(struct ccl_chain *chain)
{
    for (struct capture **p = &chain->captures; *p != NULL;) {
        struct capture *capture = *p;
        if (atomic_load_explicit(&capture->ended, memory_order_relaxed)) {
            *p = capture->next;
            drop_capture(capture);
        } else {
            p = &capture->next;
        }
    }
}

/* A record of this capture, which the graph holds too. */
static cclResult_t open_capture(struct ccl_chain *chain, const struct capture_info *info, struct capture **out)
{
    void *object;
    forget_ended(chain);
    struct capture *capture = calloc(1, sizeof(*capture));
    CCL_CHECK(capture != NULL, cclSystemError, CCL_RT, "out of memory for a capture, %zu bytes", sizeof(*capture));
    int error = ccl_gpu.user_object_create(&object, capture, on_graph_gone, 1, CCL_GPU_OBJECT_NO_SYNC);
    if (error != 0) {
        free(capture);
        return ccl_gpu_failed(error, "user_object_create");
    }
    atomic_init(&capture->refs, 2);
    atomic_fetch_add_explicit(&chain->anchor->refs, 1, memory_order_relaxed);
    capture->anchor = chain->anchor;
    capture->id = info->id;
    error = ccl_gpu.graph_retain_object(info->graph, object, 1, CCL_GPU_OBJECT_MOVE);
    if (error != 0) {
        int lost = ccl_gpu.user_object_release(object, 1); /* calls on_graph_gone */
        if (lost != 0) {
            ccl_gpu_failed(lost, "user_object_release");
            drop_capture(capture);
        }
        drop_capture(capture);
        return ccl_gpu_failed(error, "graph_retain_object");
    }
    capture->next = chain->captures;
    chain->captures = capture;
    chain->captured = true;
    *out = capture;
    return cclSuccess;
}

/* The next operation of stream follows node too. */
static cclResult_t follow(void *stream, const struct capture_info *info, void *node)
{
    for (size_t i = 0; i < info->num_deps; i++) {
        if (info->deps[i] == node) {
            return cclSuccess;
        }
    }
    CCL_GPU_TRY(capture_set_deps, stream, &node, 1, CCL_GPU_DEPS_ADD);
    return cclSuccess;
}

static cclResult_t before_captured(struct ccl_chain *chain, void *stream, const struct capture_info *info)
{
    struct capture *c = chain->captures;
    while (c != NULL && c->id != info->id) {
        c = c->next;
    }
    if (c == NULL) {
        CCL_TRY(open_capture(chain, info, &c));
    }
    if (c->tail != NULL) {
        CCL_TRY(follow(stream, info, c->tail));
    } else if (c->wait != NULL) {
        CCL_TRY(follow(stream, info, c->wait)); /* the operation it was meant for has failed */
    } else {
        void *wait;
        CCL_GPU_TRY(graph_add_wait, &wait, info->graph, info->deps, info->num_deps, chain->anchor->event);
        c->wait = wait;
        CCL_GPU_TRY(capture_set_deps, stream, &wait, 1, CCL_GPU_DEPS_SET); /* it is behind those that were there */
    }
    chain->now = c;
    return cclSuccess;
}

/* 0: cannot tell it from another stream. */
static cclResult_t stream_id(void *stream, unsigned long long *id)
{
    if (ccl_gpu.stream_id != NULL) {
        CCL_GPU_TRY(stream_id, stream, id);
        return cclSuccess;
    }
    *id = stream == NULL ? DEFAULT_STREAM_ID : 0;
    return cclSuccess;
}

static cclResult_t before_eager(struct ccl_chain *chain, void *stream)
{
    CCL_TRY(stream_id(stream, &chain->stream));
    bool same = chain->stream != 0 && chain->stream == chain->last;
    if (chain->captured || (chain->used && !same)) {
        CCL_GPU_TRY(stream_wait, stream, chain->anchor->event, 0);
    }
    chain->now = NULL;
    ccl_gpu_tenant_enter(&chain->tenant);
    return cclSuccess;
}

cclResult_t ccl_gpu_chain_before(struct ccl_chain *chain, struct cclStream *stream)
{
    struct capture_info info;
    struct ccl_gpu_guard guard;
    CCL_TRY(ccl_gpu_enter(chain->anchor->device, &guard)); /* the default stream is the current device's */
    cclResult_t rc = query_capture(stream, &info);
    if (CCL_LIKELY(rc == cclSuccess)) {
        rc = info.status == CCL_GPU_CAPTURE_NONE ? before_eager(chain, stream) : before_captured(chain, stream, &info);
    }
    ccl_gpu_leave(&guard);
    return rc;
}

static cclResult_t after_captured(struct ccl_chain *chain, void *stream)
{
    struct capture *c = chain->now;
    struct capture_info info;
    CCL_TRY(query_capture(stream, &info));
    CCL_CHECK(info.status == CCL_GPU_CAPTURE_ACTIVE && info.id == c->id && info.num_deps == 1, cclInternalError, CCL_RT,
              "capture %llu of stream %p became %llu within an operation, %zu nodes at its end", c->id, stream, info.id,
              info.num_deps);
    c->tail = info.deps[0];
    if (c->record == NULL) {
        void *record;
        CCL_GPU_TRY(graph_add_record, &record, info.graph, &c->tail, 1, chain->anchor->event);
        c->record = record;
        c->recorded = c->tail;
        return cclSuccess;
    }
    CCL_GPU_TRY(graph_add_edges, info.graph, &c->tail, &c->record, 1);
    void *old = c->recorded;
    c->recorded = c->tail;
    CCL_GPU_TRY(graph_remove_edges, info.graph, &old, &c->record, 1); /* where it fails, one edge too many is harmless */
    return cclSuccess;
}

cclResult_t ccl_gpu_chain_after(struct ccl_chain *chain, struct cclStream *stream)
{
    struct ccl_gpu_guard guard;
    cclResult_t rc = cclSuccess;
    CCL_TRY(ccl_gpu_enter(chain->anchor->device, &guard));
    if (chain->now != NULL) {
        rc = after_captured(chain, stream);
    } else {
        int error = ccl_gpu.event_record(chain->anchor->event, stream);
        rc = error != 0 ? ccl_gpu_failed(error, "event_record") : cclSuccess;
        if (CCL_LIKELY(error == 0)) {
            ccl_gpu_tenant_leave(&chain->tenant);
        }
        chain->used = true;
        chain->last = chain->stream;
    }
    ccl_gpu_leave(&guard);
    return rc;
}

/* As setup: what is asked about the event is no part of anybody's capture, and must not end one. */
static cclResult_t ask_event(struct ccl_chain *chain, bool wait, const char *call)
{
    struct ccl_gpu_guard guard;
    CCL_TRY(ccl_gpu_enter_setup_on(chain->anchor->device, &guard));
    int error = wait ? ccl_gpu_outlast(ccl_gpu.event_sync, ccl_gpu.event_query, chain->anchor->event) : ccl_gpu.event_query(chain->anchor->event);
    ccl_gpu_leave(&guard);
    return error == 0 ? cclSuccess : error == CCL_GPU_E_NOT_READY ? cclInProgress : ccl_gpu_failed(error, call);
}

cclResult_t ccl_gpu_chain_sync(struct ccl_chain *chain)
{
    return ask_event(chain, true, "event_sync");
}

cclResult_t ccl_gpu_chain_query(struct ccl_chain *chain)
{
    return ask_event(chain, false, "event_query");
}
