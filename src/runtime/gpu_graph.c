/* SPDX-License-Identifier: MIT
 *
 * Graphs of the portable helpers: what was captured, ready to be launched. The captured form is kept beside the executable one: in every
 * version of both runtimes it holds the objects that were tied to it. */
#include <stdlib.h>

#include "runtime/gpu_internal.h"

struct cclGraph {
    void *graph, *exec;
};

cclResult_t ccl_gpu_graph_begin(struct cclStream *stream, bool thread_local_mode)
{
    ccl_gpu_chain_reap();
    CCL_CHECK(stream != NULL, cclInvalidUsage, CCL_RT, "the default stream cannot be captured");
    CCL_GPU_TRY(capture_begin, stream, thread_local_mode ? CCL_GPU_CAPTURE_THREAD_LOCAL : CCL_GPU_CAPTURE_GLOBAL);
    return cclSuccess;
}

cclResult_t ccl_gpu_graph_end(struct cclStream *stream, struct cclGraph **out)
{
    struct ccl_gpu_guard guard;
    cclResult_t rc = cclSuccess;
    struct cclGraph *graph = calloc(1, sizeof(*graph));
    void *captured = NULL;
    /* Ended in any case, else the stream could not be used any more. */
    int error = ccl_gpu.capture_end(stream, &captured);
    if (error != 0) {
        free(graph);
        return ccl_gpu_failed(error, "capture_end");
    }
    if (graph == NULL) {
        rc = ccl_error_set(cclSystemError, CCL_RT, "out of memory for a graph, %zu bytes", sizeof(*graph));
        goto err_destroy;
    }
    CCL_TRY_GOTO(ccl_gpu_enter_setup(&guard, NULL), err_destroy);
    error = ccl_gpu.graph_instantiate(&graph->exec, captured, 0);
    ccl_gpu_leave(&guard);
    if (error != 0) {
        rc = ccl_gpu_failed(error, "graph_instantiate");
        goto err_destroy;
    }
    graph->graph = captured;
    *out = graph;
    return cclSuccess;
err_destroy:
    ccl_gpu.graph_destroy(captured);
    free(graph);
    return rc;
}

cclResult_t ccl_gpu_graph_launch(struct cclGraph *graph, struct cclStream *stream)
{
    CCL_GPU_TRY(graph_launch, graph->exec, stream);
    return cclSuccess;
}

cclResult_t ccl_gpu_graph_destroy(struct cclGraph *graph)
{
    if (graph == NULL) {
        return cclSuccess;
    }
    int exec_error = ccl_gpu.graph_exec_destroy(graph->exec), graph_error = ccl_gpu.graph_destroy(graph->graph);
    free(graph);
    ccl_gpu_chain_reap();
    if (exec_error != 0) {
        return ccl_gpu_failed(exec_error, "graph_exec_destroy");
    }
    return graph_error != 0 ? ccl_gpu_failed(graph_error, "graph_destroy") : cclSuccess;
}
