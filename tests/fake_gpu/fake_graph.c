/* SPDX-License-Identifier: MIT
 *
 * Graphs of the fake runtime: nodes with the nodes they follow. A launch runs them one after the other in a topological order; branches that wait for
 * each other's kernels would not get anywhere. */
#include "fake_graph.h"

#include <stdlib.h>

struct fake_object {
    void *ptr;
    void (*destroy)(void *);
    unsigned refs;
};

struct exec {
    struct fake_op **ops; /* in order */
    size_t num_ops;
    struct fake_object **objects;
    size_t num_objects;
    struct fake_mark *last; /* of the latest launch */
};

void *fake_grow(void *list, size_t count, size_t bytes)
{
    void *larger = realloc(list, (count + 1) * bytes);
    if (larger == NULL) {
        abort();
    }
    return larger;
}

void fake_add_dep(struct fake_nodes *nodes, struct fake_node *node)
{
    for (size_t i = 0; i < nodes->count; i++) {
        if (nodes->list[i] == node) {
            return;
        }
    }
    nodes->list = fake_grow(nodes->list, nodes->count, sizeof(*nodes->list));
    nodes->list[nodes->count++] = node;
}

static bool remove_dep(struct fake_nodes *nodes, const struct fake_node *node)
{
    for (size_t i = 0; i < nodes->count; i++) {
        if (nodes->list[i] == node) {
            nodes->list[i] = nodes->list[--nodes->count];
            return true;
        }
    }
    return false;
}

bool fake_in_graph(const struct fake_graph *graph, const struct fake_node *node)
{
    for (const struct fake_node *n = graph->nodes; n != NULL; n = n->next) {
        if (n == node) {
            return true;
        }
    }
    return false;
}

struct fake_node *fake_new_node(struct fake_graph *graph, struct fake_op *op, struct fake_node *const *deps, size_t count)
{
    struct fake_node *node = calloc(1, sizeof(*node));
    if (node == NULL) {
        abort();
    }
    node->op = op;
    for (size_t i = 0; i < count; i++) {
        fake_add_dep(&node->deps, deps[i]);
    }
    struct fake_node **p = &graph->nodes; /* at the end, so that ties run in the order of the calls */
    while (*p != NULL) {
        p = &(*p)->next;
    }
    *p = node;
    return node;
}

static void release_object(struct fake_object *object, unsigned count)
{
    object->refs -= count;
    if (object->refs == 0) {
        pthread_mutex_unlock(&fake_lock);
        fake_in_callback(true);
        object->destroy(object->ptr);
        fake_in_callback(false);
        pthread_mutex_lock(&fake_lock);
        fake_live.objects--;
        free(object);
    }
}

void fake_free_graph(struct fake_graph *graph)
{
    while (graph->nodes != NULL) {
        struct fake_node *node = graph->nodes;
        graph->nodes = node->next;
        free(node->op);
        free(node->deps.list);
        free(node);
    }
    for (size_t i = 0; i < graph->num_objects; i++) {
        release_object(graph->objects[i], 1);
    }
    free(graph->objects);
    free(graph);
    fake_live.graphs--;
}

