/* SPDX-License-Identifier: MIT
 *
 * From axes to configurations: every combination, one after another. All memory of a configuration is given back before
 * the next. A configuration that fails is a row without numbers; the communicator is replaced when it did not survive. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"

enum axis { AXIS_SHAPE, AXIS_DTYPE, AXIS_BUFFERS, AXIS_VARIANT, AXIS_SMS, AXIS_TILE, AXIS_PEERS, AXIS_MODE, AXES };

struct sweep {
    const struct bench_op *op;
    const struct bench_options *options;
    int lengths[AXES];
    int total, done, worlds; /* combinations of one number of ranks; finished; numbers of ranks */
    int status;
};

static void sweep_init(struct sweep *w, const struct bench_op *op, const struct bench_options *options)
{
    *w = (struct sweep){
        .op = op, .options = options, .total = 1, .worlds = options->ranks.count > 0 ? options->ranks.count : 1};
    w->lengths[AXIS_SHAPE] = options->rows.count > 0 ? options->rows.count * options->columns.count
                                                     : options->bytes.count;
    w->lengths[AXIS_DTYPE] = options->dtype.count;
    w->lengths[AXIS_BUFFERS] = options->buffers.count;
    w->lengths[AXIS_VARIANT] = options->variant.count;
    w->lengths[AXIS_SMS] = options->comm_sms.count;
    w->lengths[AXIS_TILE] = options->tile.count;
    w->lengths[AXIS_PEERS] = options->peers_per_wait.count;
    w->lengths[AXIS_MODE] = options->mode.count;
    for (int a = 0; a < AXES; a++) {
        w->total *= w->lengths[a];
    }
}

/* Combination number index; the last axis turns fastest. */
static void make_config(const struct sweep *w, int index, int ranks, struct bench_config *c)
{
    const struct bench_options *o = w->options;
    int at[AXES];

    for (int a = AXES - 1; a >= 0; a--) {
        at[a] = index % w->lengths[a];
        index /= w->lengths[a];
    }
    *c = (struct bench_config){.op = w->op, .in_place = o->in_place, .two_d = o->rows.count > 0, .m = 1};
    c->dtype = (int)o->dtype.values[at[AXIS_DTYPE]];
    if (c->two_d) {
        c->m = (size_t)o->rows.values[at[AXIS_SHAPE] / o->columns.count];
        c->n = (size_t)o->columns.values[at[AXIS_SHAPE] % o->columns.count];
    } else {
        c->n = (size_t)o->bytes.values[at[AXIS_SHAPE]] / bench_dtype_bytes(c->dtype);
    }
    c->ld = o->leading > 0 ? (size_t)o->leading : c->n;
    c->part_bytes = c->m * c->n * bench_dtype_bytes(c->dtype);
    c->buffers = (int)o->buffers.values[at[AXIS_BUFFERS]];
    c->variant = (int)o->variant.values[at[AXIS_VARIANT]];
    c->comm_sms = (int)o->comm_sms.values[at[AXIS_SMS]];
    c->peers_per_wait = (int)o->peers_per_wait.values[at[AXIS_PEERS]];
    if (c->peers_per_wait == BENCH_PEERS_ALL) {
        c->peers_per_wait = ranks;
    }
    long long tile = o->tile.values[at[AXIS_TILE]];
    c->tile_m = tile == BENCH_AUTO ? BENCH_AUTO : (int)(tile >> 32);
    c->tile_n = tile == BENCH_AUTO ? BENCH_AUTO : (int)(tile & 0xffffffff);
    c->mode = (int)o->mode.values[at[AXIS_MODE]];
}

static void describe(const struct bench_config *c, char *text, size_t size)
{
    snprintf(text, size, "%zu x %zu %s (%zu bytes) %s %s %s", c->m, c->n, bench_name_of(bench_dtypes, c->dtype),
             c->part_bytes, bench_name_of(bench_kinds, c->buffers), bench_name_of(bench_variants, c->variant),
             bench_name_of(bench_modes, c->mode));
}

