/* SPDX-License-Identifier: MIT
 *
 * The GEMM core in a kernel that starts before A is there: it loads no element before its ready word, whatever the order in which caches and loads go, stores C in
 * both places that its hook names, and when it is told to stop it comes to an end without storing. ARCH FILE: litmus/gemm_hook.hip, also with one fault. */
#include "gemm_numbers.h"

#define COLUMNS 256
#define STEP 2 /* K blocks of a ready word */
#define TAG 0x1234567800000003u
#define SEEDS 5

/* struct hook_args of gemm_hook.hip. */
struct hook_args {
    struct ccl_k_gemm g;
    uint64_t second, ready, stop, source, tag;
    uint32_t step, words;
};

static const struct case_ {
    uint32_t m, n, k, bias;
} cases[] = {
    {200, 130, 6 * 64 + 35, CCL_GEMM_BIAS_BY_ROW}, /* a short block, which is asked for first */
    {300, 40, 7 * 64, CCL_GEMM_BIAS_BY_COLUMN},
};
#define NUM_CASES (sizeof(cases) / sizeof(cases[0]))

/* Matrices, and A where it is fetched from; A itself is NaN. */
static struct hook_args prepare(const struct type *type, bool kn, uint32_t rows, const struct case_ *c, struct emu_rng *rng)
{
    uint32_t lda = (c->k + 7) / 8 * 8, ldb = ((kn ? c->n : c->k) + 7) / 8 * 8, ldc = (c->n + 7) / 8 * 8 + 8, blocks = (c->k + 63) / 64;
    uint32_t b_rows = kn ? c->k : c->n, b_columns = kn ? c->n : c->k, bias = c->bias == CCL_GEMM_BIAS_BY_ROW ? c->m : c->n;
    struct ccl_k_gemm g = {.lda = lda, .ldb = ldb, .ldc = ldc, .m = c->m, .n = c->n, .k = c->k, .type = type->number, .bias_kind = c->bias,
                           .b_layout = kn ? CCL_GEMM_K_OUTER : CCL_GEMM_K_INNER, .tile_m = rows, .tile_n = COLUMNS, .tile_k = 64,
                           .tiles_m = (c->m + rows - 1) / rows, .tiles_n = (c->n + COLUMNS - 1) / COLUMNS, .blocks_k = blocks, .group_m = 1, .xcds = 1};
    struct hook_args h = {.g = g, .tag = TAG, .step = STEP, .words = (blocks + STEP - 1) / STEP};

    fill(type, rng, allocate(SOURCE, (size_t)c->m * lda), c->m, c->k, lda);
    fill(type, rng, allocate(B, (size_t)b_rows * ldb), b_rows, b_columns, ldb);
    fill(type, rng, allocate(BIAS, bias), 1, bias, bias);
    pattern(A, (size_t)c->m * lda, type->nan);
    pattern(C, (size_t)c->m * ldc, GUARD);
    pattern(SECOND, (size_t)c->m * ldc, GUARD);
    pattern(READY, (size_t)g.tiles_m * h.words * 4, 0x1111);
    pattern(STOP, 4, 0);
    h.g.a = (uint64_t)(uintptr_t)buffers[A].words;
    h.g.b = (uint64_t)(uintptr_t)buffers[B].words;
    h.g.c = (uint64_t)(uintptr_t)buffers[C].words;
    h.g.bias = (uint64_t)(uintptr_t)buffers[BIAS].words;
    h.second = (uint64_t)(uintptr_t)buffers[SECOND].words;
    h.ready = (uint64_t)(uintptr_t)buffers[READY].words;
    h.stop = (uint64_t)(uintptr_t)buffers[STOP].words;
    h.source = (uint64_t)(uintptr_t)buffers[SOURCE].words;
    emu_regions_changed();
    return h;
}

static void check_untouched(const char *what, int which)
{
    for (size_t i = 0; i < buffers[which].bytes / 2; i++) {
        if (buffers[which].words[i] != GUARD) {
            TEST_FAIL("%s: stored element %zu after it was told to stop", what, i);
            return;
        }
    }
}

