/* SPDX-License-Identifier: MIT
 *
 * Small kernels that synchronise rightly pass under every seed; each form with a missing release, acquire, wait, barrier or with a wrong scope or address
 * is caught within a number of seeds; one seed twice is one schedule twice. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "emu.h"
#include "test.h"

#define WORDS 8192
#define SEEDS_RIGHT 60
#define SEEDS_WRONG 60
#define THREADS 128

struct args {
    uint32_t *data, *flag, *out;
    uint32_t role, count;
};

static struct allocation {
    uint32_t *words;
    size_t bytes;
} data, flag, out;

static bool find(uint64_t addr, uint64_t *base, uint64_t *bytes, bool *host)
{
    *host = false;
    const struct allocation *const all[] = {&data, &flag, &out};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        uint64_t start = (uint64_t)(uintptr_t)all[i]->words;

        if (addr >= start && addr < start + all[i]->bytes) {
            *base = start;
            *bytes = all[i]->bytes;
            return true;
        }
    }
    return false;
}

static void *load_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    void *image;
    long size;

    if (f == NULL) {
        return NULL;
    }
    fseek(f, 0, SEEK_END);
    size = ftell(f);
    rewind(f);
    image = malloc((size_t)size);
    if (image != NULL && fread(image, 1, (size_t)size, f) != (size_t)size) {
        free(image);
        image = NULL;
    }
    fclose(f);
    return image;
}

static void fresh(void)
{
    memset(data.words, 0, data.bytes);
    memset(flag.words, 0, flag.bytes);
    memset(out.words, 0xee, out.bytes);
}

/* ---- what a kernel must leave ---- */

typedef bool check_fn(uint32_t count);

static bool copied(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t t = 0; t < THREADS; t++) {
            if (out.words[i * 128 + t] != i * 1000 + t + 7) {
                return false;
            }
        }
    }
    return true;
}

static bool reversed(uint32_t count)
{
    (void)count;
    for (uint32_t t = 0; t < 256; t++) {
        if (out.words[t] != (255 - t) * 3) {
            return false;
        }
    }
    return true;
}

static bool added(uint32_t count)
{
    for (uint32_t i = 0; i < 8; i++) {
        if (out.words[i] != 0xeeeeeeeeu + 2 * count * THREADS / 8) {
            return false;
        }
    }
    return true;
}

/* load_to_lds: words of the next wave, lanes exchanged; lane 63 was out of range. */
static bool loaded(uint32_t count)
{
    (void)count;
    for (uint32_t t = 0; t < 256; t++) {
        for (uint32_t j = 0; j < 4; j++) {
            uint32_t from = (t / 64 + 1) % 4 * 64 + (t % 64 ^ 5);

            if (out.words[t * 4 + j] != (t % 64 == 63 ? 0 : (from * 4 + j) * 7 + 5)) {
                return false;
            }
        }
    }
    return true;
}

static bool turned(uint32_t count)
{
    const uint16_t *halves = (const uint16_t *)(const void *)out.words;

    (void)count;
    for (uint32_t t = 0; t < 256; t++) {
        for (uint32_t k = 0; k < 4; k++) {
            uint32_t from = t / 16 * 16 + 4 * k + t % 16 / 4; /* the lane that brings row k of column t % 16 */

            if (halves[t * 4 + k] != (from ^ 3) * 4 + t % 4) {
                return false;
            }
        }
    }
    return true;
}

static bool anything(uint32_t count)
{
    (void)count;
    return true;
}

enum shape { TWO_DEVICES, ONE_DEVICE_TWO_GROUPS, ONE_GROUP, TWO_DEVICES_ONE_ROLE };

