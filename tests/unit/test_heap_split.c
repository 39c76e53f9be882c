/* SPDX-License-Identifier: MIT
 *
 * Proves that heaps of split communicators see the windows of their ancestors, made before and after the split,
 * under the same ids and with their own ranks; that what ends disappears from them; that parents may end first; and
 * that parent and child may be used by two threads at once. */
/* CTEST: labels quick tsan */
#include "heap_world.h"

#include "runtime/host_memory.h"

/* How a rank is coloured and ordered. */
struct layout {
    int color, key;
};

static struct layout halves(int rank, int n)
{
    return (struct layout){rank < (n + 1) / 2 ? 0 : 1, rank};
}

static struct layout reversed(int rank, int n)
{
    return (struct layout){0, n - rank};
}

static struct layout strides(int rank, int n)
{
    (void)n;
    return (struct layout){rank % 2, -rank};
}

static struct layout all_but_first(int rank, int n)
{
    return (struct layout){rank == 0 ? -1 : 0, n - rank};
}

static void split_one(struct world *world, struct layout (*how)(int rank, int n))
{
    struct team parent = team_open(world, MIB);
    struct ccl_window_hit hit, own;
    char *before, *after, *mine = NULL;
    TEST_OK(ccl_heap_alloc(parent.heap, 4096, (void **)&before));
    struct layout at = how(parent.rank, parent.n);
    struct team child = team_split(&parent, at.color, at.key, MIB);
    TEST_OK(ccl_heap_alloc(parent.heap, 3 * MIB, (void **)&after));
    if (child.heap != NULL) {
        exchange_words(&child, before + 512, 1);
        exchange_words(&child, after + 1024, 2);
        TEST_CHECK(ccl_heap_find(child.heap, after + 10, 20, &hit) && ccl_heap_find(parent.heap, after + 10, 20, &own));
        TEST_EQ(hit.id, own.id);
        TEST_EQ(hit.off, own.off);
        TEST_EQ(peers_mapped(&child, before), child.n - 1);
        TEST_OK(ccl_heap_alloc(child.heap, 4096, (void **)&mine));
        exchange_words(&child, mine, 3);
        TEST_CHECK(ccl_heap_find(child.heap, mine, 4096, &hit) && hit.id != own.id);
        TEST_CHECK(!ccl_heap_find(parent.heap, mine, 1, &own));
        TEST_CHECK(hit.id > 2); /* ids 1 and 2 are the parent's */
        TEST_EQ(ccl_heap_free(child.heap, before), cclInvalidArgument);
        TEST_OK(ccl_heap_check(child.heap));
    }
    TEST_EQ(ccl_heap_free(parent.heap, mine != NULL ? mine : before + 256), cclInvalidArgument);
    uint32_t id = ccl_heap_find(parent.heap, after, 1, &hit) ? hit.id : 0;
    TEST_OK(ccl_heap_free(parent.heap, after));
    if (child.heap != NULL) {
        TEST_CHECK(!ccl_heap_find(child.heap, after, 1, &hit));
        TEST_EQ(table_entry(&child, child.n - 1, id), 0);
        exchange_words(&child, before + 256, 4);
    }
    barrier(&parent);
    /* The parent ends first. */
    team_close(&parent, true);
    if (child.heap != NULL) {
        exchange_words(&child, before + 256, 5);
        exchange_words(&child, mine, 6);
        TEST_EQ(ccl_heap_free(child.heap, before), cclInvalidArgument);
        TEST_OK(ccl_heap_check(child.heap));
        barrier(&child);
        team_close(&child, false);
    }
    TEST_OK(ccl_bootstrap_barrier(world->boot));
    TEST_EQ(ccl_host_memory_count(), 0);
    TEST_OK(ccl_bootstrap_barrier(world->boot));
}

static void layouts(struct world *world)
{
    split_one(world, halves);
    split_one(world, reversed);
    split_one(world, strides);
    split_one(world, all_but_first);
}

