/* SPDX-License-Identifier: MIT
 *
 * Groups, and where the calls run that make, split or end communicators. The operations of a group are libccl's: it keeps them and enqueues them at the
 * outermost end. The other calls are jobs. On a blocking communicator a job runs in the call or, in a group, at its end, side by side with the jobs
 * of other communicators (libccl gives each a thread, for ranks of one process wait for each other). On a non-blocking one it runs in a thread
 * of its own; the call, or the group's end, returns ncclInProgress. State is per thread. */
#include "compat.h"

#include <pthread.h>
#include <stdlib.h>

static _Thread_local struct {
    int depth;
    bool has_mode, blocking; /* of the communicators in this group */
    struct ccl_compat_job *first, *last;
} group;

bool ccl_compat_grouped(void)
{
    return group.depth > 0;
}

ncclResult_t ccl_compat_join(ncclComm_t comm, const char *func)
{
    if (CCL_LIKELY(group.depth == 0)) {
        return ncclSuccess;
    }
    bool blocking = comm->config.blocking != 0;
    if (group.has_mode && group.blocking != blocking) {
        return ccl_compat_note(
            ccl_error_set(ncclInvalidArgument, CCL_INIT, "%s: blocking and non-blocking communicators may not be in one group", func));
    }
    group.has_mode = true;
    group.blocking = blocking;
    return ncclSuccess;
}

/* ---- jobs ---- */

/* job has run, or will not run: rc says why. Tell the program and the communicator. Frees job. */
static void finish(struct ccl_compat_job *job, ncclResult_t rc)
{
    ncclComm_t comm = job->comm;
    bool blocking = comm->config.blocking != 0;
    if (rc != ncclSuccess && job->child != NULL) {
        ccl_compat_free(job->child);
        job->child = NULL;
    }
    if (job->out != NULL && !job->early_out) {
        __atomic_store_n(job->out, job->child, __ATOMIC_RELEASE); /* before the state changes: who polls the parent finds the child */
    }
    if (rc != ncclSuccess && blocking && job->early_out) {
        *job->out = NULL;
        ccl_compat_drop(comm);
    } else {
        /* A blocking call has told its error; it is none of the communicator's. */
        ccl_compat_end(comm, blocking ? ncclSuccess : rc);
    }
    free(job);
}

static void run(struct ccl_compat_job *job)
{
    ccl_comm_set_cancel(&job->comm->cancel); /* an abort in another thread ends its waits */
    job->rc = job->run(job);
    job->ran = true;
    ccl_comm_set_cancel(NULL);
}

static cclResult_t run_in_lane(void *arg, struct cclStream *stream)
{
    struct ccl_compat_job *job = *(struct ccl_compat_job **)arg;
    (void)stream;
    run(job);
    return (cclResult_t)job->rc;
}

static void *run_in_background(void *arg)
{
    struct ccl_compat_job *job = arg;
    ncclResult_t rc = ncclSuccess;
    while (job != NULL) {
        struct ccl_compat_job *next = job->next;
        rc = rc != ncclSuccess ? rc : ccl_compat_result(cclSetDevice(job->device));
        if (rc == ncclSuccess) {
            run(job);
            rc = job->rc;
        }
        finish(job, rc);
        job = next;
    }
    return NULL;
}

/* jobs: of one communicator. */
static ncclResult_t start(struct ccl_compat_job *jobs)
{
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    int err = pthread_create(&thread, &attr, run_in_background, jobs);
    pthread_attr_destroy(&attr);
    if (err == 0) {
        return ncclInProgress;
    }
    ncclResult_t rc = ccl_error_set(ncclSystemError, CCL_INIT, "no thread for a non-blocking call");
    while (jobs != NULL) {
        struct ccl_compat_job *next = jobs->next;
        finish(jobs, rc);
        jobs = next;
    }
    return rc;
}

static ncclResult_t keep(struct ccl_compat_job *job)
{
    if (group.last != NULL) {
        group.last->next = job;
    } else {
        group.first = job;
    }
    group.last = job;
    if (job->comm->config.blocking == 0) {
        return ncclInProgress;
    }
    return job->after ? ncclSuccess
                      : ccl_compat_result(ccl_group_submit(CCL_JOB_SETUP, run_in_lane, &job, sizeof(job), job->comm->ccl, NULL));
}

