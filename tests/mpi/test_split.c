/* SPDX-License-Identifier: MIT
 *
 * Proves that split makes exactly the communicators asked for (halves, strides, reversed, singletons, no colour,
 * ties, split of split, duplicates), that all-gathers on parent and child run side by side, through the parent's
 * heap too, and that either may be destroyed first. */
/* CTEST: ranks 1 2 3 4 5 7 8; labels mpi host quick; timeout 60 */
#include <string.h>

#include "common.h"

#define COUNT 1500
#define LARGE 70001

static cclComm_t world;
static cclStream_t stream, second_stream;
static uint8_t *heap_send, *heap_recv; /* of the world's heap, LARGE bytes a rank */
static uint8_t *host;
static uint64_t seed;

/* Ranks without a colour skip gathers, so every stage starts with a seed of its own on all ranks. */
static void stage(unsigned number)
{
    seed = (uint64_t)number * 1000;
}

/* World ranks in the order of a communicator. */
struct members {
    int n, me; /* me: my rank in it, -1: not in it */
    int world[64];
};

/* What split of `parent` must give: color and key by index in the parent. */
static struct members split_of(const struct members *parent, int (*color)(int), int (*key)(int))
{
    struct members child = {0, -1, {0}};
    int mine = color(parent->me);

    if (mine < 0) {
        return child;
    }
    for (int i = 0; i < parent->n; i++) {
        int at;

        if (color(i) != mine) {
            continue;
        }
        for (at = child.n; at > 0; at--) { /* insertion by (key, parent rank); world[] holds parent ranks for now */
            if (key(child.world[at - 1]) <= key(i)) {
                break;
            }
            child.world[at] = child.world[at - 1];
        }
        child.world[at] = i;
        child.n++;
    }
    for (int i = 0; i < child.n; i++) {
        child.me = child.world[i] == parent->me ? i : child.me;
        child.world[i] = parent->world[child.world[i]];
    }
    return child;
}

static void enqueue(cclComm_t comm, const uint8_t *send, uint8_t *recv, size_t count, cclStream_t on)
{
    tm_gen(host, 0, count, seed, tm_rank); /* data tells the world rank, so order and membership show */
    tm_put((void *)(uintptr_t)send, host, count);
    TM_MUST(cclAllGather(send, recv, count, cclUint8, comm, on));
}

static void verify(const struct members *m, const uint8_t *recv, size_t count, const char *what)
{
    tm_gathers++;
    tm_get(host, recv, count * (size_t)m->n);
    for (int i = 0; i < m->n; i++) {
        if (!tm_check_data(host + (size_t)i * count, 0, count, 1, seed, m->world[i], what)) {
            tm_fail(__FILE__, __LINE__, "  in part %d of %d", i, m->n);
        }
    }
}

/* All-gathers on comm through the world's heap, its own heap and plain memory. */
static void gather_on(cclComm_t comm, const struct members *m, bool worlds_heap, const char *what)
{
    static const size_t counts[] = {1, COUNT, LARGE};
    void *own = NULL, *plain = NULL;
    int n = 0, rank = -1;

    tm_at("%s: gathers", what);
    TM_OK(cclCommCount(comm, &n));
    TM_OK(cclCommUserRank(comm, &rank));
    TEST_EQ(n, m->n);
    TEST_EQ(rank, m->me);
    TM_MUST(cclMemAlloc(comm, &own, (size_t)LARGE * (size_t)m->n));
    TM_MUST(cclDeviceMalloc(&plain, (size_t)LARGE * (size_t)(m->n + 1)));
    for (size_t c = 0; c < 3; c++) {
        uint8_t *places[3] = {own, (uint8_t *)plain + LARGE, heap_recv};

        for (int p = 0; p < (worlds_heap ? 3 : 2); p++) {
            seed++;
            tm_set(places[p], TM_POISON, counts[c] * (size_t)m->n);
            enqueue(comm, p == 2 ? heap_send : plain, places[p], counts[c], stream);
            TM_MUST(cclStreamSynchronize(stream));
            verify(m, places[p], counts[c], what);
        }
    }
    TM_OK(cclMemFree(comm, own));
    TM_OK(cclDeviceFree(plain));
}

