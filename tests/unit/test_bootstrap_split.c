/* SPDX-License-Identifier: MIT
 *
 * Proves that split forms the right children in the right order, that they work beside their parent, and that a failure
 * in one is told all. */
#include "test_bootstrap.h"

#include "bootstrap/wire.h"

struct plan {
    const char *name;
    int color[8], key[8];
};

static const struct plan plans[] = {
    {"halves", {0, 0, 0, 0, 1, 1, 1, 1}, {0}},
    {"stride, reversed", {0, 1, 0, 1, 0, 1, 0, 1}, {7, 6, 5, 4, 3, 2, 1, 0}},
    {"singletons", {0, 1, 2, 3, 4, 5, 6, 7}, {0}},
    {"same, negative keys", {5, 5, 5, 5, 5, 5, 5, 5}, {0, -1, -2147483647, 2147483647, 3, 3, -1, 0}},
    {"some without color", {-1, 9, -1, 9, 0, -1, 0, 9}, {1, 2, 3, 1, 5, 6, 7, 1}},
    {"nobody", {-1, -1, -1, -1, -1, -1, -1, -1}, {0}},
};

/* Place of rank in the child by definition: members with a smaller key, or the same key and a smaller rank, come
 * before. */
static int place(const struct plan *p, int rank, int *size)
{
    int before = 0;
    *size = 0;
    for (int r = 0; r < 8; r++) {
        if (p->color[r] == p->color[rank]) {
            ++*size;
            before += p->key[r] < p->key[rank] || (p->key[r] == p->key[rank] && r < rank);
        }
    }
    return before;
}

static void check_child(struct member *m, const struct plan *p, struct ccl_bootstrap *child, const int *ranks)
{
    int size, me = place(p, m->rank, &size);
    int32_t got[8];
    M_EQ(m, ccl_bootstrap_size(child), size);
    M_EQ(m, ccl_bootstrap_rank(child), me);
    M_EQ(m, ranks[me], m->rank);
    for (int i = size; i < 8; i++) {
        M_EQ(m, ranks[i], -7);
    }
    for (int r = 0; r < 8; r++) {
        int ignored;
        if (p->color[r] == p->color[m->rank]) {
            M_EQ(m, ranks[place(p, r, &ignored)], r);
        }
    }
    got[me] = m->rank;
    M_EQ(m, ccl_bootstrap_allgather(child, got, sizeof(got[0])), cclSuccess);
    for (int i = 0; i < size; i++) {
        M_EQ(m, got[i], ranks[i]);
        M_EQ(m, ccl_bootstrap_peer_pid(child, i) > 0, 1);
    }
}

static void body(struct member *m, struct ccl_bootstrap *boot)
{
    if (boot == NULL) {
        M_FAIL(m, "create: %d %s", m->rc, m->text);
        return;
    }
    struct ccl_bootstrap *children[CCL_ARRAY_LEN(plans)];
    int ranks[CCL_ARRAY_LEN(plans)][8];
    for (size_t i = 0; i < CCL_ARRAY_LEN(plans); i++) {
        const struct plan *p = &plans[i];
        for (int r = 0; r < 8; r++) {
            ranks[i][r] = -7;
        }
        children[i] = boot; /* must be overwritten */
        M_EQ(m, ccl_bootstrap_split(boot, p->color[m->rank], p->key[m->rank], LONG, ranks[i], &children[i]),
             cclSuccess);
        M_EQ(m, children[i] == NULL, p->color[m->rank] < 0);
    }
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < CCL_ARRAY_LEN(plans); i++) {
            if (children[i] != NULL) {
                check_child(m, &plans[i], children[i], ranks[i]);
            }
            M_EQ(m, ccl_bootstrap_barrier(boot), cclSuccess);
        }
    }
    /* A child of a child, used after its parent is gone. */
    struct ccl_bootstrap *grandchild = NULL;
    int ignored[8];
    M_EQ(m, ccl_bootstrap_split(children[0], m->rank % 2, -m->rank, LONG, ignored, &grandchild), cclSuccess);
    for (size_t i = 0; i < CCL_ARRAY_LEN(plans); i++) {
        ccl_bootstrap_destroy(children[i]);
    }
    M_EQ(m, ccl_bootstrap_size(grandchild), 2);
    M_EQ(m, ccl_bootstrap_rank(grandchild), m->rank % 4 < 2);
    M_EQ(m, ccl_bootstrap_barrier(grandchild), cclSuccess);
    ccl_bootstrap_destroy(grandchild);
}

static void body_bad_color(struct member *m, struct ccl_bootstrap *boot)
{
    if (boot == NULL) {
        M_FAIL(m, "create: %d %s", m->rc, m->text);
        return;
    }
    struct ccl_bootstrap *child = boot;
    int ranks[8];
    M_EQ(m, ccl_bootstrap_split(boot, m->rank == 2 ? -5 : 0, 0, LONG, ranks, &child), cclInvalidArgument);
    M_TEXT(m, "split color is -5");
    M_EQ(m, child == boot, 1);
    M_EQ(m, ccl_bootstrap_barrier(boot), cclSuccess); /* the parent lives on */
    M_EQ(m, ccl_bootstrap_split(boot, 0, 0, LONG, ranks, &child), cclSuccess);
    M_EQ(m, ccl_bootstrap_barrier(child), cclSuccess);
    ccl_bootstrap_destroy(child);
}

static void body_cycles(struct member *m, struct ccl_bootstrap *boot)
{
    if (boot == NULL) {
        M_FAIL(m, "create: %d %s", m->rc, m->text);
        return;
    }
    int ranks[4];
    for (int i = 0; i < 200; i++) {
        struct ccl_bootstrap *child = NULL;
        M_EQ(m, ccl_bootstrap_split(boot, m->rank / 2, -m->rank, LONG, ranks, &child), cclSuccess);
        M_EQ(m, ccl_bootstrap_barrier(child), cclSuccess);
        ccl_bootstrap_destroy(child);
    }
}

int main(void)
{
    static struct world w;
    int threads = base_threads(), fds = count_fds();
    world_init(&w, 8, body, NULL, NULL);
    world_new_id(&w);
    world_threads(&w);
    world_init(&w, 8, body, NULL, NULL);
    world_new_id(&w);
    world_procs(&w);
    world_init(&w, 5, body_bad_color, NULL, NULL);
    world_new_id(&w);
    world_threads(&w);
    world_init(&w, 4, body_cycles, NULL, NULL);
    world_new_id(&w);
    uint64_t start = ccl_now_ns();
    world_threads(&w);
    printf("200 splits of 4 ranks into pairs: %.0f ms\n", ms_since(start));
    settle(fds, threads);
    TEST_EQ(count_fds(), fds);
    TEST_EQ(count_threads(), threads);
    return test_result();
}
