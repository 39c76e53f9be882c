/* SPDX-License-Identifier: MIT
 *
 * Shrinking: some ranks of a star form a new one without asking the others, who may be dead, rank 0 too. They share the secret of the old star; the
 * new one's socket name and secret follow from it and from the list of ranks, so nothing has to be told. The first of them opens the
 * socket, the others wait for it. */
#include <assert.h>

#include "bootstrap/boot.h"
#include "bootstrap/fds.h"
#include "util/log.h"

static_assert(CCL_MAC_BYTES == CCL_SECRET_BYTES && CCL_MAC_BYTES == 16, "a hash serves as a name and as a secret");

cclResult_t ccl_bootstrap_shrink(const struct ccl_bootstrap *parent, const int *ranks, int count, uint64_t timeout_ns, struct ccl_bootstrap **out)
{
    uint8_t token[16], secret[CCL_SECRET_BYTES];
    struct ccl_gate *gate = NULL;
    int rank = -1;
    for (int i = 0; i < count; i++) {
        rank = ranks[i] == parent->rank ? i : rank;
        CCL_CHECK(ranks[i] >= 0 && ranks[i] < parent->size && (i == 0 || ranks[i - 1] < ranks[i]), cclInvalidArgument, CCL_BOOT,
                  "shrink: rank %d of the list is %d, of %d in ascending order", i, ranks[i], parent->size);
    }
    CCL_CHECK(rank >= 0, cclInvalidArgument, CCL_BOOT, "shrink: rank %d is not in its own list", parent->rank);
    CCL_CHECK(parent->generation == ccl_fds_generation(), cclInvalidUsage, CCL_BOOT, "rank %d of %d was created before this process was forked",
              parent->rank, parent->size);
    ccl_siphash(parent->secret, ranks, (size_t)count * sizeof(*ranks), token);
    ccl_siphash(parent->secret, token, sizeof(token), secret);
    if (rank == 0) {
        CCL_TRY(ccl_gate_open_star(token, secret, &gate));
    }
    return ccl_star_create_early(rank, count, timeout_ns, secret, token, gate, out);
}
