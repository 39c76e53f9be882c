/* SPDX-License-Identifier: MIT
 *
 * The caches do what the memory model says: copies stay stale until invalidated at the right scope, dirty bytes stay until written back at the right scope,
 * only dirty bytes travel, kernel boundaries acquire and release, atomics act where their scope is. */
#include <stdlib.h>
#include <string.h>

#include "cache.h"
#include "emu.h"
#include "test.h"

static _Alignas(64) uint32_t memory[1024];
static struct emu_fate fate = {.keep = 65536}; /* every miss stays: what may be stale is */
static struct emu_cache l1[4];

/* 0, 1: workgroups of one XCD; 2: of another one; 3: of another device. */
static struct emu_path paths[4];

static void start(const char *arch, struct emu_device *devices[2])
{
    memset(memory, 0, sizeof(memory));
    for (int i = 0; i < 2; i++) {
        devices[i] = emu_device_new(i, arch, 1);
        TEST_CHECK(devices[i] != NULL);
    }
    for (int i = 0; i < 4; i++) {
        TEST_CHECK(emu_cache_init(&l1[i], 6));
        paths[i] = (struct emu_path){devices[i == 3], &l1[i], i == 2 && devices[0]->num_xcds > 0 ? 1 : 0, &fate};
    }
}

static void stop(struct emu_device *devices[2])
{
    for (int i = 0; i < 4; i++) {
        emu_cache_finish(&l1[i]);
    }
    emu_device_free(devices[0]);
    emu_device_free(devices[1]);
}

static uint32_t load(int path, int index, enum emu_scope scope)
{
    uint32_t x;

    emu_mem_read(&paths[path], (uint64_t)(uintptr_t)&memory[index], &x, 4, scope);
    return x;
}

static void store(int path, int index, uint32_t x, enum emu_scope scope)
{
    emu_mem_write(&paths[path], (uint64_t)(uintptr_t)&memory[index], &x, 4, scope);
}

static void write_back(int path, enum emu_scope scope)
{
    while (!emu_mem_write_back(&paths[path], scope, UINT64_MAX, 1)) {
    }
}

#define W EMU_SCOPE_WAVE
#define A EMU_SCOPE_AGENT
#define S EMU_SCOPE_SYSTEM

static void test_gfx942(const char *arch)
{
    struct emu_device *devices[2];

    start(arch, devices);
    /* A line that was read is stale after a write by another device, until each level is invalidated. */
    TEST_EQ(load(3, 0, W), 0);
    memory[0] = 1;
    TEST_EQ(load(3, 0, W), 0);
    TEST_EQ(load(3, 0, A), 0); /* the device's level keeps clean copies, too */
    TEST_EQ(load(3, 0, S), 1);
    emu_mem_invalidate(&paths[3], EMU_SCOPE_GROUP);
    TEST_EQ(load(3, 0, W), 0);
    emu_mem_invalidate(&paths[3], A);
    TEST_EQ(load(3, 0, W), 0);
    emu_mem_invalidate(&paths[3], S);
    TEST_EQ(load(3, 0, W), 1);

    /* A plain store: seen in its L2 at once, elsewhere after a write-back of the right scope. */
    TEST_EQ(load(1, 16, W), 0);
    store(0, 16, 5, W);
    TEST_EQ(load(0, 16, S), 5); /* its own wave, by every scope */
    TEST_EQ(load(1, 16, W), 0); /* the L1 of another workgroup */
    emu_mem_invalidate(&paths[1], A);
    TEST_EQ(load(1, 16, W), 5);
    TEST_EQ(load(2, 16, A), 0);
    write_back(0, EMU_SCOPE_GROUP);
    TEST_EQ(load(2, 16, A), 0);
    write_back(2, S); /* of another XCD */
    TEST_EQ(memory[16], 0);
    write_back(0, A);
    TEST_EQ(load(2, 16, A), 5);
    TEST_EQ(memory[16], 0);
    write_back(2, S);
    TEST_EQ(memory[16], 5);

    /* Only dirty bytes are written back. */
    store(0, 32, 7, W);
    memory[33] = 9;
    write_back(0, S);
    TEST_EQ(memory[32], 7);
    TEST_EQ(memory[33], 9);
    {
        uint8_t byte = 0x55;

        memory[34] = 0xaabbccdd;
        emu_mem_write(&paths[0], (uint64_t)(uintptr_t)&memory[34] + 1, &byte, 1, W);
        memory[34] = 0x11223344;
        write_back(0, S);
        TEST_EQ(memory[34], 0x11225544);
    }

    /* What was dirty when the write-back was issued, and nothing younger. */
    store(0, 48, 1, W);
    {
        uint64_t stamp = devices[0]->clock;

        store(0, 64, 2, W);
        TEST_CHECK(emu_mem_write_back(&paths[0], S, stamp, UINT32_MAX));
        TEST_EQ(memory[48], 1);
        TEST_EQ(memory[64], 0);
        write_back(0, S);
        TEST_EQ(memory[64], 2);
    }

    /* Agent stores reach the device's level, system stores memory. */
    store(0, 80, 3, A);
    TEST_EQ(load(2, 80, A), 3);
    TEST_EQ(memory[80], 0);
    store(0, 80, 4, S);
    TEST_EQ(memory[80], 4);
    TEST_EQ(load(2, 80, A), 4);
    write_back(0, S);
    TEST_EQ(memory[80], 4); /* the older value is not written over it */

    /* Kernel end releases everything, kernel start forgets everything clean. */
    store(0, 96, 1, W);
    store(2, 112, 2, W);
    store(1, 128, 3, A);
    emu_mem_kernel_end(devices[0], &fate);
    TEST_EQ(memory[96], 1);
    TEST_EQ(memory[112], 2);
    TEST_EQ(memory[128], 3);
    memory[96] = 11;
    emu_mem_kernel_start(devices[0]);
    TEST_EQ(load(2, 96, W), 11);

    /* The constant cache is not invalidated by vector instructions. */
    {
        uint32_t x;

        emu_mem_read_scalar(&paths[0], (uint64_t)(uintptr_t)&memory[144], &x, 4);
        memory[144] = 1;
        emu_mem_invalidate(&paths[0], S);
        emu_mem_read_scalar(&paths[0], (uint64_t)(uintptr_t)&memory[144], &x, 4);
        TEST_EQ(x, 0);
        emu_mem_kernel_start(devices[0]);
        emu_mem_read_scalar(&paths[0], (uint64_t)(uintptr_t)&memory[144], &x, 4);
        TEST_EQ(x, 1);
    }
    stop(devices);
}

