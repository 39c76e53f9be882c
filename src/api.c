/* SPDX-License-Identifier: MIT
 *
 * The public functions of the library and of communicators: argument checks, then on to comm. */
#include "api.h"

#include <string.h>

static const char *const result_texts[cclNumResults] = {
    "no error",
    "a call of the GPU runtime failed (run with CCL_DEBUG=WARN for details)",
    "a system call failed, memory ran out or a deadline passed (run with CCL_DEBUG=WARN for details)",
    "internal error of libccl",
    "invalid argument (run with CCL_DEBUG=WARN for details)",
    "invalid usage (run with CCL_DEBUG=WARN for details)",
    "a remote process died or aborted",
    "operation in progress",
};

/* ---- library ---- */

cclResult_t cclGetVersion(int *version)
{
    CCL_CHECK(version != NULL, cclInvalidArgument, CCL_INIT, "cclGetVersion: version is NULL");
    *version = CCL_VERSION;
    return cclSuccess;
}

const char *cclGetErrorString(cclResult_t result)
{
    return (unsigned)result < cclNumResults ? result_texts[result] : "unknown result code";
}

const char *cclGetLastError(cclComm_t comm)
{
    (void)comm;
    return ccl_error_last();
}

/* ---- communicators ---- */

static cclResult_t check_range(int value, int min, int max, const char *name)
{
    CCL_CHECK(value == CCL_UNSET || (value >= min && value <= max), cclInvalidArgument, CCL_INIT,
              "config: %s is %d, not %d to %d", name, value, min, max);
    return cclSuccess;
}

/* Fields the caller's header does not know keep their default. */
static cclResult_t read_config(const cclConfig_t *user, cclConfig_t *out)
{
    const cclConfig_t dflt = CCL_CONFIG_INITIALIZER;
    CCL_CHECK(user->magic == CCL_STRUCT_MAGIC && user->size >= offsetof(cclConfig_t, timeout_ms), cclInvalidArgument,
              CCL_INIT, "config: magic %#x size %zu, was it initialised with CCL_CONFIG_INITIALIZER?", user->magic, user->size);
    *out = dflt;
    memcpy(out, user, ccl_min_size(user->size, sizeof(*out)));
    CCL_TRY(check_range(out->timeout_ms, 1, 86400000, "timeout_ms"));
    CCL_TRY(check_range(out->max_blocks, 1, CCL_MAX_BLOCKS, "max_blocks"));
    CCL_TRY(check_range(out->variant, cclVariantAuto, cclVariantCopy, "variant"));
    CCL_TRY(check_range(out->trace, 0, 1, "trace"));
    return check_range(out->heap_chunk_mb, 1, 1048576, "heap_chunk_mb");
}

cclResult_t cclGetUniqueId(cclUniqueId *id)
{
    CCL_TRY(ccl_api_check_ptr(id, "cclGetUniqueId", "id"));
    return ccl_bootstrap_get_id(id);
}

struct init_job {
    cclComm_t *comm;
    cclUniqueId id;
    int n, rank;
    bool has_config;
    cclConfig_t config;
};

static cclResult_t run_init(void *arg, struct cclStream *stream)
{
    struct init_job *j = arg;
    (void)stream;
    return ccl_comm_create(&j->id, j->n, j->rank, j->has_config ? &j->config : NULL, j->comm);
}

static cclResult_t init_rank(cclComm_t *comm, int nranks, const cclUniqueId *id, int rank, const cclConfig_t *config)
{
    struct init_job j = {.comm = comm, .id = *id, .n = nranks, .rank = rank, .has_config = config != NULL};
    CCL_TRY(ccl_api_check_ptr(comm, "cclCommInitRank", "comm"));
    *comm = NULL;
    CCL_CHECK(nranks >= 1 && nranks <= CCL_MAX_RANKS, cclInvalidArgument, CCL_INIT, "cclCommInitRank: nranks is %d, not 1 to %d",
              nranks, CCL_MAX_RANKS);
    CCL_CHECK(rank >= 0 && rank < nranks, cclInvalidArgument, CCL_INIT, "cclCommInitRank: rank is %d, not 0 to %d", rank,
              nranks - 1);
    if (config != NULL) {
        CCL_TRY(read_config(config, &j.config));
    }
    const struct ccl_runtime_ops *rt;
    CCL_TRY(ccl_runtime_get(&rt));
    return ccl_group_submit(CCL_JOB_SETUP, run_init, &j, sizeof(j), NULL, NULL);
}

