/* SPDX-License-Identifier: MIT
 *
 * Enqueue the sends and receives of a group: one launch, in which all progress together. What a launch cannot hold goes into further ones, split by the number of the
 * message within its pair, so that both ends split alike. A rank's messages to itself are copies. */
#include "coll/coll.h"
#include "coll/tune.h"

#include <stdlib.h>

#include "util/log.h"

#define PIECE_UNIT 4096u
#define PIECE_MIN 8192u /* 16 bytes of each thread of a GPU's block */

static size_t bytes_of(const struct ccl_p2p_call *call)
{
    return call->count * ccl_type_size(call->type);
}

static bool has_own(cclComm_t comm, const struct ccl_p2p_call *const *calls, size_t count)
{
    bool own = false;
    for (size_t i = 0; i < count; i++) {
        own = own || calls[i]->peer == comm->rank;
    }
    return own;
}

/* The next call from i on that is a message of this direction to itself; count: none. */
static size_t next_own(cclComm_t comm, const struct ccl_p2p_call *const *calls, size_t i, size_t count, uint32_t op)
{
    while (i < count && (calls[i]->peer != comm->rank || calls[i]->op != op)) {
        i++;
    }
    return i;
}

/* The i-th send to itself goes to the i-th receive of itself. copy: enqueue it; else check only. */
static cclResult_t serve_self(cclComm_t comm, const struct ccl_p2p_call *const *calls, size_t count, bool copy, struct cclStream *stream)
{
    size_t s = next_own(comm, calls, 0, count, CCL_OP_SEND), r = next_own(comm, calls, 0, count, CCL_OP_RECV);
    while (s < count && r < count) {
        CCL_CHECK(bytes_of(calls[s]) == bytes_of(calls[r]), cclInvalidUsage, CCL_COLL, "rank %d sends %zu bytes to itself and expects %zu",
                  comm->rank, bytes_of(calls[s]), bytes_of(calls[r]));
        if (copy && calls[s]->count != 0 && calls[s]->buff != calls[r]->buff) {
            CCL_TRY(comm->rt->copy((void *)calls[r]->buff, (const void *)calls[s]->buff, bytes_of(calls[s]), stream));
        }
        s = next_own(comm, calls, s + 1, count, CCL_OP_SEND);
        r = next_own(comm, calls, r + 1, count, CCL_OP_RECV);
    }
    CCL_CHECK(s == count && r == count, cclInvalidUsage, CCL_COLL, "rank %d %s itself, but there is no %s in this group", comm->rank,
              s < count ? "sends to" : "receives from", s < count ? "receive for it" : "send for it");
    return cclSuccess;
}

/* Pieces of a message, as large as leaves each stripe one, and the stripes that have any. Both ends know as much. */
static uint32_t cut(const struct ccl_k_p2p_layout *lay, size_t bytes)
{
    const uint64_t share = bytes / lay->stripes + 1, most = lay->slot_bytes;
    uint64_t piece = share < PIECE_MIN ? PIECE_MIN : ccl_round_up(share, PIECE_UNIT);
    piece = piece < most ? piece : most;
    const uint64_t pieces = (bytes + piece - 1) / piece;
    return CCL_P2P_CUT(piece, pieces < 1 ? 1 : pieces < lay->stripes ? pieces : lay->stripes);
}

/* Returns the stripes of the message. */
static uint32_t add_item(cclComm_t comm, struct ccl_k_p2p_args *a, const struct ccl_p2p_call *call)
{
    const uint32_t cut_as = cut(&a->lay, bytes_of(call));
    struct ccl_window_hit hit;
    uint64_t where = 0;
    if (call->op == CCL_OP_RECV && bytes_of(call) > a->lay.eager_max && comm->agreed.variant != cclVariantStaged &&
        ccl_heap_find(comm->heap, (const void *)call->buff, bytes_of(call), &hit)) {
        where = ccl_window_where(&hit);
    }
    a->item[a->count++] = (struct ccl_k_p2p_item){call->buff, bytes_of(call), where, CCL_WORD1(call->op, call->type, 0, call->peer), cut_as};
    return cut_as & 255;
}

/* A block a lane, at most CCL_COMM_SMS or what the layout has, at least what their shared memory takes. */
static uint32_t grid_of(cclComm_t comm, uint32_t lanes)
{
    const int asked = ccl_tune_asked(comm), blocks = asked != CCL_UNSET ? asked : comm->agreed.blocks;
    const uint32_t least = (lanes + CCL_P2P_ITEMS - 1) / CCL_P2P_ITEMS, most = blocks > (int)least ? (uint32_t)blocks : least;
    return comm->props.is_host ? 1 : lanes < most ? lanes : most;
}

static cclResult_t launch(cclComm_t comm, struct ccl_k_p2p_args *a, uint32_t lanes, struct cclStream *stream)
{
    const struct ccl_launch l = {.kernel = CCL_KERNEL_p2p,
                                 .device = comm->device,
                                 .traced = comm->trace != NULL,
                                 .grid = grid_of(comm, lanes),
                                 .threads = comm->props.is_host ? 1 : 512,
                                 .host_threads = 1,
                                 .args = a,
                                 .args_bytes = (uint32_t)(comm->props.is_host ? offsetof(struct ccl_k_p2p_args, item) + a->count * sizeof(a->item[0])
                                                                              : sizeof(*a))};
    a->c.desc = (struct ccl_k_desc){.word1 = a->item[0].word1, .rows = 1, .count = a->item[0].bytes};
    comm->called = &a->c.desc;
    return comm->rt->launch(stream, &l);
}