static uint64_t add_one(uint64_t old, const void *context)
{
    (void)context;
    return old + 1;
}

static void test_atomics(const char *arch)
{
    struct emu_device *devices[2];
    uint64_t word = (uint64_t)(uintptr_t)&memory[0];

    start(arch, devices);
    store(0, 0, 10, W);
    TEST_EQ(emu_mem_modify(&paths[0], word, 4, S, add_one, NULL), 10); /* own dirty bytes come first */
    TEST_EQ(memory[0], 11);
    TEST_EQ(emu_mem_modify(&paths[3], word, 4, S, add_one, NULL), 11);
    TEST_EQ(emu_mem_modify(&paths[2], word, 4, A, add_one, NULL), 12);
    TEST_EQ(memory[0], 12);
    TEST_EQ(load(0, 0, A), 13);
    TEST_EQ(load(3, 0, S), 12);
    emu_mem_kernel_end(devices[0], &fate);
    TEST_EQ(memory[0], 13);
    stop(devices);
}

static void test_gfx90a(void)
{
    struct emu_device *devices[2];

    start("gfx90a", devices);
    store(0, 0, 5, W);
    TEST_EQ(load(1, 0, A), 5); /* one L2 */
    TEST_EQ(memory[0], 0);
    write_back(1, S);
    TEST_EQ(memory[0], 5);
    memory[16] = 0;
    TEST_EQ(load(0, 16, W), 0);
    memory[16] = 1;
    emu_mem_invalidate(&paths[0], A); /* buffer_wbinvl1_vol: the L1 */
    TEST_EQ(load(0, 16, W), 0);
    emu_mem_invalidate(&paths[0], S); /* buffer_invl2: the L2 */
    TEST_EQ(load(0, 16, W), 0);
    emu_mem_invalidate(&paths[0], A);
    TEST_EQ(load(0, 16, W), 1);
    stop(devices);
}

/* Evictions at random write every dirty byte back in the end, and full caches lose nothing. */
static void test_eviction(const char *arch)
{
    static _Alignas(64) uint32_t big[1 << 18];
    struct emu_device *devices[2];
    struct emu_rng rng = {7};
    uint32_t wrong = 0;

    start(arch, devices);
    memset(big, 0, sizeof(big));
    for (uint32_t i = 0; i < 1 << 18; i += 3) {
        uint32_t x = i * 2654435761u;

        emu_mem_write(&paths[emu_below(&rng, 3)], (uint64_t)(uintptr_t)&big[i], &x, 4, W);
    }
    for (int i = 0; i < 100000; i++) {
        emu_mem_evict(devices[0], &fate);
    }
    for (uint32_t i = 0; i < 1 << 18; i++) {
        wrong += big[i] != (i % 3 == 0 ? i * 2654435761u : 0);
    }
    TEST_EQ(wrong, 0);
    stop(devices);
}

/* A stranger's copy stands in the other caches and goes with an acquire. */
static void test_copies(void)
{
    struct emu_device *devices[2];

    start("gfx942", devices);
    fate.strangers = 65536;
    fate.num_copies = 0;
    store(0, 0, 1, S);
    TEST_EQ(fate.num_copies, 1);
    for (int tries = 0; tries < 20 && load(3, 0, W) != 0; tries++) {
        emu_mem_kernel_start(devices[1]);
        emu_cache_invalidate(&l1[3]);
        emu_mem_plant(&paths[3], &fate.copies[0]);
    }
    TEST_EQ(load(3, 0, W), 0);
    TEST_EQ(load(3, 0, S), 1);
    emu_mem_invalidate(&paths[3], S);
    TEST_EQ(load(3, 0, W), 1);
    fate.strangers = fate.num_copies = 0;
    stop(devices);
}

int main(void)
{
    test_gfx942("gfx942");
    test_gfx942("gfx950");
    test_atomics("gfx942");
    test_gfx90a();
    test_eviction("gfx90a");
    test_eviction("gfx942");
    test_copies();
    return test_result();
}
