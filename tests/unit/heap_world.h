/* SPDX-License-Identifier: MIT
 *
 * Ranks for the heap's tests, as processes or as threads of one process, each with a bootstrap, a port and a heap
 * like a communicator; and a runtime table whose members fail on demand. The test's own process stays without
 * threads, so it can fork. */
#ifndef CCL_TEST_HEAP_WORLD_H
#define CCL_TEST_HEAP_WORLD_H

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "args.h"
#include "heap/heap.h"
#include "test.h"
#include "util/log.h"

#define MAX_RANKS 8
#define TIMEOUT_NS UINT64_C(60000000000)
#define MIB ((size_t)1 << 20)
#define TEST_OK(call) TEST_EQ(call, cclSuccess)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TEST_SANITIZED 1
#endif
#endif
#ifndef TEST_SANITIZED
#define TEST_SANITIZED 0
#endif

struct shared {
    cclUniqueId id;
    atomic_int id_ready;
    atomic_int pids[MAX_RANKS];
    atomic_int done; /* ranks, where a barrier cannot serve since a rank is dead */
};

/* What a communicator has. */
struct team {
    struct ccl_bootstrap *boot;
    struct ccl_monitor_port *port;
    struct ccl_heap *heap;
    int rank, n;
};

struct world {
    struct shared *shared;
    struct ccl_bootstrap *boot;
    void (*fn)(struct world *world);
    int rank, size;
    bool processes; /* else threads of one process */
    int victim;     /* rank that ends by SIGKILL, -1: none */
};

/* The host runtime with faults. Per thread, since threads may be ranks; imports of registrations fail on the monitor
 * thread, so that one is per process. */
static _Thread_local bool fail_alloc, fail_export;
static atomic_int fail_import_of = -1; /* imports of allocations of this many bytes fail */
static atomic_int fail_import_once;    /* the next so many imports fail */
static atomic_int closes;
static struct ccl_runtime_ops test_ops;

static cclResult_t faulty_alloc(enum ccl_mem_type type, size_t bytes, void **ptr)
{
    if (fail_alloc) {
        return ccl_error_set(cclSystemError, CCL_RT, "test: no device memory for %zu bytes", bytes);
    }
    return ccl_runtime_host.mem_alloc(type, bytes, ptr);
}

static cclResult_t faulty_export(void *base, struct ccl_mem_handle *handle)
{
    if (fail_export) {
        return ccl_error_set(cclSystemError, CCL_RT, "test: no export of %p", base);
    }
    return ccl_runtime_host.mem_export(base, handle);
}

static cclResult_t faulty_import(const struct ccl_mem_handle *handle, void **base)
{
    if ((int)handle->size_bytes == atomic_load(&fail_import_of) ||
        (atomic_load(&fail_import_once) > 0 && atomic_fetch_sub(&fail_import_once, 1) > 0)) {
        return ccl_error_set(cclSystemError, CCL_RT, "test: no import of %llu bytes",
                             (unsigned long long)handle->size_bytes);
    }
    return ccl_runtime_host.mem_import(handle, base);
}

static cclResult_t counting_close(void *base)
{
    atomic_fetch_add(&closes, 1);
    return ccl_runtime_host.mem_close(base);
}

static inline void on_message(void *ctx, int peer, const void *msg, size_t bytes, int fd)
{
    ccl_heap_on_message(ctx, peer, msg, bytes, fd);
}

static inline void on_died(void *ctx, int peer)
{
    ccl_heap_on_peer_died(ctx, peer);
}

static const struct ccl_monitor_callbacks heap_callbacks = {.peer_died = on_died, .message = on_message};

static inline void team_connect(struct team *team)
{
    team->rank = ccl_bootstrap_rank(team->boot);
    team->n = ccl_bootstrap_size(team->boot);
    TEST_OK(ccl_monitor_attach(team->boot, &heap_callbacks, team->heap, &team->port));
    ccl_heap_set_port(team->heap, team->port);
    TEST_OK(ccl_bootstrap_barrier(team->boot));
}

