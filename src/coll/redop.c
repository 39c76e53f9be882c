/* SPDX-License-Identifier: MIT
 *
 * Operators that users make. Handles count on from the built-in ones; a destroyed one's is given again. */
#include "coll/coll.h"

#include <stdlib.h>
#include <string.h>

#include "util/log.h"

static bool known(cclComm_t comm, cclRedOp_t op)
{
    int i = (int)op - cclNumOps;
    return i >= 0 && i < comm->num_redops && comm->redops[i].used;
}

const struct ccl_redop *ccl_redop_find(cclComm_t comm, cclRedOp_t op)
{
    return known(comm, op) ? &comm->redops[(int)op - cclNumOps] : NULL;
}

cclResult_t ccl_redop_create(cclComm_t comm, const void *scalar, cclDataType_t type, cclScalarResidence_t residence, cclRedOp_t *op)
{
    struct ccl_redop made = {.used = true, .on_device = residence == cclScalarDevice, .type = type};
    int i = 0;
    while (i < comm->num_redops && comm->redops[i].used) {
        i++;
    }
    if (i == comm->num_redops) {
        struct ccl_redop *more = realloc(comm->redops, (size_t)(i + 1) * sizeof(*more));
        CCL_CHECK(more != NULL, cclSystemError, CCL_COLL, "out of memory for operator %d", i);
        comm->redops = more;
        comm->num_redops++;
    }
    if (made.on_device) {
        made.scalar = (uint64_t)scalar;
    } else {
        memcpy(&made.scalar, scalar, ccl_type_size(type));
    }
    comm->redops[i] = made;
    *op = (cclRedOp_t)(cclNumOps + i);
    return cclSuccess;
}

bool ccl_redop_destroy(cclComm_t comm, cclRedOp_t op)
{
    if (!known(comm, op)) {
        return false;
    }
    comm->redops[(int)op - cclNumOps].used = false;
    return true;
}
