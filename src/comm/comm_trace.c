/* SPDX-License-Identifier: MIT
 *
 * The trace of a communicator: memory for the records of its kernels, the device's clock against the host's, and the file. */
#include "comm/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/trace.h"
#include "util/config.h"
#include "util/log.h"

#define CLOCK_TRIES 16
#define CLOCK_FIRST_OP 2u /* the operations of a measurement, 2 to 17, scrub nothing */
#define CLOCK_OPS 32u
#define CLOCK_THREADS 64

struct ccl_comm_trace {
    char *file;    /* pattern of the file written at the end; NULL: none */
    void *records; /* device memory */
    uint32_t ops;
    struct ccl_comm_clock clock;
};

static uint32_t round_up_power(uint32_t x)
{
    return x <= 1 ? 1 : 1u << (32 - __builtin_clz(x - 1));
}

static size_t record_bytes(uint32_t ops, uint32_t blocks)
{
    return (size_t)ops * (sizeof(struct ccl_k_trace_op) + (size_t)blocks * sizeof(struct ccl_k_trace_event)) +
           (size_t)blocks * sizeof(struct ccl_k_trace_ring);
}

cclResult_t ccl_comm_trace_create(cclComm_t comm, const cclConfig_t *config, bool parent_traces)
{
    const char *file = ccl_env_get()->trace;
    bool on = config != NULL && config->trace != CCL_UNSET ? config->trace != 0 : file != NULL || parent_traces;
    char path[CCL_TRACE_PATH_BYTES];
    if (!on) {
        return cclSuccess;
    }
    if (file != NULL) {
        CCL_TRY(ccl_trace_path(file, comm->rank, 0, path, sizeof(path)));
        char other[CCL_TRACE_PATH_BYTES];
        CCL_TRY(ccl_trace_path(file, comm->rank + 1, 0, other, sizeof(other)));
        CCL_CHECK(comm->n == 1 || strcmp(path, other) != 0, cclInvalidArgument, CCL_INIT,
                  "CCL_TRACE is %s, one file for all %d ranks; %%r in it stands for the rank", file, comm->n);
    }
    comm->trace = calloc(1, sizeof(*comm->trace));
    CCL_CHECK(comm->trace != NULL, cclSystemError, CCL_INIT, "out of memory for a trace");
    comm->trace->ops = round_up_power((uint32_t)ccl_env_get()->trace_ops);
    if (file != NULL) {
        comm->trace->file = strdup(file);
        CCL_CHECK(comm->trace->file != NULL, cclSystemError, CCL_INIT, "out of memory for a trace");
    }
    return cclSuccess;
}

cclResult_t ccl_comm_trace_alloc(cclComm_t comm, struct ccl_k_priv *priv)
{
    struct ccl_comm_trace *t = comm->trace;
    if (t == NULL) {
        return cclSuccess;
    }
    CCL_TRY(comm->rt->mem_alloc(CCL_MEM_DATA, record_bytes(t->ops, comm->args.lay.blocks), &t->records));
    priv->trace = (uint64_t)t->records;
    priv->trace_ops = t->ops;
    return cclSuccess;
}

void ccl_comm_trace_destroy(cclComm_t comm)
{
    if (comm->trace == NULL) {
        return;
    }
    comm->rt->mem_free(comm->trace->records);
    free(comm->trace->file);
    free(comm->trace);
    comm->trace = NULL;
}

static cclResult_t fetch(cclComm_t comm, struct cclStream *stream, void *dst, const void *src, size_t bytes)
{
    CCL_TRY(comm->rt->copy(dst, src, bytes, stream));
    return comm->rt->stream_sync(stream);
}

/* ---- clock ---- */

/* Barriers of a world of one rank, which wait for nobody, each between two looks at the host's clock: device time + offset of what a barrier
 * notes lies between the two. What all tries allow is the result. */
