/* SPDX-License-Identifier: MIT
 *
 * Groups; see group.h. State is per thread. */
#include "comm/group.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"

#define ARG_BYTES 320
#define FEW 16 /* calls of a batch whose places need no memory */

struct job {
    struct job *next;
    enum ccl_job_kind kind;
    ccl_job_fn run;
    ccl_batch_fn batch;
    bool taken; /* a batch has it */
    cclComm_t comm;
    struct cclStream *stream;
    int device;
    cclResult_t rc;
    _Alignas(16) char arg[]; /* as long as the call needs */
};

/* Jobs of one communicator, run in order by one thread. */
struct lane {
    struct lane *next;
    cclComm_t comm;
    struct job **jobs;
    size_t count;
    pthread_t thread;
    bool started;
    cclResult_t rc;
    char error[512];
};

static _Thread_local int depth;
static _Thread_local bool running;
static _Thread_local cclResult_t group_error;
static _Thread_local struct job *first_job, *last_job;
static _Thread_local size_t job_count;
static _Thread_local bool setups, apart; /* some job is a setup; jobs differ in kind of that sort, communicator or stream */
static _Thread_local struct kept {
    struct kept *next;
    void *memory;
} *first_kept;

bool ccl_group_active(void)
{
    return depth > 0;
}

bool ccl_group_running(void)
{
    return running;
}

cclResult_t ccl_group_note(cclResult_t rc)
{
    if (depth > 0 && rc != cclSuccess && group_error == cclSuccess) {
        group_error = rc;
    }
    return rc;
}

cclResult_t ccl_group_start(void)
{
    depth++;
    return cclSuccess;
}

static cclResult_t add_job(const struct job *wanted, const void *arg, size_t bytes)
{
    const struct ccl_runtime_ops *rt;
    int device;
    CCL_TRY(ccl_runtime_get(&rt));
    CCL_TRY(rt->device_get(&device));
    struct job *job = malloc(sizeof(*job) + bytes);
    CCL_CHECK(job != NULL, cclSystemError, CCL_COLL, "out of memory for a grouped call");
    *job = *wanted;
    memcpy(job->arg, arg, bytes);
    job->device = device;
    setups = setups || job->kind == CCL_JOB_SETUP;
    apart = apart || setups || (last_job != NULL && (last_job->comm != job->comm || last_job->stream != job->stream));
    if (last_job != NULL) {
        last_job->next = job;
    } else {
        first_job = job;
    }
    last_job = job;
    job_count++;
    return cclSuccess;
}

cclResult_t ccl_group_submit(enum ccl_job_kind kind, ccl_job_fn run, const void *arg, size_t bytes, cclComm_t comm,
                             struct cclStream *stream)
{
    const struct job job = {.kind = kind, .run = run, .comm = comm, .stream = stream};
    if (depth == 0) {
        _Alignas(16) char copy[ARG_BYTES];
        memcpy(copy, arg, bytes);
        return run(copy, stream);
    }
    return add_job(&job, arg, bytes);
}

cclResult_t ccl_group_submit_batch(ccl_batch_fn run, const void *arg, size_t bytes, cclComm_t comm, struct cclStream *stream)
{
    const struct job job = {.kind = CCL_JOB_BATCH, .batch = run, .comm = comm, .stream = stream};
    return depth == 0 ? run(comm, &arg, 1, stream) : add_job(&job, arg, bytes);
}

cclResult_t ccl_group_keep(void *memory)
{
    struct kept *kept = malloc(sizeof(*kept));
    CCL_CHECK(kept != NULL, cclSystemError, CCL_COLL, "out of memory for a grouped call");
    *kept = (struct kept){first_kept, memory};
    first_kept = kept;
    return cclSuccess;
}

static void *run_lane(void *arg)
{
    struct lane *lane = arg;
    const struct ccl_runtime_ops *rt;
    for (size_t i = 0; i < lane->count && lane->rc == cclSuccess; i++) {
        lane->rc = ccl_runtime_get(&rt);
        if (lane->rc == cclSuccess) {
            lane->rc = rt->device_set(lane->jobs[i]->device);
        }
        if (lane->rc == cclSuccess) {
            lane->rc = lane->jobs[i]->run(lane->jobs[i]->arg, NULL);
        }
    }
    if (lane->rc != cclSuccess) {
        strncpy(lane->error, ccl_error_last(), sizeof(lane->error) - 1);
    }
    return NULL;
}

static struct lane *lane_for(struct lane **lanes, cclComm_t comm, size_t max_jobs)
{
    struct lane **p = lanes;
    while (*p != NULL && (comm == NULL || (*p)->comm != comm)) {
        p = &(*p)->next;
    }
    if (*p == NULL && (*p = calloc(1, sizeof(**p))) != NULL) {
        (*p)->comm = comm;
        (*p)->jobs = calloc(max_jobs, sizeof(struct job *));
    }
    return *p;
}

