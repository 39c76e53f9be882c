/* SPDX-License-Identifier: MIT
 *
 * Proves that symmetric allocation gives equal offsets on all ranks, that data stored through a window arrives, that
 * the heap grows and shrinks, and that a fault or a disagreement on one rank is an error on all that leaves the heap
 * as it was. */
/* CTEST: labels quick tsan */
#include "heap_world.h"

#include <sys/resource.h>

#include "runtime/host_memory.h"

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void random_sequence(struct world *world)
{
    enum { SLOTS = 24, STEPS = 150 };
    struct team team = team_open(world, MIB);
    char *block[SLOTS] = {NULL}, *large[3];
    uint64_t state = from_rank(&team, 0, ccl_now_ns() | 1), seed = state;
    if (team.rank == 0) {
        printf("seed %llu\n", (unsigned long long)seed);
    }
    for (int step = 0; step < STEPS; step++) {
        size_t slot = next_random(&state) % SLOTS;
        if (block[slot] != NULL) {
            TEST_OK(ccl_heap_free(team.heap, block[slot]));
            block[slot] = NULL;
        } else {
            size_t bytes = 128 + next_random(&state) % (step % 10 == 0 ? 3 * MIB : 200000);
            struct ccl_window_hit hit = {0};
            void *ptr = NULL;
            TEST_OK(ccl_heap_alloc(team.heap, bytes, &ptr));
            TEST_CHECK(ccl_heap_find(team.heap, ptr, bytes, &hit));
            TEST_CHECK(same_everywhere(&team, (uint64_t)hit.id << 48 | hit.off));
            TEST_EQ(hit.off % 256, 0);
            TEST_CHECK(hit.bases != NULL && hit.bases[team.rank] + hit.off == (uintptr_t)ptr);
            block[slot] = ptr;
            exchange_words(&team, ptr, next_random(&state));
        }
        TEST_OK(ccl_heap_check(team.heap));
    }
    for (int i = 0; i < 3; i++) { /* no chunk so far has room for two of these */
        struct ccl_window_hit hit = {0};
        TEST_OK(ccl_heap_alloc(team.heap, 3 * MIB, (void **)&large[i]));
        TEST_CHECK(ccl_heap_find(team.heap, large[i], 3 * MIB, &hit) && hit.id > (uint32_t)i);
        exchange_words(&team, large[i] + MIB, next_random(&state));
    }
    for (int i = 0; i < 3; i++) {
        TEST_OK(ccl_heap_free(team.heap, large[i]));
    }
    for (int slot = 0; slot < SLOTS; slot++) {
        TEST_OK(ccl_heap_free(team.heap, block[slot]));
    }
    TEST_OK(ccl_heap_check(team.heap));
    barrier(&team);
    if (world->processes) { /* one chunk is kept: own and the peers', and the table */
        TEST_EQ(ccl_host_memory_count(), world->size + 1);
    }
    barrier(&team);
    team_close(&team, true);
    if (world->processes) {
        TEST_EQ(ccl_host_memory_count(), 0);
    }
}

/* Placement by hand: lowest chunk that fits, coalescing, growth to a request larger than a chunk, a dropped chunk's
 * address is gone. */
