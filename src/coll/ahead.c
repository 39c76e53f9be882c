/* SPDX-License-Identifier: MIT
 *
 * Tiny operations of one root run ahead of the ranks that only receive (kernels/parts_ahead.h). Here: which do, when all meet again, and the meeting before an
 * operation of any other kind. All ranks decide alike, by the order of their calls. */
#include "coll/coll.h"
#include "coll/tune.h"

#include <stdlib.h>

#include "util/log.h"

bool ccl_coll_can_run_ahead(cclComm_t comm, uint32_t op, uint64_t part_bytes)
{
    return (comm->agreed.host_flags & CCL_F_AHEAD) && comm->n > 1 && ccl_tune_is_one_way(op) && part_bytes <= CCL_AHEAD_MOST;
}

uint32_t ccl_coll_run_ahead(cclComm_t comm)
{
    comm->ahead++;
    if (comm->ahead < CCL_AHEAD_RUN) {
        return CCL_PARTS_AHEAD;
    }
    comm->ahead = 0;
    return CCL_PARTS_AHEAD | CCL_PARTS_MEET;
}

static cclResult_t create(cclComm_t comm)
{
    const uint64_t words[] = {CCL_PARTS_MEET};
    comm->meet_args = calloc(1, sizeof(*comm->meet_args) + (size_t)comm->n * sizeof(struct ccl_k_pair)); /* nothing goes between any two */
    CCL_CHECK(comm->meet_args != NULL, cclSystemError, CCL_COLL, "out of memory for the pairs of %d ranks", comm->n);
    comm->meet_args->c = comm->args;
    comm->meet_args->c.flags = comm->agreed.host_flags;
    comm->meet_args->c.sig = ccl_coll_signature(words, 1);
    comm->meet_args->parts = CCL_PARTS_AHEAD | CCL_PARTS_MEET;
    return cclSuccess;
}

cclResult_t ccl_coll_meet(cclComm_t comm, struct cclStream *stream)
{
    if (CCL_LIKELY(comm->ahead == 0)) {
        return cclSuccess;
    }
    if (comm->meet_args == NULL) {
        CCL_TRY(create(comm));
    }
    struct ccl_k_parts_args *a = comm->meet_args;
    a->c.desc = comm->called != NULL ? *comm->called : comm->args.desc; /* what it is for, if others call something else */
    const struct ccl_launch l = {.kernel = CCL_KERNEL_parts_ll,
                                 .device = comm->device,
                                 .traced = comm->trace != NULL,
                                 .grid = 1,
                                 .threads = 1,
                                 .host_threads = 1,
                                 .args = a,
                                 .args_bytes = (uint32_t)(offsetof(struct ccl_k_parts_args, pair) + (size_t)comm->n * sizeof(struct ccl_k_pair))};
    comm->ahead = 0;
    return comm->rt->launch(stream, &l);
}
