/* SPDX-License-Identifier: MIT
 *
 * The communicators of this process as NCCL sees them: their life, their state, and the calls about them. A list of the live ones makes a second
 * destroy an error instead of a crash. A background call counts in `running`; whoever ends a communicator waits for it, or leaves it the object. */
#include "compat.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define ABORT_WAIT_S 4

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t idle = PTHREAD_COND_INITIALIZER;
static ncclComm_t list;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

/* libccl refuses the parent's communicators in a forked child; here they are forgotten, with a lock that nobody holds. */
static void in_child(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&idle, NULL);
    list = NULL;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

cclResult_t ccl_compat_new(int n, int rank, const struct ccl_compat_config *config, ncclComm_t *out)
{
    ncclComm_t comm = calloc(1, sizeof(*comm));
    CCL_CHECK(comm != NULL, cclSystemError, CCL_INIT, "out of memory for a communicator of %d ranks", n);
    pthread_once(&fork_once, watch_forks);
    comm->magic = comm->end_magic = CCL_COMPAT_MAGIC;
    comm->n = n;
    comm->rank = rank;
    comm->device = -1;
    comm->config = *config;
    pthread_mutex_lock(&lock);
    comm->next = list;
    list = comm;
    pthread_mutex_unlock(&lock);
    *out = comm;
    return cclSuccess;
}

