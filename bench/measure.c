/* SPDX-License-Identifier: MIT
 *
 * Measuring one configuration. Both sides (libccl and the baseline) go through the same loops, in alternating rounds. A round is a
 * block of iterations: the ranks start it together (barrier), the first iteration settles what the barrier stirred up and is not
 * counted, and nothing but the calls under test runs until the block ends. Each rank keeps its own durations; maximum and minimum
 * over ranks are taken afterwards. Ranks that are done early sleep until the others are. */
#include <stdlib.h>

#include "bench.h"

#define MAX_ITERATIONS 200000 /* of a side, over all rounds */
#define PROBES 3
#define WARMUP_SHARE 0.2 /* of --max-time */
#define ENQUEUE_SHARE 0.1
#define ENQUEUE_LOOPS 5
#define SMALL_BYTES ((size_t)8 << 20) /* receive buffers up to here get fresh data in every round */

/* One side with its plan and its samples. */
struct trial {
    const struct bench_side *side;
    bool ours;
    int calls, iterations;  /* of an iteration; of a round */
    double iteration_us;    /* estimate */
    double *slowest, *skew; /* per iteration, all rounds; rank 0 */
    double *medians;        /* per round */
    double *enqueue;        /* per loop of calls, this rank */
    int count, rounds, enqueue_count;
};

/* One block: iterations of calls, each followed by one wait. us (may be NULL) gets the duration of each, enqueue_us that of its calls
 * alone. A rank that fails aborts the communicator at once: its peers wait for it inside the library. */
static bool run_block(struct bench_session *s, const struct trial *t, int calls, int iterations, double *us,
                      double *enqueue_us)
{
    const struct bench_side *side = t->side;
    cclResult_t rc = cclSuccess;

    bench_quiet_barrier(s->mpi);
    MPI_Barrier(s->mpi);
    for (int i = -1; i < iterations && rc == cclSuccess; i++) {
        double start = bench_now_us();
        for (int c = 0; c < calls && rc == cclSuccess; c++) {
            rc = side->issue(side->ctx);
        }
        double issued = enqueue_us != NULL ? bench_now_us() : 0;
        if (side->wait != NULL && rc == cclSuccess) {
            rc = side->wait(side->ctx);
        }
        double end = bench_now_us();
        if (i >= 0 && us != NULL) {
            us[i] = (end - start) / calls;
        }
        if (i >= 0 && enqueue_us != NULL) {
            enqueue_us[i] = (issued - start) / calls;
        }
    }
    if (rc != cclSuccess && t->ours) {
        cclCommAbort(s->comm);
        s->comm = NULL;
    }
    return bench_agree(s, rc, side->name);
}

bool bench_first_call(struct bench_session *s, const struct bench_side *side)
{
    cclResult_t rc = side->issue(side->ctx);
    if (!bench_agree(s, rc, side->name)) {
        if (bench_max(s, rc == cclSuccess) > 0) { /* some ranks have enqueued and would wait for ever */
            cclCommAbort(s->comm);
            s->comm = NULL;
        }
        return false;
    }
    return bench_agree(s, side->wait != NULL ? side->wait(side->ctx) : cclSuccess, side->name);
}

static double clamp(double value, double low, double high)
{
    return value < low ? low : value > high ? high : value;
}

/* Decide calls and iterations from a few probes and the warm-up. All ranks decide alike, on agreed times. */
static bool plan(struct bench_session *s, const struct bench_options *options, const struct bench_buffers *b,
                 struct trial *t)
{
    double limit_us = options->max_time_s * 1e6, call_us = 0;