static cclResult_t run_setups(void)
{
    struct lane *lanes = NULL;
    cclResult_t rc = cclSuccess;
    for (struct job *job = first_job; job != NULL && rc == cclSuccess; job = job->next) {
        if (job->kind == CCL_JOB_SETUP) {
            struct lane *lane = lane_for(&lanes, job->comm, job_count);
            if (lane == NULL || lane->jobs == NULL) {
                rc = ccl_error_set(cclSystemError, CCL_COLL, "out of memory for a group of %zu calls", job_count);
            } else {
                lane->jobs[lane->count++] = job;
            }
        }
    }
    for (struct lane *lane = lanes; lane != NULL && rc == cclSuccess; lane = lane->next) {
        /* Always on a thread of its own: a collective setup call needs all its ranks at once. */
        lane->started = pthread_create(&lane->thread, NULL, run_lane, lane) == 0;
        if (!lane->started) {
            /* The lanes already started wait for this one until their deadline, then fail by name. */
            rc = ccl_error_set(cclSystemError, CCL_COLL, "no thread for a grouped call");
        }
    }
    while (lanes != NULL) {
        struct lane *lane = lanes;
        lanes = lane->next;
        if (lane->started) {
            pthread_join(lane->thread, NULL);
        }
        if (lane->rc != cclSuccess && rc == cclSuccess) {
            rc = ccl_error_set(lane->rc, CCL_COLL, "%s", lane->error);
        }
        free(lane->jobs);
        free(lane);
    }
    return rc;
}

/* Ranks of one world on one stream must run at the same time: all but the first move to a stream of their own, behind the same events. */
static bool needs_own_stream(const struct job *job)
{
    for (const struct job *j = first_job; apart && j != job; j = j->next) {
        if (j->kind != CCL_JOB_SETUP && j->stream == job->stream && j->comm != job->comm &&
            j->comm->agreed.world_id == job->comm->agreed.world_id) {
            return true;
        }
    }
    return false;
}

/* What later enqueues to `behind` waits for what `first` holds now. The device of both is current. Where `first` is being captured, `behind`
 * becomes part of the capture until it is chained back. */
static cclResult_t chain_streams(const struct ccl_runtime_ops *rt, struct cclStream *first, struct cclStream *behind)
{
    struct cclEvent *event;
    CCL_TRY(rt->event_create(&event));
    cclResult_t rc = rt->event_record(event, first);
    rc = rc != cclSuccess ? rc : rt->event_wait(behind, event);
    rt->event_destroy(event);
    return rc;
}

static cclResult_t open_own_stream(const struct job *job)
{
    const struct ccl_runtime_ops *rt = job->comm->rt;
    if (job->comm->own_stream == NULL) {
        CCL_TRY(rt->stream_create(&job->comm->own_stream));
    }
    return chain_streams(rt, job->stream, job->comm->own_stream);
}

static cclResult_t close_own_stream(const struct job *job)
{
    return chain_streams(job->comm->rt, job->comm->own_stream, job->stream);
}

/* step on the device of the job's communicator. */
static cclResult_t on_its_device(const struct job *job, cclResult_t (*step)(const struct job *job))
{
    int before;
    CCL_TRY(ccl_device_enter(job->comm->rt, job->comm->props.is_host, job->comm->device, &before));
    return ccl_device_leave(job->comm->rt, before, step(job));
}

/* Before the first job: own streams start behind what the user has enqueued so far. */
static cclResult_t open_own_streams(void)
{
    for (struct job *job = first_job; apart && job != NULL; job = job->next) {
        if (job->kind != CCL_JOB_SETUP && needs_own_stream(job)) {
            CCL_TRY(on_its_device(job, open_own_stream));
        }
    }
    return cclSuccess;
}

/* Operations before job are enqueued, job failed and the rest will not come: ranks of this group would wait for each other for ever. */
static void give_up(const struct job *job, cclResult_t code)
{
    for (const struct job *j = first_job; j != NULL; j = j->next) {
        if (j->kind != CCL_JOB_SETUP && j != job && j->comm != job->comm && j->comm->agreed.world_id == job->comm->agreed.world_id) {
            ccl_comm_raise(j->comm, code, CCL_REASON_ABORT, -1);
        }
    }
}

static struct cclStream *stream_of(const struct job *job)
{
    bool own = needs_own_stream(job);
    if (own) {
        ccl_comm_add_stream(job->comm, job->stream); /* whose synchronisation reports its errors */
    }
    return own ? job->comm->own_stream : job->stream;
}