/* Parent and child at the same time on two streams, nothing waits for the other. */
static void side_by_side(cclComm_t parent, const struct members *pm, cclComm_t child, const struct members *cm)
{
    uint8_t *first = heap_recv, *second = heap_recv + (size_t)COUNT * (size_t)pm->n;
    uint8_t *send = heap_send;

    tm_at("parent and child side by side");
    seed++;
    tm_gen(host, 0, COUNT, seed, tm_rank);
    tm_put(send, host, COUNT);
    for (int i = 0; i < 50; i++) {
        TM_MUST(cclAllGather(send, first, COUNT, cclUint8, parent, stream));
        if (child != NULL) {
            TM_MUST(cclAllGather(send, second, COUNT, cclUint8, child, second_stream));
        }
    }
    TM_MUST(cclStreamSynchronize(second_stream));
    TM_MUST(cclStreamSynchronize(stream));
    verify(pm, first, COUNT, "parent beside child");
    if (child != NULL) {
        verify(cm, second, COUNT, "child beside parent");
    }
}

static int zero(int r)
{
    (void)r;
    return 0;
}
static int identity(int r)
{
    return r;
}
static int reversed(int r)
{
    return -r;
}
static int half(int r)
{
    return r < tm_size / 2 ? 0 : 7;
}
static int stride(int r)
{
    return r % 3;
}
static int single(int r)
{
    return 1000 + r;
}
static int odd_out(int r)
{
    return r % 2 == 0 ? 5 : CCL_SPLIT_NOCOLOR;
}
static int nobody(int r)
{
    (void)r;
    return CCL_SPLIT_NOCOLOR;
}
static int shuffled(int r)
{
    return r * 5 % 8 - 3;
}

static const struct {
    const char *name;
    int (*color)(int);
    int (*key)(int);
} cases[] = {
    {"duplicate, equal keys", zero, zero}, {"halves", half, identity},
    {"strides", stride, reversed},         {"reversed", zero, reversed},
    {"singletons", single, zero},          {"no colour for odd ranks", odd_out, shuffled},
    {"shuffled", zero, shuffled},          {"no colour at all", nobody, zero},
};

static void splits(const struct members *all)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct members m = split_of(all, cases[i].color, cases[i].key);
        cclComm_t child = (cclComm_t)(uintptr_t)1;

        tm_at("split: %s", cases[i].name);
        TM_MUST(cclCommSplit(world, cases[i].color(tm_rank), cases[i].key(tm_rank), &child, NULL));
        stage(10 + (unsigned)i);
        if (m.me < 0) {
            TEST_CHECK(child == NULL);
            child = NULL;
        } else {
            gather_on(child, &m, true, cases[i].name);
        }
        stage(100 + (unsigned)i);
        side_by_side(world, all, child, &m);
        TM_OK(cclCommDestroy(child));
    }
}

/* Halves, of them the reversed odd and even ones, three levels alive at once, destroyed from the top. */
static void split_of_split(const struct members *all)
{
    struct members m1 = split_of(all, half, reversed), m2 = split_of(&m1, odd_out, identity);
    cclComm_t top = NULL, middle = NULL, bottom = NULL;

    tm_at("split of split");
    TM_MUST(cclCommSplit(world, 3, tm_rank, &top, NULL));
    TM_MUST(cclCommSplit(top, half(tm_rank), reversed(tm_rank), &middle, NULL));
    TM_MUST(cclCommSplit(middle, odd_out(m1.me), identity(m1.me), &bottom, NULL));
    TEST_CHECK((bottom != NULL) == (m2.me >= 0));
    gather_on(middle, &m1, true, "middle");
    stage(200);
    if (bottom != NULL) {
        gather_on(bottom, &m2, true, "bottom");
    }
    stage(201);
    side_by_side(middle, &m1, bottom, &m2);
    TM_OK(cclCommDestroy(top)); /* parents before children */
    stage(202);
    gather_on(middle, &m1, true, "middle after the top is gone");
    TM_OK(cclCommDestroy(middle));
    stage(203);
    if (bottom != NULL) {
        gather_on(bottom, &m2, true, "bottom after its parents are gone");
    }
    TM_OK(cclCommDestroy(bottom));
    stage(204);
    gather_on(world, all, true, "world after its children are gone");
}

