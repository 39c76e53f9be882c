/* SPDX-License-Identifier: MIT
 *
 * The machine code of gemm.hip multiplies matrices of random normal numbers as double precision does, within the bound of one rounding to the type and
 * of 32-bit sums in any order: odd shapes, tails in m, n and k, pitches, bias, several tiles a block, both types and layouts, tiles of 256 and 128
 * rows. What lies between the rows is NaN in the inputs and untouched in C; no LDS access has a bank conflict; races fail in the interpreter. */
#include "gemm_numbers.h"
#include "gemm_order.h"

#define COLUMNS 256
/* ---- one product ---- */

struct shape {
    uint32_t m, n, k;
    uint32_t pad_a, pad_b, pad_c; /* chunks of 8 elements behind the rows */
    uint32_t grid, group_m, xcds;
    uint32_t bias;
};

static const struct shape shapes[] = {
    {300, 513, 200, 0, 1, 2, 2, 1, 1, CCL_GEMM_BIAS_BY_COLUMN},
    {1, 1, 1, 0, 0, 0, 1, 1, 1, CCL_GEMM_BIAS_BY_ROW},
    {257, 511, 129, 3, 0, 0, 3, 2, 2, CCL_GEMM_BIAS_BY_ROW},
    {130, 264, 320, 0, 0, 1, 8, 4, 8, CCL_GEMM_NO_BIAS},
    {7, 40, 832, 1, 2, 0, 1, 1, 1, CCL_GEMM_NO_BIAS}, /* 13 K blocks */
    {65, 9, 449, 0, 0, 3, 1, 1, 1, CCL_GEMM_BIAS_BY_COLUMN},
    {128, 256, 64, 0, 0, 0, 1, 1, 1, CCL_GEMM_NO_BIAS},
    {31, 250, 96, 2, 1, 1, 1, 3, 1, CCL_GEMM_BIAS_BY_ROW},
    {513, 17, 8, 0, 3, 2, 1, 2, 1, CCL_GEMM_NO_BIAS},
    {40, 33, 655, 0, 0, 0, 1, 1, 1, CCL_GEMM_NO_BIAS}, /* 11, the last one short */
    {600, 300, 385, 1, 0, 0, 2, 2, 4, CCL_GEMM_BIAS_BY_COLUMN},
};
#define NUM_SHAPES (sizeof(shapes) / sizeof(shapes[0]))

static uint32_t up8(uint32_t x)
{
    return (x + 7) / 8 * 8;
}

static void test_shape(const struct emu_kernel *kernel, struct emu_device *device, const struct type *type, const char *layout, uint32_t rows,
                       const struct shape *s,
                       uint64_t seed, double *worst)
{
    struct emu_rng rng = {seed};
    bool kn = strstr(layout, "kn") != NULL, km = layout[0] == 'm';
    uint32_t a_rows = km ? s->k : s->m, a_columns = km ? s->m : s->k;
    uint32_t lda = up8(a_columns) + 8 * s->pad_a, ldb = up8(kn ? s->n : s->k) + 8 * s->pad_b, ldc = up8(s->n) + 8 * s->pad_c;
    uint32_t b_rows = kn ? s->k : s->n, b_columns = kn ? s->n : s->k, bias = s->bias == CCL_GEMM_BIAS_BY_ROW ? s->m : s->n;
    struct ccl_k_gemm g = {.lda = lda, .ldb = ldb, .ldc = ldc, .m = s->m, .n = s->n, .k = s->k, .type = type->number, .bias_kind = s->bias,
                           .a_layout = km ? CCL_GEMM_K_OUTER : CCL_GEMM_K_INNER, .b_layout = kn ? CCL_GEMM_K_OUTER : CCL_GEMM_K_INNER, .tile_m = rows, .tile_n = COLUMNS, .tile_k = 64,
                           .tiles_m = (s->m + rows - 1) / rows, .tiles_n = (s->n + COLUMNS - 1) / COLUMNS, .blocks_k = (s->k + 63) / 64,
                           .xcds = s->xcds};
    struct emu_launch launch = {.kernel = kernel, .device = device, .grid = s->grid, .threads = 512, .args = &g};
    struct emu_options options = {.seed = seed, .max_steps = 100000000};
    struct emu_kernel_info info;
    struct emu_result result;
    char what[128];

    emu_kernel_info(kernel, &info);
    snprintf(what, sizeof(what), "%s %ux%ux%u seed %llu", info.name, s->m, s->n, s->k, (unsigned long long)seed);
    g.group_m = s->group_m < g.tiles_m ? s->group_m : g.tiles_m;
    g.a = (uint64_t)(uintptr_t)allocate(A, (size_t)a_rows * lda);
    g.b = (uint64_t)(uintptr_t)allocate(B, (size_t)b_rows * ldb);
    pattern(C, (size_t)s->m * ldc, GUARD);
    g.c = (uint64_t)(uintptr_t)buffers[C].words;
    g.bias = (uint64_t)(uintptr_t)allocate(BIAS, bias);
    fill(type, &rng, buffers[A].words, a_rows, a_columns, lda);
    fill(type, &rng, buffers[B].words, b_rows, b_columns, ldb);
    fill(type, &rng, buffers[BIAS].words, 1, bias, bias);
    emu_regions_changed();
    if (!emu_run(&launch, 1, &options, &result)) {
        TEST_FAIL("%s: %s", what, result.text);
        return;
    }
    check(what, type, &g, A, C, worst);
}

