/* SPDX-License-Identifier: MIT
 *
 * init: how long creating a communicator takes, from the unique id to the return of cclCommInitRank, MPI's own time not
 * counted. The row has no sizes; time_us and its companions are as for a collective. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

/* One creation; *us gets this rank's time. */
static cclResult_t init_once(struct bench_session *s, double *us)
{
    cclUniqueId id;
    MPI_Request request;
    cclResult_t rc = cclSuccess;
    double spent = 0;

    memset(&id, 0, sizeof(id));
    bench_quiet_barrier(s->mpi);
    if (s->rank == 0) {
        double start = bench_now_us();
        rc = cclGetUniqueId(&id);
        spent = bench_now_us() - start;
    }
    /* The library's failure must not leave the others in the broadcast: they get an id that no listener answers. */
    if (!bench_agree(s, rc, "init: unique id")) {
        return rc == cclSuccess ? cclRemoteError : rc;
    }
    MPI_Ibcast(&id, sizeof(id), MPI_BYTE, 0, s->mpi, &request);
    bench_wait(&request);
    double start = bench_now_us();
    rc = cclCommInitRank(&s->comm, s->ranks, id, s->rank);
    *us = spent + bench_now_us() - start;
    bool good = bench_agree(s, rc, "init: communicator");
    cclCommDestroy(s->comm);
    s->comm = NULL;
    return good ? cclSuccess : rc == cclSuccess ? cclRemoteError : rc;
}

static bool measure_init(struct bench_session *s, const struct bench_options *options, struct bench_result *result)
{
    int capacity = (int)options->iters, count = 0;
    double *slowest = calloc((size_t)capacity, sizeof(double)), *skew = calloc((size_t)capacity, sizeof(double));
    bool good = bench_min(s, slowest != NULL && skew != NULL) == 1;

    bool warm = false; /* the first one is not counted: it also starts what the process keeps */
    for (double spent = 0; good && count < capacity && (count < 3 || spent < options->max_time_s * 1e6);) {
        double us = 0;
        good = init_once(s, &us) == cclSuccess;
        double longest = bench_max(s, us), shortest = bench_min(s, us);
        if (good && !warm) {
            bench_note(s, "init of %d ranks: the first takes %.1f ms, with what the process keeps", s->ranks, longest * 1e-3);
        }
        if (good && warm) {
            slowest[count] = longest;
            skew[count++] = longest - shortest;
        }
        warm = true;
        spent += longest;
    }
    if (good) {
        bench_summarise(slowest, skew, count, result);
    }
    free(slowest);
    free(skew);
    return good;
}

static int run(const struct bench_options *options)
{
    int world, status = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &world);

    for (int i = 0; i < (options->ranks.count > 0 ? options->ranks.count : 1); i++) {
        struct bench_session s = {0};
        MPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
        s.ranks = options->ranks.count > 0 && options->ranks.values[i] > 0 ? (int)options->ranks.values[i] : world;
        MPI_Comm_split(MPI_COMM_WORLD, s.rank < s.ranks ? 0 : MPI_UNDEFINED, s.rank, &s.mpi);
        if (s.mpi != MPI_COMM_NULL) {
            struct bench_row row = {.op = bench_op_init.name,
                                    .ranks = s.ranks,
                                    .result.errors = -1,
                                    .effective = CCL_CALL_CONFIG_INITIALIZER};
            if (!measure_init(&s, options, &row.result)) {
                status = 1;
            }
            if (s.rank == 0) {
                bench_report_row(&row);
            }
            MPI_Comm_free(&s.mpi);
        }
        bench_quiet_barrier(MPI_COMM_WORLD);
    }
    MPI_Allreduce(MPI_IN_PLACE, &status, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return status;
}

const struct bench_op bench_op_init = {
    .name = "init",
    .summary = "creating a communicator, --iters times (takes --ranks, --iters, --max-time and the output options)",
    .run = run,
};
