/* SPDX-License-Identifier: MIT
 *
 * Streams of the host backend. A stream is a queue of task records and a run lock. Whoever holds the run lock executes
 * the tasks in order: a thread that waits for the stream if it can get the lock, else the stream's worker thread, which
 * looks by itself every few milliseconds while there is work, so that an enqueue needs no system call.
 *
 * Positions: queued counts the tasks published, done those executed; both only grow, also when the record of a
 * destroyed stream is used again. So "position p of stream s has been reached" can be asked at any time, without a
 * reference. Records of streams are never given back to the system.
 *
 * Locks, outermost first: run, an event's lock, enq. */
#ifndef CCL_HOST_STREAM_H
#define CCL_HOST_STREAM_H

#include <pthread.h>
#include <sys/types.h>

#include "host.h"
#include "runtime/runtime.h"

#define CCL_HOST_MAX_ARGS 40960 /* bytes of arguments of one launch */

enum ccl_host_task_kind {
    CCL_HOST_TASK_JUMP, /* the next record is in another segment */
    CCL_HOST_TASK_LAUNCH,
    CCL_HOST_TASK_COPY,
    CCL_HOST_TASK_FILL,
    CCL_HOST_TASK_RECORD,
    CCL_HOST_TASK_WAIT
};

/* One record of the queue; the next one follows bytes later. A launch's arguments lie behind it. */
struct ccl_host_task {
    uint32_t bytes; /* of the record, a multiple of CCL_CACHE_LINE */
    uint16_t kind;
    uint16_t byte; /* fill */
    union {
        struct {
            ccl_host_kernel_fn fn;
            uint32_t grid, threads;
        } launch;
        struct {
            void *dst;
            const void *src;
            size_t size_bytes;
        } copy; /* and fill */
        struct {
            struct cclEvent *event; /* a reference of its own */
            uint64_t generation;
        } record;
        struct {
            struct cclStream *stream;
            uint64_t position;
        } wait;
        struct ccl_host_task *jump;
    } u;
};

struct ccl_host_segment {
    struct ccl_host_segment *next; /* circular */
    uint64_t end;                  /* free for reuse when done has reached this position */
    size_t size_bytes;             /* of the records */
    struct ccl_host_task *records;
};

enum ccl_host_worker_state { CCL_HOST_WORKER_NONE, CCL_HOST_WORKER_NAPS, CCL_HOST_WORKER_SLEEPS };
enum ccl_host_wake { CCL_HOST_WAKE_NOT, CCL_HOST_WAKE_LOOK, CCL_HOST_WAKE_RUN };

struct cclStream {
    /* Producers: under enq. */
    uint32_t enq __attribute__((aligned(CCL_CACHE_LINE)));
    uint32_t worker_state; /* enum ccl_host_worker_state */
    uint64_t queued;       /* also read by everybody */
    char *write, *write_end;
    struct ccl_host_segment *segment;
    uint32_t num_segments;

    /* The runner: under run, except done and wait_target. */
    uint32_t run __attribute__((aligned(CCL_CACHE_LINE))); /* 1 while somebody runs tasks */
    uint32_t live;                                         /* between create and destroy */
    uint64_t done;
    uint64_t wait_target; /* smallest position a sleeper waits for; UINT64_MAX: none */
    struct ccl_host_task *next_task;
    uint32_t bell; /* futex of these sleepers */

    /* The worker. */
    uint32_t wake __attribute__((aligned(CCL_CACHE_LINE))); /* futex, enum ccl_host_wake */
    uint32_t stop;
    bool detached; /* the default stream's worker lives as long as the process */
    pid_t owner;   /* process that started the worker, 0: none; a forked child has none to join */
    pthread_t worker;
    struct cclStream *next_all, *next_free;
};

cclResult_t ccl_host_stream_create(struct cclStream **out);
/* Waits for the work of the stream. NULL does nothing: the default stream stays. */
cclResult_t ccl_host_stream_destroy(struct cclStream *stream);
/* The stream itself, or for NULL the default stream of the process, which is made at the first use. */
cclResult_t ccl_host_stream_resolve(struct cclStream *stream, struct cclStream **out);

/* Reserve a record with args_bytes (at most CCL_HOST_MAX_ARGS) behind it and keep the stream locked until commit. The
 * caller fills u. cclSystemError: out of memory, or no worker thread; then nothing is locked. */
cclResult_t ccl_host_stream_begin(struct cclStream *stream, enum ccl_host_task_kind kind, size_t args_bytes,
                                  struct ccl_host_task **task);
/* Publish; returns the position that is reached when the task has run. */
uint64_t ccl_host_stream_commit(struct cclStream *stream, struct ccl_host_task *task);
/* Enqueue fn(args copy, block) for each of grid blocks, on at most so many threads (0: as many as the process may use). */
cclResult_t ccl_host_stream_launch(struct cclStream *stream, ccl_host_kernel_fn fn, uint32_t grid, const void *args,
                                   size_t args_bytes, uint32_t threads);

/* Position of the last task enqueued so far. */
uint64_t ccl_host_stream_tail(const struct cclStream *stream);
bool ccl_host_stream_reached(const struct cclStream *stream, uint64_t position);
/* Return when the position has been reached; runs the stream's tasks in the calling thread if nobody else does. */
void ccl_host_stream_wait(struct cclStream *stream, uint64_t position);
/* Run what is queued unless somebody else does; false then. */
bool ccl_host_stream_try_run(struct cclStream *stream, uint64_t position);
/* Make the worker run the pending tasks now, if there are any and nobody runs them. */
void ccl_host_stream_nudge(struct cclStream *stream);
/* The idle callback of struct ccl_host_block: nudges every stream of the process. */
void ccl_host_streams_idle(void);

/* host_queue.c: segments of a new, respectively a drained stream. */
cclResult_t ccl_host_queue_init(struct cclStream *stream);
void ccl_host_queue_finish(struct cclStream *stream);

#endif