/* A child outlives a root: it keeps the windows, uses memory of its own, and can still split. */
static void orphan(const struct members *all)
{
    cclComm_t root = tm_comm_create(MPI_COMM_WORLD, NULL), child = NULL, grandchild = NULL;
    struct members m = split_of(all, zero, reversed), m2 = split_of(&m, zero, zero);
    void *of_root = NULL;

    tm_at("parent destroyed first");
    TM_MUST(cclMemAlloc(root, &of_root, 4096));
    TM_MUST(cclCommSplit(root, 0, reversed(tm_rank), &child, NULL));
    TM_OK(cclCommDestroy(root));
    gather_on(child, &m, false, "orphan");
    TM_MUST(cclCommSplit(child, 0, 0, &grandchild, NULL));
    gather_on(grandchild, &m2, false, "grandchild of a dead root");
    TM_OK(cclCommDestroy(grandchild));
    gather_on(child, &m, false, "orphan again");
    TM_OK(cclCommDestroy(child));
}

/* Several duplicates alive at once, used in turn without synchronising. */
static void duplicates(const struct members *all)
{
    enum { DUPLICATES = 4 };
    cclComm_t dup[DUPLICATES];

    tm_at("duplicates");
    for (int d = 0; d < DUPLICATES; d++) {
        TM_MUST(cclCommSplit(d == 0 ? world : dup[d - 1], 0, 0, &dup[d], NULL));
    }
    seed++;
    tm_gen(host, 0, COUNT, seed, tm_rank);
    tm_put(heap_send, host, COUNT);
    for (int i = 0; i < 40; i++) {
        TM_MUST(cclAllGather(heap_send, heap_recv + (size_t)(i % 4) * (size_t)COUNT * (size_t)tm_size, COUNT, cclUint8,
                             dup[i % DUPLICATES], stream));
    }
    TM_MUST(cclStreamSynchronize(stream));
    for (int d = 0; d < DUPLICATES; d++) {
        verify(all, heap_recv + (size_t)d * (size_t)COUNT * (size_t)tm_size, COUNT, "duplicate");
    }
    for (int d = 0; d < DUPLICATES; d++) {
        TM_OK(cclCommDestroy(dup[(d + tm_rank) % DUPLICATES])); /* local: any order on any rank */
    }
}

int main(int argc, char **argv)
{
    struct members all = {0, 0, {0}};
    void *ptr = NULL;

    TM_INIT(argc, argv);
    all.n = tm_size;
    all.me = tm_rank;
    for (int r = 0; r < tm_size; r++) {
        all.world[r] = r;
    }
    world = tm_comm_create(MPI_COMM_WORLD, NULL);
    stream = tm_stream_create();
    second_stream = tm_stream_create();
    host = malloc((size_t)LARGE * (size_t)tm_size);
    TM_MUST(cclMemAlloc(world, &ptr, LARGE));
    heap_send = ptr;
    TM_MUST(cclMemAlloc(world, &ptr, (size_t)LARGE * (size_t)tm_size));
    heap_recv = ptr;
    splits(&all);
    split_of_split(&all);
    orphan(&all);
    duplicates(&all);
    gather_on(world, &all, true, "world at the end");
    TM_OK(cclMemFree(world, heap_recv));
    TM_OK(cclMemFree(world, heap_send));
    free(host);
    TM_OK(cclStreamDestroy(stream));
    TM_OK(cclStreamDestroy(second_stream));
    TM_OK(cclCommDestroy(world));
    return tm_finish();
}