static cclResult_t run_barriers(cclComm_t comm, struct cclStream *stream, void *ctl, void *priv, struct ccl_comm_clock *clock)
{
    const uint64_t records = (uint64_t)priv + sizeof(struct ccl_k_priv);
    const struct ccl_k_priv start = {.op = (uint64_t)CLOCK_FIRST_OP << 32, .trace = records, .trace_ops = CLOCK_OPS};
    struct ccl_k_trace_event events[CLOCK_OPS];
    uint64_t before[CLOCK_TRIES], after[CLOCK_TRIES];
    struct ccl_k_coll_args a = {.priv = (uint64_t)priv, .page = comm->args.page, .n = 1, .rows = 1, .lay = comm->args.lay};
    a.lay.blocks = 1;
    a.lay.full = a.lay.credit = a.lay.ll = a.lay.ring = 4096;
    a.desc = (struct ccl_k_desc){.word1 = CCL_WORD1(CCL_OP_BARRIER, 0, 0, 0), .blocks = 1};
    a.peer[0].ctl = (uint64_t)ctl;
    const struct ccl_launch l = {.kernel = CCL_KERNEL_barrier, .device = comm->device, .traced = true, .grid = 1,
                                 .threads = comm->props.is_host ? 1 : CLOCK_THREADS, .args = &a, .args_bytes = sizeof(a)};
    CCL_TRY(comm->rt->copy(priv, &start, sizeof(start), stream));
    CCL_TRY(comm->rt->stream_sync(stream));
    for (int i = 0; i < CLOCK_TRIES; i++) {
        before[i] = ccl_now_ns();
        CCL_TRY(comm->rt->launch(stream, &l));
        CCL_TRY(comm->rt->stream_sync(stream));
        after[i] = ccl_now_ns();
    }
    CCL_TRY(fetch(comm, stream, events, (const void *)(records + CLOCK_OPS * sizeof(struct ccl_k_trace_op)), sizeof(events)));
    int64_t low = INT64_MIN, high = INT64_MAX;
    for (int i = 0; i < CLOCK_TRIES; i++) {
        const struct ccl_k_trace_event *e = &events[CLOCK_FIRST_OP + (uint32_t)i];
        CCL_CHECK(e->op[CCL_TRACE_START] == CLOCK_FIRST_OP + (uint32_t)i && e->op[CCL_TRACE_END] == e->op[CCL_TRACE_START],
                  cclInternalError, CCL_INIT, "try %d of %d of the device's clock left no record", i, CLOCK_TRIES);
        int64_t from = (int64_t)(before[i] - e->at_ns[CCL_TRACE_START]), to = (int64_t)(after[i] - e->at_ns[CCL_TRACE_END]);
        low = from > low ? from : low;
        high = to < high ? to : high;
    }
    /* A clock that ticks in steps may leave nothing between; the gap is then the error. */
    clock->offset_ns = low + (high - low) / 2;
    clock->error_ns = (uint64_t)((high > low ? high - low : low - high) + 1) / 2;
    return cclSuccess;
}

cclResult_t ccl_comm_trace_measure(cclComm_t comm, struct ccl_comm_clock *clock)
{
    cclResult_t rc;
    struct cclStream *stream = NULL;
    void *ctl = NULL, *priv = NULL;
    CCL_TRY_GOTO(comm->rt->stream_create(&stream), done);
    CCL_TRY_GOTO(comm->rt->mem_alloc(CCL_MEM_FLAG, 4096 + 2 * CCL_LL_FEW_BYTES, &ctl), done);
    CCL_TRY_GOTO(comm->rt->mem_alloc(CCL_MEM_DATA, sizeof(struct ccl_k_priv) + record_bytes(CLOCK_OPS, 1), &priv), done);
    CCL_TRY_GOTO(run_barriers(comm, stream, ctl, priv, clock), done);
    if (comm->props.is_host) {
        /* Its kernels read CLOCK_MONOTONIC itself; that the measurement agrees is a check of it. */
        uint64_t off_ns = (uint64_t)(clock->offset_ns < 0 ? -clock->offset_ns : clock->offset_ns);
        rc = off_ns <= clock->error_ns ? cclSuccess
                                       : ccl_error_set(cclInternalError, CCL_INIT, "the clock of the kernels seems %lld ns off, +- %llu",
                                                       (long long)clock->offset_ns, (unsigned long long)clock->error_ns);
        *clock = (struct ccl_comm_clock){0, 0};
    }
done:
    if (stream != NULL) {
        comm->rt->stream_destroy(stream); /* waits: after an error a barrier may still run in these memories */
    }
    comm->rt->mem_free(ctl);
    comm->rt->mem_free(priv);
    return rc;
}

void ccl_comm_trace_set_clock(cclComm_t comm, const struct ccl_comm_clock *clock)
{
    comm->trace->clock = *clock;
}

