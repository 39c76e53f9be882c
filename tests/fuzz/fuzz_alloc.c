/* SPDX-License-Identifier: MIT
 *
 * Proves by random take and release sequences that the offset allocator does exactly what a byte map with a linear
 * search does: same offsets, same refusals, same neighbours, and a state that passes its own check after each step.
 *
 *   fuzz_alloc [seed [milliseconds]]      seed 0: from the clock; default 2500 ms; prints the seed
 *   clang -fsanitize=fuzzer -DCCL_LIBFUZZER ... makes it a libFuzzer target: four input bytes are one step. */
#include <inttypes.h>
#include <string.h>

#include "heap/alloc.h"
#include "test.h"

#define UNIT CCL_ALLOC_ALIGN
#define MAX_UNITS 512

/* map[u]: 0 = free, else 1 + the first unit of the range that unit u belongs to. */
struct model {
    struct ccl_alloc *a;
    size_t units, live;
    uint16_t map[MAX_UNITS];
};

static size_t run_length(const struct model *m, size_t u)
{
    size_t n = 0;
    while (u + n < m->units && m->map[u + n] == m->map[u]) {
        n++;
    }
    return n;
}

static void step_take(struct model *m, size_t bytes)
{
    size_t need = (bytes + UNIT - 1) / UNIT, best = SIZE_MAX, best_units = SIZE_MAX, largest = 0;
    for (size_t u = 0; u < m->units; u += run_length(m, u)) {
        size_t n = run_length(m, u);
        if (m->map[u] == 0) {
            largest = ccl_max_size(largest, n);
            if (n >= need && n < best_units) {
                best = u;
                best_units = n;
            }
        }
    }
    TEST_EQ(ccl_alloc_largest(m->a), largest * UNIT);
    size_t off = SIZE_MAX;
    cclResult_t rc = ccl_alloc_take(m->a, bytes, &off);
    if (best == SIZE_MAX) {
        TEST_EQ(rc, cclSystemError);
        return;
    }
    TEST_EQ(rc, cclSuccess);
    TEST_EQ(off, best * UNIT);
    for (size_t u = best; u < best + need; u++) {
        m->map[u] = (uint16_t)(best + 1);
    }
    m->live++;
}

static void step_release(struct model *m, size_t off)
{
    size_t u = off / UNIT;
    bool valid = off % UNIT == 0 && u < m->units && m->map[u] == u + 1;
    TEST_EQ(ccl_alloc_release(m->a, off), valid ? cclSuccess : cclInvalidArgument);
    if (valid) {
        size_t n = run_length(m, u);
        memset(&m->map[u], 0, n * sizeof(m->map[0]));
        m->live--;
    }
}

static void step_find(const struct model *m, size_t off)
{
    size_t start = 0, bytes = 0, u = off / UNIT;
    bool taken = u < m->units && m->map[u] != 0;
    TEST_EQ(ccl_alloc_find(m->a, off, &start, &bytes), taken);
    if (taken) {
        size_t first = m->map[u] - 1u;
        TEST_EQ(start, first * UNIT);
        TEST_EQ(bytes, run_length(m, first) * UNIT);
    }
    TEST_EQ(ccl_alloc_empty(m->a), m->live == 0);
}

/* One step from 32 random bits: 4 bits what to do, the rest how much or where. */
static void step(struct model *m, uint32_t r)
{
    size_t x = r >> 4, span = m->units * UNIT;
    switch (r & 15) {
    case 0:
    case 1:
    case 2:
    case 3:
        step_take(m, 1 + x % (4 * UNIT));
        break;
    case 4:
    case 5:
        step_take(m, 1 + x % (span / 4));
        break;
    case 6:
        step_take(m, 1 + x % (span + UNIT));
        break;
    case 7: {
        size_t off = x % (span + UNIT); /* mostly no start of a range */
        step_release(m, off);
        break;
    }
    case 8:
        step_find(m, x % (span + UNIT));
        break;
    default: { /* the start of some range, so that releases keep pace with takes */
        size_t u = x % m->units;
        step_release(m, m->map[u] != 0 ? (m->map[u] - 1u) * (size_t)UNIT : u * UNIT);
        break;
    }
    }
    TEST_EQ(ccl_alloc_check(m->a), cclSuccess);
}

static void begin(struct model *m, size_t units)
{
    memset(m, 0, sizeof(*m));
    m->units = units;
    TEST_EQ(ccl_alloc_create(units * UNIT, &m->a), cclSuccess);
}

/* Release everything: one free range must be left, and the hash of a new allocator. */
static void end(struct model *m)
{
    struct ccl_alloc *fresh = NULL;
    for (size_t u = 0; u < m->units; u++) {
        if (m->map[u] == u + 1) {
            step_release(m, u * UNIT);
        }
    }
    TEST_CHECK(ccl_alloc_empty(m->a));
    TEST_EQ(ccl_alloc_largest(m->a), m->units * UNIT);
    TEST_EQ(ccl_alloc_create(m->units * UNIT, &fresh), cclSuccess);
    TEST_CHECK(ccl_alloc_hash(m->a) == ccl_alloc_hash(fresh));
    ccl_alloc_destroy(fresh);
    ccl_alloc_destroy(m->a);
}

#ifdef CCL_LIBFUZZER
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct model m;
    if (bytes == 0) {
        return 0;
    }
    begin(&m, 1u + data[0] * 2u);
    for (size_t i = 1; i + 4 <= bytes; i += 4) {
        uint32_t r;
        memcpy(&r, data + i, sizeof(r));
        step(&m, r);
    }
    end(&m);
    if (test_failures != 0) {
        __builtin_trap(); /* how a libFuzzer target reports */
    }
    return 0;
}
#else
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

int main(int argc, char **argv)
{
    static struct model m;
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 0;
    uint64_t limit_ms = argc > 2 ? strtoull(argv[2], NULL, 0) : 2500;
    if (seed == 0) {
        seed = ccl_now_ns() | 1;
    }
    printf("seed %" PRIu64 "\n", seed);
    fflush(stdout);
    uint64_t state = seed, steps = 0, rounds = 0, begin_ns = ccl_now_ns();
    while (ccl_now_ns() - begin_ns < limit_ms * 1000000u && test_failures == 0) {
        begin(&m, 1 + next_random(&state) % MAX_UNITS);
        for (unsigned n = (unsigned)(next_random(&state) % 1000); n > 0 && test_failures == 0; n--, steps++) {
            step(&m, (uint32_t)(next_random(&state) >> 16));
        }
        end(&m);
        rounds++;
    }
    printf("%" PRIu64 " steps in %" PRIu64 " rounds\n", steps, rounds);
    return test_result();
}
#endif