    for (int i = 0; i < PROBES; i++) {
        double us = 0;
        if (!run_block(s, t, 1, 1, &us, NULL)) {
            return false;
        }
        us = bench_max(s, us);
        call_us = i == 0 || us < call_us ? us : call_us;
    }
    call_us = call_us < 0.01 ? 0.01 : call_us;
    t->calls = 1;
    if (b->config->mode == BENCH_BATCH) {
        t->calls = (int)clamp(limit_us / (double)options->rounds / call_us, 1, (double)options->batch);
        if (t->calls < options->batch) {
            bench_note(s, "%s at %zu bytes: batches of %d instead of %lld calls, for --max-time", t->side->name,
                       b->config->part_bytes, t->calls, options->batch);
        }
    }
    t->iteration_us = call_us * t->calls;
    if (options->warmup > 0) {
        int warmup = (int)clamp(WARMUP_SHARE * limit_us / t->iteration_us, 1, (double)options->warmup);
        double start = bench_now_us();
        if (!run_block(s, t, t->calls, warmup, NULL, NULL)) {
            return false;
        }
        t->iteration_us = clamp(bench_max(s, bench_now_us() - start) / (warmup + 1), 0.01, t->iteration_us);
    }
    double least = options->min_time_s * 1e6 / t->iteration_us, most = limit_us / t->iteration_us;
    double total = clamp(least > (double)options->iters ? least : (double)options->iters, 1, most);
    double rounds = (double)options->rounds;
    t->iterations = (int)clamp((total + rounds - 1) / rounds, 1, MAX_ITERATIONS / rounds);
    return true;
}

static bool trial_create(struct bench_session *s, const struct bench_options *options, const struct bench_buffers *b,
                         const struct bench_side *side, bool ours, struct trial *t)
{
    *t = (struct trial){.side = side, .ours = ours};
    if (!plan(s, options, b, t)) {
        return false;
    }
    size_t total = (size_t)t->iterations * (size_t)options->rounds;
    t->slowest = calloc(total, sizeof(double));
    t->skew = calloc(total, sizeof(double));
    t->medians = calloc((size_t)options->rounds, sizeof(double));
    t->enqueue = calloc(total + ENQUEUE_LOOPS * (size_t)options->rounds, sizeof(double));
    bool good = t->slowest != NULL && t->skew != NULL && t->medians != NULL && t->enqueue != NULL;
    if (bench_min(s, good) == 0) {
        bench_note(s, "no memory for %zu samples", total);
        return false;
    }
    return true;
}

static void trial_destroy(struct trial *t)
{
    free(t->slowest);
    free(t->skew);
    free(t->medians);
    free(t->enqueue);
    *t = (struct trial){0};
}

static bool reduce_samples(struct bench_session *s, struct trial *t, const double *us)
{
    int n = t->iterations;
    double *high = t->slowest + t->count, *spread = t->skew + t->count;
    double *sorted = malloc((size_t)n * sizeof(double));
    MPI_Request request;

    MPI_Ireduce(us, high, n, MPI_DOUBLE, MPI_MAX, 0, s->mpi, &request);
    bench_wait(&request);
    MPI_Ireduce(us, spread, n, MPI_DOUBLE, MPI_MIN, 0, s->mpi, &request);
    bench_wait(&request);
    if (sorted == NULL) {
        return false;
    }
    for (int i = 0; i < n; i++) {
        spread[i] = high[i] - spread[i];
        sorted[i] = high[i];
    }
    t->medians[t->rounds++] = bench_median(sorted, n);
    t->count += n;
    free(sorted);
    return true;
}

static bool run_round(struct bench_session *s, struct trial *t)
{
    double *us = malloc((size_t)t->iterations * sizeof(double));
    bool batch = t->ours && t->calls > 1;
    bool good = bench_min(s, us != NULL) == 1 &&
                run_block(s, t, t->calls, t->iterations, us, batch ? t->enqueue + t->enqueue_count : NULL);

    if (good && batch) {
        t->enqueue_count += t->iterations;
    }
    good = good && bench_min(s, reduce_samples(s, t, us)) == 1;
    free(us);
    return good;
}

/* With a wait after every call the call is too short for the clock: time it in loops of its own. */
static bool run_enqueue_loops(struct bench_session *s, const struct bench_options *options, struct trial *t)
{
    double share_us = ENQUEUE_SHARE * options->max_time_s * 1e6 / (double)options->rounds / ENQUEUE_LOOPS;
    int calls = (int)clamp(share_us / (t->iteration_us / t->calls), 1, (double)options->batch);
    int loops = calls < options->batch ? 1 : ENQUEUE_LOOPS;

    if (!run_block(s, t, calls, loops, NULL, t->enqueue + t->enqueue_count)) {
        return false;
    }
    t->enqueue_count += loops;
    return true;
}

