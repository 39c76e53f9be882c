/* SPDX-License-Identifier: MIT
 *
 * How communicators come to be: init, split, shrink. Everything that is wrong with the arguments is said by the call; the rest is a job
 * (compat_group.c), because it waits for other ranks. */
#include "compat.h"

#include <stdlib.h>
#include <string.h>

#include "util/config.h"

_Static_assert(sizeof(ncclUniqueId) == sizeof(cclUniqueId), "an id is passed on as it is");

ncclResult_t ncclGetUniqueId(ncclUniqueId *uniqueId)
{
    cclUniqueId id;
    const char *where = ccl_env_get()->nccl_comm_id;
    CCL_COMPAT_CHECK(uniqueId != NULL, ncclInvalidArgument, "ncclGetUniqueId: uniqueId is NULL");
    /* NCCL_COMM_ID: the ranks take that address, whatever the id says, and rank 0 opens it in its init. */
    CCL_COMPAT_TRY(ccl_compat_result(where != NULL ? ccl_comm_id_at(where, false, &id) : cclGetUniqueId(&id)));
    memcpy(uniqueId, &id, sizeof(id));
    return ncclSuccess;
}
CCL_COMPAT_ALIAS(ncclGetUniqueId);

/* What a job has made: comm is complete. */
static ncclResult_t adopt(ncclComm_t comm, cclComm_t ccl)
{
    CCL_COMPAT_TRY(ccl_compat_result(cclCommDevice(ccl, &comm->device)));
    CCL_COMPAT_TRY(ccl_compat_result(cclCommCount(ccl, &comm->n)));
    CCL_COMPAT_TRY(ccl_compat_result(cclCommUserRank(ccl, &comm->rank)));
    comm->ccl = ccl;
    return ncclSuccess;
}

/* ---- init ---- */

static ncclResult_t run_init(struct ccl_compat_job *job)
{
    ncclComm_t comm = job->comm;
    const char *where = ccl_env_get()->nccl_comm_id;
    cclComm_t ccl = NULL;
    if (where != NULL) {
        CCL_COMPAT_TRY(ccl_compat_result(ccl_comm_id_at(where, comm->rank == 0, &job->u.init.id)));
    }
    CCL_COMPAT_TRY(ccl_compat_result(cclCommInitRank(&ccl, comm->n, job->u.init.id, comm->rank)));
    return adopt(comm, ccl);
}

static ncclResult_t init_rank(ncclComm_t *out, int nranks, const ncclUniqueId *id, int rank, const ncclConfig_t *user, const char *func)
{
    struct ccl_compat_config config;
    ncclComm_t comm;
    CCL_COMPAT_CHECK(out != NULL, ncclInvalidArgument, "%s: comm is NULL", func);
    __atomic_store_n(out, NULL, __ATOMIC_RELEASE); /* another thread may wait for it, to abort */
    CCL_COMPAT_CHECK(id != NULL, ncclInvalidArgument, "%s: commId is NULL", func);
    CCL_COMPAT_CHECK(nranks >= 1 && rank >= 0 && rank < nranks, ncclInvalidArgument, "%s: rank is %d of %d, not 0 to %d", func, rank, nranks,
                     nranks - 1);
    CCL_COMPAT_TRY(ccl_compat_read_config(user, NULL, func, &config));
    ccl_compat_tell_version();
    struct ccl_compat_job *job = calloc(1, sizeof(*job));
    CCL_COMPAT_CHECK(job != NULL, ncclSystemError, "%s: out of memory", func);
    ncclResult_t rc = ccl_compat_result(ccl_compat_new(nranks, rank, &config, &comm));
    rc = rc != ncclSuccess ? rc : ccl_compat_join(comm, func);
    if (rc != ncclSuccess) {
        free(job);
        return rc;
    }
    job->run = run_init;
    job->comm = comm;
    job->out = out;
    job->early_out = true;
    memcpy(&job->u.init.id, id, sizeof(*id));
    __atomic_store_n(out, comm, __ATOMIC_RELEASE); /* another thread may abort it from here on */
    return ccl_compat_submit(job);
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank)
{
    return ccl_compat_note(init_rank(comm, nranks, &commId, rank, NULL, "ncclCommInitRank"));
}
CCL_COMPAT_ALIAS(ncclCommInitRank);

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t *config)
{
    return ccl_compat_note(init_rank(comm, nranks, &commId, rank, config, "ncclCommInitRankConfig"));
}
CCL_COMPAT_ALIAS(ncclCommInitRankConfig);

/* The first id serves all: the ranks of a node are few. */
static ncclResult_t init_scalable(ncclComm_t *newcomm, int nranks, int myrank, int nId, const ncclUniqueId *commIds, const ncclConfig_t *config)
{
    CCL_COMPAT_CHECK(nId > 0 && nId <= nranks, ncclInvalidArgument, "ncclCommInitRankScalable: nId is %d, not 1 to %d", nId, nranks);
    return init_rank(newcomm, nranks, commIds, myrank, config, "ncclCommInitRankScalable");
}

