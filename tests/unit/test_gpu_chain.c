/* SPDX-License-Identifier: MIT
 *
 * Proves, on a make-believe GPU runtime that keeps graphs as lists of nodes and edges, how the operations of a communicator are chained:
 * which waits and records eager calls make, one wait and one record node a graph and edges in between, several captures at once, events
 * that live as long as graphs hold them, and that no failing call leaves a chain that orders wrongly. */
/* CTEST: labels quick; timeout 30 */
#include "runtime/gpu_internal.h"

#include <string.h>

#include "test.h"

#define MAX_NODES 256
#define MAX_EDGES 1024

enum kind { KERNEL, WAIT, RECORD };

struct graph {
    enum kind kind[MAX_NODES]; /* node i is the pointer i + 1 */
    int nodes;
    struct {
        intptr_t from, to;
    } edge[MAX_EDGES];
    int edges;
    void (*destroy)(void *);
    void *object[8];
    int objects;
};

struct stream {
    unsigned long long id, capture; /* capture 0: none */
    int status;
    struct graph *graph;
    void *deps[8];
    size_t num_deps;
    int waits, records;
};

struct ccl_gpu_api ccl_gpu;
static int events_alive, mode = 0, current = 0, fail_in = -1, calls;
static struct stream legacy = {.id = 1};
static unsigned long long next_capture = 100;

static int failing(void)
{
    calls++;
    return fail_in >= 0 && fail_in-- == 0 ? 999 : 0;
}

/* ---- what gpu_api.c and gpu_device.c do on a machine ---- */

cclResult_t ccl_gpu_failed(int error, const char *call)
{
    return ccl_error_set(cclUnhandledDeviceError, CCL_RT, "%s failed with %d", call, error);
}

cclResult_t ccl_gpu_enter(int device, struct ccl_gpu_guard *guard)
{
    *guard = (struct ccl_gpu_guard){.device = current, .mode = mode};
    current = device;
    return cclSuccess;
}

cclResult_t ccl_gpu_enter_setup_on(int device, struct ccl_gpu_guard *guard)
{
    ccl_gpu_enter(device, guard);
    mode = 2; /* relaxed */
    return cclSuccess;
}

cclResult_t ccl_gpu_enter_current(struct ccl_gpu_guard *guard, int *device)
{
    *device = current;
    *guard = (struct ccl_gpu_guard){.device = current, .mode = mode};
    return cclSuccess;
}

void ccl_gpu_leave(const struct ccl_gpu_guard *guard)
{
    current = guard->device;
    mode = guard->mode;
}

/* ---- the runtime ---- */

static struct stream *of(void *stream)
{
    TEST_EQ(current, 3); /* the chain's device, whatever the thread's is */
    return stream != NULL ? stream : &legacy;
}

static int fake_capture_info(void *stream, int *status, unsigned long long *id, void **graph, void *const **deps, size_t *num_deps)
{
    struct stream *s = of(stream);
    if (s->status == 906) {
        return 906;
    }
    *status = s->status;
    if (s->status == 1) {
        *id = s->capture;
        *graph = s->graph;
        *deps = s->deps;
        *num_deps = s->num_deps;
    }
    return failing();
}

static int fake_set_deps(void *stream, void **deps, size_t num, unsigned flags)
{
    struct stream *s = of(stream);
    int error = failing();
    if (error != 0) {
        return error;
    }
    if (flags == 1) {
        s->num_deps = 0;
    }
    for (size_t i = 0; i < num; i++) {
        for (size_t k = 0; k < s->num_deps; k++) {
            TEST_CHECK(s->deps[k] != deps[i]); /* twice */
        }
        s->deps[s->num_deps++] = deps[i];
    }
    return 0;
}

static int find_edge(const struct graph *g, intptr_t from, intptr_t to)
{
    for (int i = 0; i < g->edges; i++) {
        if (g->edge[i].from == from && g->edge[i].to == to) {
            return i;
        }
    }
    return -1;
}

