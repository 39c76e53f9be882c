/* SPDX-License-Identifier: MIT
 *
 * Proves that registered memory is mapped by peers in the background, that registrations of one allocation share a
 * window, that deregistering unmaps it on all peers before the id is used again, and what is staged instead of
 * shared. */
/* CTEST: labels quick tsan */
#include "heap_world.h"

#include <fcntl.h>

#include "runtime/host_memory.h"

#define ODD_REGION (7 * PAGE) /* the size whose import fails where asked for */

/* Every rank registers its own region; each stores into all of them through its table. */
static void exchange(struct world *world)
{
    struct team team = team_open(world, MIB);
    char *mine = device_memory(REGION);
    void *low = NULL, *high = NULL, *other = NULL;
    struct ccl_window_hit hit = {0}, again = {0};
    cclPointerInfo_t info;
    TEST_OK(ccl_heap_register(team.heap, mine + 100, 3 * PAGE, &low));
    TEST_OK(ccl_heap_register(team.heap, mine + 2 * PAGE, REGION - 2 * PAGE, &high));
    TEST_CHECK(low != NULL && high != NULL && low != high);
    await_mapped(&team, mine, team.n - 1);
    TEST_CHECK(ccl_heap_find(team.heap, mine, REGION, &hit) && hit.bases == NULL && hit.off == 0);
    TEST_CHECK(!ccl_heap_find(team.heap, mine, REGION + 1, &again));
    TEST_CHECK(ccl_heap_find(team.heap, mine + 5000, 8, &again) && again.id == hit.id && again.off == 5000);
    barrier(&team);
    for (int owner = 0; owner < team.n; owner++) {
        uint64_t id = from_rank(&team, owner, hit.id);
        uint64_t base = table_entry(&team, owner, (uint32_t)id);
        TEST_CHECK(base != 0);
        if (base != 0) {
            ((uint32_t *)(uintptr_t)(base + 3 * PAGE))[team.rank] = (uint32_t)(team.rank * 10 + owner);
        }
    }
    barrier(&team);
    for (int j = 0; j < team.n; j++) {
        TEST_EQ(((uint32_t *)(void *)(mine + 3 * PAGE))[j], j * 10 + team.rank);
    }
    ccl_heap_pointer_info(team.heap, mine + 200, &info);
    TEST_EQ(info.kind, cclMemRegistered);
    TEST_CHECK(info.base == mine + 100);
    TEST_EQ(info.size, 3 * PAGE);
    TEST_EQ(info.offset, 100);
    TEST_EQ(info.window, hit.id);

    TEST_OK(ccl_heap_deregister(team.heap, low));
    TEST_EQ(ccl_heap_deregister(team.heap, low), cclInvalidUsage);
    TEST_CHECK(ccl_heap_find(team.heap, mine + 2 * PAGE, PAGE, &again) && again.id == hit.id);
    barrier(&team);
    uint64_t begin = ccl_now_ns();
    atomic_store(&closes, 0);
    barrier(&team);
    TEST_OK(ccl_heap_deregister(team.heap, high));
    TEST_CHECK(since_ms(begin) < 1500);
    TEST_CHECK(!ccl_heap_find(team.heap, mine, 1, &again));
    barrier(&team);
    for (int owner = 0; owner < team.n; owner++) {
        uint64_t id = from_rank(&team, owner, hit.id);
        TEST_EQ(table_entry(&team, owner, (uint32_t)id), 0);
    }
    barrier(&team);
    TEST_EQ(atomic_load(&closes), (world->processes ? 1 : team.n) * (team.n - 1));
    TEST_OK(ccl_heap_register(team.heap, mine, REGION, &other));
    TEST_CHECK(ccl_heap_find(team.heap, mine, REGION, &again) &&
               again.id == hit.id); /* acknowledged by all: used again */
    TEST_EQ(ccl_heap_deregister(team.heap, high), cclInvalidUsage);
    TEST_EQ(ccl_heap_deregister(team.heap, &team), cclInvalidUsage);
    TEST_OK(ccl_heap_deregister(team.heap, NULL));
    await_mapped(&team, mine, team.n - 1);
    barrier(&team);
    TEST_OK(ccl_heap_deregister(team.heap, other));
    barrier(&team);
    team_close(&team, true);
    TEST_OK(ccl_runtime_host.mem_free(mine));
    TEST_OK(ccl_bootstrap_barrier(world->boot));
    TEST_EQ(ccl_host_memory_count(), 0);
    TEST_OK(ccl_bootstrap_barrier(world->boot));
}