static int unset_or(int value)
{
    return value == BENCH_AUTO ? CCL_UNSET : value;
}

static void fill_call(struct bench_call *call)
{
    const struct bench_config *c = call->config;
    const cclCallConfig_t fresh = CCL_CALL_CONFIG_INITIALIZER;

    call->call = fresh;
    call->call.comm_sms = unset_or(c->comm_sms);
    call->call.tile_m = unset_or(c->tile_m);
    call->call.tile_n = unset_or(c->tile_n);
    call->call.peers_per_wait = unset_or(c->peers_per_wait);
    call->call.variant = c->variant == cclVariantAuto ? CCL_UNSET : c->variant;
    call->with_config = memcmp(&call->call, &fresh, sizeof(fresh)) != 0;
}

static double available_bytes(void)
{
    char line[128];
    double kilobytes = 1e15;
    FILE *file = fopen("/proc/meminfo", "r");

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "MemAvailable: %lf", &kilobytes) == 1) {
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return kilobytes * 1024;
}

/* A reason not to run this configuration at all, or NULL. Collective: the memory is rank 0's view. */
static const char *reason_to_skip(struct bench_session *s, const struct bench_config *c, bool with_baseline)
{
    static char text[160];
    double have = bench_min(s, available_bytes()), need = bench_buffers_need(c, s->ranks, with_baseline);

    if (c->op->input != NULL && (c->in_place || c->two_d || c->ld != c->n)) {
        snprintf(text, sizeof(text), "%s is measured with plain rows, not in place", c->op->name);
        return text;
    }
    if (c->mode == BENCH_GRAPH && bench_on_host()) {
        snprintf(text, sizeof(text), "mode graph: backend %s has no graphs", cclBackendName());
        return text;
    }
    if (bench_on_host() && need > 0.9 * have) { /* a device that has too little refuses the buffers itself */
        snprintf(text, sizeof(text), "it needs %.1f GB, %.1f GB are available", need * 1e-9, have * 1e-9);
        return text;
    }
    return NULL;
}

static cclResult_t wait_stream(void *ctx)
{
    return cclStreamSynchronize(((struct bench_call *)ctx)->session->stream);
}

static void run_config(struct sweep *w, struct bench_session *s, const struct bench_config *c)
{
    struct bench_buffers buffers;
    struct bench_call call = {.buffers = &buffers, .session = s, .config = c};
    struct bench_side ours = {w->op->name, w->op->issue, wait_stream, &call, false};
    struct bench_side theirs = {"baseline mpi", w->op->baseline, NULL, &call, false};
    struct bench_row row = {.op = w->op->name,
                            .ranks = s->ranks,
                            .has_shape = true,
                            .config = *c,
                            .effective = CCL_CALL_CONFIG_INITIALIZER,
                            .result.errors = -1,
                            .alg_factor = w->op->alg_factor != NULL ? w->op->alg_factor(s->ranks) : s->ranks,
                            .bus_factor = w->op->bus_factor(s->ranks),
                            .traffic_bytes = w->op->traffic_bytes(s->ranks, (double)c->part_bytes)};
    bool graph = c->mode == BENCH_GRAPH, with_baseline = w->options->baseline == BENCH_BASELINE_MPI && !graph;
    bool with_nccl = w->options->baseline == BENCH_BASELINE_NCCL && bench_nccl_can(c);

    if (with_baseline && c->part_bytes > INT_MAX) {
        bench_note(s, "baseline mpi: %zu bytes are more than MPI's int counts, left out", c->part_bytes);
        with_baseline = false;
    }
    with_baseline = with_baseline && (w->op->has_baseline == NULL || w->op->has_baseline(c));
    row.baseline = with_baseline ? "mpi" : with_nccl ? bench_nccl_name() : NULL;
    if (with_nccl) {
        theirs = (struct bench_side){"baseline nccl", bench_nccl_issue, wait_stream, &call, true};
    }
    const struct bench_side *other = with_baseline || with_nccl ? &theirs : NULL;
    double limit = bench_limit_gbps(s, c->part_bytes);
    fill_call(&call);
    bool good = bench_buffers_create(&buffers, s, c, with_baseline);
    if (good) {
        buffers.corrupt = w->options->corrupt;
        good = graph ? bench_measure_graph(s, w->options, &buffers, &ours, other, &row.result)
                     : bench_measure(s, w->options, &buffers, &ours, other, &row.result);
        if (!good || w->op != &bench_op_all_gather || cclGetEffectiveConfig(s->comm, &row.effective) != cclSuccess) {
            row.effective = (cclCallConfig_t)CCL_CALL_CONFIG_INITIALIZER;
        }
        row.result.limit_gbps = limit;
        /* Whether NCCL's communicator survived a failure is not known. One that was captured keeps the buffers of the graph registered for a while after the
         * graph is gone, and would write to what lay there when the next buffers lie at the same place. */
        if (!good || graph) {
            bench_nccl_close(s, !good);
        }
        bool healthy = good || bench_session_check(s);
        bench_buffers_destroy(&buffers, s);
        if (!healthy) {
            bench_note(s, "the communicator did not survive, a new one is made");
        }
    }
    if (!good) {
        char text[160];
        describe(c, text, sizeof(text));
        bench_note(s, "failed: %s", text);
    }
    if (!good || row.result.errors != 0) {
        w->status = 1;
    }
    if (s->rank == 0) {
        bench_report_row(&row);
    }
}

