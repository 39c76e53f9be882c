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

/* One side's graph and its samples, the slowest rank's and how far the fastest was ahead. */
struct recorded {
    cclGraph_t graph;
    int replays;
    double *slowest, *skew;
};

/* The graph of one side, checked: its first launch fills the receive buffer. */
static bool record(struct bench_session *s, const struct bench_options *options, struct bench_buffers *buffers, const struct bench_side *side,
                   struct shape shape, struct recorded *r)
{
    double us = 0;

    r->slowest = calloc((size_t)options->rounds, sizeof(double));
    r->skew = calloc((size_t)options->rounds, sizeof(double));
    if (bench_min(s, r->slowest != NULL && r->skew != NULL) == 0 || !bench_fill(s, options, buffers) ||
        !capture(s, side, shape.calls, &r->graph) || !run_sample(s, r->graph, 1, &us)) {
        return false;
    }
    /* A launch is longer than expected where ranks take turns on the device. */
    double fit = options->max_time_s * 1e6 / (double)options->rounds / bench_max(s, us);
    r->replays = fit >= shape.replays ? shape.replays : fit < 1 ? 1 : (int)fit;
    return true;
}

static bool sample(struct bench_session *s, struct recorded *r, int calls, int round)
{
    double us;

    if (!run_sample(s, r->graph, r->replays, &us)) {
        return false;
    }
    us /= (double)calls * r->replays;
    r->slowest[round] = bench_max(s, us);
    r->skew[round] = r->slowest[round] - bench_min(s, us);
    return true;
}

static void forget(struct recorded *r)
{
    cclGraphDestroy(r->graph);
    free(r->slowest);
    free(r->skew);
}

bool bench_measure_graph(struct bench_session *s, const struct bench_options *options, struct bench_buffers *buffers,
                         const struct bench_side *ours, const struct bench_side *baseline, struct bench_result *result)
{
    struct shape shape = shape_of(options, buffers->config->part_bytes);
    const int rounds = (int)options->rounds;
    bool small = buffers->recv_bytes <= CHECK_EAGER_BYTES;
    struct recorded mine = {0}, theirs = {0};

    *result = (struct bench_result){.errors = -1};
    bool good = bench_fill(s, options, buffers) && bench_first_call(s, ours) && (!small || bench_check(s, buffers, result)) &&
                (baseline == NULL || (bench_first_call(s, baseline) && record(s, options, buffers, baseline, shape, &theirs) &&
                                      bench_check_theirs(s, buffers, baseline->name))) &&
                record(s, options, buffers, ours, shape, &mine) && bench_check(s, buffers, result);
    /* The first sample of each side settles the clocks and is not kept. */
    for (int r = -1; good && r < rounds; r++) {
        int round = r < 0 ? 0 : r;
        good = (baseline == NULL || sample(s, &theirs, shape.calls, round)) && sample(s, &mine, shape.calls, round);
    }
    good = good && (!small || bench_check(s, buffers, result));
    if (good) {
        bench_summarise(mine.slowest, mine.skew, rounds, result);
        result->baseline_us = baseline == NULL ? 0 : bench_median(theirs.slowest, rounds);
    } else {
        result->time_us = 0;
    }
    forget(&mine);
    forget(&theirs);
    return good;
}