cclResult_t cclCommInitRank(cclComm_t *comm, int nranks, cclUniqueId id, int rank)
{
    CCL_API_NOTE(init_rank(comm, nranks, &id, rank, NULL));
}

cclResult_t cclCommInitRankConfig(cclComm_t *comm, int nranks, cclUniqueId id, int rank, cclConfig_t *config)
{
    CCL_API_NOTE(init_rank(comm, nranks, &id, rank, config));
}

static cclResult_t init_all(cclComm_t *comms, int ndev, const int *devlist)
{
    const struct ccl_runtime_ops *rt;
    int devices, current;
    cclUniqueId id;
    CCL_TRY(ccl_api_check_ptr(comms, "cclCommInitAll", "comms"));
    CCL_CHECK(ndev >= 1 && ndev <= CCL_MAX_RANKS, cclInvalidArgument, CCL_INIT, "cclCommInitAll: ndev is %d, not 1 to %d", ndev,
              CCL_MAX_RANKS);
    CCL_TRY(ccl_runtime_get(&rt));
    CCL_TRY(rt->device_count(&devices));
    for (int i = 0; i < ndev; i++) {
        comms[i] = NULL;
        CCL_CHECK(devlist == NULL || (devlist[i] >= 0 && devlist[i] < devices), cclInvalidArgument, CCL_INIT,
                  "cclCommInitAll: devlist[%d] is %d, not 0 to %d", i, devlist[i], devices - 1);
    }
    CCL_TRY(rt->device_get(&current));
    CCL_TRY(ccl_bootstrap_get_id(&id));
    CCL_TRY(ccl_group_start());
    cclResult_t rc = cclSuccess;
    for (int i = 0; i < ndev && rc == cclSuccess; i++) {
        rc = rt->device_set(devlist != NULL ? devlist[i] : i % devices);
        rc = ccl_group_note(rc != cclSuccess ? rc : init_rank(&comms[i], ndev, &id, i, NULL));
    }
    cclResult_t restored = rt->device_set(current);
    rc = ccl_group_end();
    return rc != cclSuccess ? rc : restored;
}

cclResult_t cclCommInitAll(cclComm_t *comms, int ndev, const int *devlist)
{
    cclResult_t rc = init_all(comms, ndev, devlist);
    for (int i = 0; rc != cclSuccess && comms != NULL && i < ndev && i < CCL_MAX_RANKS; i++) {
        ccl_comm_destroy(comms[i], false);
        comms[i] = NULL;
    }
    CCL_API_NOTE(rc);
}

struct split_job {
    cclComm_t parent, *out;
    int color, key;
    bool has_config;
    cclConfig_t config;
};

static cclResult_t run_split(void *arg, struct cclStream *stream)
{
    struct split_job *j = arg;
    (void)stream;
    return ccl_comm_split(j->parent, j->color, j->key, j->has_config ? &j->config : NULL, j->out);
}

static cclResult_t comm_split(cclComm_t comm, int color, int key, cclComm_t *newcomm, const cclConfig_t *config)
{
    struct split_job j = {.parent = comm, .out = newcomm, .color = color, .key = key, .has_config = config != NULL};
    CCL_TRY(ccl_api_check_open(comm, "cclCommSplit"));
    CCL_TRY(ccl_api_check_ptr(newcomm, "cclCommSplit", "newcomm"));
    *newcomm = NULL;
    CCL_CHECK(color >= 0 || color == CCL_SPLIT_NOCOLOR, cclInvalidArgument, CCL_INIT,
              "cclCommSplit: color is %d, neither 0 or more nor CCL_SPLIT_NOCOLOR", color);
    if (config != NULL) {
        CCL_TRY(read_config(config, &j.config));
    }
    return ccl_group_submit(CCL_JOB_SETUP, run_split, &j, sizeof(j), comm, NULL);
}

cclResult_t cclCommSplit(cclComm_t comm, int color, int key, cclComm_t *newcomm, cclConfig_t *config)
{
    CCL_API_NOTE(comm_split(comm, color, key, newcomm, config));
}

cclResult_t cclCommFinalize(cclComm_t comm)
{
    if (comm == NULL) {
        return cclSuccess;
    }
    CCL_TRY(ccl_api_check_comm(comm, "cclCommFinalize"));
    CCL_CHECK(!comm->finalized, cclInvalidArgument, CCL_INIT, "cclCommFinalize: already finalized");
    CCL_TRY(ccl_comm_wait_idle(comm));
    comm->finalized = true;
    return cclSuccess;
}

