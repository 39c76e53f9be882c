/* SPDX-License-Identifier: MIT
 *
 * The producing side of a stream: records in a ring of segments that grows when the next segment is still in use. A
 * record that does not fit ends its segment with a jump, which counts as a task: when done has passed it no runner
 * looks into the old segment any more, so it can be used again or given back. */
#include <stdlib.h>
#include <string.h>

#include "runtime/host_futex.h"
#include "runtime/host_stream.h"
#include "runtime/host_workers.h"
#include "util/log.h"

#define SEGMENT_BYTES 65536
#define KEEP_SEGMENTS 4 /* a longer ring shrinks again when its segments are free */
#define JUMP_BYTES CCL_CACHE_LINE

_Static_assert(sizeof(struct ccl_host_task) <= JUMP_BYTES, "a record without arguments is one line");
_Static_assert(CCL_HOST_MAX_ARGS + 2 * JUMP_BYTES < SEGMENT_BYTES, "every record fits into an empty segment");

static struct ccl_host_segment *segment_create(void)
{
    struct ccl_host_segment *seg = malloc(sizeof(*seg));
    if (seg == NULL) {
        return NULL;
    }
    seg->records = aligned_alloc(CCL_CACHE_LINE, SEGMENT_BYTES);
    if (seg->records == NULL) {
        free(seg);
        return NULL;
    }
    seg->next = seg;
    seg->end = 0;
    seg->size_bytes = SEGMENT_BYTES;
    return seg;
}

static void segment_destroy(struct ccl_host_segment *seg)
{
    free(seg->records);
    free(seg);
}

/* The end of a segment keeps room for a jump. */
static void use_segment(struct cclStream *s, struct ccl_host_segment *seg)
{
    s->segment = seg;
    s->write = (char *)seg->records;
    s->write_end = s->write + seg->size_bytes - JUMP_BYTES;
}

cclResult_t ccl_host_queue_init(struct cclStream *s)
{
    struct ccl_host_segment *seg = segment_create();
    CCL_CHECK(seg != NULL, cclSystemError, CCL_RT, "out of memory for a stream's queue, %d bytes", SEGMENT_BYTES);
    use_segment(s, seg);
    s->num_segments = 1;
    s->next_task = seg->records;
    return cclSuccess;
}

void ccl_host_queue_finish(struct cclStream *s)
{
    while (s->num_segments > 0) {
        struct ccl_host_segment *seg = s->segment;
        s->segment = seg->next;
        segment_destroy(seg);
        s->num_segments--;
    }
    s->segment = NULL;
    s->write = s->write_end = NULL;
    s->next_task = NULL;
}

/* Go on in a free segment. On failure the queue is as it was. */
static cclResult_t next_segment(struct cclStream *s)
{
    /* Pairs with the release of done in the runner, which comes after its last look into the segment. */
    uint64_t done = __atomic_load_n(&s->done, __ATOMIC_ACQUIRE);
    struct ccl_host_segment *old = s->segment, *seg = old->next;
    if (seg == old || seg->end > done) {
        seg = segment_create();
        CCL_CHECK(seg != NULL, cclSystemError, CCL_RT, "out of memory for a stream's queue with %llu pending tasks",
                  (unsigned long long)(s->queued - done));
        seg->next = old->next;
        old->next = seg;
        s->num_segments++;
    } else if (s->num_segments > KEEP_SEGMENTS && seg->next != old && seg->next->end <= done) {
        struct ccl_host_segment *surplus = seg->next;
        seg->next = surplus->next;
        segment_destroy(surplus);
        s->num_segments--;
    }
    struct ccl_host_task *jump = (struct ccl_host_task *)(void *)s->write;
    jump->bytes = JUMP_BYTES;
    jump->kind = CCL_HOST_TASK_JUMP;
    jump->u.jump = seg->records;
    old->end = s->queued + 1;
    use_segment(s, seg);
    __atomic_store_n(&s->queued, s->queued + 1, __ATOMIC_RELEASE); /* pairs with the acquire in the runner */
    return cclSuccess;
}

cclResult_t ccl_host_stream_begin(struct cclStream *s, enum ccl_host_task_kind kind, size_t args_bytes,
                                  struct ccl_host_task **out)
{
    size_t bytes = ccl_round_up(sizeof(struct ccl_host_task) + args_bytes, CCL_CACHE_LINE);
    cclResult_t rc = cclSuccess;
    ccl_host_spin_lock(&s->enq);
    if (CCL_UNLIKELY(s->worker_state == CCL_HOST_WORKER_NONE)) {
        CCL_TRY_GOTO(ccl_host_worker_start(s), err_unlock);
    }
    if (CCL_UNLIKELY((size_t)(s->write_end - s->write) < bytes)) {
        CCL_TRY_GOTO(next_segment(s), err_unlock);
    }
    struct ccl_host_task *task = (struct ccl_host_task *)(void *)s->write;
    task->bytes = (uint32_t)bytes;
    task->kind = (uint16_t)kind;
    *out = task;
    return cclSuccess;
err_unlock:
    ccl_host_spin_unlock(&s->enq);
    return rc;
}

uint64_t ccl_host_stream_commit(struct cclStream *s, struct ccl_host_task *task)
{
    uint64_t position = s->queued + 1;
    bool asleep = s->worker_state == CCL_HOST_WORKER_SLEEPS;
    s->write += task->bytes;
    __atomic_store_n(&s->queued, position, __ATOMIC_RELEASE); /* pairs with the acquire in the runner */
    if (CCL_UNLIKELY(asleep)) {
        s->worker_state = CCL_HOST_WORKER_NAPS;
    }
    ccl_host_spin_unlock(&s->enq);
    if (CCL_UNLIKELY(asleep)) {
        ccl_host_worker_wake(s, CCL_HOST_WAKE_LOOK);
    }
    return position;
}

cclResult_t ccl_host_stream_launch(struct cclStream *s, ccl_host_kernel_fn fn, uint32_t grid, const void *args,
                                   size_t args_bytes, uint32_t threads)
{
    struct ccl_host_task *task;
    CCL_CHECK(args_bytes <= CCL_HOST_MAX_ARGS, cclInvalidArgument, CCL_RT, "%zu bytes of kernel arguments, at most %d",
              args_bytes, CCL_HOST_MAX_ARGS);
    CCL_TRY(ccl_host_stream_begin(s, CCL_HOST_TASK_LAUNCH, args_bytes, &task));
    task->u.launch.fn = fn;
    task->u.launch.grid = grid;
    task->u.launch.threads = threads;
    if (args_bytes > 0) {
        memcpy(task + 1, args, args_bytes);
    }
    ccl_host_stream_commit(s, task);
    return cclSuccess;
}