static inline struct team team_open(struct world *world, size_t chunk_bytes)
{
    struct team team = {.boot = world->boot};
    TEST_OK(ccl_heap_create(&test_ops, world->boot, chunk_bytes, &team.heap));
    team_connect(&team);
    return team;
}

/* color -1: no team. */
static inline struct team team_split(struct team *parent, int color, int key, size_t chunk_bytes)
{
    struct team team = {.rank = -1};
    int ranks[MAX_RANKS];
    TEST_OK(ccl_bootstrap_split(parent->boot, color, key, TIMEOUT_NS, ranks, &team.boot));
    if (team.boot != NULL) {
        TEST_OK(ccl_heap_split(parent->heap, team.boot, ranks, chunk_bytes, &team.heap));
        team_connect(&team);
    }
    return team;
}

/* root: its bootstrap is the world's. */
static inline void team_close(struct team *team, bool root)
{
    ccl_heap_leave(team->heap);
    ccl_monitor_detach(team->port);
    ccl_heap_destroy(team->heap, false);
    if (!root) {
        ccl_bootstrap_destroy(team->boot);
    }
    memset(team, 0, sizeof(*team));
}

static inline void barrier(const struct team *team)
{
    TEST_OK(ccl_bootstrap_barrier(team->boot));
}

/* value of rank 0 on all ranks. */
static inline uint64_t from_rank(const struct team *team, int rank, uint64_t value)
{
    uint64_t all[MAX_RANKS] = {0};
    all[team->rank] = value;
    TEST_OK(ccl_bootstrap_allgather(team->boot, all, sizeof(all[0])));
    return all[rank];
}

static inline bool same_everywhere(const struct team *team, uint64_t value)
{
    uint64_t all[MAX_RANKS] = {0};
    bool same = true;
    all[team->rank] = value;
    TEST_OK(ccl_bootstrap_allgather(team->boot, all, sizeof(all[0])));
    for (int j = 0; j < team->n; j++) {
        same = same && all[j] == value;
    }
    return same;
}

/* A table entry as a kernel reads it. */
static inline uint64_t table_entry(const struct team *team, int owner, uint32_t id)
{
    const uint64_t *table = (const uint64_t *)(uintptr_t)ccl_heap_table(team->heap);
    return __atomic_load_n(&table[(size_t)owner * CCL_WINDOWS + id], __ATOMIC_ACQUIRE);
}

/* Every rank stores a word of its own into the block at ptr of every rank of team, through the window's bases and
 * through the table, and finds those of all ranks in its own. The block has 16 bytes a rank. */
static inline void exchange_words(struct team *team, char *ptr, uint64_t salt)
{
    struct ccl_window_hit hit;
    bool found = ccl_heap_find(team->heap, ptr, (size_t)team->n * 16, &hit);
    TEST_CHECK(found);
    if (!found || hit.bases == NULL) {
        TEST_FAIL("block %p is in no symmetric window", (void *)ptr);
        return;
    }
    for (int j = 0; j < team->n; j++) {
        TEST_CHECK(table_entry(team, j, hit.id) == hit.bases[j]);
        uint64_t *there = (uint64_t *)(uintptr_t)(hit.bases[j] + hit.off) + team->rank * 2;
        there[0] = salt + (uint64_t)(team->rank * 100 + j);
        there[1] = ~there[0];
    }
    barrier(team);
    for (int j = 0; j < team->n; j++) {
        TEST_EQ(((uint64_t *)(void *)ptr)[j * 2], salt + (uint64_t)(j * 100 + team->rank));
        TEST_EQ(((uint64_t *)(void *)ptr)[j * 2 + 1], ~(salt + (uint64_t)(j * 100 + team->rank)));
    }
    barrier(team);
}

static inline int peers_mapped(const struct team *team, const void *ptr)
{
    cclPointerInfo_t info;
    ccl_heap_pointer_info(team->heap, ptr, &info);
    return info.peers_mapped;
}