/* Ranks register different numbers of regions while the heap grows, again and again. */
static void churn(struct world *world)
{
    enum { REGIONS = 12, ROUNDS = 12 };
    struct team team = team_open(world, MIB);
    char *region[REGIONS];
    void *handle[REGIONS], *block;
    for (int i = 0; i < REGIONS; i++) {
        region[i] = device_memory(REGION);
    }
    for (int round = 0; round < ROUNDS; round++) {
        int count = 1 + (round * 7 + team.rank * 3) % REGIONS;
        for (int i = 0; i < count; i++) {
            TEST_OK(ccl_heap_register(team.heap, region[i], REGION, &handle[i]));
        }
        TEST_OK(ccl_heap_alloc(team.heap, 3 * MIB, &block));
        exchange_words(&team, block, (uint64_t)round);
        for (int i = 0; i < count; i++) {
            if ((i + round) % 3 == 0) {
                await_mapped(&team, region[i], team.n - 1);
            }
            TEST_OK(ccl_heap_deregister(team.heap, handle[i]));
        }
        exchange_words(&team, block, (uint64_t)round);
        TEST_OK(ccl_heap_free(team.heap, block));
        TEST_OK(ccl_heap_check(team.heap));
    }
    barrier(&team);
    team_close(&team, true);
    for (int i = 0; i < REGIONS; i++) {
        TEST_OK(ccl_runtime_host.mem_free(region[i]));
    }
    TEST_OK(ccl_bootstrap_barrier(world->boot));
    TEST_EQ(ccl_host_memory_count(), 0);
    TEST_OK(ccl_bootstrap_barrier(world->boot));
}

static void refused(struct world *world)
{
    struct team team = team_open(world, MIB);
    char *mine = device_memory(REGION), plain[64];
    struct ccl_window_hit hit;
    void *handle = &hit, *odd_handle = NULL;
    TEST_OK(ccl_heap_register(team.heap, plain, sizeof(plain), &handle));
    TEST_CHECK(handle == NULL);
    TEST_CHECK(!ccl_heap_find(team.heap, plain, 1, &hit));
    handle = &hit;
    TEST_EQ(ccl_heap_register(team.heap, mine + PAGE, REGION, &handle), cclInvalidArgument);
    TEST_EQ(ccl_heap_register(team.heap, mine, 0, &handle), cclInvalidArgument);
    TEST_EQ(ccl_heap_register(team.heap, NULL, 1, &handle), cclInvalidArgument);
    fail_export = true;
    TEST_EQ(ccl_heap_register(team.heap, mine, REGION, &handle), cclSystemError);
    fail_export = false;
    TEST_CHECK(handle == &hit);

    /* The last rank cannot map one region: all others can, and the owners go on. */
    char *odd = device_memory(ODD_REGION);
    if (world->processes && team.rank == team.n - 1) {
        atomic_store(&fail_import_of, (int)ODD_REGION);
    }
    barrier(&team);
    TEST_OK(ccl_heap_register(team.heap, odd, ODD_REGION, &odd_handle));
    TEST_OK(ccl_heap_register(team.heap, mine, REGION, &handle));
    await_mapped(&team, mine, team.n - 1); /* sent later, so the answer to the first has come too */
    TEST_EQ(peers_mapped(&team, odd), world->processes && team.rank != team.n - 1 ? team.n - 2 : team.n - 1);
    TEST_OK(ccl_heap_deregister(team.heap, odd_handle));
    TEST_OK(ccl_heap_deregister(team.heap, handle));

    /* What no heap would send. */
    uint32_t junk[4] = {0x48500001, 3, 0, 0};
    barrier(&team);
    ccl_heap_on_message(team.heap, (team.rank + 1) % team.n, junk, sizeof(junk),
                        open("/dev/null", O_RDONLY | O_CLOEXEC));
    ccl_heap_on_message(team.heap, (team.rank + 1) % team.n, junk, 0, -1);
    TEST_OK(ccl_heap_check(team.heap));
    barrier(&team);
    team_close(&team, true);
    TEST_OK(ccl_runtime_host.mem_free(mine));
    TEST_OK(ccl_runtime_host.mem_free(odd));
}

