/* SPDX-License-Identifier: MIT
 *
 * Splitting: one allgather in which everybody names a socket of its own in case it becomes rank 0 of its color; then
 * each color builds its star; then the parent agrees, so the split succeeds everywhere or nowhere. */
#include <stdlib.h>
#include <string.h>

#include "bootstrap/boot.h"
#include "bootstrap/net.h"
#include "util/log.h"

struct entry {
    int32_t color, key;
    int32_t failed; /* cclResult_t of the preparation */
    int32_t rank;
    uint8_t token[16], secret[CCL_SECRET_BYTES];
};

static int by_key_and_rank(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->key != y->key) {
        return x->key < y->key ? -1 : 1;
    }
    return x->rank < y->rank ? -1 : 1;
}

static cclResult_t prepare(struct entry *mine, struct ccl_gate **gate)
{
    CCL_CHECK(mine->color >= CCL_SPLIT_NOCOLOR, cclInvalidArgument, CCL_BOOT, "split color is %d, not -1 or more",
              mine->color);
    if (mine->color == CCL_SPLIT_NOCOLOR) {
        return cclSuccess;
    }
    CCL_TRY(ccl_net_random(mine->token, sizeof(mine->token)));
    CCL_TRY(ccl_net_random(mine->secret, sizeof(mine->secret)));
    return ccl_gate_open_star(mine->token, mine->secret, gate);
}

/* entries: of all parent ranks; sorted in place. *gate is taken. */
static cclResult_t build_child(struct entry *entries, int parent_rank, int parent_size, int color, uint64_t timeout_ns,
                               struct ccl_gate **gate, int *ranks, struct ccl_bootstrap **out)
{
    int size = 0, rank = -1;
    if (color == CCL_SPLIT_NOCOLOR) {
        return cclSuccess;
    }
    for (int i = 0; i < parent_size; i++) {
        if (entries[i].color == color) {
            entries[size++] = entries[i];
        }
    }
    qsort(entries, (size_t)size, sizeof(*entries), by_key_and_rank);
    for (int i = 0; i < size; i++) {
        rank = entries[i].rank == parent_rank ? i : rank;
        ranks[i] = entries[i].rank;
    }
    struct ccl_gate *mine = *gate;
    *gate = NULL;
    if (rank != 0) {
        ccl_gate_destroy(mine);
        mine = NULL;
    }
    return ccl_star_create(rank, size, timeout_ns, ccl_net_deadline(timeout_ns), entries[0].secret, entries[0].token,
                           mine, out);
}

cclResult_t ccl_bootstrap_split(struct ccl_bootstrap *parent, int color, int key, uint64_t timeout_ns, int *ranks,
                                struct ccl_bootstrap **out)
{
    CCL_TRY(ccl_boot_usable(parent));
    CCL_CHECK(ranks != NULL && out != NULL, cclInvalidArgument, CCL_BOOT, "the outputs of split are NULL");
    struct ccl_bootstrap *child = NULL;
    struct ccl_gate *gate = NULL;
    int *child_ranks = malloc((size_t)parent->size * sizeof(*child_ranks));
    struct entry *entries = calloc((size_t)parent->size, sizeof(*entries));
    cclResult_t rc = cclSuccess;
    if (entries == NULL || child_ranks == NULL) {
        rc = ccl_boot_break(parent, cclSystemError, parent->rank, "rank %d: out of memory for a split of %d ranks",
                            parent->rank, parent->size);
        goto out;
    }
    struct entry *mine = &entries[parent->rank];
    mine->color = color;
    mine->key = key;
    mine->rank = parent->rank;
    /* Who fails goes on to the agreement, so that nobody waits for it. */
    cclResult_t prepared = prepare(mine, &gate);
    mine->failed = prepared;
    CCL_TRY_GOTO(ccl_bootstrap_allgather(parent, entries, sizeof(*entries)), out);
    bool all_prepared = true;
    for (int i = 0; i < parent->size; i++) {
        all_prepared = all_prepared && entries[i].failed == cclSuccess;
    }
    rc = prepared;
    if (all_prepared) {
        rc = build_child(entries, parent->rank, parent->size, color, timeout_ns, &gate, child_ranks, &child);
    }
    /* Another color may need its whole deadline to fail. */
    uint64_t longest_ns = parent->timeout_ns > timeout_ns ? parent->timeout_ns : timeout_ns;
    rc = ccl_boot_agree(parent, rc, ccl_net_add(ccl_net_deadline(longest_ns), 2 * (uint64_t)CCL_NET_GRACE_NS));
out:
    ccl_gate_destroy(gate);
    if (rc != cclSuccess) {
        ccl_bootstrap_destroy(child);
    } else {
        if (child != NULL) {
            memcpy(ranks, child_ranks, (size_t)child->size * sizeof(*ranks));
        }
        *out = child;
    }
    free(child_ranks);
    free(entries);
    return rc;
}