/* Until so many peers have mapped the window of ptr; false after ten seconds. */
static inline bool await_mapped(const struct team *team, const void *ptr, int count)
{
    uint64_t end = ccl_now_ns() + UINT64_C(10000000000);
    while (peers_mapped(team, ptr) != count && ccl_now_ns() < end) {
        usleep(200);
    }
    TEST_EQ(peers_mapped(team, ptr), count);
    return peers_mapped(team, ptr) == count;
}

/* ---- registrations ---- */

#define PAGE 4096u
#define REGION (5 * PAGE)

static inline double since_ms(uint64_t begin_ns)
{
    return (double)(ccl_now_ns() - begin_ns) / 1e6;
}

static inline char *device_memory(size_t bytes)
{
    void *p = NULL;
    TEST_OK(ccl_runtime_host.mem_alloc(CCL_MEM_DATA, bytes, &p));
    return p;
}

static inline int count_entries(const char *path)
{
    int n = 0;
    DIR *dir = opendir(path);
    while (dir != NULL && readdir(dir) != NULL) {
        n++;
    }
    closedir(dir);
    return n;
}

static inline void *rank_main(void *arg)
{
    struct world *world = arg;
    atomic_store(&world->shared->pids[world->rank], getpid());
    if (world->rank == 0) {
        TEST_OK(ccl_bootstrap_get_id(&world->shared->id));
        atomic_store(&world->shared->id_ready, 1);
    }
    while (atomic_load(&world->shared->id_ready) == 0) {
        usleep(200);
    }
    TEST_OK(ccl_bootstrap_create(&world->shared->id, world->rank, world->size, TIMEOUT_NS, &world->boot));
    if (world->boot != NULL) {
        world->fn(world);
        ccl_bootstrap_destroy(world->boot);
    }
    return NULL;
}

static inline void child_main(struct world *world)
{
    pthread_t threads[MAX_RANKS];
    struct world ranks[MAX_RANKS];
    test_failures = 0; /* those of earlier tests are the parent's */
    alarm(120);
    TEST_OK(ccl_runtime_host.init());
    test_ops = ccl_runtime_host;
    test_ops.mem_alloc = faulty_alloc;
    test_ops.mem_export = faulty_export;
    test_ops.mem_import = faulty_import;
    test_ops.mem_close = counting_close;
    if (world->processes) {
        test_rank = world->rank;
        rank_main(world);
    } else {
        for (int i = 0; i < world->size; i++) {
            ranks[i] = *world;
            ranks[i].rank = i;
            pthread_create(&threads[i], NULL, rank_main, &ranks[i]);
        }
        for (int i = 0; i < world->size; i++) {
            pthread_join(threads[i], NULL);
        }
    }
    fflush(stdout);
    exit(test_result()); /* not _exit: the leak checker runs at exit */
}

static inline void run_world(const char *name, struct world model)
{
    pid_t pids[MAX_RANKS];
    uint64_t start = ccl_now_ns();
    int children = model.processes ? model.size : 1;
    model.shared = mmap(NULL, sizeof(*model.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fflush(stdout);
    for (int i = 0; i < children; i++) {
        model.rank = i;
        pids[i] = fork();
        if (pids[i] == 0) {
            child_main(&model); /* does not return */
        }
    }
    for (int i = 0; i < children; i++) {
        int status = 0;
        while (waitpid(pids[i], &status, 0) < 0 && errno == EINTR) {
        }
        bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        bool fine = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (i == model.victim ? !killed : !fine) {
            TEST_FAIL("%s: rank %d of %d ended with status 0x%x", name, i, model.size, status);
        }
    }
    munmap(model.shared, sizeof(*model.shared));
    printf("%-24s %d %s: %.2f s\n", name, model.size, model.processes ? "processes" : "threads",
           (double)(ccl_now_ns() - start) * 1e-9);
    fflush(stdout);
}

static inline void run_processes(const char *name, int size, void (*fn)(struct world *world))
{
    run_world(name, (struct world){.fn = fn, .size = size, .processes = true, .victim = -1});
}

static inline void run_threads(const char *name, int size, void (*fn)(struct world *world))
{
    run_world(name, (struct world){.fn = fn, .size = size, .victim = -1});
}

#endif