ncclResult_t ccl_compat_submit(struct ccl_compat_job *job)
{
    bool blocking = job->comm->config.blocking != 0;
    ncclResult_t rc = ccl_compat_result(cclGetDevice(&job->device));
    if (rc == ncclSuccess && !blocking && job->out != NULL && !job->early_out) {
        *job->out = NULL;
    }
    ccl_compat_begin(job->comm);
    if (rc == ncclSuccess && group.depth > 0) {
        return ccl_compat_note(keep(job)); /* finished by the group's end, whatever it returns */
    }
    if (rc == ncclSuccess && !blocking) {
        return start(job);
    }
    if (rc == ncclSuccess) {
        run(job);
        rc = job->rc;
    }
    finish(job, rc);
    return ccl_compat_note(rc);
}

static ncclResult_t run_destroy(struct ccl_compat_job *job)
{
    return ccl_compat_destroy_now(job->comm);
}

ncclResult_t ccl_compat_destroy_later(ncclComm_t comm)
{
    struct ccl_compat_job *job = calloc(1, sizeof(*job));
    if (job == NULL) {
        return ccl_compat_note(ccl_error_set(ncclSystemError, CCL_INIT, "out of memory for a destroy"));
    }
    job->run = run_destroy;
    job->comm = comm;
    job->after = true;
    if (group.last != NULL) {
        group.last->next = job;
    } else {
        group.first = job;
    }
    group.last = job;
    return ncclSuccess;
}

/* ---- the calls ---- */

ncclResult_t ncclGroupStart(void)
{
    cclResult_t rc = cclGroupStart();
    group.depth += rc == cclSuccess;
    return ccl_compat_result(rc);
}
CCL_COMPAT_ALIAS(ncclGroupStart);

/* Take the jobs of the first one's communicator out of *jobs, in order. */
static struct ccl_compat_job *take_chain(struct ccl_compat_job **jobs)
{
    struct ccl_compat_job *chain = *jobs, **end = &chain->next, *rest = chain->next, **rest_end = jobs;
    *jobs = NULL;
    chain->next = NULL;
    while (rest != NULL) {
        struct ccl_compat_job *job = rest, ***to = job->comm == chain->comm ? &end : &rest_end;
        rest = job->next;
        job->next = NULL;
        **to = job;
        *to = &job->next;
    }
    return chain;
}

/* The jobs of a group whose operations are enqueued, or which has failed with rc. Destroys come last: they wait for the calls in the background. */
static ncclResult_t end_jobs(struct ccl_compat_job *jobs, ncclResult_t rc)
{
    struct ccl_compat_job *background = NULL, **background_end = &background, *destroys = NULL, **destroys_end = &destroys;
    ncclResult_t result = rc;
    while (jobs != NULL) {
        struct ccl_compat_job *job = jobs;
        jobs = job->next;
        job->next = NULL;
        if (job->run == run_destroy) {
            *destroys_end = job;
            destroys_end = &job->next;
        } else if (job->comm->config.blocking == 0 && rc == ncclSuccess) {
            *background_end = job;
            background_end = &job->next;
        } else {
            if (job->after && rc == ncclSuccess) {
                run(job);
                result = result != ncclSuccess ? result : job->rc;
            }
            finish(job, job->ran ? job->rc : rc);
        }
    }
    while (background != NULL) {
        ncclResult_t started = start(take_chain(&background));
        result = result == ncclSuccess || result == ncclInProgress ? started : result;
    }
    while (destroys != NULL) { /* also when the group has failed: the program will not ask again */
        struct ccl_compat_job *job = destroys;
        destroys = job->next;
        ncclResult_t destroyed = job->run(job);
        result = result == ncclSuccess && destroyed != ncclSuccess ? destroyed : result;
        free(job);
    }
    return result;
}

static ncclResult_t group_end(void)
{
    if (group.depth > 1) {
        group.depth--;
        return ccl_compat_result(cclGroupEnd());
    }
    struct ccl_compat_job *jobs = group.first;
    group.depth = 0;
    group.has_mode = false;
    group.first = group.last = NULL;
    ncclResult_t rc = ccl_compat_result(cclGroupEnd()); /* without a start: refuses, by name */
    return end_jobs(jobs, rc);
}

ncclResult_t ncclGroupEnd(void)
{
    return group_end();
}
CCL_COMPAT_ALIAS(ncclGroupEnd);

/* There is no model of the time a group takes. The group ends as it would after an error: nothing of it happens. */
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *simInfo)
{
    (void)simInfo;
    bool open = group.depth > 0;
    ncclResult_t rc = ccl_error_set(ncclInvalidUsage, CCL_COLL, "ncclGroupSimulateEnd: libccl cannot estimate the time of a group");
    if (open) {
        ccl_compat_note(rc);
        group_end();
    }
    return rc;
}
CCL_COMPAT_ALIAS(ncclGroupSimulateEnd);