ncclResult_t ncclCommInitRankScalable(ncclComm_t *newcomm, int nranks, int myrank, int nId, ncclUniqueId *commIds, ncclConfig_t *config)
{
    return ccl_compat_note(init_scalable(newcomm, nranks, myrank, nId, commIds, config));
}
CCL_COMPAT_ALIAS(ncclCommInitRankScalable);

static ncclResult_t check_devices(int ndev, const int *devlist, int devices)
{
    bool share = ccl_env_get()->nccl_multi_rank != 0;
    CCL_COMPAT_CHECK(share || devlist != NULL || ndev <= devices, ncclInvalidArgument, "ncclCommInitAll: ndev is %d, there are %d devices", ndev,
                     devices);
    for (int i = 0; devlist != NULL && i < ndev; i++) {
        CCL_COMPAT_CHECK(devlist[i] >= 0 && devlist[i] < devices, ncclInvalidArgument, "ncclCommInitAll: devlist[%d] is %d, not 0 to %d", i,
                         devlist[i], devices - 1);
        for (int j = 0; !share && j < i; j++) {
            CCL_COMPAT_CHECK(devlist[j] != devlist[i], ncclInvalidUsage,
                             "ncclCommInitAll: ranks %d and %d are both on device %d, which NCCL_MULTI_RANK_GPU_ENABLE=0 forbids", j, i, devlist[i]);
        }
    }
    return ncclSuccess;
}

static ncclResult_t init_all(ncclComm_t *comms, int ndev, const int *devlist)
{
    int devices, current;
    ncclUniqueId id;
    CCL_COMPAT_CHECK(comms != NULL, ncclInvalidArgument, "ncclCommInitAll: comm is NULL");
    CCL_COMPAT_CHECK(ndev >= 0, ncclInvalidArgument, "ncclCommInitAll: ndev is %d", ndev);
    for (int i = 0; i < ndev; i++) {
        comms[i] = NULL;
    }
    CCL_COMPAT_TRY(ccl_compat_result(cclDeviceCount(&devices)));
    CCL_COMPAT_TRY(check_devices(ndev, devlist, devices));
    if (ndev == 0) {
        return ncclSuccess;
    }
    CCL_COMPAT_TRY(ccl_compat_result(cclGetDevice(&current)));
    CCL_COMPAT_TRY(ncclGetUniqueId(&id));
    CCL_COMPAT_TRY(ncclGroupStart());
    for (int i = 0; i < ndev; i++) {
        ncclResult_t rc = ccl_compat_result(cclSetDevice(devlist != NULL ? devlist[i] : i % devices));
        ccl_compat_note(rc != ncclSuccess ? rc : init_rank(&comms[i], ndev, &id, i, NULL, "ncclCommInitAll"));
    }
    ncclResult_t restored = ccl_compat_result(cclSetDevice(current));
    ncclResult_t rc = ncclGroupEnd();
    return rc != ncclSuccess ? rc : restored;
}

ncclResult_t ncclCommInitAll(ncclComm_t *comm, int ndev, const int *devlist)
{
    ncclResult_t rc = init_all(comm, ndev, devlist);
    for (int i = 0; rc != ncclSuccess && rc != ncclInProgress && comm != NULL && i < ndev; i++) {
        ncclCommAbort(comm[i]);
        comm[i] = NULL;
    }
    return ccl_compat_note(rc);
}
CCL_COMPAT_ALIAS(ncclCommInitAll);

/* ---- split and shrink ---- */

/* In the thread that ran the job; may be NULL, for a rank without a color. */
static ncclResult_t adopt_child(struct ccl_compat_job *job, cclComm_t ccl)
{
    if (ccl == NULL) {
        ccl_compat_free(job->child);
        job->child = NULL;
        return ncclSuccess;
    }
    return adopt(job->child, ccl);
}

static ncclResult_t run_split(struct ccl_compat_job *job)
{
    cclComm_t ccl = NULL;
    CCL_COMPAT_TRY(ccl_compat_result(cclCommSplit(job->comm->ccl, job->u.split.color, job->u.split.key, &ccl, NULL)));
    return adopt_child(job, ccl);
}

static ncclResult_t run_shrink(struct ccl_compat_job *job)
{
    cclComm_t ccl = NULL;
    if (job->u.shrink.abort) {
        ccl_comm_revoke(job->comm->ccl);
    }
    ncclResult_t rc = ccl_compat_result(ccl_comm_shrink(job->comm->ccl, job->u.shrink.ranks, job->u.shrink.count, &ccl));
    free(job->u.shrink.ranks);
    return rc != ncclSuccess ? rc : adopt_child(job, ccl);
}

/* A job on parent that makes *newcomm. Nothing is left on failure. */
static ncclResult_t make_child_job(ncclComm_t parent, ncclComm_t *newcomm, const ncclConfig_t *user, const char *func, struct ccl_compat_job **out)
{
    struct ccl_compat_config config;
    CCL_COMPAT_TRY(ccl_compat_read_config(user, &parent->config, func, &config));
    struct ccl_compat_job *job = calloc(1, sizeof(*job));
    CCL_COMPAT_CHECK(job != NULL, ncclSystemError, "%s: out of memory", func);
    ncclResult_t rc = ccl_compat_result(ccl_compat_new(parent->n, parent->rank, &config, &job->child));
    if (rc != ncclSuccess) {
        free(job);
        return rc;
    }
    job->comm = parent;
    job->out = newcomm;
    *newcomm = NULL;
    *out = job;
    return ncclSuccess;
}

