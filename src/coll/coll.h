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
    bool has_config;
    cclCallConfig_t config;
};

/* Enqueue on stream; NULL is the default stream of the communicator's device. */
cclResult_t ccl_coll_all_gather(cclComm_t comm, const struct ccl_coll_call *call, struct cclStream *stream);
cclResult_t ccl_coll_barrier(cclComm_t comm, struct cclStream *stream);

/* Decide variant, grid and tile from what all ranks know alike, and fill plan and the shape fields of args. */
cclResult_t ccl_coll_plan(cclComm_t comm, const struct ccl_coll_call *call, struct ccl_plan *plan,
                          struct ccl_k_coll_args *args);
size_t ccl_type_size(cclDataType_t type);
/* Hash of what must be equal on all ranks: word 0 of an advert. */
uint32_t ccl_coll_signature(const uint64_t *words, size_t count);
/* One kernel of the current plan, with the current arguments. */
cclResult_t ccl_coll_launch(cclComm_t comm, enum ccl_kernel kernel, struct cclStream *stream);

/* coll/copy.c. Find where the peers' inputs lie, before anything is enqueued: *bases by rank, borrowed until the next call on the heap. cclInvalidUsage, on
 * all ranks: the input lies in no heap chunk (named). */
cclResult_t ccl_coll_copy_find(cclComm_t comm, const struct ccl_coll_call *call, const uint64_t **bases);
/* Enqueue all of it. */
cclResult_t ccl_coll_copy(cclComm_t comm, const uint64_t *bases, struct cclStream *stream);

/* coll/check.c, for CCL_CHECK: the memory of a call is what it must be. On a GPU: memory of the communicator's device, allocated and not freed, long enough.
 * Everywhere: send and receive buffer are apart, or in place. An error is raised on all ranks; cclInvalidArgument names buffer, bytes, rank and device. */
cclResult_t ccl_coll_check_buffers(cclComm_t comm, const struct ccl_coll_call *call);

#endif