static const struct row {
    const char *kernel;
    enum shape shape;
    uint32_t threads, count;
    check_fn *check;
    const char *caught_by; /* NULL: it is right; "": a wrong result or any report; else a part of the report */
    bool not_gfx90a;       /* there agent and system scope are one, or one L2 needs no release */
} rows[] = {
    {"message", TWO_DEVICES, THREADS, 12, copied, NULL, false},
    {"message_no_release", TWO_DEVICES, THREADS, 12, copied, "", false},
    {"message_no_acquire", TWO_DEVICES, THREADS, 12, copied, "", false},
    {"message_agent_release", TWO_DEVICES, THREADS, 12, copied, "", false},
    {"message_agent_acquire", TWO_DEVICES, THREADS, 12, copied, "", false},
    {"message_no_wait", TWO_DEVICES, THREADS, 12, copied, "", false},
    {"agent_message", ONE_DEVICE_TWO_GROUPS, THREADS, 12, copied, NULL, false},
    {"agent_message_no_release", ONE_DEVICE_TWO_GROUPS, THREADS, 12, copied, "", false},
    {"agent_message_no_acquire", ONE_DEVICE_TWO_GROUPS, THREADS, 12, copied, "", false},
    {"packets", TWO_DEVICES, THREADS, 12, copied, NULL, false},
    {"packets_torn", TWO_DEVICES, THREADS, 12, copied, "", false},
    {"add_agent", ONE_DEVICE_TWO_GROUPS, THREADS, 5, added, NULL, false},
    {"add_system", TWO_DEVICES_ONE_ROLE, THREADS, 5, added, NULL, false},
    {"add_agent", TWO_DEVICES_ONE_ROLE, THREADS, 5, added, "", true},
    {"lds", ONE_GROUP, 256, 0, reversed, NULL, false},
    {"lds_no_barrier", ONE_GROUP, 256, 0, reversed, "", false},
    {"lds_no_wait", ONE_GROUP, 256, 0, reversed, "LDS race", false},
    {"lds_split_wave", ONE_GROUP, 256, 0, anything, "s_barrier reached by 32 of 64 lanes", false},
    {"load_to_lds", ONE_GROUP, 256, 0, loaded, NULL, false},
    {"load_to_lds_no_wait", ONE_GROUP, 256, 0, loaded, "before the load into it", false},
    {"transposed", ONE_GROUP, 256, 0, turned, NULL, false},
    {"lds_unwritten", ONE_GROUP, 256, 0, anything, "never written", false},
    {"lds_out_of_bounds", ONE_GROUP, 256, 1, anything, "out of bounds", false},
    {"use_before_wait", ONE_GROUP, 256, 0, anything, "before a s_waitcnt", false},
    {"scalar_before_wait", ONE_GROUP, 256, 0, anything, "before a s_waitcnt", false},
    {"short_wait", ONE_GROUP, 256, 0, anything, "before a s_waitcnt", false},
    {"unknown", ONE_GROUP, 256, 0, anything, "unknown instruction", false},
    {"out_of_bounds", ONE_GROUP, 256, WORDS - 255, anything, "lane 63: load of 4 bytes", false},
    {"hang", ONE_GROUP, 256, 0, anything, "no end after", false},
};

static bool run(const struct row *row, const struct emu_kernel *kernel, struct emu_device *const devices[2], uint64_t seed, struct emu_result *result)
{
    struct args args[2];
    struct emu_launch launches[2];
    struct emu_options options;
    bool two = row->shape == TWO_DEVICES || row->shape == TWO_DEVICES_ONE_ROLE;

    fresh();
    for (uint32_t i = 0; i < 2; i++) {
        args[i] = (struct args){data.words, flag.words, out.words, i, row->count};
        launches[i] = (struct emu_launch){.kernel = kernel, .device = devices[i], .grid = row->shape == ONE_DEVICE_TWO_GROUPS ? 2 : 1,
                                          .threads = row->threads, .args = &args[i]};
    }
    options = (struct emu_options){.seed = seed, .max_steps = row->check == anything ? 100000 : 3000000};
    return emu_run(launches, two ? 2 : 1, &options, result) && row->check(row->count);
}