static void add_edge(struct graph *g, intptr_t from, intptr_t to)
{
    TEST_EQ(find_edge(g, from, to), -1);
    g->edge[g->edges].from = from;
    g->edge[g->edges++].to = to;
}

static intptr_t add_node(struct graph *g, enum kind kind, void *const *deps, size_t num)
{
    g->kind[g->nodes++] = kind;
    for (size_t i = 0; i < num; i++) {
        add_edge(g, (intptr_t)deps[i], g->nodes);
    }
    return g->nodes;
}

static int fake_add_wait(void **node, void *graph, void *const *deps, size_t num, void *event)
{
    int error = failing();
    TEST_CHECK(event != NULL);
    if (error == 0) {
        *node = (void *)add_node(graph, WAIT, deps, num);
    }
    return error;
}

static int fake_add_record(void **node, void *graph, void *const *deps, size_t num, void *event)
{
    int error = failing();
    TEST_CHECK(event != NULL);
    if (error == 0) {
        *node = (void *)add_node(graph, RECORD, deps, num);
    }
    return error;
}

static int fake_add_edges(void *graph, void *const *from, void *const *to, size_t count)
{
    int error = failing();
    TEST_EQ(count, 1);
    if (error == 0) {
        add_edge(graph, (intptr_t)from[0], (intptr_t)to[0]);
    }
    return error;
}

static int fake_remove_edges(void *graph, void *const *from, void *const *to, size_t count)
{
    struct graph *g = graph;
    int error = failing(), at = find_edge(g, (intptr_t)from[0], (intptr_t)to[0]);
    TEST_EQ(count, 1);
    TEST_CHECK(at >= 0);
    if (error == 0 && at >= 0) {
        g->edge[at] = g->edge[--g->edges];
    }
    return error;
}

static void (*destructor)(void *);

static int fake_object_create(void **object, void *ptr, void (*destroy)(void *), unsigned refs, unsigned flags)
{
    int error = failing();
    TEST_EQ(refs, 1);
    TEST_EQ(flags, 1);
    if (error == 0) {
        *object = ptr;
        destructor = destroy;
    }
    return error;
}

static int fake_object_release(void *object, unsigned count)
{
    TEST_EQ(count, 1);
    destructor(object);
    return 0;
}

static int fake_retain(void *graph, void *object, unsigned count, unsigned flags)
{
    struct graph *g = graph;
    int error = failing();
    TEST_EQ(count, 1);
    TEST_EQ(flags, 1); /* move */
    if (error == 0) {
        g->object[g->objects++] = object;
    }
    return error;
}

static int fake_event_create(void **event, unsigned flags)
{
    TEST_EQ(flags, 2); /* no timing */
    *event = &events_alive;
    events_alive++;
    return 0;
}

static int fake_event_destroy(void *event)
{
    TEST_CHECK(event == &events_alive);
    events_alive--;
    return 0;
}

static int fake_record(void *event, void *stream)
{
    (void)event;
    of(stream)->records++;
    return failing();
}

static int fake_wait(void *stream, void *event, unsigned flags)
{
    (void)event;
    TEST_EQ(flags, 0);
    of(stream)->waits++;
    return failing();
}

static int fake_id(void *stream, unsigned long long *id)
{
    *id = of(stream)->id;
    return 0;
}

static int event_state;

static int fake_query(void *event)
{
    (void)event;
    TEST_EQ(mode, 2);
    return event_state;
}

