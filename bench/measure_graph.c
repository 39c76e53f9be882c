/* SPDX-License-Identifier: MIT
 *
 * Measuring calls captured into a graph: what the device and the kernels cost without the host. A sample is the time from the first launch
 * to the end of the stream, over all calls in it; the ranks start it together. Data is checked before anything is timed, through an
 * ordinary call and through the graph. */
#include <stdlib.h>

#include "bench.h"

#define CHECK_EAGER_BYTES ((size_t)64 << 20) /* larger receive buffers are checked through the graph only */

struct shape {
    int calls, replays; /* of a graph; of a sample */
};

/* Long enough that launching and synchronising do not count, short enough for many configurations. */
static struct shape shape_of(const struct bench_options *options, size_t part_bytes)
{
    struct shape shape = part_bytes <= (64 << 10)  ? (struct shape){100, 5}
                         : part_bytes <= (1 << 20) ? (struct shape){40, 3}
                                                   : (struct shape){5, 2};

    if (options->batch < shape.calls) {
        shape.calls = (int)options->batch;
    }
    return shape;
}

static bool capture(struct bench_session *s, const struct bench_side *side, int calls, cclGraph_t *graph)
{
    cclResult_t rc = cclGraphBegin(s->stream, 1);

    if (rc == cclSuccess) {
        for (int c = 0; c < calls && rc == cclSuccess; c++) {
            rc = side->issue(side->ctx);
        }
        cclResult_t ended = cclGraphEnd(s->stream, graph);
        rc = rc == cclSuccess ? ended : rc;
    }
    return bench_agree(s, rc, "capture");
}

/* One sample; *us gets this rank's time in all. A rank that fails aborts the communicator at once: its peers wait for it on the device. */
static bool run_sample(struct bench_session *s, cclGraph_t graph, int replays, double *us)
{
    cclResult_t rc = cclSuccess;

    bench_quiet_barrier(s->mpi);
    MPI_Barrier(s->mpi);
    double start = bench_now_us();
    for (int r = 0; r < replays && rc == cclSuccess; r++) {
        rc = cclGraphLaunch(graph, s->stream);
    }
    if (rc == cclSuccess) {
        rc = cclStreamSynchronize(s->stream);
    }
    *us = bench_now_us() - start;
    if (rc != cclSuccess) {
        cclCommAbort(s->comm);
        s->comm = NULL;
    }
    return bench_agree(s, rc, "graph");
}

static bool run_samples(struct bench_session *s, const struct bench_options *options, cclGraph_t graph, struct shape shape,
                        struct bench_result *result)
{
    int rounds = (int)options->rounds;
    double *slowest = calloc((size_t)rounds, sizeof(double)), *skew = calloc((size_t)rounds, sizeof(double)), us = 0;
    bool good = bench_min(s, slowest != NULL && skew != NULL) == 1 && run_sample(s, graph, 1, &us);

    if (good) { /* a launch is longer than expected where ranks take turns on the device */
        double fit = options->max_time_s * 1e6 / rounds / bench_max(s, us);
        shape.replays = fit >= shape.replays ? shape.replays : fit < 1 ? 1 : (int)fit;
    }
    for (int r = 0; good && r < rounds; r++) {
        good = run_sample(s, graph, shape.replays, &us);
        us /= (double)shape.calls * shape.replays;
        slowest[r] = bench_max(s, us);
        skew[r] = slowest[r] - bench_min(s, us);
    }
    if (good) {
        bench_summarise(slowest, skew, rounds, result);
    }
    free(slowest);
    free(skew);
    return good;
}

bool bench_measure_graph(struct bench_session *s, const struct bench_options *options, struct bench_buffers *buffers,
                         const struct bench_side *ours, struct bench_result *result)
{
    struct shape shape = shape_of(options, buffers->config->part_bytes);
    bool small = buffers->recv_bytes <= CHECK_EAGER_BYTES;
    cclGraph_t graph = NULL;
    double us;

    *result = (struct bench_result){.errors = -1};
    bool good = bench_fill(s, options, buffers) && bench_first_call(s, ours) && (!small || bench_check(s, buffers, result)) &&
                bench_fill(s, options, buffers) && capture(s, ours, shape.calls, &graph) && run_sample(s, graph, 1, &us) &&
                bench_check(s, buffers, result) && run_samples(s, options, graph, shape, result) &&
                (!small || bench_check(s, buffers, result));
    cclGraphDestroy(graph);
    if (!good) {
        result->time_us = 0;
    }
    return good;
}