/* Calls of message numbers first.. within their pairs, as many numbers as fit, grouped by peer in rotated order. */
static cclResult_t run_part(cclComm_t comm, const struct ccl_p2p_call *const *calls, size_t count, uint32_t first, uint32_t end,
                            struct cclStream *stream)
{
    struct ccl_k_p2p_args *a = comm->p2p_args;
    uint32_t lanes = 0; /* of each peer and direction as many as its largest message has stripes */
    a->count = 0;
    /* For each pair, at its first message in rotated order of the peers, all its messages. */
    for (int d = 1; d < comm->n && a->count < count; d++) {
        for (uint32_t op = CCL_OP_SEND; op <= CCL_OP_RECV; op++) {
            const int peer = op == CCL_OP_SEND ? (comm->rank + d) % comm->n : (comm->rank + comm->n - d) % comm->n;
            uint32_t number = 0, most = 0;
            for (size_t i = 0; i < count && number < end; i++) {
                if (calls[i]->op == op && calls[i]->peer == peer) {
                    if (number >= first) {
                        const uint32_t stripes = add_item(comm, a, calls[i]);
                        most = stripes > most ? stripes : most;
                    }
                    number++;
                }
            }
            lanes += most;
        }
    }
    return a->count != 0 ? launch(comm, a, lanes, stream) : cclSuccess;
}

/* Messages of the call's direction and peer up to it: groups are small. */
static uint32_t number_of(const struct ccl_p2p_call *const *calls, size_t at)
{
    uint32_t number = 0;
    for (size_t i = 0; i <= at; i++) {
        number += calls[i]->op == calls[at]->op && calls[i]->peer == calls[at]->peer;
    }
    return number;
}

static cclResult_t run_all(cclComm_t comm, const struct ccl_p2p_call *const *calls, size_t count, struct cclStream *stream)
{
    uint32_t most = 0, pairs = 0; /* messages of a pair; pairs */
    for (size_t i = 0; i < count; i++) {
        const uint32_t number = calls[i]->peer != comm->rank ? number_of(calls, i) : 0;
        most = number > most ? number : most;
        pairs += number == 1;
    }
    /* Of each pair so many messages a launch: a number that depends on the world alone. */
    uint32_t step = CCL_P2P_ITEMS / (2 * (comm->n > 1 ? (uint32_t)comm->n - 1 : 1));
    step = step == 0 ? 1 : step;
    CCL_CHECK(pairs * (step < most ? step : most) <= CCL_P2P_ITEMS, cclInvalidUsage, CCL_COLL,
              "a group with messages to and from %u ranks together, at most %d", pairs, CCL_P2P_ITEMS);
    for (uint32_t first = 0; first < most; first += step) {
        CCL_TRY(run_part(comm, calls, count, first, first + step, stream));
    }
    return cclSuccess;
}

static cclResult_t create(cclComm_t comm)
{
    struct ccl_k_p2p_args *a = calloc(1, sizeof(*a));
    CCL_CHECK(a != NULL, cclSystemError, CCL_COLL, "out of memory for sends and receives");
    a->c = comm->args;
    a->c.flags = comm->agreed.host_flags;
    a->c.where = 0;
    a->c.expect_id = 0;
    a->lay = comm->p2p;
    a->seq = comm->p2p_seq;
    comm->p2p_args = a;
    return cclSuccess;
}

static cclResult_t p2p(cclComm_t comm, const struct ccl_p2p_call *const *calls, size_t count, struct cclStream *stream)
{
    if (CCL_UNLIKELY(__atomic_load_n(&comm->page->abort, __ATOMIC_RELAXED) != 0)) {
        return ccl_comm_async_error(comm);
    }
    if (CCL_UNLIKELY(comm->p2p_args == NULL)) {
        CCL_TRY(create(comm));
    }
    const bool own = has_own(comm, calls, count);
    cclResult_t rc = own ? serve_self(comm, calls, count, false, stream) : cclSuccess;
    if (rc != cclSuccess) {
        for (size_t i = 0; i < count; i++) {
            if (calls[i]->peer != comm->rank) { /* it would wait */
                ccl_comm_raise(comm, rc, CCL_REASON_REFUSED, comm->rank);
                break;
            }
        }
        return rc;
    }
    CCL_TRY(ccl_coll_begin_ahead(comm, stream));
    rc = own ? serve_self(comm, calls, count, true, stream) : rc;
    return ccl_coll_end(comm, stream, rc == cclSuccess ? run_all(comm, calls, count, stream) : rc);
}

cclResult_t ccl_coll_p2p(cclComm_t comm, const void *const *calls, size_t count, struct cclStream *stream)
{
    int before;
    CCL_TRY(ccl_device_enter(comm->rt, comm->props.is_host, comm->device, &before));
    return ccl_device_leave(comm->rt, before, p2p(comm, (const struct ccl_p2p_call *const *)calls, count, stream));
}