static void run_ranks(struct sweep *w, struct bench_session *s)
{
    bool with_baseline = w->options->baseline == BENCH_BASELINE_MPI, with_nccl = w->options->baseline == BENCH_BASELINE_NCCL;

    for (int i = 0; i < w->total; i++, w->done++) {
        struct bench_config config;
        char text[160];
        make_config(w, i, s->ranks, &config);
        describe(&config, text, sizeof(text));
        if (s->rank == 0) {
            bench_report_progress(w->options, w->done, w->total * w->worlds, text);
        }
        const char *reason = reason_to_skip(s, &config, with_baseline);
        if (reason != NULL) {
            bench_note(s, "skipped: %s: %s", text, reason);
            continue;
        }
        if (s->comm == NULL && !bench_session_open(s)) {
            bench_note(s, "no communicator of %d ranks, the rest of its rows is left out", s->ranks);
            w->status = 1;
            break;
        }
        if (with_nccl && !bench_nccl_open(s, w->options->nccl != NULL ? w->options->nccl : "libnccl.so.2")) {
            bench_note(s, "the rest of the rows of %d ranks is left out", s->ranks);
            w->status = 1;
            break;
        }
        run_config(w, s, &config);
    }
    bench_nccl_close(s, false);
    if (s->comm != NULL) {
        bench_session_close(s);
    }
}

int bench_sweep(const struct bench_op *op, const struct bench_options *options)
{
    struct sweep w;
    int world, rank;

    MPI_Comm_size(MPI_COMM_WORLD, &world);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    sweep_init(&w, op, options);
    for (int i = 0; i < w.worlds; i++) {
        struct bench_session s = {.rank = rank, .ranks = world};
        if (options->ranks.count > 0 && options->ranks.values[i] != BENCH_AUTO) {
            s.ranks = (int)options->ranks.values[i];
        }
        MPI_Comm_split(MPI_COMM_WORLD, rank < s.ranks ? 0 : MPI_UNDEFINED, rank, &s.mpi);
        if (s.mpi != MPI_COMM_NULL) {
            run_ranks(&w, &s);
            MPI_Comm_free(&s.mpi);
        }
        bench_quiet_barrier(MPI_COMM_WORLD); /* ranks left out sleep here */
    }
    MPI_Allreduce(MPI_IN_PLACE, &w.status, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return w.status;
}