void ccl_compat_free(ncclComm_t comm)
{
    pthread_mutex_lock(&lock);
    for (ncclComm_t *p = &list; *p != NULL; p = &(*p)->next) {
        if (*p == comm) {
            *p = comm->next;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    while (comm->windows != NULL) {
        struct ccl_compat_window *w = comm->windows;
        comm->windows = w->next;
        free(w); /* the registration went with the cclComm_t */
    }
    comm->magic = comm->end_magic = 0;
    free(comm);
}

/* Take comm for its end. False: it is no live communicator. *mine: the caller is the one who frees it. */
static bool claim(ncclComm_t comm, bool *mine)
{
    bool live = false;
    *mine = false;
    pthread_mutex_lock(&lock);
    for (ncclComm_t c = list; c != NULL && !live; c = c->next) {
        live = c == comm;
    }
    if (live) {
        *mine = !comm->closing;
        comm->closing = true;
    }
    pthread_mutex_unlock(&lock);
    return live;
}

void ccl_compat_begin(ncclComm_t comm)
{
    pthread_mutex_lock(&lock);
    comm->running++;
    __atomic_store_n(&comm->state, ncclInProgress, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
}

static void end_orphan(ncclComm_t comm)
{
    if (comm->ccl != NULL) {
        cclCommAbort(comm->ccl);
    }
    ccl_compat_free(comm);
}

void ccl_compat_end(ncclComm_t comm, ncclResult_t rc)
{
    pthread_mutex_lock(&lock);
    if (--comm->running == 0 || rc != ncclSuccess) {
        __atomic_store_n(&comm->state, rc, __ATOMIC_RELEASE); /* pairs with the acquire of who polls: what the call made is visible */
    }
    bool orphan = comm->orphan && comm->running == 0;
    pthread_cond_broadcast(&idle);
    pthread_mutex_unlock(&lock);
    if (orphan) {
        end_orphan(comm);
    }
}

void ccl_compat_drop(ncclComm_t comm)
{
    pthread_mutex_lock(&lock);
    bool claimed = comm->closing;
    pthread_mutex_unlock(&lock);
    if (claimed) {
        ccl_compat_end(comm, ncclSuccess);
    } else {
        ccl_compat_free(comm);
    }
}

/* False: calls still run in the background after `seconds`, and the last one frees comm. 0: wait for ever. */
static bool wait_for_calls(ncclComm_t comm, int seconds)
{
    struct timespec until;
    int err = 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += seconds;
    pthread_mutex_lock(&lock);
    while (comm->running > 0 && err != ETIMEDOUT) {
        err = seconds > 0 ? pthread_cond_timedwait(&idle, &lock, &until) : pthread_cond_wait(&idle, &lock);
    }
    bool ended = comm->running == 0;
    comm->orphan = !ended;
    pthread_mutex_unlock(&lock);
    return ended;
}

/* ---- checks ---- */

ncclResult_t ccl_compat_check_object(ncclComm_t comm, const char *func)
{
    CCL_COMPAT_CHECK(comm != NULL, ncclInvalidArgument, "%s: comm is NULL", func);
    CCL_COMPAT_CHECK(comm->magic == CCL_COMPAT_MAGIC && comm->end_magic == CCL_COMPAT_MAGIC, ncclInvalidArgument,
                     "%s: comm %p is no communicator, was it destroyed?", func, (void *)comm);
    return ncclSuccess;
}

static ncclResult_t check_ready(ncclComm_t comm, const char *func)
{
    CCL_COMPAT_TRY(ccl_compat_check_object(comm, func));
    ncclResult_t state = (ncclResult_t)__atomic_load_n(&comm->state, __ATOMIC_ACQUIRE);
    CCL_COMPAT_CHECK(state != ncclInProgress, ncclInvalidArgument,
                     "%s: attempt to use a communicator before the previous operation returned ncclSuccess", func);
    CCL_COMPAT_TRY(state); /* whose text was set when it failed */
    CCL_COMPAT_CHECK(!comm->revoked, ncclInvalidUsage, "%s: the communicator is revoked", func);
    return ncclSuccess;
}

/* An error of an operation is the communicator's from the first time it is seen: looking again would log it again. */
static ncclResult_t keep_error(ncclComm_t comm, ncclResult_t rc)
{
    int healthy = ncclSuccess;
    if (rc != ncclSuccess) {
        __atomic_compare_exchange_n(&comm->state, &healthy, (int)rc, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    }
    return rc;
}

ncclResult_t ccl_compat_check_slow(ncclComm_t comm, const char *func)
{
    ncclResult_t rc = check_ready(comm, func);
    if (rc == ncclSuccess) {
        cclResult_t failed = cclSuccess;
        rc = ccl_compat_result(cclCommGetAsyncError(comm->ccl, &failed));
        rc = rc != ncclSuccess ? rc : keep_error(comm, ccl_compat_result(failed));
    }
    rc = rc != ncclSuccess ? rc : ccl_compat_join(comm, func);
    return ccl_compat_note(rc);
}

/* ---- the end of a communicator ---- */

ncclResult_t ccl_compat_destroy_now(ncclComm_t comm)
{
    wait_for_calls(comm, 0);
    cclResult_t rc = comm->ccl != NULL ? cclCommDestroy(comm->ccl) : cclSuccess;
    ccl_compat_free(comm);
    return ccl_compat_result(rc);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    if (comm == NULL) {
        return ncclSuccess;
    }
    bool mine;
    if (!claim(comm, &mine)) {
        return ccl_compat_note(ccl_error_set(ncclInvalidArgument, CCL_INIT, "ncclCommDestroy: comm %p has already been destroyed, or is none",
                                             (void *)comm));
    }
    if (!mine) {
        return ncclSuccess; /* another thread is aborting it */
    }
    return ccl_compat_grouped() ? ccl_compat_destroy_later(comm) : ccl_compat_destroy_now(comm);
}
CCL_COMPAT_ALIAS(ncclCommDestroy);

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    if (comm == NULL) {
        return ncclSuccess;
    }
    bool mine;
    if (!claim(comm, &mine)) {
        return ccl_error_set(ncclInvalidArgument, CCL_INIT, "ncclCommAbort: comm %p has already been destroyed, or is none", (void *)comm);
    }
    cclComm_t ccl = comm->ccl;
    if (!mine) {
        /* The thread that destroys it waits for an operation, or for a peer in a background call: both end now. */
        __atomic_store_n(&comm->cancel, true, __ATOMIC_RELEASE);
        return ccl != NULL ? ccl_compat_result(cclCommAbort(ccl)) : ncclSuccess;
    }
    __atomic_store_n(&comm->cancel, true, __ATOMIC_RELEASE);
    if (ccl != NULL) {
        ccl_comm_revoke(ccl); /* before the wait: a background call may wait for an operation */
    }
    if (!wait_for_calls(comm, ABORT_WAIT_S)) {
        return ncclSuccess;
    }
    cclResult_t rc = comm->ccl != NULL ? cclCommAbort(comm->ccl) : cclSuccess;
    ccl_compat_free(comm);
    return ccl_compat_result(rc);
}
CCL_COMPAT_ALIAS(ncclCommAbort);

ncclResult_t ncclCommRevoke(ncclComm_t comm, int revokeFlags)
{
    if (comm == NULL) {
        return ncclSuccess;
    }
    CCL_COMPAT_TRY(ccl_compat_check_object(comm, "ncclCommRevoke"));
    CCL_COMPAT_CHECK(revokeFlags == NCCL_REVOKE_DEFAULT, ncclInvalidArgument, "ncclCommRevoke: flags are %d, not NCCL_REVOKE_DEFAULT", revokeFlags);
    CCL_COMPAT_CHECK(comm->ccl != NULL, ncclInvalidArgument, "ncclCommRevoke: the communicator is not ready yet");
    CCL_COMPAT_CHECK(!comm->revoked, ncclInvalidUsage, "ncclCommRevoke: the communicator is revoked already");
    comm->revoked = true;
    return ccl_compat_result(ccl_comm_revoke(comm->ccl));
}
CCL_COMPAT_ALIAS(ncclCommRevoke);

static ncclResult_t run_finalize(struct ccl_compat_job *job)
{
    return ccl_compat_result(cclCommFinalize(job->comm->ccl));
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    if (comm == NULL) {
        return ncclSuccess;
    }
    ncclResult_t rc = ccl_compat_check(comm, "ncclCommFinalize");
    if (rc != ncclSuccess) {
        return rc;
    }
    struct ccl_compat_job *job = calloc(1, sizeof(*job));
    if (job == NULL) {
        return ccl_compat_note(ccl_error_set(ncclSystemError, CCL_INIT, "out of memory for a finalize"));
    }
    job->run = run_finalize;
    job->comm = comm;
    job->after = true; /* the operations of this group are part of what it waits for */
    return ccl_compat_submit(job);
}
CCL_COMPAT_ALIAS(ncclCommFinalize);

/* ---- questions ---- */

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *asyncError)
{
    CCL_COMPAT_TRY(ccl_compat_check_object(comm, "ncclCommGetAsyncError"));
    CCL_COMPAT_CHECK(asyncError != NULL, ncclInvalidArgument, "ncclCommGetAsyncError: asyncError is NULL");
    ncclResult_t state = (ncclResult_t)__atomic_load_n(&comm->state, __ATOMIC_ACQUIRE);
    cclResult_t failed = cclSuccess;
    if (state == ncclSuccess && comm->ccl != NULL && !comm->revoked) {
        CCL_COMPAT_TRY(ccl_compat_result(cclCommGetAsyncError(comm->ccl, &failed)));
        state = keep_error(comm, ccl_compat_result(failed));
    }
    *asyncError = state;
    return ncclSuccess;
}
CCL_COMPAT_ALIAS(ncclCommGetAsyncError);

static ncclResult_t answer(ncclComm_t comm, const char *func, int value, int *out)
{
    CCL_COMPAT_CHECK(out != NULL, ncclInvalidArgument, "%s: the output is NULL", func);
    CCL_COMPAT_CHECK(__atomic_load_n(&comm->state, __ATOMIC_ACQUIRE) != ncclInProgress, ncclInvalidArgument,
                     "%s: attempt to use a communicator before the previous operation returned ncclSuccess", func);
    *out = value;
    return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count)
{
    CCL_COMPAT_TRY(ccl_compat_check_object(comm, "ncclCommCount"));
    return answer(comm, "ncclCommCount", comm->n, count);
}
CCL_COMPAT_ALIAS(ncclCommCount);

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device)
{
    CCL_COMPAT_TRY(ccl_compat_check_object(comm, "ncclCommCuDevice"));
    return answer(comm, "ncclCommCuDevice", comm->device, device);
}
CCL_COMPAT_ALIAS(ncclCommCuDevice);

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
    CCL_COMPAT_TRY(ccl_compat_check_object(comm, "ncclCommUserRank"));
    return answer(comm, "ncclCommUserRank", comm->rank, rank);
}
CCL_COMPAT_ALIAS(ncclCommUserRank);