/* A revoked communicator may still be split and shrunk, and so may one with a failed operation. */
static ncclResult_t check_parent(ncclComm_t comm, bool may_have_failed, const char *func)
{
    if (comm == NULL || comm->magic != CCL_COMPAT_MAGIC || !(comm->revoked || may_have_failed)) {
        return ccl_compat_check(comm, func);
    }
    CCL_COMPAT_CHECK(__atomic_load_n(&comm->state, __ATOMIC_ACQUIRE) != ncclInProgress && comm->ccl != NULL, ncclInvalidArgument,
                     "%s: attempt to use a communicator before the previous operation returned ncclSuccess", func);
    return ccl_compat_join(comm, func);
}

static ncclResult_t split(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, const ncclConfig_t *config)
{
    struct ccl_compat_job *job;
    CCL_COMPAT_CHECK(newcomm != NULL, ncclInvalidArgument, "ncclCommSplit: newcomm is NULL");
    CCL_COMPAT_CHECK(color >= 0 || color == NCCL_SPLIT_NOCOLOR, ncclInvalidArgument,
                     "ncclCommSplit: color is %d, neither 0 or more nor NCCL_SPLIT_NOCOLOR", color);
    CCL_COMPAT_TRY(check_parent(comm, false, "ncclCommSplit"));
    CCL_COMPAT_TRY(make_child_job(comm, newcomm, config, "ncclCommSplit", &job));
    job->run = run_split;
    job->u.split.color = color;
    job->u.split.key = key;
    return ccl_compat_submit(job);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config)
{
    return ccl_compat_note(split(comm, color, key, newcomm, config));
}
CCL_COMPAT_ALIAS(ncclCommSplit);

/* The ranks of comm that are not in the list, in order. */
static ncclResult_t remaining(ncclComm_t comm, const int *excluded, int num_excluded, int *ranks, int *count)
{
    *count = 0;
    for (int i = 0; i < num_excluded; i++) {
        CCL_COMPAT_CHECK(excluded[i] >= 0 && excluded[i] < comm->n, ncclInvalidArgument, "ncclCommShrink: excluded rank %d is %d, not 0 to %d", i,
                         excluded[i], comm->n - 1);
        CCL_COMPAT_CHECK(excluded[i] != comm->rank, ncclInvalidArgument, "ncclCommShrink: rank %d excludes itself", comm->rank);
    }
    for (int r = 0; r < comm->n; r++) {
        bool stays = true;
        for (int i = 0; i < num_excluded; i++) {
            stays = stays && excluded[i] != r;
        }
        if (stays) {
            ranks[(*count)++] = r;
        }
    }
    return ncclSuccess;
}

static ncclResult_t shrink(ncclComm_t comm, const int *excluded, int num_excluded, ncclComm_t *newcomm, const ncclConfig_t *config, int flags)
{
    struct ccl_compat_job *job;
    int count;
    CCL_COMPAT_CHECK(newcomm != NULL, ncclInvalidArgument, "ncclCommShrink: newcomm is NULL");
    CCL_COMPAT_CHECK(excluded != NULL && num_excluded > 0, ncclInvalidArgument, "ncclCommShrink: no rank is excluded (%d)", num_excluded);
    CCL_COMPAT_CHECK(flags == NCCL_SHRINK_DEFAULT || flags == NCCL_SHRINK_ABORT, ncclInvalidArgument, "ncclCommShrink: flags are %#x", (unsigned)flags);
    CCL_COMPAT_TRY(check_parent(comm, flags == NCCL_SHRINK_ABORT, "ncclCommShrink"));
    int *ranks = calloc((size_t)comm->n, sizeof(*ranks));
    CCL_COMPAT_CHECK(ranks != NULL, ncclSystemError, "ncclCommShrink: out of memory for %d ranks", comm->n);
    ncclResult_t rc = remaining(comm, excluded, num_excluded, ranks, &count);
    rc = rc != ncclSuccess ? rc : make_child_job(comm, newcomm, config, "ncclCommShrink", &job);
    if (rc != ncclSuccess) {
        free(ranks);
        return rc;
    }
    job->run = run_shrink;
    job->u.shrink.ranks = ranks;
    job->u.shrink.count = count;
    job->u.shrink.abort = flags == NCCL_SHRINK_ABORT;
    return ccl_compat_submit(job);
}

ncclResult_t ncclCommShrink(ncclComm_t comm, int *excludeRanksList, int excludeRanksCount, ncclComm_t *newcomm, ncclConfig_t *config, int shrinkFlags)
{
    return ccl_compat_note(shrink(comm, excludeRanksList, excludeRanksCount, newcomm, config, shrinkFlags));
}
CCL_COMPAT_ALIAS(ncclCommShrink);