static void fill_table(void)
{
    ccl_gpu = (struct ccl_gpu_api){.vendor = CCL_GPU_NVIDIA,
                                   .capture_info = fake_capture_info,
                                   .capture_set_deps = fake_set_deps,
                                   .graph_add_wait = fake_add_wait,
                                   .graph_add_record = fake_add_record,
                                   .graph_add_edges = fake_add_edges,
                                   .graph_remove_edges = fake_remove_edges,
                                   .user_object_create = fake_object_create,
                                   .graph_retain_object = fake_retain,
                                   .user_object_release = fake_object_release,
                                   .event_create = fake_event_create,
                                   .event_destroy = fake_event_destroy,
                                   .event_record = fake_record,
                                   .event_sync = fake_query,
                                   .event_query = fake_query,
                                   .stream_wait = fake_wait,
                                   .stream_id = fake_id};
}

/* ---- what a user and a launch do ---- */

static struct graph *begin(struct stream *stream)
{
    struct graph *g = calloc(1, sizeof(*g));
    stream->graph = g;
    stream->capture = next_capture++;
    stream->status = 1;
    stream->num_deps = 0;
    return g;
}

static void fork_to(struct stream *to, const struct stream *from)
{
    unsigned long long id = to->id;
    *to = *from;
    to->id = id;
}

static void end(struct stream *stream)
{
    stream->status = 0;
    stream->graph = NULL;
}

static void graph_gone(struct graph *g)
{
    for (int i = 0; i < g->objects; i++) {
        destructor(g->object[i]);
    }
    free(g);
}

static intptr_t kernel(struct stream *stream)
{
    if (stream->status != 1) {
        return 0;
    }
    intptr_t node = add_node(stream->graph, KERNEL, stream->deps, stream->num_deps);
    stream->deps[0] = (void *)node;
    stream->num_deps = 1;
    return node;
}

static struct cclStream *handle(struct stream *stream)
{
    return stream == &legacy ? NULL : (struct cclStream *)(void *)stream;
}

/* An operation of the communicator; its node in a capture. */
static intptr_t operation(struct ccl_chain *chain, struct stream *stream)
{
    TEST_EQ(ccl_gpu_chain_before(chain, handle(stream)), cclSuccess);
    intptr_t node = kernel(stream);
    TEST_EQ(ccl_gpu_chain_after(chain, handle(stream)), cclSuccess);
    TEST_EQ(current, 7); /* the thread's */
    return node;
}

/* Edges lead to younger nodes, except for those to record nodes, from which none leads on. */
static bool reaches(const struct graph *g, intptr_t from, intptr_t to)
{
    bool mark[MAX_NODES + 1] = {false};
    mark[from] = true;
    for (intptr_t node = from; node <= g->nodes; node++) {
        for (int i = 0; mark[node] && i < g->edges; i++) {
            if (g->edge[i].from == node) {
                mark[g->edge[i].to] = true;
            }
        }
    }
    return mark[to];
}

static intptr_t only(const struct graph *g, enum kind kind)
{
    int count = 0;
    intptr_t node = 0;
    for (int i = 0; i < g->nodes; i++) {
        if (g->kind[i] == kind) {
            node = i + 1;
            count++;
        }
    }
    TEST_EQ(count, 1);
    return node;
}

static struct ccl_chain *new_chain(void)
{
    struct ccl_chain *chain = NULL;
    current = 3;
    TEST_EQ(ccl_gpu_chain_create(&chain), cclSuccess);
    current = 7;
    return chain;
}

/* ---- the tests ---- */

static void eager(void)
{
    struct ccl_chain *chain = new_chain();
    struct stream a = {.id = 11}, b = {.id = 12}, again;
    legacy.waits = legacy.records = 0;
    operation(chain, &a);
    operation(chain, &a);
    TEST_EQ(a.waits, 0);
    TEST_EQ(a.records, 2);
    operation(chain, &b);
    TEST_EQ(b.waits, 1);
    operation(chain, &legacy);
    operation(chain, &legacy);
    TEST_EQ(legacy.waits, 1);
    TEST_EQ(legacy.records, 2);
    operation(chain, &a);
    TEST_EQ(a.waits, 1);
    /* the handle of a destroyed stream, given to another one */
    ccl_gpu_chain_forget(chain, handle(&a));
    again = a;
    a.id = 13;
    operation(chain, &a);
    TEST_EQ(a.waits, again.waits + 1);
    /* without ids nothing but the default stream is known to be the same */
    ccl_gpu.stream_id = NULL;
    operation(chain, &a);
    TEST_EQ(a.waits, again.waits + 2);
    operation(chain, &a);
    TEST_EQ(a.waits, again.waits + 3);
    operation(chain, &legacy);
    operation(chain, &legacy);
    TEST_EQ(legacy.waits, 2);
    ccl_gpu_chain_destroy(chain);
    TEST_EQ(events_alive, 0);
    fill_table();
}

