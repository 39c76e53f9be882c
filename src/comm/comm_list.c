/* SPDX-License-Identifier: MIT
 *
 * The communicators of this process, and the streams they used last: what stream synchronisation, stream destruction and the rule "one rank
 * a stream" need to know. */
#include "comm/comm.h"

#include <pthread.h>

#include "util/log.h"

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t list_idle = PTHREAD_COND_INITIALIZER;
static cclComm_t list;

uint32_t ccl_comm_generation;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

/* The child has copies of objects whose threads, sockets and queued work belong to the parent: they are refused, and forgotten here. */
static void in_child(void)
{
    ccl_comm_generation++;
    pthread_mutex_init(&list_lock, NULL);
    list = NULL;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

void ccl_comm_list_add(cclComm_t comm)
{
    pthread_once(&fork_once, watch_forks);
    comm->generation = ccl_comm_generation;
    pthread_mutex_lock(&list_lock);
    comm->next = list;
    list = comm;
    pthread_mutex_unlock(&list_lock);
}

void ccl_comm_list_remove(cclComm_t comm)
{
    pthread_mutex_lock(&list_lock);
    while (comm->busy > 0) {
        pthread_cond_wait(&list_idle, &list_lock);
    }
    for (cclComm_t *p = &list; *p != NULL; p = &(*p)->next) {
        if (*p == comm) {
            *p = comm->next;
            break;
        }
    }
    pthread_mutex_unlock(&list_lock);
}

bool ccl_comm_claim(cclComm_t comm, bool raise, bool *live)
{
    bool mine = false;
    *live = false;
    pthread_mutex_lock(&list_lock);
    for (cclComm_t c = list; c != NULL && !*live; c = c->next) {
        *live = c == comm;
    }
    if (*live) {
        mine = !comm->closing;
        comm->closing = true;
        if (raise) {
            ccl_comm_raise(comm, cclRemoteError, CCL_REASON_ABORT, -1);
        }
    }
    pthread_mutex_unlock(&list_lock);
    return mine;
}

bool ccl_comm_raise_live(cclComm_t comm)
{
    bool live = false;
    pthread_mutex_lock(&list_lock);
    for (cclComm_t c = list; c != NULL && !live; c = c->next) {
        live = c == comm;
    }
    if (live) {
        ccl_comm_raise(comm, cclRemoteError, CCL_REASON_ABORT, -1);
    }
    pthread_mutex_unlock(&list_lock);
    return live;
}

void ccl_comm_forget_stream(struct cclStream *stream)
{
    pthread_mutex_lock(&list_lock);
    for (cclComm_t c = list; c != NULL; c = c->next) {
        if (c->used_stream && c->last_stream == stream) {
            c->used_stream = false; /* it has drained, or is drained by its destruction */
            c->rt->chain_forget(c->chain, stream);
        }
        for (int i = 0; i < c->num_streams; i++) {
            if (c->streams[i].stream == stream) {
                c->streams[i] = c->streams[--c->num_streams];
                break;
            }
        }
    }
    pthread_mutex_unlock(&list_lock);
}

/* Under the lock. Once a stream. */
static bool must_report(cclComm_t c, struct cclStream *stream)
{
    for (int i = 0; i < c->num_streams; i++) {
        if (c->streams[i].stream == stream) {
            bool first = !c->streams[i].reported;
            c->streams[i].reported = true;
            return first;
        }
    }
    return c->more_streams;
}

cclResult_t ccl_comm_stream_error(struct cclStream *stream)
{
    cclResult_t rc = cclSuccess;
    cclComm_t failed = NULL;
    pthread_mutex_lock(&list_lock);
    for (cclComm_t c = list; c != NULL && failed == NULL; c = c->next) {
        /* An own record means that an operation of this rank failed; a peer may also give up between operations. */
        if (__atomic_load_n(&c->page->err[c->rank].code, __ATOMIC_ACQUIRE) != 0 && must_report(c, stream)) {
            __atomic_store_n(&c->sync_reported, true, __ATOMIC_RELEASE);
            c->busy++;
            failed = c;
        }
    }
    pthread_mutex_unlock(&list_lock);
    if (failed != NULL) {
        rc = ccl_comm_async_error(failed); /* may wait for the other side's record */
        pthread_mutex_lock(&list_lock);
        failed->busy--;
        pthread_cond_broadcast(&list_idle);
        pthread_mutex_unlock(&list_lock);
    }
    return rc;
}

void ccl_comm_add_stream(cclComm_t comm, struct cclStream *stream)
{
    bool known = false;
    pthread_mutex_lock(&list_lock);
    for (int i = 0; i < comm->num_streams && !known; i++) {
        known = comm->streams[i].stream == stream;
    }
    if (!known && comm->num_streams < CCL_COMM_STREAMS) {
        comm->streams[comm->num_streams].reported = false;
        comm->streams[comm->num_streams++].stream = stream;
    } else if (!known) {
        comm->more_streams = true;
    }
    pthread_mutex_unlock(&list_lock);
}

static cclResult_t check_stream_free(cclComm_t comm, struct cclStream *stream)
{
    int other = -1;
    pthread_mutex_lock(&list_lock);
    for (cclComm_t c = list; c != NULL && other < 0; c = c->next) {
        if (c != comm && c->agreed.world_id == comm->agreed.world_id && c->used_stream && c->last_stream == stream) {
            other = c->rank;
        }
    }
    pthread_mutex_unlock(&list_lock);
    CCL_CHECK(other < 0, cclInvalidUsage, CCL_COLL,
              "ranks %d and %d of one communicator use the same stream outside a group, each would wait for the other",
              other, comm->rank);
    return cclSuccess;
}

cclResult_t ccl_comm_use_stream(cclComm_t comm, struct cclStream *stream, bool in_group)
{
    if (!in_group) {
        CCL_TRY(check_stream_free(comm, stream));
    }
    pthread_mutex_lock(&list_lock);
    comm->last_stream = stream;
    comm->used_stream = true;
    pthread_mutex_unlock(&list_lock);
    ccl_comm_add_stream(comm, stream);
    return cclSuccess;
}
