/* SPDX-License-Identifier: MIT
 *
 * How fast the interpreter is: wave-instructions a second of processor time, push all-gather of 8 ranks in one gang. Not a test.
 * bench_gather CODE_OBJECT [ranks [KiB a rank [schedules]]] */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "emu.h"

#define MAX_RANKS 8
#define GROUPS 8
#define THREADS 256

struct args {
    uint64_t bases[MAX_RANKS];
    uint64_t source, flags;
    uint32_t rank, ranks, words; /* words of 16 bytes a rank */
};

static struct {
    uint8_t *base;
    uint64_t bytes;
} heaps[MAX_RANKS];
static int num_heaps;

static bool find(uint64_t addr, uint64_t *base, uint64_t *bytes, bool *host)
{
    *host = false;
    for (int i = 0; i < num_heaps; i++) {
        if (addr - (uint64_t)(uintptr_t)heaps[i].base < heaps[i].bytes) {
            *base = (uint64_t)(uintptr_t)heaps[i].base;
            *bytes = heaps[i].bytes;
            return true;
        }
    }
    return false;
}

static void *load(const char *path)
{
    FILE *f = fopen(path, "rb");
    void *image = malloc(1 << 20);

    if (f == NULL || image == NULL || fread(image, 1, 1 << 20, f) < 64) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(1);
    }
    fclose(f);
    return image;
}

int main(int argc, char **argv)
{
    const char *arch = argc > 1 && strstr(argv[1], "gfx90a") ? "gfx90a" : argc > 1 && strstr(argv[1], "gfx950") ? "gfx950" : "gfx942";
    int ranks = argc > 2 ? atoi(argv[2]) : 8, schedules = argc > 4 ? atoi(argv[4]) : 20;
    size_t bytes = (size_t)(argc > 3 ? atoi(argv[3]) : 64) * 1024, heap = (bytes * (size_t)ranks + bytes + 65536 + 4095) / 4096 * 4096;
    char why[EMU_TEXT];
    struct emu_program *program;
    uint64_t steps = 0;
    double seconds = 0;

    if (argc < 2) {
        fprintf(stderr, "usage: %s CODE_OBJECT [ranks [KiB a rank [schedules]]]\n", argv[0]);
        return 2;
    }
    program = emu_program_load(load(argv[1]), 1 << 20, arch, NULL, why);
    if (program == NULL) {
        fprintf(stderr, "%s\n", why);
        return 1;
    }
    num_heaps = ranks;
    for (int i = 0; i < ranks; i++) {
        heaps[i].base = aligned_alloc(4096, heap);
        heaps[i].bytes = heap;
    }
    emu_set_regions(find);
    for (int s = 1; s <= schedules; s++) {
        struct args args[MAX_RANKS];
        struct emu_launch launches[MAX_RANKS];
        struct emu_result result;
        struct timespec a, b;
        double t;

        for (int i = 0; i < ranks; i++) {
            memset(heaps[i].base, 0, heap);
            memset(heaps[i].base + bytes * (size_t)ranks, i + 1, bytes);
            args[i] = (struct args){.source = (uint64_t)(uintptr_t)heaps[i].base + bytes * (size_t)ranks, .flags = bytes * ((size_t)ranks + 1),
                                    .rank = (uint32_t)i, .ranks = (uint32_t)ranks, .words = (uint32_t)(bytes / 16)};
            for (int j = 0; j < ranks; j++) {
                args[i].bases[j] = (uint64_t)(uintptr_t)heaps[j].base;
            }
            launches[i] = (struct emu_launch){.kernel = emu_program_kernel(program, "gather"), .device = emu_device_new(i, arch, (uint64_t)s),
                                              .grid = GROUPS, .threads = THREADS, .args = &args[i]};
        }
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
        if (!emu_run(launches, ranks, &(struct emu_options){.seed = (uint64_t)s, .max_steps = 500000000}, &result)) {
            printf("seed %d: %s\n", s, result.text);
            return 1;
        }
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
        t = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
        for (int i = 0; i < ranks; i++) {
            for (size_t k = 0; k < bytes * (size_t)ranks; k++) {
                if (heaps[i].base[k] != k / bytes + 1) {
                    printf("seed %d: rank %d byte %zu is %d\n", s, i, k, heaps[i].base[k]);
                    return 1;
                }
            }
            emu_device_free(launches[i].device);
        }
        steps += result.steps;
        seconds += t;
        printf("seed %3d: %9" PRIu64 " wave-instructions, %6.3f s, %5.2f million a second\n", s, result.steps, t, (double)result.steps / t / 1e6);
    }
    printf("all: %5.2f million wave-instructions a second\n", (double)steps / seconds / 1e6);
    emu_counts_print(stdout);
    return 0;
}