/* Operations on two streams of one capture, user kernels between them. */
static void captured(void)
{
    struct ccl_chain *chain = new_chain();
    struct stream a = {.id = 21}, b = {.id = 22}, c = {.id = 23};
    struct graph *g = begin(&a);
    intptr_t first_user = kernel(&a), op[100];
    fork_to(&b, &a);
    for (int i = 0; i < 100; i++) {
        op[i] = operation(chain, i % 3 == 2 ? &b : &a);
        if (i % 10 == 5) {
            kernel(&a);
        }
    }
    intptr_t wait = only(g, WAIT), record = only(g, RECORD);
    TEST_CHECK(find_edge(g, first_user, wait) >= 0);
    TEST_CHECK(find_edge(g, wait, op[0]) >= 0);
    for (int i = 1; i < 100; i++) {
        TEST_CHECK(reaches(g, op[i - 1], op[i]));
    }
    for (int i = 0; i < 100; i++) {
        TEST_EQ(find_edge(g, op[i], record) >= 0, i == 99);
    }
    for (int i = 0; i < g->edges; i++) {
        TEST_CHECK(g->edge[i].from != record);
    }
    TEST_EQ(a.records + a.waits + b.records + b.waits, 0);
    /* Eager calls elsewhere while it is captured, and after: always behind the event, always recorded. */
    operation(chain, &c);
    operation(chain, &c);
    TEST_EQ(c.waits, 2);
    TEST_EQ(c.records, 2);
    end(&a);
    end(&b);
    operation(chain, &c);
    TEST_EQ(c.waits, 3);
    graph_gone(g);
    operation(chain, &c);
    TEST_EQ(c.waits, 4);
    ccl_gpu_chain_destroy(chain);
    TEST_EQ(events_alive, 0);
}

static void two_captures_at_once(void)
{
    struct ccl_chain *chain = new_chain(), *other = new_chain();
    struct stream a = {.id = 31}, b = {.id = 32};
    struct graph *ga = begin(&a), *gb = begin(&b);
    intptr_t last_a = 0, last_b = 0;
    for (int i = 0; i < 6; i++) {
        intptr_t node_a = operation(chain, &a), node_b = operation(chain, &b);
        TEST_CHECK(i == 0 || (reaches(ga, last_a, node_a) && reaches(gb, last_b, node_b)));
        last_a = node_a;
        last_b = node_b;
    }
    TEST_CHECK(find_edge(ga, last_a, only(ga, RECORD)) >= 0);
    TEST_CHECK(find_edge(gb, last_b, only(gb, RECORD)) >= 0);
    only(ga, WAIT);
    only(gb, WAIT);
    operation(other, &a); /* its own wait and record */
    int waits = 0;
    for (int i = 0; i < ga->nodes; i++) {
        waits += ga->kind[i] == WAIT;
    }
    TEST_EQ(waits, 2);
    /* One graph goes before the communicators, one outlives them. */
    graph_gone(ga);
    a = (struct stream){.id = 31};
    struct graph *gc = begin(&a);
    operation(chain, &a);
    only(gc, WAIT);
    graph_gone(gc);
    ccl_gpu_chain_destroy(other);
    TEST_EQ(events_alive, 1);
    ccl_gpu_chain_destroy(chain);
    TEST_EQ(events_alive, 1); /* gb has nodes with it */
    graph_gone(gb);
    TEST_EQ(events_alive, 1); /* the callback calls nothing */
    ccl_gpu_chain_reap();
    TEST_EQ(events_alive, 0);
}

