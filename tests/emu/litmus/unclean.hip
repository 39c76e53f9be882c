/* SPDX-License-Identifier: MIT
 *
 * A block that fails and then waits in vain for a peer that could still store (compiled with a short CCL_DRAIN_LIMIT_NS): test_many.c. */
#include "fail.h"

CCL_KERNEL(unclean, struct ccl_k_coll_args)
{
    const struct ccl_channels from_all = {0, 0, 1, a->n};
    if (ccl_tid() == 0) {
        ccl_fail(a, CCL_TAG(ccl_enter(a)), 0, CCL_BAD_DEAD, 5, from_all, 1, 1);
    }
}
