/* SPDX-License-Identifier: MIT
 *
 * Shared runs: gangs of one kernel each, in threads that know nothing of each other, wait for each other and finish, on devices of their own and on one
 * device. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "emu.h"
#include "test.h"

#define RANKS 4
#define GROUPS 8
#define BYTES 32768
#define HEAP (BYTES * (RANKS + 1) + 4096)

struct args { /* of litmus/gather.hip */
    uint64_t bases[8];
    uint64_t source, flags;
    uint32_t rank, ranks, words;
};

static uint8_t *heaps[RANKS];
static const struct emu_kernel *kernel;
static struct emu_device *devices[RANKS];
static uint64_t seed;

static bool find(uint64_t addr, uint64_t *base, uint64_t *bytes, bool *host)
{
    *host = false;
    for (int i = 0; i < RANKS; i++) {
        if (addr - (uint64_t)(uintptr_t)heaps[i] < HEAP) {
            *base = (uint64_t)(uintptr_t)heaps[i];
            *bytes = HEAP;
            return true;
        }
    }
    return false;
}

static void *run_rank(void *number)
{
    uint32_t rank = (uint32_t)(uintptr_t)number;
    struct args args = {.source = (uint64_t)(uintptr_t)heaps[rank] + BYTES * RANKS,
                        .flags = BYTES * (RANKS + 1), .rank = rank, .ranks = RANKS, .words = BYTES / 16};
    struct emu_launch launch = {.kernel = kernel, .device = devices[rank], .grid = GROUPS, .threads = 256, .args = &args};
    struct emu_result result;

    for (int i = 0; i < RANKS; i++) {
        args.bases[i] = (uint64_t)(uintptr_t)heaps[i];
    }
    if (!emu_run(&launch, 1, &(struct emu_options){.seed = seed + rank, .shared = true}, &result)) {
        TEST_FAIL("rank %u: %s", rank, result.text);
    }
    return NULL;
}

static void gather(const char *arch, bool one_device)
{
    pthread_t threads[RANKS];

    for (int i = 0; i < RANKS; i++) {
        devices[i] = one_device && i > 0 ? devices[0] : emu_device_new(i, arch, (uint64_t)i + 1);
        memset(heaps[i], 0, HEAP);
        memset(heaps[i] + BYTES * RANKS, i + 1, BYTES);
    }
    for (int i = 0; i < RANKS; i++) {
        TEST_EQ(pthread_create(&threads[i], NULL, run_rank, (void *)(uintptr_t)i), 0);
    }
    for (int i = 0; i < RANKS; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < RANKS; i++) {
        size_t wrong = 0;

        for (size_t k = 0; k < BYTES * RANKS; k++) {
            wrong += heaps[i][k] != k / BYTES + 1;
        }
        TEST_EQ(wrong, 0);
    }
    for (int i = 0; i < (one_device ? 1 : RANKS); i++) {
        emu_device_free(devices[i]);
    }
}

int main(int argc, char **argv)
{
    for (int i = 0; i < RANKS; i++) {
        heaps[i] = aligned_alloc(4096, (HEAP + 4095) / 4096 * 4096);
    }
    emu_set_regions(find);
    if (argc < 2) {
        TEST_SKIP_NOW("no code objects: no clang for AMD");
    }
    for (int a = 1; a < argc; a++) {
        const char *arch = strstr(argv[a], "gfx90a") ? "gfx90a" : strstr(argv[a], "gfx950") ? "gfx950" : "gfx942";
        uint8_t *image = calloc(1, 1 << 20);
        FILE *f = fopen(argv[a], "rb");
        struct emu_program *program;
        char why[EMU_TEXT];

        if (f == NULL || fread(image, 1, 1 << 20, f) == 0) {
            TEST_FAIL("cannot read %s", argv[a]);
            return test_result();
        }
        fclose(f);
        program = emu_program_load(image, emu_image_bytes(image), arch, NULL, why);
        if (program == NULL) {
            TEST_SKIP_NOW("%s", why);
        }
        kernel = emu_program_kernel(program, "gather");
        for (seed = 10; seed <= 50; seed += 10) {
            gather(arch, false);
            gather(arch, true);
        }
        emu_program_free(program);
        free(image);
    }
    for (int i = 0; i < RANKS; i++) {
        free(heaps[i]);
    }
    return test_result();
}