/* A child sees the parent's registrations; the same memory registered with both is two windows. */
static void family(struct world *world)
{
    struct team parent = team_open(world, MIB);
    char *mine = device_memory(REGION);
    void *first, *second, *third;
    struct ccl_window_hit hit = {0}, child_hit = {0};
    TEST_OK(ccl_heap_register(parent.heap, mine, REGION, &first));
    await_mapped(&parent, mine, parent.n - 1);
    barrier(&parent);
    struct team child = team_split(&parent, 0, -parent.rank, MIB);
    TEST_CHECK(ccl_heap_find(child.heap, mine, REGION, &hit));
    uint32_t first_id = hit.id;
    for (int owner = 0; owner < child.n; owner++) { /* filled at the split */
        uint32_t id = (uint32_t)from_rank(&child, owner, first_id);
        TEST_CHECK(table_entry(&child, owner, id) == table_entry(&parent, parent.n - 1 - owner, id));
        TEST_CHECK(table_entry(&child, owner, id) != 0);
    }
    char *later = device_memory(REGION);
    TEST_OK(ccl_heap_register(parent.heap, later, REGION, &third));
    await_mapped(&child, later, child.n - 1);
    TEST_CHECK(ccl_heap_find(child.heap, later, REGION, &hit));
    barrier(&child);
    for (int owner = 0; owner < child.n; owner++) { /* added by the monitor */
        TEST_CHECK(table_entry(&child, owner, (uint32_t)from_rank(&child, owner, hit.id)) != 0);
    }
    TEST_OK(ccl_heap_register(child.heap, mine, REGION, &second));
    TEST_EQ(ccl_heap_deregister(parent.heap, &second), cclInvalidUsage);
    barrier(&parent);
    TEST_OK(ccl_heap_deregister(parent.heap, first));
    barrier(&parent);
    TEST_CHECK(!ccl_heap_find(parent.heap, mine, 1, &hit));
    TEST_CHECK(ccl_heap_find(child.heap, mine, REGION, &child_hit) && child_hit.id != first_id);
    for (int owner = 0; owner < child.n; owner++) {
        TEST_EQ(table_entry(&child, owner, (uint32_t)from_rank(&child, owner, first_id)), 0);
    }
    await_mapped(&child, mine, child.n - 1);
    barrier(&parent);
    team_close(&parent, true); /* ends the registration of later, for the child too */
    TEST_CHECK(!ccl_heap_find(child.heap, later, 1, &hit));
    TEST_CHECK(ccl_heap_find(child.heap, mine, REGION, &hit));
    barrier(&child);
    TEST_OK(ccl_heap_deregister(child.heap, second));
    barrier(&child);
    team_close(&child, false);
    TEST_OK(ccl_runtime_host.mem_free(mine));
    TEST_OK(ccl_runtime_host.mem_free(later));
    TEST_OK(ccl_bootstrap_barrier(world->boot));
    TEST_EQ(ccl_host_memory_count(), 0);
    TEST_OK(ccl_bootstrap_barrier(world->boot));
}

static cclResult_t page_query(const void *ptr, struct ccl_pointer_attr *attr)
{
    CCL_TRY(ccl_runtime_host.pointer_query(ptr, attr));
    attr->base = (void *)((uintptr_t)ptr / PAGE * PAGE);
    attr->size_bytes = PAGE;
    return cclSuccess;
}

static cclResult_t no_export(void *base, struct ccl_mem_handle *handle)
{
    (void)base;
    *handle = (struct ccl_mem_handle){.fd = -1};
    return cclSuccess;
}

/* More allocations than window ids: the last ones stay staged, the heap can still grow, and then ends with an error. */
static void ids_run_out(struct world *world)
{
    enum { PAGES = 1000, FOR_CHUNKS = 64 };
    static void *handle[PAGES];
    struct ccl_runtime_ops ops = test_ops;
    struct team team = {.boot = world->boot};
    char *pages = device_memory((size_t)PAGES * PAGE);
    int given = 0, chunks = 0;
    ops.pointer_query = page_query;
    ops.mem_export = no_export;
    TEST_OK(ccl_heap_create(&ops, world->boot, PAGE, &team.heap));
    team_connect(&team);
    for (int i = 0; i < PAGES; i++) {
        TEST_OK(ccl_heap_register(team.heap, pages + (size_t)i * PAGE, PAGE, &handle[i]));
        given += handle[i] != NULL;
    }
    TEST_EQ(given, CCL_WINDOWS - 1 - FOR_CHUNKS);
    void *block;
    while (ccl_heap_alloc(team.heap, 2 * MIB, &block) == cclSuccess && chunks < 2 * FOR_CHUNKS) {
        chunks++;
    }
    TEST_EQ(chunks, FOR_CHUNKS);
    TEST_CHECK(strstr(ccl_error_last(), "all 1023 window ids") != NULL);
    for (int i = 0; i < PAGES; i++) {
        TEST_OK(ccl_heap_deregister(team.heap, handle[i]));
    }
    TEST_OK(ccl_heap_alloc(team.heap, 2 * MIB, &block));
    TEST_OK(ccl_heap_check(team.heap));
    team_close(&team, true);
    TEST_OK(ccl_runtime_host.mem_free(pages));
}

int main(void)
{
    run_processes("exchange", 1, exchange);
    run_processes("exchange", 2, exchange);
    run_processes("exchange", 5, exchange);
    run_threads("exchange", 3, exchange);
    run_processes("churn", 3, churn);
    run_threads("churn", 4, churn);
    run_processes("refused", 3, refused);
    run_threads("refused", 2, refused);
    run_processes("family", 3, family);
    run_threads("family", 3, family);
    run_processes("ids run out", 1, ids_run_out);
    return test_result();
}