static void growth(struct world *world)
{
    struct team team = team_open(world, MIB);
    struct ccl_window_hit hit;
    void *a, *b, *c, *d, *e;
    TEST_OK(ccl_heap_alloc(team.heap, 600 * 1024, &a)); /* 2 MiB: the request is rounded up to what GPUs map */
    TEST_OK(ccl_heap_alloc(team.heap, 1400 * 1024, &b));
    TEST_CHECK(ccl_heap_find(team.heap, b, 1, &hit) && hit.id == 1);
    TEST_EQ(hit.off, 600 * 1024);
    TEST_OK(ccl_heap_alloc(team.heap, 5 * MIB, &c));
    TEST_CHECK(ccl_heap_find(team.heap, c, 6 * MIB, &hit) && hit.id == 2 && hit.off == 0);
    TEST_CHECK(!ccl_heap_find(team.heap, c, 6 * MIB + 1, &hit));
    TEST_CHECK(!ccl_heap_find(team.heap, (char *)c + 6 * MIB - 1, 2, &hit));
    TEST_CHECK(ccl_heap_find(team.heap, (char *)c + 6 * MIB - 1, 1, &hit));
    TEST_CHECK(!ccl_heap_find(team.heap, &team, 1, &hit));
    TEST_OK(ccl_heap_free(team.heap, a));
    TEST_OK(ccl_heap_free(team.heap, b));
    TEST_CHECK(!ccl_heap_find(team.heap, b, 1, &hit)); /* empty and not the only one: unmapped */
    TEST_OK(ccl_heap_alloc(team.heap, MIB, &d));
    TEST_EQ((char *)d - (char *)c, 5 * MIB);
    TEST_OK(ccl_heap_free(team.heap, c));
    TEST_OK(ccl_heap_alloc(team.heap, 4096, &e)); /* best fit: the hole of 5 MiB, the rest is full */
    TEST_CHECK(e == c);
    TEST_OK(ccl_heap_free(team.heap, e));
    TEST_OK(ccl_heap_free(team.heap, d));
    TEST_CHECK(ccl_heap_find(team.heap, d, 1, &hit)); /* the last chunk stays */
    TEST_OK(ccl_heap_alloc(team.heap, 6 * MIB, &e));  /* and is one free range again */
    TEST_CHECK(e == c);
    exchange_words(&team, e, 7);

    cclPointerInfo_t info;
    ccl_heap_pointer_info(team.heap, (char *)e + 12345, &info);
    TEST_EQ(info.kind, cclMemHeap);
    TEST_CHECK(info.base == e);
    TEST_EQ(info.size, 6 * MIB);
    TEST_EQ(info.offset, 12345);
    TEST_EQ(info.window, 2);
    TEST_EQ(info.peers_mapped, team.n - 1);
    ccl_heap_pointer_info(team.heap, &info, &info);
    TEST_EQ(info.kind, cclMemPlain);
    TEST_CHECK(info.base == NULL);
    TEST_EQ(info.window, 0);
    barrier(&team);
    team_close(&team, true);
}

static void disagreement(struct world *world)
{
    struct team team = team_open(world, MIB);
    char *a, *b, *p = NULL, *first = NULL;
    int last = team.n - 1;
    TEST_OK(ccl_heap_alloc(team.heap, 4096, (void **)&a));
    TEST_OK(ccl_heap_alloc(team.heap, 4096, (void **)&b));
    TEST_OK(ccl_heap_alloc(team.heap, 100, (void **)&first));
    TEST_OK(ccl_heap_free(team.heap, first));

    TEST_EQ(ccl_heap_alloc(team.heap, team.rank == last ? 1000 : 2000, (void **)&p), cclInvalidArgument);
    TEST_CHECK(strstr(ccl_error_last(), "2000") != NULL && strstr(ccl_error_last(), "1000") != NULL);
    TEST_EQ(ccl_heap_alloc(team.heap, team.rank == last ? 0 : 2000, (void **)&p), cclInvalidArgument);
    TEST_EQ(ccl_heap_alloc(team.heap, 0, (void **)&p), cclInvalidArgument);
    TEST_EQ(ccl_heap_alloc(team.heap, SIZE_MAX, (void **)&p), cclSystemError);
    TEST_EQ(ccl_heap_alloc(team.heap, SIZE_MAX / 4, (void **)&p), cclSystemError);
    TEST_CHECK(p == NULL);

    TEST_OK(ccl_heap_free(team.heap, NULL));
    TEST_EQ(ccl_heap_free(team.heap, team.rank == last ? a : b), cclInvalidArgument);
    TEST_EQ(ccl_heap_free(team.heap, team.rank == last ? NULL : b), cclInvalidArgument);
    TEST_EQ(ccl_heap_free(team.heap, team.rank == last ? b + 256 : b), cclInvalidArgument);
    TEST_CHECK(strstr(ccl_error_last(), "not the start of a block") != NULL);
    char mine[32];
    snprintf(mine, sizeof(mine), "%p", (void *)&team);
    TEST_EQ(ccl_heap_free(team.heap, &team), cclInvalidArgument);
    TEST_CHECK(strstr(ccl_error_last(), mine) != NULL); /* not that of the lowest rank */
    TEST_EQ(ccl_heap_free(team.heap, first), cclInvalidArgument);
    TEST_OK(ccl_heap_check(team.heap));

    /* Nothing of that has changed the heap. */
    TEST_OK(ccl_heap_alloc(team.heap, 100, (void **)&p));
    TEST_CHECK(p == first);
    TEST_OK(ccl_heap_free(team.heap, b));
    TEST_EQ(ccl_heap_free(team.heap, b), cclInvalidArgument);
    team_close(&team, true);
}

static void expect_failure(struct team *team, const char *text)
{
    void *p = NULL;
    TEST_EQ(ccl_heap_alloc(team->heap, 3 * MIB, &p), cclSystemError);
    TEST_CHECK(p == NULL);
    if (strstr(ccl_error_last(), text) == NULL) {
        TEST_FAIL("text \"%s\" does not say \"%s\"", ccl_error_last(), text);
    }
    fail_alloc = false;
    fail_export = false;
    barrier(team);
    atomic_store(&fail_import_once, 0);
    barrier(team);
    TEST_OK(ccl_heap_check(team->heap));
}