/* ---- file ---- */

static void name_call(const struct ccl_k_trace_op *op, char *text, size_t bytes)
{
    uint32_t kind = op->word1 & 63, variant = op->variant;
    if (variant == cclVariantAuto) { /* of push: as cclGetEffectiveConfig says it */
        variant = op->windowed ? cclVariantDirect : cclVariantStaged;
    }
    const char *how = variant < CCL_NUM_VARIANTS ? ccl_variant_names[variant] : "unknown variant";
    if (kind == CCL_OP_ALL_GATHER_MATMUL || kind == CCL_OP_MATMUL_ALL_GATHER) {
        how = op->variant < CCL_NUM_ALGORITHMS ? ccl_algorithm_names[op->variant] : "unknown algorithm";
    }
    if (kind == CCL_OP_BARRIER) {
        snprintf(text, bytes, "%s", ccl_comm_op_name(kind));
    } else if (kind == CCL_OP_ALL_GATHER) {
        snprintf(text, bytes, "%s %s %llu %s", ccl_comm_op_name(kind), how, (unsigned long long)op->count,
                 ccl_comm_type_name(op->word1 >> 6 & 31));
    } else {
        snprintf(text, bytes, "%s %s %llux%llu %s", ccl_comm_op_name(kind), how, (unsigned long long)op->rows,
                 (unsigned long long)op->count, ccl_comm_type_name(op->word1 >> 6 & 31));
    }
}

static cclResult_t export_records(cclComm_t comm, struct cclStream *stream, void *copy, size_t bytes, const char *path)
{
    struct ccl_comm_trace *t = comm->trace;
    struct ccl_k_priv priv;
    struct ccl_comm_clock now;
    CCL_TRY(fetch(comm, stream, &priv, comm->priv, sizeof(priv)));
    CCL_TRY(fetch(comm, stream, copy, t->records, bytes));
    CCL_TRY(ccl_comm_trace_measure(comm, &now));
    const struct ccl_k_trace_op *ops = copy;
    const struct ccl_trace_dump dump = {.rank = comm->rank,
                                        .ranks = comm->n,
                                        .world = comm->agreed.world_id,
                                        .backend = comm->rt->name,
                                        .device = comm->props.name,
                                        .ops = t->ops,
                                        .blocks = comm->args.lay.blocks,
                                        .drawn = (uint32_t)(priv.op >> 32) - 1,
                                        .op = ops,
                                        .event = (const struct ccl_k_trace_event *)(ops + t->ops),
                                        .ring = (const struct ccl_k_trace_ring *)((const struct ccl_k_trace_event *)(ops + t->ops) +
                                                                                  (size_t)t->ops * comm->args.lay.blocks),
                                        .clock_offset_ns = t->clock.offset_ns,
                                        .clock_error_ns = t->clock.error_ns,
                                        .clock_drift_ns = now.offset_ns - t->clock.offset_ns,
                                        .name = name_call};
    return ccl_trace_write(&dump, path);
}

cclResult_t ccl_comm_trace_export(cclComm_t comm, const char *pattern)
{
    cclResult_t rc;
    char path[CCL_TRACE_PATH_BYTES];
    struct cclStream *stream = NULL;
    CCL_CHECK(comm->trace != NULL, cclInvalidUsage, CCL_INIT,
              "cclTraceExport: rank %d records no trace, CCL_TRACE and the config's trace are unset", comm->rank);
    CCL_TRY(ccl_trace_path(pattern, comm->rank, comm->agreed.world_id, path, sizeof(path)));
    size_t bytes = record_bytes(comm->trace->ops, comm->args.lay.blocks);
    void *copy = malloc(bytes);
    CCL_CHECK(copy != NULL, cclSystemError, CCL_INIT, "out of memory for %zu bytes of trace records", bytes);
    CCL_TRY_GOTO(ccl_comm_wait_idle(comm), err_free_copy);
    CCL_TRY_GOTO(comm->rt->stream_create(&stream), err_free_copy);
    rc = export_records(comm, stream, copy, bytes, path);
    comm->rt->stream_destroy(stream);
err_free_copy:
    free(copy);
    return rc;
}

cclResult_t ccl_comm_trace_finish(cclComm_t comm)
{
    return comm->trace != NULL && comm->trace->file != NULL ? ccl_comm_trace_export(comm, comm->trace->file) : cclSuccess;
}