/* Three generations; the middle one ends while both others live. */
static void generations(struct world *world)
{
    struct team a = team_open(world, MIB);
    void *x, *y = NULL, *z, *w;
    struct ccl_window_hit hit;
    TEST_OK(ccl_heap_alloc(a.heap, 4096, &x));
    struct team b = team_split(&a, 0, -a.rank, MIB);
    TEST_OK(ccl_heap_alloc(b.heap, 4096, &y));
    struct team c = team_split(&b, b.rank / 2, b.rank % 2 == 0 ? 9 : 1, MIB);
    TEST_OK(ccl_heap_alloc(c.heap, 4096, &z));
    exchange_words(&c, x, 1);
    exchange_words(&c, y, 2);
    exchange_words(&c, z, 3);
    TEST_CHECK(!ccl_heap_find(b.heap, z, 1, &hit));
    TEST_CHECK(!ccl_heap_find(a.heap, y, 1, &hit));
    uint32_t id = ccl_heap_find(c.heap, y, 1, &hit) ? hit.id : 0;
    barrier(&b);
    team_close(&b, false);
    exchange_words(&c, y, 4);
    TEST_OK(ccl_heap_alloc(a.heap, 3 * MIB, &w));
    exchange_words(&c, w, 5);
    barrier(&a); /* the two teams of c do not wait for each other */
    exchange_words(&a, w, 6);
    TEST_CHECK(ccl_heap_find(a.heap, w, 1, &hit) && hit.id != id); /* still in use below */
    barrier(&a);
    team_close(&c, false);
    barrier(&a);
    void *v;
    TEST_OK(ccl_heap_alloc(a.heap, 9 * MIB, &v));
    TEST_CHECK(ccl_heap_find(a.heap, v, 1, &hit));
    TEST_EQ(hit.id, id); /* the last heap that saw it has ended */
    exchange_words(&a, v, 7);
    team_close(&a, true);
}

/* Both communicators grow and shrink at the same time, each with its own thread: they race for window ids, and each
 * sees the other's changes in the middle of its own calls. */
struct racer {
    struct team *team;
    char *watched; /* a block that stays */
};

static void *race(void *arg)
{
    struct racer *racer = arg;
    void *block[3];
    struct ccl_window_hit hit;
    for (int round = 0; round < 15; round++) {
        for (int i = 0; i < 3; i++) {
            TEST_OK(ccl_heap_alloc(racer->team->heap, 3 * MIB, &block[i]));
            for (int k = 0; k < 200; k++) {
                TEST_CHECK(ccl_heap_find(racer->team->heap, racer->watched, 4096, &hit));
                TEST_CHECK(hit.bases != NULL && hit.bases[racer->team->rank] + hit.off == (uintptr_t)racer->watched);
            }
            exchange_words(racer->team, block[i], (uint64_t)round);
        }
        for (int i = 0; i < 3; i++) {
            TEST_OK(ccl_heap_free(racer->team->heap, block[i]));
        }
        TEST_OK(ccl_heap_check(racer->team->heap));
    }
    return NULL;
}

static void two_threads(struct world *world)
{
    struct team parent = team_open(world, MIB);
    char *watched;
    TEST_OK(ccl_heap_alloc(parent.heap, 4096, (void **)&watched));
    struct team child = team_split(&parent, 0, -parent.rank, MIB);
    struct racer a = {.team = &parent, .watched = watched}, b = {.team = &child, .watched = watched};
    pthread_t thread;
    TEST_EQ(pthread_create(&thread, NULL, race, &b), 0);
    race(&a);
    pthread_join(thread, NULL);
    barrier(&parent);
    team_close(&child, false);
    team_close(&parent, true);
}

int main(void)
{
    run_processes("layouts", 2, layouts);
    run_processes("layouts", 5, layouts);
    run_threads("layouts", 4, layouts);
    run_processes("generations", 4, generations);
    run_threads("generations", 3, generations);
    run_processes("two threads", 3, two_threads);
    run_threads("two threads", 2, two_threads);
    return test_result();
}
