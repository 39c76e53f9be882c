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

/* Enqueue on stream. */
cclResult_t ccl_coll_all_gather(cclComm_t comm, const struct ccl_coll_call *call, struct cclStream *stream);
cclResult_t ccl_coll_barrier(cclComm_t comm, struct cclStream *stream);

/* Decide variant, grid and tile from what all ranks know alike, and fill plan and the shape fields of args. */
cclResult_t ccl_coll_plan(cclComm_t comm, const struct ccl_coll_call *call, struct ccl_plan *plan,
                          struct ccl_k_coll_args *args);
size_t ccl_type_size(cclDataType_t type);

#endif