static void one_rank_fails(struct world *world)
{
    struct team team = {.boot = world->boot};
    int last = world->size - 1;
    fail_alloc = world->rank == last;
    TEST_EQ(ccl_heap_create(&test_ops, world->boot, MIB, &team.heap), cclSystemError);
    TEST_CHECK(team.heap == NULL);
    fail_alloc = false;
    team = team_open(world, MIB);

    void *small, *big;
    TEST_OK(ccl_heap_alloc(team.heap, 1000, &small));
    fail_alloc = team.rank == last;
    expect_failure(&team, "test: no device memory");
    fail_export = team.rank == last;
    expect_failure(&team, "test: no export");
    barrier(&team);
    if (team.rank == last) {
        atomic_store(&fail_import_once, 1);
    }
    barrier(&team);
    expect_failure(&team, "test: no import");
    size_t count = ccl_host_memory_count();
    barrier(&team);
    TEST_EQ(count, world->processes ? team.n + 1 : 2 * team.n); /* tables and one chunk each */

    fail_alloc = team.rank == last; /* needs no memory: not touched by the fault */
    void *more = NULL;
    TEST_OK(ccl_heap_alloc(team.heap, 1000, &more));
    TEST_EQ((char *)more - (char *)small, 1024);
    fail_alloc = false;
    TEST_OK(ccl_heap_alloc(team.heap, 3 * MIB, &big));
    struct ccl_window_hit hit = {0};
    TEST_CHECK(ccl_heap_find(team.heap, big, 3 * MIB, &hit));
    TEST_EQ(hit.id, 2); /* failed attempts gave their ids back */
    exchange_words(&team, big, 3);
    team_close(&team, true);
}

/* The memory of one rank is really used up. */
static void exhausted(struct world *world)
{
    struct team team = team_open(world, MIB);
    struct rlimit old, tight;
    void *p = NULL, *q = NULL;
    TEST_OK(ccl_heap_alloc(team.heap, 100, &p));
    TEST_EQ(getrlimit(RLIMIT_AS, &old), 0);
    if (team.rank == team.n - 1) {
        tight = old;
        tight.rlim_cur = 256 * MIB;
        TEST_EQ(setrlimit(RLIMIT_AS, &tight), 0);
    }
    cclResult_t rc = ccl_heap_alloc(team.heap, 512 * MIB, &q);
    TEST_EQ(rc, cclSystemError);
    TEST_EQ(setrlimit(RLIMIT_AS, &old), 0);
    TEST_OK(ccl_heap_check(team.heap));
    TEST_OK(ccl_heap_alloc(team.heap, 3 * MIB, &q));
    exchange_words(&team, q, 11);
    team_close(&team, true);
}

static cclResult_t no_host_props(int device, struct ccl_device_props *props)
{
    CCL_TRY(ccl_runtime_host.device_props(device, props));
    props->is_host = false;
    return cclSuccess;
}

static atomic_int device_copies;

static cclResult_t counting_copy(void *dst, const void *src, size_t bytes, struct cclStream *stream)
{
    atomic_fetch_add(&device_copies, 1);
    return ccl_runtime_host.copy(dst, src, bytes, stream);
}

/* The way a GPU's table is written: by copies on a stream. */
static void copied_table(struct world *world)
{
    struct team team = {.boot = world->boot};
    struct ccl_runtime_ops ops = test_ops;
    ops.device_props = no_host_props;
    ops.copy = counting_copy;
    TEST_OK(ccl_heap_create(&ops, world->boot, MIB, &team.heap));
    team_connect(&team);
    void *a, *b;
    TEST_OK(ccl_heap_alloc(team.heap, 5000, &a));
    TEST_OK(ccl_heap_alloc(team.heap, 3 * MIB, &b));
    TEST_CHECK(atomic_load(&device_copies) >= 2 * team.n);
    exchange_words(&team, a, 1);
    exchange_words(&team, b, 2);
    TEST_OK(ccl_heap_free(team.heap, b));
    TEST_EQ(table_entry(&team, 0, 2), 0);
    TEST_OK(ccl_heap_check(team.heap));
    barrier(&team);
    team_close(&team, true);
}

/* As a legacy IPC handle: a mapping is no reference. */
static cclResult_t uncounted_export(void *base, struct ccl_mem_handle *handle)
{
    CCL_TRY(ccl_runtime_host.mem_export(base, handle));
    handle->counted = false;
    return cclSuccess;
}