bool bench_check(struct bench_session *s, struct bench_buffers *b, struct bench_result *result)
{
    long long wrong = 0, total = 0;
    MPI_Request request;

    if (!bench_agree(s, bench_buffers_check(b, s, &wrong), "check")) {
        return false;
    }
    MPI_Iallreduce(&wrong, &total, 1, MPI_LONG_LONG, MPI_SUM, s->mpi, &request);
    bench_wait(&request);
    result->errors = (result->errors < 0 ? 0 : result->errors) + total;
    if (bench_max(s, (double)bench_buffers_check_baseline(b)) > 0) {
        bench_note(s, "the baseline's receive buffer is wrong");
        return false;
    }
    return true;
}

bool bench_check_theirs(struct bench_session *s, struct bench_buffers *b, const char *name)
{
    struct bench_result theirs = {.errors = -1};

    if (b->corrupt) { /* shown with libccl's data already */
        return true;
    }
    if (!bench_check(s, b, &theirs)) {
        return false;
    }
    if (theirs.errors > 0) {
        bench_note(s, "%s: %lld wrong bytes", name, theirs.errors);
    }
    return theirs.errors == 0;
}

bool bench_fill(struct bench_session *s, const struct bench_options *options, struct bench_buffers *b)
{
    /* Equal on all ranks of the session, and different for every fill of the run. */
    uint64_t number = ++s->fills + ((uint64_t)s->ranks << 40);
    return bench_agree(s, bench_buffers_fill(b, s, bench_mix((uint64_t)options->seed ^ bench_mix(number))), "fill");
}

static bool run_rounds(struct bench_session *s, const struct bench_options *options, struct bench_buffers *b,
                       struct trial *ours, struct trial *theirs, struct bench_result *result)
{
    bool small = b->recv_bytes <= SMALL_BYTES;
    int rounds = (int)options->rounds;

    for (int r = 0; r < rounds; r++) {
        bool last = r == rounds - 1, fresh = small || last;
        bool shared = theirs->side != NULL && theirs->side->same_buffers;
        if (fresh && !bench_fill(s, options, b)) {
            return false;
        }
        if (!run_round(s, ours) || (ours->calls == 1 && !run_enqueue_loops(s, options, ours)) ||
            (theirs->side != NULL && !shared && !run_round(s, theirs))) {
            return false;
        }
        /* Large buffers are checked when their data is about to change. */
        if ((fresh || r == rounds - 2) && !bench_check(s, b, result)) {
            return false;
        }
        if (shared && ((fresh && !bench_fill(s, options, b)) || !run_round(s, theirs) ||
                       (fresh && !bench_check_theirs(s, b, theirs->side->name)))) {
            return false;
        }
    }
    return true;
}

bool bench_measure(struct bench_session *s, const struct bench_options *options, struct bench_buffers *buffers,
                   const struct bench_side *ours, const struct bench_side *baseline, struct bench_result *result)
{
    struct trial mine = {0}, theirs = {0};

    *result = (struct bench_result){.errors = -1};
    bool good = bench_fill(s, options, buffers) && bench_first_call(s, ours) &&
                trial_create(s, options, buffers, ours, true, &mine) &&
                (baseline == NULL || trial_create(s, options, buffers, baseline, false, &theirs)) &&
                run_rounds(s, options, buffers, &mine, &theirs, result);
    if (good) {
        result->host_us = bench_max(s, bench_median(mine.enqueue, mine.enqueue_count));
        bench_summarise(mine.slowest, mine.skew, mine.count, result);
        result->time_us = bench_median(mine.medians, mine.rounds);
        result->baseline_us = baseline == NULL ? 0 : bench_median(theirs.medians, theirs.rounds);
    }
    trial_destroy(&mine);
    trial_destroy(&theirs);
    return good;
}
