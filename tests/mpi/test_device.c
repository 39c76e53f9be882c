/* SPDX-License-Identifier: MIT
 *
 * Proves what ccl/device.h promises to users' own kernels, with CPU functions as kernels: translation follows the heap as it grows and shrinks,
 * copies are exact at every alignment, atomics of all ranks add up, a signal publishes the data before it, a barrier lets nobody through
 * early. Ranks are processes, or threads of one process, where the thread sanitizer sees both sides of every exchange. */
/* CTEST: ranks 1 2 3 4 8; labels mpi host quick; timeout 60 */
/* CTEST: ranks 1; labels mpi host quick tsan; timeout 60; args threads */
#include <pthread.h>
#include <string.h>

#include <ccl/device.h>

#include "common.h"

#define THREAD_RANKS 3
#define GRID 3 /* blocks of the grid barrier */
#define ROUNDS (TM_SANITIZED ? 300u : 2000u)
#define ADDS 3000u

struct side {
    cclComm_t comm;
    int rank, n;
    cclDeviceComm_t dev;
};

static const cclBlock_t block = {0, 1, 0, 1};

/* Collective; zeroed on every rank when it returns on any. */
static void *heap_zeroed(struct side *s, size_t bytes)
{
    void *p = NULL;

    TM_MUST(cclMemAlloc(s->comm, &p, bytes));
    memset(p, 0, bytes);
    TEST_EQ(ccl_barrier_block_system(&s->dev, block, 15), 0);
    return p;
}

static uint32_t right_of(const struct side *s) { return (uint32_t)(s->rank + 1) % (uint32_t)s->n; }
static uint32_t left_of(const struct side *s) { return (uint32_t)(s->rank + s->n - 1) % (uint32_t)s->n; }

static void arguments(struct side *s)
{
    TM_RC(cclDeviceComm(NULL, &s->dev), cclInvalidArgument);
    TM_RC(cclDeviceComm(s->comm, NULL), cclInvalidArgument);
    TM_MUST(cclDeviceComm(s->comm, &s->dev));
    TEST_EQ(s->dev.rank, s->rank);
    TEST_EQ(s->dev.n, s->n);
    TEST_EQ(s->dev.size, sizeof(s->dev));
    for (uint32_t r = 0; r < s->dev.n; r++) {
        for (uint32_t i = 0; i < CCL_SIGNALS; i++) {
            TEST_EQ(*ccl_signal(&s->dev, r, i), 0);
        }
    }
}

static void translation(struct side *s)
{
    const size_t big = (size_t)300 << 20; /* larger than a chunk, so it gets one of its own */
    char *small = heap_zeroed(s, 1000), *large = NULL, on_stack;

    TM_MUST(cclMemAlloc(s->comm, (void **)&large, big)); /* after cclDeviceComm */
    TEST_CHECK(ccl_translate(&s->dev, &on_stack, 0) == NULL);
    TEST_EQ(ccl_window(&s->dev, &on_stack).bases, 0);
    TEST_CHECK(ccl_translate(&s->dev, small + 999, s->dev.rank) == small + 999);
    TEST_CHECK(ccl_translate(&s->dev, large + big - 1, s->dev.rank) == large + big - 1);
    *(int *)ccl_translate(&s->dev, small + 8, right_of(s)) = s->rank + 1;
    *(int *)ccl_translate(&s->dev, large + big - 4, right_of(s)) = s->rank + 1;
    TEST_EQ(ccl_barrier_block_system(&s->dev, block, 0), 0);
    TEST_EQ(*(int *)(small + 8), left_of(s) + 1);
    TEST_EQ(*(int *)(large + big - 4), left_of(s) + 1);
    TM_OK(cclMemFree(s->comm, large)); /* its chunk goes */
    TEST_CHECK(ccl_translate(&s->dev, large, s->dev.rank) == NULL);
    TM_OK(cclMemFree(s->comm, small));
}