/* gemm_LAYOUT_TYPE_ROWS; LAYOUT: m for A as [k][m], then that of B. */
static void test_kernel(const struct emu_kernel *kernel, struct emu_device *device, const char *arch, uint64_t first_seed, double *worst)
{
    struct emu_kernel_info info;
    struct emu_counts counts;
    uint64_t launches;
    char layout[8], type[8];
    unsigned rows;

    emu_kernel_info(kernel, &info);
    if (sscanf(info.name, "ccl_k_gemm_%7[^_]_%7[^_]_%u", layout, type, &rows) != 3) {
        TEST_FAIL("%s is no name of a gemm kernel", info.name);
        return;
    }
    for (size_t i = 0; i < NUM_SHAPES; i++) {
        test_shape(kernel, device, &types[strcmp(type, "bf16") == 0], layout, rows, &shapes[i], first_seed + i, worst);
    }
    emu_counts_of(kernel, &counts, &launches);
    TEST_EQ(launches, NUM_SHAPES);
    if (counts.lds_conflict_cycles != 0) {
        TEST_FAIL("%s for %s: %llu cycles of bank conflicts in %llu LDS accesses", info.name, arch, (unsigned long long)counts.lds_conflict_cycles,
                  (unsigned long long)counts.lds_accesses);
    }
    TEST_CHECK(counts.mfma > 0 && counts.lds_accesses > 0);
}

/* Every tile once, and in runs that stay in a patch. */
static void test_order(void)
{
    static uint8_t seen[64 * 64];

    for (uint64_t seed = 1; seed <= 3000; seed++) {
        struct emu_rng rng = {seed};
        uint32_t m = 1 + emu_below(&rng, 64), n = 1 + emu_below(&rng, 64), xcds = 1 + emu_below(&rng, 9);
        uint32_t group = emu_below(&rng, 4) == 0 ? UINT32_MAX : 1 + emu_below(&rng, 70);

        memset(seen, 0, sizeof(seen));
        for (uint32_t i = 0; i < m * n; i++) {
            struct gemm_place at = gemm_order(i, m, n, xcds, group);

            if (at.m >= m || at.n >= n || seen[at.m * 64 + at.n]++ != 0) {
                TEST_FAIL("order: tiles %u x %u, %u xcds, groups of %u: number %u is tile %u %u", m, n, xcds, group, i, at.m, at.n);
                return;
            }
        }
    }
}

int main(int argc, char **argv)
{
    test_order();
    for (int file = 1; file + 1 < argc; file += 2) {
        const char *arch = argv[file];
        struct emu_device *device = emu_device_new(0, arch, 1);
        struct emu_program *program = load(argv[file + 1], arch);
        double worst = 0;
        uint64_t seed = 1;
        int kernels = 0;

        emu_set_regions(find);
        if (program != NULL) {
            for (const struct emu_kernel *k = emu_program_next(program, NULL); k != NULL; k = emu_program_next(program, k)) {
                test_kernel(k, device, arch, seed, &worst);
                seed += 100;
                kernels++;
            }
            TEST_CHECK(kernels > 1);
        }
        printf("%s: %d kernels, %zu shapes, largest error %.2f of the bound\n", argv[file], kernels, NUM_SHAPES, worst);
        emu_counts_print(stdout);
        emu_program_free(program);
        emu_device_free(device);
    }
    if (argc < 3) {
        TEST_SKIP_NOW("no code objects of gemm.hip in this build");
    }
    for (size_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); i++) {
        free(buffers[i].words);
    }
    return test_result();
}