static void test_row(const char *arch, const struct row *row, const struct emu_program *program, struct emu_device *const devices[2])
{
    const struct emu_kernel *kernel = emu_program_kernel(program, row->kernel);
    struct emu_result result;
    uint32_t caught = 0, first = 0;

    TEST_CHECK(kernel != NULL);
    if (kernel == NULL || (row->not_gfx90a && strcmp(arch, "gfx90a") == 0)) {
        return;
    }
    for (uint32_t seed = 1; seed <= (row->caught_by == NULL ? SEEDS_RIGHT : SEEDS_WRONG); seed++) {
        bool good = run(row, kernel, devices, seed, &result);

        if (row->caught_by == NULL && !good) {
            TEST_FAIL("%s: %s: seed %u: %s", arch, row->kernel, seed, result.failed ? result.text : "wrong result");
            return;
        }
        if (!good && result.failed && row->caught_by != NULL && strstr(result.text, row->caught_by) == NULL) {
            TEST_FAIL("%s: %s: seed %u: want \"%s\", got %s", arch, row->kernel, seed, row->caught_by, result.text);
            return;
        }
        first = !good && caught == 0 ? seed : first;
        caught += !good;
    }
    if (row->caught_by != NULL && caught == 0) {
        TEST_FAIL("%s: %s passed %d seeds", arch, row->kernel, SEEDS_WRONG);
    }
    printf("%s %-26s %s", arch, row->kernel, row->caught_by == NULL ? "right\n" : "");
    if (row->caught_by != NULL) {
        printf("caught under %u of %d seeds, the first %u\n", caught, SEEDS_WRONG, first);
    }
}

static void test_repeat(const struct emu_program *program, struct emu_device *const devices[2])
{
    for (uint64_t seed = 100; seed < 110; seed++) {
        struct emu_result first, second;

        TEST_CHECK(run(&rows[0], emu_program_kernel(program, rows[0].kernel), devices, seed, &first));
        TEST_CHECK(run(&rows[0], emu_program_kernel(program, rows[0].kernel), devices, seed, &second));
        TEST_EQ(second.steps, first.steps);
        TEST_CHECK(second.trace == first.trace);
        TEST_CHECK(run(&rows[0], emu_program_kernel(program, rows[0].kernel), devices, seed + 1000, &second));
        TEST_CHECK(second.trace != first.trace);
    }
}

static void allocate(struct allocation *a, size_t words)
{
    a->bytes = words * 4;
    a->words = aligned_alloc(4096, (a->bytes + 4095) / 4096 * 4096);
}

int main(int argc, char **argv)
{
    static const char *const archs[] = {"gfx90a", "gfx942", "gfx950"};

    allocate(&data, WORDS);
    allocate(&flag, 1024);
    allocate(&out, WORDS);
    emu_set_regions(find);
    for (size_t i = 0; i < sizeof(archs) / sizeof(archs[0]); i++) {
        char path[512], why[EMU_TEXT];
        struct emu_device *devices[2] = {emu_device_new(0, archs[i], 1), emu_device_new(1, archs[i], 2)};
        struct emu_program *program;
        void *image;

        snprintf(path, sizeof(path), EMU_LITMUS "_%s.co", archs[i]);
        image = load_file(path);
        if (image == NULL) {
            TEST_SKIP_NOW("%s is not there: no clang for %s", path, archs[i]);
        }
        program = emu_program_load(image, emu_image_bytes(image), archs[i], path, why);
        if (program == NULL) {
            TEST_SKIP_NOW("%s", why);
        }
        for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
            if (argc < 2 || strcmp(argv[1], rows[r].kernel) == 0) {
                test_row(archs[i], &rows[r], program, devices);
            }
        }
        test_repeat(program, devices);
        emu_program_free(program);
        emu_device_free(devices[0]);
        emu_device_free(devices[1]);
        free(image);
    }
    free(data.words);
    free(flag.words);
    free(out.words);
    return test_result();
}