/* All calls of job's batch as one, on its stream; the other streams of these calls wait before and behind. */
static cclResult_t run_batch(struct job *job)
{
    cclComm_t comm = job->comm;
    struct cclStream *stream = stream_of(job), **others = apart ? calloc(job_count, sizeof(struct cclStream *)) : NULL;
    const void *few[FEW], **args = job_count <= FEW ? few : calloc(job_count, sizeof(*args));
    size_t count = 0, num_others = 0;
    cclResult_t rc = (others != NULL || !apart) && args != NULL ? cclSuccess
                                                                : ccl_error_set(cclSystemError, CCL_COLL, "out of memory for a group of %zu calls", job_count);
    for (struct job *j = job; j != NULL && rc == cclSuccess; j = j->next) {
        if (j->kind != CCL_JOB_BATCH || j->comm != comm || j->batch != job->batch) {
            continue;
        }
        struct cclStream *its = stream_of(j);
        size_t known = 0;
        while (known < num_others && others[known] != its) {
            known++;
        }
        if (its != stream && known == num_others) {
            others[num_others++] = its;
            ccl_comm_add_stream(comm, its);
            rc = chain_streams(comm->rt, its, stream);
        }
        args[count++] = j->arg;
        j->taken = true;
    }
    rc = rc == cclSuccess ? job->batch(comm, args, count, stream) : rc;
    for (size_t i = 0; i < num_others && rc == cclSuccess; i++) {
        rc = chain_streams(comm->rt, stream, others[i]);
    }
    free(others);
    if (args != few) {
        free(args);
    }
    return rc;
}

static cclResult_t run_one(struct job *job)
{
    if (job->kind == CCL_JOB_ENQUEUE) {
        return job->run(job->arg, stream_of(job));
    }
    int before;
    CCL_TRY(ccl_device_enter(job->comm->rt, job->comm->props.is_host, job->comm->device, &before));
    return ccl_device_leave(job->comm->rt, before, run_batch(job));
}

static cclResult_t capture_of(const struct job *job, uint64_t *id)
{
    int before;
    CCL_TRY(ccl_device_enter(job->comm->rt, job->comm->props.is_host, job->comm->device, &before));
    return ccl_device_leave(job->comm->rt, before, job->comm->rt->capture_query(job->stream, id));
}

/* The streams of a communicator wait for each other: in a graph and outside, or in two graphs, they cannot. */
static cclResult_t check_captures(void)
{
    for (const struct job *job = first_job; apart && job != NULL; job = job->next) {
        const struct job *j = first_job;
        while (j != job && (j->kind == CCL_JOB_SETUP || j->comm != job->comm)) {
            j = j->next;
        }
        if (job->kind != CCL_JOB_SETUP && j->stream != job->stream) {
            uint64_t first, its;
            CCL_TRY(capture_of(j, &first));
            CCL_TRY(capture_of(job, &its));
            CCL_CHECK(first == its, cclInvalidUsage, CCL_COLL,
                      "rank %d: the streams of a communicator in a group are all captured into one graph, or none of them is", job->comm->rank);
        }
    }
    return cclSuccess;
}

/* Collectives first, then sends and receives: the same order on all ranks. */
static cclResult_t run_enqueues(void)
{
    static const enum ccl_job_kind order[] = {CCL_JOB_ENQUEUE, CCL_JOB_BATCH};
    CCL_TRY(check_captures());
    CCL_TRY(open_own_streams());
    for (size_t i = 0; i < CCL_ARRAY_LEN(order); i++) {
        for (struct job *job = first_job; job != NULL; job = job->next) {
            cclResult_t rc = job->kind == order[i] && !job->taken ? run_one(job) : cclSuccess;
            if (rc != cclSuccess) {
                give_up(job, rc);
                return rc;
            }
        }
    }
    /* Behind the last job: the user's streams go on when the own streams are through. */
    for (struct job *job = first_job; apart && job != NULL; job = job->next) {
        if (job->kind != CCL_JOB_SETUP && needs_own_stream(job)) {
            CCL_TRY(on_its_device(job, close_own_stream));
        }
    }
    return cclSuccess;
}

cclResult_t ccl_group_end(void)
{
    CCL_CHECK(depth > 0, cclInvalidUsage, CCL_COLL, "cclGroupEnd without cclGroupStart");
    if (--depth > 0) {
        return cclSuccess;
    }
    cclResult_t rc = group_error;
    running = true;
    if (rc == cclSuccess && setups) {
        rc = run_setups();
    }
    if (rc == cclSuccess) {
        rc = run_enqueues();
    }
    running = false;
    while (first_job != NULL) {
        struct job *job = first_job;
        first_job = job->next;
        free(job);
    }
    while (first_kept != NULL) {
        struct kept *kept = first_kept;
        first_kept = kept->next;
        free(kept->memory);
        free(kept);
    }
    last_job = NULL;
    job_count = 0;
    setups = apart = false;
    group_error = cclSuccess;
    return rc;
}
