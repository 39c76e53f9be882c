/* SPDX-License-Identifier: MIT
 *
 * Collectives: from a checked call to a launch. */
#ifndef CCL_COLL_H
#define CCL_COLL_H

#include "comm/comm.h"

struct ccl_coll_call {
    uint32_t op; /* enum ccl_op */
    cclDataType_t type;
    const void *send;
    void *recv;
    size_t rows, count, ld_send, ld_recv; /* elements; 1-D: rows 1, leading dimensions equal to count */
    int root;
    cclRedOp_t redop;        /* built in, or cclNumOps: the sum of elements multiplied by scalar */
    uint64_t scalar;         /* its bits, or its address */
    bool scalar_on_device;
    struct { /* all-to-all-v: an entry a rank, elements */
        const size_t *sendcounts, *sdispls, *recvcounts, *rdispls;
    } v;
    bool has_config;
    cclCallConfig_t config;
};

/* One cclSend or cclRecv. */
struct ccl_p2p_call {
    uint32_t op; /* CCL_OP_SEND, CCL_OP_RECV */
    cclDataType_t type;
    int peer;
    uint64_t buff;
    size_t count;
};

/* Enqueue on stream; NULL is the default stream of the communicator's device. */
cclResult_t ccl_coll_all_gather(cclComm_t comm, const struct ccl_coll_call *call, struct cclStream *stream);
cclResult_t ccl_coll_barrier(cclComm_t comm, struct cclStream *stream);
/* All other collectives. */
cclResult_t ccl_coll_run(cclComm_t comm, const struct ccl_coll_call *call, struct cclStream *stream);
/* The sends and receives of a group (calls: struct ccl_p2p_call), in issue order. A ccl_batch_fn of comm/group.h. */
cclResult_t ccl_coll_p2p(cclComm_t comm, const void *const *calls, size_t count, struct cclStream *stream);

/* coll/redop.c: operators of users. */
cclResult_t ccl_redop_create(cclComm_t comm, const void *scalar, cclDataType_t type, cclScalarResidence_t residence, cclRedOp_t *op);
/* NULL: none of comm. */
const struct ccl_redop *ccl_redop_find(cclComm_t comm, cclRedOp_t op);
bool ccl_redop_destroy(cclComm_t comm, cclRedOp_t op);

/* What stands before and behind the launches of an operation: the order of the communicator over its streams. rc: of the launches; returned when it is
 * an error. */
cclResult_t ccl_coll_begin(cclComm_t comm, struct cclStream *stream);
/* The same for operations that need no meeting before them: sends and receives, and what runs ahead. */
cclResult_t ccl_coll_begin_ahead(cclComm_t comm, struct cclStream *stream);

/* coll/ahead.c: does such an operation, part_bytes between two ranks, run ahead? Then CCL_PARTS_* of the next one; the caller enqueues it. */
bool ccl_coll_can_run_ahead(cclComm_t comm, uint32_t op, uint64_t part_bytes);
uint32_t ccl_coll_run_ahead(cclComm_t comm);
/* Where operations before ran ahead: enqueue one in which all wait for all. */
cclResult_t ccl_coll_meet(cclComm_t comm, struct cclStream *stream);
cclResult_t ccl_coll_end(cclComm_t comm, struct cclStream *stream, cclResult_t rc);

/* What a kernel may expect of the peers' windows: their bases of the one that hit lies in, where the host has them. */
static inline void ccl_coll_expect(cclComm_t comm, const struct ccl_window_hit *hit, struct ccl_k_coll_args *a)
{
    if (hit->bases != NULL && comm->n <= CCL_VALUE_PEERS) {
        a->expect_id = hit->id;
        for (int r = 0; r < comm->n; r++) {
            a->peer[r].win = hit->bases[r];
        }
    }
}

/* Decide variant, grid and tile from what all ranks know alike, and fill plan and the shape fields of args. */
cclResult_t ccl_coll_plan(cclComm_t comm, const struct ccl_coll_call *call, struct ccl_plan *plan,
                          struct ccl_k_coll_args *args);
size_t ccl_type_size(cclDataType_t type);
/* What all ranks must agree on, in 32 bits; never CCL_SIG_REVOKED. */
uint32_t ccl_coll_signature(const uint64_t *words, size_t count);
/* One kernel of the current plan, with the current arguments. */
cclResult_t ccl_coll_launch(cclComm_t comm, enum ccl_kernel kernel, struct cclStream *stream);

/* coll/words.c: is there a shorter kernel, and its arguments but for pointers: for the communicator's plan of an all-gather, ll_words_W; for an all-reduce by LL as
 * p says, if it is one that can be summed so (all ranks know that alike), sum_words_W. Peers may run it or not. */
bool ccl_words_gather(cclComm_t comm);
bool ccl_words_can_sum(const struct ccl_coll_call *call);
bool ccl_words_sum(cclComm_t comm, const struct ccl_k_parts_args *p, struct ccl_k_words_args *w);

/* coll/copy.c. Find where the peers' inputs lie, before anything is enqueued: *bases by rank, borrowed until the next call on the heap. cclInvalidUsage, on
 * all ranks: the input lies in no heap chunk (named). */
cclResult_t ccl_coll_copy_find(cclComm_t comm, const struct ccl_coll_call *call, const uint64_t **bases);
/* Enqueue all of it. */
cclResult_t ccl_coll_copy(cclComm_t comm, const uint64_t *bases, struct cclStream *stream);

/* coll/check.c, for CCL_CHECK: the memory of a call is what it must be. On a GPU: memory of the communicator's device, allocated and not freed, long enough.
 * Everywhere: send and receive buffer are apart, or in place. An error is raised on all ranks; cclInvalidArgument names buffer, bytes, rank and device. */
cclResult_t ccl_coll_check_buffers(cclComm_t comm, const struct ccl_coll_call *call);

#endif