static void test_run(const struct emu_kernel *kernel, const struct emu_kernel *feed, struct emu_device *device, const struct type *type, bool kn,
                     uint32_t rows, const struct case_ *c, uint64_t seed, bool stop, double *worst)
{
    struct emu_rng rng = {seed};
    struct hook_args h = prepare(type, kn, rows, c, &rng);
    struct emu_launch launches[2] = {{.kernel = kernel, .device = device, .grid = 1 + (uint32_t)seed % 2, .threads = 512, .args = &h},
                                     {.kernel = feed, .device = device, .grid = 3, .threads = 256, .args = &h}};
    struct emu_options options = {.seed = seed, .max_steps = 20000000};
    struct emu_kernel_info info;
    struct emu_result result;
    char what[128];

    emu_kernel_info(kernel, &info);
    snprintf(what, sizeof(what), "%s %ux%ux%u seed %llu", info.name, c->m, c->n, c->k, (unsigned long long)seed);
    buffers[STOP].words[0] = stop;
    if (!emu_run(launches, stop ? 1 : 2, &options, &result)) {
        TEST_FAIL("%s: %s", what, result.text);
    } else if (stop) {
        check_untouched(what, C);
        check_untouched(what, SECOND);
    } else {
        check(what, type, &h.g, SOURCE, C, worst);
        if (memcmp(buffers[C].words, buffers[SECOND].words, buffers[C].bytes) != 0) {
            TEST_FAIL("%s: the two places of C differ", what);
        }
    }
}

/* ccl_k_gemm_hook_LAYOUT_TYPE_ROWS */
static void test_kernel(const struct emu_kernel *kernel, const struct emu_kernel *feed, struct emu_device *device, double *worst)
{
    struct emu_kernel_info info;
    struct emu_counts counts;
    uint64_t launches;
    char layout[8], name[8];
    unsigned rows;

    emu_kernel_info(kernel, &info);
    if (sscanf(info.name, "ccl_k_gemm_hook_%7[^_]_%7[^_]_%u", layout, name, &rows) != 3) {
        TEST_FAIL("%s is no name of a kernel of gemm_hook.hip", info.name);
        return;
    }
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        for (size_t i = 0; i < NUM_CASES; i++) {
            test_run(kernel, feed, device, &types[strcmp(name, "bf16") == 0], strcmp(layout, "kn") == 0, rows, &cases[i], seed, false, worst);
        }
    }
    test_run(kernel, feed, device, &types[strcmp(name, "bf16") == 0], strcmp(layout, "kn") == 0, rows, &cases[0], 1, true, worst);
    emu_counts_of(kernel, &counts, &launches);
    TEST_EQ(counts.lds_conflict_cycles, 0);
}

int main(int argc, char **argv)
{
    emu_set_regions(find);
    for (int file = 1; file + 1 < argc; file += 2) {
        struct emu_device *device = emu_device_new(0, argv[file], 1);
        struct emu_program *program = load(argv[file + 1], argv[file]);
        const struct emu_kernel *feed = program != NULL ? emu_program_kernel(program, "ccl_k_gemm_feed") : NULL;
        double worst = 0;
        int kernels = 0;

        TEST_CHECK(feed != NULL);
        for (const struct emu_kernel *k = feed != NULL ? emu_program_next(program, NULL) : NULL; k != NULL; k = emu_program_next(program, k)) {
            if (k != feed) {
                test_kernel(k, feed, device, &worst);
                kernels++;
            }
        }
        TEST_CHECK(kernels > 0);
        printf("%s: %d kernels, %d schedules of %zu shapes, largest error %.2f of the bound\n", argv[file], kernels, SEEDS, NUM_CASES, worst);
        emu_program_free(program);
        emu_device_free(device);
    }
    if (argc < 3) {
        TEST_SKIP_NOW("no clang for AMD code objects");
    }
    for (size_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); i++) {
        free(buffers[i].words);
    }
    return test_result();
}