/* Rank 0 ends unclean while the others still store into its memory. stays: mappings are no references, so it may not be freed, and the others, who
 * end cleanly, get theirs handed over to be freed later. */
static void late_stores(struct world *world, const struct ccl_runtime_ops *ops, bool stays)
{
    struct team team = {.boot = world->boot};
    struct ccl_window_hit hit = {0};
    void *p = NULL;
    TEST_OK(ccl_heap_create(ops, world->boot, MIB, &team.heap));
    team_connect(&team);
    TEST_OK(ccl_heap_alloc(team.heap, 4096, &p));
    TEST_CHECK(ccl_heap_find(team.heap, p, 4096, &hit));
    barrier(&team);
    if (team.rank == 0) {
        ccl_monitor_detach(team.port);
        ccl_heap_destroy(team.heap, true);
    }
    barrier(&team);
    if (team.rank != 0) {
        ((char *)(uintptr_t)hit.bases[0])[hit.off + (size_t)team.rank] = (char)(team.rank + 1);
    }
    barrier(&team);
    for (int j = 1; j < team.n; j++) {
        if (team.rank != 0) { /* rank 0's memory is there as long as anybody maps it */
            TEST_EQ(((char *)(uintptr_t)hit.bases[0])[hit.off + (size_t)j], j + 1);
        } else if (stays) {
            TEST_EQ(((char *)p)[j], j + 1);
        }
    }
    barrier(&team);
    if (team.rank != 0) {
        struct ccl_mem_list kept = {NULL, 0};
        ccl_heap_keep(team.heap, &kept);
        team_close(&team, true);
        TEST_EQ(kept.count, stays);
        for (size_t i = 0; i < kept.count; i++) {
            TEST_OK(ops->mem_free(kept.ptr[i]));
        }
        free(kept.ptr);
    }
    TEST_OK(ccl_bootstrap_barrier(world->boot));
    TEST_EQ(ccl_host_memory_count(), stays && (world->rank == 0 || !world->processes));
    TEST_OK(ccl_bootstrap_barrier(world->boot));
}

static void unclean(struct world *world)
{
    struct ccl_runtime_ops ops = test_ops;
    ops.device_props = no_host_props;
    ops.mem_export = uncounted_export;
    late_stores(world, &test_ops, false);
    late_stores(world, &ops, true);
}

static void cycles(struct world *world)
{
    enum { WARM_UP = 20, CYCLES = TEST_SANITIZED ? 120 : 500 };
    int before = 0;
    for (int i = 0; i < CYCLES; i++) {
        struct team team = team_open(world, MIB);
        void *p, *q, *handle, *mine;
        TEST_OK(ccl_heap_alloc(team.heap, 1000, &p));
        TEST_OK(ccl_heap_alloc(team.heap, 3 * MIB, &q));
        TEST_OK(test_ops.mem_alloc(CCL_MEM_DATA, 4096, &mine));
        TEST_OK(ccl_heap_register(team.heap, mine, 4096, &handle));
        team_close(&team, true);
        TEST_OK(test_ops.mem_free(mine));
        TEST_OK(ccl_bootstrap_barrier(world->boot));
        if (i == WARM_UP) {
            before = count_entries("/proc/self/fd");
        }
    }
    /* A thread of this process may be a few calls behind. */
    TEST_OK(ccl_bootstrap_barrier(world->boot));
    int after = count_entries("/proc/self/fd");
    TEST_CHECK(after <= before + 4);
    TEST_EQ(ccl_host_memory_count(), 0);
    TEST_OK(ccl_bootstrap_barrier(world->boot));
}

int main(void)
{
    static const int sizes[] = {1, 2, 3, 5, 8};
    for (size_t i = 0; i < CCL_ARRAY_LEN(sizes); i++) {
        run_processes("random", sizes[i], random_sequence);
        run_threads("random", sizes[i], random_sequence);
    }
    run_processes("growth", 3, growth);
    run_threads("growth", 2, growth);
    run_processes("disagreement", 3, disagreement);
    run_threads("disagreement", 4, disagreement);
    run_processes("one rank fails", 3, one_rank_fails);
    run_threads("one rank fails", 3, one_rank_fails);
    if (!TEST_SANITIZED) { /* their address space has no limit */
        run_processes("exhausted", 3, exhausted);
    }
    run_processes("copied table", 2, copied_table);
    run_threads("copied table", 3, copied_table);
    run_processes("unclean", 3, unclean);
    run_threads("unclean", 2, unclean);
    run_processes("cycles", 2, cycles);
    run_threads("cycles", 3, cycles);
    return test_result();
}