static int add_event_node(void **node, void *graph, void *const *deps, size_t num_deps, void *event, int kind)
{
    pthread_mutex_lock(&fake_lock);
    int code = fake_event_alive(event) ? 0 : CCL_GPU_E_INVALID_HANDLE;
    for (size_t i = 0; i < num_deps && code == 0; i++) {
        code = fake_in_graph(graph, deps[i]) ? 0 : CCL_GPU_E_INVALID_VALUE;
    }
    if (code == 0) {
        struct fake_op *op = fake_op_new(kind, 0);
        op->event = event;
        *node = fake_new_node(graph, op, (struct fake_node *const *)deps, num_deps);
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_graph_add_record(void **node, void *graph, void *const *deps, size_t num_deps, void *event)
{
    FAKE_ENTER(graph_add_record);
    return add_event_node(node, graph, deps, num_deps, event, OP_RECORD);
}

int fake_graph_add_wait(void **node, void *graph, void *const *deps, size_t num_deps, void *event)
{
    FAKE_ENTER(graph_add_wait);
    return add_event_node(node, graph, deps, num_deps, event, OP_WAIT);
}

int fake_graph_add_edges(void *graph, void *const *from, void *const *to, size_t count)
{
    FAKE_ENTER(graph_add_edges);
    int code = 0;
    pthread_mutex_lock(&fake_lock);
    for (size_t i = 0; i < count && code == 0; i++) {
        code = fake_in_graph(graph, from[i]) && fake_in_graph(graph, to[i]) && from[i] != to[i] ? 0 : CCL_GPU_E_INVALID_VALUE;
        if (code == 0) {
            fake_add_dep(&((struct fake_node *)to[i])->deps, from[i]);
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_graph_remove_edges(void *graph, void *const *from, void *const *to, size_t count)
{
    FAKE_ENTER(graph_remove_edges);
    int code = 0;
    pthread_mutex_lock(&fake_lock);
    for (size_t i = 0; i < count && code == 0; i++) {
        bool ours = fake_in_graph(graph, from[i]) && fake_in_graph(graph, to[i]);
        code = ours && remove_dep(&((struct fake_node *)to[i])->deps, from[i]) ? 0 : CCL_GPU_E_INVALID_VALUE;
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

/* What node follows comes before it. */
static void visit(struct exec *exec, struct fake_node *node)
{
    if (node->visited) {
        return;
    }
    node->visited = true;
    for (size_t i = 0; i < node->deps.count; i++) {
        visit(exec, node->deps.list[i]);
    }
    exec->ops = fake_grow(exec->ops, exec->num_ops, sizeof(*exec->ops));
    exec->ops[exec->num_ops++] = fake_op_copy(node->op);
}

int fake_graph_instantiate(void **out, void *handle, unsigned long long flags)
{
    FAKE_SETUP(graph_instantiate);
    struct fake_graph *graph = handle;
    struct exec *exec = calloc(1, sizeof(*exec));
    if (exec == NULL || flags != 0) {
        free(exec);
        return CCL_GPU_E_INVALID_VALUE;
    }
    pthread_mutex_lock(&fake_lock);
    for (struct fake_node *node = graph->nodes; node != NULL; node = node->next) {
        node->visited = false;
    }
    for (struct fake_node *node = graph->nodes; node != NULL; node = node->next) {
        visit(exec, node);
    }
    for (size_t i = 0; i < graph->num_objects; i++) {
        exec->objects = fake_grow(exec->objects, exec->num_objects, sizeof(*exec->objects));
        exec->objects[exec->num_objects++] = graph->objects[i];
        graph->objects[i]->refs++;
    }
    fake_live.execs++;
    pthread_mutex_unlock(&fake_lock);
    *out = exec;
    return 0;
}

static void push_op(struct fake_stream *stream, const struct fake_op *from)
{
    struct fake_op *op = fake_op_copy(from);
    if (op->kind == OP_RECORD) {
        op->mark = fake_event_mark(op->event);
        op->event->graph = NULL;
    } else if (op->kind == OP_WAIT && op->event->mark == NULL) {
        free(op); /* never recorded: no wait */
        return;
    } else if (op->kind == OP_WAIT) {
        op->mark = op->event->mark;
        op->mark->refs++;
    }
    fake_push(stream, op);
}

int fake_graph_launch(void *handle, void *stream_handle)
{
    FAKE_ENTER(graph_launch);
    struct exec *exec = handle;
    int code = 0;
    pthread_mutex_lock(&fake_lock);
    struct fake_stream *stream = fake_stream_of(stream_handle, &code);
    if (stream != NULL) {
        code = fake_stream_capture(stream)->graph != NULL ? CCL_GPU_E_NOT_SUPPORTED : 0;
        for (size_t i = 0; i < exec->num_ops && code == 0; i++) {
            const struct fake_event *event = exec->ops[i]->event;
            code = event != NULL && !fake_event_alive(event) ? CCL_GPU_E_INVALID_HANDLE : 0;
        }
    }
    if (stream != NULL && code == 0) {
        struct fake_event previous = {.mark = exec->last};
        struct fake_op *wait = fake_op_new(OP_WAIT, 0), *record = fake_op_new(OP_RECORD, 0);
        wait->mark = exec->last; /* launches of one graph follow each other */
        if (wait->mark != NULL) {
            wait->mark->refs++;
            fake_push(stream, wait);
        } else {
            free(wait);
        }
        for (size_t i = 0; i < exec->num_ops; i++) {
            push_op(stream, exec->ops[i]);
        }
        record->mark = fake_event_mark(&previous);
        exec->last = previous.mark;
        fake_push(stream, record);
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

static void free_exec(struct exec *exec)
{
    for (size_t i = 0; i < exec->num_ops; i++) {
        free(exec->ops[i]);
    }
    for (size_t i = 0; i < exec->num_objects; i++) {
        release_object(exec->objects[i], 1);
    }
    free(exec->ops);
    free(exec->objects);
    free(exec);
    fake_live.execs--;
}

int fake_reaping;

/* Its objects are let go when its work has ended, on a thread of the runtime. */
static void *reap(void *arg)
{
    struct exec *exec = arg;
    pthread_mutex_lock(&fake_lock);
    while (exec->last != NULL && !exec->last->done) {
        pthread_cond_wait(&fake_changed, &fake_lock);
    }
    if (exec->last != NULL && --exec->last->refs == 0) {
        free(exec->last);
    }
    free_exec(exec);
    fake_reaping--;
    pthread_cond_broadcast(&fake_changed);
    pthread_mutex_unlock(&fake_lock);
    return NULL;
}

int fake_graph_exec_destroy(void *exec)
{
    FAKE_ENTER(graph_exec_destroy);
    pthread_t thread;
    pthread_mutex_lock(&fake_lock);
    fake_reaping++;
    pthread_mutex_unlock(&fake_lock);
    if (pthread_create(&thread, NULL, reap, exec) != 0) {
        abort();
    }
    pthread_detach(thread);
    return 0;
}

int fake_graph_destroy(void *graph)
{
    FAKE_ENTER(graph_destroy);
    pthread_mutex_lock(&fake_lock);
    fake_free_graph(graph);
    pthread_mutex_unlock(&fake_lock);
    return 0;
}

int fake_user_object_create(void **out, void *ptr, void (*destroy)(void *), unsigned refs, unsigned flags)
{
    FAKE_ENTER(user_object_create);
    struct fake_object *object = refs == 1 && flags == 1 ? calloc(1, sizeof(*object)) : NULL;
    if (object == NULL) {
        return CCL_GPU_E_INVALID_VALUE;
    }
    *object = (struct fake_object){ptr, destroy, refs};
    pthread_mutex_lock(&fake_lock);
    fake_live.objects++;
    pthread_mutex_unlock(&fake_lock);
    *out = object;
    return 0;
}

int fake_user_object_release(void *object, unsigned count)
{
    FAKE_ENTER(user_object_release);
    pthread_mutex_lock(&fake_lock);
    release_object(object, count);
    pthread_mutex_unlock(&fake_lock);
    return 0;
}

int fake_graph_retain_object(void *handle, void *object, unsigned count, unsigned flags)
{
    FAKE_ENTER(graph_retain_object);
    struct fake_graph *graph = handle;
    if (count != 1 || flags > 1) {
        return CCL_GPU_E_INVALID_VALUE;
    }
    pthread_mutex_lock(&fake_lock);
    graph->objects = fake_grow(graph->objects, graph->num_objects, sizeof(*graph->objects));
    graph->objects[graph->num_objects++] = object;
    ((struct fake_object *)object)->refs += flags == 1 ? 0 : 1; /* 1: the caller's reference moves */
    pthread_mutex_unlock(&fake_lock);
    return 0;
}