static void copies(struct side *s)
{
    const size_t room = 400000;
    static const size_t sizes[] = {0, 1, 3, 4, 7, 8, 15, 16, 17, 31, 33, 64, 100, 255, 1024, 4099};
    char *src = heap_zeroed(s, room), *dst = heap_zeroed(s, room);
    char *theirs = ccl_translate(&s->dev, dst, right_of(s)), *back = malloc(room);

    tm_gen(src, 0, room, 7, s->rank);
    for (size_t from = 0; from < 17; from++) {
        for (size_t to = 0; to < 17; to++) {
            for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
                uint32_t threads = (uint32_t)(1 + (from + to + i) % 5);

                /* what GPUs do, one thread of the block after the other */
                memset(back, TM_POISON, sizes[i] + 64);
                for (uint32_t t = 0; t < threads; t++) {
                    cclBlock_t b = {t, threads, 0, 1};
                    ccl_copy_block_units(b, (uint64_t)(back + 16 + to), (uint64_t)(src + from), sizes[i]);
                }
                TEST_CHECK(memcmp(back + 16 + to, src + from, sizes[i]) == 0);
                tm_check_bytes(back, 16 + to, TM_POISON, "before a copy");
                tm_check_bytes(back + 16 + to + sizes[i], 64 - 16 - to, TM_POISON, "behind a copy");
            }
        }
    }
    for (size_t off = 0; off < 17; off += 3) {
        size_t bytes = room - 100 - off;

        memset(dst, TM_POISON, room);
        TEST_EQ(ccl_barrier_block_system(&s->dev, block, 0), 0);
        if (off % 2 == 0) {
            ccl_put_block(block, theirs + off, src + 5, bytes);
            ccl_release_block_system();
        } else {
            ccl_put_release_block_system(block, theirs + off, src + 5, bytes);
        }
        TEST_EQ(ccl_barrier_block_system(&s->dev, block, 0), 0);
        tm_check_data(dst + off, 5, bytes, 1, 7, (int)left_of(s), "a put");
        tm_check_bytes(dst, off, TM_POISON, "before a put");
        tm_check_bytes(dst + off + bytes, room - off - bytes, TM_POISON, "behind a put");
        ccl_get_block(block, back, ccl_translate(&s->dev, src + off, right_of(s)), bytes);
        tm_check_data(back, off, bytes, 1, 7, (int)right_of(s), "a get");
        ccl_store_weak_vec16(back, ccl_load_weak_vec16(src + 32));
        TEST_CHECK(memcmp(back, src + 32, 16) == 0);
        TEST_EQ(ccl_barrier_block_system(&s->dev, block, 0), 0);
    }
    free(back);
    TM_OK(cclMemFree(s->comm, dst));
    TM_OK(cclMemFree(s->comm, src));
}