/* Each call of three captured operations fails in turn; failed ones are repeated by the user. */
static void failures(void)
{
    for (int n = 0, hit = 1; hit != 0; n++) {
        struct ccl_chain *chain = new_chain();
        struct stream a = {.id = 41}, b = {.id = 42};
        struct graph *g = begin(&a);
        intptr_t op[8];
        int ops = 0;
        kernel(&a);
        fork_to(&b, &a);
        fail_in = n;
        hit = 0;
        for (int i = 0; i < 4; i++) {
            struct stream *s = i % 2 == 0 ? &a : &b;
            if (ccl_gpu_chain_before(chain, handle(s)) != cclSuccess) {
                hit++;
                TEST_EQ(current, 7);
                continue;
            }
            op[ops++] = kernel(s);
            hit += ccl_gpu_chain_after(chain, handle(s)) != cclSuccess;
            TEST_EQ(current, 7);
        }
        TEST_EQ(hit, fail_in == -1 ? 1 : 0);
        fail_in = -1;
        op[ops] = operation(chain, &a);
        intptr_t wait = only(g, WAIT), record = only(g, RECORD);
        TEST_CHECK(find_edge(g, op[ops], record) >= 0);
        for (int i = 0; i < ops; i++) {
            /* chain_before and chain_after may both have failed in asking for the state: then that operation is unknown */
            TEST_CHECK(reaches(g, wait, op[i]));
            TEST_CHECK(reaches(g, op[i], op[ops]) || hit == 1);
        }
        graph_gone(g);
        ccl_gpu_chain_destroy(chain);
        TEST_EQ(events_alive, 0);
    }
}

static void refused(void)
{
    struct ccl_chain *chain = new_chain();
    struct stream a = {.id = 51, .status = 2};
    uint64_t id = 5;
    legacy.status = 906;
    TEST_EQ(ccl_gpu_chain_before(chain, NULL), cclInvalidUsage);
    TEST_CHECK(strstr(ccl_error_last(), "default stream") != NULL);
    TEST_EQ(ccl_gpu_chain_before(chain, handle(&a)), cclInvalidUsage);
    TEST_CHECK(strstr(ccl_error_last(), "invalid by an earlier error") != NULL);
    current = 3;
    TEST_EQ(ccl_gpu_capture_query(handle(&a), &id), cclInvalidUsage);
    TEST_EQ(id, 5);
    begin(&a);
    TEST_EQ(ccl_gpu_capture_query(handle(&a), &id), cclSuccess);
    TEST_EQ(id, a.capture);
    free(a.graph);
    end(&a);
    TEST_EQ(ccl_gpu_capture_query(handle(&a), &id), cclSuccess);
    TEST_EQ(id, 0);
    current = 7;
    legacy.status = 0;
    event_state = 600;
    TEST_EQ(ccl_gpu_chain_query(chain), cclInProgress);
    TEST_EQ(mode, 0);
    event_state = 719;
    TEST_EQ(ccl_gpu_chain_query(chain), cclUnhandledDeviceError);
    TEST_EQ(mode, 0);
    event_state = 0;
    TEST_EQ(ccl_gpu_chain_query(chain), cclSuccess);
    TEST_EQ(ccl_gpu_chain_sync(chain), cclSuccess);
    TEST_EQ(mode, 0);
    TEST_EQ(current, 7);
    ccl_gpu_chain_destroy(chain);
    ccl_gpu_chain_destroy(NULL);
}

int main(void)
{
    fill_table();
    eager();
    captured();
    two_captures_at_once();
    failures();
    refused();
    TEST_EQ(events_alive, 0);
    return test_result();
}