cclResult_t cclCommDestroy(cclComm_t comm)
{
    if (comm == NULL) {
        return cclSuccess;
    }
    bool live, mine = ccl_comm_claim(comm, false, &live);
    CCL_CHECK(live, cclInvalidArgument, CCL_INIT, "cclCommDestroy: %p is no live communicator", (void *)comm);
    if (!mine) {
        return cclSuccess; /* another thread is aborting or destroying it */
    }
    cclResult_t rc = ccl_comm_wait_idle(comm);
    bool failed = __atomic_load_n(&comm->page->abort, __ATOMIC_ACQUIRE) != 0;
    ccl_comm_await_report(comm);
    cclResult_t trace_rc = ccl_comm_trace_finish(comm);
    ccl_comm_destroy(comm, failed && !comm->props.is_host);
    return rc != cclSuccess ? rc : trace_rc;
}

cclResult_t cclTraceExport(cclComm_t comm, const char *path)
{
    CCL_TRY(ccl_api_check_comm(comm, "cclTraceExport"));
    CCL_TRY(ccl_api_check_ptr(path, "cclTraceExport", "path"));
    return ccl_comm_trace_export(comm, path);
}

cclResult_t cclCommAbort(cclComm_t comm)
{
    if (comm == NULL) {
        return cclSuccess;
    }
    bool live, mine = ccl_comm_claim(comm, true, &live);
    CCL_CHECK(live, cclInvalidArgument, CCL_INIT, "cclCommAbort: %p is no live communicator", (void *)comm);
    return mine ? ccl_comm_abort(comm) : cclSuccess; /* else a destroying thread waits, and now gets on */
}

cclResult_t cclCommGetAsyncError(cclComm_t comm, cclResult_t *async_error)
{
    CCL_TRY(ccl_api_check_comm(comm, "cclCommGetAsyncError"));
    CCL_TRY(ccl_api_check_ptr(async_error, "cclCommGetAsyncError", "async_error"));
    *async_error = ccl_comm_async_error(comm);
    return cclSuccess;
}

static cclResult_t comm_int(const char *func, const char *name, int value, int *out)
{
    CCL_TRY(ccl_api_check_ptr(out, func, name));
    *out = value;
    return cclSuccess;
}

cclResult_t cclCommCount(const cclComm_t comm, int *count)
{
    CCL_TRY(ccl_api_check_comm(comm, "cclCommCount"));
    return comm_int("cclCommCount", "count", comm->n, count);
}

cclResult_t cclCommUserRank(const cclComm_t comm, int *rank)
{
    CCL_TRY(ccl_api_check_comm(comm, "cclCommUserRank"));
    return comm_int("cclCommUserRank", "rank", comm->rank, rank);
}

cclResult_t cclCommDevice(const cclComm_t comm, int *device)
{
    CCL_TRY(ccl_api_check_comm(comm, "cclCommDevice"));
    return comm_int("cclCommDevice", "device", comm->device, device);
}

cclResult_t cclDeviceComm(cclComm_t comm, cclDeviceComm_t *dev)
{
    CCL_TRY(ccl_api_check_open(comm, "cclDeviceComm"));
    CCL_TRY(ccl_api_check_ptr(dev, "cclDeviceComm", "dev"));
    const struct ccl_k_layout *lay = &comm->args.lay;
    uint64_t arrays = (uint64_t)comm->tables + sizeof(struct ccl_k_comm);
    cclDeviceComm_t d = {.size = sizeof(d), .rank = (uint32_t)comm->rank, .n = (uint32_t)comm->n, .window_pitch = CCL_WINDOWS};
    d.windows = ccl_heap_table(comm->heap);
    d.ctl = arrays;
    d.pages = arrays + d.n * sizeof(uint64_t);
    d.page = comm->args.page;
    d.priv = (uint64_t)comm->priv + offsetof(struct ccl_k_priv, user);
    d.signals = lay->user;
    d.barriers = lay->user + (uint64_t)CCL_SIGNALS * lay->flag_stride;
    d.word_stride = lay->flag_stride;
    d.dead = offsetof(struct ccl_k_page, dead);
    d.state = offsetof(struct ccl_k_page, state);
    comm->has_device_comm = true;
    *dev = d;
    return cclSuccess;
}

cclResult_t cclGroupStart(void)
{
    return ccl_group_start();
}

cclResult_t cclGroupEnd(void)
{
    return ccl_group_end();
}