/* What each function returns and leaves, one thread. */
#define OPERATIONS(order, scope, bits)                                                              \
    do {                                                                                            \
        uint##bits##_t w = 12, was = (uint##bits##_t)-6;                                            \
        TEST_EQ(ccl_atomic_add_##order##_##scope##_u##bits(&w, was), 12);                           \
        TEST_EQ(ccl_atomic_or_##order##_##scope##_u##bits(&w, 9), 6);                               \
        TEST_EQ(ccl_atomic_and_##order##_##scope##_u##bits(&w, 10), 15);                            \
        TEST_EQ(ccl_atomic_xor_##order##_##scope##_u##bits(&w, 3), 10);                             \
        TEST_EQ(ccl_atomic_exchange_##order##_##scope##_u##bits(&w, was), 9);                       \
        TEST_CHECK(ccl_atomic_cas_##order##_##scope##_u##bits(&w, 1, 2) == was && w == was);        \
        TEST_CHECK(ccl_atomic_cas_##order##_##scope##_u##bits(&w, was, 2) == was && w == 2);        \
    } while (0)
#define ACCESSES(scope, bits)                                     \
    do {                                                          \
        uint##bits##_t x = 0;                                     \
        ccl_atomic_store_relaxed_##scope##_u##bits(&x, 3);        \
        TEST_EQ(ccl_atomic_load_acquire_##scope##_u##bits(&x), 3); \
        ccl_atomic_store_release_##scope##_u##bits(&x, 4);        \
        TEST_EQ(ccl_atomic_load_relaxed_##scope##_u##bits(&x), 4); \
        OPERATIONS(relaxed, scope, bits);                         \
        OPERATIONS(acquire, scope, bits);                         \
        OPERATIONS(release, scope, bits);                         \
        OPERATIONS(acq_rel, scope, bits);                         \
    } while (0)

struct counters {
    uint64_t sum64, swaps, bits, flips, token;
    uint32_t sum32, swaps32;
};

static void atomics(struct side *s)
{
    struct counters *own = heap_zeroed(s, sizeof(*own)), *c = ccl_translate(&s->dev, own, 0);
    uint64_t mine = (uint64_t)s->rank + 1, kept = mine, old;
    const uint64_t n = (uint64_t)s->n;

    ACCESSES(system, 32);
    ACCESSES(system, 64);
    ACCESSES(agent, 32);
    ACCESSES(agent, 64);
    TEST_EQ(ccl_barrier_block_system(&s->dev, block, 0), 0);
    for (uint32_t i = 0; i < ADDS; i++) { /* all ranks on the same words of rank 0 */
        ccl_atomic_add_relaxed_system_u64(&c->sum64, mine << 20);
        ccl_atomic_add_acq_rel_system_u32(&c->sum32, (uint32_t)mine);
        ccl_atomic_xor_release_system_u64(&c->flips, i + mine);
        ccl_atomic_or_relaxed_system_u64(&c->bits, 1ull << (s->rank % 32));
        ccl_atomic_and_relaxed_system_u64(&c->bits, ~(1ull << (32 + s->rank % 32)));
        kept = ccl_atomic_exchange_acq_rel_system_u64(&c->token, kept); /* numbers change hands, none is lost */
        while ((old = ccl_atomic_load_relaxed_system_u64(&c->swaps),
                ccl_atomic_cas_acquire_system_u64(&c->swaps, old, old + mine) != old)) {
        }
        uint32_t old32 = ccl_atomic_load_relaxed_system_u32(&c->swaps32);
        while ((ccl_atomic_cas_relaxed_system_u32(&c->swaps32, old32, old32 + 1)) != old32) {
            old32 = ccl_atomic_load_acquire_system_u32(&c->swaps32);
        }
    }
    uint64_t *kept_sum = ccl_signal(&s->dev, 0, 200);
    ccl_signal_add_release_system(kept_sum, kept);
    TEST_EQ(ccl_barrier_block_system(&s->dev, block, 0), 0);
    uint64_t flips = 0, bits = 0, ranks_sum = n * (n + 1) / 2;
    for (uint64_t r = 0; r < n; r++) {
        bits |= 1ull << (r % 32);
        for (uint64_t i = 0; i < ADDS; i++) {
            flips ^= i + r + 1;
        }
    }
    TEST_EQ(c->sum64, (ranks_sum * ADDS) << 20);
    TEST_EQ(c->sum32, ranks_sum * ADDS);
    TEST_EQ(c->swaps, ranks_sum * ADDS);
    TEST_EQ(c->swaps32, n * ADDS);
    TEST_EQ(c->flips, flips);
    TEST_EQ(c->bits, bits);
    TEST_EQ(*kept_sum + c->token, ranks_sum);
    TEST_EQ(ccl_barrier_block_system(&s->dev, block, 0), 0);
    TM_OK(cclMemFree(s->comm, own));
}

/* Data, then a signal, around the ring; the receiver answers before the data are overwritten. */
static void messages(struct side *s)
{
    uint64_t *box = heap_zeroed(s, 64 * 8), *theirs = ccl_translate(&s->dev, box, right_of(s)), out[64];
    uint64_t *in_word = ccl_signal(&s->dev, s->dev.rank, 1), *out_word = ccl_signal(&s->dev, right_of(s), 1);
    uint64_t *answer = ccl_signal(&s->dev, left_of(s), 2), *answered = ccl_signal(&s->dev, s->dev.rank, 2);
    unsigned stale = 0;

    for (uint64_t round = 1; round <= ROUNDS; round++) {
        const uint32_t words = 1 + (uint32_t)(round % 64);
        for (uint32_t i = 0; i < words; i++) {
            out[i] = round << 32 | (uint64_t)s->rank << 16 | i;
        }
        TEST_EQ(ccl_wait_ge_acquire_system(&s->dev, answered, round - 1, right_of(s)), 0);
        ccl_put_block(block, theirs, out, words * 8);
        if (round % 3 == 0) {
            ccl_signal_set_release_system(out_word, round);
        } else if (round % 3 == 1) {
            ccl_signal_set_block_system(block, out_word, round);
        } else {
            ccl_signal_add_block_system(block, out_word, 1);
        }
        if (round % 2 == 0) {
            TEST_EQ(ccl_wait_eq_acquire_system(&s->dev, in_word, round, left_of(s)), 0);
        } else {
            TEST_EQ(ccl_wait_eq_block_system(&s->dev, block, in_word, round, CCL_ANY_PEER), 0);
        }
        for (uint32_t i = 0; i < words; i++) {
            stale += box[i] != (round << 32 | (uint64_t)left_of(s) << 16 | i);
        }
        ccl_signal_add_release_system(answer, 1);
    }
    TEST_EQ(stale, 0);
    TEST_EQ(ccl_wait_ge_block_system(&s->dev, block, answered, ROUNDS, right_of(s)), 0);
    TM_OK(cclMemFree(s->comm, box));
}

/* Every rank writes the phase to every other with ordinary stores; barriers of two indices take turns. */
static void phases(struct side *s)
{
    const uint32_t rounds = ROUNDS / 4;
    uint64_t *seen = heap_zeroed(s, (size_t)s->n * 8);
    unsigned wrong = 0;

    for (uint64_t phase = 1; phase <= rounds; phase++) {
        for (uint32_t r = 0; r < s->dev.n; r++) {
            *((uint64_t *)ccl_translate(&s->dev, seen, r) + s->rank) = phase;
        }
        TEST_EQ(ccl_barrier_block_system(&s->dev, block, (uint32_t)(phase % 3)), 0);
        for (int r = 0; r < s->n; r++) {
            wrong += seen[r] != phase;
        }
        TEST_EQ(ccl_barrier_block_system(&s->dev, block, (uint32_t)(phase % 2 + 3)), 0);
    }
    TEST_EQ(wrong, 0);
    TM_OK(cclMemFree(s->comm, seen));
}

struct grid_block {
    struct side *s;
    uint64_t *seen; /* [n][GRID] */
    uint32_t index, wrong;
};

static void *grid_main(void *argument)
{
    struct grid_block *g = argument;
    struct side *s = g->s;
    const cclBlock_t b = ccl_host_block(g->index, GRID);

    for (uint64_t phase = 1; phase <= ROUNDS / 20; phase++) {
        for (uint32_t r = 0; r < s->dev.n; r++) {
            *((uint64_t *)ccl_translate(&s->dev, g->seen, r) + (uint32_t)s->rank * GRID + g->index) = phase;
        }
        g->wrong += ccl_barrier_grid_system(&s->dev, b, 5) != 0;
        for (uint32_t i = 0; i < s->dev.n * GRID; i++) {
            g->wrong += g->seen[i] != phase;
        }
        g->wrong += ccl_barrier_grid_system(&s->dev, b, 5) != 0;
    }
    return NULL;
}

/* The blocks of a grid are threads here, since all of them wait for all. */
static void grid_phases(struct side *s)
{
    struct grid_block blocks[GRID];
    pthread_t threads[GRID];
    uint64_t *seen = heap_zeroed(s, (size_t)s->n * GRID * 8);

    for (uint32_t i = 0; i < GRID; i++) {
        blocks[i] = (struct grid_block){s, seen, i, 0};
        if (pthread_create(&threads[i], NULL, grid_main, &blocks[i]) != 0) {
            tm_die();
        }
    }
    for (uint32_t i = 0; i < GRID; i++) {
        pthread_join(threads[i], NULL);
        TEST_EQ(blocks[i].wrong, 0);
    }
    TM_OK(cclMemFree(s->comm, seen));
}

static void *run_side(void *argument)
{
    struct side *s = argument;

    arguments(s);
    translation(s);
    copies(s);
    atomics(s);
    messages(s);
    phases(s);
    grid_phases(s);
    TM_OK(cclCommFinalize(s->comm));
    TM_RC(cclDeviceComm(s->comm, &s->dev), cclInvalidUsage);
    TM_OK(cclCommDestroy(s->comm));
    return NULL;
}

int main(int argc, char **argv)
{
    TM_INIT(argc, argv);
    tm_watchdog(TM_SANITIZED ? 250 : 50);
    if (!tm_backend_is_host()) {
        MPI_Finalize();
        TEST_SKIP_NOW("the kernels of this test are CPU functions; own_kernel is the example for GPUs");
    }
    if (tm_has_arg("threads")) {
        cclComm_t comms[THREAD_RANKS];
        struct side sides[THREAD_RANKS];
        pthread_t threads[THREAD_RANKS];

        tm_at("ranks as threads");
        TM_MUST(cclCommInitAll(comms, THREAD_RANKS, NULL));
        for (int i = 0; i < THREAD_RANKS; i++) {
            sides[i] = (struct side){.comm = comms[i], .rank = i, .n = THREAD_RANKS};
            if (pthread_create(&threads[i], NULL, run_side, &sides[i]) != 0) {
                tm_die();
            }
        }
        for (int i = 0; i < THREAD_RANKS; i++) {
            pthread_join(threads[i], NULL);
        }
    } else {
        struct side s = {.comm = tm_comm_create(MPI_COMM_WORLD, NULL), .rank = tm_rank, .n = tm_size};

        tm_at("ranks as processes");
        run_side(&s);
    }
    return tm_finish();
}
